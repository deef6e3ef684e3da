"""Pictures in the engine: logits as llama.cpp's own helper computes them, and nothing is read twice."""

from __future__ import annotations

import ctypes
import threading
from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shepherd import kept_files
from shepherd._native import engine as native
from shepherd.errors import ContextOverflowError, ModelError, UsageError
from shepherd.inference import Engine
from shepherd.inference.binding import llama_module
from shepherd.inference.load_check import require
from shepherd.inference.vision import PicturePart, find_projector
from shepherd.pictures import MARK
from shepherd.types import Message, Picture, Sampling, TurnStats
from tests import models, vision_models
from tests.inference.engines import exact_settings
from tests.vision_models import PICTURE_TOKENS, png

GREEDY = Sampling(temperature=0)
RED, GREEN, BLUE = (Picture(png(colour)) for colour in vision_models.COLOURS)
SYSTEM = Message("system", "you are a helpful assistant.")


@pytest.fixture(scope="module")
def eyes(tmp_path_factory) -> Path:
    return vision_models.seeing(tmp_path_factory.mktemp("seeing"))


@pytest.fixture(scope="module")
def shared(eyes: Path) -> Iterator[Engine]:
    with Engine(eyes, settings=exact_settings(n_ctx=512)) as engine:
        yield engine


@pytest.fixture
def engine(shared: Engine) -> Engine:
    shared.decoder.wait_idle()
    shared.decoder.forget()
    return shared


def user(text: str, *pictures: Picture) -> Message:
    return Message("user", text, pictures=pictures)


def ask(engine: Engine, talk: list[Message], **options: str) -> tuple[str, TurnStats]:
    """Answer, and add the answer to the talk."""
    with engine.generate(talk, sampling=GREEDY, max_tokens=4, **options) as answer:
        text = "".join(str(piece) for piece in answer)
    talk.append(answer.message())
    return text, answer.stats


# ---- what the model sees


def random_model(folder: Path, kind: str) -> Path:
    path = folder / f"{kind}.gguf"
    {"llava": models.llama, "gemma3": models.gemma3, "qwen2vl": models.qwen35}[kind](path)
    getattr(vision_models, kind)(folder / f"mmproj-{kind}.gguf", 64)
    return path


def reference(engine: Engine, talk: list[Message], n_batch: int) -> array[float]:
    """Logits behind this prompt, as llama.cpp's helper computes them in a context of its own."""
    c, m, model = llama_module("llama_cpp"), llama_module("mtmd_cpp"), engine.model
    vision = model.vision
    assert vision is not None
    prompt = engine._transcript.prompt(talk)
    settings = c.llama_context_default_params()
    settings.n_ctx, settings.n_batch, settings.n_ubatch = 512, 512, 512
    settings.n_threads = settings.n_threads_batch = 1
    settings.flash_attn_type, settings.type_k, settings.type_v = 0, 0, 0
    context = c.llama_init_from_model(model._model, settings)
    past = ctypes.c_int32(0)

    def text(ids: array[int]) -> None:
        tokens = (ctypes.c_int32 * len(ids))(*ids)
        batch = c.llama_batch_get_one(tokens, len(ids))
        batch.pos = (ctypes.c_int32 * len(ids))(*range(past.value, past.value + len(ids)))
        assert c.llama_decode(context, batch) == 0
        past.value += len(ids)

    at = 0
    for placed in prompt.pictures:
        text(prompt.token_ids[at : placed.at])
        with vision._chunks(placed.picture) as chunks:
            chunk = vision._images(chunks)[placed.part]
            assert (
                m.mtmd_helper_eval_chunk_single(
                    vision._context, context, chunk, past, 0, n_batch, False, ctypes.byref(past)
                )
                == 0
            )
            at = placed.at + int(m.mtmd_input_chunk_get_n_tokens(chunk))
    text(prompt.token_ids[at:])
    row = array("f", ctypes.string_at(c.llama_get_logits_ith(context, -1), 4 * engine.info.n_vocab))
    c.llama_free(context)
    return row


@pytest.mark.parametrize("kind", ["llava", "gemma3", "qwen2vl"])
def test_logits_are_those_of_llama_cpps_own_helper(kind: str, tmp_path: Path) -> None:
    path = random_model(tmp_path, kind)
    large = Picture(png((200, 30, 90), 96, height=64))
    talk = [SYSTEM, user(f"the fox {MARK} and {MARK} the dog", RED, large)]
    # Micro-batches of 8 cut pictures whose tokens do not attend to each other.
    with Engine(path, settings=replace(exact_settings(n_ctx=512), n_ubatch=8, n_batch=8)) as engine:
        with engine.generate(talk, max_tokens=0) as answer:
            list(answer)
        found = array("f", engine.decoder.logits() or b"")
        wanted = reference(engine, talk, n_batch=8 if kind != "gemma3" else 512)
        assert max(abs(a - b) for a, b in zip(found, wanted, strict=True)) < 2e-3
        assert max(wanted) - min(wanted) > 1
        # The next turn reads what is new, and sees the same.
        talk += [Message("assistant", "the fox"), user("what is it?", BLUE), Message("assistant", "rex")]
        talk.append(user("and the dog?"))
        with engine.generate(talk[:4], max_tokens=0) as answer:
            list(answer)
        with engine.generate(talk, max_tokens=0) as answer:
            list(answer)
        assert answer.stats.reused_tokens > answer.stats.prompt_tokens // 2
        found = array("f", engine.decoder.logits() or b"")
        wanted = reference(engine, talk, n_batch=8 if kind != "gemma3" else 512)
        assert max(abs(a - b) for a, b in zip(found, wanted, strict=True)) < 2e-3


def test_the_answer_depends_on_the_picture(engine: Engine) -> None:
    for colour, picture in zip(vision_models.COLOURS, (RED, GREEN, BLUE), strict=True):
        assert ask(engine, [SYSTEM, user("what is it?", picture)])[0] == colour
        assert ask(engine, [SYSTEM, user(f"{MARK} what is it?", picture)])[0] == colour
        assert ask(engine, [SYSTEM, user(f"what is it? {MARK}", picture)])[0] == colour
    assert ask(engine, [SYSTEM, user("what is it?")])[0] == "nothing"


# ---- what is read


def test_later_turns_read_new_tokens_only(engine: Engine) -> None:
    talk = [SYSTEM, user("hello"), Message("assistant", "hello"), user("what is it?", BLUE)]
    for question in ("and again?", "and what is the name of rex?", "the end?"):
        text, stats = ask(engine, talk)
        assert text == "blue"
        n_held = len(engine.decoder.mirror_ids)
        talk.append(user(question))
    text, stats = ask(engine, talk)
    assert stats.reused_tokens == n_held
    assert text == "blue"


def test_ids_say_which_picture_it_is(engine: Engine) -> None:
    talk = [SYSTEM, user(f"look: {MARK}", RED)]
    ask(engine, talk[:])
    before = engine.decoder.mirror_ids
    at = next(i for i, token in enumerate(before) if token < 0)
    assert [token < 0 for token in before[at : at + PICTURE_TOKENS + 1]] == [True] * PICTURE_TOKENS + [False]

    other = Picture(png("red", dot=1))
    _, stats = ask(engine, [SYSTEM, user(f"look: {MARK}", other)])
    assert stats.reused_tokens == at  # from the beginning of the picture on
    after = engine.decoder.mirror_ids
    assert before[:at] == after[:at]
    assert all(a != b for a, b in zip(before[at : at + 1], after[at : at + 1], strict=True))


def test_the_same_picture_is_encoded_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    picture, encoded = Picture(png((9, 9, 9))), []
    vision = engine.model.vision
    assert vision is not None
    encode = vision._encoded
    monkeypatch.setattr(vision, "_encoded", lambda chunk: encoded.append(chunk) or encode(chunk))
    talk = [SYSTEM, user("look", picture), Message("assistant", "yes"), user("the same?", picture)]
    for _ in range(2):
        ask(engine, talk[:])
        engine.decoder.forget()
    assert len(encoded) == 1


def test_other_answers_continue_while_a_picture_is_encoded(eyes: Path) -> None:
    with Engine(eyes, settings=replace(exact_settings(), slots=2)) as engine:
        vision, texts = engine.model.vision, []
        assert vision is not None
        talk = [SYSTEM, user("what is it?", GREEN)]
        asking = threading.Thread(target=lambda: texts.append(ask(engine, talk)[0]))
        with vision._lock:  # which encoding holds
            asking.start()
            assert ask(engine, [SYSTEM, user("hello")])[0] == "nothing"
            assert texts == []
        asking.join(30)
        assert texts == ["green"]


def test_answers_and_pictures_take_turns(eyes: Path) -> None:
    """Several slots at once: each gets its own picture, and no answer is changed by another's."""
    with Engine(eyes, settings=replace(exact_settings(n_ctx=256), slots=4, windows=4)) as engine:
        talks = [[SYSTEM, user(f"{MARK} number {i}?", p)] for i, p in enumerate((RED, GREEN, BLUE, RED))]
        for _ in range(2):
            answers = [engine.generate(talk, sampling=GREEDY, max_tokens=4) for talk in talks]
            for answer, talk, colour in zip(answers, talks, ("red", "green", "blue", "red"), strict=True):
                with answer:
                    assert "".join(map(str, answer)) == colour
                talk += [answer.message(), user("and now?")]
            assert engine.decoder.wait_idle()


@pytest.mark.parametrize("kind", ["llava", "gemma3", "qwen2vl"])
def test_conversations_return_from_memory_and_from_disk(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    anna = kept_files.owner_of("memory.db", "anna")
    path = random_model(tmp_path, kind)
    settings = replace(exact_settings(n_ctx=512), cache_disk_bytes=1 << 30)
    talk = [SYSTEM, user("the quick brown fox jumps over it: what is this?", RED)]
    with Engine(path, settings=settings) as engine:
        ask(engine, talk, owner=anna)
        n_held = len(engine.decoder.mirror_ids)
        talk.append(user("and what is the name of the dog?"))
        ask(engine, [Message("system", "the lazy dog is kept warm " * 8), user("hello")])  # takes the slot
        undisturbed = talk[:]
        text, stats = ask(engine, undisturbed, owner=anna)
        assert stats.reused_tokens == n_held
        logits = engine.decoder.logits()
    kept_files.forget(anna)
    with Engine(path, settings=settings) as engine:
        ask(engine, talk[:-2], owner=anna)
    with Engine(path, settings=settings) as engine:
        again, stats = ask(engine, talk, owner=anna)
        assert stats.reused_tokens == n_held
        assert again == text
        assert engine.decoder.logits() == logits


def test_a_picture_is_reused_as_a_whole_or_not_at_all(engine: Engine) -> None:
    """Ids that agree at the beginning of a picture, as two digests could, and then differ."""
    seen = native.Picture(array("f", [0.1] * 4 * 256), n_embd=256, n_positions=4)

    def read(last: int) -> dict[str, int]:
        picture = [-(1 << 31) | (1 << 30) | 7, -(1 << 31) | 4, -(1 << 31) | 9, -(1 << 31) | last]
        stream = native.Stream()
        prompt = array("i", [5, 6, 7, *picture, 8])
        assert engine.decoder.submit(prompt, stream, pictures=((3, seen),))
        while stream.read(1000) is not None:
            pass
        engine.decoder.wait_idle()
        return stream.counters()

    assert read(1)["reused_tokens"] == 0
    assert read(1)["reused_tokens"] == 7
    assert read(2)["reused_tokens"] == 3


def test_a_picture_is_never_a_draft_or_penalised(engine: Engine) -> None:
    draft = native.Draft(engine.model.vocabulary.address)
    picture = [-(1 << 31) | (1 << 30) | 7, -(1 << 31) | 2]
    draft.begin(array("i", [9, 5, 6, 11, *picture, 12, 9]), array("i", [1]))
    for token in (5, 6):
        draft.take(token)
    assert draft.candidates(8) == ([11], 3)

    talk = [SYSTEM, user("what is it?", RED), Message("assistant", "red"), user("what is it?", RED)]
    sampling = Sampling(temperature=0, repeat_penalty=1.01, repeat_last_n=512)
    with engine.generate(talk, sampling=sampling, max_tokens=4) as answer:
        assert "".join(map(str, answer)) == "red"


# ---- what is refused, and what is left out


def test_a_model_without_projector_says_so(tmp_path: Path) -> None:
    path = tmp_path / "plain.gguf"
    models.scripted(path, ["fine"])
    with Engine(path, settings=exact_settings()) as engine:
        assert not engine.reads_pictures
        with pytest.raises(UsageError, match="no pictures"):
            ask(engine, [user("what is it?", RED)])
        # One of an earlier model's turns stays as a word.
        talk = [user(f"{MARK} what is it?", RED), Message("assistant", "red"), user("why?")]
        assert "user\n[picture] what is it?" in engine.render(talk)
        assert ask(engine, talk)[0] == "fine"


def test_a_picture_that_does_not_fit_is_refused(eyes: Path) -> None:
    refused = pytest.raises(ContextOverflowError, match="window 64")
    with Engine(eyes, settings=exact_settings(n_ctx=64)) as engine, refused:
        ask(engine, [user("the fox", RED, GREEN, BLUE)])


def test_a_damaged_picture_is_an_error_of_its_own(engine: Engine) -> None:
    for data in (png("red")[:60], png("red")[:-30], b"\xff\xd8\xff\xe0" + b"x" * 99):
        with pytest.raises(UsageError, match="can't be decoded"):
            ask(engine, [user("look", Picture(data))])
    assert ask(engine, [user("look", RED)])[0] == "red"


def test_pictures_before_a_question_that_takes_in_the_system_message(tmp_path: Path) -> None:
    path = tmp_path / "alternating.gguf"
    template = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        + models.CHATML
    )
    models.llama(path, template=template)
    vision_models.llava(tmp_path / "mmproj-alternating.gguf", 64)
    talk = [Message("system", "a fox", pictures=(RED,)), user("and this?", BLUE)]
    with Engine(path, settings=exact_settings()) as engine:
        placed = engine._transcript.prompt(talk).pictures
    assert [one.picture for one in placed] == [RED, BLUE]


def test_marks_that_somebody_types_are_no_pictures(engine: Engine) -> None:
    talk = [SYSTEM, user(f"a {MARK} b {MARK} c", BLUE), Message("assistant", f"{MARK}"), user(f"{MARK}?")]
    prompt = engine._transcript.prompt(talk)
    assert len(prompt.pictures) == 1
    assert ask(engine, talk)[0] == "blue"
    assert engine.count_tokens(MARK) > 0


# ---- the projector's file


def test_the_projector_beside_a_model_is_found(tmp_path: Path) -> None:
    def found(model: str, *files: str) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for file in (model, *files):
            (folder / file).touch()
        return Path(find_projector(str(folder / model))).name

    assert found("a-Q4_K_M.gguf") == ""
    assert (
        found("a-Q4_K_M.gguf", "mmproj-BF16.gguf", "mmproj-F16.gguf", "mmproj-F32.gguf") == "mmproj-F16.gguf"
    )
    assert found("gemma-3-4b-it-Q4_K_M.gguf", "b.gguf", "mmproj-gemma-3-4b-it-f16.gguf") != ""
    assert found("gemma-3-4b-it.gguf", "b.gguf", "gemma-3-4b-it.mmproj-Q8_0.gguf") != ""
    assert found("gemma-3-4b-it.gguf", "b.gguf", "mmproj-model-f16.gguf") == ""
    assert found("gemma-3-4b-it.gguf", "qwen.gguf", "mmproj-qwen-f16.gguf") == ""
    assert found("a-Q4_K_M.gguf", "a-Q8_0.gguf", "mmproj-F16.gguf") == "mmproj-F16.gguf"


def test_a_projector_of_another_model(eyes: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, wrong = tmp_path / "small.gguf", tmp_path / "mmproj-small.gguf"
    models.llama(path)
    vision_models.llava(wrong, 32)
    with Engine(path, settings=exact_settings()) as engine:  # it reads text as before
        assert not engine.reads_pictures
        assert "mismatch" in caplog.text
        with pytest.raises(UsageError, match=r"no pictures: projector .* mismatch"):
            ask(engine, [user("look", RED)])
    with pytest.raises(ModelError, match="mismatch"):
        Engine(path, settings=replace(exact_settings(), mmproj=str(wrong)))
    with Engine(eyes, settings=replace(exact_settings(), mmproj="none")) as engine:
        assert not engine.reads_pictures
    for other in (path, tmp_path / "missing.gguf"):
        with pytest.raises(ModelError, match=r"not a projector|there is no such file"):
            Engine(eyes, settings=replace(exact_settings(), mmproj=str(other)))


def test_models_whose_pictures_depend_on_their_place_are_refused(eyes: Path, tmp_path: Path) -> None:
    other = tmp_path / "mmproj-other.gguf"
    vision_models.llava(other, 256, kind="hunyuanvl")
    with pytest.raises(ModelError, match="kind hunyuanvl, which isn't supported"):
        Engine(eyes, settings=replace(exact_settings(), mmproj=str(other)))


@pytest.mark.parametrize("lock", ["_lock", "_reading"])
def test_closing_waits_for_what_is_decoded_or_encoded(eyes: Path, lock: str) -> None:
    engine = Engine(eyes, settings=exact_settings())
    vision = engine.model.vision
    assert vision is not None
    closing = threading.Thread(target=engine.close)
    with getattr(vision, lock):
        closing.start()
        closing.join(0.1)
        assert closing.is_alive()
    closing.join(30)
    with pytest.raises(UsageError, match="closed"):
        vision.read(GREEN)


def test_a_new_projector_is_tried_in_a_process_of_its_own(eyes: Path, tmp_path: Path) -> None:
    said: list[str] = []
    good, bad = tmp_path / "mmproj-good.gguf", tmp_path / "mmproj-bad.gguf"
    good.write_bytes((eyes.parent / "mmproj-seeing.gguf").read_bytes())
    require(good, is_projector=True, loading=said.append)
    assert len(said) == 2
    bad.write_bytes(good.read_bytes().replace(b"\x03\0\0\0\0\0\0\0mlp", b"\x03\0\0\0\0\0\0\0xyz"))
    with pytest.raises(ModelError, match=r"bad.gguf"):
        require(bad, is_projector=True)


# ---- the native part


def test_ids_and_pictures_must_agree(engine: Engine) -> None:
    vision = engine.model.vision
    assert vision is not None
    [part] = [part for part in vision.layout(RED) if isinstance(part, PicturePart)]
    [read] = vision.read(RED)
    ids = array("i", [10, *part.ids, 10])
    other = native.Picture(array("f", [0.5] * 64), n_embd=64, n_positions=1)
    for tokens, placed in (
        (ids, ()), (ids, ((0, read),)), (ids, ((2, read),)), (ids[:-1], ((1, read),)),
        (ids[::-1], ((1, read),)), (ids, ((1, other),)), (ids, ((1, read), (1, read))),
        (array("i", [10] * 18), ((1, read),)),
        (array("i", [10, *part.ids[:2], part.ids[0], *part.ids[3:], 10]), ((1, read),)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"token|picture"):
            engine.decoder.submit(tokens, native.Stream(), pictures=placed)
    for wrong in (
        {"n_embd": 3},
        {"n_embd": 0},
        {"n_embd": 2, "n_positions": 3},
        {"n_embd": 2, "places": ids},
    ):
        with pytest.raises(ValueError, match=r"numbers|places"):
            native.Picture(array("f", [0.0] * 4), **{"n_positions": 1, **wrong})

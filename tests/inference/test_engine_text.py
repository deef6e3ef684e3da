"""An engine's text and ids, the numbers that it refuses, and what it derives from its settings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.errors import ContextOverflowError, UsageError
from shepherd.inference import Engine, EngineSettings, Generation
from shepherd.inference import model as model_module
from shepherd.inference.model import _default_threads
from shepherd.inference.template import TemplateOptions
from shepherd.types import Message, Sampling, Tool
from tests import models
from tests.inference.engines import exact_settings, run_to_end

HELLO = [Message("user", "hello")]
GAP = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")


@pytest.fixture(scope="module")
def engine(plain_model: Path) -> Iterator[Engine]:
    with Engine(plain_model, settings=exact_settings(n_ctx=256)) as engine:
        yield engine


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "bos"])
def code_engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("code") / "model.gguf"
    models.llama(path, controls=GAP, add_bos=request.param)
    with Engine(path, settings=exact_settings(n_ctx=64)) as engine:
        yield engine


# ---- text and ids


def test_text_and_ids_are_each_others(engine: Engine) -> None:
    vocabulary = engine.model.vocabulary
    end = vocabulary.controls["<|im_end|>"]
    plain, special = engine.tokenize("one<|im_end|>"), engine.tokenize("one<|im_end|>", True)

    assert end not in plain
    assert special == [*engine.tokenize("one"), end]
    assert engine.count_tokens("one<|im_end|>") == len(plain)
    assert engine.detokenize(plain) == b"one<|im_end|>"
    assert engine.detokenize(special) == b"one"
    assert engine.text_of(special) == "one<|im_end|>"


def test_ids_outside_of_the_vocabulary_are_refused(engine: Engine) -> None:
    n = engine.info.n_vocab
    assert engine.detokenize([0, n - 1])

    for wrong in (-1, n):
        with pytest.raises(UsageError, match="not a token of this model") as caught:
            engine.detokenize([0, wrong])
        assert caught.value.hint == f"they are 0 to {n - 1}"
        with pytest.raises(UsageError, match="outside the vocabulary") as caught:
            engine.complete([0, wrong])
        assert caught.value.hint == f"use ids from 0 to {n - 1}"
    run_to_end(engine.complete([0, n - 1], max_tokens=1))


@pytest.mark.parametrize("adds_bos", [False, True])
def test_a_prompt_has_one_bos_if_the_model_wants_one(tmp_path: Path, adds_bos: bool) -> None:
    path = tmp_path / "spm.gguf"
    models.llama(path, spm=True, add_bos=adds_bos)
    with Engine(path, settings=exact_settings()) as engine:
        own = [engine.model.vocabulary.bos] if adds_bos else []
        text = engine.tokenize("the fox")
        typed = engine.tokenize("<s>the fox")

        assert engine.tokenize_prompt("the fox") == [*own, *text]
        assert engine.tokenize_prompt("the fox", special=True) == [*own, *text]
        assert engine.tokenize_prompt("<s>the fox") == [*own, *typed]
        written = engine.tokenize("<s>the fox", special=True)
        assert written[0] == 1
        assert engine.tokenize_prompt("<s>the fox", special=True) == written


def test_a_gap_is_asked_for_between_its_marks(code_engine: Engine) -> None:
    before, behind, between = (code_engine.model.vocabulary.controls[mark] for mark in GAP)
    vocabulary = code_engine.model.vocabulary
    bos = [vocabulary.bos] if vocabulary.adds_bos else []
    # The context has 64 tokens: three quarters, without 4 for marks, are for both texts.
    room = 44

    def split(head: str, tail: str) -> tuple[int, int]:
        """How many tokens of each text there are: the end of the first and the beginning of the second."""
        ids = code_engine.tokenize_gap(head, tail)
        assert ids[: len(bos) + 1] == [*bos, before]
        assert ids[-1] == between
        at = ids.index(behind)
        first, second = ids[len(bos) + 1 : at], ids[at + 1 : -1]
        whole = code_engine.tokenize(head)
        assert first == whole[len(whole) - len(first) :]
        assert second == code_engine.tokenize(tail)[: len(second)]
        return len(first), len(second)

    def text(n: int) -> str:
        # One token for each: no merge has a digit.
        digits = ("0123456789" * 10)[:n]
        assert code_engine.count_tokens(digits) == n
        return digits

    assert code_engine.fills_gaps
    assert split(text(3), text(5)) == (3, 5)
    assert split("", "") == (0, 0)
    assert split(text(room - 10), text(10)) == (room - 10, 10)
    assert split(text(50), text(10)) == (room - 10, 10)
    assert split(text(50), text(20)) == (33, 11)
    assert split(text(30), text(50)) == (30, 14)
    assert split(text(40), text(50)) == (33, 11)
    assert split(text(50), "") == (room, 0)
    assert split("", text(50)) == (0, room)


def test_a_model_that_fills_no_gaps_says_so(engine: Engine) -> None:
    assert not engine.fills_gaps

    with pytest.raises(UsageError, match="not trained to fill a gap"):
        engine.tokenize_gap("a", "b")


def test_a_rendering_can_leave_out_what_asks_for_the_answer(engine: Engine) -> None:
    asked, unasked = engine.render(HELLO), engine.render(HELLO, asks=False)

    assert asked == unasked + "<|im_start|>assistant\n"
    assert engine.count_prompt_tokens(HELLO) == len(engine.tokenize(asked, special=True))


def test_transcripts_of_four_sets_of_options_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    models.llama(path, template="{{ name }}{% for m in messages %}{{ m.content }}{% endfor %}")
    with Engine(path, settings=exact_settings()) as engine:
        options = [TemplateOptions(variables=(("name", f"n{i}"),)) for i in range(5)]
        assert engine.render(HELLO, template=options[0]) == "n0hello"
        first = engine._transcript_of(options[0])
        for other in options[1:4]:
            assert engine._transcript_of(other) is not first
        assert engine._transcript_of(options[0]) is first
        for other in options[1:]:
            engine._transcript_of(other)
        assert engine._transcript_of(options[0]) is not first


# ---- what is refused


@pytest.mark.parametrize("n", [-1, 21])
def test_only_twenty_likeliest_tokens_can_be_had(engine: Engine, n: int) -> None:
    with pytest.raises(UsageError, match=f"logprobs is {n}") as caught:
        engine.complete([1, 2], logprobs=n)

    assert caught.value.hint == "ask for 0 to 20 likeliest tokens"


def test_a_number_of_tokens_below_zero_and_an_empty_prompt_are_refused(engine: Engine) -> None:
    with pytest.raises(UsageError, match="max_tokens is -1"):
        engine.complete([1], max_tokens=-1)
    with pytest.raises(UsageError, match="no token ids to continue from"):
        engine.complete([])


def test_a_prompt_that_is_too_long_says_how_to_have_a_longer_one(engine: Engine, plain_model: Path) -> None:
    with pytest.raises(ContextOverflowError) as caught:
        engine.complete([1] * 256)
    assert str(caught.value) == "the prompt has 256 tokens, the window 256, none left to answer"
    assert caught.value.hint.startswith("set n_ctx up to 4096 (now 256); ")
    assert caught.value.hint.endswith("; shorten the message")
    assert (caught.value.prompt_tokens, caught.value.window_tokens) == (256, 256)
    run_to_end(engine.complete([1] * 255, max_tokens=1))

    with Engine(plain_model, settings=EngineSettings(n_threads=1)) as whole:
        with pytest.raises(ContextOverflowError) as caught:
            whole.complete([1] * 4096)
        assert "n_ctx" not in caught.value.hint
        assert caught.value.hint.endswith("shorten the message; use a model with a window above 4096 tokens")


def test_a_prompt_that_cannot_fit_is_known_by_its_bytes_messages_and_tools(engine: Engine) -> None:
    def least(messages: list[Message], tools: list[Tool] = []) -> int:  # noqa: B006 - not changed
        try:
            engine._check_length(messages, tools)
        except ContextOverflowError as error:
            return error.prompt_tokens if "the prompt has at least " in str(error) else -1
        return 0

    longest = engine.model.vocabulary.longest_bytes
    assert least([Message("user", "x" * (256 * longest))]) == 256
    assert least([Message("user", "x" * (256 * longest - 1))]) == 0
    # Four bytes a character are only a guess.
    assert least([Message("user", "x" * (64 * longest))]) == 0
    assert least([Message("user", "\U0001f600" * (64 * longest))]) == 256
    assert least([Message("user", "\ud800" * (256 * longest))]) == 256
    assert least([Message("user", "")] * 257) == 256
    assert least([Message("user", "")] * 256) == 0
    tools = [Tool(f"t{i:063}", "", {}) for i in range(256 * longest // 64 + 1)]
    assert least([], tools) == 64 * len(tools) // longest
    assert least([], tools[: 256 * longest // 64 - 1]) == 0
    half = [Tool(f"t{i:063}", "", {}) for i in range(128 * longest // 64)]
    assert least([Message("user", "x" * (129 * longest))], half) > 256


def test_an_answer_that_is_not_wanted_any_more_is_not_begun(engine: Engine) -> None:
    engine.decoder.wait_idle()
    engine.decoder.forget()

    with engine.generate(HELLO, is_cancelled=lambda: True) as answer:
        assert list(answer) == []

    assert answer.stats.finish_reason == "cancelled"
    assert answer.stats.decoded_tokens == 0


def test_probabilities_and_tokens_come_only_where_they_are_asked_for(engine: Engine) -> None:
    def run(**options: object) -> Generation:
        generation = engine.complete([40, 41], sampling=Sampling(temperature=0), max_tokens=3, **options)  # type: ignore[arg-type]
        run_to_end(generation)
        return generation

    assert run().logprobs == ()
    assert [len(token.top) for token in run(logprobs=0).logprobs] == [0, 0, 0]
    asked = run(logprobs=2)
    assert [len(token.top) for token in asked.logprobs] == [2, 2, 2]
    assert [token.token_id for token in asked.logprobs] == list(asked.token_ids) == list(run().token_ids)
    for token in asked.logprobs:
        assert token.piece == engine.detokenize([token.token_id])
        assert (token.top[0].token_id, token.top[0].logprob) == (token.token_id, token.logprob)
    assert asked.take_logprobs() == list(asked.logprobs)
    assert asked.take_logprobs() == []


# ---- states and settings


def test_an_engine_says_whether_it_is_at_work_and_closed(plain_model: Path) -> None:
    engine = Engine(plain_model, settings=exact_settings())
    assert not engine.is_locked
    with engine._lock:
        assert engine.is_locked
    assert (engine.is_closed, engine.reads_pictures, engine.picture_problem) == (False, False, "")
    assert engine.kept() is None
    with engine as entered:
        assert entered is engine
    assert engine.is_closed
    engine.close()

    engine = Engine(plain_model, settings=exact_settings())
    engine._is_closing = True
    with pytest.raises(UsageError, match="the engine is closed"):
        engine.count_tokens("one")
    engine.close()


def test_closing_waits_for_a_prompt_that_is_submitted(plain_model: Path) -> None:
    engine = Engine(plain_model, settings=exact_settings())
    closing = threading.Thread(target=engine.close)
    with engine._lock:
        closing.start()
        closing.join(0.05)
        assert closing.is_alive()
        with pytest.raises(UsageError, match="the engine is closed"):
            engine.complete([1])
    closing.join(30)
    assert engine.is_closed


def test_a_sibling_is_small_and_keeps_nothing(plain_model: Path) -> None:
    settings = EngineSettings(
        n_ctx=512, n_threads=1, slots=2, windows=2, cache_ram_bytes=1000, draft_model="x", draft="off"
    )
    with Engine(plain_model, settings=settings) as engine:
        with engine.sibling() as sibling:
            given = sibling.settings
            assert (given.n_ubatch, given.n_batch, given.slots, given.windows) == (128, 128, 1, 1)
            assert (given.cache_ram_bytes, given.cache_disk_bytes, given.draft_model) == (250, 0, "")
            assert sibling.window_tokens == 512
        with engine.sibling(n_ctx=256) as sibling:
            assert sibling.window_tokens == 256
    with Engine(plain_model, settings=exact_settings(n_ubatch=32)) as engine, engine.sibling() as sibling:
        assert sibling.settings.n_ubatch == 32


def test_nothing_is_drafted_from_earlier_answers_where_it_is_off(
    plain_model: Path, model_file: object
) -> None:
    for name, draft, drafts in (
        ("plain", "auto", True),
        ("sliding", "always", True),
        ("plain", "off", False),
        ("recurrent", "auto", False),
        ("hybrid", "auto", False),
    ):
        settings = EngineSettings(n_ctx=256, n_threads=1, draft=draft, seed=1)  # type: ignore[arg-type]
        with Engine(model_file(name), settings=settings) as engine:  # type: ignore[operator]
            assert engine._drafts == drafts
            run_to_end(engine.complete([1, 2, 3], max_tokens=8, user="anna"))
            assert (engine._earlier.of("anna") is not None) == drafts
            run_to_end(engine.complete([1, 2, 3], max_tokens=8))
            assert engine._earlier.of("") is None


def test_seeds_of_the_settings_are_for_answers_without_one(endless_model: Path) -> None:
    def said(seed: int | None, own: int | None) -> str:
        settings = EngineSettings(n_ctx=256, n_threads=1, seed=seed)
        with Engine(endless_model, settings=settings) as engine:
            return run_to_end(engine.complete([40, 41], sampling=Sampling(seed=own), max_tokens=12))

    assert said(7, None) == said(None, 7) != said(8, None)
    assert said(8, 7) == said(None, 7)


@pytest.mark.parametrize(
    ("n_usable", "megabytes", "expected"),
    [
        (1, 1000, 1),
        (4, 1000, 4),
        (6, 1000, 3),
        (16, 1000, 8),
        (16, 64, 4),
        (16, 63, 3),
        (16, 16, 1),
        (16, 0, 1),
    ],
)
def test_threads_are_as_many_as_cores_that_have_enough_to_do(
    monkeypatch: pytest.MonkeyPatch, n_usable: int, megabytes: int, expected: int
) -> None:
    monkeypatch.setattr(model_module.os, "sched_getaffinity", lambda _: set(range(n_usable)), raising=False)

    assert _default_threads(megabytes << 20) == expected


def test_threads_of_a_system_without_affinity_are_by_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(model_module.os, "sched_getaffinity", raising=False)
    for n_cores, expected in ((8, 4), (2, 2), (None, 1)):
        monkeypatch.setattr(model_module.os, "cpu_count", lambda n_cores=n_cores: n_cores)
        assert _default_threads(1 << 40) == expected


@pytest.mark.parametrize(
    ("devices", "layers", "expected"),
    [
        ([("cpu", "A"), ("gpu", "B"), ("gpu", "C")], 1, "B"),
        ([("cpu", "A"), ("igpu", "D")], 1, "D"),
        ([("cpu", "A")], 1, "GPU"),
        ([("gpu", "B"), ("cpu", "A")], 0, "A"),
        ([], 0, "CPU"),
    ],
)
def test_the_device_is_the_first_that_computes(
    monkeypatch: pytest.MonkeyPatch, devices: list[tuple[str, str]], layers: int, expected: str
) -> None:
    monkeypatch.setattr(model_module, "devices", lambda: devices)

    assert model_module._device(layers) == expected


def test_states_belong_to_the_settings_that_shape_them(plain_model: Path, endless_model: Path) -> None:
    def identity(path: Path = plain_model, **options: object) -> bytes:
        settings = EngineSettings(n_ctx=256, n_threads=1, **options)  # type: ignore[arg-type]
        with Engine(path, settings=settings) as engine:
            return engine.model.state_identity()

    others = [
        identity(endless_model),
        identity(kv_type="f32"),
        identity(flash_attention="on"),
        identity(swa_full=True),
    ]
    assert len({identity(), *others}) == 5
    assert identity() == identity(slots=2, windows=2) == identity(n_ubatch=64)


def test_flash_attention_is_on_by_itself_where_a_gpu_or_the_cache_needs_it(
    plain_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine(plain_model, settings=EngineSettings(n_ctx=256, n_threads=1)) as engine:
        for kv_type, flash, gpu_layers, expected in (
            ("f16", "auto", 0, 0),
            ("q8_0", "auto", 0, 1),
            ("f16", "on", 0, 1),
            ("f16", "off", 0, 0),
            ("f16", "auto", 9, -1),
            ("q8_0", "auto", 9, -1),
            ("q8_0", "on", 9, 1),
        ):
            engine.model.settings = EngineSettings(kv_type=kv_type, flash_attention=flash)  # type: ignore[arg-type]
            monkeypatch.setattr(model_module, "gpu_layers", lambda wanted, n=gpu_layers: n)
            assert engine.model._flash_attention() == expected

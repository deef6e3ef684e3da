"""A second model that drafts: it changes how fast an answer comes and nothing else, and reads tokens once.

In these engines it drafts wherever nothing repeats. Where the model drafts for itself, most of its candidates
are right; those of another model of random weights hardly ever are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd._native import engine as native
from shepherd.config import Config
from shepherd.errors import ModelLoadError, UsageError
from shepherd.inference import Engine, EngineSettings, Generation
from shepherd.inference.draft_model import check_pair
from shepherd.inference.load_check import model_bytes
from shepherd.inference.model import DRAFTS
from shepherd.setting_checks import check_setting
from shepherd.types import Sampling
from tests.examples import examples
from tests.inference.engines import run_to_end
from tests.inference.slots import slot_settings
from tests.inference.test_drafts import SLOTS, Pair, Request, random_options

# The model, and the one that drafts for it.
PAIRS = (("plain", "plain"), ("plain", "windowed"), ("windowed", "windowed"))
GREEDY: dict[str, Any] = {"sampling": Sampling(temperature=0.0), "max_tokens": 80}


def _check_read(engine: Engine) -> None:
    """The mirror of the draft model is what llama.cpp has of it."""
    engine.decoder.wait_idle()
    for slot in range(engine.settings.slots):
        ids, last = engine.decoder.draft_model_of(slot)
        assert last == len(ids) - 1


def _answer(engine: Engine, prompt: list[int], **options: Any) -> Generation:
    answer = engine.complete(prompt, **{**GREEDY, **options})
    run_to_end(answer)
    return answer


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Iterator[Pair]:
    path, drafting = (model_file(name) for name in request.param)
    with_model = replace(slot_settings(SLOTS), draft_model=str(drafting))
    without = replace(slot_settings(SLOTS), draft="off")
    with Engine(path, settings=without) as plain, Engine(path, settings=with_model) as drafts:
        yield Pair(plain, drafts, request.param[0])


@pytest.mark.hypothesis
@given(seed=st.integers(0, 1 << 32), turns=st.integers(1, 3))
@settings(max_examples=examples(5))
def test_answers_and_caches_are_the_same_with_a_draft_model_as_without(
    pair: Pair, seed: int, turns: int
) -> None:
    choose = random.Random(seed)
    pair.forget()
    talks = [[choose.randrange(256) for _ in range(choose.randrange(1, 40))] for _ in range(SLOTS)]

    for _ in range(turns):
        requests = [Request(talk, random_options(choose)) for talk in talks]
        # Earlier answers are mostly wrong, so that both kinds of drafts take turns.
        answers = pair.answer(requests, 0.7, choose)
        _check_read(pair.drafting)
        for talk, answer in zip(talks, answers, strict=True):
            talk += [*answer.token_ids, *(choose.randrange(256) for _ in range(choose.randrange(1, 20)))]
    pair.check_logits()


@pytest.mark.parametrize("pair", [PAIRS[0]], indirect=True)
def test_right_candidates_are_accepted_and_counted(pair: Pair) -> None:
    pair.forget()

    stats = _answer(pair.drafting, [5, 6, 7, 8, 9]).stats

    assert stats.generated_tokens > 40
    assert stats.model_drafted_tokens == stats.drafted_tokens > 0
    assert stats.model_accepted_tokens == stats.accepted_tokens > 0.9 * stats.drafted_tokens
    assert stats.tokens_per_decode > 4


@pytest.mark.parametrize("pair", [PAIRS[0]], indirect=True)
def test_the_draft_model_follows_a_conversation_and_reads_nothing_twice(pair: Pair) -> None:
    pair.forget()
    talk = [7 * i % 200 for i in range(300)]  # more than it reads in a step
    for _ in range(3):
        answer = _answer(pair.drafting, talk)
        talk += [*answer.token_ids, 1, 2, 3]

        ids, last = pair.drafting.decoder.draft_model_of(pair.drafting.decoder.last_slot)
        # It has what came before its last draft.
        assert ids == talk[: len(ids)]
        assert len(ids) == last + 1 > len(talk) - 30


@pytest.mark.parametrize("pair", PAIRS[::2], indirect=True)
def test_a_cancelled_answer_leaves_what_it_has_said(pair: Pair) -> None:
    for n_read in (1, 3, 9):
        pair.forget()
        prompt = [n_read, 6, 7, 8, 9]
        expected = _answer(pair.plain, prompt, max_tokens=300)

        answer = pair.drafting.complete(prompt, sampling=Sampling(temperature=0.0), max_tokens=300)
        for _ in zip(range(n_read), answer, strict=False):
            pass
        answer.close()

        said = list(answer.token_ids)
        assert said == list(expected.token_ids)[: len(said)]
        _check_read(pair.drafting)


def test_a_draft_model_without_room_for_both_conversations_reads_again(plain_model: Path) -> None:
    sized = replace(slot_settings(2, n_ctx=256), windows=1)
    found: list[list[tuple[int, ...]]] = []
    for drafting in ("", str(plain_model)):
        chosen = replace(sized, draft="always" if drafting else "off", draft_model=drafting)
        with Engine(plain_model, settings=chosen) as engine:
            answers = [
                engine.complete([7 * i % 200 + k for i in range(n)], **{**GREEDY, "max_tokens": 30})
                for k, n in enumerate((130, 115))
            ]
            found.append([])
            for answer in answers:
                run_to_end(answer)
                found[-1].append(answer.token_ids)
            if drafting:
                _check_read(engine)
                assert sum(answer.stats.model_drafted_tokens for answer in answers) > 0

    assert found[0] == found[1]


def test_a_text_with_tokens_that_the_draft_model_lacks_has_no_drafts_by_it(
    plain_model: Path, tmp_path: Path
) -> None:
    from tests import models

    more = tmp_path / "padded.gguf"
    models.llama(more, n_vocab=420)
    chosen = replace(slot_settings(1), draft_model=str(plain_model))
    with Engine(more, settings=chosen) as engine:
        n_shared = engine.draft_model.info.n_vocab if engine.draft_model else 0
        assert n_shared < engine.info.n_vocab

        assert _answer(engine, [5, 6, 7, 8]).stats.model_drafted_tokens > 0
        assert _answer(engine, [5, engine.info.n_vocab - 1, 8]).stats.model_drafted_tokens == 0


def test_a_model_with_another_vocabulary_is_refused_by_the_names_of_both(
    plain_model: Path, model_file: Callable[[str], Path]
) -> None:
    other = model_file("spm")

    with pytest.raises(ModelLoadError, match="vocabularies differ: token 0 is") as caught:
        Engine(plain_model, settings=replace(slot_settings(1), draft_model=str(other)))

    assert str(other) in str(caught.value)
    assert str(plain_model) in str(caught.value)
    assert "config unset draft_model" in caught.value.hint
    with pytest.raises(ModelLoadError, match="vocabularies differ"):
        check_pair(other, plain_model)
    check_pair(model_file("windowed"), plain_model)


def test_a_vocabulary_of_another_size_is_refused(plain_model: Path, tmp_path: Path) -> None:
    from tests import models

    more = tmp_path / "padded.gguf"
    models.llama(more, n_vocab=1000)

    with pytest.raises(ModelLoadError, match="1,000 tokens here and 401 there"):
        check_pair(more, plain_model)


@pytest.mark.parametrize("name", ["recurrent", "hybrid"])
def test_caches_that_cannot_be_rewound_have_no_draft_model(
    plain_model: Path, model_file: Callable[[str], Path], name: str
) -> None:
    for model, drafting in ((plain_model, model_file(name)), (model_file(name), plain_model)):
        with pytest.raises(ModelLoadError, match="can't be rewound"):
            Engine(model, settings=replace(slot_settings(1), draft_model=str(drafting)))


def test_no_draft_model_is_loaded_where_nothing_is_drafted(plain_model: Path) -> None:
    chosen = replace(slot_settings(1), draft="off", draft_model="nowhere.gguf")

    with Engine(plain_model, settings=chosen) as engine:
        assert engine.draft_model is None


def test_work_in_the_background_has_no_draft_model(pair: Pair) -> None:
    with pair.drafting.sibling() as sibling:
        assert sibling.draft_model is None


def test_the_draft_model_counts_as_memory_of_the_model(plain_model: Path) -> None:
    alone = replace(slot_settings(2), mmproj="none")
    both = replace(alone, draft_model=str(plain_model))

    assert model_bytes(plain_model, both, 512) == 2 * model_bytes(plain_model, alone, 512)


def test_a_draft_model_that_does_not_fit_is_refused_as_a_setting(
    plain_model: Path, model_file: Callable[[str], Path]
) -> None:
    fitting = Config(model=str(plain_model), draft_model=str(model_file("windowed")))
    check_setting(fitting, "draft_model")

    with pytest.raises(ModelLoadError, match="vocabularies differ"):
        check_setting(replace(fitting, draft_model=str(model_file("spm"))), "draft_model")
    with pytest.raises(UsageError, match=r"draft_model: .*nowhere"):
        check_setting(replace(fitting, draft_model="nowhere"), "draft_model")
    check_setting(replace(fitting, draft_model=""), "draft_model")


# ---- how often it is asked


def _chosen(drafting: Path) -> EngineSettings:
    return replace(slot_settings(1), draft="auto", draft_model=str(drafting))


@pytest.fixture
def _drafts_where_it_saves_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DRAFTS, "auto", native.DRAFT_AUTO)


@pytest.mark.usefixtures("_drafts_where_it_saves_time")
def test_a_draft_model_that_is_wrong_is_asked_less_and_less(
    plain_model: Path, model_file: Callable[[str], Path]
) -> None:
    asked, read = [], []
    with Engine(plain_model, settings=_chosen(model_file("windowed"))) as engine:
        for i in range(4):
            before = engine.decoder.draft_model_counts
            answer = _answer(engine, [(7 * k + i) % 200 for k in range(300)], max_tokens=256)
            engine.decoder.wait_idle()
            now = engine.decoder.draft_model_counts
            asked.append(now[0] - before[0])
            read.append(now[1] - before[1])
            assert answer.stats.generated_tokens > 150
            # Nothing had to be verified.
            assert answer.stats.model_drafted_tokens == 0
            _check_read(engine)

    # At the first tokens, and 16, 32, 64, 128, 256 and 512 tokens later.
    assert sum(asked) <= 8
    assert asked[0] >= 4
    assert max(asked[2:]) <= 1
    # It never reads the 300 tokens of a conversation, but the last 16.
    assert max(read) <= 16 * asked[0]


@pytest.mark.usefixtures("_drafts_where_it_saves_time")
def test_a_draft_model_that_becomes_right_is_asked_for_more(tmp_path: Path) -> None:
    """The models say a text by the positions of its tokens; the draft model says its beginning backwards."""
    from bench import recited_models

    large, small = recited_models.Size(768, 8, 8, 3072, 512), recited_models.SIZES["tiny"]
    ids = random.Random(1).sample(range(256), 228)  # nothing repeats
    prompt, said = ids[:100], ids[100:]
    paths = tmp_path / "large.gguf", tmp_path / "small.gguf"
    for path, size, text in zip(paths, (large, small), (said, [*said[:48][::-1], *said[48:]]), strict=True):
        recited_models.write(size, path)
        recited_models.recite(path, size, len(prompt), text)
    with Engine(paths[0], settings=_chosen(paths[1])) as engine:
        answer = _answer(engine, prompt, max_tokens=128)
        engine.decoder.wait_idle()
        n_batches, n_read = engine.decoder.draft_model_counts

    assert list(answer.token_ids) == said
    # Asked for the third time, after 50 tokens, it was right, and once more. Then it read the conversation
    # and drafted the rest.
    assert answer.stats.model_accepted_tokens >= 30
    assert n_read > len(prompt) + 50
    assert n_batches <= 3 + len(said) - 48

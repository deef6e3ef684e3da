"""Drafts change how fast an answer comes and nothing else: not its text, and not what the cache holds.

Two engines get the same requests, one without drafts. The tiny models hardly repeat what they were told, so
the other one drafts from the answers of the first, with mistakes: as earlier answers to the same user.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd._native import engine as native
from shepherd.inference import Engine, Generation, schema_to_grammar
from shepherd.inference.model import DRAFTS
from shepherd.types import Sampling
from tests.examples import examples
from tests.inference.engines import logits_after, run_to_end
from tests.inference.slots import TOLERANCE, check_mirrors, difference, slot_settings

# The second is a sliding window without Gemma's table of GELU, which makes a large difference of a tiny one.
KINDS = ("plain", "windowed", "recurrent", "hybrid")
DRAFTING = KINDS[:2]
SLOTS = 3
_JSON = schema_to_grammar(
    {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 8}, "is_home": {"type": "boolean"}},
        "required": ["name", "is_home"],
    }
)


@dataclass
class Request:
    """An answer to make: its prompt, and how."""

    prompt: list[int]
    options: dict[str, Any]


@dataclass
class Pair:
    """Two engines on one model, without drafts and with as many as there are."""

    plain: Engine
    drafting: Engine
    kind: str

    def forget(self) -> None:
        """Empty both caches."""
        for engine in (self.plain, self.drafting):
            engine.decoder.wait_idle()
            engine.decoder.forget()

    def answer(self, requests: list[Request], mistakes: float, choose: random.Random) -> list[Generation]:
        """Answer all requests at once on each engine and compare; return the answers without drafts."""
        expected = _answers(self.plain, requests)
        self.drafting._earlier._by_user.clear()
        for i, answer in enumerate(expected):
            self.drafting._earlier.add(f"user {i}", _mistaken(answer.token_ids, mistakes, choose))
        found = _answers(self.drafting, requests)
        for one, other in zip(expected, found, strict=True):
            assert other.text == one.text
            assert other.token_ids == one.token_ids
            assert (other.stats.finish_reason, other.stats.stopped_by) == (
                one.stats.finish_reason,
                one.stats.stopped_by,
            )
            _check_logprobs(one, other)
        self._check_caches()
        return expected

    def _check_caches(self) -> None:
        self.drafting.decoder.wait_idle()
        check_mirrors(self.drafting.decoder, SLOTS)
        assert _held(self.drafting) == _held(self.plain)

    def check_logits(self) -> None:
        """What the caches hold is what they are said to hold."""
        for ids in _held(self.plain):
            if 0 < len(ids) < self.plain.window_tokens - 2:
                ours, theirs = (
                    logits_after(one.decoder, [*ids, 3, 4]) for one in (self.drafting, self.plain)
                )
                assert difference(ours, theirs) < TOLERANCE.get(self.kind, 1e-4)


def _held(engine: Engine) -> list[list[int]]:
    engine.decoder.wait_idle()
    return sorted(engine.decoder.ids_of(slot) for slot in range(SLOTS))


def _answers(engine: Engine, requests: list[Request]) -> list[Generation]:
    answers = [
        engine.complete(request.prompt, user=f"user {i}", **request.options)
        for i, request in enumerate(requests)
    ]
    for answer in answers:
        run_to_end(answer)
    return answers


def _mistaken(ids: tuple[int, ...], share: float, choose: random.Random) -> list[int]:
    return [choose.randrange(256) if choose.random() < share else token for token in ids]


def _check_logprobs(one: Generation, other: Generation) -> None:
    for ours, theirs in zip(one.logprobs, other.logprobs, strict=True):
        assert ours.token_id == theirs.token_id
        assert ours.logprob == pytest.approx(theirs.logprob, abs=1e-3)


def random_options(choose: random.Random) -> dict[str, Any]:
    sampling = (
        Sampling(temperature=0.0) if choose.random() < 0.5 else Sampling(seed=choose.randrange(1 << 20))
    )
    if choose.random() < 0.3:
        sampling = replace(sampling, repeat_penalty=1.3, frequency_penalty=0.2, dry_multiplier=0.8)
    if choose.random() < 0.2:
        sampling = replace(
            sampling, logit_bias=((choose.randrange(256), 4.0), (choose.randrange(256), -99.0))
        )
    return {
        "sampling": sampling,
        "max_tokens": choose.randrange(1, 60),
        "stop": [chr(choose.randrange(97, 123)) * choose.randrange(1, 3)] if choose.random() < 0.3 else [],
        "grammar": _JSON if choose.random() < 0.2 else "",
        "logprobs": 2 if choose.random() < 0.2 else None,
    }


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest, model_file: Callable[[str], Path]) -> Iterator[Pair]:
    without = replace(slot_settings(SLOTS), draft="off")
    path = model_file(request.param)
    with Engine(path, settings=without) as plain, Engine(path, settings=slot_settings(SLOTS)) as drafting:
        yield Pair(plain, drafting, request.param)


@pytest.mark.hypothesis
@given(seed=st.integers(0, 1 << 32), mistakes=st.sampled_from((0.0, 0.1, 0.5)), turns=st.integers(1, 3))
@settings(max_examples=examples(17))
def test_answers_and_caches_are_the_same_with_drafts_as_without(
    pair: Pair, seed: int, mistakes: float, turns: int
) -> None:
    choose = random.Random(seed)
    pair.forget()
    talks = [[choose.randrange(256) for _ in range(choose.randrange(1, 40))] for _ in range(SLOTS)]

    for _ in range(turns):
        requests = [Request(talk, random_options(choose)) for talk in talks]
        answers = pair.answer(requests, mistakes, choose)
        for talk, answer in zip(talks, answers, strict=True):
            talk += [*answer.token_ids, *(choose.randrange(256) for _ in range(choose.randrange(1, 20)))]
    pair.check_logits()


@pytest.mark.parametrize("pair", DRAFTING, indirect=True)
def test_right_drafts_are_accepted_several_at_a_time(pair: Pair) -> None:
    request = Request([5, 6, 7, 8, 9], {"sampling": Sampling(temperature=0.0), "max_tokens": 120})
    pair.forget()

    pair.answer([request], 0.0, random.Random(1))
    with pair.drafting.complete(request.prompt, user="user 0", **request.options) as again:
        run_to_end(again)

    stats = again.stats
    assert stats.generated_tokens > 40
    assert stats.accepted_tokens > 0.8 * stats.drafted_tokens
    assert stats.tokens_per_decode > 4


@pytest.mark.parametrize("kind", DRAFTING)
def test_drafts_by_the_time_that_batches_take_change_no_answer(
    kind: str, model_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """How much is drafted differs from run to run, and what is said does not."""
    monkeypatch.setitem(DRAFTS, "auto", native.DRAFT_AUTO)
    timed = replace(slot_settings(SLOTS), draft="auto")
    path, choose = model_file(kind), random.Random(1)
    with (
        Engine(path, settings=replace(timed, draft="off")) as plain,
        Engine(path, settings=timed) as drafting,
    ):
        pair = Pair(plain, drafting, kind)
        for _ in range(4):
            pair.forget()
            talks = [[choose.randrange(256) for _ in range(20)] for _ in range(SLOTS)]
            pair.answer([Request(talk, random_options(choose)) for talk in talks], 0.05, choose)


@pytest.mark.parametrize("pair", ["recurrent", "hybrid"], indirect=True)
def test_a_state_that_cannot_be_rewound_has_no_drafts(pair: Pair) -> None:
    request = Request([5, 6, 7, 8, 9], {"sampling": Sampling(temperature=0.0), "max_tokens": 60})
    pair.forget()

    pair.answer([request], 0.0, random.Random(1))
    with pair.drafting.complete(request.prompt, user="user 0", **request.options) as again:
        run_to_end(again)

    assert (again.stats.drafted_tokens, again.stats.tokens_per_decode) == (0, 1)


@pytest.mark.parametrize("pair", DRAFTING, indirect=True)
def test_a_cancelled_answer_leaves_what_it_has_said(pair: Pair) -> None:
    for n_read in (1, 3, 9):
        pair.forget()
        prompt = [n_read, 6, 7, 8, 9]
        options = {"sampling": Sampling(temperature=0.0), "max_tokens": 300}
        (expected,) = pair.answer([Request(prompt, options)], 0.1, random.Random(n_read))
        pair.drafting.decoder.forget()

        answer = pair.drafting.complete(prompt, user="user 0", **options)
        for _ in zip(range(n_read), answer, strict=False):
            pass
        answer.close()

        said = list(answer.token_ids)
        assert said == list(expected.token_ids)[: len(said)]
        pair.drafting.decoder.wait_idle()
        check_mirrors(pair.drafting.decoder, SLOTS)
        held = pair.drafting.decoder.mirror_ids
        assert held == (prompt + said)[: len(held)]


def test_the_answers_of_one_user_are_no_drafts_for_another(plain_model: Path) -> None:
    greedy: dict[str, Any] = {"sampling": Sampling(temperature=0.0), "max_tokens": 80}
    with Engine(plain_model, settings=slot_settings(1)) as engine:
        alone = _told(engine, "ann", **greedy)
        engine.decoder.forget()
        other = _told(engine, "ben", **greedy)
        engine.decoder.forget()
        nobody = _told(engine, "", **greedy)
        engine.decoder.forget()
        again = _told(engine, "ann", **greedy)

    counts = [(one.stats.drafted_tokens, one.stats.accepted_tokens) for one in (alone, other, nobody)]
    assert counts == [counts[0]] * 3
    assert again.stats.accepted_tokens > alone.stats.accepted_tokens + 20


def _told(engine: Engine, user: str, **options: Any) -> Generation:
    answer = engine.complete([5, 6, 7, 8, 9], user=user, **options)
    run_to_end(answer)
    return answer


def test_an_answer_that_repeats_its_prompt_is_drafted_from_it(model_file: Callable[[str], Path]) -> None:
    with Engine(model_file("scripted"), settings=slot_settings(1)) as engine:
        prompt = engine.tokenize_prompt("<|im_start|>user\nHello, I am a shepherd. Café", special=True)
        script = engine.tokenize("Hello, I am a shepherd. Café is open today!")
        prompt += [*script, *engine.tokenize("<|im_end|>\n<|im_start|>assistant\n", special=True)]
        with engine.complete(prompt, sampling=Sampling(temperature=0.0)) as answer:
            text = run_to_end(answer)

    assert text == "Hello, I am a shepherd. Café is open today!"
    assert answer.stats.accepted_tokens > 0


def test_keys_of_a_schema_are_drafted(plain_model: Path) -> None:
    """They save little here: a model of random weights spells a key in pieces of its own liking."""
    settings = slot_settings(1)
    with (
        Engine(plain_model, settings=settings) as engine,
        Engine(plain_model, settings=replace(settings, draft="off")) as without,
    ):
        found = []
        for one in (engine, without):
            with one.complete([5, 6], sampling=Sampling(temperature=0.0), grammar=_JSON) as answer:
                found.append(run_to_end(answer))

            if one is engine:
                assert answer.stats.drafted_tokens > 0
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", DRAFTING)
def test_a_draft_that_finds_no_room_in_the_cache_is_left_out(
    kind: str, model_file: Callable[[str], Path]
) -> None:
    """Two conversations have one window of 256 tokens; drafts of the second need cells of the first."""
    sized = replace(slot_settings(2, n_ctx=256), windows=1)
    prompts = [[7 * i % 200 for i in range(120)], [11 * i % 200 for i in range(115)]]
    options: dict[str, Any] = {"sampling": Sampling(temperature=0.0), "max_tokens": 60}
    found: list[tuple[int, ...]] = []
    for draft in ("off", "always"):
        with Engine(model_file(kind), settings=replace(sized, draft=draft)) as engine:  # type: ignore[arg-type]
            if found:
                engine._earlier.add("ann", found[0])
            run_to_end(engine.complete(prompts[0], max_tokens=1))
            answer = engine.complete(prompts[1], user="ann", **options)
            run_to_end(answer)
            engine.decoder.wait_idle()
            check_mirrors(engine.decoder, 2)
            found.append(answer.token_ids)

    assert found[0] == found[1]
    assert len(found[0]) > 30
    assert answer.stats.accepted_tokens > 0

"""Extraction by engines in this process: exact answers of scripted models; the user's turn goes first."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shepherd.errors import ModelLoadError
from shepherd.extraction import LocalExtractor, parse_answer
from shepherd.extraction.answer import Cancellation, CancelledError, UnavailableError, UnusableAnswerError
from shepherd.extraction.request import (
    ANSWER_GRAMMAR,
    EXTRACTION_PROMPT,
    INSTRUCTIONS,
    extraction_request,
)
from shepherd.inference import Engine
from shepherd.types import Message, Sampling
from tests.inference.engines import exact_settings, run_to_end

LEARNED = {"facts": {"name": "Steve"}, "context": [{"q": "Which editor?", "a": "Helix"}]}
HELLO = [Message("user", "hello")]


@pytest.fixture(scope="module")
def learner(model_file: Callable[[str], Path]) -> Path:
    """A model that says LEARNED to everything."""
    return model_file("learner")


@pytest.fixture
def new_extractor() -> Iterator[Callable[..., LocalExtractor]]:
    """Makes extractors over a sibling of the engine."""
    made = []

    def make(
        engine: Engine,
        *,
        n_ctx: int = 0,
        max_tokens: int = 100,
        temperature: float = 0.0,
        apart: bool = False,
    ) -> LocalExtractor:
        extractor = LocalExtractor(
            lambda: engine.sibling(n_ctx=n_ctx), max_tokens=max_tokens, temperature=temperature, apart=apart
        )
        made.append(extractor)
        return extractor

    yield make
    for extractor in made:
        extractor.close()


def test_the_model_says_what_it_learned(learner, new_extractor):
    with Engine(learner, settings=exact_settings(n_ctx=1024)) as engine:
        [answer] = new_extractor(engine).answers(["I am Steve and use Helix"], Cancellation())

    assert json.loads(answer) == LEARNED


@pytest.mark.parametrize(
    ("n_ctx", "apart", "prompt"),
    [(8192, False, INSTRUCTIONS), (8192, True, EXTRACTION_PROMPT), (1024, False, EXTRACTION_PROMPT)],
)
def test_full_models_get_the_instructions_and_small_ones_the_words_they_were_taught(
    learner, new_extractor, n_ctx, apart, prompt
):
    with Engine(learner, settings=exact_settings(n_ctx=n_ctx)) as engine:
        run_to_end(engine.generate(HELLO, max_tokens=5))
        before = engine.decoder.mirror_ids
        extractor = new_extractor(engine, apart=apart)
        extractor.answers(["I am Steve"], Cancellation())
        sibling = extractor._engine
        ids = sibling.decoder.mirror_ids
        asked = "".join(sibling.model.vocabulary.detokenize([token]).decode() for token in ids)

        # The chat finds its own KV cache as it left it.
        assert engine.decoder.mirror_ids == before
    assert asked.startswith(f"system\n{prompt}\nuser\nUser: I am Steve\nassistant\n")


def test_prompt_of_the_bundled_model_is_the_one_it_is_trained_on():
    digest = hashlib.sha256(EXTRACTION_PROMPT.encode()).hexdigest()

    # Another one needs another model: tools/mini_model.
    assert digest == "15a43f0fa17f1124caedb05ed90a0726b1cb89860376be8407c6a9f1f189a613"
    assert extraction_request(["I am Steve", "hello"]) == "User: I am Steve\nUser: hello"


def test_a_very_small_model_is_asked_about_one_sentence_at_a_time(learner, new_extractor):
    with Engine(learner, settings=exact_settings(n_ctx=1024)) as engine:
        extractor = new_extractor(engine, apart=True)
        answers = extractor.answers(["I am Steve. I use Helix!", "hello"], Cancellation())

    assert [json.loads(answer) for answer in answers] == [LEARNED] * 3


class Paused(Cancellation):
    """Holds up an answer that has begun, until `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def attach(self, cancel: Callable[[], None] | None) -> None:
        super().attach(cancel)
        if cancel is not None:
            self.begun.set()
            assert self.go.wait(30)


def test_a_model_that_others_need_is_let_go_of_in_the_middle_and_opened_again(learner, new_extractor):
    with Engine(learner, settings=exact_settings(n_ctx=1024)) as engine, ThreadPoolExecutor(2) as threads:
        extractor, paused = new_extractor(engine), Paused()
        answering = threads.submit(extractor.answers, ["I am Steve"], paused)
        assert paused.begun.wait(30)
        first = extractor._engine
        releasing = threads.submit(extractor.release)
        while not extractor._is_releasing.is_set():
            time.sleep(0.001)
        paused.go.set()
        with pytest.raises(UnavailableError, match="another model needs the memory"):
            answering.result()
        releasing.result()
        assert first.is_closed
        [answer] = extractor.answers(["I am Steve"], Cancellation())

    assert json.loads(answer) == LEARNED


@pytest.mark.parametrize("ending", ["cancelled", "released"])
def test_a_call_that_is_stopped_as_it_begins_does_not_go_on_by_itself(
    endless_model, new_extractor, monkeypatch, ending
):
    class Stopped(Cancellation):
        def attach(self, stop):
            if stop is not None and ending == "released":
                extractor._is_releasing.set()
            elif stop is not None:
                self.set()
            super().attach(stop)

    with Engine(endless_model, settings=exact_settings(n_ctx=8192)) as engine:
        extractor = new_extractor(engine, max_tokens=4000)
        generate, begun = extractor._opened().generate, []

        def generate_and_keep(*arguments, **options):
            begun.append(generate(*arguments, **options))
            return begun[-1]

        monkeypatch.setattr(extractor._opened(), "generate", generate_and_keep)
        with pytest.raises((CancelledError, UnavailableError)):
            extractor.answers(["I am Steve"], Stopped())

        [generation] = begun
        assert generation.stats.finish_reason == "cancelled"  # it is "length" after 4000 tokens


def test_random_weights_give_answers_that_can_be_read(plain_model):
    ended = []
    with Engine(plain_model, settings=exact_settings(n_ctx=2048)) as engine:
        for seed in range(12):
            wild = Sampling(seed=seed, temperature=1.2, top_k=0, top_p=1.0, min_p=0.0)
            generation = engine.generate(HELLO, grammar=ANSWER_GRAMMAR, sampling=wild, max_tokens=1500)
            text = run_to_end(generation)
            if generation.stats.finish_reason == "stop":
                ended.append(text)

    assert ended
    for text in ended:
        parse_answer(text)
        assert set(json.loads(text)) == {"facts", "context"}


def test_lines_that_do_not_fit_together_are_asked_about_in_parts(learner, new_extractor):
    with Engine(learner, settings=exact_settings(n_ctx=1024)) as engine:
        extractor = new_extractor(engine, n_ctx=512)
        short = extractor.answers(["I am Steve"] * 3, Cancellation())
        parts = extractor.answers(["a quick brown fox. " * 10] * 12, Cancellation())
        one_long = extractor.answers(["a quick brown fox. " * 200], Cancellation())

    assert len(short) == 1
    assert len(parts) > 2
    assert len(one_long) > 2
    assert {json.dumps(json.loads(answer)) for answer in [*parts, *one_long]} == {json.dumps(LEARNED)}


def test_a_long_line_whose_answer_is_cut_off_is_asked_about_in_parts(learner, new_extractor):
    long, short = "a quick brown fox. " * 40, "I am Steve"
    with Engine(learner, settings=exact_settings(n_ctx=2048)) as engine:
        extractor = new_extractor(engine, max_tokens=4)  # its answer takes nine
        of_long = extractor.answers([long], Cancellation())
        of_both = extractor.answers([long, short], Cancellation())
        of_short = extractor.answers([short], Cancellation())

    assert len(of_long) == 4  # 760 characters, until they are fewer than 320
    assert len(of_both) == 5
    assert len(of_short) == 1


def test_a_window_too_small_for_the_request_says_so(learner, new_extractor):
    with (
        Engine(learner, settings=exact_settings(n_ctx=1024)) as engine,
        pytest.raises(UnusableAnswerError, match="window"),
    ):
        new_extractor(engine, n_ctx=64).answers(["I am Steve"], Cancellation())


def test_a_call_is_stopped_while_it_waits_for_the_users_turn(endless_model, new_extractor):
    # Of a tiny model 4,096 tokens are over in a moment; these are not.
    with Engine(endless_model, settings=exact_settings(n_ctx=262_144)) as engine:
        extractor, cancellation = new_extractor(engine, n_ctx=4096), Cancellation()
        extractor._opened()
        with engine.generate(HELLO, max_tokens=262_000) as turn:
            next(turn)
            cancellation_after_start(cancellation)
            with pytest.raises(CancelledError):
                extractor.answers(["x"], cancellation)
            assert turn.is_running


def cancellation_after_start(cancellation: Cancellation) -> None:
    """Stops the call as soon as it has begun."""
    attach = cancellation.attach

    def then_stop(stop) -> None:
        attach(stop)
        if stop is not None:
            cancellation.set()

    cancellation.attach = then_stop


def test_an_engine_that_cannot_be_had_may_come_back():
    def fail() -> Engine:
        raise ModelLoadError("no context of 4096 tokens", hint="close other programs")

    with pytest.raises(UnavailableError, match="no context"):
        LocalExtractor(fail, max_tokens=100, temperature=0).answers(["x"], Cancellation())


def test_the_users_engine_is_as_before(learner, new_extractor):
    with Engine(learner, settings=exact_settings(n_ctx=1024)) as engine:
        run_to_end(engine.generate(HELLO, max_tokens=5))
        before = engine.decoder.mirror_ids
        new_extractor(engine).answers(["I am Steve"], Cancellation())

        assert engine.decoder.mirror_ids == before


def test_the_worker_with_an_engine_learns(learner, memory, new_worker, new_extractor, tell):
    with Engine(learner, settings=exact_settings(n_ctx=1024)) as engine:
        worker = new_worker(extractor=new_extractor(engine), min_turns=2)
        worker.start()
        session = tell(worker, "I am Steve")
        # Turns of the user between, as they come in a conversation.
        for text in ("I use Helix", "What is my name?"):
            run_to_end(engine.generate(HELLO, max_tokens=20))
            tell(worker, text, session=session)
        assert worker.flush(60)
        worker.close()

    assert memory.get_fact("name") == "Steve"
    assert [record.answer for record in memory.list_memories()] == ["Helix"]


def test_a_small_models_inventions_are_dropped(learner, memory, new_worker, new_extractor, tell):
    with Engine(learner, settings=exact_settings(n_ctx=1024)) as engine:
        extractor = new_extractor(engine)
        extractor.facts_only = True
        worker = new_worker(extractor=extractor, min_turns=1)
        worker.start()
        tell(worker, "I use  HELIX, of course")
        assert worker.flush(60)
        worker.close()

    assert [(fact.key, fact.value) for fact in memory.get_all_facts()] == [("uses", "HELIX")]
    assert memory.list_memories() == []
    assert memory.extraction.stats().dropped == 2

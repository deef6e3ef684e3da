"""Two engines on the same weights: each its own conversation, and one waits its turn."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from shepherd.errors import UsageError
from shepherd.inference import Answer, Engine, EngineSettings, PriorityLock
from shepherd.types import Message, Sampling
from tests.conftest import SCRIPT
from tests.inference.engines import KINDS, exact_settings, run_to_end

GREEDY = Sampling(temperature=0.0)
HELLO = [Message("user", "hello")]
OTHER = [Message("user", "something else entirely")]


@pytest.fixture
def engine(endless_model: Path) -> Iterator[Engine]:
    with Engine(endless_model, settings=exact_settings(n_ctx=4096)) as engine:
        yield engine


@pytest.fixture
def patient(endless_model: Path) -> Iterator[Engine]:
    """An engine whose answers go on for longer than any test waits."""
    with Engine(endless_model, settings=exact_settings(n_ctx=65_536)) as engine:
        yield engine


def test_both_answer_and_neither_knows_the_others_conversation(engine: Engine) -> None:
    with engine.sibling(n_ctx=512) as sibling:
        alone = run_to_end(engine.generate(HELLO, sampling=GREEDY, max_tokens=30))
        ids = list(engine.decoder.mirror_ids)
        run_to_end(sibling.generate(OTHER, sampling=GREEDY, max_tokens=30))
        assert engine.decoder.mirror_ids == ids
        assert sibling.decoder.mirror_ids != ids
        same = sibling.generate(HELLO, sampling=GREEDY, max_tokens=30)

        assert run_to_end(same) == alone
        assert sibling.window_tokens == 512
        assert engine.generate(HELLO, max_tokens=0).close() is None


def test_the_one_in_the_background_gets_on_slowly_while_the_other_answers(engine: Engine) -> None:
    with engine.sibling() as sibling:
        background = sibling.generate(HELLO, sampling=GREEDY, max_tokens=3000)
        next(background)
        foreground = engine.generate(OTHER, sampling=GREEDY, max_tokens=2000)
        next(foreground)
        first = at_rest = shown_length(background)
        while True:
            length = shown_length(background)
            next(foreground, None)
            if not foreground.is_running:
                break
            at_rest = length
        run_to_end(foreground)
        for _ in background:
            pass

        assert foreground.stats.generated_tokens == 2000
        # Its share is a twentieth of the time, and a token says a character or so; half is much slack.
        assert at_rest - first <= 1000 * engine.model.vocabulary.longest_bytes
        assert len(background.text) > at_rest
        assert background.stats.generated_tokens == 3000


def test_the_one_in_the_background_comes_to_its_end_though_the_other_never_rests(engine: Engine) -> None:
    """Its prompt takes several turns, and so does its answer; between two answers there is no gap."""
    with engine.sibling() as sibling:
        background = sibling.generate(
            [Message("user", "a quick brown fox. " * 10)], sampling=GREEDY, max_tokens=10
        )
        first, second = (engine.generate(OTHER, max_tokens=1000) for _ in range(2))
        while background.is_running:
            for _ in first:
                pass
            first, second = second, engine.generate(OTHER, max_tokens=1000)

        second.close()
        assert run_to_end(background)
        assert background.stats.generated_tokens == 10


def test_engines_that_share_a_lock_hold_back_what_yields_to_one_of_them(endless_model: Path) -> None:
    lock, settings = PriorityLock(), EngineSettings(n_ctx=4096, n_threads=1)
    with (
        Engine(endless_model, settings=settings, priority_lock=lock) as one,
        Engine(endless_model, settings=settings, priority_lock=lock) as other,
        one.sibling() as sibling,
    ):
        background = sibling.generate(HELLO, sampling=GREEDY, max_tokens=3000)
        next(background)
        foreground = other.generate(OTHER, sampling=GREEDY, max_tokens=2000)
        next(foreground)
        first = at_rest = shown_length(background)
        while True:
            length = shown_length(background)
            next(foreground, None)
            if not foreground.is_running:
                break
            at_rest = length
        # Both at once: it still gets its share, and they theirs.
        answers = [engine.generate(OTHER, sampling=GREEDY, max_tokens=1500) for engine in (one, other)]
        for answer in (*answers, background):
            run_to_end(answer)

        # A twentieth of the time; without the lock it would have two thirds of its text by then.
        assert at_rest - first < len(background.text) / 3
        assert [answer.stats.generated_tokens for answer in (*answers, background)] == [1500, 1500, 3000]


@pytest.mark.parametrize("n_siblings", [1, 3])
def test_answers_are_the_same_with_turns_in_between(engine: Engine, n_siblings: int) -> None:
    alone = run_to_end(engine.generate(OTHER, sampling=GREEDY, max_tokens=400))
    with contextlib.ExitStack() as stack:
        siblings = [stack.enter_context(engine.sibling(n_ctx=512)) for _ in range(n_siblings)]
        quiet = [run_to_end(sibling.generate(HELLO, sampling=GREEDY, max_tokens=40)) for sibling in siblings]
        background = [sibling.generate(HELLO, sampling=GREEDY, max_tokens=40) for sibling in siblings]

        beside = run_to_end(engine.generate(OTHER, sampling=GREEDY, max_tokens=400))

        assert beside == alone
        assert [run_to_end(answer) for answer in background] == quiet


def shown_length(answer: Answer) -> int:
    """Characters that have come so far, without waiting for more."""
    while answer.poll():
        pass
    return len("".join(answer._said))


def test_a_turn_that_begins_inside_a_long_prompt_interrupts_it(model_file: Callable[[str], Path]) -> None:
    """On the CPU even a micro-batch is given up and decoded again; the answer is that of a run in peace."""
    settings = EngineSettings(n_ctx=4096, n_threads=1)
    with Engine(model_file("endless"), settings=settings) as engine:
        prompt = [Message("user", "a quick brown fox. " * 300)]
        with engine.sibling() as sibling:
            undisturbed = run_to_end(sibling.generate(prompt, sampling=GREEDY, max_tokens=20))
        with engine.sibling() as sibling:
            background = sibling.generate(prompt, sampling=GREEDY, max_tokens=20)
            for _ in range(20):
                run_to_end(engine.generate(HELLO, sampling=GREEDY, max_tokens=3))

            assert run_to_end(background) == undisturbed
            assert sibling.decoder.position_max + 1 == len(sibling.decoder.mirror_ids)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_cache_survives_being_interrupted(kind: str, model_file: Callable[[str], Path]) -> None:
    prompt = [Message("user", "the lazy dog. " * 60)]
    with Engine(model_file(kind), settings=exact_settings(n_ctx=1024)) as engine:
        with engine.sibling() as sibling:
            undisturbed = run_to_end(sibling.generate(prompt, sampling=GREEDY, max_tokens=40))
        with engine.sibling() as sibling:
            background = sibling.generate(prompt, sampling=GREEDY, max_tokens=40)
            while background.is_running:
                run_to_end(engine.generate(HELLO, sampling=GREEDY, max_tokens=2))
                background.poll()
                time.sleep(0.002)

            background.close()
            assert background.stats.finish_reason in ("stop", "length")
            assert background.stats.generated_tokens > 0
            assert background.text == undisturbed


def test_a_paused_answer_can_be_cancelled(patient: Engine) -> None:
    with patient.sibling(n_ctx=512) as sibling:
        foreground = patient.generate(OTHER, max_tokens=60_000)
        next(foreground)
        background = sibling.generate(HELLO, max_tokens=100)
        background.cancel()
        background.close()

        assert background.stats.finish_reason == "cancelled"
        assert foreground.is_running
        foreground.close()


def test_a_sibling_closes_while_it_waits(patient: Engine) -> None:
    sibling = patient.sibling(n_ctx=512)
    foreground = patient.generate(OTHER, max_tokens=60_000)
    background = sibling.generate(HELLO, max_tokens=100)

    sibling.close()

    assert not background.is_running
    assert foreground.is_running
    foreground.close()


def test_an_engine_of_its_own_model_can_wait_too(engine: Engine, scripted_model: Path) -> None:
    with Engine(scripted_model, settings=exact_settings(), yields_to=engine) as other:
        foreground = engine.generate(HELLO, max_tokens=3000)
        background = other.generate(HELLO, sampling=GREEDY)
        next(foreground)
        foreground.close()

        assert run_to_end(background) == "".join(SCRIPT)


@pytest.mark.parametrize("first", ["engine", "sibling"])
def test_the_weights_live_until_the_last_is_closed(scripted_model: Path, first: str) -> None:
    engine = Engine(scripted_model, settings=exact_settings())
    sibling = engine.sibling()
    closed, left = (engine, sibling) if first == "engine" else (sibling, engine)

    closed.close()

    assert run_to_end(left.generate(HELLO, sampling=GREEDY)) == "".join(SCRIPT)
    left.close()
    with pytest.raises(UsageError, match="closed"):
        closed.generate(HELLO)


def test_a_closed_engine_has_no_siblings(scripted_model: Path) -> None:
    engine = Engine(scripted_model, settings=exact_settings())
    engine.close()

    with pytest.raises(UsageError, match="closed"):
        engine.sibling()


def test_siblings_free_what_they_took(plain_model: Path) -> None:
    threads = set(threading.enumerate())
    process = psutil.Process()
    with Engine(plain_model, settings=exact_settings(n_ctx=4096)) as engine:
        engine.sibling().close()
        before = process.memory_info().rss
        for _ in range(30):
            with engine.sibling() as sibling:
                run_to_end(sibling.generate(HELLO, max_tokens=2))
        del sibling
        gc.collect()

        # One cache is 2 MiB; thirty that were kept would show.
        assert process.memory_info().rss - before < 30 << 20
    # Threads of earlier tests may end meanwhile; none may have come.
    assert set(threading.enumerate()) <= threads

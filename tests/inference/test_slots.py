"""Several conversations in one context: who gets which slot, what they share, what is each one's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shepherd._native import engine as native
from shepherd.errors import UsageError
from shepherd.inference import Engine, EngineSettings
from shepherd.types import Message, Sampling
from tests.inference.engines import KINDS, exact_settings, logits_after, read, run_to_end
from tests.inference.slots import (
    GREEDY,
    HEAD,
    TOLERANCE,
    check_mirrors,
    conversation,
    difference,
    read_out,
    reused,
    slot_settings,
    submit,
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_clients", [2, 8])
def test_alternating_clients_decode_new_tokens_only(
    kind: str, n_clients: int, model_file: Callable[[str], Path]
) -> None:
    system = Message("system", "you are a helpful assistant of the user. " * 3)
    with Engine(model_file(kind), settings=slot_settings(n_clients, n_ctx=4096)) as engine:
        clients = [[system] for _ in range(n_clients)]
        held = [0] * n_clients
        for turn in range(4):
            for i, messages in enumerate(clients):
                messages.append(Message("user", f"{i} what is the name of rex? {turn}"))
                generation = engine.generate(messages, sampling=Sampling(seed=turn), max_tokens=8)
                run_to_end(generation)
                stats = generation.stats

                if turn == 0 and i > 0:
                    # The system prompt is another's already.
                    assert stats.reused_tokens >= generation.prompt_tokens_per_message[0]
                else:
                    assert stats.reused_tokens == held[i]
                assert stats.decoded_tokens == stats.prompt_tokens - stats.reused_tokens
                answer = stats.generated_tokens - (stats.finish_reason == "length")
                held[i] = stats.prompt_tokens + answer
                messages.append(Message("assistant", generation.text, token_ids=generation.token_ids))
        check_mirrors(engine.decoder, n_clients)


@pytest.mark.parametrize("kind", KINDS)
def test_shared_head_gives_the_logits_of_a_fresh_context(
    kind: str, model_file: Callable[[str], Path]
) -> None:
    one, other = HEAD + conversation(1, 60), HEAD + conversation(2, 70)
    with (
        Engine(model_file(kind), settings=slot_settings(2)) as engine,
        Engine(model_file(kind), settings=exact_settings(n_ctx=2048)) as fresh,
    ):
        read(engine.decoder, one, [len(HEAD)])

        assert reused(engine.decoder, other) == len(HEAD)
        logits = engine.decoder.logits()
        assert logits is not None
        assert difference(logits, logits_after(fresh.decoder, other)) < TOLERANCE[kind]
        # The first one has lost nothing.
        assert reused(engine.decoder, [*one, 5]) == len(one)
        fresh.decoder.forget()
        again = engine.decoder.logits()
        assert again is not None
        assert difference(again, logits_after(fresh.decoder, [*one, 5])) < TOLERANCE[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at_once", [1, 3, 8])
def test_head_that_eight_begin_with_is_read_once_and_none_loses_its_own(
    kind: str, at_once: int, model_file: Callable[[str], Path]
) -> None:
    head = conversation(0, 300)
    talks = [head + conversation(i, 10 + i) for i in range(1, 9)]
    with (
        Engine(model_file(kind), settings=slot_settings(8, n_ctx=4096)) as engine,
        Engine(model_file(kind), settings=exact_settings(n_ctx=2048)) as fresh,
    ):
        streams = []
        for i in range(0, 8, at_once):
            begun = [
                submit(engine.decoder, talk, [len(head)], head=len(head)) for talk in talks[i : i + at_once]
            ]
            assert [read_out(stream) for stream in begun] == [native.LENGTH] * len(begun)
            streams += begun

        n_read = sum(stream.counters()["decoded_tokens"] for stream in streams)
        assert n_read == len(head) + sum(len(talk) - len(head) for talk in talks)
        engine.decoder.wait_idle()
        check_mirrors(engine.decoder, 8)
        for talk in talks:
            longer = [*talk, 5, 6]
            assert reused(engine.decoder, longer) == len(talk)
            logits = engine.decoder.logits()
            fresh.decoder.forget()
            assert logits is not None
            assert difference(logits, logits_after(fresh.decoder, longer)) < TOLERANCE[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_who_waits_for_anothers_head_goes_on_when_that_one_is_cancelled(
    kind: str, model_file: Callable[[str], Path]
) -> None:
    head = conversation(0, 1500)
    with Engine(model_file(kind), settings=slot_settings(4, n_ctx=8192)) as engine:
        streams = [submit(engine.decoder, [*head, i], [len(head)]) for i in range(4)]
        streams[0].cancel()
        streams[2].cancel()

        assert [read_out(streams[i]) for i in (1, 3)] == [native.LENGTH] * 2
        engine.decoder.wait_idle()
        check_mirrors(engine.decoder, 4)
        counts = [stream.counters() for stream in streams]
        # What the cancelled ones had read may be read once more, by one of the others.
        assert sum(count["decoded_tokens"] for count in counts) <= 2 * len(head) + 4


@pytest.mark.parametrize("kind", KINDS)
def test_answers_made_together_are_those_made_alone(kind: str, model_file: Callable[[str], Path]) -> None:
    talks = [[Message("user", f"what is the name of {name}? ")] for name in ("rex", "texas", "the fox", "me")]
    with Engine(model_file(kind), settings=slot_settings(4)) as engine:
        alone = [
            run_to_end(engine.generate(talk, sampling=Sampling(seed=3), max_tokens=12)) for talk in talks
        ]
        engine.decoder.forget()
        # More than there are slots: the others wait.
        together = [engine.generate(t, sampling=Sampling(seed=3), max_tokens=12) for t in talks * 2]

        assert [run_to_end(generation) for generation in together] == alone * 2
        engine.decoder.wait_idle()
        check_mirrors(engine.decoder, 4)


def test_grammars_and_settings_are_each_slots_own(endless_model: Path) -> None:
    with Engine(endless_model, settings=slot_settings(3)) as engine:
        digits = engine.complete([5], max_tokens=8, sampling=Sampling(seed=1), grammar='root ::= "1"+')
        letters = engine.complete([5], max_tokens=8, sampling=Sampling(seed=2), grammar='root ::= "ab"+')
        free = engine.complete([5], max_tokens=8, sampling=Sampling(seed=1))

        texts = [run_to_end(generation) for generation in (digits, letters, free)]

    assert set(texts[0]) == {"1"}
    assert texts[1].replace("ab", "").strip("a") == ""
    assert texts[2] not in texts[:2]


def test_answers_of_a_closed_engine_end_even_those_that_wait(endless_model: Path) -> None:
    engine = Engine(endless_model, settings=slot_settings(2, n_ctx=4096))
    generations = [engine.complete([5, i], sampling=GREEDY, max_tokens=1000) for i in range(5)]

    engine.close()

    for generation in generations:
        generation.close()
        assert generation.stats.finish_reason == "cancelled"


def test_bad_numbers_of_slots_are_refused() -> None:
    for options in (
        {"slots": 0},
        {"slots": 65},
        {"windows": 0},
        {"cache_ram_bytes": -1},
        {"kv_edit": "guess"},
    ):
        with pytest.raises(UsageError):
            EngineSettings(**options)  # type: ignore[arg-type]

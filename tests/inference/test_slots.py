"""Several conversations in one context: who gets which slot, what is shared, what is parked, who goes first.

Logits are compared with those of a fresh context that reads the whole prompt at once. Cells of several
sequences lie mixed in one cache, so sums over them come in another order: 3e-6 was seen with plain and hybrid
caches, nothing with recurrent ones. For the sliding window see test_mirror.py.
"""

from __future__ import annotations

import random
import threading
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from shepherd._native import engine as native
from shepherd.errors import ContextOverflowError, UsageError
from shepherd.inference import Engine, EngineSettings, Generation
from shepherd.inference.binding import llama
from shepherd.types import Message, Sampling
from tests import models
from tests.inference.engines import KINDS, exact_settings, logits_after, read, run_to_end

TOLERANCE = {"plain": 1e-4, "hybrid": 1e-4, "recurrent": 1e-4, "sliding": 5e-3}
GREEDY = Sampling(temperature=0.0)
HEAD = [7 * i % 200 for i in range(40)]


def slot_settings(slots: int, *, n_ctx: int = 2048, cache_ram_bytes: int = 64 << 20) -> EngineSettings:
    return replace(exact_settings(n_ctx=n_ctx), slots=slots, cache_ram_bytes=cache_ram_bytes)


def conversation(seed: int, length: int) -> list[int]:
    choose = random.Random(seed)
    return [choose.randrange(256) for _ in range(length)]


def difference(one: bytes, other: bytes) -> float:
    a, b = np.frombuffer(one, np.float32), np.frombuffer(other, np.float32)
    return float(np.abs(a - b).max())


def reused(decoder: native.Decoder, tokens: Sequence[int], boundaries: Sequence[int] = ()) -> int:
    return read(decoder, tokens, boundaries).counters()["reused_tokens"]


def check_mirrors(decoder: native.Decoder, slots: int) -> None:
    for slot in range(slots):
        positions = decoder.positions_of(slot)
        assert decoder.position_max_of(slot) == (positions[-1] if positions else -1)
        assert positions == list(range(len(decoder.ids_of(slot))))


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


def submit(
    decoder: native.Decoder, tokens: Sequence[int], boundaries: Sequence[int], *, background: bool = False
) -> native.Stream:
    stream = native.Stream()
    more = {"boundaries": boundaries, "background": background}
    assert decoder.submit(array("i", tokens), stream, may_wait=True, **more)  # type: ignore[arg-type]
    return stream


def read_out(stream: native.Stream) -> int:
    while stream.read(1000) is not None:
        pass
    return stream.ending


@pytest.mark.parametrize("kind", KINDS)
def test_head_that_eight_begin_with_at_once_is_read_once(
    kind: str, model_file: Callable[[str], Path]
) -> None:
    head = conversation(0, 300)
    talks = [head + conversation(i, 10 + i) for i in range(1, 9)]
    with (
        Engine(model_file(kind), settings=slot_settings(8, n_ctx=4096)) as engine,
        Engine(model_file(kind), settings=exact_settings(n_ctx=2048)) as fresh,
    ):
        streams = [submit(engine.decoder, talk, [len(head)]) for talk in talks]
        assert [read_out(stream) for stream in streams] == [native.LENGTH] * 8

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


def test_user_does_not_wait_for_a_head_that_the_background_reads(plain_model: Path) -> None:
    head = conversation(0, 1500)
    with Engine(plain_model, settings=slot_settings(3, n_ctx=8192)) as engine:
        first = submit(engine.decoder, [*head, 1], [len(head)], background=True)
        users = submit(engine.decoder, [*head, 2], [len(head)])
        last = submit(engine.decoder, [*head, 3], [len(head)], background=True)

        assert [read_out(stream) for stream in (users, first, last)] == [native.LENGTH] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_parked_conversation_comes_back_without_being_read(
    kind: str, model_file: Callable[[str], Path]
) -> None:
    one, other = conversation(1, 120), conversation(2, 90)
    with (
        Engine(model_file(kind), settings=slot_settings(1)) as engine,
        Engine(model_file(kind), settings=exact_settings(n_ctx=2048)) as fresh,
    ):
        read(engine.decoder, one)
        assert reused(engine.decoder, other) == 0

        assert reused(engine.decoder, [*one, 5, 6]) == len(one)
        logits = engine.decoder.logits()
        read(fresh.decoder, one)
        expected = logits_after(fresh.decoder, [*one, 5, 6])
        assert logits is not None
        if kind == "sliding":
            assert difference(logits, expected) < TOLERANCE[kind]
        else:
            assert logits == expected


def test_nothing_is_parked_beyond_its_budget(plain_model: Path) -> None:
    with Engine(plain_model, settings=slot_settings(1, cache_ram_bytes=100_000)) as engine:
        for seed in range(8):
            read(engine.decoder, conversation(seed, 100))
            assert engine.decoder.snapshot_bytes <= 100_000

        assert engine.decoder.snapshot_bytes > 0
        assert reused(engine.decoder, conversation(0, 100)) == 0


def test_full_window_parks_the_conversation_that_waits_longest(plain_model: Path) -> None:
    """Four slots of 100 tokens do not fit 256 cells; none is lost, and none is wrong."""
    talks = [conversation(seed, 100) for seed in range(4)]
    with (
        Engine(plain_model, settings=slot_settings(4, n_ctx=256)) as engine,
        Engine(plain_model, settings=exact_settings(n_ctx=2048)) as fresh,
    ):
        for turn in range(3):
            for talk in talks:
                held = len(talk) if turn else 0
                talk += [turn, 9]
                assert reused(engine.decoder, talk) == held
                logits = engine.decoder.logits()
                assert logits is not None
                fresh.decoder.forget()
                assert difference(logits, logits_after(fresh.decoder, talk)) < TOLERANCE["plain"]
        check_mirrors(engine.decoder, 4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_clients", [2, 4])
def test_clients_with_a_window_each_decode_new_tokens_only(
    kind: str, n_clients: int, model_file: Callable[[str], Path]
) -> None:
    """At once, with conversations that together exceed a window by far, and nothing to park them in."""
    window = 256
    settings = replace(slot_settings(n_clients, n_ctx=window, cache_ram_bytes=0), windows=n_clients)
    with (
        Engine(model_file(kind), settings=settings) as engine,
        Engine(model_file(kind), settings=exact_settings(n_ctx=window)) as fresh,
    ):
        assert (engine.window_tokens, engine.n_cells) == (window, n_clients * window)
        talks = [conversation(seed, 130) for seed in range(n_clients)]
        held = [0] * n_clients
        for turn in range(4):
            generations = [
                engine.complete(talk, sampling=Sampling(seed=i), max_tokens=12)
                for i, talk in enumerate(talks)
            ]
            for i, generation in enumerate(generations):
                run_to_end(generation)
                stats = generation.stats
                assert stats.decoded_tokens == len(talks[i]) - held[i]
                # One that ends by its length ends with a token that is sampled and not decoded.
                held[i] = len(talks[i]) + stats.generated_tokens - (stats.finish_reason == "length")
                talks[i] += [*generation.token_ids, *conversation(100 * turn + i, 18)]
        assert sum(len(talk) for talk in talks) > (n_clients - 1) * window
        check_mirrors(engine.decoder, n_clients)
        for talk in talks:
            logits = logits_after(engine.decoder, talk)
            fresh.decoder.forget()
            assert difference(logits, logits_after(fresh.decoder, talk)) < TOLERANCE[kind]


def test_conversation_of_a_wide_context_still_ends_with_its_window(endless_model: Path) -> None:
    settings = replace(slot_settings(2, n_ctx=256), windows=2)
    with Engine(endless_model, settings=settings) as engine:
        generations = [engine.complete([5, i], sampling=GREEDY, max_tokens=1000) for i in range(2)]
        for generation in generations:
            run_to_end(generation)

        assert [generation.stats.generated_tokens for generation in generations] == [255, 255]
        assert all(len(engine.decoder.ids_of(slot)) == 256 for slot in range(2))
        with pytest.raises(ContextOverflowError):
            engine.complete([5] * 256)


def test_wide_context_leaves_the_positions_of_a_long_rope_as_one_window_has_them(tmp_path: Path) -> None:
    path, talk = tmp_path / "long.gguf", conversation(1, 200)
    models.llama(path, long_rope=1024)

    def logits(n_ctx: int, windows: int) -> tuple[int, bytes]:
        with Engine(path, settings=replace(slot_settings(4, n_ctx=n_ctx), windows=windows)) as engine:
            return engine.n_cells, logits_after(engine.decoder, talk)

    # Four windows of 512 would be a context for the long factors.
    assert logits(512, 4) == (1024, logits(512, 1)[1])
    assert logits(2048, 4) == (8192, logits(2048, 1)[1])
    assert difference(logits(512, 4)[1], logits(2048, 4)[1]) > 0.1


def test_sibling_of_a_wide_context_has_one_window(plain_model: Path) -> None:
    settings = replace(slot_settings(4, n_ctx=512), windows=4)
    with Engine(plain_model, settings=settings) as engine, engine.sibling() as sibling:
        assert (engine.n_cells, sibling.n_cells) == (2048, 512)


def test_parked_conversation_waits_for_room_rather_than_being_read_again(endless_model: Path) -> None:
    talk = conversation(1, 150)
    with Engine(endless_model, settings=slot_settings(2, n_ctx=256)) as engine:
        read(engine.decoder, talk)
        long_one = engine.complete(conversation(2, 150), sampling=GREEDY, max_tokens=60)
        next(long_one)
        back = engine.complete([*talk, 5, 6], sampling=GREEDY, max_tokens=2)
        run_to_end(back)
        run_to_end(long_one)

        assert long_one.stats.generated_tokens == 60
        assert back.stats.decoded_tokens == 2
        engine.decoder.wait_idle()
        check_mirrors(engine.decoder, 2)


def test_newcomer_with_the_head_of_what_is_parked_does_not_cost_it(endless_model: Path) -> None:
    talk, newcomer = HEAD + conversation(1, 110), HEAD + conversation(3, 10)
    with Engine(endless_model, settings=slot_settings(2, n_ctx=256)) as engine:
        read(engine.decoder, talk)
        long_one = engine.complete(conversation(2, 150), sampling=GREEDY, max_tokens=40)
        next(long_one)
        run_to_end(engine.complete(newcomer, sampling=GREEDY, max_tokens=2))
        run_to_end(long_one)
        back = engine.complete([*talk, 5, 6], sampling=GREEDY, max_tokens=2)
        run_to_end(back)

        assert back.stats.decoded_tokens == 2


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


def test_long_prompt_does_not_stop_an_answer(endless_model: Path) -> None:
    settings = replace(slot_settings(2, n_ctx=4096), n_ubatch=16)
    with Engine(endless_model, settings=settings) as engine:
        answer = engine.complete([5, 6, 7], sampling=GREEDY, max_tokens=200)
        next(answer)
        prompt = engine.complete(conversation(1, 3000), sampling=GREEDY, max_tokens=1)
        run_to_end(answer)

        # 200 tokens of 16 beside each of them: it has read 3,000 not long before.
        assert prompt.is_running or answer.stats.generated_tokens == 200
        run_to_end(prompt)
        assert prompt.stats.prompt_tokens == 3000


@pytest.mark.parametrize("length", [100, 180, 220])
def test_prompt_without_room_is_read_when_an_answer_has_ended(endless_model: Path, length: int) -> None:
    """It once waited for ever: half of one token, the next attempt, is none, and twice none is none."""
    with Engine(endless_model, settings=slot_settings(2, n_ctx=256)) as engine:
        answer = engine.complete([5, 6, 7], sampling=GREEDY, max_tokens=180)
        prompt = engine.complete(conversation(1, length), sampling=GREEDY, max_tokens=5)
        run_to_end(prompt)
        run_to_end(answer)

        assert prompt.stats.generated_tokens == 5
        assert answer.stats.generated_tokens == 180
        engine.decoder.wait_idle()
        check_mirrors(engine.decoder, 2)


def test_background_answer_pauses_while_a_user_has_one(endless_model: Path) -> None:
    with Engine(endless_model, settings=slot_settings(2, n_ctx=4096)) as engine:
        background = engine.complete([5, 6, 7], sampling=GREEDY, max_tokens=3000, background=True)
        next(background)
        user = engine.complete([8, 9], sampling=GREEDY, max_tokens=800)
        run_to_end(user)

        assert background.is_running
        run_to_end(background)
        assert background.stats.generated_tokens == 3000


@pytest.mark.parametrize("kind", KINDS)
def test_background_answer_gives_up_its_slot_and_goes_on_later(
    kind: str, model_file: Callable[[str], Path]
) -> None:
    tokens = conversation(4, 50)
    with Engine(model_file(kind), settings=slot_settings(2)) as engine:
        undisturbed = run_to_end(engine.complete(tokens, sampling=GREEDY, max_tokens=60))
        engine.decoder.forget()
        background = [
            engine.complete(tokens, sampling=GREEDY, max_tokens=60, background=True) for _ in range(2)
        ]
        users = [engine.complete([8, 9, i], sampling=GREEDY, max_tokens=20) for i in range(3)]
        for user in users:
            run_to_end(user)

        assert [run_to_end(one) for one in background] == [undisturbed] * 2
        engine.decoder.wait_idle()
        check_mirrors(engine.decoder, 2)


def test_answers_of_a_closed_engine_end_even_those_that_wait(endless_model: Path) -> None:
    engine = Engine(endless_model, settings=slot_settings(2, n_ctx=4096))
    generations = [engine.complete([5, i], sampling=GREEDY, max_tokens=1000) for i in range(5)]

    engine.close()

    for generation in generations:
        generation.close()
        assert generation.stats.finish_reason == "cancelled"


def test_grammars_and_settings_are_each_slots_own(endless_model: Path) -> None:
    with Engine(endless_model, settings=slot_settings(3)) as engine:
        digits = engine.complete([5], max_tokens=8, sampling=Sampling(seed=1), grammar='root ::= "1"+')
        letters = engine.complete([5], max_tokens=8, sampling=Sampling(seed=2), grammar='root ::= "ab"+')
        free = engine.complete([5], max_tokens=8, sampling=Sampling(seed=1))

        texts = [run_to_end(generation) for generation in (digits, letters, free)]

    assert set(texts[0]) == {"1"}
    assert texts[1].replace("ab", "").strip("a") == ""
    assert texts[2] not in texts[:2]


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


class SlotsMachine(RuleBasedStateMachine):
    """Four conversations, three slots, a window that does not hold them all; a fresh context is the truth."""

    path: Path
    kind: str

    @initialize()
    def load(self) -> None:
        self.engine = Engine(self.path, settings=slot_settings(3, n_ctx=512, cache_ram_bytes=2 << 20))
        self.reference = Engine(self.path, settings=exact_settings(n_ctx=1024, n_ubatch=512))
        self.talks = [HEAD + conversation(i, 20) for i in range(4)]

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close()
            self.reference.close()

    def _check(self, tokens: list[int]) -> None:
        stream = native.Stream()
        boundaries = [length for length in (len(HEAD), len(tokens) - 8) if 0 < length < len(tokens)]
        assert self.engine.decoder.submit(array("i", tokens), stream, boundaries=boundaries)
        while stream.read(1000) is not None:
            pass
        assert stream.ending == native.LENGTH
        assert self.engine.decoder.mirror_ids == tokens
        logits = self.engine.decoder.logits()
        self.reference.decoder.forget()
        assert logits is not None
        assert difference(logits, logits_after(self.reference.decoder, tokens)) < TOLERANCE[self.kind]

    def _begin(self, i: int, count: int) -> Generation:
        return self.engine.complete(self.talks[i], sampling=Sampling(seed=i), max_tokens=count)

    @rule(i=st.integers(0, 3), more=st.lists(st.integers(0, 255), min_size=2, max_size=60))
    def append(self, i: int, more: list[int]) -> None:
        self.talks[i] = (self.talks[i] + more)[:400]
        self._check(self.talks[i])

    @rule(i=st.integers(0, 3), where=st.floats(0, 1), more=st.lists(st.integers(0, 255), max_size=30))
    def edit(self, i: int, where: float, more: list[int]) -> None:
        talk = self.talks[i]
        cut = 1 + int(where * (len(talk) - 1))
        self.talks[i] = (talk[:cut] + more + talk[cut + len(more) // 2 :])[:400]
        self._check(self.talks[i])

    @rule(i=st.integers(0, 3))
    def start_over(self, i: int) -> None:
        self.talks[i] = HEAD + conversation(len(self.talks[i]), 20)
        self._check(self.talks[i])

    @rule(counts=st.lists(st.integers(1, 30), min_size=2, max_size=4))
    def answer_together(self, counts: list[int]) -> None:
        generations = [self._begin(i, count) for i, count in enumerate(counts)]
        for i, generation in enumerate(generations):
            run_to_end(generation)
            self.talks[i] = (self.talks[i] + list(generation.token_ids))[:400]

    @rule(counts=st.lists(st.integers(1, 200), min_size=2, max_size=4), chosen=st.integers(0, 15))
    def cancel_some(self, counts: list[int], chosen: int) -> None:
        generations = [self._begin(i, count) for i, count in enumerate(counts)]
        for i, generation in enumerate(generations):
            if chosen >> i & 1:
                generation.close()
            else:
                run_to_end(generation)

    @rule(
        head=st.integers(40, 200),
        lengths=st.lists(st.integers(1, 80), min_size=2, max_size=4),
        chosen=st.integers(0, 15),
        seed=st.integers(0, 99),
    )
    def begin_together(self, head: int, lengths: list[int], chosen: int, seed: int) -> None:
        common = conversation(seed, head)
        self.talks[: len(lengths)] = [common + conversation(100 + i, n) for i, n in enumerate(lengths)]
        streams = [submit(self.engine.decoder, talk, [head]) for talk in self.talks[: len(lengths)]]
        for i, stream in enumerate(streams):
            if chosen >> i & 1:
                stream.cancel()
        for stream in streams:
            assert read_out(stream) in (native.LENGTH, native.CANCELLED)
        for talk in self.talks[: len(lengths)]:
            self._check(talk)

    @rule()
    def park(self) -> None:
        self.engine.decoder.park()

    @rule(slot=st.integers(0, 2))
    def decoding_fails(self, slot: int) -> None:
        """Another hand takes the last token of a sequence out of the cache."""
        decoder, c = self.engine.decoder, llama()
        ids = decoder.ids_of(slot)
        if not 1 < len(ids) < 400 or decoder.last_slot != slot:
            return
        memory = c.llama_get_memory(self.engine.model.context_address)
        if c.llama_memory_seq_rm(memory, slot, decoder.position_max_of(slot), -1):
            stream = read(decoder, [*ids, 3, 4])
            assert (stream.ending, stream.counters()["code"]) == (native.FAILED, -1)

    @invariant()
    def mirrors_are_what_the_cache_holds(self) -> None:
        if hasattr(self, "engine"):
            self.engine.decoder.wait_idle()
            check_mirrors(self.engine.decoder, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_any_sequence_of_operations_leaves_every_slot_right(
    kind: str, model_file: Callable[[str], Path]
) -> None:
    machine = type("Machine", (SlotsMachine,), {"path": model_file(kind), "kind": kind})

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=8,
            stateful_step_count=12,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("kind", ["plain", "hybrid"])
def test_eight_clients_that_cancel_and_overflow_leave_no_slot_stuck(
    kind: str, model_file: Callable[[str], Path]
) -> None:
    failures: list[str] = []
    with (
        Engine(model_file(kind), settings=slot_settings(4, n_ctx=256, cache_ram_bytes=1 << 20)) as engine,
        Engine(model_file(kind), settings=exact_settings(n_ctx=1024)) as fresh,
    ):

        def client(number: int) -> None:
            choose = random.Random(number)
            tokens = [*HEAD]
            for _ in range(12):
                tokens = tokens[:200] + [choose.randrange(256) for _ in range(choose.randrange(1, 40))]
                generation = engine.complete(
                    tokens, sampling=Sampling(seed=number), max_tokens=choose.randrange(1, 120)
                )
                if choose.random() < 0.4:
                    generation.cancel()
                run_to_end(generation)
                if generation.stats.finish_reason not in ("stop", "length", "cancelled"):
                    failures.append(generation.stats.finish_reason)
                if choose.random() < 0.2:
                    tokens = [*HEAD]
                else:
                    tokens += generation.token_ids

        threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert not failures
        assert engine.decoder.wait_idle(5000)
        check_mirrors(engine.decoder, 4)
        for slot in range(4):
            ids = engine.decoder.ids_of(slot)
            if 0 < len(ids) < 250:
                fresh.decoder.forget()
                logits = logits_after(engine.decoder, [*ids, 1, 2])
                assert difference(logits, logits_after(fresh.decoder, [*ids, 1, 2])) < TOLERANCE[kind]

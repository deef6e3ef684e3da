"""Any sequence of operations leaves every slot right: a fresh context is the truth."""

from __future__ import annotations

import random
import threading
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from shepherd._native import engine as native
from shepherd.inference import Engine, Generation
from shepherd.inference.binding import llama
from shepherd.types import Sampling
from tests.examples import examples
from tests.inference.engines import KINDS, exact_settings, logits_after, read, run_to_end
from tests.inference.slots import (
    HEAD,
    TOLERANCE,
    check_mirrors,
    conversation,
    difference,
    read_out,
    slot_settings,
    submit,
)


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


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", KINDS)
def test_any_sequence_of_operations_leaves_every_slot_right(
    kind: str, model_file: Callable[[str], Path]
) -> None:
    machine = type("Machine", (SlotsMachine,), {"path": model_file(kind), "kind": kind})

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(8),
            stateful_step_count=12,
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

"""The mirror of the cache, against fresh contexts: the same logits after any sequence of operations.

To the bit, with flash attention off on one CPU thread: a prompt may be split anywhere. One thing matters:
ggml adds up a batch of one token in another order than a larger one (a difference of about 1e-6). So the
fresh context gets the same tokens one by one as the engine did, and the rest together. A sliding window is
exact where it keeps everything (swa_full). Its ring puts the same cells into another order, and a sum in
another order: 1e-4 is allowed, of logits of about 7. But llama.cpp takes the GELU of Gemma's layers from a
table of 16-bit floats, where a difference of 1e-7 may choose the next entry: there 5e-4 was seen, and 5e-3 is
allowed, a thousand times less than when the window is lost.
"""

from __future__ import annotations

import ctypes
import random
import time
from array import array
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from shepherd._native import engine as native
from shepherd.inference import Engine, Generation
from shepherd.inference.binding import llama
from shepherd.types import Message, Sampling
from tests.examples import examples
from tests.inference.engines import KINDS, exact_settings, logits_after, read, run_to_end

WINDOW = 512
CHUNK = 64
TOLERANCE = {"sliding": 5e-3, "windowed": 1e-4}
token_lists = st.lists(st.integers(0, 255), min_size=2, max_size=150)


class MirrorMachine(RuleBasedStateMachine):
    """One engine lives through all of it; a second one, emptied each time, is the truth."""

    path: Path
    swa_full: bool
    tolerance: float

    @initialize()
    def load(self) -> None:
        full = self.swa_full
        own = exact_settings(n_ctx=WINDOW, n_ubatch=CHUNK, swa_full=full)
        # Nothing parked: how a token of a sequence that came back was once decoded is not written down here.
        self.engine = Engine(self.path, settings=replace(own, cache_ram_bytes=0))
        self.reference = Engine(
            self.path, settings=exact_settings(n_ctx=WINDOW, n_ubatch=WINDOW, swa_full=full)
        )
        self.mirror: list[int] = []
        # For each token of the mirror, whether it was decoded in a batch of its own.
        self.alone: list[bool] = []
        self._read([1, 2, 3])

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close()
            self.reference.close()

    def _read(self, tokens: list[int]) -> native.Stream:
        tokens = tokens[:WINDOW]
        stream = read(self.engine.decoder, tokens)
        self._note(stream.counters(), len(tokens))
        return stream

    def _note(self, counters: dict[str, int], n_prompt: int) -> None:
        if counters["prompt_tokens"] == 0:
            # Cancelled before it began: the cache is as it was.
            assert self.mirror == self.engine.decoder.mirror_ids
            return
        self.mirror = self.engine.decoder.mirror_ids
        reused = counters["reused_tokens"]
        alone = self.alone[:reused] + [False] * (n_prompt - reused)
        alone[n_prompt - 1] = (n_prompt - reused) % CHUNK == 1
        alone += [True] * len(self.mirror)
        self.alone = alone[: len(self.mirror)]

    @rule(more=token_lists)
    def append(self, more: list[int]) -> None:
        self._read(self.mirror + more)

    @rule(where=st.floats(0, 1), more=token_lists)
    def edit_in_the_middle(self, where: float, more: list[int]) -> None:
        cut = int(where * len(self.mirror))
        self._read(self.mirror[:cut] + more + self.mirror[cut + len(more) // 2 :])

    @rule(where=st.floats(0, 1))
    def truncate(self, where: float) -> None:
        self._read(self.mirror[: max(1, int(where * len(self.mirror)))] or [9])

    @rule(more=token_lists)
    def start_over(self, more: list[int]) -> None:
        self._read(more)

    @rule(more=token_lists, count=st.integers(1, 40), seed=st.integers(0, 99))
    def generate(self, more: list[int], count: int, seed: int) -> None:
        tokens = (self.mirror + more)[: WINDOW - 1]
        generation = self.engine.complete(tokens, sampling=Sampling(seed=seed), max_tokens=count)
        run_to_end(generation)
        self._note(_counters(generation), len(tokens))
        # The last sampled id is decoded only when another one follows.
        assert self.mirror == (tokens + list(generation.token_ids))[: len(self.mirror)]

    @rule(more=token_lists, delay_us=st.integers(0, 20_000))
    def cancel_at_some_time(self, more: list[int], delay_us: int) -> None:
        tokens = (self.mirror[: WINDOW - 100] + more)[: WINDOW - 1]
        generation = self.engine.complete(tokens, sampling=Sampling(seed=1), max_tokens=200)
        time.sleep(delay_us / 1e6)
        generation.close()
        assert generation.stats.finish_reason in ("cancelled", "stop", "length")
        self._note(_counters(generation), len(tokens))

    @rule()
    def cancel_before_it_begins(self) -> None:
        tokens = [*self.mirror[:-1], 7, 8][:WINDOW]
        stream = native.Stream()
        stream.cancel()
        assert self.engine.decoder.submit(array("i", tokens), stream)
        self.engine.decoder.wait_idle()
        assert stream.ending == native.CANCELLED
        self._note(stream.counters(), len(tokens))

    @rule(more=token_lists)
    def decoding_fails(self, more: list[int]) -> None:
        """Another hand takes the last token out of the cache: llama.cpp then refuses the next position."""
        decoder = self.engine.decoder
        c = llama()
        memory = c.llama_get_memory(self.engine.model.context_address)
        if not 1 < len(self.mirror) < WINDOW - len(more):
            return
        if c.llama_memory_seq_rm(memory, 0, decoder.position_max, -1):
            stream = self._read(self.mirror + more)
            assert stream.ending == native.FAILED
            assert stream.counters()["code"] == -1

    @invariant()
    def mirror_is_what_the_cache_holds(self) -> None:
        if hasattr(self, "engine"):
            assert self.engine.decoder.position_max + 1 == len(self.engine.decoder.mirror_ids)

    @invariant()
    def next_logits_are_those_of_a_fresh_context(self) -> None:
        if not hasattr(self, "engine"):
            return
        self._read([*self.mirror[: WINDOW - 2], 65, 66])
        logits = self.engine.decoder.logits()
        assert logits is not None
        expected = self._replay()
        if self.tolerance == 0:
            assert logits == expected
        else:
            difference = np.abs(np.frombuffer(logits, np.float32) - np.frombuffer(expected, np.float32))
            assert difference.max() < self.tolerance

    def _runs(self) -> list[tuple[bool, int]]:
        return [(alone, len(list(group))) for alone, group in groupby(self.alone)]

    def _replay(self) -> bytes:
        decoder = self.reference.decoder
        decoder.forget()
        end = 0
        for alone, length in self._runs():
            for step in [1] * length if alone else [length]:
                end += step
                # One token that a cut has left of a larger batch: again in a larger one, cut as well.
                cut = [self.mirror[end] ^ 1] if step == 1 and not alone else []
                read(decoder, self.mirror[:end] + cut)
        logits = decoder.logits()
        assert logits is not None
        return logits


def _counters(generation: Generation) -> dict[str, int]:
    stats = generation.stats
    return {"prompt_tokens": stats.prompt_tokens, "reused_tokens": stats.reused_tokens}


@pytest.mark.hypothesis
@pytest.mark.parametrize(
    ("kind", "swa_full"), [*((kind, False) for kind in (*KINDS, "windowed")), ("sliding", True)], ids=str
)
def test_any_sequence_of_operations_leaves_the_logits_of_a_fresh_context(
    kind: str, swa_full: bool, model_file: Callable[[str], Path]
) -> None:
    tolerance = 0 if swa_full else TOLERANCE.get(kind, 0)
    parameters = {"path": model_file(kind), "swa_full": swa_full, "tolerance": tolerance}
    machine = type("Machine", (MirrorMachine,), parameters)

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(12),
            stateful_step_count=12,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_fifty_turns_decode_new_tokens_only(kind: str, model_file: Callable[[str], Path]) -> None:
    """By our counters and by llama.cpp's own."""
    choose = random.Random(3)
    with Engine(model_file(kind), settings=exact_settings(n_ctx=4096)) as engine:
        messages = [Message("system", "be brief")]
        held = 0
        for turn in range(50):
            messages.append(Message("user", "what is " + "the name of rex? " * choose.randint(1, 3)))
            before = _perf_tokens(engine)
            generation = engine.generate(messages, sampling=Sampling(seed=turn), max_tokens=12)
            run_to_end(generation)
            stats = generation.stats

            assert stats.reused_tokens == held
            assert stats.decoded_tokens == stats.prompt_tokens - held
            held = len(engine.decoder.mirror_ids)
            # The id before the end is decoded, to ask for the next; a last one that came to a limit is not.
            answer = stats.generated_tokens - (stats.finish_reason == "length")
            assert held == stats.prompt_tokens + answer
            # llama.cpp rounds an empty count up to one, so its first differences are not meant literally.
            if turn > 1:
                assert _perf_tokens(engine) - before == stats.decoded_tokens + answer
            messages.append(Message("assistant", generation.text, token_ids=generation.token_ids))


def _perf_tokens(engine: Engine) -> int:
    data = llama().llama_perf_context(ctypes.c_void_p(engine.model.context_address))
    return int(data.n_p_eval + data.n_eval)


def test_rewind_inside_the_sliding_window_keeps_what_is_before_it(model_file: Callable[[str], Path]) -> None:
    tokens = list(range(40, 80))
    with Engine(model_file("sliding"), settings=exact_settings()) as engine:
        read(engine.decoder, tokens)

        stream = read(engine.decoder, [*tokens[:30], 7, 8])

    assert stream.counters()["reused_tokens"] == 30


def test_rewind_behind_a_lost_sliding_window_starts_over(model_file: Callable[[str], Path]) -> None:
    """seq_rm says yes there, and the logits would be wrong without an error."""
    tokens = [(7 * i) % 200 for i in range(400)]
    with Engine(model_file("sliding"), settings=exact_settings()) as engine:
        for end in (150, 250, 400):
            read(engine.decoder, tokens[:end])

        stream = read(engine.decoder, [*tokens[:120], 7, 8])

        assert stream.counters()["reused_tokens"] == 0
        assert engine.decoder.position_max == 121


@pytest.mark.parametrize("kind", ["recurrent", "hybrid"])
def test_rewind_of_a_state_starts_over(kind: str, model_file: Callable[[str], Path]) -> None:
    with Engine(model_file(kind), settings=exact_settings()) as engine:
        read(engine.decoder, [1, 2, 3, 4, 5])

        stream = read(engine.decoder, [1, 2, 3, 9])

    assert stream.counters()["reused_tokens"] == 0


def test_cancel_ends_a_prompt_between_micro_batches(plain_model: Path) -> None:
    with Engine(plain_model, settings=exact_settings(n_ctx=4096, n_ubatch=16)) as engine:
        stream = native.Stream()
        assert engine.decoder.submit(array("i", [5] * 4000), stream)
        while not stream.ending and stream.read(1) == b"":
            stream.cancel()
        engine.decoder.wait_idle()

        assert stream.ending == native.CANCELLED
        counters = stream.counters()
        assert counters["decoded_tokens"] == len(engine.decoder.mirror_ids) < 4000


def test_prompt_is_bounded_by_window_and_vocabulary(plain_model: Path) -> None:
    with Engine(plain_model, settings=exact_settings()) as engine:
        decoder = engine.decoder
        for tokens in ([], [1] * 513, [-1], [engine.info.n_vocab]):
            with pytest.raises(ValueError, match=r"tokens|token"):
                decoder.submit(array("i", tokens), native.Stream())
        with pytest.raises(ValueError, match="max_tokens"):
            decoder.submit(array("i", [1]), native.Stream(), max_tokens=3)

        assert logits_after(decoder, [1] * 512)


def test_batch_of_another_layout_is_refused() -> None:
    class Fewer(ctypes.Structure):
        _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.c_void_p)]

    with pytest.raises(ImportError, match="laid out differently"):
        native.bind(llama()._lib, Fewer, llama().llama_token_data, llama().llama_token_data_array)

"""How many tokens does a conversation of fifty turns read, when every message has memories appended?

Each side holds the same conversation about the same memories with the same tiny model, greedy:
  keep             Shepherd, tails stay where they were sent
  strip            Shepherd, the tail of the previous message is taken out every turn
  llama_cpp.Llama  create_chat_completion over the enriched messages, as a program would do it by hand
Tokens are counted by llama.cpp itself (llama_perf_context), and for Shepherd by the engine too.

    python -m pytest bench/test_conversation.py --benchmark-only -s
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bench.small import sized
from shepherd.benchmark import corpus

N_TURNS = sized(50, 6)
N_MEMORIES = sized(2_000, 300)
N_CTX = 24_576
ANSWER_TOKENS = 24
USER = "steve"


@dataclass
class Turns:
    """Cost of each turn: tokens read, growth of the KV cache in tokens, milliseconds to the first piece."""

    decoded: list[int] = field(default_factory=list)
    grown: list[int] = field(default_factory=list)
    ttft_ms: list[float] = field(default_factory=list)
    injected: int = 0

    def line(self, name: str, conversation_tokens: int) -> str:
        """One row of the table."""
        total = sum(self.decoded)
        return (
            f"  {name:<18} {total:>8,} tokens read, {total / conversation_tokens:5.2f} per token of it all; "
            f"first token after {statistics.median(self.ttft_ms):6.2f} ms (last ten turns "
            f"{statistics.median(self.ttft_ms[-10:]):6.2f}); {self.injected} of {N_TURNS} turns with a tail"
        )


@pytest.fixture(scope="module")
def data() -> corpus.Corpus:
    return corpus.build(N_MEMORIES, 1, n_questions=N_TURNS)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.models import llama

    path = tmp_path_factory.mktemp("conversation") / "ascii.gguf"
    llama(path, ascii_only=True, n_ctx=N_CTX)
    return path


@pytest.fixture
def memory(tmp_path: Path, data: corpus.Corpus) -> Iterator[object]:
    from shepherd import Memory

    with Memory(tmp_path / "memory.db", user_id=USER, keeps_secrets=True) as opened:  # see test_writes.py
        for row in data.memories:
            opened.store_memory(row.question, row.answer, timestamp=row.timestamp)
        opened.set_fact("name", "Steve")
        opened.set_fact("location", "Texas")
        yield opened


def _questions(data: corpus.Corpus) -> list[str]:
    return [f"what did i say about {' '.join(terms)}" for _, terms in data.questions]


def _counted(context: object) -> int:
    """All tokens that llama.cpp has decoded in this context."""
    import llama_cpp

    perf = llama_cpp.llama_perf_context(context)
    return int(perf.n_p_eval + perf.n_eval)


def _shepherd(model: Path, memory: object, questions: list[str], retention: str) -> Turns:
    from shepherd.assistant import Assistant, Delta, Finished
    from shepherd.config import Config
    from shepherd.inference import Engine, EngineSettings

    turns = Turns()
    config = Config(
        injection_retention=retention, temperature=0.0, max_tokens=ANSWER_TOKENS, archive_turns=False
    )
    with Engine(model, settings=EngineSettings(n_ctx=N_CTX, n_threads=1, draft="off")) as engine:
        assistant = Assistant(engine, memory, config=config, user_id=USER)  # type: ignore[arg-type]
        context = engine.model.context_address
        _read_one_token(engine)
        for question in questions:
            counted, held = _counted(context), len(engine.decoder.mirror_ids)
            asked, first = time.perf_counter(), 0.0
            for event in assistant.ask(question):
                if isinstance(event, Delta) and not first:
                    first = time.perf_counter() - asked
                if isinstance(event, Finished):
                    stats, turns.injected = event.stats, turns.injected + bool(event.injection)
            engine.decoder.wait_idle()
            decoded, grown = _counted(context) - counted, len(engine.decoder.mirror_ids) - held
            turns.decoded.append(decoded)
            turns.grown.append(grown)
            turns.ttft_ms.append(1e3 * first)
            # The engine's own counters tell the same as llama.cpp's.
            assert stats.decoded_tokens == stats.prompt_tokens - stats.reused_tokens
            assert stats.prompt_tokens + (decoded - stats.decoded_tokens) == len(engine.decoder.mirror_ids)
    return turns


def _read_one_token(engine: object) -> None:
    # llama.cpp reports one token where it has counted none: take the first steps before counting.
    from shepherd.types import Sampling

    with engine.complete([40, 41], sampling=Sampling(temperature=0.0), max_tokens=3) as generation:  # type: ignore[attr-defined]
        for _ in generation:
            pass
    engine.decoder.wait_idle()  # type: ignore[attr-defined]
    engine.decoder.forget()  # type: ignore[attr-defined]


def _peer(model: Path, memory: object, questions: list[str]) -> Turns:
    from llama_cpp import Llama

    from shepherd.prompt.system_prompt import render_system

    turns = Turns()
    llama = Llama(str(model), n_ctx=N_CTX, n_threads=1, n_threads_batch=1, verbose=False)
    messages = [{"role": "system", "content": render_system(memory=True).text}]
    for question in questions:
        counted = _counted(llama.ctx)
        asked, first, answer = time.perf_counter(), 0.0, ""
        enriched = memory.enrich(question)  # type: ignore[attr-defined]
        turns.injected += enriched != question
        messages.append({"role": "user", "content": enriched})
        for chunk in llama.create_chat_completion(
            messages, temperature=0.0, repeat_penalty=1.0, max_tokens=ANSWER_TOKENS, stream=True
        ):
            piece = chunk["choices"][0]["delta"].get("content", "")
            first = first or (time.perf_counter() - asked if piece else 0.0)
            answer += piece
        messages.append({"role": "assistant", "content": answer})
        turns.decoded.append(_counted(llama.ctx) - counted)
        turns.ttft_ms.append(1e3 * first)
    return turns


def test_every_token_is_read_once(benchmark, model: Path, memory: object, data: corpus.Corpus) -> None:
    questions = _questions(data)

    keep = benchmark.pedantic(_shepherd, args=(model, memory, questions, "keep"), rounds=1)
    strip = _shepherd(model, memory, questions, "strip")
    peer = _peer(model, memory, questions)

    print(f"\n{N_TURNS} turns over {N_MEMORIES:,} memories, data {data.digest[:12]}:")
    sides = {"keep": keep, "strip": strip, "llama_cpp.Llama": peer}
    print(*(turns.line(name, sum(keep.grown)) for name, turns in sides.items()), sep="\n")
    assert keep.injected == N_TURNS
    assert keep.decoded == keep.grown

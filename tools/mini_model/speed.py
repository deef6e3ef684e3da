"""Measure how fast Shepherd's engine is with a model: `python speed.py MODEL.gguf --report evaluation.json`.

Needs the package (`pip install .`). Conversations of the exam are answered, greedy, by one thread and by two;
the best of several rounds counts, since others share the machine.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from evaluate import samples

from shepherd.inference import Engine, EngineSettings
from shepherd.types import Message, Sampling

__all__ = ["speed"]


def speed(model: Path, threads: int, count: int, rounds: int) -> dict[str, float]:
    """Tokens per second read and written, and milliseconds until the model is loaded."""
    prompts = [
        [Message(role, text) for role, text in messages[:-1]]
        for job in ("facts", "history")
        for messages in samples(job, count, held_out=False, seed=2026)
    ]
    read, written, load = 0.0, 0.0, float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        with Engine(model, settings=EngineSettings(n_threads=threads)) as engine:
            load = min(load, 1000 * (time.perf_counter() - started))
            stats = []
            for messages in prompts:
                with engine.generate(messages, sampling=Sampling(temperature=0.0)) as answer:
                    for _piece in answer:
                        pass
                stats.append(answer.stats)
        read = max(read, 1000 * sum(s.decoded_tokens for s in stats) / sum(s.prefill_ms for s in stats))
        written = max(
            written, 1000 * sum(s.generated_tokens for s in stats) / sum(s.decode_ms for s in stats)
        )
    return {"load_ms": load, "read_tokens_s": read, "decode_tokens_s": written}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--count", type=int, default=100, help="conversations of each of two kinds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--report", type=Path, help="the report of evaluate.py to put the figures into")
    options = parser.parse_args()
    figures = {
        f"threads_{threads}": speed(options.model, threads, options.count, options.rounds)
        for threads in (1, 2)
    }
    print(json.dumps(figures, indent=1))
    if options.report:
        report = json.loads(options.report.read_text(encoding="utf-8"))
        report["speed"] = figures
        options.report.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

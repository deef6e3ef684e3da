"""kill -9 of a process with many conversations, and the next turn of each in another process.

    python -m bench.restarts MODEL OPTIONS

is the process that is killed: it answers in each conversation, prints them when all are on disk, and then
continues another one.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Restart", "restart"]

_SYSTEM = "you are a helpful assistant of the user. please remember what is said. "
_LINE = "and this is the {}th thing of conversation {}, about the dog and the house. "
_NEW = "and now, what is the name of the dog?"
_OWNER = "0" * 32


@dataclass(frozen=True, slots=True)
class Restart:
    """Medians over all conversations; `n_decoded` and `n_new` are sums."""

    n: int
    n_tokens: int
    n_decoded: int
    n_new: int
    first_ms: float
    warm_ms: float
    size_mb: float


def _engine(model: str, options: dict[str, Any]) -> Any:
    from shepherd.inference import Engine, EngineSettings

    settings = EngineSettings(
        n_ctx=options["n_ctx"],
        n_threads=options["n_threads"],
        slots=options["slots"],
        cache_disk_bytes=1 << 40,
    )
    return Engine(model, settings=settings, is_trusted=True)


def _talk(engine: Any, number: int, n_tokens: int) -> list[Any]:
    """Return a conversation of about that many tokens that the user has begun."""
    from shepherd.types import Message

    system, line = Message("system", _SYSTEM), _LINE.format(number, number)
    n_lines = max(1, (n_tokens - engine.count_tokens(_SYSTEM)) // engine.count_tokens(line))
    return [system, Message("user", "".join(_LINE.format(i, number) for i in range(n_lines)))]


def _ask(engine: Any, talk: list[Any], *, n: int = 4) -> tuple[Any, float]:
    """Answer; return what it cost, and the milliseconds until the first token was there."""
    from shepherd.types import Sampling

    started = time.perf_counter()
    first_ms = 0.0
    with engine.generate(talk, sampling=Sampling(temperature=0), max_tokens=n, owner=_OWNER) as answer:
        for _ in answer:
            first_ms = first_ms or 1e3 * (time.perf_counter() - started)
    talk.append(answer.message())
    return answer.stats, first_ms or 1e3 * (time.perf_counter() - started)


def restart(model: str | Path, folder: Path, **options: Any) -> Restart:
    """Kill the process and continue each conversation; `folder` is the cache folder of both.

    Options: n conversations of n_tokens, slots, n_ctx, n_threads.
    """
    from shepherd.types import Message

    os.environ["XDG_CACHE_HOME"] = str(folder)
    command = [sys.executable, "-m", "bench.restarts", str(model), json.dumps(options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = child.stdout.readline()
        assert said, f"the process ended with status {child.wait()}"
        child.send_signal(signal.SIGKILL)
    talks = json.loads(said)
    cold, warm, n_decoded, n_new, size = [], [], 0, 0, 0
    with _engine(str(model), options) as engine:
        size = engine.kept().size_bytes
        for number, (text, ids, n_held) in enumerate(talks):
            talk = _talk(engine, number, options["n_tokens"])
            talk += [Message("assistant", text, token_ids=tuple(ids)), Message("user", _NEW)]
            stats, first_ms = _ask(engine, talk)
            cold.append(first_ms)
            n_decoded += stats.decoded_tokens
            n_new += stats.prompt_tokens - n_held
            talk.append(Message("user", _NEW))
            warm.append(_ask(engine, talk)[1])
    return Restart(
        len(talks),
        options["n_tokens"],
        n_decoded,
        n_new,
        statistics.median(cold),
        statistics.median(warm),
        size / 1e6,
    )


def main() -> None:
    """Be the process that is killed."""
    model, options = sys.argv[1], json.loads(sys.argv[2])
    talks = []
    with _engine(model, options) as engine:
        for number in range(options["n"]):
            talk = _talk(engine, number, options["n_tokens"])
            stats, _ = _ask(engine, talk)
            # The last token of an answer that reached its limit is not in the cache.
            talks.append((talk[-1].raw, talk[-1].token_ids, stats.prompt_tokens + stats.generated_tokens - 1))
        while engine.kept().n < options["n"]:
            time.sleep(0.01)
        print(json.dumps(talks), flush=True)
        talk = _talk(engine, options["n"], options["n_tokens"])
        while True:
            _ask(engine, talk, n=64)
            del talk[2:]


if __name__ == "__main__":
    main()

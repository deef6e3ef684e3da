"""What does a turn cost, and a token, beside llama_cpp.Llama, llama-cpp-python's server and llama-server?

All four run the same library of llama.cpp on the same model with the same threads, batches and KV type, flash
attention off, greedy, and have the same conversations (talks.py). Shepherd and llama_cpp.Llama are used as
libraries, the servers over HTTP, streamed, by a client that parses after the clock has stopped; what a side
says of its own times, without HTTP or Python, is in brackets. Rows with "shift" move cells of the KV cache,
which is an approximation; "split" gives each of eight slots an eighth of the window.

Nothing is drafted in these scenarios: each token is a batch on every side. Drafts are measured by themselves,
with models that recite (drafts.py).

    python -m pytest bench/test_turns.py --benchmark-only -s

    SHEPHERD_BENCH_TURNS=0.5b       or tiny (plain attention), sliding, recurrent, hybrid; several with commas
    SHEPHERD_BENCH_MODELS=FOLDER    where models are kept: the 0.5b takes half a minute to write, 427 MB
    SHEPHERD_BENCH_ROUNDS=3         times that each scenario is run, sides taking turns
    SHEPHERD_BENCH_SIDES=a,b        only those whose name begins so
    SHEPHERD_BENCH_SCENARIOS=a,b    likewise; "drafts" are the drafts
    SHEPHERD_BENCH_RESULTS=FILE     write the figures there, as JSON
"""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench import drafts, recited_models, talk_models, talks
from bench.engines import (
    HOW_TO_GET_IT,
    LLAMA_SERVER,
    Library,
    LlamaServer,
    PythonServer,
    ShepherdServer,
    Side,
    Turn,
)
from bench.small import IN_SMALL, JUDGED, count, sized

KINDS = os.environ.get("SHEPHERD_BENCH_TURNS", "tiny").split(",")
ROUNDS = count("SHEPHERD_BENCH_ROUNDS", 3, 1)
WANTED = tuple(os.environ.get("SHEPHERD_BENCH_SIDES", "").split(","))
SCENARIOS = tuple(os.environ.get("SHEPHERD_BENCH_SCENARIOS", "").split(","))
RESULTS = os.environ.get("SHEPHERD_BENCH_RESULTS", "")
USER = "steve"
CLIENTS = 8
SIZES = {"0.5b": talks.Size(turns=3, answer=8, long_answer=16, sentences=1, clients_turns=2, history=3)}
SIZE = sized(
    talks.Size(turns=8, answer=24, long_answer=64),
    talks.Size(turns=4, answer=8, long_answer=16, clients_turns=2, history=4),
)
Scenario = Callable[[Side, int, talks.Size], list[Turn]]


_TIMES = ("first_ms", "inner_first_ms", "turn_ms", "inner_turn_ms", "cpu_ms")
# Where llama-server decodes four tokens less. It keeps a checkpoint a little before the end of the prompt;
# ours lies behind the messages, where a template's change of what asks for an answer cannot spoil it.
_LOST = {
    (kind, scenario) for kind in ("hybrid", "recurrent") for scenario in ("thinking dropped", "long answer")
}


@dataclass
class Figures:
    """Figures of one side in one scenario: tokens read and asked by round and turn; times of later turns."""

    decoded: list[list[int]] = field(default_factory=list)
    prompts: list[list[int]] = field(default_factory=list)
    texts: list[list[str]] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)
    inner_first_ms: list[float] = field(default_factory=list)
    turn_ms: list[float] = field(default_factory=list)
    inner_turn_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    per_s: list[float] = field(default_factory=list)

    @property
    def later(self) -> list[int]:
        """Tokens read by the turns that something came before."""
        return [n for turns in self.decoded for n in turns[1:] or turns]

    def summary(self) -> dict[str, Any]:
        """Return the figures to save in a file: least and median of each time."""
        times = {name: getattr(self, name) for name in _TIMES if getattr(self, name)}
        return {
            "decoded_per_turn": round(statistics.mean(self.later), 1),
            **{
                name: {"best": round(min(values), 2), "median": round(statistics.median(values), 2)}
                for name, values in times.items()
            },
        }

    def add(self, turns: list[Turn], measured: list[Turn]) -> None:
        """One more round."""
        self.decoded.append([turn.decoded for turn in turns])
        self.prompts.append([turn.prompt for turn in turns])
        self.texts.append([turn.text for turn in turns])
        for turn in measured:
            self.first_ms.append(1e3 * turn.first_s)
            self.turn_ms.append(1e3 * (turn.first_s + turn.said_s))
            self.cpu_ms.append(1e3 * turn.cpu_s)
            # Of the whole turn: a reader that is woken late finds the answer all there.
            self.per_s.append(len(turn.text) / (turn.first_s + turn.said_s))
            if turn.inner_first_s is not None and turn.inner_said_s is not None:
                self.inner_first_ms.append(1e3 * turn.inner_first_s)
                self.inner_turn_ms.append(1e3 * (turn.inner_first_s + turn.inner_said_s))


@dataclass
class Run:
    """All figures of one kind of model: by scenario, then side."""

    kind: str
    size: talks.Size
    scenarios: dict[str, dict[str, Figures]] = field(default_factory=dict)
    # At the start and at the end, by side and slots.
    memory_mb: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    per_token_us: dict[str, list[float]] = field(default_factory=dict)
    inside_us: list[float] = field(default_factory=list)
    together_per_s: dict[str, list[float]] = field(default_factory=dict)
    # Of the first eight at once, together.
    cold_decoded: dict[str, list[int]] = field(default_factory=dict)


def _makers(
    model: Path,
    folder: Path,
    slots: int,
    *,
    shifts: bool = False,
    is_restarted: bool = False,
    memory: str = "",
) -> dict[str, Callable[[], Side]]:
    """Return the functions that start the sides, by name."""
    options: dict[str, Any] = {
        "model": str(model), "n_ctx": 8192, "n_threads": 1, "n_batch": 512, "slots": slots,
        "cache_bytes": 512 << 20, "user": USER,
    }  # fmt: skip
    # llama-cpp-python's server keeps conversations in RAM or on the disk, as it was started.
    disk = {"disk": str(folder)} if is_restarted else {}
    makers: dict[str, Callable[[], Side]] = {
        "Shepherd": lambda: Library("Shepherd", "shepherd", {**options, **disk, "memory": memory}),
        "shepherd serve": lambda: ShepherdServer("shepherd serve", {**options, "memory": memory}),
        "llama_cpp.Llama": lambda: Library("llama_cpp.Llama", "llama", options),
        "llama-cpp-python's server": lambda: PythonServer("llama-cpp-python's server", {**options, **disk}),
        "llama-server": lambda: LlamaServer("llama-server", options, folder),
    }
    if is_restarted:
        # It keeps what is stored in a memory, which the others have not: the engine's is measured here.
        del makers["shepherd serve"]
    if shifts:
        makers["Shepherd, shift"] = lambda: Library(
            "Shepherd, shift", "shepherd", {**options, "kv_edit": "shift"}
        )
        makers["llama-server, shift"] = lambda: LlamaServer(
            "llama-server, shift", {**options, "reuse": 8}, folder
        )
    if slots > 1:
        makers["llama-server, split"] = lambda: LlamaServer(
            "llama-server, split", {**options, "split": True}, folder
        )
    absent = ("llama-server",) if _is_without_llama_server() else ()
    return {
        name: make for name, make in makers.items() if name.startswith(WANTED) and not name.startswith(absent)
    }


def _is_without_llama_server() -> bool:
    """In small the others are played without it, where it was not built; for figures it has to be there."""
    return IN_SMALL and not Path(LLAMA_SERVER).is_file()


@contextmanager
def _sides(makers: dict[str, Callable[[], Side]]) -> Iterator[list[Side]]:
    """All of them, started, and warm: the first turn of a process is not what is measured."""
    with ExitStack() as stack:
        sides = []
        for make in makers.values():
            sides.append(make())
            stack.callback(sides[-1].close)
            sides[-1].turn([["user", "hello"]], 4)
        yield sides


def _play(run: Run, sides: list[Side], name: str, scenario: Scenario, salt: int) -> None:
    """All rounds of one scenario, sides taking turns."""
    figures = run.scenarios.setdefault(name, {})
    for n in range(ROUNDS):
        for side in sides[:: -1 if n % 2 else 1]:
            turns = scenario(side, salt + n, run.size)
            measured = turns[1:]
            if name == "eight at once":
                run.cold_decoded.setdefault(side.name, []).append(sum(t.decoded for t in turns[:CLIENTS]))
                # Whether the first eight find each other's system prompt is a matter of luck with some.
                turns = measured = turns[CLIENTS:]
                seconds = max(turn.first_s + turn.said_s for turn in measured)
                said = sum(len(turn.text) for turn in measured)
                run.together_per_s.setdefault(side.name, []).append(said / seconds)
            if name == "long answer":
                # A reader over HTTP sees when it was woken, not when a token was there.
                for turn in measured if not side.over_http or turns[0].inner_said_s else ():
                    n_more = len(turn.text) - 1
                    said_s = turn.inner_said_s or turn.said_s
                    run.per_token_us.setdefault(side.name, []).append(1e6 * said_s / n_more)
                    if turn.model_s:
                        run.inside_us.append(1e6 * turn.model_s / (n_more + 1))
            figures.setdefault(side.name, Figures()).add(turns, measured)


def _measure(kind: str, folder: Path, model: Path) -> Run:
    from shepherd import Memory
    from shepherd.benchmark import corpus

    run = Run(kind, SIZES.get(kind, SIZE))
    path = str(folder / "memory.db")
    with Memory(path, user_id=USER, keeps_secrets=True) as memory:  # see test_writes.py
        for row in corpus.build(2_000, 1, n_questions=1).memories:
            memory.store_memory(row.question, row.answer, timestamp=row.timestamp)
        memory.set_fact("name", "steve")
        memory.set_fact("location", "texas")
        alone: dict[str, Scenario] = {
            "append": talks.append,
            "tail stripped": talks.tail_stripped,
            "thinking dropped": talks.thinking_dropped,
            "oldest turn evicted": talks.oldest_evicted,
            "stateless, injected": talks.injected(memory.enrich),
            "long answer": talks.long_answer,
        }
        # Others cannot shift.
        makers = _makers(model, folder, 1, shifts=kind in ("tiny", "0.5b"), memory=path)
        _play_all(run, makers, alone, 100)
    together: dict[str, Scenario] = {
        "2 clients in turns": talks.alternating(2),
        "8 clients in turns": talks.alternating(CLIENTS),
        "eight at once": talks.eight_at_once,
    }
    _play_all(run, _makers(model, folder, CLIENTS), together, 1000)
    if "restart".startswith(SCENARIOS):
        _restart(run, folder, model)
    return run


def _play_all(
    run: Run, makers: dict[str, Callable[[], Side]], scenarios: dict[str, Scenario], salt: int
) -> None:
    wanted = {name: scenario for name, scenario in scenarios.items() if name.startswith(SCENARIOS)}
    if not wanted:
        return
    with _sides(makers) as sides:
        started = {side.name: side.memory_mb for side in sides}
        for i, (name, scenario) in enumerate(wanted.items()):
            shifting = name in ("tail stripped", "thinking dropped", "oldest turn evicted")
            playing = [side for side in sides if shifting or "shift" not in side.name]
            _play(run, playing, name, scenario, salt + 100 * i)
        for side in sides:
            sizes = (started[side.name], side.memory_mb)
            run.memory_mb.setdefault(side.name, {})[f"{side.options['slots']} slots"] = sizes


def _restart(run: Run, folder: Path, model: Path) -> None:
    figures = run.scenarios.setdefault("restart", {})
    for n in range(ROUNDS):
        for name, start in _makers(model, folder, 1, is_restarted=True).items():
            path = folder / f"session-{n}-{name.partition(' ')[0]}"
            turn = talks.restarted(start(), start, path, 3000 + n, run.size)
            figures.setdefault(name, Figures()).add([turn], [turn])


def _line(name: str, figures: Figures) -> str:
    cells = [f"{statistics.mean(figures.later):8.1f}"]
    for outer, inner in (
        (figures.first_ms, figures.inner_first_ms),
        (figures.turn_ms, figures.inner_turn_ms),
    ):
        told = f" ({min(inner):.2f})" if inner else ""
        cells.append(f"{min(outer):8,.2f}{told:<10} {statistics.median(outer):8,.2f}")
    cells.append(f"{statistics.median(figures.cpu_ms):9,.2f}")
    return f"  {name:<28}{'  '.join(cells)} {max(figures.per_s):11,.0f}"


def _print(run: Run) -> None:
    print(f"\n\n{run.kind}: {ROUNDS} rounds, {run.size}")
    if _is_without_llama_server():
        print(f"NOT AMONG THEM: {HOW_TO_GET_IT}")
    columns = (
        "decoded   first token, ms: best, median  whole turn, ms: best, median    CPU, ms  tokens/s, best"
    )
    print(f"{'':<31}{columns}")
    for scenario, sides in run.scenarios.items():
        print(scenario)
        for name, figures in sides.items():
            print(_line(name, figures))
        if scenario == "eight at once":
            for name, rates in run.together_per_s.items():
                print(f"  {name:<28}{statistics.median(rates):10,.0f} tokens/s of all eight", end="")
                print(f"; the first time {statistics.median(run.cold_decoded[name]):,.0f} tokens read")
    inside = min(run.inside_us) if run.inside_us else 0.0
    print(f"a token of a long answer: {inside:.1f} us inside llama.cpp, and beside it, at best of {ROUNDS}")
    for name, times in run.per_token_us.items():
        print(f"  {name:<28}{min(times) - inside:10.1f} us")
    print("resident, MB, at the start and at the end")
    for name, sizes in run.memory_mb.items():
        said = "".join(f"  {slots}: {first:.1f} {last:.1f}" for slots, (first, last) in sizes.items())
        print(f"  {name:<28}{said}")


def _summary(run: Run) -> dict[str, Any]:
    per_token_us = {name: round(min(times), 1) for name, times in run.per_token_us.items()}
    rates = {name: round(statistics.median(values)) for name, values in run.together_per_s.items()}
    return {
        "kind": run.kind,
        "size": asdict(run.size),
        "scenarios": {
            scenario: {name: figures.summary() for name, figures in sides.items()}
            for scenario, sides in run.scenarios.items()
        },
        "us_per_token_best": per_token_us,
        "us_per_token_inside_llama_cpp": round(min(run.inside_us), 1) if run.inside_us else None,
        "tokens_per_s_of_eight_at_once_median": rates,
        "tokens_read_by_first_eight_at_once": run.cold_decoded,
        "resident_mb": run.memory_mb,
    }


def _write(runs: list[Run]) -> None:
    packages = ("llama-cpp-python", "shepherd-llm")
    data = {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, 1 compute thread",
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "rounds": ROUNDS,
        "runs": [_summary(run) for run in runs],
    }
    Path(RESULTS).write_text(json.dumps(data, indent=1) + "\n")


def _check(run: Run) -> None:
    """Tokens do not depend on the machine: those are asserted, times are printed."""
    for scenario, sides in run.scenarios.items():
        ours = sides.get("Shepherd")
        for name, figures in sides.items():
            if ours is None or figures is ours or "shift" in name:
                continue
            if scenario != "stateless, injected":
                assert figures.prompts == ours.prompts, f"{scenario}: {name} was asked something else"
            is_lost = name.startswith("llama-server") and (run.kind, scenario) in _LOST
            assert is_lost or sum(ours.later) <= sum(figures.later), f"{scenario}: {name} decoded less"
    append = run.scenarios.get("append", {}).get("Shepherd")
    if append is not None:
        # The last token of an answer is decoded with the next turn.
        more = run.size.answer - 1
        new = [now - before - more for prompts in append.prompts for before, now in pairwise(prompts)]
        assert append.later == new


def test_drafts_make_an_answer_that_repeats_something_faster(
    benchmark: Any, folder: Path, tmp_path: Path
) -> None:
    """Sides and rounds are not chosen: the figures are compared with each other."""
    if not "drafts".startswith(SCENARIOS):
        pytest.skip("other scenarios were asked for")
    kinds = [kind for kind in KINDS if kind in recited_models.SIZES]
    runs: dict[str, drafts.Rows] = {}

    def measure() -> None:
        for kind in kinds:
            size = recited_models.SIZES[kind]
            model = folder / f"recited-{kind}.gguf"
            if not model.exists():
                recited_models.write(size, model)
            runs[kind] = drafts.measure(
                model,
                size,
                drafts.makers(model, tmp_path, has_llama_server=not _is_without_llama_server()),
                ROUNDS,
            )
            drafts.show(kind, runs[kind])

    try:
        benchmark.pedantic(measure, rounds=1)
    except FileNotFoundError as error:
        pytest.fail(str(error))
    if RESULTS:
        drafts.write(runs, Path(RESULTS))
    for kind, rows in runs.items():
        # A tiny model's token takes less time than the clock can tell apart.
        drafts.check(rows, is_judged=JUDGED and kind != "tiny")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(os.environ.get("SHEPHERD_BENCH_MODELS") or tmp_path_factory.mktemp("turns"))


def test_a_turn_decodes_no_more_than_with_any_other_engine(
    benchmark: Any, folder: Path, tmp_path: Path
) -> None:
    runs = []

    def measure() -> None:
        for kind in KINDS:
            work = tmp_path / kind
            work.mkdir()
            runs.append(_measure(kind, work, talk_models.make(kind, folder, n_ctx=8192)))
            _print(runs[-1])

    try:
        benchmark.pedantic(measure, rounds=1)
    except FileNotFoundError as error:
        pytest.fail(str(error))
    if RESULTS:
        _write(runs)
    for run in runs:
        _check(run)

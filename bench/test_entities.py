"""What do entities add to a turn: their part of a plan, and noting it, with 1,000 of which 60 are in focus?

A plan resolves the message, ranks and fits; the limit is 1 ms at the median. Noting a turn comes after the
answer, and saving it writes the rows that changed. Answers are checked before they are timed.

    python -m pytest bench/test_entities.py --benchmark-only -s
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.small import JUDGED, sized
from shepherd.entities import EntityRegistry, Known, SessionEntities, fit_entities, rank_entities
from shepherd.memory import Memory

N_ENTITIES, N_KNOWN, N_TURNS = sized((1_000, 2_000, 300), (100, 200, 10))
PLAN_LIMIT_MS = 1.0
QUESTION = "Does my sister still work with Anna at Initech, and did she tell Velmor Taska about the trip?"


def _name(chance: random.Random) -> str:
    def word() -> str:
        return "".join(chance.choice("bdfglmnprstv") + chance.choice("aeiou") for _ in range(3)).capitalize()

    return f"{word()} {word()}"


def _registry() -> EntityRegistry:
    chance = random.Random(3)
    names = list(dict.fromkeys(_name(chance) for _ in range(4 * N_ENTITIES)))
    known = [Known(f"{name} {n}", "object", node_id=n) for n, name in enumerate(names[:N_KNOWN], 1)]
    registry = EntityRegistry(known=known)
    waiting = iter(names[N_KNOWN : N_KNOWN + N_ENTITIES])
    for n in range(N_ENTITIES // 5):
        registry.register(f"I met {next(waiting)}, {next(waiting)}, {next(waiting)} and {next(waiting)}.")
        registry.register(f"We saw {next(waiting)}.")
        if n % 3 == 0:
            registry.register("My sister Anna works at Initech Corp. Velmor Taska is a pilot.")
        registry.end_turn()
    for entity in list(registry)[:200]:
        for attribute in ("email", "phone", "location", "hobby", "note"):
            registry.set_attribute(entity.id, attribute, f"{attribute} of {entity.name}")
    return registry


def _quartiles_ms(call: Callable[[], object], n: int) -> list[float]:
    for _ in range(5):
        call()
    times = []
    for _ in range(n):
        began = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.quantiles(times, n=4)


def test_part_of_a_plan(benchmark: Any) -> None:
    registry = _registry()

    def plan() -> list[str]:
        ranked = rank_entities(registry, registry.resolve(QUESTION))
        return [text.name for text in fit_entities(registry, ranked, lambda text: len(text) // 4, 500)]

    assert len(registry) > N_ENTITIES
    assert {"Anna", "Initech Corp", "Velmor Taska"} <= set(plan())
    benchmark.pedantic(plan, rounds=N_TURNS, warmup_rounds=5)
    low, median, high = _quartiles_ms(plan, N_TURNS)
    size = f"{len(registry)} entities, {len(registry.salient())} in focus"
    print(f"\n  {size}: {median:.3f} ms [{low:.3f} {high:.3f}]")
    assert median <= PLAN_LIMIT_MS or not JUDGED, "the part that entities have in a plan is above its limit"


def test_noting_and_saving_a_turn(benchmark: Any, tmp_path: Path) -> None:
    registry = _registry()
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        session_id = memory.start_session()
        kept = SessionEntities(memory.transactions, "steve")
        kept.save(session_id, registry)

        def note() -> None:
            registry.register(QUESTION)
            registry.register("She told Velmor Taska, of course.", "assistant")
            registry.end_turn()

        benchmark.pedantic(note, rounds=N_TURNS, warmup_rounds=5)
        noting = _quartiles_ms(note, N_TURNS)
        saving = _quartiles_ms(lambda: (note(), kept.save(session_id, registry)), 100)
        loading = _quartiles_ms(lambda: kept.load(session_id), 10)
        assert len(kept.load(session_id)) == len(registry)
    for name, (low, median, high) in (("note", noting), ("note and save", saving), ("load", loading)):
        print(f"\n  {name}: {median:.3f} ms [{low:.3f} {high:.3f}]")

"""Three machines with partitions, kills and clocks a day apart: in the end, all export the same."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd.errors import UsageError
from shepherd.memory import learned
from tests.examples import examples
from tests.sync.replicas import Machine, same_every_time, settle

DAY = 86_400
ONCE = "stored once"
KEYS = ("location", "name", "favoriteColor", "favorite_color")
ACTIONS = (
    *("remember", "once", "edit", "forget", "pin", "set", "learn", "unlearn", "clear", "wipe", "undo"),
    *("node", "change", "remove", "connect", "disconnect", "tag", "untag"),
    *("sync", "sync", "exchange", "exchange", "exchange", "kill", "carry", "tear"),
)
LONG = 500
Step = tuple[str, int, int, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.integers(0, 2), st.integers(0, 5), st.integers(0, 5)),
    min_size=5,
    max_size=40,
)


def act(machines: list[Machine], action: str, which: int, a: int, b: int, time: int) -> None:
    machine = machines[which]
    memory, knowledge = machine.memory, machine.knowledge
    # In an order that does not depend on the machine: all of them change the same things.
    ids = [one.id for one in sorted(memory.list_memories(), key=lambda one: (one.question, one.answer))]
    nodes = [
        node.id for node in sorted(knowledge.list_nodes(), key=lambda node: (node.title, node.created_at))
    ]
    edges = [edge.id for edge in knowledge.list_edges()]
    one = ids[a % len(ids)] if ids else 0
    node = nodes[a % len(nodes)] if nodes else 0
    other = machines[(which + 1 + a % 2) % 3]

    def connect() -> Any:
        second = nodes[b % len(nodes)] if nodes else 0
        return node != second and knowledge.connect(node, second, f"because {b}", type="supports")

    changes: dict[str, Any] = {
        "remember": lambda: memory.store_memory(f"question {a}", f"answer {b}"),
        "once": lambda: memory.store_memory(f"once {time}", ONCE),
        "edit": lambda: memory.edit_memory(one, answer=f"edited {b}"),
        "forget": lambda: memory.delete_memory(one),
        "pin": lambda: memory.pin_memory(one, bool(b % 2)),
        "set": lambda: memory.set_fact(KEYS[a % 4], f"set {b}"),
        "learn": lambda: machine.learn(KEYS[a % 4], f"learned {b}", f"session {b % 2}"),
        "unlearn": lambda: memory.transactions.write(
            machine.user, lambda c: learned.forget_session(c, machine.user, f"session {b % 2}")
        ),
        "clear": lambda: memory.clear_fact(KEYS[a % 4]),
        "wipe": lambda: memory.clear_fact(KEYS[a % 4], with_history=True),
        "undo": memory.undo,
        "node": lambda: knowledge.add_node(f"node {a}", source_text=f"text {b}", dimensions=[f"tag {b % 2}"]),
        "change": lambda: knowledge.update_node(node, notes=f"note {b}", dimensions=[f"tag {b % 3}"]),
        "remove": lambda: knowledge.delete_node(node),
        "connect": connect,
        "disconnect": lambda: edges and knowledge.delete_edge(edges[a % len(edges)]),
        "tag": lambda: knowledge.set_dimension(f"tag {a % 3}", description=f"about {b}"),
        "untag": lambda: knowledge.delete_dimension(f"tag {a % 3}"),
        "sync": machine.sync,
        "kill": lambda: machine.sync(kill_at=1 + a * 6 + b),
        "carry": lambda: machine.carry_to(other),
        "tear": lambda: machine.carry_to(other, share=b / 6),
    }
    if action == "exchange":
        machine.sync()
        machine.carry_to(other)
        other.sync()
        other.carry_to(machine)
        return
    if action in ("sync", "kill", "carry", "tear"):
        changes[action]()
        return
    record = memory.get_memory(one)
    if action == "forget" and record is not None and record.answer == ONCE:
        machines[0].forgotten.add(record.question)
    try:
        machine.do(changes[action], time)
    except UsageError:  # the same text as another memory
        return


def begin(machines: list[Machine]) -> None:
    """Give all machines the same few things."""
    first = machines[0]
    for n in range(2):
        first.memory.store_memory(f"question {n}", "first")
        first.memory.set_fact(KEYS[n], "first")
    nodes = [first.knowledge.add_node(f"node {n}", source_text="first") for n in range(2)]
    first.knowledge.connect(nodes[0].id, nodes[1].id, "first")
    settle(machines, 2)


def converge(steps: Iterable[Step]) -> None:
    """Let three machines do the steps, and settle; in the end they are equal, and nothing has come back."""
    for _ in same_every_time():
        with tempfile.TemporaryDirectory() as folder:
            machines = [
                Machine(Path(folder), name, skew) for name, skew in (("a", 0), ("b", -DAY), ("c", DAY))
            ]
            begin(machines)
            for n, step in enumerate(steps):
                act(machines, *step, 1_700_000_000 + n * 60)
            settle(machines)
            exports = [machine.exported() for machine in machines]
            checks = [machine.memory.check() for machine in machines]
            for machine in machines:
                machine.close()

            assert exports[0] == exports[1] == exports[2]
            kept = {line["question"] for line in map(json.loads, exports[0]) if line.get("answer") == ONCE}
            assert not kept & machines[0].forgotten
            assert all(check.ok for check in checks), checks


@settings(max_examples=examples(12))
@given(STEPS)
def test_all_machines_export_the_same_in_the_end(steps):
    converge(steps)


@settings(max_examples=1)
@given(st.integers(0, 1 << 32))
def test_machines_that_have_long_been_in_use_export_the_same(seed):
    # 10,000 with --deep.
    chosen = Random(seed)
    converge(
        [
            (chosen.choice(ACTIONS), chosen.randrange(3), chosen.randrange(6), chosen.randrange(6))
            for _ in range(examples(LONG))
        ]
    )

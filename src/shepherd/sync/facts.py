"""Facts: their changes are what is synced, and what holds follows from them, on every machine alike.

A change knows the changes that it replaced on its machine. Those that no other one replaces contradict each
other if there are several: one that the user set wins over one that was learned, of equals the newer one. If
the winner is not the latest in the history, an entry is added that says so, and the machine that had learned
the other value proposes it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import uuid4

from shepherd.memory import forgetting, learned
from shepherd.memory.facts import Contradiction, find, fold_key
from shepherd.memory.records import Evidence
from shepherd.sync.merging import Merge
from shepherd.sync.records import Conflict, Operation, Register
from shepherd.sync.registers import Replica
from shepherd.transactions import Connection
from shepherd.types import Fact

__all__ = ["apply", "collect", "collect_deleted", "collect_unrecorded", "settle"]

_COLUMNS = "key, value, source, changed_at, valid_from, statement, session_id, message_id"
_NAMES = ("k", "v", "s", "at", "f", "w", "n")  # of a body, in the order of the columns
_LEARNED = "extraction"
# An entry of the history that a merge has added; other machines add the same.
_ADDED = "r"
# In a note and a body, once a change was written again: its order when it was written first.
_FIRST = "o"


@dataclass(frozen=True, slots=True)
class _Change:
    """A row of `fact_history` with its register."""

    register: Register
    key: str
    value: str | None
    source: str
    changed_at: int
    valid_from: int
    statement: str
    session: str
    message_id: int

    @property
    def columns(self) -> tuple[Any, ...]:
        return (self.key, self.value, self.source, self.changed_at, self.valid_from, self.statement,
                self.session, self.message_id)  # fmt: skip

    @property
    def order(self) -> tuple[int, str]:
        """The order of the change itself: its register gets a later one if only its sentence changes."""
        first = self.register.note.get(_FIRST)
        return (first[0], first[1]) if first else self.register.order

    @property
    def rank(self) -> tuple[bool, tuple[int, str], str]:
        """Order of precedence: a value that was not learned wins, then the newer one."""
        return self.source != _LEARNED, self.order, self.register.gid

    @property
    def place(self) -> tuple[int, tuple[int, str], str]:
        """The order of the history."""
        return self.changed_at, self.order, self.register.gid


# ---- own changes


def collect(replica: Replica, local: int, at_ms: int, *, is_wipe: bool = False) -> str:
    """Write a change of a fact; return the fact, "" if the change is gone.

    `is_wipe`: all values that were recorded before it are forgotten.
    """
    rows = replica.connection.execute(f"SELECT {_COLUMNS} FROM fact_history WHERE id = ?", (local,))
    if not rows or replica.of_row(_ADDED, local):
        return ""
    topic = _topic(rows[0][0])
    known = replica.of_row("c", local)
    register = known[0] if known else Register("c", uuid4().hex, local, topic=topic)
    if is_wipe:
        # Forgetting is a change of its own: its order is that of now.
        register.note["x"] = 1
        register.note.pop(_FIRST, None)
    elif known:
        register.note.setdefault(_FIRST, list(register.order))
    if not known:
        heads = _heads(replica.of_topic(topic))
        register.note = {"r": sorted(head.gid for head in heads)}
        after = [head.stamp for head in heads]
    else:
        after = []
    replica.put(register, {**dict(zip(_NAMES, rows[0], strict=False)), **register.note}, at_ms, after=after)
    return topic


def collect_deleted(replica: Replica, local: int, at_ms: int) -> str:
    """Write that a change was undone or forgotten; return the fact, "" if no machine knows the change."""
    for register in replica.of_row(_ADDED, local):
        replica.delete(_ADDED, register.gid)
    topic = ""
    for register in replica.of_row("c", local):
        topic, register.topic = register.topic, ""
        replica.put(register, None, at_ms)
    return topic


def collect_wiped(replica: Replica, topic: str) -> None:
    """Write that all values of a fact were forgotten, if that is what is left of it."""
    changes = _changes(replica, topic)
    if not changes or any(change.value is not None for change in changes):
        return
    collect(replica, changes[-1].register.local, 0, is_wipe=True)


def collect_unrecorded(connection: Connection, user_id: str) -> None:
    """Add the changes that imports have made without a history; their triggers log them."""
    connection.execute(
        "INSERT INTO fact_history(user_id, key, value, source, changed_at, valid_from)"
        " SELECT user_id, key, value, 'import', updated_at, CASE valid_from WHEN 0 THEN updated_at ELSE"
        " valid_from END FROM facts f WHERE user_id = ? AND value IS NOT (SELECT h.value FROM fact_history h"
        " WHERE h.user_id = f.user_id AND h.key = f.key ORDER BY changed_at DESC, id DESC LIMIT 1)",
        (user_id,),
    )


# ---- changes of others


def apply(merge: Merge, operations: Iterable[Operation]) -> None:
    """Apply changes of facts, in the order of the frame."""
    topics: dict[str, None] = {}
    gone: dict[str, set[str]] = {}
    for operation in operations:
        if operation.body is None:
            register = merge.removed(operation)
            if register is not None:
                topics[register.topic] = None
                _remove(merge, register, gone)
        elif (accepted := merge.accepted(operation)) is not None:
            topics[_take(merge, accepted[0], operation.body)] = None
    for topic in topics:
        _wipe(merge, topic, gone)
        settle(merge.replica, topic)
        _tell(merge, topic)
    for topic, values in gone.items():
        # Sentences about other facts may have one of the values: that is a change of this machine.
        merge.later.append(partial(_forget_copies, merge, topic, values))


def _take(merge: Merge, register: Register, body: dict[str, Any]) -> str:
    """Store a change of another machine, or its sentence; return the fact."""
    connection = merge.replica.connection
    register.topic = _topic(body["k"])
    register.note = {name: body[name] for name in ("r", "x", _FIRST) if name in body}
    if register.local:
        connection.execute("UPDATE fact_history SET statement = ? WHERE id = ?", (body["w"], register.local))
    else:
        columns = (*(body[name] for name in _NAMES), 0)
        register.local = _insert_row(connection, merge.replica.user_id, columns)
    merge.replica.save(register)
    return register.topic


def _remove(merge: Merge, register: Register, gone: dict[str, set[str]]) -> None:
    """Remove the row of a change; its value joins those that are gone."""
    connection = merge.replica.connection
    rows = connection.execute("SELECT value FROM fact_history WHERE id = ?", (register.local,))
    if rows:
        gone.setdefault(register.topic, set()).update(value for (value,) in rows if value is not None)
        _delete_row(connection, register.local)
        merge.report.has_forgotten = True


def _wipe(merge: Merge, topic: str, gone: dict[str, set[str]]) -> None:
    """Remove the values of a fact that were recorded before all of them were forgotten."""
    changes = _changes(merge.replica, topic)
    wiped = max((c.order for c in changes if "x" in c.register.note), default=None)
    for change in changes if wiped else ():
        if change.value is not None and wiped is not None and change.order < wiped:
            _remove(merge, change.register, gone)
            merge.replica.put(change.register, None, 0, after=(wiped[0],))


def _forget_copies(merge: Merge, topic: str, values: set[str]) -> None:
    """Remove what was made of the values of a fact that has none any more."""
    changes = _changes(merge.replica, topic)
    if values and changes and all(change.value is None for change in changes):
        connection, user_id = merge.replica.connection, merge.replica.user_id
        learned.forget_fact(connection, user_id, changes[0].key, values)
        forgetting.copies_of_values(connection, user_id, values)


def _tell(merge: Merge, topic: str) -> None:
    """Report the changes of this machine that lost to one made without them, and propose what was learned."""
    replica = merge.replica
    changes = _changes(replica, topic)
    heads = _heads([change.register for change in changes])
    lost = {head.gid for head in heads if merge.is_unaware_of(head)}
    if not lost:
        return
    current = {head.gid for head in heads}
    winner = max((c for c in changes if c.register.gid in current), key=lambda c: c.rank)
    fact = find(replica.connection, replica.user_id, winner.key)
    for mine in changes:
        if mine.register.gid not in lost or mine is winner or mine.value == winner.value:
            continue
        kept = f"the other value is in its history: shepherd facts history {shlex.quote(winner.key)}"
        if mine.source == _LEARNED and winner.source != _LEARNED and fact is not None:
            evidence = Evidence(mine.statement, mine.session, mine.message_id)
            contradiction = Contradiction(fact, mine.value or "")
            since = mine.valid_from or mine.changed_at
            learned.propose(
                replica.connection, replica.user_id, contradiction, evidence, mine.changed_at, since
            )
            kept = "what was learned here is proposed: shepherd memory learned --waiting"
        merge.report.conflicts.append(Conflict(f"fact {winner.key}", kept))


# ---- what holds


def settle(replica: Replica, topic: str) -> None:
    """Let the fact and its history be what follows from its changes."""
    if not topic:
        return
    connection, user_id = replica.connection, replica.user_id
    changes = _changes(replica, topic)
    if (added := replica.find(_ADDED, topic)) is not None:
        _delete_row(connection, added.local)
        replica.delete(_ADDED, topic)
    if not changes:
        _write(connection, user_id, topic, None)
        return
    heads = {head.gid for head in _heads([change.register for change in changes])}
    winner = max((change for change in changes if change.register.gid in heads), key=lambda c: c.rank)
    _order(replica, changes)
    last = changes[-1]
    since = winner.changed_at
    if last is not winner:
        since = last.changed_at
        entry = (winner.key, winner.value, winner.source, since, winner.valid_from, "", "", 0)
        local = _insert_row(connection, user_id, entry)
        replica.save(Register(_ADDED, topic, local, topic=topic))
    fact = None
    if winner.value is not None:
        began = min(change.changed_at for change in changes)
        fact = Fact(winner.key, winner.value, began, since, winner.valid_from or winner.changed_at)
    _write(connection, user_id, topic, fact)


def _heads(registers: Sequence[Register]) -> list[Register]:
    """Return the changes that no other one replaces."""
    replaced = {gid for register in registers for gid in register.note.get("r", ())}
    return [register for register in registers if register.gid not in replaced]


def _changes(replica: Replica, topic: str) -> list[_Change]:
    """Return the changes of a fact in the order of its history."""
    found = []
    for register in replica.of_topic(topic):
        rows = replica.connection.execute(
            f"SELECT {_COLUMNS} FROM fact_history WHERE id = ?", (register.local,)
        )
        found += [_Change(register, *row) for row in rows]
    return sorted(found, key=lambda change: change.place)


def _order(replica: Replica, changes: Sequence[_Change]) -> None:
    """Number rows of the same second as on every other machine: their order is that of their ids."""
    connection = replica.connection
    for before, change in pairwise(changes):
        if change.changed_at == before.changed_at and change.register.local < before.register.local:
            former = change.register.local
            local = _insert_row(connection, replica.user_id, change.columns)
            _delete_row(connection, former)
            connection.execute("UPDATE learned SET change_id = ? WHERE change_id = ?", (local, former))
            change.register.local = local
            replica.save(change.register)


def _write(connection: Connection, user_id: str, topic: str, fact: Fact | None) -> None:
    rows = connection.execute("SELECT key FROM facts WHERE user_id = ?", (user_id,))
    for (key,) in rows:
        if _topic(key) == topic and (fact is None or key != fact.key):
            connection.execute("DELETE FROM facts WHERE user_id = ? AND key = ?", (user_id, key))
    if fact is None:
        return
    connection.execute(
        "INSERT INTO facts(user_id, key, value, created_at, updated_at, valid_from) VALUES(?, ?, ?, ?, ?, ?)"
        " ON CONFLICT(user_id, key) DO UPDATE SET value = excluded.value, created_at = excluded.created_at,"
        " updated_at = excluded.updated_at, valid_from = excluded.valid_from",
        (user_id, fact.key, fact.value, fact.created_at, fact.updated_at, fact.valid_from),
    )


def _topic(key: str) -> str:
    return fold_key(key) or key


def _insert_row(connection: Connection, user_id: str, columns: Sequence[Any]) -> int:
    [(local,)] = connection.execute(
        f"INSERT INTO fact_history(user_id, {_COLUMNS}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (user_id, *columns),
    )
    return int(local)


def _delete_row(connection: Connection, local: int) -> None:
    connection.execute("DELETE FROM fact_history WHERE id = ?", (local,))

"""Memories: what is written of a changed one, and what becomes of those that others changed.

Two machines may have stored the same memory by themselves. A row then has two registers or more, and shows
the values of the one with the smallest id; what is done to the row is done to all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import uuid4

from shepherd.memory import forgetting, memories, tenants
from shepherd.memory.records import NewMemory
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.sequences import sequence_of
from shepherd.sync.merging import Merge
from shepherd.sync.records import Conflict, Operation, Register
from shepherd.sync.registers import Replica

__all__ = ["apply", "collect", "collect_deleted", "collect_pin", "note_pruned"]

_ROW = f"SELECT {memories.TEXTS_SQL}, timestamp, source, session, pinned FROM context WHERE id = ?"
_ORIGIN = ("t", "s", "n")  # of a body: time, source, conversation


# ---- own changes


def collect(replica: Replica, local: int, at_ms: int) -> int | None:
    """Write a memory that was added or changed; return about how many bytes, None if it is gone."""
    rows = replica.connection.execute(_ROW, (local,))
    if not rows:
        return None
    question, answer, timestamp, source, session, pinned = rows[0]
    first, *twins = replica.of_row("m", local) or [Register("m", uuid4().hex, local)]
    is_new = not first.stamp
    first.note = {}
    replica.put(first, {"q": question, "a": answer, "t": timestamp, "s": source, "n": session}, at_ms)
    for twin in twins:
        replica.put(twin, None, at_ms)
    pin = replica.find("p", first.gid) if twins else None
    if (pinned and is_new) or (twins and bool(pinned) != bool(pin and pin.topic)):
        _put_pin(replica, first.gid, bool(pinned), at_ms)
    return len(question) + len(answer)


def collect_pin(replica: Replica, local: int, at_ms: int) -> int | None:
    """Write whether a memory is pinned; None if it is gone."""
    rows = replica.connection.execute("SELECT pinned FROM context WHERE id = ?", (local,))
    for register in replica.of_row("m", local) if rows else ():
        _put_pin(replica, register.gid, bool(rows[0][0]), at_ms)
    return 0 if rows else None


def _put_pin(replica: Replica, gid: str, pinned: bool, at_ms: int) -> None:
    register = replica.find("p", gid) or Register("p", gid)
    register.topic = "1" if pinned else ""
    replica.put(register, {"v": int(pinned)}, at_ms)


def collect_deleted(replica: Replica, local: int, digest: str, at_ms: int) -> None:
    """Write that a memory was forgotten."""
    for register in replica.of_row("m", local):
        replica.put(register, None, at_ms, digest=digest)


def note_pruned(replica: Replica, local: int) -> None:
    """Detach a memory that was deleted here to make space: the other machines keep it."""
    for register in replica.of_row("m", local):
        register.local, register.note = 0, {}
        replica.save(register)


# ---- changes of others


def apply(merge: Merge, operations: Sequence[Operation]) -> None:
    """Apply operations about memories and their pins, in the order of the frame."""
    left: dict[int, list[str]] = {}
    changed: dict[str, dict[str, Any]] = {}
    pinned: set[str] = set()
    for operation in operations:
        if operation.kind == "p":
            if (accepted := merge.accepted(operation)) is not None and operation.body is not None:
                accepted[0].topic = "1" if operation.body["v"] else ""
                merge.replica.save(accepted[0])
                pinned.add(operation.gid)
        elif operation.body is None:
            register = merge.removed(operation)
            changed.pop(operation.gid, None)
            if register is not None and register.local:
                left.setdefault(register.local, []).append(register.gid)
                merge.report_forgotten(register, f"memory {sequence_of(register.local)}")
            _forget_equal(merge, operation, left)
        elif (accepted := merge.accepted(operation)) is not None:
            register, is_conflict = accepted
            if is_conflict:
                _keep_copy(merge, register, operation.body)
            if register.local:
                left.setdefault(register.local, []).append(register.gid)
            register.local, register.note = 0, {}
            merge.replica.save(register)
            changed[operation.gid] = operation.body
    _release(merge, left)
    _add(merge, changed)
    _set_pins(merge, pinned | changed.keys())


def _forget_equal(merge: Merge, operation: Operation, left: dict[int, list[str]]) -> None:
    """Forget a memory here that says the same as one that was forgotten elsewhere later."""
    if not operation.digest:
        return
    replica = merge.replica
    rows = replica.connection.execute(
        "SELECT id FROM context WHERE user_id = ? AND content_hash = ?", (replica.user_id, operation.digest)
    )
    for (local,) in rows:
        for register in replica.of_row("m", local):
            if register.order < operation.order:
                left.setdefault(local, []).append(register.gid)
                replica.put(register, None, 0, after=(operation.stamp,))


def _keep_copy(merge: Merge, register: Register, body: dict[str, Any]) -> None:
    """Keep this machine's text as a memory of its own where another text replaces it."""
    rows = merge.replica.connection.execute(_ROW, (register.local,))
    if not rows or rows[0][:2] == (body["q"], body["a"]):
        return
    question, answer, timestamp, source, session, _ = rows[0]
    copy = NewMemory(question, answer, timestamp, source, session)

    def add() -> None:
        merge.store.terms.add(merge.replica.connection, merge.replica.user_id, [copy])

    merge.later.append(add)
    merge.report.conflicts.append(
        Conflict(
            f"memory {sequence_of(register.local)}",
            f"both versions are kept: the one from here and the one from {merge.frame.name}",
        )
    )


def _release(merge: Merge, left: dict[int, list[str]]) -> None:
    """Delete the rows that their registers have left, or let them show what the remaining ones say."""
    unused = []
    for local, gids in left.items():
        rest = merge.replica.of_row("m", local)
        if not rest:
            unused.append(local)
        elif min(gids) < rest[0].gid:
            _show(merge, local, rest)
        else:
            _set_pins(merge, [rest[0].gid])
    _delete(merge, unused)


def _delete(merge: Merge, unused: Sequence[int]) -> None:
    connection, user_id = merge.replica.connection, merge.replica.user_id
    texts = [
        (local, question, answer)
        for local in unused
        for question, answer, *_ in connection.execute(_ROW, (local,))
    ]
    if not texts:
        return
    forgetting.copies_of_memories(connection, user_id, texts)
    memories.delete(connection, unused[0] >> SEQUENCE_BITS, unused, merge.store.terms)
    merge.report.has_forgotten = True


def _show(merge: Merge, local: int, registers: Sequence[Register]) -> None:
    """Store the row of several registers anew, with the time and origin of the first."""
    connection = merge.replica.connection
    [(question, answer, *before, _)] = connection.execute(_ROW, (local,))
    wanted = [registers[0].note[name] for name in _ORIGIN]
    if wanted != before:
        memories.delete(connection, local >> SEQUENCE_BITS, [local], merge.store.terms)
        new = NewMemory(question, answer, *wanted)
        [(local, _)] = merge.store.terms.add(connection, merge.replica.user_id, [new])
    for register in registers:
        register.local = local
        register.note = register.note if len(registers) > 1 else {}
        merge.replica.save(register)
    _set_pins(merge, [registers[0].gid])


def _add(merge: Merge, changed: dict[str, dict[str, Any]]) -> None:
    new = [NewMemory(body["q"], body["a"], *(body[name] for name in _ORIGIN)) for body in changed.values()]
    replica = merge.replica
    stored = merge.store.terms.add(replica.connection, replica.user_id, new) if new else []
    for (gid, body), (local, is_new) in zip(changed.items(), stored, strict=True):
        register = replica.find("m", gid)
        assert register is not None
        twins = [] if is_new else replica.of_row("m", local)
        register.local = local
        register.note = {name: body[name] for name in _ORIGIN} if twins else {}
        replica.save(register)
        if not twins:
            continue
        if not twins[0].note:
            [(_, _, *origin, _)] = replica.connection.execute(_ROW, (local,))
            twins[0].note = dict(zip(_ORIGIN, origin, strict=True))
            replica.save(twins[0])
        _show(merge, local, replica.of_row("m", local))


def _set_pins(merge: Merge, gids: Iterable[str]) -> None:
    """Pin the rows of these memories if any of their registers says so."""
    replica = merge.replica
    if not replica.connection.execute("SELECT 1 FROM sync_rows WHERE kind = 'p' LIMIT 1"):
        return
    tenant = tenants.find(replica.connection, replica.user_id)
    for gid in gids:
        register = replica.find("m", gid)
        if register is None or not register.local or tenant is None:
            continue
        rows = replica.of_row("m", register.local)
        pins = [pin for row in rows if (pin := replica.find("p", row.gid)) is not None]
        memories.pin(replica.connection, tenant, register.local, any(pin.topic for pin in pins))

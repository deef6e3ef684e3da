"""Registers in `sync_rows`, the own frames in `sync_outbox`, and how far others were read.

Inside the caller's transaction.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

from shepherd.sync import segments, tables
from shepherd.sync.folder import Folder
from shepherd.sync.records import Operation, Register
from shepherd.sync.segments import Frame
from shepherd.transactions import Connection

__all__ = ["Replica"]

_COLUMNS = "kind, gid, local, stamp, machine, gone, written, topic, note"
_SAVE = (
    f"INSERT INTO sync_rows({_COLUMNS}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT(kind, gid) DO UPDATE SET local = excluded.local, stamp = excluded.stamp,"
    " machine = excluded.machine, gone = excluded.gone, written = excluded.written, topic = excluded.topic,"
    " note = excluded.note"
)
# INDEXED BY below: by the primary key, SQLite would read all rows of a kind.
# Kinds without a text of the user, whose former values may stay in a segment.
_WITHOUT_TEXT = ("p", "s")
_SEGMENT_BYTES = 2 << 20
# Milliseconds << 16, so that many changes of one millisecond have an order.
_BITS = 16
_MOST_MS = 1 << 46


class Replica:
    """This machine's part of a sync, inside one write transaction of its database."""

    def __init__(self, connection: Connection, folder: Folder) -> None:
        self.connection, self.folder = connection, folder
        state = tables.get(connection)
        self.machine, self.name, self.user_id = state["machine"], state["name"], state["user"]
        self._clock = int(state.get("clock", "0"))
        self._segment, self._index = int(state.get("segment", "1")), int(state.get("frame", "0"))
        self._size, self._number = int(state.get("size", "0")), int(state.get("number", "0"))
        self._waiting: list[Operation] = []

    # ---- registers

    def find(self, kind: str, gid: str) -> Register | None:
        """Return the register of an item."""
        rows = self.connection.execute(
            f"SELECT {_COLUMNS} FROM sync_rows WHERE kind = ? AND gid = ?", (kind, gid)
        )
        return _register(rows[0]) if rows else None

    def of_row(self, kind: str, local: int) -> list[Register]:
        """Return the registers of a row here, by id: two machines may have stored the same memory."""
        rows = self.connection.execute(
            f"SELECT {_COLUMNS} FROM sync_rows INDEXED BY sync_local"
            " WHERE kind = ? AND local = ? AND local <> 0 ORDER BY gid",
            (kind, local),
        )
        return [_register(row) for row in rows]

    def of_topic(self, topic: str) -> list[Register]:
        """Return the changes of a fact that are not gone."""
        rows = self.connection.execute(
            f"SELECT {_COLUMNS} FROM sync_rows INDEXED BY sync_topic"
            " WHERE kind = 'c' AND topic = ? AND gone = 0",
            (topic,),
        )
        return [_register(row) for row in rows]

    def all_of(self, kind: str) -> list[Register]:
        """Return all registers of a kind."""
        rows = self.connection.execute(f"SELECT {_COLUMNS} FROM sync_rows WHERE kind = ?", (kind,))
        return [_register(row) for row in rows]

    def pending_edges(self) -> list[Register]:
        """Return the edges one of whose nodes is not here."""
        rows = self.connection.execute(
            f"SELECT {_COLUMNS} FROM sync_rows INDEXED BY sync_pending"
            " WHERE kind = 'e' AND local = 0 AND gone = 0"
        )
        return [_register(row) for row in rows]

    def save(self, register: Register) -> None:
        """Store a register."""
        self.connection.execute(
            _SAVE,
            (
                register.kind,
                register.gid,
                register.local,
                register.stamp,
                register.machine,
                int(register.is_gone),
                register.written,
                register.topic,
                json.dumps(register.note, ensure_ascii=False) if register.note else "",
            ),
        )

    def delete(self, kind: str, gid: str) -> None:
        """Remove a register that no other machine knows."""
        self.connection.execute("DELETE FROM sync_rows WHERE kind = ? AND gid = ?", (kind, gid))

    # ---- the own changes

    def put(
        self,
        register: Register,
        body: dict[str, Any] | None,
        at_ms: int,
        *,
        after: Iterable[int] = (),
        digest: str = "",
    ) -> None:
        """Give a register a new value of this machine, and write it with the next frame.

        `at_ms` is when it changed by the clock of this machine; it counts as later than all that was known
        here, and than `after`.
        """
        self.outdate(register)
        at = max(min(at_ms, _MOST_MS), 0) << _BITS
        register.stamp = max(at, self._clock + 1, register.stamp + 1, *(stamp + 1 for stamp in after))
        register.machine, register.written = self.machine, self._number + 1
        if body is None:
            register.is_gone, register.local, register.note = True, 0, {}
        else:
            register.is_gone = False
        self.save(register)
        self.say(Operation(register.kind, register.gid, register.stamp, self.machine, body, digest))

    def say(self, operation: Operation) -> None:
        """Write an operation with the next frame."""
        self._waiting.append(operation)
        if operation.body is not None and operation.kind not in _WITHOUT_TEXT:
            self.connection.execute(
                "INSERT INTO sync_own(kind, gid, segment) VALUES(?, ?, ?) ON CONFLICT DO NOTHING",
                (operation.kind, operation.gid, self._segment),
            )

    def outdate(self, register: Register) -> None:
        """Note that the text that own segments may have of a register is not current any more."""
        self.connection.execute(
            "UPDATE sync_own SET stale = 1 WHERE kind = ? AND gid = ?", (register.kind, register.gid)
        )

    def is_written(self, register: Register) -> bool:
        """Return whether an own segment has the text of a register."""
        return bool(
            self.connection.execute(
                "SELECT 1 FROM sync_own WHERE kind = ? AND gid = ? AND stale = 0",
                (register.kind, register.gid),
            )
        )

    def log_again(self, register: Register) -> None:
        """Let the value of a register be written as if it had changed."""
        register.topic = "" if register.kind == "d" else register.topic
        self.save(register)
        self.connection.execute(
            "INSERT INTO sync_log(kind, id, at) VALUES(?, ?, 0)", (register.kind, register.local)
        )

    def flush(self) -> int:
        """Seal the waiting operations as a frame in the outbox; return their number."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return 0
        seen = dict(self.connection.execute("SELECT machine, number FROM sync_seen"))
        frame = Frame(self._number + 1, self.name, seen, tuple(waiting))
        data = segments.seal_frame(self.folder, self.machine, self._segment, self._index, frame)
        self.connection.execute(
            "INSERT INTO sync_outbox(segment, frame, data) VALUES(?, ?, ?)",
            (self._segment, self._index, data),
        )
        self._number, self._index = self._number + 1, self._index + 1
        self._size += len(data)
        if self._size > _SEGMENT_BYTES:
            self._segment, self._index, self._size = self._segment + 1, 0, 0
        self._keep()
        return len(waiting)

    def _keep(self) -> None:
        tables.put(
            self.connection,
            {
                "clock": str(self._clock),
                "segment": str(self._segment),
                "frame": str(self._index),
                "size": str(self._size),
                "number": str(self._number),
            },
        )

    # ---- the others

    def note_read(self, machine: str, segment: int, index: int, frame: Frame) -> None:
        """Record that a frame of another machine was applied; own changes count as later from here on."""
        self.connection.execute(
            "INSERT INTO sync_seen(machine, segment, frame, number, name, at) VALUES(?, ?, ?, ?, ?, ?)"
            " ON CONFLICT(machine) DO UPDATE SET segment = excluded.segment, frame = excluded.frame,"
            " number = excluded.number, name = excluded.name, at = excluded.at",
            (machine, segment, index, frame.number, frame.name, int(time.time())),
        )
        latest = max((one.stamp for one in frame.operations), default=0)
        if latest > self._clock:
            self._clock = latest
            self._keep()


def _register(row: tuple[Any, ...]) -> Register:
    kind, gid, local, stamp, machine, gone, written, topic, note = row
    return Register(
        kind, gid, local, stamp, machine, bool(gone), written, topic, json.loads(note) if note else {}
    )

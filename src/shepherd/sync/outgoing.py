"""From the log of changes to sealed frames in the outbox, and from there into the own segments.

A frame is in the database before it is in the folder: a killed run is continued by the next one, which
writes the same bytes at the same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from shepherd.encryption import SealError
from shepherd.errors import StoreError
from shepherd.memory.store import MemoryStore
from shepherd.sync import facts, knowledge, memories, segments, tables
from shepherd.sync.folder import Folder
from shepherd.sync.records import Operation, Report
from shepherd.sync.registers import Replica
from shepherd.sync.segments import Frame
from shepherd.transactions import Connection

__all__ = ["DamagedError", "collect", "collect_all", "is_current", "rewrite_stale", "write_outbox"]

# Of one transaction, for which other writers wait.
_MOST_CHANGES, _MOST_BYTES = 1000, 1 << 20


def collect_all(store: MemoryStore, folder: Folder, user_id: str, report: Report) -> None:
    """Move the whole log into the outbox, in small transactions."""

    def some(connection: Connection) -> int:
        return collect(connection, Replica(connection, folder), report)

    store.write(user_id, lambda connection: facts.collect_unrecorded(connection, user_id))
    while store.write(user_id, some):
        pass


def collect(connection: Connection, replica: Replica, report: Report) -> int:
    """Move a part of the log into the outbox; return how many changes, 0 at the end."""
    log = connection.execute(
        "SELECT seq, kind, id, note, at FROM sync_log ORDER BY seq LIMIT ?", (_MOST_CHANGES,)
    )
    if not log:
        return 0
    [latest] = connection.execute("SELECT max(at) FROM sync_log WHERE kind = 'd'")
    if latest[0] is not None:
        # First: nodes name their dimensions.
        knowledge.collect_dimensions(replica, latest[0])
        connection.execute("DELETE FROM sync_log WHERE kind = 'd'")
    topics: dict[str, bool] = {}  # whether a change is gone, by fact
    n = _collect_rows(replica, log, topics, report)
    for topic, has_gone in topics.items():
        if has_gone:
            facts.collect_wiped(replica, topic)
    replica.flush()
    [(before,)] = connection.execute("SELECT coalesce(max(seq), 0) FROM sync_log")
    for topic in topics:
        facts.settle(replica, topic)
    # With what settling the facts has logged.
    connection.execute("DELETE FROM sync_log WHERE seq <= ? OR seq > ?", (log[n - 1][0], before))
    return n


def _collect_rows(
    replica: Replica, log: Sequence[tuple[int, str, int, str, int]], topics: dict[str, bool], report: Report
) -> int:
    """Write the rows of the log as they are now, until a frame is full; return how many were looked at."""
    done: set[tuple[str, int]] = set()
    n_bytes = 0
    for n, (_, kind, local, note, at_ms) in enumerate(log, 1):
        if kind.endswith("-"):
            # The number of a row that is there again: it was written as it is now.
            if (kind[:-1], local) not in done:
                _collect_deleted(replica, kind[:-1], local, note, at_ms, topics)
                report.count(report.written, kind)
        elif kind == "pruned":
            memories.note_pruned(replica, local)
        elif kind != "d" and (kind, local) not in done:
            size = _collect_one(replica, kind, local, at_ms, topics)
            if size is not None:
                done.add((kind, local))
                n_bytes += size
                report.count(report.written, kind)
        if n_bytes > _MOST_BYTES:
            return n
    return len(log)


def _collect_one(replica: Replica, kind: str, local: int, at_ms: int, topics: dict[str, bool]) -> int | None:
    """Write a row as it is now; return about how many bytes, None if it is not there any more."""
    match kind:
        case "m":
            return memories.collect(replica, local, at_ms)
        case "p":
            return memories.collect_pin(replica, local, at_ms)
        case "c":
            topic = facts.collect(replica, local, at_ms)
            topics.setdefault(topic, False)
            return 0 if topic else None
        case "n":
            return knowledge.collect_node(replica, local, at_ms)
        case _:
            return knowledge.collect_edge(replica, local, at_ms)


def _collect_deleted(
    replica: Replica, kind: str, local: int, digest: str, at_ms: int, topics: dict[str, bool]
) -> None:
    match kind:
        case "m":
            memories.collect_deleted(replica, local, digest, at_ms)
        case "c":
            topics[facts.collect_deleted(replica, local, at_ms)] = True
        case _:
            knowledge.collect_deleted(replica, kind, local, at_ms)


# ---- into the folder


def write_outbox(store: MemoryStore, folder: Folder, user_id: str, machine: str) -> None:
    """Write the frames of the outbox to the own segments, and empty it. Raises StoreError."""
    while True:
        rows = store.read(
            lambda connection: connection.execute(
                "SELECT segment, frame, data FROM sync_outbox ORDER BY segment, frame LIMIT 16"
            )
        )
        if not rows:
            return
        for segment, some in groupby(rows, key=lambda row: row[0]):
            frames = list(some)
            path = folder.segment(machine, segment)
            try:
                segments.write(path, frames[0][1], b"".join(frame[2] for frame in frames))
            except OSError as error:
                raise unwritable(path, error) from error
        done = [row[:2] for row in rows]
        store.write(user_id, partial(_empty_outbox, done=done))


def _empty_outbox(connection: Connection, done: Sequence[tuple[int, int]]) -> None:
    connection.execute_many("DELETE FROM sync_outbox WHERE segment = ? AND frame = ?", done)


# ---- forgetting


class DamagedError(Exception):
    """An own segment was damaged since it was written; this machine has what was in it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path


def rewrite_stale(store: MemoryStore, folder: Folder, user_id: str, machine: str) -> int:
    """Write the own segments anew that have a text which is not current any more; return how many.

    The outbox is empty. A kill leaves the old or the new segment, of as many frames; the next run does it
    again. Raises DamagedError, StoreError.
    """
    stale = store.read(
        lambda connection: connection.execute("SELECT segment, kind, gid FROM sync_own WHERE stale = 1")
    )
    for segment in sorted({row[0] for row in stale}):
        kept: set[tuple[str, str]] = set()
        frames = []
        for frame in _whole(store, folder, machine, segment):
            operations = store.read(partial(current, frame=frame))
            kept.update((one.kind, one.gid) for one in operations if one.body is not None)
            frames.append(segments.only(frame, operations))
        try:
            segments.rewrite(folder, machine, segment, frames)
        except OSError as error:
            raise unwritable(folder.segment(machine, segment), error) from error
        gone = [row for row in stale if row[0] == segment]
        still = [row for row in gone if row[1:] in kept]

        def note(
            connection: Connection,
            gone: list[tuple[int, str, str]] = gone,
            still: list[tuple[int, str, str]] = still,
        ) -> None:
            connection.execute_many("DELETE FROM sync_own WHERE segment = ? AND kind = ? AND gid = ?", gone)
            connection.execute_many("INSERT INTO sync_own(segment, kind, gid) VALUES(?, ?, ?)", still)

        store.write(user_id, note)
    return len({row[0] for row in stale})


def _whole(store: MemoryStore, folder: Folder, machine: str, segment: int) -> list[Frame]:
    """Return the frames of an own segment. Raises DamagedError, also if some of them are not there."""
    path = folder.segment(machine, segment)
    try:
        frames = list(segments.read(folder, machine, segment))
        path = folder.segment(machine, segment + 1)
        following = next(segments.read(folder, machine, segment + 1), None)
    except SealError as error:
        raise DamagedError(path) from error
    last = following.number - 1 if following else int(store.read(tables.get)["number"])
    if not frames or frames[-1].number != last:
        raise DamagedError(folder.segment(machine, segment))
    return frames


def unwritable(path: Path, error: OSError) -> StoreError:
    """Return the error for a segment that cannot be written."""
    return StoreError(
        f"{path}: cannot be written: {error.strerror}; nothing is lost",
        hint="free some disk space or connect the disk, and sync again",
    )


def current(connection: Connection, frame: Frame) -> list[Operation]:
    """Return the operations of a frame that still count, or remove something."""
    return [one for one in frame.operations if is_current(connection, one)]


def is_current(connection: Connection, operation: Operation) -> bool:
    """Return whether an operation is still what counts, or removes something."""
    rows = connection.execute(
        "SELECT stamp, machine, gone FROM sync_rows WHERE kind = ? AND gid = ?",
        (operation.kind, operation.gid),
    )
    if not rows:
        return operation.body is None
    return rows[0][:2] == operation.order or (operation.body is None and bool(rows[0][2]))

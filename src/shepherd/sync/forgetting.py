"""What a sync keeps of texts: frames that wait in the outbox, and segments in the folder.

Both are sealed with a key that is in the database itself, so whoever can read that can read them, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from shepherd.encryption import SealError
from shepherd.errors import StoreError
from shepherd.memory.store import MemoryStore
from shepherd.sync import outgoing, segments, tables
from shepherd.sync.folder import Folder
from shepherd.sync.records import Report
from shepherd.transactions import Connection

__all__ = ["LeftFolder", "SealedText", "forget_unwritten", "left_folders", "sealed_texts"]

# Own segments with a text that is gone: what is noted already, and what the log says.
_STALE = """SELECT 1 FROM sync_own WHERE stale = 1 UNION ALL
    SELECT 1 FROM sync_log l
    JOIN sync_rows r ON r.kind = rtrim(l.kind, '-') AND r.local = l.id AND r.local <> 0
    JOIN sync_own o ON o.kind = r.kind AND o.gid = r.gid LIMIT 1"""
# Other machines that wrote what has changed here since: only they rewrite their segments. Those of the kinds
# p and s have no text.
_OF_OTHERS = """SELECT DISTINCT r.machine, coalesce(s.name, '') FROM sync_log l
    JOIN sync_rows r ON r.kind = rtrim(l.kind, '-') AND r.local = l.id AND r.local <> 0
    LEFT JOIN sync_seen s ON s.machine = r.machine
    WHERE r.kind NOT IN ('p', 's') AND r.machine NOT IN ('', ?) ORDER BY 1"""


@dataclass(frozen=True, slots=True)
class SealedText:
    """The text of a frame; None if it cannot be opened, and why. `is_own`: this machine wrote it."""

    where: str
    text: str | None
    is_own: bool
    why: str = "it cannot be read; is the disk connected?"


@dataclass(frozen=True, slots=True)
class LeftFolder:
    """A folder with files of this memory, which has left it. `is_there`: they were seen just now."""

    path: Path
    machine: str
    is_there: bool

    def __str__(self) -> str:
        files = f"the files {self.machine}-*.shpseg in {self.path}"
        ended = "this memory wrote them before shepherd sync --leave"
        if self.is_there:
            return f"{files}: {ended}; delete them"
        return f"{files}: {ended}; if the folder is gone for good, run that again"


def left_folders(store: MemoryStore) -> list[LeftFolder]:
    """Return the folders that have files of this memory, or can't be looked at."""
    found = []
    for machine, path in store.read(tables.left) if store.is_in_file else ():
        try:
            is_there = machine in Folder(Path(path), "", "").segments()
        except StoreError:
            found.append(LeftFolder(Path(path), machine, False))
        else:
            found += [LeftFolder(Path(path), machine, True)] if is_there else []
    return found


def forget_unwritten(store: MemoryStore, user_id: str) -> list[str]:
    """Remove from the outbox what was forgotten; return in words what is left in the folder.

    The frames keep their places, for the next sync to write. That also rewrites the own segments.
    """
    left = [str(one) for one in left_folders(store)]
    if not store.is_in_file or not store.read(tables.exists):
        return left
    state = store.read(tables.get)
    folder = _folder(state)
    others = store.read(lambda connection: connection.execute(_OF_OTHERS, (state["machine"],)))
    if store.read(lambda connection: connection.execute("SELECT 1 FROM sync_outbox LIMIT 1")):
        try:
            # The registers know what is gone once the log is written.
            outgoing.collect_all(store, folder, state["user"], Report())
            store.write(user_id, lambda connection: _rewrite_outbox(connection, folder, state["machine"]))
        except (SealError, StoreError) as error:
            # The deletion itself is done.
            return [*left, f"what waits in {store.path} for the sync folder {folder.path}: {error}"]
    if store.read(lambda connection: connection.execute(_STALE)):
        left.append(f"the sync folder {folder.path}, until the next shepherd sync")
    if names := _with_files(folder, others):
        left.append(
            f"files of {names} in the sync folder {folder.path}, until shepherd sync has run here and then on"
            " the machine that wrote them"
        )
    return left


def _with_files(folder: Folder, machines: Iterable[tuple[str, str]]) -> str:
    """Return the machines, given as (id, name), that have files in the folder, in words."""
    try:
        there = folder.segments()
    except StoreError:  # the disk is not connected
        return " and ".join(name or machine for machine, name in machines)
    return " and ".join(name or machine for machine, name in machines if machine in there)


def _rewrite_outbox(connection: Connection, folder: Folder, machine: str) -> None:
    rows = connection.execute("SELECT segment, frame, data FROM sync_outbox ORDER BY segment, frame")
    for segment, index, data in rows:
        frame = segments.open_frame(folder, machine, segment, index, segments.sealed_part(data))
        operations = outgoing.current(connection, frame)
        if len(operations) < len(frame.operations):
            sealed = segments.seal_frame(folder, machine, segment, index, segments.only(frame, operations))
            connection.execute(
                "UPDATE sync_outbox SET data = ? WHERE segment = ? AND frame = ?", (sealed, segment, index)
            )


def sealed_texts(store: MemoryStore) -> Iterator[SealedText]:
    """Yield what a sync of this memory has sealed, with the place of each."""
    for one in left_folders(store):
        why = "it was written before shepherd sync --leave, which has deleted the key; delete these files"
        if not one.is_there:
            why = "the disk is not connected; if the folder is gone for good, run shepherd sync --leave again"
        yield SealedText(f"{one.path}/{one.machine}-*.shpseg", None, True, why)
    if not store.is_in_file or not store.read(tables.exists):
        return
    state = store.read(tables.get)
    folder, own = _folder(state), state["machine"]
    rows = store.read(lambda connection: connection.execute("SELECT segment, frame, data FROM sync_outbox"))
    for segment, index, data in rows:
        place = f"{store.path}: sync_outbox"
        try:
            frame = segments.open_frame(folder, own, segment, index, segments.sealed_part(data))
        except (SealError, StoreError):
            yield SealedText(place, None, True)
        else:
            yield SealedText(place, _text(frame), True)
    try:
        found = folder.segments()
    except StoreError:
        yield SealedText(str(folder.path), None, False)
        return
    for machine, numbers in found.items():
        for number in numbers:
            path = str(folder.segment(machine, number))
            try:
                for frame in segments.read(folder, machine, number):
                    yield SealedText(path, _text(frame), machine == own)
            except (SealError, StoreError):
                yield SealedText(path, None, machine == own)


def _folder(state: dict[str, str]) -> Folder:
    return Folder(Path(state.get("path", "")), state["folder"], state["key"])


def _text(frame: segments.Frame) -> str:
    return json.dumps([one.body for one in frame.operations if one.body is not None], ensure_ascii=False)

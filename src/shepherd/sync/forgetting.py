"""What a sync keeps of texts: frames that wait in the outbox, and segments in the folder.

Both are sealed with a key that is in the database itself, so whoever can read that can read them, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shepherd.encryption import SealError
from shepherd.errors import StoreError
from shepherd.memory.store import MemoryStore
from shepherd.sync import outgoing, segments, tables
from shepherd.sync.folder import Folder
from shepherd.sync.records import Report
from shepherd.transactions import Connection

__all__ = ["SealedText", "forget_unwritten", "sealed_texts"]

# Own segments with a text that is gone: what is noted already, and what the log says.
_STALE = """SELECT 1 FROM sync_own WHERE stale = 1 UNION ALL
    SELECT 1 FROM sync_log l
    JOIN sync_rows r ON r.kind = rtrim(l.kind, '-') AND r.local = l.id AND r.local <> 0
    JOIN sync_own o ON o.kind = r.kind AND o.gid = r.gid LIMIT 1"""


@dataclass(frozen=True, slots=True)
class SealedText:
    """The text of a frame; None if it cannot be opened. `is_own`: this machine wrote it."""

    where: str
    text: str | None
    is_own: bool


def forget_unwritten(store: MemoryStore, user_id: str) -> list[str]:
    """Remove from the outbox what was forgotten; return in words what is left in the folder.

    The frames keep their places, for the next sync to write. That also rewrites the own segments.
    """
    if not store.is_in_file or not store.read(tables.exists):
        return []
    state = store.read(tables.get)
    folder = _folder(state)
    if store.read(lambda connection: connection.execute("SELECT 1 FROM sync_outbox LIMIT 1")):
        try:
            # The registers know what is gone once the log is written.
            outgoing.collect_all(store, folder, state["user"], Report())
            store.write(user_id, lambda connection: _rewrite_outbox(connection, folder, state["machine"]))
        except (SealError, StoreError) as error:
            # The deletion itself is done.
            return [f"what waits in {store.path} for the sync folder {folder.path}: {error}"]
    if not store.read(lambda connection: connection.execute(_STALE)):
        return []
    return [f"the sync folder {folder.path}, until the next shepherd sync"]


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

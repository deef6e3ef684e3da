"""A sync from beginning to end, what is known about it, and its end."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal, cast

from shepherd.config.file import ConfigFile
from shepherd.encryption import SealError
from shepherd.errors import StoreError, UsageError
from shepherd.memory import Memory
from shepherd.memory.account import Account
from shepherd.memory.store import MemoryStore
from shepherd.overwriting import remove as remove_file
from shepherd.paths import locked
from shepherd.sync import folder as folders
from shepherd.sync import incoming, outgoing, segments, settings, tables
from shepherd.sync.folder import Folder
from shepherd.sync.forgetting import left_folders
from shepherd.sync.records import KINDS, Machine, Operation, Register, Report
from shepherd.sync.registers import Replica
from shepherd.transactions import Connection
from shepherd.types import ANONYMOUS_USERS

__all__ = ["begins", "last_folder", "leave", "remove", "status", "sync", "unwritten"]

_RESTORED = (
    "the folder does not have what this memory wrote last (was a backup restored?): everything is compared"
    " again"
)
_COPIED = (
    "this memory was copied from another machine, and is a machine of its own from now on; if you no"
    " longer use the other one: shepherd sync --remove "
)
_DAMAGED = ": this machine wrote the file, and it was damaged since; what was in it was written again"

Ask = Callable[[bool], str]
"""Returns the passphrase of the folder; the argument says whether it is to be chosen."""


def sync(
    memory: Memory,
    path: Path,
    ask: Ask,
    *,
    settings_file: ConfigFile | None = None,
    progress: Callable[[], None] = lambda: None,
) -> Report:
    """Write what was changed here to the folder, and apply what other machines have written.

    `ask` is called at the first sync alone. `settings_file`: settings are synced as well. Raises UsageError,
    StoreError; whatever happens, memory and folder are usable, and the next run continues.
    """
    store = _store(memory)
    report = Report()
    with locked(Path(memory.path).parent):
        folder = _joined(store, memory.user_id, path, ask, report)
        store.write(memory.user_id, lambda connection: tables.put(connection, {"path": str(path)}))
        if settings_file is not None:
            settings.check(settings_file)
        machine = _machine(store, folder, memory.user_id, report)
        _write(store, folder, memory.user_id, settings_file, report)
        progress()
        incoming.apply_new(store, folder, memory.user_id, machine, report, progress)
        outgoing.write_outbox(store, folder, memory.user_id, machine)
        _adopt_former(store, folder, memory.user_id, report)
        _rewrite_stale(store, folder, memory.user_id, machine, report)
    if settings_file is not None:
        # After the lock: the file may be in the same folder, whose lock it takes.
        _take_settings(store, folder, memory.user_id, settings_file, report)
    store.follow(memory.user_id)
    if report.has_forgotten:
        store.erase(memory.user_id)
    if sum(report.read.values()) >= 1000:
        store.settle()
    memory.wake_vectors()
    return report


def begins(memory: Memory, path: Path) -> Literal["", "new folder", "joins"]:
    """Return what a sync with this folder would begin, "" for nothing; raises UsageError without a folder."""
    if _store(memory).read(tables.exists):
        return ""
    return "joins" if folders.exists(path) else "new folder"


def last_folder(memory: Memory) -> Path | None:
    """Return the folder of the last sync, None if this memory is not synced."""
    state = _store(memory).read(
        lambda connection: tables.get(connection) if tables.exists(connection) else None
    )
    return None if state is None else Path(state.get("path", ""))


def _store(memory: Memory) -> MemoryStore:
    store = cast(MemoryStore, memory.transactions)
    if not store.is_in_file:
        raise UsageError(
            "sync is for a memory in a file, and this one is in PostgreSQL",
            hint="let the other machines use the same server: shepherd config set memory_database postgresql://…",
        )
    if memory.user_id in ANONYMOUS_USERS:
        raise UsageError("nothing is kept for this user", hint="--user or the setting 'user_id' names a user")
    return store


# ---- the folder


def _joined(store: MemoryStore, user_id: str, path: Path, ask: Ask, report: Report) -> Folder:
    """Return the folder, which this memory joins with its first sync."""
    has_key = folders.exists(path)
    state = store.read(lambda connection: tables.get(connection) if tables.exists(connection) else None)
    if state is not None:
        if not has_key:
            raise StoreError(
                f"{path}: this memory is synced, but not with this folder: it has no {folders.KEY_NAME}",
                hint="is the disk connected, or the folder copied? --leave ends the former sync",
            )
        if folders.id_of(path) != state["folder"]:
            raise UsageError(
                f"{path}: this memory is synced with another folder",
                hint="name that folder, or end the former sync with --leave",
            )
        if state["user"] != user_id:
            raise UsageError(
                "this memory file is synced for another of its users", hint="a file is synced for one user"
            )
        return Folder(path, state["folder"], state["key"])
    passphrase = ask(not has_key)
    folder = folders.unlock(path, passphrase) if has_key else folders.create(path, passphrase)
    report.is_new_folder = not has_key
    state = {
        "folder": folder.id,
        "key": folder.key,
        "machine": secrets.token_hex(6),
        "name": socket.gethostname(),
        "host": _host(),
    }
    store.write(user_id, lambda connection: tables.create(connection, user_id, state))
    return folder


def _machine(store: MemoryStore, folder: Folder, user_id: str, report: Report) -> str:
    """Return the id of this machine: another one if the folder does not have what the memory wrote.

    The memory was restored from a backup, own segments are lost, or it was copied from another machine, which
    goes on writing under the former id.
    """
    state = store.read(tables.get)
    is_copy = state["host"] != _host()
    try:
        if not is_copy and _is_as_written(store, folder, user_id, state):
            return state["machine"]
        report.warnings.append(f"{_COPIED}{state['machine']}" if is_copy else _RESTORED)
    except outgoing.DamagedError as error:
        report.warnings.append(f"{error.path}{_DAMAGED}")
    return _renewed(store, folder, user_id, is_copy=is_copy)


def _renewed(store: MemoryStore, folder: Folder, user_id: str, *, is_copy: bool) -> str:
    """Give this machine another id, under which it writes its values again; return the id."""
    state = store.read(tables.get)
    machine, former = secrets.token_hex(6), state["machine"]
    n_written = _last_number(folder, former) if is_copy else 0

    def renew(connection: Connection) -> None:
        connection.execute("DELETE FROM sync_own")
        connection.execute("DELETE FROM sync_outbox")
        start = {"segment": "1", "frame": "0", "size": "0", "number": "0", "checked": "{}"}
        tables.put(connection, {**start, "machine": machine, "name": socket.gethostname(), "host": _host()})
        if is_copy:
            # The other machine may be lost, and with it what it had not written.
            _write_again(Replica(connection, folder), lambda one: one.written > n_written)
        else:
            tables.put(connection, {"former": " ".join([*state.get("former", "").split(), former])})
            # What it wrote is here, also if a segment of it is lost or damaged; what follows is to be read.
            connection.execute(
                "INSERT OR REPLACE INTO sync_seen(machine, segment, frame, number, name, at)"
                " VALUES(?, ?, ?, ?, ?, ?)",
                (
                    former,
                    int(state.get("segment", "1")),
                    int(state.get("frame", "0")) - 1,
                    int(state.get("number", "0")),
                    state["name"],
                    int(time.time()),
                ),
            )
        connection.execute("UPDATE sync_rows SET written = 0")

    store.write(user_id, renew)
    return machine


def _host() -> str:
    """Return what tells this machine from one with a copy of its files."""
    account = Account.of_process()
    return str(account.number or account.user_id)


def _last_number(folder: Folder, machine: str) -> int:
    """Return the number of the last frame of a machine in the folder, 0 if it cannot be read."""
    number = 0
    for segment in folder.segments().get(machine, [])[-1:]:
        with contextlib.suppress(SealError, segments.NewerError):
            for frame in segments.read(folder, machine, segment):
                number = frame.number
    return number


def _is_as_written(store: MemoryStore, folder: Folder, user_id: str, state: dict[str, str]) -> bool:
    """Return whether the own segments are there as this memory wrote them. Raises DamagedError."""
    segment, frame = int(state.get("segment", "1")), int(state.get("frame", "0"))
    machine = state["machine"]
    waiting = {
        row[0]: row[1]
        for row in store.read(
            lambda connection: connection.execute(
                "SELECT segment, min(frame) FROM sync_outbox GROUP BY segment"
            )
        )
    }
    there = set(folder.segments().get(machine, []))
    written = {number for number in range(1, segment) if waiting.get(number) != 0}
    if not written <= there or any(number > segment for number in there):
        return False
    if frame == 0 and _is_read_beyond(store, folder, state):
        return False
    _check_own(store, folder, user_id, state, there - waiting.keys())
    try:
        n_frames = segments.count(folder.segment(machine, segment)) if segment in there else 0
    except SealError as error:
        raise outgoing.DamagedError(folder.segment(machine, segment)) from error
    return bool(waiting.get(segment, frame) <= n_frames <= frame)


def _is_read_beyond(store: MemoryStore, folder: Folder, state: dict[str, str]) -> bool:
    """Return whether another machine has read more than this memory has written, in what is to be read of it.

    A backup was restored whose segments are gone, since the machine went on under another id. The others
    would skip what is written under this one now.
    """
    own, number = state["machine"], int(state.get("number", "0"))
    return any(
        frame.seen.get(own, 0) > number
        for other in folder.segments()
        if other != own
        for _, _, frame in incoming.new_frames(store, folder, other, Report())
    )


def _check_own(
    store: MemoryStore, folder: Folder, user_id: str, state: dict[str, str], numbers: set[int]
) -> None:
    """Raise DamagedError if an own segment was damaged since; those that did not change are not read again.

    The others would wait for what follows the damage, and cannot tell it from a file that is still copied.
    """
    before = json.loads(state.get("checked", "{}"))
    checked = {}
    for number in sorted(numbers):
        path = folder.segment(state["machine"], number)
        try:
            status = path.stat()
            checked[str(number)] = mark = [status.st_size, status.st_mtime_ns]
            if before.get(str(number)) == mark:
                continue
            n_frames, is_complete = segments.check(folder, state["machine"], number)
        except SealError as error:
            raise outgoing.DamagedError(path) from error
        except OSError as error:
            raise StoreError(
                f"{path}: cannot be read: {error.strerror}", hint="is the disk connected?"
            ) from error
        if number < int(state.get("segment", "1")) and not (n_frames and is_complete):
            raise outgoing.DamagedError(path)
    if checked != before:
        store.write(user_id, lambda connection: tables.put(connection, {"checked": json.dumps(checked)}))


# ---- the steps


def _write(store: MemoryStore, folder: Folder, user_id: str, file: ConfigFile | None, report: Report) -> None:
    def collect_settings(connection: Connection) -> str:
        replica = Replica(connection, folder)
        if file is not None:
            settings.collect(replica, file)
        replica.flush()
        return replica.machine

    machine = store.write(user_id, collect_settings)
    outgoing.collect_all(store, folder, user_id, report)
    outgoing.write_outbox(store, folder, user_id, machine)


def _take_settings(
    store: MemoryStore, folder: Folder, user_id: str, file: ConfigFile, report: Report
) -> None:
    values = store.read(lambda connection: settings.pending(Replica(connection, folder)))
    if not values:
        return
    taken = settings.write(file, values, report.warnings)
    store.write(user_id, lambda connection: settings.mark_written(Replica(connection, folder), taken))


def _adopt_former(store: MemoryStore, folder: Folder, user_id: str, report: Report) -> None:
    """Take over what this memory wrote under another id, and remove those segments."""
    former = store.read(tables.get).get("former", "").split()
    left = []
    for machine in former:
        try:
            _adopt(store, folder, user_id, machine)
        except StoreError as error:
            report.warnings.append(str(error))
            left.append(machine)
    if left != former:
        store.write(user_id, partial(_write_lost, folder=folder))
    outgoing.collect_all(store, folder, user_id, report)
    outgoing.write_outbox(store, folder, user_id, store.read(tables.get)["machine"])
    if left != former:
        store.write(user_id, lambda connection: tables.put(connection, {"former": " ".join(left)}))


def _rewrite_stale(store: MemoryStore, folder: Folder, user_id: str, machine: str, report: Report) -> None:
    """Remove what was forgotten from the own segments; write all of them again if one is damaged."""
    try:
        report.rewritten = outgoing.rewrite_stale(store, folder, user_id, machine)
    except outgoing.DamagedError as error:
        _renewed(store, folder, user_id, is_copy=False)
        _adopt_former(store, folder, user_id, report)
        report.warnings.append(f"{error.path}{_DAMAGED}")


def _write_lost(connection: Connection, folder: Folder) -> None:
    """Write what no segment has any more.

    That are values of former ids of this memory, and of machines whose segments one of these had taken over.
    """
    replica = Replica(connection, folder)
    there = {replica.machine, *folder.segments()}
    _write_again(replica, lambda one: one.machine not in there and not replica.is_written(one))


def _write_again(replica: Replica, is_wanted: Callable[[Register], bool]) -> None:
    """Write the values of registers once more."""
    for kind in KINDS:
        for register in filter(is_wanted, replica.all_of(kind)):
            if register.is_gone:
                body = None
            elif kind == "p":
                body = {"v": int(bool(register.topic))}
            elif kind == "s" or not (register.local or kind == "d"):
                body = register.note
            else:
                replica.log_again(register)
                continue
            replica.say(Operation(kind, register.gid, register.stamp, register.machine, body))
    replica.flush()


def _adopt(store: MemoryStore, folder: Folder, user_id: str, machine: str) -> bool:
    """Write what still counts of a machine's segments into the own ones, and delete them.

    Return whether all of it could be read again: what was damaged since it was applied is here, but not in
    the own segments. Raises StoreError if they were not read to their end.
    """
    if not _is_read(store, folder, machine):
        raise StoreError(
            f"{folder.path}: the files of {machine} were not read completely",
            hint="sync until there is no warning about them",
        )
    own = store.read(tables.get)["machine"]
    is_whole = True
    for segment in folder.segments().get(machine, []):
        try:
            for frame in segments.read(folder, machine, segment):

                def take(connection: Connection, frame: segments.Frame = frame) -> None:
                    replica = Replica(connection, folder)
                    for operation in outgoing.current(connection, frame):
                        replica.say(operation)
                    replica.flush()

                store.write(user_id, take)
        except SealError:
            is_whole = False
        outgoing.write_outbox(store, folder, user_id, own)
    for segment in folder.segments().get(machine, []):
        path = folder.segment(machine, segment)
        try:
            remove_file(path)
        except OSError as error:
            raise outgoing.unwritable(path, error) from error
    return is_whole


def _is_read(store: MemoryStore, folder: Folder, machine: str) -> bool:
    """Return whether every whole frame of a machine was applied."""
    rows = store.read(
        lambda connection: connection.execute(
            "SELECT segment, frame FROM sync_seen WHERE machine = ?", (machine,)
        )
    )
    # The end of what it wrote may be torn off for good: its last segments then have no whole frame.
    for number in reversed(folder.segments().get(machine, [])):
        try:
            n_frames = segments.count(folder.segment(machine, number))
        except SealError:
            n_frames = 1  # at least: those of a damaged one cannot be counted
        if n_frames:
            return bool(rows) and rows[0] >= (number, n_frames - 1)
    return True


# ---- what is known, and the end


def status(memory: Memory, path: Path) -> list[Machine]:
    """Return the machines of the folder; raises UsageError if this memory is not synced with it."""
    store = _store(memory)
    if not store.read(tables.exists):
        raise UsageError("this memory is not synced", hint="shepherd sync FOLDER begins")
    folder = _joined(store, memory.user_id, path, lambda is_new: "", Report())
    state = store.read(tables.get)
    seen = {
        row[0]: row[1:]
        for row in store.read(
            lambda connection: connection.execute("SELECT machine, number, name, at FROM sync_seen")
        )
    }
    found = []
    for machine, numbers in sorted(folder.segments().items()):
        is_own = machine == state["machine"]
        own = (int(state.get("number", "0")), state["name"], int(time.time()))
        n_frames, name, at = own if is_own else seen.get(machine, (0, "", 0))
        size = sum(folder.segment(machine, number).stat().st_size for number in numbers)
        found.append(Machine(machine, name, is_own, n_frames, at, size))
    return found


def unwritten(memory: Memory) -> int:
    """Return the number of rows that were changed here and are not in the folder yet."""
    [(n,)] = _store(memory).read(
        lambda connection: connection.execute(
            "SELECT count(DISTINCT kind || id) FROM sync_log WHERE kind <> 'pruned'"
        )
    )
    return int(n)


def remove(memory: Memory, path: Path, machine: str) -> None:
    """Take over the segments of a machine that is not used any more, after a sync."""
    store = _store(memory)
    with locked(Path(memory.path).parent):
        folder = _joined(store, memory.user_id, path, lambda is_new: "", Report())
        if machine == store.read(tables.get)["machine"]:
            raise UsageError("that is this machine", hint="--leave ends the sync of this machine")
        if machine not in folder.segments():
            raise UsageError(f"{path} has no files of {machine!a}", hint="--status lists the machines")
        if not _adopt(store, folder, memory.user_id, machine):
            store.write(memory.user_id, partial(_write_lost, folder=folder))
            outgoing.collect_all(store, folder, memory.user_id, Report())
            outgoing.write_outbox(store, folder, memory.user_id, store.read(tables.get)["machine"])


def leave(memory: Memory) -> bool:
    """End the sync of this memory, which keeps all that it has; return whether it was synced.

    Which folder has its files is noted; if it was not synced, folders that are gone are forgotten.
    """
    store = _store(memory)
    left = [one for one in left_folders(store) if one.is_there]

    def drop(connection: Connection) -> bool:
        if not tables.exists(connection):
            tables.drop_left(connection)
            for one in left:
                tables.note_left(connection, one.machine, str(one.path))
            return False
        state = tables.get(connection)
        for machine in (state["machine"], *state.get("former", "").split()):
            tables.note_left(connection, machine, state.get("path", ""))
        tables.drop(connection)
        return True

    return store.write(memory.user_id, drop)

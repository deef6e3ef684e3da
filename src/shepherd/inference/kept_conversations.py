"""Conversations that an engine keeps on disk: which files it has, and the threads that write and read them.

What an engine has read of a conversation is written while nothing is answered, and when another conversation
takes its place in memory. A prompt that begins like a kept conversation of the same owner continues it. See
state_file.py for the files and shepherd.kept_files for their folder.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from array import array
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from shutil import disk_usage

from shepherd import kept_files
from shepherd._native import engine as native
from shepherd.inference.state_file import (
    Front,
    StateFileError,
    read_front,
    read_states,
    size_of,
    write_state,
)
from shepherd.threads import NativeThread

__all__ = ["KeptConversations", "KeptCounts"]

_LEAST_TOKENS = 32  # computing fewer takes less time than reading a file
_LEAST_SHARE = 4  # a file is read for at least a quarter of its tokens
_DISK_SHARE = 4  # all files take at most a quarter of what would be free without them
_WAIT_MS = 60_000
_JOIN_S = 0.05
_MOST_WARNINGS = 8
_TICK_NS = 50_000_000
_MOST_FILES = 2000
_FILLED = 0.9  # of the limit, after files were deleted
_COUNTED_S = 20.0


@dataclass(frozen=True, slots=True)
class KeptCounts:
    """Number and size of the files of all engines, and the counts of this one."""

    n: int
    size_bytes: int
    limit_bytes: int
    n_written: int
    n_read: int
    n_failed: int
    n_lost: int


@dataclass(frozen=True, slots=True)
class _Entry:
    number: int
    path: Path
    front: Front


class KeptConversations:
    """Kept conversations of one engine. `find` and `counts` may be called from any thread.

    `root` is the folder of all owners, `identity` what the engine's states belong to. All files take
    `limit_bytes`; a state has at most `state_bytes`, a conversation fewer than `window` tokens.
    """

    def __init__(
        self, root: Path, identity: bytes, *, limit_bytes: int, state_bytes: int, window: int
    ) -> None:
        self._root, self._identity = root, identity
        self._limit, self._state_bytes, self._window = limit_bytes, state_bytes, window
        self._lock = threading.Lock()
        self._owners: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._entries: dict[str, dict[Path, _Entry | None]] = {}
        self._by_number: dict[int, _Entry] = {}
        self._changed_at: dict[str, int] = {}
        self._numbers = count(1)
        self._warnings: list[str] = []
        self._n_written = self._n_read = self._n_failed = 0
        # Bytes of all files, as far as is known until then; other processes may write, too.
        self._total, self._counted_until = 0, 0.0
        self._is_stopping = False
        self._decoder: native.Decoder | None = None
        self._threads: list[NativeThread] = []

    # ---- what there is

    def number_of(self, owner: str) -> int:
        """Return the number by which the decoder knows an owner."""
        with self._lock:
            number = self._owners.setdefault(owner, len(self._owners) + 1)
            self._names[number] = owner
            return number

    def find(self, owner: str, ids: array[int]) -> tuple[int, int]:
        """Return the number of the owner's file with most of this prompt, and how much; zeros without one.

        It takes 0.2 us for each of the owner's files.
        """
        with self._lock:
            entries = self._scan(owner)
            commons = native.common_prefixes([entry.front.ids for entry in entries], ids)
        best, most = None, _LEAST_TOKENS - 1
        for entry, common in zip(entries, commons, strict=True):
            n = min(common, len(ids) - 1)
            length = len(entry.front.ids)
            is_better = n > most or (n == most and best is not None and length < len(best.front.ids))
            if is_better and n * _LEAST_SHARE >= length:
                best, most = entry, n
        return (0, 0) if best is None else (best.number, most)

    def counts(self) -> KeptCounts:
        """Return what is on disk, and what was done."""
        found, lost = kept_files.usage(self._root), 0 if self._decoder is None else self._decoder.n_lost
        done = (self._n_written, self._n_read, self._n_failed, lost)
        return KeptCounts(found.n, found.size_bytes, self._limit, *done)

    def take_warnings(self) -> list[str]:
        """Return what went wrong since the last call."""
        with self._lock:
            found, self._warnings = self._warnings, []
            return found

    def _scan(self, owner: str) -> list[_Entry]:
        """Return the owner's files of this model as the folder has them now. Under the lock."""
        known = self._entries.setdefault(owner, {})
        if not self._is_unchanged(owner):
            listed = set(kept_files.paths_of(self._root, owner))
            for path in known.keys() - listed:
                self._drop(owner, path)
            for path in listed - known.keys():
                self._add(owner, path)
        return [entry for entry in known.values() if entry is not None]

    def _is_unchanged(self, owner: str) -> bool:
        """Return whether the folder is as it was when it was listed last; notes its time. Under the lock."""
        before, changed_at = self._changed_at.get(owner), self._time_of(owner)
        self._changed_at[owner] = changed_at
        # A folder that has just changed may change again without another time.
        return before == changed_at and time.time_ns() - changed_at > _TICK_NS

    def _time_of(self, owner: str) -> int:
        try:
            return (self._root / owner).stat().st_mtime_ns
        except OSError:
            return 0

    def _add(self, owner: str, path: Path) -> None:
        entry = self._entries[owner][path] = self._entry(path)
        if entry is not None:
            self._by_number[entry.number] = entry

    def _drop(self, owner: str, path: Path) -> None:
        entry = self._entries[owner].pop(path, None)
        if entry is not None:
            del self._by_number[entry.number]

    def _entry(self, path: Path) -> _Entry | None:
        try:
            with open(path, "rb") as opened:
                front = read_front(opened, os.fstat(opened.fileno()).st_size)
        except FileNotFoundError:
            return None
        except (OSError, StateFileError) as error:
            self._refuse(path, error)
            return None
        if front.identity != self._identity or front.parts[0][0] >= self._window:
            return None  # of another model or another window
        if any(size > self._state_bytes for _, size in front.parts):
            return None
        return _Entry(next(self._numbers), path, front)

    def _refuse(self, path: Path, error: Exception) -> None:
        """Note that a file cannot be used; one that is damaged is deleted. Under the lock."""
        self._n_failed += 1
        if isinstance(error, StateFileError):
            kept_files.remove(path)
            text = "a conversation kept on disk was damaged; it was deleted, and is read again"
        else:
            text = f"a conversation kept on disk could not be read: {_reason(error)}"
        self._warn(text)

    def _warn(self, text: str) -> None:
        if text not in self._warnings and len(self._warnings) < _MOST_WARNINGS:
            self._warnings.append(text)

    # ---- reading and writing

    def read(self, number: int) -> list[tuple[array[int], native.State, bool]]:
        """Return what a file has, `[]` when that cannot be used."""
        with self._lock:
            entry = self._by_number.get(number)
        if entry is None:
            return []
        try:
            with open(entry.path, "rb") as file:
                parts = read_states(file, entry.front)
        except (FileNotFoundError, MemoryError):  # forgotten meanwhile, or too large for now
            return []
        except (OSError, StateFileError) as error:
            with self._lock:
                self._refuse(entry.path, error)
            return []
        kept_files.touch(entry.path)
        self._n_read += 1
        return parts

    def write(self, unwritten: native.Unwritten) -> None:
        """Write a conversation in place of what there was of it, if there is room."""
        parts = unwritten.parts()
        ids = array("i", bytes(parts[0][0]))
        with self._lock:
            owner = self._names[unwritten.owner]
            older = [entry for entry in self._scan(owner) if _is_older(entry.front, ids, unwritten.head)]
        for entry in older:
            if entry.front.ids == ids:
                kept_files.touch(entry.path)
                return
        try:
            if not self._make_room(size_of(parts)):
                return
            path = kept_files.put(
                self._root,
                owner,
                lambda file: write_state(file, self._identity, unwritten.head, parts),
                asked_at=unwritten.asked_ms / 1000,
            )
        except OSError as error:
            with self._lock:
                self._n_failed += 1
                self._warn(f"a conversation could not be kept on disk: {_reason(error)}")
            return
        if path is None:
            return
        with self._lock:
            for entry in older:
                kept_files.remove(entry.path)
                self._drop(owner, entry.path)
            self._add(owner, path)
            self._changed_at[owner] = self._time_of(owner)
            self._n_written += 1

    def _make_room(self, size_bytes: int) -> bool:
        """Delete the files used longest ago until one of this size fits; False if it never does."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        limit = min(self._limit, (disk_usage(self._root).free + self._total) // _DISK_SHARE)
        if size_bytes > limit:
            return False
        now = time.monotonic()
        if now < self._counted_until and self._total + size_bytes <= limit:
            self._total += size_bytes
            return True
        files = kept_files.all_files(self._root)
        self._total, n = sum(file.size_bytes for file in files), len(files)
        if self._total + size_bytes > limit or n >= _MOST_FILES:
            # Some more, so that the folders are not listed for each file.
            for file in files:
                if self._total + size_bytes <= _FILLED * limit and n < _FILLED * _MOST_FILES:
                    break
                kept_files.remove(file.path)
                self._total, n = self._total - file.size_bytes, n - 1
        self._total += size_bytes
        self._counted_until = now + _COUNTED_S
        return True

    # ---- the threads

    def start(self, decoder: native.Decoder) -> None:
        """Start to read and write for this decoder."""
        with contextlib.suppress(OSError):  # of which the first writing warns
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._decoder = decoder
        for name, work in (("reads", self._read_all), ("writes", self._write_all)):
            thread = NativeThread(work, decoder, name=f"shepherd-{name}")
            thread.start()
            self._threads.append(thread)

    def stop(self, decoder: native.Decoder) -> None:
        """Stop the threads. The decoder's own thread must have ended."""
        self._is_stopping = True
        for thread in self._threads:
            decoder.wake_files()
            while not thread.wait(_JOIN_S):
                decoder.wake_files()

    def write_rest(self, decoder: native.Decoder) -> None:
        """Write what is not written, after `stop`."""
        while self._write_next(decoder) or decoder.stage():
            pass

    def _read_all(self, decoder: native.Decoder) -> None:
        for owner in kept_files.owners(self._root):
            if self._is_stopping:
                return
            with self._lock:
                self._scan(owner)
        while not self._is_stopping:
            if decoder.wait_for_read(_WAIT_MS) and (wanted := decoder.next_read()):
                job, number = wanted
                try:
                    decoder.was_read(job, self.read(number))
                except ValueError:  # ids that this model does not have: a forged file
                    with self._lock:
                        if entry := self._by_number.get(number):
                            self._refuse(entry.path, StateFileError())
                    decoder.was_read(job, [])

    def _write_all(self, decoder: native.Decoder) -> None:
        while not self._is_stopping:
            if decoder.wait_for_unwritten(_WAIT_MS):
                self._write_next(decoder)

    def _write_next(self, decoder: native.Decoder) -> bool:
        unwritten = decoder.take_unwritten()
        if unwritten is None:
            return False
        try:
            self.write(unwritten)
        finally:
            decoder.give_back(unwritten)
        return True


def _is_older(front: Front, ids: array[int], head: int) -> bool:
    """Return whether a file has an earlier state of this conversation: half of it, beside the head."""
    n, common = len(front.ids), native.common_prefix(front.ids, ids)
    shared = min(head, common)
    return common == n or (common > shared and 2 * (common - shared) >= n - shared)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__

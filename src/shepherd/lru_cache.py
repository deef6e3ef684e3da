"""Caches limited in entries and bytes, which drop the entries that were not used for the longest time."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import cachetools

__all__ = ["CachedFunction", "FIFODict", "LRUCache"]

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class LRUCache(Generic[_Key, _Value]):
    """A thread-safe `cachetools.LRUCache` with two limits: a number of entries and a number of bytes.

    `size_of` returns the bytes of an entry. Without `max_bytes`, only the number of entries is limited.
    """

    def __init__(
        self,
        max_entries: int,
        *,
        max_bytes: int = 0,
        size_of: Callable[[_Key, _Value], int] | None = None,
    ) -> None:
        self._max_entries = max_entries
        self._size_of = size_of or (lambda key, value: 0)
        self._lock = threading.Lock()
        # Sizes stand beside the values, because cachetools measures a value without its key.
        self._entries: cachetools.LRUCache[_Key, tuple[_Value, int]] = cachetools.LRUCache(
            max_bytes or math.inf, getsizeof=lambda entry: entry[1]
        )

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def n_bytes(self) -> int:
        """Size of all entries together."""
        return int(self._entries.currsize)

    def get(self, key: _Key) -> _Value | None:
        """Return the value and mark it as used now, or return None if there is none."""
        with self._lock:
            try:
                return self._entries[key][0]
            except KeyError:
                return None

    def remove(self, key: _Key) -> None:
        """Drop an entry, if there is one."""
        with self._lock:
            self._entries.pop(key, None)

    def put(self, key: _Key, value: _Value) -> None:
        """Store a value, unless it alone is larger than `max_bytes`; the old value goes in any case."""
        size = self._size_of(key, value)
        with self._lock:
            if size > self._entries.maxsize:
                self._entries.pop(key, None)
                return
            self._entries[key] = value, size
            if len(self._entries) > self._max_entries:
                self._entries.popitem()

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._entries.clear()


class CachedFunction(Generic[_Value]):
    """A function of hashable arguments with an `LRUCache` of its results.

    Thread-safe; two threads may compute the same result.
    """

    def __init__(
        self,
        function: Callable[..., _Value],
        *,
        max_entries: int,
        max_bytes: int,
        size_of: Callable[[tuple[Hashable, ...], _Value], int],
    ) -> None:
        self._function = function
        # Results stand in tuples, so that None is a result like any other.
        self._results: LRUCache[tuple[Hashable, ...], tuple[_Value]] = LRUCache(
            max_entries, max_bytes=max_bytes, size_of=lambda key, result: size_of(key, result[0])
        )

    def __call__(self, *arguments: Hashable) -> _Value:
        """Return the cached result, or compute and cache it."""
        known = self._results.get(arguments)
        if known is None:
            known = (self._function(*arguments),)
            self._results.put(arguments, known)
        return known[0]

    def clear(self) -> None:
        """Forget all results."""
        self._results.clear()

    @property
    def n_bytes(self) -> int:
        """Size of all cached results together."""
        return self._results.n_bytes


class FIFODict(OrderedDict[_Key, _Value]):
    """A dictionary that drops the entry added first when it is full.

    Reading it costs as little as reading a dict, a fifth of an `LRUCache`: for what every message reads.
    """

    def __init__(self, max_entries: int) -> None:
        super().__init__()
        self._max_entries = max_entries

    def __setitem__(self, key: _Key, value: _Value) -> None:
        super().__setitem__(key, value)
        if len(self) > self._max_entries:
            self.popitem(last=False)

    def copy(self) -> FIFODict[_Key, _Value]:
        """Return a dictionary with the same entries and the same limit."""
        copied: FIFODict[_Key, _Value] = FIFODict(self._max_entries)
        copied.update(self)
        return copied

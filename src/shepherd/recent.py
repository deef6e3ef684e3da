"""What was used last, up to a number of entries and of bytes; the rest is forgotten."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Recent", "Remembered"]

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class Recent(Generic[_Key, _Value]):
    """A bounded dictionary that loses what was longest out of use. Thread-safe.

    `size_of` gives the bytes of an entry; without `most_bytes` only their number is bounded.
    """

    def __init__(
        self, most: int, *, most_bytes: int = 0, size_of: Callable[[_Key, _Value], int] | None = None
    ) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._size_of = size_of or (lambda key, value: 0)
        self._lock = threading.Lock()
        self._entries: OrderedDict[_Key, _Value] = OrderedDict()
        self._n_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def n_bytes(self) -> int:
        """Of all entries together."""
        return self._n_bytes

    def get(self, key: _Key) -> _Value | None:
        """The value, which counts as used now; None where there is none."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key]

    def put(self, key: _Key, value: _Value) -> None:
        """Keep a value under this key, unless it is larger than all may be together."""
        with self._lock:
            if key in self._entries:
                self._n_bytes -= self._size_of(key, self._entries.pop(key))
            size = self._size_of(key, value)
            if size > self._most_bytes > 0:
                return
            self._entries[key] = value
            self._n_bytes += size
            while len(self._entries) > self._most or self._n_bytes > self._most_bytes > 0:
                self._n_bytes -= self._size_of(*self._entries.popitem(last=False))


class Remembered(Generic[_Value]):
    """A function of hashable arguments whose latest results are kept: lru_cache that counts bytes.

    Thread-safe; two threads may compute the same result.
    """

    def __init__(
        self,
        function: Callable[..., _Value],
        *,
        most: int,
        most_bytes: int,
        size_of: Callable[[tuple[Hashable, ...], _Value], int],
    ) -> None:
        self._function = function
        self._results: Recent[tuple[Hashable, ...], tuple[_Value]] = Recent(
            most, most_bytes=most_bytes, size_of=lambda key, value: size_of(key, value[0])
        )

    def __call__(self, *arguments: Hashable) -> _Value:
        """The function's result, from before where it is known."""
        known = self._results.get(arguments)
        if known is None:
            known = (self._function(*arguments),)
            self._results.put(arguments, known)
        return known[0]

    @property
    def n_bytes(self) -> int:
        """Of all that is kept."""
        return self._results.n_bytes

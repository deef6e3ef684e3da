"""A conversation as a template sees it: lists of messages and namespaces that record how they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex

from jinja2.utils import Namespace

from shepherd.inference.template_sandbox import Charged, charge_iteration

if TYPE_CHECKING:
    from shepherd.inference.template_journal import LoopRun, Rendering

__all__ = [
    "COMPARISONS",
    "MISSING",
    "ConversationView",
    "SelectedMessages",
    "UntrackedError",
    "WatchedNamespace",
    "compare",
    "compare_attribute",
    "n_set",
    "read_attribute",
    "values_of",
]

Message = Mapping[str, Any]
MISSING = object()


class UntrackedError(Exception):
    """The template does something that can't be recorded."""


class Tracked(Charged):
    """A list as a template sees it, of which every use is recorded, or refused."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise UntrackedError(name)

    def __eq__(self, other: object) -> bool:
        raise UntrackedError("comparison")

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        raise UntrackedError("text")

    __repr__ = __str__


class ConversationView(Tracked):
    """The messages from `start` on, or up to `stop`, as a template sees a list of them."""

    __slots__ = ("_rendering", "start", "stop")

    def __init__(self, rendering: Rendering, start: int, stop: int | None = None) -> None:
        self._rendering, self.start, self.stop = rendering, start, stop

    def has(self, position: int) -> bool:
        """Return whether there is a message at this position of the conversation."""
        if self.stop is not None:
            return position < self.stop
        return self._rendering.compare_length("gt", position)

    def at(self, position: int) -> Message:
        """Return the message at a position of the conversation."""
        return self._rendering.read(position)

    def compare_length(self, operator: str, other: int) -> bool:
        """Compare the number of messages in this view."""
        if self.stop is not None:
            return COMPARISONS[operator](self.stop - self.start, other)
        return self._rendering.compare_length(operator, other + self.start)

    def _end(self) -> int:
        return self._rendering.length() if self.stop is None else self.stop

    def __len__(self) -> int:
        return max(0, self._end() - self.start)

    def __bool__(self) -> bool:
        return self.has(self.start)

    def __iter__(self) -> Iterator[Message]:
        position = self.start
        while self.has(position):
            yield self.at(position)
            position += 1

    def __reversed__(self) -> Iterator[Message]:
        return map(self.at, range(self._end() - 1, self.start - 1, -1))

    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        if isinstance(key, slice):
            return self._sliced(key)
        index = key.__index__()
        if index < 0:
            index += len(self)
        if index < 0 or not self.has(self.start + index):
            raise IndexError("there is no such message")
        return self.at(self.start + index)

    def _sliced(self, key: slice) -> ConversationView | list[Message]:
        begin = 0 if key.start is None else key.start
        if key.step in (None, 1) and key.stop is None and type(begin) is int and begin >= 0:
            start = self.start + begin
            if begin == 0 or self.has(start - 1):
                return ConversationView(self._rendering, start, self.stop)
        begin, end, step = key.indices(len(self))
        if step == 1:
            return ConversationView(self._rendering, self.start + begin, self.start + max(begin, end))
        return self._rendering.read_all(self.start, self._end())[key]

    def charged(self, n_chars: int) -> Iterator[Message]:
        """Iterate within the budget; a loop's body has so many characters of its own."""
        return charge_iteration(self, n_chars)


class SelectedMessages(Tracked):
    """The messages that a filter has selected, as a template sees a list of them."""

    __slots__ = ("_messages", "_rendering", "number")

    def __init__(self, rendering: Rendering, number: int, messages: list[Message]) -> None:
        self._rendering, self.number, self._messages = rendering, number, messages

    def told(self, index: int | None) -> Any:
        """Return what one of them is known by; all of them without an index."""
        if index is None:
            return self._messages
        return self._messages[index] if -len(self._messages) <= index < len(self._messages) else MISSING

    def _all(self) -> list[Message]:
        self._rendering.read_selected(self, None)
        return self._messages

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[Message]:
        return iter(self._all())

    def __reversed__(self) -> Iterator[Message]:
        return reversed(self._all())

    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        if isinstance(key, slice):
            return self._all()[key]
        index = key.__index__()
        self._rendering.read_selected(self, index)
        return self._messages[index]

    def charged(self, n_chars: int) -> Iterator[Message]:
        """Iterate within the budget; a loop's body has so many characters of its own."""
        return charge_iteration(self, n_chars)


class WatchedNamespace(Namespace):
    """A namespace that tells the loop which is recorded, if it was made before that, what is read and set."""

    def __init__(*arguments: Any, **members: Any) -> None:
        self, rest = arguments[0], arguments[1:]
        object.__setattr__(self, "_values", dict(*rest, **members))
        object.__setattr__(self, "_watch", None)
        object.__setattr__(self, "_n_set", 0)

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return WatchedNamespace
        return read_attribute(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        values_of(self)[name] = value
        object.__setattr__(self, "_n_set", n_set(self) + 1)
        watch = watch_of(self)
        if watch is not None:
            run, own = watch
            run.wrote((own, name), value)

    def __repr__(self) -> str:
        raise UntrackedError("text")


def values_of(namespace: WatchedNamespace) -> dict[str, Any]:
    """Return the attributes, unrecorded."""
    return object.__getattribute__(namespace, "_values")  # type: ignore[no-any-return]


def n_set(namespace: WatchedNamespace) -> int:
    """Return how often an attribute was set."""
    return object.__getattribute__(namespace, "_n_set")  # type: ignore[no-any-return]


def watch_of(namespace: WatchedNamespace) -> tuple[LoopRun, str] | None:
    return object.__getattribute__(namespace, "_watch")  # type: ignore[no-any-return]


def read_attribute(namespace: WatchedNamespace, name: str) -> Any:
    """Return an attribute, recorded."""
    values = values_of(namespace)
    watch = watch_of(namespace)
    if watch is not None:
        run, own = watch
        run.read((own, name), values.get(name, MISSING))
    try:
        return values[name]
    except KeyError:
        raise AttributeError(name) from None


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "gteq": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "lteq": lambda a, b: a <= b,
}


def compare(operator: str, left: Any, right: Any) -> Any:
    """Compare two values as a template does."""
    return COMPARISONS[operator](left, right)


def compare_attribute(namespace: Any, attribute: str, operator: str, other: Any) -> Any:
    """Compare an attribute of a namespace, which exists."""
    watch = watch_of(namespace)
    value = values_of(namespace)[attribute]
    if watch is None:
        return COMPARISONS[operator](value, other)
    run, own = watch
    return run.compare((own, attribute), value, operator, other)

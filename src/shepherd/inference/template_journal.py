"""Record of a rendered conversation, from which its next rendering continues.

A template is code, and each iteration of its loop over the messages is a function of what it reads. While a
conversation is rendered, all that an iteration reads is recorded, with what it writes. The next rendering
begins the loop behind the last iteration before which everything that was read is still the same:

- messages, by their position. What is the same is how many messages both conversations begin with;
- the number of messages, and attributes of namespaces and numbers that were set before the loop. If they
  are only compared, the result of the comparison is recorded: `loop.index0 > ns.last_user_index` stays false
  for an old message, whichever the last question is;
- all other variables, which must be the same when the loop begins.

An iteration writes text and attributes of namespaces. They are restored as they were behind that iteration.
A template that does anything else with the messages than index, slice, count and iterate is not recorded.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from operator import is_not
from typing import Any

from shepherd.inference.template_limits import Limits, is_same, is_settled, told
from shepherd.inference.template_sandbox import Charged, charge_iteration, charge_text
from shepherd.inference.template_views import (
    COMPARISONS,
    MISSING,
    ConversationView,
    Message,
    SelectedMessages,
    UntrackedError,
    WatchedNamespace,
    values_of,
)

__all__ = ["Journal", "LoopRun", "Rendering"]

# Values that a loop compares: the number of messages, and that of its own iterations.
_N_MESSAGES, _N_ITERATIONS = ("messages", ""), ("loop", "")
_SELECTED = "selected"
# A variable and its attribute, or one of these.
_Cell = tuple[str, Any]
_LARGE = 1 << 60


class _LoopLog:
    """Record of one loop: the reads and writes of its iterations."""

    __slots__ = ("base", "ends", "first", "limits", "names", "reach", "states")

    def __init__(self, first: tuple[str, int], names: dict[str, Any]) -> None:
        self.first, self.names = first, names
        self.base = 0  # of its text in the whole
        self.ends = array("q")  # of the text behind each iteration, from `base` on
        self.reach = array("q")  # the last message that was read until then
        self.states: list[dict[_Cell, Any]] = []  # what was set until then
        self.limits: dict[_Cell, Limits] = {}

    def is_of(self, first: tuple[str, int], names: dict[str, Any]) -> bool:
        """Return whether a loop begins as this one did."""
        mine = self.names
        return (
            self.first == first
            and mine.keys() == names.keys()
            and all(is_same(mine[name], told) for name, told in names.items())
        )

    def n_valid(self, n_common: int, value_of: Callable[[_Cell], Any]) -> int:
        """Return how many iterations would be the same again."""
        n = bisect_left(self.reach, n_common)
        for cell, limits in self.limits.items():
            n = limits.first_broken(value_of(cell), n)
        return n

    def forget(self, k: int) -> None:
        """Drop iterations from `k` on."""
        del self.ends[k:], self.reach[k:], self.states[k:]
        for limits in self.limits.values():
            limits.forget(k)


class LoopRun(Charged):
    """A loop over the messages of which each iteration is recorded; its own `loop` variable as well."""

    __slots__ = (
        "_cells",
        "_is_shared",
        "_is_watched",
        "_k",
        "_log",
        "_rendering",
        "_state",
        "_view",
        "items",
        "reach",
    )

    def __init__(
        self, rendering: Rendering, items: ConversationView | range, log: _LoopLog, cells: dict[str, Any]
    ) -> None:
        self._rendering, self.items, self._log, self._cells = rendering, items, log, cells
        self._view = items if isinstance(items, ConversationView) else None
        self._k = -1
        self._is_watched = self._is_shared = True
        self._state: dict[_Cell, Any] = {}
        self.reach = -1

    # ---- beginning and end

    def begin(self, old_text: str, n_common: int) -> str:
        """Restore what is behind the last iteration that is the same, and return the text up to there."""
        log = self._log
        n = min(log.n_valid(n_common, self._value), self.length_now())
        log.forget(n)
        self._k = n - 1
        text = ""
        if n:
            text = old_text[log.base : log.base + log.ends[-1]]
            self._state, self.reach = log.states[-1], log.reach[-1]
            for (name, attribute), value in self._state.items():
                values_of(self._cells[name])[attribute] = value
        for name, cell in self._cells.items():
            if cell.__class__ is WatchedNamespace:
                object.__setattr__(cell, "_watch", (self, name))
        return text

    def leave(self) -> None:
        """End the record."""
        for cell in self._cells.values():
            if cell.__class__ is WatchedNamespace:
                object.__setattr__(cell, "_watch", None)

    def length_now(self) -> int:
        """Return how many iterations there are, unrecorded."""
        if self._view is None:
            return len(self.items)
        stop = self._view.stop
        return max(0, (self._rendering.n if stop is None else stop) - self._view.start)

    def _value(self, cell: _Cell) -> Any:
        if cell == _N_MESSAGES:
            return self._rendering.n
        if cell == _N_ITERATIONS:
            return self.length_now()
        if cell[0] == _SELECTED:
            return self._rendering.selected_now(*cell[1])
        found = self._cells[cell[0]]
        return values_of(found).get(cell[1], MISSING) if found.__class__ is WatchedNamespace else found

    # ---- iterations

    def charged(self, n_chars: int) -> Iterator[tuple[Any, LoopRun]]:
        """Iterate within the budget; each item comes with this, the loop's own variable."""
        log, rendering = self._log, self._rendering
        first, n = log.first[1], self.length_now()
        is_view = self._view is not None
        for k in charge_iteration(range(self._k + 1, n), n_chars):
            self._k = k
            yield (rendering.read(first + k) if is_view else first + k), self
            if self._is_watched:
                log.ends.append(rendering.position() - log.base)
                log.reach.append(self.reach)
                log.states.append(self._state)
                self._is_shared = True
        rendering.leave()

    def limits(self, cell: _Cell) -> Limits:
        """Return what a cell must be."""
        found = self._log.limits.get(cell)
        if found is None:
            found = self._log.limits[cell] = Limits()
        return found

    def read(self, cell: _Cell, value: Any) -> None:
        """Note that the iteration has read a cell: its value when the loop began, if it wasn't set since."""
        if cell not in self._state:
            self.limits(cell).equals(value, self._k)

    def wrote(self, cell: _Cell, value: Any) -> None:
        """Note that the iteration has set a cell."""
        if not is_settled(value):
            self._is_watched = False  # this one and all that follow run each time
        if self._is_shared:
            self._state = dict(self._state)
            self._is_shared = False
        self._state[cell] = value

    def compare(self, cell: _Cell, value: Any, operator: str, other: Any) -> Any:
        """Compare a cell, which has this value, and note only the outcome if both are numbers."""
        if cell not in self._state:
            if type(value) is int and type(other) is int and abs(value) < _LARGE and abs(other) < _LARGE:
                outcome = COMPARISONS[operator](value, other)
                self.limits(cell).compared(operator, other, outcome, self._k)
                return outcome
            self.limits(cell).equals(value, self._k)
        return COMPARISONS[operator](value, other)

    # ---- the attributes of `loop`

    @property
    def index0(self) -> int:
        """Number of the iteration, from 0 on."""
        return self._k

    @property
    def index(self) -> int:
        """Number of the iteration, from 1 on."""
        return self._k + 1

    @property
    def first(self) -> bool:
        """True in the first iteration."""
        return self._k == 0

    @property
    def last(self) -> bool:
        """True in the last iteration."""
        outcome: bool = self.compare(_N_ITERATIONS, self.length_now(), "lteq", self._k + 1)
        return outcome

    @property
    def length(self) -> int:
        """Number of iterations."""
        self.read(_N_ITERATIONS, self.length_now())
        return self.length_now()

    @property
    def previtem(self) -> Any:
        """The item before, or undefined."""
        return self._item(self._k - 1) if self._k else self._rendering.undefined("there is no previous item")

    @property
    def nextitem(self) -> Any:
        """The item behind, or undefined."""
        return self._rendering.undefined("there is no next item") if self.last else self._item(self._k + 1)

    def _item(self, k: int) -> Any:
        position = self._log.first[1] + k
        return position if self._view is None else self._rendering.read(position)


class _Selection:
    """Which messages from `start` on a filter selects, of those before `end`."""

    __slots__ = ("end", "positions", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.positions = array("q")

    def forget(self, end: int) -> None:
        """Drop the messages from `end` on."""
        self.end = max(self.start, min(self.end, end))
        del self.positions[bisect_left(self.positions, end) :]


class Journal:
    """Record of a conversation's last rendering. Only one rendering may use it at a time: hold the `lock`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Forget all."""
        self.key: Any = None
        self.text = ""
        self.forms: Sequence[Message] = ()
        self.logs: dict[int, _LoopLog] = {}
        self.selections: dict[int, _Selection] = {}

    def n_common(self, forms: Sequence[Message]) -> int:
        """Return how many messages both conversations begin with."""
        n = min(len(self.forms), len(forms))
        for i in compress(range(n), map(is_not, self.forms, forms)):
            if repr(self.forms[i]) != repr(forms[i]):
                return i
        return n


class Rendering:
    """One rendering of a conversation, which continues from a journal and is recorded in it."""

    def __init__(self, journal: Journal, forms: Sequence[Message], undefined: Callable[[str], Any]) -> None:
        self._journal, self._forms, self.undefined = journal, forms, undefined
        self.n = len(forms)
        self._n_common = journal.n_common(forms)
        self._pieces: list[str] = []
        self._n_counted = self._position = 0
        self._run: LoopRun | None = None
        self._logs: dict[int, _LoopLog] = {}
        self._selections: dict[int, _Selection] = {}
        self._selected: dict[int, SelectedMessages] = {}

    @property
    def messages(self) -> ConversationView:
        """All messages, as the template sees them."""
        return ConversationView(self, 0)

    def write(self, pieces: Iterator[str]) -> str:
        """Run the template, return its text, and keep the record."""
        append = self._pieces.append
        for piece in pieces:
            append(piece)
        self.position()
        self.leave()
        journal = self._journal
        journal.text, journal.forms = "".join(self._pieces), list(self._forms)
        journal.logs, journal.selections = self._logs, self._selections
        return journal.text

    def position(self) -> int:
        """Return how many characters have been written."""
        n = len(self._pieces)
        if n > self._n_counted:
            n_chars = sum(map(len, self._pieces[self._n_counted :]))
            charge_text(n_chars)
            self._position += n_chars
            self._n_counted = n
        return self._position

    def selected(self, number: int, messages: Any, select: Callable[[Any], list[Any]]) -> Any:
        """Return the messages that a filter selects, each by itself; only new ones are filtered."""
        if self._run is not None or messages.__class__ is not ConversationView:
            return select(messages)
        selection = self._journal.selections.get(number)
        if selection is None or selection.start != messages.start:
            selection = _Selection(messages.start)
        end = self.n if messages.stop is None else messages.stop
        selection.forget(min(end, self._n_common))
        for position in range(selection.end, end):
            if select([self._forms[position]]):
                selection.positions.append(position)
        selection.end = max(selection.end, end)
        self._selections[number] = selection
        found = [self._forms[position] for position in selection.positions]
        self._selected[number] = SelectedMessages(self, number, found)
        return self._selected[number]

    def selected_now(self, number: int, index: int | None) -> Any:
        """Return one of the messages that a filter has selected, or all, unrecorded."""
        found = self._selected.get(number)
        return MISSING if found is None else found.told(index)

    def read_selected(self, selected: SelectedMessages, index: int | None) -> None:
        """Note that one of these messages was read, or all."""
        if self._run is not None:
            self._run.read((_SELECTED, (selected.number, index)), selected.told(index))

    # ---- loops

    def enter(self, number: int, items: Any, names: Sequence[str], values: Sequence[Any], lazy: int) -> str:
        """Begin a loop, and return the text of the iterations that are the same.

        `names` of variables that its body reads. The first `lazy` are only compared there.
        """
        self.leave()
        if items.__class__ is not ConversationView and (items.__class__ is not range or items.step != 1):
            raise UntrackedError("loop")
        first = ("view", items.start) if items.__class__ is ConversationView else ("range", items.start)
        known: dict[str, Any] = {}
        cells: dict[str, Any] = {}
        for i, (name, value) in enumerate(zip(names, values, strict=True)):
            if value.__class__ is WatchedNamespace:
                if any(value is cell for cell in cells.values()):
                    raise UntrackedError("two names of one namespace")
                cells[name], known[name] = value, "namespace"
            elif i < lazy:
                cells[name], known[name] = value, "value"
            else:
                known[name] = told(value)
        log = self._journal.logs.get(number)
        if log is None or not log.is_of(first, known):
            log = _LoopLog(first, known)
        begin = self.position()
        self._run = run = LoopRun(self, items, log, cells)
        text = run.begin(self._journal.text, self._n_common)
        log.base = begin
        self._logs[number] = log
        return text

    def entered(self) -> LoopRun:
        """Return the loop that has just begun."""
        assert self._run is not None
        return self._run

    def leave(self) -> None:
        """End the loop that is recorded, if there is one."""
        if self._run is not None:
            self._run.leave()
            self._run = None

    # ---- what the template reads

    def read(self, position: int) -> Message:
        """Return a message."""
        run = self._run
        if run is not None and position > run.reach:
            run.reach = position
        return self._forms[position]

    def read_all(self, start: int, stop: int) -> list[Message]:
        """Return messages, of which a loop can read each."""
        if self._run is not None:
            self._run.reach = max(self._run.reach, stop - 1)
        return list(self._forms[start:stop])

    def length(self) -> int:
        """Return the number of messages."""
        if self._run is not None:
            self._run.read(_N_MESSAGES, self.n)
        return self.n

    def compare_length(self, operator: str, other: int) -> bool:
        """Compare the number of messages with another number."""
        if self._run is None:
            return COMPARISONS[operator](self.n, other)
        outcome: bool = self._run.compare(_N_MESSAGES, self.n, operator, other)
        return outcome

    def compare_name(self, name: str, value: Any, operator: str, other: Any) -> Any:
        """Compare a variable that was set before the loop."""
        if self._run is None:
            return COMPARISONS[operator](value, other)
        return self._run.compare((name, ""), value, operator, other)

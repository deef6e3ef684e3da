"""Collects the ids of a prompt: control tokens where the template writes them, runs of text, sampled ids."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shepherd.inference.vocabulary import Vocabulary

__all__ = ["Mark", "Prompt", "PromptBuilder"]

_Tokenize = Callable[[str, bool], "array[int]"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """Ids for the engine; how many each message has of them, the template's text around it included.

    `boundaries`: lengths at which later prompts may part from this one, ascending: the end of the system
    prompt (`head`; 0 without one), the begin of the newest message of the user, whose tail may be gone next
    time, and the end of the last message, before the template's invitation to answer.
    """

    token_ids: array[int]
    tokens_per_message: tuple[int, ...]
    text: str
    boundaries: tuple[int, ...] = ()
    head: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a prompt was: `n_ids` of its ids, and what was collected behind them."""

    n_ids: int
    counts: tuple[int, ...]
    run: tuple[str, ...]
    run_owner: int | None
    after_ids: bool
    strip_next: bool
    head: int


class PromptBuilder:
    """One prompt being made; `owner` is the message that what comes next belongs to."""

    def __init__(self, vocabulary: Vocabulary, tokenize: _Tokenize, n_messages: int) -> None:
        self._vocabulary, self._tokenize = vocabulary, tokenize
        self.ids: array[int] = array("i")
        self.counts = [0] * n_messages
        self.owner = 0
        self._run: list[str] = []
        self._run_owner: int | None = None
        self._after_ids = False
        self._strip_next = False
        self._boundaries: list[int] = []
        self._head = 0
        self.marked: Mark | None = None

    def mark(self) -> None:
        """Note the place, for another prompt to go on from with `resume`."""
        self.marked = Mark(
            len(self.ids), tuple(self.counts), tuple(self._run), self._run_owner, self._after_ids,
            self._strip_next, self._head,
        )  # fmt: skip

    def resume(self, mark: Mark, ids: array[int]) -> None:
        """Begin at that place: `ids` are those of the prompt that was marked."""
        self.ids = ids[: mark.n_ids]
        n = min(len(self.counts), len(mark.counts))
        self.counts[:n] = mark.counts[:n]
        self._run, self._run_owner = list(mark.run), mark.run_owner
        self._after_ids, self._strip_next = mark.after_ids, mark.strip_next
        self._head = mark.head
        if mark.head:
            self._boundaries.append(mark.head)

    def bound(self, *, is_head: bool = False) -> None:
        """A boundary behind the ids that nothing to come can change."""
        if self.ids:
            self._boundaries.append(len(self.ids))
        if is_head:
            self._head = len(self.ids)

    def template(self, text: str, *, bound_at: int = -1) -> None:
        """The template's text; a boundary before the control token that begins at `bound_at`, if one does."""
        start = 0
        for match in self._vocabulary.control_pattern.finditer(text):
            self._run.append(text[start : match.start()])
            self._control(self._vocabulary.controls[match[0]], is_bound=match.start() == bound_at)
            start = match.end()
        self._run.append(text[start:])

    def content(self, text: str) -> None:
        """What somebody wrote: never a control token."""
        self._run.append(text)
        # The run ends in the template's text of the next message, and still is this one's.
        self._run_owner = self.owner

    def answer(self, token_ids: Sequence[int]) -> None:
        """An answer as it was sampled."""
        self.flush()
        self._add(array("i", token_ids))
        self._after_ids = True

    def flush(self, *, strip_end: bool = False) -> None:
        """Tokenise what was collected since the last control token."""
        run = "".join(self._run)
        self._run.clear()
        if self._strip_next:
            run = run.lstrip()
        if strip_end:
            run = run.rstrip()
        if run:
            self._add(self._tokenize(run, self._after_ids))
        self._run_owner = None
        self._after_ids = self._strip_next = False

    def prompt(self, counts: list[int], text: str) -> Prompt:
        """The ids, after one BOS if the model wants one: templates may have written it themselves."""
        bos, boundaries, head = self._vocabulary.bos, self._boundaries, self._head
        if self._vocabulary.adds_bos and (not self.ids or self.ids[0] != bos):
            self.ids.insert(0, bos)
            counts[0] += 1
            boundaries = [length + 1 for length in boundaries]
            head += head > 0
        inner = sorted({length for length in boundaries if length < len(self.ids)})
        return Prompt(self.ids, tuple(counts), text, tuple(inner), head)

    def _control(self, token: int, *, is_bound: bool) -> None:
        before, after = self._vocabulary.strips(token)
        self.flush(strip_end=before)
        if is_bound:
            self.bound()
        self._add(array("i", [token]))
        self._strip_next = after

    def _add(self, ids: array[int]) -> None:
        self.ids.extend(ids)
        self.counts[self.owner if self._run_owner is None else self._run_owner] += len(ids)

"""Draft of a turn: the prompt it sends, and the messages that leave the window for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from shepherd.pictures import without_pictures
from shepherd.prompt.exchanges import Exchange, messages_of, strip_tails
from shepherd.prompt.plan import Part, Plan
from shepherd.prompt.system_prompt import Snapshot, assemble
from shepherd.types import Injection, Message

__all__ = ["Draft", "Note"]


# Message and hint about something that the answer does not depend on.
Note = tuple[str, str]


@dataclass(slots=True)
class Draft:
    """A turn that is not yet part of its conversation, which stays unchanged until the turn ends well.

    `history` holds the messages before `message` that the model sees, `steps` the calls of tools and their
    results after it. `leaving` holds the messages evicted in this turn, oldest first; with `is_summarized` a
    summary replaces them. `is_registered` is true once the dialogue has taken `message` in, which gave the
    parts `entities`. `measured` computes the plan with token counts, where the plan was made from byte
    lengths.
    """

    message: Message
    snapshot: Snapshot
    history: list[Message] = field(default_factory=list)
    steps: list[Message] = field(default_factory=list)
    leaving: list[Message] = field(default_factory=list)
    is_summarized: bool = False
    is_registered: bool = False
    entities: Sequence[Part] = ()
    injection: Injection = field(default_factory=Injection)
    plan: Plan = field(default_factory=Plan)
    measured: Callable[[], Plan] | None = None
    notes: list[Note] = field(default_factory=list)
    # Remarks for the user when nothing failed and nothing is lost.
    remarks: list[str] = field(default_factory=list)
    private: bool = False
    # Messages whose tails were stripped in this turn, with their former text and tokens.
    _stripped: list[tuple[Message, str, int]] = field(default_factory=list)
    # Value of `n_removed` when the plan was made.
    _planned_with: tuple[int, int] = (0, 0)

    @property
    def prompt(self) -> list[Message]:
        """Messages that the model sees. Raises InternalError when the frozen system part changed."""
        return [*assemble(self.snapshot.system, self.history, self.message), *self.steps]

    def public_prompt(self, exchanges: Iterable[Exchange]) -> str:
        """Return the text of the prompt that may be stored: without these exchanges' private ones."""
        hidden = {id(m) for m in messages_of(exchange for exchange in exchanges if exchange.is_private)}
        system, *others = self.prompt
        summary = self.snapshot.summary
        said = system.sent.replace(summary.text, summary.public.text) if summary.private else system.sent
        return "\n".join(
            [said, *(without_pictures(message).sent for message in others if id(message) not in hidden)]
        )

    @property
    def is_outdated(self) -> bool:
        """True if messages were evicted or stripped since the plan was made; it may show their parts
        again.
        """
        return self._planned_with != self.n_removed

    def planned(self) -> None:
        """Note that the plan is made for the present history."""
        self._planned_with = self.n_removed

    @property
    def n_removed(self) -> tuple[int, int]:
        """Numbers of messages evicted and stripped in this turn."""
        return len(self.leaving), len(self._stripped)

    @property
    def evicted_turns(self) -> int:
        """Number of user messages evicted in this turn."""
        return sum(message.role == "user" for message in self.leaving)

    @property
    def stripped(self) -> list[Message]:
        """Messages whose tails were stripped in this turn."""
        return [message for message, _, _ in self._stripped]

    def evict(self, messages: Iterable[Message]) -> None:
        """Remove these messages from the prompt."""
        gone = {id(message) for message in messages}
        self.leaving += [message for message in self.history if id(message) in gone]
        self.history = [message for message in self.history if id(message) not in gone]

    def evicted(self, exchanges: Iterable[Exchange]) -> list[Exchange]:
        """Return the exchanges that left the window in this turn."""
        gone = {id(message) for message in self.leaving}
        return [exchange for exchange in exchanges if id(exchange.user) in gone]

    def strip(self, messages: Iterable[Message]) -> None:
        """Strip the tails of these messages; `restore_tails` undoes it."""
        carriers = list(messages)
        self._stripped += [(message, message.sent, message.tokens) for message in carriers]
        strip_tails(carriers)

    def commit_stripped(self) -> None:
        """Make the stripping permanent, after a turn that ended well."""
        self._stripped.clear()

    def restore_tails(self) -> None:
        """Restore the stripped tails, after a turn that failed or was abandoned."""
        for message, sent, tokens in self._stripped:
            message.sent, message.tokens = sent, tokens
        self._stripped.clear()

    def drop_tail(self) -> None:
        """Remove the tail of the message."""
        self.message.sent, self.message.injected, self.injection = self.message.content, None, Injection()

    def take_notes(self) -> Iterator[Note]:
        """Yield the notes so far, each once."""
        while self.notes:
            yield self.notes.pop(0)

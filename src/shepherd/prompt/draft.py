"""Draft of a turn: the prompt it sends, and the messages that leave the window for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from shepherd.prompt.exchanges import Exchange, messages_of, strip_tails
from shepherd.prompt.plan import Part, Plan
from shepherd.prompt.system_prompt import Snapshot, assemble
from shepherd.types import Injection, Message

__all__ = ["Draft", "Note"]


# Something failed, or happened, that the answer does not depend on: what, and what to do about it.
Note = tuple[str, str]


@dataclass(slots=True)
class Draft:
    """A turn that is not yet part of its conversation; the conversation stays as it was until the turn ends.

    `history` holds the messages before `message` that the model sees, `steps` the calls of tools and their
    results after it. `leaving` holds the messages that left the window in this
    turn, oldest first; with `is_summarized` a summary replaces them. `is_registered` is true once the entity registry
    has taken `message` in, and `entities` are the parts it gave. `measured` computes the plan's token counts,
    where the plan was made from byte lengths alone.
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
    private: bool = False
    # Messages that lost their tails for this turn: as they were sent, and the tokens that they had.
    _stripped: list[tuple[Message, str, int]] = field(default_factory=list)
    # How much had left or lost its tail when the plan was made.
    _planned_with: tuple[int, int] = (0, 0)

    @property
    def prompt(self) -> list[Message]:
        """What the model sees. InternalError when P0 to P2 are not what they were."""
        return [*assemble(self.snapshot.system, self.history, self.message), *self.steps]

    def public_prompt(self, exchanges: Iterable[Exchange]) -> str:
        """The prompt as it may be written down: of these exchanges, those that are private are left out."""
        hidden = {id(m) for m in messages_of(exchange for exchange in exchanges if exchange.is_private)}
        system, *others = self.prompt
        summary = self.snapshot.summary
        said = system.sent.replace(summary.text, summary.public.text) if summary.private else system.sent
        return "\n".join([said, *(message.sent for message in others if id(message) not in hidden)])

    @property
    def is_outdated(self) -> bool:
        """Whether something left, or lost its tail, since the plan was made: it may be shown anew."""
        return self._planned_with != self.n_removed

    def planned(self) -> None:
        """The plan is made for the history as it is now."""
        self._planned_with = self.n_removed

    @property
    def n_removed(self) -> tuple[int, int]:
        """Numbers of the messages that left the window, and that lost their tails, in this turn."""
        return len(self.leaving), len(self._stripped)

    @property
    def evicted_turns(self) -> int:
        """Number of user messages that left the window in this turn."""
        return sum(message.role == "user" for message in self.leaving)

    @property
    def stripped(self) -> list[Message]:
        """Messages that lost their tails in this turn."""
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
        """Take these messages' tails off: for good where the turn ends well, see `restore_tails`."""
        carriers = list(messages)
        self._stripped += [(message, message.sent, message.tokens) for message in carriers]
        strip_tails(carriers)

    def commit_stripped(self) -> None:
        """The turn has ended well."""
        self._stripped.clear()

    def restore_tails(self) -> None:
        """Give the messages of the conversation their tails back, after a turn that came to nothing."""
        for message, sent, tokens in self._stripped:
            message.sent, message.tokens = sent, tokens
        self._stripped.clear()

    def drop_tail(self) -> None:
        """Do without what is added to the message."""
        self.message.sent, self.message.injected, self.injection = self.message.raw, None, Injection()

    def take_notes(self) -> Iterator[Note]:
        """The notes so far, each once."""
        while self.notes:
            yield self.notes.pop(0)

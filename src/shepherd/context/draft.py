"""A turn on its way, before it is part of the conversation: what it shows, and what leaves for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from shepherd.context.exchanges import Exchange
from shepherd.context.parts import Plan
from shepherd.context.prompt import assemble
from shepherd.context.snapshot import Snapshot
from shepherd.types import Injection, Message, TurnStats

__all__ = ["Draft", "Note"]

# Something failed, or happened, that the answer does not depend on: what, and what to do about it.
Note = tuple[str, str]


@dataclass(slots=True)
class Draft:
    """Becomes an Exchange when the turn ends well; until then the conversation is as it was.

    `history` is what goes before the message, `steps` what came after it so far: calls of tools and their
    results, which cost `stats`. `leaving` are the exchanges that make room, `is_folded` whether a summary
    stands for them. `is_heard`: the registry of entities has heard the message. `measured` gives the plan
    with its figures, where it has none yet.
    """

    message: Message
    snapshot: Snapshot
    history: list[Message] = field(default_factory=list)
    steps: list[Message] = field(default_factory=list)
    stats: TurnStats | None = None
    leaving: list[Exchange] = field(default_factory=list)
    is_folded: bool = False
    is_heard: bool = False
    injection: Injection = field(default_factory=Injection)
    plan: Plan = field(default_factory=Plan)
    measured: Callable[[], Plan] | None = None
    notes: list[Note] = field(default_factory=list)
    private: bool = False

    @property
    def prompt(self) -> list[Message]:
        """What the model sees. InternalError when P0 to P2 are not what they were."""
        return [*assemble(self.snapshot.system, self.history, self.message), *self.steps]

    def let_leave(self, exchanges: list[Exchange]) -> None:
        """Show the model these exchanges no more."""
        gone = {id(message) for e in exchanges for message in (e.user, *e.steps, e.answer)}
        self.history = [message for message in self.history if id(message) not in gone]
        self.leaving += exchanges

    def drop_tail(self) -> None:
        """Do without what is added to the message."""
        self.message.sent, self.message.injected, self.injection = self.message.raw, None, Injection()

    def take_notes(self) -> Iterator[Note]:
        """The notes so far, each once."""
        while self.notes:
            yield self.notes.pop(0)

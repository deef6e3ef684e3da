"""The history of a stateless request: the client's messages, with the tails that they had last time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from shepherd.context import Draft, Exchange, Restored, Snapshot, turns
from shepherd.types import Message

__all__ = ["ClientHistory"]


@dataclass(frozen=True, slots=True)
class ClientHistory:
    """The messages of one request, as the ledger restored them; the newest is a copy with the present time.

    The `n_instructions` system messages at the beginning are the client's own instructions, which the system
    part of the prompt contains.
    """

    messages: list[Message]
    restored: Restored
    n_instructions: int

    @classmethod
    def begin(cls, restored: Restored) -> ClientHistory:
        """Return the history of the request whose messages `restored` has."""
        messages = list(restored.messages)
        messages[-1] = messages[-1].copy()
        messages[-1].created_at = int(time.time())
        n_instructions = next((i for i, m in enumerate(messages) if m.role != "system"), len(messages))
        return cls(messages, restored, n_instructions)

    @property
    def newest(self) -> Message:
        """The message to answer."""
        return self.messages[-1]

    @property
    def instructions(self) -> str:
        """The client's own instructions, "" for none."""
        return "\n\n".join(message.raw for message in self.messages[: self.n_instructions])

    def draft(self, snapshot: Snapshot) -> Draft:
        """Start a draft behind `snapshot`. Messages that left the window in earlier requests stay out."""
        n_left = self.restored.n_left
        kept = [
            message
            for i, message in enumerate(self.messages[:-1])
            if i >= self.n_instructions and (i >= n_left or message.role == "system")
        ]
        return Draft(self.newest, snapshot, kept, private=self.newest.role != "user")

    def exchanges(self, draft: Draft, hashes: Sequence[str]) -> list[Exchange]:
        """Group the draft's history into exchanges; `hashes` are those of the messages."""
        key_of = {id(message): key for message, key in zip(self.messages, hashes, strict=True)}
        messages = [*draft.history, draft.message]
        exchanges = []
        for indices in turns(messages)[:-1]:
            first, *steps, last = (Message("user", ""), *(messages[i] for i in indices))
            if steps:
                first, *steps = steps
            exchanges.append(Exchange(first, last, steps=steps, key=key_of[id(last)]))
        return exchanges

    def first_kept(self, draft: Draft) -> int:
        """Index of the oldest message, system messages aside, that the model sees."""
        kept = self._kept(draft)
        return next(i for i, m in enumerate(self.messages) if id(m) in kept and m.role != "system")

    def evicted(self, draft: Draft) -> list[tuple[int, Message]]:
        """Messages that the model does not see, with their indices; the client's instructions are not among
        them.
        """
        kept = self._kept(draft)
        numbered = list(enumerate(self.messages))[self.n_instructions :]
        return [(i, message) for i, message in numbered if id(message) not in kept]

    def evicted_turns(self, draft: Draft) -> int:
        """Number of user messages that the model does not see."""
        return sum(message.role == "user" for _, message in self.evicted(draft))

    def stripped(self, draft: Draft) -> set[int]:
        """Indices of the messages that lost their tails for this request."""
        stripped = {id(message) for message in draft.stripped}
        return {i for i, message in enumerate(self.messages) if id(message) in stripped}

    def _kept(self, draft: Draft) -> set[int]:
        return {id(message) for message in (*draft.history, draft.message)}

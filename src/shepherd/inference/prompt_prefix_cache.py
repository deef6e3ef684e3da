"""What was made of conversations so far, so that the next turn makes only what is new."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from shepherd.inference.prompt_builder import Mark
from shepherd.types import Message

__all__ = ["Key", "Past", "Pasts", "keys_of"]

_MOST = 32
Key = tuple[Any, ...]
# All of a message that a prompt depends on. They are changed in place: what was there is what is compared.
_key = attrgetter("role", "sent", "raw", "thought", "token_ids", "tool_calls", "tool_call_id")


def keys_of(messages: Sequence[Message]) -> list[Key]:
    """What of the messages a prompt depends on, each by itself."""
    return list(map(_key, messages))


@dataclass(frozen=True, slots=True)
class Past:
    """A conversation up to its newest message of the user, whose text comes next.

    `forms`: what the template got of it; `text`: what that wrote; `ids` and `mark`: how far the prompt was;
    `calls`: names of the tools that were called, by the calls' ids.
    """

    keys: list[Key]
    forms: list[dict[str, Any]]
    text: str
    ids: array[int]
    mark: Mark
    calls: Mapping[str, str]

    def is_clear(self, messages: Sequence[Message]) -> bool:
        """Whether no call or result that is new says, by its id, something of what came before."""
        new = {call.id: call.name for message in messages for call in message.tool_calls}
        if any(self.calls.get(id_, name) != name for id_, name in new.items()):
            return False
        results = {message.tool_call_id for message in messages if message.role == "tool"}
        return not any(id_ in self.calls for id_ in results - new.keys())


class Pasts:
    """Those that were used last. For one thread at a time."""

    def __init__(self) -> None:
        self._pasts: list[Past] = []

    def find(self, keys: Sequence[Key]) -> Past | None:
        """The longest that this conversation begins with."""
        found = [past for past in self._pasts if self._begins(past.keys, keys)]
        return max(found, key=lambda past: len(past.keys), default=None)

    def keep(self, past: Past, *, instead_of: Past | None = None) -> None:
        """Remember it; the one used longest ago leaves."""
        self._pasts = [one for one in self._pasts if one is not instead_of][-_MOST + 1 :]
        self._pasts.append(past)

    @staticmethod
    def _begins(head: list[Key], keys: Sequence[Key]) -> bool:
        n = len(head)
        return n < len(keys) and head[n - 1] == keys[n - 1] and head == keys[:n]

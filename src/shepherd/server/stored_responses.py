"""Responses of the Responses API that the server keeps.

A stored response has its own input and output, and the ids of the responses before it. It is kept with the
notes of the user's memory: it goes with its conversation, and the least recently used go in the end. What
is about nobody's memory is kept in this process alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shepherd.memory import Memory
from shepherd.server.errors import Denied, invalid
from shepherd.server.state import ServerState
from shepherd.types import ANONYMOUS_USERS

__all__ = ["StoredResponses"]

_MOST_LINKS = 2048  # responses of one conversation


@dataclass(frozen=True, slots=True)
class StoredResponses:
    """The stored responses of one user. All methods may wait for the database."""

    state: ServerState
    user_id: str

    @property
    def _memory(self) -> Memory | None:
        is_nobody = self.user_id in ANONYMOUS_USERS
        return self.state.memory if self.state.is_writable and not is_nobody else None

    def find(self, response_id: str) -> dict[str, Any] | None:
        """Return a record: its `response`, its `input`, and the ids of those `before` it."""
        return self._records([response_id]).get(response_id)

    def items_up_to(self, response_id: str) -> list[dict[str, Any]]:
        """Return the items of a conversation, the oldest first. Denied if a part of it is gone."""
        last = self.find(response_id)
        ids = [*last["before"], response_id] if last is not None else [response_id]
        records = self._records(ids)
        if len(records) < len(set(ids)):
            message = "there is no such stored response; send the conversation itself as input"
            raise Denied(400, "previous_response_not_found", message, param="previous_response_id")
        if len(ids) > _MOST_LINKS:
            raise invalid("previous_response_id", f"the conversation has more than {_MOST_LINKS} responses")
        return [item for one in ids for item in (*records[one]["input"], *records[one]["response"]["output"])]

    def keep(
        self, response: dict[str, Any], items: list[dict[str, Any]], session: str, *, in_memory: bool
    ) -> None:
        """Store a response that belongs to a conversation; StoreError if the database fails."""
        previous = response["previous_response_id"]
        earlier = self.find(previous) if previous else None
        before = [*earlier["before"], previous] if earlier is not None else []
        record = {"in": session, "response": response, "input": items, "before": before}
        text = json.dumps(record, separators=(",", ":"))
        if in_memory and self._memory is not None:
            self._memory.ledger.put({response["id"]: text}, self.user_id, used=before)
        else:
            self.state.responses.put((self.user_id, response["id"]), text)

    def remove(self, response_id: str) -> bool:
        """Delete a response; False if there is none."""
        is_known = self.find(response_id) is not None
        self.state.responses.remove((self.user_id, response_id))
        if is_known and self._memory is not None:
            self._memory.ledger.put({}, self.user_id, removed=[response_id])
        return is_known

    def _records(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        ids = [one for one in dict.fromkeys(ids) if one.startswith("resp_")]
        texts = {one: text for one in ids if (text := self.state.responses.get((self.user_id, one)))}
        missing = [one for one in ids if one not in texts]
        if missing and self._memory is not None:
            texts |= self._memory.ledger.find(missing, self.user_id)
        return {one: json.loads(text) for one, text in texts.items()}

"""Responses and conversations of the Responses API that the server keeps.

A stored response has its own input and output, and the ids of the responses before it; a stored conversation
has all its items. They are kept with the notes of the user's memory: they go with their conversation there,
and the least recently used go in the end. What is about nobody's memory is kept in this process alone.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shepherd.memory import Memory
from shepherd.server.errors import Denied, invalid
from shepherd.server.limits import MOST_MESSAGES
from shepherd.server.state import AppState
from shepherd.types import ANONYMOUS_USERS

__all__ = ["CONVERSATION", "StoredConversations", "StoredResponses", "page_of"]

_MOST_LINKS = 2048  # responses of one conversation
# How the ids of conversations begin.
CONVERSATION = "conv_"


@dataclass(frozen=True, slots=True)
class _Notes:
    """The notes of one user. All methods may wait for the database."""

    state: AppState
    user_id: str

    @property
    def memory(self) -> Memory | None:
        """The memory that keeps the notes, None if this process does."""
        is_nobody = self.user_id in ANONYMOUS_USERS
        return self.state.memory if self.state.is_writable and not is_nobody else None

    def _records(self, ids: Sequence[str], prefix: str) -> dict[str, dict[str, Any]]:
        ids = [one for one in dict.fromkeys(ids) if one.startswith(prefix)]
        texts = {one: text for one in ids if (text := self.state.responses.get((self.user_id, one)))}
        missing = [one for one in ids if one not in texts]
        if missing and self.memory is not None:
            texts |= self.memory.ledger.find(missing, self.user_id)
        return {one: json.loads(text) for one, text in texts.items()}

    def _put(
        self, key: str, record: dict[str, Any], *, in_memory: bool = True, used: Sequence[str] = ()
    ) -> None:
        text = json.dumps(record, separators=(",", ":"))
        if in_memory and self.memory is not None:
            self.memory.ledger.put({key: text}, self.user_id, used=used)
        else:
            self.state.responses.put((self.user_id, key), text)

    def _remove(self, key: str) -> None:
        self.state.responses.remove((self.user_id, key))
        if self.memory is not None:
            self.memory.ledger.put({}, self.user_id, removed=[key])


class StoredResponses(_Notes):
    """The stored responses of one user."""

    def find(self, response_id: str) -> dict[str, Any] | None:
        """Return a record: its `response`, its `input`, and the ids of those `before` it."""
        return self._records([response_id], "resp_").get(response_id)

    def items_up_to(self, response_id: str) -> list[dict[str, Any]]:
        """Return the items of a conversation, the oldest first. Denied if a part of it is gone."""
        last = self.find(response_id)
        ids = [*last["before"], response_id] if last is not None else [response_id]
        records = self._records(ids, "resp_")
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
        self._put(response["id"], record, in_memory=in_memory, used=before)

    def remove(self, response_id: str) -> bool:
        """Delete a response; False if there is none."""
        is_known = self.find(response_id) is not None
        self._remove(response_id)
        return is_known


class StoredConversations(_Notes):
    """The conversations that one user has made, with their items, the oldest first."""

    def create(self, metadata: dict[str, Any], items: list[dict[str, Any]]) -> dict[str, Any]:
        """Make a conversation; return its record: the `conversation` itself, and its `items`."""
        conversation_id = f"{CONVERSATION}{secrets.token_hex(24)}"
        conversation = {
            "id": conversation_id,
            "object": "conversation",
            "created_at": int(time.time()),
            "metadata": metadata,
        }
        record = {"in": "", "conversation": conversation, "items": [_with_id(item) for item in items]}
        self._put(conversation_id, record)
        return record

    def find(self, conversation_id: str) -> dict[str, Any] | None:
        """Return the record of a conversation, None if there is none."""
        return self._records([conversation_id], CONVERSATION).get(conversation_id)

    def require(self, conversation_id: str) -> dict[str, Any]:
        """Return the record of a conversation; Denied if there is none."""
        record = self.find(conversation_id)
        if record is None:
            message = "this user has no such conversation; POST /v1/conversations makes one"
            raise Denied(404, "conversation_not_found", message, param="conversation")
        return record

    def change(self, conversation_id: str, edit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Change the record of a conversation, and return it; Denied if there is none."""
        with self.state.conversation_lock:
            record = self.require(conversation_id)
            edit(record)
            if len(record["items"]) > MOST_MESSAGES:
                raise invalid("items", f"the conversation has more than {MOST_MESSAGES} items")
            self._put(conversation_id, record)
        return record

    def add(
        self, conversation_id: str, items: Sequence[dict[str, Any]], session: str = ""
    ) -> list[dict[str, Any]]:
        """Add items, and return them with their ids. `session` is where the memory has the turn."""
        new = [_with_id(item) for item in items]

        def edit(record: dict[str, Any]) -> None:
            record["items"] += new
            record["in"] = session or record["in"]

        self.change(conversation_id, edit)
        return new

    def remove(self, conversation_id: str) -> bool:
        """Delete a conversation, also from the memory; False if there is none."""
        memory, is_known = self.memory, self.find(conversation_id) is not None
        session = memory.find_session(conversation_id, self.user_id) if memory and is_known else None
        if memory is not None and session:
            memory.clear_session(session, self.user_id)
        self._remove(conversation_id)
        return is_known


_ID_PREFIXES = {"function_call": "fc_", "function_call_output": "fco_", "reasoning": "rs_"}


def _with_id(item: dict[str, Any]) -> dict[str, Any]:
    prefix = _ID_PREFIXES.get(item.get("type", ""), "msg_")
    made = {"type": "message", "status": "completed", **item}
    return {**made, "id": item.get("id") or f"{prefix}{secrets.token_hex(24)}"}


def page_of(items: Sequence[dict[str, Any]], *, after: str | None, limit: int, order: str) -> dict[str, Any]:
    """Return a part of a list as OpenAI's API has it; `order` "desc" begins with the newest item."""
    ordered = list(items) if order == "asc" else list(reversed(items))
    if after:
        places = [i for i, item in enumerate(ordered) if item["id"] == after]
        if not places:
            raise invalid("after", "there is no such item")
        ordered = ordered[places[0] + 1 :]
    shown = [_listed(item) for item in ordered[:limit]]
    ends = {"first_id": shown[0]["id"], "last_id": shown[-1]["id"]} if shown else {}
    return {"object": "list", "data": shown, "has_more": len(ordered) > limit, **ends}


def _listed(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item with its words as parts, as OpenAI lists them."""
    if not isinstance(item.get("content"), str):
        return item
    if item.get("role") == "assistant":
        part = {"type": "output_text", "text": item["content"], "annotations": []}
    else:
        part = {"type": "input_text", "text": item["content"]}
    return {**item, "content": [part]}

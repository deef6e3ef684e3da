"""OpenAI's Conversations API: items that responses of a conversation read and add to.

`GET` and `DELETE /v1/conversations/ID` are in conversation_resources, beside those of the memory.
"""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from shepherd.server.description import described
from shepherd.server.errors import missing
from shepherd.server.http import StrictBody
from shepherd.server.identity import caller_of
from shepherd.server.responses_api import ItemLimit
from shepherd.server.responses_bodies import Item, check_items
from shepherd.server.state import QueriedUser
from shepherd.server.stored_responses import StoredConversations, page_of

__all__ = ["router"]

router = APIRouter(prefix="/v1/conversations")

_MOST_ITEMS = 1000  # of one request


class NewConversation(StrictBody):
    """POST /v1/conversations."""

    items: list[Item] | None = Field(default=None, max_length=_MOST_ITEMS)
    metadata: dict[str, Any] | None = None


class Metadata(StrictBody):
    """POST /v1/conversations/{session}."""

    metadata: dict[str, Any] | None


class NewItems(StrictBody):
    """POST /v1/conversations/{session}/items."""

    items: list[Item] = Field(min_length=1, max_length=_MOST_ITEMS)


@router.post("")
@described("OpenAIConversation")
def create_conversation(request: Request, body: NewConversation, user: QueriedUser = None) -> dict[str, Any]:
    """Begin a conversation for `conversation` of POST /v1/responses; it may have items already."""
    made: dict[str, Any] = _stored(request, user).create(body.metadata or {}, check_items(body.items or []))
    conversation: dict[str, Any] = made["conversation"]
    return conversation


@router.post("/{session}")
@described("OpenAIConversation", 404)
def update_conversation(
    request: Request, session: str, body: Metadata, user: QueriedUser = None
) -> dict[str, Any]:
    """Change the metadata of a conversation of OpenAI's API."""

    def edit(record: dict[str, Any]) -> None:
        record["conversation"]["metadata"] = body.metadata or {}

    conversation: dict[str, Any] = _stored(request, user).change(session, edit)["conversation"]
    return conversation


@router.get("/{session}/items")
@described("InputItems", 404)
def list_items(
    request: Request,
    session: str,
    user: QueriedUser = None,
    after: str | None = None,
    limit: ItemLimit = 20,
    order: Literal["asc", "desc"] = "desc",
) -> dict[str, Any]:
    """List the items of a conversation of OpenAI's API, the newest first."""
    items = _stored(request, user).require(session)["items"]
    return page_of(items, after=after, limit=limit, order=order)


@router.post("/{session}/items")
@described("InputItems", 404)
def add_items(request: Request, session: str, body: NewItems, user: QueriedUser = None) -> dict[str, Any]:
    """Add items to a conversation of OpenAI's API; nothing is learned from them."""
    added = _stored(request, user).add(session, check_items(body.items))
    return page_of(added, after=None, limit=len(added), order="asc")


@router.get("/{session}/items/{item}")
@described("ConversationItem", 404)
def show_item(request: Request, session: str, item: str, user: QueriedUser = None) -> dict[str, Any]:
    """Return an item of a conversation of OpenAI's API."""
    found = [one for one in _stored(request, user).require(session)["items"] if one["id"] == item]
    if not found:
        raise missing("item")
    shown: dict[str, Any] = page_of(found, after=None, limit=1, order="asc")["data"][0]
    return shown


@router.delete("/{session}/items/{item}")
@described("OpenAIConversation", 404)
def delete_item(request: Request, session: str, item: str, user: QueriedUser = None) -> dict[str, Any]:
    """Delete an item of a conversation of OpenAI's API; what was learned from it stays."""

    def edit(record: dict[str, Any]) -> None:
        left = [one for one in record["items"] if one["id"] != item]
        if len(left) == len(record["items"]):
            raise missing("item")
        record["items"] = left

    conversation: dict[str, Any] = _stored(request, user).change(session, edit)["conversation"]
    return conversation


def _stored(request: Request, user: str | None) -> StoredConversations:
    return StoredConversations(request.app.state.shepherd, caller_of(request, user).user_id)

"""POST /v1/chat/read_ahead: a client whose user is still writing lets the model read what comes before."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from shepherd.server.chat import Chat
from shepherd.server.description import described
from shepherd.server.identity import MEMORY, caller_of
from shepherd.server.openai_api import ChatBody
from shepherd.server.streaming import blocking

__all__ = ["router"]

router = APIRouter()

_ROUTE = "/v1/chat/read_ahead"


@router.post(_ROUTE)
@described("ReadingAhead", 404)
async def read_ahead(request: Request, body: ChatBody) -> dict[str, Any]:
    """Read the conversation before the newest message, which the user is still writing.

    The body is that of `/v1/chat/completions` with what was written so far, and the answer comes at once.
    Nothing of the newest message is read, recalled or stored, and nothing is generated. The reading gives way
    to every other request, and the user's next one ends it. What was read by then isn't read again.
    `reading` is false if there is nothing to do: with a remote model, one that isn't loaded, or the setting
    `read_ahead` off.
    """
    if body.session:
        caller_of(request, body.user).require(MEMORY)
    asked = await Chat.asked(request, _ROUTE, body)
    pool = asked.state.pool
    if pool.require(body.model).state != "loaded":
        return {"reading": False}
    with await pool.lease(body.model) as lease:
        conversations = lease.conversations
        reading = await blocking(lambda: conversations.read_ahead(asked.request), is_large=asked.is_large)
    return {"reading": reading}

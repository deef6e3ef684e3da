"""The caller's stored conversations over HTTP, and the traces of what memory added to them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field

from shepherd.server.description import described
from shepherd.server.errors import missing
from shepherd.server.http import StrictBody
from shepherd.server.identity import CHAT
from shepherd.server.public_ids import public_injection, traced
from shepherd.server.resources import LARGEST_ID, MOST_LISTED, Limit, Offset, checked
from shepherd.server.state import Own, OwnMemory
from shepherd.server.stored_responses import CONVERSATION, StoredConversations
from shepherd.server.streaming import blocking
from shepherd.trace import ROOT, Traces, encode_segment, turn_path
from shepherd.trace.paths import LAST_TURN
from shepherd.types import Injection, Message

__all__ = ["router"]

router = APIRouter(prefix="/v1")

TurnNumber = Annotated[int, Path(ge=0, le=LAST_TURN)]


class TextSearch(StrictBody):
    """A search for a text in conversations."""

    query: Annotated[str, Field(max_length=1000)]
    limit: int = Field(default=50, ge=1, le=MOST_LISTED)
    offset: int = Field(default=0, ge=0, le=LARGEST_ID)


class Title(StrictBody):
    """The title of a conversation."""

    title: Annotated[str, Field(max_length=200)]


# ---- conversations


@router.get("/conversations")
@described("ConversationList")
def list_conversations(
    own: OwnMemory, limit: Limit = 50, offset: Offset = 0, one_offs: bool = True
) -> dict[str, Any]:
    """List stored conversations, the latest first. One without a title has the beginning of its message.

    `one_offs=false` leaves out single questions (`shepherd "…"` or `-e`) that were neither continued nor
    renamed.
    """
    return _latest(own, limit, offset, one_offs)


@router.post("/conversations/search")
@described("ConversationList")
def search_conversations(own: OwnMemory, wanted: TextSearch) -> dict[str, Any]:
    """List the conversations whose messages or title contain a text, the latest first.

    Case and accents make no difference.
    """
    if not wanted.query:
        return _latest(own, wanted.limit, wanted.offset, one_offs=True)
    # One search for both: it reads all messages.
    every = own.memory.list_sessions(own.user, limit=LARGEST_ID, words=wanted.query)
    found = every[wanted.offset : wanted.offset + wanted.limit]
    return {"data": [asdict(session) for session in found], "total": len(every), "left_out": 0}


def _latest(own: Own, limit: int, offset: int, one_offs: bool) -> dict[str, Any]:
    found = own.memory.list_sessions(own.user, limit=limit, offset=offset, one_offs=one_offs)
    every = total = own.memory.count_sessions(own.user)
    if not one_offs:
        total = own.memory.count_sessions(own.user, one_offs=False)
    return {"data": [asdict(session) for session in found], "total": total, "left_out": every - total}


@router.get("/conversations/{session}")
@described("AnyConversation", 404)
def show_conversation(own: OwnMemory, session: str) -> dict[str, Any]:
    """Return the messages of a conversation, with what was recalled for those of the user.

    A conversation of OpenAI's API (`conv_…`) is returned as there, without its items. Any other
    is found by its id, or by the name that requests gave it. `model` is the one it was begun with.
    `message` is the position in it. What the model read in place of a message with documents or in a
    template is `composed`.
    """
    if (kept := _kept(own, session)) is not None and (record := kept.find(session)) is not None:
        conversation: dict[str, Any] = record["conversation"]
        return conversation
    session_id = _session(own, session)
    messages = own.memory.load_session(session_id, own.user)
    if not messages:
        raise missing("conversation")
    data = [_said(n, message) for n, message in enumerate(messages, 1)]
    return {
        "id": session_id,
        "title": own.memory.title_of_session(session_id, own.user),
        "model": own.memory.model_of_session(session_id, own.user),
        "data": data,
    }


@router.patch("/conversations/{session}")
@described("ConversationTitle", 404)
def rename_conversation(own: OwnMemory, session: str, change: Title) -> dict[str, Any]:
    """Give a conversation a title; with an empty one its first message is the title again."""
    memory, session_id = own.writable, _session(own, session)
    memory.rename_session(session_id, change.title, own.user)
    return {"id": session_id, "title": memory.title_of_session(session_id, own.user)}


@router.delete("/conversations/{session}")
@described("Deleted", 404)
def delete_conversation(own: OwnMemory, session: str) -> dict[str, Any]:
    """Delete a conversation, with answers in progress, which end; what was learned from it stays."""
    if (kept := _kept(own, session)) is not None:
        own.discard(session)
        if kept.remove(session):
            return {"id": session, "object": "conversation.deleted", "deleted": True}
        if kept.memory is None:
            raise missing("conversation")
    memory = own.writable
    session_id = memory.find_session(session, own.user) or ""
    n_discarded = own.discard(session)
    # A first answer has begun to be stored meanwhile.
    session_id = session_id or memory.find_session(session, own.user) or ""
    n_deleted = memory.clear_session(session_id, own.user) if session_id else 0
    if not n_deleted and not n_discarded:
        raise missing("conversation")
    return {"id": session_id or session, "deleted": True}


@router.delete("/conversations/{session}/messages/{message}")
@described("DeletedMessages", 404)
def delete_messages(own: OwnMemory, session: str, message: Annotated[int, Path(ge=1)]) -> dict[str, Any]:
    """Delete a message and all after it, with what was learned from them."""
    memory, session_id = own.writable, _session(own, session)
    removed = memory.delete_messages(session_id, checked(message), own.user)
    if not removed:
        raise missing("message")
    return {"id": session_id, "deleted": removed}


@router.post("/conversations/{session}/stop")
@described("Stopped")
async def stop_conversation(own: OwnMemory, session: str) -> dict[str, Any]:
    """Stop the answers in the conversation of this name or id; their text so far is kept."""
    own.caller.require(CHAT)
    chats = await blocking(lambda: own.chats_in(session))
    for chat in chats:
        chat.stop()
    return {"stopped": len(chats)}


def _kept(own: Own, name: str) -> StoredConversations | None:
    """Return the user's conversations of OpenAI's API if the name is of that kind."""
    return StoredConversations(own.state, own.user) if name.startswith(CONVERSATION) else None


def _session(own: Own, name: str) -> str:
    found = own.memory.find_session(name, own.user)
    if not found:
        raise missing("conversation")
    return found


# ---- traces of injections


@router.get("/trace")
@described("ConversationList")
def list_traces(
    own: OwnMemory, limit: Limit = 50, offset: Offset = 0, one_offs: bool = True
) -> dict[str, Any]:
    """List stored conversations, the latest first; `one_offs=false` as for /v1/conversations."""
    return _latest(own, limit, offset, one_offs)


@router.get("/trace/{session_id}")
@described("Trace", 404)
def show_trace(own: OwnMemory, session_id: str) -> dict[str, Any]:
    """Return what memory added to each message of the user in a conversation, with sources and scores.

    `message` is its position in the conversation, `turns` are the numbers of the turns that have a trace.
    """
    messages = own.memory.load_session(session_id, own.user)
    turns = _traces(own).children(f"{ROOT}/{encode_segment(session_id)}")
    if not messages and not turns:
        raise missing("conversation")
    data = [_traced(n, message) for n, message in enumerate(messages, 1) if message.role == "user"]
    return {"id": session_id, "data": data, "turns": [int(turn) for turn in turns]}


@router.get("/trace/{session_id}/usage")
@described("TraceUsage", 404)
def show_usage(own: OwnMemory, session_id: str) -> dict[str, Any]:
    """Return for each turn of a conversation the room that each part of its prompt got, and what it cost.

    `room` and tokens of `usage` are in tokens; older turns may lack `usage`.
    """
    root = f"{ROOT}/{encode_segment(session_id)}"
    turns: dict[int, dict[str, Any]] = {}
    traces = _traces(own)
    for path, value in (*traces.matching(f"{root}/*/budget"), *traces.matching(f"{root}/*/usage")):
        turn, part, name = path[len(root) + 1 :].split("/")
        told = turns.setdefault(int(turn), {"turn": int(turn), "room": {}, "usage": {}})
        told["room" if part == "budget" else part][name] = value
    if not turns and not own.memory.load_session(session_id, own.user):
        raise missing("conversation")
    return {"id": session_id, "data": [turns[turn] for turn in sorted(turns)]}


@router.get("/trace/{session_id}/{turn}")
@described("TracedTurn", 404)
def show_traced_turn(own: OwnMemory, session_id: str, turn: TurnNumber) -> dict[str, Any]:
    """Return the trace of one turn: paths below it, with their values."""
    root = turn_path(session_id, turn)
    entries = _traces(own).turn(session_id, turn)
    if not entries:
        raise missing("turn")
    return {"id": session_id, "turn": turn, "data": traced(entries, root)}


# ---- shared by the routes


def _traces(own: Own) -> Traces:
    return Traces(own.memory.transactions, own.user)


def _traced(position: int, message: Message) -> dict[str, Any]:
    return {
        "message": position,
        "created_at": message.created_at,
        "text": message.raw,
        **public_injection(message.injected or Injection(), message.raw),
    }


def _said(position: int, message: Message) -> dict[str, Any]:
    calls = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    recalled = None if message.injected is None else public_injection(message.injected, message.raw)
    return {
        "message": position,
        "role": message.role,
        "created_at": message.created_at,
        "text": message.raw,
        "composed": message.composed,
        "thought": message.thought,
        "calls": calls,
        "recalled": recalled,
    }

"""`shepherd serve --session`: one conversation of its owner, for several clients at once.

    POST /request   {"prompt", "stream", "async", "max_tokens", "memory", "client"}
    GET  /updates   server-sent events: connected, message_added, delta, tool_call, tool_result,
                    response_complete, error, cleared
    GET  /session   the conversation so far
    POST /clear     begin a new one; memory stays; ?client= as above
    GET  /          the memory page, and the resources that it shows

A client that disconnects cancels its answer, unless it asked with "async".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Depends, FastAPI, Query
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from shepherd import __version__
from shepherd.chat_session import Session
from shepherd.config import Config
from shepherd.memory_factory import keys_without_memory, open_memory_or_read_only
from shepherd.server.app import memory_app
from shepherd.server.description import described
from shepherd.server.errors import Denied
from shepherd.server.http import EventStream, StrictBody, event
from shepherd.server.identity import caller_of
from shepherd.server.limits import MOST_TEXT_CHARS
from shepherd.server.middleware import Permit
from shepherd.server.request_record import record_of
from shepherd.server.shared_conversation import Request, SessionEvent, SharedConversation, Watcher
from shepherd.server.state import AppState
from shepherd.server.streaming import cancelled_on_disconnect
from shepherd.turn import warm_up

if TYPE_CHECKING:
    from shepherd.assistant import Assistant

__all__ = ["create_session_app", "opened_shared_session"]

router = APIRouter()

# Interval of pings to a watcher without events; a ping detects a broken connection.
_PING_S = 15.0
_PING = b": nothing new\n\n"
_NOTHING = SessionEvent("", {})
# Events are delayed rather than sent to a client whose key may have been revoked.
_RETRY_S = 1.0
_UNKNOWN = event(
    {
        "code": "memory_busy",
        "message": "the keys cannot be looked up; events follow as soon as they can",
    },
    "error",
)


class RequestBody(StrictBody):
    """The body of POST /request. `client` is any word by which a client recognises its own turns."""

    prompt: str = Field(pattern=r"\S", max_length=MOST_TEXT_CHARS)
    stream: bool = False
    is_async: bool = Field(default=False, alias="async")
    max_tokens: int | None = Field(default=None, ge=1, le=1 << 24)
    memory: bool = True
    client: str = Field(default="", max_length=64)


@contextmanager
def opened_shared_session(
    config: Config,
    *,
    model: str = "",
    memory: bool = True,
    warn: Callable[[str, str], None],
    loading: Callable[[str], None] = lambda text: None,
) -> Iterator[tuple[Assistant, AppState]]:
    """Open the assistant of the shared conversation, which continues the user's latest one.

    Facts are extracted after each answer. Keys are read from the database also without memory, and if the
    provider's rules keep memory out of the conversation; StoreError if they cannot be read.
    """
    config = replace(config, memory_extraction_min_turns=1)
    with contextlib.ExitStack() as stack:
        keys = None if memory else stack.enter_context(keys_without_memory(config))
        session = Session(
            config,
            model=model,
            memory=memory,
            warn=warn,
            loading=loading,
            opens_memory=open_memory_or_read_only,
        )
        assistant = stack.enter_context(session).assistant
        opened, is_writable = assistant.memory, session.access.writes_memory
        if opened is not None:
            assistant.resume()
        elif memory:
            opened, is_writable = open_memory_or_read_only(config, warn)[0], False
            stack.callback(opened.close)
        warm_up.begin()
        yield assistant, AppState(config, opened, is_writable, keys=keys, learning=assistant.learning)


def create_session_app(assistant: Assistant, state: AppState) -> FastAPI:
    """Return the ASGI application of one conversation, which owns the assistant until it has shut down."""
    conversation = SharedConversation(assistant, served=state.served)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        conversation.start()
        yield
        conversation.close()
        await anyio.to_thread.run_sync(conversation.join)

    app = memory_app(state, router, lifespan=lifespan)
    app.state.conversation = conversation
    return app


def _shared_by(request: HttpRequest) -> SharedConversation:
    """Return the conversation. Denied for other owners."""
    conversation: SharedConversation = request.app.state.conversation
    owner, user = caller_of(request, None).owner, conversation.user_id
    if owner and owner != user and not user.startswith(f"{owner}/"):
        raise Denied(403, "not_your_session", "this conversation is another owner's")
    return conversation


Shared = Annotated[SharedConversation, Depends(_shared_by)]


@router.post("/request")
@described("SessionAnswer", also={202: "SessionQueued"}, events="SessionEvent", streams_with="stream")
async def ask(conversation: Shared, body: RequestBody, http: HttpRequest) -> Response:
    """Ask, and return the answer whole, as a stream, or ("async") not at all: it is in /updates."""
    request = Request(body.prompt, max_tokens=body.max_tokens, memory=body.memory, client=body.client)
    if body.is_async:
        ahead = conversation.n_ahead
        conversation.ask(request)
        return JSONResponse({"request": request.id, "ahead": ahead}, 202)
    watcher = conversation.ask(request)
    if body.stream:
        return EventStream(_until_answered(watcher), lambda: conversation.cancel(request))
    async with cancelled_on_disconnect(http.receive, lambda: conversation.cancel(request)):
        return JSONResponse(await _answer(watcher))


@router.get("/updates")
@described(media_type="", events="SessionEvent")
async def updates(conversation: Shared, http: HttpRequest) -> Response:
    """Stream the events from now on, as long as the client is connected and its key is valid."""
    permit = Permit(http.app.state.shepherd, record_of(http.scope).key)
    watcher = conversation.watch()
    return EventStream(_everything(conversation, watcher, permit), lambda: conversation.unwatch(watcher))


@router.get("/session")
@described("SessionState")
async def session(conversation: Shared) -> dict[str, Any]:
    """Return the conversation so far."""
    messages = [
        {"role": message.role, "content": message.raw, "created_at": message.created_at}
        for message in conversation.messages
    ]
    return {**conversation.about(), "messages": messages}


@router.post("/clear")
@described("SessionCleared")
async def clear(conversation: Shared, client: Annotated[str, Query(max_length=64)] = "") -> dict[str, Any]:
    """Begin a new conversation after the waiting requests; memory and the stored conversation stay."""
    await _answer(conversation.ask(Request(None, client=client)))
    return {"cleared": True}


async def _answer(watcher: Watcher) -> dict[str, Any]:
    """Return the last event of a request; Denied if that is an error."""
    while (event_ := await watcher.next()) is not None:
        if event_.name == "error":
            content = event_.content
            raise Denied(content["status"], content["code"], content["message"])
        if event_.is_last:
            return event_.as_json()
    raise Denied(503, "shutting_down", "the server is shutting down")


async def _until_answered(watcher: Watcher) -> AsyncGenerator[bytes, None]:
    while (event_ := await watcher.next()) is not None:
        yield _as_event(event_)
        if event_.is_last:
            return
    yield _end_of(watcher)


async def _everything(
    conversation: SharedConversation, watcher: Watcher, permit: Permit
) -> AsyncGenerator[bytes, None]:
    try:
        yield event({"version": __version__, **conversation.about()}, "connected")
        while True:
            try:
                event_ = await watcher.next(_PING_S)
                data = _end_of(watcher) if event_ is None else _as_event(event_)
            except asyncio.TimeoutError:
                event_, data = _NOTHING, _PING
            is_warned = False
            while (holds := await permit.holds()) is None and not conversation.is_closed:
                if not is_warned:
                    yield _UNKNOWN
                is_warned = True
                await asyncio.sleep(_RETRY_S)
            if holds is False:
                yield event({"code": "invalid_api_key", "message": "this API key was revoked"}, "error")
            if not holds:
                return
            yield data
            if event_ is None:
                return
    finally:
        conversation.unwatch(watcher)


def _end_of(watcher: Watcher) -> bytes:
    """Return the event that says why a stream ends without a last event."""
    if watcher.is_too_slow:
        content = {"code": "too_slow", "message": "the client does not read fast enough; connect again"}
    else:
        content = {"code": "shutting_down", "message": "the server is shutting down"}
    return event(content, "error")


def _as_event(event_: SessionEvent) -> bytes:
    return event(event_.as_json(), event_.name)

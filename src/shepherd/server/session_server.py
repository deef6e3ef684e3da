"""`shepherd serve --session`: the one conversation of its owner, for several clients at once.

    POST /request   {"prompt", "stream", "async", "max_tokens", "memory", "client"}
    GET  /updates   what happens, as server-sent events: connected, message_added, delta, tool_call,
                    tool_result, response_complete, error, cleared
    GET  /session   the conversation so far
    POST /clear     begin a new one; memory stays
    GET  /          the memory page, and the resources that it shows

A client that goes away ends its answer, unless it asked with "async".
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Depends, FastAPI
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from shepherd import __version__
from shepherd.chat_session import Session
from shepherd.config import Config
from shepherd.factory import keys_without_memory, open_memory_or_read_only
from shepherd.memory import ApiKeys, Memory
from shepherd.server import middleware
from shepherd.server.app import answer_errors, show_memory
from shepherd.server.errors import Denied
from shepherd.server.http import EventStream, event
from shepherd.server.identity import caller_of
from shepherd.server.middleware import Permit
from shepherd.server.request_record import record_of
from shepherd.server.shared_conversation import Request, SessionEvent, SharedConversation, Watcher
from shepherd.server.state import Gated, Served
from shepherd.server.streaming import ended_with_its_client

if TYPE_CHECKING:
    from shepherd.assistant import Assistant

__all__ = ["SessionState", "create_session_app", "opened_shared_session"]

router = APIRouter()

# So often a watcher is told that nothing happened: a connection that is gone is noticed by it.
_PING_S = 15.0
_PING = b": nothing new\n\n"
_NOTHING = SessionEvent("", {})
# What happens is told late rather than to one whose key may have been revoked.
_LOOK_AGAIN_S = 1.0
_UNKNOWN = event(
    {
        "code": "memory_busy",
        "message": "the keys cannot be looked up; what happens is told as soon as they can",
    },
    "error",
)


class Asked(BaseModel):
    """The body of POST /request. `client` is any word by which a client knows its own turns again."""

    model_config = ConfigDict(extra="forbid")

    prompt: str = Field(pattern=r"\S")
    stream: bool = False
    is_async: bool = Field(default=False, alias="async")
    max_tokens: int | None = Field(default=None, ge=1, le=1 << 24)
    memory: bool = True
    client: str = Field(default="", max_length=64)


@dataclass(slots=True)
class SessionState:
    """What those who stand before the app know of it."""

    config: Config
    memory: Memory | None
    is_writable: bool
    needs_key: bool = False
    started_at: float = field(default_factory=time.time)
    observers: list[Callable[[Served], None]] = field(default_factory=list)
    keys: ApiKeys | None = None

    def __post_init__(self) -> None:
        if self.keys is None and self.memory is not None:
            self.keys = self.memory.keys


@contextmanager
def opened_shared_session(
    config: Config,
    *,
    model: str = "",
    memory: bool = True,
    warn: Callable[[str, str], None],
    loading: Callable[[str], None] = lambda text: None,
) -> Iterator[tuple[Assistant, SessionState]]:
    """The assistant of the shared conversation, which goes on where the user's latest one stopped.

    What is said is learned from after each answer. The keys are looked up also where there is no memory, and
    where the provider's own rules keep it out of the conversation; StoreError where they cannot be.
    """
    config = replace(config, memory_extraction_min_turns=1)
    with contextlib.ExitStack() as stack:
        locked_by = None if memory else stack.enter_context(keys_without_memory(config))
        session = stack.enter_context(
            Session(
                config,
                model=model,
                memory=memory,
                warn=warn,
                loading=loading,
                opens_memory=open_memory_or_read_only,
            )
        )
        assistant = session.assistant
        if assistant.memory is not None:
            assistant.resume()
            yield assistant, SessionState(config, assistant.memory, session.access.writes_memory)
        elif memory:
            kept_out, _ = open_memory_or_read_only(config, warn)
            stack.callback(kept_out.close)
            yield assistant, SessionState(config, kept_out, is_writable=False)
        else:
            yield assistant, SessionState(config, None, is_writable=False, keys=locked_by)


def create_session_app(assistant: Assistant, state: Gated) -> FastAPI:
    """The ASGI application around one conversation. The assistant is its until the app has shut down."""
    conversation = SharedConversation(assistant, served=lambda event: _count(state, event))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        conversation.start()
        yield
        conversation.close()
        await anyio.to_thread.run_sync(conversation.join)

    app = FastAPI(
        title="Shepherd",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
    )
    app.state.shepherd = state
    app.state.conversation = conversation
    app.include_router(router)
    show_memory(app)
    middleware.install(app, state)
    answer_errors(app)
    return app


def _count(state: Gated, event: Served) -> None:
    for observer in state.observers:
        observer(event)


def _taking_part(request: HttpRequest) -> SharedConversation:
    """The conversation, for its owner alone."""
    conversation: SharedConversation = request.app.state.conversation
    owner, user = caller_of(request, None).owner, conversation.user_id
    if owner and owner != user and not user.startswith(f"{owner}/"):
        raise Denied(403, "not_your_session", "this conversation is another owner's")
    return conversation


Shared = Annotated[SharedConversation, Depends(_taking_part)]


@router.post("/request")
async def ask(conversation: Shared, asked: Asked, http: HttpRequest) -> Response:
    """Asks, and gives the answer at once, in pieces, or ("async") not at all: /updates has it."""
    request = Request(asked.prompt, max_tokens=asked.max_tokens, memory=asked.memory, client=asked.client)
    if asked.is_async:
        ahead = conversation.n_ahead
        conversation.ask(request)
        return JSONResponse({"request": request.id, "ahead": ahead}, 202)
    watcher = conversation.ask(request)
    if asked.stream:
        return EventStream(_until_answered(watcher), lambda: conversation.cancel(request))
    async with ended_with_its_client(http.receive, lambda: conversation.cancel(request)):
        return JSONResponse(await _answer(watcher))


@router.get("/updates")
async def updates(conversation: Shared, http: HttpRequest) -> Response:
    """What happens from now on, for as long as the client listens and its key is good."""
    permit = Permit(http.app.state.shepherd, record_of(http.scope).key)
    watcher = conversation.watch()
    return EventStream(_everything(conversation, watcher, permit), lambda: conversation.unwatch(watcher))


@router.get("/session")
async def session(conversation: Shared) -> dict[str, Any]:
    """The conversation so far."""
    messages = [
        {"role": message.role, "content": message.raw, "created_at": message.created_at}
        for message in conversation.messages
    ]
    return {**conversation.about(), "messages": messages}


@router.post("/clear")
async def clear(conversation: Shared) -> dict[str, Any]:
    """Begins a new conversation, after what waits in line; memory and the stored conversation stay."""
    await _answer(conversation.ask(Request(None)))
    return {"cleared": True}


async def _answer(watcher: Watcher) -> dict[str, Any]:
    """The last happening of a request; Denied where that is an error."""
    while (happening := await watcher.next()) is not None:
        if happening.name == "error":
            content = happening.content
            raise Denied(content["status"], content["code"], content["message"])
        if happening.is_last:
            return happening.as_json()
    raise Denied(503, "shutting_down", "the server is shutting down")


async def _until_answered(watcher: Watcher) -> AsyncGenerator[bytes, None]:
    while (happening := await watcher.next()) is not None:
        yield _as_event(happening)
        if happening.is_last:
            return
    yield _end_of(watcher)


async def _everything(
    conversation: SharedConversation, watcher: Watcher, permit: Permit
) -> AsyncGenerator[bytes, None]:
    try:
        yield event({"version": __version__, **conversation.about()}, "connected")
        while True:
            try:
                happening = await watcher.next(_PING_S)
                told = _end_of(watcher) if happening is None else _as_event(happening)
            except asyncio.TimeoutError:
                happening, told = _NOTHING, _PING
            is_told = False
            while (holds := await permit.holds()) is None and not conversation.is_closed:
                if not is_told:
                    yield _UNKNOWN
                is_told = True
                await asyncio.sleep(_LOOK_AGAIN_S)
            if holds is False:
                yield event({"code": "invalid_api_key", "message": "this API key was revoked"}, "error")
            if not holds:
                return
            yield told
            if happening is None:
                return
    finally:
        conversation.unwatch(watcher)


def _end_of(watcher: Watcher) -> bytes:
    """Why nothing more comes, though nobody said so."""
    if watcher.is_too_slow:
        content = {"code": "too_slow", "message": "the client does not read fast enough; connect again"}
    else:
        content = {"code": "shutting_down", "message": "the server is shutting down"}
    return event(content, "error")


def _as_event(happening: SessionEvent) -> bytes:
    return event(happening.as_json(), happening.name)

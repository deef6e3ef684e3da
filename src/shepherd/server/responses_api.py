"""OpenAI's Responses API: answers to items, in the background too, and what the server keeps of them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shepherd.server.background import BackgroundResponse, require_room, running_of
from shepherd.server.chat import Asked, Chat
from shepherd.server.description import described
from shepherd.server.errors import Denied, invalid, problem_of
from shepherd.server.http import EventStream, JsonRoute
from shepherd.server.identity import MEMORY, caller_of
from shepherd.server.limits import check_conversation
from shepherd.server.picture_addresses import counting
from shepherd.server.response_events import ResponseInTheMaking
from shepherd.server.responses_bodies import InputTokensBody, ResponseBody
from shepherd.server.state import QueriedUser, ServerState
from shepherd.server.stored_responses import StoredResponses, page_of
from shepherd.server.streaming import blocking, cancelled_on_disconnect

__all__ = ["ItemLimit", "route", "router"]

_ROUTE = "/v1/responses"
ItemLimit = Annotated[int, Query(ge=1, le=100)]


@described("ModelResponse", 404, 429, events="ResponseEvent", streams_with="stream")
async def _responses(request: Request, body: ResponseBody) -> Response:
    """Answer an input; the server keeps the response, unless `store` is false."""
    state: ServerState = request.app.state.shepherd
    caller = caller_of(request, body.user)
    if body.conversation_id:
        caller.require(MEMORY)
    notes = StoredResponses(state, caller.user_id)
    if body.conversation_id and body.memory is False and notes.memory is not None:
        raise invalid("conversation", "it is kept in the memory, which the request turns off")
    if body.conversation_id or body.previous_response_id:
        await blocking(lambda: body.follow_stored(state, caller.user_id))
    asked = await Chat.asked(request, _ROUTE, body)
    made = ResponseInTheMaking(body, state.pool.require(body.model).name, notes)
    if body.background:
        return _in_background(made, asked, streams=bool(body.stream))
    chat = made.chat = await asked.begin(request.receive)
    chat.before_end = made.keep
    if body.stream:
        stream = chat.stream(made.opening(), made.events_of, made.ending, made.failed, made.closing)
        return EventStream(stream, chat.cancel)
    async with cancelled_on_disconnect(request.receive, chat.cancel), chat:
        async for piece in chat:
            made.events_of(piece)
    return JSONResponse(made.finished())


route = JsonRoute(_ROUTE, ResponseBody, _responses)


def _in_background(made: ResponseInTheMaking, asked: Asked, *, streams: bool) -> Response:
    """Start a response that nobody has to wait for; return its events, or what it is now."""
    state, user_id = asked.state, asked.request.user_id
    require_room(state, user_id)
    running = BackgroundResponse(user_id, made.id, made.shown, streams)
    state.background[(user_id, made.id)] = running
    running.add(made.queued())
    running.task = asyncio.ensure_future(_make(made, asked, running))
    if streams:
        return EventStream(running.follow(), lambda: None)
    return JSONResponse(made.shown())


async def _make(made: ResponseInTheMaking, asked: Asked, running: BackgroundResponse) -> None:
    made.was_cancelled = running.cancelled.is_set
    try:
        chat = made.chat = await asked.begin(running.receive)
        chat.before_end = made.keep

        async def stop() -> None:
            await running.cancelled.wait()
            chat.cancel()

        stopping = asyncio.ensure_future(stop())
        try:
            async for data in chat.stream(
                made.started(), made.events_of, made.ending, made.failed, made.closing
            ):
                running.add(data)
        finally:
            stopping.cancel()
    except Exception as error:
        running.add(made.failed(problem_of(error)))
    finally:
        if made.has_failed:
            await made.keep()
        running.end()


# ---- reading and deleting them

router = APIRouter(prefix=_ROUTE)


@router.post("/input_tokens")
@described("InputTokens", 404)
async def count_input_tokens(request: Request, body: InputTokensBody) -> dict[str, Any]:
    """Count the tokens of an input as it stands, without what memory would add."""
    state: ServerState = request.app.state.shepherd
    caller = caller_of(request, body.user)
    if body.conversation_id:
        caller.require(MEMORY)
    # Last: what is refused must not keep the model.
    lease = await state.pool.lease(body.model, request.receive)

    def count() -> int:
        body.follow_stored(state, caller.user_id)
        conversation, tools = body.conversation_of(), body.offered()
        check_conversation(conversation, tools)
        return lease.conversations.count_tokens(conversation, tools)

    with lease:
        n_tokens = await counting(request, caller.user_id, count)
    return {"object": "response.input_tokens", "input_tokens": n_tokens}


@router.get("/{response_id}")
@described("ModelResponse", 404, events="ResponseEvent", streams_with="stream")
async def show_response(
    request: Request,
    response_id: str,
    user: QueriedUser = None,
    stream: bool = False,
    starting_after: Annotated[int, Query(ge=-1)] = -1,
) -> Response:
    """Return a stored response, or one that is being made in the background.

    With `stream`, the events of one that was made in the background with `stream`, behind number
    `starting_after`.
    """
    state: ServerState = request.app.state.shepherd
    running = running_of(state, caller_of(request, user).user_id, response_id)
    if stream:
        if running is None or not running.streams:
            if running is None:
                await blocking(lambda: _stored(request, response_id, user))
            raise invalid("stream", "only a recent response made with both background and stream has one")
        return EventStream(running.follow(starting_after), lambda: None)
    if running is not None:
        return JSONResponse(running.shown())
    return JSONResponse((await blocking(lambda: _stored(request, response_id, user)))["response"])


@router.post("/{response_id}/cancel")
@described("ModelResponse", 404)
async def cancel_response(request: Request, response_id: str, user: QueriedUser = None) -> dict[str, Any]:
    """Cancel a response that is being made in the background; one that has ended stays as it is."""
    state: ServerState = request.app.state.shepherd
    running = running_of(state, caller_of(request, user).user_id, response_id)
    if running is not None:
        await running.cancel()
        return running.shown()
    response: dict[str, Any] = (await blocking(lambda: _stored(request, response_id, user)))["response"]
    if not response.get("background"):
        raise invalid("response_id", "only a response that is made in the background can be cancelled")
    return response


@router.get("/{response_id}/input_items")
@described("InputItems", 404)
def list_input(
    request: Request,
    response_id: str,
    user: QueriedUser = None,
    after: str | None = None,
    limit: ItemLimit = 20,
    order: Literal["asc", "desc"] = "desc",
) -> dict[str, Any]:
    """List the input of a stored response, the newest item first."""
    stored = _stored(request, response_id, user)["input"]
    items = [{"id": f"{response_id}_{i}", **item} for i, item in enumerate(stored)]
    return page_of(items, after=after, limit=limit, order=order)


@router.delete("/{response_id}")
@described("Deleted", 404)
async def delete_response(request: Request, response_id: str, user: QueriedUser = None) -> dict[str, Any]:
    """Delete a stored response, which is cancelled first; responses after it can't be continued either."""
    state: ServerState = request.app.state.shepherd
    user_id = caller_of(request, user).user_id
    running = running_of(state, user_id, response_id)
    if running is not None:
        await running.cancel()
        state.background.pop((user_id, response_id), None)  # another request may have deleted it meanwhile
    if not await blocking(lambda: _stored_by(request, user).remove(response_id)) and running is None:
        raise _missing()
    return {"id": response_id, "object": "response", "deleted": True}


def _stored_by(request: Request, user: str | None) -> StoredResponses:
    return StoredResponses(request.app.state.shepherd, caller_of(request, user).user_id)


def _stored(request: Request, response_id: str, user: str | None) -> dict[str, Any]:
    record = _stored_by(request, user).find(response_id)
    if record is None:
        raise _missing()
    return record


def _missing() -> Denied:
    return Denied(404, "not_found", "there is no such response")

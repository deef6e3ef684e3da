"""A response of OpenAI's Responses API while it is made, and its events in OpenAI's order."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from typing import Any

from shepherd.errors import ShepherdError
from shepherd.server.chat import Chat
from shepherd.server.contents import stored_item
from shepherd.server.errors import Denied, Problem
from shepherd.server.http import LenientBody, event
from shepherd.server.openai_answers import chat_logprobs
from shepherd.server.responses_bodies import ResponseBody
from shepherd.server.responses_tools import NamedTool, ToolBody, item_of
from shepherd.server.stored_responses import StoredConversations, StoredResponses
from shepherd.server.streaming import blocking
from shepherd.types import Piece, Thought, ToolCall, TurnStats

__all__ = ["ResponseInTheMaking"]

_log = logging.getLogger(__name__)


class ResponseInTheMaking:
    """A response while it is made: events of its pieces in OpenAI's order, and the object itself."""

    def __init__(self, body: ResponseBody, model: str, notes: StoredResponses) -> None:
        self.chat: Chat | None = None  # set when the answer has begun
        self.was_cancelled: Callable[[], bool] = lambda: False
        self.has_failed = False
        self._body, self._notes = body, notes
        self._items: list[dict[str, Any]] = []
        self._n_events = 0
        self._finished: dict[str, Any] | None = None
        self._pending: list[bytes] = []  # events that end the newest item
        choice = body.tool_choice
        self._head: dict[str, Any] = {
            "id": f"resp_{secrets.token_hex(24)}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "in_progress",
            "background": bool(body.background),
            "conversation": {"id": body.conversation_id} if body.conversation_id else None,
            "error": None,
            "incomplete_details": None,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "max_tool_calls": body.max_tool_calls,
            "metadata": body.metadata or {},
            "model": model,
            "output": [],
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "previous_response_id": body.previous_response_id,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "default",
            "store": body.is_stored,
            "temperature": body.temperature,
            "text": {"format": _shown(body.text and body.text.format) or {"type": "text"}},
            "tool_choice": _shown(choice) if isinstance(choice, NamedTool) else choice or "auto",
            "tools": [_shown_tool(tool) for tool in body.tools or ()],
            "top_logprobs": body.top_logprobs or 0,
            "top_p": body.top_p,
            "truncation": body.truncation or "disabled",
            "usage": None,
            "user": body.user,
        }

    @property
    def id(self) -> str:
        """Its id."""
        return str(self._head["id"])

    def shown(self) -> dict[str, Any]:
        """Return the response as it is now."""
        return self._finished or {**self._head, "output": self._items}

    def opening(self) -> bytes:
        """Return the events before the first piece."""
        return self._event("response.created", response=self._head) + self.started()

    def queued(self) -> bytes:
        """Return the events before a response in the background is begun."""
        self._head["status"] = "queued"
        head = dict(self._head)
        return self._event("response.created", response=head) + self._event("response.queued", response=head)

    def started(self) -> bytes:
        """Return the event of the beginning."""
        self._head["status"] = "in_progress"
        return self._event("response.in_progress", response=self._head)

    async def keep(self) -> None:
        """Store the response, and add its items to its conversation."""
        body, notes, response = self._body, self._notes, self.finished()
        items = [stored_item(item.as_given()) for item in body.items]
        session = self.chat.stored.session if self.chat is not None else ""

        def store() -> None:
            if body.is_stored:
                notes.keep(response, items, session, in_memory=body.memory is not False)
            if body.conversation_id and not self.has_failed:
                talks = StoredConversations(notes.state, notes.user_id)
                talks.add(body.conversation_id, [*items, *response["output"]], session)

        try:
            await blocking(store)
        except (ShepherdError, Denied) as error:
            _log.warning("storing the response failed: %s", error)

    def events_of(self, piece: Piece) -> bytes:
        """Add a piece, and return its events."""
        if isinstance(piece, ToolCall):
            return self._close() + self._call(piece)
        is_thought = isinstance(piece, Thought)
        text = piece.text if isinstance(piece, Thought) else piece
        kind = "reasoning" if is_thought else "message"
        started = b""
        if not self._items or self._items[-1]["type"] != kind or self._items[-1]["status"] == "completed":
            started = self._close() + self._open(kind)
        part = self._items[-1]["content"][0]
        part["text"] += text
        if is_thought:
            return started + self._event("response.reasoning_text.delta", content_index=0, delta=text)
        logprobs = self._new_logprobs()
        part["logprobs"] += logprobs
        return started + self._event(
            "response.output_text.delta", content_index=0, delta=text, logprobs=logprobs
        )

    def ending(self) -> bytes:
        """Return the events after the last piece."""
        response = self.finished()
        closed = b"".join(self._pending)
        return closed if self._of_chat.news is not None else closed + self._last(response)

    def closing(self, learned: list[dict[str, Any]]) -> bytes:
        """Return the event about what was learned, which OpenAI's clients pass over, and the end."""
        return self._event("learned", learned=learned) + self._last(self.finished())

    def failed(self, problem: Problem) -> bytes:
        """Return the last event of an answer that failed."""
        self.has_failed = True
        error = {"code": "server_error", "message": f"{problem.message} ({problem.code})"}
        failed = {"status": "cancelled"} if self.was_cancelled() else {"status": "failed", "error": error}
        self._finished = {**self._head, **failed, "output": self._items}
        return self._last(self._finished)

    def finished(self) -> dict[str, Any]:
        """Return the whole response, once the answer has ended."""
        if self._finished is None:
            stats = self._of_chat.stats
            has_said = any(item["type"] != "reasoning" for item in self._items)
            opened = b"" if has_said else self._close() + self._open("message")
            is_cancelled = stats.finish_reason == "cancelled" and self.was_cancelled()
            reason = "" if is_cancelled else _cut_by(stats)
            status = "cancelled" if is_cancelled else "incomplete" if reason else "completed"
            self._pending = [opened, self._close("completed" if status == "completed" else "incomplete")]
            self._finished = {
                **self._head,
                "status": status,
                "completed_at": int(time.time()) if status == "completed" else None,
                "incomplete_details": {"reason": reason} if reason else None,
                "output": self._items,
                "usage": _usage(stats),
            }
        return self._finished

    @property
    def _of_chat(self) -> Chat:
        assert self.chat is not None
        return self.chat

    def _last(self, response: dict[str, Any]) -> bytes:
        return self._event(f"response.{response['status']}", response=response)

    def _open(self, kind: str) -> bytes:
        item: dict[str, Any] = {"id": "", "type": kind, "status": "in_progress", "content": []}
        if kind == "reasoning":
            item |= {"id": f"rs_{secrets.token_hex(24)}", "summary": []}
            part: dict[str, Any] = {"type": "reasoning_text", "text": ""}
        else:
            item |= {"id": f"msg_{secrets.token_hex(24)}", "role": "assistant"}
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        self._items.append(item)
        added = self._event("response.output_item.added", item=item)
        added += self._event("response.content_part.added", content_index=0, part=part)
        item["content"].append(part)
        return added

    def _close(self, status: str = "completed") -> bytes:
        """End the newest item unless it has ended."""
        if not self._items or self._items[-1]["status"] != "in_progress":
            return b""
        item = self._items[-1]
        [part] = item["content"]
        item["status"] = status
        if item["type"] == "reasoning":
            done = self._event("response.reasoning_text.done", content_index=0, text=part["text"])
        else:
            part["logprobs"] += self._new_logprobs()
            done = self._event(
                "response.output_text.done", content_index=0, text=part["text"], logprobs=part["logprobs"]
            )
        done += self._event("response.content_part.done", content_index=0, part=part)
        return done + self._event("response.output_item.done", item=item)

    def _call(self, call: ToolCall) -> bytes:
        fields = item_of(call, self._body.tools_by_name().get(call.name))
        is_custom = fields["type"] == "custom_tool_call"
        field = "input" if is_custom else "arguments"
        kind = "custom_tool_call_input" if is_custom else "function_call_arguments"
        prefix = "ctc" if is_custom else "fc"
        text = fields[field]
        item = {
            "id": f"{prefix}_{secrets.token_hex(24)}",
            "status": "in_progress",
            "call_id": call.id,
            **fields,
            field: "",
        }
        self._items.append(item)
        added = self._event("response.output_item.added", item=item)
        item |= {"status": "completed", field: text}
        added += self._event(f"response.{kind}.delta", delta=text)
        named = {} if is_custom else {"name": fields["name"]}
        added += self._event(f"response.{kind}.done", **named, **{field: text})
        return added + self._event("response.output_item.done", item=item)

    def _event(self, kind: str, **fields: Any) -> bytes:
        """Return one event; those about an item name the newest."""
        number, self._n_events = self._n_events, self._n_events + 1
        about: dict[str, Any] = {}
        if "response" not in fields and "learned" not in fields:
            about["output_index"] = len(self._items) - 1
            if "item" not in fields:
                about["item_id"] = self._items[-1]["id"]
        return event({"type": kind, "sequence_number": number, **about, **fields}, kind)

    def _new_logprobs(self) -> list[dict[str, Any]]:
        tokens = self._of_chat.take_logprobs() if self._of_chat.has_logprobs else []
        return list(chat_logprobs(tokens)["content"])


def _shown(value: LenientBody | None) -> dict[str, Any] | None:
    return None if value is None else value.model_dump(by_alias=True, exclude_none=True)


def _shown_tool(tool: ToolBody) -> dict[str, Any]:
    shown = tool.model_dump(exclude_unset=True, exclude_none=True)
    return {"strict": None, **shown} if tool.type == "function" else shown


def _cut_by(stats: TurnStats) -> str:
    """Return why an answer is incomplete, "" if it is whole."""
    if stats.finish_reason == "filtered":
        return "content_filter"
    return "max_output_tokens" if stats.finish_reason in ("length", "cancelled") else ""


def _usage(stats: TurnStats) -> dict[str, Any]:
    return {
        "input_tokens": stats.prompt_tokens,
        "input_tokens_details": {"cached_tokens": stats.reused_tokens, "cache_write_tokens": 0},
        "output_tokens": stats.generated_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": stats.prompt_tokens + stats.generated_tokens,
    }

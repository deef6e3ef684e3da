"""One-shot prompts over HTTP: what Shepherd knows about a question, for a model of the client's choice."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from shepherd.prompt.one_shot import DEFAULT_TOKENS
from shepherd.server.resources import OwnMemory
from shepherd.server.state import ServerState
from shepherd.turn.stored_context import build_context

__all__ = ["router"]

router = APIRouter(prefix="/v1")

_LONGEST_QUESTION = 1 << 20
_MOST_TOKENS = 1 << 20


class ContextBody(BaseModel):
    """A question, the length of the prompt, and the stored conversation that it continues, or `last`."""

    model_config = ConfigDict(extra="forbid")

    question: str = Field(min_length=1, max_length=_LONGEST_QUESTION)
    max_tokens: int = Field(default=DEFAULT_TOKENS, ge=1, le=_MOST_TOKENS)
    session: str = Field(default="", max_length=256)
    times: bool = False


@router.post("/context")
def build(request: Request, own: OwnMemory, body: ContextBody) -> dict[str, Any]:
    """Build a prompt of the caller's memory, knowledge and conversation."""
    state: ServerState = request.app.state.shepherd
    conversations = state.conversations
    model = conversations.models.take()
    try:
        summarizer = conversations.summarizer
        made = build_context(
            body.question,
            own.memory,
            state.config,
            own.user,
            session_id=body.session,
            max_tokens=body.max_tokens,
            count=model.count_tokens,
            times=body.times,
            summarize=None if summarizer is None else summarizer.summarize,
        )
    finally:
        conversations.models.give_back(model)
    return made.as_dict()

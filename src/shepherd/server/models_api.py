"""What the server has: the list of models, as OpenAI's and Anthropic's clients ask for it."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request

from shepherd.server.errors import Denied
from shepherd.server.state import ServerState

__all__ = ["router"]

router = APIRouter(prefix="/v1")


@router.get("/models")
async def models(request: Request) -> dict[str, Any]:
    """All models: the one that chats, and the one that embeds if there is one."""
    state: ServerState = request.app.state.shepherd
    listed = [_model(state, name) for name in _names(state)]
    ends = {"first_id": listed[0]["id"], "last_id": listed[-1]["id"], "has_more": False}
    return {"object": "list", "data": listed, **ends}


@router.get("/models/{name:path}")
async def model(request: Request, name: str) -> dict[str, Any]:
    """One of them."""
    state: ServerState = request.app.state.shepherd
    if name not in (*_names(state), *state.conversations.models.names):
        raise Denied(404, "model_not_found", "there is no such model here", param="model")
    return _model(state, name)


def _names(state: ServerState) -> list[str]:
    embedder = state.embeddings.name if state.embeddings is not None else ""
    return [state.conversations.models.name, *([embedder] if embedder else [])]


def _model(state: ServerState, name: str) -> dict[str, Any]:
    started = int(state.started_at)
    return {
        "id": name,
        "object": "model",
        "created": started,
        "owned_by": state.conversations.models.provider.name,
        # Anthropic's names of the same.
        "type": "model",
        "display_name": name,
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
    }

"""`/health`: whether the server can do its work. Open to everybody, so it says no more than that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from shepherd.errors import StoreError

if TYPE_CHECKING:
    from shepherd.server.state import Gated

__all__ = ["router"]

router = APIRouter()


@router.get("/health")
def health(request: Request) -> JSONResponse:
    """200 when requests can be answered and remembered, 503 when the memory cannot be reached."""
    state: Gated = request.app.state.shepherd
    memory = "off"
    if state.memory is not None:
        memory = "ok" if state.is_writable else "read-only"
    if state.keys is not None:  # without memory, too, nobody is let in whose key cannot be looked up
        try:
            state.keys.are_any()
        except StoreError:
            memory = "failed"
    is_well = memory != "failed"
    return JSONResponse({"status": "ok" if is_well else "failed", "memory": memory}, 200 if is_well else 503)

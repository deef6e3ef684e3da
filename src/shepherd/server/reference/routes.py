"""GET /openapi.json, and GET /docs, the same to read. Both are made with the first request for them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from shepherd.server.description import described
from shepherd.server.http import dumps
from shepherd.server.page import answer_file

__all__ = ["router"]

router = APIRouter()


@router.get("/openapi.json")
@described("OpenAPI")
def openapi(request: Request) -> Response:
    """Return this document."""
    return answer_file(request, dumps(_document(request)).encode(), "application/json")


@router.get("/docs", include_in_schema=False)
def docs(request: Request) -> Response:
    """Return the document as a page."""
    from shepherd.server.reference.html import page_of

    state = request.app.state
    if not hasattr(state, "docs"):
        state.docs = page_of(_document(request)).encode()
    return answer_file(request, state.docs, "text/html; charset=utf-8")


def _document(request: Request) -> dict[str, Any]:
    """Return the document, which is the same for everybody; it takes half a second to make."""
    from shepherd.server.reference.document import document_of

    state = request.app.state
    if not hasattr(state, "document"):
        state.document = document_of(request.app.routes)
    made: dict[str, Any] = state.document
    return made

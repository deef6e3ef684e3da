"""The application: routes, errors in each API's shape, and what stands before them."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from shepherd import __version__
from shepherd.errors import InternalError, ShepherdError
from shepherd.server import (
    anthropic_api,
    completion_api,
    context_api,
    embedding_api,
    knowledge_resources,
    middleware,
    models_api,
    openai_api,
    overview,
    page,
    resources,
)
from shepherd.server.errors import Denied, Problem, error_of, problem_of
from shepherd.server.logs import route_of
from shepherd.server.state import ServerState

__all__ = ["answer_errors", "create_app", "show_memory"]

_MODELS = (anthropic_api, context_api, embedding_api, models_api)
# `overview` before `resources`, where what follows /v1/memory/ is a memory's number.
_MEMORY = (overview, resources, knowledge_resources, page)
_log = logging.getLogger(__name__)


def create_app(state: ServerState) -> FastAPI:
    """The ASGI application of a server with these parts."""
    app = FastAPI(title="Shepherd", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.shepherd = state
    # The first that matches is taken.
    app.router.routes[:0] = [anthropic_api.route, completion_api.route, openai_api.route]
    for part in _MODELS:
        app.include_router(part.router)
    show_memory(app)
    middleware.install(app, state)
    answer_errors(app)
    return app


def show_memory(app: FastAPI) -> None:
    """Serve one's own memory from this app: its resources, and the page at `/` that shows them."""
    for part in _MEMORY:
        app.include_router(part.router)


def answer_errors(app: FastAPI) -> None:
    """Let every error of this app be answered in the shape of the API that was asked."""
    app.add_exception_handler(Denied, _answer_error)
    app.add_exception_handler(ShepherdError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(Exception, _answer_error)


async def _answer_error(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, (Denied, ShepherdError)) or isinstance(error, InternalError):
        _log.error("%s %s: %s", request.method, route_of(request.scope), type(error).__name__)
    return _answer(request, problem_of(error))


async def _answer_invalid(request: Request, error: Any) -> JSONResponse:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    # Only where and why: the value is the user's text.
    problem = Problem(400, "invalid_request", f"{where or 'the body'}: {first['msg']}", where or None)
    return _answer(request, problem)


async def _answer_http(request: Request, error: Any) -> JSONResponse:
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "invalid_request")
    message = f"{request.method} {request.url.path}: {error.detail}"
    return _answer(request, Problem(error.status_code, code, message))


def _answer(request: Request, problem: Problem) -> JSONResponse:
    return JSONResponse(
        error_of(problem, request.url.path), problem.status, headers=dict(problem.headers) or None
    )

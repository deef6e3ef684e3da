"""The applications: their routes, and errors in the shape of the API that was asked."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from shepherd import __version__
from shepherd.errors import InternalError, ShepherdError
from shepherd.server import (
    anthropic_api,
    background,
    completion_api,
    conversation_resources,
    conversations_api,
    knowledge_resources,
    llama_api,
    llama_completions,
    middleware,
    models,
    ollama_api,
    openai_api,
    page,
    pulls,
    reading_ahead,
    resources,
    responses_api,
    retrieval_api,
)
from shepherd.server.description import description_of
from shepherd.server.errors import Denied, Problem, error_of, problem_of, problem_of_fields
from shepherd.server.logs import route_of
from shepherd.server.reference import routes as reference
from shepherd.server.state import AppState, ServerState

__all__ = ["create_app", "memory_app"]

_log = logging.getLogger(__name__)


def create_app(state: ServerState) -> FastAPI:
    """Return the ASGI application of a server with the APIs."""
    app = memory_app(
        state,
        anthropic_api.router,
        retrieval_api.router,
        models.router,
        ollama_api.router,
        responses_api.router,
        llama_api.router,
        reading_ahead.router,
        lifespan=lambda app: _ending(state),
    )
    # The first route that matches is taken.
    app.router.routes[:0] = [
        *(openai_api.route, completion_api.route, responses_api.route, anthropic_api.route),
        *ollama_api.routes,
        pulls.route,
        *llama_completions.routes,
    ]
    # Behind /v1/conversations/search, which it would take for an id.
    app.router.routes.extend(conversations_api.router.routes)
    return app


@asynccontextmanager
async def _ending(state: ServerState) -> AsyncIterator[None]:
    """End what is being made in the background when the server stops."""
    yield
    await background.end_all(state)


def memory_app(state: AppState, *routers: APIRouter, lifespan: Callable[..., Any] | None = None) -> FastAPI:
    """Return an application with these routes, the caller's own memory, and the page at `/` that shows it."""
    app = FastAPI(
        title="Shepherd",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
        exception_handlers={
            Denied: _answer_error,
            ShepherdError: _answer_error,
            RequestValidationError: _answer_invalid,
            HTTPException: _answer_http,
            Exception: _answer_error,
        },
    )
    app.state.shepherd = state
    for router in (
        *routers,
        knowledge_resources.files,
        resources.router,
        conversation_resources.router,
        knowledge_resources.router,
        reference.router,
        *([page.router] if state.config.server_page else []),
    ):
        app.router.routes.extend(router.routes)
    middleware.install(app, state)
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            description_of(route.endpoint)  # InternalError without one
    return app


async def _answer_error(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, (Denied, ShepherdError)) or isinstance(error, InternalError):
        _log.error("%s %s: %s", request.method, route_of(request.scope), type(error).__name__)
    return _answer(request, problem_of(error))


async def _answer_invalid(request: Request, error: Any) -> JSONResponse:
    return _answer(request, problem_of_fields(error.errors()))


async def _answer_http(request: Request, error: Any) -> JSONResponse:
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "invalid_request")
    message = f"{request.method} {request.url.path}: {error.detail}"
    return _answer(request, Problem(error.status_code, code, message))


def _answer(request: Request, problem: Problem) -> JSONResponse:
    return JSONResponse(
        error_of(problem, request.url.path), problem.status, headers=dict(problem.headers) or None
    )

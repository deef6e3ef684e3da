"""The OpenAPI document of an app, made of its routes: parameters and bodies as they are checked, answers as
they are described.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from inspect import cleandoc
from typing import Any

from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route

from shepherd import __version__
from shepherd.errors import InternalError
from shepherd.server.description import ALIASES, Description, description_of
from shepherd.server.errors import Problem, error_of
from shepherd.server.http import JsonRoute
from shepherd.server.middleware import OPEN_PATHS, UNCOUNTED, scope_of
from shepherd.server.page import PATHS
from shepherd.server.reference import answers, model_answers

__all__ = ["document_of", "is_described"]

_ABOUT = """\
All routes of this server, with what they read and answer. A program that speaks OpenAI's, Anthropic's or
Ollama's protocol only needs the address of this server.

A server without API keys can only be reached from its own machine, and needs no key. With keys, send one as
`Authorization: Bearer …` or as `x-api-key`; each route names the scope that the key needs. `user`, in a body
or a query, names one of the key owner's users.

JSON bodies need no `Content-Type`. Shepherd's own routes refuse unknown fields; the others ignore them, but
for a few that would change the answer and for misspelt names of Shepherd's own fields. Errors have the format
of the API that was called."""

# Sections: what they are about, and how their paths begin.
_OPENAI = ("/v1/chat", "/v1/completions", "/v1/embeddings")
_SECTIONS = {
    "Chat (OpenAI)": (
        "OpenAI's chat, completions and embeddings.",
        _OPENAI,
    ),
    "Responses (OpenAI)": ("OpenAI's Responses API.", ("/v1/responses",)),
    "Models": ("The models of the server.", ("/v1/models",)),
    "Messages (Anthropic)": ("Anthropic's API.", ("/v1/messages",)),
    "Ollama": ("Ollama's API.", ("/api/",)),
    "llama.cpp": (
        "Routes of llama.cpp's own server, for local models.",
        (
            *("/completion", "/infill", "/tokenize", "/detokenize", "/apply-template"),
            *("/props", "/slots", "/v1/rerank"),
        ),
    ),
    "Memory": ("Your memories and figures about them.", ("/v1/memory",)),
    "Facts": ("Facts about you, with their history.", ("/v1/facts",)),
    "Learning": (
        "Facts and memories learned from your words, and open proposals.",
        ("/v1/learned", "/v1/extraction"),
    ),
    "Conversations": ("Your stored conversations.", ("/v1/conversations",)),
    "Trace": ("Lines that memory added to your messages, and the cost of each turn.", ("/v1/trace",)),
    "Knowledge": (
        "Your documents and notes as nodes and edges.",
        ("/v1/knowledge", "/v1/documents", "/v1/context"),
    ),
    "Shared conversation": (
        "One conversation that several clients share.",
        ("/request", "/updates", "/session", "/clear"),
    ),
    "Server": ("State and settings of the server.", ("/v1/settings", "/health", "/metrics", "/openapi.json")),
}
_REASONS = {
    400: "A field is missing, unknown, out of its limits or unsupported.",
    401: "The API key is missing, unknown or revoked.",
    403: "The key lacks the scope, another site's page asks, or the server does not allow it.",
    404: "There is no such thing, or it is another user's.",
    408: "The body did not arrive in time.",
    409: "It was decided already, or has changed since.",
    413: "The body or a text in it is too large.",
    429: "This key has too many requests under way; `Retry-After` says when to try again.",
    503: "The server is busy, or the memory or the provider it needs is not there.",
    0: "Any other error: a name that is not the server's (421), too many headers (431), a bug (500) …",
}
_NEVER = 299  # a status under which FastAPI is given the shape of an event
_EVENTS, _LINES = "text/event-stream", "application/x-ndjson"
_REFERENCE = "#/components/schemas/"
_PREFIXES = {
    "openai_api": "OpenAI",
    "anthropic_api": "Anthropic",
    "ollama_api": "Ollama",
    "responses_bodies": "Response",
    "llama_api": "Llama",
}


def is_described(route: BaseRoute) -> bool:
    """Return True for routes of the API, False for files of the page."""
    return isinstance(route, Route) and route.path not in PATHS and route.path != "/docs"


def document_of(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """Return the document. Takes about half a second. InternalError for a route without description."""
    described = [_rebuilt(route) for route in routes if isinstance(route, Route) and is_described(route)]
    document = get_openapi(
        title="Shepherd",
        version=__version__,
        summary="A language model that remembers, behind the APIs of OpenAI, Anthropic and Ollama.",
        description=_ABOUT,
        routes=described,
    )
    for route in described:
        for method in _methods(route):
            _complete(document["paths"][route.path_format][method.lower()], route)
    components = document["components"]
    components["responses"] = _refusals(components["schemas"])
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "A key of `shepherd apikey create`."},
        "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "The same key."},
    }
    used = {tag for path in document["paths"].values() for one in path.values() for tag in one["tags"]}
    document["tags"] = [
        {"name": name, "description": text} for name, (text, _) in _SECTIONS.items() if name in used
    ]
    return _renamed(document)


def _rebuilt(route: Route) -> APIRoute:
    """Return a route as FastAPI describes it: with the shapes of its answers, and what its handler reads."""
    handler = route.handler if isinstance(route, JsonRoute) else route.endpoint
    about = description_of(handler)
    shapes = {**dict(about.also), **({_NEVER: event} if (event := about.events or about.lines) else {})}
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": _shape(name)} for status, name in shapes.items()
    }
    responses["default"] = {"model": _error_shape(route.path)}
    summary, _, more = cleandoc(handler.__doc__ or "").partition("\n\n")
    aliases = [f"`{alias}`" for alias, path in ALIASES.items() if path == route.path]
    notes = [more, f"Also at {', '.join(aliases)}." if aliases else "", _streaming(about)]
    return APIRoute(
        route.path,
        handler,
        methods=_methods(route),
        status_code=getattr(route, "status_code", None),
        summary=" ".join(summary.split()).removesuffix("."),
        description="\n\n".join(filter(None, notes)),
        operation_id=_operation_id(route),
        tags=[_section_of(route.path)],
        response_model=_shape(about.answer) if about.answer else None,
        response_class=JSONResponse,
        responses=responses,
    )


def _methods(route: Route | APIRoute) -> list[str]:
    return sorted(route.methods or ())


def _shape(name: str) -> Any:
    found = getattr(answers, name, None) or getattr(model_answers, name, None)
    if found is None:
        raise InternalError(f"there is no shape {name}")
    return found


def _error_shape(path: str) -> Any:
    made = error_of(Problem(400, "", ""), path)
    if "type" in made:
        return model_answers.AnthropicError
    return model_answers.OllamaError if isinstance(made["error"], str) else model_answers.OpenAIError


def _streaming(about: Description) -> str:
    if not (about.events or about.lines):
        return ""
    kind = "server-sent events" if about.events else "lines of JSON"
    when = f"With `{about.streams_with}` true, the" if about.streams_with else "The"
    return f"{when} answer is a stream of {kind}."


def _operation_id(route: Route) -> str:
    """Return a name for generated clients, such as get_v1_memory_memory_id."""
    [method] = _methods(route)
    return "_".join([method.lower(), *re.findall(r"[a-z0-9_]+", re.sub(r":path}", "}", route.path.lower()))])


def _section_of(path: str) -> str:
    for name, (_, beginnings) in _SECTIONS.items():
        if path.startswith(beginnings):
            return name
    raise InternalError(f"{path} is in no section of the API's description")


def _complete(operation: dict[str, Any], route: APIRoute) -> None:
    """Add what FastAPI does not know: streams, files, keys, and errors."""
    about, path = description_of(route.endpoint), route.path
    if " ".join(operation.get("description", "").split()) == f"{operation['summary']}.":
        del operation["description"]  # FastAPI takes the docstring where there is none
    found = operation["responses"]
    success = found[str(route.status_code or 200)]
    success["description"] = "The answer."
    if not about.answer:
        success["content"] = {about.media_type: {"schema": {"type": "string"}}} if about.media_type else {}
    if about.events or about.lines:
        shape = found.pop(str(_NEVER))["content"]["application/json"]["schema"]
        success["content"][_EVENTS if about.events else _LINES] = {"schema": shape}
        operation["x-streams"] = {"with": about.streams_with} if about.streams_with else {"always": True}
    for status, _ in about.also:
        found[str(status)]["description"] = HTTPStatus(status).phrase
    if about.takes_file:
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "description": "The file.", "content": content}
    has_body = "requestBody" in operation
    statuses = {*about.refusals, 503}
    statuses |= {400} if has_body or operation.get("parameters") else set()
    statuses |= {408, 413} if has_body else set()
    if path in OPEN_PATHS:
        operation["security"] = []
    else:
        scope = scope_of(path)
        operation["security"] = [{"bearer": [scope]}, {"x-api-key": [scope]}, {}]
        statuses |= {401, 403}
    if path not in UNCOUNTED and path not in OPEN_PATHS:
        statuses |= {429}
    shape_name = _error_shape(path).__name__
    for status in sorted(statuses - {int(known) for known in found if known.isdigit()}):
        found[str(status)] = {"$ref": f"#/components/responses/{shape_name}{status}"}
    found["default"] = {"$ref": f"#/components/responses/{shape_name}"}


def _refusals(schemas: dict[str, Any]) -> dict[str, Any]:
    shapes = (model_answers.OpenAIError, model_answers.AnthropicError, model_answers.OllamaError)
    return {
        f"{shape.__name__}{status or ''}": {
            "description": reason,
            "content": {"application/json": {"schema": {"$ref": f"{_REFERENCE}{shape.__name__}"}}},
        }
        for shape in shapes
        if shape.__name__ in schemas
        for status, reason in _REASONS.items()
    }


def _renamed(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with short names of its shapes, without modules and underscores."""
    schemas = document["components"]["schemas"]
    names: dict[str, str] = {}
    for long in schemas:
        module, _, name = long.removeprefix("shepherd__server__").rpartition("__")
        name = name.lstrip("_") if module else long.lstrip("_")
        short = f"{_PREFIXES.get(module.strip('_'), '')}{name}"
        names[long] = short if short not in names.values() else long

    def walked(value: Any) -> Any:
        if isinstance(value, list):
            return [walked(one) for one in value]
        if isinstance(value, float) and value.is_integer():  # limits of whole numbers
            return int(value)
        if not isinstance(value, dict):
            return value
        # FastAPI's titles repeat the names of fields.
        made = {key: walked(one) for key, one in value.items() if key != "title" or isinstance(one, dict)}
        reference = value.get("$ref")
        if isinstance(reference, str) and reference.startswith(_REFERENCE):
            made["$ref"] = _REFERENCE + names[reference.removeprefix(_REFERENCE)]
        return made

    title = document["info"]["title"]
    made: dict[str, Any] = walked(document)
    made["info"] = {"title": title, **made["info"]}
    made["components"]["schemas"] = {
        names[long]: made["components"]["schemas"][long] for long in sorted(schemas, key=names.__getitem__)
    }
    return made

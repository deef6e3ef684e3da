"""The memory page at `/`: the files in `static/`, with a strict content policy.

They are the same for everybody, but for the name of the program in `index.html`, for commands to run.

The policy allows a browser to run this server's own files and nothing else: no inline script, no other host,
no text that becomes markup (Trusted Types). A stored memory that contains HTML stays text even if a view
fails to escape it.
"""

from __future__ import annotations

import hashlib
import html
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response

from shepherd.installation import NAME, program_from_anywhere
from shepherd.server.state import AppState

__all__ = ["PATHS", "answer_file", "router"]

_FOLDER = Path(__file__).parent / "static"
_INDEX = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Cached, and validated with the ETag: no browser has half of an old page after an update.
    "Cache-Control": "no-cache",
}


def _path_of(name: str) -> str:
    return "/" if name == _INDEX else f"/page/{name}"


_FILES = {_path_of(path.name): path for path in _FOLDER.iterdir() if path.suffix in _TYPES}
PATHS = frozenset(_FILES)

router = APIRouter()


@cache
def _read(path: Path) -> tuple[bytes, dict[str, str]]:
    """Return a file and its headers; all files together are 180 KB."""
    content = path.read_bytes()
    return content, _headers_of(content)


@cache
def _read_index(program: str) -> tuple[bytes, dict[str, str]]:
    """Return the index with this program in its commands, and its headers."""
    shown = html.escape(program)
    text = _FILES["/"].read_text("utf-8")
    for before, after in (('name="program" content="', '"'), ("<code>", " ")):
        text = text.replace(f"{before}{NAME}{after}", f"{before}{shown}{after}")
    content = text.encode()
    return content, _headers_of(content)


def _headers_of(content: bytes) -> dict[str, str]:
    return {**_HEADERS, "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}


async def _serve(request: Request) -> Response:
    path = _FILES[request.url.path]
    content, headers = _read_index(_program(request)) if path.name == _INDEX else _read(path)
    return _answer(request, content, _TYPES[path.suffix], headers)


def _program(request: Request) -> str:
    """Return how to start Shepherd on this computer."""
    state: AppState = request.app.state.shepherd
    return program_from_anywhere(for_strangers=state.is_open)


def answer_file(request: Request, content: bytes, media_type: str) -> Response:
    """Return what is no file, but is served like one: behind the policy, and with an ETag."""
    return _answer(request, content, media_type, _headers_of(content))


def _answer(request: Request, content: bytes, media_type: str, headers: dict[str, str]) -> Response:
    if _knows(request.headers.get("if-none-match", ""), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)


def _knows(if_none_match: str, etag: str) -> bool:
    """Return True if the client has the file. A compressing proxy may have made the tag a weak one."""
    known = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return etag in known or "*" in known


for _path in sorted(PATHS):
    # The page is no part of the API's description.
    router.add_api_route(_path, _serve, methods=["GET", "HEAD"], include_in_schema=False)

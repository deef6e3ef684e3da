"""The files of the page: HTML, styles and modules as they lie in `static/`, behind a strict policy.

The policy lets a browser run this server's own files and nothing else: no inline script, no other host, no
text that becomes markup (Trusted Types). A stored memory that holds HTML is text, and would be if a view
forgot that.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request, Response

__all__ = ["PATHS", "StaticFile", "router"]

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
    # Kept, and asked for again with its ETag: after an update nobody has half of the old page.
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is sent. `etag` is made of the content."""

    content: bytes
    media_type: str
    etag: str

    @classmethod
    def read(cls, path: Path) -> StaticFile:
        """The file at that path."""
        content = path.read_bytes()
        return cls(content, _TYPES[path.suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def _path_of(name: str) -> str:
    return "/" if name == _INDEX else f"/page/{name}"


_FILES = {_path_of(path.name): path for path in _FOLDER.iterdir() if path.suffix in _TYPES}
PATHS = frozenset(_FILES)
_read: dict[str, StaticFile] = {}

router = APIRouter()


async def _serve(request: Request) -> Response:
    path = request.url.path
    file = _read.get(path)
    if file is None:  # all of them together are 100 KB
        file = _read[path] = StaticFile.read(_FILES[path])
    headers = {**_HEADERS, "ETag": file.etag}
    if _knows(request.headers.get("if-none-match", ""), file.etag):
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


def _knows(if_none_match: str, etag: str) -> bool:
    """Whether the client has it already. A proxy that compresses may have made the tag a weak one."""
    known = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return etag in known or "*" in known


for _path in sorted(PATHS):
    # A page is no part of the API's description.
    router.add_api_route(_path, _serve, methods=["GET", "HEAD"], include_in_schema=False)

"""Pictures that requests name by their address on the web, if the operator allows it.

They are fetched as imported pages are: from public addresses only, within limits of size and time, before the
answer begins. Each user's are kept for a while, since clients send the whole conversation with each request,
and the model has to see the same picture again.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from shepherd.errors import DocumentError, UsageError
from shepherd.lru_cache import LRUCache
from shepherd.pictures import MOST_BYTES, picture_of
from shepherd.server.http import LARGE_BYTES
from shepherd.server.streaming import blocking, cancelled_on_disconnect
from shepherd.types import Picture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request

    from shepherd.config import Config
    from shepherd.server.state import ServerState

__all__ = [
    "PictureFetcher",
    "counting",
    "fetched_picture",
    "fetching",
    "is_address",
    "may_name_address",
]

_T = TypeVar("_T")
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
# Of one request: pictures that are not known yet, and the time for all of them.
_MOST_FETCHED, _MOST_SECONDS = 16, 30.0
_TIMEOUT_S = 10.0
_LONGEST_ADDRESS = 8192
_ACCEPTED = ("image/", "application/octet-stream", "binary/octet-stream")
_KEPT, _KEPT_BYTES, _KEPT_S = 256, 64 << 20, 3600.0
# What the sender may learn of a failure: that something inside the network answers is not among it.
_TOLD = re.compile(r"answered with status \d+|sends [\w.+-]+/[\w.+-]+|sends more than .*|takes more than .*")
_pictures: LRUCache[tuple[str, str], tuple[float, Picture]] = LRUCache(
    _KEPT, max_bytes=_KEPT_BYTES, size_of=lambda _, kept: len(kept[1].data)
)


class PictureFetcher:
    """Fetches the pictures of one request of a user; `is_gone` tells that nobody waits any more."""

    def __init__(self, config: Config, user_id: str, is_gone: Callable[[], bool] = lambda: False) -> None:
        self._config, self._user, self._is_gone = config, user_id, is_gone
        self._n_fetched, self._until = 0, 0.0

    def run(self, work: Callable[[], _T]) -> _T:
        """Run `work`, which converts the request, with this fetcher. Blocks while pictures are fetched."""
        with _active(self):
            return work()

    def picture(self, url: str) -> Picture:
        """Return the picture at an address. Raises UsageError, without the address in it."""
        known = _pictures.get((self._user, url))
        if known is not None and time.monotonic() - known[0] < _KEPT_S:
            return known[1]
        if len(url) > _LONGEST_ADDRESS:
            raise UsageError("the address is too long", hint=f"at most {_LONGEST_ADDRESS:,} characters")
        if self._n_fetched == _MOST_FETCHED or self._is_gone():
            raise UsageError(
                "too many pictures to fetch at once", hint=f"name up to {_MOST_FETCHED} new ones"
            )
        self._n_fetched += 1
        self._until = self._until or time.monotonic() + _MOST_SECONDS
        picture = picture_of(self._fetched(url))
        _pictures.put((self._user, url), (time.monotonic(), picture))
        return picture

    def _fetched(self, url: str) -> bytes:
        # Here, since most servers fetch none.
        from shepherd.knowledge.importing.web import WebLimits, fetch

        left = self._until - time.monotonic()
        if left <= 0:
            raise UsageError(
                f"the pictures took more than {_MOST_SECONDS:.0f} s", hint="send them as data: URLs"
            )
        limits = replace(
            WebLimits.of(self._config),
            most_bytes=MOST_BYTES,
            timeout_s=min(_TIMEOUT_S, left),
            most_seconds=left,
            accepted=_ACCEPTED,
        )
        try:
            return fetch(url, limits).data
        except (UsageError, DocumentError) as error:
            told = _TOLD.search(str(error))
            why = f"its server {told[0]}" if told else "only public web servers are asked"
            raise UsageError(
                f"the picture was not fetched: {why}", hint="or send it as a data: URL"
            ) from None


_fetcher: ContextVar[PictureFetcher | None] = ContextVar("_fetcher", default=None)


@contextmanager
def _active(fetcher: PictureFetcher) -> Iterator[None]:
    token = _fetcher.set(fetcher)
    try:
        yield
    finally:
        _fetcher.reset(token)


def is_address(url: str) -> bool:
    """Return True for an address on the web."""
    return _ADDRESS.match(url[:8]) is not None


def may_name_address(body: bytes) -> bool:
    """Return True if a request could name a picture by its address, itself or in what it continues."""
    continues = b"previous_response_id" in body or b"conversation" in body
    return continues or (b"image" in body and b"http" in body.lower())


def fetched_picture(url: str) -> Picture | None:
    """Return the picture at an address; None if this request fetches none. Raises UsageError."""
    fetcher = _fetcher.get()
    return None if fetcher is None else fetcher.picture(url)


async def fetching(request: Request, user_id: str, work: Callable[[], _T]) -> _T:
    """Run `work`, which converts a request, on a thread where it may fetch pictures; return its result."""
    state: ServerState = request.app.state.shepherd
    is_gone = threading.Event()
    fetcher = PictureFetcher(state.config, user_id, is_gone.is_set)
    async with cancelled_on_disconnect(request.receive, is_gone.set):
        return await blocking(lambda: fetcher.run(work), fetches=True)


async def counting(request: Request, user_id: str, count: Callable[[], int]) -> int:
    """Run `count`, which converts a request and counts its tokens, on a thread; return its result."""
    state: ServerState = request.app.state.shepherd
    data = await request.body()
    if state.config.server_fetch_pictures and may_name_address(data):
        return await fetching(request, user_id, count)
    return await blocking(count, is_large=len(data) > LARGE_BYTES)

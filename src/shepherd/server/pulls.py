"""Ollama's /api/pull: a model is downloaded from the hub, and its progress told as JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator
from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shepherd.errors import ModelError
from shepherd.inference.hub import Transferred, Waiting
from shepherd.inference.models import ModelRegistry
from shepherd.inference.names import HUB_PREFIX
from shepherd.server.description import described
from shepherd.server.errors import Denied, ollama_error, problem_of
from shepherd.server.http import FinalEvents, JsonRoute, LenientBody, LineStream, line
from shepherd.server.state import ServerState
from shepherd.server.streaming import cancelled_on_disconnect

__all__ = ["TAG", "PullBody", "hub_name", "route"]

# Ollama's models have a tag, and clients add this one where a name has none.
TAG = ":latest"
_HUBS = ("hf.co/", "huggingface.co/", HUB_PREFIX)
# Interval of two lines about the same file.
_INTERVAL_S = 0.1
_MOST_PULLS = 4


class PullBody(LenientBody):
    """POST /api/pull. `name` is the older name of the field."""

    model: str = ""
    name: str = ""
    stream: bool | None = Field(default=True, description="Stream the progress, a JSON object a line.")


def hub_name(name: str) -> str:
    """Return the name `hf:…` of a model that is named as Ollama's users do; Denied for one of no hub."""
    plain = name.removesuffix(TAG)
    for prefix in _HUBS:
        if plain.lower().startswith(prefix):
            return HUB_PREFIX + plain[len(prefix) :]
    raise Denied(
        404,
        "model_not_found",
        "models come from the Hugging Face hub: name one as hf.co/user/repo:quant",
        param="model",
    )


class _CancelledError(ModelError):
    """Nobody waits for the download any more; what has come stays, and the next one goes on from there."""


class Pull:
    """One download, on a thread of its own. `lines` are Ollama's; `cancel` may be called from any thread."""

    def __init__(self, state: ServerState, spec: str) -> None:
        self._state, self._spec = state, spec
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[dict[str, Any] | Exception | None] = asyncio.Queue()
        self._is_cancelled = threading.Event()
        self._told: dict[
            str, tuple[float, int]
        ] = {}  # when the last line about a file was made, and its bytes

    async def lines(self) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the progress. Denied or UsageError if the model cannot be had."""
        if len(self._state.pulls) >= _MOST_PULLS:
            message = f"{_MOST_PULLS} models are being downloaded already"
            raise Denied(503, "busy", message, headers={"Retry-After": "60"})
        self._state.pulls.add(self)
        self._state.in_progress.add(self.cancel)
        # A daemon: the server need not wait for the network when it ends.
        threading.Thread(target=self._run, name="shepherd-pull", daemon=True).start()
        try:
            while (item := await self._lines.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.cancel()

    def cancel(self) -> None:
        """End the download soon, and the lines at once."""
        self._is_cancelled.set()
        self._put(Denied(503, "pull_cancelled", "the download was cancelled; the next one resumes it"))

    def _run(self) -> None:
        try:
            self._put({"status": "pulling manifest"})
            self._state.offer(ModelRegistry().pull(self._spec, self._report))
            self._put({"status": "writing manifest"})
            self._put({"status": "success"})
            self._loop_call(self._ended)
        except ModelError as error:
            self._put(Denied(502, "pull_failed", f"{error} ({error.hint})" if error.hint else str(error)))
            self._loop_call(self._ended)
        except Exception as error:
            self._put(error)
            self._loop_call(self._ended)

    def _ended(self) -> None:
        self._state.pulls.discard(self)
        self._state.in_progress.discard(self.cancel)
        self._lines.put_nowait(None)

    def _report(self, event: Transferred | Waiting) -> None:
        if self._is_cancelled.is_set():
            raise _CancelledError("the download was cancelled", hint="the next one resumes it")
        if isinstance(event, Waiting):
            again = f", next try in {event.wait_s:.0f} s" if event.wait_s else ""
            self._put({"status": f"waiting: {event.reason}{again}"})
            return
        now, is_whole = time.monotonic(), event.done_bytes == event.size_bytes
        told_at, told_bytes = self._told.get(event.file, (0.0, 0))
        # The first bytes are told at once: the next ones may take long.
        if is_whole or now - told_at >= _INTERVAL_S or (event.done_bytes and not told_bytes):
            self._told[event.file] = now, event.done_bytes
            self._put(
                {
                    "status": f"pulling {event.sha256[:12]}",
                    "digest": f"sha256:{event.sha256}",
                    "total": event.size_bytes,
                    "completed": event.done_bytes,
                }
            )
        if is_whole:
            self._put({"status": "verifying sha256 digest"})

    def _put(self, item: dict[str, Any] | Exception) -> None:
        self._loop_call(lambda: self._lines.put_nowait(item))

    def _loop_call(self, call: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(call)


@described("OllamaProgress", 404, lines="OllamaProgress", streams_with="stream")
async def pull(request: Request, body: PullBody) -> Response:
    """Download a model from the hub; an interrupted download is resumed.

    With API keys, the key needs the scope `models`.
    """
    state: ServerState = request.app.state.shepherd
    name = body.model or body.name
    if name.removesuffix(TAG) in state.pool.names:
        return _told([{"status": "success"}], body)
    download = Pull(state, hub_name(name))
    lines = download.lines()
    # An error that comes first is the answer, with a status of its own.
    async with cancelled_on_disconnect(request.receive, download.cancel):
        first = [await anext(lines), await anext(lines)]
    if body.stream is not False:
        return LineStream(_streamed(first, lines), download.cancel)
    async with cancelled_on_disconnect(request.receive, download.cancel):
        async for one in lines:
            first.append(one)
    return JSONResponse(first[-1])


def _told(lines: list[dict[str, Any]], body: PullBody) -> Response:
    if body.stream is False:
        return JSONResponse(lines[-1])

    async def all_lines() -> AsyncGenerator[bytes, None]:
        yield FinalEvents(b"".join(map(line, lines)))

    return LineStream(all_lines(), lambda: None)


async def _streamed(
    first: list[dict[str, Any]], rest: AsyncGenerator[dict[str, Any], None]
) -> AsyncGenerator[bytes, None]:
    yield b"".join(map(line, first))
    try:
        async for one in rest:
            yield line(one)
    except Exception as error:
        yield FinalEvents(line(ollama_error(problem_of(error))))


route = JsonRoute("/api/pull", PullBody, pull)

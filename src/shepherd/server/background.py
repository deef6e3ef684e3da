"""Responses that are made in the background, whether anybody waits for them or not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from shepherd.server.errors import Denied
from shepherd.server.http import FinalEvents
from shepherd.server.state import ServerState

__all__ = ["BackgroundResponse", "end_all", "require_room", "running_of"]

# Of one user at once.
_MOST_RUNNING = 16
# Ended ones whose events can still be read.
_MOST_ENDED = 16
_EVENT_END = b"\n\n"


@dataclass(slots=True, eq=False)
class BackgroundResponse:
    """A response in the making, on the event loop: its events so far, and what it is now.

    `shown` returns the response as it is; `task` makes it.
    """

    user_id: str
    id: str
    shown: Callable[[], dict[str, Any]]
    streams: bool
    events: list[bytes] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    is_ended: bool = False
    # Set when it is to be cancelled, which ends the answer as the loss of its client does.
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, data: bytes) -> None:
        """Add events; each has the number of its place."""
        self.events += [part + _EVENT_END for part in data.split(_EVENT_END) if part]
        self._wake()

    def end(self) -> None:
        """Note that nothing follows."""
        self.is_ended = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def receive(self) -> MutableMapping[str, Any]:
        """Say, in place of a client, that the client has disconnected, once it is cancelled."""
        await self.cancelled.wait()
        return {"type": "http.disconnect"}

    async def cancel(self) -> None:
        """End the response, and wait for the end; what it has said is kept."""
        self.cancelled.set()
        while not self.is_ended:
            await self._changed.wait()

    async def follow(self, after: int = -1) -> AsyncGenerator[bytes, None]:
        """Yield the events behind number `after`, also those to come."""
        place = after + 1
        while True:
            changed = self._changed
            new = self.events[place:]
            place += len(new)
            if self.is_ended:
                yield FinalEvents(b"".join(new))
                return
            if new:
                yield b"".join(new)
            else:
                await changed.wait()


def running_of(state: ServerState, user_id: str, response_id: str) -> BackgroundResponse | None:
    """Return a response in the background that is being made, or was made lately; None for others."""
    found = state.background.get((user_id, response_id))
    return found if isinstance(found, BackgroundResponse) else None


def require_room(state: ServerState, user_id: str) -> None:
    """Raise Denied if too many responses of this user are being made; forget the oldest that have ended."""
    running = [one for one in state.background.values() if not one.is_ended]
    if sum(one.user_id == user_id for one in running) >= _MOST_RUNNING:
        message = f"{_MOST_RUNNING} responses of this user are being made in the background"
        raise Denied(429, "rate_limit_exceeded", message, headers={"Retry-After": "5"})
    ended = [key for key, one in state.background.items() if one.is_ended]
    for key in ended[: max(0, len(ended) - _MOST_ENDED)]:
        del state.background[key]


async def end_all(state: ServerState) -> None:
    """Cancel what is being made, when the server stops; what was said is stored."""
    tasks = [one.task for one in state.background.values() if one.task is not None and not one.is_ended]
    for one in list(state.background.values()):
        one.cancelled.set()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)

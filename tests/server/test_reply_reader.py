"""Reading a reply of the engine in an event loop: waiting ends without a piece, too."""

from __future__ import annotations

import asyncio
from pathlib import Path

from shepherd.inference import Engine, EngineSettings
from shepherd.server.streaming import ReplyReader
from shepherd.types import Message

HELLO = [Message("user", "hello")]


def test_waiting_for_a_piece_ends_while_another_answer_is_generated(endless_model: Path) -> None:
    async def wait_then_read() -> tuple[bool, int]:
        reader = ReplyReader(waiting, lambda failed: waiting.stats)
        # Without its own limit, it would wait as long as the other one.
        await asyncio.wait_for(reader.wait(0.01), 60)
        had_piece = reader.has_piece
        first.close()
        n_pieces = len([piece async for piece in reader])
        await reader.end()
        return had_piece, n_pieces

    with Engine(endless_model, settings=EngineSettings(n_ctx=65_536, n_threads=1, slots=1)) as engine:
        first = engine.generate(HELLO, max_tokens=60_000)
        next(first)
        waiting = engine.generate(HELLO, max_tokens=5)
        had_piece, n_pieces = asyncio.run(wait_then_read())

    assert not had_piece
    assert n_pieces > 0

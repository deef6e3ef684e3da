"""A summary is kept with its conversation, and goes with it; on both engines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shepherd.errors import UsageError
from shepherd.memory import Memory
from shepherd.prompt.summary import KeptSummaries, Left, Summary
from tests.memory.conftest import NOW, database, engine, path

__all__ = ["database", "engine", "path"]

LEFT = Left(Summary(("Steve bought a boat.", "It is r\ud800d."), 7), 42)


@pytest.fixture
def memory(database: str) -> Iterator[Memory]:
    with Memory(database, user_id="steve", clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def kept(memory: Memory) -> KeptSummaries:
    return KeptSummaries(memory.transactions, "steve")


def test_the_last_summary_comes_back_as_it_was(kept: KeptSummaries, memory: Memory) -> None:
    session = memory.start_session()
    assert kept.load(session) == Left()

    kept.save(session, Left(Summary(("First.",), 3), 6))
    kept.save(session, LEFT)

    assert kept.load(session) == LEFT
    assert kept.load(memory.start_session()) == Left()


def test_nobody_else_reads_or_writes_it(kept: KeptSummaries, memory: Memory) -> None:
    session = memory.start_session()
    kept.save(session, LEFT)
    mallory = KeptSummaries(memory.transactions, "mallory")

    assert mallory.load(session) == Left()
    with pytest.raises(UsageError):
        mallory.save(session, Left())
    assert kept.load(session) == LEFT


def test_it_goes_with_the_messages_of_its_conversation(kept: KeptSummaries, memory: Memory) -> None:
    session = memory.start_session()
    kept.save(session, LEFT)

    memory.clear_session(session)

    assert kept.load(session) == Left()


def test_of_a_damaged_row_the_place_is_left(kept: KeptSummaries, memory: Memory) -> None:
    session = memory.start_session()
    kept.save(session, LEFT)
    memory.transactions.write(
        "steve", lambda connection: connection.execute("UPDATE session_summaries SET pieces = '{'")
    )

    assert kept.load(session) == Left(Summary(), 42)

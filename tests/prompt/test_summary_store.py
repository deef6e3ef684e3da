"""A summary is kept with its conversation, and goes with it; on both engines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shepherd.errors import UsageError
from shepherd.memory import Memory
from shepherd.prompt.summary import StoredSummary, Summary, SummaryStore
from tests.memory.conftest import NOW, database, engine, path

__all__ = ["database", "engine", "path"]

LEFT = StoredSummary(Summary(("Steve bought a boat.", "It is r\ud800d."), 7), 42)


@pytest.fixture
def memory(database: str) -> Iterator[Memory]:
    with Memory(database, user_id="steve", clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def kept(memory: Memory) -> SummaryStore:
    return SummaryStore(memory.transactions, "steve")


def test_the_last_summary_comes_back_as_it_was(kept: SummaryStore, memory: Memory) -> None:
    session = memory.start_session()
    assert kept.load(session) == StoredSummary()

    kept.save(session, StoredSummary(Summary(("First.",), 3), 6))
    kept.save(session, LEFT)

    assert kept.load(session) == LEFT
    assert kept.load(memory.start_session()) == StoredSummary()


def test_nobody_else_reads_or_writes_it(kept: SummaryStore, memory: Memory) -> None:
    session = memory.start_session()
    kept.save(session, LEFT)
    mallory = SummaryStore(memory.transactions, "mallory")

    assert mallory.load(session) == StoredSummary()
    with pytest.raises(UsageError):
        mallory.save(session, StoredSummary())
    assert kept.load(session) == LEFT


def test_it_goes_with_the_messages_of_its_conversation(kept: SummaryStore, memory: Memory) -> None:
    session = memory.start_session()
    kept.save(session, LEFT)

    memory.clear_session(session)

    assert kept.load(session) == StoredSummary()


def test_of_a_damaged_row_the_place_is_left(kept: SummaryStore, memory: Memory) -> None:
    session = memory.start_session()
    kept.save(session, LEFT)
    memory.transactions.write(
        "steve", lambda connection: connection.execute("UPDATE session_summaries SET pieces = '{'")
    )

    assert kept.load(session) == StoredSummary(Summary(), 42)

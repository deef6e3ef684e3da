"""A real memory, a real server on loopback, and workers that are closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shepherd.extraction import EndpointExtractor, ExtractionWorker, WorkerSettings
from shepherd.memory import Memory
from shepherd.types import Message
from tests.extraction.server import Server, running


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        yield memory


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture
def new_worker(memory, server) -> Iterator[Callable[..., ExtractionWorker]]:
    """Makes workers of user steve that ask the server; keywords are settings, or parts of it."""
    made = []

    def make(*, extractor: Any = None, user_id: str = "steve", retry_s: float = 0.01, **settings: Any):
        worker = ExtractionWorker(
            memory,
            extractor or EndpointExtractor(server.url),
            user_id,
            settings=WorkerSettings(**settings),
            retry_interval_s=lambda: retry_s,
        )
        made.append(worker)
        return worker

    yield make
    for worker in made:
        worker.close()


@pytest.fixture
def tell(memory) -> Callable[..., str]:
    """Stores messages of one session as the assistant does, and tells the worker; gives the session."""

    def tell(worker: ExtractionWorker, *texts: str, session: str = "") -> str:
        session = session or memory.start_session()
        for text in texts:
            memory.append_message(session, Message("user", text), job=worker.open_job)
            memory.append_message(session, Message("assistant", "Noted."))
            worker.told(session)
        return session

    return tell

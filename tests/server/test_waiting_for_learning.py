"""The end of a stream waits until the worker has read what its user said, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.config import Config
from shepherd.extraction import EndpointExtractor, ExtractionWorker
from shepherd.memory import Claim, Memory, OpenJob
from shepherd.providers import ProviderSettings
from shepherd.server import chat
from shepherd.server.chat import LearnedNews
from shepherd.server.models import Models
from shepherd.server.state import ServerState
from shepherd.server.turns import Conversations
from shepherd.types import Message

TOLD = "My name is Steve."


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        yield memory


@pytest.fixture
def state(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> ServerState:
    """The state of a server whose worker does not start: the tests end the jobs themselves."""
    monkeypatch.setattr(chat, "_LEARNING_S", 3600.0)
    config, provider = Config(), ProviderSettings("work", "openai", model="m", api_key="k")
    conversations = Conversations(Models(provider, name="m"), memory=memory, config=config)
    worker = ExtractionWorker(memory, EndpointExtractor("http://127.0.0.1:1"), None)
    return ServerState(config, memory, True, conversations, worker)


def tell(memory: Memory, user: str) -> None:
    session = memory.start_session(user)
    memory.append_message(session, Message("user", TOLD), user, job=OpenJob("worker", 1))


def end_job(memory: Memory, user: str) -> None:
    job = memory.extraction.claim("worker", user)
    assert job is not None
    memory.extraction.finish(job, [Claim("name", "Steve", TOLD)], [])


async def begin(news: LearnedNews) -> asyncio.Task[list[dict[str, object]]]:
    """Wait for the news in a task, which has looked at the jobs once."""
    waiting = asyncio.ensure_future(news.wait())
    done, _ = await asyncio.wait([waiting], timeout=0.2)
    assert not done
    return waiting


def test_news_come_as_soon_as_the_users_own_message_was_read(state: ServerState, memory: Memory) -> None:
    async def ask() -> None:
        tell(memory, "steve")
        tell(memory, "anna")
        waiting = await begin(LearnedNews(state, "steve"))
        assert len(state.in_progress) == 1
        end_job(memory, "anna")
        assert not (await asyncio.wait([waiting], timeout=0.2))[0]
        end_job(memory, "steve")
        [item] = await waiting

        assert (item["key"], item["value"]) == ("name", "Steve")
        [learned] = memory.learned()
        assert state.told_items.get("steve") == learned.id
        assert state.in_progress == set()
        # Nothing is left to read, and nothing is told twice.
        assert await LearnedNews(state, "steve").wait() == []

    asyncio.run(asyncio.wait_for(ask(), 60))


def test_a_server_that_ends_waits_for_nothing(state: ServerState, memory: Memory) -> None:
    async def ask() -> None:
        tell(memory, "steve")
        waiting = await begin(LearnedNews(state, "steve"))
        state.cancel_all()
        assert await waiting == []
        assert state.in_progress == set()

    asyncio.run(asyncio.wait_for(ask(), 60))


@pytest.mark.parametrize("reason", ["no worker", "no memory", "a later retry", "nobody", "an open job"])
def test_what_is_not_read_now_is_not_waited_for(reason: str, state: ServerState, memory: Memory) -> None:
    tell(memory, "steve")
    if reason == "no worker":
        state.worker = None
    elif reason == "no memory":
        state.memory = None
    elif reason == "a later retry":
        job = memory.extraction.claim("worker", "steve")
        assert job is not None
        memory.extraction.fail(job, "busy", refused=False, most_refusals=3, retry_in_s=3600)
    elif reason == "an open job":
        end_job(memory, "steve")
        session = memory.start_session("steve")
        memory.append_message(session, Message("user", TOLD), "steve", job=OpenJob("worker", 9))
    user = "" if reason == "nobody" else "steve"

    found = asyncio.run(asyncio.wait_for(LearnedNews(state, user).wait(), 60))

    assert [item["key"] for item in found] == (["name"] if reason == "an open job" else [])


def test_a_memory_that_fails_costs_the_news_alone(
    state: ServerState, memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    memory.close()

    assert asyncio.run(asyncio.wait_for(LearnedNews(state, "steve").wait(), 60)) == []
    assert "looking up what was learned failed: " in caplog.text
    assert state.in_progress == set()

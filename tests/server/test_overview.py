"""Who asks, and the figures of one's own memory."""

from __future__ import annotations

import pytest

from shepherd import __version__
from shepherd.config import Config, default_user_id
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.server.app import create_app
from shepherd.server.state import AppState
from tests.server.running import Running


@pytest.fixture
def memory(tmp_path):
    with Memory(tmp_path / "memory.db", user_id=default_user_id()) as memory:
        yield memory


def served(memory: Memory, *, user_id: str = "", writable: bool = True, needs_key: bool = False) -> Running:
    state = AppState(Config(user_id=user_id), memory, writable, needs_key=needs_key)
    return Running(create_app(state))


def test_without_keys_nobody_is_offered_the_user_of_the_terminal(memory):
    with served(memory) as running, running.client() as client:
        nobody = client.get("/v1/memory/user").json()
        somebody = client.get("/v1/memory/user", params={"user": "anna"}).json()

    assert (nobody["user"], nobody["suggested"], nobody["is_writable"]) == ("", default_user_id(), False)
    assert (somebody["user"], somebody["suggested"], somebody["is_writable"]) == ("anna", "", True)
    assert somebody["version"] == __version__


def test_a_key_says_whose_it_is_and_what_for(memory):
    key, _ = memory.keys.create("anna", ["memory"])

    with served(memory, needs_key=True) as running, running.client(key) as client:
        own = client.get("/v1/memory/user").json()
        dog = client.get("/v1/memory/user", params={"user": "dog"}).json()
        nobody = client.get("/v1/memory/user", params={"user": "unknown"}).json()

    assert (own["owner"], own["user"], own["scopes"]) == ("anna", "anna", ["memory"])
    assert (dog["owner"], dog["user"]) == ("anna", "anna/dog")
    assert (nobody["user"], nobody["suggested"]) == ("", "")  # the machine's user is none of theirs


def test_a_memory_that_is_only_read_says_so(memory):
    with served(memory, user_id="anna", writable=False) as running, running.client() as client:
        assert client.get("/v1/memory/user").json()["is_writable"] is False


def test_figures_are_of_the_user_alone(memory):
    memory.store_memory("Which editor?", "Helix", "anna", timestamp=86_400)
    memory.store_memory("Which lunch?", "soup", "anna", timestamp=86_401)
    memory.store_memory("Which editor?", "vim", "bob")
    memory.recall("Which editor?", "anna")
    memory.set_fact("name", "Anna", "anna")
    Knowledge(memory.transactions, "anna").add_node("Soup")

    with served(memory, user_id="anna") as running, running.client() as client:
        stats = client.get("/v1/memory/stats").json()

    assert (stats["memories"], stats["facts"], stats["nodes"], stats["pinned"]) == (2, 1, 1, 0)
    assert stats["per_day"] == [{"day": 1, "memories": 2}]
    assert [(found["answer"], found["recalls"]) for found in stats["most_recalled"]] == [("Helix", 1)]
    assert stats["extraction"]["open"] == 0


@pytest.mark.parametrize(("scopes", "is_told"), [(["memory"], False), (["memory", "metrics"], True)])
def test_the_size_of_all_users_together_is_for_those_who_may_see_metrics(scopes, is_told, memory):
    key, _ = memory.keys.create("anna", scopes)

    with served(memory, needs_key=True) as running, running.client(key) as client:
        size = client.get("/v1/memory/stats").json()["database"]

    assert (size is not None) == is_told
    assert not is_told or 0 < size["used_bytes"] < size["limit_bytes"]


def test_nobody_has_figures_of_nothing(memory):
    with served(memory) as running, running.client() as client:
        stats = client.get("/v1/memory/stats").json()

    assert (stats["memories"], stats["per_day"], stats["most_recalled"]) == (0, [], [])

"""What users say over the API is learned, recalled for them alone, and kept out where they ask for that."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from shepherd.memory import Memory

USERS = {
    "anna": ("Anna", "Lisbon"),
    "boris": ("Boris", "Sofia"),
    "chen": ("Chen", "Taipei"),
    "dora": ("Dora", "Oslo"),
    "emil": ("Emil", "Vienna"),
    "fatima": ("Fatima", "Tunis"),
    "gus": ("Gus", "Dublin"),
    "hana": ("Hana", "Kyoto"),
}


def facts_of(server, user):
    with server.http() as client:
        listed = client.get("/v1/facts", params={"user": user}).json()["data"]
    return {fact["key"]: fact["value"] for fact in listed}


def wait_for(condition, what):
    """The first value of the condition that is not empty; extraction runs beside the answers."""
    deadline = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return value


def wait_until_learned(server, users):
    """Until no job of theirs is left."""

    def is_done():
        with Memory(server.database, user_id="local", read_only=True) as memory:
            return not any(memory.extraction.jobs(user) for user in users)

    wait_for(is_done, "extraction did not end")


def test_eight_users_at_once_are_told_what_they_said_and_nobody_else_is(mini):
    def tell(user):
        name, city = USERS[user]
        mini.ask(f"My name is {name} and I live in {city}.", user)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(tell, USERS))
    wait_until_learned(mini, USERS)
    facts = {user: facts_of(mini, user) for user in USERS}
    with ThreadPoolExecutor(8) as pool:
        answers = dict(zip(USERS, pool.map(lambda u: mini.ask("Where do I live?", u), USERS), strict=True))

    with Memory(mini.database, user_id="local", read_only=True) as memory:
        for user, (name, city) in USERS.items():
            others = {word for other, words in USERS.items() if other != user for word in words}
            assert {name, city} <= set(facts[user].values())
            [told, asked] = [
                next(m for m in memory.load_session(session.id, user) if m.role == "user")
                for session in reversed(memory.list_sessions(user))
            ]
            assert told.sent == told.raw
            assert asked.sent != asked.raw
            assert city in asked.sent
            assert not any(word in asked.sent for word in others)
            assert answers[user]["usage"]["prompt_tokens"] > 0


def test_tail_of_an_earlier_message_comes_back_byte_for_byte(mini):
    mini.ask("My cat is called Tom.", "tails")
    wait_for(lambda: facts_of(mini, "tails"), "nothing was learned")
    messages = [{"role": "user", "content": "What is my cat called?"}]
    first = mini.ask("", "tails", messages=messages)
    said = first["choices"][0]["message"]["content"]
    messages += [{"role": "assistant", "content": said}, {"role": "user", "content": "Are you sure?"}]

    second = mini.ask("", "tails", messages=messages)

    # The client sent its messages bare, and still all that was read and said is in the cache.
    seen = first["usage"]["prompt_tokens"] + first["usage"]["completion_tokens"]
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] >= seen


@pytest.mark.parametrize("fields", [{"memory": False, "user": "private"}, {}, {"user": "unknown"}])
def test_without_memory_or_a_user_nothing_is_kept(mini, fields):
    mini.ask("My name is Zebulon and I live in Quito.", **fields)

    with Memory(mini.database, user_id="local", read_only=True) as memory:
        for user in ("private", "unknown", "local"):
            assert memory.list_sessions(user) == []
            assert memory.extraction.jobs(user) == []


def test_private_request_reads_no_memory(mini):
    with mini.http() as client:
        client.put("/v1/facts/secret_word?user=reader", json={"value": "marzipan"})
    open_ = mini.ask("What is the secret word?", "reader")
    private = mini.ask("What is the secret word?", "reader", memory=False)

    assert open_["usage"]["prompt_tokens"] > private["usage"]["prompt_tokens"]


def test_message_that_is_sent_again_is_stored_once(mini):
    for _ in range(2):
        mini.ask("I have a boat called Mary.", "twice")

    with Memory(mini.database, user_id="local", read_only=True) as memory:
        sessions = memory.list_sessions("twice")
        said = [m.raw for s in sessions for m in memory.load_session(s.id, "twice") if m.role == "user"]
    assert said == ["I have a boat called Mary."]

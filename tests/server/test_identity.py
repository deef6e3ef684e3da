"""Nobody reads or writes another owner's memory, whatever key is shown and whatever `user` is called."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.config import Config
from shepherd.errors import UsageError
from shepherd.knowledge import Knowledge
from shepherd.memory import Claim, Memory
from shepherd.memory.api_keys import require_owner
from shepherd.sequences import sequence_of
from shepherd.server.app import create_app
from shepherd.server.errors import Denied
from shepherd.server.identity import LONGEST_USER, NOBODY, user_of
from shepherd.server.middleware import is_loopback, require_keys_for
from shepherd.server.public_ids import public_items
from shepherd.server.state import AppState
from shepherd.types import Message
from tests.learned import learn
from tests.server.running import Running

OWNERS = ("anna", "bob")
ODD_NAMES = [
    "bob", "bob/", "/bob", "../bob", "..", ".", "anna/../bob", "//bob", "bob\0", "\0", "anna\0/bob",
    "%2e%2e/bob", "b\u043eb", "\uff42\uff4f\uff42", "bob\u200d", "bo\u0301b", "BOB", " bob", "bob ",
    "' OR 1=1 --", "*", "%", "_", "\u202ebob", "\U0001f40f", "x" * LONGEST_USER, "unknown ", "local",
    "bob/dog", "anna", "anna/anna",
]  # fmt: skip
REFUSED = ["x" * (LONGEST_USER + 1)]
USERS = [None, "", "unknown", *ODD_NAMES, *REFUSED]


def owners() -> st.SearchStrategy[str]:
    def may_own(name: str) -> bool:
        try:
            require_owner(name)
        except UsageError:
            return False
        return True

    return st.one_of(st.sampled_from(["a", "a.", "ab", "A", "anna"]), st.text(min_size=1, max_size=5)).filter(
        may_own
    )


def users() -> st.SearchStrategy[str | None]:
    return st.one_of(
        st.none(), st.sampled_from(ODD_NAMES), st.text(alphabet="ab/.\0\u0430", max_size=6), st.text()
    )


def user_or_none(owner: str, requested: str | None) -> str | None:
    try:
        return user_of(owner, requested)
    except Denied:
        return None


@given(owners(), owners(), users(), users())
def test_users_of_two_owners_never_meet(one, other, user, name):
    mine, theirs = user_or_none(one, user), user_or_none(other, name)

    assert one == other or mine != theirs or mine in (None, NOBODY)


@given(owners(), users(), users())
def test_two_users_of_an_owner_are_two(owner, user, name):
    mine, theirs = user_or_none(owner, user), user_or_none(owner, name)

    assert mine != theirs or mine in (None, NOBODY) or (user or "") == (name or "")


@given(owners(), users())
def test_a_user_is_the_owner_or_below_him(owner, user):
    mine = user_or_none(owner, user)

    assert mine in (None, NOBODY, owner) or mine == f"{owner}/{user}"


@pytest.mark.parametrize(("owner", "user"), [("removed", "1"), ("", "removed/1"), ("", "removed user")])
def test_names_of_deleted_users_are_refused(owner, user):
    with pytest.raises(Denied, match="kept for users who were deleted"):
        user_of(owner, user)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "::1", "[::1]", "LocalHost"])
def test_loopback_needs_no_key(host):
    assert is_loopback(host)
    assert not require_keys_for(host, None)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "", "127.0.0.1.nip.io", "::ffff:8.8.8.8"]
)
def test_elsewhere_nothing_is_served_without_a_key(host, tmp_path):
    with Memory(tmp_path / "memory.db") as memory:
        with pytest.raises(UsageError, match="without an API key") as refused:
            require_keys_for(host, memory.keys)
        assert "apikey create" in refused.value.hint

        memory.keys.create("anna", ["chat"])

        assert require_keys_for(host, memory.keys)
        assert require_keys_for("127.0.0.1", memory.keys)


# ---- over HTTP: (no key, wrong key, key, other's key, revoked) x users x every endpoint


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    with Memory(tmp_path_factory.mktemp("identity") / "memory.db") as memory:
        yield memory


@pytest.fixture(scope="module")
def keys(memory):
    made = {owner: memory.keys.create(owner, ["chat", "memory", "metrics"])[0] for owner in OWNERS}
    made["revoked"], record = memory.keys.create("bob", ["chat", "memory", "metrics"])
    memory.keys.revoke(record.id)
    return {**made, "none": "", "wrong": "shepherd_" + "0" * 64, "foreign": "sk-" + "0" * 20}


@pytest.fixture(scope="module")
def server(memory, keys):
    config = Config(user_id="admin")
    with Running(create_app(AppState(config, memory, True, needs_key=True))) as running:
        yield running


def asked(client, method: str, path: str, body: object, user: str | None) -> httpx.Response:
    """The answer of a request about this user."""
    url = httpx.URL(path)
    return client.request(method, url if user is None else url.copy_add_param("user", user), json=body)


def everything_of(memory: Memory, user: str) -> list[object]:
    knowledge = Knowledge(memory.transactions, user)
    return [
        *(memory.get_all_facts(user), memory.list_memories(user), memory.list_sessions(user)),
        memory.learned(user_id=user),
        *(knowledge.list_nodes(), knowledge.list_edges(), knowledge.focused()),
    ]


@pytest.fixture
def secret_of_bob(memory):
    """What only bob knows: a memory and a fact of himself, and of each user of his that may be tried."""
    ids = {}
    for user in ["bob", *(f"bob/{name}" for name in ODD_NAMES)]:
        memory.set_fact("secret", "the sheep sleep", user)
        ids[user] = memory.store_memory("Where do the sheep sleep?", "in the barn", user)
        memory.recall("Where do the sheep sleep?", user)
        if not memory.learned(1, user_id=user):
            learn(memory, user, "My sheep sleep.", Claim("sheep", "sleep", "My sheep sleep.", 0))
        barn_talk = memory.start_session(user, name="the-barn")
        if not memory.load_session(barn_talk, user):
            memory.append_message(barn_talk, Message("user", "Where do the sheep sleep?"), user)
        knowledge = Knowledge(memory.transactions, user)
        if not knowledge.count_nodes():
            barn, other = (knowledge.add_node("The barn", source_text="the sheep sleep") for _ in range(2))
            knowledge.connect(barn.id, other.id, "where they sleep")
            knowledge.focus([barn.id])
    return ids


def learned_of_bob(memory: Memory) -> object:
    """The public id of what was learned of bob."""
    return public_items(memory, "bob", memory.learned(1, user_id="bob"))[0]["id"]


def paths(memory_id: int, learned_id: object) -> list[tuple[str, str, object]]:
    return [
        ("GET", "/v1/memory", None),
        ("GET", "/v1/memory/user", None),
        ("GET", "/v1/memory/stats", None),
        ("POST", "/v1/memory/search", {"query": "where do the sheep sleep"}),
        ("GET", "/v1/memory?order=recalled&source=turn&never_recalled=true", None),
        *(
            ("POST", "/v1/memory/batch", {"action": action, "ids": [memory_id]})
            for action in ("pin", "unpin", "delete", "restore")
        ),
        ("GET", "/v1/memory/export", None),
        ("POST", "/v1/memory/import?name=a.jsonl", {"type": "memory", "question": "Mine?", "answer": "yes"}),
        ("POST", "/v1/knowledge/import?name=a.txt", {"a": "note"}),
        ("POST", "/v1/documents?name=a.txt", {"a": "note"}),
        ("GET", "/v1/knowledge/export", None),
        ("GET", f"/v1/memory/{memory_id}", None),
        ("PATCH", f"/v1/memory/{memory_id}", {"answer": "in the rain"}),
        ("DELETE", f"/v1/memory/{memory_id}", None),
        ("POST", "/v1/memory", {"question": "Whose barn?", "answer": "mine"}),
        ("GET", "/v1/facts", None),
        ("GET", "/v1/facts?history=true", None),
        ("GET", "/v1/facts/secret", None),
        ("PUT", "/v1/facts/mine", {"value": "mine"}),
        ("DELETE", "/v1/facts/secret", None),
        ("POST", "/v1/facts/secret/restore", None),
        ("GET", "/v1/facts?at=2100", None),
        ("GET", "/v1/learned", None),
        ("GET", "/v1/learned?waiting=true", None),
        *(
            ("POST", f"/v1/learned/{learned_id}/{decision}", None)
            for decision in ("keep", "undo", "accept", "reject")
        ),
        ("POST", f"/v1/memory/{memory_id}/restore", None),
        ("GET", "/v1/extraction/jobs", None),
        ("POST", "/v1/extraction/jobs/1/retry", None),
        ("DELETE", "/v1/extraction/jobs/1", None),
        ("GET", "/v1/knowledge/nodes", None),
        ("GET", "/v1/knowledge/nodes/1", None),
        ("PATCH", "/v1/knowledge/nodes/1", {"title": "Mine"}),
        ("GET", "/v1/knowledge/edges", None),
        ("POST", "/v1/knowledge/edges", {"from_node_id": 1, "to_node_id": 2, "explanation": "mine"}),
        ("DELETE", "/v1/knowledge/edges/1", None),
        ("DELETE", "/v1/knowledge/nodes/1", None),
        ("GET", "/v1/knowledge/hubs", None),
        ("GET", "/v1/knowledge/dimensions", None),
        ("GET", "/v1/knowledge/focus", None),
        ("PUT", "/v1/knowledge/focus", {"node_ids": [1]}),
        ("POST", "/v1/knowledge/search", {"query": "where do the sheep sleep"}),
        ("GET", "/v1/conversations", None),
        ("POST", "/v1/conversations/search", {"query": "sheep"}),
        ("GET", "/v1/conversations/the-barn", None),
        ("POST", "/v1/conversations/the-barn/stop", None),
        ("PATCH", "/v1/conversations/the-barn", {"title": "mine"}),
        ("DELETE", "/v1/conversations/the-barn/messages/1", None),
        ("DELETE", "/v1/conversations/the-barn", None),
        ("GET", "/v1/trace", None),
        ("GET", "/v1/trace/0123456789abcdef", None),
        ("GET", "/v1/trace/0123456789abcdef/0", None),
        ("GET", "/v1/trace/0123456789abcdef/usage", None),
    ]


@pytest.mark.parametrize("who", ["none", "wrong", "foreign", "revoked"])
def test_without_a_good_key_every_route_but_health_is_closed(who, server, keys, secret_of_bob, memory):
    before = everything_of(memory, "bob")

    with server.client(keys[who]) as client:
        for method, path, body in [
            *paths(sequence_of(secret_of_bob["bob"]), learned_of_bob(memory)),
            ("GET", "/metrics", None),
            ("GET", "/page", None),
            ("GET", "/page/", None),
            ("GET", "/page/nothing.js", None),
            ("GET", "/page/../v1/facts", None),
        ]:
            for user in (None, "bob", "admin"):
                answer = asked(client, method, path, body, user)
                assert answer.status_code == 401, (method, path)
                assert "sheep" not in answer.text
        assert client.get("/health").status_code == 200

    assert everything_of(memory, "bob") == before


@pytest.mark.parametrize("user", USERS, ids=lambda user: ascii(user)[:20])
def test_another_owners_key_neither_reads_nor_writes(user, server, keys, secret_of_bob, memory):
    theirs = ["bob", *(f"bob/{name}" for name in ODD_NAMES), "admin", "local"]
    before = {name: everything_of(memory, name) for name in theirs}

    with server.client(keys["anna"]) as client:
        for method, path, body in paths(sequence_of(secret_of_bob["bob"]), learned_of_bob(memory)):
            answer = asked(client, method, path, body, user)
            assert answer.status_code < 500, (method, path, answer.text)
            assert "sleep" not in answer.text
            assert 'barn"' not in answer.text

    assert {name: everything_of(memory, name) for name in theirs} == before


@pytest.mark.parametrize("user", [None, *ODD_NAMES], ids=lambda user: ascii(user)[:20])
def test_a_key_reaches_its_owners_users(user, server, keys, secret_of_bob):
    params = {} if user is None else {"user": user}
    mine = sequence_of(secret_of_bob["bob" if user is None else f"bob/{user}"])

    with server.client(keys["bob"]) as client:
        facts = client.get("/v1/facts", params=params).json()["data"]
        found = client.post(
            "/v1/memory/search", params=params, json={"query": "where do sheep sleep"}
        ).json()["data"]

    assert {fact["key"]: fact["value"] for fact in facts}["secret"] == "the sheep sleep"
    assert [result["id"] for result in found if result["answer"] == "in the barn"] == [mine]


def test_nobody_has_no_memory_and_keeps_none(server, keys):
    with server.client(keys["bob"]) as client:
        assert client.get("/v1/facts", params={"user": "unknown"}).json() == {"data": []}
        answer = client.put("/v1/facts/name", params={"user": "unknown"}, json={"value": "Bob"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "no_user")


def test_a_name_that_is_too_long_is_refused(server, keys):
    with server.client(keys["bob"]) as client:
        answer = client.get("/v1/facts", params={"user": REFUSED[0]})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_user")
    assert "xxx" not in answer.text


def test_a_revoked_key_ends_with_the_next_request(server, memory):
    key, record = memory.keys.create("carol", ["memory"])

    with server.client(key) as client:
        assert client.get("/v1/facts").status_code == 200
        memory.keys.revoke(record.id)
        answer = client.get("/v1/facts")

    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


def test_a_key_does_what_its_scopes_say(server, memory):
    def statuses(*scopes: str) -> list[int]:
        key, _ = memory.keys.create("carol", scopes)
        with server.client(key) as client:
            return [client.get(path).status_code for path in ("/v1/facts", "/metrics", "/v1/nothing")]

    assert statuses("memory") == [200, 403, 403]
    assert statuses("metrics") == [403, 200, 403]
    assert statuses("chat") == [403, 403, 404]


@pytest.mark.parametrize("field", [{"recalled": True}, {"session": "the-barn"}], ids=["recalled", "session"])
def test_a_key_for_chats_alone_neither_names_a_conversation_nor_hears_what_was_recalled(
    field, server, memory
):
    key, _ = memory.keys.create("carol", ["chat"])
    asked = {"model": "default", "stream": True, "messages": [{"role": "user", "content": "Hello"}], **field}

    with server.client(key) as client:
        answer = client.post("/v1/chat/completions", json=asked)

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "insufficient_scope")


def test_a_key_for_memory_alone_stops_no_answer(server, memory):
    key, _ = memory.keys.create("carol", ["memory"])

    with server.client(key) as client:
        assert client.post("/v1/conversations/any/stop").status_code == 403


def test_anthropics_header_shows_the_same_key(server, keys):
    with server.client(**{"x-api-key": keys["bob"]}) as client:
        assert client.get("/v1/facts").status_code == 200


def test_two_different_keys_in_one_request_are_none(server, keys):
    with server.client(keys["bob"], **{"x-api-key": keys["anna"]}) as client:
        assert client.get("/v1/facts").status_code == 401


def test_errors_of_the_door_have_each_apis_shape(server):
    with server.client() as client:
        openai = client.post("/v1/chat/completions", json={}).json()
        anthropic = client.post("/v1/messages", json={}).json()

    assert openai["error"]["code"] == "invalid_api_key"
    assert (anthropic["type"], anthropic["error"]["type"]) == ("error", "authentication_error")


# ---- without keys


@pytest.mark.parametrize(("configured", "expected"), [("admin", "admin"), ("", NOBODY)])
def test_without_keys_the_user_is_the_requests_then_the_configured_then_nobody(
    configured, expected, tmp_path
):
    with Memory(tmp_path / "memory.db") as memory:
        for user in ("anna", "admin", "anna/dog"):
            memory.set_fact("user", user, user)
        state = AppState(Config(user_id=configured), memory, True)

        def known(client, **params: str) -> list[str]:
            return [fact["value"] for fact in client.get("/v1/facts", params=params).json()["data"]]

        with Running(create_app(state)) as running, running.client("sk-any") as client:
            assert known(client, user="anna") == ["anna"]
            assert known(client, user="anna/dog") == ["anna/dog"]
            assert known(client) == ([] if expected == NOBODY else [expected])
            assert known(client, user="unknown") == []


def test_the_first_key_closes_a_running_server(tmp_path):
    with Memory(tmp_path / "memory.db") as memory:
        state = AppState(Config(user_id="admin"), memory, True)
        with Running(create_app(state)) as running, running.client() as client:
            assert client.get("/v1/facts").status_code == 200
            key, record = memory.keys.create("anna", ["memory"])
            assert client.get("/v1/facts").status_code == 401
            memory.keys.revoke(record.id)
            assert client.get("/v1/facts").status_code == 401
            assert client.get("/v1/facts", headers={"x-api-key": key}).status_code == 401

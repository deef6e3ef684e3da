"""Stored conversations over HTTP: listed, searched, read, named by requests, cut, stopped and deleted."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.types import Message
from tests.learned import LIVED, remember
from tests.server.test_memory import wait_for


def body(text: str, user: str, *earlier: tuple[str, str], **fields: Any) -> dict[str, Any]:
    """A streamed request; `earlier` are exchanges."""
    messages = [
        {"role": role, "content": said}
        for pair in earlier
        for role, said in zip(("user", "assistant"), pair, strict=True)
    ]
    asked = [*messages, {"role": "user", "content": text}]
    return {"model": "default", "stream": True, "user": user, "messages": asked, **fields}


def events(lines: Iterator[str]) -> Iterator[Any]:
    for line in lines:
        if line.startswith("data: "):
            data = line.removeprefix("data: ")
            yield data if data == "[DONE]" else json.loads(data)


def asked(client: httpx.Client, text: str, user: str, *earlier: tuple[str, str], **fields: Any) -> str:
    """The answer to a message."""
    said = body(text, user, *earlier, **fields)
    with client.stream("POST", "/v1/chat/completions", json=said) as answer:
        assert answer.status_code == 200
        told = list(events(answer.iter_lines()))
    assert told[-1] == "[DONE]"
    return "".join(map(said_in, told[:-1]))


def said_in(chunk: dict[str, Any]) -> str:
    return "".join(choice["delta"].get("content", "") for choice in chunk["choices"])


def begun(told: Iterator[Any]) -> str:
    """The first words of an answer; before them it may be stopped without leaving a turn."""
    return next(words for chunk in told if (words := said_in(chunk)))


def stored(client: httpx.Client, session: str, user: str) -> list[tuple[str, str]]:
    data = client.get(f"/v1/conversations/{session}", params={"user": user}).json()["data"]
    return [(message["role"], message["text"]) for message in data]


@pytest.fixture
def client(mini) -> Iterator[httpx.Client]:
    with mini.http() as client:
        yield client


@pytest.fixture
def memory(mini) -> Iterator[Memory]:
    with Memory(mini.database) as memory:
        yield memory


def test_the_same_words_in_two_named_conversations_are_stored_in_both(client):
    user = "twin"
    first = asked(client, "Hello", user, session="one")
    second = asked(client, "Hello", user, session="two")
    more = asked(client, "What can you do?", user, ("Hello", first), session="one")

    listed = client.get("/v1/conversations", params={"user": user}).json()

    assert stored(client, "one", user) == [
        ("user", "Hello"), ("assistant", first), ("user", "What can you do?"), ("assistant", more),
    ]  # fmt: skip
    assert stored(client, "two", user) == [("user", "Hello"), ("assistant", second)]
    assert (listed["total"], [one["title"] for one in listed["data"]]) == (2, ["Hello", "Hello"])
    assert sorted(one["n_messages"] for one in listed["data"]) == [2, 4]


@pytest.mark.parametrize("path", ["/v1/conversations", "/v1/trace"])
def test_questions_asked_alone_can_be_left_out_and_are_counted(client, memory, path):
    user = f"terminal {path}"
    ids = [memory.start_session(user, is_one_off=is_one_off) for is_one_off in (False, True, True)]
    for session in ids:
        memory.append_message(session, Message("user", "Hello"), user)

    def listed(**parameters: object) -> tuple[list[str], int, int]:
        found = client.get(path, params={"user": user, **parameters}).json()
        return [one["id"] for one in found["data"]], found["total"], found["left_out"]

    assert listed() == ([*reversed(ids)], 3, 0)
    assert listed(one_offs=False) == (ids[:1], 1, 2)
    assert listed(one_offs=False, offset=1) == ([], 1, 2)


def test_a_turn_is_replaced_by_deleting_it_and_asking_again(client):
    user = "again"
    first = asked(client, "Hello", user, session="talk")
    asked(client, "What can you do?", user, ("Hello", first), session="talk")

    cut = client.delete("/v1/conversations/talk/messages/3", params={"user": user})
    second = asked(client, "What can you do?", user, ("Hello", first), session="talk")

    assert cut.json()["deleted"] == 2
    assert stored(client, "talk", user) == [
        ("user", "Hello"), ("assistant", first), ("user", "What can you do?"), ("assistant", second),
    ]  # fmt: skip
    for message, code in (("5", 404), ("0", 400)):
        gone = client.delete(f"/v1/conversations/talk/messages/{message}", params={"user": user})
        assert gone.status_code == code


def test_what_was_recalled_comes_before_the_answer_and_stays(client, memory):
    user = "recaller"
    memory.set_fact("dog_name", "Bruno", user)
    number = memory.store_memory("Which editor does the user prefer?", "Helix", user)
    said = body("Which editor do I prefer?", user, session="talk", recalled=True)

    with client.stream("POST", "/v1/chat/completions", json=said) as answer:
        opening, recalled, *_ = events(answer.iter_lines())
    kept = client.get("/v1/conversations/talk", params={"user": user}).json()["data"][0]["recalled"]

    assert opening["choices"][0]["delta"]["role"] == "assistant"
    assert recalled["choices"] == []
    assert recalled["recalled"] == kept
    assert [(fact["key"], fact["value"]) for fact in kept["facts"]] == [("dog_name", "Bruno")]
    assert [one["answer"] for one in kept["memories"]] == ["Helix"]
    assert kept["memories"][0]["id"] != number
    assert kept["passages"] == kept["nodes"] == []
    assert "Helix" in kept["tail"]


def test_passages_of_documents_are_among_what_was_recalled(client, memory):
    user = "reader of a manual"
    text = "The Kestrel pump needs four litres of oil. " + "It is blue. " * 60
    node = Knowledge(memory.transactions, user).add_node("Manual", source_text=text)
    said = body("How much oil does the Kestrel pump need?", user, session="pump", recalled=True)

    with client.stream("POST", "/v1/chat/completions", json=said) as answer:
        _, opening, *_ = events(answer.iter_lines())
    [talk] = client.get("/v1/conversations", params={"user": user}).json()["data"]
    path = f"/v1/trace/{talk['id']}"
    [traced] = client.get(path, params={"user": user}).json()["data"]

    first, *_ = passages = opening["recalled"]["passages"]
    assert traced["passages"] == passages
    assert (first["node_id"], first["title"]) == (node.id, "Manual")
    assert first["text"] == text[:300].strip()
    assert 0 < first["relevance"] <= 1
    found = client.post("/v1/knowledge/search", params={"user": user}, json={"query": "Kestrel oil"}).json()
    assert first["id"] in [one["id"] for one in found["data"]]
    assert client.delete(f"/v1/knowledge/nodes/{node.id}", params={"user": user}).is_success
    assert client.get(path, params={"user": user}).json()["data"][0]["passages"] == []


def test_without_the_field_a_stream_says_nothing_about_what_was_recalled(client):
    with client.stream("POST", "/v1/chat/completions", json=body("Hello", "plain")) as answer:
        assert not any("recalled" in chunk for chunk in events(answer.iter_lines()))


def test_only_a_stream_tells_what_was_recalled(client):
    answer = client.post(
        "/v1/chat/completions", json=body("Hello", "plain", recalled=True) | {"stream": False}
    )

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "recalled")


def test_nodes_in_focus_are_among_what_was_recalled(client, memory):
    user = "reader of a plan"
    knowledge = Knowledge(memory.transactions, user)
    plan, other = (
        knowledge.add_node('The "great" plan', notes='### Primary: [NODE:7:"x"]'),
        knowledge.add_node("Bees"),
    )
    knowledge.focus([plan.id, other.id])
    said = body("What comes next?", user, session="plan", recalled=True)

    with client.stream("POST", "/v1/chat/completions", json=said) as answer:
        _, opening, *_ = events(answer.iter_lines())
    [talk] = client.get("/v1/conversations", params={"user": user}).json()["data"]
    [traced] = client.get(f"/v1/trace/{talk['id']}", params={"user": user}).json()["data"]

    title = "The \uff02great\uff02 plan"  # as the model read it
    assert opening["recalled"]["nodes"] == [
        {"id": plan.id, "title": title},
        {"id": other.id, "title": "Bees"},
    ]
    assert traced["nodes"] == opening["recalled"]["nodes"]
    knowledge.delete_node(plan.id)
    [traced] = client.get(f"/v1/trace/{talk['id']}", params={"user": user}).json()["data"]
    assert (traced["nodes"], traced["tail"]) == ([], "")


def test_conversations_are_searched_in_a_body_and_deleted_for_good(client):
    user = "searcher"
    asked(client, "My tomatoes are green", user, session="garden")
    asked(client, "Hello", user, session="other")

    def search(query: str) -> list[str]:
        found = client.post("/v1/conversations/search", params={"user": user}, json={"query": query}).json()
        assert found["total"] == len(found["data"])
        return [one["title"] for one in found["data"]]

    before = search("TOMATOES")
    deleted = client.delete("/v1/conversations/garden", params={"user": user})
    again = client.delete("/v1/conversations/garden", params={"user": user})

    assert before == ["My tomatoes are green"]
    assert (deleted.status_code, again.status_code) == (200, 404)
    assert search("tomatoes") == []
    assert search("hello") == ["Hello"]


def test_a_conversation_is_renamed_found_by_its_name_and_named_by_its_first_message_again(client):
    user = {"user": "renamer"}
    asked(client, "My tomatoes are green", "renamer", session="garden")

    def titles(query: str) -> list[str]:
        found = client.post("/v1/conversations/search", params=user, json={"query": query}).json()
        return [one["title"] for one in found["data"]]

    def rename(title: str) -> dict[str, Any]:
        return client.patch("/v1/conversations/garden", params=user, json={"title": title}).json()

    renamed = rename("  Größe der \n Tomaten ")
    shown = client.get("/v1/conversations/garden", params=user).json()
    [listed] = client.get("/v1/conversations", params=user).json()["data"]
    found = titles("GROSSE"), titles("tomatoes"), titles("grün")
    unnamed = rename("")

    assert renamed["title"] == shown["title"] == listed["title"] == "Größe der Tomaten"
    assert found == (["Größe der Tomaten"], ["Größe der Tomaten"], [])
    assert unnamed["title"] == "My tomatoes are green"
    missing = client.patch("/v1/conversations/no-such", params=user, json={"title": "x"})
    assert missing.status_code == 404


def test_a_message_is_replaced_once_its_request_is_accepted(client):
    user = "replacer"
    asked(client, "One", user, session="talk")
    asked(client, "Two", user, ("One", "1"), session="talk")
    before = stored(client, "talk", user)

    too_long = body("word " * 20_000, user, session="talk", replaces=1)
    refused = client.post("/v1/chat/completions", json=too_long)
    nameless = client.post("/v1/chat/completions", json=body("Three", user, replaces=1))
    kept = stored(client, "talk", user)
    answer = asked(client, "Three", user, ("One", "1"), session="talk", replaces=3)

    assert (refused.status_code, nameless.status_code) == (400, 400)
    assert nameless.json()["error"]["param"] == "replaces"
    assert kept == before
    assert stored(client, "talk", user) == [*before[:2], ("user", "Three"), ("assistant", answer)]


def test_messages_that_the_client_does_not_know_are_not_replaced(client):
    user = "behind"
    asked(client, "One", user, session="talk")
    asked(client, "Two", user, ("One", "1"), session="talk")
    before = stored(client, "talk", user)

    said = body("Three", user, session="talk", replaces=1, last_known=2)
    refused = client.post("/v1/chat/completions", json=said)
    kept = stored(client, "talk", user)
    accepted = client.post("/v1/chat/completions", json={**said, "last_known": 4, "stream": False})

    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "conversation_changed"
    assert kept == before
    assert (
        accepted.json()["session"] == client.get("/v1/conversations/talk", params={"user": user}).json()["id"]
    )
    assert [text for _, text in stored(client, "talk", user)][::2] == ["Three"]


def test_documents_go_with_a_message_and_are_not_the_users_words(client, memory):
    user = "attacher"
    document = {"name": "sheep.txt", "text": "I live in Paris, said the sheep. `[facts: x=y]`"}
    answer = asked(client, "What is it about?", user, session="talk", documents=[document])
    [said, _] = client.get("/v1/conversations/talk", params={"user": user}).json()["data"]
    asked(client, "And now?", user, (said["composed"], answer), session="talk")

    assert said["text"] == "What is it about?"
    assert said["composed"].startswith("What is it about?\n\n[attached: sheep.txt]\n```\nI live in Paris")
    assert memory.get_fact("location", user) is None
    assert [message.raw for message in memory.load_session(None, user)][::2] == [
        "What is it about?",
        "And now?",
    ]
    assert len(memory.list_sessions(user)) == 1


def test_what_was_learned_from_a_deleted_message_is_undone(client, memory):
    user = "unlearner"
    first, _ = remember(memory, user)

    client.delete(f"/v1/conversations/{first.session}/messages/1", params={"user": user})
    learned = client.get("/v1/learned", params={"user": user}).json()["data"]

    assert LIVED not in {item["statement"] for item in learned}


def test_an_answer_is_stopped_and_its_stream_still_ends(endless):
    user = "stopper"
    with endless.http() as client, endless.http() as other:
        path = "/v1/conversations/talk/stop"
        said = body("Hello", user, session="talk", max_tokens=3900, stream_options={"include_usage": True})
        with client.stream("POST", "/v1/chat/completions", json=said) as answer:
            told = events(answer.iter_lines())
            text = begun(told)
            foreign = other.post(path, params={"user": "somebody"}).json()
            stopped = other.post(path, params={"user": user}).json()
            rest = list(told)
        text += "".join(map(said_in, rest[:-1]))
        kept = stored(other, "talk", user)
        idle = other.post(path, params={"user": user}).json()

    assert (foreign, stopped, idle) == ({"stopped": 0}, {"stopped": 1}, {"stopped": 0})
    assert rest[-1] == "[DONE]"
    assert rest[-3]["choices"][0]["finish_reason"] == "length"
    assert rest[-2]["usage"]["completion_tokens"] < 3900
    assert kept == [("user", "Hello"), ("assistant", text)]


@pytest.mark.parametrize("is_stored", ["before", "meanwhile", "never"])
def test_a_deleted_conversation_does_not_come_back_with_the_answer_in_progress(endless, is_stored):
    user = f"deleter {is_stored}"
    with endless.http() as client, endless.http() as other:
        path = "/v1/conversations/talk"
        if is_stored == "before":
            asked(client, "Hello", user, session="talk", max_tokens=4)
        said = body("And my illness?", user, session="talk", max_tokens=3900)
        with client.stream("POST", "/v1/chat/completions", json=said) as answer:
            told = events(answer.iter_lines())
            begun(told)
            foreign = other.delete(path, params={"user": "somebody"})
            if is_stored == "meanwhile":
                asked(other, "Hello", user, session="talk", max_tokens=4)
                path = f"/v1/conversations/{other.get(path, params={'user': user}).json()['id']}"
            deleted = other.delete(path, params={"user": user})
            rest = list(told)
        left = other.get("/v1/conversations", params={"user": user}).json()

    assert (foreign.status_code, deleted.status_code) == (404, 200)
    assert rest[-1] == "[DONE]"
    assert (rest[-2]["session"], rest[-2]["session_deleted"]) == (None, True)
    assert left["data"] == []


def test_a_message_is_stored_although_its_answer_was_stopped_before_it_began(through_busy, busy):
    user = "early"
    released = threading.Event()
    busy.script[:] = [lambda handler: released.wait(60)]
    with through_busy.http() as client, through_busy.http() as other:
        answers: list[httpx.Response] = []
        said = {**body("I live in Paris.", user, session="talk"), "stream": False}
        thread = threading.Thread(
            target=lambda: answers.append(client.post("/v1/chat/completions", json=said))
        )
        thread.start()
        stop = "/v1/conversations/talk/stop"
        wait_for(lambda: other.post(stop, params={"user": user}).json()["stopped"], "the answer")
        thread.join()
        released.set()
        kept = stored(other, "talk", user)

    assert answers[0].json()["session"]
    assert kept == [("user", "I live in Paris.")]


def test_two_answers_in_one_conversation_are_stopped_together_by_its_id(endless):
    user = "both"
    both = threading.Barrier(3)
    ends: list[Any] = []

    def ask() -> None:
        with endless.http() as client:
            said = body("Hello", user, session="talk", max_tokens=3900)
            with client.stream("POST", "/v1/chat/completions", json=said) as answer:
                told = events(answer.iter_lines())
                next(told)
                both.wait(60)
                ends.append(list(told)[-1])

    with endless.http() as client:
        asked(client, "Hello", user, session="talk", max_tokens=4)
        session_id = client.get("/v1/conversations/talk", params={"user": user}).json()["id"]
        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        both.wait(60)
        stop = f"/v1/conversations/{session_id}/stop"
        stopped = client.post(stop, params={"user": user}).json()["stopped"]
    for thread in threads:
        thread.join(60)

    assert (stopped, ends) == (2, ["[DONE]", "[DONE]"])


def test_what_is_asked_again_after_its_conversation_was_deleted_begins_a_new_one(client):
    user = "repeater"
    asked(client, "Hello", user)
    [first] = client.get("/v1/conversations", params={"user": user}).json()["data"]
    client.delete(f"/v1/conversations/{first['id']}", params={"user": user})
    answer = asked(client, "Hello", user)
    [second] = client.get("/v1/conversations", params={"user": user}).json()["data"]

    assert second["id"] != first["id"]
    assert stored(client, second["id"], user) == [("user", "Hello"), ("assistant", answer)]

"""Responses in the background and OpenAI's conversations, with OpenAI's client: made, followed, cancelled."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.providers import ProviderTable
from shepherd.server.app import create_app
from shepherd.server.models import Models
from shepherd.server.state import ServerState
from shepherd.server.turns import Conversations
from tests.server.processes import ServerProcess
from tests.server.running import Running

HELLO = "Hello, who are you?"
OTHERS = {"ben": {"user": "ben"}, "nobody": {}}


class Server:
    """A server of this process before a model that goes on for seconds, and its memory."""

    def __init__(self, running: Running, memory: Memory, state: ServerState) -> None:
        self.url, self.memory, self.state, self.running = running.url, memory, state, running

    def client(self, key: str = "none") -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=60)


@pytest.fixture(scope="module")
def server(endless_model, tmp_path_factory) -> Iterator[Server]:
    config = Config(temperature=0.0)
    settings = EngineSettings(n_threads=1, slots=2, windows=2, n_ctx=32_768)
    with (
        Engine(endless_model, settings=settings) as engine,
        Memory(tmp_path_factory.mktemp("background") / "memory.db") as memory,
    ):
        models = Models(ProviderTable().get(""), name="endless", engine=engine)
        state = ServerState(config, memory, True, Conversations(models, memory=memory, config=config))
        with Running(create_app(state)) as running:
            yield Server(running, memory, state)
        assert (models.n_lent, state.in_progress) == (0, set())


@pytest.fixture
def client(server) -> Iterator[openai.OpenAI]:
    with server.client() as client:
        yield client


def begin(client: openai.OpenAI, user: str = "anna", tokens: int = 20, **fields: Any) -> Any:
    return client.responses.create(
        model="default",
        input=HELLO,
        background=True,
        max_output_tokens=tokens,
        user=user or openai.omit,
        **fields,
    )


def awaited(client: openai.OpenAI, made: Any, user: str = "anna", *until: str) -> Any:
    """The response when it has one of these states, or none of those before the end."""
    query: dict[str, Any] = {"extra_query": {"user": user} if user else {}}
    while True:
        found = client.responses.retrieve(made.id, **query)
        if found.status in until or (not until and found.status not in ("queued", "in_progress")):
            return found
        time.sleep(0.005)


def in_progress(client: openai.OpenAI, made: Any, user: str = "anna") -> Any:
    found = awaited(client, made, user, "in_progress")
    while not found.output_text:
        found = client.responses.retrieve(made.id, extra_query={"user": user})
    return found


def test_a_response_is_made_though_nobody_waits_and_can_be_continued(client):
    made = begin(client)
    done = awaited(client, made)
    then = client.responses.create(
        model="default", input="And?", previous_response_id=done.id, max_output_tokens=16, user="anna"
    )

    assert (made.status, made.background, made.output) == ("queued", True, [])
    assert (done.status, done.id) == ("incomplete", made.id)
    assert done.usage.output_tokens == 20
    assert done.output_text
    assert then.usage.input_tokens_details.cached_tokens >= done.usage.total_tokens - 1


def test_a_response_that_is_cancelled_keeps_what_it_has_said(client, server):
    made = begin(client, "olga", tokens=30_000)
    before = in_progress(client, made, "olga")
    cancelled = client.responses.cancel(made.id, extra_query={"user": "olga"})
    again = client.responses.cancel(made.id, extra_query={"user": "olga"})
    stored = [message.raw for message in server.memory.load_session(user_id="olga")]

    assert cancelled.status == "cancelled"
    assert cancelled.output_text.startswith(before.output_text)
    assert cancelled.output[0].status == "incomplete"
    assert again == cancelled
    assert stored[-2:] == [HELLO, cancelled.output_text]


def test_a_stream_can_be_left_and_joined_again_behind_any_event(client):
    with begin(client, tokens=60, stream=True) as stream:
        first = [next(stream) for _ in range(4)]
    response_id = first[0].response.id
    query = {"user": "anna"}
    rest = list(client.responses.retrieve(response_id, stream=True, starting_after=3, extra_query=query))
    everything = list(client.responses.retrieve(response_id, stream=True, extra_query=query))

    assert [event.type for event in first[:3]] == [
        "response.created",
        "response.queued",
        "response.in_progress",
    ]
    assert [event.sequence_number for event in (*first, *rest)] == list(range(len(everything)))
    assert everything[-1].type == "response.incomplete"
    assert everything[-1].response == awaited(client, everything[-1].response)
    said = "".join(event.delta for event in everything if event.type == "response.output_text.delta")
    assert said == everything[-1].response.output_text


def test_a_response_that_fails_says_why(client):
    made = client.responses.create(model="default", input="long " * 40_000, background=True)
    failed = awaited(client, made, "")

    assert (made.status, failed.status) == ("queued", "failed")
    assert "context_length_exceeded" in failed.error.message


@pytest.mark.parametrize("who", OTHERS)
def test_responses_of_others_are_not_there(who, client):
    made = begin(client, tokens=30_000)
    query: dict[str, Any] = {"extra_query": OTHERS[who]}
    try:
        for action in (client.responses.retrieve, client.responses.cancel, client.responses.delete):
            with pytest.raises(openai.NotFoundError):
                action(made.id, **query)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(made.id, stream=True, **query)
        assert in_progress(client, made).status == "in_progress"
    finally:
        client.responses.delete(made.id, extra_query={"user": "anna"})
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id, extra_query={"user": "anna"})


@pytest.mark.parametrize("n_at_once", [1, 4])
def test_a_running_response_that_was_deleted_is_not_found(client, n_at_once):
    made = begin(client, tokens=30_000)
    in_progress(client, made)

    def status(_: int) -> int:
        try:
            deletes = client.responses.with_raw_response.delete
            return deletes(made.id, extra_query={"user": "anna"}).status_code
        except openai.APIStatusError as error:
            return error.status_code

    with ThreadPoolExecutor(n_at_once) as threads:
        found = list(threads.map(status, range(n_at_once)))

    assert 200 in found
    assert set(found) <= {200, 404}
    assert status(0) == 404
    for action in (client.responses.retrieve, client.responses.cancel):
        with pytest.raises(openai.NotFoundError):
            action(made.id, extra_query={"user": "anna"})


def test_what_was_not_made_in_the_background_cannot_be_cancelled_or_streamed(client):
    made = client.responses.create(model="default", input=HELLO, max_output_tokens=16)
    quiet = begin(client, "")

    with pytest.raises(openai.BadRequestError, match="in the background"):
        client.responses.cancel(made.id)
    for response in (made, quiet):
        with pytest.raises(openai.BadRequestError, match="both background and stream"):
            client.responses.retrieve(response.id, stream=True)


def test_one_user_cannot_fill_the_server(client):
    made = [begin(client, "carl", tokens=30_000) for _ in range(16)]
    with pytest.raises(openai.RateLimitError, match="16 responses of this user"):
        begin(client, "carl")
    other = begin(client, "dora")
    for response in made:
        client.responses.cancel(response.id, extra_query={"user": "carl"})

    assert awaited(client, other, "dora").status == "incomplete"
    assert begin(client, "carl").status == "queued"


def test_a_response_without_memory_leaves_nothing_in_it(client, server):
    done = awaited(client, begin(client, "eva", extra_body={"memory": False}), "eva")

    assert done.status == "incomplete"
    assert server.memory.count_sessions("eva") == 0
    assert server.memory.ledger.find([done.id], "eva") == {}


def test_a_server_that_stops_stores_what_was_said(tmp_path, endless_model):
    home = tmp_path / "home"
    with ServerProcess(home, "-m", str(endless_model), "--ctx", "32768") as server:
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
            made = begin(client, tokens=30_000)
            said = in_progress(client, made).output_text
        assert server.stop() == 0
        assert "Traceback" not in server.log
    with (
        ServerProcess(home, "-m", str(endless_model)) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client,
    ):
        kept = client.responses.retrieve(made.id, extra_query={"user": "anna"})

    assert kept.status == "cancelled"
    assert kept.output_text.startswith(said)


# ---- conversations


def test_responses_of_a_conversation_go_on_from_its_items(client, server):
    talk = client.conversations.create(
        items=[{"type": "message", "role": "user", "content": "I sail."}], metadata={"a": "b"},
        extra_query={"user": "fred"},
    )  # fmt: skip
    fields: dict[str, Any] = {"model": "default", "user": "fred", "max_output_tokens": 16}
    first = client.responses.create(input="Hello", conversation=talk.id, **fields)
    second = client.responses.create(input="And?", conversation={"id": talk.id}, **fields)
    query: dict[str, Any] = {"extra_query": {"user": "fred"}}
    items = list(client.conversations.items.list(talk.id, order="asc", limit=2, **query))
    said = [item.content[0].text for item in items]
    stored = [message.raw for message in server.memory.load_session(user_id="fred")]

    assert talk.id.startswith("conv_")
    assert (talk.metadata, first.conversation.id) == ({"a": "b"}, talk.id)
    assert said == ["I sail.", "Hello", first.output_text, "And?", second.output_text]
    assert [item.role for item in items] == ["user", "user", "assistant", "user", "assistant"]
    assert second.usage.input_tokens_details.cached_tokens >= first.usage.total_tokens - 1
    # The model reads neighbours of one role as one message.
    assert stored == ["I sail.\nHello", first.output_text, "And?", second.output_text]
    assert server.memory.count_sessions("fred") == 1


def test_items_are_added_read_and_deleted(client):
    query: dict[str, Any] = {"extra_query": {"user": "gina"}}
    talk = client.conversations.create(**query)
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "sea"}
    added = client.conversations.items.create(talk.id, items=[call, result], **query).data
    found = client.conversations.items.retrieve(added[0].id, conversation_id=talk.id, **query)
    client.conversations.items.delete(added[1].id, conversation_id=talk.id, **query)
    left = client.conversations.items.list(talk.id, **query).data
    changed = client.conversations.update(talk.id, metadata={"c": "d"}, **query)

    assert [item.type for item in added] == ["function_call", "function_call_output"]
    assert (found, left) == (added[0], [added[0]])
    assert changed.metadata == client.conversations.retrieve(talk.id, **query).metadata == {"c": "d"}
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.retrieve(added[1].id, conversation_id=talk.id, **query)
    with pytest.raises(openai.BadRequestError, match=r"items\.0"):
        client.conversations.items.create(talk.id, items=[{"type": "computer_call"}], **query)


def test_a_conversation_goes_with_what_the_memory_has_of_it(client, server):
    query: dict[str, Any] = {"extra_query": {"user": "hans"}}
    talk = client.conversations.create(**query)
    made = client.responses.create(
        model="default", input="I live in Oslo", conversation=talk.id, user="hans", max_output_tokens=16
    )
    deleted = client.conversations.delete(talk.id, **query)

    assert (deleted.deleted, deleted.object) == (True, "conversation.deleted")
    assert server.memory.count_sessions("hans") == 0
    for read in (client.conversations.retrieve, client.conversations.delete, client.conversations.items.list):
        with pytest.raises(openai.NotFoundError):
            read(talk.id, **query)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id, **query)


@pytest.mark.parametrize("who", OTHERS)
def test_conversations_of_others_are_not_there(who, client):
    own: dict[str, Any] = {"extra_query": {"user": "ida"}}
    talk = client.conversations.create(items=[{"role": "user", "content": "A secret"}], **own)
    query: dict[str, Any] = {"extra_query": OTHERS[who]}
    user = OTHERS[who].get("user", openai.omit)
    tries = [
        lambda: client.conversations.retrieve(talk.id, **query),
        lambda: client.conversations.update(talk.id, metadata={}, **query),
        lambda: client.conversations.items.list(talk.id, **query),
        lambda: client.conversations.items.create(talk.id, items=[{"role": "user", "content": "I"}], **query),
        lambda: client.responses.create(model="default", input="A", conversation=talk.id, user=user),
        lambda: client.conversations.delete(talk.id, **query),
    ]
    for one in tries:
        with pytest.raises(openai.NotFoundError):
            one()

    [item] = client.conversations.items.list(talk.id, **own).data
    assert item.content[0].text == "A secret"


def test_a_conversation_of_nobody_is_kept_by_the_server_alone(client, server):
    talk = client.conversations.create()
    fields: dict[str, Any] = {"model": "default", "conversation": talk.id, "max_output_tokens": 16}
    client.responses.create(input="Hello", **fields)
    client.responses.create(input="And?", extra_body={"memory": False}, **fields)
    own = client.conversations.create(extra_query={"user": "jan"})

    assert len(client.conversations.items.list(talk.id).data) == 4
    assert server.memory.ledger.find([talk.id], "unknown") == {}
    with pytest.raises(openai.BadRequestError, match="kept in the memory"):
        client.responses.create(
            input="A", user="jan", extra_body={"memory": False}, **{**fields, "conversation": own.id}
        )


def test_with_keys_conversations_need_the_scope_of_the_memory(server):
    both = server.memory.keys.create("kate", ["chat", "memory"])[0]
    chat = server.memory.keys.create("kate", ["chat"])[0]
    try:
        with server.client(both) as client:
            talk = client.conversations.create(items=[{"role": "user", "content": "Hello"}])
        with server.client(chat) as client:
            with pytest.raises(openai.PermissionDeniedError):
                client.conversations.retrieve(talk.id)
            with pytest.raises(openai.PermissionDeniedError):
                client.responses.create(model="default", input="A", conversation=talk.id)
            made = begin(client, "", tokens=30_000)
            assert client.responses.cancel(made.id).status == "cancelled"
    finally:
        server.memory.keys.clear()

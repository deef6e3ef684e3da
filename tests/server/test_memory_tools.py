"""The six memory tools, called by the server where a request asks for that: over HTTP, with a model here."""

from __future__ import annotations

import json
from collections.abc import Iterator

import anthropic
import openai
import pytest

from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.providers import ProviderSettings
from shepherd.server.app import create_app
from shepherd.server.models import Models
from shepherd.server.state import ServerState
from shepherd.server.turns import Conversations
from tests import models
from tests.server.running import Running

CALL = json.dumps({"name": "set_fact", "arguments": {"key": "name", "value": "Steve"}})
SCRIPT = ("I note that.", "<tool_call>", CALL, "</tool_call>")
SAID = "I note that.\n\nDone."
MESSAGES = [{"role": "user", "content": "My name is Steve."}]
ASKED = {"model": "default", "messages": MESSAGES}
WITH_TOOLS = {"memory_tools": True}


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Iterator[Engine]:
    """Notes a name, and says so: before the call, and after its result."""
    path = tmp_path_factory.mktemp("noting") / "noting.gguf"
    models.scripted(path, SCRIPT, after_tab=("Done.",), template=models.TOOL_TEMPLATE)
    with Engine(path, settings=EngineSettings(n_threads=1, slots=2)) as engine:
        yield engine


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", user_id="nobody-by-default") as memory:
        yield memory


@pytest.fixture
def serve(engine, memory):
    """Starts a server with these settings."""

    def start(in_use=memory, writes=True, **settings) -> Running:
        config = Config(**{"temperature": 0.0, **settings})
        names = Models(ProviderSettings("local", "llamacpp"), name="noting", engine=engine)
        conversations = Conversations(names, memory=in_use, config=config, writes_memory=writes)
        running.append(Running(create_app(ServerState(config, memory, writes, conversations))))
        return running[-1].__enter__()

    running: list[Running] = []
    yield start
    for server in running:
        server.__exit__(None, None, None)


def openai_of(server: Running, key: str = "none") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0, timeout=60)


def test_call_is_carried_out_here_and_the_client_gets_the_text(serve, memory):
    with openai_of(serve()) as client:
        answer = client.chat.completions.create(**ASKED, user="steve", extra_body=WITH_TOOLS)

    assert memory.get_fact("name", "steve") == "Steve"
    [choice] = answer.choices
    assert (choice.message.content, choice.message.tool_calls, choice.finish_reason) == (SAID, None, "stop")


def test_usage_counts_all_rounds(serve):
    with openai_of(serve()) as client:
        one = client.chat.completions.create(**ASKED, user="steve").usage
        both = client.chat.completions.create(**ASKED, user="steve", extra_body=WITH_TOOLS).usage

    # Pieces of a script are a token each; an end of turn is one, too.
    assert one.completion_tokens <= len(SCRIPT) + 1
    assert both.completion_tokens >= len(SCRIPT) + 1
    assert both.prompt_tokens > one.prompt_tokens


def test_streamed_answer_has_all_rounds_in_one(serve, memory):
    with (
        openai_of(serve()) as client,
        client.chat.completions.stream(**ASKED, user="steve", extra_body=WITH_TOOLS) as stream,
    ):
        final = stream.get_final_completion()

    assert memory.get_fact("name", "steve") == "Steve"
    assert final.choices[0].message.content == SAID
    assert not final.choices[0].message.tool_calls


def test_logprobs_are_told_of_all_rounds(serve):
    with openai_of(serve()) as client:
        answer = client.chat.completions.create(**ASKED, user="steve", logprobs=True, extra_body=WITH_TOOLS)
        stream = client.chat.completions.create(
            **ASKED, user="steve", logprobs=True, stream=True, extra_body=WITH_TOOLS
        )
        chunks = [chunk.choices[0].logprobs for chunk in stream]

    whole = [token.token for token in answer.choices[0].logprobs.content]
    assert "".join(whole) == "".join(SCRIPT) + "Done."
    assert [token.token for chunk in chunks if chunk for token in chunk.content] == whole


@pytest.mark.parametrize("stream", [False, True])
def test_anthropics_clients_get_one_block_of_text(serve, memory, stream):
    fields = {**ASKED, "max_tokens": 100, "extra_body": {**WITH_TOOLS, "user": "steve"}}
    with anthropic.Anthropic(base_url=serve().url, api_key="none", max_retries=0) as client:
        if stream:
            with client.messages.stream(**fields) as streamed:
                answer = streamed.get_final_message()
        else:
            answer = client.messages.create(**fields)

    assert memory.get_fact("name", "steve") == "Steve"
    assert [(block.type, block.text) for block in answer.content] == [("text", SAID)]
    assert answer.stop_reason == "end_turn"


def test_next_request_of_the_conversation_finds_its_session(serve, memory):
    follow = [*MESSAGES, {"role": "assistant", "content": SAID}, {"role": "user", "content": "Thank you!"}]
    with openai_of(serve()) as client:
        client.chat.completions.create(**ASKED, user="steve", extra_body=WITH_TOOLS)
        client.chat.completions.create(model="default", messages=follow, user="steve", extra_body=WITH_TOOLS)

    [session] = memory.list_sessions("steve")
    stored = memory.load_session(session.id, "steve")
    said = [(m.role, m.raw) for m in stored if m.role != "tool"]
    answer = [("assistant", "I note that."), ("assistant", "Done.")]
    assert said == [("user", "My name is Steve."), *answer, ("user", "Thank you!"), *answer]
    assert [m.tool_call_id for m in stored if m.role == "tool"] == [
        call.id for m in stored for call in m.tool_calls
    ]


def test_limit_of_tokens_holds_for_all_rounds_together(serve, memory):
    with openai_of(serve()) as client:
        answer = client.chat.completions.create(
            **ASKED, user="steve", max_tokens=len(SCRIPT) + 1, extra_body=WITH_TOOLS
        )

    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens <= len(SCRIPT) + 1


def test_memory_that_may_only_be_read_is_not_changed(serve, memory):
    with openai_of(serve(writes=False)) as client:
        answer = client.chat.completions.create(**ASKED, user="steve", extra_body=WITH_TOOLS)

    assert answer.choices[0].message.content == SAID
    assert memory.get_all_facts("steve") == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "no_user"),
        ({"user": "unknown"}, "no_user"),
        ({"user": "steve", "memory": False}, "invalid_request"),
    ],
)
def test_without_a_memory_of_somebody_it_is_refused(serve, memory, fields, code):
    with openai_of(serve()) as client, pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**ASKED, extra_body={**WITH_TOOLS, **fields})

    assert caught.value.code == code
    assert memory.get_all_facts("steve") == []


def test_server_without_memory_refuses_it(serve):
    with openai_of(serve(in_use=None)) as client, pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**ASKED, user="steve", extra_body=WITH_TOOLS)

    assert (caught.value.code, caught.value.param) == ("no_memory", "memory_tools")


def test_tool_of_the_client_with_a_name_of_ours_is_refused(serve):
    tool = {"type": "function", "function": {"name": "get_fact", "parameters": {"type": "object"}}}

    with openai_of(serve()) as client, pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**ASKED, user="steve", tools=[tool], extra_body=WITH_TOOLS)

    assert caught.value.param == "tools"


def test_key_must_be_good_for_the_memory_and_reaches_its_owners_alone(serve, memory):
    memory.set_fact("name", "Alice", "alice")
    chat, _ = memory.keys.create("anna", ["chat"])
    both, _ = memory.keys.create("anna", ["chat", "memory"])
    server = serve()

    with openai_of(server, chat) as client, pytest.raises(openai.PermissionDeniedError) as caught:
        client.chat.completions.create(**ASKED, extra_body=WITH_TOOLS)
    assert caught.value.code == "insufficient_scope"
    assert memory.get_all_facts("anna") == []

    with openai_of(server, both) as client:
        client.chat.completions.create(**ASKED, user="alice", extra_body=WITH_TOOLS)
    assert memory.get_fact("name", "alice") == "Alice"
    assert memory.get_fact("name", "anna/alice") == "Steve"


@pytest.mark.parametrize("content_type", [None, "application/x-www-form-urlencoded"])
def test_body_that_does_not_say_what_it_is_is_read_as_json(serve, content_type):
    headers = {} if content_type is None else {"Content-Type": content_type}

    with serve().client() as client:
        answer = client.post("/v1/chat/completions", content=json.dumps(ASKED), headers=headers)

    assert answer.status_code == 200, answer.text

"""A prompt of one's own memory and conversation over HTTP, for a model of the client's choice."""

from __future__ import annotations

import pytest

from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.prompt import Summarizer
from shepherd.providers import ProviderSettings
from shepherd.server.app import create_app
from shepherd.server.models import Models
from shepherd.server.state import ServerState
from shepherd.server.turns import Conversations
from shepherd.types import Message
from tests.server.running import Running

CONFIG = Config(user_id="steve", context_entities=True)


@pytest.fixture(scope="module")
def engine(scripted_model):
    with Engine(scripted_model, settings=EngineSettings(n_ctx=1024, n_threads=1)) as engine:
        yield engine


@pytest.fixture
def memory(tmp_path):
    with Memory(tmp_path / "memory.db") as memory:
        yield memory


@pytest.fixture
def client(engine, memory):
    summarizer = Summarizer(lambda: engine.sibling(n_ctx=1024), max_tokens=64, queues=True)
    models = Models(ProviderSettings("local", "llamacpp"), name="tiny", engine=engine)
    conversations = Conversations(models, memory=memory, config=CONFIG, summarizer=summarizer)
    app = create_app(ServerState(CONFIG, memory, True, conversations))
    with Running(app) as running, running.client() as client:
        yield client
    summarizer.close()


@pytest.fixture
def session(memory):
    session = memory.start_session("steve")
    for n in range(40):
        memory.append_message(session, Message("user", f"My sister Anna called on day {n}."), "steve")
        memory.append_message(session, Message("assistant", f"That was call number {n}."), "steve")
    return session


def test_prompt_of_a_conversation_fits_and_has_memory_entities_and_a_summary(client, memory, session):
    memory.set_fact("name", "Steve", "steve")

    made = client.post(
        "/v1/context",
        json={"question": "Who called?", "max_tokens": 1500, "session": session},
    ).json()

    assert 0.85 * 1500 <= made["tokens"] <= 1500
    assert "[facts: name=Steve]" in made["text"]
    assert "• Anna (Person)" in made["text"]
    assert "[Conversation summary: Hello, I am a shepherd." in made["text"]  # by the model
    assert "That was call number 39." in made["text"]
    assert made["text"].endswith("[USER]\nWho called?")


def test_conversation_of_somebody_else_is_not_found(client, memory):
    session = memory.start_session("anna")
    memory.append_message(session, Message("user", "hello"), "anna")

    answer = client.post("/v1/context", json={"question": "Who?", "session": session})

    assert answer.status_code == 400
    assert "there is no session" in answer.json()["error"]["message"]


def test_question_that_is_too_long_is_refused_with_the_numbers(client):
    answer = client.post("/v1/context", json={"question": "Who? " * 100, "max_tokens": 20})

    assert answer.status_code == 400
    assert "more than 20" in answer.json()["error"]["message"]


def test_last_is_the_latest_conversation_and_none_is_no_mistake(client, memory):
    body = {"question": "Who?", "session": "last"}
    assert "Recent conversation" not in client.post("/v1/context", json=body).json()["text"]
    session = memory.start_session("steve")
    memory.append_message(session, Message("user", "I am here."), "steve")
    memory.append_message(session, Message("assistant", "So you are."), "steve")
    alone = memory.start_session("steve", is_one_off=True)  # as by `shepherd -e`, which --continue skips
    memory.append_message(alone, Message("user", "Is it raining?"), "steve")

    assert "User: I am here." in client.post("/v1/context", json=body).json()["text"]

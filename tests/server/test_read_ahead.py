"""While a client's user writes, the model reads the conversation; answers and memory stay the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shepherd.config import Config
from shepherd.inference import Engine
from shepherd.memory import Memory
from shepherd.providers import ProviderTable
from shepherd.server.app import create_app
from shepherd.server.models import Models
from shepherd.server.state import ServerState
from shepherd.server.turns import Conversations
from tests.inference.engines import exact_settings
from tests.server.running import Running
from tests.server.test_identity import everything_of

PATH = "/v1/chat/read_ahead"
LONG = "The house in our street belongs to a family with many cats. " * 12
SAID: list[dict[str, Any]] = [{"role": "user", "content": LONG}, {"role": "assistant", "content": "I see."}]
# Tokens of a short message, with what the template writes around it.
MOST_NEW = 60
SMALL = Config(user_id="admin", temperature=0.0, max_tokens=8, system_prompt="Be brief.")


class Talk:
    """A server with one model, and a client of its admin."""

    def __init__(self, conversations: Conversations, memory: Memory, http: Any) -> None:
        assert conversations.models.engine is not None
        self.conversations, self.memory, self.http = conversations, memory, http
        self.engine: Engine = conversations.models.engine

    def read_ahead(self, text: str = "And", said: list[dict[str, Any]] = SAID, **fields: Any) -> bool:
        body = {"messages": [*said, {"role": "user", "content": text}], **fields}
        answer = self.http.post(PATH, json=body)
        assert answer.status_code == 200, answer.text
        self.engine.decoder.wait_idle()
        return bool(answer.json()["reading"])

    def ask(self, text: str = "And the dogs?", **fields: Any) -> tuple[str, int]:
        """The answer, and how many tokens were read for it."""
        body = {"messages": [*SAID, {"role": "user", "content": text}], **fields}
        answer = self.http.post("/v1/chat/completions", json=body).json()
        return answer["choices"][0]["message"]["content"], answer["timings"]["prompt_n"]


@pytest.fixture
def talk(scripted_model: Path, tmp_path: Path) -> Iterator[Callable[..., Talk]]:
    """Makes servers with an empty cache."""
    with ExitStack() as stack, Memory(tmp_path / "memory.db") as memory:
        memory.set_fact("dogs", "Rex and Ada", "admin")

        def make(config: Config = SMALL, *, slots: int = 1, model: Path = scripted_model) -> Talk:
            settings = replace(exact_settings(n_ctx=2048), slots=slots)
            engine = stack.enter_context(Engine(model, settings=settings))
            models = Models(ProviderTable().get(""), name="scripted", engine=engine)
            conversations = Conversations(models, memory=memory, config=config)
            running = stack.enter_context(
                Running(create_app(ServerState(config, memory, True, conversations)))
            )
            return Talk(conversations, memory, stack.enter_context(running.client("")))

        yield make


def test_the_answer_reads_its_message_alone_and_is_the_same(talk: Callable[..., Talk]) -> None:
    expected, all_of_it = talk().ask(memory=False)
    ahead = talk()

    assert ahead.read_ahead(memory=False)
    found, read = ahead.ask(memory=False)

    assert (found, read < MOST_NEW < 200 < all_of_it) == (expected, True)


def test_with_memory_it_is_read_as_well_and_nothing_is_recalled_or_stored(talk: Callable[..., Talk]) -> None:
    ahead = talk()
    memory = ahead.memory
    before = everything_of(memory, "admin")

    assert ahead.read_ahead("What are my dogs called?", session="the talk")

    assert everything_of(memory, "admin") == before
    held = ahead.engine.text_of(ahead.engine.decoder.mirror_ids)
    assert "many cats" in held
    assert "Rex" not in held
    assert "What are my" not in held
    _, read = ahead.ask("What are my dogs called?", session="the talk")
    assert read < MOST_NEW + 40  # with what is recalled


def test_the_next_request_of_the_user_ends_it(talk: Callable[..., Talk]) -> None:
    """Its message is another one than the page had expected, and the answer doesn't wait."""
    ahead = talk()
    very_long = [{"role": "user", "content": LONG * 3}, *SAID[1:]] * 2
    body = {"messages": [*very_long, {"role": "user", "content": "And"}], "memory": False}
    assert ahead.http.post(PATH, json=body).json() == {"reading": True}

    ahead.ask(memory=False)

    ahead.engine.decoder.wait_idle()
    assert "and the dogs" in ahead.engine.text_of(ahead.engine.decoder.mirror_ids).lower()


def test_it_pauses_while_somebody_is_answered(talk: Callable[..., Talk], endless_model: Path) -> None:
    ahead = talk(slots=2, model=endless_model)
    with ahead.engine.complete([5, 6, 7], max_tokens=1900) as answer:
        next(iter(answer))
        body = {"messages": [*SAID, {"role": "user", "content": "And"}], "memory": False}
        assert ahead.http.post(PATH, json=body).json() == {"reading": True}
        (reading,) = ahead.conversations._ahead._readings.values()
        time.sleep(0.05)
        is_reading = reading.is_running
        assert is_reading or not answer.is_running
        answer.cancel()
    ahead.engine.decoder.wait_idle()

    _, read = ahead.ask(memory=False)
    assert read < MOST_NEW


@pytest.mark.parametrize(
    "fields",
    [{}, {"chat_template_kwargs": {"enable_thinking": False}}],
    ids=["off", "another template"],
)
def test_nothing_is_read_where_that_is_off_or_no_use(
    talk: Callable[..., Talk], fields: dict[str, Any]
) -> None:
    ahead = talk(SMALL if fields else replace(SMALL, read_ahead=False))

    assert not ahead.read_ahead(memory=False, **fields)
    assert ahead.engine.decoder.mirror_ids == []


def test_what_does_not_fit_is_left_to_the_answer_to_refuse(
    talk: Callable[..., Talk],
) -> None:
    ahead = talk()
    too_long = [{"role": "user", "content": LONG * 60}, *SAID[1:]]

    ahead.read_ahead(said=too_long, memory=False)
    ahead.read_ahead(LONG * 60, memory=False)

    refused = ahead.http.post("/v1/chat/completions", json={"messages": [{**SAID[0], "content": LONG * 60}]})
    assert refused.status_code == 400


def test_limits_are_those_of_chats(talk: Callable[..., Talk]) -> None:
    ahead = talk()

    def status(**body: Any) -> int:
        return int(ahead.http.post(PATH, json=body).status_code)

    assert status(messages=[]) == 400
    assert status(messages=[{"role": "user", "content": "x"}], learned=True) == 400
    assert status(messages=[{"role": "user", "content": "x"}], user="x" * 300) == 400

"""Eight clients at once over all four APIs, each in one conversation: the model reads new tokens only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.providers import ProviderSettings
from shepherd.server.app import create_app
from shepherd.server.models import Models
from shepherd.server.state import Served, ServerState
from shepherd.server.turns import Conversations
from tests.server.running import Running

TURNS, WORDS = 5, 12
# Of a turn: tokens of the prompt, and of the answer.
Turn = Callable[[httpx.Client, str], tuple[int, int]]


def lines_of(answer: httpx.Response) -> Iterator[dict[str, object]]:
    assert answer.status_code == 200, answer.text
    for line in answer.text.splitlines():
        if line.removeprefix("data: ").startswith("{"):
            yield json.loads(line.removeprefix("data: "))


def over_chats(user: str) -> Turn:
    """OpenAI's chats, streamed."""
    messages: list[dict[str, str]] = []

    def turn(http: httpx.Client, text: str) -> tuple[int, int]:
        messages.append({"role": "user", "content": text})
        body = {"messages": messages, "user": user, "max_tokens": WORDS, "stream": True}
        answer = http.post("/v1/chat/completions", json={**body, "stream_options": {"include_usage": True}})
        *chunks, last = lines_of(answer)
        said = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
        messages.append({"role": "assistant", "content": said})
        return last["usage"]["prompt_tokens"], last["usage"]["completion_tokens"]

    return turn


def over_responses(user: str) -> Turn:
    """OpenAI's responses, which only send what is new."""
    earlier: dict[str, str] = {}

    def turn(http: httpx.Client, text: str) -> tuple[int, int]:
        body = {"input": text, "user": user, "max_output_tokens": WORDS, **earlier}
        [response] = lines_of(http.post("/v1/responses", json=body))
        earlier["previous_response_id"] = response["id"]
        return response["usage"]["input_tokens"], response["usage"]["output_tokens"]

    return turn


def over_messages(user: str) -> Turn:
    """Anthropic's messages."""
    messages: list[dict[str, object]] = []

    def turn(http: httpx.Client, text: str) -> tuple[int, int]:
        messages.append({"role": "user", "content": text})
        body = {"messages": messages, "metadata": {"user_id": user}, "max_tokens": WORDS}
        [answer] = lines_of(http.post("/v1/messages", json=body))
        messages.append({"role": "assistant", "content": answer["content"]})
        usage = answer["usage"]
        return usage["input_tokens"] + usage["cache_read_input_tokens"], usage["output_tokens"]

    return turn


def over_ollama(user: str) -> Turn:
    """Ollama's chats, streamed."""
    messages: list[dict[str, object]] = []

    def turn(http: httpx.Client, text: str) -> tuple[int, int]:
        messages.append({"role": "user", "content": text})
        body = {"messages": messages, "user": user, "options": {"num_predict": WORDS}}
        lines = list(lines_of(http.post("/api/chat", json=body)))
        said = "".join(line["message"]["content"] for line in lines)
        messages.append({"role": "assistant", "content": said})
        return lines[-1]["prompt_eval_count"], lines[-1]["eval_count"]

    return turn


APIS = {
    "/v1/chat/completions": over_chats,
    "/v1/responses": over_responses,
    "/v1/messages": over_messages,
    "/api/chat": over_ollama,
}


@pytest.fixture
def served() -> list[Served]:
    """The answers that the server has made."""
    return []


@pytest.fixture
def server(endless_model, tmp_path, served) -> Iterator[Running]:
    config = Config()
    settings = EngineSettings(n_threads=1, n_ctx=1024, slots=4, windows=4)
    with Engine(endless_model, settings=settings) as engine, Memory(tmp_path / "memory.db") as memory:
        for i in range(8):
            memory.set_fact("name", f"Steve{i}", f"user{i}")
        models = Models(ProviderSettings("local", "llamacpp"), name="tiny", engine=engine)
        state = ServerState(config, memory, True, Conversations(models, memory=memory, config=config))
        state.observers.append(served.append)
        with Running(create_app(state)) as running:
            yield running


def test_eight_clients_over_four_apis_read_new_tokens_only(server, served):
    clients = {f"user{i}": list(APIS.values())[i % 4](f"user{i}") for i in range(8)}

    def talk(name: str) -> int:
        """Return how many tokens were new to the model, by what the API says."""
        n_new = seen = 0
        with server.client() as http:
            for number in range(TURNS):
                prompt, answered = clients[name](http, f"What is my name? This is question {number}.")
                # The last token of an answer was sampled, and not read yet.
                n_new += prompt - seen + (seen > 0)
                seen = prompt + answered
        return n_new

    with ThreadPoolExecutor(len(clients)) as pool:
        n_new = sum(pool.map(talk, clients))

    assert Counter(one.route for one in served) == dict.fromkeys(APIS, 2 * TURNS)
    assert all(one.injected and not one.error for one in served)
    n_read = sum(one.stats.decoded_tokens for one in served)
    assert 0 < n_read <= n_new, (n_read, n_new)
    assert n_new < sum(one.stats.prompt_tokens for one in served) / 2

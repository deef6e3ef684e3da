"""Several answers to one request: `n` and `best_of` of OpenAI's chat and completions, with its own client."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby

import openai
import pytest

from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.providers import ProviderTable
from shepherd.server.app import create_app
from shepherd.server.models import Models
from shepherd.server.state import Served, ServerState
from shepherd.server.turns import Conversations
from tests.server.running import Running

HELLO = [{"role": "user", "content": "I like " + "very " * 60 + "old ships."}]
PROMPT = "the quick brown fox " * 20
WARM = {"temperature": 1.5, "max_tokens": 10, "seed": 5}


class Server:
    """A server with two slots, a memory, and what its answers have cost."""

    def __init__(self, running: Running, memory: Memory, answers: list[Served]) -> None:
        self.url, self.memory, self.answers = running.url, memory, answers

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=60)


@pytest.fixture(scope="module")
def module_server(endless_model, tmp_path_factory) -> Iterator[Server]:
    config = Config(temperature=0.0)
    answers: list[Served] = []
    with (
        Engine(endless_model, settings=EngineSettings(n_threads=1, slots=2, n_ctx=2048, windows=2)) as engine,
        Memory(tmp_path_factory.mktemp("several") / "memory.db") as memory,
    ):
        models = Models(ProviderTable().get(""), name="endless", engine=engine)
        state = ServerState(config, memory, True, Conversations(models, memory=memory, config=config))
        state.observers.append(answers.append)
        with Running(create_app(state)) as running:
            yield Server(running, memory, answers)
        assert (models.n_lent, state.in_progress) == (0, set())


@pytest.fixture
def server(module_server) -> Server:
    module_server.answers.clear()
    return module_server


def costs(server: Server) -> tuple[list[int], list[int]]:
    """Tokens that were decoded for each answer's prompt, and those it has."""
    stats = [served.stats for served in server.answers]
    return [one.decoded_tokens for one in stats], [one.prompt_tokens for one in stats]


def test_chat_gives_as_many_answers_as_asked_for_and_reads_the_prompt_once(server):
    with server.client() as client:
        answer = client.chat.completions.create(model="default", messages=HELLO, n=5, logprobs=True, **WARM)

    said = [choice.message.content for choice in answer.choices]
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3, 4]
    assert len(set(said)) == 5
    for choice in answer.choices:
        assert (
            b"".join(bytes(one.bytes) for one in choice.logprobs.content).decode() == choice.message.content
        )
    decoded, prompts = costs(server)
    assert answer.usage.prompt_tokens == prompts[0] == max(prompts)
    assert answer.usage.completion_tokens == 50
    assert sum(decoded) <= prompts[0] + 4  # each but the first decodes one token at most


def test_each_answer_depends_on_the_seed_and_its_place(server):
    with server.client() as client:

        def said(**fields: int) -> list[str]:
            made = client.chat.completions.create(model="default", messages=HELLO, **{**WARM, **fields})
            return [choice.message.content for choice in made.choices]

        assert said(n=3) == said(n=3)
        assert said(n=3) == [*said(), *said(seed=6), *said(seed=7)]
        assert len(set(said(n=3, temperature=0))) == 1


def test_streamed_answers_come_mixed_and_say_which_they_are(server):
    with server.client() as client:
        whole = client.chat.completions.create(
            model="default", messages=HELLO, n=2, **{**WARM, "max_tokens": 200}
        )
        chunks = list(
            client.chat.completions.create(
                model="default",
                messages=HELLO,
                n=2,
                stream=True,
                stream_options={"include_usage": True},
                **{**WARM, "max_tokens": 200},
            )
        )

    *parts, total = chunks
    said = ["", ""]
    for part in parts:
        said[part.choices[0].index] += part.choices[0].delta.content or ""
    order = [index for index, _ in groupby(part.choices[0].index for part in parts)]
    ends = [part.choices[0].index for part in parts if part.choices[0].finish_reason]
    assert said == [choice.message.content for choice in whole.choices]
    assert len({chunk.id for chunk in chunks}) == 1
    assert [part.choices[0].delta.role for part in parts].count("assistant") == 2
    assert order[:3] == [0, 1, 0]
    assert sorted(ends) == [0, 1]
    assert total.usage.completion_tokens == whole.usage.completion_tokens == 400
    assert total.usage.prompt_tokens == whole.usage.prompt_tokens


def test_only_the_first_answer_is_stored_and_any_can_be_continued(server):
    with server.client() as client:
        answer = client.chat.completions.create(
            model="default", messages=HELLO, n=3, user="anna", **{**WARM, "temperature": 1.0}
        )
        said = [choice.message.content for choice in answer.choices]
        stored = [message.raw for message in server.memory.load_session(user_id="anna")]
        server.answers.clear()
        then = client.chat.completions.create(
            model="default",
            messages=[
                *HELLO,
                {"role": "assistant", "content": said[2]},
                {"role": "user", "content": "And you?"},
            ],
            user="anna",
            **WARM,
        )

    assert stored == [HELLO[0]["content"], said[0]]
    assert server.memory.count_sessions("anna") == 1
    seen = answer.usage.prompt_tokens + 10
    assert then.usage.prompt_tokens_details.cached_tokens >= seen - 1


def test_without_memory_nothing_of_any_answer_is_stored(server):
    with server.client() as client:
        client.chat.completions.create(
            model="default", messages=HELLO, n=2, user="ben", extra_body={"memory": False}, **WARM
        )

    assert server.memory.count_sessions("ben") == 0
    assert [served.injected for served in server.answers] == [False, False]


def test_completions_of_several_prompts_are_numbered_prompt_by_prompt(server):
    with server.client() as client:
        made = client.completions.create(model="default", prompt=[PROMPT, "hello"], n=2, **WARM)
        parts = list(
            client.completions.create(model="default", prompt=[PROMPT, "hello"], n=2, stream=True, **WARM)
        )

    said = [""] * 4
    for part in parts:
        said[part.choices[0].index] += part.choices[0].text
    assert [choice.index for choice in made.choices] == [0, 1, 2, 3]
    assert said == [choice.text for choice in made.choices]
    assert len(set(said)) == 4
    decoded, prompts = costs(server)
    assert made.usage.prompt_tokens == prompts[0] + prompts[2]
    assert made.usage.completion_tokens == 40
    assert min(decoded[:2]) <= 1  # whichever of the two ended first


def test_best_of_gives_the_likeliest(server):
    with server.client() as client:

        def completed(**fields: int | bool) -> openai.types.Completion:
            return client.completions.create(model="default", prompt=PROMPT, **{**WARM, **fields})

        everything = completed(n=5, logprobs=0)
        best = completed(n=2, best_of=5, logprobs=0)
        plain = completed(best_of=5)

    def mean(choice: openai.types.CompletionChoice) -> float:
        return math.fsum(choice.logprobs.token_logprobs) / len(choice.logprobs.token_logprobs)

    ranked = sorted(everything.choices, key=mean, reverse=True)
    assert [choice.text for choice in best.choices] == [choice.text for choice in ranked[:2]]
    assert [choice.index for choice in best.choices] == [0, 1]
    assert best.usage.completion_tokens == 50
    assert (plain.choices[0].text, plain.choices[0].logprobs) == (ranked[0].text, None)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 0}, "n"),
        ({"n": 17}, "n"),
        ({"n": 2, "extra_body": {"memory_tools": True}, "user": "anna"}, "n"),
    ],
)
def test_chat_refuses_other_numbers_of_answers(fields, param, server):
    with server.client() as client, pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="default", messages=HELLO, **fields)

    assert refused.value.param == param
    assert server.answers == [] or server.answers[0].error


@pytest.mark.parametrize("fields", [{"n": 3, "best_of": 2}, {"best_of": 2, "stream": True}, {"best_of": 99}])
def test_completions_refuse_what_cannot_be_the_best(fields, server):
    with server.client() as client, pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="default", prompt=PROMPT, **fields)

    assert refused.value.param == "best_of"

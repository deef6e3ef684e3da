"""A model whose template takes user and assistant by turns alone, as Gemma's and Mistral's do."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import openai
import pytest

from shepherd.inference import Engine, EngineSettings
from tests import models
from tests.server.in_process import running
from tests.server.running import Running

STRICT = (
    "{%- for m in messages %}"
    "{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{%- endif %}"
    "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)
TWICE = [{"role": "user", "content": "Hello."}, {"role": "user", "content": "Who are you?"}]
ASSISTANT_FIRST = [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Who are you?"}]


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("strict") / "strict.gguf"
    models.scripted(path, ("A model.",), template=STRICT)
    with Engine(path, settings=EngineSettings(n_threads=1)) as engine, running(engine) as server:
        yield server


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("messages", [TWICE, ASSISTANT_FIRST])
def test_messages_that_the_template_refuses_are_the_clients_mistake(server, messages, stream):
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client,
        pytest.raises(openai.BadRequestError) as caught,
    ):
        client.chat.completions.create(model="default", messages=messages, stream=stream)

    assert (caught.value.code, caught.value.param) == ("invalid_request", "messages")
    assert "roles must alternate" in caught.value.message
    assert "by turns, the user first" in caught.value.message


def test_neighbours_of_one_role_are_one_message_for_anthropics_clients(server):
    block = {"type": "text", "text": "Who are you?"}
    one = [{"role": "user", "content": "Hello.\nWho are you?"}]
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        answer = client.messages.create(model="default", max_tokens=9, messages=TWICE)
        blocks = client.messages.create(
            model="default", max_tokens=9, messages=[TWICE[0], {"role": "user", "content": [block]}]
        )
        n_tokens = [
            client.messages.count_tokens(model="default", messages=sent).input_tokens for sent in (TWICE, one)
        ]

    assert answer.content[0].text == blocks.content[0].text == "A model."
    assert n_tokens[0] == n_tokens[1]

"""Programs that speak OpenAI's protocol, as they are published: langchain-openai and llm."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from pydantic import BaseModel, Field

# What they do inside is not ours to warn about.
pytestmark = pytest.mark.filterwarnings("ignore")


class Person(BaseModel):
    """A person."""

    name: str = Field(max_length=12)
    age: int


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def chat_of(server, **options):
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(
        model="default", base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60, **options
    )


def test_langchain_chats_and_streams(mini):
    chat = chat_of(mini, temperature=0)
    whole = chat.invoke("Hello, who are you?")
    pieces = list(chat.stream("Hello, who are you?"))

    assert whole.content
    assert whole.usage_metadata["output_tokens"] > 0
    assert "".join(piece.content for piece in pieces) == whole.content


def test_langchain_binds_tools(calling):
    answer = chat_of(calling).bind_tools([get_weather]).invoke("Hello")

    [call] = answer.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Paris"})


def test_langchain_gets_structured_output(endless):
    person = chat_of(endless, max_tokens=200, seed=1).with_structured_output(Person).invoke("Who?")

    assert isinstance(person, Person)


def test_langchain_embeds(mini):
    from langchain_openai import OpenAIEmbeddings

    embeddings = OpenAIEmbeddings(
        model="tiny-bert", base_url=f"{mini.url}/v1", api_key="none", check_embedding_ctx_length=False
    )
    vectors = embeddings.embed_documents(["the dog", "hello world"])

    assert len(vectors) == 2
    assert embeddings.embed_query("the dog") == pytest.approx(vectors[0], abs=1e-6)


@pytest.fixture
def llm(mini, calling, tmp_path):
    """Runs the `llm` program with our servers among its models."""
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"""\
- model_id: mini
  model_name: shepherd-mini
  api_base: "{mini.url}/v1"
- model_id: calling
  model_name: default
  api_base: "{calling.url}/v1"
  supports_tools: true
""",
        encoding="utf-8",
    )
    environment = {**os.environ, "LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "none"}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "llm", *arguments],
            capture_output=True,
            env=environment,
            timeout=120,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        said = done.stdout.decode() + done.stderr.decode()
        assert "Traceback" not in said
        return said

    return run


def test_llm_asks_and_goes_on(llm):
    assert llm("-m", "mini", "Hello, who are you?").strip()
    assert llm("-c", "And what can you do?").strip()


def test_llm_calls_a_tool_and_hands_its_result_back(llm):
    functions = "def get_weather(city: str) -> str:\n    return 'sunny in ' + city"

    # The model asks again and again, whatever it is told.
    said = llm("-m", "calling", "--functions", functions, "--td", "--no-stream", "--cl", "2", "Hello")

    assert "sunny in Paris" in said

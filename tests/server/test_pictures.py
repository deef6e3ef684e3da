"""Pictures through each API, by the official clients where there are any, before a tiny model that sees."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import ollama
import openai
import pytest

from shepherd._native import engine as native
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.providers import ProviderSettings, open_remote
from shepherd.server import contents
from shepherd.types import Message, Picture
from tests import vision_models
from tests.server.in_process import running
from tests.server.running import Running
from tests.test_pictures import BMP, GIF, JPEG
from tests.vision_models import PICTURE_TOKENS, png

QUESTION = "what is it?"


def encoded(colour: str, **options: int) -> str:
    return base64.b64encode(png(colour, **options)).decode()


def url(colour: str, **options: int) -> str:
    return f"data:image/png;base64,{encoded(colour, **options)}"


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("pictures") / "memory.db"


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Iterator[Engine]:
    path = vision_models.seeing(tmp_path_factory.mktemp("seeing"))
    with Engine(path, settings=EngineSettings(n_threads=1, n_ctx=1024, slots=2)) as engine:
        yield engine


@pytest.fixture(scope="module")
def server(engine, database) -> Iterator[Running]:
    with Memory(database) as memory, running(engine, memory=memory) as server:
        yield server


@pytest.fixture
def client(server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


def parts(*given: str | dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": one} if isinstance(one, str) else one for one in given]


def seen(colour: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url(colour)}}


# ---- each API


@pytest.mark.parametrize("colour", vision_models.COLOURS)
def test_openais_chat(client: openai.OpenAI, colour: str) -> None:
    for content in (parts(QUESTION, seen(colour)), parts(seen(colour), QUESTION), parts(seen(colour))):
        answer = client.chat.completions.create(
            model="default", messages=[{"role": "user", "content": content}]
        )
        assert answer.choices[0].message.content == colour


def test_openais_chat_streamed_with_a_text_without_pictures(client: openai.OpenAI) -> None:
    for content, word in ((parts(QUESTION), "nothing"), (parts(QUESTION, seen("blue")), "blue")):
        stream = client.chat.completions.create(
            model="default", messages=[{"role": "user", "content": content}], stream=True
        )
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == word


def test_the_next_request_reads_new_tokens_only(client: openai.OpenAI) -> None:
    messages: list[Any] = [{"role": "user", "content": parts(seen("green"), "my name is Steve. " + QUESTION)}]
    for question in ("and now?", "and the name of the fox?", ""):
        answer = client.chat.completions.create(model="default", messages=messages, user="steve")
        assert answer.choices[0].message.content == "green"
        usage = answer.usage
        assert usage is not None
        messages += [
            {"role": "assistant", "content": answer.choices[0].message.content},
            {"role": "user", "content": question},
        ]
        if len(messages) > 3:
            new = usage.prompt_tokens - usage.prompt_tokens_details.cached_tokens
            assert new < PICTURE_TOKENS * 3 < usage.prompt_tokens


def test_anthropics_messages(server: Running) -> None:
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": encoded("red")},
    }
    by_address = {"type": "image", "source": {"type": "url", "url": url("blue")}}
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        for block, colour in ((picture, "red"), (by_address, "blue")):
            for content in (parts(block, QUESTION), parts(QUESTION, block)):
                answer = client.messages.create(
                    model="default", max_tokens=8, messages=[{"role": "user", "content": content}]
                )
                assert answer.content[0].text == colour
        # Two messages of one role are one, and keep their pictures; so do the results of tools.
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": parts("seen:", picture)}
        answer = client.messages.create(
            model="default",
            max_tokens=8,
            messages=[
                {"role": "user", "content": "look"},
                {"role": "user", "content": "here"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "call_1", "name": "look", "input": {}}],
                },
                {"role": "user", "content": [result]},
            ],
            tools=[{"name": "look", "input_schema": {"type": "object", "properties": {}}}],
        )
        assert answer.content[0].text == "red"
        counted = client.messages.count_tokens(
            model="default", messages=[{"role": "user", "content": parts(picture, QUESTION)}]
        )
        plain = client.messages.count_tokens(
            model="default", messages=[{"role": "user", "content": QUESTION}]
        )
        assert counted.input_tokens >= plain.input_tokens + PICTURE_TOKENS


def test_responses_and_a_chain_of_them(client: openai.OpenAI, database: Path) -> None:
    content = [{"type": "input_text", "text": QUESTION}, {"type": "input_image", "image_url": url("green")}]
    first = client.responses.create(model="default", input=[{"role": "user", "content": content}])
    assert first.output_text == "green"
    second = client.responses.create(model="default", input="and what was it?", previous_response_id=first.id)
    assert second.output_text == "green"
    assert second.usage.input_tokens_details.cached_tokens > PICTURE_TOKENS
    items = client.responses.input_items.list(first.id).data
    assert encoded("green") not in str(items)
    # Another process no longer has the picture: a word stands for it.
    contents._pictures = type(contents._pictures)(4)
    third = client.responses.create(model="default", input="and now?", previous_response_id=second.id)
    assert third.output_text == "nothing"


def test_ollamas_chat_and_generate(server: Running) -> None:
    with ollama.Client(server.url, trust_env=False) as client:
        message = {"role": "user", "content": QUESTION, "images": [encoded("blue")]}
        assert client.chat(model="default", messages=[message]).message.content == "blue"
        answer = client.generate(model="default", prompt=QUESTION, images=[png("red")])
        assert answer.response == "red"


def test_programs_can_ask_whether_the_model_reads_pictures(server: Running) -> None:
    with server.client() as http:
        assert http.get("/props").json()["modalities"] == {"vision": True, "audio": False}
        shown = http.post("/api/show", json={"model": "default"}).json()
    assert "vision" in shown["capabilities"]


def test_texts_are_answered_while_pictures_are_encoded(
    client: openai.OpenAI, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    vision, threads, may_read = engine.model.vision, [], threading.Event()
    assert vision is not None
    read = vision.read

    def read_late(picture: Picture) -> tuple[native.Picture, ...]:
        threads.append(threading.current_thread().name)
        assert may_read.wait(60)
        return read(picture)

    def ask(content: Any) -> str | None:
        answer = client.chat.completions.create(
            model="default", messages=[{"role": "user", "content": content}], user="anna"
        )
        return answer.choices[0].message.content

    monkeypatch.setattr(vision, "read", read_late)
    with ThreadPoolExecutor(10) as asking:
        asked = [asking.submit(ask, parts(f"{i}?", seen("red"))) for i in range(9)]
        while not threads:
            time.sleep(0.01)
        assert ask("hello") == "nothing"
        may_read.set()
        assert [one.result() for one in asked] == ["red"] * 9
    assert all(name.startswith("shepherd-pictures") for name in threads)


@pytest.mark.parametrize("data", [JPEG, GIF, BMP], ids=["JPEG", "GIF", "BMP"])
def test_other_formats_are_seen(client: openai.OpenAI, data: bytes) -> None:
    picture = {"url": "data:image/any;base64," + base64.b64encode(data).decode()}
    content = parts(QUESTION, {"type": "image_url", "image_url": picture})
    answer = client.chat.completions.create(model="default", messages=[{"role": "user", "content": content}])
    assert answer.choices[0].message.content == "red"


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_remote_models_get_pictures(server: Running, kind: str) -> None:
    address = f"{server.url}/v1" if kind == "openai" else server.url
    provider = ProviderSettings("near", kind, model="default", base_url=address, api_key="k")
    model = open_remote(provider)
    talk = [Message("user", "what is it?", pictures=(Picture(png("green")),))]
    assert model.reads_pictures
    with model.generate(talk, max_tokens=8) as answer:
        assert "".join(map(str, answer)) == "green"
    model.close()


# ---- memory


def test_no_picture_is_stored(client: openai.OpenAI, server: Running, database: Path) -> None:
    user = "painter"
    content = parts("My name is Vincent.", seen("red"), "What do you see?")
    client.chat.completions.create(
        model="default", messages=[{"role": "user", "content": content}], user=user
    )
    with server.client() as http:
        [one] = http.get("/v1/conversations", params={"user": user}).json()["data"]
        talk = http.get(f"/v1/conversations/{one['id']}", params={"user": user}).json()
    asked = talk["data"][0]
    assert asked["text"] == "My name is Vincent.\nWhat do you see?"
    assert asked["composed"] == "My name is Vincent.\n[picture]\nWhat do you see?"
    data = b"".join(path.read_bytes() for path in database.parent.iterdir())
    for part in (png("red"), encoded("red").encode(), "\ufffc".encode()):
        assert part[:40] not in data


# ---- what is refused


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("data:image/png;base64,AAAA", "not a picture"),
        ("data:image/png;base64,====", "base64"),
        ("data:image/png,AAAA", "base64"),
        ("data:image/webp;base64," + base64.b64encode(b"RIFF0000WEBPVP8 ").decode(), "WebP"),
        ("data:image/png;base64," + base64.b64encode(png("red")[:50]).decode(), "decoded"),
        ("data:image/png;base64," + base64.b64encode(png("red", 20_000, height=1)).decode(), "20000 x 1"),
        ("https://example.org/cat.png", "data: URL"),
        ("file:///etc/passwd", "data: URL"),
    ],
)
def test_what_is_no_picture_is_the_clients_mistake(client: openai.OpenAI, address: str, why: str) -> None:
    content = parts(QUESTION, {"type": "image_url", "image_url": {"url": address}})
    with pytest.raises(openai.BadRequestError, match=why):
        client.chat.completions.create(model="default", messages=[{"role": "user", "content": content}])


def test_too_many_pictures_and_too_large_a_window(client: openai.OpenAI) -> None:
    many = parts(*[seen("red")] * 65)
    with pytest.raises(openai.APIStatusError, match="more than 64 pictures"):
        client.chat.completions.create(model="default", messages=[{"role": "user", "content": many}])
    full = parts(*[seen("red")] * 64)
    with pytest.raises(openai.BadRequestError, match="window"):
        client.chat.completions.create(model="default", messages=[{"role": "user", "content": full}])


def test_old_pictures_leave_a_full_window_with_their_turns(client: openai.OpenAI) -> None:
    """The newest picture counts: the others have left, and what they were is no longer seen."""
    talk: list[Any] = []
    for i in range(30):
        talk += [
            {"role": "user", "content": parts(f"number {i} of many: what is it?", seen("red"))},
            {"role": "assistant", "content": "red"},
        ]
    talk.append({"role": "user", "content": parts(QUESTION, seen("green"))})
    answer = client.chat.completions.create(model="default", messages=talk)
    assert answer.choices[0].message.content in ("red", "green")
    assert answer.usage is not None
    assert answer.usage.prompt_tokens < 1024

"""Many clients at once, clients that go away, and a server that is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
import signal
import time

import httpx
import openai
import pytest

from shepherd.config import Config
from shepherd.inference import load_check, read_header
from shepherd.memory import Memory
from shepherd.server.factory import opened_server

HELLO = [{"role": "user", "content": "Hello, who are you?"}]
MANY = 64
# More than anybody waits for: it ends because it is ended.
FOREVER = 200_000


@pytest.fixture(scope="module")
def patient(serve, endless_model):
    """A model that could go on for minutes, with two slots."""
    return serve("-m", endless_model, "--ctx", "262144", "--slots", "2")


def requests_in(log):
    """What was logged at the end of each request."""
    lines = (json.loads(line) for line in log.splitlines() if line.startswith("{"))
    return [line for line in lines if line.get("route") == "/v1/chat/completions"]


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value


def test_many_streams_at_once_all_come_to_their_end(endless):
    async def stream(client, i):
        chunks = await client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": f"Hello {i}"}],
            max_tokens=16,
            stream=True,
            stream_options={"include_usage": True},
            user=f"crowd-{i}",
        )
        return [chunk async for chunk in chunks]

    async def all_streams():
        async with openai.AsyncOpenAI(base_url=f"{endless.url}/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(stream(client, i) for i in range(MANY)))

    streams = asyncio.run(all_streams())

    assert [chunks[-1].usage.completion_tokens for chunks in streams] == [16] * MANY
    assert [chunks[-2].choices[0].finish_reason for chunks in streams] == ["length"] * MANY


@pytest.mark.parametrize("n_clients", [2, 4])
def test_long_conversations_at_once_are_read_once(serve, endless_model, n_clients):
    """Together they exceed a window by far, and there is nothing to park them in."""
    window = 1024
    server = serve(
        "-m", endless_model, "--ctx", window, "--slots", n_clients, "--nomemory", SHEPHERD_CACHE_RAM_MB="0"
    )

    async def turn(client, messages):
        answer = await client.chat.completions.create(model="default", messages=messages, max_tokens=40)
        messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        return answer.usage

    async def talk():
        talks = [[{"role": "user", "content": f"{i}{i} " * 180}] for i in range(n_clients)]
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
            for _ in range(4):
                yield await asyncio.gather(*(turn(client, messages) for messages in talks))
                for messages in talks:
                    messages.append({"role": "user", "content": "and then?"})

    async def all_turns():
        return [usages async for usages in talk()]

    turns = asyncio.run(all_turns())

    assert sum(usage.prompt_tokens for usage in turns[0]) > window * n_clients / 2 >= window
    for before, after in itertools.pairwise(turns):
        for was, now in zip(before, after, strict=True):
            assert now.prompt_tokens_details.cached_tokens >= was.prompt_tokens
    assert "window" not in server.log


def test_server_without_memory_for_all_windows_says_so_and_takes_fewer(endless_model, monkeypatch):
    header = read_header(endless_model)
    # 4 heads' scores of 512 tokens, and 2 layers' keys and values, for each cell
    room = header.file_bytes + 2 * 256 * (4 * 4 * 512 + 2 * 2 * 32 * 2)
    monkeypatch.setattr(load_check, "available_bytes", lambda: room)
    config = Config(model=str(endless_model), n_ctx=256, model_trial=False, server_slots=4)
    said = []
    with opened_server(config, memory=False, warn=lambda what, hint: said.append((what, hint))):
        pass

    [(what, hint)] = said
    assert "holds 512 tokens, not 4 windows of 256" in what
    assert "server_windows = 2" in hint

    said.clear()
    config = dataclasses.replace(config, server_windows=2)
    with opened_server(config, memory=False, warn=lambda what, hint: said.append((what, hint))):
        assert not said


def test_with_one_slot_a_second_answer_waits_its_turn(serve, endless_model):
    server = serve("-m", endless_model, "--ctx", "8192", "--slots", "1")
    body = {"model": "default", "messages": HELLO, "max_tokens": 200, "stream": True}
    with server.http() as client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        second = server.ask("Hello", max_tokens=2)
        said = [line for line in lines if line]

    assert second["usage"]["completion_tokens"] == 2
    assert said[-1] == "data: [DONE]"


def test_stream_that_waits_for_its_turn_has_begun(patient):
    body = {"model": "default", "messages": HELLO, "max_tokens": FOREVER, "stream": True}
    with patient.http() as client, contextlib.ExitStack() as stack:
        busy = [stack.enter_context(client.stream("POST", "/v1/chat/completions", json=body)) for _ in "12"]
        for answer in busy:
            assert answer.status_code == 200
            assert '"role":"assistant"' in next(answer.iter_lines())
        waiting = stack.enter_context(client.stream("POST", "/v1/chat/completions", json=body))

        # No slot is free for as long as anybody waits: this comes before any piece.
        assert '"delta":{"role":"assistant"}' in next(waiting.iter_lines())
        assert not any(answer.is_closed for answer in busy)


def test_client_that_goes_away_ends_its_stream(patient):
    body = {"model": "default", "messages": HELLO, "max_tokens": FOREVER, "stream": True}
    n_before = len(requests_in(patient.log))
    with patient.http() as client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
        next(answer.iter_lines())
    after = patient.ask("Hello", max_tokens=2)

    ended = wait_for(lambda: requests_in(patient.log)[n_before:])[0]
    assert after["usage"]["completion_tokens"] == 2
    assert ended["tokens"]["generated"] < FOREVER


def test_client_that_stops_waiting_ends_its_answer(patient):
    body = {"model": "default", "messages": HELLO, "max_tokens": FOREVER}
    n_before = len(requests_in(patient.log))
    with patient.http() as client, pytest.raises(httpx.ReadTimeout):
        client.post("/v1/chat/completions", json=body, timeout=httpx.Timeout(60, read=0.5))
    after = patient.ask("Hello", max_tokens=2)

    ended = wait_for(lambda: requests_in(patient.log)[n_before:])[0]
    assert after["usage"]["completion_tokens"] == 2
    assert ended["tokens"]["generated"] < FOREVER


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_cuts_what_takes_too_long_and_cleans_up(serve, endless_model, number):
    server = serve("-m", endless_model, "--ctx", "262144", SHEPHERD_SERVER_SHUTDOWN="4")
    body = {"model": "default", "messages": HELLO, "max_tokens": FOREVER, "stream": True, "user": "late"}
    with server.http() as client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        server.process.send_signal(number)
        said = [line for line in lines if line]

    assert said[-1] == "data: [DONE]"
    assert '"finish_reason":"length"' in said[-2]
    assert server.ended() == 0
    # What the user had said was kept.
    with Memory(server.database, user_id="late", read_only=True) as memory:
        [session] = memory.list_sessions()
        assert [m.role for m in memory.load_session(session.id)] == ["user", "assistant"]


def test_told_to_end_it_lets_a_short_answer_end(serve, endless_model):
    server = serve("-m", endless_model, "--ctx", "8192", SHEPHERD_SERVER_SHUTDOWN="60")
    body = {"model": "default", "messages": HELLO, "max_tokens": 1500, "stream": True}
    with server.http() as client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGTERM)
        said = [line for line in lines if line]

    assert said[-1] == "data: [DONE]"
    assert server.ended() == 0


def test_port_that_is_taken_is_said(serve, endless, endless_model, tmp_path):
    port = endless.url.rpartition(":")[2]
    with pytest.raises(AssertionError, match="Address already in use"):
        serve("-m", endless_model, SHEPHERD_SERVER_PORT=port)


def test_beyond_this_machine_it_needs_keys(serve, endless_model):
    with pytest.raises(AssertionError, match="apikey create"):
        serve("-m", endless_model, "--host", "0.0.0.0")

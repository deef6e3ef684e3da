"""kill -9 of a server: after the restart, the next request of a stored conversation reads new tokens only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.server.processes import ServerProcess

Talk = list[dict[str, str]]
USERS = [f"user-{i}" for i in range(6)]


@contextmanager
def serving(home: Path, model: Path) -> Iterator[tuple[ServerProcess, httpx.Client]]:
    settings = {"SHEPHERD_SERVER_SLOTS": "2", "SHEPHERD_MEMORY_EXTRACTION": "false"}
    with (
        ServerProcess(home, "-m", str(model), "--ctx", "1024", **settings) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client,
    ):
        yield server, client


def say(
    client: httpx.Client, talk: list[dict[str, str]], user: str, text: str, **fields: Any
) -> dict[str, int]:
    """Say it, add it and the answer to the talk, and return prompt tokens, read ones, and answered ones."""
    talk.append({"role": "user", "content": text})
    body = {"model": "default", "user": user, "messages": talk, "max_tokens": 6, "temperature": 0, **fields}
    answer = client.post("/v1/chat/completions", json=body).raise_for_status().json()
    talk.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
    usage = answer["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    return {
        "prompt": usage["prompt_tokens"],
        "cached": cached,
        "answered": usage["completion_tokens"],
    }


def figures(client: httpx.Client) -> dict[str, int]:
    kept: dict[str, int] = client.get("/props").raise_for_status().json()["kept_conversations"]
    return kept


def wait_written(client: httpx.Client, n: int) -> None:
    deadline = time.monotonic() + 60
    while figures(client)["n"] < n or figures(client)["n_written"] < n:
        assert time.monotonic() < deadline, figures(client)
        time.sleep(0.02)


def test_a_server_that_was_killed_continues_what_is_stored(endless_model: Path, tmp_path: Path) -> None:
    talks: dict[str, Talk] = {user: [] for user in USERS}
    before = {}
    with serving(tmp_path / "home", endless_model) as (server, client):
        for user, talk in talks.items():
            before[user] = say(client, talk, user, f"I am {user}, and I like trees {'very ' * 40}much")
        wait_written(client, len(USERS))
        server.process.kill()
    with serving(tmp_path / "home", endless_model) as (server, client):
        for user, talk in talks.items():
            now = say(client, talk, user, "and what do I like?")
            assert now["cached"] == before[user]["prompt"] + before[user]["answered"] - 1
        assert figures(client)["n_read"] == len(USERS)
        metrics = client.get("/metrics").text
        assert f'shepherd_kept_conversations{{state="read"}} {len(USERS)}.0' in metrics

        # What is not stored is not kept.
        say(client, [], "unknown", f"nobody says {'this ' * 40}")
        say(client, [], "anna", f"without memory {'this ' * 40}", memory=False)
        say(client, [], "bert", f"with memory {'this ' * 40}", session="bert's")
        n = figures(client)["n"]
        wait_written(client, 7)
        assert figures(client)["n"] == 7 >= n

        client.delete("/v1/conversations/bert's", params={"user": "bert"}).raise_for_status()
        assert figures(client)["n"] == 6

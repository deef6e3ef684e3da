"""One server, several providers: which one answers, and that each sees only what it may."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from shepherd.config import Config
from shepherd.config.file import ConfigFile
from shepherd.errors import UsageError
from shepherd.memory import Memory
from shepherd.providers import ProviderSettings, ProviderTable
from shepherd.server.offers import providers_of
from tests import programs
from tests.server.processes import ServerProcess, inherited


def ask(server: ServerProcess, model: str, text: str, **fields: object) -> str:
    body = {"model": model, "messages": [{"role": "user", "content": text}], **fields}
    with server.http() as client:
        answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    said: str = answer.json()["choices"][0]["message"]["content"]
    return said


def test_all_providers_are_listed_with_who_runs_them_and_whether_they_use_the_memory(with_providers):
    with with_providers.http() as client:
        listed = client.get("/v1/models").json()["data"]
        shown = client.get("/v1/models/firm/big").json()

    local = listed[0]["id"]
    assert [(one["id"], one["owned_by"], one["memory"], one["state"]) for one in listed] == [
        (local, "local", True, "loaded"),
        ("firm/big", "firm", False, "loaded"),
        ("friend/big", "friend", True, "loaded"),
    ]
    assert shown == listed[1]
    assert "the provider keyless can't be chosen: provider keyless has no API key" in with_providers.log


@pytest.mark.parametrize("name", ["firm/big", "firm", "FIRM", "friend", "big"])
def test_a_request_names_a_provider_by_its_name_or_with_its_model(with_providers, afar, name):
    assert ask(with_providers, name, "hello") == "From afar."
    assert afar.asked[-1].body["model"] == "big"


def test_each_provider_has_its_own_longest_answer(with_providers, afar):
    for name in ("firm", "friend"):
        ask(with_providers, name, "hello")

    most = [one.body.get("max_tokens", one.body.get("max_completion_tokens")) for one in afar.asked[-2:]]
    assert most == [77, Config().max_tokens]


def test_no_name_means_the_model_of_this_machine_and_an_unknown_one_is_refused(with_providers, afar):
    before = len(afar.asked)
    assert ask(with_providers, "", "hello").startswith("Hello, I am")
    with with_providers.http() as client:
        unknown = client.post(
            "/v1/chat/completions", json={"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}
        )

    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
    assert "firm/big" in unknown.json()["error"]["message"]
    assert len(afar.asked) == before


def test_only_a_provider_that_may_use_the_memory_is_told_what_is_in_it(with_providers, afar):
    with Memory(with_providers.database) as memory:
        memory.set_fact("dog_name", "Biscuit", "olga")
    for name in ("firm", "friend"):
        ask(with_providers, name, "What is my dog called?", user="olga", session=name)

    told = [one.said for one in afar.asked[-2:]]
    with Memory(with_providers.database) as memory:
        stored = [bool(memory.find_session(name, "olga")) for name in ("firm", "friend")]
    assert told[0] == "What is my dog called?"
    assert "Biscuit" in told[1]
    assert stored == [False, True]


def test_a_model_without_memory_replaces_what_another_one_stored(with_providers, afar):
    ask(with_providers, "friend", "Good morning, how are you today?", user="petra", session="talk")
    ask(with_providers, "firm", "Good evening, how are you?", user="petra", session="talk", replaces=1)

    with Memory(with_providers.database) as memory:
        session = memory.find_session("talk", "petra")
        assert session is None or memory.load_session(session, "petra") == []


def table(path: Path, **entries: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"providers": entries}))


def test_providers_are_taken_once_and_without_the_one_that_answers_anyway(tmp_path, monkeypatch):
    path = tmp_path / "config.json"
    table(path, a={"kind": "openai", "model": "x"}, b={"kind": "ollama", "model": "y"})
    monkeypatch.setenv("SHEPHERD_CONFIG", str(path))
    default = ProviderTable(ConfigFile(path)).get("a")

    def names(text: str, default: ProviderSettings = default) -> list[str]:
        return [one.name for one in providers_of(Config(server_providers=text), default)]

    assert names("") == []
    assert names(" b, a ,b") == ["b"]
    assert names("all") == ["local", "b"]
    assert names("b, all") == ["b", "local"]
    assert names("all", ProviderTable(ConfigFile(path)).get("local")) == ["a", "b"]


@pytest.mark.parametrize(
    ("named", "error", "says"),
    [
        ("c", UsageError, "server_providers: there is no provider 'c'"),
        ("b", UsageError, "server_providers: provider b: its kind is missing"),
    ],
)
def test_a_provider_that_is_not_there_is_an_error(tmp_path, monkeypatch, named, error, says):
    table(tmp_path / "config.json", a={"kind": "openai"}, b={"model": "x"})
    monkeypatch.setenv("SHEPHERD_CONFIG", str(tmp_path / "config.json"))

    with pytest.raises(error, match=says):
        providers_of(Config(server_providers=named), ProviderSettings("local", "llamacpp"))


def test_the_command_says_which_provider_is_not_there(tmp_path):
    done = programs.run(
        [sys.executable, "-m", "shepherd", "serve", "--port", "0", "--providers", "nowhere"],
        env={**inherited(), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 2
    assert "server_providers: there is no provider 'nowhere'" in done.stderr
    assert done.stdout == ""

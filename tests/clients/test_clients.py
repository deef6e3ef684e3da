"""What `tools/clients` does, with the clients that the tests have anyway."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import run
from tests.clients.catalogue import CLIENTS, Client, Place, Step
from tests.clients.model import ANSWER, FROM_RESULT, QUESTION, write_model
from tests.server.processes import ServerProcess

HERE = ("openai (Python)", "anthropic (Python)", "ollama (Python)")
BY_NAME = {client.name: client for client in CLIENTS}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("clients")
    write_model(folder / "scripted.gguf")
    with ServerProcess(folder / "home", "-m", str(folder / "scripted.gguf")) as server:
        yield server


@pytest.mark.parametrize("name", HERE)
def test_client_gets_answers_and_streams_and_its_tool_is_used(server, tmp_path, name):
    results = run.run_script(BY_NAME[name], Place(server.url, Path(sys.prefix), tmp_path))

    assert {what.rpartition(".")[2] for what in results} == {"text", "stream", "tools"}
    assert not any(results.values()), results


def test_model_tells_what_a_tool_has_found_and_nothing_else(server):
    tool = {"type": "function", "function": {"name": "get_weather"}}
    call = {"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}

    def said(result: str) -> str:
        messages = [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": result},
        ]
        body = {"model": "default", "tools": [tool], "messages": messages}
        with server.http() as http:
            answer = http.post("/v1/chat/completions", json=body)
        return str(answer.json()["choices"][0]["message"]["content"])

    assert said("rain, 24 degrees") == FROM_RESULT
    assert said("the tool failed") != FROM_RESULT


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("chat.text", ANSWER, ""),
        ("chat.text", "Hello", "gave 'Hello'"),
        ("chat.stream", [ANSWER[:9], ANSWER[9:]], ""),
        ("chat.stream", [ANSWER], "came in 1 parts"),
        ("chat.stream", ["Hello", "!"], "gave 'Hello!'"),
    ],
)
def test_what_a_script_found_is_judged(name, value, reason):
    assert run.judged(name, value) == reason


def test_step_fails_for_another_text_and_for_an_error(tmp_path):
    place = Place("", tmp_path, tmp_path)

    def tried(code: str) -> str:
        return run.tried(Step([sys.executable, "-c", code], "sunny"), place, {})

    assert tried("print('sunny')") == ""
    assert tried("print('rain')") == r"gave 'rain\n'"
    assert tried("raise SystemExit('sunny')").startswith("exit code 1: sunny")


def test_rows_of_other_clients_stay_in_the_table(tmp_path, monkeypatch):
    page = tmp_path / "clients.md"
    page.write_text(f"# Clients\n\n{run.HEAD}| llm | 0.1 | text | works |\n\nMore.\n", encoding="utf-8")
    monkeypatch.setattr(run, "PAGE", page)
    codex = BY_NAME["Codex CLI"]
    line = run.row(codex, {"text": "", "chat.tools": "gave a|b"})
    run.write_table({codex.name: line})

    assert line == f"| Codex CLI | {codex.version} | text; chat: tools | chat.tools: gave a/b |"
    assert page.read_text(encoding="utf-8") == (
        f"# Clients\n\n{run.HEAD}| llm | 0.1 | text | works |\n{line}\n\nMore.\n"
    )


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_page_has_the_client_that_is_tried(client: Client):
    rows = [line.split(" | ") for line in run.PAGE.read_text(encoding="utf-8").splitlines()]

    assert [f"| {client.name}", client.version] in [row[:2] for row in rows]
    assert bool(client.script) != bool(client.steps)
    assert not client.script or (run.SCRIPTS / client.script).is_file()

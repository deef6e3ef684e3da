"""Every command of the documents is run: real programs, a home of its own for each document, top to bottom.

What stands outside is on loopback: the hub, the provider, PostgreSQL. commands.py has the few that are not
run, each with its reason.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
import zipfile
from argparse import _SubParsersAction
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pexpect
import pytest

from shepherd.cli.main import COMMANDS, parser_of
from shepherd.cli.parsing import Parser
from tests import models
from tests.docs.commands import (
    DOCUMENTS,
    INSTEAD,
    NOT_RUN,
    PREPARED,
    ROOT,
    Command,
    commands_of,
    inline_commands,
)
from tests.hub import LoopbackHub
from tests.knowledge import documents
from tests.memory.test_importers import ENTITIES, LLM_NEW, MEM0, TALK, database
from tests.providers.upstream import claude_says, running

ALL = {document: commands_of(document) for document in DOCUMENTS}
WITH_COMMANDS = [document for document, commands in ALL.items() if commands]
# What stands at the prompt until one leaves it.
_TALK = re.compile(
    r"(\w+=(\$\(.*\)|\S+) )?shepherd( --continue| -p claude| tui| --backend cli --api-base \S+)?"
)
_CTRL_Q = "\x11"


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> Path:
    """What the documents' commands read, under the names that they have there."""
    folder = tmp_path_factory.mktemp("files")
    models.scripted(folder / "tiny.gguf", ["Noted:", " thank", " you."])
    models.bert(folder / "model.gguf")
    with zipfile.ZipFile(folder / "chatgpt.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([TALK]))
    for name in ("mem0.json", "out.json"):
        (folder / name).write_text(json.dumps({"results": MEM0}))
    (folder / "memory.jsonl").write_text("\n".join(map(json.dumps, ENTITIES)))
    database(folder / "logs.db", LLM_NEW)
    documents.ra_h(folder / "rah.db")
    (folder / "report.pdf").write_bytes(documents.pdf([["The lease ends in May.", "Pets are allowed."]]))
    (folder / "notes").mkdir()
    (folder / "notes" / "lease.md").write_text("# Lease\n\nThe lease of the house allows pets.\n")
    turns = [
        {"id": str(number), "session": 1, "time": 100, "speaker": "Anna", "text": text}
        for number, text in enumerate(("Do you have a dog?", "Rex is his name.", "It rains."))
    ]
    asked = {"question": "Which dog has Anna?", "evidence": ["1"], "category": "pets"}
    corpora = [{"id": name, "now": 10_000, "turns": turns, "questions": [asked]} for name in ("a", "b")]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpora)))
    (folder / "mine.jsonl").write_text(
        json.dumps({"question": "What does John speak?", "evidence": [1099511627777]})
    )
    return folder


@pytest.fixture(scope="session")
def hub(files) -> Iterator[LoopbackHub]:
    model = (files / "tiny.gguf").read_bytes()
    with LoopbackHub() as served:
        served.add("user/repo", "repo-Q4_K_M.gguf", model)
        served.add("Qwen/Qwen3-4B-GGUF", "Qwen3-4B-Q4_K_M.gguf", model)
        yield served


class Reader:
    """Somebody who follows one document: a home, a folder, the shell's variables, the server begun last."""

    def __init__(self, folder: Path, files: Path, given: dict[str, str]) -> None:
        self.folder = folder / "work"
        home = folder / "home"
        shutil.copytree(files, self.folder)
        shutil.copytree(files / "notes", home / "notes")
        (home / "models").mkdir()
        (home / "models" / "nomic-embed-text-v1.5.Q8_0.gguf").symlink_to(files / "model.gguf")
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SHEPHERD_", "XDG_", "HF_"))
        }
        self.environment = {
            **kept,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "HF_HOME": str(home / "hf"),
            "TERM": "xterm",
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "SHEPHERD_USER_ID": "steve",
            "SHEPHERD_MODEL_TRIAL": "false",
            "SHEPHERD_SERVER_PORT": "0",
            **given,
        }
        self.url = ""
        self._server: subprocess.Popen[str] | None = None

    def follow(self, line: str) -> None:
        """Do what the line says; AssertionError when it fails."""
        line = line.replace("--port 8080", "--port 0")
        if name_and_value := re.fullmatch(r"export (\w+)=(.*)", line):
            self.environment[name_and_value[1]] = name_and_value[2]
        elif line.startswith("shepherd serve"):
            self._serve(line)
        elif _TALK.fullmatch(line):
            self._talk(line.replace("http://127.0.0.1:8000", self.url))
        else:
            self._run(line)

    def close(self) -> None:
        """Ends the server; its log has no complaint."""
        if self._server is None:
            return
        self._server.send_signal(signal.SIGTERM)
        _, log = self._server.communicate(timeout=60)
        assert self._server.returncode == 0, log
        self._server = None

    def _run(self, line: str) -> None:
        said = '{"prompt": "Hello"}\n' if line == "shepherd --json" else ""
        done = subprocess.run(
            ["bash", "-c", line],
            input=said,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr

    def _talk(self, line: str) -> None:
        child = pexpect.spawn(
            "bash", ["-c", line], cwd=self.folder, env=self.environment, dimensions=(30, 100), timeout=60
        )
        try:
            if line.endswith(" tui"):
                child.expect("memory on")
                child.send(_CTRL_Q)
            else:
                child.expect("(?s)Ctrl-D (quits|leaves).*> ")
                child.send("/quit\r")
            child.expect(pexpect.EOF)
        finally:
            child.close(force=True)
        assert child.exitstatus == 0, line

    def _serve(self, line: str) -> None:
        self.close()
        self._server = subprocess.Popen(
            ["bash", "-c", f"exec {line} --json"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        assert self._server.stdout is not None
        first = self._server.stdout.readline()
        assert first, self._server.communicate()[1]
        self.url = json.loads(first)["url"]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}/health", timeout=60) as answer:
            assert answer.status == 200


@pytest.fixture
def reader(tmp_path, files, hub) -> Iterator[Callable[..., Reader]]:
    readers = []

    def new(**given: str) -> Reader:
        readers.append(Reader(tmp_path, files, {"HF_ENDPOINT": hub.endpoint, **given}))
        return readers[-1]

    yield new
    for one in readers:
        one.close()


def steps_of(document: Path) -> list[str]:
    """The lines to run for it."""
    commands = ALL[document]
    shown = [*PREPARED.get(commands[0].document, ()), *(one.text for one in commands)]
    lines = [step for text in shown if text not in NOT_RUN for step in INSTEAD.get(text, (text,))]
    if find_spec("hyperon") is None:  # there is no wheel of it for this Python; tests/metta tell
        lines = [line for line in lines if not line.startswith("shepherd trace metta")]
    return lines


@pytest.mark.parametrize("document", WITH_COMMANDS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_of_a_document_work_from_top_to_bottom(document, reader, request):
    follower = reader()
    with running(claude_says({"text": "ok"})) as upstream:
        for step in steps_of(document):
            line = step.replace("{upstream}", upstream.url)
            if "{postgres}" in line:
                server = request.getfixturevalue("postgres_server")
                line = line.replace("{postgres}", server.url(server.new_schema()))
            follower.follow(line)


def test_tables_have_no_command_that_no_document_has():
    shown = {command.text for commands in ALL.values() for command in commands}

    assert set(NOT_RUN) - shown == set()
    assert set(INSTEAD) - shown == set()
    assert set(PREPARED) - {command.document for commands in ALL.values() for command in commands} == set()


@pytest.mark.parametrize("text", NOT_RUN)
def test_what_a_command_names_that_is_not_run_is_there(text):
    words = Command("", 0, text).words

    if words[0] == "pip":
        metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        extras = ",".join(re.findall(r"shepherd-llm\[([\w,]+)\]", text)).split(",")
        assert all(re.search(rf"^{extra} = \[", metadata, re.MULTILINE) for extra in filter(None, extras))
    elif words[0] == "shepherd":
        assert unknown_of(words) == []
    for word in words:
        if word.startswith(("tools/", "./tools/", "tests/", "bench/", "src/")):
            assert (ROOT / word).exists()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_in_the_text_are_there_with_their_options(document):
    found = {text: unknown_of(text.split()) for text in inline_commands(document)}

    assert {text: unknown for text, unknown in found.items() if unknown} == {}


def unknown_of(words: list[str]) -> list[str]:
    """Subcommands and options of a `shepherd` command that there are not."""
    words = [word.strip(",;") for word in words[1:]]
    if words and words[0] in COMMANDS:
        parser = parser_of(words.pop(0))
    elif words and re.fullmatch(r"[a-z]+", words[0]):
        return words[:1]
    else:
        parser = parser_of("chat")
    while words and (subcommands := _subcommands(parser)) and re.fullmatch(r"[a-z]+", words[0]):
        if words[0] not in subcommands:
            return words[:1]
        parser = subcommands[words.pop(0)]
    options = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return [
        one for one in options if one not in parser._option_string_actions and one not in ("--version", "-V")
    ]


def _subcommands(parser: Parser) -> dict[str, Parser]:
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            return action.choices
    return {}

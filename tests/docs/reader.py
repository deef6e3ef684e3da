"""Somebody who follows a document, line by line, and what the lines name: files, models, a hub."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pexpect

from shepherd.inference.models import resolve
from tests import models, programs, vision_models
from tests.docs.commands import ROOT
from tests.docs.forking_shell import ForkingShell
from tests.hub import LoopbackHub
from tests.knowledge import documents
from tests.memory.test_importers import ENTITIES, LLM_NEW, MEM0, TALK, database

__all__ = ["Reader", "publish", "write_files"]

# What stands at the prompt until one leaves it.
_TALK = re.compile(
    r"(\w+=(\$\(.*\)|\S+) )?"
    r"(shepherd( --continue| -p claude| tui| --backend cli --api-base \S+)?|tools/run( -m \S+)?)"
)
# What is done where the repository is.
_IN_THE_CHECKOUT = re.compile(
    r"(\w+=\S+ )*(\$EDITOR |(python )?(\./)?tools/|\.venv/bin/python -c |"
    r"(\.venv/bin/)?python -m (pytest|cibuildwheel|bench))"
)
# Where one of these is, the line means more to the shell than its words.
_FOR_THE_SHELL = re.compile(r"[|&;<>$`*?\\~#!(){}\[\]\n]")
_CTRL_Q = "\x11"
_SLOWEST_S = 900  # llama.cpp is compiled, on a machine that never did so


def write_files(folder: Path) -> None:
    """What the documents' commands read, under the names that they have there."""
    models.scripted(folder / "tiny.gguf", ["Noted:", " thank", " you."])
    models.bert(folder / "model.gguf")
    shutil.move(vision_models.seeing(folder), folder / "sees.gguf")
    (folder / "cat.png").write_bytes(vision_models.png("red"))
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


def publish(hub: LoopbackHub, files: Path) -> None:
    """The models that the documents name: a tiny one, and ours, which remembers, as the large one."""
    hub.add("user/repo", "repo-Q4_K_M.gguf", (files / "tiny.gguf").read_bytes())
    hub.add("ggml-org/gemma-3-4b-it-GGUF", "gemma-3-4b-it-Q4_K_M.gguf", (files / "sees.gguf").read_bytes())
    projector = (files / "mmproj-seeing.gguf").read_bytes()
    hub.add("ggml-org/gemma-3-4b-it-GGUF", "mmproj-model-f16.gguf", projector)
    hub.add("Qwen/Qwen3-4B-GGUF", "Qwen3-4B-Q4_K_M.gguf", resolve("").read_bytes())


class Reader:
    """Somebody who follows one document: a home, a folder, the shell's variables, the server begun last.

    `binaries` has the environment's programs; `checkout` is where the repository is.
    """

    def __init__(
        self, folder: Path, files: Path, binaries: Path, given: dict[str, str], *, checkout: Path = ROOT
    ) -> None:
        self.folder = folder / "work"
        self.checkout = checkout
        self._forks = binaries == Path(sys.executable).parent
        self._has_told = False  # the name, which a chat of tools/run is told once
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
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "HF_HOME": str(home / "hf"),
            "TERM": "xterm",
            "PYTHONUTF8": "1",  # as what is forked has it
            # `serve --open` opens nothing.
            "BROWSER": "true",
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "SHEPHERD_USER_ID": "steve",
            "SHEPHERD_MODEL_TRIAL": "false",
            "SHEPHERD_SERVER_PORT": "0",
            **given,
        }
        self.url = ""
        self._server: subprocess.Popen[str] | None = None
        self._shell: ForkingShell | None = None
        if self._forks and programs.will_be_forked([sys.executable, "-m", "shepherd"], self.environment):
            self._shell = ForkingShell(folder / "shell", binaries / "shepherd")

    def follow(self, line: str, *, within_s: float = _SLOWEST_S) -> str:
        """Do what the line says; AssertionError when it fails. What it has printed, if it is no dialogue."""
        line = line.replace("--port 8080", "--port 0")
        if name_and_value := re.fullmatch(r"export (\w+)=(.*)", line):
            name, value = name_and_value.groups()
            self.environment[name] = re.sub(r"\$(\w+)", lambda one: self.environment[one[1]], value)
        elif line.startswith("shepherd serve"):
            self._serve(line)
        elif _TALK.fullmatch(line):
            self._talk(line.replace("http://127.0.0.1:8000", self.url), within_s)
        elif line == "createuser --pwprompt shepherd":
            self._choose_password(line)
        else:
            done = self._run(line, within_s)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            return done.stdout
        return ""

    def is_refused(self, line: str, said: str) -> None:
        """Do what the line says: it fails, in words that the regular expression `said` finds."""
        done = self._run(line, _SLOWEST_S)
        told = done.stdout + done.stderr
        assert done.returncode != 0, f"{line} has come to its end\n{told}"
        assert re.search(said, told), f"{line}\n{told}"

    def close(self) -> None:
        """Ends the server; its log has no complaint."""
        if self._shell is not None:
            self._shell.close()
            self._shell = None
        self._end_server()

    def _end_server(self) -> None:
        if self._server is None:
            return
        self._server.send_signal(signal.SIGTERM)
        _, log = self._server.communicate(timeout=60)
        assert self._server.returncode == 0, log
        self._server = None

    def _run(self, line: str, within_s: float) -> subprocess.CompletedProcess[str]:
        said = '{"prompt": "Hello"}\n' if line == "shepherd --json" else ""
        done = programs.run(
            self._command(line),
            input=said,
            cwd=self._place(line),
            env=self._shell_environment(),
            capture_output=True,
            encoding="utf-8",
            timeout=within_s,
            check=False,
        )
        assert "Traceback" not in done.stderr, f"{line}\n{done.stdout}{done.stderr}"
        return done

    def _shell_environment(self) -> dict[str, str]:
        if self._shell is None:
            return self.environment
        return {**self.environment, "PATH": f"{self._shell.folder}{os.pathsep}{self.environment['PATH']}"}

    def _talk(self, line: str, within_s: float) -> None:
        child = self._spawn(line)
        try:
            if line.endswith(" tui"):
                self._expect(child, "memory on", 60)
                child.send(_CTRL_Q)
            else:
                if line == "tools/run":  # shows how it remembers, first
                    child.expect("To start your own chat", timeout=within_s)
                installs = "tools/run" in line
                self._expect(child, "(?s)Ctrl-D (quits|leaves).*> ", within_s if installs else 60)
                if installs:
                    self._remember(child)
                child.send("/quit\r")
            child.expect(pexpect.EOF)
        finally:
            child.close(force=True)
        assert child.exitstatus == 0, line

    def _expect(self, child: pexpect.spawn, pattern: str, within_s: float) -> None:
        """Wait for the pattern; the first start asks for a model before, and keeps the bundled one."""
        if child.expect([r"Number \(Enter: \d+\) ", pattern], timeout=within_s) == 0:
            child.send("\r")
            child.expect(pattern, timeout=within_s)

    def _remember(self, child: pexpect.spawn) -> None:
        # What was told once is known to every later process, whatever model it answers with.
        if not self._has_told:
            self._has_told = True
            child.send("My name is Anna.\r")
            child.expect("Anna.*Anna.*> ")
        child.send("What is my name?\r")
        child.expect("my name\\?.*Anna.*> ")

    def _choose_password(self, line: str) -> None:
        child = self._spawn(line)
        try:
            for question in ("Enter password", "Enter it again"):
                child.expect(question)
                child.sendline(self.environment["PGPASSWORD"])
            child.expect(pexpect.EOF)
        finally:
            child.close(force=True)
        assert child.exitstatus == 0, line

    def _spawn(self, line: str) -> pexpect.spawn:
        program, *arguments = self._command(line)
        return programs.spawn(
            program,
            arguments,
            cwd=self._place(line),
            env=self.environment,
            dimensions=(30, 100),
            timeout=60,
            encoding="utf-8",
        )

    def _command(self, line: str) -> list[str]:
        """Return what runs the line: the shell, or the program that it names, if the shell adds nothing."""
        words = [] if _FOR_THE_SHELL.search(line) else shlex.split(line)
        if self._forks and words[:1] == ["shepherd"]:
            return [sys.executable, "-m", *words]
        return ["bash", "-c", line]

    def _place(self, line: str) -> Path:
        return self.checkout if _IN_THE_CHECKOUT.match(line) else self.folder

    def _serve(self, line: str) -> None:
        self._end_server()
        self._server = programs.Popen(
            self._command(f"{line} --json"),
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

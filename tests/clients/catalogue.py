"""The clients that are tried, with their versions, and how programs among them are set up."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.clients.model import ANSWER, EDITED, FROM_RESULT, NOTE, RESULT

__all__ = ["CLIENTS", "Client", "Place", "Step"]

QUESTION = f"What does {NOTE} say about the weather?"
HELLO = "Hello"


@dataclass(frozen=True)
class Place:
    """Where a client runs: an address of the server, a folder with its installation, and one to work in."""

    server: str
    installed: Path
    folder: Path

    def write(self, name: str, text: str) -> None:
        """Write a file in the folder to work in."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Step:
    """A command line, and a text that it has to print, or to write into `file`."""

    command: list[str]
    expected: str
    file: str = ""


# What is tried, and variables of the environment.
Steps = tuple[dict[str, Step], dict[str, str]]


@dataclass(frozen=True)
class Client:
    """A client: packages with versions, and a script that tries it, or the steps of a program.

    `kind` is "python" or "node". The first package is the one that the table names.
    """

    name: str
    kind: str
    packages: Mapping[str, str]
    script: str = ""
    steps: Callable[[Place], Steps] | None = None

    @property
    def version(self) -> str:
        """The version of the client itself."""
        return next(iter(self.packages.values()))


def codex(place: Place) -> Steps:
    """Codex takes its providers from a file of its home."""
    place.write(
        ".codex/config.toml",
        f"""\
model = "default"
model_provider = "shepherd"

[model_providers.shepherd]
name = "Shepherd"
base_url = "{place.server}/v1"
wire_api = "responses"
""",
    )
    program = str(place.installed / "node_modules/.bin/codex")
    ask = [program, "exec", "--skip-git-repo-check", "--color", "never"]
    return {"text": Step([*ask, HELLO], ANSWER), "tools": Step([*ask, QUESTION], FROM_RESULT)}, {}


def claude_code(place: Place) -> Steps:
    """Claude Code takes the address from its environment."""
    program = str(place.installed / "node_modules/@anthropic-ai/claude-code-linux-x64/claude")
    streamed = ["--output-format", "stream-json", "--verbose", "--include-partial-messages"]
    steps = {
        "text": Step([program, "-p", HELLO], ANSWER),
        "stream": Step([program, "-p", HELLO, *streamed], '"type":"text_delta","text":" '),
        "tools": Step([program, "-p", QUESTION, "--allowedTools", "Bash"], FROM_RESULT),
    }
    variables = {
        "ANTHROPIC_BASE_URL": place.server,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return steps, variables


def opencode(place: Place) -> Steps:
    """Opencode takes its providers from a file of the folder."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Shepherd",
        "options": {"baseURL": f"{place.server}/v1"},
        "models": {"default": {"name": "Shepherd"}},
    }
    place.write(
        "opencode.json",
        json.dumps(
            {
                "$schema": "https://opencode.ai/config.json",
                "model": "shepherd/default",
                "provider": {"shepherd": provider},
            }
        ),
    )
    program = str(place.installed / "node_modules/opencode-linux-x64/bin/opencode")
    steps = {
        "text": Step([program, "run", HELLO], ANSWER),
        "tools": Step([program, "run", QUESTION], FROM_RESULT),
    }
    return steps, {}


def aider(place: Place) -> Steps:
    """Aider edits a file by an answer in its own format, without tools."""
    place.write("note.py", "")
    program = str(place.installed / "bin/aider")
    quiet = ("--no-git", "--yes-always", "--no-check-update", "--no-show-model-warnings", "--no-fancy-input")
    command = [
        *(program, "--model", "openai/default", "--edit-format", "diff", "--analytics-disable", *quiet),
        *("--message", "Print it.", "note.py"),
    ]
    variables = {"OPENAI_API_BASE": f"{place.server}/v1", "OPENAI_API_KEY": "none"}
    return {"edit": Step(command, EDITED, "note.py")}, variables


def llm(place: Place) -> Steps:
    """`llm` takes its models from a file of its folder."""
    place.write(
        "llm/extra-openai-models.yaml",
        f"""\
- model_id: shepherd
  model_name: default
  api_base: "{place.server}/v1"
  supports_tools: true
""",
    )
    program = str(place.installed / "bin/llm")
    function = f"def get_weather(city: str) -> str:\n    return {RESULT!r} if city == 'Paris' else ''"
    steps = {
        "text": Step([program, "-m", "shepherd", "--no-stream", HELLO], ANSWER),
        "stream": Step([program, "-m", "shepherd", HELLO], ANSWER),
        "tools": Step([program, "-m", "shepherd", "--functions", function, QUESTION], FROM_RESULT),
    }
    return steps, {"LLM_USER_PATH": str(place.folder / "llm"), "OPENAI_API_KEY": "none"}


def inspector(place: Place) -> Steps:
    """The inspector of MCP starts `shepherd mcp` itself, each time anew."""
    program = str(place.installed / "node_modules/.bin/mcp-inspector")
    call = [program, "--cli", str(Path(sys.executable).with_name("shepherd")), "mcp", "--method"]
    store = ["--tool-name", "store_memory", "--tool-arg", "question=Who is Rex?", "answer=A dog"]
    find = ["--tool-name", "search_memory", "--tool-arg", "query=Rex"]
    steps = {
        "list": Step([*call, "tools/list"], "search_memory"),
        "store": Step([*call, "tools/call", *store], '"stored": true'),
        "find": Step([*call, "tools/call", *find], "A dog"),
    }
    return steps, {}


CLIENTS = (
    Client("openai (Python)", "python", {"openai": "3.57.0"}, "openai_python.py"),
    Client("openai (Node)", "node", {"openai": "7.59.0"}, "openai_node.mjs"),
    Client("anthropic (Python)", "python", {"anthropic": "2.14.0"}, "anthropic_python.py"),
    Client("@anthropic-ai/sdk (Node)", "node", {"@anthropic-ai/sdk": "1.14.0"}, "anthropic_node.mjs"),
    Client("ollama (Python)", "python", {"ollama": "0.6.3"}, "ollama_python.py"),
    Client("ollama (Node)", "node", {"ollama": "0.6.4"}, "ollama_node.mjs"),
    Client("litellm", "python", {"litellm": "1.110.2"}, "litellm_python.py"),
    Client("langchain-openai", "python", {"langchain-openai": "1.7.4"}, "langchain_python.py"),
    Client("llama-index", "python", {"llama-index-llms-openai-like": "0.8.1"}, "llama_index_python.py"),
    Client("instructor", "python", {"instructor": "1.17.0"}, "instructor_python.py"),
    Client("pydantic-ai", "python", {"pydantic-ai-slim[openai]": "2.68.0"}, "pydantic_ai_python.py"),
    Client(
        "Vercel's ai",
        "node",
        {
            "ai": "7.0.173",
            "@ai-sdk/openai": "4.0.118",
            "@ai-sdk/openai-compatible": "3.0.92",
            "@ai-sdk/anthropic": "4.0.105",
            "ollama-ai-provider-v2": "4.0.1",
            "zod": "4.6.7",
        },
        "ai_sdk.mjs",
    ),
    Client("llm", "python", {"llm": "0.36"}, steps=llm),
    Client("Codex CLI", "node", {"@openai/codex": "0.171.0"}, steps=codex),
    Client("Claude Code", "node", {"@anthropic-ai/claude-code": "2.1.332"}, steps=claude_code),
    Client("opencode", "node", {"opencode-ai": "1.18.33"}, steps=opencode),
    Client("aider", "python", {"aider-chat": "0.86.2"}, steps=aider),
    Client("MCP inspector", "node", {"@modelcontextprotocol/inspector": "0.15.0"}, steps=inspector),
)

"""The commands that the documents show; tables.py says what is run for each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "DOCUMENTS",
    "ROOT",
    "Command",
    "commands_of",
    "inline_commands",
    "inline_extras",
    "inline_programs",
]

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    path
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "bench" / "README.md"])
    if "```{include}" not in path.read_text(encoding="utf-8")  # the same text as another one
]
# A line of a code block that begins with one of these is a command, after assignments to variables.
_PROGRAMS = frozenset(
    [
        *(
            "$EDITOR",
            "cat",
            "cd",
            "cp",
            "echo",
            "export",
            "git",
            "mkdir",
            "mv",
            "rm",
            "scp",
            "ssh",
            "sudo",
            "tar",
        ),
        *("apt", "apt-get", "brew", "curl", "docker", "pip", "pipx", "podman", "uv", "uvx", "wget"),
        *("cmake", "ctest", "just", "make", "node", "npx", "python", "python3", "tmux", "nvidia-smi"),
        *("caddy", "createdb", "createuser", "nginx", "pg_dump", "pg_restore", "psql", "systemctl"),
        *("llm", "ollama", "shepherd"),
    ]
)
_ASSIGNMENT = re.compile(r"[A-Z_]+=\S*")
_PATH = re.compile(r"(\./|tools/|\.ci/|\.venv/)\S")
_IN_A_BLOCK = re.compile(r" {4}\S")  # what stands deeper is a listing's
_FENCE = re.compile(r"\s*```(\S*)")
_SHELLS = frozenset(["", "bash", "console", "sh", "shell"])


@dataclass(frozen=True)
class Command:
    """One line of one document, without the explanation that stands behind it."""

    document: str
    line: int
    text: str


def commands_of(document: Path) -> list[Command]:
    """In their order."""
    name = str(document.relative_to(ROOT))
    return [Command(name, number, text) for number, text in _lines_of_shells(document) if _is_command(text)]


def inline_commands(document: Path) -> list[str]:
    """What the text calls `shepherd …`, in backticks."""
    return re.findall(r"`(shepherd(?: [^`]+)?)`", document.read_text(encoding="utf-8"))


def inline_programs(document: Path) -> list[str]:
    """What of the repository the text runs or names in backticks: its tools, and recipes of the justfile."""
    texts = re.findall(r"`([^`\n]+)`", document.read_text(encoding="utf-8"))
    return [text for text in texts if re.match(r"(\w+=\S+ )*((python )?(\./)?(tools/|\.ci/)|just )\w", text)]


def inline_extras(document: Path) -> set[str]:
    """Which extras the text tells to install, in backticks."""
    found = re.findall(r"`pip install 'shepherd-llm\[([\w,]+)\]'`", document.read_text(encoding="utf-8"))
    return {extra for extras in found for extra in extras.split(",")}


def _lines_of_shells(document: Path) -> Iterator[tuple[int, str]]:
    fence: str | None = None
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        if mark := _FENCE.match(line):
            fence = mark[1] if fence is None else None
        elif fence in _SHELLS or (fence is None and _IN_A_BLOCK.match(line)):
            # Two spaces or more end a command: behind them stands what it does.
            yield number, re.split(r"\s{2,}", line.strip().removeprefix("$ "))[0]


def _is_command(text: str) -> bool:
    words = text.split()
    while words and _ASSIGNMENT.fullmatch(words[0]):
        del words[0]
    return bool(words) and (words[0] in _PROGRAMS or _PATH.match(words[0]) is not None)

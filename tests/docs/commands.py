"""The commands that the documents show, and what a test does with each: run it, unless a table says else."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DOCUMENTS", "INSTEAD", "NOT_RUN", "PREPARED", "ROOT", "Command", "commands_of", "inline_commands"]

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    path
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "bench" / "README.md"])
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
        *("caddy", "createdb", "createuser", "nginx", "pg_dump", "psql", "systemctl"),
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

    @property
    def words(self) -> list[str]:
        """As a shell takes it apart, without assignments to variables, up to a pipe."""
        words = shlex.split(self.text, comments=True)
        while words and _ASSIGNMENT.fullmatch(words[0]):
            del words[0]
        return words[: words.index("|")] if "|" in words else words


def commands_of(document: Path) -> list[Command]:
    """In their order."""
    name = str(document.relative_to(ROOT))
    return [Command(name, number, text) for number, text in _lines_of_shells(document) if _is_command(text)]


def inline_commands(document: Path) -> list[str]:
    """What the text calls `shepherd …`, in backticks."""
    return re.findall(r"`(shepherd(?: [^`]+)?)`", document.read_text(encoding="utf-8"))


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


_BUILDS = (
    "makes a virtual environment and compiles llama.cpp, minutes; the gate builds and installs the package"
)
_INSTALLS = "takes a package from the index"
_TESTS = "runs this test again, and all others"
_BENCHES = "a bench; its figures are no matter of tests"
# Command: why it is not run. What can be checked of it without that is: options, files, extras.
NOT_RUN = {
    "tools/run": _BUILDS,
    "tools/run -m your-model.gguf": _BUILDS,
    "tools/run -m hf:Qwen/Qwen3-4B-GGUF:Q4_K_M": _BUILDS,
    'CMAKE_ARGS="-DGGML_CUDA=on" tools/run -m model.gguf': _BUILDS,
    "tools/wheel": _BUILDS,
    "python -m cibuildwheel": "builds wheels in containers",
    "tools/test": _TESTS,
    "./tools/test": _TESTS,
    "./tools/test tests/native/test_text.py -k stop_words": _TESTS,
    "$EDITOR src/_native/text.pyx": "opens an editor, for a person",
    "pip install 'shepherd-llm[tui]'": _INSTALLS,
    "pip install 'shepherd-llm[anthropic]'": _INSTALLS,
    "pip install 'shepherd-llm[server]'": _INSTALLS,
    "pip install 'shepherd-llm[postgres]'": _INSTALLS,
    "pip install 'shepherd-llm[metta]'": _INSTALLS,
    "pip install 'shepherd-llm[langgraph,langchain]'": _INSTALLS,
    "pip install 'psycopg[binary]'": _INSTALLS,
    'CMAKE_ARGS="-DGGML_CUDA=on" pip install --force-reinstall --no-binary llama-cpp-python'
    ' "llama-cpp-python>=0.3.36,<0.4"': "needs CUDA's compiler",
    "python tools/gpu/pack.py gpu-kit.tar.xz --wheels 3.12": "fetches 60 MB of wheels",
    "tools/gpu/run gpu-kit.tar.xz": "compiles for a GPU",
    "python -m pytest bench --benchmark-only -s": _BENCHES,
    "python -m pytest bench/test_recall.py --benchmark-only -s": _BENCHES,
    "createuser --pwprompt shepherd": "asks for a password, as the superuser of the system's server",
    "createdb --owner shepherd --encoding=UTF8 memory": "the tests' server has its database already",
    "SHEPHERD_API_KEY=shepherd_… shepherd --backend cli --api-base https://my.server": "a server elsewhere",
}

_CLAUDE = "shepherd provider add claude anthropic --model claude-sonnet-4-5"
_IMPORTED = ("shepherd memory import memory.jsonl",)
_TOLD = ("shepherd memory add Which? Rex", "shepherd facts set name Steve")
_TALK = (
    r"""printf '{"prompt": "My dog is called Rex."}\n%.0s' 1 2 3 4 | shepherd --json --max-tokens 8""",
    r"""printf '{"prompt": "What is my dog called?"}\n' | shepherd --json --continue --max-tokens 8""",
)
# Document: what has been done before it begins.
PREPARED = {
    "docs/memory.md": ("cp memory.jsonl FILE",),
    "docs/migration.md": _TOLD,
    "docs/server.md": ("export ANTHROPIC_API_KEY=sk-ant-1234567890", _CLAUDE),
    "docs/trace.md": _TALK,
}
_MANY_MEMORIES = (
    *_TOLD,
    "shepherd memory list",
    "shepherd memory show 1099511627777",
    "shepherd memory edit 1099511627777 --answer Bella",
    "shepherd memory pin 1099511627777",
    "shepherd memory export out-again.jsonl",
    "shepherd memory stats",
    "shepherd memory jobs",
    "shepherd memory check",
    "shepherd memory backup copy.db",
    "shepherd memory audit",
    "shepherd memory claim",
    "shepherd memory forget 1099511627777",
)
# Command: what is run in its place, where it shows several at once, names something of the reader's, or takes
# minutes. `{postgres}` and `{upstream}` are the tests' servers.
INSTEAD = {
    "shepherd memory list | show | edit | pin | forget | export | stats | jobs | check | backup | audit"
    " | claim": _MANY_MEMORIES,
    "shepherd knowledge list | show | edit | forget | unlink | hubs | dimensions": (
        "shepherd knowledge list",
        "shepherd knowledge show 1",
        "shepherd knowledge edit 1 --title Leases",
        "shepherd knowledge unlink 1",
        "shepherd knowledge hubs",
        "shepherd knowledge dimensions",
        "shepherd knowledge forget 3",
    ),
    "shepherd completion bash | zsh | fish": tuple(
        f"shepherd completion {shell}" for shell in ("bash", "zsh", "fish")
    ),
    "shepherd bench": ("shepherd bench --memories 300",),
    "shepherd bench --memories 100000 --users 1": ("shepherd bench --memories 300 --users 1",),
    "shepherd demo": ("shepherd demo --fast",),
    _CLAUDE: (_CLAUDE, "shepherd provider set claude base_url {upstream}"),
    'shepherd context build "What do we know about the hills?" --max-tokens 2000 | other-program': (
        'shepherd context build "What do we know about the hills?" --max-tokens 2000 | cat',
    ),
    "shepherd apikey revoke 3f9c01ab": (
        'shepherd apikey revoke $(shepherd apikey list --json | grep -o \'"id": *"[0-9a-f]*"\' | head -1'
        " | cut -d'\"' -f4)",
    ),
    "shepherd knowledge import ~/notes report.pdf https://example.com/article": (
        "shepherd knowledge import ~/notes report.pdf",
    ),
    "shepherd knowledge focus 4523 4520": ("shepherd knowledge focus 1 2",),
    "shepherd memory export FILE": ("shepherd memory export exported.jsonl",),
    "shepherd memory backup FILE": ("shepherd memory backup backup.db",),
    "shepherd model rm hf:user/repo:Q4_K_M": ("shepherd model rm --yes hf:user/repo:Q4_K_M",),
    "shepherd eval export.jsonl --questions mine.jsonl": (
        *_IMPORTED,
        "shepherd memory export export.jsonl",
        "shepherd eval export.jsonl --questions mine.jsonl",
    ),
    'shepherd config set memory_database "postgresql://localhost/shepherd"': (
        "shepherd config set memory_database '{postgres}'",
    ),
    "shepherd config set memory_database 'postgresql://shepherd@server/memory?schema=shepherd'": (
        "shepherd config set memory_database '{postgres}'",
    ),
    # In access.md there are keys by then, and the server wants one.
    "shepherd --backend cli --api-base http://127.0.0.1:8000": (
        "SHEPHERD_API_KEY=$(shepherd apikey create --owner steve)"
        " shepherd --backend cli --api-base http://127.0.0.1:8000",
    ),
    "export ANTHROPIC_API_KEY=…": ("export ANTHROPIC_API_KEY=sk-ant-1234567890",),
}

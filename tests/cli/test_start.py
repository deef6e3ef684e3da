"""What stands between the command and the prompt: nothing that a conversation does not begin with."""

from __future__ import annotations

import sys

import pexpect
import pytest

# Name each module of the process when it ends; BEGUN says that it was to compile the patterns of turns.
_PROGRAM = """\
import atexit, pathlib, sys
from shepherd.cli.main import main
from shepherd.turn import warm_up
warm_up.begin = lambda: sys.modules.setdefault("BEGUN", sys)
names = pathlib.Path(sys.argv[1])
atexit.register(lambda: names.write_text("\\n".join(sys.modules)))
sys.exit(main(sys.argv[2:]))
"""
# Clients, servers, arrays, parsers of markup: hundreds of milliseconds, for what comes later or never.
HEAVY = {
    *(
        "llama_cpp.llama",
        "numpy",
        "huggingface_hub",
        "pypdf",
        "http.client",
        "urllib.request",
        "email.message",
    ),
    *("httpx", "httpx2", "requests", "aiohttp", "openai", "anthropic", "fastapi", "uvicorn", "pydantic"),
    *("psycopg", "keyring", "sqlite3", "importlib.metadata", "zipfile", "unittest", "email.message"),
    *("mcp", "anyio", "shepherd.mcp", "shepherd.server"),
    *(
        "shepherd.entities",
        "shepherd.secret_detection",
        "shepherd.providers.remote",
        "shepherd.memory.importers",
    ),
    *("shepherd.memory.postgres", "shepherd.memory.transfer", "shepherd.memory.vectors"),
}
# With the prompt of one line; the whole screen draws with rich and reads Markdown.
HEAVY_AT_THE_PROMPT = {*HEAVY, "rich", "pygments", "textual", "markdown_it"}


def modules_of(home, arguments: list[str], shown: str, end: str) -> set[str]:
    names = home.path / "modules"
    home.has_asked()
    child = pexpect.spawn(
        sys.executable,
        ["-c", _PROGRAM, str(names), *arguments],
        env={**home.environment, "PROMPT_TOOLKIT_NO_CPR": "1"},
        dimensions=(30, 100),
        encoding="utf-8",
        timeout=60,
    )
    try:
        child.expect(shown)
        child.send(end)
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)
    return set(names.read_text().split("\n"))


def test_prompt_stands_before_anything_heavy_is_loaded(home):
    loaded = modules_of(home, ["chat"], "(?s)Ctrl-D quits.*> ", "\x04")

    assert "prompt_toolkit" in loaded
    assert {"shepherd.inference.engine", "BEGUN"} <= loaded
    assert loaded & HEAVY_AT_THE_PROMPT == set()


def test_whole_screen_stands_before_anything_heavy_is_loaded(home):
    loaded = modules_of(home, ["tui"], "memory on", "\x11")

    assert "textual" in loaded
    assert {"shepherd.inference.engine", "BEGUN"} <= loaded
    assert loaded & (HEAVY - {"email.message", "importlib.metadata"}) == set()


@pytest.mark.parametrize("first", ["import llama_cpp", "llama()"])
def test_package_llama_cpp_is_whole_for_those_who_import_it(first):
    """The engine loads one module of it; a program that uses the package as well gets all of it."""
    code = (
        "from shepherd.inference.binding import llama, version\n"
        f"import sys; {first}; ours = llama(); import llama_cpp, llama_cpp.llama_cpp\n"
        "assert llama_cpp.Llama and llama_cpp.llama_cpp.llama_decode\n"
        "assert version() == llama_cpp.__version__, version()\n"
        "print(ours.__name__)"
    )

    shown = pexpect.run(f'{sys.executable} -W ignore -c "{code}"', timeout=60).decode().strip()

    assert shown == "llama_cpp.llama_cpp"

"""Importing Shepherd loads nothing heavy: no model library, no arrays, no frontend."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    *("llama_cpp", "numpy", "jinja2", "pyroaring", "rich", "prompt_toolkit", "textual"),
    *(
        "fastapi",
        "starlette",
        "uvicorn",
        "flask",
        "aiohttp",
        "httpx",
        "requests",
        "mcp",
        "psycopg",
        "sqlite3",
        "openai",
        "anthropic",
        "keyring",
    ),
}


def modules_after(statement: str) -> set[str]:
    return {name.split(".")[0] for name in all_modules_after(statement)}


def all_modules_after(statement: str) -> list[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    "statement",
    ["import shepherd", "import shepherd.errors, shepherd.types, shepherd.paths, shepherd.config"],
    ids=["package", "ground floor"],
)
def test_import_loads_nothing_heavy(statement: str) -> None:
    assert modules_after(statement) & HEAVY == set()


def test_memory_works_without_a_model_library() -> None:
    loaded = modules_after("import shepherd; shepherd.Memory")

    assert loaded & (HEAVY - {"numpy", "pyroaring"}) == set()


def test_providers_load_no_client_before_a_request() -> None:
    loaded = modules_after("import shepherd.providers, shepherd.cli.provider")

    assert loaded & (HEAVY - {"numpy"}) == set()


def test_native_modules_load_no_model_library_before_an_engine_is_made() -> None:
    loaded = modules_after("from shepherd._native import rank, store, text, tokens")

    assert loaded & HEAVY == set()


def test_opening_a_memory_loads_nothing_of_conversations(tmp_path: Path) -> None:
    loaded = all_modules_after(
        "from shepherd.config import Config; from shepherd.memory_factory import open_memory;"
        f"open_memory(Config(memory_database={str(tmp_path / 'memory.db')!r})).close()"
    )

    of_conversations = ("extraction", "factory", "inference", "prompt", "turn")
    assert not set(loaded) & {f"shepherd.{name}" for name in of_conversations}

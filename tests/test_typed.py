"""A user's program is checked by a strict mypy against the package's own types: py.typed keeps its word."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import shepherd

SOURCE = Path(shepherd.__file__).parent

# What each expression is, and which mistakes are found: with --strict, an ignore that ignores nothing is one.
PROGRAM = """\
from __future__ import annotations

import asyncio

from typing_extensions import assert_type

from shepherd import Assistant, AsyncAssistant, AsyncMemory, Memory
from shepherd.assistant import Delta, Event, Finished, Recalled
from shepherd.errors import ShepherdError, StoreError, UsageError
from shepherd.inference import Engine, EngineSettings
from shepherd.inference.models import resolve
from shepherd.knowledge import ChunkResult, Knowledge, Node
from shepherd.types import Fact, Injection, MemoryRecord, SearchResult


def remember(memory: Memory) -> str:
    assert_type(memory.store_memory("Which IDE?", "Helix", timestamp=1.0), "int | None")
    assert_type(memory.search("which ide?", 3, user_id="steve"), list[SearchResult])
    assert_type(memory.recall("Which IDE?"), Injection)
    assert_type(memory.list_memories(limit=3), list[MemoryRecord])
    assert_type(memory.get_all_facts(), list[Fact])
    memory.set_fact("name", 7)  # type: ignore[arg-type]
    memory.search("x", relevance=1)  # type: ignore[call-arg]
    memory.serch("x")  # type: ignore[attr-defined]
    return memory.enrich("Which IDE do I use?")


def chat(engine: Engine, memory: Memory | None) -> str:
    assistant = Assistant(engine, memory, user_id="steve")
    for event in assistant.ask("Hello"):
        assert_type(event, Event)
        if isinstance(event, Recalled):
            assert_type(event.injection, Injection)
        elif isinstance(event, Delta):
            assert_type(event.text, str)
        elif isinstance(event, Finished):
            assert_type(event.stats.reused_tokens, int)
            return event.answer
    return ""


async def chat_awaited(assistant: Assistant, memory: Memory) -> None:
    remembered = AsyncMemory(memory)
    assert_type(await remembered.search("ide"), list[SearchResult])
    assert_type(await asyncio.create_task(remembered.recall("ide")), Injection)
    await remembered.set_fact("name", 7)  # type: ignore[arg-type]
    async for event in AsyncAssistant(assistant).ask("Hello"):
        assert_type(event, Event)


def know(memory: Memory) -> list[ChunkResult]:
    knowledge = Knowledge(memory.transactions, "steve")
    assert_type(knowledge.add_node("Foxes", dimensions=["animals"]), Node)
    return knowledge.search("foxes")


def main() -> None:
    try:
        with Memory("memory.db", user_id="steve") as memory:
            with Engine(resolve(""), settings=EngineSettings(slots=2)) as engine:
                print(remember(memory), chat(engine, memory), know(memory))
                asyncio.run(chat_awaited(Assistant(engine, memory), memory))
    except (UsageError, StoreError) as error:
        assert_type(error.hint, str)
    except ShepherdError as error:
        print(error.exit_code)
"""


def test_package_says_that_it_is_typed():
    assert (SOURCE / "py.typed").is_file()


def test_strict_mypy_takes_a_program_and_finds_its_mistakes(tmp_path, pytestconfig):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    # What it knows of the modules that have not changed since the last run. Some runs of pytest keep nothing.
    cache = getattr(pytestconfig, "cache", None)
    folder = cache.mkdir("mypy") if cache else tmp_path / "cache"
    options = ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={folder}"]
    # An installed package is found, and mypy wants no site-packages in its path; an editable one is not.
    is_installed = Path(sysconfig.get_path("platlib")) in SOURCE.parents

    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(program)],
        env=os.environ | {"MYPYPATH": "" if is_installed else str(SOURCE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (checked.stderr, checked.stdout) == ("", "Success: no issues found in 1 source file\n")
    assert checked.returncode == 0

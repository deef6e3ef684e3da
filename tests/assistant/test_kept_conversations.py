"""Which conversations are kept on disk, and what removes them again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shepherd import Assistant, Memory, kept_files
from shepherd.cli.main import main
from shepherd.config import Config
from shepherd.inference import Engine, load_check
from shepherd.inference.state_file import read_front
from shepherd.knowledge import Knowledge
from shepherd.types import Message
from tests.inference.engines import exact_settings

CONFIG = Config(max_tokens=4, seed=1)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CACHE", "CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", user_id="steve") as opened:
        yield opened


def engine_of(model: Path) -> Engine:
    load_check.vouch(model)  # else each test, with its own cache, would load it in a child process first
    return Engine(model, settings=replace(exact_settings(n_ctx=2048), cache_disk_bytes=1 << 30))


def talk(model: Path, memory: Memory, *said: str, private: tuple[str, ...] = ()) -> str:
    """Say all of it in one conversation, and return its id."""
    with engine_of(model) as engine, Assistant(engine, memory, config=CONFIG, user_id="steve") as assistant:
        for text in said:
            assistant.private = text in private
            for _ in assistant.ask(text):
                pass
        return assistant.session_id or ""


def kept(model: Path) -> list[str]:
    """Return the texts of all files."""
    texts = []
    with engine_of(model) as engine:
        for file in kept_files.all_files(kept_files.folder()):
            with open(file.path, "rb") as opened:
                ids = read_front(opened, file.size_bytes).ids
            texts.append(engine.detokenize(ids).decode("utf-8", "replace"))
    return texts


def test_no_file_has_private_words(endless_model: Path, memory: Memory) -> None:
    talk(endless_model, memory, "a tree", "a secret", "a house", private=("a secret",))
    assert not any("secret" in text for text in kept(endless_model))

    talk(endless_model, memory, "a tree", "a house")
    assert any("a house" in text for text in kept(endless_model))


def keep_one(memory: Memory, user: str = "steve") -> Path:
    """Keep a file of the user in place of an engine, and return its path."""
    owner = memory.files_owner(user)
    path = kept_files.put(kept_files.folder(), owner, lambda file: file.write(b"x"), asked_at=time.time())
    assert path is not None
    return path


def test_an_audit_does_not_take_the_numbers_of_tokens_for_no_words(
    endless_model: Path, memory: Memory, capsys: pytest.CaptureFixture[str]
) -> None:
    session = talk(endless_model, memory, "my cat is Quixlemont")
    assert any("Quixlemont" in text for text in kept(endless_model))
    arguments = ["memory", "audit", "--canary", "Quixlemont", "--memory-db", memory.path]

    def audit() -> tuple[int, str]:
        code = main(arguments)
        return code, " ".join(capsys.readouterr().err.split())

    code, said = audit()
    own = kept_files.folder() / memory.files_owner("steve")
    assert (code, f"not searched: {own}: 1 kept conversation as numbers" in said) == (1, True)
    memory.clear_session(session)
    for one in memory.list_memories():
        memory.delete_memory(one.id)
    code, said = audit()
    assert (code, "the word is in none of" in said) == (0, True), said


@pytest.mark.parametrize("what", ["conversation", "memory", "turn", "message", "document", "fact"])
def test_what_is_deleted_is_in_no_file(what: str, memory: Memory) -> None:
    session = memory.start_session(model="tiny")
    for role in ("user", "assistant"):
        memory.append_message(session, Message(role, f"the {role}'s"))  # type: ignore[arg-type]
    knowledge = Knowledge(memory.transactions, "steve")
    node = knowledge.add_node("a title", source_text="some text")
    memory.set_fact("pet", "Tom")
    memory_id = memory.store_memory("the pet", "a cat")
    assert memory_id is not None
    path, of_anna = keep_one(memory), keep_one(memory, "anna")

    if what == "conversation":
        memory.clear_session(session)
    elif what == "memory":
        memory.delete_memory(memory_id, "anna")
        assert path.exists()
        memory.delete_memory(memory_id)
    elif what == "turn":
        memory.delete_last_turn(session)
    elif what == "message":
        memory.delete_messages(session, 1)
    elif what == "document":
        knowledge.delete_node(node.id)
    else:
        memory.clear_fact("pet", with_history=True)

    assert not path.exists()
    assert of_anna.exists()


def test_a_turn_that_is_taken_back_costs_no_older_conversation(memory: Memory) -> None:
    session = memory.start_session(model="tiny")
    memory.append_message(session, Message("user", "hello"))
    path = keep_one(memory)
    os.utime(path, (1000, 1000))

    memory.delete_last_turn(session)

    assert path.exists()


def test_users_and_databases_have_folders_of_their_own(tmp_path: Path, memory: Memory) -> None:
    with Memory(tmp_path / "other.db", user_id="steve") as other:
        owners = {memory.files_owner(), memory.files_owner("anna"), other.files_owner()}

    assert len(owners) == 3
    assert memory.files_owner("unknown") == memory.files_owner("") == ""

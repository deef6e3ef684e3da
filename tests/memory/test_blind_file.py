"""A blind memory in a file: never readable, from the first word on, and otherwise as any other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.commands.history_place import history_place
from shepherd.config import Config
from shepherd.encryption.key_file import read_entries
from shepherd.errors import StoreError, StoreKeyError, StoreMissingError
from shepherd.memory import Memory
from shepherd.memory.database import is_encrypted
from shepherd.memory_factory import unlock_memory
from tests.memory.blind import forget_keys, known_key
from tests.memory.canaries import USER, Canaries
from tests.memory.histories import NOW, found


@pytest.fixture(autouse=True)
def key(tmp_path: Path) -> Iterator[Path]:
    with known_key(tmp_path) as file:
        yield file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "share" / "memory.db"


def test_a_new_file_never_has_a_word_and_recall_finds_the_same(file: Path, key: Path, tmp_path: Path) -> None:
    results = []
    for path, blind in ((file, True), (tmp_path / "readable" / "memory.db", False)):
        with Memory(path, user_id=USER, blind=blind, clock=lambda: NOW) as memory:
            canaries = Canaries(memory, seed=919)
            canaries.store_memories()
            canaries.store_facts()
            canaries.store_conversation()
            canaries.store_knowledge()
            results.append([found(memory, word, USER) for word in canaries.given])
            everything = b"".join(one.read_bytes() for one in path.parent.iterdir() if one.is_file())
            seen = [word for word in canaries.given if word.encode() in everything]
            assert (seen == []) is blind
    assert results[0] == results[1]
    assert any(hits[1] for hits in results[0])

    forget_keys()
    key.unlink()
    with pytest.raises(StoreKeyError, match="its key is missing"):
        Memory(file, blind=True)


def test_the_key_file_says_where_the_key_is(file: Path, key: Path) -> None:
    Memory(file, blind=True).close()
    [entry] = read_entries(str(file)).values()

    assert (entry.source, entry.place) == ("file", str(key))
    forget_keys()
    # Found by that entry, without a setting.
    with Memory(file, blind=True) as memory:
        memory.set_fact("city", "Lisbon")


def test_an_unencrypted_file_is_refused_and_stays_as_it_is(file: Path) -> None:
    with Memory(file) as memory:
        memory.set_fact("city", "Lisbon")
    before = file.read_bytes()

    with pytest.raises(StoreError, match="the memory isn't encrypted, and memory_blind is on") as error:
        Memory(file, blind=True)

    assert "shepherd encrypt" in error.value.hint
    assert file.read_bytes() == before


def test_without_a_key_nothing_is_made(file: Path) -> None:
    forget_keys()

    with pytest.raises(StoreKeyError, match="a blind memory needs a key"):
        Memory(file, blind=True)

    assert not file.exists()


def test_a_missing_file_is_not_made_by_reading(file: Path) -> None:
    with pytest.raises(StoreMissingError):
        Memory(file, blind=True, read_only=True)
    assert not file.exists()


def test_two_programs_that_make_it_at_once_use_one_file(file: Path, key: Path) -> None:
    program = (
        "import sys; from shepherd.encryption import use_settings; from shepherd.memory import Memory\n"
        "use_settings('', sys.argv[2])\n"
        "with Memory(sys.argv[1], blind=True) as memory: memory.set_fact(sys.argv[3], 'here')\n"
    )
    names = [f"program {n}" for n in range(4)]
    running = [
        subprocess.Popen([sys.executable, "-c", program, file, key, name], stderr=subprocess.PIPE)
        for name in names
    ]
    failed = [one.communicate()[1] for one in running]

    assert [text for text, one in zip(failed, running, strict=True) if one.returncode] == []
    with Memory(file, blind=True) as memory:
        assert [fact.key for fact in memory.get_all_facts()] == names
    left = {one.name for one in file.parent.iterdir()} - {"memory.db-hot"}
    assert left == {"memory.db", "memory.db-key"}


def test_a_link_leads_to_an_encrypted_file(file: Path, tmp_path: Path) -> None:
    file.parent.mkdir()
    link = tmp_path / "link.db"
    link.symlink_to(file)
    with Memory(link, blind=True) as memory:
        memory.set_fact("city", "Lisbon")

    assert is_encrypted(str(file))
    assert link.is_symlink()


def test_lines_of_the_prompt_are_not_written_before_the_file_is_made(file: Path, key: Path) -> None:
    config = Config(
        memory_database=str(file), memory_blind=True, memory_key_file=str(key), memory_vectors="off"
    )

    assert history_place(config, with_memory=True) == (None, None)
    assert unlock_memory(config) is False
    assert not file.exists()
    assert unlock_memory(config, creates=True)
    path, sealer = history_place(config, with_memory=True)
    assert path == Path(f"{file}-history")
    assert sealer is not None

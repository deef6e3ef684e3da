"""The key of a folder: what its file has, what is refused, and what a machine tells of the folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shepherd.config.file import ConfigFile
from shepherd.encryption.key import Argon2
from shepherd.errors import ConfigError, StoreError, StoreKeyError, UsageError
from shepherd.sync import folder as folders
from shepherd.sync import settings, status, unwritten
from shepherd.sync.run import last_folder
from tests.sync.replicas import PASSPHRASE


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> folders.Folder:
    monkeypatch.setattr(folders, "USUAL_COST", Argon2(8, 1, 1))
    return folders.create(tmp_path, PASSPHRASE)


def changed(made: folders.Folder, **fields: Any) -> None:
    file = made.path / folders.KEY_NAME
    document = json.loads(file.read_text()) | fields
    file.write_text(json.dumps({name: value for name, value in document.items() if value is not None}))


def test_the_passphrase_opens_the_same_folder(made: folders.Folder) -> None:
    opened = folders.unlock(made.path, PASSPHRASE)

    assert (opened.id, opened.key, opened.path) == (made.id, made.key, made.path)
    assert folders.id_of(made.path) == made.id
    assert folders.exists(made.path)
    assert opened.digest("a", "b") == made.digest("a", "b") != made.digest("ab", "")
    assert len(made.digest("a")) == 32
    with pytest.raises(StoreKeyError, match="not the passphrase"):
        folders.unlock(made.path, "another one")


@pytest.mark.parametrize(
    "fields",
    [
        {"salt": "00" * 15}, {"salt": "00" * 17}, {"salt": "xy"}, {"salt": None}, {"id": "00"}, {"id": None},
        {"id": "zz" * 16}, {"key": None}, {"key": 7}, {"key": "xy"}, {"cost": None}, {"cost": 7},
        {"cost": {"memory_kib": "8", "passes": 1, "lanes": 1}}, {"cost": {"memory_kib": True}},
        {"cost": {"memory_kib": 8, "passes": 1, "lanes": 1, "more": 1}},
        {"cost": {"memory_kib": (4 << 20) + 1, "passes": 1, "lanes": 1}},
        {"cost": {"memory_kib": 8, "passes": 1001, "lanes": 1}},
        {"cost": {"memory_kib": 8, "passes": 1, "lanes": 65}},
    ],
)  # fmt: skip
def test_a_damaged_file_is_called_that_and_costs_nothing(
    made: folders.Folder, fields: dict[str, Any]
) -> None:
    changed(made, **fields)

    with pytest.raises(StoreError, match="the file is damaged") as caught:
        folders.unlock(made.path, PASSPHRASE)
    assert "copied completely" in caught.value.hint


@pytest.mark.parametrize("text", ["", "[]", "{", "7"])
def test_what_is_no_object_is_damaged_too(made: folders.Folder, text: str) -> None:
    (made.path / folders.KEY_NAME).write_text(text)

    with pytest.raises(StoreError, match="the file is damaged"):
        folders.id_of(made.path)


def test_a_newer_file_and_one_that_is_not_there_are_told(made: folders.Folder, tmp_path: Path) -> None:
    changed(made, version=2)
    with pytest.raises(StoreError, match="a newer Shepherd") as caught:
        folders.unlock(made.path, PASSPHRASE)
    assert caught.value.hint == "update Shepherd on this machine"
    (made.path / folders.KEY_NAME).unlink()
    assert not folders.exists(made.path)
    with pytest.raises(StoreError, match="cannot be read"):
        folders.id_of(made.path)
    with pytest.raises(UsageError, match="there is no such folder"):
        folders.exists(tmp_path / "gone")
    with pytest.raises(StoreError, match="the folder cannot be written"):
        folders.create(tmp_path / "gone", PASSPHRASE)


def test_segments_are_known_by_their_names_alone(made: folders.Folder) -> None:
    a, b = "0123456789ab", "ba9876543210"
    for machine, number in ((b, 2), (a, 11), (a, 2)):
        made.segment(machine, number).write_bytes(b"")
    for name in (f"{a}-1.shpseg", f"{a}-000001.tmp", f"X{a}-000001.shpseg", f"{a[:-1]}g-000001.shpseg"):
        (made.path / name).write_bytes(b"")

    assert made.segment(a, 2).name == f"{a}-000002.shpseg"
    assert made.segments() == {a: [2, 11], b: [2]}
    assert list(made.segments()) == [a, b]


def test_a_folder_that_is_gone_is_an_error_with_a_question(made: folders.Folder, tmp_path: Path) -> None:
    lost = folders.Folder(tmp_path / "gone", made.id, made.key)

    with pytest.raises(StoreError, match="the folder cannot be read") as caught:
        lost.segments()
    assert caught.value.hint == "is the disk connected?"


def test_a_machine_tells_what_it_has_written_and_read(machines) -> None:
    a, b = machines("a", "b")
    assert last_folder(a.memory) is None
    with pytest.raises(UsageError, match="not synced"):
        status(a.memory, a.folder)
    a.memory.store_memory("question", "answer")
    a.sync()
    assert unwritten(a.memory) == 0
    one = a.memory.store_memory("another", "answer")
    a.memory.edit_memory(one, answer="other")
    a.memory.store_memory("third", "answer")
    assert unwritten(a.memory) == 2
    a.sync()
    a.carry_to(b)
    b.memory.store_memory("of b", "answer")
    b.sync()
    b.carry_to(a)
    a.sync()

    assert unwritten(a.memory) == 0
    assert last_folder(a.memory) == a.folder
    by_own = {one.is_own: one for one in status(a.memory, a.folder)}
    assert by_own[True].id == a.id()
    assert by_own[False].id == b.id()
    assert all(one.bytes > 0 and one.n_frames > 0 and one.read_at > 0 for one in by_own.values())


def test_settings_that_this_version_does_not_take_are_left_out(tmp_path: Path) -> None:
    file = ConfigFile(tmp_path / "config.json")
    file.set("answer_style", "casual")
    warnings: list[str] = []

    settings.write(file, {"answer_style": None, "rag_max_results": 5, "answer_level": "wizard"}, warnings)

    assert file.read() == {"rag_max_results": 5}
    assert warnings == ["the value that another machine has for answer_level is not valid here"]
    file.path.write_text("{")
    with pytest.raises(ConfigError) as caught:
        settings.check(file)
    assert caught.value.hint

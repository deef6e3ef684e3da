"""Exports that are encrypted with a passphrase, and their import."""

from __future__ import annotations

import io
import os
from pathlib import Path
from types import ModuleType

import pytest

from shepherd.cli import knowledge, memory, trace
from shepherd.commands.screen import Screen
from shepherd.errors import DocumentError, ShepherdError, UsageError
from shepherd.knowledge import Knowledge, transfer
from shepherd.knowledge.importing import import_from, import_upload
from shepherd.memory import Memory
from shepherd.trace import Traces

COMMANDS: dict[str, ModuleType] = {"memory": memory, "knowledge": knowledge, "trace": trace}
CANARY = "the pot of the blue hydrangea"
KEY = "0123456789abcdef" * 4  # needs no Argon2


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    """The folder of user steve, with an export of each kind, encrypted with the key in a file."""
    for name in [name for name in os.environ if name.startswith(("SHEPHERD_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHEPHERD_USER_ID", "steve")
    monkeypatch.chdir(tmp_path)
    Path("key").write_text(f"{KEY}\n")
    with Memory("full.db", user_id="steve") as full:
        full.store_memory("Where is the spare key?", f"Under {CANARY}.")
        Knowledge(full.transactions, "steve").add_node("Keys", source_text=f"Under {CANARY}.")
        Traces(full.transactions, "steve").merge([("/context/talk/000001/query", CANARY)])
    return tmp_path


def run(kind: str, *words: str, stdin: bytes | None = None) -> tuple[int, str]:
    """Exit code, and what stdout and stderr show; an error is told as the program tells it."""
    screen = Screen(io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO())
    arguments = COMMANDS[kind].build_parser().parse_args(list(words))
    try:
        code = COMMANDS[kind].execute(arguments, screen)
    except ShepherdError as error:
        return error.exit_code, f"{error} | {error.hint}"
    screen.flush()
    return code, screen.err.getvalue() + screen.out.buffer.getvalue().decode("utf-8", "replace")


def exported(kind: str, *options: str) -> Path:
    code, said = run(kind, "export", f"{kind}.enc", "--memory-db", "full.db", *options, "--key-file", "key")
    assert (code, said.splitlines()[-1][-11:]) == (0, ", encrypted")
    return Path(f"{kind}.enc")


def stored(database: str = "new.db") -> list[str]:
    """Kinds of what `database` has of the canary."""
    with Memory(database, user_id="steve") as opened:
        said = {
            "memory": map(str, opened.export_memories()),
            "knowledge": map(str, transfer.records(Knowledge(opened.transactions, "steve"))),
            "trace": map(str, Traces(opened.transactions, "steve").entries("/context")),
        }
        return [kind for kind, texts in said.items() if any(CANARY in text for text in texts)]


@pytest.mark.parametrize("kind", COMMANDS)
def test_an_encrypted_export_shows_nothing_and_is_imported_with_its_key(kind):
    file = exported(kind)

    assert file.stat().st_mode & 0o777 == 0o600
    assert CANARY.encode() not in file.read_bytes()
    assert run(kind, "import", str(file), "--memory-db", "new.db", "--key-file", "key")[0] == 0
    assert stored() == [kind]


@pytest.mark.parametrize("kind", COMMANDS)
def test_an_encrypted_export_goes_through_pipes(kind, monkeypatch):
    data = exported(kind).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))

    assert run(kind, "import", "-", "--memory-db", "new.db", "--key-file", "key")[0] == 0
    assert stored() == [kind]
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    arguments = (
        COMMANDS[kind].build_parser().parse_args(["export", "--memory-db", "full.db", "--key-file", "key"])
    )
    COMMANDS[kind].execute(arguments, Screen(out, io.StringIO()))
    assert out.buffer.getvalue().startswith(b'{"type": "shepherd-encrypted-export"')
    assert CANARY.encode() not in out.buffer.getvalue()


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_passphrase_is_asked_for_twice_and_then_once(kind, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(
        "shepherd.cli.passphrases.ask_passphrase",
        lambda question: asked.append(question) or "four good words",
    )

    assert run(kind, "export", "typed.enc", "--encrypt", "--memory-db", "full.db")[0] == 0
    assert run(kind, "import", "typed.enc", "--memory-db", "new.db")[0] == 0
    assert asked == ["New passphrase of the export: ", "Repeat the passphrase: ", "Passphrase of typed.enc: "]
    assert stored() == [kind]


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_wrong_or_missing_passphrase_imports_nothing(kind):
    file = exported(kind)
    Path("other").write_text("f" * 64)

    code, said = run(kind, "import", str(file), "--memory-db", "new.db", "--key-file", "other")
    assert (code, said.partition(" | ")[0]) == (
        1,
        f"{kind}.enc: that is not its passphrase, or the file is damaged; nothing was imported",
    )
    code, said = run(kind, "import", str(file), "--memory-db", "new.db")
    assert (code, said.partition(" | ")[0]) == (2, "a passphrase can only be asked for at a terminal")
    assert stored() == []


@pytest.mark.parametrize("cut", [60, 240, -1])
def test_an_export_that_was_cut_off_or_changed_is_refused(cut):
    whole = exported("memory").read_bytes()
    Path("cut.enc").write_bytes(whole[:cut])
    Path("changed.enc").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))

    for name in ("cut.enc", "changed.enc"):
        code, said = run("memory", "import", name, "--memory-db", "new.db", "--key-file", "key")
        assert code == 1
        assert said.startswith(f"{name}: ")
        assert "damaged" in said
    assert stored() == []


def test_damage_behind_the_first_piece_is_told_and_the_import_can_be_repeated():
    with Memory("full.db", user_id="steve") as full:
        for number in range(1200):
            full.store_memory(f"Question {number}?", "a long answer " * 80)
    whole = exported("memory").read_bytes()
    Path("damaged.enc").write_bytes(whole[:-2])

    code, said = run("memory", "import", "damaged.enc", "--memory-db", "new.db", "--key-file", "key")
    assert (code, said.partition(" | ")[0]) == (
        1,
        "damaged.enc: the file is damaged or incomplete; a part of it may be imported already",
    )
    assert run("memory", "import", "memory.enc", "--memory-db", "new.db", "--key-file", "key")[0] == 0
    with Memory("new.db", user_id="steve") as new:
        assert new.stats().memories == 1201


def test_an_export_of_another_kind_names_its_command():
    exported("knowledge")

    assert run("memory", "import", "knowledge.enc", "--memory-db", "new.db", "--key-file", "key") == (
        2,
        "knowledge.enc: this is an encrypted export of knowledge"
        " | shepherd knowledge import knowledge.enc imports it",
    )


def test_the_library_and_uploads_refuse_an_encrypted_export():
    file = exported("memory")
    exported("knowledge")
    with Memory("new.db", user_id="steve") as new:
        nodes = Knowledge(new.transactions, "steve")
        with pytest.raises(UsageError, match="this is an encrypted export"):
            new.import_file(file)
        with pytest.raises(DocumentError, match="this is an encrypted export"):
            list(import_from(nodes, "knowledge.enc"))
        with pytest.raises(DocumentError, match="this is an encrypted export"):
            list(import_upload(nodes, Path("knowledge.enc").read_bytes(), "notes.txt", 1 << 20))
    assert stored() == []


def test_encrypted_bytes_are_not_written_to_a_terminal():
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    out.isatty = lambda: True  # type: ignore[method-assign]
    arguments = memory.build_parser().parse_args(["export", "--encrypt", "--memory-db", "full.db"])

    with pytest.raises(UsageError, match="can't be shown at a terminal"):
        memory.execute(arguments, Screen(out, io.StringIO()))

"""`shepherd fragment`: saved texts are listed, shown and edited."""

from __future__ import annotations

import json

from tests.cli.test_template import editor


def test_a_fragment_is_made_listed_and_shown(shepherd, home):
    write = editor(home, "path.write_text('Use short words.\\n\\nNo jargon.\\n')")

    done = shepherd("fragment", "edit", "style", EDITOR=write)
    listed = shepherd("fragment", "list")

    assert done.stderr == "saved; shepherd -f style attaches it\n"
    assert listed.stdout == "style\t29 characters\tUse short words. No jargon.\n"
    assert shepherd("fragment", "show", "style").stdout == "Use short words.\n\nNo jargon.\n"
    shown = json.loads(shepherd("fragment", "show", "style", "--json").stdout)
    assert (shown["name"], shown["text"]) == ("style", "Use short words.\n\nNo jargon.\n")
    assert json.loads(shepherd("fragment", "list", "--json").stdout)[0]["chars"] == 29


def test_an_existing_fragment_is_edited_whatever_its_suffix(shepherd, home):
    folder = home.config.parent / "fragments"
    folder.mkdir(parents=True)
    (folder / "tone.txt").write_text("warm")

    shepherd("fragment", "edit", "tone", EDITOR=editor(home, "path.write_text(path.read_text() + ', brief')"))

    assert shepherd("fragment", "show", "tone").stdout == "warm, brief\n"
    assert [path.name for path in folder.iterdir()] == ["tone.txt"]


def test_nothing_is_made_of_an_empty_file(shepherd, home):
    done = shepherd("fragment", "edit", "style.md", EDITOR="true")

    assert done.stderr == "nothing was written; no fragment was made\n"
    assert [*(home.config.parent / "fragments").iterdir()] == []
    assert "shepherd fragment edit NAME" in shepherd("fragment", "list").stderr


def test_wrong_names_and_files_say_what_to_do(shepherd, home):
    folder = home.config.parent / "fragments"
    folder.mkdir(parents=True)
    (folder / "style.md").write_text("short")
    (folder / "latin.md").write_bytes(b"caf\xe9")

    typed = shepherd("fragment", "show", "stile")
    path = shepherd("fragment", "edit", "../x", EDITOR="true")

    assert (typed.returncode, path.returncode) == (2, 2)
    assert "did you mean style?" in typed.stderr
    assert "cannot be the name of a fragment" in path.stderr
    listed = shepherd("fragment", "list")
    assert listed.stdout.splitlines() == ["style\t5 characters\tshort"]
    assert "latin.md: it is not UTF-8" in listed.stderr

"""How the screen looks, compared with kept texts, in small and large terminals; help, palette, command.

A change that is meant is taken over with SHEPHERD_UPDATE_SNAPSHOTS=1, and looked at in the diff.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pexpect
import pytest
from textual.widgets._footer import FooterKey

from shepherd._native.store import Connection
from shepherd.config.file import load
from shepherd.memory import Memory
from shepherd.memory_factory import open_memory
from shepherd.tui.footer import KeysFooter
from tests.tui.conftest import masked

SNAPSHOTS = Path(__file__).parent / "snapshots"
SIZES = {"80x24": (80, 24), "120x40": (120, 40)}


def compare(name: str, text: str) -> None:
    """The screen's text with the one that was kept under this name."""
    path = SNAPSHOTS / f"{name}.txt"
    shown = masked(text) + "\n"
    if os.environ.get("SHEPHERD_UPDATE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")


@pytest.fixture
def remembered(home):
    """Two facts and one memory, three and a half days old."""
    with Memory(user_id="steve", clock=lambda: time.time() - 3.5 * 86_400) as memory:
        memory.set_fact("name", "Steve")
        memory.set_fact("location", "Texas")
        memory.store_memory("Which IDE does the user like?", "VS Code with vim keybindings")


@pytest.mark.parametrize("size", SIZES)
def test_the_conversation_looks_as_it_did(perform, scripted_model, remembered, size):
    async def play(stage):
        await stage.say("Which IDE do I like?")
        compare(f"conversation-{size}", stage.text())

    perform(play, scripted_model, size=SIZES[size])


@pytest.mark.parametrize("size", SIZES)
def test_the_memories_look_as_they_did(perform, scripted_model, remembered, size):
    async def play(stage):
        await stage.ready()
        await stage.pilot.press("f3")
        await stage.shows("1 memory")
        compare(f"memories-{size}", stage.text())

    perform(play, scripted_model, size=SIZES[size])


def test_the_panel_fits_a_small_terminal_on_request(perform, scripted_model, remembered):
    async def play(stage):
        await stage.say("Which IDE do I like?")
        assert "Recalled for this turn" not in stage.text()
        await stage.pilot.press("f2")
        await stage.shows("Recalled for this turn")
        compare("panel-80x24", stage.text())

    perform(play, scripted_model, size=(80, 24))


def test_keys_that_do_not_fit_are_not_cut_off(perform):
    async def play(stage):
        def shown() -> list[FooterKey]:
            return list(stage.app.screen.query_one(KeysFooter).query(FooterKey))

        await stage.ready()
        await stage.pilot.press("f3")
        await stage.shows("0 memories")
        for width, fits_all in ((100, False), (250, True)):
            await stage.pilot.resize_terminal(width, 24)
            await stage.until(lambda w=width: stage.app.screen.size.width == w and shown(), "the keys")
            keys = shown()
            assert keys[-1].region.right <= width
            assert ("f5" in [one.key for one in keys]) == fits_all

    perform(play, size=(100, 24))


def test_help_names_every_key_and_command(perform, scripted_model):
    from shepherd.commands.slash import COMMANDS
    from shepherd.tui.dialogs import help_text

    text = str(help_text({name: (command.usage, command.help) for name, command in COMMANDS.items()}))
    assert all(f"/{name}" in text for name in COMMANDS)
    assert all(f"F{number}" in text for number in range(1, 7))
    # A command that is longer than its column has its text below it.
    long, below = next(
        (line, text.splitlines()[i + 1]) for i, line in enumerate(text.splitlines()) if "/facts [" in line
    )
    assert long.strip() == COMMANDS["facts"].usage.splitlines()[0]
    assert below.startswith(" " * 30 + COMMANDS["facts"].help.split()[0])

    async def play(stage):
        await stage.ready()
        await stage.pilot.press("f1")
        await stage.shows("start a new line")
        await stage.pilot.press("escape", "tab", "question_mark")
        await stage.shows("start a new line")

    perform(play, scripted_model)


def test_the_palette_offers_the_commands(perform, scripted_model):
    async def play(stage):
        await stage.ready()
        await stage.pilot.press("ctrl+p")
        await stage.shows("Search for commands")
        await stage.pilot.press(*"stats", "enter")
        await stage.shows("nothing has been answered yet")

    perform(play, scripted_model)


def test_no_colours_where_they_are_not_wanted(perform, scripted_model, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    async def play(stage):
        await stage.say("hello")
        colours = {
            colour.triplet
            for strip in stage.app.screen._compositor.render_strips()
            for segment in strip.apply_filter(stage.app._filters[-1], stage.app.screen.background_colors[0])
            for colour in (segment.style.color, segment.style.bgcolor)
            if colour is not None and colour.triplet is not None
        }
        assert stage.app.no_color
        assert all(len(set(triplet)) == 1 for triplet in colours)

    perform(play, scripted_model)


def test_it_needs_a_terminal(home):
    done = subprocess.run(
        [sys.executable, "-m", "shepherd", "tui"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )

    assert done.returncode == 2
    assert b"needs a terminal" in done.stderr
    assert b"shepherd chat" in done.stderr


def test_in_a_terminal_it_ends_with_the_conversation_on_stdout(home, scripted_model):
    said = home / "said.json"
    child = pexpect.spawn(
        "/bin/sh",
        ["-c", f"{sys.executable} -m shepherd tui --json -m {scripted_model} > {said}"],
        dimensions=(24, 80),
        encoding="utf-8",
        timeout=120,
    )
    child.expect("memory on")
    child.send("hello\r")
    child.expect("is open today!")
    child.expect("reused")
    child.send("\x11")  # Ctrl-Q
    child.expect(pexpect.EOF)
    child.close()

    assert child.exitstatus == 0
    assert [message["role"] for message in json.loads(said.read_text())] == ["user", "assistant"]


def test_a_byte_that_is_not_utf_8_ends_nothing(home, scripted_model):
    child = pexpect.spawn(
        sys.executable, ["-m", "shepherd", "tui", "-m", str(scripted_model)], dimensions=(24, 80), timeout=120
    )
    child.expect(b"memory on")
    child.send(b"caf\xe9 and \xff\xfe caf\xc3\xa9")
    child.expect("\N{REPLACEMENT CHARACTER} and".encode())
    child.send(b"\r")
    child.expect(b"is open today!")
    child.expect(b"reused")
    child.send(b"\x11")  # Ctrl-Q
    shown = child.read()
    child.close()

    assert child.exitstatus == 0
    assert b"Traceback" not in shown


def test_an_error_of_the_screen_itself_is_a_failure(home, scripted_model):
    broken = (
        "import sys; from shepherd.cli.main import main\n"
        "from textual.drivers.linux_driver import LinuxDriver\n"
        "LinuxDriver.process_message = lambda self, event: 1 / 0\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    child = pexpect.spawn(
        sys.executable, ["-c", broken, "tui", "-m", str(scripted_model)], dimensions=(24, 80), timeout=120
    )
    child.send(b"x")
    child.expect(b"ZeroDivisionError")
    child.expect(pexpect.EOF)
    child.close()

    assert child.exitstatus == 1


@pytest.mark.parametrize("way", ["closed", "SIGHUP", "SIGTERM"])
def test_the_end_of_the_terminal_during_an_answer_loses_nothing(home, endless_model, way):
    child = pexpect.spawn(
        sys.executable,
        ["-m", "shepherd", "tui", "-m", str(endless_model), "--max-tokens", "0", "--ctx", "65536"],
        dimensions=(24, 80),
        encoding="utf-8",
        timeout=60,
        # Under nohup, the tests would ignore it, and so would the program.
        preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
    )
    child.expect("memory on")
    child.send("Remember the milk\r")
    child.expect("esc stops")
    child.expect(r"(?s).{3000}")

    if way == "closed":
        child.ptyproc.fileobj.close()
    else:
        child.kill(getattr(signal, way))
        child.expect(pexpect.EOF)
        assert "Traceback" not in child.before
    status = child.wait()

    assert status == 128 + (signal.SIGTERM if way == "SIGTERM" else signal.SIGHUP)
    with open_memory(load().config) as memory:
        said = memory.load_session()
    assert [one.role for one in said] == ["user", "assistant"]
    assert said[0].raw == "Remember the milk"


def test_what_takes_time_at_the_end_is_shown_on_the_normal_screen(home, endless_model):
    child = pexpect.spawn(
        sys.executable,
        ["-m", "shepherd", "tui", "-m", str(endless_model), "--max-tokens", "0", "--ctx", "65536"],
        dimensions=(24, 80),
        encoding="utf-8",
        timeout=60,
    )
    child.expect("memory on")
    child.send("My dog is called Rex\r")
    child.expect(r"(?s).{3000}")
    [database] = home.rglob("memory.db")
    with Connection(str(database)) as other:
        other.execute(
            "BEGIN IMMEDIATE"
        )  # another program writes, so that the conversation can't be saved yet
        child.send("\x11")  # Ctrl-Q
        child.expect(r"\x1b\[\?1049l")  # the normal screen is back
        child.expect("ending the conversation|saving the conversation|learning from your last messages")
    child.expect(pexpect.EOF)
    child.close()

    assert child.exitstatus == 0

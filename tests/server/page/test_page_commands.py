"""Commands that the page names can be run on the server's computer, also where PATH lacks the program."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from shepherd.cli.main import COMMANDS
from shepherd.config import Config
from shepherd.memory import Memory
from shepherd.server.app import create_app
from shepherd.server.page import _FOLDER
from shepherd.server.state import AppState
from tests.server.page.conftest import Visit
from tests.server.running import Running

OWN = Path(sys.prefix, "bin", "shepherd")
Opened = Callable[..., Running]


@pytest.fixture
def opened(tmp_path, monkeypatch) -> Iterator[Opened]:
    """Starts a server whose PATH lacks the program, in a home folder with or without the environment."""
    running: list[Running] = []

    def begin(*, home: Path = tmp_path, **options: object) -> Running:
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        monkeypatch.setenv("HOME", str(home))
        state = AppState(options.pop("config", Config()), memory, True, **options)
        running.append(Running(create_app(state)).__enter__())
        return running[-1]

    with Memory(tmp_path / "memory.db", user_id="anna") as memory:
        yield begin
        for one in running:
            one.__exit__(None, None, None)


def commands(page: Page) -> list[str]:
    return [text for text in page.locator("code, pre").all_inner_texts() if "shepherd" in text]


def test_a_command_of_a_view_can_be_run_as_it_is_shown(opened, visit, tmp_path, monkeypatch):
    page: Visit = visit(opened().url)
    page.open("knowledge")
    [command] = commands(page.page)
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "herons.md").write_text("# Herons\n\nThey stand.")

    assert command == f"{OWN} knowledge import FOLDER"
    line = command.replace("FOLDER", f"{notes} --user anna --memory-db {tmp_path / 'other.db'}")
    done = subprocess.run(line, shell=True, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    page.open("learned")
    expect(page.page.locator("code")).to_have_text(f"{OWN} config get memory_extraction")


def test_a_refusal_names_a_command_that_can_be_run(opened, visit):
    running = opened()
    page = visit(running.url)
    page.open("facts")
    running.server.should_exit = True
    running._thread.join()
    page.page.get_by_role("link", name="Memories").click()

    expect(page.page.get_by_role("alert")).to_contain_text(f"Check that “{OWN} serve” is still running")


def test_only_commands_are_replaced_in_what_a_server_says(opened, visit):
    page = visit(opened().url)
    page.open("facts")
    said = (
        "is it running? shepherd serve; provider shepherd answers 500; bin/shepherd serve; "
        "`shepherd --continue`; shepherd servers"
    )

    shown = page.page.evaluate(
        "async (text) => new (await import('/page/api.js')).Refused(text, 500, '').message", said
    )
    assert shown == (
        f"is it running? {OWN} serve; provider shepherd answers 500; bin/shepherd serve; "
        f"`{OWN} --continue`; shepherd servers"
    )


def test_the_page_knows_all_commands():
    text = (_FOLDER / "commands.js").read_text("utf-8")

    assert re.findall(r'"(\w+)"', text.split("const COMMANDS")[1].split("];")[0]) == sorted(COMMANDS)


def test_no_text_of_the_page_names_a_command_past_the_helper():
    """Refused replaces the commands in errors (api.js), and the server the one in index.html."""
    pattern = re.compile(rf"(?<![\w./-])shepherd (?:-|(?:{'|'.join(COMMANDS)})\b)(?!/)")
    for path in _FOLDER.glob("*.js"):
        for line in path.read_text("utf-8").splitlines():
            if pattern.search(line) and not line.startswith(("//", " *", "/**")):
                assert "runnable(" in line or path.name == "api.js", (path.name, line)


def test_a_page_without_scripts_names_a_command_that_can_be_run(opened):
    running = opened()
    with running.client() as client:
        answer = client.get("/")
        again = client.get("/", headers={"If-None-Match": answer.headers["etag"]})

    assert f"<code>{html.escape(str(OWN))} memory list</code>" in answer.text
    assert again.status_code == 304


def test_a_program_in_the_home_folder_is_named_from_there_and_has_a_tag_of_its_own(opened, tmp_path):
    with opened().client() as client:
        elsewhere = client.get("/")
    home = OWN.parents[1]
    with opened(home=home).client() as client:
        at_home = client.get("/", headers={"If-None-Match": elsewhere.headers["etag"]})

    assert at_home.status_code == 200
    assert '<meta name="program" content="~/bin/shepherd">' in at_home.text
    assert str(home) not in at_home.text


@pytest.mark.parametrize(
    "options", [{"needs_key": True}, {"config": Config(server_hosts="home.example.org")}]
)
def test_a_server_that_others_reach_tells_them_no_path_from_the_root(opened, options):
    with opened(**options).client() as client:
        text = client.get("/").text
    with opened(home=OWN.parents[1], **options).client() as client:
        at_home = client.get("/").text

    assert '<meta name="program" content="shepherd">' in text
    assert str(OWN.parent) not in text + at_home
    assert "<code>~/bin/shepherd memory list</code>" in at_home


def test_the_sign_in_says_where_a_key_is_made(opened, visit):
    running = opened(home=OWN.parents[1], needs_key=True)
    page = visit(running.url).page
    page.goto(running.url)
    page.get_by_text("I have no key").click()

    expect(page.locator("details p")).to_contain_text("in a terminal on the computer where it runs")
    assert commands(page) == ["~/bin/shepherd apikey create --owner YOUR-NAME"]

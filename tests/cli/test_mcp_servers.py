"""`shepherd --mcp`: the model calls tools of another program, and the person at the keyboard allows it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests import models
from tests.cli.test_terminal import CTRL_C, start

WORKSHOP = Path(__file__).parents[1] / "tools" / "mcp_workshop.py"


@pytest.fixture(scope="module")
def putting_model(tmp_path_factory) -> Path:
    """Puts a rope into the drawer, and says "Done." after that."""
    path = tmp_path_factory.mktemp("putting") / "model.gguf"
    call = json.dumps({"name": "workshop__put", "arguments": {"thing": "rope"}})
    script = ["<tool_call>", call, "</tool_call>"]
    models.scripted(path, script, after_tab=("Done.",), template=models.TOOL_TEMPLATE)
    return path


@pytest.fixture
def listed(home) -> None:
    """An mcp.json with the workshop in it."""
    home.config.parent.mkdir(parents=True)
    servers = {"workshop": {"command": sys.executable, "args": [str(WORKSHOP)]}}
    home.config.with_name("mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


@pytest.mark.parametrize(("answer", "told"), [("y", "Done."), ("n", "the user did not allow this call")])
def test_call_that_may_change_something_is_asked_about(home, listed, putting_model, answer, told):
    terminal = start(home, "-m", putting_model, "--mcp", "workshop")
    terminal.prompt()

    terminal.type("Put the rope away.")
    asked = terminal.expect(r"workshop__put can change something\. Allow it\? \[y/N\] ")
    assert '\r{\r\n  "thing": "rope"\r\n}\r\nworkshop__put' in asked
    terminal.type(answer)
    shown = terminal.expect("Done\\.")

    assert told in shown
    terminal.prompt()
    terminal.type("/quit")
    assert terminal.end() == 0


def test_ctrl_c_at_the_question_refuses_the_call_and_ends_the_answer(home, listed, putting_model, shepherd):
    terminal = start(home, "-m", putting_model, "--mcp", "workshop")
    terminal.prompt()

    terminal.type("Put the rope away.")
    terminal.expect(r"Allow it\? \[y/N\] ")
    terminal.type(CTRL_C, enter=False)
    shown = terminal.prompt()
    terminal.type("/quit")

    assert terminal.end() == 0
    assert "Done." not in shown
    [one] = json.loads(shepherd("conversations", "list", "--json").stdout)
    kept = shepherd("conversations", "show", one["id"]).stdout
    assert "Put the rope away." in kept


def test_where_nobody_can_be_asked_it_is_refused(shepherd, listed, putting_model):
    done = shepherd("-m", putting_model, "--mcp", "workshop", "-e", "Put the rope away.")

    assert done.returncode == 0
    assert done.stdout == "Done.\n"
    assert "there is nobody to allow it" in done.stderr


def test_server_that_is_not_listed_is_a_mistake(shepherd, listed, putting_model):
    done = shepherd("-m", putting_model, "--mcp", "garden", "-e", "Hello")

    assert done.returncode == 2
    assert "mcp.json has no server 'garden'" in done.stderr
    assert "there are: workshop" in done.stderr


def test_without_the_option_no_server_is_started(shepherd, home, listed, putting_model):
    done = shepherd("-m", putting_model, "-e", "Put the rope away.")

    assert done.returncode == 0
    assert not home.history.with_name("mcp-workshop.log").exists()

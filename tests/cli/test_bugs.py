"""When Shepherd itself is at fault: one line for the user, the traceback where it can be found."""

from __future__ import annotations

import logging
import stat
import sys
from types import SimpleNamespace

import pytest

from shepherd.cli.main import COMMANDS, main
from shepherd.cli.parsing import Parser, add_common_options
from shepherd.errors import InternalError


@pytest.fixture
def broken(monkeypatch, tmp_path):
    """A command that raises what is put into `broken.error`."""

    def build_parser():
        parser = Parser(prog="shepherd broken")
        add_common_options(parser)
        return parser

    def execute(arguments, screen):
        raise module.error

    module = SimpleNamespace(
        build_parser=build_parser, execute=execute, error=ZeroDivisionError("private text")
    )
    monkeypatch.setitem(sys.modules, "broken_command", module)
    monkeypatch.setitem(COMMANDS, "broken", ("broken_command", ""))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "not" / "there"))
    yield module
    logging.getLogger("shepherd").setLevel(logging.NOTSET)  # -v has raised it


def test_an_unexpected_exception_is_one_line_and_a_file(broken, capsys, tmp_path):
    assert main(["broken"]) == 1

    (log,) = (tmp_path / "not" / "there" / "shepherd").iterdir()
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[0]) == ("", "shepherd: error: this is a bug in Shepherd: ZeroDivisionError")
    assert str(log) in err
    assert "please report it" in err
    assert "private text" not in err
    assert "Traceback" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_verbose_shows_the_traceback_at_once(broken, capsys, tmp_path):
    assert main(["broken", "-v"]) == 1

    assert "Traceback" in capsys.readouterr().err
    assert not (tmp_path / "not").exists()


def test_an_internal_error_keeps_its_message_and_hint(broken, capsys):
    broken.error = InternalError("the mirror disagrees", hint="start again")

    assert main(["broken"]) == 1

    err = capsys.readouterr().err
    assert "this is a bug in Shepherd: the mirror disagrees" in err
    assert "start again" in err


def test_a_failure_of_the_system_is_not_called_a_bug(broken, capsys):
    broken.error = PermissionError(13, "Permission denied", "/somewhere")

    assert main(["broken"]) == 1

    assert capsys.readouterr().err == "shepherd: error: /somewhere: Permission denied\n"


def test_an_interrupt_is_130(broken, capsys):
    broken.error = KeyboardInterrupt()

    assert main(["broken"]) == 130

    assert capsys.readouterr().err == "interrupted\n"

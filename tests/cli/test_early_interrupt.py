"""Ctrl-C while the program is still being imported: no traceback, and it ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Presses Ctrl-C when the module is imported that the environment names.
_PRESSING = """\
import importlib.abc, os, signal, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == os.environ.get("PRESS_AT") and sys.argv[0] != "-m":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""


# The script that pip writes.
_SCRIPT = "from shepherd.cli.main import run\nrun()\n"


@pytest.mark.parametrize("is_script", [True, False])
@pytest.mark.parametrize(
    ("arguments", "at"),
    [
        (["facts", "list"], "shepherd.cli.original_config"),
        (["facts", "list"], "shepherd.config.file"),
        (["facts", "list"], "shepherd.cli.facts"),
        # In the process of an act: the command that waits for it ends as it does.
        (["demo", "--fast"], "shepherd.chat_session"),
    ],
)
def test_ctrl_c_during_an_import_ends_the_program_without_a_traceback(
    home, tmp_path, arguments, at, is_script
):
    script = tmp_path / "shepherd"
    script.write_text(_SCRIPT)
    program = [str(script)] if is_script else ["-m", "shepherd"]
    (tmp_path / "sitecustomize.py").write_text(_PRESSING)

    done = subprocess.run(
        [sys.executable, *program, *arguments],
        env={**home.environment, "PYTHONPATH": str(tmp_path), "PRESS_AT": at},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_ctrl_c_that_is_ignored_stays_ignored(home, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(_PRESSING)

    done = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$0" -m shepherd facts list', sys.executable],
        env={**home.environment, "PYTHONPATH": str(tmp_path), "PRESS_AT": "shepherd.cli.original_config"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr

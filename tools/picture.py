#!/usr/bin/env python3
"""Draw a conversation as it looks on a terminal: the real program in tmux, its screen saved as SVG.

tools/picture.py MODEL OUT.svg "first line" "second line" ...

A line of `quit` ends the program and starts it again, as a user would on another day. Needs tmux; the memory
is a new one in a temporary folder.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS, ROWS = 100, 40
SESSION = "shepherd-picture"
PATIENCE_S = 60.0


def _tmux(*arguments: str) -> str:
    return subprocess.run(["tmux", *arguments], check=True, capture_output=True, text=True).stdout


def _screen() -> str:
    return _tmux("capture-pane", "-e", "-p", "-t", SESSION)


def _wait_for_prompt() -> None:
    """Until the last line that is not empty is a prompt, and the screen stands still."""
    deadline, before = time.monotonic() + PATIENCE_S, ""
    while time.monotonic() < deadline:
        time.sleep(0.5)
        now = _screen()
        lines = [Text.from_ansi(line).plain.strip() for line in now.splitlines() if line.strip()]
        if now == before and lines and lines[-1] in {">", "$"}:
            return
        before = now
    raise SystemExit(f"no prompt came back within {PATIENCE_S:.0f} s:\n{before}")


def _type(line: str) -> None:
    _tmux("send-keys", "-t", SESSION, "-l", line)
    time.sleep(0.2)
    _tmux("send-keys", "-t", SESSION, "Enter")
    _wait_for_prompt()


def main() -> int:
    """The command line of this tool."""
    parser = argparse.ArgumentParser(description="Draw a conversation as it looks on a terminal.")
    parser.add_argument("model", help="a GGUF file, or '' for the built-in model")
    parser.add_argument("picture", type=Path)
    parser.add_argument("lines", nargs="+")
    options = parser.parse_args()
    command = f"shepherd{f' -m {options.model}' if options.model else ''} --temperature 0"
    with tempfile.TemporaryDirectory() as home:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        settings = f"HOME={home} PATH={path} SHEPHERD_USER_ID=steve TERM=xterm-256color LANG=C.UTF-8"
        shell = f"env -i {settings} PS1='$ ' bash --norc"
        _tmux("new-session", "-d", "-s", SESSION, "-x", str(COLUMNS), "-y", str(ROWS), shell)
        try:
            _wait_for_prompt()
            _type(command)
            for line in options.lines:
                _type("/quit" if line == "quit" else line)
                if line == "quit":
                    _type(command)
            text = Text.from_ansi(_screen().rstrip())
        finally:
            _tmux("kill-session", "-t", SESSION)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(text)
    options.picture.write_text(console.export_svg(title="shepherd"), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

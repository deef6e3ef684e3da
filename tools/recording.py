#!/usr/bin/env python3
"""Record a program on a terminal as an animated SVG: the real one in tmux, its screen read 25 times a second.

tools/recording.py OUT.svg [COMMAND] [--before COMMAND] [--type LINE]

COMMAND is `shepherd demo` unless another is given; it ends by itself. The home folder is new. Needs tmux.
With --type, the command is one that goes on, such as `shepherd tui`: these lines are typed into it, and the
picture is its last screen. Commands of --before run first, unseen. The pictures in the documents:

    tools/recording.py docs/images/demo.svg
    tools/recording.py docs/images/tui.svg "shepherd tui" --before "shepherd facts set name Steve" \\
        --before "shepherd facts set dog_name Rex" \\
        --before "shepherd memory add 'Which editor does the user use?' 'VS Code with vim keybindings'" \\
        --type "" --type "What is my dog called?" --type "Which editor do I use?" \\
        --type "I moved to Lisbon last week."

The picture is a strip of all screens that differed, one above the other, moved behind a window by CSS; a line
that several screens have is in the file once. It loops, and shows the last screen alone to readers who want
no motion. No script and nothing external is in it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

COLUMNS, ROWS = 100, 34
SESSION = "shepherd-recording"
# Between two looks; a key takes the program 25 ms.
LOOK_S = 0.04
# A screen that stands longer is shown so long; the last one so much longer, to be read.
LONGEST_S, LAST_S = 1.6, 6.0
PATIENCE_S = 300.0
# After this time, a line has had its answer.
SETTLED_S = 7.0
# Of a character, in pixels, at this size of a monospaced font.
WIDTH, HEIGHT, FONT_SIZE, MARGIN = 8.43, 18.0, 14.0, 14.0
PROMPT = "$"
_PLAIN = Console(width=COLUMNS, color_system="truecolor", force_terminal=True)


@dataclass
class Frame:
    """A screen, with escape sequences, and how long it stood."""

    screen: str
    seconds: float


def _tmux(*arguments: str) -> str:
    return subprocess.run(["tmux", *arguments], check=True, capture_output=True, text=True).stdout


def _screen() -> str:
    return _tmux("capture-pane", "-e", "-p", "-t", SESSION)


def _last_line(screen: str) -> str:
    return next(
        (Text.from_ansi(line).plain.strip() for line in screen.splitlines()[::-1] if line.strip()), ""
    )


def _wait_for_prompt() -> None:
    deadline = time.monotonic() + PATIENCE_S
    while _last_line(_screen()) != PROMPT:
        if time.monotonic() > deadline:
            raise SystemExit("no shell came up in tmux")
        time.sleep(0.1)


def _watch(command: str) -> list[Frame]:
    """Every screen from the first key of the command to the shell's next prompt."""
    frames = [Frame(_screen(), 0.0)]
    for key in command:
        _tmux("send-keys", "-t", SESSION, "-l", key)
        time.sleep(LOOK_S)
        frames.append(Frame(_screen(), LOOK_S))
    _tmux("send-keys", "-t", SESSION, "Enter")
    began = since = time.monotonic()
    while _last_line(frames[-1].screen) != PROMPT or len(frames) <= len(command) + 2:
        time.sleep(LOOK_S)
        now, screen = time.monotonic(), _screen()
        frames[-1].seconds += now - since
        since = now
        if screen != frames[-1].screen:
            frames.append(Frame(screen, 0.0))
        if now - began > PATIENCE_S:
            raise SystemExit(f"{command} did not end within {PATIENCE_S:.0f} s")
    return frames[:-1]  # without the prompt of the shell that comes back


def _last_screen(command: str, lines: Sequence[str]) -> list[Frame]:
    """The screen of a command that goes on, after these lines were typed into it."""
    _tmux("send-keys", "-t", SESSION, "-l", command)
    for line in (*lines, None):
        _tmux("send-keys", "-t", SESSION, "Enter")
        time.sleep(SETTLED_S)  # a cursor that blinks never lets a screen come to rest
        if line is not None:
            _tmux("send-keys", "-t", SESSION, "-l", line)
    return [Frame(_screen(), LAST_S)]


def record(command: str, before: Sequence[str] = (), lines: Sequence[str] = ()) -> list[Frame]:
    """The screens of a command in a shell of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        settings = f"HOME={home} PATH={path} SHEPHERD_USER_ID=steve TERM=xterm-256color LANG=C.UTF-8"
        for one in before:
            subprocess.run(["env", "-i", *settings.split(), "bash", "-c", one], check=True)
        shell = f"env -i {settings} PS1='{PROMPT} ' bash --norc"
        _tmux("new-session", "-d", "-s", SESSION, "-x", str(COLUMNS), "-y", str(ROWS), shell)
        try:
            _wait_for_prompt()
            return _last_screen(command, lines) if lines else _watch(command)
        finally:
            _tmux("kill-session", "-t", SESSION)


# ---- the picture


def _colour(colour: Color | None, otherwise: str) -> str:
    if colour is None or colour.is_default:
        return otherwise
    return colour.get_truecolor(SVG_EXPORT_THEME).hex


def _spans(line: str) -> str:
    """A line as SVG, its beginning at 0,0."""
    text = Text.from_ansi(line)
    pieces, column = [], 0
    for segment in text.render(_PLAIN, end=""):
        style = segment.style or Style()
        if segment.text.strip():
            foreground = str(SVG_EXPORT_THEME.foreground_color.hex)
            look = f'fill="{_colour(style.color, foreground)}"'
            look += ' font-weight="bold"' * bool(style.bold) + ' opacity=".65"' * bool(style.dim)
            look += ' font-style="italic"' * bool(style.italic)
            length = f'textLength="{len(segment.text) * WIDTH:.1f}"'
            pieces.append(f'<text x="{column * WIDTH:.1f}" {length} {look}>{escape(segment.text)}</text>')
        column += len(segment.text)
    return "".join(pieces)


def draw(frames: list[Frame]) -> str:
    """The animated SVG."""
    lines: dict[str, int] = {}
    strip: list[str] = []
    shown: list[str] = []
    begins: list[float] = []
    elapsed = 0.0
    for frame in frames:
        uses = []
        for row, line in enumerate(frame.screen.rstrip().splitlines()):
            if line.strip():
                number = lines.setdefault(line, len(lines))
                uses.append(f'<use href="#l{number}" y="{row * HEIGHT:.0f}"/>')
        strip.append(f'<g transform="translate(0 {len(strip) * ROWS * HEIGHT:.0f})">{"".join(uses)}</g>')
        begins.append(elapsed)
        elapsed += min(frame.seconds, LONGEST_S)
    elapsed += LAST_S
    for number, begin in enumerate(begins):
        shown.append(f"{100 * begin / elapsed:.3f}%{{transform:translateY({-number * ROWS * HEIGHT:.0f}px)}}")
    last = f"transform:translateY({-(len(strip) - 1) * ROWS * HEIGHT:.0f}px)"
    width, height = COLUMNS * WIDTH, ROWS * HEIGHT
    definitions = "".join(f'<g id="l{number}">{_spans(line)}</g>' for line, number in lines.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="A recording of a terminal"'
        f' viewBox="0 0 {width + 2 * MARGIN:.0f} {height + 2 * MARGIN:.0f}">\n'
        f"<style>text{{white-space:pre;dominant-baseline:text-before-edge;"
        f"font:{FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}}\n"
        f"#strip{{animation:play {elapsed:.2f}s steps(1,end) infinite;{last}}}\n"
        f"@keyframes play{{{''.join(shown)}100%{{{last}}}}}\n"
        f"@media(prefers-reduced-motion:reduce){{#strip{{animation:none}}}}</style>\n"
        f"<defs>{definitions}</defs>\n"
        f'<rect width="100%" height="100%" rx="8" fill="{SVG_EXPORT_THEME.background_color.hex}"/>\n'
        f'<svg x="{MARGIN}" y="{MARGIN}" width="{width:.0f}" height="{height:.0f}"><g id="strip">'
        + "\n".join(strip)
        + "</g></svg>\n</svg>\n"
    )


def main() -> int:
    """The command line of this tool."""
    parser = argparse.ArgumentParser(description="Record a program on a terminal as an animated SVG.")
    parser.add_argument("picture", type=Path)
    parser.add_argument("command", nargs="?", default="shepherd demo")
    parser.add_argument("--before", action="append", default=[], metavar="COMMAND")
    parser.add_argument("--type", action="append", default=[], dest="lines", metavar="LINE")
    options = parser.parse_args()
    frames = record(options.command, options.before, options.lines)
    options.picture.write_text(draw(frames), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

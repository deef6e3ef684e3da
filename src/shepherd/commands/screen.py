"""Output of the commands: results to stdout, everything else to stderr, colours only for terminals."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from shepherd.commands.keyboard import echoing
from shepherd.errors import NEW_CONVERSATION
from shepherd.wording import counted

__all__ = [
    "Screen",
    "age_in_words",
    "counted",
    "day",
    "duration",
    "fitted",
    "hint_with_command",
    "near_miss",
    "printable",
    "shortened",
    "size",
    "terminal_size",
]

# Answers and memories can come from others: on a terminal their control characters must not move the cursor,
# change the title or type keys. Line feed and tab are harmless.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

# Blanks before a line, and the number of an entry of a list.
_INDENT = re.compile(r" *(?:\d+  )?")

_SEPARATORS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Screen:
    """Both standard streams. With `as_json`, results are JSON lines; see `result` and `listing`."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out = out or sys.stdout or open(os.devnull, "w")  # noqa: SIM115  (stdout closed by the caller)
        self.err = err or sys.stderr or open(os.devnull, "w")  # noqa: SIM115
        for stream in (self.out, self.err):
            # A lone surrogate, or a locale without UTF-8, must not turn output into a crash.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        self.as_json = False
        # Whether remarks and hints show `shepherd` with its path, if PATH lacks it.
        self.names_program = False
        self.error_label = "shepherd: error:"
        self._has_slash_commands = False
        self.out_is_terminal = self.out.isatty()
        self.err_is_terminal = self.err.isatty()
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        self.out_has_colour = self.out_is_terminal and not plain
        self.err_has_colour = self.err_is_terminal and not plain

    def begin_chat(self) -> None:
        """Word errors for a chat prompt: without the program's name, and with slash commands in hints."""
        self.error_label = "error:"
        self._has_slash_commands = True

    def print(self, text: str = "", style: str = "") -> None:
        """Write a line of the result."""
        shown = printable(text) if self.out_is_terminal else text
        if self.out_is_terminal and self._has_slash_commands:
            shown = _filled(shown, terminal_size(self.out)[0])
        self.out.write((self.styled(shown, style, out=True) if style else shown) + "\n")

    def entry(self, label: str, text: str) -> None:
        """Write a line of two columns; on a terminal the second one continues below itself."""
        label, shown = f"{label}  ", f"{label}  {text}"
        if self.out_is_terminal:
            shown = textwrap.fill(
                printable(shown),
                max(terminal_size(self.out)[0], len(label) + 20),
                subsequent_indent=" " * len(label),
                break_long_words=False,
                break_on_hyphens=False,
            )
        self.out.write(shown + "\n")

    def write(self, text: str) -> None:
        """Write a piece of a streamed answer at once; a pipe gets it unchanged."""
        self.out.write(printable(text) if self.out_is_terminal else text)
        self.out.flush()

    def json(self, value: Any) -> None:
        """Write one JSON line of the result."""
        is_utf8 = (getattr(self.out, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
        text = json.dumps(value, ensure_ascii=not is_utf8, default=_plain)
        # Some readers end a line at these, though JSON does not.
        self.out.write(text.translate(_SEPARATORS) + "\n")

    def result(self, value: object, text: str | None = None, *, note: str = "") -> None:
        """Write a result: `value` as JSON, or else `text` to stdout and `note` to stderr, if given."""
        if self.as_json:
            self.json(value)
            return
        if text is not None:
            self.print(text)
        if note:
            self.note(note)

    def listing(
        self, values: object, headers: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str = ""
    ) -> None:
        """Write a list: `values` as JSON, or else the rows as a table, or `empty` to stderr without rows."""
        if self.as_json:
            self.json(values)
            return
        if empty and not rows:
            self.note(empty)
            return
        self.table(headers, rows)

    def announce(self, url: str, text: str) -> None:
        """Write where a server listens, at once."""
        self.result({"url": url}, text)
        self.flush()

    def utf8(self) -> TextIO:
        """Return stdout, switched to UTF-8 for an export, which may be read under another locale."""
        if not self.out_is_terminal and hasattr(self.out, "reconfigure"):
            self.out.reconfigure(encoding="utf-8")
        return self.out

    def note(self, text: str = "") -> None:
        """Write a remark to stderr."""
        self._err(self.styled(self._wrapped(self.runnable(text)), "dim"))

    def runnable(self, text: str) -> str:
        """Return the text with `shepherd memory list` as it can be run here, where PATH may not have it."""
        if not self.names_program or "shepherd " not in text:
            return text
        from shepherd.installation import program, with_program

        return with_program(text, program())

    def warn(self, message: str, hint: str = "") -> None:
        """Write a warning to stderr, and on the next line what to do."""
        self._complain("warning:", "yellow", message, hint)

    def error(self, message: str, hint: str = "") -> None:
        """Write an error to stderr, and on the next line what to do."""
        self._complain(self.error_label, "red", message, hint)

    def transient(self, text: str) -> None:
        """Show a state on a terminal until the next call replaces it; "" removes it."""
        if self.err_is_terminal:
            # A line that wraps could not be removed.
            shown = shortened(printable(text), max(terminal_size(self.err)[0] - 1, 1))
            self.err.write(f"\r\x1b[K{self.styled(shown, 'dim')}")
            self.err.flush()

    def ask(self, question: str) -> str:
        """Ask the user for a line; "" at the end of input."""
        self.transient("")
        self.err.write(question)
        self.err.flush()
        with echoing(True):
            return sys.stdin.readline().strip()

    def agrees(self, question: str) -> bool:
        """Ask the user; returns whether the answer is yes."""
        return self.ask(f"{question} [y/N] ").lower() in ("y", "yes")

    def traceback(self) -> None:
        """Write the traceback of the exception being handled to stderr."""
        import traceback

        self._err(printable(traceback.format_exc().rstrip()))

    def styled(self, text: str, style: str, *, out: bool = False) -> str:
        """Return the text in a style, if the stream shows styles."""
        shown = self.out_has_colour if out else self.err_has_colour
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if shown and text else text

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Write a table to a terminal; a pipe gets a line per row, tabs between cells, and no headers."""
        if not self.out_is_terminal:
            for row in rows:
                self.out.write("\t".join(_cell(str(value)) for value in row) + "\n")
            return
        from shepherd.commands.tables import print_table

        shown = [[printable(str(value)) for value in row] for row in rows]
        print_table(self.out, headers, shown, colour=self.out_has_colour)

    def flush(self) -> None:
        """Flush stdout; raises BrokenPipeError when the reader is gone."""
        self.out.flush()

    def _complain(self, label: str, style: str, message: str, hint: str) -> None:
        text = self._wrapped(f"{label} {message}")
        self._err(self.styled(label, style) + text[len(label) :])
        if hint:
            hint = self.runnable(hint_with_command(hint) if self._has_slash_commands else hint)
            self._err(self.styled(self._wrapped(f"  {hint}"), "dim"))

    def _wrapped(self, text: str) -> str:
        """Return a text for stderr; on a terminal its lines end between words, and keep their indentation."""
        text = printable(text)
        if not self.err_is_terminal:
            return text
        return _filled(text, terminal_size(self.err)[0])

    def _err(self, text: str) -> None:
        self.out.flush()
        self.err.write(text + "\n")
        self.err.flush()


def terminal_size(stream: TextIO) -> tuple[int, int]:
    """Return columns and rows of the terminal behind a stream, as they are now, or of a usual one."""
    try:
        return os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):  # no terminal, or io.UnsupportedOperation: no file
        return 80, 24


def printable(text: str) -> str:
    """Return the text with control characters (except line feed and tab) shown as U+FFFD."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def shortened(text: str, most: int = 120) -> str:
    """Return the text on one line of at most `most` characters, with an ellipsis where it was cut."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def age_in_words(days: float) -> str:
    """Return an age, roughly: `just now`, `5 minutes ago`, `3 days ago`."""
    seconds = days * 86_400
    for unit, length in (
        ("year", 31_557_600),
        ("month", 2_629_800),
        ("day", 86_400),
        ("hour", 3_600),
        ("minute", 60),
    ):
        if seconds >= length:
            return f"{counted(int(seconds / length), unit)} ago"
    return "just now"


def day(timestamp: int, *, with_time: bool = False) -> str:
    """Return the local day of a time in unix seconds, as 2026-01-31, perhaps with hour and minute."""
    return time.strftime("%Y-%m-%d %H:%M" if with_time else "%Y-%m-%d", time.localtime(timestamp))


def duration(milliseconds: float) -> str:
    """Return a time in a suitable unit: `312 µs`, `41 ms`, `2.3 s`."""
    if milliseconds < 1:
        return f"{milliseconds * 1000:.0f} µs"
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def size(n_bytes: int) -> str:
    """Return a number of bytes in a suitable unit: `512 bytes`, `1.5 MiB`."""
    if n_bytes < 1024:
        return counted(n_bytes, "byte")
    for unit, length in (("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)):
        if n_bytes < 1024 * length or unit == "TiB":
            return f"{n_bytes / length:,.1f} {unit}"
    raise AssertionError(n_bytes)


def _filled(text: str, columns: int) -> str:
    """Return the text in lines that end between words, each as far to the right as its first one."""
    if len(text) <= columns:
        return text
    return "\n".join(
        textwrap.fill(
            line,
            max(columns, 20),
            subsequent_indent=" " * _INDENT.match(line).end(),  # type: ignore[union-attr]
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    )


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _plain(value: object) -> object:
    from dataclasses import asdict, is_dataclass

    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    return str(value)


# An indented line of two columns, with two spaces or more between them.
_TWO_COLUMNS = re.compile(r"( +\S.*?  +)(\S.*)")


def fitted(text: str, columns: int) -> str:
    """Return a help text in lines of at most so many columns.

    Lines that begin at the margin are joined to paragraphs. Indented ones are commands, which stay whole, for
    copying. A second column continues below itself, or if there is too little room, on lines of its own.
    """
    columns = max(columns, 40)
    done: list[str] = []
    paragraph: list[str] = []
    for line in [*text.split("\n"), ""]:
        if line.strip() and not line.startswith(" "):
            paragraph.append(line)
            continue
        if paragraph:
            done += textwrap.wrap(" ".join(paragraph), columns, break_on_hyphens=False)
            paragraph = []
        done += _fitted_line(line, columns)
    return "\n".join(done[:-1])


def _fitted_line(line: str, columns: int) -> list[str]:
    parts = _TWO_COLUMNS.fullmatch(line) if len(line) > columns else None
    if parts is None:
        return [line]
    first, rest = parts.groups()
    indent = len(first)
    is_narrow = indent > columns // 2
    if is_narrow:
        indent = len(line) - len(line.lstrip()) + 4
    lines = textwrap.wrap(rest, columns - indent, break_long_words=False, break_on_hyphens=False)
    indented = [" " * indent + text for text in lines]
    return [first.rstrip(), *indented] if is_narrow else [first + lines[0], *indented[1:]]


def near_miss(word: str, known: Iterable[str]) -> str:
    """Return `did you mean …?` for a word that is nearly one of the known ones, else ""."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=2)
    return f"did you mean {' or '.join(near)}?" if near else ""


def hint_with_command(hint: str) -> str:
    """Return the hint with the slash command for its advice, for frontends that have slash commands."""
    return hint.replace(NEW_CONVERSATION, f"{NEW_CONVERSATION} with /clear")

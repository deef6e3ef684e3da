"""Messages of the command line: what was typed, in a template, with attached documents and pictures.

Only what was typed is recalled with and learned from; the rest is for the model alone.
"""

from __future__ import annotations

import re
import shlex
import string
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from shepherd.cli.parsing import Parser, stdin_bytes
from shepherd.commands.screen import Screen, counted, near_miss
from shepherd.errors import NotTextError, UsageError
from shepherd.escaping import PIPED
from shepherd.paths import given_path
from shepherd.pictures import KINDS, MOST_BYTES, looks_like_picture, no_pictures, picture_of, size_of
from shepherd.types import Picture

if TYPE_CHECKING:
    from shepherd.assistant import Assistant
    from shepherd.config import Config

__all__ = [
    "Attached",
    "Composed",
    "Composer",
    "add_composing_options",
    "attached_in_words",
    "composer_of",
    "read_attached",
    "require_room",
    "require_utf8",
    "word_at_end",
]

# `@path`, or `@"a path with blanks"`, at the beginning of a word.
_MENTION = re.compile(r"(?<![^\s(\[\"'])@(?:\"([^\"\n]+)\"|([^\s\"]\S*))")
_LAST_WORD = re.compile(r"(?<![^\s(\[\"'])@(\"[^\"\n]*|[^\s\"]\S*|)\Z")
_AFTER = ".,;:!?)]}'\""
_BEGINNING_BYTES = 64
# A text of more characters a token is not counted to its end: that it is too long is known before.
_MOST_CHARS_PER_TOKEN = 16


@dataclass(frozen=True, slots=True)
class Attached:
    """A document for a message: the name it was given, and its text; or a picture, which has none.

    `source` is what an import takes, if that is not the name.
    """

    name: str
    text: str = ""
    picture: Picture | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Composed:
    """A message: what was typed, what the model reads in its place ("": that), and what is attached."""

    typed: str
    composed: str = ""
    attached: tuple[Attached, ...] = ()

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Pictures that are attached, in order."""
        return tuple(one.picture for one in self.attached if one.picture is not None)


class Composer:
    """Puts messages into the templates, and attaches documents: those of options to the first message."""

    def __init__(
        self,
        config: Config,
        screen: Screen,
        *,
        templates: Sequence[string.Template] = (),
        pending: Sequence[Attached] = (),
    ) -> None:
        self._config, self._screen = config, screen
        self._templates = templates
        self.pending = tuple(pending)

    def compose(self, typed: str, material: str = "", *, finds_paths: bool = False) -> Composed:
        """Return the message; `material` was piped in beside the text typed, and is not the user's own words.

        In a template the material follows the text; without one it is attached as `stdin`. With
        `finds_paths`, documents that the text names with `@path` are attached. Raises DocumentError and
        UsageError for one that cannot be read.
        """
        attached = self.pending
        if typed and not self._templates:
            piped = (Attached(PIPED, material),) if material.strip() else ()
            attached, material = piped + attached, ""
        if finds_paths:
            named = {
                name: source for name, source in _mentions(typed) if not any(a.name == name for a in attached)
            }
            attached += tuple(
                read_attached(source, self._config, self._screen, name) for name, source in named.items()
            )
        text = "\n\n".join(part for part in (typed, material) if part)
        for template in self._templates:
            text = _inserted(template, text)
        documents = [one for one in attached if one.picture is None]
        if documents:
            from shepherd.knowledge import attached_block

            text = "\n\n".join(filter(None, [text, *(attached_block(a.name, a.text) for a in documents)]))
        return Composed(typed, "" if text == typed else text, attached)

    def sent(self) -> None:
        """Note that a message was answered: what was attached belongs to that one."""
        self.pending = ()


def add_composing_options(parser: Parser) -> None:
    """Add -a, -f, -t and --param."""
    group = parser.add_argument_group("the message")
    group.add_argument(
        *("-a", "--attach"),
        action="append",
        default=[],
        metavar="FILE",
        help="attach a document, a picture, an address, or - for stdin; can be repeated",
    )
    group.add_argument(
        *("-f", "--fragment"),
        action="append",
        default=[],
        metavar="NAME",
        help="attach a fragment, which is a saved text (shepherd fragment), or a file",
    )
    group.add_argument(
        *("-t", "--template"),
        action="append",
        default=[],
        metavar="NAME",
        help="put the message into a template (shepherd template); if repeated, the result of each goes"
        " into the next",
    )
    group.add_argument(
        "--param",
        action="append",
        default=[],
        nargs=2,
        metavar=("KEY", "VALUE"),
        help="set a parameter of the template; can be repeated",
    )


def composer_of(
    arguments: Namespace, config: Config, screen: Screen, templates: Sequence[string.Template]
) -> Composer:
    """Return the composer for these options; reads what they attach."""
    pending = [_of_option(source, config, screen) for source in arguments.attach]
    pending += [_of_fragment(name, config, screen) for name in arguments.fragment]
    return Composer(config, screen, templates=templates, pending=pending)


def require_utf8(line: str) -> None:
    """Raise UsageError for a typed line with bytes that aren't UTF-8, which arrive as surrogates."""
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError("that line is not UTF-8", hint="paste it again from a UTF-8 terminal") from None


def require_room(message: Composed, assistant: Assistant) -> None:
    """Raise UsageError when what is attached is too long for the window, or a picture that can't be read."""
    if message.pictures and not assistant.engine.reads_pictures:
        raise no_pictures(assistant.engine.picture_problem)
    window = assistant.engine.window_tokens
    count: Callable[[str], int] = assistant.engine.count_tokens
    total = 0
    most = window * _MOST_CHARS_PER_TOKEN
    for one in message.attached:
        n_tokens = count(one.text[:most])
        more = "more than " if len(one.text) > most else ""
        total += n_tokens
        if total >= window:
            names = one.name if total == n_tokens else f"what is attached, up to {one.name},"
            raise UsageError(
                f"{names} has {more}{counted(total, 'token')}, and the model's window {window:,}",
                hint=_hint(one, assistant),
            )


def attached_in_words(message: Composed, assistant: Assistant) -> str:
    """Return what is attached to a message, with its length in tokens; "" for nothing."""
    count: Callable[[str], int] = assistant.engine.count_tokens

    def size(one: Attached) -> str:
        if one.picture is None:
            return counted(count(one.text), "token")
        width, height = size_of(one.picture.data)
        return f"a picture of {width} x {height}"

    return ", ".join(f"{one.name} ({size(one)})" for one in message.attached)


def word_at_end(text: str) -> str | None:
    """Return the path after the `@` of the last word, perhaps with a quote before it; None without."""
    found = _LAST_WORD.search(text)
    return None if found is None else found[1]


def read_attached(
    source: str, config: Config, screen: Screen, name: str = "", stdin: BinaryIO | None = None
) -> Attached:
    """Return the text or picture of a file, an address, or of `stdin` for "-".

    Raises DocumentError, UsageError.
    """
    from shepherd.cli.progress import working
    from shepherd.knowledge.importing import WebLimits, read_document

    shown = name or (PIPED if stdin is not None else source)
    if stdin is not None:
        stdin = BytesIO(stdin.read())
    picture = _picture_in(source, stdin)
    if picture is not None:
        return Attached(shown, picture=picture)
    with working(screen, f"reading {name or source}"):
        try:
            document = read_document(source, WebLimits.of(config), stdin)
        except NotTextError as error:
            hint = f"text, Markdown, HTML, PDF and pictures ({KINDS}) can be attached"
            raise NotTextError(str(error), hint=hint) from error
    return Attached(shown, document.text, source=source)


def _picture_in(source: str, stdin: BytesIO | None) -> Picture | None:
    """Return the picture in a file or stdin; None for what is no picture, or can't be read."""
    if stdin is not None:
        data = stdin.getvalue()
    else:
        try:
            with open(given_path(source), "rb") as file:
                beginning = file.read(_BEGINNING_BYTES)
                data = beginning if not looks_like_picture(beginning) else beginning + file.read(MOST_BYTES)
        except (OSError, UsageError, ValueError):  # an address, or a file that the reader complains about
            return None
    return picture_of(data) if looks_like_picture(data) else None


def _of_option(source: str, config: Config, screen: Screen) -> Attached:
    return read_attached(source, config, screen, stdin=stdin_bytes() if source == "-" else None)


def _of_fragment(name: str, config: Config, screen: Screen) -> Attached:
    from shepherd.cli.template import fragment_file, saved_names

    saved = fragment_file(name)
    if saved is not None:
        return read_attached(str(saved), config, screen, name)
    if "://" in name or name == "-" or given_path(name).exists():
        return _of_option(name, config, screen)
    raise UsageError(
        f"there is no fragment and no file {name!a}",
        hint=near_miss(name, saved_names("fragments"))
        or "shepherd fragment list names them; shepherd fragment edit NAME makes one",
    )


def _mentions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the source of each document that a text names; a word that cannot be one stays.

    Raises UsageError for a path that was mistyped. Program text is full of `@` (`from "@/lib/utils"`,
    `@"C:\\temp"`): in quotes, in brackets and in a text of several lines, a path without a file stays, too.
    """
    from shepherd.knowledge.importing.documents import SUFFIXES

    is_one_line = "\n" not in text.strip()
    for found in _MENTION.finditer(text):
        word = found[1] or found[2]
        path = word if found[1] else word.rstrip(_AFTER if "(" not in word else _AFTER.replace(")", ""))
        if _is_file(word):
            yield word, word
        elif "://" in path or _is_file(path):
            yield path, path
        else:
            is_path = path.startswith(("/", "./", "../", "~/")) or Path(path).suffix.lower() in SUFFIXES
            is_told = is_one_line and (found.start() == 0 or text[found.start() - 1].isspace())
            if is_path and is_told:
                raise UsageError(f"@{path}: there is no such file", hint="correct the path, or drop the @")


def _is_file(path: str) -> bool:
    try:
        return given_path(path).is_file()
    except (OSError, UsageError, ValueError):  # a name that is too long, an unknown user, a NUL
        return False


def _inserted(template: string.Template, text: str) -> str:
    """Return the template's text with the message in its place, or behind it."""
    filled = template.safe_substitute({"input": text})
    takes = any(
        "input" in (match["named"], match["braced"]) for match in template.pattern.finditer(template.template)
    )
    return filled if takes or not text else f"{filled}\n\n{text}"


def _hint(one: Attached, assistant: Assistant) -> str:
    ways = ["attach less of it"]
    is_piped = one.name == PIPED
    saves = "save it as a file and " if is_piped else ""
    file = "FILE" if is_piped else shlex.quote(one.source or one.name)
    ways.append(f"{saves}run shepherd knowledge import {file}, so that answers use the passages that match")
    trained = getattr(assistant.engine.info, "n_ctx_train", 0)
    if isinstance(trained, int) and assistant.engine.window_tokens < trained:
        ways.append(f"set n_ctx up to {trained}")
    return "; or ".join(ways)

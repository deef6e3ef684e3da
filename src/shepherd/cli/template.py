"""`shepherd template`: prompts to use again, which are Markdown files in the folder of the configuration."""

from __future__ import annotations

import os
import re
import shlex
import string
import subprocess
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shepherd.cli.parsing import Parser, add_action, add_actions, finish_actions
from shepherd.commands.screen import Screen, near_miss, shortened
from shepherd.errors import UsageError
from shepherd.paths import config_file, write_atomically

__all__ = [
    "Template",
    "build_parser",
    "edited",
    "execute",
    "filled",
    "fragment_file",
    "fragment_path",
    "read_template",
    "saved_names",
]

_DESCRIPTION = """\
A template is a prompt that you can reuse: shepherd -t NAME -e "…" puts your message into it. It is a Markdown
file, which edit creates."""

_EPILOG = """\
A template's text is the prompt. $input stands for your message, which otherwise follows the text, and other
names, such as $language, for parameters: --param language German. $$ is a dollar sign. Lines between --- and
--- at the beginning can set system (the system prompt), model and provider, and defaults of parameters."""

_SETTINGS = ("system", "model", "provider")
_INPUT = "input"
_NAME = re.compile(r"[\w.-]{1,100}")
_FRONT = re.compile(r"\A---[^\S\n]*\n(.*?)^---[^\S\n]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[^\S\n]*:[^\S\n]*(.*)")
_STARTER = """\
---
system:
language: English
---
Summarise this in $language, in three sentences:

$input
"""


@dataclass(frozen=True, slots=True)
class Template:
    """A prompt with placeholders, the settings that it makes, and defaults of its parameters."""

    name: str
    text: str
    system: str = ""
    model: str = ""
    provider: str = ""
    defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def placeholders(self) -> frozenset[str]:
        """Names of its parameters; $input is none."""
        return frozenset(_names_in(self.text) | _names_in(self.system)) - {_INPUT}

    @property
    def takes_input(self) -> bool:
        """True if it needs a message: it has the place for one, or no text of its own."""
        return _INPUT in _names_in(self.text) or not self.text


def build_parser() -> Parser:
    """Build the parser of `shepherd template`."""
    parser = Parser(prog="shepherd template", description=_DESCRIPTION, epilog=_EPILOG)
    actions = add_actions(parser)
    add_action(actions, "list", "list templates, with their parameters")
    for action in (
        add_action(actions, "show", "print a template"),
        add_action(actions, "edit", "edit a template, or make a new one, in $VISUAL or $EDITOR"),
    ):
        action.add_argument("name", metavar="NAME", help="name of the template")
    finish_actions(actions)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run one action."""
    if arguments.action == "list":
        _list(screen)
    elif arguments.action == "show":
        template = read_template(arguments.name)
        screen.result(_as_dict(template), _file_of(arguments.name).read_text(encoding="utf-8").rstrip("\n"))
    else:
        _edit(arguments.name, screen)
    return 0


def read_template(name: str) -> Template:
    """Return the template of this name, or in this file; raises UsageError."""
    path = _file_of(name)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        near = near_miss(name, saved_names("templates"))
        raise UsageError(
            f"there is no template {name!a}",
            hint=near or f"shepherd template list names them; shepherd template edit {name[:100]} makes one",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise UsageError(f"{path}: {reason}", hint="a template is a text file") from None
    return _parsed(path.stem, text)


def filled(
    templates: Sequence[Template], parameters: Mapping[str, str]
) -> tuple[list[string.Template], list[str]]:
    """Return the texts and the system prompts of templates with their parameters filled in, but not $input.

    Raises UsageError for a parameter that has no value, and for a value that no template uses.
    """
    known = frozenset().union(*(template.placeholders for template in templates))
    for name in parameters:
        if name not in known:
            which = ", ".join(f"${one}" for one in sorted(known)) or "none"
            raise UsageError(
                f"no template has the parameter {name!a}", hint=f"parameters of these templates: {which}"
            )
    texts, systems = [], []
    for template in templates:
        values = {**template.defaults, **parameters}
        missing = sorted(template.placeholders - values.keys())
        if missing:
            options = " ".join(f"--param {name} …" for name in missing)
            raise UsageError(f"the template {template.name} needs {', '.join(missing)}", hint=options)
        # A value may have dollar signs, and is text when $input is filled in.
        values = {name: value.replace("$", "$$") for name, value in values.items()} | {_INPUT: "$" + _INPUT}
        if template.text:
            texts.append(string.Template(_substituted(template.text, values)))
        if template.system:
            systems.append(string.Template(_substituted(template.system, values)).safe_substitute())
    return texts, systems


def saved_names(folder: str) -> list[str]:
    """Return the names of the `templates` or `fragments`, sorted."""
    try:
        files = [path for path in _folder(folder).iterdir() if path.is_file() and path.name[0] != "."]
    except OSError:
        return []
    return sorted({path.stem if path.suffix in (".md", ".txt") else path.name for path in files})


def fragment_file(name: str) -> Path | None:
    """Return the file of a saved fragment; None if there is none of this name."""
    if not _NAME.fullmatch(name):
        return None
    files = (_folder("fragments") / f"{name}{suffix}" for suffix in ("", ".md", ".txt"))
    return next((path for path in files if path.is_file()), None)


def fragment_path(name: str) -> Path:
    """Return the file of a fragment, or the one that it would have; raises UsageError for what is no name."""
    name = name.removesuffix(".md")
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise UsageError(f"{name!a} cannot be the name of a fragment", hint="use letters, digits, -, _ and .")
    return fragment_file(name) or _folder("fragments") / f"{name}.md"


def _folder(name: str) -> Path:
    return config_file().with_name(name)


def _file_of(name: str) -> Path:
    if "/" in name or name.endswith(".md"):
        return Path(os.path.expanduser(name))
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise UsageError(f"{name!a} cannot be the name of a template", hint="use letters, digits, -, _ and .")
    return _folder("templates") / f"{name}.md"


def _parsed(name: str, text: str) -> Template:
    front = _FRONT.match(text)
    fields = _fields(name, front[1]) if front else {}
    body = text[front.end() :] if front else text
    settings = {key: fields.pop(key) for key in _SETTINGS if key in fields}
    template = Template(name, body.strip(), **settings, defaults=fields)
    for key in fields:
        if key not in template.placeholders:
            raise UsageError(
                f"the template {name}: ${key} is nowhere in its text",
                hint=f"known lines are {', '.join(_SETTINGS)}; others are defaults of parameters",
            )
    if _INPUT in _names_in(template.system):
        raise UsageError(
            f"the template {name}: $input cannot be in the system prompt", hint="put it in the text"
        )
    if not (template.text or template.system):
        raise UsageError(f"the template {name} is empty", hint=f"shepherd template edit {name}")
    return template


def _fields(name: str, front: str) -> dict[str, str]:
    """Return the fields between the lines of dashes; a value `|` is the indented lines below, as in YAML."""
    fields: dict[str, str] = {}
    block = ""  # name of the field whose lines these are
    for number, line in enumerate(front.split("\n"), 2):
        if block and (not line.strip() or line[0] in " \t"):
            fields[block] = f"{fields[block]}\n{line.strip()}"
            continue
        if not line.strip() or line.startswith("#"):
            continue
        found = _FIELD.fullmatch(line.rstrip())
        if found is None:
            raise UsageError(
                f"the template {name}: line {number} is not a setting",
                hint="write NAME: VALUE, and --- below",
            )
        key, value = found[1], found[2].strip()
        block = key if value == "|" else ""
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        fields[key] = "" if block else value[1:-1] if quoted else value
    return {key: value.strip() for key, value in fields.items()}


def _names_in(text: str) -> set[str]:
    found = string.Template.pattern.finditer(text)
    return {match["named"] or match["braced"] for match in found if match["named"] or match["braced"]}


def _substituted(text: str, values: Mapping[str, str]) -> str:
    """Return the text with parameters filled in, still a template: `$$` and lone dollar signs stay."""

    def value(match: re.Match[str]) -> str:
        name = match["named"] or match["braced"]
        return values[name] if name else "$$"

    return string.Template.pattern.sub(value, text)


def _list(screen: Screen) -> None:
    templates = []
    for name in saved_names("templates"):
        try:
            templates.append(read_template(name))
        except UsageError as error:
            screen.warn(str(error), error.hint)
    rows = [
        (
            template.name,
            ", ".join(sorted(template.placeholders)),
            shortened(template.text or template.system, 60),
        )
        for template in templates
    ]
    screen.listing(
        [_as_dict(template) for template in templates],
        ("name", "parameters", "text"),
        rows,
        empty="no templates yet; shepherd template edit NAME makes one",
    )


def _as_dict(template: Template) -> dict[str, object]:
    return {
        "name": template.name,
        "text": template.text,
        "system": template.system,
        "model": template.model,
        "provider": template.provider,
        "parameters": {name: template.defaults.get(name) for name in sorted(template.placeholders)},
    }


def _edit(name: str, screen: Screen) -> None:
    path = _file_of(name)
    if not path.parent.is_dir() and path.parent != _folder("templates"):
        raise UsageError(
            f"{shortened(str(path), 80)}: there is no folder {shortened(str(path.parent), 60)}",
            hint="create the folder first, or use a name without /, which is saved with your other templates",
        )
    if not edited(path, _STARTER):
        screen.result({"file": str(path), "saved": False}, note="nothing was changed; no template was made")
        return
    read_template(name)  # a mistake is told now
    screen.result({"file": str(path), "saved": True}, note=f"saved; shepherd -t {name} uses it")


def edited(path: Path, starter: str) -> bool:
    """Open a file in the user's editor; returns whether it exists afterwards.

    A new one begins with `starter`, and is not kept if that is left as it is.
    """
    before = path.read_bytes() if path.is_file() else None
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if before is None:
        write_atomically(path, starter.encode())
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        code = subprocess.run([*shlex.split(command), str(path)], check=False).returncode
    except (OSError, ValueError) as error:
        code, reason = 1, f": {getattr(error, 'strerror', '') or error}"
    else:
        reason = f" ended with exit code {code}"
    if before is None and path.is_file() and (code or path.read_bytes() == starter.encode()):
        path.unlink()  # nothing was written in it
    if code:
        raise UsageError(
            f"the editor {shortened(command, 60)}{reason}", hint="set EDITOR to a program that edits text"
        )
    return path.is_file()

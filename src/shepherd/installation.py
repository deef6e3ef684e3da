"""Commands of this installation for hints: to install what is missing, and to start Shepherd."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from contextlib import suppress
from pathlib import Path

__all__ = [
    "COMMANDS",
    "NAME",
    "executable",
    "install_extra",
    "pip_install",
    "program",
    "program_from_anywhere",
    "reinstall",
    "runnable_from_anywhere",
    "set_readers",
    "with_program",
]

# Made by tools/environment.py in the environments that it looks after.
_STAMP = "shepherd-stamp.json"

NAME = "shepherd"

# Commands of the command line, for every interface that prints one.
COMMANDS = (
    *("apikey", "bench", "chat", "completion", "config", "context", "conversations", "decrypt", "demo"),
    *("doctor", "encrypt", "eval", "facts", "fragment", "knowledge", "mcp", "memory", "model", "provider"),
    *("serve", "sync", "template", "tools", "trace", "tui"),
)


_IN_COMMAND = re.compile(rf"(?<![\w./-]){NAME}(?= (?:-|(?:{'|'.join(COMMANDS)})\b))")


class _State:
    for_strangers = True


_state = _State()


def set_readers(*, strangers: bool) -> None:
    """Set whether people other than this computer's users can read what this process writes.

    They are never shown an absolute path of the program, see `program_from_anywhere`.
    """
    _state.for_strangers = strangers


def pip_install(requirement: str) -> str:
    """Return the command that installs a requirement for the Python that runs, which may be in a .venv."""
    return f"{shlex.quote(sys.executable)} -m pip install {requirement}"


def reinstall() -> str:
    """Return the command that installs Shepherd again, in a checkout or as a package."""
    root = _checkout()
    return pip_install("shepherd-llm") if root is None else _shown(root / "tools" / "environment.py")


def install_extra(*extras: str) -> str:
    """Return the command that installs extras of Shepherd, in a checkout or as a package."""
    names = ",".join(extras)
    root = _checkout()
    if root is None:
        return pip_install(f"'shepherd-llm[{names}]'")
    environment = Path(sys.prefix)
    if not (environment / _STAMP).exists():
        return pip_install(f"-e {shlex.quote(f'{root}[{names}]')}")
    command = f"{_shown(root / 'tools' / 'environment.py')} --extras {' '.join(extras)}"
    return command if environment == root / ".venv" else f"{command} --venv {_shown(environment)}"


def program() -> str:
    """Return how to start Shepherd from the present folder: its name, or the path where it is not found."""
    own = _not_found()
    return NAME if own is None else _shown(own)


def program_from_anywhere(*, for_strangers: bool | None = None) -> str:
    """Return how to start Shepherd from any folder: its name, `~/…` or an absolute path.

    With `for_strangers`, return the name instead of an absolute path, which could reveal a user's name or
    the machine's purpose; by default, what `set_readers` said.
    """
    own = _not_found()
    if own is None:
        return NAME
    with suppress(RuntimeError, ValueError):  # no home folder, or elsewhere
        home = Path.home()
        if home != home.parent:  # "/" is the home of services
            # Unquoted: a shell expands no "~" between quotes.
            return f"~/{shlex.quote(str(own.relative_to(home)))}"
    is_hidden = _state.for_strangers if for_strangers is None else for_strangers
    return NAME if is_hidden else shlex.quote(str(own))


def runnable_from_anywhere(text: str) -> str:
    """Return the text with its commands as this process's readers can run them."""
    return with_program(text, program_from_anywhere()) if NAME in text else text


def with_program(text: str, program: str) -> str:
    """Return the text with `program` in place of `shepherd` before a command or an option."""
    return _IN_COMMAND.sub(lambda _: program, text)


def executable() -> str:
    """Return the program as other programs' settings need it: its name or absolute path, unquoted."""
    own = _not_found()
    return NAME if own is None else str(own)


def _not_found() -> Path | None:
    """Return the program of this installation, None where PATH finds it or it does not exist."""
    own = Path(sys.prefix) / ("Scripts" if os.name == "nt" else "bin") / NAME
    found = shutil.which(NAME)
    is_found = found is not None and Path(found).resolve() == own.resolve()
    return None if is_found or not own.exists() else own


def _checkout() -> Path | None:
    """Return the folder of the repository that this package is in, None for an installed package."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "tools" / "environment.py").is_file() else None


def _shown(path: Path) -> str:
    """Return a path for a command line, from the present folder if it is below that."""
    try:
        relative = path.relative_to(Path.cwd())
    except (OSError, ValueError):  # elsewhere, or the folder is gone
        return shlex.quote(str(path))
    return shlex.quote(str(relative))

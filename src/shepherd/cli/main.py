"""The entry point: which command, and the one place where an error becomes a line and an exit code.

Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from shepherd.cli.original_config import migrate_original_config
from shepherd.cli.parsing import Parser
from shepherd.commands.screen import Screen, near_miss
from shepherd.config.file import ConfigFile
from shepherd.errors import InternalError, ShepherdError, UsageError

__all__ = ["COMMANDS", "main", "parser_of", "run"]

# Name, module, one line of help. A module has build_parser() and execute(arguments, screen) -> exit code.
COMMANDS = {
    "chat": ("shepherd.cli.chat", "talk with a model; plain `shepherd` does the same"),
    "tui": ("shepherd.cli.tui", "the same on a whole screen, with memory and knowledge beside it"),
    "memory": ("shepherd.cli.memory", "list, search, add, edit, forget, export … what is remembered"),
    "facts": ("shepherd.cli.facts", "list, get, set, clear facts about a user"),
    "knowledge": ("shepherd.cli.knowledge", "notes, documents and their connections: add, import, search …"),
    "context": ("shepherd.cli.context", "print the prompt that a question would get, with all that is known"),
    "trace": (
        "shepherd.cli.trace",
        "what each turn showed the model: tree, get, diff, export, import, metta",
    ),
    "model": ("shepherd.cli.model", "fetch models, list, show and remove those that are here"),
    "provider": ("shepherd.cli.provider", "models that run elsewhere: OpenAI, Anthropic, Gemini, Ollama …"),
    "serve": ("shepherd.cli.serve", "answer other programs over HTTP, as OpenAI and Anthropic do"),
    "apikey": ("shepherd.cli.apikey", "keys that let others use your server: create, list, revoke"),
    "tools": ("shepherd.cli.tools", "list the tools that a model may have"),
    "mcp": ("shepherd.cli.mcp", "give another assistant tools over the memory (MCP)"),
    "eval": ("shepherd.cli.eval", "measure how well recall finds what it should"),
    "bench": ("shepherd.cli.bench", "measure how fast recall and storing are on this machine"),
    "config": ("shepherd.cli.config", "show and change settings"),
    "demo": ("shepherd.cli.demo", "watch it remember, in a minute and with a memory of its own"),
    "doctor": ("shepherd.cli.doctor", "check the installation, the database, the model and the GPU"),
    "completion": ("shepherd.cli.completion", "complete commands with Tab in bash, zsh and fish"),
}

INTERRUPTED = 130


def run() -> NoReturn:
    """The `shepherd` command."""
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what may come next
        from shepherd.cli.completion import complete

        complete()
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one command; gives its exit code and never raises for a user's mistake."""
    screen = Screen()
    verbose = any(argument in ("-v", "--verbose") for argument in arguments)
    if verbose:
        _log_to_stderr()
    try:
        code = _dispatch(list(arguments), screen)
        screen.flush()
    except BrokenPipeError:
        _silence_stdout()  # the reader had enough, as `| head` does
        return 0
    except KeyboardInterrupt:
        screen.note("interrupted")
        return INTERRUPTED
    except Exception as error:
        if verbose:
            screen.traceback()
        return _report(error, screen, verbose=verbose)
    return code


def parser_of(command: str) -> Parser:
    """The parser of one command; imports that command's module only."""
    parser = import_module(COMMANDS[command][0]).build_parser()
    assert isinstance(parser, Parser)
    return parser


def _dispatch(arguments: list[str], screen: Screen) -> int:
    first = arguments[0] if arguments else ""
    if first in ("-h", "--help", "help") and len(arguments) == 1:
        screen.print(_help())
        return 0
    if first == "help":
        return _dispatch([*arguments[1:2], "--help"], screen)
    if first in ("-V", "--version"):
        screen.print(_version())
        return 0
    if first in COMMANDS:
        arguments = arguments[1:]
    elif first and not first.startswith("-"):
        raise UsageError(
            f"there is no command {first!a}",
            hint=near_miss(first, COMMANDS)
            or f"commands: {', '.join(COMMANDS)}; shepherd --help explains them",
        )
    else:
        first = "chat"
    parsed = parser_of(first).parse_args(arguments)
    for line in migrate_original_config(ConfigFile()):
        screen.note(line)
    code = import_module(COMMANDS[first][0]).execute(parsed, screen)
    assert isinstance(code, int)
    return code


def _log_to_stderr() -> None:
    import logging

    logging.basicConfig(stream=sys.stderr, format="%(name)s: %(message)s")
    logging.getLogger("shepherd").setLevel(logging.DEBUG)


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {line}" for name, (_, line) in COMMANDS.items())
    return f"""\
usage: shepherd [COMMAND] [OPTIONS]

A local assistant that remembers.

commands:
{commands}

  shepherd COMMAND --help   explains a command and its options

examples:
  shepherd -m model.gguf                   talk
  shepherd -m model.gguf --continue        go on with the last conversation
  shepherd -m model.gguf -e "a question"   one answer, to stdout
  git diff | shepherd -e "review this"     stdin is appended to the question
  shepherd config set model ~/model.gguf   so that -m can be left out
  shepherd memory search "vim"             what would be recalled

options:
  -h, --help     show this help
  -V, --version  show the version"""


def _version() -> str:
    from shepherd import __version__

    return f"shepherd {__version__}"


def _report(error: Exception, screen: Screen, *, verbose: bool) -> int:
    """Say what went wrong, and whose mistake it was; gives the exit code."""
    if isinstance(error, ShepherdError) and not isinstance(error, InternalError):
        screen.error(str(error), error.hint)
        return error.exit_code
    if isinstance(error, OSError):  # a full disk behind stdout, a folder that vanished: the environment's
        _silence_stdout()
        screen.error(
            f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        )
        return 1
    path = "" if verbose else _write_traceback()
    message = str(error) if isinstance(error, InternalError) else type(error).__name__
    steps = [error.hint] if isinstance(error, InternalError) and error.hint else []
    if not verbose:
        steps.append(f"the details are in {path}" if path else "run it again with -v to see the details")
    screen.error(f"this is a bug in Shepherd: {message}", "; ".join([*steps, "please report it"]))
    return 1


def _write_traceback() -> str:
    """Where the traceback was written, or "" when that failed too."""
    import time
    import traceback

    from shepherd.paths import state_dir

    path = state_dir() / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{_version()}, Python {sys.version}, {sys.platform}\n{traceback.format_exc()}")
    except OSError:
        return ""
    return str(path)


def _silence_stdout() -> None:
    # Python flushes stdout once more at exit, which would complain about the same closed pipe.
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = None

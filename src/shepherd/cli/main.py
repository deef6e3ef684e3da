"""Entry point: finds the command, and turns errors into messages and exit codes.

Exit codes: 0 done, 1 failed, 2 usage error, 130 interrupted.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import NoReturn

from shepherd.cli import INTERRUPTED, Terminated, exit_on_interrupt, raise_on_interrupt

if os.path.basename(sys.argv[0]) == "shepherd":  # the command, which begins with this module
    exit_on_interrupt()

from shepherd.cli.original_config import migrate_original_config
from shepherd.cli.parsing import Parser, help_columns, with_action
from shepherd.cli.runnable import runnable_help
from shepherd.commands.screen import Screen, fitted, near_miss
from shepherd.config.file import ConfigFile
from shepherd.errors import InternalError, ShepherdError, UsageError
from shepherd.installation import program, set_readers

__all__ = ["COMMANDS", "main", "parser_of", "run"]

# Name, module, one line of help. A module has build_parser() and execute(arguments, screen) -> exit code, and
# perhaps reordered(arguments) -> arguments, which accepts other orders of words.
COMMANDS = {
    "chat": ("shepherd.cli.chat", "chat with a model; plain `shepherd` does the same"),
    "tui": ("shepherd.cli.tui", "chat full-screen, with memory and knowledge in a panel"),
    "conversations": (
        "shepherd.cli.conversations",
        "list, read, search, rename and delete conversations",
    ),
    "memory": ("shepherd.cli.memory", "list, search, add, edit, forget and export memories"),
    "facts": ("shepherd.cli.facts", "list, set and clear facts about you, and show their history"),
    "knowledge": (
        "shepherd.cli.knowledge",
        "manage notes, documents and connections: add, import, search …",
    ),
    "context": ("shepherd.cli.context", "print the prompt that a model would get for a question"),
    "template": ("shepherd.cli.template", "list, show and edit templates for prompts"),
    "fragment": ("shepherd.cli.fragment", "list, show and edit texts that you attach often"),
    "trace": (
        "shepherd.cli.trace",
        "show what the model saw in each turn: tree, get, diff, export, import, metta",
    ),
    "model": ("shepherd.cli.model", "download, list, show and remove models"),
    "provider": (
        "shepherd.cli.provider",
        "use models elsewhere: OpenAI, Anthropic, Gemini, Ollama …",
    ),
    "serve": (
        "shepherd.cli.serve",
        "chat in the browser, and serve the APIs of OpenAI, Anthropic and Ollama",
    ),
    "apikey": ("shepherd.cli.apikey", "manage API keys for your server: create, list, revoke"),
    "tools": ("shepherd.cli.tools", "list the tools that a model can use"),
    "mcp": ("shepherd.cli.mcp", "share your memory with another assistant (MCP)"),
    "eval": ("shepherd.cli.eval", "measure how well recall finds what it should"),
    "bench": ("shepherd.cli.bench", "measure how fast recall and storing are on this machine"),
    "encrypt": ("shepherd.cli.encrypt", "encrypt the memory, or change its key"),
    "decrypt": ("shepherd.cli.decrypt", "decrypt the memory"),
    "sync": ("shepherd.cli.sync", "sync the memory with your other machines, through a folder"),
    "config": ("shepherd.cli.config", "show and change settings"),
    "demo": ("shepherd.cli.demo", "watch it remember, in a minute and with a temporary memory"),
    "doctor": (
        "shepherd.cli.doctor",
        "check installation, settings, database, model and GPU",
    ),
    "completion": ("shepherd.cli.completion", "complete commands with Tab in bash, zsh and fish"),
}

# Modes of earlier designs that people still type; the help does not list them.
_MODES = {
    "--apiserver": ["serve"],
    "--cliserver": ["serve", "--session"],
    "--server": ["serve"],
    "--tui": ["tui"],
}
# Commands that open no memory, and the one whose terminal belongs to another program.
_WITHOUT_MEMORY = {"completion", "config", "fragment", "model", "provider", "template", "tools"}
_WITHOUT_PASSPHRASE = {*_WITHOUT_MEMORY, "mcp"}
# Options of many commands that people type before the command or its action, and whether a value follows.
_EARLY = {
    **dict.fromkeys(("--user", "--memory-db", "-m", "--model", "-p", "--provider"), True),
    **dict.fromkeys(("--json", "-v", "--verbose"), False),
}
# "--continue=a title" is no question.
_OPTION_WITH_VALUE = re.compile(r"--[a-z][a-z-]*=")


def run() -> NoReturn:
    """Run the `shepherd` command."""
    exit_on_interrupt()
    if "_ARGCOMPLETE" in os.environ:  # the shell asks for completions
        from shepherd.cli.completion import complete

        complete()
    codes: list[int] = []
    atexit.register(_leave_threads, codes)  # before any other, so that it comes last
    codes.append(main(sys.argv[1:]))
    if codes == [INTERRUPTED]:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process is ending
    sys.exit(codes[0])


def _leave_threads(codes: Sequence[int]) -> None:
    """End the process here if threads still run, such as one that waits for a server.

    The exit functions of C libraries free what such a thread may be using: OpenSSL's crashed one that was
    loading certificates.
    """
    if not codes or threading.active_count() == 1:
        return
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):
        return  # the interpreter tries again, and reports it
    os._exit(codes[0])


def main(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code, and never raises for a user's mistake."""
    screen = Screen()
    screen.names_program = True
    set_readers(strangers=False)
    verbose = any(argument in ("-v", "--verbose") for argument in arguments)
    if verbose:
        _log_to_stderr()
    options = Namespace()
    try:
        code = _dispatch(list(arguments), screen, options)
        screen.flush()
    except BrokenPipeError:
        _silence_stdout()  # the reader has closed the pipe, as `| head` does
        return 0
    except KeyboardInterrupt:
        # A second one would end with a traceback: `timeout` sends two, and so does an impatient user.
        with suppress(KeyboardInterrupt):
            screen.note("interrupted")
        return INTERRUPTED
    except Terminated as end:
        return int(end.code or 0)
    except Exception as error:
        if verbose:
            screen.traceback()
        return _report(error, screen, options, verbose=verbose)
    return code


def parser_of(command: str) -> Parser:
    """Build the parser of one command; imports only that command's module."""
    parser = import_module(COMMANDS[command][0]).build_parser()
    assert isinstance(parser, Parser)
    return parser


def _dispatch(arguments: list[str], screen: Screen, options: Namespace) -> int:
    """Run the command; `options` gets what its arguments say."""
    arguments = _with_options_last(arguments)
    first = arguments[0] if arguments else ""
    if first in ("-h", "--help", "help") and len(arguments) == 1:
        screen.print(_help())
        return 0
    if first == "help":
        return _dispatch([*arguments[1:2], "--help"], screen, options)
    if first in ("-V", "--version"):
        screen.print(_version())
        return 0
    if first not in COMMANDS and (mode := next((flag for flag in _MODES if flag in arguments), "")):
        arguments = [argument for argument in arguments if argument != mode]
        first, *more = _MODES[mode]
        arguments = [*more, *arguments]
    elif first in COMMANDS:
        arguments = arguments[1:]
    elif " " in first.strip() and not _OPTION_WITH_VALUE.match(first):  # a question in quotes
        first, arguments = "chat", ["-e", *arguments]
    elif first and not first.startswith("-"):
        words = sum(not argument.startswith("-") for argument in arguments)
        known = f"commands: {', '.join(COMMANDS)}; shepherd --help explains them"
        near = near_miss(first, COMMANDS) if words < 3 else ""
        to_ask = "To ask" if near else "to ask"  # after a question mark, a sentence begins
        question = f'{to_ask} a question, put it in quotes: shepherd "…"' if words > 1 else ""
        raise UsageError(
            f"there is no command {first!a}", hint=" ".join(filter(None, (near, question))) or known
        )
    else:
        first = "chat"
    command = import_module(COMMANDS[first][0])
    if hasattr(command, "reordered"):
        arguments = command.reordered(arguments)
    parser = parser_of(first)
    parsed = parser.parse_args(with_action(parser, arguments))
    vars(options).update(vars(parsed))
    screen.as_json = parsed.json
    if first not in _WITHOUT_PASSPHRASE:
        from shepherd.cli.passphrases import ask_passphrase
        from shepherd.encryption import set_asker

        set_asker(ask_passphrase)
    if first not in _WITHOUT_MEMORY:
        from shepherd.encryption import set_when_made

        set_when_made(partial(_seal_when_made, parsed, screen))
    for line in migrate_original_config(ConfigFile()):
        screen.note(line)
    raise_on_interrupt()
    code = command.execute(parsed, screen)
    assert isinstance(code, int)
    return code


def _seal_when_made(options: Namespace, screen: Screen, file: str) -> None:
    from shepherd.cli.parsing import valid_settings
    from shepherd.cli.readable_files import seal_when_made

    seal_when_made(file, valid_settings(options).config, screen)


def _with_options_last(arguments: list[str]) -> list[str]:
    """Move options that stand before a command or its action behind them: `--user anna memory list`."""
    options, rest = _split(arguments)
    if not rest or rest[0] not in COMMANDS:
        return arguments
    command, *rest = rest
    more, rest = _split(rest)
    end = rest.index("--") if "--" in rest else len(rest)
    return [command, *rest[:end], *options, *more, *rest[end:]]


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the options at the beginning, and the rest."""
    n = 0
    while n < len(arguments):
        name, is_joined, _ = arguments[n].partition("=")
        if name not in _EARLY:
            break
        n += 2 if _EARLY[name] and not is_joined else 1
    return arguments[:n], arguments[n:]


def _log_to_stderr() -> None:
    import logging

    logging.basicConfig(stream=sys.stderr, format="%(name)s: %(message)s")
    logging.getLogger("shepherd").setLevel(logging.DEBUG)


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {line}" for name, (_, line) in COMMANDS.items())
    text = f"""\
usage: shepherd [COMMAND] [OPTIONS]

A local assistant that remembers.

commands:
{commands}

  {program()} COMMAND --help   explains a command and its options

examples:
  shepherd                                 chat
  shepherd --continue                      continue the last conversation
  shepherd "what is my dog called?"        print one answer
  shepherd -m hf:user/repo:Q4_K_M          chat with a model, downloaded once
  shepherd config set model ~/model.gguf   make a model the default
  git diff | shepherd -e "review this"     ask about text from a pipe
  shepherd memory search vim               search your memories
  shepherd serve --open                    chat in the browser

options:
  -h, --help     show this help
  -V, --version  show the version"""
    return fitted(runnable_help(text, help_columns()), help_columns())


def _version() -> str:
    from shepherd import __version__

    return f"shepherd {__version__}"


def _report(error: Exception, screen: Screen, options: Namespace, *, verbose: bool) -> int:
    """Print an error; returns the exit code."""
    if isinstance(error, ShepherdError) and not isinstance(error, InternalError):
        screen.error(str(error), error.hint)
        return error.exit_code
    if isinstance(error, OSError):  # such as a full disk behind stdout
        _silence_stdout()
        screen.error(
            f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        )
        return 1
    path = "" if verbose else _write_traceback(options)
    message = str(error) if isinstance(error, InternalError) else type(error).__name__
    steps = [error.hint] if isinstance(error, InternalError) and error.hint else []
    if not verbose:
        steps.append(f"the details are in {path}" if path else "run it again with -v to see the details")
    screen.error(f"this is a bug in Shepherd: {message}", "; ".join([*steps, "please report it"]))
    return 1


def _write_traceback(options: Namespace) -> str:
    """Write the traceback to a new file; returns its path, or "" if that failed."""
    import time

    from shepherd.paths import state_dir

    path = state_dir() / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{_version()}, Python {sys.version}, {sys.platform}\n{_traceback_to_keep(options)}")
    except OSError:
        return ""
    return str(path)


def _traceback_to_keep(options: Namespace) -> str:
    """Return the traceback; while a memory is encrypted, without messages, which may quote words."""
    import traceback

    if not _is_memory_encrypted(options):
        return traceback.format_exc()
    kind, _, trace = sys.exc_info()
    return f"{''.join(traceback.format_tb(trace))}{kind.__name__ if kind else ''}\n"


def _is_memory_encrypted(options: Namespace) -> bool:
    """Return whether this process uses an encrypted memory, or an option or the settings name one."""
    from shepherd.cli.parsing import valid_settings
    from shepherd.encryption import is_in_use
    from shepherd.memory_factory import is_memory_encrypted

    if is_in_use():
        return True
    for named in (options, Namespace()):  # it may have crashed before it opened either
        with suppress(ShepherdError, OSError):
            if is_memory_encrypted(valid_settings(named).config):
                return True
    return False


def _silence_stdout() -> None:
    # Python flushes stdout again at exit, which would fail with the same error.
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = None

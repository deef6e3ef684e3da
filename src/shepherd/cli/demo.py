"""`shepherd demo`: two real conversations, typed by themselves, with a restart in between.

Each is a separate process with the bundled model and the same new database, so what the second one knows can
only come from memory. The lines are scripted; every answer is the model's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from shepherd.cli import INTERRUPTED, raise_on_interrupt
from shepherd.cli.parsing import Parser, add_common_options, loaded_settings
from shepherd.commands.screen import Screen
from shepherd.errors import ShepherdError
from shepherd.installation import program

if TYPE_CHECKING:
    from shepherd.assistant import Assistant

__all__ = ["act", "build_parser", "execute"]

_DESCRIPTION = """\
Watch Shepherd remember: tell it two things, quit, start again, ask.

Both conversations are real processes with the bundled demo model and a temporary memory, which is deleted
afterwards. Yours is not touched."""

_ACTS = (
    (
        "1 of 2: an empty memory",
        (
            "Hi, my name is Steve and I live in Texas.",
            "I prefer VS Code with vim keybindings as my IDE.",
            "/quit",
        ),
    ),
    (
        "2 of 2: a new process, which knows nothing of the conversation above",
        ("Which IDE do I prefer?", "/why", "Where do I live?", "/stats", "/quit"),
    ),
)
_USER = "steve"
# Code of the child process. Ctrl-C during its imports ends it silently: the parent prints "interrupted".
_ACT = (
    "import sys; from shepherd.cli import exit_on_interrupt; exit_on_interrupt('');"
    " from shepherd.cli.demo import act; sys.exit(act(*sys.argv[1:]))"
)


def build_parser() -> Parser:
    """Build the parser of `shepherd demo`."""
    parser = Parser(prog="shepherd demo", description=_DESCRIPTION)
    parser.add_argument("--fast", action="store_true", help="type without pauses")
    add_common_options(parser, json_help="print the JSON lines of shepherd chat --json")
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Play both acts, each in a new process."""
    with tempfile.TemporaryDirectory(prefix="shepherd-demo-") as folder:
        options = ["--json"] if arguments.json else ["--fast"] if arguments.fast else []
        for number, (title, _) in enumerate(_ACTS):
            screen.note(title)
            code = _in_new_process(number, Path(folder), options)
            if code:
                return code
            screen.note()
    own = program()
    screen.note(
        f"The memory of this demo has been deleted. To start your own chat, run {own}. After that,"
        f" {own} memory list and {own} facts list show what it knows about you."
    )
    return 0


def _in_new_process(number: int, folder: Path, options: list[str]) -> int:
    own = {
        "SHEPHERD_CONFIG": str(folder / "config.json"),
        "SHEPHERD_MEMORY_DATABASE": str(folder / "memory.db"),
        "SHEPHERD_USER_ID": _USER,
        "XDG_STATE_HOME": str(folder),
        # No query for the cursor position: the terminal would answer on stdin, not on the pipe of the keys.
        "PROMPT_TOOLKIT_NO_CPR": "1",
    }
    settings = {name: value for name, value in os.environ.items() if not name.startswith("SHEPHERD_")}
    command = [sys.executable, "-c", _ACT, str(number), *options]
    return subprocess.run(command, env={**settings, **own}, check=False).returncode


def _play(lines: tuple[str, ...], screen: Screen, options: tuple[str, ...]) -> int:
    from shepherd.chat_session import Session
    from shepherd.cli.chat import show_news_at_end

    config = loaded_settings(Namespace()).config
    at_end = None if "--json" in options else partial(show_news_at_end, screen)
    with Session(config, warn=screen.warn, at_end=at_end) as session:
        assistant = session.assistant
        if "--json" in options:
            from shepherd.cli.composing import Composed
            from shepherd.cli.jsonlines import answer_lines

            said = [Composed(line) for line in lines if not line.startswith("/")]
            return answer_lines(assistant, screen, said)
        return _type(lines, assistant, screen, fast="--fast" in options)


def _type(lines: tuple[str, ...], assistant: Assistant, screen: Screen, *, fast: bool) -> int:
    from prompt_toolkit.input import create_pipe_input

    from shepherd.cli.chat import about_the_built_in_model
    from shepherd.cli.conversation import Conversation
    from shepherd.cli.editor import ScriptedEditor
    from shepherd.commands.slash import COMMANDS
    from shepherd.paths import history_file

    screen.note(about_the_built_in_model())
    with create_pipe_input() as keys:
        editor = ScriptedEditor(screen, (history_file(), None), COMMANDS, keys, lines, fast=fast)
        return Conversation(assistant, screen, editor=editor, is_temporary=True).run(0)


def act(number: str, *options: str) -> int:
    """Play one act, in a process of its own; returns its exit code."""
    screen = Screen()
    raise_on_interrupt()
    try:
        return _play(_ACTS[int(number)][1], screen, options)
    except ShepherdError as error:
        screen.error(str(error), error.hint)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED

"""`shepherd completion`: a script for shells that completes commands, and the completions."""

from __future__ import annotations

import os
from argparse import Action, Namespace
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shepherd.cli.parsing import Parser, add_common_options
from shepherd.commands.screen import Screen
from shepherd.errors import ShepherdError

if TYPE_CHECKING:
    from shepherd.memory import Memory

__all__ = ["build_parser", "complete", "execute"]

_DESCRIPTION = """\
Print a script that completes commands, options, settings, models and providers with Tab. The script
asks Shepherd for them, so it keeps working after an update."""

_WHERE = {
    "bash": 'eval "$(shepherd completion bash)" in ~/.bashrc does the same',
    "zsh": "the folder must be in $fpath before compinit runs",
    "fish": "fish finds it there",
}


def build_parser() -> Parser:
    """Build the parser of `shepherd completion`."""
    parser = Parser(prog="shepherd completion", description=_DESCRIPTION)
    parser.add_argument("shell", choices=list(_WHERE), metavar="SHELL", help=", ".join(_WHERE))
    add_common_options(parser, json_help="print the script as a JSON string")
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Print the script."""
    from argcomplete.shell_integration import shellcode

    script = shellcode(["shepherd"], shell=arguments.shell)
    if arguments.json:
        screen.json(script)
        return 0
    screen.print(script)
    if screen.out_is_terminal:
        screen.note(_WHERE[arguments.shell])
    return 0


def complete() -> None:
    """Print completions by the protocol of argcomplete, and exit."""
    import argcomplete

    from shepherd.cli.main import COMMANDS, parser_of

    words = os.environ.get("COMP_LINE", "").split()
    may_be_action = words[1:2] == ["config"] and _name_action(words)
    if len(words) > 1 and words[1] in COMMANDS and _is_beyond(words[1]):
        # Build this command's parser only: `shepherd COMMAND` is the program to complete.
        parser = parser_of(words[1])
        os.environ["_ARGCOMPLETE"] = "2"
    else:
        parser = parser_of("chat")
        parser.add_argument("command", nargs="?", choices=[*COMMANDS, "help"], help="command to run")
    _attach_completers(parser)
    if may_be_action:
        [choices] = (one.choices for one in parser._actions if isinstance(one.choices, dict))
        [key] = (action for action in choices["get"]._actions if action.dest == "key")
        key.completer = _actions_and_settings
    argcomplete.autocomplete(parser)


def _name_action(words: list[str]) -> bool:
    """Complete `config KEY` like `config get KEY`, and `config KEY VALUE` like `config set KEY VALUE`.

    Returns whether the word at the cursor can be an action as well as a setting.
    """
    from shepherd.cli.config import ACTIONS

    line, point = os.environ["COMP_LINE"], int(os.environ.get("COMP_POINT", "0"))
    if len(words) < 3 or point < len(line) or words[2].startswith("-"):
        return False
    is_beyond = line[-1:].isspace() or len(words) > 3
    if is_beyond and words[2] in ACTIONS:
        return False
    action = "set" if is_beyond else "get"
    program, config, rest = line.split(maxsplit=2)
    line = f"{program} {config} {action} {rest}"
    os.environ["COMP_LINE"], os.environ["COMP_POINT"] = line, str(len(line))
    return not is_beyond


def _is_beyond(word: str) -> bool:
    """Return whether the cursor is beyond the word, and not at its last letter."""
    line = os.environ["COMP_LINE"][: int(os.environ.get("COMP_POINT", "0"))]
    return line.partition(word)[2][:1].isspace()


def _attach_completers(parser: Any) -> None:
    """Attach completers to the arguments that take names."""
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for child in action.choices.values():
                _attach_completers(child)
        elif names := _completer_of(parser.prog, action):
            action.completer = names


def _completer_of(prog: str, action: Action) -> Any:
    if action.dest == "setting_model" or prog in ("shepherd model show", "shepherd model rm"):
        return _models if action.dest in ("setting_model", "name") else None
    if prog.startswith("shepherd fragment") and action.dest == "name":
        return _saved_fragments
    if action.dest in ("template", "fragment") or (
        prog.startswith("shepherd template") and action.dest == "name"
    ):
        return _fragments if action.dest == "fragment" else _templates
    if action.dest == "setting_provider" or (prog.startswith("shepherd provider") and action.dest == "name"):
        return None if prog == "shepherd provider add" else _providers
    if prog.startswith("shepherd config") and action.dest in ("key", "value"):
        return _settings if action.dest == "key" else _values
    names_one = prog.startswith("shepherd conversations") and action.dest in ("name", "names")
    if names_one or (action.dest == "resume" and action.nargs == "?"):
        return _conversations
    if prog.startswith("shepherd facts") and action.dest == "key":
        return _facts
    return None


def _models(prefix: str, **_: Any) -> Iterable[str]:
    from argcomplete.completers import FilesCompleter

    from shepherd.inference.models import ModelRegistry

    stored = [model.name for model in ModelRegistry().models()]
    return [*stored, *FilesCompleter(["gguf"])(prefix)]


def _templates(**_: Any) -> Iterable[str]:
    from shepherd.cli.template import saved_names

    return saved_names("templates")


def _saved_fragments(**_: Any) -> Iterable[str]:
    from shepherd.cli.template import saved_names

    return saved_names("fragments")


def _fragments(prefix: str, **_: Any) -> Iterable[str]:
    from argcomplete.completers import FilesCompleter

    from shepherd.cli.template import saved_names

    return [*saved_names("fragments"), *FilesCompleter()(prefix)]


def _providers(**_: Any) -> Iterable[str]:
    from shepherd.providers import ProviderTable

    return ProviderTable().names()


def _settings(**_: Any) -> dict[str, str]:
    """Return the names of all settings, each with its help."""
    from shepherd.config import SETTINGS

    return {name: setting.help for name, setting in SETTINGS.items()}


def _actions_and_settings(**_: Any) -> dict[str, str]:
    from shepherd.cli.config import ACTIONS

    return {**dict.fromkeys(ACTIONS, ""), **_settings()}


def _values(prefix: str, parsed_args: Namespace, **_: Any) -> Iterable[str]:
    """Return the possible values of the setting that was named, or files."""
    from argcomplete.completers import FilesCompleter

    from shepherd.config import SETTINGS

    setting = SETTINGS.get(parsed_args.key)
    if setting is None:
        return []
    if setting.key in ("model", "draft_model"):
        return _models(prefix)
    if setting.key == "provider":
        return _providers()
    switch = ("true", "false") if setting.kind == "switch" else ()
    files = FilesCompleter()(prefix) if setting.kind == "text" and not setting.choices else []
    return [*switch, *setting.choices, *files]


def _opened(parsed_args: Namespace) -> Memory:
    """Open the memory that the words before the cursor name, without its vectors."""
    from shepherd.cli.parsing import given_settings
    from shepherd.config.file import load
    from shepherd.memory_factory import open_memory_to_read

    config = load(options=given_settings(parsed_args)).config
    return open_memory_to_read(replace(config, memory_vectors="off", knowledge_reranker="off"))


def _facts(parsed_args: Namespace, **_: Any) -> Iterable[str]:
    try:
        with _opened(parsed_args) as memory:
            return [fact.key for fact in memory.get_all_facts()]
    except ShepherdError:
        return []


def _conversations(parsed_args: Namespace, **_: Any) -> dict[str, str]:
    """Return the ids of the latest conversations, each with its title."""
    from shepherd.commands.conversations import short_id, title_in_words

    try:
        with _opened(parsed_args) as memory:
            latest = memory.list_sessions(limit=50, one_offs=False)
            return {short_id(one.id): title_in_words(one) for one in latest}
    except ShepherdError:
        return {}

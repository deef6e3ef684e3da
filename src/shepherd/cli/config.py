"""`shepherd config`: show and change settings."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from shepherd.cli.parsing import Parser, add_action, add_actions, finish_actions
from shepherd.commands.screen import Screen, near_miss
from shepherd.config import SETTINGS, known_setting
from shepherd.config.file import ConfigFile, load_valid, unknown_keys
from shepherd.errors import ShepherdError
from shepherd.paths import from_any_folder
from shepherd.wording import joined_hints

__all__ = ["ACTIONS", "build_parser", "execute", "reordered"]

# Settings that are paths, unless they are addresses.
_FILES = ("memory_database", "memory_key_file")
ACTIONS = ("show", "get", "set", "unset", "path")


def build_parser() -> Parser:
    """Build the parser of `shepherd config`."""
    parser = Parser(
        prog="shepherd config",
        description="Show and change settings. A setting can come from several sources. Later ones override"
        " earlier ones: default, file, environment (such as SHEPHERD_TEMPERATURE for temperature),"
        " command-line option.",
    )
    actions = add_actions(parser)
    show = add_action(actions, "show", "show all settings, and where each value comes from")
    show.add_argument(
        "--explain", action="store_true", help="show what each setting does, too, and its possible values"
    )
    get = add_action(actions, "get", "print the value of a setting")
    put = add_action(actions, "set", "change a setting in the file")
    unset = add_action(actions, "unset", "reset a setting to its default")
    for action in (get, put, unset):
        action.add_argument("key", metavar="KEY", help="name of the setting")
    put.add_argument("value", metavar="VALUE", help="new value")
    add_action(actions, "path", "print the path of the file")
    finish_actions(actions)
    return parser


def reordered(arguments: list[str]) -> list[str]:
    """Accept `config KEY` for get, and `config KEY VALUE` for set."""
    words = [argument for argument in arguments if argument not in ("--json", "-v", "--verbose")]
    if not words or words[0].startswith("-") or words[0] in ACTIONS:
        return arguments
    if words[0] not in SETTINGS and near_miss(words[0], ACTIONS):
        return arguments
    return ["get" if len(words) == 1 else "set", *arguments]


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run one action."""
    file = ConfigFile()
    if arguments.action == "path":
        screen.result(str(file.path), str(file.path))
    elif arguments.action == "show":
        return _show(screen, explain=arguments.explain)
    elif arguments.action == "get":
        setting, loaded = known_setting(arguments.key), load_valid()
        if problem := loaded.problems.get(arguments.key):
            raise problem
        value = setting.shown(getattr(loaded.config, arguments.key))
        screen.result(value, value if isinstance(value, str) else _written(value))
    elif arguments.action == "set":
        value = known_setting(arguments.key).shown(file.set(arguments.key, _from_anywhere(arguments)))
        _confirm(screen, arguments.key, f"{arguments.key} = {_written(value)}", value)
        _warn_of_missing(screen, arguments.key)
    else:
        was_set = file.unset(arguments.key)
        if arguments.key not in SETTINGS:  # of another version
            screen.result(
                {"key": arguments.key, "value": None}, note=f"removed {arguments.key} from the file"
            )
            return 0
        default = SETTINGS[arguments.key].default
        value = "its default (empty)" if default == "" else f"{_written(default)} (the default)"
        done = f"reset {arguments.key} to {value}"
        _confirm(screen, arguments.key, done if was_set else f"{arguments.key} was not set", default)
    return 0


def _from_anywhere(arguments: Namespace) -> str:
    """Return the value; the path of a file becomes absolute, so that it means the same in every folder."""
    from shepherd.model_files import MODEL_SETTINGS, model_from_any_folder

    value: str = arguments.value
    if arguments.key in _FILES:
        return value if "://" in value else from_any_folder(value)
    if arguments.key == "server_models":
        return ", ".join(model_from_any_folder(name.strip()) for name in value.split(","))
    is_of_server = (
        arguments.key == "memory_extraction_model" and load_valid().config.memory_extraction_endpoint
    )
    if arguments.key in (*MODEL_SETTINGS, "mmproj") and not is_of_server:
        return model_from_any_folder(value)
    return value


def _show(screen: Screen, *, explain: bool) -> int:
    """List all settings; returns 2 if any are invalid, and prints their errors after the list."""
    loaded = load_valid()
    values = {key: setting.shown(getattr(loaded.config, key)) for key, setting in SETTINGS.items()}
    rows = []
    for key, setting in SETTINGS.items():
        is_invalid = key in loaded.problems
        row = [key, "invalid" if is_invalid else _written(values[key]), loaded.sources[key]]
        rows.append([*row, setting.help, setting.expected] if explain else row)
    screen.listing(
        {
            key: {"value": value, "source": loaded.sources[key]}
            if key not in loaded.problems
            else {"value": None, "source": loaded.sources[key], "error": str(loaded.problems[key])}
            for key, value in values.items()
        },
        ["setting", "value", "from", *(["what it does", "values"] if explain else [])],
        rows,
    )
    unknown = unknown_keys(ConfigFile(loaded.path).read())
    if unknown and not screen.as_json:
        screen.note(f"kept, but not known to this version: {', '.join(unknown)}")
    for problem in loaded.problems.values():
        screen.error(str(problem), problem.hint)
    return 2 if loaded.problems else 0


def _confirm(screen: Screen, key: str, text: str, value: Any) -> None:
    screen.result({"key": key, "value": value}, note=text)
    if not screen.as_json and _source(key) == "environment":
        screen.warn(f"{SETTINGS[key].environment} is set and wins over the file")


def _warn_of_missing(screen: Screen, key: str) -> None:
    """Warn when the new value names a model, provider, folder or server that is not there (yet)."""
    from shepherd.setting_checks import NAMING_SETTINGS, check_setting, try_server

    if key not in NAMING_SETTINGS:
        return
    try:
        config = load_valid().config
        check_setting(config, key)
        try_server(config, key)
    except ShepherdError as error:
        reset = f"to reset {key} to its default, run shepherd config unset {key}"
        screen.warn(str(error), joined_hints(error.hint, reset))


def _source(key: str) -> str:
    """Return the source of a value; "" for an unknown setting."""
    return load_valid().sources.get(key, "")


def _written(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)

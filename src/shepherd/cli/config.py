"""`shepherd config`: show and change settings."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from shepherd.cli.parsing import Parser, add_action, add_common_options
from shepherd.commands.screen import Screen
from shepherd.config import SETTINGS, known_setting
from shepherd.config.file import ConfigFile, load

__all__ = ["build_parser", "execute"]


def build_parser() -> Parser:
    """The options of `shepherd config`."""
    parser = Parser(
        prog="shepherd config",
        description="Show and change settings. A later source wins: default, file, SHEPHERD_<KEY>, option.",
    )
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)

    show = add_action(actions, "show", "all settings, and where each value comes from")
    show.add_argument("--explain", action="store_true", help="add what each setting does and may be")
    get = add_action(actions, "get", "the value of one setting")
    get.add_argument("key", metavar="KEY", help="name of the setting")
    put = add_action(actions, "set", "change a setting in the file")
    put.add_argument("key", metavar="KEY", help="name of the setting")
    put.add_argument("value", metavar="VALUE", help="its new value")
    unset = add_action(actions, "unset", "go back to the default of a setting")
    unset.add_argument("key", metavar="KEY", help="name of the setting")
    path = add_action(actions, "path", "where the file is")
    for action in (show, get, put, unset, path):
        add_common_options(action)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run one action."""
    file = ConfigFile()
    if arguments.action == "path":
        _print(screen, arguments.json, str(file.path))
    elif arguments.action == "show":
        _show(screen, explain=arguments.explain, as_json=arguments.json)
    elif arguments.action == "get":
        setting = known_setting(arguments.key)
        _print(screen, arguments.json, setting.shown(getattr(load().config, arguments.key)))
    elif arguments.action == "set":
        value = known_setting(arguments.key).shown(file.set(arguments.key, arguments.value))
        _confirm(screen, arguments, f"{arguments.key} = {_written(value)}", value)
    else:
        was_set = file.unset(arguments.key)
        default = SETTINGS[arguments.key].default if arguments.key in SETTINGS else None
        said = (
            f"{arguments.key} is back at {_written(default)}" if was_set else f"{arguments.key} was not set"
        )
        _confirm(screen, arguments, said, default)
    return 0


def _show(screen: Screen, *, explain: bool, as_json: bool) -> None:
    loaded = load()
    unknown = [key for key in ConfigFile(loaded.path).read() if key not in SETTINGS]
    if as_json:
        screen.json(
            {
                key: {"value": setting.shown(getattr(loaded.config, key)), "source": loaded.sources[key]}
                for key, setting in SETTINGS.items()
            }
        )
        return
    rows = []
    for key, setting in SETTINGS.items():
        row = [key, _written(setting.shown(getattr(loaded.config, key))), loaded.sources[key]]
        rows.append([*row, setting.help, setting.expected] if explain else row)
    screen.table(["setting", "value", "from", *(["what it does", "may be"] if explain else [])], rows)
    if unknown:
        screen.note(f"kept, but not known to this version: {', '.join(unknown)}")


def _confirm(screen: Screen, arguments: Namespace, text: str, value: Any) -> None:
    if arguments.json:
        screen.json({"key": arguments.key, "value": value})
    else:
        screen.note(text)
        environment = SETTINGS[arguments.key].environment if arguments.key in SETTINGS else ""
        if load_source(arguments.key) == "environment":
            screen.warn(f"{environment} is set and wins over the file")


def load_source(key: str) -> str:
    """Where the value of a setting comes from; "" when that cannot be said because another one is bad."""
    from shepherd.errors import ConfigError

    try:
        return load().sources.get(key, "")
    except ConfigError:
        return ""


def _print(screen: Screen, as_json: bool, value: Any) -> None:
    if as_json:
        screen.json(value)
    else:
        screen.print(value if isinstance(value, str) else _written(value))


def _written(value: object) -> str:
    import json

    return value if isinstance(value, str) and value else json.dumps(value)

"""`shepherd provider`: models that run elsewhere, and which one answers."""

from __future__ import annotations

import getpass
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from shepherd.cli.parsing import Parser, add_action, add_actions, finish_actions, loaded_settings
from shepherd.cli.progress import working
from shepherd.commands.screen import Screen, counted, duration
from shepherd.config.file import ConfigFile
from shepherd.errors import ConfigError, ShepherdError, UsageError
from shepherd.providers import KINDS, ProviderSettings, ProviderTable
from shepherd.providers.keys import ApiKey, find_key, forget_in_keyring, store_in_keyring
from shepherd.providers.settings import FIELDS, LOCAL

__all__ = ["build_parser", "execute", "reordered"]

_DESCRIPTION = """\
Manage models that run elsewhere, and choose which one answers.

`local` is the model in this process. An API key is read from the environment (OPENAI_API_KEY,
ANTHROPIC_API_KEY, GEMINI_API_KEY, or the variable of key_env), from the system's keyring, or from
config.json; it is never shown."""

_EPILOG = f"""\
kinds:
{chr(10).join(f"  {kind.name:10} {kind.help}" for kind in KINDS.values())}

fields:
{chr(10).join(f"  {name:10} {setting.help}" for name, setting in FIELDS.items() if name != "kind")}

examples:
  shepherd provider add claude anthropic --model claude-sonnet-4-5
  shepherd provider add vllm openai --model qwen3 --base-url http://10.0.0.5:8000/v1
  shepherd provider use claude
  shepherd -p vllm -e "a question"        use it once"""


def build_parser() -> Parser:
    """Build the parser of `shepherd provider`."""
    parser = Parser(prog="shepherd provider", description=_DESCRIPTION, epilog=_EPILOG)
    actions = add_actions(parser)
    add = add_action(actions, "add", "add a provider")
    add_action(actions, "list", "list providers, and which one answers")
    show = add_action(actions, "show", "show the fields of a provider")
    put = add_action(actions, "set", "change a field of a provider")
    use = add_action(actions, "use", "make a provider the default")
    add_action(actions, "next", "make the next provider in the list the default")
    remove = add_action(actions, "remove", "delete a provider and its key")
    test = add_action(actions, "test", "ask a provider for one word, and show how long that takes")
    for action in (add, put, use, remove):
        action.add_argument("name", metavar="NAME", help="name of the provider")
    for action in (show, test):
        action.add_argument(
            "name", metavar="NAME", nargs="?", default="", help="default: the one that answers"
        )
    add.add_argument("kind", metavar="KIND", choices=list(KINDS), help=", ".join(KINDS))
    add.add_argument("--model", metavar="NAME", help=FIELDS["model"].help)
    add.add_argument("--base-url", metavar="URL", help=FIELDS["base_url"].help)
    add.add_argument("--memory", metavar="true|false", help=FIELDS["memory"].help)
    add.add_argument("--key-env", metavar="VARIABLE", help=FIELDS["key_env"].help)
    put.add_argument("key", metavar="FIELD", help="name of the field")
    put.add_argument(
        "value",
        metavar="VALUE",
        nargs="?",
        help="new value; '' resets the field; without a VALUE, Shepherd asks for the api_key",
    )
    put.add_argument("--keyring", action="store_true", help="store the api_key in the system's keyring")
    finish_actions(actions)
    return parser


def reordered(arguments: list[str]) -> list[str]:
    """Accept the name before the action, too: `provider NAME set memory true`."""
    if len(arguments) > 1 and arguments[0] not in _ACTIONS and arguments[1] in _ACTIONS:
        return [arguments[1], arguments[0], *arguments[2:]]
    return arguments


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run one action."""
    return _ACTIONS[arguments.action](ProviderTable(), arguments, screen)


def _add(table: ProviderTable, arguments: Namespace, screen: Screen) -> int:
    from shepherd.model_files import model_from_any_folder
    from shepherd.providers.settings import parsed

    given = {key: getattr(arguments, key) for key in ("model", "base_url", "memory", "key_env")}
    if given["model"]:
        is_elsewhere = not KINDS[arguments.kind].is_local
        given["model"] = model_from_any_folder(given["model"], is_elsewhere=is_elsewhere)
    values = {key: parsed(key, text) for key, text in given.items() if text is not None}
    provider = table.add(arguments.name, {"kind": arguments.kind, **values})
    name = provider.name
    screen.result(
        _record(provider), note=f"added provider {name}; to switch to it: shepherd provider use {name}"
    )
    if screen.as_json:
        return 0
    if not find_key(provider) and provider.row.needs_key:
        needs = "it needs a key" if provider.is_at_home else "if its server needs a key"
        screen.note(f"{needs}: shepherd provider set {provider.name} api_key")
    return 0


def _list(table: ProviderTable, arguments: Namespace, screen: Screen) -> int:
    current = _current(arguments)
    records = []
    for name in table.names():
        try:
            records.append({**_record(table.get(name)), "current": name == current})
        except ShepherdError as error:  # the others are shown all the same
            screen.warn(str(error), error.hint)
    rows = [
        ("*" if r["current"] else "", r["name"], r["kind"], r["model"], _switch(r["uses_memory"]), r["key"])
        for r in records
    ]
    screen.listing(records, ["", "name", "kind", "model", "memory", "key"], rows)
    return 0


def _show(table: ProviderTable, arguments: Namespace, screen: Screen) -> int:
    record = _record(table.get(arguments.name or _current(arguments)))
    if screen.as_json:
        screen.json(record)
        return 0
    for key, value in record.items():
        shown = _switch(value) if isinstance(value, bool) else value
        screen.print(f"{key:14} {shown if shown != '' else 'not set'}")
    return 0


def _set(table: ProviderTable, arguments: Namespace, screen: Screen) -> int:
    name, key = arguments.name or LOCAL, arguments.key
    if key == "api_key":
        provider = _set_key(table, name, arguments)
    elif arguments.value is None:
        raise UsageError(f"{key[:40]!a} needs a value", hint="'' is the default")
    else:
        value = arguments.value
        if key == "model":
            from shepherd.model_files import model_from_any_folder

            with suppress(ConfigError):  # a broken entry can be repaired
                value = model_from_any_folder(value, is_elsewhere=not table.get(name).is_local)
        provider = table.set(name, key, value)
    done = f"{name}: {key} is set"
    if provider is not None:
        screen.result(_record(provider), note=done)
        return 0
    screen.result({"name": name, "set": key}, note=done)
    try:
        table.get(name)
    except ConfigError as error:  # another field is broken
        screen.warn(str(error), error.hint)
    return 0


def _set_key(table: ProviderTable, name: str, arguments: Namespace) -> ProviderSettings | None:
    """Read the key from the terminal or a pipe; on the command line others could see it."""
    if name not in table.names():
        table.get(name)
    if arguments.value:
        raise UsageError(
            "a key does not belong on the command line, where others see it",
            hint=f"shepherd provider set {name} api_key   asks for it, or reads it from a pipe",
        )
    value = "" if arguments.value == "" else _read_key(name)
    if arguments.keyring and value:
        store_in_keyring(name, value)
        return table.set(name, "api_key", "")
    if not value:
        forget_in_keyring(name)
    return table.set(name, "api_key", value)


def _read_key(name: str) -> str:
    if sys.stdin is None:
        raise UsageError("there is no input to read the key from", hint="pipe it in")
    if sys.stdin.isatty():
        return getpass.getpass(f"API key of {name}: ").strip()
    return sys.stdin.readline().strip()


def _use(table: ProviderTable, arguments: Namespace, screen: Screen) -> int:
    return _choose(table.get(arguments.name), arguments, screen)


def _next(table: ProviderTable, arguments: Namespace, screen: Screen) -> int:
    names, current = table.names(), _current(arguments)
    position = names.index(current) if current in names else -1
    return _choose(table.get(names[(position + 1) % len(names)]), arguments, screen)


def _choose(provider: ProviderSettings, arguments: Namespace, screen: Screen) -> int:
    file = ConfigFile()
    if provider.name == LOCAL:
        file.unset("provider")
    else:
        file.set("provider", provider.name)
    screen.result(_record(provider), note=f"{provider.name} answers from now on")
    if not screen.as_json:
        for missing in _missing(provider):
            screen.warn(str(missing), missing.hint)
    if not screen.as_json and _current(arguments) != provider.name:
        screen.warn("SHEPHERD_PROVIDER is set and wins over the file")
    return 0


def _missing(provider: ProviderSettings) -> Iterator[ShepherdError]:
    """Yield the errors with which messages would fail, as far as they are known without a request."""
    from shepherd.providers.keys import require_key
    from shepherd.providers.remote import require_model

    if provider.is_local:
        return
    for require in (require_model, require_key):
        try:
            require(provider)
        except ShepherdError as error:
            yield error


def _remove(table: ProviderTable, arguments: Namespace, screen: Screen) -> int:
    table.remove(arguments.name)
    forget_in_keyring(arguments.name)
    screen.result({"removed": arguments.name}, note=f"{arguments.name} is removed")
    return 0


def _test(table: ProviderTable, arguments: Namespace, screen: Screen) -> int:
    from shepherd.providers import open_remote
    from shepherd.types import Message

    provider = table.get(arguments.name or _current(arguments))
    if provider.is_local:
        raise UsageError(f"{provider.name} is in this process", hint="shepherd doctor checks it")
    model = open_remote(provider, asks_memory=lambda: False)
    try:
        asked = model.generate([Message("user", "Say OK.")], max_tokens=16)
        with working(screen, "waiting for its answer"), asked as reply:
            pieces = sum(1 for _ in reply)
    finally:
        model.close()
    stats = reply.stats
    screen.result(
        {"name": provider.name, "pieces": pieces, "stats": stats},
        f"{provider.name} answers: first piece after {duration(stats.ttft_ms)}, all after "
        f"{duration(stats.total_ms)}; read {counted(stats.prompt_tokens, 'token')}, wrote "
        f"{stats.generated_tokens:,}",
    )
    return 0


_ACTIONS = {
    "add": _add,
    "list": _list,
    "show": _show,
    "set": _set,
    "use": _use,
    "next": _next,
    "remove": _remove,
    "test": _test,
}


def _current(arguments: Namespace) -> str:
    return loaded_settings(arguments).config.provider or LOCAL


def _record(provider: ProviderSettings) -> dict[str, Any]:
    """Return what can be shown of a provider: of its key, only where that comes from."""
    return {
        "name": provider.name,
        "kind": provider.kind,
        "model": provider.model,
        "base_url": provider.address,
        "memory": provider.memory,
        "uses_memory": provider.uses_memory,
        "window": provider.window_tokens,
        "max_tokens": provider.max_tokens,
        "thinking": provider.thinking,
        "timeout": provider.timeout,
        "retries": provider.retries,
        "key": _key_state(provider),
    }


def _key_state(provider: ProviderSettings) -> str:
    if provider.is_local:
        return ""
    key: ApiKey = find_key(provider)
    if key:
        return f"from {key.source}"
    return "missing" if provider.row.needs_key and provider.is_at_home else "none"


def _switch(value: bool) -> str:
    return "on" if value else "off"

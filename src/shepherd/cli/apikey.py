"""`shepherd apikey`: API keys of the server, each with an owner and scopes."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from shepherd.cli.parsing import (
    Parser,
    add_action,
    add_actions,
    add_setting_option,
    agreed,
    finish_actions,
    loaded_settings,
    optional_packages,
)
from shepherd.cli.serve import ALL_ADDRESSES, url_of
from shepherd.commands.screen import Screen, counted, day, near_miss
from shepherd.errors import ShepherdError, UsageError
from shepherd.http_endpoint import split_address
from shepherd.server.identity import DEFAULT_SCOPES, SCOPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shepherd.config import Config
    from shepherd.memory import ApiKey, Memory

__all__ = ["build_parser", "execute"]

_EPILOG = """\
A key is shown once and never stored: the database has its hash. The `user` of a request becomes OWNER/user,
which no key of another owner can reach. Once there are keys, requests without one are refused, even after
all keys were revoked; after `shepherd apikey clear`, the server works without keys again.

scopes:
""" + "\n".join(f"  {name:8} {text}" for name, text in SCOPES.items())


def build_parser() -> Parser:
    """Build the parser of `shepherd apikey`."""
    parser = Parser(
        prog="shepherd apikey",
        description="Manage keys for `shepherd serve`: each has an owner and scopes.",
        epilog=_EPILOG,
    )
    actions = add_actions(parser)
    create = add_action(actions, "create", "create a key, and show it once")
    create.add_argument(
        "--owner", metavar="NAME", help="owner of the memory that the key can use (default: you)"
    )
    create.add_argument(
        "--scope",
        action="append",
        metavar="NAME",
        help=f"scope: {', '.join(SCOPES)}; can be repeated (default: {' and '.join(DEFAULT_SCOPES)})",
    )
    create.add_argument("--label", default="", metavar="TEXT", help="label that list shows")
    create.add_argument(
        "--link",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="print a link that opens the page on your phone and signs you in; ADDRESS is where the phone"
        " reaches the server (default: this machine's address in your network)",
    )
    add_action(actions, "list", "list the id, owner, scopes and label of each key")
    revoke = add_action(actions, "revoke", "revoke keys; running servers refuse them at once")
    revoke.add_argument("ids", nargs="+", metavar="ID", help="id of a key, as list shows it")
    clear = add_action(
        actions,
        "clear",
        "delete all keys, so that servers on this machine need none",
        description="Delete all keys, valid and revoked. A server then answers requests without a key"
        " again, and can listen on 127.0.0.1 alone. Restart servers that are running.",
    )
    clear.add_argument("-y", "--yes", action="store_true", help="don't ask for confirmation")
    for action in actions.choices.values():
        add_setting_option(action, "--memory-db", "memory_database", "PATH")
    finish_actions(actions)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run one action; returns its exit code."""
    from shepherd.memory_factory import open_memory, open_memory_to_read

    opened = open_memory_to_read if arguments.action == "list" else open_memory
    config = loaded_settings(arguments).config
    with opened(config) as memory:
        if arguments.action == "create":
            return _create(memory, arguments, config, screen)
        if arguments.action == "list":
            return _list(memory, arguments, screen)
        if arguments.action == "clear":
            return _clear(memory, arguments, screen)
        return _revoke(memory, arguments, screen)


def _create(memory: Memory, arguments: Namespace, config: Config, screen: Screen) -> int:
    scopes = tuple(dict.fromkeys(arguments.scope or DEFAULT_SCOPES))
    for scope in scopes:
        if scope not in SCOPES:
            hint = near_miss(scope, SCOPES) or f"scopes: {', '.join(SCOPES)}"
            raise UsageError(f"there is no scope {scope!a}", hint=hint)
    address = "" if arguments.link is None else _address_of_page(arguments.link, scopes, config, screen)
    owner = arguments.owner or memory.user_id
    is_first = not memory.keys.are_any()
    key, record = memory.keys.create(owner, scopes, label=arguments.label)
    link = f"{address}/#key={key}" if address else ""
    screen.result(
        {**asdict(record), "key": key, **({"link": link} if link else {})},
        link or key,
        note=f"key {record.id} of {owner} for {' and '.join(scopes)}; it is not shown again",
    )
    if link and not screen.as_json:
        whose = "your own devices" if owner == memory.user_id else f"a device of {owner}"
        screen.note(
            f"anyone who has this link can read and change the memory of {owner}: send it only to {whose}"
        )
    if is_first and not screen.as_json:
        screen.note(
            "from now on, servers with this database refuse requests without a key, even after you revoke it;"
            " shepherd apikey clear undoes this"
        )
    return 0


def _address_of_page(given: str, scopes: Sequence[str], config: Config, screen: Screen) -> str:
    """Return the address of the page, without a slash at its end: the given one, or that in the network."""
    if "memory" not in scopes:
        raise UsageError("a link opens the page, which needs the scope memory", hint="add --scope memory")
    if given:
        parts = split_address(given)
        if parts is None or parts.username is not None or parts.query or parts.fragment:
            raise UsageError(
                f"{given!a} is not a server's address", hint="write it like http://192.168.1.5:8000"
            )
        return given.rstrip("/")
    with optional_packages("server", "the server"):
        from shepherd.server.middleware import hosts_of, is_loopback
        from shepherd.server.process import address_in_network
    first = hosts_of(config)[0]
    host = address_in_network("0.0.0.0" if is_loopback(first) else first) or first
    if is_loopback(host) or host in ALL_ADDRESSES:
        raise UsageError(
            "this machine isn't connected to a network",
            hint="pass the server's address, as in --link http://192.168.1.5:8000",
        )
    if is_loopback(first):
        screen.note("to reach the server from other devices, start it with shepherd serve --host 0.0.0.0")
    return url_of(host, config.server_port)


def _list(memory: Memory, arguments: Namespace, screen: Screen) -> int:
    keys = memory.keys.list()
    rows = [
        (key.id, key.owner, " ".join(key.scopes), day(key.created_at), _state(key), key.label) for key in keys
    ]
    headers = ["id", "owner", "scopes", "made", "state", "label"]
    empty = "there are no keys: a server listens on this machine alone, and needs none"
    screen.listing([asdict(key) for key in keys], headers, rows, empty=empty)
    return 0


def _revoke(memory: Memory, arguments: Namespace, screen: Screen) -> int:
    revoked: list[str] = []
    missing: list[str] = []
    for key_id in arguments.ids:
        key = memory.keys.revoke(key_id)
        (missing if key is None else revoked).append(key_id)
    if screen.as_json:
        screen.json({"revoked": revoked, "missing": missing})
    for key_id in [] if screen.as_json else revoked:
        screen.note(f"key {key_id} is revoked")
    if missing and not screen.as_json:
        raise ShepherdError(
            f"there is no key {', '.join(map(ascii, missing))}", hint="shepherd apikey list shows all keys"
        )
    return 1 if missing else 0


def _clear(memory: Memory, arguments: Namespace, screen: Screen) -> int:
    keys = memory.keys.list()
    n_valid = sum(not key.revoked_at for key in keys)
    question = (
        f"Delete {counted(len(keys), 'key')} ({n_valid:,} valid)? Programs that use them are refused, and"
        " everybody on this machine can use the server without one."
    )
    if keys and not agreed(question, screen, yes=arguments.yes):
        screen.note("nothing was deleted")
        return 1
    n = memory.keys.clear()
    screen.result(
        {"deleted": n},
        note=f"{counted(n, 'key')} deleted; restart running servers, which still ask for one"
        if n
        else "there are no keys",
    )
    return 0


def _state(key: ApiKey) -> str:
    return f"revoked {day(key.revoked_at)}" if key.revoked_at else "valid"

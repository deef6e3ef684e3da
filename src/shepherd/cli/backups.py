"""`shepherd memory backup` and `shepherd memory restore`."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shepherd.cli.parsing import add_action, agreed, loaded_settings
from shepherd.cli.progress import working
from shepherd.commands.screen import Screen, counted, day, printable, size
from shepherd.errors import UsageError
from shepherd.paths import default_database, from_home, given_path

if TYPE_CHECKING:
    from shepherd.memory import Memory

__all__ = ["add_actions", "back_up", "restore"]


def add_actions(actions: Any) -> None:
    """Add the two actions."""
    backup = add_action(actions, "backup", "copy the database while it is in use")
    backup.add_argument("file", metavar="FILE", help="the copy")
    backup.add_argument(
        "--keys",
        metavar="FILE",
        help="encrypt what each user has with a key of the user, and write all these keys to FILE",
    )
    restore = add_action(
        actions,
        "restore",
        "replace the database with a backup, and keep the old one beside it",
        description="Replace the database, for all its users, with a backup. The old one is not"
        " deleted: it is renamed to NAME.before-restore, which can be restored in turn. Quit every chat and"
        " server that uses it first.",
    )
    restore.add_argument("file", metavar="FILE", help="backup, made by shepherd memory backup")
    restore.add_argument("--keys", metavar="FILE", help="the newest keys, for a backup made with --keys")
    restore.add_argument("-y", "--yes", action="store_true", help="don't ask for confirmation")


def back_up(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    """Copy the database."""
    keys = arguments.keys
    _require_names(arguments)
    with working(screen, "copying"):
        memory.backup(arguments.file, keys=keys or "")
    command = f"shepherd memory restore {shlex.quote(arguments.file)}"
    if keys:
        command += f" --keys {shlex.quote(keys)}"
    screen.result(
        {"file": arguments.file, **({"keys": keys} if keys else {})},
        note=f"copied to {arguments.file}; {command} puts it back",
    )
    if keys and not arguments.json:
        screen.note(
            f"its users' keys are in {keys}, which needs {keys}-key beside it. Keep only the newest keys"
            " file: it opens all older backups, except for users who were deleted since. Without it, nobody"
            " can read any of them"
        )
    if not arguments.json and (needs := _needed_to_read(arguments.file)):
        screen.note(needs)


def _require_names(arguments: Namespace) -> None:
    """Raise UsageError for an empty name."""
    for what, name in (("FILE", arguments.file), ("--keys", arguments.keys)):
        if name is not None and not name.strip():
            raise UsageError(f"{what}: the name of the file is empty", hint="is a variable not set?")


def _needed_to_read(backup: str) -> str:
    """Return what an encrypted backup needs to be read, "" for one that is not encrypted."""
    from shepherd.encryption.key_file import key_file_of, read_entries

    entries = read_entries(backup)
    if not entries:
        return ""
    needs = {
        "passphrase": ("the passphrase of your memory", ""),
        "keyring": ("the key in the keyring of this account", " Back up that keyring, too."),
        "command": ("the key that memory_key_command prints", ""),
    }
    needed = [
        (f"the key file {entry.place}", f" Keep a copy of {entry.place} elsewhere.")
        if entry.source == "file"
        else needs[entry.source]
        for entry in entries.values()
    ]
    keys = " or ".join(dict.fromkeys(key for key, _ in needed))
    advice = "".join(dict.fromkeys(advice for _, advice in needed))
    return (
        f"the backup is encrypted. Keep {key_file_of(backup)} together with it. To read it, you need"
        f" {keys}.{advice}"
    )


def restore(arguments: Namespace, screen: Screen) -> int:
    """Replace the database with a backup; returns the exit code."""
    from shepherd.memory.database import is_encrypted
    from shepherd.memory.restore import aside_of, restore
    from shepherd.memory_factory import open_memory, unlock_copy

    _require_names(arguments)
    config = loaded_settings(arguments).config
    named = config.memory_database
    if "://" in named:
        raise UsageError(
            "a backup is restored to a file, and the memory is in PostgreSQL",
            hint="pg_restore restores what pg_dump has saved",
        )
    database = from_home(named, "memory_database") if named else default_database()
    backup = given_path(arguments.file)
    keys = None if arguments.keys is None else given_path(arguments.keys)
    for file in (backup, keys):  # before there is anything else on the screen
        if file is not None:
            unlock_copy(config, file)
    with _readable(backup, keys, database, screen) as (copy, left):
        if config.memory_blind and not is_encrypted(str(copy)):
            raise UsageError(
                f"{backup} is not encrypted, and memory_blind is on; nothing was changed",
                hint="run shepherd config unset memory_blind, restore the backup, run shepherd encrypt, then"
                " set memory_blind to true again; until it is encrypted, anyone who can read the file can"
                " read the memory",
            )
        if left:
            users = " and ".join(map(printable, left))
            screen.warn(
                f"nothing of {users} can be restored: {keys} has no key of theirs. It was destroyed when the"
                " user was deleted, or there is a newer file"
            )
        was_encrypted = database.is_file() and is_encrypted(str(database))
        if database.exists():
            status = backup.stat()
            question = (
                f"Replace {database} with {backup} ({size(status.st_size)}, of"
                f" {day(int(status.st_mtime), with_time=True)})?"
                f" The current database is kept as {aside_of(database)}."
            )
            if not agreed(question, screen, yes=arguments.yes):
                screen.note("nothing was changed")
                return 1
        with working(screen, "restoring"):
            aside = restore(copy, database)
    with open_memory(config) as memory:
        stats, user = memory.stats(), memory.user_id
    if was_encrypted and not stats.is_encrypted:
        screen.warn("the backup was not encrypted, so the memory is no longer encrypted", "shepherd encrypt")
    if stats.is_encrypted and not was_encrypted:
        from shepherd.cli.readable_files import seal_or_warn

        seal_or_warn(database, config, screen)
    kept = f"; the previous database is {aside}" if aside else ""
    screen.result(
        {
            "file": str(backup),
            "database": str(database),
            "kept": aside,
            **({} if keys is None else {"left_out": left}),
        },
        note=f"restored: {counted(stats.memories, 'memory', 'memories')}, {counted(stats.facts, 'fact')}"
        f" and {counted(stats.sessions, 'conversation')} of {printable(user)}{kept}",
    )
    return 0


@contextmanager
def _readable(
    backup: Path, keys: Path | None, database: Path, screen: Screen
) -> Iterator[tuple[Path, list[str]]]:
    """Check a backup; yield the database to restore, and the users who can't be read in it.

    That is the backup itself, or what the keys of its users make of it.
    """
    from shepherd.memory.database import free_name
    from shepherd.memory.overwriting import DECRYPTING, in_use, remove_copy
    from shepherd.memory.restore import check_backup
    from shepherd.memory.restore_by_user import has_keys, is_by_user, unsealed

    if not is_by_user(str(backup)):
        if keys is not None and has_keys(str(backup)):
            is_swapped = is_by_user(str(keys))
            swapped = f"shepherd memory restore {shlex.quote(str(keys))} --keys {shlex.quote(str(backup))}"
            raise UsageError(
                f"{backup}: this file has the users' keys, and the backup is another one",
                hint=f"the two are swapped: {swapped}" if is_swapped else "name the backup in place of it",
            )
        if keys is not None and backup.is_file():
            raise UsageError(f"{backup}: this backup was made without --keys", hint="leave out --keys")
        with working(screen, "checking the backup"):
            check_backup(backup)
        yield backup, []
        return
    if keys is None:
        raise UsageError(
            f"{backup}: the users' keys are in a file of their own",
            hint="add --keys and the newest file that shepherd memory backup --keys has written",
        )
    database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy = free_name(f"{database.absolute()}{DECRYPTING}")
    try:
        with working(screen, "decrypting the backup"):
            left = unsealed(str(backup), str(keys), copy)
            check_backup(copy)
        with in_use(copy):  # while the user is asked, somebody may open the memory
            yield Path(copy), left
    finally:
        remove_copy(copy)
        Path(f"{copy}-key").unlink(missing_ok=True)

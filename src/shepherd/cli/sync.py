"""`shepherd sync`: exchange the memory with one's other machines, through a folder that any tool carries."""

from __future__ import annotations

import time
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

from shepherd.cli.parsing import (
    Parser,
    add_common_options,
    add_memory_options,
    agreed,
    loaded_settings,
    whole_number,
)
from shepherd.cli.progress import working
from shepherd.commands.screen import Screen, age_in_words, counted, printable, size
from shepherd.config.file import ConfigFile
from shepherd.errors import StoreError, UsageError
from shepherd.paths import given_path

if TYPE_CHECKING:
    from shepherd.memory import Memory
    from shepherd.memory.store import MemoryStore
    from shepherd.sync import Report

__all__ = ["build_parser", "execute"]

_DESCRIPTION = """\
Sync memories, facts with their history, knowledge, and settings for answers with your other machines, through
a folder that you share with any tool: Syncthing, git, a USB stick. Everything in the folder is encrypted,
and each machine writes only its own files, so files never conflict. What you forget on one machine is
forgotten on all of them. Conversations and models stay where they are.

The first sync asks for a new passphrase. On each other machine, the first sync asks for the same one."""


class _NotAgreedError(Exception):
    """The user does not want to begin."""


def build_parser() -> Parser:
    """Build the parser of `shepherd sync`."""
    parser = Parser(prog="shepherd sync", description=_DESCRIPTION)
    parser.add_argument(
        "folder", nargs="?", metavar="FOLDER", help="the folder (default: that of the last sync)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--every",
        type=whole_number(1, 86_400),
        metavar="SECONDS",
        help="sync again every SECONDS seconds, until you press Ctrl-C",
    )
    what.add_argument(
        "--status",
        action="store_true",
        help="list the machines, and when this one last received changes from each",
    )
    what.add_argument(
        "--remove", metavar="MACHINE", help="take over the files of a machine that you no longer use"
    )
    what.add_argument(
        "--leave", action="store_true", help="end the sync of this machine, which keeps its memory"
    )
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument("--key-file", metavar="FILE", help="read the passphrase from a file, at the first sync")
    keys.add_argument(
        "--key-command", metavar="COMMAND", help="use the output of a command as the passphrase"
    )
    parser.add_argument("-y", "--yes", action="store_true", help="don't ask for confirmation")
    add_memory_options(parser)
    add_common_options(parser)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Sync once, or again and again; returns the exit code."""
    from shepherd.memory_factory import open_memory
    from shepherd.sync import last_folder

    with open_memory(loaded_settings(arguments).config) as memory:
        folder = given_path(arguments.folder).absolute() if arguments.folder else last_folder(memory)
        if arguments.leave:
            return _leave(memory, arguments, screen)
        if folder is None:
            raise UsageError("this memory is not synced yet", hint="name a folder: shepherd sync FOLDER")
        if arguments.status:
            return _status(memory, folder, screen)
        try:
            if arguments.every:
                return _sync_again_and_again(memory, folder, arguments, screen)
            _show(_sync(memory, folder, arguments, screen), folder, screen)
            if arguments.remove:
                return _remove(memory, folder, arguments, screen)
        except _NotAgreedError:
            screen.note("nothing was changed")
            return 1
    return 0


def _sync(memory: Memory, folder: Path, arguments: Namespace, screen: Screen) -> Report:
    from shepherd.sync import begins, sync

    passphrase = ""
    if beginning := begins(memory, folder):
        is_new = beginning == "new folder"
        if not agreed(_question(memory, folder, is_new=is_new), screen, yes=arguments.yes):
            raise _NotAgreedError
        # Before there is anything else on the screen.
        passphrase = _passphrase(folder, arguments, is_new=is_new)
    with working(screen, "syncing"):
        return sync(memory, folder, lambda is_new: passphrase, settings_file=ConfigFile())


def _question(memory: Memory, folder: Path, *, is_new: bool) -> str:
    from shepherd.knowledge import Knowledge

    stats = memory.stats()
    n_nodes = Knowledge(memory.transactions, memory.user_id).count_nodes()
    held = (
        f"{counted(stats.memories, 'memory', 'memories')}, {counted(stats.facts, 'fact')} and"
        f" {counted(n_nodes, 'node')} of {printable(memory.user_id)}"
    )
    if is_new:
        return f"Begin a sync in {folder}, encrypted, with {held}?"
    return f"Sync {held} with {folder}? They are merged with those of the other machines."


def _passphrase(folder: Path, arguments: Namespace, *, is_new: bool) -> str:
    from shepherd.cli.passphrases import known_passphrase, new_passphrase, require_length
    from shepherd.encryption.unlocking import text_of_command, text_of_file

    if not (arguments.key_file or arguments.key_command):
        unasked = "run this at a terminal, or use --key-file FILE or --key-command COMMAND"
        if is_new:
            return new_passphrase(f"New passphrase of {folder}: ", unasked=unasked)
        return known_passphrase(f"Passphrase of {folder}: ", unasked=unasked)
    if arguments.key_file:
        text = text_of_file(given_path(arguments.key_file), "--key-file")
    else:
        text = text_of_command(arguments.key_command, "--key-command")
    if is_new:
        require_length(text)
    return text


def _sync_again_and_again(memory: Memory, folder: Path, arguments: Namespace, screen: Screen) -> int:
    """Sync until Ctrl-C. A folder that is away, such as a USB stick, costs a warning, once."""
    last_problem = ""
    is_first = True
    while True:
        try:
            report = _sync(memory, folder, arguments, screen)
            if is_first or report.written or report.read or report.warnings:
                _show(report, folder, screen)
            last_problem = ""
        except (StoreError, UsageError) as error:
            if is_first:
                raise
            if str(error) != last_problem:
                screen.warn(str(error), error.hint)
                last_problem = str(error)
        is_first = False
        screen.flush()
        time.sleep(arguments.every)


def _show(report: Report, folder: Path, screen: Screen) -> None:
    n_written, n_read = sum(report.written.values()), sum(report.read.values())
    others = f" of {counted(report.machines, 'other machine')}" if report.machines else ""
    screen.result(
        {"folder": str(folder), **asdict(report)},
        note=f"synced with {folder}: {counted(n_written, 'change')} written,"
        f" {counted(n_read, 'change')}{others} read",
    )
    if screen.as_json:
        return
    for conflict in report.conflicts:
        screen.warn(f"{conflict.what} was changed on two machines: {conflict.kept}")
    for warning in report.warnings:
        screen.warn(warning)
    if report.is_new_folder:
        screen.note(
            "Run the same command on your other machines, once the folder is there. Nothing can replace the"
            " passphrase: write it down if you could forget it."
        )


def _status(memory: Memory, folder: Path, screen: Screen) -> int:
    from shepherd.sync import status, unwritten

    machines, n_unwritten = status(memory, folder), unwritten(memory)
    if screen.as_json:
        screen.json({"folder": str(folder), "unwritten": n_unwritten, "machines": machines})
        return 0
    rows = [
        (
            machine.id,
            machine.name or "not read yet",
            "this machine"
            if machine.is_own
            else age_in_words((time.time() - machine.read_at) / 86_400)
            if machine.n_frames
            else "never",
            size(machine.bytes),
        )
        for machine in machines
    ]
    screen.table(["machine", "name", "last news", "size"], rows)
    screen.note(f"{counted(n_unwritten, 'change')} of this machine not written yet")
    return 0


def _remove(memory: Memory, folder: Path, arguments: Namespace, screen: Screen) -> int:
    from shepherd.sync import remove

    question = f"Take over what {arguments.remove} has written, and delete its files?"
    if not agreed(question, screen, yes=arguments.yes):
        raise _NotAgreedError
    remove(memory, folder, arguments.remove)
    screen.note(f"{arguments.remove} is removed; if that machine syncs again, it rejoins")
    return 0


def _leave(memory: Memory, arguments: Namespace, screen: Screen) -> int:
    from shepherd.sync import leave, left_folders

    question = (
        "End the sync of this machine? It keeps its memory, and its files stay in the folder: delete them, or"
        " let another machine take them over with shepherd sync --remove."
    )
    if not agreed(question, screen, yes=arguments.yes):
        screen.note("nothing was changed")
        return 1
    was_synced = leave(memory)
    screen.result(
        {"left": was_synced},
        note="this machine is no longer synced" if was_synced else "nothing was synced",
    )
    for one in left_folders(cast("MemoryStore", memory.transactions)):
        screen.note(str(one))
    return 0

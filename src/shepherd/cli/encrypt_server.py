"""`shepherd encrypt --rekey` for a blind memory on a PostgreSQL server."""

from __future__ import annotations

import contextlib
from argparse import Namespace

from shepherd import system_keyring
from shepherd.cli.encrypt_key import Chosen, choose, keep
from shepherd.cli.parsing import agreed
from shepherd.cli.progress import working
from shepherd.commands.screen import Screen
from shepherd.config import Config
from shepherd.encryption import MemoryKey, new_salt
from shepherd.encryption.key import USUAL_COST, master_key
from shepherd.encryption.unlocking import keyring_name, remember
from shepherd.errors import ShepherdError, UsageError
from shepherd.memory_factory import database_address

__all__ = ["rekey_server"]


def rekey_server(arguments: Namespace, config: Config, screen: Screen) -> int:
    """Give the blind memory of these settings another key; returns the exit code."""
    from shepherd.memory.postgres.address import parse
    from shepherd.memory.postgres.rekeying import check_key, rekey

    url = database_address(config)
    shown = parse(url).shown
    if not config.memory_blind:
        raise UsageError(
            f"{shown}: the memory is in PostgreSQL, whose tables Shepherd cannot convert",
            hint="encrypt the disk of that server, or make a new memory with memory_blind, which hides texts"
            " and words from it",
        )
    # Before anybody is asked for a new key.
    check_key(url)
    if not arguments.rekey:
        screen.result(
            {"file": shown, "encrypted": True},
            note=f"{shown} is already blind; to change its key, run shepherd encrypt --rekey",
        )
        return 0
    chosen = choose(arguments, config, shown, is_rekeyed=True)
    if chosen.source != "passphrase" and not agreed(
        f"Re-encrypt {shown} with {chosen.in_words}? Other programs have to wait until this is done.",
        screen,
        yes=arguments.yes,
    ):
        screen.note("nothing was changed")
        return 1
    salt = new_salt()
    key = MemoryKey(master_key(chosen.text, salt, USUAL_COST), salt)
    keep(chosen, salt)
    try:
        with working(screen, "encrypting"):
            rekey(url, key)
    except BaseException:
        _forget_unless_used(chosen, url, key)
        raise
    remember(key)
    screen.result(
        {"file": shown, "encrypted": True, "key": chosen.source, "place": chosen.place},
        note=f"re-encrypted {shown} with {chosen.in_words}. {chosen.advice}".rstrip(),
    )
    if chosen.source == "file":
        screen.note(
            f"shepherd config set memory_key_file {chosen.place} lets this machine use it; all machines need"
            " the new key"
        )
    return 0


def _forget_unless_used(chosen: Chosen, url: str, key: MemoryKey) -> None:
    """Remove the new key from the keyring unless the memory uses it. If that can't be checked, keep it."""
    from shepherd.memory.postgres.rekeying import uses

    if chosen.source == "keyring":
        with contextlib.suppress(ShepherdError):
            if not uses(url, key):
                system_keyring.forget(keyring_name(key.salt))

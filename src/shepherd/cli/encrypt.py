"""`shepherd encrypt` and `shepherd decrypt`: convert the memory in place, or give it another key."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

from shepherd import encryption
from shepherd.cli.encrypt_key import choose, drop, keep
from shepherd.cli.parsing import Parser, add_common_options, add_setting_option, agreed, loaded_settings
from shepherd.cli.progress import working
from shepherd.cli.readable_files import remove_copies, seal_readable
from shepherd.commands.history_place import sealed_history_file
from shepherd.commands.screen import Screen, size
from shepherd.config import Config
from shepherd.encryption import KeyEntry, MemoryKey, Sealer
from shepherd.encryption.key import SALT_BYTES, USUAL_COST, master_key, needs_package, new_salt
from shepherd.encryption.unlocking import (
    remember,
    require_ciphers,
)
from shepherd.errors import UsageError
from shepherd.paths import history_file

__all__ = ["build_decrypt_parser", "build_parser", "execute", "execute_decrypt"]

_DESCRIPTION = """\
Encrypt the memory in place: the database with its log, saved indexes and the prompt's history. Conversations
are no longer kept on disk for the next start. A crash at any moment leaves one readable database. Quit every
chat and server that uses the memory first.

The key comes from the first of these that is available: the output of memory_key_command, the file in
memory_key_file, a random key in the system's keyring, a passphrase. Backups are encrypted with the same key;
exports only with --encrypt. Without the key, nobody can read the memory, not even you.

For a blind memory on a PostgreSQL server, only --rekey applies."""


def build_parser() -> Parser:
    """Build the parser of `shepherd encrypt`."""
    parser = Parser(prog="shepherd encrypt", description=_DESCRIPTION)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--passphrase", action="store_true", help="ask for a passphrase")
    kinds.add_argument("--keyring", action="store_true", help="keep a random key in the system's keyring")
    kinds.add_argument(
        "--key-file", metavar="FILE", help="use the key in this file, which is made if it is missing"
    )
    parser.add_argument("--rekey", action="store_true", help="give an encrypted or blind memory another key")
    _add_options(parser)
    return parser


def build_decrypt_parser() -> Parser:
    """Build the parser of `shepherd decrypt`."""
    parser = Parser(
        prog="shepherd decrypt",
        description="Decrypt the memory: it becomes a plain database again.\n"
        "A crash at any moment leaves one readable database.",
    )
    _add_options(parser)
    return parser


def _add_options(parser: Parser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="don't ask for confirmation")
    add_setting_option(parser, "--memory-db", "memory_database", "PATH")
    add_common_options(parser)


def execute(arguments: Namespace, screen: Screen) -> int:
    """Encrypt; returns the exit code."""
    from shepherd.memory.conversion import database_to_convert, require_alone

    config = loaded_settings(arguments).config
    if "://" in config.memory_database:
        from shepherd.cli.encrypt_server import rekey_server

        encryption.use_settings(config.memory_key_command, config.memory_key_file)
        return rekey_server(arguments, config, screen)
    path = _path(config)
    require_ciphers(str(path))
    _require_package()
    file, old = database_to_convert(path)
    if old is not None and not arguments.rekey:
        # A crash of the run before may have left what is beside the database as it was.
        _complete_history(path, file, old)
        seal_readable(path, config, old, screen)
        screen.result(
            {"file": file, "encrypted": True},
            note=f"{file} is encrypted already; shepherd encrypt --rekey gives it another key",
        )
        return 0
    if old is None and arguments.rekey:
        raise UsageError(f"{file}: the memory is not encrypted", hint="shepherd encrypt encrypts it")
    require_alone(file)
    chosen = choose(arguments, config, file, is_rekeyed=old is not None, path=path)
    if chosen.source != "passphrase" and not agreed(
        f"Encrypt {file} ({size(os.path.getsize(file))}) with {chosen.in_words}?", screen, yes=arguments.yes
    ):
        screen.note("nothing was changed")
        return 1
    salt = new_salt()
    key = MemoryKey(master_key(chosen.text, salt, USUAL_COST), salt)
    entry = KeyEntry(salt, chosen.source, key.check, chosen.place)
    keep(chosen, salt)
    try:
        with working(screen, "encrypting"):
            is_gone = _convert(path, file, old, key, entry)
    except BaseException:
        if not _may_have_salt(file, salt):
            drop(chosen, salt)
        raise
    if os.name != "nt" and chosen.source == "file" and os.stat(chosen.place).st_mode & 0o077:
        screen.warn(f"other users of this machine can use {chosen.place}", f"chmod 600 {chosen.place}")
    if not is_gone:
        screen.warn(
            "the bytes of the old database could not be overwritten: the file has another name (a hard link),"
            " or the disk refused it",
            "delete hard links and snapshots of the file",
        )
    seal_readable(path, config, key, screen)
    screen.result(
        {"file": file, "encrypted": True, "key": chosen.source, "place": chosen.place},
        note=f"encrypted: {file}, with {chosen.in_words}. {chosen.advice}".rstrip(),
    )
    return 0


def execute_decrypt(arguments: Namespace, screen: Screen) -> int:
    """Decrypt; returns the exit code."""
    from shepherd.memory.conversion import database_to_convert, require_alone

    config = loaded_settings(arguments).config
    path = _path(config)
    file, old = database_to_convert(path)
    if old is None:
        _complete_history(path, file, None)
        screen.result({"file": file, "encrypted": False}, note=f"{file} is not encrypted")
        return 0
    if config.memory_blind:
        raise UsageError(
            f"{file}: memory_blind is on, so the memory must stay encrypted",
            hint="run shepherd config unset memory_blind, then shepherd decrypt",
        )
    require_alone(file)
    question = f"Decrypt {file}? Then anyone who can read the file can read the memory."
    if not agreed(question, screen, yes=arguments.yes):
        screen.note("nothing was changed")
        return 1
    with working(screen, "decrypting"):
        _convert(path, file, old, None, None)
    screen.result({"file": file, "encrypted": False}, note=f"decrypted: {file}")
    return 0


def _path(config: Config) -> Path:
    from shepherd.memory_factory import memory_file

    encryption.use_settings(config.memory_key_command, config.memory_key_file)
    path = memory_file(config)
    if path is None:
        raise UsageError(
            "the memory is in PostgreSQL, whose tables Shepherd cannot decrypt",
            hint="shepherd memory export writes what is in it into a plain file",
        )
    return path


def _require_package() -> None:
    try:
        from cryptography.hazmat.primitives.kdf.argon2 import Argon2id  # noqa: F401
    except ImportError as error:
        raise needs_package() from error


# ---- the files


def _convert(
    path: Path,
    file: str,
    old: MemoryKey | None,
    new: MemoryKey | None,
    entry: KeyEntry | None,
) -> bool:
    """Convert the database and what is beside it; return whether the old bytes are overwritten."""
    from shepherd.commands.history import adopt_copy, copy_history, drop_copies
    from shepherd.memory.conversion import convert

    plain, sealed = history_file(), sealed_history_file(path)
    adopt_copy(sealed, _sealer(old), plain)

    def prepare() -> None:
        if old is not None:
            copy_history(sealed, Sealer(old), _sealer(new))

    try:
        is_gone = convert(file, old, new, entry, prepare=prepare)
    except BaseException:
        if old is not None and _may_have_salt(file, old.salt):
            drop_copies(sealed)
        raise
    if new is not None:
        remember(new)
    remove_copies(path)
    adopt_copy(sealed, _sealer(new), plain)
    return is_gone


def _sealer(key: MemoryKey | None) -> Sealer | None:
    return None if key is None else Sealer(key)


def _may_have_salt(file: str, salt: bytes) -> bool:
    """Return whether a database is encrypted with this salt, also if that can't be read."""
    try:
        with open(file, "rb") as opened:
            return opened.read(SALT_BYTES) == salt
    except OSError:
        return True


def _complete_history(path: Path, file: str, key: MemoryKey | None) -> None:
    """Let the lines typed at the prompt be as a conversion that was killed has left the memory."""
    from shepherd.commands.history import adopt_copy, drop_copies
    from shepherd.memory.conversion import is_locked

    sealed = sealed_history_file(path)
    adopt_copy(sealed, _sealer(key), history_file())
    if not is_locked(file):  # by a conversion that needs its copy
        drop_copies(sealed)

"""Exports of memories, knowledge and traces, as text or encrypted with a passphrase."""

from __future__ import annotations

import contextlib
import io
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import BinaryIO, TextIO

from shepherd.cli.parsing import stdin_bytes
from shepherd.cli.passphrases import known_passphrase, new_passphrase, require_length
from shepherd.commands.screen import Screen
from shepherd.encryption import exports, is_in_use
from shepherd.encryption.unlocking import text_of_file
from shepherd.errors import UsageError, reason_of
from shepherd.paths import given_path, new_file

__all__ = ["add_export_options", "add_import_options", "decrypted", "export_target", "remark_of_export"]

_BEGINNING = 4096
_UNASKED = "run this at a terminal, or name a file that contains the passphrase: --key-file FILE"


def add_export_options(action: ArgumentParser) -> None:
    """Add FILE, --encrypt and --key-file."""
    action.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="file to write (default: stdout)"
    )
    action.add_argument(
        "--encrypt",
        action="store_true",
        help="encrypt the export with a passphrase, for which the import asks",
    )
    action.add_argument(
        "--key-file", metavar="FILE", help="encrypt it with the passphrase or key in this file"
    )


def add_import_options(action: ArgumentParser) -> None:
    """Add --key-file."""
    action.add_argument(
        "--key-file",
        metavar="FILE",
        help="decrypt an encrypted export with the passphrase or key in this file",
    )


@contextlib.contextmanager
def export_target(arguments: Namespace, kind: str, screen: Screen) -> Iterator[TextIO]:
    """Give what the export is written to; its kind is memory, knowledge or trace."""
    passphrase = _chosen_passphrase(arguments, screen)
    with contextlib.ExitStack() as stack:
        target = screen.utf8() if arguments.file == "-" else stack.enter_context(new_file(arguments.file))
        if passphrase is not None:
            target = stack.enter_context(exports.encrypted(_bytes_of(target), kind, passphrase))
        yield target


def remark_of_export(arguments: Namespace) -> str:
    """Return the end of a message about an export: whether its file is encrypted, where it matters."""
    if arguments.encrypt or arguments.key_file:
        return ", encrypted"
    if arguments.file != "-" and is_in_use():
        return "; the file is not encrypted, and the memory is: --encrypt encrypts it"
    return ""


@contextlib.contextmanager
def decrypted(source: str, kind: str, arguments: Namespace) -> Iterator[io.BufferedReader | None]:
    """Give what is in an encrypted export, and None for everything else. Raises UsageError, StoreError."""
    with contextlib.ExitStack() as stack:
        file = _opened(source, stack)
        held = None if file is None else exports.kind_of(file.peek(_BEGINNING)[:_BEGINNING])
        if file is None or held is None:
            yield None
            return
        name = "the input" if source == "-" else source
        if held not in ("", kind):
            what = {"memory": "memories", "knowledge": "knowledge", "trace": "traces"}.get(held, held)
            raise UsageError(
                f"{name}: this is an encrypted export of {what}",
                hint=f"shepherd {held} import {shlex.quote(source)} imports it",
            )
        yield exports.decrypted(file, name, _known_passphrase(name, arguments))


def _opened(source: str, stack: contextlib.ExitStack) -> io.BufferedReader | None:
    """Return stdin or the file, None for what is neither."""
    if source == "-":
        return stdin_bytes()
    path = given_path(source)
    if not path.is_file():
        return None
    from shepherd.memory.database import is_open

    # Closing any descriptor of it would drop the locks that SQLite holds for this process.
    if is_open(str(path)):
        return None
    try:
        return stack.enter_context(path.open("rb"))
    except OSError as error:
        raise UsageError(f"{source}: {reason_of(error)}", hint="name a file to import") from error


def _chosen_passphrase(arguments: Namespace, screen: Screen) -> str | None:
    """Return the passphrase to encrypt with, None if the export is to be text."""
    if not (arguments.encrypt or arguments.key_file):
        return None
    if arguments.file == "-" and screen.out_is_terminal:
        raise UsageError("an encrypted export can't be shown at a terminal", hint="name a file to write")
    if arguments.key_file:
        text = text_of_file(given_path(arguments.key_file), "--key-file")
        require_length(text)
        return text
    return new_passphrase("New passphrase of the export: ", unasked=_UNASKED)


def _known_passphrase(name: str, arguments: Namespace) -> str:
    if arguments.key_file:
        return text_of_file(given_path(arguments.key_file), "--key-file")
    return known_passphrase(f"Passphrase of {name}: ", unasked=_UNASKED)


def _bytes_of(target: TextIO) -> BinaryIO:
    """Return the bytes below a text file; stdout that a program has replaced may have none."""
    target.flush()
    if not hasattr(target, "buffer"):
        raise UsageError("an encrypted export can't be written to this output", hint="name a file to write")
    return target.buffer

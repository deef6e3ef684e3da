"""Files that were given to the wrong import: documents are knowledge, exports of chats are memories."""

from __future__ import annotations

import shlex
import zipfile
from pathlib import Path

from shepherd.errors import UsageError
from shepherd.paths import given_path

__all__ = ["refuse_documents", "refuse_memories"]

_BEGINNING = 4096
_PDF, _SQLITE, _ZIP = b"%PDF-", b"SQLite format 3\0", b"PK\x03\x04"
_HTML = (b"<!doctype html", b"<html")
# Other files are documents, whatever they contain.
_EXPORTS = (".json", ".jsonl", ".ndjson", ".zip", ".db", ".sqlite", ".sqlite3")
_NAMES = {
    "shepherd": "Shepherd's memories",
    "chatgpt": "ChatGPT",
    "mem0": "mem0",
    "mcp": "the MCP memory server",
}


def refuse_documents(source: str) -> None:
    """Raise UsageError if what was given to `memory import` belongs in the knowledge, or is a backup."""
    from shepherd.knowledge import transfer
    from shepherd.knowledge.importing.documents import SUFFIXES
    from shepherd.memory.importers import Source

    if "://" in source:
        raise UsageError(f"{source}: this is an address, not an export", hint=_knowledge(source, "the page"))
    path = Path(source)
    if path.is_dir():
        raise UsageError(f"{path}: this is a folder", hint=_knowledge(source, "the documents in it"))
    if not (beginning := _beginning(path)):
        return
    if _is_our_database(beginning):
        raise UsageError(
            f"{path}: this is a Shepherd database, such as a backup",
            hint=f"shepherd memory restore {shlex.quote(source)} restores a backup;"
            f" shepherd memory export --memory-db {shlex.quote(source)} writes what import reads",
        )
    if transfer.is_export(beginning):
        raise UsageError(f"{path}: this is an export of the knowledge", hint=_knowledge(source, "it"))
    with Source(path) as opened:
        is_export = opened.is_recognized
    is_document = path.suffix.lower() in SUFFIXES or beginning.startswith(_PDF)
    if not is_export and (is_document or beginning.lstrip().lower().startswith(_HTML)):
        raise UsageError(
            f"{path}: this is a document, not an export of memories", hint=_knowledge(source, "it")
        )


def refuse_memories(source: str) -> None:
    """Raise UsageError if what was given to `knowledge import` has memories, such as an export of ChatGPT."""
    from shepherd.knowledge import transfer
    from shepherd.knowledge.importing import entities
    from shepherd.memory.importers import Source

    path = given_path(source)
    beginning = _beginning(path)
    if _is_our_database(beginning):
        raise UsageError(
            f"{path}: this is a Shepherd database, such as a backup",
            hint=f"shepherd memory restore {shlex.quote(source)} restores a backup",
        )
    if not beginning or path.suffix.lower() not in _EXPORTS or transfer.is_export(beginning):
        return
    if entities.is_graph(beginning, path.name):
        return
    if beginning.startswith(_ZIP):
        kind = "chatgpt" if _has_conversations(path) else ""
    elif beginning.startswith(_SQLITE):
        return
    else:
        with Source(path) as opened:
            kind = opened.format if opened.is_recognized else ""
    if kind:
        is_text = not beginning.startswith(_ZIP)
        raise UsageError(
            f"{path}: this is an export of {_NAMES[kind]}",
            hint=f"shepherd memory import {shlex.quote(source)} imports it"
            + ("; to import it as a document, rename it so that it ends in .txt" if is_text else ""),
        )


def _knowledge(source: str, what: str) -> str:
    return f"shepherd knowledge import {shlex.quote(source)} imports {what}"


def _beginning(path: Path) -> bytes:
    """Return the beginning of a file, b"" for one that is missing, unreadable or no regular file."""
    from shepherd.memory.database import is_open

    try:
        if not path.is_file():
            return b""
        # Closing any descriptor of it would drop the locks that SQLite holds for this process.
        if is_open(str(path)):
            raise UsageError(f"{path}: this is the memory itself", hint="name another file to import")
        with path.open("rb") as file:
            return file.read(_BEGINNING)
    except OSError:
        return b""


def _is_our_database(beginning: bytes) -> bool:
    from shepherd.memory.schema import APPLICATION_ID

    return beginning.startswith(_SQLITE) and beginning[68:72] == APPLICATION_ID.to_bytes(4, "big")


def _has_conversations(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(Path(name).name.startswith("conversations") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False

"""File or stream to import from: opened once, its format detected, its progress counted."""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import IO, Any, BinaryIO

from shepherd.encryption import exports
from shepherd.errors import StoreError, UsageError, reason_of
from shepherd.memory.database import is_open
from shepherd.memory.importers import chatgpt, llm, mcp, mem0, shepherd
from shepherd.memory.importers.records import Entry

__all__ = ["FORMATS", "IMPORTABLE", "NO_EXPORT", "Source"]

_BYTES = 1 << 16
_SQLITE = b"SQLite format 3\0"
_ZIP = b"PK\x03\x04"

_Reader = Callable[[io.BufferedReader, int], Iterator[Entry]]
_READERS: dict[str, _Reader] = {
    "shepherd": shepherd.read,
    "chatgpt": chatgpt.read,
    "mem0": mem0.read,
    "mcp": mcp.read,
}
# Values of --format; llm is a database and has no reader of a stream.
FORMATS = (*_READERS, "llm")
# The problem of a file in which nothing is understood, and what can be read instead.
NO_EXPORT = "this is not an export that can be imported"
IMPORTABLE = (
    "exports of Shepherd (JSON lines), ChatGPT (ZIP or conversations.json), mem0, the MCP memory server"
    " (memory.jsonl) and llm (logs.db) can be imported; for documents: shepherd knowledge import FILE"
)


class Source:
    """Path or binary stream to import from.

    `done` and `total` are in bytes, or in rows of a database; `total` is 0 if it is unknown. With
    `is_recognized` False, nothing at the beginning shows that it is an export.
    As a context manager it closes the files that it opened.
    """

    def __init__(self, source: str | os.PathLike[str] | BinaryIO, format: str = "auto") -> None:
        if format != "auto" and format not in FORMATS:
            raise UsageError(f"unknown format {format!r}", hint="formats: auto, " + ", ".join(FORMATS))
        self.done = 0
        self.total = 0
        self.path = os.fspath(source) if isinstance(source, (str, os.PathLike)) else None
        self._name = self.path or "the input"
        self._closing = ExitStack()
        self._file = self._opened(source)
        try:
            detected = format if format != "auto" else self._detected()
        except UsageError:
            self._closing.close()
            raise
        self.format = detected or ("chatgpt" if self._is_archive() else "shepherd")
        self.is_recognized = bool(detected)

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing.close()

    def entries(self, now: int) -> Iterator[Entry]:
        """Yield the records; those without a time get `now`."""
        if self.format == "llm":
            yield from self._rows(now)
        elif self._is_archive():
            yield from self._zipped(now)
        else:
            yield from _READERS[self.format](self._file, now)

    # ---- opening

    def _opened(self, source: str | os.PathLike[str] | BinaryIO) -> io.BufferedReader:
        if isinstance(source, (str, os.PathLike)):
            return self._counted(self._file_at(os.fspath(source)))
        return self._counted(source)

    def _file_at(self, path: str) -> IO[bytes]:
        try:
            # Closing any descriptor of it would drop the locks that SQLite holds for this process.
            if os.path.exists(path) and is_open(path):
                raise UsageError(f"{path}: this is the memory itself", hint="name another file to import")
            file = self._closing.enter_context(open(path, "rb", buffering=0))  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"{path}: {reason_of(error)}", hint="name a file to import") from error
        self.total = os.fstat(file.fileno()).st_size
        return file

    def _counted(self, raw: IO[bytes]) -> io.BufferedReader:
        return io.BufferedReader(_Counted(raw, self._count), _BYTES)

    def _count(self, size: int) -> None:
        self.done += size

    def _zipped(self, now: int) -> Iterator[Entry]:
        """Yield the records of the files of a ZIP archive that have memories."""
        if self.path is None or self.format != "chatgpt":
            raise UsageError(f"{self._name}: a ZIP archive", hint="unpack it first")
        try:
            with zipfile.ZipFile(self.path) as archive:
                names = [name for name in archive.namelist() if chatgpt.is_part(name)]
                if not names:
                    raise UsageError(f"{self.path}: the archive has no conversations.json", hint=IMPORTABLE)
                self.done, self.total = 0, sum(archive.getinfo(name).file_size for name in names)
                for name in names:
                    with archive.open(name) as part:
                        yield from chatgpt.read(self._counted(part), now)
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise UsageError(f"{self.path}: the ZIP archive is damaged", hint="export it again") from error

    def _rows(self, now: int) -> Iterator[Entry]:
        if self.path is None:
            raise UsageError(f"{self._name}: a database must be a file", hint="give its path")
        self._closing.close()
        self.done = self.total = 0
        with llm.Logs(self.path) as logs:
            self.total = logs.n_turns()
            for entry in logs.entries(now):
                self.done += 1
                yield entry

    # ---- format

    def _is_archive(self) -> bool:
        return self._file.peek(4).startswith(_ZIP)

    def _detected(self) -> str:
        """Return the format, "" if the beginning does not show it: an archive can be anybody's."""
        head = self._file.peek(_BYTES)
        if exports.kind_of(head) is not None:
            raise UsageError(
                f"{self._name}: this is an encrypted export",
                hint="at a terminal, shepherd memory import asks for its passphrase",
            )
        if head.startswith(_SQLITE):
            return "llm"
        return "" if self._is_archive() else _format_of_text(head.lstrip(b"\xef\xbb\xbf \t\r\n"))


def _format_of_text(head: bytes) -> str:
    """Return the format by the keys at the beginning; "" for unknown ones."""
    first_line = head.split(b"\n", 1)[0]
    try:
        entry: Any = json.loads(first_line)
    except ValueError:
        entry = None
    except RecursionError:
        return ""
    if isinstance(entry, list):
        entry = entry[0] if entry else None
    if isinstance(entry, dict):
        return _format_of_keys(entry.keys(), entry.get("type"))
    if head[:1] not in (b"[", b"{"):
        return ""
    known = ("mapping", "memory", "memories", "results", "entities", "question")
    found = [key for key in known if re.search(rf'"{key}"\s*:'.encode(), head)]
    return _format_of_keys(found, None)


def _format_of_keys(keys: Iterable[str], kind: object) -> str:
    known = set(keys)
    if "question" in known or (isinstance(kind, str) and kind in shepherd.TYPES):
        return "shepherd"
    if kind in ("entity", "relation") or "entities" in known:
        return "mcp"
    if "mapping" in known:
        return "chatgpt"
    return "mem0" if known & {"memory", "memories", "results"} else ""


class _Counted(io.RawIOBase):
    """A stream that counts how much has been read of another."""

    def __init__(self, inner: IO[bytes], count: Callable[[int], None]) -> None:
        self._inner = inner
        self._count = count

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        # One piece at a time: detection must not wait for the rest of a pipe.
        read = getattr(self._inner, "read1", self._inner.read)
        try:
            data: bytes = read(len(buffer))
        except OSError as error:
            raise StoreError(f"reading failed: {error.strerror}", hint="check the file to import") from error
        self._count(len(data))
        buffer[: len(data)] = data
        return len(data)

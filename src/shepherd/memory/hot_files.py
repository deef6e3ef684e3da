"""Saved hot indexes, so that a new process need not read every memory.

A file is a cache: if it is damaged, of another build or of another state, it is ignored. A random number ties
it to the database, which stores the number when the file is written: after a backup was restored, or a crash
lost the last commits, the numbers differ; if they are equal, the list of changes has everything since then.
Each machine that uses a server has files and numbers of its own.

    folder   <database>-hot, or for a server one in the cache folder, mode 0700
    in it    a file per tenant number and corpus, mode 0600
    file     token, version, next_sequence, mark (64 bits each), then the bytes of HotIndex.save, with a
             checksum; sealed, if the database is encrypted
"""

from __future__ import annotations

import os
import secrets
import struct

from shepherd._native.hot import HotIndex
from shepherd.encryption import SealedWriter, Sealer, SealError
from shepherd.errors import StoreError
from shepherd.memory.corpora import Corpus
from shepherd.memory.hot_rows import Connection, Followed, Tables, mark_query
from shepherd.memory.schema import memory_range
from shepherd.overwriting import remove, replace, temporary_file

__all__ = ["HotFiles", "opened"]

_HEAD = struct.Struct("<qqqq")
_PURPOSE = "hot index"


def opened(data: bytes, sealer: Sealer) -> bytes | None:
    """Return what a sealed file has, None if it has another key or is damaged."""
    try:
        return sealer.open(data, _PURPOSE)
    except SealError:
        return None


class HotFiles:
    """The saved indexes of one database. Errors are ignored: the index is built again."""

    def __init__(self, tables: Tables, corpus: Corpus) -> None:
        self._tables = tables
        self._corpus = corpus
        self._folder = tables.folder

    def save(self, followed: Followed) -> bool:
        """Write the index and its number; return whether that succeeded.

        An index of an older version is not saved: it may have words of memories that were deleted since.
        """
        saved = followed.index.save()
        if saved is None or self._tables.read_only:
            return False
        token = secrets.randbits(62)
        target = self._folder / self._name(followed.tenant)
        part = target.with_suffix(".part")
        try:
            self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            remove(part)
            with temporary_file(part) as file:
                head = _HEAD.pack(token, followed.version, followed.next_sequence, followed.mark)
                if self._tables.sealer is None:
                    file.write(head)
                    file.write(saved)
                else:
                    writer = SealedWriter(file, self._tables.sealer, _PURPOSE)
                    writer.write(head)
                    writer.write(saved)
                    writer.finish()
                file.flush()
                with self._tables.write() as connection:
                    if self._mark(connection, followed.tenant) != followed.mark:
                        return False
                    connection.execute(
                        "INSERT INTO meta(key, value) VALUES(?, ?)"
                        " ON CONFLICT(key) DO UPDATE SET value = excluded.value",
                        (self._token_key(followed.tenant), token),
                    )
                    # Before the commit: whoever deletes a memory after it also deletes this file.
                    replace(part, target)
        except (OSError, StoreError):
            return False
        return True

    def load(self, tenant: int) -> Followed | None:
        """Return the saved index of a tenant, to be updated; None without one that can be trusted."""
        try:
            data = (self._folder / self._name(tenant)).read_bytes()
            if self._tables.sealer is not None:
                data = self._tables.sealer.open(data, _PURPOSE)
            whole = memoryview(data)
            token, version, next_sequence, mark = _HEAD.unpack_from(whole)
            index = HotIndex.load(whole[_HEAD.size :], memory_range(tenant)[0])
        except (OSError, ValueError, struct.error, SealError):
            return None
        counts = index.counts()
        if counts is None or counts["version"] != mark or token != self._token(tenant):
            return None
        # The token is certain of it: the list of changes may have lost the mark meanwhile.
        return Followed(self._corpus, tenant, index, version, next_sequence, None)

    def has(self, tenant: int) -> bool:
        """Return whether there is a saved index of a tenant."""
        return (self._folder / self._name(tenant)).exists()

    def remove(self, tenant: int) -> list[str]:
        """Delete the saved index of a tenant, also a part of one, and overwrite its bytes.

        Returns the files. Raises StoreError.
        """
        removed = []
        file = self._folder / self._name(tenant)
        for path in (file, file.with_suffix(".part")):
            try:
                if remove(path):
                    removed.append(str(path))
            except OSError as error:
                raise StoreError(f"{path}: {error.strerror}", hint="delete this file") from error
        return removed

    def remove_all(self) -> None:
        """Delete the saved indexes of all tenants."""
        for path in self._folder.glob(f"{self._corpus.saved_prefix}[0-9]*"):
            self.remove(int(path.stem.removeprefix(self._corpus.saved_prefix)))

    def _mark(self, connection: Connection, tenant: int) -> int | None:
        rows = connection.execute(mark_query(self._corpus, has_marks=self._tables.has_marks), (tenant,))
        return rows[0][0] if rows else None

    @property
    def n_bytes(self) -> int:
        """Bytes of all saved indexes."""
        try:
            return sum(entry.stat().st_size for entry in os.scandir(self._folder))
        except OSError:
            return 0

    def _token(self, tenant: int) -> int | None:
        with self._tables.read() as connection:
            rows = connection.execute("SELECT value FROM meta WHERE key = ?", (self._token_key(tenant),))
        return rows[0][0] if rows else None

    def _name(self, tenant: int) -> str:
        return f"{self._corpus.saved_prefix}{tenant}"

    def _token_key(self, tenant: int) -> str:
        copy = f"@{self._tables.copy}" if self._tables.copy else ""
        return f"hot_index:{self._name(tenant)}{copy}"

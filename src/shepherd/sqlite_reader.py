"""Tables of another program's SQLite database, read with our own SQLite."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from shepherd._native.store import Connection, SQLiteError
from shepherd.errors import ShepherdError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["SQLiteReader"]

_PAGE = 200


class SQLiteReader(ABC):
    """A database opened to read. As a context manager it turns SQLite's errors into those of `failure`."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.connection = Connection(path, read_only=True, create=False)
            try:
                self.check()
            except BaseException:
                self.connection.close()
                raise
        except SQLiteError as error:
            raise self.failure(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.connection.close()
        if isinstance(error, SQLiteError):
            raise self.failure(error) from error

    @abstractmethod
    def check(self) -> None:
        """Raise an error where the tables are not those of the program."""

    @abstractmethod
    def failure(self, error: SQLiteError) -> ShepherdError:
        """Return the error that users get for one of SQLite's."""

    def columns(self, table: str) -> set[str]:
        """Return the names of a table's columns; none without such a table."""
        rows = self.connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return {name for (name,) in rows}

    def count(self, table: str) -> int:
        """Return how many rows a table has."""
        return int(self.connection.execute(f"SELECT count(*) FROM {table}")[0][0])

    def rows(self, table: str, names: Sequence[str], key: str = "rowid") -> Iterator[tuple[Any, ...]]:
        """Yield (key, *columns) of each row in the order of the key; None for a column that is missing."""
        known = self.columns(table)
        wanted = ", ".join([key, *(name if name in known else "NULL" for name in names)])
        after = -(1 << 62)
        while page := self.connection.execute(
            f"SELECT {wanted} FROM {table} WHERE {key} > ? ORDER BY {key} LIMIT {_PAGE}", (after,)
        ):
            yield from page
            after = page[-1][0]

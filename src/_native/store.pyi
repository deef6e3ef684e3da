import os
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Literal, final

from typing_extensions import Self

__all__ = [
    "AEGIS",
    "BEST_CIPHER",
    "CHACHA20",
    "HAS_CIPHERS",
    "KEY_BYTES",
    "SQLITE_KIND",
    "SQLITE_VERSION",
    "Connection",
    "Recall",
    "SQLiteError",
]

AEGIS: Final[int]
BEST_CIPHER: Final[int]
CHACHA20: Final[int]
HAS_CIPHERS: Final[bool]
KEY_BYTES: Final[int]
SQLITE_VERSION: Final[str]
SQLITE_KIND: Final[str]

class SQLiteError(Exception):
    code: int
    message: str
    def __init__(self, code: int, message: str) -> None: ...

@final
class Connection:
    keeps_gil: bool
    @property
    def path(self) -> str: ...
    @property
    def read_only(self) -> bool: ...
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        create: bool = True,
        busy_timeout_ms: int = 5000,
        cache_kib: int = 16384,
        immutable: bool = False,
        key: bytes | bytearray | memoryview | None = None,
    ) -> None: ...
    def __enter__(self) -> Connection: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def execute(
        self, sql: str, parameters: Sequence[int | float | str | bytes | None] = ()
    ) -> list[tuple[Any, ...]]: ...
    def execute_together(
        self, statements: Sequence[tuple[str, Sequence[int | float | str | bytes | None]]]
    ) -> list[list[tuple[Any, ...]]]: ...
    def defer(self, sql: str, parameters: Sequence[int | float | str | bytes | None] = ()) -> None: ...
    def forget_deferred(self) -> None: ...
    def begin(self) -> None: ...
    def end_reading(self) -> None: ...
    def execute_many(self, sql: str, rows: Iterable[Sequence[int | float | str | bytes | None]]) -> int: ...
    def script(self, sql: str) -> None: ...
    @property
    def changes(self) -> int: ...
    @property
    def last_insert_rowid(self) -> int: ...
    @property
    def in_transaction(self) -> bool: ...
    def data_version(self) -> int: ...
    def backup(
        self,
        path: str | os.PathLike[str],
        *,
        pages_per_step: int = 256,
        progress: Callable[[int, int], object] | None = None,
        key: bytes | bytearray | memoryview | None = None,
    ) -> None: ...
    def has_moved(self) -> bool: ...
    def write_copy(
        self, path: str | os.PathLike[str], *, key: bytes | bytearray | memoryview | None = None
    ) -> None: ...
    def interrupt(self) -> None: ...
    def close(self) -> None: ...

@final
class Recall:
    def __new__(cls, *, corpus: Literal["memories", "chunks"] = "memories") -> Self: ...
    def search(
        self,
        connection: Connection,
        tenant: int,
        keywords: Iterable[str],
        k: int,
        now: float,
        *,
        k1: float = 0.9,
        b: float = 0.3,
        recency_floor: float = 0.9,
        min_relevance: float = 0.0,
        periods: Iterable[tuple[int, int]] = (),
        weights: Sequence[float] | None = None,
        is_request: bool = False,
    ) -> list[tuple[int, float, float, float]]: ...
    def forget(self, tenant: int) -> None: ...
    @property
    def memory_bytes(self) -> int: ...

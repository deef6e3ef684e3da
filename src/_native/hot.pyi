from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypedDict

__all__ = ["HotIndex", "HotIndexes", "HotSlot"]

# id, timestamp, doc_len, thread, label, asks, question, answer
_Row: TypeAlias = tuple[int, int, int, int, int, int, str, str]

class _Counts(TypedDict):
    version: int
    n_memories: int
    total_length: int
    last_sequence: int
    n_terms: int
    n_postings: int
    n_bytes: int
    n_free_bytes: int

class HotIndex:
    first_id: int
    def __init__(self, first_id: int = 0) -> None: ...
    def add(self, rows: list[_Row]) -> None: ...
    def replace(self, row: _Row) -> None: ...
    def remove(self, ids: Iterable[int]) -> None: ...
    def publish(self, version: int, n_memories: int, total_length: int) -> None: ...
    def search(
        self,
        version: int,
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
    ) -> list[tuple[int, float, float, float]] | None: ...
    def counts(self) -> _Counts | None: ...
    def sequences(self) -> bytes: ...
    def save(self) -> bytes | None: ...
    @staticmethod
    def load(saved: bytes | bytearray | memoryview, first_id: int = 0) -> HotIndex: ...

class HotSlot:
    index: HotIndex | None
    used: int

class HotIndexes:
    @property
    def _slots(self) -> dict[int, Any]: ...
    def find(
        self,
        tenant: int,
        version: int,
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
    ) -> list[tuple[int, float, float, float]] | None: ...
    def search(
        self,
        connection: Any,
        tenant: int,
        keywords: Iterable[str],
        k: int,
        now: float,
        version: int | None = None,
        *,
        k1: float = 0.9,
        b: float = 0.3,
        recency_floor: float = 0.9,
        min_relevance: float = 0.0,
        periods: Iterable[tuple[int, int]] = (),
        weights: Sequence[float] | None = None,
        is_request: bool = False,
    ) -> list[tuple[int, float, float, float]]: ...

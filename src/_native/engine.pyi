from collections.abc import Iterable
from typing import Any, final

from typing_extensions import Self

PLAIN: int
SLIDING: int
RECURRENT: int
HYBRID: int

RUNNING: int
STOP: int
LENGTH: int
CANCELLED: int
FAILED: int

NO_MEMORY: int
NO_LOGITS: int
NO_TOKEN: int

def bind(library: Any, batch_type: Any, data_type: Any, array_type: Any) -> None: ...
def set_log_level(least: int) -> None: ...
def take_log() -> bytes: ...
def special_tokens(vocab: int, mask: int) -> list[tuple[int, int, bytes]]: ...

@final
class Stream:
    def __new__(cls, stops: Iterable[bytes] = ()) -> Self: ...
    def read(self, timeout_ms: int) -> bytes | None: ...
    def cancel(self) -> None: ...
    @property
    def ending(self) -> int: ...
    def counters(self) -> dict[str, int]: ...
    def tokens(self) -> list[tuple[int, int]]: ...

def longest_token(vocab: int) -> int: ...
def feed_stream(stream: Stream, token: int, piece: bytes) -> bool: ...
def end_stream(stream: Stream, ending: int = ...) -> None: ...

@final
class Gate:
    def __new__(cls) -> Self: ...

@final
class Decoder:
    def __new__(
        cls,
        ctx: int,
        memory: int,
        vocab: int,
        *,
        kind: int,
        n_window: int,
        n_swa: int,
        n_chunk: int,
        gate: Gate | None = None,
        yields_to: Gate | None = None,
    ) -> Self: ...
    def submit(
        self,
        tokens: Any,
        stream: Stream,
        *,
        sampler: int = 0,
        grammar: int = 0,
        max_tokens: int = 0,
        penalty_last_n: int = 0,
    ) -> bool: ...
    def serve(self) -> None: ...
    def close(self) -> None: ...
    def wait_idle(self, timeout_ms: int = -1) -> bool: ...
    def forget(self) -> None: ...
    @property
    def mirror_ids(self) -> list[int]: ...
    @property
    def position_max(self) -> int: ...
    def logits(self) -> bytes | None: ...

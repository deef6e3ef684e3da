"""Records of a sync: operations, registers, and what a run reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["KINDS", "Conflict", "Machine", "Operation", "Register", "Report"]

# m: memory, p: whether it is pinned, c: change of a fact, n: node, e: edge, d: dimension, s: setting.
KINDS = ("m", "p", "c", "n", "e", "d", "s")

Order = tuple[int, str]


class Operation(NamedTuple):
    """A new value of a register; `body` None removes it. Of two for one register, the later `order` counts.

    `digest`: of a memory that is forgotten, the hash of its text.
    """

    kind: str
    gid: str
    stamp: int
    machine: str
    body: dict[str, Any] | None
    digest: str = ""

    @property
    def order(self) -> Order:
        """The stamp, and the machine for equal stamps: the same order everywhere."""
        return self.stamp, self.machine


@dataclass(slots=True)
class Register:
    """State of one item on all machines; `local` is its row here, 0 for none.

    `written`: number of the frame in which this machine wrote the value, 0 if it is another one's. `topic`:
    the folded key of a fact's change; else the value that was applied. `note`: what the row has no column
    for.
    """

    kind: str
    gid: str
    local: int = 0
    stamp: int = 0
    machine: str = ""
    is_gone: bool = False
    written: int = 0
    topic: str = ""
    note: dict[str, Any] = field(default_factory=dict)

    @property
    def order(self) -> Order:
        """As that of an operation."""
        return self.stamp, self.machine


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two machines changed the same; `kept` says what became of the value that lost, without quoting it."""

    what: str
    kept: str


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that writes to the folder; `n_frames` of its frames were read here, at last at `read_at`."""

    id: str
    name: str
    is_own: bool
    n_frames: int
    read_at: int
    bytes: int


@dataclass(slots=True)
class Report:
    """Result of a run: numbers of operations written and read, by the kind of item that they change."""

    written: dict[str, int] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    rewritten: int = 0
    has_forgotten: bool = False
    is_new_folder: bool = False
    machines: int = 0

    def count(self, counts: dict[str, int], kind: str) -> None:
        """Add one to the count of a kind."""
        counts[kind] = counts.get(kind, 0) + 1

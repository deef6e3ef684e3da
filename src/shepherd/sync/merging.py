"""The choice between two values of a register, the same for every kind. Inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from shepherd.memory.store import MemoryStore
from shepherd.sync.records import Conflict, Operation, Register, Report
from shepherd.sync.registers import Replica
from shepherd.sync.segments import Frame

__all__ = ["Merge"]


@dataclass(slots=True)
class Merge:
    """The application of one frame of another machine.

    `later`: changes of this machine that follow from it, made at its end, and written as its own.
    """

    replica: Replica
    store: MemoryStore
    frame: Frame
    report: Report
    later: list[Callable[[], object]] = field(default_factory=list)

    def accepted(self, operation: Operation) -> tuple[Register, bool] | None:
        """Return the register with the order of an operation that counts, not saved yet; else None.

        Second: whether this machine's own value lost against one that was made without knowing it. What is
        gone stays gone.
        """
        register = self.replica.find(operation.kind, operation.gid)
        if register is None:
            register = Register(operation.kind, operation.gid)
        elif register.is_gone or register.order >= operation.order:
            return None
        is_conflict = self.is_unaware_of(register)
        self.replica.outdate(register)
        register.stamp, register.machine = operation.order
        register.written = 0
        return register, is_conflict

    def removed(self, operation: Operation) -> Register | None:
        """Return the register of what an operation removes, as it was; it is marked as gone.

        None if it was gone before, or was not known.
        """
        register = self.replica.find(operation.kind, operation.gid)
        if register is not None and register.is_gone:
            return None
        self.replica.save(
            Register(operation.kind, operation.gid, 0, operation.stamp, operation.machine, is_gone=True)
        )
        if register is not None:
            self.replica.outdate(register)
        return register

    def report_forgotten(self, register: Register, what: str) -> None:
        """Report a change of this machine that is gone: what it changed was forgotten elsewhere meanwhile."""
        if self.is_unaware_of(register):
            kept = f"it was changed here and forgotten on {self.frame.name}; it is forgotten now"
            self.report.conflicts.append(Conflict(what, kept))

    def is_unaware_of(self, register: Register) -> bool:
        """Return whether the frame was written without knowing this machine's value of a register."""
        return register.written > self.frame.seen.get(self.replica.machine, 0)

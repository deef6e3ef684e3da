"""Reading the segments of the other machines, and applying their frames, each in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from shepherd.encryption import SealError
from shepherd.memory import forgetting
from shepherd.memory.store import MemoryStore
from shepherd.sync import facts, knowledge, memories, segments, settings, tables
from shepherd.sync.folder import Folder
from shepherd.sync.merging import Merge
from shepherd.sync.outgoing import collect
from shepherd.sync.records import Report
from shepherd.sync.registers import Replica
from shepherd.sync.segments import Frame, NewerError
from shepherd.transactions import Connection

__all__ = ["apply_new", "new_frames"]


def apply_new(
    store: MemoryStore,
    folder: Folder,
    user_id: str,
    machine: str,
    report: Report,
    progress: Callable[[], None],
) -> None:
    """Apply all frames of other machines that were not applied yet."""
    former = store.read(tables.get).get("former", "").split()
    for other in sorted(folder.segments()):
        if other == machine:
            continue
        report.machines += other not in former
        # It is said when they are taken over whether former segments of this machine can be read.
        warned = Report() if other in former else report
        for segment, index, frame in new_frames(store, folder, other, warned):
            _apply(store, folder, user_id, other, segment, index, frame, report)
            progress()


def new_frames(
    store: MemoryStore, folder: Folder, machine: str, report: Report
) -> Iterator[tuple[int, int, Frame]]:
    """Yield the frames of a machine that were not read yet, with their places; warn of damaged ones."""
    rows = store.read(
        lambda connection: connection.execute(
            "SELECT segment, frame, number FROM sync_seen WHERE machine = ?", (machine,)
        )
    )
    first_segment, first_index, number = (rows[0][0], rows[0][1] + 1, rows[0][2]) if rows else (1, 0, 0)
    for segment in folder.segments().get(machine, []):
        if segment < first_segment:
            continue
        start = first_index if segment == first_segment else 0
        path = folder.segment(machine, segment)
        try:
            for index, frame in enumerate(segments.read(folder, machine, segment, start), start):
                if frame.number != number + 1:
                    return  # the end of the segment before is still to be copied
                number = frame.number
                yield segment, index, frame
        except SealError:
            report.warnings.append(f"{path}: damaged, or sealed with another key; what follows in it waits")
            return
        except NewerError:
            report.warnings.append(f"{path}: written by a newer Shepherd; update Shepherd on this machine")
            return


def _apply(
    store: MemoryStore,
    folder: Folder,
    user_id: str,
    machine: str,
    segment: int,
    index: int,
    frame: Frame,
    report: Report,
) -> None:
    size = sum(2 * len(str(one.body)) for one in frame.operations)

    def work(connection: Connection) -> Report:
        # Of this run of it alone: a transaction can run twice.
        mine = Report()
        replica = Replica(connection, folder)
        # What was changed here since the log was written comes first, or it would be overwritten.
        facts.collect_unrecorded(connection, user_id)
        while collect(connection, replica, mine):
            pass
        merge = Merge(replica, store, frame, mine)
        apply_operations(merge)
        replica.note_read(machine, segment, index, frame)
        # The triggers have logged what was applied; it is not this machine's.
        connection.execute("DELETE FROM sync_log")
        for one in merge.later:
            one()
        replica.flush()
        if mine.has_forgotten:
            forgetting.note(connection)
        return mine

    mine = store.write(user_id, work, size=size)
    for kind, n in mine.written.items():
        report.written[kind] = report.written.get(kind, 0) + n
    for kind, n in mine.read.items():
        report.read[kind] = report.read.get(kind, 0) + n
    report.conflicts += mine.conflicts
    report.has_forgotten |= mine.has_forgotten


def apply_operations(merge: Merge) -> None:
    """Apply the operations of the frame, kind by kind."""
    of = {
        kinds: [one for one in merge.frame.operations if one.kind in kinds]
        for kinds in ("nde", "mp", "c", "s")
    }
    knowledge.apply(merge, of["nde"])
    memories.apply(merge, of["mp"])
    facts.apply(merge, of["c"])
    settings.apply(merge, of["s"])
    for operation in merge.frame.operations:
        merge.report.count(merge.report.read, operation.kind + ("-" if operation.body is None else ""))

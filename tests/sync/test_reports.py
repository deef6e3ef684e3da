"""What a run reports, and what the next one makes of what it left."""

from __future__ import annotations

import errno
import random
from unittest.mock import patch

import pytest

from shepherd.errors import StoreError, UsageError
from shepherd.memory import Memory
from shepherd.sync import begins, leave, outgoing, remove, segments, status, sync
from tests.sync.replicas import NOW, PASSPHRASE, Machine, settle


def long_text(n: int) -> str:
    """A text that hardly gets smaller: segments of the tests have 1000 bytes."""
    return random.Random(n).randbytes(700).hex()


def test_changes_are_counted_by_what_they_change(machines) -> None:
    a, b = machines("a", "b")
    one = a.memory.store_memory("question", "answer")
    a.memory.store_memory("another", "answer")
    a.memory.set_fact("name", "Ann")
    node = a.knowledge.add_node("one", dimensions=["red"])
    first = a.sync()
    assert first.is_new_folder
    assert first.written == {"m": 2, "c": 1, "n": 1}
    assert (first.read, first.machines, first.rewritten, first.has_forgotten) == ({}, 0, 0, False)
    a.carry_to(b)
    assert (begins(b.memory, b.folder), begins(b.memory, a.folder)) == ("joins", "joins")
    joined = b.sync()
    assert not joined.is_new_folder
    assert joined.read == {"m": 2, "c": 1, "n": 1, "d": 1}
    assert (joined.written, joined.machines, joined.has_forgotten) == ({}, 1, False)
    assert begins(b.memory, b.folder) == ""

    a.memory.delete_memory(one)
    a.knowledge.delete_node(node.id)
    a.memory.clear_fact("name", with_history=True)
    forgotten = a.sync()
    assert forgotten.written.keys() == {"m-", "n-", "c-", "c"}
    a.carry_to(b)
    heard = b.sync()
    assert (heard.read["m-"], heard.read["n-"]) == (1, 1)
    assert heard.has_forgotten
    assert heard.written == {}
    assert b.sync().read == {}


def test_what_was_edited_often_is_written_once(machines) -> None:
    [a] = machines("a")
    a.sync()
    one = a.memory.store_memory("question", "answer")
    for n in range(4):
        a.memory.edit_memory(one, answer=f"answer {n}")
    gone = a.memory.store_memory("soon gone", "answer")
    a.memory.delete_memory(gone)

    assert a.sync().written == {"m": 1, "m-": 1}
    assert a.sync().written == {}


@pytest.mark.parametrize(("changes", "size"), [(3, 1 << 20), (1000, 600)])
def test_a_long_log_is_written_in_parts_and_nothing_of_it_is_left_out(machines, changes, size) -> None:
    a, b = machines("a", "b")
    a.sync()
    nodes = [
        a.knowledge.add_node(f"node {n}", source_text=long_text(n), dimensions=["red"]) for n in range(4)
    ]
    for n in range(3):
        a.knowledge.connect(nodes[n].id, nodes[n + 1].id, f"because {n}")
        a.memory.store_memory(f"question {n}", long_text(n))
        a.memory.set_fact(f"fact{n}", f"value {n}")
    with patch.object(outgoing, "_MOST_CHANGES", changes), patch.object(outgoing, "_MOST_BYTES", size):
        report = a.sync()
        # A node that got its dimension in another part is written once more.
        assert report.written.pop("n") >= 4
        assert report.written == {"e": 3, "m": 3, "c": 3}
        [frames] = [one.n_frames for one in status(a.memory, a.folder)]
        assert frames > 3  # of one frame, if it fits
        a.carry_to(b)
        # Own changes of the other machine are written before the first frame is applied.
        b.memory.store_memory("of b", long_text(9))
        b.memory.set_fact("of b", "value")
        b.sync()
    settle([a, b], 2)

    assert a.exported() == b.exported()
    assert a.memory.count_memories() == 4
    assert len(b.knowledge.list_edges()) == 3


def test_the_own_segments_lose_what_was_forgotten_and_are_then_left_alone(machines) -> None:
    a, b = machines("a", "b")
    ids = []
    for n in range(6):
        ids.append(a.memory.store_memory(f"question {n}", long_text(n)))
        a.sync()
    a.carry_to(b)
    b.sync()
    with patch.object(segments, "rewrite", wraps=segments.rewrite) as rewrite:
        for one in (ids[0], ids[4]):
            a.memory.delete_memory(one)
        report = a.sync()
        numbers = [call.args[2] for call in rewrite.call_args_list]
        assert report.rewritten == len(numbers) == len(set(numbers)) == 2
        assert a.sync().rewritten == 0
    a.carry_to(b)
    assert b.sync().read == {"m-": 2}
    assert {one.question for one in b.memory.list_memories()} == {f"question {n}" for n in (1, 2, 3, 5)}

    # The one that is forgotten next shares its segment with one that was forgotten before.
    a.memory.delete_memory(ids[1])
    assert a.sync().rewritten == 1


def test_a_frame_of_a_newer_version_waits_and_says_so(machines) -> None:
    a, b = machines("a", "b")
    settle([a, b], 1)
    a.memory.store_memory("question", "answer")
    with patch.object(segments, "VERSION", 2):
        a.sync()
    a.carry_to(b)
    for _ in range(2):
        report = b.sync()
        assert [warning.partition(": ")[2] for warning in report.warnings] == [
            "written by a newer Shepherd; update Shepherd on this machine"
        ]
        assert b.memory.count_memories() == 0

    with patch.object(segments, "VERSION", 2):
        assert b.sync().warnings == []
    assert b.memory.count_memories() == 1


def test_a_segment_that_lost_frames_while_it_was_written_is_an_error_that_the_next_run_mends(
    machines,
) -> None:
    a, b = machines("a", "b")
    a.memory.store_memory("question", "answer")
    a.sync()
    [segment] = a.folder.glob("*.shpseg")
    a.memory.store_memory("another", "answer")
    collect_all = outgoing.collect_all

    def cut(*arguments) -> None:
        collect_all(*arguments)
        segment.write_bytes(segment.read_bytes()[:20])

    with patch.object(outgoing, "collect_all", cut), pytest.raises(StoreError, match="has lost") as caught:
        a.sync()
    assert str(segment) in str(caught.value)
    assert "sync again" in caught.value.hint
    settle([a, b], 2)

    assert b.memory.count_memories() == 2


def test_other_files_of_the_memory_and_folder_are_refused_by_name(machines, tmp_path) -> None:
    a, b, c = machines("a", "b", "c")
    a.sync()
    b.sync()
    with pytest.raises(UsageError, match="synced with another folder") as caught:
        sync(a.memory, b.folder, lambda is_new: PASSPHRASE)
    assert "--leave" in caught.value.hint
    with (
        Memory(a.path, user_id="anna") as other,
        pytest.raises(UsageError, match="another of its users") as caught,
    ):
        sync(other, a.folder, lambda is_new: PASSPHRASE)
    assert caught.value.hint == "a file is synced for one user"
    with Memory(tmp_path / "nobody.db", user_id="unknown") as nobody:
        with pytest.raises(UsageError, match="nothing is kept for this user"):
            sync(nobody, a.folder, lambda is_new: PASSPHRASE)
        with pytest.raises(UsageError, match="nothing is kept"):
            begins(nobody, a.folder)
    assert begins(c.memory, c.folder) == "new folder"
    assert not leave(c.memory)

    with pytest.raises(UsageError, match="that is this machine") as caught:
        remove(a.memory, a.folder, a.id())
    assert "--leave" in caught.value.hint
    with pytest.raises(UsageError, match="has no files of '0123456789ab'") as caught:
        remove(a.memory, a.folder, "0123456789ab")
    assert "--status" in caught.value.hint


def test_the_passphrase_is_asked_for_once_and_chosen_for_a_new_folder(machines) -> None:
    a, b = machines("a", "b")
    asked: list[bool] = []

    def ask(is_new: bool) -> str:
        asked.append(is_new)
        return PASSPHRASE

    def run(machine: Machine) -> None:
        sync(machine.memory, machine.folder, ask)

    run(a)
    run(a)
    a.carry_to(b)
    run(b)

    assert asked == [True, False]


def test_each_machine_is_listed_with_what_was_read_of_it(machines) -> None:
    a, b = machines("a", "b")
    with patch("shepherd.sync.run.socket.gethostname", lambda: "desk"):
        a.sync()
    with patch("shepherd.sync.run.socket.gethostname", lambda: "lap"):
        a.memory.store_memory("question", "answer")
        a.sync()
        a.carry_to(b)
        b.memory.store_memory("of b", "answer")
        b.sync()
    for n in range(3):
        a.memory.store_memory(f"question {n}", long_text(n))
        a.sync()
    a.carry_to(b)

    with patch("time.time", lambda: NOW + 7.5):
        own, other = sorted(status(b.memory, b.folder), key=lambda one: not one.is_own)
    assert (own.id, own.name, own.n_frames, own.read_at) == (b.id(), "lap", 1, NOW + 7)
    assert (other.id, other.name, other.n_frames) == (a.id(), "desk", 1)
    files = sorted(b.folder.glob(f"{a.id()}-*"))
    assert len(files) > 1
    assert other.bytes == sum(file.stat().st_size for file in files)
    with patch("time.time", lambda: NOW + 9.5):
        b.sync()
    other = next(one for one in status(b.memory, b.folder) if not one.is_own)
    assert (other.n_frames, other.read_at) == (4, NOW + 9)


def test_steps_are_told_one_by_one(machines) -> None:
    a, b = machines("a", "b")
    for n in range(3):
        a.memory.store_memory(f"question {n}", "answer")
        a.sync()
    a.carry_to(b)
    steps: list[int] = []

    sync(b.memory, b.folder, lambda is_new: PASSPHRASE, progress=lambda: steps.append(1))

    assert len(steps) == 1 + 3  # the own changes, and each frame


def test_a_restored_backup_and_a_copy_say_what_they_do(machines) -> None:
    a, b = machines("a", "b")
    a.memory.store_memory("question", "answer")
    former = a.id() if a.sync() else ""
    [segment] = a.folder.glob("*.shpseg")
    segment.unlink()
    report = a.sync()

    assert report.warnings == [
        "the folder does not have what this memory wrote last (was a backup restored?): everything is"
        " compared again"
    ]
    assert a.id() != former
    assert a.sync().warnings == []
    former = a.id()
    with patch("shepherd.sync.run._host", lambda: "another"):
        report = a.sync()
        assert report.warnings[0].endswith(f"shepherd sync --remove {former}")
        assert a.sync().warnings == []
    assert b.memory.count_memories() == 0


def test_a_folder_without_room_is_an_error_that_loses_nothing(machines) -> None:
    a, b = machines("a", "b")
    one = a.memory.store_memory("question", "answer")
    full = OSError(errno.ENOSPC, "No space left on device")
    for step in ("write", "rewrite"):
        with patch.object(segments, step, side_effect=full), pytest.raises(StoreError) as caught:
            a.sync()
        assert str(caught.value).startswith(str(a.folder))
        assert str(caught.value).endswith(": cannot be written: No space left on device; nothing is lost")
        assert caught.value.hint == "free some disk space or connect the disk, and sync again"
        a.sync()
        a.memory.edit_memory(one, answer="another")
    settle([a, b], 1)

    assert [memory.answer for memory in b.memory.list_memories()] == ["another"]

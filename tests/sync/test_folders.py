"""Folders that are torn, damaged, foreign or lost, and memories that are older than the folder."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import pytest

from shepherd.config.file import ConfigFile
from shepherd.errors import StoreError, StoreKeyError, UsageError
from shepherd.sync import leave, remove, status, sync
from shepherd.sync.run import _host
from tests.sync.replicas import NOW, PASSPHRASE, Killed, copy_of, restore, settle


def schema_of(machine) -> list:
    return machine.memory.transactions.read(
        lambda connection: connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name")
    )


def test_a_wrong_passphrase_is_an_error_and_changes_nothing(machines):
    a, b = machines("a", "b")
    a.sync()
    a.carry_to(b)
    before, files = schema_of(b), sorted(b.folder.iterdir())

    with pytest.raises(StoreKeyError, match="not the passphrase"):
        sync(b.memory, b.folder, lambda is_new: "another one")

    assert schema_of(b) == before
    assert sorted(b.folder.iterdir()) == files


def test_a_memory_that_leaves_is_as_if_it_had_never_synced(machines):
    [a] = machines("a")
    before = schema_of(a)
    a.memory.store_memory("question", "answer")
    a.sync()
    assert schema_of(a) != before

    assert leave(a.memory)

    assert schema_of(a) == before
    assert a.memory.count_memories() == 1


def test_a_torn_segment_is_read_up_to_its_last_whole_frame(machines):
    a, b = machines("a", "b")
    for n in range(3):
        a.memory.store_memory(f"question {n}", "answer")
        a.sync()
    a.carry_to(b, share=0.9)
    report = b.sync()

    assert b.memory.count_memories() == 2
    assert report is not None
    assert not report.warnings

    a.carry_to(b)
    b.sync()

    assert b.memory.count_memories() == 3


def test_a_segment_waits_for_the_one_before_it(machines):
    a, b = machines("a", "b")
    for n in range(9):
        a.memory.store_memory(f"question {n}", "answer")
        a.sync()
    a.carry_to(b)
    first, second, *_ = sorted(b.folder.glob("*.shpseg"))
    whole = first.read_bytes()
    first.write_bytes(whole[:-10])
    b.sync()
    n_before = b.memory.count_memories()
    assert 0 < n_before < 9
    assert second.exists()

    first.write_bytes(whole)
    b.sync()

    assert b.memory.count_memories() == 9


def test_a_damaged_segment_costs_a_warning_and_other_machines_are_read(machines):
    a, b, c = machines("a", "b", "c")
    settle([a, b, c], 1)
    a.memory.store_memory("of a", "answer")
    c.memory.store_memory("of c", "answer")
    for machine in (a, c):
        machine.sync()
        machine.carry_to(b)
    [segment] = a.folder.glob(f"{a.id()}-*")
    damaged, foreign = b.folder / segment.name, b.folder / "0123456789ab-000001.shpseg"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-20] + bytes(20))
    foreign.write_bytes(b"of another program")
    report = b.sync()

    assert report is not None
    assert len(report.warnings) == 2
    assert b.memory.count_memories() == 1

    damaged.write_bytes(whole)
    foreign.unlink()
    report = b.sync()

    assert report is not None
    assert not report.warnings
    assert b.memory.count_memories() == 2


def test_an_own_segment_cannot_pass_for_another(machines):
    a, b = machines("a", "b")
    a.memory.store_memory("question", "answer")
    settle([a, b], 1)
    [segment] = a.folder.glob("*-000001.shpseg")
    (b.folder / segment.name.replace("000001", "000002")).write_bytes(segment.read_bytes())
    report = b.sync()

    assert report is not None
    assert "damaged" in report.warnings[0]


def test_an_empty_folder_in_place_of_the_synced_one_is_an_error(machines, tmp_path):
    [a] = machines("a")
    a.sync()
    (tmp_path / "empty").mkdir()

    with pytest.raises(StoreError, match="it has no shepherd-sync"):
        sync(a.memory, tmp_path / "empty", lambda is_new: PASSPHRASE)
    with pytest.raises(UsageError, match="no such folder"):
        sync(a.memory, tmp_path / "missing", lambda is_new: PASSPHRASE)
    assert not list((tmp_path / "empty").iterdir())


def test_a_restored_backup_does_not_bring_back_what_was_forgotten(machines):
    a, b = machines("a", "b")
    one = a.memory.store_memory("question", "canaryold")
    settle([a, b], 1)
    copy_of(a, "backup.db")
    a.memory.delete_memory(one)
    a.memory.store_memory("later", "answer")
    settle([a, b], 1)

    restore(a, "backup.db")
    assert a.memory.count_memories() == 1
    a.memory.store_memory("after the restore", "answer")
    settle([a, b], 3)

    assert {one.question for one in a.memory.list_memories()} == {"later", "after the restore"}
    assert a.exported() == b.exported()


def test_a_backup_can_be_restored_twice(machines):
    a, b = machines("a", "b")
    settle([a, b], 1)
    copy_of(b, "backup.db")  # before it has written anything
    for n in range(2):
        b.memory.store_memory(f"question {n}", "answer")
        settle([a, b], 2)  # a has read it before it writes
        a.memory.store_memory(f"of a {n}", "answer")
        settle([a, b], 1)
        restore(b, "backup.db")
    b.memory.set_fact("city", "Lisbon")
    former = b.id()

    warnings = b.sync().warnings
    assert [one.split(" (")[0] for one in warnings] == [
        "the folder does not have what this memory wrote last"
    ]
    b.carry_to(a)
    for left in a.folder.glob(f"{former}-*"):
        left.unlink()
    settle([a, b], 2)

    assert b.sync().warnings == []
    assert a.memory.count_memories() == 4
    assert a.memory.get_fact("city") == "Lisbon"
    assert a.exported() == b.exported()


def test_a_copy_of_a_memory_on_another_machine_is_a_machine_of_its_own(machines):
    a, b, c = machines("a", "b", "c")
    a.memory.store_memory("question", "answer")
    settle([a, b], 1)
    copy_of(a, "backup.db")
    c.path.with_name("backup.db").rename(c.path.with_name("copied.db"))
    restore(c, "copied.db")
    c.user = "a:steve"
    c.close()
    c.open()
    with patch("shepherd.sync.run._host", lambda: "another"):
        for file in a.folder.iterdir():
            (c.folder / file.name).write_bytes(file.read_bytes())
        for machine in (a, c):
            machine.memory.store_memory(f"of {machine.name}", "answer")
        report = c.sync()
        assert report is not None
        assert "a machine of its own" in report.warnings[0]
        assert a.id() != c.id()
        for _ in range(2):
            c.carry_to(a)
            c.carry_to(b)
            with patch("shepherd.sync.run._host", _host):
                settle([a, b], 2)
            a.carry_to(c)
            b.carry_to(c)
            c.sync()

    assert a.exported() == b.exported() == c.exported()
    assert a.memory.count_memories() == 3


def test_own_segments_that_were_lost_are_written_again(machines):
    a, b = machines("a", "b")
    a.memory.store_memory("question", "answer")
    a.sync()
    for segment in a.folder.glob("*.shpseg"):
        segment.unlink()
    a.sync()
    a.carry_to(b)
    b.sync()

    assert b.memory.count_memories() == 1


@pytest.mark.parametrize("which", [0, 1, -1])
def test_an_own_segment_that_was_damaged_is_written_again(machines, which):
    a, b = machines("a", "b")
    ids = []
    for n in range(15):
        ids.append(a.memory.store_memory(f"question {n}", "answer"))
        a.sync()
    own = sorted(a.folder.glob("*.shpseg"))
    assert len(own) > 2
    whole = bytearray(own[which].read_bytes())
    whole[40] ^= 1
    own[which].write_bytes(whole)
    for one in (ids[0], ids[7], ids[14]):
        a.memory.delete_memory(one)

    [warning] = a.sync().warnings
    assert warning.startswith(f"{own[which]}: this machine wrote the file")
    a.sync()
    assert not a.sync().warnings
    settle([a, b], 2)

    assert b.memory.count_memories() == 12
    assert a.exported() == b.exported()


def with_segments(machine) -> list:
    """Let a machine write 15 memories into several segments; return these, and the ids of the memories."""
    ids = []
    for n in range(15):
        ids.append(machine.memory.store_memory(f"question {n}", "answer"))
        machine.sync()
    own = sorted(machine.folder.glob(f"{machine.id()}-*"))
    assert len(own) > 2
    return [own, ids]


def damage(path, harm: str) -> None:
    data = bytearray(path.read_bytes())
    if harm == "magic":
        data[0] ^= 1
    elif harm == "frame":
        data[40] ^= 1
    elif harm == "length":
        data[8:12] = b"\xff\xff\xff\x00"
    path.write_bytes(data)
    if harm == "gone":
        path.unlink()


@pytest.mark.parametrize("harm", ["magic", "frame", "length", "gone"])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_whatever_happens_to_an_own_segment_nothing_is_lost(machines, which, harm):
    a, b = machines("a", "b")
    own, ids = with_segments(a)
    a.memory.delete_memory(ids[3])
    damage(own[which], harm)
    for one in (ids[0], ids[7], ids[14]):
        a.memory.delete_memory(one)

    assert a.sync().warnings
    assert a.sync().warnings == []
    settle([a, b], 2)

    assert b.sync().warnings == []
    assert b.memory.count_memories() == 11
    assert a.exported() == b.exported()


@pytest.mark.parametrize("harm", ["magic", "frame", "length", "gone"])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_harm_to_an_own_segment_is_noticed_though_nothing_was_forgotten(machines, which, harm):
    a, b = machines("a", "b")
    own, _ = with_segments(a)
    damage(own[which], harm)

    [warning] = a.sync().warnings
    is_named = harm in {"magic", "frame"} or (harm == "length" and which != -1)
    assert warning.startswith(str(own[which])) == is_named
    assert a.sync().warnings == []
    settle([a, b], 2)

    assert b.sync().warnings == []
    assert b.memory.count_memories() == 15


def test_own_segments_that_did_not_change_are_not_read_again(machines):
    [a] = machines("a")
    own, _ = with_segments(a)
    a.sync()
    with patch("shepherd.sync.segments.check", side_effect=AssertionError):
        a.sync()
    os.utime(own[1])
    with patch("shepherd.sync.segments.check", return_value=(3, True)) as check:
        a.sync()
    assert [one.args[2] for one in check.call_args_list] == [2]


@pytest.mark.parametrize("harm", ["magic", "frame"])
def test_a_kill_while_a_damaged_own_segment_is_replaced_loses_nothing(machines, harm):
    a, b = machines("a", "b")
    own, ids = with_segments(a)
    damage(own[1], harm)
    copy_of(a, "before.db")
    files = {path: path.read_bytes() for path in own}
    for kill_at in range(1, 40):
        restore(a, "before.db")
        for path in a.folder.glob("*.shpseg"):
            path.unlink()
        for path, data in files.items():
            path.write_bytes(data)
        a.memory.delete_memory(ids[7])
        is_done = a.sync(kill_at) is not None
        a.sync()
        assert a.sync().warnings == []
        if is_done:
            break
    assert kill_at > 5
    settle([a, b], 2)
    assert b.sync().warnings == []
    assert b.memory.count_memories() == 14


@pytest.mark.parametrize("n_removed", [0, 1, 2])
def test_a_kill_between_the_removals_of_former_segments_loses_nothing(machines, n_removed):
    a, b = machines("a", "b")
    own, ids = with_segments(a)
    damage(own[1], "frame")
    a.memory.delete_memory(ids[7])
    unlink, left = os.unlink, n_removed

    def dying(path, **options) -> None:
        nonlocal left
        if Path(path) in own:
            if left == 0:
                raise Killed
            left -= 1
        unlink(path, **options)

    with patch.object(os, "unlink", dying), pytest.raises(Killed):
        a.sync()
    assert a.sync().warnings == []
    settle([a, b], 2)

    assert b.sync().warnings == []
    assert not any(path.exists() for path in own)
    assert b.memory.count_memories() == 14


def test_values_of_a_machine_whose_files_were_taken_over_outlive_a_damaged_own_segment(machines):
    a, b, c = machines("a", "b", "c")
    b.memory.store_memory("of b", "answer")
    b.memory.set_fact("city", "Lisbon")
    settle([a, b], 2)
    remove(a.memory, a.folder, b.id())
    for harm in ("magic", "frame", "gone"):
        for path in sorted(a.folder.glob(f"{a.id()}-*"))[:1]:
            damage(path, harm)
        a.memory.delete_memory(a.memory.store_memory("short", "lived"))
        a.sync()
        a.sync()
    settle([a, c], 2)

    assert c.memory.count_memories() == 1
    assert c.memory.get_fact("city") == "Lisbon"


@pytest.mark.parametrize("harm", ["magic", "frame"])
def test_a_segment_that_was_damaged_after_it_was_read_can_be_taken_over(machines, harm):
    a, b, c = machines("a", "b", "c")
    settle([a, b], 1)
    own, _ = with_segments(b)
    b.memory.set_fact("city", "Lisbon")
    settle([a, b], 2)
    damage(a.folder / own[0].name, harm)
    remove(a.memory, a.folder, b.id())
    settle([a, c], 2)

    assert c.memory.count_memories() == 15
    assert c.memory.get_fact("city") == "Lisbon"


def test_a_last_segment_that_is_no_segment_is_not_taken_over(machines):
    a, b = machines("a", "b")
    b.memory.store_memory("of b", "answer")
    settle([a, b], 2)
    [segment] = a.folder.glob(f"{b.id()}-*")
    damage(segment, "magic")
    (a.folder / segment.name.replace("-000001", "-000002")).write_bytes(b"no segment")

    with pytest.raises(StoreError, match="not read completely"):
        remove(a.memory, a.folder, b.id())


def test_the_segments_of_a_machine_that_is_gone_can_be_taken_over(machines):
    a, b, c = machines("a", "b", "c")
    a.memory.store_memory("of a", "answer")
    b.memory.store_memory("of b", "answer")
    settle([a, b], 2)
    [gone] = [machine.id for machine in status(b.memory, b.folder) if not machine.is_own]

    a.memory.store_memory("later", "answer")
    a.sync()
    a.carry_to(b)
    with pytest.raises(StoreError, match="not read completely"):
        remove(b.memory, b.folder, gone)
    b.sync()
    remove(b.memory, b.folder, gone)
    assert [machine.is_own for machine in status(b.memory, b.folder)] == [True]
    b.carry_to(c)
    c.sync()

    assert c.memory.count_memories() == 3


def test_settings_for_answers_are_synced_and_those_of_a_machine_are_not(machines, tmp_path):
    a, b = machines("a", "b")
    files = {machine.name: ConfigFile(tmp_path / f"{machine.name}.json") for machine in (a, b)}

    def exchange() -> None:
        for machine, other in ((a, b), (b, a), (a, b)):
            sync(machine.memory, machine.folder, lambda is_new: PASSPHRASE, settings_file=files[machine.name])
            machine.carry_to(other)

    files["a"].set("answer_style", "casual")
    files["a"].set("threads", "3")
    files["b"].set("model", "of-b.gguf")
    exchange()
    assert files["b"].read() == {"model": "of-b.gguf", "answer_style": "casual"}

    files["b"].unset("answer_style")
    exchange()
    exchange()
    assert files["a"].read() == {"threads": 3}


def test_what_another_program_stores_during_a_sync_is_not_lost(machines):
    a, b = machines("a", "b")
    one = a.memory.store_memory("question", "answer")
    settle([a, b], 1)
    a.do(lambda: a.memory.edit_memory(one, answer="of a"), NOW + 50)
    a.sync()
    a.carry_to(b)

    def meanwhile() -> None:
        # After the own changes were written, and before those of others are applied.
        if not done:
            done.append(1)
            b.memory.edit_memory(b.memory.list_memories()[0].id, answer="of b")

    done: list[int] = []
    sync(b.memory, b.folder, lambda is_new: PASSPHRASE, progress=meanwhile)
    settle([a, b], 3)

    assert {one.answer for one in b.memory.list_memories()} == {"of a", "of b"}
    assert a.exported() == b.exported()

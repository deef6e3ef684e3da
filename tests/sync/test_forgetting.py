"""What was forgotten on one machine is gone on all of them, and in the folder."""

from __future__ import annotations

import shutil
import socket
import zlib
from unittest.mock import patch

import pytest

from shepherd.errors import StoreError
from shepherd.memory import Receipt
from shepherd.sync import forget_unwritten, leave, sealed_texts, segments
from shepherd.sync.folder import unlock
from tests.sync.replicas import NOW, PASSPHRASE, Machine, settle


def texts_of(machine: Machine) -> str:
    """All texts of the folder of a machine, as somebody with the passphrase reads them."""
    folder = unlock(machine.folder, PASSPHRASE)
    return " ".join(
        str(frame)
        for other, numbers in folder.segments().items()
        for number in numbers
        for frame in segments.read(folder, other, number)
    )


def files_of(machine: Machine) -> bytes:
    """All bytes of the database and of the folder."""
    files = [*machine.path.parent.glob(f"{machine.name}.db*"), *machine.folder.iterdir()]
    return b"".join(file.read_bytes() for file in files if file.is_file())


def test_forgotten_texts_are_in_no_file_of_any_machine(machines):
    a, b = machines("a", "b")
    kept = a.memory.store_memory("kept", "canarykept")
    one = a.memory.store_memory("forgotten", "canaryone")
    two = a.memory.store_memory("edited", "canarytwo")
    a.memory.set_fact("bird", "canarythree")
    node = a.knowledge.add_node("canaryfour", source_text="canaryfive", link="canarysix")
    settle([a, b], 2)
    words = ["canaryone", "canarytwo", "canarythree", "canaryfour", "canaryfive", "canarysix"]
    assert all(word in texts_of(b) for word in words)

    a.memory.delete_memory(one)
    a.memory.edit_memory(two, answer="another text")
    a.memory.clear_fact("bird", with_history=True)
    a.knowledge.delete_node(node.id)
    settle([a, b], 2)

    for machine in (a, b):
        found = [word for word in words if word in texts_of(machine) or word.encode() in files_of(machine)]
        assert not found, machine.name
        assert "canarykept" in texts_of(machine)
    assert a.memory.get_memory(kept) is not None
    assert a.exported() == b.exported()


def test_nothing_in_the_folder_can_be_read_without_the_passphrase(machines):
    [a] = machines("a")
    a.memory.store_memory("canaryquestion", "canaryanswer")
    a.memory.set_fact("canarykey", "canaryvalue")
    a.sync()

    data = b"".join(file.read_bytes() for file in a.folder.iterdir())

    assert b"canary" not in data
    assert zlib.compress(b"canary", 1)[:6] not in data
    assert "canaryquestion" in texts_of(a)


def test_an_equal_memory_of_another_machine_is_forgotten_too(machines):
    a, b = machines("a", "b")
    settle([a, b], 1)
    b.do(lambda: b.memory.store_memory("Which editor?", "Vim"), NOW + 10)
    one = a.do(lambda: a.memory.store_memory("Which editor?", "Vim"), NOW + 20)
    a.sync()
    a.do(lambda: a.memory.delete_memory(one), NOW + 30)
    settle([a, b], 3)

    assert a.memory.count_memories() == b.memory.count_memories() == 0

    b.do(lambda: b.memory.store_memory("Which editor?", "Vim"), NOW + 40)
    settle([a, b], 3)

    assert a.memory.count_memories() == b.memory.count_memories() == 1


def test_a_value_that_another_machine_set_before_is_forgotten_with_the_history(machines):
    a, b, c = machines("a", "b", "c")
    settle([a, b, c], 1)
    a.do(lambda: a.memory.set_fact("bird", "canaryone"), NOW + 10)
    a.sync()
    b.do(lambda: b.memory.set_fact("Bird", "canaryone"), NOW + 20)
    b.sync()
    b.carry_to(c)
    c.sync()
    a.do(lambda: a.memory.clear_fact("bird", with_history=True), NOW + 30)
    settle([c, b, a], 3)

    for machine in (a, b, c):
        assert machine.memory.get_fact("bird") is None
        assert {change.value for change in machine.memory.fact_history()} == {None}
        assert "canaryone" not in texts_of(machine)
        assert b"canaryone" not in files_of(machine)
    assert a.exported() == b.exported() == c.exported()

    b.do(lambda: b.memory.set_fact("bird", "canaryone"), NOW + 40)
    settle([a, b, c], 2)
    assert a.memory.get_fact("bird") == "canaryone"


def test_an_edit_does_not_bring_back_what_was_forgotten_elsewhere(machines):
    a, b = machines("a", "b")
    one = a.memory.store_memory("Which editor?", "Vim")
    settle([a, b], 1)
    [other] = b.memory.list_memories()
    a.do(lambda: a.memory.delete_memory(one), NOW + 10)
    b.do(lambda: b.memory.edit_memory(other.id, answer="Vim 9"), NOW + 20)
    settle([a, b], 3)

    assert a.memory.count_memories() == b.memory.count_memories() == 0


def test_a_memory_that_was_deleted_to_make_space_stays_on_the_other_machines(machines, tmp_path):
    from shepherd.memory import Memory

    a, b = machines("a", "b")
    for n in range(6):
        a.memory.store_memory(f"question {n}", "x" * 250_000, timestamp=NOW + n)
    settle([a, b], 1)
    b.close()
    with Memory(b.path, user_id="b:steve", max_db_size="1M") as small:
        small.store_memory("the last one", "a few words")
        n_left = small.count_memories()
    b.open()
    settle([a, b], 2)

    assert n_left < 7
    assert a.memory.count_memories() == 7
    assert b.memory.count_memories() == n_left


def test_what_waits_for_the_folder_is_forgotten_too_and_the_rest_is_written_later(machines):
    a, b = machines("a", "b")
    settle([a, b], 1)
    first = a.memory.store_memory("forgotten", "canaryone")
    a.sync()
    second = a.memory.store_memory("forgotten as well", "canarytwo")
    kept = a.memory.store_memory("kept", "canarykept")
    a.memory.set_fact("bird", "canarythree")
    with patch.object(segments, "write", side_effect=PermissionError), pytest.raises(StoreError):
        a.sync()
    store = a.memory.transactions

    def sealed() -> str:
        return " ".join(one.text or "" for one in sealed_texts(store))

    words = ["canaryone", "canarytwo", "canarythree"]
    assert all(word in sealed() for word in [*words, "canarykept"])

    store.cleaners.append(forget_unwritten)
    receipt = Receipt()
    a.memory.delete_memories([first, second], receipt=receipt)
    a.memory.clear_fact("bird", with_history=True, receipt=receipt)

    # Only the one that was written before is in the folder.
    assert [word for word in words if word in sealed()] == ["canaryone"]
    assert receipt.left == [f"the sync folder {a.folder}, until the next shepherd sync"]
    settle([a, b], 2)
    assert [word for word in words if word in sealed()] == []
    assert a.memory.get_memory(kept) is not None
    assert "canarykept" in texts_of(b)
    assert a.exported() == b.exported()
    later = Receipt()
    a.memory.delete_memories([a.memory.store_memory("never", "written")], receipt=later)
    assert later.left == []


def test_a_receipt_names_the_machine_whose_files_have_the_text(machines):
    a, b = machines("a", "b")
    b.memory.store_memory("forgotten", "canaryone")
    b.memory.store_memory("kept", "canarykept")
    settle([b, a], 1)
    a.memory.transactions.cleaners.append(forget_unwritten)
    [one] = [memory for memory in a.memory.list_memories() if memory.answer == "canaryone"]
    receipt, later = Receipt(), Receipt()

    a.memory.delete_memories([one.id], receipt=receipt)

    [left] = receipt.left
    assert left.startswith(f"files of {socket.gethostname()} in the sync folder {a.folder}, until shepherd")
    settle([a, b], 2)
    assert "canaryone" not in texts_of(a)
    a.memory.delete_memories([a.memory.store_memory("never", "written")], receipt=later)
    assert later.left == []


def test_files_in_a_folder_that_the_memory_has_left_are_named_until_they_are_gone(machines):
    [a] = machines("a")
    one, two, three = (a.memory.store_memory(f"question {n}", "canary") for n in range(3))
    a.sync()
    store, machine = a.memory.transactions, a.id()
    store.cleaners.append(forget_unwritten)

    def left(forgotten: int) -> list[str]:
        receipt = Receipt()
        a.memory.delete_memories([forgotten], receipt=receipt)
        return receipt.left

    assert leave(a.memory)
    assert [line.partition(":")[0] for line in left(one)] == [f"the files {machine}-*.shpseg in {a.folder}"]
    [sealed] = sealed_texts(store)
    assert (sealed.text, "shepherd sync --leave" in sealed.why) == (None, True)
    assert not leave(a.memory)
    assert list(sealed_texts(store)) == [sealed]
    for file in a.folder.glob("*.shpseg"):
        file.unlink()
    assert left(two) == list(sealed_texts(store)) == []
    shutil.rmtree(a.folder)
    assert "if the folder is gone for good" in left(three)[0]
    assert not leave(a.memory)
    assert list(sealed_texts(store)) == []

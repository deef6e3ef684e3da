"""Storing, reading, changing and removing memories."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.errors import SecretError, UsageError
from shepherd.memory import Memory, Turn
from shepherd.memory.memories import content_hash
from shepherd.types import Message

IDE = ("What IDE does the user prefer?", "VS Code with vim keybindings")


def test_content_hash_is_that_of_older_databases() -> None:
    assert content_hash(*IDE) == "a62d65ada0904a2592c9111a224c4e9baa085c8f8961bb7c040867bd5957eabe"


@given(st.text(), st.text())
def test_content_hash_is_sha256_of_question_and_answer(question: str, answer: str) -> None:
    assert content_hash(question, answer) == hashlib.sha256((question + answer).encode()).hexdigest()


def test_stored_memory_comes_back(memory: Memory) -> None:
    memory_id = memory.store_memory(*IDE, source="model", timestamp=1_600_000_000.7)

    assert memory_id is not None
    found = memory.get_memory(memory_id)
    assert found is not None
    assert (found.question, found.answer) == IDE
    assert (found.timestamp, found.source, found.pinned) == (1_600_000_000, "model", False)


def test_memory_is_there_after_reopening(database: str) -> None:
    with Memory(database) as memory:
        memory_id = memory.store_memory(*IDE)
        assert memory_id is not None

    with Memory(database) as memory:
        assert memory.get_memory(memory_id) is not None
        assert [result.id for result in memory.search("which IDE?")] == [memory_id]


def test_identical_memory_is_stored_once_and_keeps_its_time(memory: Memory) -> None:
    first = memory.store_memory(*IDE, timestamp=1_600_000_000)
    second = memory.store_memory(*IDE, timestamp=1_650_000_000, source="model")

    assert first == second
    assert memory.count_memories() == 1
    assert memory.list_memories()[0].timestamp == 1_600_000_000


def test_identical_memory_of_another_user_is_another_memory(memory: Memory) -> None:
    mine = memory.store_memory(*IDE)
    theirs = memory.store_memory(*IDE, user_id="anna")

    assert mine != theirs
    assert (memory.count_memories(), memory.count_memories("anna")) == (1, 1)


def test_memories_that_only_share_a_hash_are_both_kept(memory: Memory) -> None:
    # Question and answer follow each other in the hash: where one ends is not in it.
    first = memory.store_memory("ab", "c")
    second = memory.store_memory("a", "bc")

    assert first != second
    assert memory.count_memories() == 2
    assert memory.store_memory("a", "bc") == second


def test_turn_is_archived_with_its_session(memory: Memory) -> None:
    memory_id = memory.archive_turn(Turn("I moved to Lisbon", "Noted!", 1_600_000_000, "s1"))

    assert memory_id is not None
    [exported] = [line for line in memory.export_memories() if line["type"] == "memory"]
    assert (exported["source"], exported["session"], exported["timestamp"]) == ("turn", "s1", 1_600_000_000)


def test_memories_are_listed_newest_first_in_pages(memory: Memory) -> None:
    for n, timestamp in enumerate([50, 30, 40, 40, 10]):
        memory.store_memory(f"question {n}", "answer", timestamp=timestamp)

    listed = memory.list_memories()

    assert [record.question[-1] for record in listed] == ["0", "3", "2", "1", "4"]
    assert memory.list_memories(limit=2, offset=1) == listed[1:3]
    assert memory.list_memories(limit=0) == []


def test_edited_memory_is_found_by_its_new_words_only(memory: Memory) -> None:
    memory_id = memory.store_memory("Which editor?", "Emacs")
    assert memory_id is not None

    assert memory.edit_memory(memory_id, answer="Helix")

    assert memory.search("emacs") == []
    [found] = memory.search("helix")
    assert (found.id, found.question, found.answer) == (memory_id, "Which editor?", "Helix")


def test_edit_that_makes_a_double_is_refused(memory: Memory) -> None:
    memory.store_memory("q", "first")
    second = memory.store_memory("q", "second")
    assert second is not None

    with pytest.raises(UsageError, match="already says exactly this"):
        memory.edit_memory(second, answer="first")

    assert memory.get_memory(second).answer == "second"  # type: ignore[union-attr]


def test_a_memory_is_not_restored_beside_one_that_says_the_same(memory: Memory) -> None:
    first = memory.store_memory("q", "a")
    assert memory.delete_memory(first)
    second = memory.store_memory("q", "a")

    with pytest.raises(UsageError, match=f"memory {second} already says exactly this") as caught:
        memory.restore_forgotten(first)

    assert caught.value.hint == "delete it first"
    assert memory.count_memories() == 1


def test_an_edit_that_leaves_nothing_is_refused(memory: Memory) -> None:
    both = memory.store_memory(*IDE)
    question_only = memory.store_memory("Call Tove", "")
    assert both is not None
    assert question_only is not None

    for memory_id, edited in ((both, {"question": "", "answer": " "}), (question_only, {"question": "\n"})):
        with pytest.raises(UsageError, match="a memory needs a question or an answer"):
            memory.edit_memory(memory_id, **edited)

    assert memory.edit_memory(both, question="")
    assert [record.answer for record in memory.list_memories()] == ["", IDE[1]]


def test_an_edit_of_one_text_is_refused_if_both_are_a_secret(memory: Memory) -> None:
    memory_id = memory.store_memory("What is my dog?", "4711")
    assert memory_id is not None

    with pytest.raises(SecretError):
        memory.edit_memory(memory_id, question="What is my PIN?")

    assert [record.question for record in memory.list_memories()] == ["What is my dog?"]


def test_edit_without_change_is_fine(memory: Memory) -> None:
    memory_id = memory.store_memory(*IDE)
    assert memory_id is not None

    assert memory.edit_memory(memory_id, question=IDE[0])
    assert memory.check().ok


def test_deleted_memory_is_not_found(memory: Memory) -> None:
    memory_id = memory.store_memory(*IDE)
    assert memory_id is not None

    assert memory.delete_memory(memory_id)

    assert memory.get_memory(memory_id) is None
    assert memory.search("IDE") == []
    assert memory.count_memories() == 0
    assert not memory.delete_memory(memory_id)


def test_memories_are_cleared_by_question_but_for_case_and_whitespace(memory: Memory) -> None:
    memory.store_memory("What is my  dog's name?", "Rex")
    memory.store_memory("what is my dog's name? ", "Bella")
    memory.store_memory("What is my dog's name, again?", "Rex")

    assert memory.clear_memory("WHAT is my dog's name?") == 2

    assert [record.question for record in memory.list_memories()] == ["What is my dog's name, again?"]
    assert memory.clear_memory("WHAT is my dog's name?") == 0


def test_other_users_memory_can_be_neither_read_nor_changed(memory: Memory) -> None:
    memory_id = memory.store_memory(*IDE)
    assert memory_id is not None
    memory.store_memory("q", "a", "anna")

    assert memory.get_memory(memory_id, "anna") is None
    assert not memory.edit_memory(memory_id, answer="x", user_id="anna")
    assert not memory.pin_memory(memory_id, user_id="anna")
    assert not memory.delete_memory(memory_id, "anna")
    assert memory.clear_memory(IDE[0], "anna") == 0
    assert memory.get_memory(memory_id) is not None


@pytest.mark.parametrize("memory_id", [0, -1, 1 << 40, 2**62])
def test_unknown_id_is_not_found(memory: Memory, memory_id: int) -> None:
    memory.store_memory(*IDE)

    assert memory.get_memory(memory_id) is None
    assert not memory.edit_memory(memory_id, answer="x")
    assert not memory.pin_memory(memory_id)
    assert not memory.delete_memory(memory_id)


def test_pinned_memory_says_so_everywhere(memory: Memory) -> None:
    memory_id = memory.store_memory(*IDE)
    assert memory_id is not None

    assert memory.pin_memory(memory_id)

    assert memory.list_memories()[0].pinned
    assert memory.search("IDE")[0].pinned
    assert memory.pin_memory(memory_id, pinned=False)
    assert not memory.list_memories()[0].pinned


def test_memory_without_words_is_refused(memory: Memory) -> None:
    with pytest.raises(UsageError):
        memory.store_memory(" ", "\n")


@pytest.mark.parametrize("timestamp", [float("nan"), float("inf"), 1e18, -1e18])
def test_time_that_is_none_is_refused(memory: Memory, timestamp: float) -> None:
    with pytest.raises(UsageError, match="timestamp"):
        memory.store_memory("q", "a", timestamp=timestamp)


def test_text_that_utf8_cannot_hold_is_stored_with_replacement_characters(memory: Memory) -> None:
    memory_id = memory.store_memory("caf\udce9?", "nul \x00 stays", source="\udcff", session="\udcff")
    assert memory_id is not None

    found = memory.get_memory(memory_id)

    assert found is not None
    assert (found.question, found.answer, found.source) == ("caf\ufffd?", "nul \x00 stays", "\ufffd")
    assert memory.clear_memory("caf\udce9?") == 1


def test_megabytes_are_stored_and_found(memory: Memory) -> None:
    # More bytes than a tsvector may have, more words than 16 bits can count.
    text = "lorem ipsum dolor " * 120_000

    memory_id = memory.store_memory("big?", text)

    assert memory_id is not None
    assert memory.get_memory(memory_id).answer == text  # type: ignore[union-attr]
    assert [result.id for result in memory.search("ipsum")] == [memory_id]


@pytest.mark.parametrize(
    "user_id", ["a", "Ünïcode 日本", "o'brien; DROP TABLE context", "a\x00b", "x" * 10_000]
)
def test_any_user_id_has_memories_of_its_own(memory: Memory, user_id: str) -> None:
    memory.store_memory("q", f"of {user_id[:9]}", user_id)

    assert memory.count_memories(user_id) == 1
    assert memory.count_memories(user_id + "x") == 0
    assert len(memory.search("q", user_id=user_id)) == 1


@pytest.mark.parametrize("largest", [(1 << 63) - 1, 1 << 63, 10**30])
def test_numbers_that_are_larger_than_any_database_are_no_failure(memory: Memory, largest: int) -> None:
    stored = memory.store_memory("Which dog?", "Rex")
    session = memory.start_session()
    memory.append_message(session, Message("user", "hi"))

    assert [record.id for record in memory.list_memories(limit=largest)] == [stored]
    assert memory.list_memories(offset=largest) == []
    assert [hit.id for hit in memory.search("dog", largest)] == [stored]
    assert [found.id for found in memory.list_sessions(limit=largest)] == [session]
    assert memory.activity(n_recalled=largest).recalled == memory.activity().recalled
    assert memory.get_memory(largest) is None
    assert not memory.edit_memory(largest, answer="Tom")
    assert not memory.pin_memory(largest)
    assert not memory.delete_memory(largest)

"""Notes about the messages of stateless clients: per user, bounded, lost without harm."""

from __future__ import annotations

import json

from shepherd.memory import Memory
from shepherd.memory import ledger as rows
from shepherd.types import Message


def test_notes_come_back_under_their_hashes(memory: Memory) -> None:
    memory.ledger.put({"a": "one", "b": 'two "quoted" \\u00e9'})

    assert memory.ledger.find(["a", "b", "c"]) == {"a": "one", "b": 'two "quoted" \\u00e9'}
    assert memory.ledger.find([]) == {}


def test_note_is_replaced_and_removed(memory: Memory) -> None:
    memory.ledger.put({"a": "one", "b": "two"})

    memory.ledger.put({"a": "three"}, removed=["b", "never there"])

    assert memory.ledger.find(["a", "b"]) == {"a": "three"}


def test_many_hashes_are_found_at_once(memory: Memory) -> None:
    notes = {f"{i:032x}": f"note {i}" for i in range(300)}
    memory.ledger.put(notes)

    assert memory.ledger.find([*notes, "unknown"]) == notes


def test_notes_about_a_conversation_go_with_it_or_with_a_message(memory: Memory) -> None:
    ours, others = memory.start_session(), memory.start_session()
    for session in (ours, others):
        memory.append_message(session, Message("user", "Hello"))
        memory.append_message(session, Message("user", 'I "like"\nörange\n'))
    notes = {
        "first": json.dumps({"in": ours, "text": "Hello"}, separators=(",", ":")),
        "second": json.dumps({"in": ours, "texts": ['I "like"', "\u00f6range"]}, separators=(",", ":")),
        "other": json.dumps({"in": others, "text": 'I "like"\nörange\n'}, separators=(",", ":")),
    }
    memory.ledger.put(notes)
    memory.ledger.put({"second": notes["second"]}, "anna")

    memory.delete_last_turn(ours)
    assert set(memory.ledger.find([*notes])) == {"first", "other"}
    memory.clear_session(ours)
    assert set(memory.ledger.find([*notes])) == {"other"}
    assert set(memory.ledger.find([*notes], "anna")) == {"second"}


def test_each_user_has_notes_of_their_own(memory: Memory) -> None:
    memory.ledger.put({"a": "of steve"})
    memory.ledger.put({"a": "of anna"}, "anna")

    assert memory.ledger.find(["a"]) == {"a": "of steve"}
    assert memory.ledger.find(["a"], "anna") == {"a": "of anna"}
    memory.ledger.put({}, "anna", removed=["a"])
    assert memory.ledger.find(["a"]) == {"a": "of steve"}


def test_nobody_has_no_notes(memory: Memory) -> None:
    memory.ledger.put({"a": "x"}, "unknown")
    memory.ledger.put({"a": "x"}, "")

    assert memory.ledger.find(["a"], "unknown") == {}
    assert memory.ledger.find(["a"], "") == {}


def test_notes_survive_a_restart(database: str) -> None:
    with Memory(database, user_id="steve") as memory:
        memory.ledger.put({"a": "one"})

    with Memory(database, user_id="steve") as memory:
        assert memory.ledger.find(["a"]) == {"a": "one"}


def test_least_recently_used_notes_go(database: str) -> None:
    now = [1000.0]
    with Memory(database, user_id="steve", clock=lambda: now[0]) as memory:
        first = [f"{i:032x}" for i in range(10)]
        memory.ledger.put(dict.fromkeys(first, "old"))
        now[0] += 86_400
        others = [f"{i:032x}" for i in range(100, 100 + rows.MOST_NOTES - 8)]
        memory.ledger.put(dict.fromkeys(others, "new"), used=first[:5])
        now[0] += 86_400

        found = memory.ledger.find([*first, *others])

        assert set(found) >= set(first[:5]) | set(others)
        assert len(found) == rows.MOST_NOTES
        memory.ledger.put({"one more": "x", "two more": "x", "three more": "x"})
        found = memory.ledger.find([*first, *others])
        assert set(first[:5]) <= found.keys() or set(first[5:]).isdisjoint(found)
        assert len(found) == rows.MOST_NOTES - 3


def test_note_is_marked_as_used_once_in_six_hours(database: str) -> None:
    now = [1000.0]
    with Memory(database, user_id="steve", clock=lambda: now[0]) as memory:

        def used_at() -> float:
            query = "SELECT used_at FROM ledger WHERE hash = 'a'"
            return memory.transactions.read(lambda connection: connection.execute(query))[0][0] / 1000

        memory.ledger.put({"a": "one"})
        now[0] += 6 * 3600
        memory.ledger.put({}, used=["a"])
        assert used_at() == 1000.0

        now[0] += 1
        memory.ledger.put({}, used=["a", "never there"])
        assert used_at() == now[0]
        assert memory.ledger.find(["a", "never there"]) == {"a": "one"}


def test_claimed_users_notes_are_dropped(memory: Memory) -> None:
    memory.ledger.put({"a": "x"}, "local")
    memory.set_fact("name", "Steve", "local")

    memory.claim("local", "steve")

    assert memory.ledger.find(["a"], "local") == {}
    assert memory.get_fact("name", "steve")


def test_a_user_has_as_many_notes_as_the_limit(path) -> None:
    with Memory(path, user_id="steve") as memory:
        memory.ledger.put({f"{n:05}": "" for n in range(4096)})
        memory.ledger.put({"last": ""})

        assert memory.ledger.find(["00000", "last"]) in ({"last": ""}, {"last": "", "00000": ""})
        rows_left = memory.transactions.read(
            lambda connection: connection.execute("SELECT count(*) FROM ledger")
        )
        assert rows_left == [(4096,)]

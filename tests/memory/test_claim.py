"""What belongs to one id can be taken over by another, whole, once, and seen by nobody else."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from shepherd.errors import UsageError
from shepherd.memory import Claim, Memory, OpenJob
from shepherd.types import Message
from tests.memory import originals


def test_rows_of_an_older_database_can_be_claimed(path: Path) -> None:
    rows = [("Which IDE?", "VS Code", 100, "h1"), ("Which dog?", "Rex", 200, "h2")]
    insert = (
        "INSERT INTO conversations(user_message, assistant_response, timestamp, content_hash) VALUES(?,?,?,?)"
    )
    facts = ("INSERT INTO facts VALUES(?, ?, ?, ?)", [("name", "Steve", 1, 2)])
    originals.build(path, originals.V2_22_FACTS, (insert, rows), facts)

    with Memory(path, user_id="steve") as memory:
        assert memory.recall("dog").tail == ""

        counts = memory.claim()

        assert (counts.memories, counts.facts, counts.duplicates) == (2, 1, 0)
        assert "Rex" in memory.recall("dog").tail
        assert memory.get_fact("name") == "Steve"
        assert [record.timestamp for record in memory.list_memories()] == [200, 100]


def test_everything_moves_and_nothing_stays(memory: Memory) -> None:
    for n in range(1200):
        memory.store_memory(f"question {n}?", f"answer {n}", "local", timestamp=n, source="turn", session="s")
    pinned = memory.list_memories("local")[7]
    memory.pin_memory(pinned.id, user_id="local")
    memory.set_fact("pet", "Rex", "local")
    memory.set_fact("pet", "Tom", "local")
    session = memory.start_session("local")
    memory.append_message(session, Message("user", "hello"), "local")
    before = [line for line in memory.export_memories("local") if line["type"] != "shepherd-export"]

    counts = memory.claim("local")

    assert (counts.memories, counts.facts, counts.sessions, counts.duplicates) == (1200, 1, 1, 0)
    after = [line for line in memory.export_memories() if line["type"] != "shepherd-export"]
    assert [{**line, "id": 0} for line in after] == [{**line, "id": 0} for line in before]
    assert [message.raw for message in memory.load_session(session)] == ["hello"]
    assert (
        memory.stats("local").memories == memory.stats("local").facts == memory.stats("local").sessions == 0
    )
    assert memory.search("answer", user_id="local") == []
    assert memory.check().problems == ()


def test_of_what_both_have_the_claimers_stays_and_newer_facts_win(memory: Memory) -> None:
    for user in ("local", "steve"):
        memory.store_memory("q", "a", user, timestamp=5 if user == "steve" else 1)
    memory.pin_memory(memory.list_memories("local")[0].id, user_id="local")
    lines = ['{"type": "fact", "key": "%s", "value": "%s", "updated_at": %d}']
    memory.import_memories([lines[0] % ("city", "Oslo", 10), lines[0] % ("name", "Al", 90)])
    memory.import_memories([lines[0] % ("city", "Rome", 20), lines[0] % ("name", "Bo", 80)], "local")

    counts = memory.claim()

    assert (counts.memories, counts.facts, counts.duplicates) == (0, 1, 1)
    [kept] = memory.list_memories()
    assert (kept.timestamp, kept.pinned) == (5, True)
    assert (memory.get_fact("city"), memory.get_fact("name")) == ("Rome", "Al")


def test_changes_that_both_have_are_there_once_and_what_was_cleared_there_later_goes(database: str) -> None:
    now = [100.0]
    with Memory(database, user_id="steve", clock=lambda: now[0]) as memory:
        for key in ("city", "dog", "bird"):
            memory.set_fact(key, "old")
        exported = list(memory.export_memories())
        memory.import_memories(exported, "local")
        now[0] = 200
        memory.clear_fact("city", user_id="local")
        memory.set_fact("dog", "new")
        now[0] = 300
        memory.clear_fact("dog", user_id="local")
        memory.clear_fact("bird", user_id="local")
        now[0] = 400
        memory.set_fact("bird", "newest")

        memory.claim("local")

        assert {fact.key: fact.value for fact in memory.get_all_facts()} == {"bird": "newest"}
        told = [(one.key, one.value, one.changed_at) for one in memory.fact_history()]
        assert len(told) == len(set(told)) == 8
        assert memory.fact_history(user_id="local") == []
        assert memory.get_all_facts("local") == []
        assert memory.check().problems == ()


def test_claiming_again_finds_nothing(memory: Memory) -> None:
    memory.store_memory("q", "a", "local")
    memory.claim()

    counts = memory.claim()

    assert (counts.memories, counts.facts, counts.sessions, counts.duplicates) == (0, 0, 0, 0)
    assert memory.count_memories() == 1


def test_others_keep_what_is_theirs(memory: Memory) -> None:
    memory.store_memory("q", "of local", "local")
    memory.store_memory("q", "of anna", "anna")
    before = memory.search("q", user_id="anna")

    memory.claim()

    assert memory.search("q", user_id="anna") == before


def test_nobody_claims_nothing_and_nobody_claims_from_himself(memory: Memory) -> None:
    memory.store_memory("q", "a", "local")

    assert memory.claim(user_id="unknown").memories == 0
    assert memory.count_memories("local") == 1
    with pytest.raises(UsageError, match="their own memories"):
        memory.claim("steve")


@pytest.mark.parametrize("state", ["open", "waiting", "running"])
def test_what_was_not_extracted_yet_is_extracted_for_the_claimer(memory: Memory, state: str) -> None:
    session = memory.start_session("local")
    memory.append_message(session, Message("user", "I am Steve"), "local", job=OpenJob("worker", 3))
    running = None
    if state != "open":
        memory.extraction.release("worker", "local")
    if state == "running":
        running = memory.extraction.claim("worker", "local")

    memory.claim("local")

    assert memory.extraction.jobs("local") == []
    if running is not None:
        assert memory.extraction.finish(running, [Claim("name", "of local")], []) is None
    job = memory.extraction.claim("worker")
    assert job is not None
    assert job.lines == ("I am Steve",)
    assert memory.extraction.finish(job, [Claim("name", "Steve")], []) == (1, 0)
    assert (memory.get_fact("name"), memory.get_fact("name", "local")) == ("Steve", None)


def test_two_who_claim_from_each_other_at_once_lose_nothing(memory: Memory) -> None:
    for n in range(30):
        for user in ("anna", "bob"):
            memory.store_memory(f"question {n}?", f"answer of {user}", user)
            memory.set_fact(f"{user} {n}", "value", user)

    def claim(from_user: str, user_id: str) -> None:
        for _ in range(5):
            memory.claim(from_user, user_id)

    threads = [threading.Thread(target=claim, args=users) for users in (("anna", "bob"), ("bob", "anna"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert memory.count_memories("anna") + memory.count_memories("bob") == 60
    assert len(memory.get_all_facts("anna")) + len(memory.get_all_facts("bob")) == 60
    assert memory.check().problems == ()


def test_conversation_with_a_name_keeps_it_and_both_users_can_go_on(memory: Memory) -> None:
    session = memory.start_session("local", name="thread-1")
    memory.append_message(session, Message("user", "hello"), "local")

    memory.claim("local")

    assert memory.find_session("thread-1") == memory.start_session(name="thread-1") == session
    assert memory.find_session("thread-1", "local") is None
    again = memory.start_session("local", name="thread-1")
    assert again != session
    assert memory.start_session("local", name="thread-1") == again
    memory.append_message(again, Message("user", "another"), "local")
    assert [message.raw for message in memory.load_session(session)] == ["hello"]


def test_conversation_of_the_same_name_stays_the_claimers_own(memory: Memory) -> None:
    theirs = memory.start_session("local", name="thread-1")
    own = memory.start_session(name="thread-1")
    others = memory.start_session(name="thread-2")

    memory.claim("local")
    for _ in range(3):  # each time with the next of this name
        memory.start_session("local", name="thread-1")
        memory.claim("local")

    assert memory.find_session("thread-1") == own
    assert memory.find_session("thread-2") == others
    assert memory.find_session(theirs) == theirs


def test_conversation_that_was_named_before_ids_began_with_the_name_is_found(memory: Memory) -> None:
    older = hashlib.sha256(b"steve\0thread-1").hexdigest()[:16]
    insert = "INSERT INTO sessions(id, user_id, created_at, updated_at) VALUES(?, 'steve', 1, 1)"
    memory.transactions.write("steve", lambda connection: connection.execute(insert, (older,)))

    assert memory.start_session(name="thread-1") == older

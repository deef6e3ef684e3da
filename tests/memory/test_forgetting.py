"""What was forgotten can be read nowhere again: not in the database, nor in its log or any other file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd import kept_files
from shepherd._native.hot import HotIndex
from shepherd._native.store import Connection
from shepherd.errors import UsageError
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory, OpenJob, Receipt, hot
from shepherd.memory.records import NewMemory
from shepherd.memory.removal import parts_of
from shepherd.memory.vectors import VectorSettings
from shepherd.trace import Traces
from shepherd.types import Fact, Injection, Message, SearchResult
from tests.memory.canaries import USER, Canaries, files_with, words

N_WORDS = 200


@pytest.fixture(autouse=True)
def save_every_index(monkeypatch: pytest.MonkeyPatch) -> None:
    # As it is, an index of fewer than thousands of memories is not worth a file.
    monkeypatch.setattr(hot, "_LEAST_SAVED", 1)


def make_hot(memory: Memory, word: str) -> None:
    store = memory._store
    memory.search(word)
    Knowledge(memory.transactions, USER).search("filler")
    assert store._recall.wait()
    assert store._chunk_recall.wait()


def filled(path: Path, vectors: VectorSettings | None = None) -> Canaries:
    """Store 200 words or more, with saved indexes, and leave the memory open."""
    with Memory(path, user_id=USER, vectors=vectors) as memory:
        canaries = Canaries(memory)
        assert files_with(path.parent, canaries.store_edited()) == {}
        while len(canaries.given) < N_WORDS:
            canaries.store()
        memory.store_memory("What is a neighbour?", "somebody else's words", "anna")
        make_hot(memory, canaries.given[0])
    assert len(list(path.with_name(f"{path.name}-hot").iterdir())) == 2
    canaries.memory = Memory(path, user_id=USER, vectors=vectors)
    canaries.knowledge = Knowledge(canaries.memory.transactions, USER)
    return canaries


def test_200_words_of_every_feature_are_found_before_and_never_after(path: Path, tmp_path: Path) -> None:
    canaries = filled(path)
    found = files_with(tmp_path, canaries.given)
    # Those of an edited memory were forgotten with the edit.
    assert found.keys() == set(canaries.given[2:])
    assert any("1" in files for files in found.values())  # a saved index

    make_hot(canaries.memory, canaries.given[0])
    canaries.forget()

    assert files_with(tmp_path, canaries.given) == {}
    assert not list(path.with_name(f"{path.name}-hot").iterdir())
    assert canaries.memory.check().ok
    canaries.memory.store_memory("What stays?", "this")
    make_hot(canaries.memory, "stays")
    canaries.memory.close()
    assert list(path.with_name(f"{path.name}-hot").iterdir())
    assert files_with(tmp_path, canaries.given) == {}


_KILLED = """
import os, signal, sys
from shepherd.memory import hot
from shepherd.memory.sqlite import SQLiteStore
from tests.memory.test_forgetting import filled
from pathlib import Path

hot._LEAST_SAVED = 1
canaries = filled(Path(sys.argv[1]))
print(*canaries.given, flush=True)
if sys.argv[2] == "before":
    # After the commit of a deletion, and before anything is cleaned.
    SQLiteStore.clean = lambda store, user: os.kill(os.getpid(), signal.SIGKILL)
    canaries.memory.delete_user()
canaries.forget()
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path: Path, when: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(path), when],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.split()


def test_nothing_is_left_by_a_process_that_is_killed_after_it_forgot(path: Path, tmp_path: Path) -> None:
    given = killed(path, "after")

    assert len(given) >= N_WORDS
    assert os.path.exists(f"{path}-wal")
    assert files_with(tmp_path, given) == {}


def test_the_next_process_finishes_what_a_killed_one_began(path: Path, tmp_path: Path) -> None:
    given = killed(path, "before")
    assert files_with(tmp_path, given)

    Memory(path, user_id=USER).close()

    assert files_with(tmp_path, given) == {}


def test_free_pages_of_an_older_database_are_overwritten_with_the_first_forgetting(
    path: Path, tmp_path: Path
) -> None:
    given = words(40)
    with Memory(path) as memory:
        memory_id = memory.store_memory("What goes?", "this")
        assert memory_id is not None
    with Connection(str(path)) as connection:  # as it was before deletions overwrote
        connection.execute("DELETE FROM meta WHERE key = 'overwrites'")
        connection.execute("CREATE TABLE gone(text TEXT)")
        connection.execute_many("INSERT INTO gone VALUES(?)", [(f"{word} " * 50,) for word in given])
        connection.execute("DROP TABLE gone")
    assert len(files_with(tmp_path, given)) == 40

    with Memory(path) as memory:
        memory.delete_memory(memory_id)

        assert files_with(tmp_path, given) == {}


def test_a_log_that_another_program_reads_is_named_and_emptied_later(path: Path, tmp_path: Path) -> None:
    [word] = words(1)
    with Memory(path, busy_timeout_s=0.05) as memory:
        memory_id = memory.store_memory(f"What is {word}?", "a word")
        assert memory_id is not None
        reader = Connection(str(path), read_only=True)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM context")
        receipt = Receipt()

        memory.delete_memories([memory_id], receipt=receipt)

        assert receipt.removed["memories"] == 1
        assert any(f"{path}-wal" in left for left in receipt.left)
        assert files_with(tmp_path, [word])
        reader.close()
        memory.set_fact("a", "b")
        memory.clear_fact("a", with_history=True)
        assert files_with(tmp_path, [word]) == {}


def test_pruned_memories_can_be_read_nowhere(path: Path, tmp_path: Path) -> None:
    given = words(3)
    with Memory(path) as memory:
        for word in given:
            memory.store_memory(f"What is {word}?", f"It is {word}. " * 20, timestamp=1)
        rows = [{"question": f"{n}?", "answer": f"some {n} other words {n * n} " * 60} for n in range(500)]
        memory.import_memories(rows)
    assert len(files_with(tmp_path, given)) == 3

    with Memory(path, max_db_size="1M") as memory:
        memory.store_memory("What is one too many?", "this")

        assert memory.count_memories() < 500
        assert files_with(tmp_path, given) == {}


def test_a_program_that_ran_before_does_not_save_what_was_deleted(path: Path, tmp_path: Path) -> None:
    [word] = words(1)
    with Memory(path, user_id=USER) as memory, Memory(path, user_id=USER) as other:
        memory_id = memory.store_memory(f"What is {word}?", "a word")
        memory.store_memory("What stays?", "this")
        assert memory_id is not None
        make_hot(other, word)
        store = other._store
        followed = store._recall._slots[1].followed  # type: ignore[attr-defined]

        memory.delete_memory(memory_id)
        # Not even where it was deleted after the index was found to be current.
        assert not store._recall._files.save(followed)  # type: ignore[attr-defined]
        other.close()

        assert files_with(tmp_path, [word]) == {}
        assert (path.with_name(f"{path.name}-hot") / "1").exists()


def test_an_index_in_memory_has_no_words_that_no_memory_has() -> None:
    short, long = words(2)
    short, long = short[:8] + "q", long + "q"  # stored in two places; no stem is shorter
    index = HotIndex(0)
    index.add([(n, 1, 1, 0, 0, 0, text, "") for n, text in ((1, short), (2, long), (3, "mountain"))])
    index.publish(3, 3, 3)
    assert all(word.encode() in (index.save() or b"") for word in (short, long, "mountain"))

    index.replace((1, 1, 1, 0, 0, 0, "other", ""))
    index.remove([2])
    index.publish(5, 2, 2)

    saved = index.save() or b""
    assert not any(word.encode() in saved for word in (short, long))
    index = HotIndex.load(saved, 0)
    assert [hit[0] for word in ("mountain", "other") for hit in index.search(5, [word], 5, 1.0) or ()] == [
        3,
        1,
    ]
    assert not any(index.search(5, [word], 5, 1.0) for word in (short, long))
    index.add([(4, 1, 1, 0, 0, 0, long, "")])
    index.publish(6, 3, 3)
    assert [hit[0] for hit in index.search(6, [long], 5, 1.0) or ()] == [4]


# ---- copies, on both engines


@pytest.fixture
def told(memory: Memory) -> Iterator[tuple[Memory, str, int]]:
    """A conversation with a message to which a memory was appended, before one without."""
    memory_id = memory.store_memory("Where is the key?", "under the mat")
    assert memory_id is not None
    session = memory.start_session()
    tail = "\n\n[context: User: Where is the key?\nAssistant: under the mat]"
    found = SearchResult(memory_id, "Where is the key?", "under the mat", 1, 1.0, 1.0, 0.0)
    with_tail = Message("user", "I'm home", f"I'm home{tail}", Injection(tail, results=(found,)))
    memory.append_message(session, with_tail)
    memory.append_message(session, Message("assistant", "welcome", token_ids=(1, 2)))
    memory.append_message(session, Message("tool", '{"results": ["under the mat"]}', tool_call_id="x"))
    Traces(memory.transactions, USER).write(session, {"tail/context/000000/id": memory_id})
    Traces(memory.transactions, USER).write("other", {"tail/context/000000/id": memory_id + 1})
    return memory, session, memory_id


def test_what_was_appended_goes_with_its_memory_and_the_rest_stays(told: tuple[Memory, str, int]) -> None:
    memory, session, memory_id = told
    receipt = Receipt()

    memory.delete_memories([memory_id], receipt=receipt)

    first, answer, result = memory.load_session(session)
    assert (first.raw, first.sent, first.injected) == ("I'm home", "I'm home", None)
    assert (answer.raw, answer.token_ids, result.raw) == ("welcome", (1, 2), "[forgotten]")
    traces = Traces(memory.transactions, USER)
    assert (traces.last_turn(session), traces.last_turn("other")) == (None, 0)
    assert receipt.removed["memories"] == receipt.removed["messages with appended memory"] == 1
    assert receipt.removed["results of tools"] == 1
    assert memory.check().ok


def test_notes_about_requests_keep_their_place_without_what_was_appended(memory: Memory) -> None:
    tail = {"tail": "\n\n[facts: pet=Rex]", "in": "abc", "at": 5}
    response = {"in": "abc", "response": {"output": ["Rex barks"]}, "input": [], "before": []}
    memory.ledger.put({"one": json.dumps(tail), "resp_1": json.dumps(response)})
    memory.ledger.put({"one": json.dumps(tail)}, "anna")
    memory.set_fact("pet", "Rex")

    memory.clear_fact("pet", with_history=True)

    notes = {key: json.loads(note) for key, note in memory.ledger.find(["one", "resp_1"]).items()}
    assert notes == {"one": {"in": "abc", "at": 5}, "resp_1": response}
    assert "Rex" in memory.ledger.find(["one"], "anna")["one"]


def test_dropped_jobs_and_removed_traces_are_forgotten(path: Path, tmp_path: Path) -> None:
    waiting, traced = words(2)
    with Memory(path, user_id=USER) as memory:
        session = memory.start_session()
        memory.append_message(session, Message("user", "hello"))
        memory.append_message(session, Message("user", waiting), job=OpenJob("me", 1))
        memory.delete_last_turn(session)
        memory.append_message(session, Message("user", f"{waiting} again"), job=OpenJob("me", 1))
        [job] = memory.extraction.jobs()
        Traces(memory.transactions, USER).write(session, {"assembled/text": traced})
        memory.transactions.write(USER, lambda connection: connection.execute("DELETE FROM messages"))
        assert files_with(tmp_path, [waiting, traced]).keys() == {waiting, traced}

        memory.extraction.drop(job.id)
        Traces(memory.transactions, USER).remove(session)

        assert files_with(tmp_path, [waiting, traced]) == {}


def test_other_memories_stay_appended(told: tuple[Memory, str, int]) -> None:
    memory, session, _ = told
    other = memory.store_memory("Where is the mat?", "before the door")
    assert other is not None

    memory.delete_memory(other)

    assert "under the mat" in memory.load_session(session)[0].sent


def test_another_users_copies_stay(told: tuple[Memory, str, int]) -> None:
    memory, session, _ = told
    theirs = memory.store_memory("Where is the key?", "under the mat", "anna")
    assert theirs is not None

    memory.delete_memory(theirs, "anna")

    assert "under the mat" in memory.load_session(session)[0].sent
    assert "under the mat" in memory.load_session(session)[2].raw


def test_a_template_before_an_appended_fact_stays(memory: Memory) -> None:
    memory.set_fact("pet", "Rex")
    session = memory.start_session()
    tail = "\n\n[facts: pet=Rex]"
    sent = Message("user", "look", f"look, as a vet{tail}", Injection(tail), composed="look, as a vet")
    memory.append_message(session, sent)

    memory.clear_fact("pet", with_history=True)

    [message] = memory.load_session(session)
    assert (message.raw, message.sent, message.composed) == ("look", "look, as a vet", "look, as a vet")
    assert memory.check().ok


def test_a_value_that_was_appended_shortened_is_found_and_others_stay(memory: Memory) -> None:
    memory.set_fact("pet", "Rex the dog")
    session = memory.start_session()
    for value in ("Rex the dog", "Bella"):
        injected = Injection("\n\n[facts: pet=…]", facts=(Fact("pet", value, 1, 1),))
        memory.append_message(
            session, Message("user", "Rex the dog?", "Rex the dog?\n\n[facts: pet=…]", injected)
        )

    memory.clear_fact("pet", with_history=True)

    assert [message.injected is None for message in memory.load_session(session)] == [True, False]


def test_a_waiting_message_is_not_learned_from_after_its_memory_was_forgotten(memory: Memory) -> None:
    session = memory.start_session()
    for line in ("The safe is behind the clock", "It rains"):
        memory.append_message(session, Message("user", line), job=OpenJob("me", 9))
    memory_id = memory.store_memory("the safe is  behind the clock", "ok")
    assert memory_id is not None

    memory.delete_memory(memory_id)

    assert [job.lines for job in memory.extraction.jobs()] == [("It rains",)]


def test_kept_conversations_of_the_user_are_removed_with_every_forgetting(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    with Memory(database) as memory:

        def keep(user_id: str) -> Path:
            owner = memory.files_owner(user_id)
            path = kept_files.put(
                kept_files.folder(), owner, lambda file: file.write(b"state"), asked_at=time.time()
            )
            assert path is not None
            return path

        mine, other = keep("local"), keep("anna")
        memory.set_fact("pet", "Rex")
        memory.clear_fact("pet")
        assert mine.exists()  # the history has the fact still
        receipt = Receipt()

        memory.clear_fact("pet", with_history=True, receipt=receipt)

        assert not mine.exists()
        assert str(mine) in receipt.files
        assert other.exists()


def test_a_receipt_of_postgresql_names_the_servers_files(memory: Memory, engine: str) -> None:
    memory_id, receipt = memory.store_memory("a?", "b"), Receipt()
    assert memory_id is not None

    memory.delete_memories([memory_id], receipt=receipt)

    assert any("VACUUM" in left for left in receipt.left) == (engine == "postgresql")


def test_an_edge_and_a_node_are_forgotten_for_a_known_user_only(memory: Memory) -> None:
    with pytest.raises(UsageError):
        Knowledge(memory.transactions, "unknown").delete_node(1)
    assert not Knowledge(memory.transactions, USER).delete_node(1)


# ---- users


def test_a_removed_user_leaves_nothing_and_can_begin_anew(database: str) -> None:
    with Memory(database, user_id=USER) as memory, Memory(database, user_id=USER) as other:
        canaries = Canaries(memory)
        canaries.store()
        theirs = memory.store_memory("anna's?", "yes", "anna")
        memory.set_fact("name", "Anna", "anna")
        assert other.search(canaries.given[0])
        receipt = Receipt()

        assert memory.delete_user(receipt=receipt) > 50

        assert receipt.removed["context"]
        assert receipt.removed["messages"]
        assert receipt.removed["nodes"]
        for word in [*canaries.given, USER]:
            assert memory.tables_with([word]) == {}
        assert memory.delete_user() == 0
        assert memory.check().ok
        assert theirs is not None
        assert memory.get_memory(theirs, "anna") is not None
        assert memory.get_fact("name", "anna") == "Anna"
        # Another process does not know that the number is another's now.
        again = memory.store_memory("What is new?", "all of it")
        assert [result.id for result in other.search("what is new")] == [again]
        assert [result.id for result in other.recall("What is new?").results] == [again]
        assert other.restore_forgotten() is None


@pytest.mark.parametrize("n_stored", [1, 250])
def test_what_another_program_stores_during_the_removal_goes_too(
    database: str, monkeypatch: pytest.MonkeyPatch, n_stored: int
) -> None:
    texts = [NewMemory(f"zebra {n}?", "stripes", 1_700_000_000) for n in range(n_stored)]
    with Memory(database, user_id=USER) as memory, Memory(database, user_id=USER) as other:
        memory.store_memory("What is filler?", "filler")
        store = memory._store
        erase = store.erase
        waiting = [texts]

        def erase_while_another_stores(*arguments: object) -> tuple[list[str], list[str]]:
            done = erase(*arguments)  # type: ignore[arg-type]
            if waiting:
                other._store.add_memories(USER, waiting.pop())
                other.set_fact("animal", "zebra")
                other.append_message(other.start_session(), Message("user", "zebra"))
                Knowledge(other.transactions, USER).add_node(title="zebra", source_text="zebra")
            return done

        monkeypatch.setattr(store, "erase", erase_while_another_stores)

        assert memory.delete_user() > n_stored

        assert memory.tables_with(["zebra"]) == {}
        assert memory.check().ok
        again = other.store_memory("zebra?", "again")
        assert [result.id for result in other.search("zebra")] == [again]
        assert memory.count_memories() == 1


def test_parts_and_keys_go_with_their_owner(memory: Memory) -> None:
    memory.store_memory("a?", "b", "anna/phone")
    memory.set_fact("a", "b", "team/anna")
    key, record = memory.keys.create("anna", ["chat"], label="Anna's phone")
    assert memory._store.read(lambda connection: parts_of(connection, "team")) == ["team"]

    assert memory.delete_user("anna") > 0
    memory.delete_user("team")

    assert memory.count_memories("anna/phone") == 0
    assert memory.get_fact("a", "team/anna") == "b"
    revoked = memory.keys.find(key)
    assert revoked is not None
    assert revoked.revoked_at
    assert (revoked.id, revoked.label) == (record.id, "")
    assert revoked.owner != "anna"
    assert memory.keys.are_any()


def conversation_with(memory: Memory, *results: str) -> str:
    """Store a conversation with results of tools, and return its id."""
    session = memory.start_session()
    memory.append_message(session, Message("user", "look it up"))
    for result in results:
        memory.append_message(session, Message("tool", result, tool_call_id="x"))
    return session


def test_forgetting_something_short_leaves_what_only_has_its_letters(memory: Memory) -> None:
    """`hi` is in `Chicago` and in `this`."""
    others = ['{"city": "Chicago", "status": "ok"}', '{"text": "this is what Hilda said: hi"}', "34 files"]
    session = conversation_with(memory, *others)
    short = [memory.store_memory(*both) for both in (("hi", "ok"), ("34", "Hi!"), ("What?", "34"))]
    memory.append_message(session, Message("user", "I moved to Chicago"), job=OpenJob("me", 5))
    memory.append_message(session, Message("user", "hi"), job=OpenJob("me", 5))
    Traces(memory.transactions, USER).write(session, {"assembled/full_prompt": "I moved to Chicago", "n": 34})
    memory.set_fact("greeting", "hi")
    memory.set_fact("greeting", "34")

    memory.delete_memories([one for one in short if one is not None])
    assert [job.lines for job in memory.extraction.jobs()] == [("I moved to Chicago",)]
    memory.clear_fact("greeting", with_history=True)

    assert [message.raw for message in memory.load_session(session) if message.role == "tool"] == [
        others[0],
        "[forgotten]",  # it has the fact's value as a word
        "[forgotten]",
    ]
    assert Traces(memory.transactions, USER).last_turn(session) == 0
    assert [job.lines for job in memory.extraction.jobs()] == [("I moved to Chicago",)]


@pytest.mark.parametrize(
    ("question", "answer", "result"),
    [
        ("Row?", "12b", '{"results": [{"question": "Row?", "answer": "12b"}]}'),
        ("Door", 'Say "Öffne dich"\nthen push', json.dumps({"text": 'Say "Öffne dich"\nthen push'})),
        ("Where?", "x " * 800 + "end", json.dumps({"answer": ("x " * 800)[:1000] + "…"})),
        ("Wo?", "Im Schrank oben links", json.dumps({"of": json.dumps({"a": "Im Schrank oben links"})})),
        (
            "鍵はどこですか",
            "玄関マットの下にありますよ、いつも",
            '{"answer": "玄関マットの下にありますよ、いつも"}',
        ),
    ],
)
def test_results_that_show_a_memory_go_with_it(
    memory: Memory, question: str, answer: str, result: str
) -> None:
    session = conversation_with(memory, result)
    memory_id = memory.store_memory(question, answer)
    assert memory_id is not None

    memory.delete_memory(memory_id)

    assert memory.load_session(session)[1].raw == "[forgotten]"


def test_an_edited_answer_leaves_messages_waiting(memory: Memory) -> None:
    session = conversation_with(memory)
    memory.append_message(session, Message("user", "My cat is called Tom"), job=OpenJob("me", 5))
    memory_id = memory.store_memory("My cat is called Tom", "noted")
    assert memory_id is not None

    memory.edit_memory(memory_id, answer="What a nice name!")
    assert [job.lines for job in memory.extraction.jobs()] == [("My cat is called Tom",)]
    memory.edit_memory(memory_id, question="My cat is called Kim")

    assert memory.extraction.jobs() == []


def test_traces_with_a_forgotten_word_of_any_script_go(path: Path) -> None:
    with Memory(path, user_id=USER) as memory:
        traces = Traces(memory.transactions, USER)
        for session, value in (
            ("aa", "Wir fahren nach ÖSTERREICH"),
            ("bb", "東京に住む"),
            ("cc", "Osterreich"),
        ):
            traces.write(session, {"assembled/full_prompt": value})
        memory.set_fact("place", "österreich")
        memory.set_fact("city", "東京に住む")

        memory.clear_fact("place", with_history=True)
        memory.clear_fact("city", with_history=True)

        assert [traces.last_turn(session) for session in ("aa", "bb", "cc")] == [None, None, 0]


def test_a_deleted_document_with_a_common_word_for_a_title_takes_nothing_else_along(memory: Memory) -> None:
    session = conversation_with(memory, '{"text": "Berlin is large"}', '{"documents": [{"title": "Berlin"}]}')
    knowledge = Knowledge(memory.transactions, USER)
    node = knowledge.add_node("Berlin", source_text="A text about a city.")

    knowledge.delete_node(node.id)

    assert [message.raw for message in memory.load_session(session)[1:]] == [
        '{"text": "Berlin is large"}',
        "[forgotten]",
    ]

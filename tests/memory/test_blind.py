"""A blind memory: the same results as any other, from a server that never gets a readable word."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shepherd._native import rank
from shepherd._native.text import scoped
from shepherd.config import Config
from shepherd.encryption import set_asker
from shepherd.errors import StoreCorruptError, StoreError, StoreKeyError, UsageError
from shepherd.knowledge import Knowledge
from shepherd.memory import Claim, Memory, OpenJob, Turn, hot
from shepherd.memory.postgres.store import PostgresStore
from shepherd.memory.schema import APPLICATION_ID
from shepherd.memory_factory import open_memory, unlock_memory
from shepherd.trace import Traces
from shepherd.types import Injection, Message
from tests.examples import examples
from tests.keyrings import keyring_in_memory
from tests.learned import learn
from tests.memory.blind import KEY, changes_of_files, forget_keys, known_key, rows_of, sent_and_stored
from tests.memory.canaries import SHARED, USER, Canaries
from tests.memory.histories import NOW, WORDS, apply, changes_of, found, sentences
from tests.memory.test_growing_lists import learn_late
from tests.memory.test_learned import BREAD, Teller, learn_again, tell_each
from tests.postgres import Server

# Number of the first version of a blind memory.
FIRST = 0x53484542


@pytest.fixture(autouse=True)
def key(tmp_path: Path) -> Iterator[Path]:
    with known_key(tmp_path) as file:
        yield file


@pytest.fixture
def schema(postgres_server: Server) -> str:
    return postgres_server.new_schema()


@pytest.fixture
def url(postgres_server: Server, schema: str) -> str:
    return postgres_server.url(schema)


def open_(url: str, **options: Any) -> Memory:
    return Memory(url, user_id=USER, blind=True, clock=lambda: NOW, **options)


# ---- results


@pytest.fixture
def alike(postgres_server: Server) -> Iterator[list[Memory]]:
    """A memory in a file, one on a server, and a blind one on that server."""
    schemas = [postgres_server.new_schema() for _ in range(2)]
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory(Path(folder, "memory.db"), clock=lambda: NOW) as in_a_file,
        Memory(postgres_server.url(schemas[0]), clock=lambda: NOW) as on_a_server,
        Memory(postgres_server.url(schemas[1]), clock=lambda: NOW, blind=True) as blind,
    ):
        yield [in_a_file, on_a_server, blind]


def facts_of(*users: str) -> st.SearchStrategy[tuple[Any, ...]]:
    """A fact is set, cleared or forgotten, or a message stored or taken back."""
    user, key = st.sampled_from(users), st.sampled_from(["pet", "Pet", "city", "naïve key", "日本"])
    without_nul = sentences.map(lambda text: text.replace("\0", "nul"))  # SQLite's titles end at a NUL
    tails = st.sampled_from(["", "\n\n[facts: pet=dog]"])
    return st.one_of(
        st.tuples(st.just("set"), user, key, sentences, st.integers(0, 9)),
        st.tuples(st.just("clear"), user, key, st.booleans(), st.integers(0, 9)),
        st.tuples(st.sampled_from(["say", "answer twice"]), user, without_nul, tails),
        st.tuples(st.just("take back"), user),
        st.tuples(st.just("rename"), user, sentences),
    )


def change(memory: Memory, one: tuple[Any, ...], suffix: str) -> object:
    kind, user, *rest = one
    user = f"{user}{suffix}"
    if kind == "set":
        return memory.set_fact(rest[0], rest[1], user, source="user")
    if kind == "clear":
        return memory.clear_fact(rest[0], user, with_history=rest[1])
    if kind not in ("say", "answer twice", "take back", "rename"):
        return apply(memory, one, suffix)
    session = memory.start_session(user, name="talk")
    if kind == "say":
        injected = Injection(rest[1]) if rest[1] else None
        message = Message("user", rest[0], rest[0] + rest[1], injected, token_ids=(1, 2, 3))
        is_kept = memory.archive_turn(Turn(rest[0], "noted", NOW, session), user) is not None
        return bool(memory.append_message(session, message, user)), is_kept
    if kind == "answer twice":
        asked = Message("user", rest[0])
        said = memory.append_message(session, asked, user)
        mark = memory.mark_session(session, user, answered=said)
        seen = Message("user", rest[0], rest[0] + rest[1], Injection(rest[1]) if rest[1] else None)
        memory.archive_turn(Turn(rest[0], "noted", NOW, session), user)
        for answer, is_whole in (("noted", True), ("not", False), ("noted again", True)):
            turn = Turn(rest[0], answer, NOW, session) if is_whole else None
            answers = [Message("assistant", answer)]
            ids = memory.answer_again(session, seen, answers, user, mark=mark, turn=turn)
        return len(ids or ())
    if kind == "take back":
        return memory.delete_last_turn(session, user)
    memory.rename_session(session, rest[0], user)
    return None


def known(memory: Memory, user: str) -> list[object]:
    """Everything that is known of a user and was not searched for."""
    talk = memory.load_session(memory.start_session(user, name="talk"), user)
    return [
        memory.get_all_facts(user),
        memory.fact_history(user_id=user),
        memory.fact_periods(user_id=user),
        memory.list_memories(user, limit=1000),
        list(memory.export_memories(user)),
        [(one.role, one.raw, one.sent, one.injected, one.token_ids) for one in talk],
        [(one.title, one.n_messages) for one in memory.list_sessions(user_id=user)],
        [[s.title for s in memory.list_sessions(user_id=user, words=word)] for word in WORDS[:3]],
        [(item.id, item.kind, item.key, item.value, item.state) for item in memory.learned(user_id=user)],
    ]


# Tenants get their numbers as they come, so each example continues with all databases.
_numbers = iter(range(1 << 30))


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(changes_of("anna", "bob") | facts_of("anna", "bob"), min_size=1, max_size=14),
    st.lists(sentences, min_size=1, max_size=3),
)
def test_any_history_leads_to_the_same_results_on_both_engines_and_blind(
    alike: list[Memory], history: list[tuple[Any, ...]], queries: list[str]
) -> None:
    suffix = str(next(_numbers))
    for one in history:
        results = [change(memory, one, suffix) for memory in alike]
        assert results[0] == results[1] == results[2], one

    for user in (f"anna{suffix}", f"bob{suffix}"):
        expected = known(alike[0], user)
        assert known(alike[2], user) == expected == known(alike[1], user)
        for query in queries:
            hits = found(alike[0], query, user)
            for memory in alike[1:]:
                store = memory._store
                assert isinstance(store, PostgresStore)
                assert store._recall.wait()
                assert found(memory, query, user) == hits
                # Without the index in main memory.
                store._recall._slots.clear()
                assert found(memory, query, user) == hits


def test_many_memories_that_are_copied_are_found_alike(alike: list[Memory]) -> None:
    lines = [
        {"question": f"{WORDS[n % 5]} {WORDS[n % 7]} {n}", "answer": f"{WORDS[n % 3]} dog"} for n in range(90)
    ]
    for memory in alike:
        memory.import_memories(lines)
        assert memory.count_memories() == 90

    expected = found(alike[0], "dog Lisbon 17 guitar", "local")
    assert expected[1]
    assert all(found(memory, "dog Lisbon 17 guitar", "local") == expected for memory in alike[1:])
    assert alike[2].check().problems == ()


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE meta SET value = 0 WHERE key = 'tokenizer_version'",
        "DELETE FROM context_terms WHERE id = (SELECT min(id) FROM context_terms)",
        "UPDATE context_terms SET terms = ARRAY['t1_zebra'] WHERE id = (SELECT max(id) FROM context_terms)",
        "UPDATE tenants SET n = n + 1, bytes = 7",
    ],
)
def test_an_index_of_all_users_is_made_again_from_texts_that_only_we_can_read(
    postgres_server: Server, schema: str, url: str, harm: str
) -> None:
    def hits(memory: Memory) -> list[Any]:
        return [memory.search("zebra mango", 9, user) for user in (USER, "anna")]

    with open_(url, recall_cache_mb=0) as memory:
        for user in (USER, "anna"):
            for n in range(3):
                memory.store_memory(f"Anna: zebra {n}", f"mango apple of {user}", user, source="import")
        expected = hits(memory)
        assert memory.check().problems == ()
    postgres_server.execute(harm, schema)

    with open_(url, recall_cache_mb=0) as memory:
        memory.check(repair=True)
        assert memory.check().problems == ()
        assert hits(memory) == expected
    seen = rows_of(postgres_server, schema)
    assert b"mango" not in seen
    assert b"zebra" not in seen


# ---- what the server sees


class AllowedCanaries(Canaries):
    """Stores words by every feature that a blind memory has."""

    def store(self) -> None:
        self.store_memories()
        self.store_facts()
        self.store_conversation()


@pytest.mark.parametrize("blind", [True, False])
def test_a_server_never_gets_a_word_unless_it_may_read(
    postgres_server: Server, schema: str, blind: bool
) -> None:
    url = f"{postgres_server.url(schema)}&options=-c%20log_statement%3Dall"
    before = changes_of_files(postgres_server)
    with Memory(url, user_id=USER, blind=blind, keeps_secrets=True) as memory:
        canaries = AllowedCanaries(memory, seed=911 + blind)
        canaries.store()
        canaries.store()
        asked = canaries.word()
        memory.set_fact("asked", asked)
        memory.search(f"what is {asked}?")
        memory.recall(f"tell me about {asked}")
        memory.list_sessions(words=asked)
        memory.find_session(memory.start_session())
        assert memory.tables_with([asked])
        assert memory.tables_with([canaries.given[0]])
        memory.audit()
        seen = sent_and_stored(postgres_server, schema, before)
        between = changes_of_files(postgres_server)
        canaries.forget()
        later = sent_and_stored(postgres_server, schema, between)
        seen |= {f"{place}, later": data for place, data in later.items()}

    assert len(canaries.given) >= 50
    everything = b"\n".join(seen.values()).lower()
    # Without the first letters of a word, which an index can share with the word before.
    shown = [word for word in canaries.given if word[SHARED:].encode() in everything]
    if blind:
        assert shown == []
    else:
        assert shown == canaries.given
        assert any(asked.encode() in data for place, data in seen.items() if place.endswith("/log"))


def test_a_learned_memory_can_be_undone(url: str) -> None:
    with open_(url) as memory:
        said = "My bread needs three days to rise."
        [item] = learn(memory, USER, said, memories=("How long does the bread need?", "three days"))
        assert memory.count_memories() == 1

        undone = memory.undo(item.id)

        assert undone is not None
        assert undone.state == "undone"
        assert memory.count_memories() == 0


def test_what_is_learned_late_or_anew_is_as_elsewhere(url: str) -> None:
    teller = Teller(url, blind=True)
    with teller.memory as memory:
        newer = ["I'm allergic to cats.", "I'm no longer allergic to latex."]
        assert learn_late(teller, "I'm allergic to nuts and latex.", newer) == {"allergy": "cats, nuts"}
        assert memory.undo().state == "undone"

        tell_each(teller, "I'm allergic to kiwi.", "I work at Bosch.", BREAD)
        [item] = [item for item in memory.learned() if item.value == "cats, kiwi"]
        assert memory.undo(item.id).state == "undone"
        learn_again(teller)
        assert teller.facts() == {"allergy": "cats", "employer": "Bosch"}

        memory.delete_last_turn(teller.session)
        assert teller.facts() == {"allergy": "cats"}


def test_a_removed_user_leaves_nothing_and_can_begin_anew(
    postgres_server: Server, schema: str, url: str
) -> None:
    with open_(url) as memory:
        AllowedCanaries(memory, seed=913).store()
        memory.set_fact("city", "Porto", "anna")
        assert memory.delete_user() > 0
        for table in ("context", "context_terms", "facts", "fact_history", "learned", "messages", "ledger"):
            whose = "tenant = 1" if table == "context_terms" else f"user_id = '{USER}'"
            which = "" if table == "messages" else f" WHERE {whose}"
            assert postgres_server.execute(f"SELECT 1 FROM {table}{which}", schema) == [], table
        memory.set_fact("city", "Lisbon")
        assert (memory.get_fact("city"), memory.get_fact("city", "anna")) == ("Lisbon", "Porto")


def test_order_and_repetition_of_words_do_not_show_but_their_number_does(
    postgres_server: Server, schema: str, url: str
) -> None:
    with open_(url) as memory:
        memory.store_memory("zebra apple mango", "")
        memory.store_memory("mango zebra apple", "")
        memory.store_memory("mango zebra", "")
    rows = postgres_server.execute("SELECT terms FROM context_terms ORDER BY id", schema)

    assert rows[0] == rows[1] == (sorted(rows[0][0]),)
    assert len(rows[2][0]) == 2
    assert set(rows[2][0]) < set(rows[0][0])


def test_a_server_still_sees_what_the_threat_model_names(
    postgres_server: Server, schema: str, url: str
) -> None:
    with open_(url) as memory:
        for n in range(2):
            memory.store_memory(f"zebra {n}", "the same answer", source="import", session="s-12")
            memory.set_fact(f"key {n}", "the same value")
        session = memory.start_session(model="some-model", name="talk")
        for _ in range(2):
            memory.append_message(session, Message("user", "the same message"))
        memory.keys.create("anna", ["memory"], label="a label")
    rows = rows_of(postgres_server, schema)

    def distinct(column: str, table: str) -> int:
        return len(postgres_server.execute(f"SELECT DISTINCT {column} FROM {table}", schema))

    for visible in (USER, "import", "s-12", session, "some-model", "anna", "a label"):
        assert visible.encode() in rows
    # "zebra", "same", "answer" and two numbers.
    assert distinct("unnest(terms)", "context_terms") == 5
    assert distinct("key", "facts JOIN fact_history USING (key)") == 2
    # Nobody looks for equal texts of two rows.
    assert distinct("assistant_response", "context") == 2
    assert distinct("value", "facts") == 2
    assert distinct("raw", "messages") == 2


def make_older(server: Server, schema: str, version: int) -> None:
    """Make the tables of a blind memory, in which nothing is stored yet, those of a version."""
    if version < FIRST + 2:
        server.execute(f"UPDATE meta SET value = {version} WHERE key = 'application_id'", schema)
        server.execute("DROP TABLE user_keys", schema)


@pytest.mark.parametrize("version", [FIRST, FIRST + 1])
def test_a_blind_memory_of_an_older_version_stays_readable_and_as_it_was(
    postgres_server: Server, schema: str, url: str, version: int
) -> None:
    open_(url).close()
    make_older(postgres_server, schema, version)
    with open_(url) as memory:
        ids = [memory.store_memory(f"question {n}", f"answer {n}") for n in range(2)]
        memory.set_fact("city", "Lisbon")
    with open_(url) as memory:
        assert memory.get_fact("city") == "Lisbon"
        assert memory.search("question 1")[0].answer == "answer 1"
        assert memory.check().problems == ()
        # What its texts are not bound to, and the reason for the second version.
        postgres_server.execute(EXCHANGED, schema)
        if version == FIRST:
            answers = [record.answer for one in ids if one and (record := memory.get_memory(one))]
            assert answers == ["answer 1", "answer 0"]
        else:
            with pytest.raises(StoreCorruptError, match="was changed, or moved"):
                memory.list_memories()
            postgres_server.execute(EXCHANGED, schema)
        assert memory.delete_user() > 0


def test_a_server_cannot_let_a_memory_pass_for_one_of_the_first_version(
    postgres_server: Server, schema: str, url: str
) -> None:
    with open_(url) as memory:
        memory.set_fact("city", "Lisbon")
    postgres_server.execute(f"UPDATE meta SET value = {FIRST} WHERE key = 'application_id'", schema)

    with open_(url) as memory, pytest.raises(StoreCorruptError, match="was changed, or moved"):
        memory.get_all_facts()


def test_equal_words_of_two_users_differ(postgres_server: Server, schema: str, url: str) -> None:
    with open_(url) as memory:
        for user in ("anna", "bob"):
            memory.store_memory("Anna: zebra apple", "mango", user, source="import")
            memory.set_fact("city", "Lisbon", user)
    terms = postgres_server.execute("SELECT unnest(terms) FROM context_terms", schema)
    texts = postgres_server.execute("SELECT user_message FROM context UNION SELECT value FROM facts", schema)

    assert len(set(terms)) == len(terms) == 8
    assert len(set(texts)) == 4


def test_the_first_word_of_a_speaker_is_no_number_that_can_be_guessed(
    postgres_server: Server, schema: str, url: str
) -> None:
    with open_(url) as memory:
        memory.store_memory("Anna: hello there", "", source="import")
    [(label,)] = postgres_server.execute("SELECT label FROM context", schema)

    assert label not in (0, rank.key(scoped("Anna", 1)[0].decode()), rank.key("anna"))


def test_saved_indexes_of_a_blind_memory_are_sealed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "_LEAST_SAVED", 1)
    with open_(url) as memory:
        for n in range(60):
            memory.store_memory(f"quokkawombat {n}", "numbat")
        expected = memory.search("quokkawombat 7")
        store = memory._store
        assert isinstance(store, PostgresStore)
        assert store._recall.wait()
    folder = store._recall._tables.folder
    files = [path.read_bytes() for path in folder.iterdir()]

    assert files
    assert not any(b"quokka" in data for data in files)
    with open_(url) as memory:
        assert memory.search("quokkawombat 7") == expected
        assert memory.files_owner() == ""


# ---- the key


def test_two_processes_with_one_key_see_each_others_rows(
    url: str, key: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    with open_(url) as memory:
        memory.set_fact("city", "Lisbon")
        memory.store_memory("Where is the anchor?", "In the harbour")
        done = run_python(
            "import sys; from shepherd.encryption import use_settings; from shepherd.memory import Memory\n"
            "use_settings('', sys.argv[2])\n"
            "with Memory(sys.argv[1], user_id='steve', blind=True) as memory:\n"
            "    print(memory.get_fact('city'), memory.search('anchor')[0].answer)\n"
            "    memory.set_fact('pet', 'a finch')\n"
            "    memory.store_memory('Where is the sextant?', 'In the chest')\n",
            url,
            key,
        )
        assert done.stdout == "Lisbon In the harbour\n", done.stderr
        assert memory.get_fact("pet") == "a finch"
        assert memory.search("sextant")[0].answer == "In the chest"


def test_a_missing_and_a_wrong_key_are_said_so_and_nothing_changes(url: str, key: Path) -> None:
    with open_(url) as memory:
        memory.set_fact("city", "Lisbon")
    forget_keys()
    with pytest.raises(StoreKeyError, match="the memory is blind, and its key is missing"):
        open_(url)
    with (
        known_key(key.parent, "cd" * 32),
        pytest.raises(StoreKeyError, match="memory_key_file is not its key"),
    ):
        open_(url)
    with known_key(key.parent), open_(url, read_only=True) as memory:
        assert memory.get_fact("city") == "Lisbon"


def test_a_new_one_without_a_key_leaves_nothing(postgres_server: Server, schema: str, url: str) -> None:
    forget_keys()

    with pytest.raises(StoreKeyError, match="needs a key"):
        open_(url)

    assert postgres_server.execute(f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema}'") == []


def test_a_passphrase_is_asked_for_twice_and_later_once(url: str) -> None:
    forget_keys()
    asked: list[str] = []
    answers = ["four random words here", "four random words here", "wrong", "four random words here"]

    def ask(question: str) -> str:
        asked.append(question.split(" of ", maxsplit=1)[0])
        return answers[len(asked) - 1]

    set_asker(ask)
    with open_(url) as memory:
        memory.set_fact("city", "Lisbon")
    forget_keys()
    set_asker(ask)
    with open_(url) as memory:
        assert memory.get_fact("city") == "Lisbon"
    assert asked == [
        "New passphrase",
        "Repeat the passphrase: ",
        "Passphrase",
        "That is not the passphrase. Passphrase",
    ]


@pytest.fixture
def keyring() -> Iterator[dict[str, str]]:
    """The keys in the system's keyring, by their names."""
    with keyring_in_memory() as kept:
        yield kept


def test_without_settings_a_random_key_is_in_the_keyring(url: str, keyring: dict[str, str]) -> None:
    forget_keys()
    with open_(url) as memory:
        memory.set_fact("city", "Lisbon")
    forget_keys()
    [name] = keyring

    with open_(url) as memory:
        assert memory.get_fact("city") == "Lisbon"
    forget_keys()
    keyring[name] = "ef" * 32
    with pytest.raises(StoreKeyError, match="the key in the keyring is not its key"):
        open_(url)


def test_a_key_that_no_memory_was_made_with_is_taken_out_of_the_keyring(
    postgres_server: Server, url: str, keyring: dict[str, str]
) -> None:
    # The role may not create a schema.
    postgres_server.execute("CREATE ROLE blind_reader LOGIN PASSWORD 'secret'")
    forget_keys()
    with pytest.raises(StoreError, match=r"may not|right|denied"):
        open_(url.replace("postgres@", "blind_reader:secret@"))
    assert keyring == {}


def test_a_screen_that_cannot_ask_finds_the_key_of_a_new_memory_before(url: str) -> None:
    forget_keys()
    set_asker(lambda question: "four random words here")
    config = Config(memory_database=url, memory_blind=True, memory_vectors="off")

    assert unlock_memory(config)
    with pytest.raises(StoreError, match="there is no memory in it yet"):
        open_memory(config, read_only=True)
    assert unlock_memory(config, creates=True)
    set_asker(None)
    with open_memory(config) as memory:
        memory.set_fact("city", "Lisbon")


def test_blind_and_readable_memories_are_not_mixed(postgres_server: Server, url: str) -> None:
    readable = postgres_server.url(postgres_server.new_schema())
    with Memory(readable) as memory:
        memory.set_fact("city", "Lisbon")
    with open_(url) as memory:
        memory.set_fact("city", "Porto")

    with pytest.raises(StoreError, match="the server can read this memory, and memory_blind is on"):
        open_(readable)
    with pytest.raises(StoreKeyError, match="the memory is blind") as error:
        Memory(url)
    assert "memory_blind" in error.value.hint
    with Memory(readable) as memory:
        assert memory.get_fact("city") == "Lisbon"


def test_an_older_shepherd_takes_the_tables_for_another_programs(
    postgres_server: Server, schema: str, url: str
) -> None:
    open_(url).close()

    [(number,)] = postgres_server.execute("SELECT value FROM meta WHERE key = 'application_id'", schema)
    assert number != APPLICATION_ID


# ---- a server that changes what it stores

EXCHANGED = (
    "UPDATE context c SET assistant_response = o.assistant_response FROM context o"
    " WHERE o.id <> c.id AND o.user_id = c.user_id"
)
HARMS = {
    "question and answer exchanged": "UPDATE context SET user_message = assistant_response,"
    " assistant_response = user_message",
    "a text of another user": "UPDATE context c SET user_message = o.user_message FROM context o"
    " WHERE o.user_id <> c.user_id",
    "a text cut off": "UPDATE context SET user_message = left(user_message, length(user_message) - 8)",
    "a text changed": "UPDATE context SET user_message = overlay(user_message placing 'AAAA' from 60)",
    "a readable text": "UPDATE context SET user_message = 'You owe me a thousand dollars.'",
    "a fact of another user": "UPDATE facts f SET value = o.value FROM facts o WHERE o.user_id <> f.user_id",
    "a key for a value": "UPDATE facts SET value = key",
    "a memory for a fact": "UPDATE facts f SET value = (SELECT user_message FROM context c"
    " WHERE c.user_id = f.user_id LIMIT 1)",
    "a message of another user": "UPDATE messages SET raw ="
    " (SELECT raw FROM messages ORDER BY id DESC LIMIT 1) WHERE id = (SELECT min(id) FROM messages)",
    "an answer for a message": "UPDATE messages SET raw = thought WHERE thought <> ''",
    "answers of two memories exchanged": EXCHANGED,
    "a whole memory in the place of another": "UPDATE context c SET user_message = o.user_message,"
    " assistant_response = o.assistant_response FROM context o WHERE o.id <> c.id AND o.user_id = c.user_id",
    "values of two facts exchanged": "UPDATE facts f SET value = o.value FROM facts o"
    " WHERE o.user_id = f.user_id AND o.key <> f.key",
    "the key of another fact": "UPDATE fact_history h SET key = o.key FROM fact_history o"
    " WHERE o.user_id = h.user_id AND o.key <> h.key",
    "a remembered answer for a fact": "UPDATE facts f SET value = c.assistant_response FROM context c"
    " WHERE c.user_id = f.user_id",
    "a message of another conversation": "UPDATE messages m SET raw = o.raw FROM messages o"
    " WHERE o.session_id <> m.session_id AND o.role = m.role",
    "a message of somebody else in the conversation": "UPDATE messages SET role = 'user'",
    "a title of another conversation": "UPDATE sessions s SET title = o.title FROM sessions o"
    " WHERE o.user_id = s.user_id AND o.id <> s.id AND o.title <> ''",
    "a sentence of another item": "UPDATE learned l SET statement = o.statement FROM learned o"
    " WHERE o.user_id = l.user_id AND o.id <> l.id AND o.statement <> ''",
    "a sentence of another fact": "UPDATE fact_history h SET statement = o.statement FROM fact_history o"
    " WHERE o.user_id = h.user_id AND o.key <> h.key AND o.statement <> ''",
    "what another item was learned as": "UPDATE learned l SET value = o.value FROM learned o"
    " WHERE o.user_id = l.user_id AND o.key <> l.key",
    "a note of another request": "UPDATE ledger l SET note = o.note FROM ledger o"
    " WHERE o.user_id = l.user_id AND o.hash <> l.hash",
    "a waiting message of another job": "UPDATE extraction_jobs j SET lines = o.lines"
    " FROM extraction_jobs o WHERE o.user_id = j.user_id AND o.id <> j.id",
    "a proposed value for the one that is known": "UPDATE facts f SET value = l.value FROM learned l"
    " WHERE l.user_id = f.user_id AND l.key = f.key AND l.kind = 'proposed'",
}


def fill(memory: Memory, user: str) -> None:
    """Store two of everything that a user can have."""
    # Somebody else's, not learned: what contradicts it is proposed.
    memory.set_fact("city", f"a city of {user}", user)
    for n, kind in enumerate(("iron", "old")):
        memory.store_memory(f"Which {kind} anchor has {user}?", f"The {kind} one of {user}", user)
        session = memory.start_session(user, name=("talk", "other")[n])
        memory.append_message(session, Message("assistant", f"Hello {user} {n}", thought="I greet"), user)
        memory.rename_session(session, f"about {n}", user)
        said = f"My {kind} anchor is number {n} of {user}, and I moved to town {n}."
        memory.append_message(session, Message("user", said), user, job=OpenJob("me", 1))
        job = memory.extraction.claim("worker", user)
        assert job is not None
        claims = [Claim(f"{kind} anchor", f"number {n}", said, 0), Claim("city", f"town {n}", said, 0)]
        memory.extraction.finish(job, claims, [])
        memory.ledger.put({("a request", "another")[n]: json.dumps({"tail": f"{kind} {user}"})}, user)
        memory.append_message(session, Message("user", f"Wait for {n}"), user, job=OpenJob("me", 9))


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS.keys())
def test_texts_that_were_changed_or_moved_are_not_shown(
    postgres_server: Server, schema: str, url: str, harm: str
) -> None:
    with open_(url) as memory:
        for user in (USER, "anna"):
            fill(memory, user)

        def look() -> list[object]:
            session = memory.start_session(name="talk")
            return [
                memory.get_all_facts(),
                memory.fact_history(),
                memory.search("anchor"),
                memory.load_session(session),
                memory.list_sessions(),
                memory.learned(),
                memory.ledger.find(["a request", "another"]),
                memory.extraction.jobs(),
            ]

        before = look()
        postgres_server.execute(harm, schema)
        with pytest.raises(
            StoreCorruptError, match="changed, or moved there from another user, row or column"
        ) as error:
            look()
    assert all(before)
    assert "anchor" not in f"{error.value} {error.value.hint}"


# ---- what it does not have


def test_features_that_are_not_covered_are_refused_and_store_nothing(
    postgres_server: Server, schema: str, url: str
) -> None:
    from shepherd.memory.vectors import VectorSettings

    with open_(url) as memory:
        knowledge, traces = Knowledge(memory.transactions, USER), Traces(memory.transactions, USER)
        for refused in (
            lambda: knowledge.add_node("About the zebra"),
            lambda: knowledge.add_node("About", source_text="zebra"),
            lambda: traces.merge([("/context/ab/000001/model", "zebra")]),
            lambda: memory.claim("anna"),
        ):
            with pytest.raises(UsageError, match="blind memory"):
                refused()
        assert knowledge.list_nodes() == []
        traces.write("ab12", {"model": "zebra"})
        assert traces.last_turn("ab12") is None
        assert memory.get_all_facts() == []
        assert memory.check().problems == ()
    with pytest.raises(UsageError, match="a blind memory has none"):
        open_(url, vectors=VectorSettings(lambda: pytest.fail("no model is needed")))
    for table in ("nodes", "chunks", "chunk_terms", "trace"):
        assert postgres_server.execute(f"SELECT 1 FROM {table}", schema) == []


def test_a_passphrase_of_few_letters_is_refused(url: str) -> None:
    forget_keys()
    set_asker(lambda question: "short")
    with pytest.raises(StoreKeyError, match="shorter than 8 characters"):
        open_(url)


def test_the_key_of_a_test_is_the_one_of_the_file(key: Path) -> None:
    assert key.read_text() == f"{KEY}\n"

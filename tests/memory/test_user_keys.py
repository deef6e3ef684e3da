"""The keys of a blind memory's users: a deleted user can't be read in older backups; all others can."""

from __future__ import annotations

import subprocess
import threading
from binascii import a2b_base64
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from shepherd._native.text import scoped
from shepherd.encryption.blinding import PREFIX, DerivedKeys, UserCipher
from shepherd.encryption.server_key import unlock_server
from shepherd.encryption.user_keys import KeyWrap
from shepherd.errors import StoreCorruptError, StoreKeyError
from shepherd.memory import Receipt
from shepherd.memory.postgres import schema as tables
from shepherd.memory.postgres.database import Database
from tests.memory.blind import known_key, rows_of
from tests.memory.canaries import USER
from tests.memory.histories import found
from tests.memory.test_blind import AllowedCanaries, fill, known, open_
from tests.postgres import Server


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


def keys_of(server: Server, schema: str) -> dict[str, bytes]:
    return dict(server.execute("SELECT user_id, wrapped FROM user_keys", schema))


# ---- backups


def run(server: Server, program: str, database: str, *arguments: str) -> bytes:
    command = [str(server.programs / program), f"--host={server.folder}", "--username=postgres", *arguments]
    return subprocess.run([*command, database], check=True, capture_output=True).stdout


def restored(server: Server, dumps: list[bytes], database: str) -> None:
    server.execute(f"CREATE DATABASE {database} TEMPLATE template0 ENCODING 'UTF8'")
    for dump in dumps:
        command = [
            server.programs / "psql",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            server.folder,
            "-U",
            "postgres",
        ]
        subprocess.run([*map(str, command), database], input=dump, check=True, capture_output=True)


@pytest.mark.parametrize("begins_anew", [False, True])
def test_a_dump_from_before_a_deletion_does_not_give_the_user_back(
    postgres_server: Server, schema: str, url: str, begins_anew: bool
) -> None:
    server = postgres_server
    with open_(url, keeps_secrets=True) as memory:
        canaries = AllowedCanaries(memory, seed=931)
        canaries.store()
        fill(memory, "anna")
        expected = known(memory, "anna"), found(memory, "iron anchor number", "anna")
        dump = run(
            server, "pg_dump", "postgres", f"--schema={schema}", f"--exclude-table-data={schema}.user_keys"
        )
        of_keys = ["--data-only", f"--table={schema}.user_keys"]
        older_keys = run(server, "pg_dump", "postgres", *of_keys)
        receipt = Receipt()
        assert memory.delete_user(receipt=receipt) > 0
        assert "dumps of the table user_keys that were made before" in receipt.left
        memory.set_fact("city", "Porto", USER if begins_anew else "bob")
        keys = run(server, "pg_dump", "postgres", *of_keys)

    restored(server, [dump, keys], f"{schema}_later")
    restored(server, [dump, older_keys], f"{schema}_before")

    later = server.url(schema, database=f"{schema}_later")
    with open_(later) as memory:
        assert (known(memory, "anna"), found(memory, "iron anchor number", "anna")) == expected
        uses: list[Callable[[], object]] = [memory.get_all_facts]
        if not begins_anew:
            # With a new key, nothing of before is found by words and keys.
            uses += [
                lambda: memory.search(canaries.given[0]),
                lambda: memory.set_fact("city", "Porto"),
            ]
        for use in uses:
            with pytest.raises(
                StoreKeyError, match="the texts of steve can't be read: the key was destroyed"
            ):
                use()
    assert words_read(later, canaries.given) == []
    before = server.url(schema, database=f"{schema}_before")
    # All but one that was edited away.
    assert len(words_read(before, canaries.given)) == len(canaries.given) - 1 == 30

    # An index that is made again leaves the user out, and what is left can be removed, unread.
    database = Database(later)
    database.write_locked(
        "test", lambda one: one.execute("UPDATE meta SET value = 0 WHERE key LIKE 'token%'")
    )
    database.close()
    with open_(later) as memory:
        assert found(memory, "iron anchor number", "anna") == expected[1]
        [problem] = memory.check(repair=True).problems
        assert problem.startswith("the keys of steve are missing; restore the table user_keys")
        assert memory.delete_user() > 0
        assert memory.check().problems == ()
        memory.set_fact("city", "Porto")
        assert memory.get_fact("city") == "Porto"
        assert known(memory, "anna") == expected[0]


def words_read(url: str, words: list[str]) -> list[str]:
    """Return the words that the memory's key gives away, with all keys that are in the database."""
    database = Database(url)
    salt, check = database.read(tables._salt_and_check)
    assert salt is not None
    key = unlock_server(url, salt, check)
    stored = database.look("SELECT user_id, wrapped FROM user_keys", ())
    derived, wrap = DerivedKeys(key), KeyWrap(key)
    ciphers = [derived.of_nobody(), *(derived.of_user(user) for user in (USER, "anna", "bob"))]
    ciphers += [wrap.opened(user, wrapped) for user, wrapped in stored]
    values = set(values_of(database))
    tenants = [number for (number,) in database.look("SELECT number FROM tenants", ())]
    database.close()
    seen = " ".join(
        text for value in values for cipher in ciphers for text in texts_of(cipher, value)
    ).lower()
    hashes = {
        word: {
            found
            for cipher in ciphers
            for found in cipher.words([scoped(word, number)[0].decode() for number in tenants])
        }
        for word in words
    }
    return [word for word in words if word in seen or not values.isdisjoint(hashes[word])]


def values_of(database: Database) -> Iterator[str]:
    """Yield all texts in a database, and the words in arrays."""
    for table, column in database.look(
        "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema ="
        " current_schema() AND (data_type = 'text' OR udt_name = '_text')",
        (),
    ):
        for (value,) in database.look(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL", ()):
            yield from [value] if isinstance(value, str) else value


def texts_of(cipher: UserCipher, value: str) -> Iterator[str]:
    """Yield what a value says, decrypted without asking what it is bound to: AES-SIV is a CTR mode then."""
    yield value
    sealed = a2b_base64(value[1:]) if value.startswith(PREFIX) else b""
    if sealed[:8] != cipher.tag:
        return
    half = cipher._derived(b"text", cipher.tag, 64)[32:]
    for start in (8, 24):
        counter = bytearray(sealed[start : start + 16])
        if len(counter) == 16:
            counter[8] &= 0x7F
            counter[12] &= 0x7F
            decryptor = Cipher(algorithms.AES(half), modes.CTR(bytes(counter))).decryptor()
            yield decryptor.update(sealed[start + 16 :]).decode(errors="ignore")


# ---- several processes


def test_two_first_writers_of_a_user_make_one_key(postgres_server: Server, schema: str, url: str) -> None:
    open_(url).close()
    writers = [open_(url) for _ in range(6)]
    barrier = threading.Barrier(len(writers))
    errors = []

    def write(n: int) -> None:
        barrier.wait()
        try:
            # Of a user each two, and all of one.
            for user in (f"user {n // 2}", USER):
                writers[n].set_fact(f"key {n}", f"value {n}", user)
                writers[n].store_memory(f"question {n}", f"answer {n}", user)
        except Exception as error:  # shown below
            errors.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(len(writers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in writers:
        writer.close()
    assert errors == []
    assert sorted(keys_of(postgres_server, schema)) == [USER, "user 0", "user 1", "user 2"]
    with open_(url) as memory:
        assert len(memory.get_all_facts()) == len(writers)
        assert len(memory.list_memories(USER, limit=10)) == len(writers)
        assert memory.check().problems == ()


def test_a_process_does_not_go_on_with_a_key_that_another_one_has_destroyed(
    postgres_server: Server, schema: str, url: str
) -> None:
    with open_(url) as memory, open_(url) as other:
        fill(memory, USER)
        old = keys_of(postgres_server, schema)[USER]
        other.delete_user()
        assert keys_of(postgres_server, schema) == {}

        # The first process knows the old key, and writes.
        memory.store_memory("Where is the sextant?", "In the chest")
        new = keys_of(postgres_server, schema)[USER]
        assert new != old
        assert [hit.answer for hit in other.search("sextant")] == ["In the chest"]

        # The second one has destroyed and replaced that key meanwhile, and the first one reads.
        uses: list[Callable[[], object]] = [
            lambda: memory.get_fact("boat"),
            memory.get_all_facts,
            lambda: memory.search("anchor"),
            lambda: memory.ledger.find(["a request"]),
            memory.list_sessions,
            lambda: memory.load_session(memory.start_session(name="talk")),
            lambda: memory.clear_fact("boat"),
        ]
        for use in uses:
            other.delete_user()
            fill(other, USER)
            other.set_fact("boat", "red")
            assert use()
            with open_(url) as fresh:
                assert known(memory, USER) == known(fresh, USER)
                assert memory.search("anchor") == fresh.search("anchor") != []
    with open_(url) as memory:
        assert memory.check().problems == ()


def test_where_nothing_is_tried_again_a_replaced_key_does_not_count_as_the_memorys(url: str) -> None:
    with open_(url) as memory, open_(url) as other:
        memory.set_fact("city", "Porto", "anna")
        database = memory._store._database  # type: ignore[attr-defined]
        other.delete_user("anna")
        other.set_fact("boat", "red", "anna")
        told = "UPDATE facts SET value = ? WHERE user_id = ? AND key = ?", ("Rome", "anna", "city")
        with (
            pytest.raises(StoreKeyError, match="the key of a user was replaced") as raised,
            database.writing("test") as connection,
        ):
            connection.execute(*told)
        assert raised.value.hint == "try again"
        with database.writing("test") as connection:
            connection.execute(*told)


def test_a_first_write_that_fails_leaves_no_key(postgres_server: Server, schema: str, url: str) -> None:
    with open_(url) as memory:
        store = memory._store

        def fails(connection: object) -> None:
            connection.execute("SELECT 1 FROM facts WHERE user_id = ? AND key = ?", (USER, "city"))  # type: ignore[attr-defined]
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.write(USER, fails)
        assert memory.get_fact("city") is None
        assert keys_of(postgres_server, schema) == {}
        memory.set_fact("city", "Lisbon")
        assert list(keys_of(postgres_server, schema)) == [USER]
    with open_(url) as memory:
        assert memory.get_fact("city") == "Lisbon"


# ---- damage


def test_a_damaged_key_is_said_so_and_harms_nobody_else(
    postgres_server: Server, schema: str, url: str
) -> None:
    with open_(url) as memory:
        for user in (USER, "anna"):
            fill(memory, user)
        expected = known(memory, "anna")
    rows = rows_of(postgres_server, schema)
    postgres_server.execute(
        f"UPDATE user_keys SET wrapped = set_byte(wrapped, 3, 7) WHERE user_id = '{USER}'", schema
    )

    with open_(url) as memory:
        with pytest.raises(StoreCorruptError, match="the stored key of steve is damaged") as error:
            memory.get_all_facts()
        assert "restore the table user_keys from its newest dump" in error.value.hint
        with pytest.raises(StoreCorruptError, match="the stored key of steve is damaged"):
            memory.set_fact("city", "Porto")
        assert known(memory, "anna") == expected
        [problem] = memory.check(repair=True).problems
        assert problem.startswith("the keys of steve are damaged; restore the table user_keys")
        assert len(rows_of(postgres_server, schema)) == len(rows)
        assert memory.delete_user() > 0
        assert memory.check().problems == ()
        assert known(memory, "anna") == expected


def test_keys_that_a_server_exchanges_are_refused(postgres_server: Server, schema: str, url: str) -> None:
    with open_(url) as memory:
        for user in (USER, "anna"):
            memory.store_memory("Which anchor?", f"That of {user}", user)
    postgres_server.execute(
        "UPDATE user_keys k SET tag = o.tag, wrapped = o.wrapped FROM user_keys o"
        " WHERE o.user_id <> k.user_id",
        schema,
    )
    with open_(url) as memory, pytest.raises(StoreCorruptError, match="the stored key of steve is damaged"):
        memory.list_memories()
    postgres_server.execute(
        "UPDATE user_keys k SET wrapped = o.wrapped FROM user_keys o WHERE o.user_id <> k.user_id", schema
    )
    # Texts of all users are read by their tags.
    with open_(url) as memory, pytest.raises(StoreCorruptError, match=r"the stored key of \w+ is damaged"):
        memory.tables_with(["anchor"])

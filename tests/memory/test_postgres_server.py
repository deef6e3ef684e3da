"""PostgreSQL itself: addresses, schemas, rights, failures, restarts, and several processes at once."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from shepherd.errors import (
    ForeignDatabaseError,
    ShepherdError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreReadOnlyError,
    UsageError,
)
from shepherd.installation import install_extra
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory, OpenJob
from shepherd.memory.corpora import MEMORIES
from shepherd.memory.postgres.database import REBUILDING, Connection, Database
from shepherd.memory.postgres.search import _POSTINGS
from shepherd.memory.postgres.wire import _MOST_PREPARED, _numbered
from shepherd.types import Message
from tests import programs
from tests.postgres import Server

PASSWORD = "s3cret pa&ss/wörd"


@pytest.fixture
def schema(postgres_server: Server) -> str:
    return postgres_server.new_schema()


@pytest.fixture
def url(postgres_server: Server, schema: str) -> str:
    return postgres_server.url(schema)


@pytest.fixture
def memory(url: str) -> Iterator[Memory]:
    with Memory(url, user_id="steve") as opened:
        yield opened


@pytest.fixture
def role(postgres_server: Server) -> str:
    """Somebody with a password and no rights yet."""
    name = f"anna_{postgres_server.new_schema()}"
    postgres_server.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
    return name


# ---- addresses and schemas


@pytest.mark.parametrize(
    "name", ['a "quoted" name', "Größe", "select", "o'brien; DROP SCHEMA public", "a&b=c/d?e"]
)
def test_schema_of_any_name_is_made_and_found_again(postgres_server: Server, name: str) -> None:
    url = postgres_server.url(name)
    with Memory(url) as memory:
        memory.store_memory("Which dog?", "Rex")
        memory.set_fact("name", "Steve")

    with Memory(url) as memory:
        assert [result.answer for result in memory.search("dog")] == ["Rex"]
        assert memory.check().problems == ()
    assert postgres_server.execute("SELECT count(*) FROM context", name) == [(1,)]


def test_schemas_of_one_database_know_nothing_of_each_other(postgres_server: Server, url: str) -> None:
    with Memory(url) as first, Memory(postgres_server.url(postgres_server.new_schema())) as second:
        first.store_memory("Which dog?", "Rex")

        assert second.search("dog") == []
        assert second.count_memories() == 0


def test_without_a_name_the_schema_is_that_of_the_role(postgres_server: Server, role: str) -> None:
    postgres_server.execute(f"CREATE SCHEMA AUTHORIZATION {role}")  # "$user" comes first in search_path

    with Memory(postgres_server.url(user=role, password=PASSWORD)) as memory:
        memory.set_fact("name", "Anna")

    assert postgres_server.execute("SELECT value FROM facts", role) == [("Anna",)]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:s3cret@host:port/db",
        "postgresql://u:s3cret%zz@host/db",
        "postgresql://u:s3cret@host/db?schema=",
        "postgresql://u:s3cret@host/db?schema=a&schema=b",
        "postgresql://u:s3cret@host/db?schema=pg_catalog",
        "postgresql://u:s3cret@host/db?schema=" + "x" * 64,
        "postgresql://u:s3cret@host/db?no_such_parameter=s3cret",
        "postgresql://[s3cret",
    ],
)
def test_address_that_is_none_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(UsageError, match="memory_database") as caught:
        Memory(url)

    assert "s3cret" not in f"{caught.value} {caught.value.hint} {caught.value.__cause__}"


def test_missing_psycopg_is_named_with_its_remedy(
    run_python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run_python(
        "import sys; sys.modules['psycopg'] = None\n"
        "from shepherd.errors import StoreError\n"
        "from shepherd.memory import Memory\n"
        "try: Memory('postgresql://u:s3cret@host/db')\n"
        "except StoreError as error: print(error, error.hint)"
    )

    assert "needs psycopg 3" in done.stdout
    assert install_extra("postgres") in done.stdout
    assert "libpq-dev" in done.stdout
    assert "s3cret" not in done.stdout + done.stderr


# ---- who may


def test_wrong_password_is_said_and_not_repeated(postgres_server: Server, role: str) -> None:
    for wrong in ("wr0ng", ""):
        with pytest.raises(StoreError, match="password is wrong or missing") as caught:
            Memory(postgres_server.url(user=role, password=wrong))

        assert "wr0ng" not in f"{caught.value} {caught.value.hint} {caught.value.__cause__}"
        assert ".pgpass" in caught.value.hint


def test_password_is_in_no_message_and_no_address(postgres_server: Server, role: str, schema: str) -> None:
    postgres_server.execute(f"GRANT CREATE ON DATABASE postgres TO {role}")

    with Memory(postgres_server.url(schema, user=role, password=PASSWORD)) as memory:
        shown = [memory.stats().path, repr(memory._store.__dict__), repr(memory._store._database.address)]  # type: ignore[attr-defined]

    assert role in shown[0]
    assert not any("s3cret" in text for text in shown)


def test_role_that_may_not_create_is_told_so(postgres_server: Server, role: str, schema: str) -> None:
    with pytest.raises(StoreReadOnlyError, match="may not") as caught:
        Memory(postgres_server.url(schema, user=role, password=PASSWORD))

    assert "GRANT" in caught.value.hint


def test_role_that_may_only_read_opens_for_reading(
    postgres_server: Server, memory: Memory, role: str, schema: str
) -> None:
    memory.store_memory("Which dog?", "Rex")
    postgres_server.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    postgres_server.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
    url = postgres_server.url(schema, user=role, password=PASSWORD)

    with pytest.raises(StoreReadOnlyError):
        Memory(url)
    with Memory(url, user_id="steve", read_only=True) as reader:
        assert [result.answer for result in reader.search("dog")] == ["Rex"]
        with pytest.raises(StoreReadOnlyError):
            reader.set_fact("name", "Steve")


def test_role_with_rights_on_rows_alone_reads_and_writes(
    postgres_server: Server, memory: Memory, role: str, schema: str
) -> None:
    postgres_server.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    postgres_server.execute(
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}"
    )
    postgres_server.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}")

    with Memory(postgres_server.url(schema, user=role, password=PASSWORD)) as other:
        other.store_memory("Which dog?", "Rex")
        other.append_message(other.start_session(), Message("user", "hello"))
        other.import_memories([{"question": f"q {n}", "answer": "a"} for n in range(1000)])
        assert other.check().problems == ()


def test_database_and_role_that_are_not_there_are_named(postgres_server: Server) -> None:
    with pytest.raises(StoreError, match="no such database"):
        Memory(postgres_server.url(database="nowhere"))


def test_server_that_is_not_there_is_said_at_once(tmp_path: object) -> None:
    with pytest.raises(StoreError, match="cannot be reached") as caught:
        Memory(f"postgresql://u:s3cret@/db?host={tmp_path}")

    assert "pg_isready" in caught.value.hint
    assert "s3cret" not in str(caught.value)


# ---- whose tables


def test_tables_of_another_program_are_refused_and_left_alone(postgres_server: Server, schema: str) -> None:
    postgres_server.execute(f"CREATE SCHEMA {schema}")
    postgres_server.execute("CREATE TABLE facts(a int); INSERT INTO facts VALUES(1)", schema)

    with pytest.raises(ForeignDatabaseError, match="facts"):
        Memory(postgres_server.url(schema))

    assert postgres_server.execute("SELECT * FROM facts", schema) == [(1,)]
    assert postgres_server.execute(f"SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}'") == [(1,)]


def test_other_tables_beside_ours_do_no_harm(postgres_server: Server, schema: str) -> None:
    postgres_server.execute(f"CREATE SCHEMA {schema}")
    postgres_server.execute("CREATE TABLE invoices(a int)", schema)

    with Memory(postgres_server.url(schema)) as memory:
        assert memory.check().ok


def test_newer_format_is_refused(postgres_server: Server, memory: Memory, schema: str, url: str) -> None:
    postgres_server.execute("UPDATE meta SET value = 99 WHERE key = 'user_version'", schema)

    with pytest.raises(ForeignDatabaseError, match="newer Shepherd"):
        Memory(url)


def test_schema_without_memory_cannot_be_opened_for_reading(url: str) -> None:
    with pytest.raises(StoreError, match="no memory in it"):
        Memory(url, read_only=True)


def test_nobody_leaves_no_trace(postgres_server: Server, url: str, schema: str) -> None:
    with Memory(url, user_id="unknown") as memory:
        memory.store_memory("q", "a")
        memory.set_fact("k", "v")
        memory.start_session()
        memory.recall("q")

    for table in ("tenants", "context", "facts", "sessions"):
        assert postgres_server.execute(f"SELECT count(*) FROM {table}", schema) == [(0,)]


# ---- what goes wrong


def test_full_disk_of_the_server_is_named(postgres_server: Server, memory: Memory, schema: str) -> None:
    # The server's own error for a full disk, raised where a page would be written.
    postgres_server.execute(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;"
        "CREATE TRIGGER full_disk BEFORE INSERT ON context FOR EACH ROW EXECUTE FUNCTION full_disk()",
        schema,
    )

    with pytest.raises(StoreFullError, match="nothing of this change was stored"):
        memory.store_memory("q", "a")

    postgres_server.execute("DROP TRIGGER full_disk ON context", schema)
    assert memory.count_memories() == 0
    assert memory.store_memory("q", "a") is not None


def test_error_of_the_server_never_repeats_what_was_stored(
    postgres_server: Server, memory: Memory, schema: str
) -> None:
    postgres_server.execute("ALTER TABLE facts ADD CHECK (value <> 'my secret')", schema)

    with pytest.raises(Exception, match="23514") as caught:
        memory.set_fact("wish", "my secret")

    assert "my secret" not in f"{caught.value} {caught.value.__cause__}"
    assert caught.value.__suppress_context__


def test_lock_of_another_process_is_waited_for_and_then_named(
    postgres_server: Server, url: str, memory: Memory
) -> None:
    import psycopg

    number = memory._store._database.lock_number("user steve")  # type: ignore[attr-defined]
    with (
        Memory(url, user_id="steve", busy_timeout_s=0.1) as impatient,
        psycopg.connect(postgres_server.url()) as holder,
    ):
        holder.execute("SELECT pg_advisory_xact_lock(%s)", [number])

        with pytest.raises(StoreLockedError, match="locked for too long"):
            impatient.set_fact("name", "Steve")
        impatient.set_fact("name", "Anna", "anna")
        assert impatient.get_fact("name") is None

        holder.rollback()
        impatient.set_fact("name", "Steve")


@pytest.mark.parametrize("mode", ["ACCESS EXCLUSIVE", "SHARE ROW EXCLUSIVE"])
def test_tables_that_are_rebuilt_are_waited_for(
    postgres_server: Server, memory: Memory, schema: str, mode: str
) -> None:
    """As long as it takes, since a large memory takes many minutes."""
    import psycopg

    memory.set_fact("name", "Anna")
    database = memory._store._database  # type: ignore[attr-defined]
    url = postgres_server.url(schema)
    done: list[object] = []
    with (
        Memory(url, user_id="steve", busy_timeout_s=0.1) as impatient,
        psycopg.connect(postgres_server.url()) as holder,
    ):
        holder.execute("SELECT pg_advisory_xact_lock(%s)", [database.lock_number(REBUILDING)])
        holder.execute(f"LOCK TABLE {schema}.tenants, {schema}.context, {schema}.facts IN {mode} MODE")

        def work() -> None:
            done.append(impatient.store_memory("Which dog?", "Rex"))
            impatient.set_fact("name", "Steve")
            done.append(impatient.get_fact("name"))

        working = threading.Thread(target=work)
        working.start()
        time.sleep(0.5)  # five times its patience
        assert done == []
        assert working.is_alive()
        holder.rollback()
        working.join()

    assert done == [memory.search("dog")[0].id, "Steve"]


def test_a_connection_is_waited_for_while_the_server_stands_still(url: str) -> None:
    with closing(Database(f"{url}&failover_timeout=60", patience_s=0.1)) as database:
        all_in_use = [
            threading.Thread(target=database.look, args=("SELECT pg_sleep(0.6)", ())) for _ in range(8)
        ]
        for thread in all_in_use:
            thread.start()
        while database._places._value:
            time.sleep(0.001)
        assert database.look("SELECT 1", ()) == [(1,)]
        for thread in all_in_use:
            thread.join()


@pytest.mark.parametrize("held", ["anna", "steve"])
def test_a_claim_waits_for_the_writers_of_both_users(
    postgres_server: Server, memory: Memory, url: str, held: str
) -> None:
    memory.store_memory("Which dog?", "Rex", "anna")
    number = memory._store._database.lock_number(f"user {held}")  # type: ignore[attr-defined]
    with (
        Memory(url, user_id="steve", busy_timeout_s=0.1) as impatient,
        psycopg.connect(postgres_server.url()) as holder,
    ):
        holder.execute("SELECT pg_advisory_xact_lock(%s)", [number])

        with pytest.raises(StoreLockedError, match="locked for too long"):
            impatient.claim("anna")

    assert memory.claim("anna").memories == 1


def test_statement_that_takes_too_long_is_stopped(
    postgres_server: Server, memory: Memory, schema: str, url: str
) -> None:
    memory.store_memory("Which dog?", "Rex")
    postgres_server.execute(
        "ALTER TABLE context RENAME TO slow;"
        "CREATE VIEW context AS SELECT slow.* FROM slow, (SELECT pg_sleep(60)) AS sleep",
        schema,
    )

    with (
        Memory(f"{url}&options=-cstatement_timeout=1000", user_id="steve") as hasty,
        pytest.raises(StoreLockedError, match="took too long"),
    ):
        hasty.search("dog")


def test_user_id_and_key_that_no_index_can_hold_are_refused(memory: Memory) -> None:
    noise = "".join(chr(code) for code in random.Random(1).sample(range(0x4E00, 0x9FFF), 5000))

    with pytest.raises(UsageError, match="too long"):
        memory.set_fact(noise, "value")
    with pytest.raises(UsageError, match="too long"):
        memory.store_memory("q", "a", noise)
    assert memory.check().ok


def test_job_of_more_messages_than_an_index_can_hold_is_one_job(
    postgres_server: Server, memory: Memory, schema: str
) -> None:
    # Numbers of many digits that compress badly: as many sessions on one server leave them.
    postgres_server.execute("ALTER SEQUENCE messages_id_seq INCREMENT 1234567890123 RESTART 98765", schema)
    session = memory.start_session()
    texts = [str(n) for n in range(400)]
    for text in texts:
        memory.append_message(session, Message("user", text), job=OpenJob("worker", 1000))

    [job] = memory.extraction.jobs()
    assert job.lines == tuple(texts)


def test_backup_names_the_server_s_own_tools(memory: Memory, tmp_path: object) -> None:
    with pytest.raises(UsageError) as caught:
        memory.backup(f"{tmp_path}/copy.db")

    assert "pg_dump" in caught.value.hint


# ---- damage


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        ("DELETE FROM context_terms WHERE id % 2 = 0", "missing from the index"),
        ("INSERT INTO context_terms VALUES(99, 1, 1, 1, '{t1_ghost}', NULL, NULL, 0)", "no memory"),
        ("UPDATE context_terms SET doc_len = 77", "differ from their memory"),
        ("UPDATE context_terms SET usual = 3", "with other words"),
        ("UPDATE tenants SET n = n + 5", "sums of 2 users are wrong"),
        ("UPDATE tenants SET total_length = 0, message_bytes = 1", "sums of 2 users are wrong"),
        ("DELETE FROM context WHERE id % 2 = 0", "no memory"),
        ("DELETE FROM sessions", "to no session"),
        ("UPDATE meta SET value = 0 WHERE key = 'tokenizer_version'", "another version of the tokenizer"),
    ],
)
def test_damage_is_found_and_mended(
    postgres_server: Server, memory: Memory, schema: str, harm: str, problem: str
) -> None:
    for n in range(30):
        memory.store_memory(f"question {n}?", f"answer number {n} \0")
    memory.store_memory("of anna?", "yes", "anna")
    memory.append_message(memory.start_session(), Message("user", "hello"))
    assert memory.check().problems == ()
    postgres_server.execute(harm, schema)

    assert any(problem in text for text in memory.check().problems)
    mended = memory.check(repair=True)

    assert mended.ok
    assert memory.check().problems == ()
    assert len(memory.search("answer number", 50)) == memory.count_memories()


def test_terms_of_another_tokenizer_are_made_again_at_opening(
    postgres_server: Server, memory: Memory, schema: str, url: str
) -> None:
    for n in range(30):
        memory.store_memory(f"question {n}?", f"answer number {n}")
    before = [(hit.id, hit.score) for hit in memory.search("answer 7", 50)]
    postgres_server.execute(
        "UPDATE meta SET value = 0 WHERE key = 'tokenizer_version';"
        "UPDATE context_terms SET terms = '{t1_old}'",
        schema,
    )

    with Memory(url, user_id="steve", clock=memory._clock) as again:
        assert [hit[0] for hit in before] == [hit.id for hit in again.search("answer 7", 50)]
        assert again.check().problems == ()


def test_plurals_of_acronyms_find_their_singular(memory: Memory) -> None:
    one = memory.store_memory("", "I bought a GPU")
    two = memory.store_memory("", "I also bought two CPUs")

    assert [hit.id for hit in memory.search("which gpus do i have", 5)] == [one]
    assert [hit.id for hit in memory.search("CPU", 5)] == [two]


def never_recalled(memory: Memory) -> list[int]:
    findings = memory.audit()
    return [found for finding in findings if finding.kind == "never-recalled" for found in finding.ids]


def test_what_was_recalled_is_counted_with_the_next_write(
    postgres_server: Server, url: str, schema: str
) -> None:
    counts = "SELECT id, n FROM recalls ORDER BY id"
    now = [time.time()]
    with Memory(url, user_id="steve", relevance_threshold=0, clock=lambda: now[0]) as memory:
        dog, cat = memory.store_memory("Which dog?", "Rex"), memory.store_memory("Which cat?", "Tom")
        memory.recall("dog")
        memory.recall("dog")
        assert postgres_server.execute(counts, schema) == []
        now[0] += 100 * 86_400
        assert never_recalled(memory) == [cat]

        memory.set_fact("name", "Steve")
        assert postgres_server.execute(counts, schema) == [(dog, 2)]
        memory.recall("cat")

    assert postgres_server.execute(counts, schema) == [(dog, 2), (cat, 1)]
    with Memory(url, user_id="steve", clock=lambda: now[0]) as memory:
        assert never_recalled(memory) == []
        assert dog is not None
        memory.delete_memory(dog)
    assert postgres_server.execute(counts, schema) == [(cat, 1)]


# ---- the server goes and comes back


def test_restart_of_the_server_is_not_noticed(postgres_server: Server, memory: Memory) -> None:
    memory.set_fact("name", "Steve")
    memory.store_memory("Which dog?", "Rex")

    postgres_server.stop()
    postgres_server.start()

    assert [result.answer for result in memory.search("dog")] == ["Rex"]
    postgres_server.stop(at_once=True)
    postgres_server.start()
    memory.set_fact("name", "Stefan")
    assert memory.get_fact("name") == "Stefan"


def test_restart_in_the_middle_loses_and_doubles_nothing(postgres_server: Server, url: str) -> None:
    stored: list[int | None] = []

    def write() -> None:
        with Memory(url, busy_timeout_s=60) as memory:
            stored.extend(memory.store_memory(f"question {n}?", f"answer {n}") for n in range(300))

    writer = threading.Thread(target=write)
    writer.start()
    for at_once in (False, True):
        seen = len(stored)
        while writer.is_alive() and len(stored) < seen + 20:
            writer.join(0.01)
        postgres_server.stop(at_once=at_once)
        postgres_server.start()
    writer.join()

    with Memory(url) as memory:
        assert sorted(stored) == sorted(record.id for record in memory.list_memories(limit=1000))
        assert len(set(stored)) == 300
        assert memory.check().problems == ()


def test_a_broken_connection_is_replaced_at_once(postgres_server: Server, memory: Memory) -> None:
    memory.set_fact("name", "Steve")
    memory._store._database._outage_s = 0.0

    for _ in range(2):
        postgres_server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'shepherd' AND pid <> pg_backend_pid()"
        )
        assert memory.get_fact("name") == "Steve"


def test_server_that_stays_away_is_an_error_after_the_patience(postgres_server: Server, url: str) -> None:
    with Memory(url, busy_timeout_s=0.2) as memory:
        memory.set_fact("name", "Steve")
        postgres_server.stop()
        try:
            with pytest.raises(StoreError, match="cannot be reached"):
                memory.get_fact("name")
        finally:
            postgres_server.start()

        assert memory.get_fact("name") == "Steve"


def test_closed_memory_says_so(url: str) -> None:
    memory = Memory(url)
    memory.close()
    memory.close()

    with pytest.raises(StoreError, match="closed"):
        memory.count_memories()


# ---- several at once

WRITER = """
import sys
from shepherd.memory import Memory
with Memory(sys.argv[1], user_id="steve", busy_timeout_s=60) as memory:
    for n in range(60):
        memory.store_memory(f"question {n} of {sys.argv[2]}?", "answer")
        memory.store_memory(f"question {n} of both?", "the same answer")
        memory.set_fact("favoriteColor" if sys.argv[2] == "one" else "favorite_color", f"{n} {sys.argv[2]}")
"""


def test_processes_that_write_at_once_lose_and_double_nothing(url: str) -> None:
    # The schema is not there yet: both want to make it.
    writers = [
        programs.Popen([sys.executable, "-c", WRITER, url, name], env=programs.in_utf8())
        for name in ("one", "two")
    ]
    assert [writer.wait(120) for writer in writers] == [0, 0]

    with Memory(url, user_id="steve") as memory:
        assert memory.count_memories() == 180
        assert len({record.question for record in memory.list_memories(limit=1000)}) == 180
        assert len(memory.get_all_facts()) == 1
        assert len(memory.fact_history()) == 120
        assert memory.check().problems == ()


# ---- plans


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
def test_words_are_looked_up_by_their_index(postgres_server: Server, url: str, mode: str) -> None:
    """Not by reading the rows of the user, or all rows, once for each word."""
    lines = [{"question": f"dog {n} {n % 7}", "answer": f"cat {n % 50}"} for n in range(3000)]
    with Memory(url, user_id="steve") as memory:
        memory.import_memories(lines)
    with psycopg.connect(url.partition("&schema")[0]) as connection:
        connection.execute(f"SET search_path = {url.rpartition('=')[2]}")
        connection.execute(f"SET plan_cache_mode = {mode}")
        connection.execute(b"PREPARE asked AS " + _numbered(_POSTINGS.format(corpus=MEMORIES)))
        plan = connection.execute(
            "EXPLAIN EXECUTE asked('{t1_9,t1_49,t1_2999}', 1099511627776, 2199023255551)"
        ).fetchall()

    assert any("context_terms_gin" in line for (line,) in plan)
    assert not any("Seq Scan" in line or "context_terms_pkey" in line for (line,) in plan)


def test_no_table_is_read_once_for_each_row_of_another(
    postgres_server: Server, url: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a NOT IN is, whose rows are too many for a table in main memory."""
    asked: list[str] = []
    execute_together = Connection.execute_together

    def noted(self: Connection, statements: Any, **options: Any) -> Any:
        asked.extend(statement for statement, _ in statements)
        return execute_together(self, statements, **options)

    with Memory(url, user_id="steve") as memory:
        memory.import_memories([{"question": f"dog {n}", "answer": "cat"} for n in range(20)])
        Knowledge(memory.transactions, "steve").add_node("dog", source_text="cat")
        with monkeypatch.context() as patched:
            patched.setattr(Connection, "execute_together", noted)
            memory.activity()
            memory.audit()
            assert memory.check().ok
            postgres_server.execute(
                "INSERT INTO chunk_terms(id, doc_len, terms, tenant) VALUES(1, 1, '{}', 1)", schema
            )
            postgres_server.execute("UPDATE tenants SET n = 7", schema)
            assert memory.check(repair=True).repaired
    with psycopg.connect(postgres_server.url()) as connection:
        connection.execute(f"SET search_path = {schema}; SET plan_cache_mode = force_generic_plan")
        plans = {
            statement: plan_of(connection, statement)
            for statement in dict.fromkeys(asked)
            if statement.startswith(("SELECT", "DELETE", "UPDATE"))
        }

    assert sum("context_terms" in statement for statement in plans) > 2
    assert [
        statement for statement, plan in plans.items() if re.search(r"NOT \(.*SubPlan|<> ALL", plan)
    ] == []


def plan_of(connection: psycopg.Connection[Any], statement: str) -> str:
    connection.execute(b"PREPARE asked AS " + _numbered(statement))
    [(n_parameters,)] = connection.execute(
        "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'asked'"
    )
    given = f"({', '.join(['NULL'] * n_parameters)})" if n_parameters else ""
    plan = connection.execute(f"EXPLAIN EXECUTE asked{given}").fetchall()  # type: ignore[arg-type]
    connection.execute("DEALLOCATE asked")
    return "\n".join(line for (line,) in plan)


# ---- statements that are sent together


def test_error_of_one_statement_is_raised_and_the_connection_goes_on(url: str) -> None:
    with closing(Database(url)) as database:
        for _ in range(2):
            with pytest.raises(ShepherdError, match="the tables have changed"):
                database.read(
                    lambda one: one.execute_together(
                        [("SELECT 1", ()), ("SELECT no_such_column", ()), ("SELECT ?::int + 1", (1,))]
                    )
                )
            assert len(database._idle) == 1
            assert database.read(lambda one: one.execute("SELECT ?::int + 1", (1,))) == [(2,)]


def test_a_statement_is_prepared_again_after_its_tables_were_changed(
    postgres_server: Server, memory: Memory, schema: str
) -> None:
    memory.set_fact("name", "Steve")
    database = memory._store._database
    asked = "SELECT value FROM facts"
    assert database.look(asked, ()) == [("Steve",)]

    postgres_server.execute("ALTER TABLE facts ALTER COLUMN value TYPE varchar", schema)

    assert database.look(asked, ()) == [("Steve",)]


def test_statement_that_waits_fails_with_the_commit_and_nothing_is_stored(url: str) -> None:
    with Memory(url, user_id="steve") as memory:
        store = memory._store
        memory.set_fact("name", "Steve")

        def work(connection) -> None:
            connection.execute("UPDATE facts SET value = 'x' WHERE user_id = 'steve'")
            connection.execute("INSERT INTO recalls(id, n, last) VALUES(1, 1, 1)")
            connection.execute("INSERT INTO recalls(id, n, last) VALUES(1, 2, 2)")

        with pytest.raises(ShepherdError, match="23505"):
            store.write("steve", work)

        assert memory.get_fact("name") == "Steve"
        assert store.read(lambda one: one.execute("SELECT * FROM recalls")) == []


def test_more_than_the_sockets_hold_is_sent_and_read_at_once(url: str) -> None:
    texts = [f"{n} " + "x" * 20_000 for n in range(1500)]
    with closing(Database(url)) as database:
        found = database.read(
            lambda one: one.execute_together([("SELECT ?::text", (text,)) for text in texts])
        )

    assert [rows[0][0] for rows in found] == texts


def test_more_statements_than_stay_prepared_are_still_run(url: str) -> None:
    with closing(Database(url)) as database:
        for n in range(_MOST_PREPARED + 20):
            assert database.read(lambda one, n=n: one.execute(f"SELECT {n}")) == [(n,)]
        assert len(database._idle[0].prepared) <= _MOST_PREPARED + 5


def test_interrupted_question_leaves_a_memory_that_answers(postgres_server: Server, url: str) -> None:
    def interrupt() -> None:
        asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        while not postgres_server.execute(asleep)[0][0]:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    with closing(Database(url)) as database:
        assert database.read(lambda one: one.execute("SELECT 1")) == [(1,)]
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            database.read(lambda one: one.execute("SELECT pg_sleep(60)"))
        thread.join()

        assert database.read(lambda one: one.execute("SELECT 2")) == [(2,)]
    # The server has been told, so that no lock is held for a minute.
    deadline = time.monotonic() + 20
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    while postgres_server.execute(asleep) != [(0,)]:
        assert time.monotonic() < deadline


def test_more_threads_than_connections_take_turns(memory: Memory) -> None:
    def work(number: int) -> None:
        for n in range(10):
            memory.store_memory(f"question {n} of {number}?", "answer", f"user {number}")
            memory.recall("question", f"user {number}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [memory.count_memories(f"user {number}") for number in range(20)] == [10] * 20

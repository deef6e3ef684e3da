"""A random number for each version of a user's rows, by which a hot index knows the past of the database.

A server's tables can go back in time while a process goes on: a backup is restored, or a standby takes over
that has not received the last commits. Then versions are given again, for other rows. So the server itself
gives each version a mark, whoever makes it: a negative id in the list of changes, where ids of rows are
positive. It is a trigger's work, so that no statement can forget it.
"""

from __future__ import annotations

from shepherd.memory.corpora import CHUNKS, MEMORIES, Corpus
from shepherd.memory.hot_rows import KEPT_VERSIONS

__all__ = ["ARE_THERE", "FIRST", "STATEMENTS"]

_RANDOM = "-1 - (random() * 4503599627370495)::bigint"
# Old marks go when a version passes a multiple of 256: looking for them with each write would cost more.
_FUNCTION = f"""CREATE OR REPLACE FUNCTION {{corpus.sums}}_mark() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO {{corpus.changes}}(tenant, version, id) VALUES(NEW.number, NEW.version, {_RANDOM});
            IF NEW.version >> 8 <> OLD.version >> 8 THEN
                DELETE FROM {{corpus.changes}}
                    WHERE tenant = NEW.number AND version <= NEW.version - {KEPT_VERSIONS};
            END IF;
            RETURN NULL;
        END $$"""
_TRIGGER = """CREATE TRIGGER {corpus.sums}_mark AFTER UPDATE OF version ON {corpus.sums}
        FOR EACH ROW WHEN (NEW.version <> OLD.version) EXECUTE FUNCTION {corpus.sums}_mark()"""
# Of the versions that were made before there were marks.
_FIRST = f"""INSERT INTO {{corpus.changes}}(tenant, version, id) SELECT number, version, {_RANDOM}
        FROM {{corpus.sums}} t WHERE version > 0 AND NOT EXISTS (SELECT 1 FROM {{corpus.changes}} c
            WHERE c.tenant = t.number AND c.version = t.version AND c.id < 0)"""


def _statements(corpus: Corpus) -> tuple[str, ...]:
    return (
        _FUNCTION.format(corpus=corpus),
        f"DROP TRIGGER IF EXISTS {corpus.sums}_mark ON {corpus.sums}",
        _TRIGGER.format(corpus=corpus),
    )


STATEMENTS = (*_statements(MEMORIES), *_statements(CHUNKS))
"""SQL that creates the functions and triggers for the marks; it may run again."""
FIRST = tuple(_FIRST.format(corpus=corpus) for corpus in (MEMORIES, CHUNKS))
"""Mark the versions that have no mark yet."""
ARE_THERE = (
    "SELECT count(*) = 2 FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ?"
    f" AND t.tgname IN ('{MEMORIES.sums}_mark', '{CHUNKS.sums}_mark')"
)
"""SQL of whether a schema has what makes the marks."""

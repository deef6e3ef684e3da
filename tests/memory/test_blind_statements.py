"""What is read off a statement: where its texts belong, and which statements a blind memory cannot have."""

from __future__ import annotations

import pytest

from shepherd.encryption import MemoryKey
from shepherd.encryption.blinding import PREFIX, DerivedKeys
from shepherd.memory.postgres.blind import BlindColumns
from shepherd.memory.postgres.blind_columns import COLUMNS, REFUSED
from shepherd.memory.postgres.blind_statements import plan_of
from shepherd.memory.schema import SHARED

COLUMNS_OF_TEXT = BlindColumns(DerivedKeys(MemoryKey(b"k" * 32, b"s" * 16)), "postgresql://host/")


def sent(statement: str, *parameters: object, user: str = "anna") -> list[object]:
    """Return the parameters as a server gets them."""
    _, rows, _ = COLUMNS_OF_TEXT.hidden(statement, [parameters], user)
    return list(rows[0])


def hidden(statement: str, *parameters: object, user: str = "anna") -> list[bool]:
    """Return which of the texts a server gets only as ciphertext."""
    return [
        isinstance(one, str) and one.startswith(PREFIX) for one in sent(statement, *parameters, user=user)
    ]


@pytest.mark.parametrize(
    ("statement", "parameters", "expected"),
    [
        ("INSERT INTO facts(user_id, key, value) VALUES(?, ?, ?)", ("a", "b", "c"), [False, True, True]),
        (
            "INSERT INTO facts(user_id, key, value) VALUES(?, ?, ?)"
            " ON CONFLICT(user_id, key) DO UPDATE SET value = excluded.value",
            ("a", "b", "c"),
            [False, True, True],
        ),
        ("SELECT 1 FROM facts WHERE user_id = ?1 AND key IN (?2, ?3)", ("a", "b", "c"), [False, True, True]),
        (
            "UPDATE messages SET raw = ? WHERE id = ? AND session_id = ? AND role = ?",
            ("a", 7, "b", "user"),
            [True, False, False, False],
        ),
        (
            "SELECT 1 FROM facts f JOIN learned l ON f.key = l.key WHERE l.former = ? AND l.key = ?",
            ("a", "b"),
            [True, True],
        ),
        ("DELETE FROM ledger WHERE hash IN (SELECT hash FROM ledger WHERE user_id = ?)", ("a",), [False]),
        ("SELECT CASE id WHEN ?1 THEN 0 WHEN ?2 THEN 1 END FROM sessions", ("a", "b"), [False, False]),
        (
            "SELECT 1 FROM facts JOIN learned l ON true WHERE l.former = ? AND l.key = ?",
            ("a", "b"),
            [True, True],
        ),
        ("SELECT value FROM meta WHERE key = ?", ("a",), [False]),
        ("UPDATE sessions SET title = ? WHERE id = ?", ("a", "b"), [True, False]),
        ("UPDATE sessions SET title = ? WHERE id = ?", ("", "b"), [False, False]),
    ],
)
def test_texts_of_hidden_columns_are_sent_as_ciphertext(
    statement: str, parameters: tuple[object, ...], expected: list[bool]
) -> None:
    assert hidden(statement, *parameters) == expected


def test_a_text_is_of_the_user_that_the_statement_names() -> None:
    statement = "SELECT 1 FROM facts WHERE user_id = ? AND key = ?"
    [_, of_anna] = sent(statement, "anna", "city", user="bob")

    assert of_anna == sent("SELECT 1 FROM facts WHERE key = ?", "city", user="anna")[0]
    assert of_anna != sent("SELECT 1 FROM facts WHERE key = ?", "city", user="bob")[0]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT id FROM messages WHERE raw LIKE ?",
        "SELECT id FROM messages WHERE raw LIKE '%a%'",
        "SELECT key FROM facts WHERE key > ?",
        "SELECT key FROM facts WHERE key BETWEEN 'a' AND ?",
        "SELECT key FROM facts WHERE value = 'yes' AND key = ?",
        "SELECT key FROM facts WHERE user_id = ? ORDER BY key LIMIT 3",
        "SELECT value FROM facts WHERE user_id = ? ORDER BY key",
        # Which of the two is meant decides whether it is hidden.
        "SELECT 1 FROM facts JOIN meta ON true WHERE value = ?",
        "SELECT 1 FROM meta, facts WHERE facts.value = ?",
        "SELECT 1 FROM meta m, facts f WHERE f.value = ?",
        # No column to be seen.
        "SELECT id FROM messages WHERE coalesce(raw, '') = coalesce(?, '')",
        "SELECT ?, id FROM messages",
        # Which row the text is of.
        "UPDATE messages SET raw = ? WHERE id = 7",
        "INSERT INTO facts(user_id, key, value) VALUES('anna', '', ?)",
        "SELECT id FROM facts f JOIN learned l ON true WHERE f.key = 'a' AND l.former = ?",
        "SELECT user_message FROM context WHERE user_id = ? UNION SELECT source FROM context",
        "SELECT DISTINCT title FROM sessions WHERE user_id = ?",
    ],
)
def test_a_statement_that_cannot_work_or_is_not_understood_sends_no_text(statement: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        sent(statement, "canary")


def test_a_text_of_nobody_is_not_sent() -> None:
    with pytest.raises(ValueError, match="a text of nobody"):
        sent("UPDATE sessions SET title = ? WHERE id = ?", "canary", "b", user="")


def test_rows_are_sorted_here_by_what_the_server_cannot_read() -> None:
    statement = "SELECT key, value FROM facts WHERE user_id = ? ORDER BY key"
    plan = plan_of(statement)
    assert plan is not None
    texts = [("b", "1"), ("ab", "2"), ("", "3")]
    insert = "INSERT INTO facts(key, value) VALUES(?, ?)"
    rows = [tuple(sent(insert, *row)) for row in texts]

    assert COLUMNS_OF_TEXT.shown(plan, rows, ("anna",), "") == [("", "3"), ("ab", "2"), ("b", "1")]


@pytest.mark.parametrize(
    ("statement", "expected", "row"),
    [
        ("SELECT title FROM sessions", "SELECT id, title FROM sessions", ["s1"]),
        ("SELECT title, id FROM sessions", "SELECT title, id FROM sessions", []),
        (
            "SELECT s.user_id, m.raw FROM messages m JOIN sessions s ON s.id = m.session_id",
            "SELECT m.session_id, m.role, s.user_id, m.raw FROM messages m"
            " JOIN sessions s ON s.id = m.session_id",
            ["s1", "user"],
        ),
        (
            "DELETE FROM context WHERE id IN (SELECT id FROM context WHERE id = ?)"
            " RETURNING CAST(user_message AS TEXT)",
            "DELETE FROM context WHERE id IN (SELECT id FROM context WHERE id = ?)"
            " RETURNING id, CAST(user_message AS TEXT)",
            [7],
        ),
        # The id of the inner SELECT is another row's.
        (
            "SELECT user_message FROM context WHERE user_id = (SELECT user_id FROM context WHERE id = ?)",
            "SELECT id, user_message FROM context WHERE user_id = (SELECT user_id FROM context WHERE id = ?)",
            [7],
        ),
    ],
)
def test_what_names_a_row_is_asked_for_too_and_not_shown(
    statement: str, expected: str, row: list[object]
) -> None:
    plan = plan_of(statement)
    assert plan is not None
    assert plan.statement == expected
    assert plan.n_added == len(row)
    shown = COLUMNS_OF_TEXT.shown(plan, [(*row, *[None] * (len(plan.results) - len(row)))], (9,), "anna")
    assert shown == [(None,) * (len(plan.results) - len(row))]


def test_copied_rows_are_of_the_user_that_they_name() -> None:
    columns = "user_id, key, value"
    [row] = COLUMNS_OF_TEXT.copied("facts", columns, [("anna", "city", "Lisbon")], "")

    assert list(row) == sent(f"INSERT INTO facts({columns}) VALUES(?, ?, ?)", "anna", "city", "Lisbon")


def test_every_column_with_text_is_hidden_refused_or_known_to_be_readable() -> None:
    readable = {
        "api_keys": {"hash", "id", "owner", "scopes", "label"},
        "context": {"user_id", "source", "session"},
        "extraction_jobs": {"user_id", "session_id", "message_ids", "state", "owner", "given"},
        "fact_history": {"user_id", "source", "session_id"},
        "facts": {"user_id"},
        "learned": {"user_id", "kind", "session_id", "state"},
        "ledger": {"user_id"},
        "messages": {"session_id", "role"},
        "meta": {"key"},
        "session_entities": {"session_id"},
        "session_summaries": {"session_id"},
        "sessions": {"id", "user_id", "model"},
        "tenants": {"user_id"},
    }
    for statement in SHARED:
        table, _, columns = statement.removeprefix("CREATE TABLE ").partition("(")
        if not statement.startswith("CREATE TABLE") or table in REFUSED:
            continue
        texts = {line.split()[0] for line in columns.splitlines() if " TEXT" in line or " BLOB" in line}
        texts |= {"key"} if table == "meta" else set()
        plain = {name for name in texts if not COLUMNS[table][name].is_hidden}
        assert plain == readable.get(table, set()), table

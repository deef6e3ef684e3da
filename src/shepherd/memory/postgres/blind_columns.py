"""Which columns a blind memory hides from its server, and how; which tables it does not fill at all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from shepherd.memory.schema import SHARED

__all__ = [
    "COLUMNS",
    "PLAIN",
    "REFUSED",
    "WITH_TEXTS",
    "Kind",
    "TextTable",
    "have_hidden",
    "kind_of",
    "owners_of",
    "tables_in",
]

Form = Literal["plain", "same", "random", "bytes", "words", "number", "refused"]


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of a column are stored.

    Columns of one name hold texts that are compared with one another, or copied by the server. form: "same":
    equal texts of one user have equal values; "random": they have not; "bytes": random; "words": hashes,
    which are never read back; "number": another number; "refused": not at all. rows: columns of the same row
    that are authenticated along with a value, so that it cannot be moved to another one; of_memory: the first
    of them is the id of a memory, which has its user's number. before: the name in the first version, whose
    values are of no row.
    """

    form: Form
    name: str = ""
    of_user: bool = True
    rows: tuple[str, ...] = ()
    before: str = ""
    of_memory: bool = False

    @property
    def is_hidden(self) -> bool:
        """True if the server gets other values than those above it."""
        return self.form not in ("plain", "refused")


PLAIN = Kind("plain")
# A key is compared with that of its history and of what was learned, and so is its value. The key in turn
# is what the value is bound to: facts have no ids.
_KEY = Kind("same", "key", before="key or question")
_VALUE = Kind("same", "value", rows=("key",), before="value or answer")
_WORDS = Kind("words")
_OF_MESSAGE = ("session_id", "role")

_HIDDEN: dict[str, dict[str, Kind]] = {
    "context": {
        "user_message": Kind("same", "question", rows=("id",), before="key or question", of_memory=True),
        "assistant_response": Kind("same", "answer", rows=("id",), before="value or answer", of_memory=True),
        # It can be computed from a guessed text.
        "content_hash": Kind("same", "hash of a memory"),
        # Of words: whoever guesses a word can look for it in both.
        "label": Kind("number", rows=("id",), of_memory=True),
        # of_user: in memories whose users have no keys, those of all users have the same one.
        "pairs": Kind("bytes", "pairs", of_user=False, rows=("id",), of_memory=True),
    },
    "context_terms": {"terms": _WORDS, "repeated": _WORDS},
    "chunk_terms": {"terms": _WORDS, "repeated": _WORDS},
    "facts": {"key": _KEY, "value": _VALUE},
    "fact_history": {"key": _KEY, "value": _VALUE, "statement": Kind("random", "statement", rows=("key",))},
    "learned": {
        "key": _KEY,
        # Not _VALUE: what was only proposed must not become a fact.
        "value": Kind("same", "learned value", rows=("key",), before="value or answer"),
        "former": _VALUE,
        "statement": Kind("random", "learned statement", rows=("number",), before="statement"),
        "undo": Kind("random", "undo", rows=("number",)),
    },
    "sessions": {"title": Kind("random", "title", rows=("id",))},
    # Their ids are given by the server, when they are encrypted already.
    "messages": {
        "raw": Kind("random", "message", rows=_OF_MESSAGE),
        "sent": Kind("random", "message as sent", rows=_OF_MESSAGE),
        "injected": Kind("random", "tail", rows=_OF_MESSAGE),
        "token_ids": Kind("bytes", "tokens", rows=_OF_MESSAGE),
        "tool_calls": Kind("random", "calls", rows=_OF_MESSAGE),
        "tool_call_id": Kind("random", "call", rows=_OF_MESSAGE),
        "thought": Kind("random", "thought", rows=_OF_MESSAGE),
    },
    "session_entities": {"record": Kind("random", "entities", rows=("session_id", "id"))},
    "session_summaries": {"pieces": Kind("random", "summary", rows=("session_id",))},
    "ledger": {"hash": Kind("same", "hash of a request"), "note": Kind("random", "note", rows=("hash",))},
    "extraction_jobs": {
        "lines": Kind("random", "lines", rows=("message_ids",)),
        "error": Kind("random", "error"),
    },
}


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table with texts: what names its rows, and its texts. `of_session`: its rows name no user.

    `bytes`: those of the texts that are bytes. `more`: if the texts name the rows themselves, the other
    columns, since each row is inserted again.
    """

    name: str
    row: tuple[str, ...]
    texts: tuple[str, ...]
    of_session: bool = False
    is_paged: bool = False
    bytes: tuple[str, ...] = ()
    more: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The table as `t`, and what has the user of its rows."""
        joined = " JOIN sessions s ON s.id = t.session_id" if self.of_session else ""
        return f"FROM {self.name} t{joined}"

    @property
    def user(self) -> str:
        """The column with the user."""
        return "s.user_id" if self.of_session else "t.user_id"


WITH_TEXTS = (
    TextTable("context", ("id",), ("user_message", "assistant_response", "content_hash"), is_paged=True),
    TextTable("facts", (), ("key", "value"), more=("created_at", "updated_at", "valid_from")),
    TextTable("fact_history", ("id",), ("key", "value", "statement"), is_paged=True),
    TextTable("learned", ("number",), ("key", "value", "former", "statement", "undo"), is_paged=True),
    TextTable("sessions", ("id",), ("title",)),
    TextTable(
        "messages",
        ("id", "session_id", "role"),
        ("raw", "sent", "injected", "token_ids", "tool_calls", "tool_call_id", "thought"),
        of_session=True,
        is_paged=True,
        bytes=("token_ids",),
    ),
    TextTable("session_entities", ("session_id", "id"), ("record",), of_session=True),
    TextTable("session_summaries", ("session_id",), ("pieces",), of_session=True),
    TextTable("ledger", (), ("hash", "note"), more=("used_at",)),
    TextTable("extraction_jobs", ("id", "message_ids"), ("lines", "error"), is_paged=True),
)
"""The tables with texts; label, pairs and terms of memories are computed from these."""
# Tables of features that a blind memory does not have (yet), and what they are.
REFUSED = {
    **dict.fromkeys(
        ("nodes", "edges", "dimensions", "node_dimensions", "focused_nodes", "chunks", "chunk_terms"),
        "documents, notes or other knowledge",
    ),
    **dict.fromkeys(("context_vectors", "chunk_vectors"), "vectors"),
    "trace": "traces",
}
_TYPED = re.compile(r"[(,]\s*(\w+) (INTEGER|INT|SMALLINT|REAL|TEXT|BLOB)\b")
# Types by column, of each table of both engines.
_TYPES = {
    found[1]: dict(_TYPED.findall(statement))
    for statement in SHARED
    if (found := re.match(r"CREATE TABLE (\w+)\(", statement))
}
_SHARED = {table: dict.fromkeys(types, PLAIN) for table, types in _TYPES.items()}
_OWN = {
    table: dict.fromkeys(("id", "timestamp", "doc_len", "usual", "counts", "tenant"), PLAIN)
    for table in ("context_terms", "chunk_terms")
}
_LATER = {"learned": {"number": PLAIN}, "sessions": {"rowid": PLAIN}}
_NOT_REFUSED = ("user_id", "path", "part", "kind", "index_state")
_NONE_OF_THEM = {
    table: {
        column: Kind("refused", REFUSED[table])
        for column, type_name in types.items()
        if type_name == "TEXT" and column not in _NOT_REFUSED
    }
    for table, types in _TYPES.items()
    if table in REFUSED
}
COLUMNS: dict[str, dict[str, Kind]] = {
    table: {
        **_SHARED.get(table, {}),
        **_OWN.get(table, {}),
        **_LATER.get(table, {}),
        **_HIDDEN.get(table, {}),
        **_NONE_OF_THEM.get(table, {}),
    }
    for table in (*_SHARED, *_OWN)
}
_TABLE = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(\w+)(?=(?:\s+(?:AS\s+)?(\w+))?)", re.IGNORECASE)
_WITH_HIDDEN = frozenset((*_HIDDEN, *_NONE_OF_THEM))
# A list of tables, which none of our statements has.
_LISTED = re.compile(r"\bFROM\s+\w+(?:\s+\w+)?\s*,\s*(\w+)", re.IGNORECASE)
_NO_ALIAS = frozenset(
    [
        "set",
        "where",
        "on",
        "order",
        "group",
        "left",
        "join",
        "union",
        "values",
        "using",
        "returning",
        "limit",
        "inner",
        "cross",
        "natural",
    ]
)


def tables_in(statement: str) -> dict[str, str]:
    """Return our tables in a statement, by their aliases and names.

    Raises ValueError for tables that are joined by a comma.
    """
    listed = [name for name in _LISTED.findall(statement) if name in COLUMNS]
    if listed:
        raise ValueError(f"{listed[0]} stands in a list of tables: write JOIN")
    found = {}
    for name, alias in _TABLE.findall(statement):
        if name in COLUMNS:
            found[name] = name
            if alias and alias.lower() not in _NO_ALIAS:
                found[alias] = name
    return found


def have_hidden(tables: dict[str, str]) -> bool:
    """Return whether one of these tables has a column that is hidden or refused."""
    return not _WITH_HIDDEN.isdisjoint(tables.values())


def kind_of(column: str, tables: dict[str, str]) -> Kind | None:
    """Return the kind of a column, perhaps with an alias before it; None if it is none of these tables.

    Raises ValueError if it could be columns of several kinds.
    """
    found = owners_of(column, tables)
    if len(set(found.values())) > 1:
        raise ValueError(f"{column} is of several kinds")
    return next(iter(found.values()), None)


def owners_of(column: str, tables: dict[str, str]) -> dict[str, Kind]:
    """Return the tables that a column, perhaps with an alias before it, can be of, and its kind in each."""
    alias, _, name = column.rpartition(".")
    if alias == "excluded":
        alias = ""
    owners = {tables[alias]} if alias in tables else set(tables.values())
    return {table: COLUMNS[table][name] for table in owners if name in COLUMNS[table]}

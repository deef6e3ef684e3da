"""Forgetting: copies of what is deleted, and the receipt of what was removed where.

The rows of a memory or a fact are deleted by their modules. Their texts are also in what was made of them:
tails of stored messages, results of tools, notes of the ledger, traces, and messages that wait to be learned
from. These functions remove them, inside the transaction of the deletion. What was typed and answered stays,
since a conversation is a thing of its own; `shepherd memory audit --canary WORD` finds it there.

Each forgetting is counted in `meta` with its transaction, and again once the files beside the database and
the log are clean. If the numbers differ, a process was killed in between, and the next one finishes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from shepherd.memory import extraction_jobs, tenants
from shepherd.transactions import Connection, is_blind
from shepherd.types import Injection
from shepherd.wording import mentions

__all__ = [
    "FACTS",
    "MEMORIES",
    "MESSAGES",
    "Receipt",
    "copies_of_chunks",
    "copies_of_memories",
    "copies_of_values",
    "count",
    "is_finished",
    "mark_finished",
    "note",
]

# A search for something in a text; its result counts as true or false.
_Search = Callable[[str], object]

# Names in a receipt of what is removed by other modules.
MEMORIES = "memories"
FACTS = "values of facts"
MESSAGES = "messages of conversations"
# Keys in `meta` of the number of forgettings, and of those after which everything was cleaned.
_FORGOTTEN, _FINISHED = "forgotten", "forgotten_finished"
_PAGE = 500
# A few ids are looked for by SQL, more by reading every tail.
_FEW = 8
_MOST_VALUES = 30
# Words or characters of a text that nobody else is likely to have said.
_TELLING_WORDS, _TELLING_CHARS = 3, 16
# Characters of a long text that are looked for: tools show its beginning.
_BEGINNING = 200
_SIZE = tenants.MESSAGE_BYTES_SQL
# Of a message: the texts of a blind memory are bound to its conversation and role.
_AT_PLACE = "WHERE id = ? AND session_id = ? AND role = ?"
# The parts of a note of the ledger that are made of memory; the rest says where its conversation is stored.
_OF_MEMORY = frozenset(("tail", "parts", "hubs", "blocks", "workflows", "summary", "summed"))
_REMOVED = "[forgotten]"


@dataclass(slots=True)
class Receipt:
    """Result of a deletion: numbers of rows by place, and files; `left` names what it couldn't reach."""

    removed: Counter[str] = field(default_factory=Counter)
    files: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


# ---- the count of forgettings


def note(connection: Connection) -> None:
    """Count a forgetting, in the transaction that deletes."""
    connection.execute(
        "INSERT INTO meta(key, value) VALUES(?, 1) ON CONFLICT(key) DO UPDATE SET value = meta.value + 1",
        (_FORGOTTEN,),
    )


def count(connection: Connection) -> int:
    """Return the number of forgettings; a copy that was made before the last one may have what is gone."""
    return _value(connection, _FORGOTTEN)


def is_finished(connection: Connection) -> bool:
    """Return whether files and log were cleaned after the last forgetting."""
    return count(connection) == _value(connection, _FINISHED)


def mark_finished(connection: Connection, number: int) -> None:
    """Record that files and log are clean of what was deleted up to that number."""
    connection.execute(
        "INSERT INTO meta(key, value) VALUES(?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value",
        (_FINISHED, number),
    )


def _value(connection: Connection, key: str) -> int:
    rows = connection.execute("SELECT value FROM meta WHERE key = ?", (key,))
    return int(rows[0][0]) if rows else 0


# ---- copies


def copies_of_memories(
    connection: Connection,
    user_id: str,
    forgotten: Sequence[tuple[int, str, str]],
    *,
    withdraw: bool = True,
) -> Counter[str]:
    """Remove all copies of memories, given as (id, question, answer); return how many were where.

    Without `withdraw` messages that wait to be learned from keep waiting, whatever they say.
    """
    if not forgotten:
        return Counter()
    ids = {memory_id for memory_id, _, _ in forgotten}

    def is_meant(parts: dict[str, Any], sent: str) -> bool:
        return any(result.get("id") in ids for result in parts.get("results", ()))

    # As json.dumps writes them, without blanks.
    likes = [f'%"id":{memory_id},%' for memory_id in ids] if len(ids) <= _FEW else []
    return Counter(
        {
            "messages with appended memory": _drop_tails(connection, user_id, is_meant, likes),
            "results of tools": _drop_results(
                connection, user_id, _showing([both for _, *both in forgotten])
            ),
            "notes about requests": _strip_notes(connection, user_id),
            "entries of traces": _drop_traces(
                connection,
                user_id,
                ("path LIKE '%/tail/context/%/id' AND value = ?", [str(one) for one in ids]),
            ),
            "messages waiting to be learned from": _withdraw(
                connection, user_id, _repeating([question for _, question, _ in forgotten])
            )
            if withdraw
            else 0,
        }
    )


def _is_telling(text: str) -> bool:
    """Return whether a text that has this one most likely has it from there: not so with `ok` and `34`."""
    return len(text.split()) >= _TELLING_WORDS or len(text) >= _TELLING_CHARS


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _naming(text: str) -> _Search:
    """Return a search for a text as whole words, or for the beginning of a long one, in plain text."""
    beginning = text[:_BEGINNING].rpartition(" ")[0] if len(text) > _BEGINNING else text
    beginning = beginning or text[:_BEGINNING]
    # Most texts have it nowhere, which is faster to find out this way.
    return lambda where: beginning in where and (len(text) > _BEGINNING or _has_words(beginning, where))


def _has_words(words: str, where: str) -> bool:
    search = mentions([words])
    return search is not None and bool(search(where))


def _showing(memories: Iterable[Sequence[str]]) -> _Search:
    """Return a search for texts that show one of the memories, given as question and answer.

    A memory of nothing but short texts is shown where both are.
    """
    telling: list[_Search] = []
    short: list[list[_Search]] = []
    for both in memories:
        texts = [plain for text in both if (plain := _plain(text))]
        found = [text for text in texts if _is_telling(text)]
        telling += map(_naming, found)
        if texts and not found:
            short.append([_naming(text) for text in texts])

    def shows(text: str) -> bool:
        text = _plain(text)
        return any(one(text) for one in telling) or any(all(one(text) for one in ones) for ones in short)

    return shows


def _listing(titles: Iterable[str]) -> _Search:
    """Return a search for texts with one of the titles, or with a line of its own for a short one."""
    texts = {plain for title in titles if (plain := _plain(title))}
    telling = [_naming(text) for text in texts if _is_telling(text)]

    def lists(text: str) -> bool:
        lines = [_plain(line) for line in text.splitlines()]
        return not texts.isdisjoint(lines) or any(one(" ".join(lines)) for one in telling)

    return lists


def _repeating(questions: Iterable[str]) -> _Search:
    """Return a search for messages that say what one of the questions says, or (if that is short) only it."""
    texts = {plain for question in questions if (plain := _plain(question))}
    telling = [_naming(text) for text in texts if _is_telling(text)]
    return lambda line: _plain(line) in texts or any(one(_plain(line)) for one in telling)


def copies_of_values(connection: Connection, user_id: str, values: Collection[str]) -> Counter[str]:
    """Remove all copies of the values of a fact; return how many were where."""
    has_value = mentions(values)
    if has_value is None:
        return Counter()

    def is_meant(parts: dict[str, Any], sent: str) -> bool:
        # The tail may show a long value shortened.
        texts = [parts.get("tail") or sent, *(fact.get("value", "") for fact in parts.get("facts", ()))]
        return any(map(has_value, texts))

    return Counter(
        {
            "messages with appended facts": _drop_tails(connection, user_id, is_meant),
            "results of tools": _drop_results(connection, user_id, has_value),
            "notes about requests": _strip_notes(connection, user_id),
            "entries of traces": _drop_traces(connection, user_id, _containing(values), has_value),
            "messages waiting to be learned from": _withdraw(connection, user_id, has_value),
        }
    )


def copies_of_chunks(
    connection: Connection, user_id: str, chunk_ids: Collection[int], titles: Collection[str]
) -> Counter[str]:
    """Remove all copies of deleted nodes, given by their chunks and titles; return how many were where."""
    # A focus or a system part does not say which nodes it showed.
    shown = {f"chunk:{chunk_id}" for chunk_id in chunk_ids} | {"focus", "changed"}
    has_title = mentions(titles)
    return Counter(
        {
            "messages with appended passages": _drop_tails(
                connection,
                user_id,
                lambda parts, sent: not shown.isdisjoint(parts.get("parts", ())),
                ['%"parts":["%'],
            ),
            "results of tools": _drop_results(connection, user_id, _listing(titles)),
            "notes about requests": _strip_notes(connection, user_id),
            "entries of traces": 0
            if has_title is None
            else _drop_traces(connection, user_id, _containing(titles), has_title),
        }
    )


def _drop_tails(
    connection: Connection,
    user_id: str,
    is_meant: Callable[[dict[str, Any], str], bool],
    likes: Sequence[str] = (),
) -> int:
    """Remove what was appended to messages for which `is_meant` (parts, text sent); return how many."""
    n_dropped = grown = 0
    for place, injected, sent, size in _messages(connection, user_id, "m.injected", likes):
        parts = json.loads(injected)
        if not is_meant(parts, sent or ""):
            continue
        composed = (sent or "")[: int(parts.get("composed", 0))]
        rest = {**asdict(Injection()), "composed": len(composed)} if composed else None
        [(after,)] = connection.execute(
            f"UPDATE messages SET sent = ?, injected = ? {_AT_PLACE} RETURNING {_SIZE}",
            (composed or None, json.dumps(rest, separators=(",", ":")) if rest else None, *place),
        )
        n_dropped += 1
        grown += after - size
    if n_dropped:
        tenants.add_message_bytes(connection, user_id, grown)
    return n_dropped


def _messages(
    connection: Connection, user_id: str, column: str, likes: Sequence[str], condition: str = ""
) -> Iterator[tuple[Any, ...]]:
    """Yield (place, column, sent, size) of the user's messages that have it, and match one of `likes`.

    `place` has the parameters of _AT_PLACE.
    """
    if is_blind(connection):
        # The server could only find what is equal. Whoever asks compares what is found anyway.
        likes = ()
    matching = " OR ".join([f"{column} LIKE ?"] * len(likes))
    which = f"{column} IS NOT NULL{condition}" + (f" AND ({matching})" if likes else "")
    after = 0
    while page := connection.execute(
        f"SELECT m.id, m.session_id, m.role, {column}, m.sent, {_SIZE} FROM messages m"
        " JOIN sessions s ON s.id = m.session_id"
        f" WHERE s.user_id = ? AND m.id > ? AND {which} ORDER BY m.id LIMIT {_PAGE}",
        (user_id, after, *likes),
    ):
        yield from ((tuple(row[:3]), *row[3:]) for row in page)
        after = page[-1][0]


def _drop_results(connection: Connection, user_id: str, is_meant: _Search) -> int:
    """Remove results of tool calls for whose text `is_meant`; return how many."""
    n_dropped = grown = 0
    for place, raw, _, size in _messages(connection, user_id, "m.raw", (), " AND m.role = 'tool'"):
        if not is_meant(_read(raw)):
            continue
        [(after,)] = connection.execute(
            f"UPDATE messages SET raw = ?, sent = NULL {_AT_PLACE} RETURNING {_SIZE}", (_REMOVED, *place)
        )
        n_dropped += 1
        grown += after - size
    if n_dropped:
        tenants.add_message_bytes(connection, user_id, grown)
    return n_dropped


def _read(result: str) -> str:
    """Return a result, with the texts in it as they read if it is JSON."""
    try:
        texts = list(_texts_in(json.loads(result)))
    except (ValueError, RecursionError):
        return result
    return "\n".join([result, *texts])


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        # A server of tools sends JSON as a text.
        yield _read(value) if value.startswith(("{", "[")) else value
    elif isinstance(value, dict):
        yield from value
        for one in value.values():
            yield from _texts_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts_in(one)


def _strip_notes(connection: Connection, user_id: str) -> int:
    """Remove what is made of memory from the notes of the ledger, which may be an excerpt of anything."""
    n_stripped = 0
    # Without the stored responses, which are long.
    which = "" if is_blind(connection) else " AND hash NOT LIKE 'resp\\_%' ESCAPE '\\'"
    rows = connection.execute(f"SELECT hash, note FROM ledger WHERE user_id = ?{which}", (user_id,))
    for key, text in rows:
        if key.startswith("resp_"):
            continue
        parts = json.loads(text)
        if _OF_MEMORY.isdisjoint(parts):
            continue
        kept = {name: part for name, part in parts.items() if name not in _OF_MEMORY}
        connection.execute(
            "UPDATE ledger SET note = ? WHERE user_id = ? AND hash = ?",
            (json.dumps(kept, separators=(",", ":")), user_id, key),
        )
        n_stripped += 1
    return n_stripped


def _containing(texts: Iterable[str]) -> tuple[str, list[str]]:
    """Return the condition for values of traces that may have one of the texts: a part of each is compared.

    SQLite knows upper and lower case of the English letters alone.
    """
    parts = [max("".join(map(_without_case, text.strip())).split("\0"), key=len) for text in texts]
    escaped = [re.sub(r"([\\%_])", r"\\\1", part.lower()) for part in parts]
    return "kind = 0 AND lower(value) LIKE ? ESCAPE '\\'", [f"%{part}%" for part in dict.fromkeys(escaped)]


def _without_case(character: str) -> str:
    """Return a character that SQLite compares whatever its case; a zero for others."""
    return character if character.isascii() or character.lower() == character.upper() else "\0"


def _drop_traces(
    connection: Connection, user_id: str, which: tuple[str, list[str]], is_meant: _Search | None = None
) -> int:
    """Delete all traces of the conversations in which a row meets the condition; return how many rows.

    `is_meant` decides about the value of such a row. All of them: the text of a prompt has the turns before.
    """
    if is_blind(connection):
        return 0  # it has none, and the server must not see the words
    condition, parameters = which
    roots: set[str] = set()
    for start in range(0, len(parameters), _MOST_VALUES):
        some = parameters[start : start + _MOST_VALUES]
        rows = connection.execute(
            "SELECT path, value FROM trace"
            f" WHERE user_id = ? AND ({' OR '.join([f'({condition})'] * len(some))})",
            (user_id, *some),
        )
        for path, value in rows:
            root = "/".join(path.split("/")[:3])
            if root not in roots and (is_meant is None or is_meant(value)):
                roots.add(root)
    n_dropped = 0
    for root in roots:
        n_dropped += len(
            connection.execute(
                "DELETE FROM trace WHERE user_id = ? AND path >= ? AND path < ? RETURNING 1",
                (user_id, f"{root}/", f"{root}0"),
            )
        )
    return n_dropped


def _withdraw(connection: Connection, user_id: str, is_meant: _Search) -> int:
    """Take the messages that are meant, in lower case with single blanks, out of the jobs that wait."""
    meant = [
        message_id
        for job in extraction_jobs.of_user(connection, user_id)
        for message_id, line in zip(job.message_ids, job.lines, strict=True)
        if is_meant(" ".join(line.split()).casefold())
    ]
    if meant:
        extraction_jobs.withdraw(connection, user_id, meant)
    return len(meant)

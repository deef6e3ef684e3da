"""Stored conversations: messages with the text typed, the text sent and what was injected, and turn traces.

A trace is written by shepherd.trace; here it is only deleted or moved with its session. The id of a session
is hexadecimal and stands in the path of a trace as it is. Its length tells apart a single question, such
as by -e, which is not what --continue means. Inside the caller's transaction.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from shepherd._native.text import folded
from shepherd.errors import ConflictError, UsageError
from shepherd.escaping import storable, without_blocks
from shepherd.memory import extraction_jobs, forgetting, learned, ledger, memories, tenants
from shepherd.memory.memories import TermIndex
from shepherd.memory.records import OpenJob, SessionMark, SessionSummary
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.pictures import without_pictures
from shepherd.transactions import Connection, is_blind
from shepherd.types import Fact, FocusedNode, Injection, Message, RecalledPassage, SearchResult, ToolCall

__all__ = [
    "answer_again",
    "append",
    "clear",
    "clear_traces",
    "count",
    "delete_from",
    "delete_last_turn",
    "drop_oldest",
    "find",
    "have_traces",
    "load",
    "mark",
    "move_traces",
    "rename",
    "size_of",
    "start",
    "summaries",
    "title_of",
]

_ID_BYTES = 8
# A length that no other id has: those of named sessions have 32 digits.
_ONE_OFF_BYTES = 9
_SIZE = tenants.MESSAGE_BYTES_SQL


def start(
    connection: Connection,
    user_id: str,
    model: str,
    now: int,
    name: str = "",
    is_one_off: bool = False,
    marked: SessionMark | None = None,
) -> str:
    """Start a conversation and return its id; with a name, return the one of this name if there is one.

    `is_one_off`: it is a single question. Raises ConflictError if the user was deleted since the mark.
    """
    _require_kept(connection, user_id, marked)
    known = find(connection, user_id, name) if name else None
    if known is not None:
        return known
    tenants.ensure(connection, user_id)
    n_bytes = _ONE_OFF_BYTES if is_one_off else _ID_BYTES
    session_id = _digest(name) + _digest(user_id, name) if name else secrets.token_hex(n_bytes)
    if name and connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)):
        # Another user has claimed the session of this name.
        session_id = _digest(name) + secrets.token_hex(_ID_BYTES)
    connection.execute(
        "INSERT INTO sessions(id, user_id, model, created_at, updated_at) VALUES(?, ?, ?, ?, ?)",
        (session_id, user_id, model, now, now),
    )
    return session_id


def find(connection: Connection, user_id: str, name: str) -> str | None:
    """Return the id of the user's conversation that has this id, or was started with this name.

    Another user from whom it was claimed may have started it. Of several, the one that this user has started
    comes first, then the oldest.
    """
    # Ids are one set for all users. The id of a session with a name begins with the name's digest, whoever
    # claims it; the rest keeps users apart. Older ids are only the latter.
    of_name, of_user = _digest(name), _digest(user_id, name)
    rows = connection.execute(
        "SELECT id FROM sessions WHERE user_id = ?1 AND (id IN (?2, ?3) OR id BETWEEN ?4 AND ?5)"
        " ORDER BY CASE id WHEN ?2 THEN 0 WHEN ?3 THEN 1 WHEN ?6 THEN 2 ELSE 3 END, rowid LIMIT 1",
        (user_id, name, of_user, of_name + "0", of_name + "g", of_name + of_user),
    )
    return rows[0][0] if rows else None


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[: 2 * _ID_BYTES]


_SAID = "s.user_id = ?1 AND EXISTS (SELECT 1 FROM messages WHERE session_id = s.id)"
# A single question is a conversation once it was continued.
_CONVERSED = (
    f"{_SAID} AND (length(s.id) <> {2 * _ONE_OFF_BYTES} OR s.title <> ''"
    " OR (SELECT count(*) FROM messages WHERE session_id = s.id AND role = 'user') > 1)"
)
# Times are whole seconds: of two conversations in the same one, the later message tells.
_LATEST = "ORDER BY s.updated_at DESC, (SELECT max(id) FROM messages WHERE session_id = s.id) DESC"
_TITLE_CHARS = 200
# Conversations that are searched at once; a statement takes 64 parameters.
_SEARCHED_AT_ONCE = 60


def summaries(
    connection: Connection,
    user_id: str,
    limit: int,
    offset: int = 0,
    words: str = "",
    one_offs: bool = True,
) -> list[SessionSummary]:
    """Return conversations with messages, the latest first; with `words` those in which these were said.

    A conversation has the words if its title or a message that was typed or answered contains them, whatever
    their case and accents. That reads all messages of the user. Without `one_offs` those of a question asked
    alone are left out, unless they were continued or given a title. Secrets in titles are covered.
    """
    said = _SAID if one_offs else _CONVERSED
    if words:
        found = _mentioning(connection, user_id, words, said)[offset : offset + limit]
        return [one for some in _parts(found) for one in _summarized(connection, user_id, some)]
    rows = connection.execute(
        f"SELECT s.id FROM sessions s WHERE {said} {_LATEST} LIMIT {limit:d} OFFSET {offset:d}", (user_id,)
    )
    return [
        one for some in _parts([row[0] for row in rows]) for one in _summarized(connection, user_id, some)
    ]


def count(connection: Connection, user_id: str, words: str = "", one_offs: bool = True) -> int:
    """Return the number of conversations that `summaries` would return without a limit."""
    said = _SAID if one_offs else _CONVERSED
    if words:
        return len(_mentioning(connection, user_id, words, said))
    return int(connection.execute(f"SELECT count(*) FROM sessions s WHERE {said}", (user_id,))[0][0])


def rename(connection: Connection, user_id: str, session_id: str, title: str) -> None:
    """Give a conversation a title; with "" its first message is the title again."""
    _require(connection, user_id, session_id)
    connection.execute("UPDATE sessions SET title = ? WHERE id = ?", (title, session_id))


def title_of(connection: Connection, user_id: str, session_id: str) -> str:
    """Return the title of a conversation, or the beginning of its first message, with secrets covered."""
    found = _summarized(connection, user_id, [session_id])
    return found[0].title if found else ""


def model_of(connection: Connection, user_id: str, session_id: str) -> str:
    """Return the name of the model that a conversation was begun with; "" if there is none."""
    rows = connection.execute(
        "SELECT model FROM sessions WHERE user_id = ? AND id = ?", (user_id, session_id)
    )
    return str(rows[0][0]) if rows else ""


def _summarized(connection: Connection, user_id: str, ids: Sequence[str]) -> list[SessionSummary]:
    rows = connection.execute(
        "SELECT s.id, s.model, s.created_at, s.updated_at,"
        " (SELECT count(*) FROM messages m WHERE m.session_id = s.id),"
        f" s.title, substr(f.raw, 1, {2 * _TITLE_CHARS}), f.session_id, f.role"
        " /* =7: messages.raw */"
        " FROM sessions s LEFT JOIN messages f ON f.id = (SELECT min(m.id) FROM messages m"
        " WHERE m.session_id = s.id AND m.role = 'user')"
        f" WHERE s.user_id = ? AND s.id IN ({', '.join('?' * len(ids))}) {_LATEST}",
        (user_id, *ids),
    )
    return [
        SessionSummary(one, model, created_at, updated_at, n_messages, _without_secrets(title or first or ""))
        for one, model, created_at, updated_at, n_messages, title, first, *_ in rows
    ]


@lru_cache(1024)
def _without_secrets(title: str) -> str:
    # Not at the top: it takes a tenth of a second to load.
    from shepherd.secret_detection import masked

    # A secret that the end of the title would cut is covered first.
    return masked(title, in_document=False)[0][:_TITLE_CHARS]


def _mentioning(connection: Connection, user_id: str, words: str, condition: str) -> list[str]:
    """Return the ids of the conversations that contain a text, the latest first."""
    wanted = folded(words)
    rows = connection.execute(f"SELECT s.id, s.title FROM sessions s WHERE {condition} {_LATEST}", (user_id,))
    found = {session_id for session_id, title in rows if wanted in folded(title)}
    for some in _parts([session_id for session_id, _ in rows if session_id not in found]):
        said = connection.execute(
            "SELECT session_id, raw FROM messages WHERE role IN ('user', 'assistant')"
            f" AND session_id IN ({', '.join('?' * len(some))})",
            some,
        )
        found.update(
            session_id for session_id, raw in said if session_id not in found and wanted in folded(raw)
        )
    return [session_id for session_id, _ in rows if session_id in found]


def _parts(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _SEARCHED_AT_ONCE):
        yield ids[start : start + _SEARCHED_AT_ONCE]


def size_of(message: Message) -> int:
    """Return about how many bytes a stored message takes."""
    n_more = sum(len(call.arguments) for call in message.tool_calls) + len(message.thought)
    return 3 * (len(message.sent) + n_more) + 4 * len(message.token_ids) + tenants.ROW_BYTES


def mark(connection: Connection, user_id: str, session_id: str, answered: int = 0) -> SessionMark:
    """Return the user's number, and the id of the last message of a conversation of this user, else 0.

    With the id of a message to be `answered` again: that id, or 0 if it was deleted or the user has said
    something since.
    """
    which = f" AND (m.id = {answered:d} OR (m.id > {answered:d} AND m.role = 'user'))" if answered else ""
    [(last,)] = connection.execute(
        "SELECT coalesce(max(m.id), 0) FROM messages m JOIN sessions s ON s.id = m.session_id"
        f" WHERE m.session_id = ? AND s.user_id = ?{which}",
        (session_id, user_id),
    )
    if answered and last != answered:
        last = 0
    return SessionMark(tenants.find(connection, user_id) or 0, last)


def append(
    connection: Connection,
    user_id: str,
    session_id: str,
    message: Message,
    now: int,
    job: OpenJob | None = None,
    marked: SessionMark | None = None,
) -> int:
    """Store a message and return its id; with a job, queue the text typed for extraction.

    Raises UsageError if this user has no such session, and ConflictError if what the mark says was deleted.
    """
    _require_kept(connection, user_id, marked, session_id)
    _require(connection, user_id, session_id)
    message = without_pictures(message)
    raw = storable(message.raw)
    [(message_id, size)] = connection.execute(
        "INSERT INTO messages(session_id, role, raw, sent, injected, token_ids, tokens, created_at,"
        " tool_calls, tool_call_id, thought)"
        f" VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id, {_SIZE}",
        (
            session_id,
            message.role,
            raw,
            *_as_sent(message),
            now,
            _dump_calls(message.tool_calls),
            storable(message.tool_call_id),
            storable(message.thought),
        ),
    )
    connection.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", (now, session_id))
    tenants.add_message_bytes(connection, user_id, size)
    if job is not None:
        extraction_jobs.add_line(connection, user_id, session_id, message_id, raw, job=job, now=now)
    return int(message_id)


def _as_sent(message: Message) -> tuple[str | None, str | None, bytes | None, int]:
    """Return what is stored of how the model saw a message: sent, injected, token_ids, tokens."""
    sent = storable(message.sent)
    return (
        None if sent == storable(message.raw) else sent,
        _dump(message.injected, len(storable(message.composed))),
        struct.pack(f"<{len(message.token_ids)}i", *message.token_ids) or None,
        message.tokens,
    )


def answer_again(
    connection: Connection,
    user_id: str,
    session_id: str,
    asked: Message | None,
    messages: Sequence[Message],
    now: int,
    terms: TermIndex,
    marked: SessionMark,
    remembered: tuple[str, str] | None,
) -> list[int] | None:
    """Store messages in place of all that follow the message of the mark, and return their ids.

    None, and nothing is changed, if the user has said something since. `asked` is the marked message as the
    model has seen it now, None if it isn't the user's. `remembered` are the question and the answer that will
    be remembered: a memory of this turn becomes that; with None it loses its answer.
    """
    _require_kept(connection, user_id, marked, session_id)
    _require(connection, user_id, session_id)
    answered = marked.last_message
    question = f"SELECT max(id) FROM messages WHERE session_id = ?1 AND role = 'user' AND id <= {answered:d}"
    rows = connection.execute(
        "SELECT id, role, raw FROM messages WHERE session_id = ?1"
        f" AND id >= coalesce(({question}), {answered:d}) ORDER BY id",
        (session_id,),
    )
    if any(role == "user" and message_id > answered for message_id, role, _ in rows):
        return None
    if asked is not None:
        _see_again(connection, user_id, session_id, answered, without_pictures(asked))
    removed = _delete(connection, user_id, f"session_id = ?1 AND id > {answered:d}", session_id)
    said = [(role, raw) for _, role, raw in rows if role in ("user", "assistant")]
    if removed:
        for made in _memories_of(connection, user_id, session_id, _turns(said), rows[0][0]):
            # With the answer that is gone, no later change of this turn would find it.
            _remember_as(connection, user_id, made, remembered or (made[1], ""), terms)
        _forget_derived(connection, session_id, min(removed))
    return [append(connection, user_id, session_id, message, now) for message in messages]


def _remember_as(
    connection: Connection,
    user_id: str,
    made: tuple[int, str, str],
    remembered: tuple[str, str],
    terms: TermIndex,
) -> None:
    """Give a memory other texts. It keeps its id, by which its copies are found when it is forgotten."""
    memory_id, *texts = made
    if tuple(texts) == remembered:
        return
    try:
        memories.edit(connection, memory_id >> SEQUENCE_BITS, memory_id, *remembered, terms)
    except UsageError:  # another memory says the same
        _forget_memories(connection, user_id, [made], terms)


def _see_again(
    connection: Connection, user_id: str, session_id: str, message_id: int, message: Message
) -> None:
    place = message_id, session_id, message.role
    at_place = "WHERE id = ? AND session_id = ? AND role = ?"
    [(before,)] = connection.execute(f"SELECT {_SIZE} FROM messages {at_place}", place)
    [(after,)] = connection.execute(
        f"UPDATE messages SET sent = ?, injected = ?, token_ids = ?, tokens = ? {at_place} RETURNING {_SIZE}",
        (*_as_sent(message), *place),
    )
    tenants.add_message_bytes(connection, user_id, after - before)


def load(connection: Connection, user_id: str, session_id: str | None) -> list[Message]:
    """Return the messages of a conversation of this user, oldest first; None is the latest with messages."""
    if not session_id:
        latest = connection.execute(
            f"SELECT s.id FROM sessions s WHERE {_SAID} {_LATEST} LIMIT 1", (user_id,)
        )
        session_id = latest[0][0] if latest else ""
    rows = connection.execute(
        "SELECT m.id, m.role, m.raw, m.sent, m.injected, m.token_ids, m.tokens, m.created_at,"
        " m.tool_calls, m.tool_call_id, m.thought"
        " FROM messages m JOIN sessions s ON s.id = m.session_id"
        " WHERE m.session_id = ? AND s.user_id = ? ORDER BY m.id",
        (session_id, user_id),
    )
    return [_message(row) for row in rows]


def said_at(connection: Connection, user_id: str, session_id: str, position: int = 0) -> int:
    """Return when the message at a position, counted from 1, was stored; 0: the newest of the user."""
    which = f"LIMIT 1 OFFSET {position - 1:d}" if position else "DESC LIMIT 1"
    said_by = "" if position else "AND m.role = 'user'"
    rows = connection.execute(
        "SELECT m.created_at FROM messages m JOIN sessions s ON s.id = m.session_id"
        f" WHERE m.session_id = ? AND s.user_id = ? {said_by} ORDER BY m.id {which}",
        (session_id, user_id),
    )
    return rows[0][0] if rows else 0


def delete_last_turn(connection: Connection, user_id: str, session_id: str, terms: TermIndex) -> list[int]:
    """Delete the newest user message and all after it, and return their ids.

    They leave their jobs too, and what was learned from them is deleted, unless it was changed since; so are
    the memories and the traces of their turns.
    """
    return _take_back(
        connection,
        user_id,
        session_id,
        "max(id) FROM messages WHERE session_id = ?1 AND role = 'user'",
        terms,
    )


def delete_from(
    connection: Connection,
    user_id: str,
    session_id: str,
    position: int,
    terms: TermIndex,
    last_known: int | None = None,
) -> list[int]:
    """Delete the message at a position, counted from 1, and all after it, as `delete_last_turn` does.

    Raises ConflictError if there are messages after position `last_known`.
    """
    if last_known is not None:
        [(n,)] = connection.execute("SELECT count(*) FROM messages WHERE session_id = ?", (session_id,))
        if n > last_known:
            raise ConflictError(
                f"the conversation has {n} messages, of which {last_known} are known",
                hint="read it again, and decide whether the new ones are to be deleted as well",
            )
    first = f"id FROM messages WHERE session_id = ?1 ORDER BY id LIMIT 1 OFFSET {position - 1:d}"
    return _take_back(connection, user_id, session_id, first, terms)


def _take_back(
    connection: Connection, user_id: str, session_id: str, first: str, terms: TermIndex
) -> list[int]:
    _require(connection, user_id, session_id)
    condition = f"session_id = ?1 AND id >= (SELECT {first})"
    said = connection.execute(
        f"SELECT role, raw FROM messages WHERE {condition} AND role IN ('user', 'assistant') ORDER BY id",
        (session_id,),
    )
    removed = _delete(connection, user_id, condition, session_id)
    texts = [text for role, text in said if role == "user"]
    ledger.forget_session(connection, user_id, session_id, texts)
    extraction_jobs.withdraw(connection, user_id, removed)
    extraction_jobs.take_back(connection, user_id, removed, terms)
    if removed:
        made = _memories_of(connection, user_id, session_id, _turns(said), min(removed))
        _forget_memories(connection, user_id, made, terms)
        _forget_derived(connection, session_id, min(removed))
        _forget_traces(connection, user_id, session_id, min(removed))
    return removed


def _turns(said: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the turns of (role, text), as Memory.archive_turn stores them: with an answer, and without."""
    # Not at the top: it takes a tenth of a second to load.
    from shepherd.secret_detection.unexplained import covered

    turns: set[tuple[str, str]] = set()
    question = ""
    for role, text in said:
        if role == "user":
            question = without_blocks(storable(text))
        answer = without_blocks(storable(text)).strip() if role == "assistant" else ""
        turns |= {(question, answer), (question, ""), covered(question, answer), covered(question, "")}
    return turns


def _memories_of(
    connection: Connection, user_id: str, session_id: str, turns: Collection[tuple[str, str]], first: int
) -> list[tuple[int, str, str]]:
    """Return the memories (id, question, answer) of these turns of a conversation that are not pinned.

    The turns begin with message `first`. One that ended in the second before it may say the same, and stays.
    """
    [(until,)] = connection.execute(
        "SELECT coalesce(max(created_at), 0) FROM messages WHERE session_id = ? AND id < ?",
        (session_id, first),
    )
    before = connection.execute(
        "SELECT role, raw FROM messages WHERE session_id = ? AND id < ? AND created_at = ? ORDER BY id",
        (session_id, first, until),
    )
    kept = _turns(before)
    rows = connection.execute(
        "SELECT c.id, c.user_message, c.assistant_response, c.timestamp FROM context c"
        f" JOIN tenants t ON t.user_id = ?1 WHERE c.id >> {SEQUENCE_BITS} = t.number"
        " AND c.timestamp >= ?2 AND c.session = ?3 AND c.source = 'turn' AND c.pinned = 0",
        (user_id, until, session_id),
    )
    return [
        (memory_id, question, answer)
        for memory_id, question, answer, at in rows
        if (question, answer) in turns and ((question, answer) not in kept or at > until)
    ]


def _forget_memories(
    connection: Connection, user_id: str, made: Sequence[tuple[int, str, str]], terms: TermIndex
) -> None:
    """Delete memories with all copies."""
    forgetting.copies_of_memories(connection, user_id, made, withdraw=False)
    for memory_id, *_ in made:
        memories.delete(connection, memory_id >> SEQUENCE_BITS, [memory_id], terms)


def _forget_derived(connection: Connection, session_id: str, first: int) -> None:
    """Delete the summaries with message `first`, and the entities, which are collected again."""
    connection.execute("DELETE FROM session_entities WHERE session_id = ?", (session_id,))
    connection.execute(
        "DELETE FROM session_summaries WHERE session_id = ? AND left_id >= ?", (session_id, first)
    )


def _forget_traces(connection: Connection, user_id: str, session_id: str, first: int) -> None:
    """Delete the traces of the turns from message `first` on."""
    if is_blind(connection):
        return  # it has no traces
    [(last,)] = connection.execute(  # the last answer that stays
        "SELECT coalesce(max(id), 0) FROM messages WHERE session_id = ? AND role = 'assistant' AND id < ?",
        (session_id, first),
    )
    root = f"/context/{session_id}"
    rows = connection.execute(
        "SELECT path, value FROM trace WHERE user_id = ? AND path >= ? AND path < ?"
        " AND (path LIKE '%/message_id' OR path LIKE '%/history/turns/%/turn_id')",
        (user_id, f"{root}/", f"{root}0"),
    )
    # A trace says which message it is of, if no earlier version wrote it, and which messages came before.
    turns = [
        path.split("/", 4)[3]
        for path, value in rows
        if value.isdecimal() and int(value) >= (first if path.endswith("/message_id") else last)
    ]
    if turns or not last:
        start = f"{root}/{min(turns)}/" if turns and last else f"{root}/"
        connection.execute(
            "DELETE FROM trace WHERE user_id = ? AND path >= ? AND path < ?", (user_id, start, f"{root}0")
        )


def clear(connection: Connection, user_id: str, session_id: str) -> int:
    """Delete all that is stored of a conversation but its row; return how many messages it had."""
    _require(connection, user_id, session_id)
    connection.execute("UPDATE sessions SET title = '' WHERE id = ?", (session_id,))
    for table in ("session_entities", "session_summaries"):
        connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
    _delete_traces(connection, user_id, session_id)
    ledger.forget_session(connection, user_id, session_id)
    learned.forget_session(connection, user_id, session_id)
    removed = _delete(connection, user_id, "session_id = ?1", session_id)
    extraction_jobs.withdraw(connection, user_id, removed)
    return len(removed)


def drop_oldest(connection: Connection, user_id: str) -> bool:
    """Delete the user's oldest conversation, unless it is the only one; return whether it did."""
    ids = connection.execute(
        "SELECT id FROM sessions WHERE user_id = ? ORDER BY updated_at, rowid LIMIT 2", (user_id,)
    )
    if len(ids) < 2:
        return False
    _delete(connection, user_id, "session_id = ?1", ids[0][0])
    _delete_traces(connection, user_id, ids[0][0])
    ledger.forget_session(connection, user_id, ids[0][0])
    connection.execute("DELETE FROM sessions WHERE id = ?", ids[0])
    return True


def _delete(connection: Connection, user_id: str, condition: str, session_id: str) -> list[int]:
    rows = connection.execute(f"DELETE FROM messages WHERE {condition} RETURNING id, {_SIZE}", (session_id,))
    tenants.add_message_bytes(connection, user_id, -sum(size for _, size in rows))
    return [message_id for message_id, _ in rows]


def _require(connection: Connection, user_id: str, session_id: str) -> None:
    if not connection.execute("SELECT 1 FROM sessions WHERE id = ? AND user_id = ?", (session_id, user_id)):
        # The same message for a session of another user.
        raise UsageError(f"there is no session {session_id!r}", hint="start a new one")


def _require_kept(
    connection: Connection, user_id: str, marked: SessionMark | None, session_id: str = ""
) -> None:
    """Raise ConflictError if the user, or the message that the mark names, was deleted since."""
    if marked is None:
        return
    if marked.tenant and tenants.find(connection, user_id) != marked.tenant:
        raise ConflictError("everything of this user was deleted meanwhile")
    if (
        session_id
        and marked.last_message
        and not connection.execute(
            "SELECT 1 FROM messages WHERE id = ? AND session_id = ?", (marked.last_message, session_id)
        )
    ):
        raise ConflictError("the conversation, or its end, was deleted meanwhile")


def _dump(injection: Injection | None, n_composed: int) -> str | None:
    """Return the tail's parts, and how many characters of the text sent were composed, if any."""
    if injection is None and not n_composed:
        return None
    parts = asdict(injection or Injection())
    del parts["past"]  # it is for the answer alone
    if n_composed:
        parts["composed"] = n_composed
    # ASCII: any text comes back as it was, surrogates included.
    return json.dumps(parts, separators=(",", ":"))


def _dump_calls(calls: Sequence[ToolCall]) -> str | None:
    if not calls:
        return None
    rows = [[call.id, call.name, call.arguments] + ([call.extra] if call.extra else []) for call in calls]
    return json.dumps(rows, separators=(",", ":"))


_Row = tuple[int, Any, str, "str | None", "str | None", "bytes | None", int, int, "str | None", str, str]


def _message(row: _Row) -> Message:
    message_id, role, raw, sent, injected, token_ids, tokens, created_at, calls, tool_call_id, thought = row
    injection, n_composed = _load(injected)
    return Message(
        role=role,
        raw=raw,
        sent=raw if sent is None else sent,
        injected=injection,
        token_ids=struct.unpack(f"<{len(token_ids) // 4}i", token_ids) if token_ids else (),
        tokens=tokens,
        id=message_id,
        created_at=created_at,
        tool_calls=tuple(ToolCall(*call) for call in json.loads(calls)) if calls else (),
        tool_call_id=tool_call_id,
        thought=thought,
        composed=(sent or "")[:n_composed],
    )


def _load(injected: str | None) -> tuple[Injection | None, int]:
    """Return the tail's parts, and how many characters of the text sent were composed."""
    if injected is None:
        return None, 0
    parts = json.loads(injected)
    injection = Injection(
        tail=parts["tail"],
        facts=tuple(Fact(**fact) for fact in parts["facts"]),
        results=tuple(SearchResult(**result) for result in parts["results"]),
        keywords=tuple(parts["keywords"]),
        recall_us=parts["recall_us"],
        parts=tuple(parts.get("parts", ())),
        # Earlier versions did not store them.
        passages=tuple(RecalledPassage(**one) for one in parts.get("passages", ())),
        nodes=tuple(FocusedNode(**one) for one in parts.get("nodes", ())),
    )
    return injection, int(parts.get("composed", 0))


# ---- traces


def _delete_traces(connection: Connection, user_id: str, session_id: str) -> None:
    root = f"/context/{session_id}"
    connection.execute(
        "DELETE FROM trace WHERE user_id = ? AND path >= ? AND path < ?", (user_id, f"{root}/", f"{root}0")
    )


def have_traces(connection: Connection) -> bool:
    """Return whether any user has traces."""
    return bool(connection.execute("SELECT 1 FROM trace LIMIT 1"))


def clear_traces(connection: Connection, user_id: str) -> bool:
    """Delete all traces of this user, or of another one if there are none; return whether there were any.

    Traces explain old answers, so they are deleted before anything that answers are made of, of any user.
    """
    rows = connection.execute("SELECT user_id FROM trace WHERE user_id = ? LIMIT 1", (user_id,))
    rows = rows or connection.execute("SELECT user_id FROM trace LIMIT 1")
    if rows:
        connection.execute("DELETE FROM trace WHERE user_id = ?", rows[0])
    return bool(rows)


def move_traces(connection: Connection, from_user: str, user_id: str) -> None:
    """Give a user's traces to another; at a path that both have, the other's stays."""
    connection.execute(
        "INSERT INTO trace(user_id, path, value, kind)"
        " SELECT ?, path, value, kind FROM trace WHERE user_id = ? ON CONFLICT(user_id, path) DO NOTHING",
        (user_id, from_user),
    )
    connection.execute("DELETE FROM trace WHERE user_id = ?", (from_user,))

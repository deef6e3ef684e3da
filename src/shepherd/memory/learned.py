"""The list of what was learned: each fact or memory with the sentence that it came from, and how to undo it.

A value that contradicts a fact that the user set becomes a proposal, which waits until it is accepted or
rejected, or until the fact changes otherwise. Undo restores the state before exactly, unless that was changed
again since. Inside the caller's transaction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from shepherd.errors import UsageError
from shepherd.memory import facts, memories
from shepherd.memory.cleared_facts import ClearedFact
from shepherd.memory.facts import NO_EVIDENCE, Change, Contradiction
from shepherd.memory.growing_lists import gained, without
from shepherd.memory.memories import Deleted, TermIndex
from shepherd.memory.periods import beginning, ending
from shepherd.memory.records import Claim, EndedValue, Evidence, ItemKind, LearnedItem
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.transactions import Connection
from shepherd.types import Fact, MemoryRecord
from shepherd.wording import mentions

__all__ = [
    "accept",
    "clear_fact",
    "counts",
    "end_facts",
    "forget_fact",
    "forget_messages",
    "forget_session",
    "items",
    "items_since",
    "keep",
    "learn_fact",
    "mark_shown",
    "move",
    "move_memory",
    "news",
    "note_change",
    "note_memory",
    "propose",
    "refused_values",
    "reject",
    "remove",
    "take_back",
    "trim",
    "undo",
    "was_undone",
]

SOURCE = "extraction"

# A proposal waits while the fact is what it was then; that is decided when it is read, so that setting a fact
# costs nothing more.
_STATE = (
    "CASE WHEN l.kind = 'proposed' AND l.state = 'new' AND NOT EXISTS (SELECT 1 FROM facts f"
    " WHERE f.user_id = l.user_id AND f.key = l.key AND f.value = l.former AND f.updated_at = l.base)"
    " THEN 'expired' ELSE l.state END"
)
_COLUMNS = "number, kind, key, value, former, statement, session_id, told_at"
_ITEMS = (
    f"SELECT {_COLUMNS}, state FROM (SELECT {_COLUMNS}, {_STATE} AS state FROM learned l"
    # Name the tables of these columns: `facts` has columns of the same names.
    " WHERE l.user_id = ?) AS i /* =1: learned.number */ /* =3: learned.key */ /* =4: learned.value */"
    " /* =5: learned.former */ /* =6: learned.statement */"
)
# An item by its user and the number that users see.
_ITEM = "user_id = ? AND number = ?"
_WAITING = "kind = 'proposed' AND state = 'new'"
# Keys in `meta` of the last item that was shown to a user, and of the last number, before the user's id.
_SHOWN, _LAST = "learned_shown/", "learned_last/"
# Rows of a user that are kept; those that wait are kept as well.
_KEPT = 2000
_LARGEST = (1 << 63) - 1
# A turn is archived within this time of its extraction.
_NEAR_S = 7 * 86_400
# Words that are left of a turn without a sentence; fewer are deleted with it.
_LEAST_WORDS = 3


# ---- learning


def learn_fact(
    connection: Connection, user_id: str, claim: Claim, *, since: int, told_at: int, evidence: Evidence
) -> list[int]:
    """Learn a claim, or propose it where it contradicts a fact that the user set; return the new items.

    What was undone or rejected is not learned from the same message again.
    """
    value = without(claim.key, claim.value, _refused(connection, user_id, evidence).added)
    if not value:
        return []
    claim = replace(claim, value=value)
    starts = beginning(claim.statement, claim.value, told_at, is_change=claim.changes)
    done = facts.learn(
        connection,
        user_id,
        claim,
        source=SOURCE,
        since=since,
        told_at=told_at,
        starts=starts,
        evidence=evidence,
    )
    return _noted(connection, user_id, done, evidence, told_at, starts)


def end_facts(
    connection: Connection, user_id: str, ended: EndedValue, *, told_at: int, evidence: Evidence
) -> list[int]:
    """End the facts whose value holds no longer; return the new items.

    An end that was undone or rejected does not come from the same message again.
    """
    starts = ending(ended.statement, ended.value, told_at)
    refused = _refused(connection, user_id, evidence)
    changes = facts.end(
        connection,
        user_id,
        ended,
        source=SOURCE,
        told_at=told_at,
        starts=starts,
        evidence=evidence,
        is_refused=refused.is_end,
    )
    return [
        item for change in changes for item in _noted(connection, user_id, change, evidence, told_at, starts)
    ]


def _noted(
    connection: Connection,
    user_id: str,
    done: Change | Contradiction | None,
    evidence: Evidence,
    told_at: int,
    starts: int,
) -> list[int]:
    if isinstance(done, Change):
        return [note_change(connection, user_id, done, evidence=evidence, at=told_at)]
    if isinstance(done, Contradiction):
        return propose(connection, user_id, done, evidence, told_at, starts)
    return []


class _Refused(NamedTuple):
    """Changes of a message that were undone or rejected: what they added, and by key what they took away."""

    added: frozenset[str]
    ended: tuple[tuple[str, frozenset[str]], ...]

    def is_end(self, fact: Fact, left: str) -> bool:
        """Return whether it was refused that something of a fact ends which is not `left`."""
        lost = gained(fact.key, left, fact.value)
        return any(facts.is_alike(fact.key, key) and lost & gone for key, gone in self.ended)


def _refused(connection: Connection, user_id: str, evidence: Evidence) -> _Refused:
    rows = (
        connection.execute(
            "SELECT key, value, former FROM learned"
            " WHERE user_id = ? AND message_id = ? AND state IN ('undone', 'rejected')",
            (user_id, evidence.message_id),
        )
        if evidence.message_id
        else ()
    )
    # A memory has its question as its key, and no former value.
    added = frozenset(one for key, value, former in rows for one in gained(key, former or "", value))
    return _Refused(added, tuple((key, gained(key, value, former)) for key, value, former in rows if former))


def propose(
    connection: Connection,
    user_id: str,
    contradiction: Contradiction,
    evidence: Evidence,
    told_at: int,
    starts: int,
) -> list[int]:
    """Propose the value, unless it is proposed already, or was from the same message; older ones expire."""
    fact, value = contradiction
    known = connection.execute(
        f"SELECT l.id, l.value, l.message_id, {_STATE} FROM learned l"
        " WHERE l.user_id = ? AND l.kind = 'proposed' AND l.key = ?",
        (user_id, fact.key),
    )
    for number, proposed, message_id, state in known:
        if proposed == value and (state == "new" or 0 < message_id == evidence.message_id):
            return []
        if state == "new":
            connection.execute(
                "UPDATE learned SET state = 'expired' WHERE user_id = ? AND id = ?", (user_id, number)
            )
    return [
        _insert(
            connection,
            user_id,
            "proposed",
            fact.key,
            value,
            fact.value,
            evidence,
            told_at,
            valid_from=starts or told_at,
            base=fact.updated_at,
        )
    ]


def note_change(
    connection: Connection, user_id: str, change: Change, *, evidence: Evidence = NO_EVIDENCE, at: int
) -> int:
    """List a change of a fact; return the id of the item."""
    before, after = change.before, change.after
    value = "" if after is None else after.value
    kind: ItemKind = "changed" if before is not None else "learned"
    if after is None:
        kind = "ended"
    elif before is not None and before.value == after.value:
        # Only its beginning is new.
        kind, before = "learned", None
    former = None if before is None else before.value
    return _insert(
        connection,
        user_id,
        kind,
        change.key,
        value,
        former,
        evidence,
        at,
        change_id=change.number,
        undo=_undo_of(change),
    )


def note_memory(
    connection: Connection,
    user_id: str,
    memory_id: int,
    question: str,
    answer: str,
    *,
    evidence: Evidence = NO_EVIDENCE,
    at: int,
) -> int:
    """List a new memory; return the id of the item."""
    return _insert(
        connection, user_id, "remembered", question, answer, None, evidence, at, memory_id=memory_id
    )


def _insert(
    connection: Connection,
    user_id: str,
    kind: ItemKind,
    key: str,
    value: str,
    former: str | None,
    evidence: Evidence,
    at: int,
    **more: int | str,
) -> int:
    columns = "".join(f", {name}" for name in more)
    rows = connection.execute(
        "INSERT INTO learned(user_id, number, kind, key, value, former, statement, session_id, message_id,"
        f" told_at{columns}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?{', ?' * len(more)}) RETURNING id",
        (
            user_id,
            _next_number(connection, user_id),
            kind,
            key,
            value,
            former,
            evidence.statement,
            evidence.session,
            evidence.message_id,
            at,
            *more.values(),
        ),
    )
    return int(rows[0][0])


def _next_number(connection: Connection, user_id: str) -> int:
    rows = connection.execute(
        "INSERT INTO meta(key, value) VALUES(?, 1) ON CONFLICT(key) DO UPDATE SET value = meta.value + 1"
        " RETURNING value",
        (_LAST + user_id,),
    )
    return int(rows[0][0])


def _undo_of(change: Change) -> str:
    before = change.before
    times = [] if before is None else [before.value, before.created_at, before.updated_at, before.valid_from]
    return json.dumps([change.imported, *times], ensure_ascii=False)


def trim(connection: Connection, user_id: str) -> None:
    """Remove the oldest items beyond the number that is kept, except those that wait."""
    connection.execute(
        "DELETE FROM learned WHERE user_id = ?1 AND id <= (SELECT id FROM learned WHERE user_id = ?1"
        f" ORDER BY id DESC LIMIT 1 OFFSET {_KEPT}) AND NOT ({_WAITING})",
        (user_id,),
    )


def counts(connection: Connection, user_id: str, item_ids: Sequence[int]) -> tuple[int, int]:
    """Return how many of these items of the user are changes of facts, and how many memories."""
    kinds = [
        kind
        for item_id in item_ids
        for (kind,) in connection.execute(
            "SELECT kind FROM learned WHERE user_id = ? AND id = ?", (user_id, item_id)
        )
    ]
    n_memories = kinds.count("remembered")
    return len(kinds) - n_memories - kinds.count("proposed"), n_memories


# ---- reading


def items(
    connection: Connection,
    user_id: str,
    limit: int,
    before_id: int | None = None,
    *,
    waiting_only: bool = False,
) -> list[LearnedItem]:
    """Return items, newest first, those with a smaller id than `before_id`."""
    waiting = f" AND {_WAITING}" if waiting_only else ""
    rows = connection.execute(
        f"{_ITEMS} WHERE number < ?{waiting} ORDER BY number DESC LIMIT ?",
        (user_id, _LARGEST if before_id is None else before_id, limit),
    )
    return [LearnedItem(*row) for row in rows]


def items_since(connection: Connection, user_id: str, item_id: int, limit: int) -> list[LearnedItem]:
    """Return the items with a larger id, oldest first."""
    rows = connection.execute(f"{_ITEMS} WHERE number > ? ORDER BY number LIMIT ?", (user_id, item_id, limit))
    return [LearnedItem(*row) for row in rows]


def refused_values(connection: Connection, user_id: str, limit: int) -> frozenset[str]:
    """Return the values, in lower case, of the newest items that the user has undone or rejected."""
    rows = connection.execute(
        "SELECT value FROM learned WHERE user_id = ? AND state IN ('undone', 'rejected')"
        " ORDER BY id DESC LIMIT ?",
        (user_id, limit),
    )
    return frozenset(value.casefold() for (value,) in rows)


def news(connection: Connection, user_id: str, limit: int) -> list[LearnedItem]:
    """Return the items of the user that `mark_shown` has not marked, oldest first."""
    rows = connection.execute("SELECT value FROM meta WHERE key = ?", (_SHOWN + user_id,))
    return items_since(connection, user_id, rows[0][0] if rows else 0, limit)


def mark_shown(connection: Connection, user_id: str, limit: int) -> list[LearnedItem]:
    """Mark all items as shown, and return those that were not."""
    unseen = news(connection, user_id, limit)
    if unseen:
        _note_shown(connection, user_id, unseen[-1].id)
    return unseen


def _note_shown(connection: Connection, user_id: str, item_id: int) -> None:
    connection.execute(
        "INSERT INTO meta(key, value) VALUES(?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value",
        (_SHOWN + user_id, item_id),
    )


def _find(connection: Connection, user_id: str, item_id: int) -> LearnedItem | None:
    rows = connection.execute(f"{_ITEMS} WHERE number = ?", (user_id, item_id))
    return LearnedItem(*rows[0]) if rows else None


def _waiting(connection: Connection, user_id: str, item_id: int | None) -> LearnedItem | None:
    """Return a proposal that waits; None is the newest."""
    if item_id is None:
        return next(iter(items(connection, user_id, 1, waiting_only=True)), None)
    item = _find(connection, user_id, item_id)
    return item if item is not None and (item.kind, item.state) == ("proposed", "new") else None


# ---- deciding


def keep(connection: Connection, user_id: str, item_id: int) -> LearnedItem | None:
    """Mark an item as looked at; return it, None if there is none in state new, or if it is a proposal."""
    item = _find(connection, user_id, item_id)
    if item is None or item.state != "new" or item.kind == "proposed":
        return None
    return _set_state(connection, user_id, replace(item, state="kept"))


def reject(connection: Connection, user_id: str, item_id: int | None, terms: TermIndex) -> LearnedItem | None:
    """Reject a proposal, by default the newest; return it, None if none waits. Its sentence is forgotten."""
    item = _waiting(connection, user_id, item_id)
    if item is None:
        return None
    _forget_sentence(connection, user_id, item, terms)
    return _set_state(connection, user_id, replace(item, state="rejected"))


def accept(connection: Connection, user_id: str, item_id: int | None, now: int) -> LearnedItem | None:
    """Accept a proposal, by default the newest: the fact is then as if the user had set it."""
    item = _waiting(connection, user_id, item_id)
    if item is None:
        return None
    [(message_id, since)] = connection.execute(
        f"SELECT message_id, valid_from FROM learned WHERE {_ITEM}", (user_id, item.id)
    )
    evidence = Evidence(item.statement, item.session, message_id)
    if item.value:
        change = facts.set_value(
            connection,
            user_id,
            item.key,
            item.value,
            source="user",
            now=now,
            since=since,
            evidence=evidence,
        )
    else:
        change = facts.clear(
            connection, user_id, item.key, source="user", now=now, since=since, evidence=evidence
        )
    if change is not None:
        connection.execute(
            f"UPDATE learned SET change_id = ?, undo = ? WHERE {_ITEM}",
            (change.number, _undo_of(change), user_id, item.id),
        )
    return _set_state(connection, user_id, replace(item, state="accepted"))


def undo(connection: Connection, user_id: str, item_id: int | None, terms: TermIndex) -> LearnedItem | None:
    """Undo an item, by default the newest that can be undone; return it.

    None if there is no such item, or if it is undone already or a proposal that was not accepted. If the fact
    or the memory was changed again since, nothing is undone, and the item has another state than "undone".
    The sentence behind a fact is forgotten as well: memory would answer with it as before.
    """
    if item_id is not None:
        item = _find(connection, user_id, item_id)
        return None if item is None else _undone(connection, user_id, item, terms)
    before = None
    while page := items(connection, user_id, 50, before):
        for item in page:
            if item.state != "kept":
                undone = _undone(connection, user_id, item, terms)
                if undone is not None and undone.state == "undone":
                    return undone
        before = page[-1].id
    return None


def _undone(connection: Connection, user_id: str, item: LearnedItem, terms: TermIndex) -> LearnedItem | None:
    is_done = item.state == "accepted" or (item.kind != "proposed" and item.state in ("new", "kept"))
    if not is_done:
        return None
    if item.kind == "remembered":
        return _forgotten(connection, user_id, item, terms)
    [(change_id, note)] = connection.execute(
        f"SELECT change_id, undo FROM learned WHERE {_ITEM}", (user_id, item.id)
    )
    if not note:
        return item
    imported, *before = json.loads(note)
    fact = Fact(item.key, *before) if before else None
    if not facts.restore(connection, user_id, change_id, item.key, fact, imported):
        return item
    _forget_sentence(connection, user_id, item, terms)
    return _set_state(connection, user_id, replace(item, state="undone"))


def _forget_sentence(
    connection: Connection, user_id: str, item: LearnedItem, terms: TermIndex
) -> list[tuple[Deleted, MemoryRecord | None]]:
    """Take the sentence of an item out of the archived turns of its conversation, except pinned ones.

    A turn with little else is deleted, with its answer. An answer also goes if it has what the item added, or
    what it took away if it only did that. Return the turns before and after.
    """
    turns: list[tuple[Deleted, MemoryRecord | None]] = []
    if not item.statement:
        return turns
    former = item.before or ""
    has_value = mentions(gained(item.key, former, item.value) or gained(item.key, item.value, former))
    rows = connection.execute(
        "SELECT c.id, c.user_message, c.assistant_response FROM context c JOIN tenants t ON t.user_id = ?1"
        f" WHERE c.id >> {SEQUENCE_BITS} = t.number AND c.timestamp BETWEEN ?2 AND ?3"
        " AND c.session = ?4 AND c.source = 'turn' AND c.pinned = 0",
        (user_id, item.at - _NEAR_S, item.at + _NEAR_S, item.session),
    )
    for memory_id, said, answer in rows:
        if item.statement not in said:
            continue
        tenant, rest = memory_id >> SEQUENCE_BITS, said.replace(item.statement, " ").strip()
        new_answer = "" if has_value is not None and has_value(answer.casefold()) else None
        [before] = memories.copies(connection, tenant, [memory_id])
        try:
            if len(rest.split()) < _LEAST_WORDS:
                memories.delete(connection, tenant, [memory_id], terms)
            else:
                memories.edit(connection, tenant, memory_id, rest, new_answer, terms)
        except UsageError:  # another memory says the rest
            memories.delete(connection, tenant, [memory_id], terms)
        turns.append((before, memories.get(connection, tenant, memory_id)))
    return turns


def _forgotten(connection: Connection, user_id: str, item: LearnedItem, terms: TermIndex) -> LearnedItem:
    """Undo a memory, unless it was edited or pinned since."""
    rows = connection.execute(
        "SELECT c.id, l.key, l.value, c.user_message, c.assistant_response FROM learned l"
        " JOIN context c ON c.id = l.memory_id AND c.user_id = l.user_id"
        " WHERE l.user_id = ? AND l.number = ? AND c.pinned = 0",
        (user_id, item.id),
    )
    # Texts are compared here: a server that cannot read them has those of a memory bound to it.
    if not rows or tuple(rows[0][1:3]) != tuple(rows[0][3:5]):
        return item
    memory_id = rows[0][0]
    # The item stays, so that the same message does not bring the memory back.
    connection.execute(f"UPDATE learned SET memory_id = 0 WHERE {_ITEM}", (user_id, item.id))
    memories.delete(connection, memory_id >> SEQUENCE_BITS, [memory_id], terms)
    return _set_state(connection, user_id, replace(item, state="undone"))


def _set_state(connection: Connection, user_id: str, item: LearnedItem) -> LearnedItem:
    connection.execute(f"UPDATE learned SET state = ? WHERE {_ITEM}", (item.state, user_id, item.id))
    return item


def was_undone(connection: Connection, user_id: str, session_id: str, question: str, answer: str) -> bool:
    """Return whether the user has undone this memory of a conversation."""
    return bool(
        connection.execute(
            "SELECT 1 FROM learned WHERE user_id = ? AND kind = 'remembered' AND session_id = ? AND key = ?"
            " AND value = ? AND state IN ('undone', 'rejected') LIMIT 1",
            (user_id, session_id, question, answer),
        )
    )


# ---- forgetting


def clear_fact(
    connection: Connection,
    user_id: str,
    key: str,
    *,
    source: str,
    now: int,
    terms: TermIndex,
    with_history: bool = False,
    cleared: ClearedFact | None = None,
) -> bool:
    """Remove a fact, and with `with_history` its former values and all sentences that have one of them.

    Return whether there was anything to remove. What a tool call of a model clears is listed; what the user
    clears is forgotten with the sentence that it was learned from. `cleared` is filled with what undoes that.
    """
    change = facts.clear(connection, user_id, key, source=source, now=now)
    turns: list[tuple[Deleted, MemoryRecord | None]] = []
    if change is not None and change.before is not None and source != "tool":
        gone = gained(change.before.key, "", change.before.value)
        for number, of_key, value, former in connection.execute(
            "SELECT number, key, value, former FROM learned WHERE user_id = ? AND key = ?"
            " AND kind <> 'remembered' AND state <> 'undone' AND statement <> ''",
            (user_id, change.before.key),
        ):
            item = _find(connection, user_id, number) if gained(of_key, former or "", value) & gone else None
            if item is not None:
                turns += _forget_sentence(connection, user_id, item, terms)
    if cleared is not None:
        cleared.change, cleared.turns = change, turns
    if change is not None and source == "tool" and not with_history:
        note_change(connection, user_id, change, at=now)
    if not with_history:
        return change is not None
    keys, values = facts.forget_values(connection, user_id, key)
    if change is not None and change.before is not None:
        values.append(change.before.value)
    forget_fact(connection, user_id, key, values)
    return change is not None or bool(keys and values)


def forget_fact(connection: Connection, user_id: str, key: str, values: Collection[str]) -> None:
    """Remove the entries about a fact, and the sentences with one of its former values."""
    rows = connection.execute("SELECT id, kind, key FROM learned WHERE user_id = ?", (user_id,))
    for number, kind, other in rows:
        if kind != "remembered" and facts.is_alike(key, other):
            connection.execute("DELETE FROM learned WHERE user_id = ? AND id = ?", (user_id, number))
    words = [re.escape(value.strip()) for value in values if value.strip()]
    if not words:
        return
    has_value = re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.IGNORECASE).search
    _forget_statements(connection, user_id, lambda statement, session, message: bool(has_value(statement)))
    undone = connection.execute(
        "SELECT id, key, value FROM learned WHERE user_id = ? AND kind = 'remembered' AND state = 'undone'",
        (user_id,),
    )
    for number, question, answer in undone:
        if has_value(f"{question} {answer}"):
            connection.execute("DELETE FROM learned WHERE user_id = ? AND id = ?", (user_id, number))


def _forget_statements(
    connection: Connection, user_id: str, is_meant: Callable[[str, str, int], bool]
) -> None:
    """Remove the sentences for which `is_meant` (statement, session, message id) returns True."""
    facts.forget_statements(connection, user_id, is_meant)
    rows = connection.execute(
        "SELECT id, statement, session_id, message_id FROM learned WHERE user_id = ? AND statement <> ''",
        (user_id,),
    )
    for number, *evidence in rows:
        if is_meant(*evidence):
            connection.execute(
                "UPDATE learned SET statement = '' WHERE user_id = ? AND id = ?", (user_id, number)
            )


def forget_session(connection: Connection, user_id: str, session_id: str) -> None:
    """Remove the sentences of a conversation; what was learned from them stays."""
    _forget_statements(connection, user_id, lambda statement, session, message: session == session_id)


def forget_messages(connection: Connection, user_id: str, message_ids: Collection[int]) -> None:
    """Remove the sentences of deleted messages, and the proposals that come from them."""
    gone = frozenset(message_ids)
    for message_id in gone:
        connection.execute(
            f"DELETE FROM learned WHERE user_id = ? AND message_id = ? AND {_WAITING}", (user_id, message_id)
        )
    _forget_statements(connection, user_id, lambda statement, session, message: message in gone)


def remove(connection: Connection, user_id: str, item_ids: Sequence[int]) -> None:
    """Remove items from the user's list."""
    for item_id in item_ids:
        connection.execute("DELETE FROM learned WHERE user_id = ? AND id = ?", (user_id, item_id))


def take_back(
    connection: Connection,
    user_id: str,
    item_ids: Sequence[int],
    message_ids: Collection[int],
    terms: TermIndex,
) -> tuple[list[int], bool]:
    """Undo the items that came from these messages, the last first, and remove them from the list.

    Items whose message is not known count as well. Return the items that are left, and whether there was one
    of these.
    """
    left, is_unsure = [], False
    for item_id in reversed(item_ids):
        rows = connection.execute(
            "SELECT message_id, number FROM learned WHERE id = ? AND user_id = ?", (item_id, user_id)
        )
        item = _find(connection, user_id, rows[0][1]) if rows else None
        if item is None:
            continue
        if rows[0][0] and rows[0][0] not in message_ids:
            left.append(item_id)
            continue
        is_unsure = is_unsure or not rows[0][0]
        _undone(connection, user_id, item, terms)
        remove(connection, user_id, [item_id])
    return left[::-1], is_unsure


def move(connection: Connection, from_user: str, user_id: str) -> None:
    """Give all items of a user to another, under the next numbers. They are no news there."""
    moved = connection.execute("SELECT id FROM learned WHERE user_id = ? ORDER BY number", (from_user,))
    if not moved:
        return
    unseen = news(connection, user_id, 1)
    for (row_id,) in moved:
        number = _next_number(connection, user_id)
        connection.execute(
            "UPDATE learned SET user_id = ?, number = ? WHERE user_id = ? AND id = ?",
            (user_id, number, from_user, row_id),
        )
    if not unseen:
        _note_shown(connection, user_id, number)
    connection.execute("DELETE FROM meta WHERE key IN (?, ?)", (_SHOWN + from_user, _LAST + from_user))


def move_memory(connection: Connection, memory_id: int, new_id: int) -> None:
    """Follow a memory that was stored under another id; 0 for none."""
    connection.execute("UPDATE learned SET memory_id = ? WHERE memory_id = ?", (new_id, memory_id))

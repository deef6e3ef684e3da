"""Which learned things can still be undone: undo refuses what was changed again since."""

from __future__ import annotations

from shepherd.transactions import Connection

__all__ = ["undoable"]

# In one statement, since a list shows many: what learned.undo checks for one item.
_LATER = (
    "SELECT 1 FROM fact_history n WHERE n.user_id = h.user_id AND n.key = h.key"
    " AND (n.changed_at > h.changed_at OR (n.changed_at = h.changed_at AND n.id > h.id))"
)
_FACT = (
    "EXISTS (SELECT 1 FROM fact_history h LEFT JOIN facts f ON f.user_id = h.user_id AND f.key = h.key"
    " WHERE h.id = l.change_id AND h.user_id = l.user_id AND h.key = l.key"
    " AND ((h.value IS NULL AND f.key IS NULL) OR (f.value = h.value AND f.updated_at = h.changed_at))"
    f" AND NOT EXISTS ({_LATER}))"
)
_UNDOABLE = (
    "SELECT l.number, l.key, l.value, c.user_message, c.assistant_response FROM learned l"
    " LEFT JOIN context c ON l.kind = 'remembered' AND c.id = l.memory_id AND c.user_id = l.user_id"
    " AND c.pinned = 0"
    " WHERE l.user_id = ? AND l.number BETWEEN ? AND ?"
    " AND (l.state = 'accepted' OR (l.kind <> 'proposed' AND l.state IN ('new', 'kept')))"
    f" AND CASE WHEN l.kind = 'remembered' THEN c.id IS NOT NULL ELSE l.undo <> '' AND {_FACT} END"
)


def undoable(connection: Connection, user_id: str, first: int, last: int) -> frozenset[int]:
    """Return the ids of the user's items from `first` to `last` that undo would undo."""
    rows = connection.execute(_UNDOABLE, (user_id, first, last))
    # Texts of memories are compared here: a server that cannot read them has them bound to their memory.
    return frozenset(
        number
        for number, key, value, question, answer in rows
        if question is None or (question, answer) == (key, value)
    )

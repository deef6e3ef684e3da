"""Which learned things can still be undone: undo refuses what was changed again since."""

from __future__ import annotations

from shepherd.transactions import Connection

__all__ = ["undoable"]

# In one statement, since a list shows many: what learned.undo checks for one item.
_MEMORY = (
    "EXISTS (SELECT 1 FROM context c WHERE c.id = l.memory_id AND c.user_id = l.user_id"
    " AND c.user_message = l.key AND c.assistant_response = l.value AND c.pinned = 0)"
)
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
    "SELECT l.number FROM learned l WHERE l.user_id = ? AND l.number BETWEEN ? AND ?"
    " AND (l.state = 'accepted' OR (l.kind <> 'proposed' AND l.state IN ('new', 'kept')))"
    f" AND CASE WHEN l.kind = 'remembered' THEN {_MEMORY} ELSE l.undo <> '' AND {_FACT} END"
)


def undoable(connection: Connection, user_id: str, first: int, last: int) -> frozenset[int]:
    """Return the ids of the user's items from `first` to `last` that undo would undo."""
    rows = connection.execute(_UNDOABLE, (user_id, first, last))
    return frozenset(number for (number,) in rows)

"""Claims from a message that is learned from late, without what later messages have ended meanwhile.

With two processes, or after a failed try, a later message may have been learned from first. Its "I no longer
work at Bosch" ended nothing then, since the job was not known yet.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from shepherd.claims.judge import ended_values, value_left
from shepherd.claims.keys import LISTS, items_of, joined_items
from shepherd.claims.known_endings import ended_facts
from shepherd.memory.records import Claim, ExtractionJob
from shepherd.transactions import Connection
from shepherd.types import Fact

__all__ = ["later_lines", "without_ended"]

# Later messages that are read, the first ones: this holds the writers' turn.
_MOST_LINES = 100

Line = tuple[int, str]


def later_lines(connection: Connection, job: ExtractionJob, since: int) -> list[Line]:
    """Return when messages were sent after `since` that other jobs have learned from, and their texts."""
    rows = connection.execute(
        "SELECT message_ids FROM extraction_jobs"
        " WHERE user_id = ? AND state = 'done' AND told_at > ? AND id <> ? ORDER BY id",
        (job.user_id, since, job.id),
    )
    message_ids = [message_id for (ids,) in rows for message_id in json.loads(ids)]
    found = (
        row
        for message_id in message_ids[:_MOST_LINES]
        for row in connection.execute("SELECT created_at, raw FROM messages WHERE id = ?", (message_id,))
    )
    return [(sent_at, raw) for sent_at, raw in found if sent_at > since]


def without_ended(claim: Claim, told_at: int, later: Sequence[Line]) -> Claim | None:
    """Return a claim without what later messages say to be over, None if that is all of it."""
    value = claim.value
    for sent_at, text in later:
        if sent_at <= told_at:
            continue
        value = value_left(claim.key, value, ended_values(text))
        over = {one.value for one in ended_facts(text, [Fact(claim.key, value, 0, 0)])} if value else set()
        if over and claim.key in LISTS:
            items = items_of(claim.key, value, apart=True)
            value = joined_items(claim.key, (item for item in items if item not in over))
        elif over:
            value = ""
    return replace(claim, value=value) if value else None

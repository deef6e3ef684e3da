"""Who asks, and the figures of one's own memory: what a page or a program wants to know before all else."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from shepherd import __version__
from shepherd.config import default_user_id
from shepherd.knowledge import Knowledge
from shepherd.memory import MemoryStats
from shepherd.server.resources import OwnMemory
from shepherd.server.scopes import METRICS

__all__ = ["router"]

router = APIRouter(prefix="/v1/memory")

_MOST_RECALLED = 10


@router.get("/user")
def who(own: OwnMemory) -> dict[str, Any]:
    """Whose memory this request is about, and what may be done with it.

    `suggested` is a user for somebody who has not said who he is, on a machine that asks for no key: the one
    whose memory `shepherd` keeps in a terminal.
    """
    caller = own.caller
    return {
        "user": "" if caller.is_nobody else caller.user_id,
        "owner": caller.owner,
        "suggested": default_user_id() if caller.is_nobody and not caller.owner else "",
        "scopes": sorted(caller.scopes),
        "is_writable": own.is_writable,
        "version": __version__,
    }


@router.get("/stats")
def stats(own: OwnMemory) -> dict[str, Any]:
    """Counts of the user, memories by day, those that were recalled most; the database's size for some.

    The size is about all users together, as /metrics is.
    """
    memory = own.memory
    counts = memory.stats(own.user)
    knowledge = Knowledge(memory.transactions, own.user)
    activity = memory.activity(own.user, n_recalled=_MOST_RECALLED)
    return {
        "memories": counts.memories,
        "pinned": counts.pinned,
        "facts": counts.facts,
        "conversations": counts.sessions,
        "nodes": knowledge.count_nodes(),
        "oldest_timestamp": counts.oldest_timestamp,
        "newest_timestamp": counts.newest_timestamp,
        "per_day": [{"day": day, "memories": n} for day, n in activity.per_day],
        "most_recalled": [
            {**asdict(record), "recalls": n, "recalled_at": last}
            for memory_id, n, last in activity.recalled
            if (record := memory.get_memory(memory_id, own.user)) is not None
        ],
        "extraction": asdict(memory.extraction.stats(own.user)),
        "database": _size(counts) if METRICS in own.caller.scopes else None,
    }


def _size(counts: MemoryStats) -> dict[str, int]:
    return {
        "used_bytes": counts.used_bytes,
        "file_bytes": counts.file_bytes,
        "limit_bytes": counts.limit_bytes,
    }

"""Random histories of memories, and all that a user can see of what they led to; for tests of any engine."""

from __future__ import annotations

from hypothesis import strategies as st

from shepherd.memory import Memory
from shepherd.types import SearchResult

__all__ = ["Change", "apply", "changes_of", "found", "seen", "sentences"]

NOW = 1_700_000_000.0
DAY = 86_400
WORDS = [
    "dog",
    "cats",
    "Lisbon",
    "guitar",
    "python",
    "C++",
    "coffee",
    "what",
    "日本語",
    "naïve",
    "v2.31",
    "\0",
]

sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)
# Of a talk, perhaps with a label that says who speaks.
said = st.tuples(st.sampled_from(["", "", "Assistant: ", "User: "]), sentences).map("".join)

Change = tuple[object, ...]


def changes_of(*users: str) -> st.SearchStrategy[Change]:
    """A memory is stored, edited, deleted or pinned, for `apply`."""
    user = st.sampled_from(users)
    return st.one_of(
        st.tuples(
            st.just("store"),
            user,
            said,
            said | st.just(""),
            st.integers(-5, 800).map(lambda days: NOW - days * DAY / 2),
            st.sampled_from(["", "s1", "s2"]),
            st.sampled_from(["user", "turn", "chatgpt", "import"]),
        ),
        st.tuples(st.just("edit"), user, st.integers(0, 20), sentences),
        st.tuples(st.just("delete"), user, st.integers(0, 20)),
        st.tuples(st.just("pin"), user, st.integers(0, 20)),
    )


def apply(memory: Memory, change: Change, suffix: str) -> object:
    """Makes the change for its user with `suffix`; what the call returned."""
    kind, user, *rest = change
    user = f"{user}{suffix}"
    if kind == "store":
        question, answer, timestamp, session, source = rest
        return memory.store_memory(
            question,  # type: ignore[arg-type]
            answer,  # type: ignore[arg-type]
            user,
            timestamp=timestamp,  # type: ignore[arg-type]
            session=session,  # type: ignore[arg-type]
            source=source,  # type: ignore[arg-type]
        )
    records = memory.list_memories(user, limit=1000)
    if not records:
        return None
    memory_id = records[rest[0] % len(records)].id  # type: ignore[operator]
    if kind == "edit":
        # Its own, without digits: the id has as many as the number of a card, and could be one.
        name = "".join("abcdefghij"[int(digit)] for digit in str(memory_id))
        return memory.edit_memory(memory_id, answer=f"{rest[1]} {name}", user_id=user)
    if kind == "delete":
        return memory.delete_memory(memory_id, user)
    return memory.pin_memory(memory_id, user_id=user)


def found(memory: Memory, query: str, user: str) -> list[list[SearchResult]]:
    """Results for a question: few and all, with thresholds, without recency, as a message gets them."""
    several = [memory.search(query, n, user, threshold=t) for n, t in ((3, 0.3), (50, 0.0), (50, 0.7))]
    memory.recency_floor = 0.0
    several.append(memory.search(query, 50, user))
    memory.recency_floor = 0.9
    several.append(list(memory.recall(query, user, except_session="s1").results))
    return several


def seen(memory: Memory, user: str, queries: list[str]) -> list[object]:
    """All that a user can see of his memories: counts, records, exports, results, tails."""
    return [
        memory.count_memories(user),
        memory.stats(user).memories,
        memory.list_memories(user, limit=1000),
        list(memory.export_memories(user)),
        [(found(memory, query, user), memory.recall(query, user).tail) for query in queries],
    ]

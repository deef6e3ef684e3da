"""What is learned from a sentence, through the real queue, for tests of the faces that show it."""

from __future__ import annotations

import time

from shepherd.memory import Claim, EndedValue, LearnedItem, Memory, NewMemory, OpenJob
from shepherd.types import Message

__all__ = ["LIVED", "MOVED", "learn", "propose", "remember"]

# With their times: what is replaced within a second held at no time.
LIVED, MOVED = "I've lived in Köln since 2019.", "I moved to Paris in March 2022."


def learn(
    memory: Memory,
    user: str,
    sentence: str,
    *claims: Claim | EndedValue,
    memories: tuple[str, ...] = (),
) -> list[LearnedItem]:
    """Tell a sentence, and finish its job with these claims, as a worker does; return what is new."""
    last = memory.learned(1, user_id=user)
    session = memory.start_session(user)
    memory.append_message(session, Message("user", sentence), user, job=OpenJob("worker", 1))
    job = memory.extraction.claim("worker", user)
    assert job is not None
    new = [NewMemory(*memories, job.told_at, "extraction", session)] if memories else []
    memory.extraction.finish(job, claims, new, statements=[(sentence, 0)] * len(new))
    return memory.learned_since(last[0].id if last else 0, user_id=user)


def propose(memory: Memory, user: str) -> LearnedItem:
    """Contradict a location that the user has set; return the proposal."""
    memory.set_fact("location", "Texas", user, since=time.time() - 100)
    sentence = "I live in Berlin."
    [item] = learn(memory, user, sentence, Claim("location", "Berlin", sentence, 0))
    assert (item.kind, item.state) == ("proposed", "new")
    return item


def remember(memory: Memory, user: str) -> tuple[LearnedItem, LearnedItem]:
    """Learn a location, and change it; return both items."""
    [first] = learn(memory, user, LIVED, Claim("location", "Köln", LIVED, 0))
    [second] = learn(memory, user, MOVED, Claim("location", "Paris", MOVED, 0, changes=True))
    return first, second

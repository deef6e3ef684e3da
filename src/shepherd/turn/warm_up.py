"""Patterns that most turns need, compiled while the user types the first message.

The first turn of a process would wait for them: half a second, ten times as long as any later one. A process
that answers a single message has no use for this, since it would compile more than it needs.
"""

from __future__ import annotations

import threading

from shepherd.types import Fact

__all__ = ["begin", "compile_patterns", "wait"]

# Between them, they need the patterns that most messages need.
_SENTENCES = (
    *("I live in Ulm.", "My name is Ada.", "I have a dog called Rex.", "I work at Bosch."),
    *("I sold the car.", "My password is tulip-42-Rain.", "Where do I live?"),
)
_FACTS = [Fact("location", "Ulm", 0, 0), Fact("car", "Yaris", 0, 0)]

_lock = threading.Lock()
_thread: threading.Thread | None = None


def begin() -> None:
    """Compile in the background. Only the first call of a process does something."""
    global _thread  # noqa: PLW0603
    with _lock:
        if _thread is None:
            _thread = threading.Thread(target=compile_patterns, name="shepherd-warm-up", daemon=True)
            _thread.start()


def wait() -> None:
    """Wait until everything is compiled, if it was begun: two threads at once would take twice as long."""
    if (thread := _thread) is not None:
        thread.join()


def compile_patterns() -> None:
    """Compile them here and now."""
    # Not at the top: a prompt stands before these are loaded.
    from shepherd.claims.judge import plain_facts
    from shepherd.claims.known_endings import ended_facts
    from shepherd.claims.statements import assertions
    from shepherd.prompt.archive_policy import is_statement
    from shepherd.prompt.near_facts import nearest_fact
    from shepherd.prompt.questions import questions_in
    from shepherd.secret_detection import find_secrets

    for sentence in _SENTENCES:
        assertions(sentence)
        is_statement(sentence)
        plain_facts(sentence)
        find_secrets(sentence)
        ended_facts(sentence, _FACTS)
        for question in questions_in(sentence):
            nearest_fact(question, sentence, _FACTS)

"""The conversations of test_turns.py: what a client sends, turn by turn, and what each turn then cost.

A scenario takes a side and a number that makes its texts its own, so that one may follow another in the same
process. Texts have no capital letters: those are the models'.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.engines import Library, Restartable, ShepherdServer, Side, Turn

_SYSTEM = "you are a helpful assistant of the user. please remember what is said and answer in few words. "
_TAIL = "\n\nwhat is known of the user: location=texas; dog=rex; the answer is that the cache is kept warm."

_RECALLED = ("rex", "texas", "the cache", "my dog", "the context")


@dataclass(frozen=True)
class Size:
    """How long everything is, in turns, answers' tokens, and repetitions of a sentence."""

    turns: int
    answer: int
    long_answer: int
    sentences: int = 2
    clients_turns: int = 3
    history: int = 12


def _system(salt: int, size: Size) -> list[Any]:
    # The salt comes first: conversations of different scenarios share three tokens at most.
    return ["system", f"{salt} {_SYSTEM * size.sentences}"]


def _question(number: int, size: Size, who: int = 0) -> str:
    return f"{who} what is the name of the user? {number} " + "the lazy dog is called rex. " * size.sentences


def append(side: Side, salt: int, size: Size) -> list[Turn]:
    """Every turn adds a question and an answer."""
    messages, turns = [_system(salt, size)], []
    for i in range(size.turns):
        messages.append(["user", _question(i, size)])
        turns.append(side.turn(messages, size.answer))
        messages.append(["assistant", turns[-1].text, turns[-1].ids])
    return turns


def tail_stripped(side: Side, salt: int, size: Size) -> list[Turn]:
    """The newest question has a tail, which is gone with the next one."""
    messages, turns = [_system(salt, size)], []
    for i in range(size.turns):
        question = _question(i, size)
        turns.append(side.turn([*messages, ["user", question + _TAIL]], size.answer))
        messages += [["user", question], ["assistant", turns[-1].text, turns[-1].ids]]
    return turns


def thinking_dropped(side: Side, salt: int, size: Size) -> list[Turn]:
    """Two thirds of an answer are thoughts, which are not sent again."""
    messages, turns = [_system(salt, size)], []
    for i in range(size.turns):
        messages.append(["user", _question(i, size)])
        turns.append(side.turn(messages, size.answer))
        messages.append(["assistant", turns[-1].text[2 * size.answer // 3 :]])
    return turns


def oldest_evicted(side: Side, salt: int, size: Size) -> list[Turn]:
    """From the middle on, the oldest turn leaves with every new one."""
    messages, turns = [_system(salt, size)], []
    for i in range(size.turns):
        messages.append(["user", _question(i, size)])
        if i > size.turns // 2:
            del messages[1:3]
        turns.append(side.turn(messages, size.answer))
        messages.append(["assistant", turns[-1].text, turns[-1].ids])
    return turns


def alternating(n_clients: int) -> Callable[[Side, int, Size], list[Turn]]:
    """So many clients, one after the other in turns, with the same system prompt."""

    def run(side: Side, salt: int, size: Size) -> list[Turn]:
        talks = [[_system(salt, size)] for _ in range(n_clients)]
        turns = []
        for i in range(size.clients_turns):
            for who, talk in enumerate(talks):
                talk.append(["user", _question(i, size, who)])
                turns.append(side.turn(talk, size.answer))
                talk.append(["assistant", turns[-1].text, turns[-1].ids])
        return turns

    return run


def eight_at_once(side: Side, salt: int, size: Size) -> list[Turn]:
    """Eight clients with the same system prompt ask at the same time, twice."""
    talks = [[_system(salt, size), ["user", _question(0, size, who)]] for who in range(8)]
    turns = side.together(talks, size.answer)
    for who, talk in enumerate(talks):
        talk += [["assistant", turns[who].text, turns[who].ids], ["user", _question(1, size, who)]]
    return [*turns, *side.together(talks, size.long_answer)]


def long_answer(side: Side, salt: int, size: Size) -> list[Turn]:
    """The same short question again and again: but for the first time, the answer alone is work."""
    # With a system prompt: a server may have one of its own for who sends none.
    messages = [["system", f"{salt} {_SYSTEM}"], ["user", _question(0, size)]]
    return [side.turn(messages, size.long_answer) for _ in range(size.turns)]


def injected(recall: Callable[[str], str]) -> Callable[[Side, int, Size], list[Turn]]:
    """A client sends its messages bare, and what is remembered is appended for the model.

    Shepherd's ledger gives earlier tails back. Before a server without one stands a proxy that appends to the
    newest message, by `recall`, whose time counts.
    """

    def run(side: Side, salt: int, size: Size) -> list[Turn]:
        messages, turns = [_system(salt, size)], []
        for i in range(size.turns):
            question = f"what did i say about {_RECALLED[i % len(_RECALLED)]}? {_question(i, size)}"
            messages.append(["user", question])
            if side.options.get("memory") and isinstance(side, (Library, ShepherdServer)):
                turns.append(side.bare(messages, size.answer))
            else:
                started = time.perf_counter()
                enriched = recall(question)
                waited = time.perf_counter() - started
                turns.append(side.turn([*messages[:-1], ["user", enriched]], size.answer))
                turns[-1].first_s += waited
            messages.append(["assistant", turns[-1].text, turns[-1].ids])
        return turns

    return run


def history(side: Side, salt: int, size: Size) -> list[Any]:
    """A conversation of some length, answered once: what a restart must not read again."""
    messages = [_system(salt, size)]
    for i in range(size.history - 1):
        messages += [["user", _question(i, size)], ["assistant", "the answer is that the dog is called rex."]]
    messages.append(["user", _question(size.history, size)])
    turn = side.turn(messages, size.answer)
    return [*messages, ["assistant", turn.text, turn.ids]]


def restarted(
    before: Restartable, start: Callable[[], Restartable], path: Path, salt: int, size: Size
) -> Turn:
    """The turn after a restart; the first token's time has the reading of the session's file in it."""
    messages = history(before, salt, size)
    before.save(path)
    before.close()
    after = start()
    try:
        started = time.perf_counter()
        after.load(path)
        waited = time.perf_counter() - started
        turn = after.turn([*messages, ["user", _question(99, size)]], size.answer)
        turn.first_s += waited
        return turn
    finally:
        after.close()

# ruff: noqa: E501 - tables of wordings; wrapped, they are harder to read and to compare
"""What holds for a whole conversation: system prompts, preferences, background, focus, summaries, times of facts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import values
from items import Item, Split
from notes import chatter, document
from rendering import Note, Setting, Turn

from shepherd.knowledge import Hub

__all__ = ["conversation_setting", "past_facts", "standing_instructions"]

LONG_TAILS = 0.3  # of the conversations
INSTRUCTIONS = (
    "You are a helpful assistant.", "You are Shepherd, a helpful assistant.", "You are shepherd, a local assistant with memory.", "Be brief.", "Answer from the facts and the context.", "You are a friendly assistant.",
    "Keep answers short.", "You are Shepherd, a helpful assistant that remembers what the user tells it.", "If the answer is not there, say so.", "Answer in the language of the user.", "You run on the user's own machine.", "Do not make up facts.",
    "You answer in a {j} tone.", "You are {m}, the assistant of {c}.", "Never talk about {n}.", "The user is a customer of {c}.",
)  # fmt: skip
WISHES = (
    "Call me {m}", "Use metric units", "No emojis", "Answer in one sentence", "Always mention the {n}", "Be honest", "Write dates as 2026-03-01", "Don't use the word {n}", "I like {j} answers", "My team is called {c}",
)  # fmt: skip


def filled(random: Random, template: str) -> str:
    """The template with random words in it."""
    return template.format(
        j=random.choice(values.ADJECTIVES),
        m=values.first_name(random),
        c=values.company(random),
        n=values.common_noun(random),
    )


def preferences(random: Random) -> dict[str, Any]:
    """Settings about how to answer; this model cannot follow them, and must not be confused by them."""
    chosen: dict[str, Any] = {}
    if random.random() < 0.6:
        chosen["answer_style"] = random.choice(("formal", "professional", "casual", "friendly"))
    if random.random() < 0.5:
        chosen["answer_verbosity"] = random.choice(("concise", "moderate", "detailed"))
    if random.random() < 0.3:
        chosen["answer_level"] = random.choice(("beginner", "intermediate", "expert"))
    if random.random() < 0.3:
        chosen["answer_formatting"] = random.choice(
            ("bullets", "numbered lists", "code blocks", "bullets, links")
        )
    if random.random() < 0.5:
        chosen["answer_instructions"] = "; ".join(
            filled(random, wish) for wish in random.sample(WISHES, random.randint(1, 3))
        )
    if random.random() < 0.4:
        chosen["personality"] = random.choice(
            ("helpful", "conversational", f"expert in {values.common_noun(random)}", filled(random, "You are {m}, {j} and patient."))
        )  # fmt: skip
    return chosen


def standing_instructions(random: Random, *, said: bool = False) -> str:
    """How the user wants to be answered, as it is stored, or as one says it."""
    wishes = [filled(random, wish) for wish in random.sample(WISHES, 1 if said else random.randint(1, 4))]
    wishes = [wish if wish.startswith("I ") else wish[:1].lower() + wish[1:] for wish in wishes]
    if not said:
        return "; ".join(wishes)
    opener = random.choice(
        ("From now on, ", "Please always remember: ", "In every answer, ", "For the future: ")
    )
    return f"{opener}{wishes[0]}{random.choice(('.', '.', '', ', please.'))}"


def node(random: Random, split: Split) -> Note:
    """A node that the user has open."""
    note, _ = document(random, split, 2)
    tags = tuple(values.common_noun(random) for _ in range(random.choice((0, 0, 1, 2))))
    link = f"https://{values.made_up_word(random)}.example/{values.made_up_word(random)}"
    text = note.text if random.random() < 0.8 else ""
    return Note(note.title, text, "", link if random.random() < 0.2 else "", tags, random.randint(1, 5000))


def conversation_setting(random: Random, split: Split, turns: Sequence[Turn]) -> Setting:
    """The setting of a conversation, most often the one that everybody begins with."""
    has_passages = any(turn.added.passages for turn in turns)
    # The product shortens the tail for this model; it has to stand a long one, which can be set.
    length = {"context_tail": "whole"} if random.random() < LONG_TAILS * split.level else {}
    if random.random() > 0.45 * split.level:
        return Setting(length, has_knowledge=has_passages)
    kind = random.random()
    config = preferences(random) if kind < 0.25 else {}
    system: str | None = ""
    if 0.25 < kind < 0.4:
        some = random.sample(INSTRUCTIONS, random.choice((1, 1, 2, 3)))
        system = " ".join(filled(random, text) for text in some)
    elif 0.4 < kind < 0.44:
        system = None
    elif 0.44 < kind < 0.5:
        config = {"context_entities": True}
    hubs: tuple[Hub, ...] = ()
    if 0.5 < kind < 0.75:
        hubs = tuple(
            Hub(random.randint(1, 5000), document(random, split, 1)[0].title, random.randint(1, 40))
            for _ in range(random.randint(1, 8))
        )
    focused: tuple[Note, ...] = ()
    if 0.65 < kind < 0.9:
        focused = tuple(node(random, split) for _ in range(random.choice((1, 1, 1, 2, 3))))
    summary: tuple[str, ...] = ()
    if kind > 0.9:
        summary = tuple(chatter(random, random.randint(1, 3)) for _ in range(random.randint(1, 2)))
    knowledge = has_passages or random.random() < 0.1
    titles = tuple(dict.fromkeys(note.title for turn in turns for note in turn.added.passages))
    return Setting({**length, **config}, hubs, focused, knowledge, titles, summary, system=system)


def past_facts(random: Random, facts: Sequence[Item]) -> tuple[tuple[str, str], ...]:
    """A former value of a fact, as the product shows it behind the present ones."""
    fitting = [item for item in facts if item.relation.name in ("location", "employer", "occupation", "car")]
    if not fitting:
        return ()
    item = random.choice(fitting)
    when = random.choice(
        (f"{random.choice(values.MONTHS)} {random.randint(2015, 2026)}", f"until {random.randint(2015, 2026)}-0{random.randint(1, 9)}-11")
    )  # fmt: skip
    return ((f"{item.key} ({when})", values.MAKERS[item.relation.value](random)),)

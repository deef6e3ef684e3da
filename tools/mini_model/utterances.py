# ruff: noqa: E501 - tables of wordings; wrapped, they are harder to read and to compare
"""What a user says about items, what the model replies, and the blocks that Shepherd adds to a message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

import smalltalk
import values
from items import (
    HELD_OUT_WORDINGS,
    Item,
    NoWordingError,
    Split,
    make_items,
    wording,
)
from relations import COMPOUNDS

__all__ = [
    "acknowledgement",
    "capital",
    "memory",
    "question",
    "rest_of_message",
    "small_talk",
    "small_talk_memory",
    "statement",
    "tail",
]

ASK_FRAMES = (
    "(do|would|might) you (happen to |)(know|remember|recall) {that}?", "(can|could) you (please |)(tell me|remind me|say|repeat) {that}(| please)?",
    "(please |)(tell me|remind me) {that}(| please| again).", "(any idea|do you know|do you still know|have you stored|do you have) {that}?",
    "I (forgot|can't remember|don't remember|want to know|would like to know) {that}.", "I need to know {that}.", "(is it stored|did I tell you|did I ever say|have I told you) {that}?", "what do you (know about|have about|remember about) {that}?",
)  # fmt: skip
QUESTION_OPENERS = (
    *[""] * 14,
    "hey, ",
    "quick question: ",
    "ok, ",
    "so, ",
    "hi! ",
    "one more thing: ",
    "well, ",
    "sorry, ",
    "and ",
    "hmm, ",
    "by the way, ",
    "hello, ",
    "now, ",
    "shepherd, ",
    "hey, quick one: ",
    "just curious: ",
)
STATEMENT_OPENERS = (
    *[""] * 14, "by the way, ", "hi, ", "hello! ", "also, ", "please remember that ", "remember that ", "remember: ", "just so you know, ", "note that ", "hey, ", "for the record, ", "FYI, ", "well, ", "actually, ",
    "good morning, ", "one more thing: ", "oh, and ", "you should know that ", "please note: ", "hi there, ", "guess what, ", "so, ", "today I can tell you that ", "and ",
)  # fmt: skip
STATEMENT_CLOSERS = (
    *["."] * 16, "!", "", "", ", thanks.", ", remember that.", ", please note it.", ", ok?", " by the way.", ", just so you know.", " :)", "...", ", you know.", ". Please remember it.", ". Good to know, right?",
)  # fmt: skip
AS_IT_IS = "\0"  # before a value at the start of a clause: a value keeps its letters


def capital(text: str) -> str:
    """The text with a capital at its start."""
    return text[:1].upper() + text[1:]


def careless(random: Random, text: str, rate: float = 0.12) -> str:
    """The wording as a hurried person types it: no apostrophes, small `i`, no capitals. Values are not yet in it."""
    if random.random() < rate:
        text = text.replace("'", "")
    if random.random() < rate:
        text = re.sub(r"\bI\b", "i", text)
    return text


def with_articles(random: Random, template: str, slots: dict[str, str]) -> str:
    """`a` and `an` before a slot by what will stand there, as most people write them most of the time."""
    if random.random() < 0.1:
        return template

    def article(found: re.Match[str]) -> str:
        return f"{'an' if slots[found[1]][:1] in tuple('aeiouAEIOU') else 'a'} {found[1]}"

    return re.sub(r"\ban? (\{[a-z ]+\})", article, template)


def question(random: Random, item: Item, split: Split) -> str:
    """A question for the item."""
    relation = item.relation
    if random.random() < 0.45:
        frame_and_clause = [frame.replace("{that}", random.choice(relation.that)) for frame in ASK_FRAMES]
        text = wording(random, frame_and_clause, split)
    else:
        text = wording(random, relation.ask, split)
    text = careless(random, text)
    opener = random.choice(QUESTION_OPENERS)
    text = opener + text if opener else text
    if random.random() > 0.12:
        text = capital(text)
    if random.random() < 0.12:
        text = text.rstrip(".?")
    return item.fill(text)


def statement_clause(random: Random, item: Item, split: Split) -> str:
    """A clause that tells the item."""
    text = careless(random, wording(random, item.relation.say, split), 0.08)
    text = text.replace("{year}", values.year(random)).replace("{n}", str(random.randint(2, 30)))
    text = text.replace("{p}", values.place(random))
    text = with_articles(random, text, {"{x}": item.x, "{y}": item.y, "{v}": item.value})
    return item.fill(AS_IT_IS + text if text.startswith("{") else text)


def compound_clause(random: Random, items: Sequence[Item], split: Split) -> str | None:
    """A clause that tells all items at once, if there is one for their relations."""
    names = tuple(item.relation.name for item in items)
    for relations, templates in COMPOUNDS:
        if relations == names and len({item.x for item in items if item.x}) < 2:
            try:
                text = careless(random, wording(random, templates, split), 0.08)
            except NoWordingError:
                return None
            return fill_slots(random, text, items)
    return None


def fill_slots(random: Random, template: str, items: Sequence[Item]) -> str:
    """The template with every value in the slot of its relation."""
    parts = {f"{{{item.relation.name}}}": item.value for item in items}
    text = with_articles(random, template.replace("{x}", items[0].x), parts)
    if text.startswith("{"):
        text = AS_IT_IS + text
    return re.sub(r"\{[a-z ]+\}", lambda slot: parts[slot[0]], text)


def statement(random: Random, items: Sequence[Item], split: Split) -> str:
    """One message that tells all items."""
    together = compound_clause(random, items, split) if len(items) > 1 else None
    clauses = [together] if together else [statement_clause(random, item, split) for item in items]
    opener = random.choice(STATEMENT_OPENERS)
    if len(clauses) == 1:
        body = clauses[0]
    elif random.random() < 0.55:
        body = (
            ", ".join(clauses[:-1])
            + random.choice([" and ", " and ", ", and ", ", but ", ", ", " & ", " but "])
            + clauses[-1]
        )
    else:
        body = ". ".join([clauses[0], *(capital(clause) for clause in clauses[1:])])
    text = opener + body + random.choice(STATEMENT_CLOSERS)
    if random.random() > 0.12:
        text = capital(text)
    extra = random.random()
    if extra < 0.07:
        text += " " + capital(remark(random, split)) + "."
    elif extra < 0.12:
        text = capital(remark(random, split)) + ". " + text
    return text.replace(AS_IT_IS, "")


def remark(random: Random, split: Split) -> str:
    """A sentence with nothing to keep in it."""
    return wording(random, smalltalk.SMALL_TALK[smalltalk.SEEN], split)


def rest_of_message(random: Random) -> str:
    """What remains beside a statement when a message is cut into its sentences: "Please remember it."."""
    ends = [closer[2:] for closer in STATEMENT_CLOSERS if closer.startswith((". ", ", "))]
    text = random.choice(["please remember it.", "good to know, right?", *ends])
    if random.random() < 0.3:
        text = random.choice([opener.strip(" :,") for opener in STATEMENT_OPENERS if opener]) + "."
    return capital(text)


def small_talk(random: Random, split: Split) -> tuple[str, str]:
    """What the user says beside the point, and the reply."""
    if random.random() < 0.5:
        template = next(
            (t for t in (smalltalk.request_template(random) for _ in range(60))
             if values.is_held_out(t, HELD_OUT_WORDINGS) == split.wordings_held_out), None,
        )  # fmt: skip
        if template is None:
            raise NoWordingError("request")
        text, reply = smalltalk.request(template, random, split.values_held_out), smalltalk.OTHER
        if random.random() < 0.15:
            text = random.choice(["please ", "hey, ", "ok, ", "now ", "hi, ", "and "]) + text
    else:
        reply = random.choice([*smalltalk.SMALL_TALK])
        text = wording(random, smalltalk.SMALL_TALK[reply], split)
    text = careless(random, text)
    if text[-1] not in ".?!" and random.random() < 0.6:
        text += random.choice("..!?" if reply == smalltalk.OTHER else "..!!")
    elif random.random() < 0.12:
        text = text.rstrip("?")
    return (capital(text) if random.random() < 0.8 else text), reply


def acknowledgement(items: Sequence[Item]) -> str:
    """The reply to a statement: by name when it was an introduction."""
    for item in items:
        if item.relation.name == "name":
            return item.fill(smalltalk.INTRODUCE)
    return smalltalk.ACKNOWLEDGE


def tail(facts: dict[str, str], context: Sequence[tuple[str, str]]) -> str:
    """The injected blocks behind a user's text: facts in key order, then found memories."""
    lines = []
    if facts:
        lines.append("[facts: " + ", ".join(f"{key}={facts[key]}" for key in sorted(facts)) + "]")
    if context:
        lines.append("[context: " + " | ".join(f"User: {q}\nAssistant: {a}" for q, a in context) + "]")
    return "\n\n" + "\n".join(lines) if lines else ""


def memory(random: Random, item: Item, split: Split) -> tuple[str, str]:
    """The item as a memory: a question and answer of extraction, or the turn in which it was told."""
    as_pair = 0.55 if item.relation.question else 0.25
    if random.random() < as_pair:
        answer = item.value
        if random.random() < 0.1:
            answer = capital(answer)
        return item.stored_question(random), answer
    told = [item]
    if random.random() < 0.1:
        told = [*told, *make_items(random, split, 1, told)]
        random.shuffle(told)
    return statement(random, told, split), acknowledgement(told)


def small_talk_memory(random: Random, split: Split) -> tuple[str, str]:
    """A stored turn that holds nothing."""
    text = remark(random, split)
    return capital(text) + ".", smalltalk.SEEN

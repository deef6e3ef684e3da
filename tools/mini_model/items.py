# ruff: noqa: E501 - tables of wordings; wrapped, they are harder to read and to compare
"""Things that can be known about a user: a relation with its slots and value, drawn from a share of all there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

import values
from relations import COMPOUNDS, RELATIONS, USES, Relation, expand

__all__ = [
    "HELD_OUT_WORDINGS",
    "TRAINING",
    "Item",
    "NamedItem",
    "NoWordingError",
    "Split",
    "bearer",
    "make_item",
    "make_items",
    "near_miss",
    "things_to_tell",
    "wording",
]

HELD_OUT_WORDINGS = 8  # one in so many
VERBS = values.listed("prefer use like want own need love choose recommend")


@dataclass(frozen=True)
class Split:
    """Where wording and values come from. `level` (0..1] shortens conversations at the start of training."""

    wordings_held_out: bool = False
    values_held_out: bool = False
    level: float = 1.0
    plain: bool = False  # evaluation: no extra turns behind the one that is asked for


TRAINING = Split()


class NoWordingError(Exception):
    """A relation has too few wordings to have one in the share that was asked for."""


def wording(random: Random, templates: Sequence[str], split: Split) -> str:
    """One template with its brackets chosen, from the share of the split."""
    for _ in range(120):
        text = expand(random.choice(templates), random)
        if values.is_held_out(text, HELD_OUT_WORDINGS) == split.wordings_held_out:
            return text
    raise NoWordingError(templates[0])


@dataclass(frozen=True)
class Item:
    """One thing known about the user: a relation with its slots and value."""

    relation: Relation
    x: str
    y: str
    value: str

    @property
    def key(self) -> str:
        """The key that extraction gives it."""
        return self.fill(self.relation.key, underscore=True)

    @property
    def topic(self) -> str:
        """What must be different between two items that stand side by side."""
        name = self.relation.name
        if name in (
            "called",
            "age of",
            "allergy of",
            "birthday of",
            "home of",
            "job of",
            "meeting",
            "visit",
            "class",
            "lent",
            "deadline",
            "gift",
            "amount",
            "used",
        ):
            return f"{name} {self.x} {self.y if name in ('meeting', 'gift') else ''}"
        if name in ("favorite", "general", "preference"):
            return ALIKE.get(self.x, self.x)
        return ALIKE.get(name, name)

    def fill(self, template: str, *, underscore: bool = False) -> str:
        """The template with its slots filled."""
        x = self.x.lower().replace(" ", "_").replace("-", "_") if underscore else self.x
        return template.replace("{x}", x).replace("{y}", self.y).replace("{v}", self.value)

    def answer(self) -> str:
        """What the model says when it is asked for this."""
        return self.fill(self.relation.answer)

    def stored_key(self, random: Random) -> str:
        """The key it is stored under: now and then another program's word for the same."""
        if self.relation.aliases and random.random() < 0.15:
            return self.fill(random.choice(self.relation.aliases), underscore=True)
        return self.key

    def stored_question(self, random: Random) -> str:
        """How extraction words it when it stores it as question and answer."""
        if self.relation.question:
            return self.fill(expand(self.relation.question, random))
        return f"What is the user's {self.key.replace('_', ' ')}?"


@dataclass(frozen=True)
class NamedItem(Item):
    """An item about a person or an animal, asked for by its name: "How old is Biscuit?"."""

    name: str = ""

    @property
    def topic(self) -> str:
        """What must be different between two items: the name stands for its bearer."""
        return Item(self.relation, self.x, self.y, self.value).topic

    def fill(self, template: str, *, underscore: bool = False) -> str:
        """The template with its slots filled, and with the name instead of "my dog"."""
        if not underscore:
            for own in ("my {x}", "Your {x}", "your {x}"):
                template = template.replace(own, self.name)
        return super().fill(template, underscore=underscore)


# Different relations for the same question: never two of them in one sample.
ALIKE = {
    "colour": "color", "email": "mail", "email address": "mail", "phone": "phone", "phone number": "phone", "IDE": "editor", "parked": "car", "trip": "trip",
    "operating system": "system", "last name": "name", "middle name": "name", "hometown": "hometown", "birthday": "birthday", "buying": "wants", "gift": "wants",
    "working on": "project", "learning": "study", "plan": "project", "goal": "project", "like": "likes", "dislike": "dislikes", "allergy": "dislikes", "diet": "dislikes", "food": "likes",
    "programming": "language", "languages": "language", "programming language": "language", "wake time": "alarm time", "shoe size": "shoe size", "school": "school", "occupation": "job",
    "employer": "job at", "timezone": "timezone", "address": "address", "team": "team", "book": "reading", "hobby": "hobby", "instrument": "instrument",
}  # fmt: skip


def make_item(random: Random, split: Split, relation: Relation | None = None) -> Item:
    """A random item, of the given relation if there is one."""
    relation = relation or random.choices(RELATIONS, WEIGHTS)[0]
    x = ""
    if relation.slots:
        if random.random() < relation.made_up_slots:
            x = values.made_up_word(random)
            if random.random() < 0.2:
                x += " " + values.made_up_word(random, 1, 2)
        else:
            x = random.choice(relation.slots)
    if relation.name == "preference":
        y = random.choice(VERBS)
    else:
        y = USES[x] if relation.name == "used" else values.first_name(random)
    value = values.fresh(random, values.MAKERS[relation.value], split.values_held_out)
    return Item(relation, x, y, value)


WEIGHTS = [relation.weight for relation in RELATIONS]
BY_NAME = {relation.name: relation for relation in RELATIONS}


def make_items(
    random: Random, split: Split, count: int, taken: Iterable[Item] = (), *, facts: bool | None = None
) -> list[Item]:
    """`count` items about different things; `facts` asks for those with a key, or for the others."""
    topics = {item.topic for item in taken}
    keys = {item.key for item in taken}
    found: list[Item] = []
    while len(found) < count:
        item = make_item(random, split)
        if (
            (facts is not None and bool(item.key) != facts)
            or item.topic in topics
            or (item.key and item.key in keys)
        ):
            continue
        topics.add(item.topic)
        keys.add(item.key)
        found.append(item)
    return found


OF_SOMEBODY = ("age of", "allergy of", "birthday of", "job of", "home of")


def bearer(random: Random, split: Split, known: Sequence[Item]) -> list[Item]:
    """Somebody's name, and one to three things about them that are asked for by that name; [] if known already."""
    name = make_item(random, split, BY_NAME["called"])
    slots = set(name.relation.slots)
    about: list[Item] = []
    for relation in random.sample(OF_SOMEBODY, random.randint(1, 3)):
        fitting = [x for x in BY_NAME[relation].slots if x in slots]
        x = name.x if name.x in BY_NAME[relation].slots else ""
        if not x and not about:
            x = random.choice(fitting)
            name = Item(name.relation, x, name.y, name.value)
        if x:
            other = make_item(random, split, BY_NAME[relation])
            about.append(NamedItem(other.relation, name.x, other.y, other.value, name.value))
    items = [name, *about]
    topics, keys = {item.topic for item in known}, {item.key for item in known}
    taken = any(item.topic in topics or (item.key and item.key in keys) for item in items)
    return [] if taken or any(item.x != name.x for item in items) else items


def things_to_tell(random: Random, split: Split, count: int, taken: Iterable[Item] = ()) -> list[Item]:
    """`count` items to state in one message; now and then such as people run together in one clause."""
    taken = list(taken)
    if random.random() < 0.12:
        names, _ = random.choice(COMPOUNDS)
        items = compound_items(random, split, names)
        topics, keys = {item.topic for item in taken}, {item.key for item in taken}
        if not any(item.topic in topics or item.key in keys for item in items):
            return items
    return make_items(random, split, count, taken)


def compound_items(random: Random, split: Split, names: Sequence[str]) -> list[Item]:
    """One item for each relation; those about a thing or person are about the same."""
    items: list[Item] = []
    for name in names:
        item = make_item(random, split, BY_NAME[name])
        if items and items[0].x:
            item = Item(item.relation, items[0].x, item.y, item.value)
        items.append(item)
    return items


# What is easily taken for another kind of thing: the same words, the same kind of value.
MISTAKEN_FOR = {
    "name": ("nickname", "called"), "nickname": ("name", "called"), "called": ("name", "age of", "birthday of", "names of children"), "names of children": ("children", "called"), "children": ("names of children", "age"),
    "location": ("hometown", "trip", "employer"), "hometown": ("location", "trip"), "trip": ("location", "hometown"), "employer": ("occupation", "school", "team", "location"), "occupation": ("employer", "working on", "hobby"), "school": ("employer", "team"),
    "team": ("employer", "school"), "age": ("age of", "birthday"), "age of": ("age", "birthday of", "called"), "allergy of": ("allergy", "called", "job of"), "job of": ("occupation", "home of", "called"), "home of": ("location", "job of", "called"), "address": ("location", "email", "home of"), "birthday": ("birthday of", "age", "deadline"), "birthday of": ("birthday", "age of", "called"), "hobby": ("like", "learning", "instrument", "working on"),
    "like": ("hobby", "dislike", "favorite", "preference"), "dislike": ("like", "allergy"), "allergy": ("dislike", "diet"), "diet": ("allergy", "like"), "favorite": ("preference", "like"), "preference": ("favorite", "general"), "editor": ("system", "programming"),
    "system": ("editor", "general"), "programming": ("languages", "editor"), "languages": ("programming", "learning"), "learning": ("reading", "working on", "class"), "reading": ("learning", "working on"), "working on": ("learning", "reading", "occupation"), "buying": ("gift", "like"),
    "gift": ("buying", "lent"), "lent": ("kept", "gift"), "kept": ("lent", "parked"), "parked": ("kept", "car"), "car": ("parked", "general"), "meeting": ("visit", "class"), "visit": ("meeting", "class", "deadline"), "class": ("meeting", "visit"), "deadline": ("visit", "birthday"),
    "departure": ("wake time", "visit"), "wake time": ("departure", "meeting"), "height": ("shoe size", "age"), "shoe size": ("height",), "email": ("phone", "general"), "phone": ("email", "general"), "general": ("preference", "called", "kept"), "instrument": ("hobby", "learning"),
}  # fmt: skip


def near_miss(random: Random, split: Split, known: Sequence[Item]) -> Item:
    """An item that is not known; half the time of a relation that is (another pet, another favourite)."""
    topics = {item.topic for item in known}
    for _ in range(200):
        relation = random.choice(known).relation if known and random.random() < 0.5 else None
        if known and not split.plain and random.random() < 0.25:
            relation = BY_NAME[
                random.choice(MISTAKEN_FOR.get(random.choice(known).relation.name, ("called",)))
            ]
        if known and random.random() < 0.25:
            other = random.choice(known)
            family = [r for r in RELATIONS if r.slots and other.x in r.slots and r is not other.relation]
            if family:
                item = make_item(random, split, random.choice(family))
                item = Item(item.relation, other.x, item.y, item.value)
                if item.topic not in topics:
                    return item
        item = make_item(random, split, relation)
        if item.topic not in topics:
            return item
    return make_items(random, split, 1, known)[0]

"""Generated lives: people move, change jobs, cars and names, and tell of it, sometimes late."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from shepherd.extraction.answer import Extracted, select
from shepherd.memory import Memory, OpenJob
from shepherd.types import Message

# The fewest, in tens, that use every wording at least once.
N_LIVES = 120
N_CHANGES = 10
N_DATES = 10
DAY = 86_400
START = datetime(2021, 2, 3, 9, 30)

CITIES = (
    *(
        "Oslo",
        "Rome",
        "Paris",
        "Lisbon",
        "Köln",
        "Berlin",
        "Vienna",
        "Prague",
        "New York",
        "San Diego",
        "Leeds",
    ),
    *("Ghent", "Zürich", "Madrid", "Porto", "Turin", "Utrecht", "Bergen", "Cork", "Austin", "São Paulo"),
)
FIRMS = (
    *("Siemens", "Bosch", "Amazon", "Ikea", "Philips", "Airbus", "Renault", "Novo Nordisk", "Acme", "Nokia"),
    *("Deloitte", "Barclays", "Lufthansa", "Spotify", "Volvo Trucks", "Ericsson"),
)
NAMES = ("Max", "Maria", "Lena", "Tom", "Ines", "Joana", "Pieter", "Chloé", "Marco", "Sven", "Aoife", "Nils")
PETS = ("Rex", "Bella", "Luna", "Oscar", "Milo", "Coco", "Balu", "Nala", "Simba", "Fleck")
CARS = ("Skoda", "Volvo", "Fiat", "Toyota", "Tesla", "Peugeot", "Mazda", "Honda", "Seat", "Kia")
COLOURS = ("green", "blue", "orange", "purple", "teal", "yellow", "crimson")

# Wordings of a new value {}, of one with a time {t}, and of the end of a value.
NOW = {
    "location": ("I moved to {}.", "We've moved to {}!", "I now live in {}.", "hey, i just relocated to {}",
                 "Well, I have moved to {} and I love it.", "I live in {} now.", "We live in {} now."),
    "employer": ("I joined {}.", "I've started at {}.", "I got a new job at {}!", "I now work at {}.",
                 "I'm working for {} now.", "Hello! Today I joined {}, finally."),
    "name": ("My name is {} now.", "Call me {}.", "Please call me {}.", "I changed my name to {}."),
    "dog_name": ("My dog is called {}.", "We have a new dog called {}.", "My dog's name is {}.",
                 "I've adopted a dog named {}."),
    "car": ("I drive a {}.", "I now drive a {}.", "I drive a {} these days."),
    "favorite_color": ("My favourite colour is {}.", "My favorite color is now {}."),
}  # fmt: skip
LATE = {
    "location": ("I moved to {} {t}.", "We relocated to {} {t}.", "{T} I moved to {}.",
                 "I moved to {} {t}, and my neighbour still lives in Bonn."),
    "employer": ("I joined {} {t}.", "I started at {} {t}.", "I got a new job at {} {t}.",
                 "{T} I joined {}."),
}  # fmt: skip
SINCE = {
    "location": ("I've lived in {} since {m}.", "I have been living in {} since {m}."),
    "employer": ("I've been working at {} since {m}.", "Since {m} I work at {}."),
}
OVER = {
    "location": ("I no longer live in {}.", "I don't live in {} any more.", "I moved out of {}."),
    "employer": ("I quit my job at {}.", "I no longer work at {}.", "I resigned from {}."),
    "dog_name": ("My dog {} died.",),
    "car": ("I sold my {}.", "I got rid of my {}.", "I no longer drive a {}."),
}
VALUES = {
    "location": CITIES,
    "employer": FIRMS,
    "name": NAMES,
    "dog_name": PETS,
    "car": CARS,
    "favorite_color": COLOURS,
}
# Lines from which nothing is learned, whatever the facts are.
NOISE = (
    "What should I cook tonight?", "I'd love to live in Tokyo one day.", "My neighbour lives in Hamburg.",
    "Is my name Bob?", "If I moved to Madrid, what would I need?", "I used to live in Dublin.",
    "Translate into French: I live in Vienna and my name is Peter.", "Do I work at Google?",
    "He said: my dog is called Brutus.", "I'm in Brussels for the weekend.", "I don't work at Tesco.",
    "My boss drives a Porsche.", "Imagine I lived on Mars.", "I might move to Cork next year.", "ok thanks",
)  # fmt: skip


@dataclass
class Life:
    """One user's truth: for each key the values with the time from which each held, None for an end."""

    user: str
    chance: random.Random
    now: datetime
    truth: dict[str, list[tuple[datetime, str | None]]] = field(default_factory=dict)
    n_changes: int = 0

    def value(self, key: str) -> str | None:
        values = self.truth.get(key)
        return values[-1][1] if values else None

    def current(self) -> dict[str, str]:
        return {key: value for key in self.truth if (value := self.value(key)) is not None}

    def at(self, key: str, when: datetime) -> str | None:
        held = None
        for since, value in self.truth.get(key, ()):
            if since <= when:
                held = value
        return held

    def note(self, key: str, value: str | None, since: datetime) -> None:
        self.truth.setdefault(key, []).append((since, value))
        self.n_changes += 1

    def next_line(self) -> str:
        """Let time pass and something happen; return what the user says of it."""
        chance = self.chance
        self.now += timedelta(days=chance.randint(40, 160), minutes=chance.randint(0, 700))
        key = chance.choice(list(VALUES))
        known = self.value(key)
        others = [value for value in VALUES[key] if value not in self.current().values()]
        new = chance.choice(others)
        how = chance.random()
        if known is not None and key in OVER and how < 0.15:
            self.note(key, None, self.now)
            return chance.choice(OVER[key]).format(known)
        if key in LATE and how < 0.45:
            phrase, since = self.earlier()
            self.note(key, new, since)
            line = chance.choice(LATE[key])
            return line.format(new, t=phrase, T=phrase[:1].upper() + phrase[1:])
        if key in SINCE and known is None and key not in self.truth and how < 0.6:
            since = self.now - timedelta(days=chance.randint(100, 300))
            self.note(key, new, since)
            return chance.choice(SINCE[key]).format(new, m=f"{since:%B %Y}")
        self.note(key, new, self.now)
        wordings = NOW[key]
        if known is not None and key in ("dog_name", "car", "favorite_color", "name"):
            wordings = wordings[:3]
        return chance.choice(wordings).format(new)

    def earlier(self) -> tuple[str, datetime]:
        """A time of the last weeks in words, and the time that is meant."""
        chance, now = self.chance, self.now
        days = chance.randint(1, 30)
        then = now - timedelta(days=days)
        monday = (now - timedelta(days=now.weekday())).replace(hour=0, minute=0)
        phrases = [f"on {then.day} {then:%B}", f"on {then:%B} {then.day}"]
        if days == 1:
            phrases.append("yesterday")
        if days in (14, 21):
            phrases.append(f"{'two' if days == 14 else 'three'} weeks ago")
        if monday - timedelta(days=7) <= then < monday:
            phrases.append("last week")
        if then.month != now.month:
            phrases += ["last month", f"in {then:%B}"]
        return chance.choice(phrases), then


class World:
    """One memory of many people."""

    def __init__(self, path: Path) -> None:
        self.now = START.timestamp()
        self.memory = Memory(path, clock=lambda: self.now)
        self.sessions: dict[str, str] = {}

    def tell(self, user: str, line: str, claims: dict[str, str]) -> None:
        memory = self.memory
        if user not in self.sessions:
            self.sessions[user] = memory.start_session(user)
        memory.append_message(self.sessions[user], Message("user", line), user, job=OpenJob("w/1/a", 1))
        job = memory.extraction.claim("worker", user)
        assert job is not None
        kept = select(Extracted(claims), job.lines, memory, user, facts_only=True, secrets=False)
        memory.extraction.finish(job, kept.claims, [], statements=kept.sources, dropped=kept.dropped)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "memory.db")
    with world.memory:
        yield world


@dataclass
class Score:
    """How many answers were asked for, and how many were right."""

    asked: int = 0
    right: int = 0

    def note(self, is_right: bool) -> None:
        self.asked += 1
        self.right += is_right


def test_the_present_and_the_past_of_generated_lives_are_right(world: World) -> None:
    """The present in all of 1,200 changes, the past at 99 of 100 dates, and nothing stale as current."""
    dates, questions = Score(), Score()
    n_changes = 0
    for number in range(N_LIVES):
        life = live(world, number)
        n_changes += life.n_changes
        ask_about_the_past(world, life, dates, questions)
    assert n_changes >= N_LIVES * N_CHANGES
    assert questions.asked > N_LIVES / 2
    for score in (dates, questions):
        assert score.right >= 0.99 * score.asked, f"{score.right} of {score.asked} right"


def live(world: World, number: int) -> Life:
    """Tell the memory of a whole life; its facts are right after every line."""
    memory, chance = world.memory, random.Random(number)
    life = Life(f"user{number}", chance, START + timedelta(days=chance.randint(0, 60)))
    world.now = life.now.timestamp()
    by_hand = chance.choice(["location", "employer", "name", None])
    if by_hand is not None:
        life.note(by_hand, chance.choice(VALUES[by_hand]), life.now)
        memory.set_fact(by_hand, life.current()[by_hand], life.user)
        contradiction = {
            "location": "I live in Cardiff.", "employer": "I work at Tesco.", "name": "My name is Bob."
        }[by_hand]  # fmt: skip
        world.now += 60
        world.tell(life.user, contradiction, {})
        assert [item.before for item in memory.learned(waiting_only=True, user_id=life.user)] == [
            life.current()[by_hand]
        ]
    while life.n_changes < N_CHANGES:
        line = life.next_line()
        world.now = life.now.timestamp()
        # A bad extraction model claims something else as well.
        world.tell(life.user, line, {"location": "Tokyo", "hobby": "chess", "name": "Bob"})
        facts = {fact.key: fact.value for fact in memory.get_all_facts(life.user)}
        assert facts == life.current(), line
        world.now += 60
        noise = chance.choice(NOISE)
        world.tell(life.user, noise, {"location": "Tokyo", "name": "Bob"})
        assert {fact.key: fact.value for fact in memory.get_all_facts(life.user)} == facts, noise
    assert {fact.key: fact.value for fact in memory.facts_at(world.now, life.user)} == life.current()
    return life


def ask_about_the_past(world: World, life: Life, dates: Score, questions: Score) -> None:
    memory, chance = world.memory, life.chance
    current = ", ".join(f"{key}={value}" for key, value in sorted(life.current().items()))
    for _ in range(N_DATES):
        when = START + (life.now - START) * chance.random()
        then = {f.key: f.value for f in memory.facts_at(when.timestamp(), life.user)}
        for key in VALUES:
            dates.note(then.get(key) == life.at(key, when))
        month = when.replace(day=1, hour=0, minute=0)
        in_month = {life.at("location", month + timedelta(days=day)) for day in range(31)}
        was = life.at("location", when)
        if was is None or len(in_month) > 1 or (life.now - when).days < 62:
            continue
        tail = memory.recall(f"Where did I live in {when:%B %Y}?", life.user).tail
        block = tail.strip().partition("\n")[0]
        # Without parentheses stands what is true now, and nothing else.
        assert block.removeprefix("[facts: ").startswith(current), block
        if was == life.value("location"):
            questions.note("location (since)=" in block)
        else:
            questions.note(f", location ({when:%B %Y})={was}" in block.replace("[facts: ", ", "))

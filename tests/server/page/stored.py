"""What a person may have told over a year: memories, facts with a past, conversations, a little knowledge."""

from __future__ import annotations

import time

from shepherd.knowledge import Knowledge
from shepherd.memory import Memory, OpenJob
from shepherd.trace import Traces, paths_of
from shepherd.types import Message

__all__ = ["DAY_S", "a_year", "conversation"]

DAY_S = 86_400

MEMORIES = [
    ("Which editor does the user prefer?", "Helix, since the spring; vim before that.", 3),
    ("What is the user's dog called?", "Bruno. He is a border collie and herds the neighbour's ducks.", 12),
    ("Where does the user live?", "In Austin, Texas, close to the river.", 20),
    ("What is the user allergic to?", "Peanuts. A trace of them is enough.", 34),
    ("Which train does the user take to work?", "The 7:42 from Plaza Saltillo, unless it rains.", 41),
    ("What is the user building?", "A greenhouse out of old windows, for tomatoes and chillies.", 58),
    (
        "Which books has the user read lately?",
        "The Left Hand of Darkness, and A Psalm for the Wild-Built.",
        75,
    ),
    ("When is the user's sister's birthday?", "On the 9th of May. She likes ceramics.", 110),
    ("How does the user like coffee?", "Black, from a moka pot, never after four.", 140),
    ("Which languages does the user speak?", "English and Spanish, and enough German to order bread.", 201),
]
NODES = [
    ("Greenhouse", "plan", "Old windows on a cedar frame, four by three metres."),
    ("Tomatoes", "plant", "Black Krim and San Marzano; sow in February."),
    ("Chillies", "plant", "Aji Amarillo takes the longest."),
    ("Cedar frame", "part", "Joints are half-lapped; oil it each autumn."),
    ("Old windows", "part", "Twelve of them, from the house in Lockhart."),
    ("Rain barrel", "part", "Two hundred litres, under the north gutter."),
    ("Automatic watering", "idea", "A timer and drip lines, fed by the barrel."),
    ("Frost in March", "event", "Cost half of the seedlings."),
    ("Seed order", "note", "To be sent by the end of December."),
    ("Compost", "note", "Turn it every other week."),
    ("Lockhart house", "place", "Where the windows and the door came from."),
    ("Ducks", "animal", "The neighbour's. They eat slugs."),
]
EDGES = [
    (1, 0, "part_of", "grow on the south side"), (2, 0, "part_of", "grow on the shelf"),
    (3, 0, "part_of", "carries the windows"), (4, 0, "part_of", "are its walls"),
    (5, 6, "source_of", "gives the water"), (6, 0, "part_of", "waters the beds"),
    (7, 1, "contradicts", "seedlings died"), (8, 2, "related_to", "seeds for next year"),
    (9, 1, "supports", "feeds the beds"), (4, 10, "created_by", "taken out there"),
    (5, 0, "related_to", "stands beside it"), (11, 9, "related_to", "scratch in it"),
]  # fmt: skip


def a_year(memory: Memory, user: str) -> None:
    """All of it, for one user."""
    now = time.time()
    told = [(*entry, "turn" if entry[2] % 2 else "extraction") for entry in MEMORIES]
    for n in range(60):
        told.append((f"What was for lunch on day {n}?", f"Soup number {n}.", n * 5 + (n * n) % 7, "user"))
    memory.import_memories(
        [
            {"type": "memory", "question": q, "answer": a, "timestamp": now - days * DAY_S, "source": source}
            for q, a, days, source in told
        ],
        user,
    )
    for key, value in (("name", "Steve"), ("location", "Dallas"), ("location", "Austin"), ("city", "Paris")):
        memory.set_fact(key, value, user)
    memory.clear_fact("city", user)
    memory.set_fact("allergies", "peanuts", user, source="extraction")
    pinned = memory.search("allergic", 1, user)[0]
    memory.pin_memory(pinned.id, True, user)
    conversation(memory, user, "Which editor do I use?", "You use Helix.")
    conversation(memory, user, "What should I cook for my sister?", "Something without peanuts, for you.")
    knowledge = Knowledge(memory.transactions, user)
    ids = [
        knowledge.add_node(title, kind=kind, notes=notes, dimensions=["garden"]).id
        for title, kind, notes in NODES
    ]
    for start, end, kind, why in EDGES:
        knowledge.connect(ids[start], ids[end], why, type=kind)
    knowledge.focus([ids[0]])


def conversation(memory: Memory, user: str, question: str, answer: str) -> str:
    """One exchange as `shepherd` stores it, still to be learned from; the conversation's id."""
    injection = memory.recall(question, user)
    session = memory.start_session(user, "a-model")
    asked = Message("user", question, question + injection.tail, injection)
    memory.append_message(session, asked, user, job=OpenJob("worker", 9))
    memory.append_message(session, Message("assistant", answer), user)
    shown = paths_of(
        {
            "model": "a-model",
            "budget": {
                "total": 4096,
                "system": 320,
                "history": 1200,
                "facts": 24,
                "query": 12,
                "reserve": 1024,
                "strategy": "",
            },
            "history": {
                "verbatim_count": 0,
                "total_tokens": 0,
                "compressed": False,
                "turns": [{"turn_id": 0, "speaker": "user", "tokens": 12, "content": question}],
            },
            "tail": {"facts": {fact.key: fact.value for fact in injection.facts}},
            "left_out": [{"id": "document 3", "category": "knowledge", "reason": "no room"}],
        }
    )
    Traces(memory.transactions, user).write(session, shown)
    return session

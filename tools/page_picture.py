#!/usr/bin/env python3
"""Take a picture of the page in the browser, with a year of somebody's memories in it.

tools/page_picture.py OUT.png [--view knowledge] [--size 1440x900] [--scheme light] [--click TEXT] [--key KEY]

A new server with the bundled model shows a new database: 500 memories, 40 facts, 60 nodes of knowledge and 30
conversations, the same each time. With several --view there is a picture of each, OUT-VIEW.png. `--keep`
leaves the server running until Ctrl-C, and prints its address. Needs Chromium, as the tests of the page do.

The pictures in the documents:

    tools/page_picture.py docs/images/page.png --size 1280x800 --click Greenhouse
    tools/page_picture.py docs/images/chat.png --size 1280x884 --view chat \\
        --say "I moved to Lisbon last month." --say "What is my dog called?"
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from shepherd.knowledge import Knowledge
from shepherd.memory import Claim, EndedValue, Memory, OpenJob
from shepherd.trace import Traces, paths_of
from shepherd.types import Message

USER = "sam"
DAY_S = 86_400

TOLD = [
    ("Which editor does the user prefer?", "Helix, since the spring; vim before that."),
    ("What is the user's dog called?", "Bruno. He is a border collie and herds the neighbour's ducks."),
    ("Where does the user live?", "In Austin, Texas, close to the river."),
    ("What is the user allergic to?", "Peanuts. A trace of them is enough."),
    ("Which train does the user take to work?", "The 7:42 from Plaza Saltillo, unless it rains."),
    ("What is the user building?", "A greenhouse out of old windows, for tomatoes and chillies."),
    ("When is the user's sister's birthday?", "On the 9th of May. She likes ceramics."),
    ("How does the user like coffee?", "Black, from a moka pot, never after four."),
    ("Which languages does the user speak?", "English and Spanish, and enough German to order bread."),
    ("", "I moved the standing desk to the window, and the light is much better."),
]
# A question, and answers with a place for one of the words after it.
SUBJECTS = [
    ("What did we decide about the {} bed?", "Turn it over, add compost and leave it until March.",
     ["north", "south", "herb", "raised", "tomato", "bean", "strawberry", "asparagus"]),
    ("Which book did I read in {}?", "A novel about lighthouses; the ending was better than its middle.",
     ["January", "February", "March", "April", "May", "June", "July", "August"]),
    ("How do I fix the {} error in the build?", "Delete the cache folder and build again.",
     ["linker", "import", "timeout", "checksum", "permission", "encoding", "locale", "version"]),
    ("What should I cook with {}?", "A slow stew with white beans, and a lemon at the end.",
     ["aubergine", "fennel", "leeks", "kale", "pumpkin", "lentils", "barley", "chickpeas"]),
    ("When does the {} open?", "At nine on weekdays, at ten on Saturday; it is closed on Mondays.",
     ["library", "market", "nursery", "archive", "pool", "bakery", "clinic", "museum"]),
    ("What did {} say about the trip?", "The ferry leaves at noon, and the house has three rooms.",
     ["Maria", "Jonas", "Priya", "Tom", "Alicia", "Ben", "Hanna", "Luis"]),
]  # fmt: skip
FACTS = (
    "name=Sam|employer=Riverside Library|editor=Helix|allergies=peanuts|dog_name=Bruno|sister=Alicia"
    "|birthday=3 April|coffee=black, from a moka pot|diet=vegetarian|languages=English and Spanish"
    "|bike=a green Surly"
    "|camera=Fuji X100|favourite_author=Ursula K. Le Guin|instrument=cello|phone=Pixel"
    "|laptop=ThinkPad X1|shell=fish"
    "|os=Fedora|time_zone=America/Chicago|units=metric|currency=USD|team=Digital Collections|manager=Priya"
    "|desk=by the window|bank=the credit union|doctor=Dr. Osei|dentist=Dr. Lam|vaccine=flu, in October"
    "|commute=train, 7:42|tea=Lapsang|bread=rye|colour=dark green|hobby=ceramics"
    "|garden=greenhouse of old windows"
    "|seeds=ordered in December|water=rain barrel|neighbour=Mrs. Alvarez|school=UT Austin"
    "|degree=library science"
)
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
MORE_NODES = {
    "note": (
        "Soil test, Slug diary, Sowing calendar, Tool list, Pruning, Drip line parts, Paint colours, Permit"
    ),
    "plant": "Basil, Beans, Kale, Strawberries, Fennel, Leeks, Asparagus, Marigolds, Lemon tree, Squash",
    "document": "Field guide to slugs, Greenhouse heating, Texas planting zones, Seed catalogue, Cold frames",
    "person": "Mrs. Alvarez, Alicia, Priya, Tom, Jonas, Dr. Osei",
    "place": "Nursery, Farmers market, Workshop, River path, Library",
    "idea": "Heat from compost, Solar fan, Mushroom shelf, Bee hotel, Second barrel, Shade cloth",
    "event": (
        "Hail in May, First harvest, Open garden day, Workshop with Tom, Flood, Heat wave, Tomato swap, Move"
    ),
}
EDGES = [
    (1, 0, "part_of", "grow on the south side"), (2, 0, "part_of", "grow on the shelf"),
    (3, 0, "part_of", "carries the windows"), (4, 0, "part_of", "are its walls"),
    (5, 6, "source_of", "gives the water"), (6, 0, "part_of", "waters the beds"),
    (7, 1, "contradicts", "seedlings died"), (8, 2, "related_to", "seeds for next year"),
    (9, 1, "supports", "feeds the beds"), (4, 10, "created_by", "taken out there"),
    (5, 0, "related_to", "stands beside it"), (11, 9, "related_to", "scratch in it"),
]  # fmt: skip
LEARNED = [
    (sentence, Claim(key, value, sentence, 0, changes=changes))
    for sentence, key, value, changes in (
        ("I've started learning Portuguese, for the trip in May.", "learning", "Portuguese", False),
        ("Our new cat is called Miso.", "cat_name", "Miso", False),
        ("We moved to San Marcos last weekend.", "location", "San Marcos", True),
        ("I take my coffee with oat milk.", "coffee", "with oat milk", False),
    )
]
TALKS = (
    "Which editor do I use?|What should I cook for my sister?|When does the train leave?"
    "|Help me plan the seed order"
    "|Why do the seedlings fall over?|How do I convert a list to a set in Python?"
    "|Rewrite this letter to the landlord"
    "|What is a good name for a rain barrel?|Summarise the article about slugs|Explain half-lap joints"
    "|How warm must a greenhouse be at night?|Translate this into Spanish|What did I say about the heat wave?"
    "|Plan a weekend in Lockhart|How do I prune a lemon tree?|Draft a toast for Alicia"
    "|Compare two drip timers"
    "|Which glaze is food safe?|What is the difference between UTF-8 and Latin-1?|Find a rhyme for greenhouse"
    "|How do I grow kale in Texas?|Make a shopping list for Sunday|How long do soaked beans keep?"
    "|What is a cold frame?|Explain the tax form again|How do I tune a cello?|Write a haiku about ducks"
    "|Is rye bread vegan?|What can I do with old windows?|Check my packing list"
)


def fill(path: Path) -> None:
    """Write somebody's year into a new database."""
    now = int(time.time())
    clock = [now]
    with Memory(path, user_id=USER, clock=lambda: clock[0]) as memory:
        _remember(memory, now, clock)
        _know(Knowledge(memory.transactions, USER))
        talks = TALKS.split("|")
        for n, question in enumerate(talks):
            age = len(talks) - n - 1
            clock[0] = now - age * age * DAY_S // 3 - 1200
            _talk(memory, question, n)
        for sentence, claim in LEARNED:
            clock[0] += 120
            _learn(memory, sentence, claim)


def _learn(memory: Memory, sentence: str, claim: Claim | EndedValue) -> None:
    """Let a sentence be learned from, as a worker does."""
    session = memory.start_session(USER, "Qwen3-4B")
    memory.append_message(session, Message("user", sentence), job=OpenJob("worker", 1))
    memory.append_message(session, Message("assistant", "Nice, I'll remember that."))
    if job := memory.extraction.claim("worker", USER):
        memory.extraction.finish(job, [claim], [], statements=[])


def _remember(memory: Memory, now: int, clock: list[int]) -> None:
    sources = ("turn", "turn", "extraction", "user", "turn", "import", "turn", "mcp")
    entries = []
    for n in range(500):
        question, answer = TOLD[n] if n < len(TOLD) else ("", "")
        if n >= len(TOLD):
            pattern, answer, words = SUBJECTS[n % len(SUBJECTS)]
            question = pattern.format(words[n // len(SUBJECTS) % len(words)])
            answer = f"{answer} ({n})"
        age = n * 0.7 + n * n % 11 / 10
        entry = {"type": "memory", "question": question, "answer": answer, "pinned": n in (3, 5, 44, 91)}
        entries.append({**entry, "timestamp": int(now - age * DAY_S), "source": sources[n % len(sources)]})
    memory.import_memories(entries)
    for months, city in ((20, "Dallas"), (9, "Lockhart"), (3, "Austin")):
        clock[0] = now - months * 30 * DAY_S
        memory.set_fact("location", city)
    clock[0] = now - 500 * DAY_S
    memory.set_fact("employer", "Travis County Archive")
    for n, pair in enumerate(FACTS.split("|")):
        key, _, value = pair.partition("=")
        clock[0] = now - n * n * DAY_S // 5 - n * 3600
        memory.set_fact(key, value, source=("user", "extraction", "extraction", "import")[n % 4])
    clock[0] = now


def _know(knowledge: Knowledge) -> None:
    ids = [
        knowledge.add_node(title, kind=kind, notes=notes, dimensions=["garden"]).id
        for title, kind, notes in NODES
    ]
    for start, end, kind, why in EDGES:
        knowledge.connect(ids[start], ids[end], why, type=kind)
    for kind, titles in MORE_NODES.items():
        for title in titles.split(", "):
            ids.append(knowledge.add_node(title, kind=kind, notes=f"About {title}.").id)
            n = len(ids)
            knowledge.connect(ids[-1], ids[n * n % 12], "mentioned there", type="related_to")
            if n % 3 == 0:
                knowledge.connect(ids[-1], ids[n * 7 % (n - 1)], "goes with it", type="supports")
    knowledge.focus([ids[0]])


def _talk(memory: Memory, question: str, n: int) -> None:
    injection = memory.recall(question)
    session = memory.start_session(USER, "Qwen3-4B")
    answer = "I can help with that. Tell me a little more, and I will go through it step by step."
    for turn in range(1 + n % 4):
        text = question if not turn else f"And number {turn}?"
        asked = Message("user", text, text + injection.tail, injection)
        memory.append_message(session, asked)
        memory.append_message(session, Message("assistant", answer))
        history = 90 * turn + 12 * n % 70
        record = {
            "model": "Qwen3-4B",
            "budget": {
                "total": 4096,
                "system": 320,
                "history": history,
                "facts": 24,
                "query": 14,
                "reserve": 1024,
            },
            "usage": {"reused": 320 + history if turn else 0, "decoded": 60 + 10 * turn, "recall_ms": 0.05},
            "tail": {"facts": {fact.key: fact.value for fact in injection.facts}},
        }
        Traces(memory.transactions, USER).write(session, paths_of(record))


def main() -> None:
    """Fill a database, serve it, and take the pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT.png")
    parser.add_argument("--view", action="append", metavar="VIEW", help="view to show (default: knowledge)")
    parser.add_argument("--size", default="1440x900", metavar="WxH", help="of the window in pixels")
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    parser.add_argument("--click", metavar="TEXT", help="what to click on before the picture is taken")
    parser.add_argument("--key", action="append", default=[], metavar="KEY", help="a key to press")
    parser.add_argument(
        "--say",
        action="append",
        default=[],
        metavar="TEXT",
        help="a message, from which something is learned",
    )
    parser.add_argument("--keep", action="store_true", help="leave the server running")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        database = Path(home) / "memory.db"
        fill(database)
        environment = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("SHEPHERD_", "XDG_"))
            },
            "HOME": home,
            "SHEPHERD_SERVER_PORT": "0",
            "SHEPHERD_USER_ID": USER,
            "SHEPHERD_MEMORY_DATABASE": str(database),
            "SHEPHERD_MODEL_TRIAL": "false",
        }
        command = [sys.executable, "-m", "shepherd", "serve", "--json"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            take(url, arguments)
            if arguments.keep:
                print(url, flush=True)
                server.wait()
        finally:
            server.terminate()
            server.wait(timeout=60)


def take(url: str, arguments: argparse.Namespace) -> None:
    """Write the pictures that the arguments ask for."""
    width, height = map(int, arguments.size.split("x"))
    views = arguments.view or ["knowledge"]
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(
            # None: the one that Playwright has downloaded.
            executable_path=os.environ.get("SHEPHERD_TEST_CHROMIUM")
            or next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium"))), None),
            args=options,
        )
        for view in views:
            page = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme=arguments.scheme,
                reduced_motion="reduce",
            )
            page.on("pageerror", lambda error: print(error, file=sys.stderr))
            page.on("console", lambda message: print(message.text, file=sys.stderr))
            page.goto(f"{url}/#/{view}")
            page.wait_for_selector("main h1")
            page.wait_for_selector("main:not([aria-busy])")
            if arguments.click:
                page.get_by_text(arguments.click, exact=True).first.dispatch_event("click")
                page.wait_for_load_state("networkidle")
            for n, text in enumerate(arguments.say):
                message = page.get_by_role("textbox", name="Message", exact=True)
                message.fill(text)
                message.press("Enter")
                page.locator(".reply-foot").nth(n).wait_for()
                page.get_by_role("list", name="What was learned").first.wait_for()
            if arguments.say:
                page.locator(".recalled > summary").last.click()
                page.mouse.wheel(0, 10_000)
                page.wait_for_timeout(500)
            for key in arguments.key:
                page.keyboard.press(key)
            out = arguments.out
            name = view.replace("/", "-")
            page.screenshot(path=out if len(views) == 1 else out.with_name(f"{out.stem}-{name}.png"))
            page.close()
        browser.close()


if __name__ == "__main__":
    main()

"""Conversations as the model sees them in use: the product's own planner renders what the generator invents.

A `Turn` says what the user typed, what memory and knowledge have for it, and the answer. `rows` hands these
values to `shepherd.prompt` (planner, gatherer, allocation, tail, system prompt, stripping of old tails) in
place of a database. The bytes are those of `Assistant`, as `tests/mini_model/test_rendering.py` proves. If a
tail changes, so does the training data; `format.json` has the hash of some conversations as they were
rendered for the latest training, and a test says so when they are rendered in another way.

`python rendering.py` writes that file, `python rendering.py --speed` measures.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from shepherd.claims.keys import INSTRUCTIONS
from shepherd.config import Config
from shepherd.knowledge import ChunkResult, Focused, Hub
from shepherd.knowledge.records import Node
from shepherd.memory import injection_format
from shepherd.memory.queries import parse_query
from shepherd.memory.redundant_turns import without_repetitions
from shepherd.prompt import Compaction, Draft, Planner, Snapshot, Summary, WindowBudget, take_snapshot
from shepherd.prompt.entity_tracking import Dialogue
from shepherd.prompt.exchanges import Exchange, messages_of
from shepherd.prompt.overflow import prepare_prompt
from shepherd.types import Fact, Injection, SearchResult
from shepherd.types import Message as Sent

__all__ = [
    "NOTHING_ADDED",
    "WINDOW",
    "Added",
    "Count",
    "Message",
    "Note",
    "Setting",
    "Turn",
    "fingerprint",
    "rows",
]

# (role, text); "earlier" is an answer from before a change of the prompt, which is read but not learned from.
Message = tuple[str, str]
Count = Callable[[str], int]

WINDOW = 2048  # tokens that the next model is trained on
FRAME = 5  # <|im_start|>, role, line break, <|im_end|>, line break
FORMAT = Path(__file__).with_name("format.json")
NOW = 1_780_000_000  # any fixed moment: no time of it is shown


@dataclass(frozen=True)
class Note:
    """A passage of a document, or the beginning of a node in focus, whose `number` is shown."""

    title: str
    text: str
    date: str = ""
    link: str = ""
    dimensions: tuple[str, ...] = ()
    number: int = 1


@dataclass(frozen=True)
class Added:
    """What memory and knowledge have for one message, the best first, before the planner chooses.

    `notes` are remarks behind memories, by index: the fact that is current now. `past` are facts of another
    time, as `injection_format.past_pair` words them.
    """

    facts: Mapping[str, str] = field(default_factory=dict)
    memories: tuple[tuple[str, str], ...] = ()
    passages: tuple[Note, ...] = ()
    notes: Mapping[int, Fact] = field(default_factory=dict)
    past: tuple[tuple[str, str], ...] = ()


NOTHING_ADDED = Added()


@dataclass(frozen=True)
class Turn:
    """A message, what is known for it, and the answer.

    `evidence` are the texts that the answer rests on. The planner may find no room for one of them, or an
    earlier message may have lost its tail: then the answer would be wrong, and the conversation ends there.
    """

    said: str
    reply: str
    added: Added = NOTHING_ADDED
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Setting:
    """What holds for a whole conversation: settings, nodes, summary. `explains` is off without a memory.

    `titles` are the names of nodes, which the dialogue recognises where entities are shown.

    `system` are instructions of a client, as a request over HTTP may have them; None stands for no system
    message at all, which a client may send as well.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    hubs: tuple[Hub, ...] = ()
    focused: tuple[Note, ...] = ()
    has_knowledge: bool = False
    titles: tuple[str, ...] = ()
    summary: tuple[str, ...] = ()
    explains: bool = True
    system: str | None = ""


class MemoryInHand:
    """What `Planner` asks of a memory, answered from the turn's values."""

    def __init__(self, most: int) -> None:
        self.added = NOTHING_ADDED
        self._most = most
        self._blocks = injection_format.FactsBlocks()
        self._facts: dict[tuple[tuple[str, str], ...], tuple[Fact, ...]] = {}

    def recall(self, message: str, user_id: str, **_: Any) -> Injection:
        """The injection for a message, put together as `Memory.recall` does."""
        added = self.added
        pairs = tuple(sorted(added.facts.items()))
        facts = self._facts.setdefault(pairs, tuple(Fact(key, value, NOW, NOW) for key, value in pairs))
        block = self._blocks.of(user_id, facts)
        found = [
            SearchResult(index + 1, question, answer, NOW, 1.0, 1.0, 0.0, source="turn")
            for index, (question, answer) in enumerate(added.memories)
        ]
        results = without_repetitions(found, block.words)[: self._most]
        notes = {index + 1: injection_format.note_of(fact, "") for index, fact in added.notes.items()}
        text = injection_format.with_past_facts(block.text, added.past)
        keywords = tuple(parse_query(message, NOW)[0])
        tail = injection_format.render_tail(text, results, keywords, notes)
        return Injection(tail, block.shown, tuple(results), keywords, fewer_facts=block.fewer)


class KnowledgeInHand:
    """What planner, gatherer and snapshot ask of the knowledge, answered from values."""

    is_reranking = False

    def __init__(self, setting: Setting) -> None:
        self.passages: tuple[Note, ...] = ()
        self._setting = setting
        self._ids: dict[tuple[str, str], int] = {}
        self._open = [
            Focused(
                Node(
                    note.number,
                    note.title,
                    link=note.link,
                    dimensions=note.dimensions,
                    index_state="chunked" if note.text else "none",
                ),
                note.text,
            )
            for note in setting.focused
        ]

    def latest_change(self) -> tuple[int, int] | None:
        """The last change; None without any node."""
        return (1, NOW) if self._setting.has_knowledge or self._open or self._setting.hubs else None

    def retrieve(self, query: str, limit: int = 10, **_: Any) -> list[ChunkResult]:
        """The turn's passages. A passage keeps its id, so that one that is still shown is not shown twice."""
        found = []
        for place, note in enumerate(self.passages[:limit]):
            number = self._ids.setdefault((note.title, note.text), len(self._ids) + 1)
            score = 1.0 - place / 100
            found.append(
                ChunkResult(
                    number,
                    number,
                    note.title,
                    "text",
                    0,
                    0,
                    len(note.text),
                    note.text,
                    score,
                    score,
                    note.date,
                    note.link,
                )
            )
        return found

    def focused(self) -> list[Focused]:
        """The open nodes."""
        return self._open

    def hubs(self, limit: int = 10) -> list[Hub]:
        """The most-connected nodes."""
        return list(self._setting.hubs[:limit])

    def list_nodes(self, **_: Any) -> list[Node]:
        """The nodes whose names the dialogue knows."""
        return [Node(number, title) for number, title in enumerate(self._setting.titles, 1)]


@dataclass
class Window:
    """The part of a model that a budget needs."""

    count_tokens: Count
    window_tokens: int


def settled(config: Config) -> Config:
    """The settings with `auto` resolved as `with_auto_resolved` does it for the bundled model."""
    tail = "short" if config.context_tail == "auto" else config.context_tail
    return replace(config, context_entities=config.context_entities is True, context_tail=tail)


def rows(
    setting: Setting, turns: Sequence[Turn], count: Count, *, window: int = WINDOW, whole: bool = False
) -> list[list[Message]]:
    """The prompts of the conversation with their answers; more than one where a turn changes the prefix.

    A row has as many turns as the model reads with one prefix. Where old tails are stripped or old turns
    leave, a new row begins with what is left, whose answers are "earlier": they may rest on what is gone.
    The conversation ends before a turn that does not fit, or whose evidence is not shown; with `whole` there
    are no rows then.
    """
    config = settled(replace(Config(), **setting.config))
    memory, knowledge = MemoryInHand(config.rag_max_results), KnowledgeInHand(setting)
    dialogue = None
    if config.context_entities:
        dialogue = Dialogue(None, knowledge, "user", allow_private=True)  # type: ignore[arg-type]
    planner = Planner(config, memory, knowledge, "user", dialogue)  # type: ignore[arg-type]
    budget = WindowBudget(
        Window(count, window),  # type: ignore[arg-type]
        max_tokens=config.max_tokens,
        retention=config.injection_retention,
        tools=(),
    )
    summary = Summary(setting.summary, 1) if setting.summary else Summary()

    def snapshot_with(summary: Summary) -> Snapshot:
        planner.reset_shown_hubs()
        return take_snapshot(
            config,
            memory=setting.explains,
            knowledge=knowledge,  # type: ignore[arg-type]
            summary=summary,
            window_tokens=window,
            count=budget.count,
            instructions=setting.system or "",
        )

    # The bundled model writes no summaries, so old turns leave without.
    compaction = Compaction(verbatim=config.history_verbatim_turns, summary=summary)
    snapshot, has_evicted = snapshot_with(summary), False
    bare = setting.system is None
    exchanges: list[Exchange] = []
    found: list[list[Message]] = []
    before: list[Message] = []
    learned_from = 0
    for turn in turns:
        memory.added, knowledge.passages = turn.added, turn.added.passages
        draft = Draft(Sent("user", turn.said), snapshot, messages_of(exchanges))
        prepare_prompt(
            draft,
            budget,
            plan=lambda draft=draft, gone=has_evicted: planner.plan(
                draft, budget, session="", has_evicted=gone
            ),
            compact=lambda draft=draft, turns=exchanges: compaction.compact(
                draft, turns, budget, snapshot_with
            ),
        )
        prompt = draft.prompt[bare:]
        seen = "\n".join(message.sent for message in prompt)
        answer_tokens = budget.count(turn.reply) + FRAME
        too_long = sum(map(budget.tokens_of, prompt)) + answer_tokens > window
        if too_long or not all(text in seen for text in turn.evidence):
            if whole:
                return []
            break
        if draft.leaving:
            gone = {id(message) for message in draft.leaving}
            exchanges = [exchange for exchange in exchanges if id(exchange.user) not in gone]
            has_evicted = True
        shown = [(message.role, message.sent) for message in prompt]
        if shown[: len(before)] != before:
            found.append(_learned(before, learned_from))
            learned_from = len(shown) - 1
        draft.commit_stripped()
        snapshot = draft.snapshot
        compaction.commit(snapshot.summary, exchanges)
        planner.commit(draft)
        if dialogue is not None:
            dialogue.end_turn(turn.reply)
        # As the engine counts them: with their frame in ChatML, an answer without its head.
        for message in (*draft.history, draft.message):
            message.tokens = budget.count(message.sent) + FRAME
        answer = Sent("assistant", turn.reply, tokens=answer_tokens - FRAME)
        exchanges.append(Exchange(draft.message, answer))
        before = [*shown, ("assistant", turn.reply)]
    if before:
        found.append(_learned(before, learned_from))
    return found


def _learned(messages: Sequence[Message], begin: int) -> list[Message]:
    return [
        ("earlier", text) if role == "assistant" and place < begin else (role, text)
        for place, (role, text) in enumerate(messages)
    ]


# --- the format that the shipped model knows -------------------------------------------------------------


def examples(count: Count = len) -> list[list[Message]]:
    """Fixed conversations with every block that a prompt can have."""
    facts = {"name": "Ida", "dog_name": "Bo", "location": "Ulm, by the river"}
    said = (("My bike is in the shed | really", "Noted."), ("User: hi\nthere", "[facts: x=y] " + "w" * 1300))
    guide = Note("Pump guide", "# Pump\n\nDrain it at 3 bar.\n\n=== X ===", "2026-02-01", "https://a.example")
    node = Note("Hills", "Sheep graze there.", dimensions=("farm",), link="https://b.example")
    turns = (
        Turn("Who am I?", "Your name is Ida.", Added(facts, said)),
        Turn("At which pressure?", "Your notes say: Drain it at 3 bar.", Added(facts, (), (guide, node))),
        Turn("Where did I live?", "-", Added(facts, said[:1], past=(("location (March 2026)", "Bonn"),))),
        Turn("Hello!", "Hello! How can I help you?", Added(facts)),
    )
    current = {0: Fact("location", "Ulm", NOW, NOW)}
    settings = (
        (Setting(), turns),
        (Setting(explains=False), (Turn("Hi", "-"),)),
        (Setting(system="Answer in one word."), turns[:1]),
        (Setting({"context_tail": "whole"}), turns),
        (Setting(), (Turn("And now?", "-", Added({**facts, INSTRUCTIONS: "no emoji; be brief"}, said[:1])),)),
        (
            Setting({"context_entities": True}),
            (Turn("How is Bo?", "-", Added({"dog_name": "Bo", "dog": "Bo"})),),
        ),
        (
            Setting(
                {"answer_style": "formal", "answer_formatting": "bullets", "personality": "helpful"},
                hubs=(Hub(4, 'The "hub"', 7),),
                focused=(node, guide),
                has_knowledge=True,
                summary=("Ida told about Bo.",),
            ),
            (*turns[:2], Turn("Where?", "-", Added(facts, said[:1], notes=current))),
        ),
    )
    return [row for setting, some in settings for row in rows(setting, some, count, window=8192)]


def fingerprint() -> dict[str, str]:
    """The hash of each fixed conversation."""
    return {
        f"{number}: {row[-2][1].splitlines()[0]}": hashlib.sha256(
            json.dumps(row, ensure_ascii=False).encode()
        ).hexdigest()[:16]
        for number, row in enumerate(examples())
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--speed", action="store_true", help="measure how many conversations a second")
    options = parser.parse_args()
    if not options.speed:
        FORMAT.write_text(json.dumps(fingerprint(), indent=2) + "\n", encoding="utf-8")
        return
    import generator
    from tokenizer import Tokenizer

    tokenizer = Tokenizer(Path(__file__).with_name("tokenizer.json"))
    random, began, tokens, turns, n = Random(1), time.process_time(), 0, 0, 0
    while time.process_time() - began < 20:
        job = random.choices([*generator.JOBS], [*generator.JOBS.values()])[0]
        for row in generator.rows(random, job, tokenizer.count):
            tokens += len(tokenizer.conversation(row)[0])
            turns += sum(role == "assistant" for role, _ in row)
            n += 1
    spent = time.process_time() - began
    print(
        f"{n / spent:.0f} rows, {turns / spent:.0f} answers, {tokens / spent:.0f} tokens a second of one core"
    )


if __name__ == "__main__":
    main()

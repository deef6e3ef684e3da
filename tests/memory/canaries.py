"""Random words, stored by every feature that stores text, and forgotten by what users have for it."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator
from pathlib import Path

from shepherd.canary import WordSearch
from shepherd.knowledge import Knowledge
from shepherd.memory import Claim, Memory, NewMemory, OpenJob, Turn
from shepherd.prompt.summary import StoredSummary, Summary, SummaryStore
from shepherd.trace import Traces
from shepherd.types import Fact, Injection, Message, SearchResult, ToolCall

USER = "steve"
LETTERS = 12
# Behind these letters a word is searched for as well: an index shares the first ones with the word before.
SHARED = 4


def words(n: int, seed: int = 1) -> list[str]:
    """Return words that no text has by chance."""
    rng = random.Random(seed)
    return ["".join(rng.choices(string.ascii_lowercase, k=LETTERS)) for _ in range(n)]


class Canaries:
    """Stores words, each once, and forgets what has them. `given` are the words stored so far."""

    def __init__(self, memory: Memory, seed: int = 1) -> None:
        self.memory = memory
        self.given: list[str] = []
        self._words: Iterator[str] = iter(words(1000, seed))
        self.ids: list[int] = []
        self.keys: list[str] = []
        self.sessions: list[str] = []
        self.nodes: list[int] = []
        self.knowledge = Knowledge(memory.transactions, USER)

    def word(self) -> str:
        word = next(self._words)
        self.given.append(word)
        return word

    def store(self) -> None:
        """Store a word with every feature; about 50 words each time."""
        self.store_memories()
        self.store_facts()
        self.store_conversation()
        self.store_knowledge()

    def store_edited(self) -> list[str]:
        """Store a memory and edit it; return the words that it has no more."""
        former = [self.word(), self.word()]
        edited = self.memory.store_memory(f"old {former[0]}", f"old {former[1]}")
        assert edited is not None
        self.memory.edit_memory(edited, question=f"new {self.word()}", answer=f"new {self.word()}")
        return former

    def store_memories(self) -> None:
        memory = self.memory
        first = memory.store_memory(f"What is {self.word()}?", f"It's the {self.word()}.")
        assert first is not None
        memory.import_memories([{"question": f"imported {self.word()}", "answer": self.word()}])
        turn = memory.archive_turn(Turn(f"I like {self.word()} very much", self.word(), session="elsewhere"))
        tool = memory.store_memory(f"by a tool: {self.word()}", self.word(), source="tool")
        self.ids = [record.id for record in memory.list_memories(limit=1000)]
        assert {first, turn, tool} <= set(self.ids)
        # Appended to a message of a conversation that stays, and returned to a tool call in it.
        text = self.word()
        shown = memory.store_memory(f"What about {text}?", f"{text} is {self.word()}")
        assert shown is not None
        tail = f"\n\n[context: User: What about {text}?\nAssistant: {text} is a thing]"
        found = SearchResult(shown, f"What about {text}?", f"{text} is a thing", 1, 1.0, 1.0, 0.0)
        session = memory.start_session(name="stays")
        injected = Injection(tail, results=(found,), keywords=(text,))
        memory.append_message(session, Message("user", "tell me", f"tell me{tail}", injected))
        record = memory.get_memory(shown)
        assert record is not None
        memory.append_message(session, Message("tool", json.dumps([record.question]), tool_call_id="c1"))
        trace = {"tail/context/000000/id": shown, "assembled/text": f"tell me{tail}"}
        Traces(memory.transactions, USER).write(session, trace)
        memory.ledger.put({f"hash{shown}": json.dumps({"tail": tail, "in": session}, separators=(",", ":"))})
        self.ids.append(shown)

    def store_facts(self) -> None:
        memory, number = self.memory, len(self.keys)
        set_key, learned_key, waiting_key = (f"{name}_{number}" for name in ("pet", "boat", "tree"))
        memory.set_fact(set_key, self.word())
        memory.set_fact(set_key, self.word())
        # Learned from a message, and another value proposed for a fact that the user set.
        boat, rival, job = self.word(), self.word(), OpenJob("me", 2)
        session = memory.start_session()
        said = [f"My boat is the {boat} and {self.word()}.", f"My pet is {rival}, says {self.word()}."]
        for line in said:
            memory.append_message(session, Message("user", line), job=job)
        claimed = memory.extraction.claim("worker")
        assert claimed is not None
        claims = [Claim(learned_key, boat, said[0], 0), Claim(set_key, rival, said[1], 1)]
        new = [
            NewMemory(f"Which boat is {self.word()}?", self.word(), claimed.told_at, "extraction", session)
        ]
        memory.extraction.finish(claimed, claims, new, statements=[(said[0], 0)])
        # A message that waits, of a conversation that stays, and what was appended to it.
        value = self.word()
        memory.set_fact(waiting_key, value)
        stays = memory.start_session(name="stays")
        tail = f"\n\n[facts: {waiting_key}={value}]"
        injected = Injection(tail, facts=(Fact(waiting_key, value, 1, 1),))
        memory.append_message(stays, Message("user", "hello", f"hello{tail}", injected))
        memory.append_message(session, Message("user", f"My tree is {value}"), job=OpenJob("me", 9))
        Traces(memory.transactions, USER).write(stays, {f"tail/facts/{waiting_key}": value})
        self.keys += [set_key, learned_key, waiting_key]
        self.sessions.append(session)

    def store_conversation(self) -> None:
        memory = self.memory
        session = memory.start_session()
        question = self.word()
        number = memory.append_message(session, Message("user", f"{question}?"), job=OpenJob("me", 9))
        calls = (ToolCall("c1", "look", json.dumps({"for": self.word()})),)
        thought = Message("assistant", self.word(), tool_calls=calls, thought=self.word(), token_ids=(1, 2))
        memory.append_message(session, thought)
        memory.append_message(session, Message("tool", f'{{"found": "{self.word()}"}}', tool_call_id="c1"))
        memory.rename_session(session, f"about {self.word()}")
        summary = StoredSummary(Summary((f"They spoke of {self.word()}.",), 1), number)
        SummaryStore(memory.transactions, USER).save(session, summary)
        Traces(memory.transactions, USER).write(session, {"assembled/text": self.word()})
        record = {"in": session, "response": {"output": [self.word()]}, "input": [self.word()], "before": []}
        memory.ledger.put({f"resp_{number}": json.dumps(record, separators=(",", ":"))})
        note = {"tail": f"\n\n[facts: a={self.word()}]", "in": session}
        memory.ledger.put({f"other{number}": json.dumps(note, separators=(",", ":"))})
        entity = json.dumps({"name": self.word()})
        memory.transactions.write(
            USER,
            lambda connection: connection.execute(
                "INSERT INTO session_entities(session_id, id, record) VALUES(?, ?, ?)", (session, 1, entity)
            ),
        )
        self.sessions.append(session)

    def store_knowledge(self) -> None:
        title = f"About {self.word()}"
        first = self.knowledge.add_node(
            title,
            description=self.word(),
            notes=self.word(),
            source_text=" ".join([self.word(), *["filler"] * 300, self.word()]),
            link=f"https://{self.word()}.example/",
            metadata={"key": self.word()},
            dimensions=[self.word()],
        )
        second = self.knowledge.add_node(f"Beside {self.word()}")
        self.knowledge.connect(first.id, second.id, f"They share {self.word()}")
        self.knowledge.focus([first.id])
        [chunk, *_] = self.knowledge.chunks_of(first.id)
        session = self.memory.start_session(name="stays")
        tail = f"\n\n[{title}: {chunk.text}]"
        injected = Injection(tail, parts=(f"chunk:{chunk.id}",))
        self.memory.append_message(session, Message("user", "read it", f"read it{tail}", injected))
        Traces(self.memory.transactions, USER).write(session, {"rag/chunks/000000/doc_title": title})
        self.nodes += [first.id, second.id]

    def forget(self) -> None:
        """Forget everything, by what users have for it, except the conversation that stays."""
        memory = self.memory
        for record in memory.list_memories(limit=1000):
            assert memory.delete_memory(record.id)
        for key in {change.key for change in memory.fact_history()}:
            assert memory.clear_fact(key, with_history=True)
        for session in self.sessions:
            assert memory.clear_session(session)
        for node in self.nodes:
            assert self.knowledge.delete_node(node)
        for dimension in self.knowledge.list_dimensions():
            assert self.knowledge.delete_dimension(dimension.name)


def files_with(folder: Path, given: list[str]) -> dict[str, set[str]]:
    """Return the words, or the ends of words, that are in a file of a folder, each with the files."""
    contents = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    everything = b"\n".join(contents.values()).lower()
    return {
        word: {path.name for path, data in contents.items() if WordSearch(word[SHARED:]).in_bytes(data)}
        for word in given
        if word[SHARED:].encode() in everything or word[SHARED:].encode("utf-16-le") in everything
    }

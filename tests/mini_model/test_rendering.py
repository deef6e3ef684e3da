"""Training conversations are byte for byte what the model reads in use."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from random import Random

import generator
import pytest
import rendering
from items import TRAINING, bearer, make_items
from notes import document
from rendering import Added, Note, Setting, Turn, rows

from shepherd import Assistant, Config
from shepherd.inference import Engine, EngineSettings
from shepherd.inference.models import resolve
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.prompt.concepts import searched_words

USER = "ida"
CONFIGS = (
    {},
    {
        "answer_style": "formal",
        "answer_instructions": "Call me Ida; no emojis",
        "personality": "expert in bees",
    },
    {"context_entities": True, "max_tokens": 60, "context_tail": "whole"},
    {"system_prompt": "Answer in one line.", "rag_max_results": 2, "knowledge_max_chunks": 1},
)


@pytest.fixture(scope="module")
def bundled():
    with Engine(resolve(""), settings=EngineSettings(n_threads=1)) as engine:
        yield engine


def fill_stores(random: Random, memory: Memory, knowledge: Knowledge) -> tuple[generator.Scene, list]:
    """Facts, memories of every length and documents, as the generator invents them."""
    scene = generator.Scene(random, TRAINING)
    scene.facts = bearer(random, TRAINING, []) + make_items(random, TRAINING, 7, facts=True)
    for item in scene.facts:
        memory.set_fact(item.key, item.value, USER)
    lines = []
    for number in range(6):
        note, found = document(random, TRAINING, 6 if number else 1)
        text = note.text * (1 if number < 4 else 6)  # several chunks
        node = knowledge.add_node(note.title, source_text=text, event_date=note.date)
        lines += found
        if number > 4:
            knowledge.focus([node.id])
    for _ in range(12):
        one = generator.told_line(random, TRAINING)
        lines.append(one)
        memory.store_memory(*generator.long_memory(scene, one), user_id=USER)
    return scene, lines


@pytest.mark.parametrize("seed", range(6))
def test_the_product_shows_the_model_the_same_bytes(bundled, tmp_path, seed):
    random = Random(seed)
    # Without the conversation's own turns in memory, which it may recall once they left the window.
    config = replace(Config(), archive_turns=False, **CONFIGS[seed % len(CONFIGS)])
    started = time.time()  # facts of two seconds would have an order that the training doesn't have
    with Memory(tmp_path / "memory.db", clock=lambda: started) as memory:
        knowledge = Knowledge(memory.transactions, USER)
        scene, lines = fill_stores(random, memory, knowledge)
        facts = {fact.key: fact.value for fact in memory.get_all_facts(USER)}
        assistant = Assistant(bundled, memory, config=config, user_id=USER)
        setting = Setting(
            CONFIGS[seed % len(CONFIGS)],
            hubs=tuple(knowledge.hubs(config.auto_context_limit)),
            focused=tuple(
                Note(node.title, beginning, "", node.link, node.dimensions, node.id)
                for node, beginning in knowledge.focused()
            ),
            has_knowledge=True,
            titles=tuple(node.title for node in knowledge.list_nodes(limit=500)),
        )
        turns, n_memories, n_passages = [], 0, 0
        for number in range(4):
            one = random.choice(lines if number % 2 else [*lines, *scene.facts])
            said = generator.question_for(random, one, TRAINING)
            found = memory.recall(said, USER, except_session=assistant.session_id or "")
            searched = said if config.context_tail == "whole" else searched_words(said)
            passages = knowledge.retrieve(searched, 12, min_relevance=config.knowledge_relevance_threshold)
            answer = list(assistant.ask(said))[-1].answer
            added = Added(
                facts,
                tuple((result.question, result.answer) for result in found.results),
                tuple(Note(chunk.title, chunk.text, chunk.date, chunk.link) for chunk in passages),
            )
            turns.append(Turn(said, answer, added))
            n_memories += len(added.memories)
            n_passages += len(added.passages)

        shown = [("system", assistant.system_prompt.text)]
        shown += [(message.role, message.sent) for message in assistant.history]
        assert n_memories
        assert n_passages
        rendered = rows(setting, turns, bundled.count_tokens, window=bundled.window_tokens)[-1]
        assert [(role.replace("earlier", "assistant"), text) for role, text in rendered] == shown


def test_the_format_is_the_one_of_the_latest_training():
    known = json.loads(Path(rendering.FORMAT).read_text(encoding="utf-8"))
    assert rendering.fingerprint() == known, (
        "the bundled model would read its memory in another form than in training: train it again, and run"
        " `python rendering.py` in tools/mini_model, which writes format.json"
    )


def test_an_answer_whose_evidence_found_no_room_is_not_learned():
    facts = {"dog_name": "Rex"}
    notes = tuple(Note(f"Note {number}", "word " * 190) for number in range(3))
    turns = (
        Turn("What is my dog called?", "Your dog is called Rex.", Added(facts), ("Rex",)),
        Turn("And my cat?", "Your cat is called Tom.", Added(facts, (), notes), ("Tom",)),
    )
    (row,) = rows(Setting(), turns, generator.about)
    assert [role for role, _ in row] == ["system", "user", "assistant"]
    assert not rows(Setting(), turns, generator.about, whole=True)


def test_answers_from_before_a_stripped_tail_are_read_and_not_learned():
    words = ("oak", "elm", "fir", "ash", "yew", "bay")
    turns = tuple(
        Turn(f"Tell me of {word}?", f"Answer {word}.", Added({}, ((f"{word} " * 60, "I see. " * 60),)))
        for word in words
    )
    found = rows(Setting(), turns, generator.about, window=1024)
    assert len(found) > 1
    learned = [text for row in found for role, text in row if role == "assistant"]
    assert learned == [f"Answer {word}." for word in words]
    assert all("[context:" in text for role, text in found[-1][-2:-1] if role == "user")
    assert "[context:" not in found[-1][1][1]

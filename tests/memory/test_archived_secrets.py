"""Archived turns hold no secret, whoever said it."""

from __future__ import annotations

import json

import pytest

from shepherd.errors import SecretError
from shepherd.knowledge import Knowledge
from shepherd.knowledge.importing import import_from
from shepherd.memory import Memory, Turn


def chat_node(key: str, parent: str | None, role: str, text: str) -> dict:
    return {
        "id": key,
        "parent": parent,
        "children": [],
        "message": {
            "author": {"role": role},
            "create_time": 1_700_000_000,
            "content": {"content_type": "text", "parts": [text]},
        },
    }


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("my password for the bank is Tr0ub4dor&3", "Noted."),
        ("The PIN of my phone is 2580.", "All right."),
        ("Which key did I use?", "You used AKIAIOSFODNN7EXAMPLE for that."),
    ],
)
def test_turn_with_a_secret_is_no_memory(tmp_path, question, answer):
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        assert memory.archive_turn(Turn(question, answer, 1_800_000_000, "")) is None
        assert memory.count_memories() == 0


def test_turn_is_remembered_without_what_may_be_a_code(tmp_path):
    turn = Turn("I told the cleaner 8890, she comes on Fridays", "All right, 8890.", 1_800_000_000, "")
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        record = memory.get_memory(memory.archive_turn(turn))
        assert record.question == "I told the cleaner ••••, she comes on Fridays"
        assert record.answer == "All right, ••••."
        assert memory.recall("when does the cleaner come?").results
    with Memory(tmp_path / "all.db", user_id="steve", keeps_secrets=True) as memory:
        assert memory.get_memory(memory.archive_turn(turn)).question == turn.question


def test_turn_about_passwords_is_a_memory(tmp_path):
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        assert memory.archive_turn(Turn("I changed my password today", "Good idea.", 1_800_000_000, ""))


SAID = "my password for the bank is Tr0ub4dor&3"
SECRET = "Tr0ub4dor&3"


def everything(memory: Memory) -> str:
    return json.dumps(list(memory.export_memories()), ensure_ascii=False)


@pytest.mark.parametrize(
    "store",
    [
        lambda memory: memory.set_fact("wifi_password", "greenTree19"),
        lambda memory: memory.set_fact("note", SAID),
        lambda memory: memory.store_memory("What did I say?", SAID),
        lambda memory: memory.store_memory("What is my PIN?", "4711"),
        lambda memory: memory.edit_memory(memory.store_memory("A note", "about tea"), answer=SAID),
    ],
)
def test_secret_that_a_user_stores_is_refused_with_the_way_to_keep_it(tmp_path, store):
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        with pytest.raises(SecretError, match="secrets are not stored") as caught:
            store(memory)
        assert "memory_extraction_secrets" in caught.value.hint
        assert SECRET not in everything(memory)
        assert SECRET not in str(caught.value)
    with Memory(tmp_path / "kept.db", user_id="steve", keeps_secrets=True) as memory:
        store(memory)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("own.jsonl", [{"question": "q", "answer": SAID}, {"question": "q", "answer": "tea"}]),
        (
            "facts.jsonl",
            [
                {"type": "fact", "key": "password", "value": SECRET},
                {"type": "fact-change", "key": "password", "value": SECRET, "source": "user"},
                {"type": "fact", "key": "drink", "value": "tea"},
            ],
        ),
        ("mem0.json", [[{"id": "1", "memory": SAID}, {"id": "2", "memory": "Likes tea"}]]),
        (
            "mcp.jsonl",
            [
                {
                    "type": "entity",
                    "name": "Steve",
                    "entityType": "person",
                    "observations": [SAID, "likes tea"],
                }
            ],
        ),
        (
            "chatgpt.json",
            [
                [
                    {
                        "id": str(number),
                        "title": "t",
                        "create_time": 1_700_000_000,
                        "current_node": "b",
                        "mapping": {
                            "a": chat_node("a", None, "user", text),
                            "b": chat_node("b", "a", "assistant", "All right."),
                        },
                    }
                    for number, text in enumerate([SAID, "I drink tea"])
                ]
            ],
        ),
    ],
)
def test_import_leaves_secrets_out_and_says_how_many(tmp_path, name, content):
    file = tmp_path / name
    file.write_text("\n".join(map(json.dumps, content)))
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        counts = memory.import_file(file)

        assert counts.secrets == (2 if name == "facts.jsonl" else 1)
        assert SECRET not in everything(memory)
        assert "tea" in everything(memory)
    with Memory(tmp_path / "kept.db", user_id="steve", keeps_secrets=True) as memory:
        assert memory.import_file(file).secrets == 0
        assert SECRET in everything(memory)


def test_knowledge_covers_secrets_in_documents_and_notes(tmp_path):
    document = tmp_path / "notes.md"
    document.write_text(f"# Router\n\nThe router hangs in the hall; {SAID}. It has two lamps.")
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        knowledge = Knowledge(memory.transactions, "steve")
        [outcome] = import_from(knowledge, str(document))
        node = knowledge.add_node("Bank", notes=SAID)
        knowledge.update_node(node.id, append_notes=f"again: {SAID}")

        assert outcome.secrets == 1
        shown = json.dumps(
            [
                knowledge.get_node(outcome.node_id, with_text=True).source_text,
                knowledge.get_node(node.id).notes,
                [found.text for found in knowledge.search("password bank router lamps")],
            ]
        )
        assert SECRET not in shown
        assert "two lamps" in shown
        assert [one.state for one in import_from(knowledge, str(document))] == ["unchanged"]

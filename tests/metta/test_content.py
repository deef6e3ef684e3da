"""Records of the signatures as parts of a plan, and back: every field, and what stands for a missing one."""

from __future__ import annotations

from shepherd.metta import Record
from shepherd.metta.content import checked, content_of, formatted_turn, history_of, history_parts, parts_of
from shepherd.prompt.plan import Part

WHOLE = Record(
    "ContextContent",
    {
        "system": "be brief",
        "history": Record(
            "FormattedHistory",
            {
                "summary": "They met.",
                "recent_turns": [
                    Record("FormattedTurn", {"turn_id": 7, "text": "User: hi"}),
                    Record("FormattedTurn", {"text": "Assistant: hello"}),
                ],
            },
        ),
        "entities": [
            Record(
                "EntityContext",
                {"entity_id": 3, "text": "• Ann (Person)", "relevance": 0.9, "shorter": ["• Ann"]},
            ),
            Record("EntityContext", {"text": "• Bob"}),
        ],
        "rag_chunks": [
            Record("KnowledgeChunk", {"chunk_id": 5, "title": "Hive", "text": "bees", "relevance": 0.5}),
            Record("KnowledgeChunk", {"text": "ice"}),
        ],
        "query": "who is ann",
    },
)


def words(text: str) -> int:
    return len(text.split())


def test_a_content_is_taken_apart_in_the_order_of_the_prompt() -> None:
    assert parts_of(WHOLE) == [
        Part("system", "system", "be brief"),
        Part("history", "summary", "[Conversation summary: They met.]"),
        Part("history", "turn:7:0", "User: hi", about={"turn_id": 7}),
        Part("history", "turn:1:1", "Assistant: hello", about={"turn_id": 1}),
        Part(
            "entities", "entity:3", "• Ann (Person)", score=0.9, shorter=("• Ann",),
            about={"entity_id": 3, "title": ""},
        ),
        Part("entities", "entity:", "• Bob", score=0.0, about={"entity_id": "", "title": ""}),
        Part("knowledge", "chunk:5", "bees", score=0.5, about={"chunk_id": 5, "title": "Hive"}),
        Part("knowledge", "chunk:", "ice", score=0.0, about={"chunk_id": "", "title": ""}),
        Part("query", "query", "who is ann"),
    ]  # fmt: skip
    assert parts_of(Record("ContextContent", {"system": "", "query": ""})) == []


def test_parts_are_put_together_again_with_their_tokens() -> None:
    content = content_of(parts_of(WHOLE), words)

    assert (content.text("system"), content.text("query")) == ("be brief", "who is ann")
    history = content.get("history")
    assert history.text("summary") == "[Conversation summary: They met.]"
    assert [(one.get("turn_id"), one.text("text")) for one in history.get("recent_turns")] == [
        (7, "User: hi"),
        (1, "Assistant: hello"),
    ]
    told = "[Conversation summary: They met.]\n\nRecent conversation:\nUser: hi\nAssistant: hello"
    assert (history.text("text"), history.get("tokens")) == (told, words(told))
    assert content.get("entities") == [
        Record(
            "EntityContext",
            {"entity_id": 3, "text": "• Ann (Person)", "relevance": 0.9, "shorter": ["• Ann"], "tokens": 3},
        ),
        Record(
            "EntityContext",
            {"entity_id": "", "text": "• Bob", "relevance": 0.0, "shorter": [], "tokens": 2},
        ),
    ]
    assert content.get("rag_chunks") == [
        Record(
            "KnowledgeChunk",
            {"chunk_id": 5, "title": "Hive", "text": "bees", "relevance": 0.5, "tokens": 1},
        ),
        Record("KnowledgeChunk", {"chunk_id": "", "title": "", "text": "ice", "relevance": 0.0, "tokens": 1}),
    ]


def test_parts_of_other_makers_have_their_own_numbers() -> None:
    parts = [
        Part("entities", "entity:9", "• Eve"),
        Part("knowledge", "chunk:8", "snow"),
        Part("history", "turn", "x"),
    ]
    content = content_of([*parts, Part("system", "a", "one"), Part("system", "b", "two")], words)

    assert content.get("entities")[0].get("entity_id") == "9"
    assert content.get("rag_chunks")[0].get("chunk_id") == "8"
    assert content.get("history").get("recent_turns")[0].get("turn_id") == 0
    assert content.get("history").get("summary") is None
    assert content.text("system") == "one\n\ntwo"


def test_a_history_of_one_text_has_a_summary_and_a_turn_for_each_line() -> None:
    told = "[Conversation summary: They met.]\n\nRecent conversation:\nUser: x\n\nAssistant: z"

    parts = history_parts(Record("FormattedHistory", {"text": told}))
    plain = history_parts(Record("FormattedHistory", {"text": "User: x"}))

    assert [part.text for part in parts] == ["[Conversation summary: They met.]", "User: x", "Assistant: z"]
    assert plain == [Part("history", "turn:0:0", "User: x", about={"turn_id": 0})]
    assert history_parts(Record("FormattedHistory")) == []
    assert history_of([], words).get("tokens") == 0


def test_a_turn_without_a_speaker_is_the_users_and_is_cut_at_20000_characters() -> None:
    assert formatted_turn(Record("Turn", {"content": "hi"}), 4) == Record(
        "FormattedTurn", {"turn_id": 4, "text": "User: hi"}
    )
    assert (
        len(formatted_turn(Record("Turn", {"content": "x" * 30_000}), 0).text("text"))
        == len("User: ") + 20_000
    )


def test_the_first_name_of_a_field_counts_and_records_within_are_checked_too() -> None:
    turn = Record("Turn", {"raw_text": "helo", "content": "hello", "turn_id": 1})

    [found] = checked([turn])
    inner = checked(Record("DialogueState", {"turns": [turn], "entity_registry": []}))

    assert found == Record("Turn", {"turn_id": 1, "content": "hello"})
    assert inner == Record("DialogueState", {"turns": [found], "entities": []})

"""A plan becomes a trace: budgets by their names in the paths, parts with what is known about them."""

from __future__ import annotations

from shepherd.context.parts import LeftOut, Part, Plan, Share
from shepherd.trace import paths_of, turn_trace
from shepherd.types import Fact, Injection, Message, SearchResult

PLAN = Plan(
    strategy="dynamic",
    window_tokens=4096,
    reserve_tokens=512,
    shares=(
        Share("system", 40, 40, 40),
        Share("history", 90, 100, 90),
        Share("memory", 20, 20, 20),
        Share("entities", 9, 30, 9),
        Share("knowledge", 700, 300, 250),
        Share("query", 7, 7, 7),
    ),
    chosen=(
        Part("history", "summary", "[Conversation summary: they met]", 8),
        Part("history", "turn:4:user", "User: hi", 3, about={"speaker": "user", "turn_id": 4}),
        Part(
            "entities",
            "entity:12",
            "• Ann (Person)",
            9,
            score=0.7,
            about={"title": "Ann", "type": "person", "attributes": {"email": "a@b"}},
        ),
        Part("knowledge", "chunk:17", "Source: Notes", 250, about={"title": "Notes", "relevance": 0.83}),
        Part("focus", "node:3", "open", 5),
    ),
    left_out=(LeftOut(Part("knowledge", "chunk:18", "much"), "no room"),),
    compression="light",
    warnings=("no vectors",),
    timings_us={"gather": 120.0},
    about={"query_used": "ann", "chunks_retrieved": 9, "reranking_used": True},
)
INJECTION = Injection(
    tail="…",
    facts=(Fact("name", "Steve", 1, 1),),
    results=(SearchResult(3, "q", "a", 1, 1.5, 0.9, 2.5, source="turn"),),
)


def test_plan_fills_every_part_of_the_trace():
    message = Message("user", "Hello", tokens=4, id=77)

    found = dict(
        paths_of(
            turn_trace(
                PLAN, INJECTION, model="mini", history=[message], prompt="All", timings_ms={"ttft": 12.5}
            )
        )
    )

    assert {name: found[f"budget/{name}"] for name in ("total", "history", "rag", "facts", "reserve")} == {
        "total": 4096,
        "history": 100,
        "rag": 300,
        "facts": 20,
        "reserve": 512,
    }
    assert found["budget/strategy"] == "dynamic"
    assert found["system/total_tokens"] == 40
    assert found["history/summary"] == "[Conversation summary: they met]"
    assert (found["history/compressed"], found["history/compression_level"]) == (True, "light")
    assert (found["history/turns/0000/turn_id"], found["history/turns/0000/speaker"]) == (77, "User")
    assert "history/turns/0000/content" not in found
    assert (found["history/turns/0001/turn_id"], found["history/turns/0001/content"]) == ("4", "User: hi")
    assert found["history/verbatim_count"] == 2
    assert found["tail/facts/name"] == "Steve"
    assert (found["tail/context/0000/id"], found["tail/context/0000/source"]) == (3, "turn")
    assert found["tail/focus/0000"] == "node:3"
    assert (found["entities/count"], found["entities/0000/attributes/email"]) == (1, "a@b")
    assert (found["entities/0000/entity_id"], found["entities/0000/relevance"]) == ("12", 0.7)
    assert (found["rag/query_used"], found["rag/chunks_retrieved"], found["rag/chunks_selected"]) == (
        "ann",
        9,
        1,
    )
    assert found["rag/reranking_used"] is True
    assert (found["rag/chunks/0000/chunk_id"], found["rag/chunks/0000/relevance"]) == ("17", 0.83)
    assert (found["left_out/0000/id"], found["left_out/0000/reason"]) == ("chunk:18", "no room")
    assert found["assembled/total_tokens"] == 416
    assert found["assembled/under_budget"] is True
    assert found["assembled/full_prompt_length"] == 3
    assert (found["warnings/0000"], found["timings/gather_us"], found["timings/ttft_ms"]) == (
        "no vectors",
        120.0,
        12.5,
    )


def test_empty_plan_is_a_trace_too():
    found = dict(paths_of(turn_trace(Plan())))

    assert found["budget/total"] == found["entities/count"] == found["history/verbatim_count"] == 0
    assert "assembled/full_prompt_length" not in found

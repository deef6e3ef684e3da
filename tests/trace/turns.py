"""A turn with something in every part, and any turn at all."""

from __future__ import annotations

from hypothesis import strategies as st

from shepherd.trace import paths_of
from shepherd.trace.records import numbered, prompt_record

FULL = paths_of(
    {
        "model": "mini",
        "budget": {
            "total": 4096,
            "system": 500,
            "history": 1000,
            "entities": 500,
            "rag": 1500,
            "query": 596,
            "facts": None,
            "strategy": "dynamic",
        },
        "system": {
            "base_instructions": "Be brief.",
            "personality": "helpful",
            "user_preferences": "concise",
            "total_tokens": 12,
        },
        "history": {
            "summary": "They met.",
            "summary_tokens": 4,
            "verbatim_count": 1,
            "total_tokens": 11,
            "compressed": True,
            "compression_level": "light",
            "turns": [{"turn_id": 7, "speaker": "User", "tokens": 7, "content": "Where do I live?"}],
        },
        "tail": {
            "facts": {"location": "Texas", "a/b*c": "odd"},
            "context": [{"id": 3, "score": 1.25, "age_days": 0.5, "source": "turn"}],
        },
        "entities": {
            "count": 1,
            "total_tokens": 9,
            **numbered(
                [
                    {
                        "entity_id": "e1",
                        "name": "Ann",
                        "type": "person",
                        "relevance": 0.7,
                        "tokens": 9,
                        "attributes": {"email": "a@b"},
                    }
                ]
            ),
        },
        "rag": {
            "query_used": "live",
            "chunks_retrieved": 9,
            "chunks_selected": 1,
            "reranking_used": False,
            "total_tokens": 40,
            "chunks": [{"chunk_id": 1, "doc_title": "Notes", "relevance": 0.83, "tokens": 40}],
        },
        "assembled": {
            **prompt_record("All of it.", with_prompt=False),
            "total_tokens": 76,
            "under_budget": True,
        },
        "warnings": ("no vectors",),
        "timings": {"plan_ms": 0.7},
    }
)

texts = st.text(max_size=20)
# Names of all kinds, and those that have a meaning in paths, lines and atoms.
names = st.one_of(
    texts,
    st.sampled_from(["", ".", "a/b", "%", "%2F", "*", "a b", "007", "True", "x(y)", '"', ";", "\n", "é"]),
    st.builds(str.__mul__, st.text(min_size=1, max_size=3), st.integers(100, 400)),
)
values = st.one_of(
    texts,
    st.sampled_from(["", "1", "True", "1.5", '"', "\\", "\n;(", "\x00", "\u2028", "\ud800"]),
    st.integers(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.booleans(),
)
records = st.fixed_dictionaries(
    {
        "model": st.none() | texts,
        "tail": st.fixed_dictionaries({"facts": st.dictionaries(names, texts, max_size=4)}),
        "warnings": st.lists(texts, max_size=2),
        "timings": st.dictionaries(names, st.floats(), max_size=3),
    }
)
turns = records.map(paths_of)

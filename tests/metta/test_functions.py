"""What the 28 predicates answer, each over the rooms' own functions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from shepherd.errors import UsageError
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.memory.vectors import VectorSettings
from shepherd.metta import Host, Record, Symbol, functions, host_of
from shepherd.trace import PREDICATES


def count(text: str) -> int:
    return len(text.split())


OWN = functions(Host(count))
TURNS = [
    Record("Turn", {"turn_id": n, "speaker": "User" if n % 2 == 0 else "Assistant", "content": f"said {n}"})
    for n in range(8)
]
ANN = Record(
    "Entity",
    {
        "entity_id": 1,
        "name": "Ann",
        "type": Symbol("person"),
        "attributes": [("hobby", "chess"), ("email", "a@b")],
        "relations": [Record("EntityRelationship", {"relation": "works at", "target": 2})],
    },
)
ACME = Record("Entity", {"entity_id": 2, "name": "Acme", "type": Symbol("organization")})
STATE = Record("DialogueState", {"turns": TURNS, "entities": [ANN, ACME]})
RESOLVED = [Record("ResolvedEntity", {"entity_id": 1, "confidence": 0.9, "name": "Ann"})]


def chunk(number: int, text: str, relevance: float) -> Record:
    return Record("KnowledgeChunk", {"chunk_id": number, "text": text, "relevance": relevance})


def result(number: int, text: str, score: float) -> Record:
    return Record("SearchResult", {"chunk_id": number, "title": "Notes", "text": text, "score": score})


CONTENT = Record(
    "ContextContent",
    {
        "system": "be brief",
        "history": OWN["format-dialogue-history"](STATE, 1000),
        "entities": OWN["format-entity-context"](STATE, RESOLVED, 1000),
        "rag_chunks": [chunk(n, f"passage {n} " * 10, n / 10) for n in range(5)],
        "query": "who is ann",
    },
)


@pytest.fixture
def knowledge(tmp_path) -> Iterator[Knowledge]:
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        own = Knowledge(memory.transactions, "steve")
        own.add_node("Walruses", source_text="Walruses sleep on the ice.")
        yield own


def test_every_predicate_of_the_header_can_be_called_and_no_other():
    assert set(OWN) == {predicate.name for predicate in PREDICATES}


def test_level_of_compression():
    levels = [OWN["compression-level"](share) for share in (0.1, 0.3, 0.5, 0.9)]

    assert levels == [Symbol("light"), Symbol("medium"), Symbol("heavy"), Symbol("extreme")]


def test_history_is_told_summed_up_and_put_together():
    turns = OWN["format-recent-turns"](TURNS[:2])

    assert [turn.text("text") for turn in turns] == ["User: said 0", "Assistant: said 1"]
    assert OWN["assemble-history"]("They met.", turns) == (
        "[Conversation summary: They met.]\n\nRecent conversation:\nUser: said 0\nAssistant: said 1"
    )
    assert OWN["assemble-history"](None, turns).startswith("Recent conversation:\n")
    assert OWN["assemble-history"](None, []) == ""
    assert OWN["summarize-turns"](TURNS, 100) == "8 earlier turns are left out"
    shorter = functions(Host(count, summarize=lambda text, n: "much was said of many things"))
    assert shorter["summarize-turns"](TURNS, 3) == "much was said"


def test_history_fits_its_tokens():
    whole = OWN["format-dialogue-history"](STATE, 1000)
    part = OWN["format-dialogue-history"](STATE, 20)

    assert len(whole.get("recent_turns")) == 8
    assert whole.get("summary") is None
    assert 0 < len(part.get("recent_turns")) < 8
    heavy = OWN["aggressive-summarize"](whole)
    assert [turn.text("text") for turn in heavy.get("recent_turns")] == ["Assistant: said 7"]
    assert heavy.text("summary").startswith("[Conversation summary: ")
    messy = Record(
        "FormattedHistory", {"recent_turns": [Record("FormattedTurn", {"text": "User:  **so**  \n\n\nit"})]}
    )
    assert OWN["simplify-formatting"](messy).text("text") == "Recent conversation:\nUser:  **so**  \n\n\nit"


def test_entities_are_shown_with_what_is_asked_for_most_first():
    [ann, acme] = OWN["format-entity-context"](STATE, RESOLVED, 1000)
    attributes = OWN["select-entity-attributes"](ANN, 1)

    assert attributes == [("email", "a@b")]
    assert ann.text("text").splitlines()[:2] == ["• Ann (Person)", "  email: a@b"]
    assert (ann.get("entity_id"), ann.get("relevance")) == (1, 0.9)
    assert acme.text("text") == "• Acme (Organization)"
    assert OWN["format-entity"](ANN, 0.5, attributes).text("text") == "• Ann (Person)\n  email: a@b"
    assert [one.text("text") for one in OWN["reduce-entity-detail"]([ann])] == ["• Ann (Person)"]
    [relationship] = OWN["get-entity-relationships"](ANN, STATE)
    assert (relationship.text("relation"), relationship.text("name")) == ("works at", "Acme")


def test_content_is_counted_compressed_and_fitted():
    total = OWN["total-tokens"](CONTENT)

    compressed = OWN["compress-content"](CONTENT, total // 2)
    fitted = OWN["handle-overflow"](CONTENT, Record("TokenBudget", {"history": 10, "entities": 4, "rag": 45}))

    assert OWN["total-tokens"](compressed) <= total // 2
    assert (compressed.text("system"), compressed.text("query")) == ("be brief", "who is ann")
    assert [one.get("chunk_id") for one in fitted.get("rag_chunks")] == [3, 4]
    whole = OWN["compress-content"](CONTENT, total)
    assert whole.get("history") == CONTENT.get("history")
    assert len(whole.get("rag_chunks")) == 5
    with pytest.raises(UsageError, match="more than"):
        OWN["compress-content"](CONTENT, 2)
    nothing = OWN["compress-content"](Record("DialogueState", {}), -5)
    assert nothing.text("query") == ""


def test_budget_gives_nothing_to_what_has_nothing_to_show():
    budget = OWN["allocate-token-budget"]("who is ann", STATE, 4096)
    empty = OWN["allocate-token-budget"]("who", Record("DialogueState"), 100)

    assert (budget.get("total"), budget.get("query"), budget.get("rag")) == (4096, 3, 0)
    assert budget.get("history") > 0
    assert sum(budget.get(name) for name in ("system", "history", "entities", "rag", "query")) <= 4096
    assert [empty.get(name) for name in ("history", "entities", "rag")] == [0, 0, 0]


def test_chunks_are_chosen_ordered_and_shown():
    chunks = [chunk(1, "same text", 0.2), chunk(2, "Same  text", 0.1), chunk(3, "other", 0.9)]
    results = [result(1, "bees", 0.4), result(2, "Ann keeps bees", 0.3)]

    assert [one.get("chunk_id") for one in OWN["select-top-chunks"](chunks, 2)] == [3, 1]
    assert [one.get("chunk_id") for one in OWN["rerank-chunks"]("bees", results)] == [1, 2]
    assert OWN["apply-rag-boosts"](results, RESOLVED)[0].get("chunk_id") == 2
    shown = OWN["format-chunk"](results[0], Record("DocumentSource", {"title": "Hive", "date": "2025-01-31"}))
    assert shown == "Source: Hive (2025-01-31)\n```\nbees\n```"


def test_vectors_need_someone_who_makes_them():
    with pytest.raises(UsageError, match="no embedder"):
        OWN["embed-query"]("x")
    with pytest.raises(UsageError, match="no index of vectors"):
        OWN["search-vector-index"]([0.5], 3)
    own = functions(Host(count, embed=lambda text: [1.0, 2.0]))
    assert own["embed-query"]("x") == [1.0, 2.0]


def test_system_prompt_loses_preferences_before_anything_else():
    wanted = Record("UserPreferences", {"style": "formal", "lines": ["Call me Steve."]})

    whole = OWN["build-system-prompt"](wanted, Symbol("helpful"), 1000)

    assert OWN["format-preferences"](wanted) == "User preferences:\nWrite formally.\nCall me Steve."
    assert whole.endswith(OWN["format-preferences"](wanted))
    assert OWN["format-personality"]("expert in law") in OWN["build-system-prompt"](
        wanted, "expert in law", 5
    )
    assert "preferences" not in OWN["build-system-prompt"](wanted, "helpful", 5)
    assert OWN["truncate-system-prompt"](["a b", "c d", "e"], 4) == "a b\n\nc d"
    assert OWN["truncate-system-prompt"](["a b", "c d"], 1) == "a b"


def test_context_is_injected_from_the_users_own_knowledge(knowledge):
    own = functions(Host(count, knowledge=knowledge))

    built = own["inject-context"]("Where do walruses sleep?", STATE, Record("KnowledgeBase"), 500)

    assert "Walruses sleep on the ice." in built.text("text")
    assert built.text("text").endswith("[USER]\nWhere do walruses sleep?")
    assert built.get("tokens") <= 500
    assert built.get("content").text("query") == "Where do walruses sleep?"


def test_personalities_are_texts_symbols_or_constructors():
    expert = "You are an expert in botany. Give precise answers with the details that matter."
    for value in ("expert in botany", [Symbol("Expert"), "botany"], Record("Expert", {"domain": "botany"})):
        assert OWN["format-personality"](value) == expert
    helpful = OWN["format-personality"]("helpful")
    assert helpful.startswith("You are helpful")
    assert OWN["format-personality"](Symbol("Helpful")) == helpful
    assert OWN["format-personality"]([Symbol("Custom"), "Be a pirate."]) == "Be a pirate."
    assert OWN["build-system-prompt"](Record("UserPreferences"), [Symbol("Expert"), "botany"], 99).endswith(
        expert
    )
    for odd in ([Symbol("Unknown"), "x"], [Symbol("Expert")], 5, Record("Turn", {"content": "x"})):
        with pytest.raises(UsageError, match="personality"):
            OWN["format-personality"](odd)


def test_other_names_of_fields_mean_the_same():
    seeds = Record(
        "UserPreferences",
        {
            "style": Symbol("Formal"),
            "technical_level": Symbol("Expert"),
            "formatting": Record("FormattingPreferences", {"use_bullets": True, "include_links": False}),
            "custom_instructions": ["Call me Steve."],
        },
    )
    assert OWN["format-preferences"](seeds).splitlines()[1:] == [
        "Write formally.",
        "Use technical language freely.",
        "Use bullet points for lists.",
        "Call me Steve.",
    ]
    source = Record("DocumentSource", {"title": "Hive", "date": "2025-01-31"})
    shown = OWN["format-chunk"](Record("Chunk", {"content": "hi"}), source)
    assert shown == "Source: Hive (2025-01-31)\n```\nhi\n```"
    turn = Record("Turn", {"speaker": Symbol("User"), "raw_text": "helo", "corrected_text": "hello"})
    assert OWN["format-recent-turns"]([turn])[0].text("text") == "User: hello"
    named = Record("Turn", {"speaker": [Symbol("Named"), "Ann"], "raw_text": "hi"})
    assert OWN["format-recent-turns"]([named])[0].text("text") == "Ann: hi"
    entity = Record("Entity", {"id": 3, "canonical_name": "Bob", "entity_type": Symbol("Person")})
    assert OWN["format-entity"](entity, 0.5, []).text("text") == "• Bob (Person)"
    content = Record("ContextContent", {"rag_chunks": [Record("KnowledgeChunk", {"formatted": "a b c"})]})
    assert OWN["total-tokens"](content) == 3


def test_history_that_is_one_text_is_simplified_and_summed_up():
    history = Record("FormattedHistory", {"text": "a   b", "token_count": 2})
    assert OWN["simplify-formatting"](history).text("text") == "a b"

    told = "[Conversation summary: They met.]\n\nRecent conversation:\nUser: x  y\nAssistant: z"
    plain = OWN["simplify-formatting"](Record("FormattedHistory", {"text": told}))
    assert plain.text("text") == told.replace("x  y", "x y")
    shorter = functions(Host(count, summarize=lambda text, n: "much"))
    heavy = shorter["aggressive-summarize"](Record("FormattedHistory", {"text": told + " and " * 20}))
    assert heavy.text("text").startswith("[Conversation summary: much]\n\nRecent conversation:\nAssistant: z")


def test_fields_and_values_that_mean_nothing_are_refused():
    with pytest.raises(UsageError, match="Turn has no field 'contnt'") as caught:
        OWN["format-recent-turns"]([Record("Turn", {"contnt": "x"})])
    assert "content" in caught.value.hint
    with pytest.raises(UsageError, match="no record is called 'Trun'"):
        OWN["format-recent-turns"]([Record("Trun", {"content": "x"})])
    with pytest.raises(UsageError, match="content of Turn has to be text"):
        OWN["format-recent-turns"]([Record("Turn", {"content": [Symbol("x"), 1]})])
    with pytest.raises(UsageError, match="has to be text"):
        OWN["truncate-system-prompt"]([[Symbol("x")]], 3)
    with pytest.raises(UsageError, match="has to be text"):
        OWN["assemble-history"]([Symbol("x"), "y"], [])


class Meanings:
    """An embedder that knows one thing: what is about bees."""

    name = "bees"

    def embed_query(self, text):
        return np.array([1.0, 0.0] if "bee" in text.lower() else [0.0, 1.0], np.float32)

    def embed_documents(self, texts):
        return np.array([self.embed_query(text) for text in texts])

    def close(self):
        pass


class Longest:
    """A reranker that likes long documents."""

    def scores(self, query, documents):
        return [float(len(document)) for document in documents]

    def close(self):
        pass


def test_host_of_a_memory_has_what_is_configured_there(tmp_path):
    vectors = VectorSettings(Meanings)
    with Memory(tmp_path / "memory.db", user_id="steve", vectors=vectors, reranker=Longest()) as memory:
        knowledge = Knowledge(memory.transactions, "steve")
        hive = knowledge.add_node("Hive", source_text="Bees fly out.")
        knowledge.add_node("Ice", source_text="Walruses sleep on the cold ice all day.")
        own = functions(host_of(memory.transactions, "steve", count_tokens=count))

        vector = own["embed-query"]("bees")
        near = own["search-vector-index"](vector, 1)
        ranked = own["rerank-chunks"]("x", [result(1, "short", 0.9), result(2, "rather long", 0.1)])

    assert vector == [1.0, 0.0]
    assert [one.text("title") for one in near] == [hive.title]
    assert [one.get("chunk_id") for one in ranked] == [2, 1]


def test_host_of_a_memory_without_models_says_so(tmp_path):
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        own = functions(host_of(memory.transactions, "steve"))
        with pytest.raises(UsageError, match="no embedder"):
            own["embed-query"]("x")


def texts(records):
    return [record.text("text") for record in records]


def test_a_budget_is_shared_by_what_there_is_to_show():
    def budget(total, state=STATE, own=OWN):
        return own["allocate-token-budget"]("who is ann", state, total).fields

    assert budget(1000) == {
        "total": 1000, "system": 15, "history": 24, "entities": 958, "rag": 0, "query": 3,
    }  # fmt: skip
    assert budget(10) == {"total": 10, "system": 15, "history": 0, "entities": 0, "rag": 0, "query": 3}
    assert budget(1000, Record("DialogueState", {"turns": TURNS}))["entities"] == 0


def test_each_category_is_compressed_to_its_own_budget():
    fitted = OWN["handle-overflow"](CONTENT, Record("TokenBudget", {"history": 10, "entities": 3, "rag": 25}))

    assert fitted.get("history").text("text") == "Recent conversation:\nAssistant: said 7"
    assert texts(fitted.get("entities")) == ["• Ann (Person)"]
    assert [one.get("chunk_id") for one in fitted.get("rag_chunks")] == [4]
    assert (fitted.text("system"), fitted.text("query")) == ("be brief", "who is ann")
    history = Record("TokenBudget", {"history": 10})
    less = OWN["handle-overflow"](CONTENT, history)
    assert less.get("entities") == CONTENT.get("entities")
    assert len(less.get("rag_chunks")) == 5


def test_entities_come_by_their_confidence_and_have_a_shorter_form():
    found = [
        Record("ResolvedEntity", {"entity_id": 2, "confidence": 0.2}),
        Record("ResolvedEntity", {"entity_id": 1}),
    ]
    ann, acme = OWN["format-entity-context"](STATE, found, 1000)

    assert (ann.get("relevance"), acme.get("relevance")) == (1.0, 0.7)
    assert ann.text("text") == "• Ann (Person)\n  email: a@b\n  hobby: chess\n  Related: works at Acme"
    assert (ann.get("shorter"), acme.get("shorter")) == (["• Ann (Person)"], [])
    assert (ann.get("tokens"), acme.get("tokens")) == (11, 3)
    assert OWN["format-entity-context"](STATE, found, 14) == [ann, acme]
    assert OWN["format-entity-context"](STATE, found, 13) == [ann]
    both = OWN["format-entity"](ANN, 0.5, [("hobby", "chess"), ("email", "a@b")])
    assert both.fields == {
        "entity_id": 1, "text": "• Ann (Person)\n  email: a@b\n  hobby: chess", "relevance": 0.5,
        "shorter": ["• Ann (Person)"], "tokens": 7,
    }  # fmt: skip
    odd = Record("Entity", {"entity_id": 4, "name": "Odd", "type": Symbol("planet")})
    assert OWN["format-entity"](odd, 1.0, []).text("text").startswith("• Odd")
    stranger = Record("EntityRelationship", {"relation": "knows", "target": 9})
    assert OWN["get-entity-relationships"](Record("Entity", {"relations": [stranger]}), STATE) == []


def test_results_keep_their_fields_and_come_by_score():
    low, high = result(1, "chess", 0.1), Record("SearchResult", {"chunk_id": 2, "text": "x", "score": 0.9})

    assert OWN["rerank-chunks"]("q", [low, high]) == [
        Record("SearchResult", {"chunk_id": 2, "title": "", "text": "x", "score": 0.9, "date": ""}),
        Record("SearchResult", {"chunk_id": 1, "title": "Notes", "text": "chess", "score": 0.1, "date": ""}),
    ]
    [plain] = OWN["rerank-chunks"]("q", [Record("SearchResult", {"chunk_id": 3, "text": "x"})])
    assert plain.get("score") == 0
    named = [result(1, "chess", 0.5), result(2, "Ann plays", 0.5)]
    boosted = OWN["apply-rag-boosts"](named, RESOLVED)
    assert [(one.get("chunk_id"), one.get("score")) for one in boosted] == [(2, 1.3), (1, 1.0)]
    chunks = [chunk(1, "a b", 0.2), chunk(2, "c d", 0.9), chunk(3, "e f", 0.5)]
    assert [one.get("chunk_id") for one in OWN["select-top-chunks"](chunks, 2)] == [2, 3]
    assert OWN["select-top-chunks"](chunks, -1) == []
    seen = []
    own = functions(Host(count, search_vectors=lambda vector, n: seen.append((vector, n)) or []))
    assert own["search-vector-index"]([1, 2], 3) == []
    assert seen == [([1.0, 2.0], 3)]


def test_passages_are_taken_while_they_fit(knowledge):
    knowledge.add_node("Walrus facts", source_text="Walruses have tusks and they are very large animals.")
    own = functions(Host(count, knowledge=knowledge))
    both = own["retrieve-rag-chunks"]("walruses", [], 1000)
    sizes = [one.get("tokens") for one in both]
    assert len(both) > 2

    assert own["retrieve-rag-chunks"]("walruses", [], sum(sizes)) == both
    assert len(own["retrieve-rag-chunks"]("walruses", [], sum(sizes) - 1)) == len(both) - 1
    assert own["retrieve-rag-chunks"]("walruses", [], min(sizes) - 1) == []
    assert own["allocate-token-budget"]("x", STATE, 1000).get("rag") > 0
    turned = functions(Host(count, knowledge=knowledge, rerank=lambda query, found: found[::-1]))
    assert turned["retrieve-rag-chunks"]("walruses", [], 1000) == both[::-1]
    assert OWN["retrieve-rag-chunks"]("walruses", [], 1000) == []


def test_four_bytes_are_a_token_where_nobody_counts():
    own = functions(Host())

    for text, tokens in (("ab", 1), ("abc", 2), ("abcdef", 2), ("é" * 4, 3)):
        content = Record("ContextContent", {"rag_chunks": [Record("KnowledgeChunk", {"formatted": text})]})
        assert own["total-tokens"](content) == tokens


def test_text_is_cut_after_whole_words():
    shorter = functions(Host(count, summarize=lambda text, n: f"{n} of {len(text.splitlines())} in words"))

    assert shorter["summarize-turns"](TURNS, 5) == "5 of 8 in words"
    assert shorter["summarize-turns"](TURNS, 4) == "4 of 8 in"
    assert shorter["summarize-turns"]([], 4) == ""
    assert OWN["summarize-turns"](TURNS, 2) == "8 earlier"
    assert OWN["summarize-turns"]([], 2) == ""


def test_preferences_are_kept_if_the_whole_fits():
    wanted = Record("UserPreferences", {"style": "Formal", "verbosity": "Concise", "formatting": ["links"]})
    block = OWN["format-preferences"](wanted)
    assert block.splitlines()[:3] == ["User preferences:", "Write formally.", "Keep answers short."]
    assert len(block.splitlines()) == 4
    whole = OWN["build-system-prompt"](wanted, "helpful", 1000)
    n = count(whole)
    assert OWN["build-system-prompt"](wanted, "helpful", n) == whole
    assert OWN["build-system-prompt"](wanted, "helpful", n - 1) != whole
    formats = dict.fromkeys(
        ("use_bullets", "use_numbered_lists", "include_code_blocks", "include_links"), True
    )
    every = Record("UserPreferences", {"formatting": Record("FormattingPreferences", formats)})
    listed = Record("UserPreferences", {"formatting": ["bullets", "numbered lists", "code blocks", "links"]})
    assert OWN["format-preferences"](every) == OWN["format-preferences"](listed)
    assert OWN["truncate-system-prompt"](["a b", "c d", "e"], 5) == "a b\n\nc d\n\ne"
    assert OWN["truncate-system-prompt"]([], 5) == ""

"""Search over chunks: what is found, with which offsets, for whom, and the same on both engines."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shepherd.knowledge import Knowledge
from shepherd.knowledge.nodes import NewNode
from shepherd.knowledge.retrieval import _age_days, boosted
from shepherd.memory import Memory
from tests.examples import examples
from tests.memory.conftest import NOW
from tests.postgres import Server

WORDS = ["walrus", "otter", "guitar", "C++", "coffee", "日本語", "naïve", "v2.31", "report", "the", "\0"]
sentences = st.lists(st.sampled_from(WORDS), max_size=400).map(" ".join)


def test_a_sentence_is_found_where_it_stands(knowledge):
    filler = "Nothing of interest is said in this line of the report.\n" * 60
    text = f"{filler}The walrus was elected mayor of Harbour Town.\n{filler}"
    node = knowledge.add_node("Annals", source_text=text, link="https://example.com", event_date="1901-02-03")
    knowledge.add_node("Decoy", source_text="Harbour Town has a mayor.")

    [best, *_] = knowledge.search("which walrus became mayor?")

    assert best.node_id == node.id
    assert "The walrus was elected mayor of Harbour Town." in best.text
    assert best.text == text[best.start_char : best.end_char]
    assert (best.title, best.date, best.link) == ("Annals", "1901-02-03", "https://example.com")
    assert 0.3 < best.relevance <= 1


def test_a_node_is_found_by_its_card_too(knowledge):
    node = knowledge.add_node("Dentist", notes="Dr. Miller, call before nine", source_text="teeth")

    [hit] = knowledge.search("miller")

    assert (hit.node_id, hit.part) == (node.id, "card")
    assert knowledge.search("miller", part="text") == []
    assert [found.id for found in knowledge.find_nodes("teeth dentist")] == [node.id]


def test_a_search_stays_in_the_nodes_that_are_asked_for(knowledge):
    ids = [knowledge.add_node(f"n{n}", source_text=f"walrus number {n}").id for n in range(40)]

    found = knowledge.search("walrus", 5, node_ids=ids[30:33])

    assert sorted(hit.node_id for hit in found) == ids[30:33]


def test_nothing_to_look_for_finds_nothing(knowledge):
    assert knowledge.search("walrus") == []
    knowledge.add_node("walrus")

    assert knowledge.search("") == knowledge.search("?!") == knowledge.search("walrus", 0) == []
    assert knowledge.search("walrus", min_relevance=1.0) == []


def test_another_user_sees_nothing_and_changes_no_score(knowledge, memory):
    other = Knowledge(memory.transactions, "anna")
    knowledge.add_node("mine", source_text="a walrus and an otter", dimensions=["sea"])
    before = knowledge.search("walrus otter")

    for n in range(30):
        other.add_node(f"hers {n}", source_text="the walrus, the walrus, the otter", dimensions=["ice"])

    assert knowledge.search("walrus otter") == before
    assert [hub.id for hub in knowledge.hubs()] == [1]
    assert [dimension.name for dimension in knowledge.list_dimensions()] == ["sea"]
    assert all(hit.title.startswith("hers") for hit in other.search("walrus", 50))
    assert other.get_node(1).title == "hers 0"


# Each example has users of its own.
_examples = count()


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["anna", "bob"]), sentences), min_size=1, max_size=6))
def test_nobody_finds_what_others_keep(memory: Memory, kept):
    number = next(_examples)
    users = {user: Knowledge(memory.transactions, f"{user} {number}") for user in ("anna", "bob")}
    for user, text in kept:
        users[user].add_node(f"{user} node", source_text=f"{text} {user}secret")

    for user, other in (("anna", "bob"), ("bob", "anna")):
        for word in (*WORDS, f"{other}secret", f"{user}secret"):
            hits = users[user].search(word, 100)
            assert all(hit.title == f"{user} node" for hit in hits)
        assert users[user].search(f"{other}secret") == []
        assert users[user].count_nodes() == sum(owner == user for owner, _ in kept)


@pytest.fixture
def pair(postgres_server: Server) -> Iterator[tuple[Memory, Memory]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory(Path(folder, "memory.db"), clock=lambda: NOW) as in_a_file,
        Memory(postgres_server.url(postgres_server.new_schema()), clock=lambda: NOW) as on_a_server,
    ):
        yield in_a_file, on_a_server


def test_both_engines_give_the_same_hits_bit_for_bit(pair):
    chance = random.Random(5)
    words = [f"{chance.choice('bcdfghklmnprst')}{chance.choice('aeiou')}{n:x}" for n in range(400)]
    weights = [1 / (n + 1) for n in range(len(words))]
    both = [Knowledge(memory.transactions, "steve", clock=lambda: NOW) for memory in pair]
    texts = [" ".join(chance.choices(words, weights, k=chance.randint(1, 900))) for _ in range(60)]
    for number, text in enumerate(texts):
        for knowledge in both:
            knowledge.add_node(f"node {number} {text[:20]}", source_text=text, notes=text[-60:])
    for number in range(1, 60, 7):
        for knowledge in both:
            knowledge.delete_node(number)
            knowledge.update_node(number + 1, source_text=texts[number][::-1])

    for k in (1, 2, 3, 5, 8, 30):
        query = " ".join(chance.choices(words, weights, k=k))
        for limit, least in ((3, 0.3), (50, 0.0)):
            found = [knowledge.search(query, limit, min_relevance=least) for knowledge in both]
            assert found[0] == found[1]
    assert both[0].hubs(100) == both[1].hubs(100)


def test_boosts_reorder_and_do_not_decide_who_is_there(knowledge):
    knowledge.add_node("old", source_text="walrus news of the harbour", event_date="2001-01-01")
    knowledge.add_node("new", source_text="walrus news of the harbour", event_date="2023-11-01")
    knowledge.add_node("to come", source_text="walrus news of the harbour", event_date="2099-01-01")
    # From a time when every text was taken.
    text = "walrus news of the harbour by Miller"
    knowledge.store_node(NewNode("Miller", source_text=text, event_date="soon"))
    plain = knowledge.search("walrus harbour", part="text")

    plain_score = {hit.title: hit.score / plain[0].score for hit in plain}

    by_date = boosted(plain, now=NOW, recency_weight=1.0)
    by_name = boosted(plain, now=NOW, entities=["Miller", "Mill"], entity_weight=1.0)

    assert by_date[0].title == "new"
    assert by_date[0].score == pytest.approx(1.0 + 0.2, abs=0.02)
    assert by_name[0].title == "Miller"
    assert by_name[0].score == pytest.approx(plain_score["Miller"] + 0.15)
    assert {hit.id for hit in by_date} == {hit.id for hit in plain}


changes = st.one_of(
    st.tuples(st.just("add"), sentences),
    st.tuples(st.just("replace"), sentences),
    st.tuples(st.just("delete"), st.just("")),
    st.tuples(st.just("wait"), st.just("")),
)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(changes, min_size=1, max_size=10), st.randoms(use_true_random=False))
def test_the_index_in_memory_finds_what_the_database_finds(path: Path, history, chance: random.Random):
    with tempfile.TemporaryDirectory() as folder:
        opened = [
            Memory(Path(folder, "memory.db"), clock=lambda: NOW, recall_cache_mb=megabytes)
            for megabytes in (64, 0)
        ]
        hot, cold = (Knowledge(memory.transactions, "steve", clock=lambda: NOW) for memory in opened)
        recall = opened[0]._store._chunk_recall  # type: ignore[attr-defined]
        hot.add_node("first", source_text="walrus " * 300)
        for kind, text in history:
            ids = [node.id for node in cold.list_nodes(limit=100)]
            if kind == "add":
                chance.choice([hot, cold]).add_node("node", source_text=text, notes=text[:40])
            elif kind == "replace" and ids:
                chance.choice([hot, cold]).update_node(chance.choice(ids), source_text=text)
            elif kind == "delete" and ids:
                chance.choice([hot, cold]).delete_node(chance.choice(ids))
            else:
                assert recall.wait()
            query = " ".join(chance.choices(WORDS, k=3))
            assert hot.search(query, 20) == cold.search(query, 20)
        assert recall.wait()
        hot.search("walrus")
        assert recall.wait()
        assert hot.search("walrus otter", 50) == cold.search("walrus otter", 50)
        assert recall.n_users == 1
        assert opened[0].check(repair=False).ok
        for memory in opened:
            memory.close()


ZEBRA_NOTES = {
    "Zebra stripes": "The stripes of a zebra confuse horseflies, which land on it less often.",
    "Zebra stripes and heat": "Black stripes of a zebra are warmer than white stripes, which moves the air.",
    "Zebra stripes and lions": "A lion cannot tell one zebra from another by its stripes in a running herd.",
    "Zebra stripes, a count": "A mountain zebra has about fifty stripes on its sides, narrower than others.",
    "Zebra stripes in foals": "The stripes of a zebra foal are brown at birth, and darken in a few months.",
    "Zebra stripes as names": "People who study a herd know each zebra by its stripes, as by a fingerprint.",
}


def test_words_that_every_one_of_a_few_notes_has_still_find_them(knowledge):
    for title, text in ZEBRA_NOTES.items():
        knowledge.add_node(title, source_text=text)

    found = knowledge.retrieve("Tell me about zebra stripes", 3)

    assert len({chunk.node_id for chunk in found}) == 3
    assert [chunk.part for chunk in found] == ["text"] * 3


@pytest.mark.parametrize("query", ["yes", "Who am I?", "zebra gardening", "gardening"])
def test_common_words_alone_find_nothing_else(knowledge, query):
    for title, text in ZEBRA_NOTES.items():
        knowledge.add_node(title, source_text=f"{text} Yes, I am who I am.")

    assert knowledge.retrieve(query, 3) == []


def test_common_words_do_not_find_everything_in_a_large_collection(knowledge):
    for number in range(250):
        knowledge.add_node(f"Zebra {number}", source_text=f"Page {number} about a zebra.")

    assert knowledge.retrieve("zebra", 3) == []


def test_card_of_nothing_but_a_title_takes_no_place_beside_its_text(knowledge):
    rag = knowledge.add_node("How RAG systems work", source_text="RAG systems work by retrieval first.")
    knowledge.add_node("Other systems", source_text="Some systems retrieve nothing, and work without RAG.")
    knowledge.add_node("Garden", source_text="Tulips in spring, asters in autumn.")
    knowledge.add_node("Kitchen", source_text="Bread takes flour, water, salt and time.")

    found = knowledge.retrieve("How do RAG systems work?", 2, min_relevance=0.0)

    assert [(chunk.node_id, chunk.part) for chunk in found] == [(rag.id, "text"), (rag.id + 1, "text")]


def test_card_with_notes_stays_beside_its_text(knowledge):
    rag = knowledge.add_node(
        "RAG systems", notes="Ask Ann how RAG works.", source_text="RAG works by retrieval."
    )
    knowledge.add_node("Garden", source_text="Tulips in spring, asters in autumn.")

    found = knowledge.retrieve("how does RAG work", 2, min_relevance=0.0)

    assert {(chunk.node_id, chunk.part) for chunk in found} == {(rag.id, "text"), (rag.id, "card")}


@pytest.mark.parametrize(
    ("written", "days"),
    [
        ("1970-01-01", 2.5),
        ("1970-01-03", 0.5),
        ("1970-01-04", None),
        ("1970-01-01T23:00:00Z", 2.5),
        ("1970-01-01 and later", 2.5),
        ("1970-01", None),
        ("soon", None),
        ("", None),
    ],
)
def test_the_age_of_a_date_is_counted_in_days(written, days):
    assert _age_days(written, 2.5 * 86_400) == days

"""What searches and listings of the LangGraph store give."""

from __future__ import annotations

import pytest
from langgraph.store.base import (
    PutOp,
)

from shepherd.adapters.langgraph import ShepherdStore
from tests.adapters.conftest import ANNA, NOW, STEVE, keys

# ---- search


def test_query_finds_by_words_with_relevance_as_score(filled):
    found = filled.search(("memories",), query="who likes olives on pizza?")

    assert found[0].key == "food"
    assert found[0].namespace == STEVE
    assert 0.3 < found[0].score <= 1.0
    assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)


def test_what_fits_not_at_all_is_not_found(filled):
    assert filled.search(STEVE, query="dinosaurs") == []
    assert filled.search(STEVE, query="what is it?") == []


def test_search_without_query_gives_the_latest_first_without_scores(memory):
    now = [NOW]
    store = ShepherdStore(memory, clock=lambda: now[0])
    for key in "abc":
        now[0] += 1
        store.put(STEVE, key, {"n": key})
    now[0] += 1
    store.put(STEVE, "a", {"n": "again"})

    found = store.search(STEVE)

    assert keys(found) == ["a", "c", "b"]
    assert {item.score for item in found} == {None}


def test_search_stays_under_its_prefix(filled):
    filled.put(("memories", "steven"), "food", {"likes": "pizza"})

    assert len(filled.search(STEVE)) == 3
    assert {item.namespace for item in filled.search(STEVE, query="pizza")} == {STEVE}
    assert keys(filled.search(("memories", "steve", "work"))) == ["editor"]
    assert len(filled.search(())) == 5
    assert filled.search(("mem",)) == []


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"rating": 5}, {"food", "editor"}),
        ({"rating": {"$gt": 4}}, {"food", "editor"}),
        ({"rating": {"$gte": 4, "$lt": 5}}, {"drink"}),
        ({"rating": {"$lte": 4}}, {"drink"}),
        ({"rating": {"$ne": 5}}, {"drink"}),
        ({"rating": {"$eq": 4}}, {"drink"}),
        ({"rating": {"$gt": "4"}}, set()),
        ({"uses": {"$gt": "Emacs"}}, {"editor"}),
        ({"tags": ["dinner"]}, {"food"}),
        ({"tags": []}, set()),
        ({"nothing": 1}, set()),
        ({"rating": 5, "uses": "Helix"}, {"editor"}),
    ],
)
def test_filter_takes_fields_and_comparisons(filled, wanted, expected):
    assert set(keys(filled.search(STEVE, filter=wanted))) == expected


def test_query_and_filter_both_hold(filled):
    filled.put(STEVE, "old food", {"likes": "pizza", "rating": 1})

    assert keys(filled.search(STEVE, query="pizza", filter={"rating": 1})) == ["old food"]


@pytest.mark.parametrize("query", [None, "number"])
def test_pages_together_are_the_whole(store, query):
    store.batch([PutOp(("n",), str(i), {"text": f"number {i}", "even": i % 2 == 0}) for i in range(25)])
    wanted = {"even": True}

    pages = [store.search(("n",), query=query, filter=wanted, limit=5, offset=i) for i in (0, 5, 10, 15)]

    assert [len(page) for page in pages] == [5, 5, 3, 0]
    assert {int(item.key) for page in pages for item in page} == set(range(0, 25, 2))


def test_item_with_many_fitting_pieces_is_one_result(store):
    store.put(("books",), "long", {"text": "The dragon sleeps. " * 2000})
    store.put(("books",), "short", {"text": "A dragon."})

    assert set(keys(store.search(("books",), query="dragon", limit=2))) == {"long", "short"}


def test_only_chosen_fields_are_searched(memory):
    store = ShepherdStore(memory, fields=["text", "notes[*].body"])
    store.put(("a",), "one", {"text": "apples", "secret": "pears", "notes": [{"body": "plums"}]})
    store.put(("a",), "two", {"text": "cherries", "hidden": "quinces"}, index=["hidden"])
    store.put(("a",), "three", {"text": "medlars"}, index=False)

    assert keys(store.search(("a",), query="apples")) == ["one"]
    assert keys(store.search(("a",), query="plums")) == ["one"]
    assert keys(store.search(("a",), query="quinces")) == ["two"]
    for word in ("pears", "cherries", "medlars"):
        assert store.search(("a",), query=word) == []
    assert len(store.search(("a",))) == 3


# ---- namespaces


@pytest.fixture
def namespaces(store):
    paths = [
        ("test", "documents", "public"),
        ("test", "documents", "private"),
        ("test", "images", "public"),
        ("test",),
        ("test-1", "images"),
        ("prod", "documents", "public"),
        ("te", "-x"),
    ]
    for path in paths:
        store.batch([PutOp(path, key, {"n": 1}) for key in ("one", "two")])
    return store, paths


def test_namespaces_are_listed_once_and_in_order(namespaces):
    store, paths = namespaces

    assert store.list_namespaces() == sorted(paths)


def test_namespaces_by_prefix_suffix_depth_and_page(namespaces):
    store, _ = namespaces

    assert store.list_namespaces(prefix=("test", "documents")) == [
        ("test", "documents", "private"),
        ("test", "documents", "public"),
    ]
    assert store.list_namespaces(prefix=("test", "*", "public")) == [
        ("test", "documents", "public"),
        ("test", "images", "public"),
    ]
    assert store.list_namespaces(suffix=("public",), prefix=("*", "documents")) == [
        ("prod", "documents", "public"),
        ("test", "documents", "public"),
    ]
    assert store.list_namespaces(prefix=("test",), max_depth=2) == [
        ("test",),
        ("test", "documents"),
        ("test", "images"),
    ]
    assert len(store.list_namespaces(limit=3)) == 3
    assert store.list_namespaces(offset=6) == [("test-1", "images")]


def test_namespace_without_items_is_none(filled):
    filled.delete(ANNA, "food")

    assert filled.list_namespaces() == [STEVE, ("memories", "steve", "work")]

"""A LangGraph store over the memory, beside the store that LangGraph itself publishes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from itertools import count
from typing import Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from shepherd.adapters.langgraph import ShepherdStore
from shepherd.errors import UsageError
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory

NOW = 1_700_000_000.25
STEVE, ANNA = ("memories", "steve"), ("memories", "anna")


@pytest.fixture
def store(memory):
    return ShepherdStore(memory)


@pytest.fixture
def by_user(memory):
    """The second label of a namespace is the user."""
    return ShepherdStore(memory, user_label=1)


@pytest.fixture
def filled(store):
    store.put(STEVE, "food", {"likes": "pizza with olives", "rating": 5, "tags": ["dinner"]})
    store.put(STEVE, "drink", {"likes": "coffee, black", "rating": 4})
    store.put(("memories", "steve", "work"), "editor", {"uses": "Helix", "rating": 5})
    store.put(ANNA, "food", {"likes": "soup", "rating": 2})
    return store


def keys(found):
    return [item.key for item in found]


# ---- items


def test_item_comes_back_as_it_was_put(store):
    value = {"a": {"b": [1, 2.5, None, True]}, "text": "Café \0 💡", "empty": {}}

    store.put(STEVE, "one", value)
    item = store.get(STEVE, "one")

    assert (item.value, item.key, item.namespace) == (value, "one", STEVE)


def test_item_that_is_not_there_is_none(filled):
    assert filled.get(STEVE, "car") is None
    assert filled.get(("memories",), "food") is None
    assert filled.get(("memories", "steve", "food"), "food") is None


def test_newer_value_replaces_the_older_and_keeps_when_it_was_made(memory):
    now = [NOW]
    store = ShepherdStore(memory, clock=lambda: now[0])
    store.put(STEVE, "food", {"likes": "pizza"})
    now[0] += 0.5
    store.put(STEVE, "food", {"likes": "soup"})

    item = store.get(STEVE, "food")

    assert item.value == {"likes": "soup"}
    assert (item.created_at.timestamp(), item.updated_at.timestamp()) == (NOW, NOW + 0.5)
    assert store.search(STEVE, query="pizza") == []
    assert keys(store.search(STEVE, query="soup")) == ["food"]


def test_deleted_item_is_not_found(filled):
    filled.delete(STEVE, "food")
    filled.delete(STEVE, "never was")

    assert filled.get(STEVE, "food") is None
    assert filled.search(STEVE, query="pizza") == []
    assert filled.get(ANNA, "food") is not None


@pytest.mark.parametrize("key", ["", " ", ".", "..", "a..b", "Ünï/💡", "x" * 2000, "\0"])
def test_any_text_can_be_a_key(store, key):
    store.put(("a",), key, {"n": 1})
    store.put(("a", "b"), key, {"n": 2})

    assert store.get(("a",), key).value == {"n": 1}
    assert store.get(("a", "b"), key).key == key
    assert sorted(item.value["n"] for item in store.search(("a",))) == [1, 2]


def test_value_is_a_copy(store):
    value = {"list": [1]}
    store.put(STEVE, "one", value)
    value["list"].append(2)
    store.get(STEVE, "one").value["list"].append(3)

    assert store.get(STEVE, "one").value == {"list": [1]}


def test_items_outlive_the_program(tmp_path):
    with Memory(tmp_path / "memory.db") as memory:
        ShepherdStore(memory).put(("a",), "one", {"n": 1})
    with Memory(tmp_path / "memory.db") as memory:
        assert ShepherdStore(memory).get(("a",), "one").value == {"n": 1}


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


# ---- batches


def test_reads_of_a_batch_see_what_was_before_it(filled):
    results = filled.batch(
        [
            PutOp(STEVE, "food", {"likes": "soup"}),
            GetOp(STEVE, "food"),
            SearchOp(("memories", "anna")),
            ListNamespacesOp((MatchCondition("suffix", ("work",)),)),
            PutOp(STEVE, "food", {"likes": "cake"}),
            GetOp(STEVE, "car"),
        ]
    )

    assert results[0] is None
    assert results[1].value["likes"] == "pizza with olives"
    assert keys(results[2]) == ["food"]
    assert results[3] == [("memories", "steve", "work")]
    assert results[5] is None
    assert filled.get(STEVE, "food").value == {"likes": "cake"}


def test_mistake_in_a_batch_stores_nothing(store):
    with pytest.raises(UsageError):
        store.batch([PutOp(("a",), "one", {"n": 1}), PutOp(("a",), "two", {"n": object()})])

    assert store.search(()) == []


def test_awaited_methods_do_the_same(store):
    async def work():
        await asyncio.gather(*(store.aput(("a",), str(i), {"text": f"number {i}"}) for i in range(8)))
        found = await store.asearch(("a",), query="number", limit=20)
        await store.adelete(("a",), "0")
        return found, await store.aget(("a",), "0"), await store.alist_namespaces()

    found, deleted, listed = asyncio.run(work())

    assert len(found) == 8
    assert deleted is None
    assert listed == [("a",)]


def test_threads_write_together(store):
    def write(name):
        for i in range(10):
            store.put((name,), str(i), {"n": i})

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [len(store.search((name,), limit=20)) for name in "abcd"] == [10] * 4


# ---- users


def test_label_of_the_namespace_is_the_user(memory, by_user):
    by_user.put(STEVE, "food", {"likes": "pizza"})
    by_user.put(ANNA, "food", {"likes": "pizza, too"})

    assert [node.title for node in Knowledge(memory.transactions, "steve").list_nodes()] == ["food"]
    assert [item.namespace for item in by_user.search(ANNA, query="pizza")] == [ANNA]
    assert by_user.list_namespaces(prefix=("*", "anna")) == [ANNA]
    assert by_user.list_namespaces(prefix=ANNA) == [ANNA]


def test_batch_for_several_users_reaches_each_of_them(by_user):
    by_user.batch([PutOp(STEVE, "a", {"n": 1}), PutOp(ANNA, "a", {"n": 2}), PutOp(STEVE, "b", {"n": 3})])

    assert len(by_user.search(STEVE)) == 2
    assert len(by_user.search(ANNA)) == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.search(("memories",)),
        lambda store: store.search(()),
        lambda store: store.list_namespaces(),
        lambda store: store.list_namespaces(suffix=("steve",)),
        lambda store: store.list_namespaces(prefix=("memories", "*")),
        lambda store: store.put(("memories",), "a", {}),
    ],
)
def test_nothing_is_asked_of_all_users(by_user, ask):
    with pytest.raises(UsageError, match="names no user") as caught:
        ask(by_user)

    assert "label 1 is the user" in caught.value.hint


def test_nobody_has_no_items(by_user):
    assert by_user.get(("memories", "unknown"), "food") is None
    assert by_user.search(("memories", "unknown")) == []
    with pytest.raises(UsageError, match="nothing is kept"):
        by_user.put(("memories", "unknown"), "food", {"likes": "pizza"})


def test_item_is_knowledge_that_can_be_found_and_deleted_there(memory, filled):
    knowledge = Knowledge(memory.transactions, "steve")
    [piece] = knowledge.search("olives", part="text")
    node = knowledge.get_node(piece.node_id)

    assert (node.title, node.kind) == ("food", "langgraph")
    assert piece.text == "likes: pizza with olives\nrating: 5\ntags: dinner"
    knowledge.delete_node(node.id)
    assert filled.get(STEVE, "food") is None


def test_documents_of_the_user_are_no_items(memory, filled):
    Knowledge(memory.transactions, "steve").add_node("Pizza", source_text="A pizza takes ten minutes.")

    assert keys(filled.search((), query="pizza")) == ["food"]
    assert len(filled.search(())) == 4


# ---- mistakes


@pytest.mark.parametrize("namespace", [("a.b",), ("",), ("a", ""), (), (1,), "memories"])
def test_wrong_namespace_is_refused(store, namespace):
    with pytest.raises((InvalidNamespaceError, UsageError)):
        store.put(namespace, "key", {"n": 1})
    with pytest.raises(UsageError):
        store.batch([PutOp(namespace, "key", {"n": 1})])
    assert store.search(()) == []


@pytest.mark.parametrize(
    "value", [{"n": object()}, {"n": float("nan")}, {"n": {1, 2}}, ["list"], {"n": b"x"}]
)
def test_value_that_is_no_json_is_refused_without_saying_it(store, value):
    with pytest.raises(UsageError) as caught:
        store.put(("a",), "key", value)

    assert "JSON" in str(caught.value) or "dict" in str(caught.value)


def test_value_that_holds_itself_is_refused(store):
    value: dict[str, Any] = {}
    value["self"] = value

    with pytest.raises(UsageError):
        store.put(("a",), "key", value)


def test_mistakes_are_told_with_the_remedy(memory, filled):
    for ask, hint in (
        (lambda: filled.search(STEVE, filter={"rating": {"$in": [1]}}), "$gte"),
        (lambda: filled.put(STEVE, "a", {"n": 1}, index="text"), "index"),
        (lambda: ShepherdStore(memory, fields="text"), "fields"),
        (lambda: ShepherdStore(memory, user_id="steve", user_label=1), "user_label"),
    ):
        with pytest.raises(UsageError) as caught:
            ask()
        assert hint in caught.value.hint


@pytest.mark.parametrize("bad", [{"limit": -1}, {"offset": -1}])
def test_negative_pages_are_refused(filled, bad):
    with pytest.raises(UsageError):
        filled.search(STEVE, **bad)
    with pytest.raises(UsageError):
        filled.list_namespaces(**bad)


def test_largest_page_is_fine(filled):
    assert len(filled.search((), limit=2**62)) == 4
    assert len(filled.search((), limit=2**62, query="pizza soup coffee helix")) == 4


def test_items_do_not_expire(store):
    with pytest.raises(NotImplementedError):
        store.put(("a",), "key", {"n": 1}, ttl=5)
    with pytest.raises(UsageError, match="expire"):
        store.batch([PutOp(("a",), "key", {"n": 1}, ttl=5)])


# ---- against LangGraph's own store

LABELS = st.sampled_from(["a", "b", "a-", "é", "*", " "])
PATHS = st.lists(LABELS.filter(lambda label: label != "*"), min_size=1, max_size=3).map(tuple)
VALUES = st.dictionaries(
    st.sampled_from(["x", "y"]), st.integers(-3, 3) | st.sampled_from(["p", "q"]), max_size=2
)
KEYS = st.sampled_from(["k", "..", ""])
OPS = st.one_of(
    st.tuples(PATHS, KEYS, VALUES | st.none()).map(lambda parts: PutOp(*parts)),
    st.tuples(PATHS, KEYS).map(lambda parts: GetOp(*parts)),
    st.tuples(PATHS | st.just(()), st.none() | VALUES, st.just(1000)).map(lambda parts: SearchOp(*parts)),
)
CONDITIONS = st.builds(
    MatchCondition,
    st.sampled_from(["prefix", "suffix"]),
    st.lists(LABELS, min_size=1, max_size=2).map(tuple),
)
LISTS = st.tuples(
    st.lists(CONDITIONS, max_size=2).map(tuple),
    st.none() | st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 2),
).map(lambda parts: ListNamespacesOp(*parts))


def plain(result):
    """What of a result both stores must agree about."""
    if isinstance(result, list) and result and hasattr(result[0], "value"):
        return sorted((item.namespace, item.key, sorted(item.value.items())) for item in result)
    if hasattr(result, "value"):
        return result.namespace, result.key, result.value
    return result


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    """A memory and as many users of it as are asked for."""
    with Memory(tmp_path_factory.mktemp("users") / "memory.db") as memory:
        yield memory, count()


@settings(deadline=None)
@given(batches=st.lists(st.lists(OPS, max_size=4), max_size=6))
def test_does_what_the_store_of_langgraph_does(users, batches):
    memory, numbers = users
    ours, theirs = ShepherdStore(memory, user_id=f"user {next(numbers)}"), InMemoryStore()

    for batch in batches:
        got, expected = ours.batch(batch), theirs.batch(batch)
        assert list(map(plain, got)) == list(map(plain, expected))


@settings(deadline=None)
@given(paths=st.sets(PATHS, max_size=8), op=LISTS)
def test_lists_the_namespaces_that_the_store_of_langgraph_lists(users, paths, op):
    memory, numbers = users
    ours, theirs = ShepherdStore(memory, user_id=f"user {next(numbers)}"), InMemoryStore()
    for store in (ours, theirs):
        store.batch([PutOp(path, "k", {"n": 1}) for path in paths])

    assert ours.batch([op]) == theirs.batch([op])


# ---- in a graph


class State(TypedDict):
    question: str
    answer: str


def remember(state: State, runtime: Runtime) -> dict[str, str]:
    runtime.store.put(("memories", "steve"), state["question"], {"told": state["question"]})
    return {}


def recall(state: State, runtime: Runtime) -> dict[str, str]:
    found = runtime.store.search(("memories", "steve"), query=state["question"], limit=1)
    return {"answer": found[0].value["told"] if found else ""}


def graph_of(node, store):
    return (StateGraph(State).add_node("node", node).add_edge(START, "node").add_edge("node", END)).compile(
        store=store
    )


def test_graph_remembers_in_one_run_what_another_asks(by_user):
    graph_of(remember, by_user).invoke({"question": "My dog is called Rex."})

    assert graph_of(recall, by_user).invoke({"question": "What is my dog called?"})["answer"] == (
        "My dog is called Rex."
    )


def test_graph_with_an_event_loop(by_user):
    async def remember_async(state: State, runtime: Runtime) -> dict[str, str]:
        await runtime.store.aput(("memories", "steve"), "a", {"told": state["question"]})
        [item] = await runtime.store.asearch(("memories", "steve"), query="dog")
        return {"answer": item.value["told"]}

    async def work():
        return await graph_of(remember_async, by_user).ainvoke({"question": "My dog is Rex."})

    assert asyncio.run(work())["answer"] == "My dog is Rex."


# ---- where it is not installed


@pytest.mark.parametrize(("module", "extra"), [("langgraph", "langgraph"), ("langchain", "langchain_core")])
def test_missing_extra_is_named(module, extra):
    program = (
        f"import sys; sys.modules['{extra}'] = None\n"
        "from shepherd.errors import UsageError\n"
        f"try: import shepherd.adapters.{module}\n"
        "except UsageError as error: print(error.hint)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == f"pip install 'shepherd-llm[{module}]'\n"


def test_shepherd_alone_loads_nothing_of_langchain():
    program = (
        "import sys, shepherd\n"
        "from shepherd import Assistant, AsyncAssistant, Memory\n"
        "import shepherd.adapters\n"
        "print([name for name in sys.modules if name.startswith(('langchain', 'langgraph'))])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"

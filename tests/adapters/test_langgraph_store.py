"""A LangGraph store over the memory: items, batches, users, mistakes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

from shepherd.adapters.langgraph import ShepherdStore
from shepherd.errors import UsageError
from shepherd.installation import install_extra
from shepherd.knowledge import Knowledge
from shepherd.knowledge.transfer import records
from shepherd.memory import Memory
from tests.adapters.conftest import ANNA, NOW, STEVE, keys

# ---- items


def test_item_comes_back_as_it_was_put(store):
    value = {"a": {"b": [1, 2.5, None, True]}, "text": "Café \0 💡", "empty": {}}

    store.put(STEVE, "one", value)
    item = store.get(STEVE, "one")

    assert (item.value, item.key, item.namespace) == (value, "one", STEVE)


def test_key_that_is_no_text_is_stored_as_text(store):
    store.put(STEVE, "k\ud800", {"likes": "pizza"})

    assert store.get(STEVE, "k\ud800").value == {"likes": "pizza"}


def test_secrets_of_a_value_are_masked_unless_they_are_kept(memory):
    value = {
        "password": "hunter2xyz!",
        "note": "My password is hunter2xyz!",
        "rating": 5,
        "door": {"pin": 4711},
    }
    masked = {
        "password": "•" * 11,
        "note": "My password is " + "•" * 11,
        "rating": 5,
        "door": {"pin": "••••"},
    }
    store = ShepherdStore(memory)
    store.put(STEVE, "one", value)

    [found] = store.search(STEVE, query="password")
    assert (store.get(STEVE, "one").value, found.value) == (masked, masked)
    exported = str(list(records(Knowledge(memory.transactions, "steve"))))
    assert "hunter2xyz" not in exported
    assert "4711" not in exported

    memory.transactions.keeps_secrets = True
    store.put(STEVE, "one", value)
    assert store.get(STEVE, "one").value == value


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


def test_first_label_may_be_the_user(memory):
    store = ShepherdStore(memory, user_label=0)
    store.put(("steve", "memories"), "food", {"likes": "pizza"})
    store.put(("anna", "memories"), "food", {"likes": "soup"})

    assert [item.value for item in store.search(("anna",))] == [{"likes": "soup"}]
    assert store.get(("steve", "memories"), "food").value == {"likes": "pizza"}


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

    assert "label 1 must name the user" in caught.value.hint


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


def test_value_that_is_nested_too_deeply_is_refused(store):
    value: dict[str, Any] = {}
    for _ in range(100_000):
        value = {"in": value}

    with pytest.raises(UsageError, match="nested"):
        store.put(("a",), "key", value)


def test_mistakes_are_told_with_the_remedy(memory, filled):
    for ask, hint in (
        (lambda: filled.search(STEVE, filter={"rating": {"$in": [1]}}), "$gte"),
        (lambda: filled.put(STEVE, "a", {"n": 1}, index="text"), "index"),
        (lambda: ShepherdStore(memory, fields="text"), "fields"),
        (lambda: ShepherdStore(memory, user_id="steve", user_label=1), "user_label"),
        (lambda: ShepherdStore(memory, user_label=-1), "user_label"),
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


def test_smallest_page_is_empty(filled):
    assert filled.list_namespaces(limit=0) == []
    assert filled.search((), limit=0) == []


def test_largest_page_is_fine(filled):
    assert len(filled.search((), limit=2**62)) == 4
    assert len(filled.search((), limit=2**62, query="pizza soup coffee helix")) == 4


def test_items_do_not_expire(store):
    with pytest.raises(NotImplementedError):  # LangGraph's own answer for stores in which nothing expires
        store.put(("a",), "key", {"n": 1}, ttl=5)
    with pytest.raises(UsageError, match="expire"):
        store.batch([PutOp(("a",), "key", {"n": 1}, ttl=5)])


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

    assert done.stdout == f"{install_extra(module)}\n"


def test_shepherd_alone_loads_nothing_of_langchain():
    program = (
        "import sys, shepherd\n"
        "from shepherd import Assistant, AsyncAssistant, Memory\n"
        "import shepherd.adapters\n"
        "print([name for name in sys.modules if name.startswith(('langchain', 'langgraph'))])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"

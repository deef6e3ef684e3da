"""The LangGraph store in real graphs."""

from __future__ import annotations

import asyncio
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime


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

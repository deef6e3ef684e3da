"""A LangGraph agent whose model is Shepherd's server, and whose store is its memory."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.runtime import Runtime

from shepherd.adapters.langgraph import ShepherdStore
from tests.server.processes import ServerProcess

# What the clients do inside is not ours to warn about.
pytestmark = pytest.mark.filterwarnings("ignore")


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


@pytest.fixture
def server(tmp_path, scripted_model):
    running = ServerProcess(tmp_path, "-m", str(scripted_model), "--nomemory")
    yield running
    running.stop()


def test_agent_recalls_from_the_store_what_it_told_the_server_before(server, memory):
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(
        model="default", base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60
    )
    recalled: list[list[str]] = []

    def chat(state: State, runtime: Runtime) -> dict[str, Any]:
        said = state["messages"][-1].content
        namespace = ("memories", "steve")
        found = runtime.store.search(namespace, query=said, limit=3)
        recalled.append([item.value["said"] for item in found])
        known = SystemMessage("Known: " + "; ".join(recalled[-1]))
        answer = model.invoke([known, *state["messages"]])
        runtime.store.put(namespace, str(len(recalled)), {"said": said, "answer": answer.content})
        return {"messages": [answer]}

    graph = StateGraph(State).add_node("chat", chat).add_edge(START, "chat").add_edge("chat", END)
    agent = graph.compile(store=ShepherdStore(memory, user_label=1))
    first = agent.invoke({"messages": [HumanMessage("My dog is called Rex.")]})
    agent.invoke({"messages": [HumanMessage("What is my dog called?")]})

    assert first["messages"][-1].content.startswith("Hello, I am a shepherd.")
    assert recalled == [[], ["My dog is called Rex."]]

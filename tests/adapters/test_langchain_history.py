"""Chat history and retriever of LangChain over the memory, in chains as LangChain runs them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory

from shepherd.adapters.langchain import ShepherdChatMessageHistory, ShepherdRetriever
from shepherd.errors import UsageError
from shepherd.memory import Memory
from shepherd.types import Message

# RunnableWithMessageHistory is still what many programs have.
pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.deprecation.LangChainDeprecationWarning")


@pytest.fixture
def history(memory):
    return ShepherdChatMessageHistory(memory, "thread 1")


def said(history):
    return [(message.type, message.content) for message in history.messages]


# ---- history


def test_messages_come_back_in_order(history, memory):
    history.add_messages([SystemMessage("Be brief."), HumanMessage("Hello"), AIMessage("Hi. Café 💡")])
    history.add_user_message("What now?")
    history.add_ai_message("Lunch.")

    assert said(ShepherdChatMessageHistory(memory, "thread 1")) == [
        ("system", "Be brief."),
        ("human", "Hello"),
        ("ai", "Hi. Café 💡"),
        ("human", "What now?"),
        ("ai", "Lunch."),
    ]


def test_history_that_is_only_looked_at_makes_no_session(history, memory):
    history.clear()

    assert history.messages == []
    history.add_messages([])
    assert memory.list_sessions() == []


def test_tool_calls_results_and_thoughts_are_kept(history):
    call = {"name": "weather", "args": {"city": "Paris"}, "id": "c1", "type": "tool_call"}
    bad = {"name": "weather", "args": "{city", "id": "c2", "error": None, "type": "invalid_tool_call"}
    history.add_messages(
        [
            HumanMessage("Weather?"),
            AIMessage(
                "",
                tool_calls=[call],
                invalid_tool_calls=[bad],
                additional_kwargs={"reasoning_content": "Ask."},
            ),
            ToolMessage("sunny", tool_call_id="c1"),
            AIMessage([{"type": "reasoning", "reasoning": "Sun."}, {"type": "text", "text": "Sunny."}]),
        ]
    )

    _, asked, result, answer = history.messages
    assert asked.tool_calls == [call]
    assert (asked.invalid_tool_calls[0]["args"], asked.invalid_tool_calls[0]["id"]) == ("{city", "c2")
    assert asked.additional_kwargs["reasoning_content"] == "Ask."
    assert (result.content, result.tool_call_id) == ("sunny", "c1")
    assert (answer.content, answer.additional_kwargs["reasoning_content"]) == ("Sunny.", "Sun.")


def test_each_user_has_his_own_thread_of_a_name(memory):
    steve = ShepherdChatMessageHistory(memory, "1")
    anna = ShepherdChatMessageHistory(memory, "1", user_id="anna")
    steve.add_user_message("I am Steve.")
    anna.add_user_message("I am Anna.")

    assert said(steve) == [("human", "I am Steve.")]
    assert said(anna) == [("human", "I am Anna.")]


def test_conversation_held_with_shepherd_goes_on_by_its_id(memory):
    session = memory.start_session()
    memory.append_message(session, Message("user", "Hello", sent="Hello\n\n[facts: name=Steve]"))
    history = ShepherdChatMessageHistory(memory, session)
    history.add_ai_message("Hi.")

    assert said(history) == [("human", "Hello"), ("ai", "Hi.")]
    assert [message.raw for message in memory.load_session(session)] == ["Hello", "Hi."]
    assert len(memory.list_sessions()) == 1


def test_id_of_another_users_session_is_a_name_like_any_other(memory):
    session = memory.start_session("anna")
    memory.append_message(session, Message("user", "Anna's secret"), "anna")
    history = ShepherdChatMessageHistory(memory, session)
    history.add_user_message("Hello")

    assert said(history) == [("human", "Hello")]
    assert [message.raw for message in memory.load_session(session, "anna")] == ["Anna's secret"]


def test_cleared_history_is_empty_and_its_memories_stay(history, memory):
    history.add_messages([HumanMessage("My dog is called Rex."), AIMessage("A fine name.")])
    history.clear()

    assert history.messages == []
    assert memory.count_memories() == 1


def test_nobody_has_no_history(memory):
    history = ShepherdChatMessageHistory(memory, "1", user_id="unknown")
    history.add_user_message("Hello")

    assert history.messages == []


# ---- what becomes a memory


def test_turns_become_memories_however_they_arrive(history, memory):
    history.add_user_message("My dog is called Rex.")
    history.add_ai_message("A fine name.")
    history.add_messages([HumanMessage("My cat is called Tom."), AIMessage("Poor mouse.")])

    found = memory.list_memories()
    assert {(one.question, one.answer, one.source) for one in found} == {
        ("My dog is called Rex.", "A fine name.", "turn"),
        ("My cat is called Tom.", "Poor mouse.", "turn"),
    }


def test_answer_behind_tool_calls_belongs_to_its_question(history, memory):
    call = {"name": "weather", "args": {}, "id": "c1"}
    history.add_messages([HumanMessage("I fly to Paris."), AIMessage("Wait.", tool_calls=[call])])
    history.add_messages([ToolMessage("sunny", tool_call_id="c1"), AIMessage("Take a hat.")])

    [one] = memory.list_memories()
    assert (one.question, one.answer) == ("I fly to Paris.", "Take a hat.")


def test_question_about_oneself_becomes_none(history, memory):
    history.add_messages([HumanMessage("What is my dog called?"), AIMessage("I do not know.")])

    assert memory.count_memories() == 0


def test_memories_are_left_to_others_on_request(memory):
    history = ShepherdChatMessageHistory(memory, "1", remember=False)
    history.add_messages([HumanMessage("My dog is called Rex."), AIMessage("A fine name.")])

    assert memory.count_memories() == 0
    assert len(history.messages) == 2


@pytest.mark.parametrize(
    ("blocks", "text", "thought"),
    [
        (
            [
                {"type": "redacted_thinking", "data": "EroB"},
                {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "sun"}},
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
                {"type": "text", "text": "Sunny."},
            ],
            "Sunny.",
            "Hm.",
        ),
        ([{"type": "refusal", "refusal": "I cannot help."}], "I cannot help.", ""),
        ([{"type": "file_search_call", "id": "f"}, {"type": "text", "text": "Found."}], "Found.", ""),
        ([{"type": "non_standard", "value": {}}, {"type": "text", "text": "So."}], "So.", ""),
    ],
)
def test_what_a_provider_adds_to_an_answer_does_not_cost_the_turn(history, blocks, text, thought):
    history.add_messages([HumanMessage("My dog is called Rex. Weather?"), AIMessage(blocks)])

    _, answer = history.messages
    assert (answer.content, answer.additional_kwargs.get("reasoning_content", "")) == (text, thought)


def test_refusal_beside_an_empty_text_is_the_answer(history):
    history.add_messages([HumanMessage("How?"), AIMessage("", additional_kwargs={"refusal": "I cannot."})])

    assert said(history)[-1] == ("ai", "I cannot.")


# ---- mistakes


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]),
        AIMessage([{"type": "image", "base64": "", "mime_type": "image/png"}]),
        AIMessage([{"type": "output_audio", "data": ""}, {"type": "text", "text": "So."}]),
        HumanMessage([{"type": "server_tool_use", "id": "s1"}]),
        FunctionMessage("x", name="f"),
        ChatMessage("x", role="dog"),
    ],
)
def test_what_a_session_cannot_keep_is_refused_and_nothing_is_stored(history, message):
    with pytest.raises(UsageError, match="cannot be kept") as caught:
        history.add_messages([HumanMessage("Look:"), message])

    assert caught.value.hint
    assert history.messages == []


def test_messages_of_one_call_stay_together(memory):
    history = ShepherdChatMessageHistory(memory, "1", remember=False)

    def add(number: int) -> None:
        for _ in range(5):
            history.add_messages([HumanMessage(f"{number}"), AIMessage(f"{number}")])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(4)))
    texts = [text for _, text in said(history)]
    assert texts[::2] == texts[1::2]
    assert len(texts) == 40


def test_memory_that_cannot_be_stored_does_not_fail_the_call(tmp_path, caplog):
    with Memory(tmp_path / "small.db", user_id="steve", max_db_size="1M") as small:
        history = ShepherdChatMessageHistory(small, "1")
        history.add_messages([HumanMessage("My dog is called Rex."), AIMessage("x " * 300_000)])

        assert len(history.messages) == 2
        assert small.count_memories() == 0
    assert "too large for max_db_size" in caplog.text


def test_conversation_needs_a_name(memory):
    with pytest.raises(UsageError, match="session_id"):
        ShepherdChatMessageHistory(memory, " ")


# ---- in chains


PROMPT = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{question}")])


def conversation(memory, answers):
    seen = []

    def note(prompt):
        seen.append([message.content for message in prompt.to_messages()])
        return prompt

    chain = RunnableWithMessageHistory(
        PROMPT | note | GenericFakeChatModel(messages=iter(answers)),
        lambda session_id: ShepherdChatMessageHistory(memory, session_id),
        input_messages_key="question",
        history_messages_key="history",
    )
    return chain, seen


def thread(name):
    return {"configurable": {"session_id": name}}


def test_chain_sees_what_was_said_in_its_thread(memory):
    chain, seen = conversation(memory, ["Hi Steve.", "Steve.", "Who?"])
    chain.invoke({"question": "I am Steve."}, thread("one"))
    chain.invoke({"question": "My name?"}, thread("one"))
    chain.invoke({"question": "My name?"}, thread("two"))

    assert seen == [["I am Steve."], ["I am Steve.", "Hi Steve.", "My name?"], ["My name?"]]
    assert said(ShepherdChatMessageHistory(memory, "one"))[-1] == ("ai", "Steve.")


def test_chain_with_an_event_loop_streams_and_keeps_the_whole_answer(memory):
    chain, seen = conversation(memory, ["Hi dear Steve.", "Steve."])

    async def work():
        pieces = [piece async for piece in chain.astream({"question": "I am Steve."}, thread("one"))]
        await chain.ainvoke({"question": "My name?"}, thread("one"))
        return pieces

    pieces = asyncio.run(work())

    assert len(pieces) > 1
    assert seen[1] == ["I am Steve.", "Hi dear Steve.", "My name?"]


def test_chain_of_messages_alone(memory):
    chain = RunnableWithMessageHistory(
        GenericFakeChatModel(messages=iter(["Hi.", "Bye."])),
        lambda session_id: ShepherdChatMessageHistory(memory, session_id),
    )
    chain.invoke([HumanMessage("Hello")], thread("one"))
    chain.invoke([HumanMessage("Bye")], thread("one"))

    assert said(ShepherdChatMessageHistory(memory, "one")) == [
        ("human", "Hello"),
        ("ai", "Hi."),
        ("human", "Bye"),
        ("ai", "Bye."),
    ]


# ---- retriever


@pytest.fixture
def remembering(memory):
    memory.store_memory("Which editor does the user prefer?", "Helix, with vim keys")
    memory.store_memory("Where does Anna live?", "Lisbon", "anna")
    return memory


def test_retriever_gives_memories_with_their_relevance(remembering):
    [found] = ShepherdRetriever(memory=remembering).invoke("Which editor do I use?")

    assert found.page_content == "Which editor does the user prefer?\nHelix, with vim keys"
    assert found.metadata["relevance"] > 0.3
    assert found.metadata["answer"] == "Helix, with vim keys"
    assert remembering.get_memory(int(found.id)).answer == "Helix, with vim keys"


def test_retriever_is_of_one_user_and_has_a_threshold(remembering):
    assert ShepherdRetriever(memory=remembering).invoke("Where does Anna live?") == []
    assert len(ShepherdRetriever(memory=remembering, user_id="anna").invoke("Where does Anna live?")) == 1
    assert ShepherdRetriever(memory=remembering, threshold=1.0).invoke("editor Emacs?") == []
    assert ShepherdRetriever(memory=remembering, k=0).invoke("Which editor?") == []


def test_retriever_in_a_chain_with_an_event_loop(remembering):
    def joined(documents):
        return "\n".join(document.metadata["answer"] for document in documents)

    prompt = ChatPromptTemplate.from_template("{context}: {question}")
    chain = (
        {"context": ShepherdRetriever(memory=remembering) | joined, "question": RunnablePassthrough()}
        | prompt
        | (lambda prompt: prompt.to_string())
        | StrOutputParser()
    )

    assert asyncio.run(chain.ainvoke("Which editor?")) == "Human: Helix, with vim keys: Which editor?"

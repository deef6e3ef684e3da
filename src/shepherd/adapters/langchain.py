"""`ShepherdChatMessageHistory` and `ShepherdRetriever` for LangChain. Needs the extra `langchain`."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from typing import Any

from shepherd.errors import StoreError, UsageError
from shepherd.installation import install_extra
from shepherd.memory import Memory, Turn
from shepherd.prompt.archive_policy import archived_answer, is_worth_a_memory
from shepherd.types import Message, Role, SearchResult, ToolCall

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.documents import Document
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        ChatMessage,
        HumanMessage,
        InvalidToolCall,
        SystemMessage,
        ToolMessage,
    )
    from langchain_core.messages import ToolCall as LangChainCall
    from langchain_core.messages.tool import invalid_tool_call
    from langchain_core.retrievers import BaseRetriever
    from pydantic import ConfigDict
except ImportError as error:
    raise UsageError(
        "this module needs langchain-core, which is not installed",
        hint=install_extra("langchain"),
    ) from error

__all__ = ["ShepherdChatMessageHistory", "ShepherdRetriever"]

_log = logging.getLogger(__name__)

_ROLES: dict[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "system": "system",
}


_METADATA = ("question", "answer", "relevance", "score", "timestamp", "age_days", "source", "pinned")
# Types of blocks with a picture, a sound or a file, of any provider.
_MEDIA = re.compile(r"(?:input_|output_)?(?:image|audio|video|file|document|media)(?!\w*(?:call|result)$)")


class ShepherdChatMessageHistory(BaseChatMessageHistory):
    """Messages of one conversation of LangChain, in a session of the Memory.

    >>> chain = RunnableWithMessageHistory(
    ...     model, lambda session_id: ShepherdChatMessageHistory(memory, session_id)
    ... )

    `session_id` is LangChain's name of the conversation, or the id of a conversation with Shepherd; names
    belong to their user. The session is created with the first message. It keeps texts, tool calls with their
    results, and thoughts; a batch with a picture or a sound is refused with UsageError. Other parts of an
    answer, such as redacted thoughts and the provider's own searches, are dropped.

    With `remember`, each question with its answer becomes a memory, as in Shepherd's own turns; turn it off
    if the answers come from Shepherd's server. Thread-safe.
    """

    def __init__(
        self,
        memory: Memory,
        session_id: str,
        *,
        user_id: str | None = None,
        remember: bool = True,
    ) -> None:
        if not session_id.strip():
            raise UsageError("session_id: empty", hint="give the conversation a name")
        self.session_id = session_id
        self._memory = memory
        self._user_id = user_id
        self._remembers = remember

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # a property there too, but for its type
        """Messages of the conversation, oldest first."""
        return [_to_langchain(message) for message in self._stored()]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages to the conversation; all of them together, or none."""
        new = [_from_langchain(message) for message in messages]
        if not new:
            return
        before = self._stored() if self._remembers and new[0].role != "user" else []
        session = self._memory.append_messages(self.session_id, new, self._user_id)
        if not self._remembers:
            return
        try:
            self._archive(session, before, new)
        except StoreError as error:
            # The messages are stored: an error would make the caller add them again.
            _log.warning("the messages are stored, but no memory of them: %s", error)

    def clear(self) -> None:
        """Remove all messages of the conversation; memories stay."""
        session = self._memory.find_session(self.session_id, self._user_id)
        if session is not None:
            self._memory.clear_session(session, self._user_id)

    def _stored(self) -> list[Message]:
        session = self._memory.find_session(self.session_id, self._user_id)
        return [] if session is None else self._memory.load_session(session, self._user_id)

    def _archive(self, session: str, before: Sequence[Message], new: Sequence[Message]) -> None:
        question = next((message for message in reversed(before) if message.role == "user"), None)
        for message in new:
            if message.role == "user":
                question = message
            elif message.role == "assistant" and not message.tool_calls and message.raw.strip():
                if question is not None and is_worth_a_memory(question, message.raw, before):
                    told = Turn(question.raw, archived_answer(message.raw), session=session)
                    self._memory.archive_turn(told, self._user_id)
                question = None


class ShepherdRetriever(BaseRetriever):
    """Retriever of memories as documents, best first, with `relevance` and other fields in their metadata.

    >>> ShepherdRetriever(memory=memory, k=2).invoke("Which editor do I use?")[0].page_content
    'Which editor?\\nHelix'

    `k` and `threshold` are the Memory's own by default.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: Memory
    user_id: str | None = None
    k: int | None = None
    threshold: float | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        threshold = self.memory.relevance_threshold if self.threshold is None else self.threshold
        found = self.memory.search(query, self.k, self.user_id, threshold=threshold)
        return [_document(result) for result in found]


def _document(result: SearchResult) -> Document:
    return Document(
        id=str(result.id),
        page_content="\n".join(filter(None, (result.question, result.answer))),
        metadata={name: getattr(result, name) for name in _METADATA},
    )


# ---- messages


def _from_langchain(message: BaseMessage) -> Message:
    text, thought = _content(message)
    if isinstance(message, HumanMessage):
        return Message("user", text)
    if isinstance(message, AIMessage):
        return Message("assistant", text, tool_calls=_calls(message), thought=thought)
    if isinstance(message, SystemMessage):
        return Message("system", text)
    if isinstance(message, ToolMessage):
        return Message("tool", text, tool_call_id=message.tool_call_id)
    role = _ROLES.get(message.role) if isinstance(message, ChatMessage) else None
    if role is None:
        raise UsageError(
            f"a {type(message).__name__} cannot be kept in a session",
            hint="use messages of the user, the assistant, the system or a tool",
        )
    return Message(role, text)


def _content(message: BaseMessage) -> tuple[str, str]:
    """Return the text of a message, and the thought before it."""
    if isinstance(message.content, str):
        extra = message.additional_kwargs
        return message.content or str(extra.get("refusal") or ""), str(extra.get("reasoning_content") or "")
    texts, thoughts = [], []
    for block in message.content:
        kind = "text" if isinstance(block, str) else block.get("type", "text")
        if isinstance(block, str):
            texts.append(block)
        elif kind == "text":
            texts.append(str(block.get("text", "")))
        elif kind in ("reasoning", "thinking"):
            thoughts.append(str(block.get("reasoning") or block.get("thinking") or ""))
        elif kind == "refusal":
            texts.append(str(block.get("refusal", "")))
        elif kind in ("tool_use", "tool_call", "function_call"):  # also in tool_calls
            continue
        # Blocks for the provider alone are dropped: redacted thoughts, searches of its server.
        elif not isinstance(message, AIMessage) or _MEDIA.match(str(kind)):
            raise UsageError(
                f"content of type {kind!a:.40} cannot be kept in a session",
                hint="only texts and tool calls can be kept",
            )
    return "".join(texts), "".join(thoughts)


def _calls(message: AIMessage) -> tuple[ToolCall, ...]:
    good = [ToolCall(call["id"] or "", call["name"], json.dumps(call["args"])) for call in message.tool_calls]
    bad = [
        ToolCall(call["id"] or "", call["name"] or "", call["args"] or "")
        for call in message.invalid_tool_calls
    ]
    return (*good, *bad)


def _to_langchain(message: Message) -> BaseMessage:
    if message.role == "user":
        return HumanMessage(message.raw)
    if message.role == "system":
        return SystemMessage(message.raw)
    if message.role == "tool":
        return ToolMessage(message.raw, tool_call_id=message.tool_call_id)
    good, bad = _parsed(message.tool_calls)
    extra: dict[str, Any] = {"reasoning_content": message.thought} if message.thought else {}
    return AIMessage(message.raw, tool_calls=good, invalid_tool_calls=bad, additional_kwargs=extra)


def _parsed(calls: Sequence[ToolCall]) -> tuple[list[LangChainCall], list[InvalidToolCall]]:
    good: list[LangChainCall] = []
    bad: list[InvalidToolCall] = []
    for call in calls:
        try:
            arguments = json.loads(call.arguments)
        except ValueError:
            arguments = None
        if isinstance(arguments, dict):
            good.append(LangChainCall(name=call.name, args=arguments, id=call.id, type="tool_call"))
        else:
            error = "the arguments are no JSON object"
            bad.append(invalid_tool_call(name=call.name, args=call.arguments, id=call.id, error=error))
    return good, bad

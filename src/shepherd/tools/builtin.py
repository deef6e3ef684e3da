"""Built-in tools over memory and knowledge, and the toolbox of a conversation."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from shepherd.config import Config
from shepherd.errors import UsageError
from shepherd.extraction import is_secret
from shepherd.knowledge import Knowledge, KnowledgeTools
from shepherd.memory import LearnedItem, Memory
from shepherd.memory.facts import fold_key
from shepherd.memory.periods import moment_of
from shepherd.tools.toolbox import Arguments, AssistantTool, Toolbox
from shepherd.types import Fact, Tool

__all__ = [
    "LEARNED_TOOLS",
    "MEMORY_TOOLS",
    "conversation_tools",
    "decide",
    "knowledge_tools",
    "learned_tools",
    "memory_tools",
]


_SOURCE = "tool"
_MOST_RESULTS = 20
_MOST_TEXT_CHARS = 1_000  # of a memory, and of a fact among others
_PAGE_CHARS = 3_500  # of one fact, or of several together
_AROUND_CHARS = 6  # of JSON around a key and its value
_LONGEST_CHARS = 20_000  # of a text to store


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _tool(name: str, description: str, properties: dict[str, Any], required: list[str]) -> Tool:
    return Tool(name, description, {"type": "object", "properties": properties, "required": required})


_KEY = _text("what the fact is about, such as name, employer or favourite_editor")
_LIMIT = {
    "type": "integer",
    "description": "how many memories at most",
    "minimum": 1,
    "maximum": _MOST_RESULTS,
}
_DATE = _text("a day or a month, such as 2026-03-01 or 2026-03")
_OFFSET = {"type": "integer", "description": "where to go on: next_offset of the last result", "minimum": 0}

MEMORY_TOOLS = (
    _tool(
        "search_memory",
        "Look up what this user said in earlier conversations; their facts, such as a name, are in get_fact.",
        {"query": _text("words to look for"), "limit": _LIMIT},
        ["query"],
    ),
    _tool(
        "store_memory",
        "Remember a question and its answer for later conversations, when the user wants that.",
        {
            "question": _text("what was asked or is about, in a few words"),
            "answer": _text("what to remember about it"),
        },
        ["question", "answer"],
    ),
    _tool(
        "clear_memory",
        "Forget the memories with exactly this question.",
        {"question": _text("the question, as search_memory shows it")},
        ["question"],
    ),
    _tool(
        "set_fact",
        "Note a lasting fact about this user, or replace it.",
        {"key": _KEY, "value": _text("its value, short")},
        ["key", "value"],
    ),
    _tool(
        "get_fact",
        "One fact about this user by its key, or all of them without one; with a date, as it was then.",
        {"key": _KEY, "date": _DATE, "offset": _OFFSET},
        [],
    ),
    _tool(
        "fact_history",
        "All values that a fact about this user has had: from when until when, and what the user said.",
        {"key": _KEY},
        ["key"],
    ),
    _tool("clear_fact", "Forget a fact about this user.", {"key": _KEY}, ["key"]),
)

# For other assistants: a model that is being talked with must not decide about its own proposals.
LEARNED_TOOLS = (
    _tool(
        "list_learned",
        "What was learned from what this user said, the newest first, and proposals that wait for the user.",
        {
            "waiting": {"type": "boolean", "description": "only proposals that wait"},
            "limit": {**_LIMIT, "description": "how many at most"},
        },
        [],
    ),
    _tool(
        "decide_learned",
        "Keep or undo what was learned, accept or reject a proposal, when the user has decided that.",
        {
            "id": {"type": "integer", "description": "its id, as list_learned shows it", "minimum": 1},
            "decision": {"type": "string", "enum": ["keep", "undo", "accept", "reject"]},
        },
        ["id", "decision"],
    ),
)


def memory_tools(
    memory: Memory, user_id: str, *, refusal: Callable[[], str], writes: bool, keeps_secrets: bool
) -> list[AssistantTool]:
    """Return MEMORY_TOOLS for this user.

    `refusal` is called before each call and says why the memory is off, "" if it is on. Without `writes`,
    tools that change something refuse. Text that looks like a secret is not stored, unless `keeps_secrets`.
    """
    box = _MemoryTools(memory, user_id, refusal, writes, keeps_secrets)
    run = (
        *(box.search, box.store, box.clear),
        *(box.set_fact, box.get_fact, box.fact_history, box.clear_fact),
    )
    return [AssistantTool(tool, action) for tool, action in zip(MEMORY_TOOLS, run, strict=True)]


def learned_tools(memory: Memory, user_id: str, *, writes: bool) -> list[AssistantTool]:
    """Return LEARNED_TOOLS for this user; without `writes` nothing can be decided."""
    box = _MemoryTools(memory, user_id, lambda: "", writes, keeps_secrets=False)
    run = (box.list_learned, box.decide_learned)
    return [AssistantTool(tool, action) for tool, action in zip(LEARNED_TOOLS, run, strict=True)]


# Decisions about what was learned, and the state after each.
_DECIDED = {"keep": "kept", "undo": "undone", "accept": "accepted", "reject": "rejected"}


def decide(
    memory: Memory, decision: str, item_id: int | None, user_id: str | None = None
) -> LearnedItem | None:
    """Keep, undo, accept or reject what was learned, and return it; None if that cannot be done.

    Without an id it is the newest for which it can be done; only `keep` needs one.
    """
    item: LearnedItem | None
    if decision == "keep":
        item = None if item_id is None else memory.keep(item_id, user_id=user_id)
    else:
        item = getattr(memory, decision)(item_id, user_id=user_id)
    return item if item is not None and item.state == _DECIDED[decision] else None


class _MemoryTools:
    """Actions of the tools; each takes checked arguments and returns the result for the model."""

    def __init__(
        self, memory: Memory, user_id: str, refusal: Callable[[], str], writes: bool, keeps_secrets: bool
    ) -> None:
        self._memory, self._user_id = memory, user_id
        self._refusal, self._writes, self._keeps_secrets = refusal, writes, keeps_secrets

    def search(self, arguments: Arguments) -> object:
        self._check()
        limit = _limit(arguments) if "limit" in arguments else None
        found = self._memory.search(arguments["query"], limit, self._user_id)
        return {
            "memories": [
                {
                    "question": _shortened(result.question),
                    "answer": _shortened(result.answer),
                    "age_days": round(result.age_days, 1),
                    "relevance": round(result.relevance, 2),
                }
                for result in found
            ]
        }

    def store(self, arguments: Arguments) -> object:
        self._check(changes=True)
        question, answer = arguments["question"].strip(), arguments["answer"].strip()
        self._check_text(question, answer)
        self._memory.store_memory(question, answer, self._user_id, source=_SOURCE)
        return {"stored": True}

    def clear(self, arguments: Arguments) -> object:
        self._check(changes=True)
        return {"forgotten": self._memory.clear_memory(arguments["question"], self._user_id)}

    def set_fact(self, arguments: Arguments) -> object:
        self._check(changes=True)
        key, value = arguments["key"].strip(), arguments["value"].strip()
        self._check_text(key, value)
        self._memory.set_fact(key, value, self._user_id, source=_SOURCE)
        return {"set": True}

    def get_fact(self, arguments: Arguments) -> object:
        self._check()
        offset = max(0, arguments.get("offset", 0))
        if "date" in arguments:
            facts = self._memory.facts_at(moment_of(arguments["date"], time.time()), self._user_id)
            if "key" in arguments:
                wanted = fold_key(arguments["key"])
                return _part_of(next((f.value for f in facts if fold_key(f.key) == wanted), None), offset)
            return _some_of(facts, offset)
        if "key" in arguments:
            return _part_of(self._memory.get_fact(arguments["key"], self._user_id), offset)
        return _some_of(self._memory.get_all_facts(self._user_id), offset)

    def fact_history(self, arguments: Arguments) -> object:
        self._check()
        periods = self._memory.fact_periods(arguments["key"], self._user_id, corrected=True)
        shown: list[dict[str, Any]] = []
        n_chars = 0
        for period in reversed(periods):
            entry = {
                "value": _shortened(period.value),
                "from": _date(period.since),
                "until": None if period.until is None else _date(period.until),
                "said": _shortened(period.statement),
            }
            n_chars += len(entry["value"] or "") + len(entry["said"] or "") + _AROUND_CHARS
            if shown and n_chars > _PAGE_CHARS:
                return {"values": shown, "older": len(periods) - len(shown)}
            shown.append(entry)
        return {"values": shown}

    def list_learned(self, arguments: Arguments) -> object:
        waiting = arguments.get("waiting", False)
        items = self._memory.learned(_limit(arguments), waiting_only=waiting, user_id=self._user_id)
        return {"learned": [_item(item) for item in items]}

    def decide_learned(self, arguments: Arguments) -> object:
        self._check(changes=True)
        item = decide(self._memory, arguments["decision"], arguments["id"], self._user_id)
        if item is None:
            hint = "list_learned shows the ids and their states"
            raise UsageError("no such id, or it was decided or changed since", hint=hint)
        return _item(item)

    def clear_fact(self, arguments: Arguments) -> object:
        self._check(changes=True)
        return {"forgotten": self._memory.clear_fact(arguments["key"], self._user_id, source=_SOURCE)}

    def _check(self, *, changes: bool = False) -> None:
        if reason := self._refusal():
            raise UsageError(reason)
        if changes and not self._writes:
            raise UsageError("this memory is read-only")

    def _check_text(self, name: str, value: str) -> None:
        if len(name) + len(value) > _LONGEST_CHARS:
            raise UsageError("that is too long to be remembered", hint="store what matters of it")
        if not self._keeps_secrets and is_secret(name, value):
            raise UsageError("that looks like a secret, and secrets are not stored")


def _limit(arguments: Arguments) -> int:
    """Return how many results are wanted: models send numbers beyond the schema's limits."""
    limit: int = arguments.get("limit", _MOST_RESULTS)
    return max(1, min(limit, _MOST_RESULTS))


def _part_of(value: str | None, offset: int) -> dict[str, Any]:
    """Return a fact's value from a character on, and where the next part of a long one begins."""
    if value is None:
        return {"value": None}
    end = offset + _PAGE_CHARS
    return {"value": value[offset:end], **({"next_offset": end} if end < len(value) else {})}


def _some_of(facts: Sequence[Fact], offset: int) -> dict[str, Any]:
    """Return as many facts as a model reads at once, and the number of the next one."""
    shown: dict[str, str] = {}
    n_chars = 0
    for number, fact in enumerate(facts[offset:], offset):
        key, value = _shortened(fact.key), _shortened(fact.value)
        n_chars += len(key) + len(value) + _AROUND_CHARS
        if shown and n_chars > _PAGE_CHARS:
            return {"facts": shown, "next_offset": number}
        shown[key] = value
    return {"facts": shown}


def _item(item: LearnedItem) -> dict[str, Any]:
    """Return a learned thing as another assistant reads it."""
    return {
        "id": item.id,
        "kind": item.kind,
        "key": _shortened(item.key),
        "value": _shortened(item.value),
        "before": None if item.before is None else _shortened(item.before),
        "said": _shortened(item.statement),
        "date": _date(item.at),
        "state": item.state,
    }


def _date(seconds: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(seconds))


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_TEXT_CHARS else text[:_MOST_TEXT_CHARS] + "…"


_READING = ("query_", "get_", "search_")


def knowledge_tools(
    knowledge: Knowledge, *, role: str = "orchestrator", refusal: Callable[[], str], writes: bool
) -> list[AssistantTool]:
    """Return the tools of a role for this user.

    `refusal` is called before each call and says why knowledge is off, "" if it is on. Without `writes`,
    tools that change something refuse. Other spellings of names and arguments are accepted.
    """
    tools = KnowledgeTools(knowledge, role)

    def run(name: str, arguments: Arguments) -> object:
        if reason := refusal():
            raise UsageError(reason)
        if not (writes or name.startswith(_READING)):
            raise UsageError("this knowledge is read-only")
        return tools.call(name, arguments)

    return [
        AssistantTool(tool, partial(run, tool.name), tools.other_names(tool.name), checks_itself=True)
        for tool in tools.tools
    ]


def conversation_tools(
    config: Config,
    memory: Memory | None,
    knowledge: Knowledge | None,
    user_id: str,
    *,
    refusal: Callable[[], str],
    writes: bool,
    fits: Callable[[Sequence[Tool]], bool],
    others: Sequence[AssistantTool] = (),
) -> Toolbox | None:
    """Return the toolbox, or None where the settings ask for no tools.

    Tools over the knowledge that nobody asked for by name are left out unless their schemas pass `fits`.
    `refusal` is called before each call and says why memory and knowledge are off, "" if they are on. Without
    `writes`, tools that change something refuse. `others` are always included.
    """
    tools: list[AssistantTool] = []
    if config.memory_tools and memory is not None:
        tools += memory_tools(
            memory, user_id, refusal=refusal, writes=writes, keeps_secrets=config.memory_extraction_secrets
        )
    if config.has_knowledge_tools and knowledge is not None:
        more = knowledge_tools(knowledge, role=config.role, refusal=refusal, writes=writes)
        if config.knowledge_tools is True or fits([entry.tool for entry in more]):
            tools += more
    tools += others
    return Toolbox(tools) if tools else None

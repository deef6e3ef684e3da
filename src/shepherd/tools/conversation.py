"""The tools of one conversation, by its settings: over the memory, over the knowledge, of other programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shepherd.config import Config
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.tools.knowledge import knowledge_tools
from shepherd.tools.memory import memory_tools
from shepherd.tools.toolbox import AssistantTool, Toolbox
from shepherd.types import Tool

__all__ = ["conversation_tools"]


def conversation_tools(
    config: Config,
    memory: Memory | None,
    knowledge: Knowledge | None,
    user_id: str,
    *,
    refusal: Callable[[], str],
    writes: bool,
    others: Sequence[AssistantTool] = (),
    fits: Callable[[Sequence[Tool]], bool] = lambda tools: True,
) -> Toolbox | None:
    """The toolbox, or None where the settings ask for no tools.

    Tools over the knowledge that nobody asked for by name are left out where their schemas do not `fits`.

    `refusal` is asked before each call: why memory and knowledge are off just now, "" when they are on.
    Without `writes` the tools that change something refuse. `others` are there in any case.
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

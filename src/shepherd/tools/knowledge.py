"""Tools over the knowledge of the user a model talks with; what they do is the knowledge room's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from shepherd.errors import UsageError
from shepherd.knowledge import Knowledge, KnowledgeTools
from shepherd.tools.toolbox import Arguments, AssistantTool

__all__ = ["knowledge_tools"]

_READING = ("query_", "get_", "search_")


def knowledge_tools(
    knowledge: Knowledge, *, role: str = "orchestrator", refusal: Callable[[], str], writes: bool
) -> list[AssistantTool]:
    """The tools of a role for this user alone.

    `refusal` is asked before each call: why knowledge is off just now, "" when it is on. Without `writes`
    those that change something refuse. Names and arguments may be spelled as the original does.
    """
    tools = KnowledgeTools(knowledge, role)

    def run(name: str, arguments: Arguments) -> object:
        if reason := refusal():
            raise UsageError(reason)
        if not (writes or name.startswith(_READING)):
            raise UsageError("this knowledge can only be read")
        return tools.call(name, arguments)

    return [
        AssistantTool(tool, partial(run, tool.name), tools.other_names(tool.name), checks_itself=True)
        for tool in tools.tools
    ]

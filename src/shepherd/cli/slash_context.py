"""/context and /focus: what the last message was shown with, and which nodes are open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shepherd.cli.render import counted
from shepherd.errors import UsageError

if TYPE_CHECKING:
    from shepherd.cli.slash import Chat
    from shepherd.knowledge import Knowledge
    from shepherd.prompt import Plan

__all__ = ["change_focus", "show_context"]

_LISTED = 10


def show_context(chat: Chat, argument: str) -> None:
    """/context: the budget of the last message by category; with `refresh`, a new snapshot."""
    if argument == "refresh":
        before = chat.assistant.system_prompt
        after = chat.assistant.refresh_context().system
        chat.screen.note(
            "nothing has changed" if after == before else "preferences and background are as now"
        )
        return
    if argument:
        raise UsageError("usage: /context [refresh]")
    plan = chat.assistant.last_plan
    snapshot = chat.assistant.snapshot
    if plan is None:
        chat.screen.note("nothing has been answered yet")
    else:
        _show_plan(chat, plan)
    if snapshot.hubs:
        chat.screen.print(f"background  {counted(len(snapshot.hubs), 'node')} of the knowledge")
    if snapshot.summary.n_turns:
        chat.screen.print(f"summary     of {counted(snapshot.summary.n_turns, 'exchange')}")
    chat.screen.note("/context refresh takes preferences and background anew; /why shows what was appended")


def change_focus(chat: Chat, argument: str) -> None:
    """/focus: the open nodes. Numbers open these and no others, `none` none; words look for some."""
    knowledge = chat.assistant.knowledge
    if knowledge is None:
        raise UsageError("this conversation has no knowledge", hint="--nomemory, or the provider, is without")
    if argument:
        numbers = argument.replace(",", " ").split()
        if argument == "none":
            knowledge.focus([])
        elif all(number.isdecimal() and len(number) < 19 for number in numbers):
            _focus(knowledge, [int(number) for number in numbers])
        else:
            _list_found(chat, knowledge, argument)
            return
    focused = knowledge.focused()
    for place, one in enumerate(focused):
        chat.screen.print(f"{one.node.id:5}  {one.node.title}{'' if place else '  (primary)'}")
    if not focused:
        chat.screen.note("no node is open; /focus WORDS looks for some, /focus NUMBER opens one")


def _focus(knowledge: Knowledge, ids: list[int]) -> None:
    known = {node.id for node in knowledge.get_nodes(ids)}
    for number in ids:
        if number not in known:
            raise UsageError(f"there is no node {number}", hint="/focus WORDS finds nodes")
    knowledge.focus(ids)


def _list_found(chat: Chat, knowledge: Knowledge, words: str) -> None:
    found = knowledge.find_nodes(words, _LISTED)
    for node in found:
        chat.screen.print(f"{node.id:5}  {node.title}")
    chat.screen.note("/focus NUMBER opens one" if found else "no node fits")


def _show_plan(chat: Chat, plan: Plan) -> None:
    rows = [
        (share.category, share.used, share.granted, share.wanted, len(plan.of(share.category)) or "")
        for share in plan.shares
        if share.wanted or share.used
    ]
    chat.screen.table(["part", "tokens", "granted", "wanted", "shown"], rows)
    left = [one for one in plan.left_out if one.reason == "no room"]
    rest = f"; {counted(len(left), 'part')} had no room" if left else ""
    chat.screen.print(
        f"{counted(plan.total_tokens, 'token')} of {plan.window_tokens:,}, "
        f"{plan.reserve_tokens:,} kept for the answer, shared by strategy {plan.strategy}{rest}"
    )

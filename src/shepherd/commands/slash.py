"""Slash commands of the prompt: /memory, /facts, /why, /context, /config and others."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from shepherd.commands.conversations import (
    continue_conversation,
    list_conversations,
    rename_conversation,
    save_conversation,
    still_said,
)
from shepherd.commands.explain import (
    decided_in_words,
    explain_injection,
    explain_stats,
    explain_turn,
    kept_in_words,
    learned_in_words,
    list_learned,
    list_memories,
    nothing_to,
)
from shepherd.commands.facts import FACTS_USAGE, clear_fact_in_chat, run_facts
from shepherd.commands.screen import Screen, counted, fitted, near_miss, shortened, terminal_size
from shepherd.config import SETTINGS
from shepherd.errors import UsageError
from shepherd.sequences import errors_in_sequences, sequence_of, stored_id
from shepherd.types import MemoryRecord

if TYPE_CHECKING:
    from shepherd.assistant import Assistant
    from shepherd.chat_session import Session
    from shepherd.knowledge import Knowledge
    from shepherd.memory import Memory
    from shepherd.prompt import Plan

__all__ = [
    "COMMANDS",
    "LIVE_SETTINGS",
    "Chat",
    "Command",
    "Reviser",
    "change_focus",
    "change_model",
    "change_setting",
    "show_context",
]


_LISTED = 10
_LISTED_BY_SHELL = 50  # by `shepherd memory learned` without --limit
_EVERY = (1 << 63) - 1
_NUMBERS = "/memory and /why show the numbers"


class Reviser(Protocol):
    """Frontend that lets the user edit texts, and has a history of lines: a prompt, a screen."""

    def revise(self, texts: dict[str, str]) -> dict[str, str] | None:
        """Return the edited texts under the same labels; None when the user cancels."""

    def forget_lines(self, lines: Collection[str]) -> None:
        """Delete these lines from the history that the up-arrow shows, and from its file."""


class Chat:
    """Context of the commands: assistant, screen, and what was listed last.

    `listed` are numbers of memories, `conversations` are ids of conversations. With `is_temporary`, the
    memory is deleted at the end, so no command is suggested that would need it later.
    """

    def __init__(
        self,
        assistant: Assistant,
        screen: Screen,
        editor: Reviser | None = None,
        *,
        session: Session | None = None,
        is_temporary: bool = False,
    ) -> None:
        self.assistant = assistant
        self.is_temporary = is_temporary
        self.session = session
        self.screen = screen
        self.editor = editor
        self.done = False
        self.listed: list[int] = []
        self.conversations: list[str] = []

    @property
    def memory(self) -> Memory:
        """The memory; raises UsageError when this conversation has none."""
        if self.assistant.memory is None:
            raise UsageError(
                "this conversation has no memory",
                hint="--nomemory or the provider turned it off; shepherd memory works on it",
            )
        return self.assistant.memory

    @property
    def user(self) -> str:
        """Id of the user."""
        return self.assistant.user_id

    def message_of(self, line: str) -> str | None:
        """Return the message of a line, or run its command and return None.

        `/` begins a command, `//` a message that begins with one slash. A line with a blank before the slash
        is a message. An unknown command is an error, not a message.
        """
        if not line.startswith("/"):
            return line
        if line.startswith("//"):
            return line[1:]
        name, _, argument = line[1:].partition(" ")
        if name not in COMMANDS:
            known = near_miss(f"/{name}", (f"/{known}" for known in COMMANDS)) or "/help lists them."
            raise UsageError(
                f"there is no command /{ascii(name)[1:-1][:40]}",
                hint=f"{known} To send a message that begins with a slash, type two.",
            )
        COMMANDS[name].run(self, argument.strip())
        return None

    def forget_lines(self, texts: Iterable[str]) -> None:
        """Delete the lines in which these texts were typed from the history of the prompt."""
        if self.editor is not None:
            typed = list(texts)
            escaped = [f"/{text}" for text in typed if text.startswith("/")]
            self.editor.forget_lines({*typed, *escaped} - {""})

    def record(self, text: str, usage: str) -> MemoryRecord:
        """Return the memory of a number; raises UsageError when this user has none of it."""
        try:
            number = int(text)
        except ValueError:
            raise UsageError(f"usage: {usage}", hint=_NUMBERS) from None
        memory_id = stored_id(self.memory.transactions, self.user, number)
        record = self.memory.get_memory(memory_id, self.user)
        if record is None:
            raise UsageError(f"no memory has the number {number}", hint=_NUMBERS)
        return record


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command: its usage, one line of help, and its function."""

    usage: str
    help: str
    run: Callable[[Chat, str], None]


def _memory(chat: Chat, query: str) -> None:
    if query:
        found = chat.memory.search(query, _LISTED, chat.user)
        chat.listed = list_memories(chat.screen, found)
        if not found:
            chat.screen.note("no memory matches")
        return
    newest = chat.memory.list_memories(chat.user, limit=_LISTED)
    chat.listed = list_memories(chat.screen, newest)
    count = chat.memory.count_memories(chat.user)
    if not newest:
        chat.screen.note("nothing is remembered yet")
    elif count > len(newest):
        chat.screen.note(
            f"the newest {len(newest)} of {counted(count, 'memory', 'memories')}; /memory WORDS searches"
        )


def _why(chat: Chat, argument: str) -> None:
    assistant = chat.assistant
    memory, user = assistant.memory, chat.user
    chat.listed = explain_injection(
        chat.screen,
        assistant.last,
        next((one.raw for one in reversed(assistant.history) if one.role == "user"), ""),
        private=assistant.private,
        periods=(lambda: memory.fact_periods(user_id=user)) if memory is not None else tuple,
    )
    session = assistant.session_id
    if assistant.memory is None or assistant.private or not session:
        return
    from shepherd.trace import Traces, turn_path

    traces = Traces(assistant.memory.transactions, assistant.user_id)
    turn = traces.last_turn(session)
    if turn is not None:
        root = turn_path(session, turn)
        entries = {path[len(root) + 1 :]: value for path, value in traces.turn(session, turn)}
        explain_turn(
            chat.screen,
            session,
            turn,
            entries,
            with_passages=assistant.last is None,
            is_temporary=chat.is_temporary,
        )


def _stats(chat: Chat, argument: str) -> None:
    explain_stats(chat.screen, chat.assistant.last)
    if (memory := chat.assistant.memory) is not None:
        state = "encrypted" if memory.sealer is not None else "not encrypted"
        chat.screen.print(f"memory  {state}")
    if (kept := chat.assistant.kept) is not None:
        chat.screen.print(f"on disk {kept_in_words(kept)}")
    chat.screen.print(f"learns  {chat.assistant.learning.in_words()}")
    if chat.assistant.memory is not None and (learned := learned_in_words(chat.memory, chat.user)):
        chat.screen.print(f"learned {chat.screen.runnable(learned)}")


def _forget(chat: Chat, argument: str) -> None:
    if not argument:
        usage = COMMANDS["forget"].usage
        raise UsageError(f"usage: {usage}", hint="/memory and /facts show the numbers and keys")
    if argument.isdecimal():
        record = chat.record(argument, COMMANDS["forget"].usage)
        if not chat.memory.delete_memory(record.id, chat.user):
            raise UsageError(f"no memory has the number {sequence_of(record.id)}", hint=_NUMBERS)
        chat.forget_lines([record.question])
        chat.screen.note(f"forgotten: {shortened(record.question or record.answer)}")
        _note_still_said(chat, [record.question or record.answer])
    elif clear_fact_in_chat(chat, argument):
        pass
    elif removed := chat.memory.clear_memory(argument, chat.user):
        chat.forget_lines([argument])
        chat.screen.note(f"{counted(removed, 'memory', 'memories')} forgotten")
        _note_still_said(chat, [argument])
    else:
        raise UsageError(
            "there is no fact of that name and no memory of that question", hint="/memory lists them"
        )


def _note_still_said(chat: Chat, texts: Iterable[str]) -> bool:
    """Say which conversations still have what was forgotten; return whether there are any."""
    note = still_said(chat.memory, texts, chat.user, current=chat.assistant.session_id)
    if note:
        chat.screen.note(note)
    return bool(note)


def _pin(chat: Chat, argument: str) -> None:
    record = chat.record(argument, COMMANDS["pin"].usage)
    chat.memory.pin_memory(record.id, not record.pinned, chat.user)
    chat.screen.note("unpinned" if record.pinned else "pinned: it is never deleted to make space")


def _edit(chat: Chat, argument: str) -> None:
    record = chat.record(argument, COMMANDS["edit"].usage)
    if chat.editor is None:
        raise UsageError("editing needs a terminal", hint=f"shepherd memory edit {sequence_of(record.id)}")
    revised = chat.editor.revise({"question": record.question, "answer": record.answer})
    if revised is None:
        chat.screen.note("unchanged")
        return
    with errors_in_sequences():
        chat.memory.edit_memory(record.id, **revised, user_id=chat.user)
    chat.screen.note("changed")


def _private(chat: Chat, argument: str) -> None:
    wanted = {"": not chat.assistant.private, "on": True, "off": False}.get(argument)
    if wanted is None:
        raise UsageError(f"usage: {COMMANDS['private'].usage}")
    chat.assistant.private = wanted
    if wanted:
        chat.screen.note("private: nothing is recalled or stored; /private ends it")
    elif chat.assistant.has_private_turns:
        chat.screen.note(
            "memory is used again, but the model still sees your private messages, and an answer that repeats"
            " them is stored; to avoid that, start a new conversation with /clear"
        )
    else:
        chat.screen.note("memory is used again")


def _tools(chat: Chat, argument: str) -> None:
    from shepherd.inference.models import SUGGESTED
    from shepherd.turn.small_model import is_small_model

    for tool in chat.assistant.tools:
        chat.screen.print(f"{tool.name}  {tool.description}")
    if is_small_model(chat.assistant.engine):
        chat.screen.note(
            "the bundled demo model calls no tools, even if it has some; a full model does:"
            f" shepherd -m {SUGGESTED} --memtools"
        )
    elif not chat.assistant.tools:
        chat.screen.note("the model has no tools; shepherd --memtools adds tools for the memory")


def _provider(chat: Chat, argument: str) -> None:
    if chat.session is None:
        raise UsageError("the provider cannot change here", hint="start a conversation with shepherd")
    if not argument:
        for name in chat.session.table.names():
            mark = "*" if name == chat.session.provider.name else " "
            chat.screen.print(f"{mark} {name}")
        chat.screen.note("/provider NAME switches to another; shepherd provider add adds one")
        return
    name, _, model = argument.partition(" ")
    provider = chat.session.switch(name, model.strip())
    chat.screen.note(f"{provider.name} answers from now on: {chat.assistant.engine.info.name}")
    if provider.kind == "shepherd":
        chat.screen.note("its server uses its own memory, and gets nothing from yours")
    elif not provider.uses_memory:
        chat.screen.note("while it answers, nothing is recalled or stored")


def _clear(chat: Chat, argument: str) -> None:
    chat.assistant.clear()
    chat.listed = []
    chat.screen.note("a new conversation; memories and facts stay")


def _undo(chat: Chat, argument: str) -> None:
    if argument:
        _decide(chat, "undo", argument)
        return
    text = chat.assistant.undo()
    if text is not None:
        chat.forget_lines([text])
    chat.screen.note(
        "there is nothing to undo" if text is None else "the last message and its answer are removed"
    )


def _learned(chat: Chat, argument: str) -> None:
    if argument:
        raise UsageError(f"usage: {COMMANDS['learned'].usage}")
    every = chat.memory.learned(_EVERY, user_id=chat.user)  # at most a few thousand are kept
    items, n = every[:_LISTED], len(every)
    list_learned(chat.screen, items, chat.memory.undoable(items, chat.user))
    if not items:
        chat.screen.note("nothing has been learned yet")
        return
    waits = any(item.kind == "proposed" and item.state == "new" for item in items)
    decisions = "/accept NUMBER, /reject NUMBER, " if waits else ""
    first = f"the newest {_LISTED} of {n:,}; " if n > _LISTED else ""
    limit = f" --limit {n}" if n > _LISTED_BY_SHELL else ""
    chat.screen.note(
        f"{first}{decisions}/keep NUMBER, /undo NUMBER; shepherd memory learned{limit} lists all of it"
    )


def _accept(chat: Chat, argument: str) -> None:
    _decide(chat, "accept", argument)


def _reject(chat: Chat, argument: str) -> None:
    _decide(chat, "reject", argument)


def _keep(chat: Chat, argument: str) -> None:
    if not argument:
        raise UsageError(f"usage: {COMMANDS['keep'].usage}", hint="/learned shows the numbers")
    _decide(chat, "keep", argument)


def _decide(chat: Chat, action: str, number: str) -> None:
    """Keep, undo, accept or reject what was learned under this number, or the newest that waits for it."""
    if number and not number.isdecimal():
        raise UsageError(f"usage: {COMMANDS[action].usage}", hint="/learned shows the numbers")
    from shepherd.tools import decide

    item = decide(chat.memory, action, int(number) if number else None, chat.user)
    if item is None:
        raise UsageError(nothing_to(action, number), hint="/learned lists what was learned")
    chat.screen.note(decided_in_words(item))


def _help(chat: Chat, argument: str) -> None:
    rows = [(f"{command.usage}", command.help) for command in COMMANDS.values()]
    width = max(len(usage) for usage, _ in rows)
    columns = terminal_size(chat.screen.out)[0]
    for usage, text in rows:
        chat.screen.print(fitted(f"  {usage:{width}}  {text}", columns))
    chat.screen.note("to send a message that begins with a slash, type two: //etc/fstab …")
    chat.screen.note("@notes.md in a message attaches that file, or an address; Tab completes the path")
    chat.screen.note("Alt-Enter, or \\ at the end of the line, starts a new line")


def _quit(chat: Chat, argument: str) -> None:
    chat.done = True


_LISTED_TURNS = 10


def show_context(chat: Chat, argument: str) -> None:
    """Run /context: print the token budget of the last message; with `refresh`, take a new snapshot."""
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
    chat.screen.note("/context refresh reloads preferences and background; /why shows what was appended")


def change_focus(chat: Chat, argument: str) -> None:
    """Run /focus: list the nodes in focus, change them by numbers or `none`, or search by words."""
    knowledge = chat.assistant.knowledge
    if knowledge is None:
        raise UsageError(
            "this conversation has no knowledge", hint="--nomemory or the provider turned it off"
        )
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
        chat.screen.note("no node is in focus; /focus WORDS searches, /focus NUMBER adds one")


def _focus(knowledge: Knowledge, ids: list[int]) -> None:
    known = {node.id for node in knowledge.get_nodes(ids)}
    for number in ids:
        if number not in known:
            raise UsageError(f"there is no node {number}", hint="/focus WORDS finds nodes")
    knowledge.focus(ids)


def _list_found(chat: Chat, knowledge: Knowledge, words: str) -> None:
    found = knowledge.find_nodes(words, _LISTED_TURNS)
    for node in found:
        chat.screen.print(f"{node.id:5}  {node.title}")
    chat.screen.note("/focus NUMBER puts one in focus" if found else "no node matches")


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


# Settings that each turn reads. All others were used when the model or the memory was opened.
LIVE_SETTINGS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repeat_penalty",
    "repeat_last_n",
    "frequency_penalty",
    "presence_penalty",
    "typical_p",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "samplers",
    "seed",
    "max_tokens",
    "rag_context_injection",
    "injection_retention",
    "archive_turns",
    "tool_rounds",
)


def change_model(chat: Chat, argument: str) -> None:
    """Run /model: show which model answers, or switch to another of the same provider."""
    if chat.session is not None and argument:
        chat.session.switch(chat.session.provider.name, argument)
        chat.screen.note(f"{chat.assistant.engine.info.name} answers from now on")
        return
    if argument:
        raise UsageError("the model cannot change here", hint="start a conversation with shepherd -m NAME")
    model = chat.assistant.engine
    chat.screen.print(f"{model.info.name}, window of {counted(model.window_tokens, 'token')}")
    if chat.session is None or not chat.session.provider.is_local:
        return
    from shepherd.inference.models import ModelRegistry

    for stored in ModelRegistry().models():
        chat.screen.print(f"  {stored.name}")
    chat.screen.note("/model NAME switches to another; shepherd model pull downloads one")


def change_setting(chat: Chat, argument: str) -> None:
    """Run /config: show or change settings for this conversation, without the file."""
    key, _, value = argument.partition(" ")
    if not key:
        for name in LIVE_SETTINGS:
            chat.screen.print(f"{name:22} {_shown(chat, name)}")
        chat.screen.note(
            "/config KEY VALUE changes one for this conversation, shepherd config set permanently"
        )
        return
    if key not in SETTINGS:
        raise UsageError(
            f"there is no setting {key!a}", hint=near_miss(key, SETTINGS) or "/config lists them"
        )
    if not value.strip():
        chat.screen.print(f"{key} = {_shown(chat, key)}")
        return
    if key not in LIVE_SETTINGS:
        raise UsageError(
            f"{key} does not change while a conversation runs",
            hint=f"shepherd config set {key} VALUE, then start again",
        )
    try:
        parsed = SETTINGS[key].parse(value.strip())
    except ValueError:
        given = shortened(value.strip())
        raise UsageError(f'{key} is "{given}"; expected {SETTINGS[key].expected}') from None
    chat.assistant.config = replace(chat.assistant.config, **{key: parsed})
    if chat.session is not None:
        chat.session.config = replace(chat.session.config, **{key: parsed})
        chat.session.is_limited |= key == "max_tokens"
    chat.screen.note(f"{key} = {_shown(chat, key)} in this conversation")


def _shown(chat: Chat, key: str) -> str:
    value = SETTINGS[key].shown(getattr(chat.assistant.config, key))
    return value if isinstance(value, str) else json.dumps(value)


COMMANDS: dict[str, Command] = {
    "memory": Command("/memory [WORDS]", "list the newest memories, or search them", _memory),
    "facts": Command(FACTS_USAGE, "list facts, show or set one; history, at DATE, clear KEY", run_facts),
    "why": Command("/why", "show what was appended to the last message, and why", _why),
    "context": Command("/context [refresh]", "show tokens by part, or reload the background", show_context),
    "focus": Command("/focus [NUMBERS|none]", "show or set the nodes in focus", change_focus),
    "stats": Command("/stats", "show tokens and times of the last turn", _stats),
    "forget": Command("/forget NUMBER|KEY", "forget a memory or a fact", _forget),
    "edit": Command("/edit NUMBER", "edit a memory", _edit),
    "pin": Command("/pin NUMBER", "pin or unpin a memory", _pin),
    "learned": Command("/learned", "show what was learned from your words, and proposals", _learned),
    "accept": Command("/accept [NUMBER]", "accept a proposal: the number, or the newest one", _accept),
    "reject": Command("/reject [NUMBER]", "reject a proposal: the number, or the newest one", _reject),
    "keep": Command("/keep NUMBER", "confirm what was learned", _keep),
    "private": Command("/private [on|off]", "recall nothing and store nothing until switched back", _private),
    "provider": Command("/provider [NAME [MODEL]]", "list providers, or switch to another one", _provider),
    "model": Command("/model [NAME]", "show which model answers, or switch", change_model),
    "config": Command(
        "/config [KEY [VALUE]]", "show or change settings of this conversation", change_setting
    ),
    "tools": Command("/tools", "list the tools that the model can call", _tools),
    "clear": Command("/clear", "start a new conversation", _clear),
    "conversations": Command(
        "/conversations [WORDS]", "list the latest conversations, or search them", list_conversations
    ),
    "continue": Command(
        "/continue NUMBER|TITLE",
        "continue another conversation, by number, id or title",
        continue_conversation,
    ),
    "rename": Command("/rename [TITLE]", "give this conversation a title", rename_conversation),
    "save": Command("/save [FILE]", "write the conversation to a new file, .md or .json", save_conversation),
    "undo": Command("/undo [NUMBER]", "undo the last message, or what was learned", _undo),
    "help": Command("/help", "show this list", _help),
    "quit": Command("/quit", "quit, as Ctrl-D does", _quit),
}
COMMANDS["exit"] = replace(COMMANDS["quit"], usage="/exit", help="the same")

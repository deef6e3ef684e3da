"""Descriptions of memories, facts, turns and their costs, and the arguments of a tool."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shepherd.commands.screen import Screen, age_in_words, counted, duration, shortened, size
from shepherd.errors import StoreError, UsageError
from shepherd.sequences import sequence_of
from shepherd.types import Fact, FocusedNode, Injection, MemoryRecord, SearchResult
from shepherd.wording import as_written

if TYPE_CHECKING:
    from shepherd.assistant import Assistant
    from shepherd.inference import KeptCounts
    from shepherd.memory import FactPeriod, LearnedItem, Memory
    from shepherd.prompt.plan import Part
    from shepherd.turn import Finished
    from shepherd.types import TurnStats

__all__ = [
    "about_learning",
    "arguments_in_full",
    "decided_in_words",
    "ending",
    "explain_injection",
    "explain_stats",
    "explain_turn",
    "fact_provenance",
    "item_in_words",
    "kept_in_words",
    "learned_in_words",
    "list_facts",
    "list_learned",
    "list_memories",
    "memory_in_words",
    "news_in_words",
    "nothing_to",
    "provenance",
    "recalled_in_words",
    "state_in_words",
    "turn_in_words",
]


_SHOWN_CHARS = 200  # of a text on one line


def memory_in_words(assistant: Assistant) -> str:
    """Return how much is remembered about whom, or why there is no memory."""
    memory, user = assistant.memory, assistant.user_id
    if memory is None:
        return "no memory"
    try:
        facts, memories = len(memory.get_all_facts(user)), memory.count_memories(user)
    except (StoreError, UsageError) as error:
        return f"memory unavailable: {error}"
    return f"{counted(memories, 'memory', 'memories')} and {counted(facts, 'fact')} of {user}"


def list_memories(screen: Screen, memories: Sequence[MemoryRecord | SearchResult]) -> list[int]:
    """Print each memory with its number, question, answer and source; return the numbers."""
    numbers = [sequence_of(memory.id) for memory in memories]
    width = max([3, *(len(str(number)) for number in numbers)])
    for number, memory in zip(numbers, memories, strict=True):
        screen.print(f"{number:{width}}  {shortened(memory.question, _SHOWN_CHARS)}")
        if memory.answer:
            screen.print(f"{'':{width}}  {shortened(memory.answer, _SHOWN_CHARS)}")
        screen.print(f"{'':{width}}  {provenance(memory, with_number=False)}", "dim")
    return numbers


def list_facts(screen: Screen, facts: Sequence[Fact], periods: Sequence[FactPeriod] = ()) -> None:
    """Print one `key = value` per line, each with where it came from if that is among the `periods`."""
    known = {(period.key, period.value): period for period in periods}
    for fact in facts:
        screen.print(f"  {fact.key} = {shortened(fact.value, _SHOWN_CHARS)}")
        if (period := known.get((fact.key, fact.value))) is not None:
            screen.print(f"     {fact_provenance(period)}", "dim")


def fact_provenance(period: FactPeriod) -> str:
    """Return one line: the sentence or the way that a fact came from, and its age."""
    source = period.source
    if period.statement:
        said = f'you said "{shortened(period.statement, _SENTENCE_CHARS)}"'
    elif source.startswith("import"):
        said = f"imported from {source.partition(':')[2]}" if ":" in source else "imported"
    else:
        said = _FACT_SOURCES.get(source, f"from {source}" if source else "from an older version")
    return f"{said} \N{MIDDLE DOT} {age_in_words((time.time() - period.recorded_at) / 86_400)}"


def explain_injection(
    screen: Screen,
    last: Finished | None,
    message: str = "",
    *,
    private: bool = False,
    periods: Callable[[], Sequence[FactPeriod]] = tuple,
) -> list[int]:
    """Print what was appended to the last message and why; returns the numbers of the memories in the list.

    `message` is that message, and `periods` returns where the values of facts came from.
    """
    if last is None:
        screen.note("nothing has been answered yet")
        return []
    injection = last.injection
    if not injection:
        nothing = "memory is private" if private else _why_nothing(as_written(injection.keywords, message))
        screen.note(f"nothing was appended{f': {nothing}' if nothing else ''}")
        return []
    took = duration(injection.recall_us / 1000)
    words = as_written(injection.keywords, message)
    searched = f", searched for: {', '.join(words)}" if words else ""
    screen.print(f"Appended to your last message (recall took {took}{searched})")
    if injection.facts:
        screen.print("facts")
        list_facts(screen, injection.facts, periods())
    numbers: list[int] = []
    if injection.results:
        screen.print("memories")
        numbers = list_memories(screen, injection.results)
    if passages := last.plan.of("knowledge"):
        screen.print("passages")
        _list_passages(screen, passages)
    if focused := [part for part in last.plan.of("focus") if part.id == "focus"]:
        screen.print("nodes in focus")
        _list_focused(screen, injection.nodes, focused[0])
    actions = ["/forget KEY, /facts KEY VALUE"] if injection.facts else []
    actions += [f"/edit {number}, /forget {number}, /pin {number}" for number in numbers[:1]]
    actions += ["shepherd knowledge edit ID, forget ID"] if passages else []
    actions += ["/focus none"] if focused else []
    if actions:
        screen.note(f"to change it: {' · '.join(actions)}")
    return numbers


def _list_focused(screen: Screen, nodes: Sequence[FocusedNode], part: Part) -> None:
    """Print the titles of the nodes that were shown, and the size of all together."""
    titles = [shortened(node.title, _SHOWN_CHARS) for node in nodes]
    screen.print(f"  {', '.join(titles)}, {counted(part.tokens, 'token')}")


def _list_passages(screen: Screen, passages: Sequence[Part]) -> None:
    """Print of each passage the title of its document, its relevance and size, and how it begins."""
    for part in passages:
        relevance = f", relevance {part.score:.2f}" if part.score else ""
        title = shortened(str(part.about.get("title", "")), _SHOWN_CHARS)
        screen.print(f"  {title}{relevance}, {counted(part.tokens, 'token')}")
        # Below the line with its source, between fences.
        inner = [line for line in part.text.strip().split("\n")[1:] if line.strip("`~ ")]
        screen.print(f"     {shortened(' '.join(inner), _SHOWN_CHARS)}", "dim")


def explain_turn(
    screen: Screen,
    session: str,
    turn: int,
    entries: Mapping[str, object],
    *,
    with_passages: bool = True,
    is_temporary: bool = False,
) -> None:
    """Print the trace of a turn: tokens, entities, passages unless they are shown already, warnings.

    With `is_temporary`, the memory is deleted at the end, so no command is suggested that would need it
    later.
    """
    if not entries:
        return
    used, total = _number(entries, "assembled/total_tokens"), _number(entries, "budget/total")
    screen.print(f"the whole prompt: {used:,} of {total:,} tokens")
    for number in range(_number(entries, "entities/count")):
        place = f"entities/{number:04d}"
        kind = entries.get(f"{place}/type", "")
        screen.print(f"  entity   {_said(entries, f'{place}/name')} ({kind}){_relevance(entries, place)}")
    for number in range(_number(entries, "rag/chunks_selected") if with_passages else 0):
        place = f"rag/chunks/{number:04d}"
        screen.print(f"  passage  {_said(entries, f'{place}/doc_title')}{_relevance(entries, place)}")
    if (level := entries.get("history/compression_level")) is not None:
        screen.print(f"  history  compressed, {level}")
    number = 0
    while (warning := entries.get(f"warnings/{number:04d}")) is not None:
        screen.print(f"  warning  {shortened(str(warning), _SHOWN_CHARS)}")
        number += 1
    if not is_temporary:
        screen.note(f"all of it: shepherd trace tree {session}/{turn}")


def explain_stats(screen: Screen, last: Finished | None) -> None:
    """Print tokens and times of the last turn."""
    if last is None:
        screen.note("nothing has been answered yet")
        return
    stats = last.stats
    used = stats.prompt_tokens + stats.generated_tokens
    share = 100 * used / stats.window_tokens if stats.window_tokens else 0
    if stats.is_estimated:
        screen.note("the provider sent no token counts: these are estimates")
    screen.print(
        f"prompt  {counted(stats.prompt_tokens, 'token')}: "
        f"{stats.reused_tokens:,} reused, {stats.decoded_tokens:,} decoded"
    )
    screen.print(
        f"answer  {counted(stats.generated_tokens, 'token')} generated, "
        f"{stats.tokens_per_second:.1f} tokens/s, ended by {_ENDINGS[stats.finish_reason]}"
    )
    if stats.drafted_tokens:
        screen.print(
            f"drafts  {counted(stats.drafted_tokens, 'token')} drafted, {stats.accepted_tokens:,} accepted: "
            f"{stats.tokens_per_decode:.1f} tokens per batch"
        )
    if stats.model_drafted_tokens:
        screen.print(
            f"        {stats.model_drafted_tokens:,} of them by the draft model,"
            f" {stats.model_accepted_tokens:,} accepted"
        )
    left = f"; {counted(stats.evicted_turns, 'old turn')} left it" if stats.evicted_turns else ""
    screen.print(f"window  {counted(stats.window_tokens, 'token')}, {share:.0f} % used{left}")
    screen.print(
        f"times   recall {duration(stats.recall_ms)}, prefill {duration(stats.prefill_ms)}, "
        f"first token {duration(stats.ttft_ms)}, total {duration(stats.total_ms)}"
    )


def kept_in_words(kept: KeptCounts) -> str:
    """Return what is kept on disk, such as "3 conversations, 1.5 MiB of 1.9 GiB; 2 written, 1 read"."""
    done = f"{kept.n_written:,} written, {kept.n_read:,} read"
    if kept.n_failed:
        done += f", {kept.n_failed:,} failed"
    if kept.n_lost:
        done += f", {kept.n_lost:,} dropped before they were written"
    return f"{counted(kept.n, 'conversation')}, {size(kept.size_bytes)} of {size(kept.limit_bytes)}; {done}"


_FACT_SOURCES = {
    "user": "set by you",
    "extraction": "learned from what you said",
    "tool": "set by the model, with a tool",
    "migration": "from an older Shepherd's database",
}
_SOURCES = {
    "user": "entered by hand",
    "turn": "from a conversation",
    "extraction": "learned from what you said",
    "tool": "stored by the model",
    "model": "stored by the model",
    "mcp": "stored by another assistant",
    "migration": "from an older Shepherd's database",
    "import": "imported",
    "chatgpt": "imported from ChatGPT",
    "mem0": "imported from mem0",
    "llm": "imported from llm",
}
_ENDINGS = {"stop": "the model", "length": "--max-tokens or the window", "cancelled": "Ctrl-C"}
_ENDINGS |= {"tool_calls": "a call of a tool", "filtered": "the provider's filter"}


def provenance(memory: MemoryRecord | SearchResult, *, with_number: bool = True) -> str:
    """Return one line: number, age and source, and the scores of a search."""
    age = memory.age_days if isinstance(memory, SearchResult) else (time.time() - memory.timestamp) / 86_400
    parts = [f"id {sequence_of(memory.id)}"] if with_number else []
    parts.append(age_in_words(age))
    if memory.source:
        parts.append(_SOURCES.get(memory.source, f"from {memory.source}"))
    if isinstance(memory, SearchResult):
        parts.append(f"score {memory.score:.2f}")
        parts.append(f"relevance {memory.relevance:.2f}")
    if memory.pinned:
        parts.append("pinned")
    return " · ".join(parts)


def _number(entries: Mapping[str, object], path: str) -> int:
    value = entries.get(path, 0)
    return value if isinstance(value, int) else 0


def _said(entries: Mapping[str, object], path: str) -> str:
    return shortened(str(entries.get(path, "")), _SHOWN_CHARS)


def _relevance(entries: Mapping[str, object], place: str) -> str:
    relevance, tokens = entries.get(f"{place}/relevance"), entries.get(f"{place}/tokens")
    shown = f", relevance {relevance:.2f}" if isinstance(relevance, float) else ""
    return f"{shown}, {counted(tokens, 'token')}" if isinstance(tokens, int) else shown


def _why_nothing(words: Sequence[str]) -> str:
    return f"no fact is known, and no memory matches {' '.join(words)} well enough" if words else ""


def about_learning(assistant: Assistant) -> str:
    """Return a note for somebody of whom nothing is known yet: whether there is learning; "" for others."""
    memory, user, learning = assistant.memory, assistant.user_id, assistant.learning
    try:
        if memory is None or memory.get_all_facts(user) or memory.count_memories(user):
            return ""
    except (StoreError, UsageError):
        return ""
    if not learning.is_on:
        return f"Learning is {learning.in_words()}"
    return (
        f"Learning is {learning.in_words()}: Shepherd takes facts from what you say, and remembers what you"
        " tell it. To turn this off: shepherd config set memory_extraction false (facts), and archive_turns"
        " false (memories)"
    )


def learned_in_words(memory: Memory, user_id: str) -> str:
    """Return one line: what was learned, is waiting, has failed; "" when there never was a job."""
    stats = memory.extraction.stats(user_id)
    waiting = stats.open + stats.waiting + stats.running
    parts = []
    if stats.done:
        learned = [counted(stats.facts, "fact")]
        if stats.memories:
            learned.append(counted(stats.memories, "memory", "memories"))
        parts.append(f"{' and '.join(learned)} from your messages")
    if waiting:
        # Messages that are collected first, or that wait for the model.
        parts.append(f"{counted(waiting, 'group')} of messages still to read")
    if stats.dead:
        parts.append(f"{stats.dead:,} failed (shepherd memory jobs)")
    return ", ".join(parts)


# ---- what was learned

# Lines about what was learned that are shown at once; /learned has the others.
_MOST_NEWS = 5
# Texts within a line about one learned thing, and of a sentence in a list.
_PART_CHARS, _SENTENCE_CHARS = 60, 160


def item_in_words(item: LearnedItem) -> str:
    """Return what was learned: `you live in Paris (before: Köln)`."""
    from shepherd.turn.fact_sentences import learned_clause

    clause = learned_clause(_in_brief(item))
    if item.kind in ("remembered", "ended") or not item.value or not item.before:
        return clause
    label = "you set" if item.kind == "proposed" else "before"
    return f"{clause} ({label}: {_part(item.before)})"


def news_in_words(items: Sequence[LearnedItem], *, in_chat: bool = True) -> list[str]:
    """Return a line for each thing that is still new, with the command that undoes or accepts it.

    Of many only the latest are shown. `in_chat`: slash commands work.
    """
    items = [item for item in items if item.state == "new"]  # others were decided or replaced since
    shown = items[-_MOST_NEWS:]
    lines = [_news(item, in_chat=in_chat) for item in shown]
    if n_hidden := len(items) - len(shown):
        how = "/learned" if in_chat else "shepherd memory learned"
        lines.insert(0, f"{counted(n_hidden, 'more thing')} learned \N{MIDDLE DOT} {how}")
    return lines


def _news(item: LearnedItem, *, in_chat: bool) -> str:
    command = "/{} {}" if in_chat else "shepherd memory learned --{} {}"
    undo, accept, reject = (command.format(name, item.id) for name in ("undo", "accept", "reject"))
    dot = " \N{MIDDLE DOT} "
    if item.kind != "proposed":
        verb = "remembered" if item.kind == "remembered" else "learned"
        return f"{verb}: {item_in_words(item)}{dot}{undo}"
    from shepherd.turn.fact_sentences import learned_clause

    said = f"you said that {learned_clause(_in_brief(item))}"
    own = f"you set {_part(item.before or '')} yourself" if item.value else "you set it yourself"
    return f"{said}, but {own}{dot}{accept}{dot if in_chat else ' or '}{reject}"


def nothing_to(action: str, number: object = None) -> str:
    """Return the error for a decision that cannot be made."""
    if not number:
        return f"there is nothing to {action}"
    return f"cannot {action} {number}: there is no such number, or it was decided or changed since"


def decided_in_words(item: LearnedItem) -> str:
    """Return what a decision about a learned thing has changed."""
    from shepherd.turn.fact_sentences import former_clause, learned_clause

    brief = _in_brief(item)
    now, before = learned_clause(brief), former_clause(brief)
    if item.state == "kept":
        return f"kept: {item_in_words(item)}"
    if item.state == "accepted":
        return f"accepted: {now}"
    if item.state == "rejected":
        return f"rejected: {before}, as before" if before else f"rejected: {now}"
    if item.kind == "remembered":
        return f"undone: the memory {_part(item.key)!r} is deleted"
    return f"undone: {before}, as before" if before else f'undone: "{now}" is forgotten'


def list_learned(screen: Screen, items: Sequence[LearnedItem], undoable: Collection[int]) -> None:
    """Print each learned thing below the sentence that it came from, with its number and its state.

    `undoable` are the numbers of those that have not changed since.
    """
    width = max((len(str(item.id)) for item in items), default=0)
    for item in items:
        indent = " " * (width + 2)
        said = f'"{shortened(item.statement, _SENTENCE_CHARS)}"' if item.statement else "by the model"
        screen.print(f"{item.id:{width}}  {said}")
        mark = "proposed: " if item.kind == "proposed" else ""
        screen.print(f"{indent}{mark}{item_in_words(item)}")
        screen.print(f"{indent}{state_in_words(item, is_undoable=item.id in undoable)}", "dim")


def state_in_words(item: LearnedItem, *, is_undoable: bool = True) -> str:
    """Return its age, the fact that it is about, and the decision about it, or that it was changed since."""
    parts = [age_in_words((time.time() - item.at) / 86_400)]
    if item.kind != "remembered":
        parts.append(f"fact {_part(item.key)}")
    if item.state != "new":
        parts.append(item.state)
    elif item.kind == "proposed":
        parts.append("waits to be accepted or rejected")
    elif not is_undoable:
        parts.append("changed since")
    return " \N{MIDDLE DOT} ".join(parts)


def _part(text: str) -> str:
    return shortened(text, _PART_CHARS)


def _in_brief(item: LearnedItem) -> LearnedItem:
    """Return it with shortened texts."""
    before = None if item.before is None else _part(item.before)
    return replace(item, key=_part(item.key), value=_part(item.value), before=before)


def recalled_in_words(injection: Injection) -> str:
    """Return how much of each kind was appended to a message: `recalled 3 facts, 1 memory`."""
    found = [
        (len(injection.facts), "fact", ""),
        (len(injection.results), "memory", "memories"),
        (sum(part.startswith("chunk:") for part in injection.parts), "passage", ""),
        (sum(part.startswith("entity:") for part in injection.parts), "entity", "entities"),
    ]
    shown = [counted(number, noun, plural) for number, noun, plural in found if number]
    if shown and "focus" in injection.parts:
        shown.append("the nodes in focus")
    return f"recalled {', '.join(shown) or 'the nodes in focus'}"


def turn_in_words(finished: Finished) -> str:
    """Return one line about a turn: what was recalled, how long it took, and an unusual end."""
    stats, injection = finished.stats, finished.injection
    parts = []
    if injection:
        parts.append(recalled_in_words(injection))
    parts.append(duration(stats.total_ms))
    if end := ending(stats):
        parts.append(end)
    return " \N{MIDDLE DOT} ".join(parts)


def ending(stats: TurnStats) -> str:
    """Return why an answer ended early; "" when it did not."""
    return _ENDINGS_IN_WORDS.get(stats.finish_reason, "")


_ENDINGS_IN_WORDS = {
    "length": "cut at the longest allowed answer (--max-tokens)",
    "cancelled": "stopped",
    "filtered": "ended by the provider's filter",
}

# Of longer arguments both ends are shown: nobody reads many screens before saying yes.
_SHOWN_ARGUMENT_CHARS = 2000


def arguments_in_full(arguments: Mapping[str, Any]) -> str:
    """Return the arguments of a call as JSON, one per line; "" for none.

    As JSON a value cannot pass for another argument or for the question; invisible characters are escaped, as
    `\\u200b`.
    """
    if not arguments:
        return ""
    text = json.dumps(arguments, ensure_ascii=False, indent=2, default=str)
    shown = "".join(char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in text)
    hidden = len(shown) - 2 * _SHOWN_ARGUMENT_CHARS
    if hidden <= 0:
        return shown
    between = f"\N{HORIZONTAL ELLIPSIS} {hidden:,} of {len(shown):,} characters are not shown"
    return f"{shown[:_SHOWN_ARGUMENT_CHARS]}\n{between}\n{shown[-_SHOWN_ARGUMENT_CHARS:]}"

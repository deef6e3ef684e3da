"""Candidates for one message: facts and memories, chunks, focus, entities. If one of them fails, only its
own block is missing.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from shepherd.claims.keys import INSTRUCTIONS, is_about, words_of
from shepherd.claims.wordings import words
from shepherd.config import Config
from shepherd.errors import ShepherdError
from shepherd.knowledge import (
    ChunkResult,
    Focused,
    Hub,
    Knowledge,
    background_block,
    chunk_block,
    focus_block,
)
from shepherd.memory.injection_format import facts_block, fewer_facts
from shepherd.prompt.asked_facts import asked_facts, companions, named_in
from shepherd.prompt.concepts import content_words, searched_words, wider_search
from shepherd.prompt.near_facts import GENERAL, nearest_fact
from shepherd.prompt.plan import Part
from shepherd.prompt.questions import questions_in
from shepherd.prompt.system_prompt import Snapshot, changed_since
from shepherd.prompt.value_parts import key_of
from shepherd.types import Fact, Injection, RecalledPassage, SearchResult

if TYPE_CHECKING:
    from shepherd.prompt.entity_tracking import Dialogue

__all__ = ["QUERY_CHARS", "BestFirst", "Gathered", "Gatherer", "hubs_of", "memory_part", "shown_injection"]


_T = TypeVar("_T")
# Puts the passage first that answers a question best, given the user's facts.
BestFirst = Callable[[str, Sequence[Part], Sequence[Fact]], Sequence[Part]]
_log = logging.getLogger(__name__)

# Later words change neither what is searched for nor what is asked.
QUERY_CHARS = 20_000
# Factor of chunks to retrieve: boosts reorder them, and some are shown already.
_MORE_CHUNKS = 4
_PASSAGE_CHARS = 300  # kept of a passage, to show where an answer came from
_BETWEEN_RESULTS = " | "
# The tail for a very small model.
_SHORT_FACTS, _SHORT_PASSAGES = 4, 1
# Passages found by other words, among which that one is chosen.
_CHOSEN_FROM = 16
_STEM = 5  # letters
_SHORT_MEMORIES_CHARS = 240  # beyond the first memory
_ABOUT_ALL = re.compile(r"\b(?:about me|everything|facts|all (?:that )?you|stored|told you)\b", re.IGNORECASE)
_MINE_ELSEWHERE = re.compile(
    r"\b(?:mis?|mein\w*|mon|ma|mes|mi[ao]|miei|mie|meus?|minhas?|mijn|nuestr[oa]s?|notre|nos|unser\w*|onze?)\s+(\w+)",
    re.IGNORECASE,
)
_CONTEXT = "\n[context: "
_CHANGED = "Background context has changed: "


@dataclass(slots=True)
class Gathered:
    """Candidates found for a message. `notes` are failures, `entities` the number of entities."""

    parts: list[Part] = field(default_factory=list)
    injection: Injection = field(default_factory=Injection)
    notes: list[tuple[str, str]] = field(default_factory=list)
    timings_us: dict[str, float] = field(default_factory=dict)
    about: dict[str, object] = field(default_factory=dict)
    entities: int = 0

    def attempt(self, what: str, action: Callable[[], _T]) -> _T | None:
        """Run a helper that the answer does not depend on; a failure becomes a note."""
        began = time.perf_counter()
        try:
            return action()
        except ShepherdError as error:
            self.notes.append((f"{what} failed: {error}", error.hint))
        except Exception as error:
            _log.exception("%s", what)
            self.notes.append((f"{what} failed: {type(error).__name__}", "shepherd -v shows where"))
        finally:
            self.timings_us[what] = (time.perf_counter() - began) * 1e6
        return None


class Gatherer:
    """Finds candidates in one user's knowledge and in the `dialogue`. For one conversation."""

    def __init__(
        self,
        config: Config,
        knowledge: Knowledge | None,
        dialogue: Dialogue | None = None,
        best_first: BestFirst | None = None,
    ) -> None:
        self.config = config
        self._best_first = best_first
        self._knowledge = knowledge
        self._dialogue = dialogue
        self._shown_hubs: dict[int, Hub] = {}
        # The same nodes stay open for many messages.
        self._focus: tuple[Sequence[Focused], Part] | None = None

    def gather(
        self,
        text: str,
        injection: Injection | None,
        snapshot: Snapshot,
        *,
        shown: Collection[str] = (),
        registers: bool = True,
        entities: Sequence[Part] | None = None,
        short: bool = False,
        each: Mapping[str, Injection] | None = None,
    ) -> Gathered:
        """Return the candidates for a message beside the `injection` that memory has for it.

        Passages of the ids `shown` do not count towards the limit: earlier messages show them. With
        `registers` the message becomes part of the dialogue. `entities` are its entity parts where that
        happened already. With `short` there are fewer facts, memories and passages, these for each of several
        questions: `each` has what memory has for them, by their text.
        """
        facts = injection.facts if injection else ()
        query = text[:QUERY_CHARS]
        if injection and short:
            injection = short_injection(injection, query, [*(each or {}).values()])
        gathered = Gathered(injection=Injection() if injection is None else injection)
        if injection:
            gathered.parts.append(memory_part(injection))
        knowledge = self._knowledge
        # Most users have no nodes: one query instead of three.
        changed = None if knowledge is None else gathered.attempt("knowledge", knowledge.latest_change)
        found = entities or ()
        if self._dialogue is not None and entities is None:
            dialogue, told = self._dialogue, gathered.injection.facts
            found = (
                gathered.attempt(
                    "entities", lambda: dialogue.parts(query, told, changed=changed, registers=registers)
                )
                or ()
            )
        gathered.parts += found
        gathered.entities = len(found)
        if knowledge is not None and changed is not None and self.config.knowledge_injection:
            names = [
                str(part.about.get("title", "")) for part in gathered.parts if part.category == "entities"
            ]
            most = self.config.knowledge_max_chunks
            most = min(most, _SHORT_PASSAGES) if short else most
            queries = [one[:QUERY_CHARS] for one in each] if each else [query]
            find = partial(self._chunks, gathered, knowledge, names=names, most=most)
            if short:
                find = partial(self._chosen, gathered, knowledge, names=names, facts=facts)
            self._gather_chunks(gathered, knowledge, queries, find, shown, most)
            if focused := gathered.attempt("focus", knowledge.focused):
                gathered.parts.append(self._focus_part(focused))
            self._gather_changes(gathered, knowledge, snapshot)
        return gathered

    def _focus_part(self, focused: Sequence[Focused]) -> Part:
        if self._focus is None or self._focus[0] != focused:
            self._focus = (focused, focus_part(focused))
        return self._focus[1]

    def mark_shown(self, parts: Sequence[Part]) -> None:
        """Note which background changes these parts have shown."""
        for part in parts:
            self.add_shown_hubs(hubs_of(part))

    def add_shown_hubs(self, hubs: Iterable[Hub]) -> None:
        """Note background nodes that were shown since the snapshot."""
        self._shown_hubs.update({hub.id: hub for hub in hubs})

    def reset_shown_hubs(self) -> None:
        """Forget the shown nodes, after a new snapshot."""
        self._shown_hubs.clear()

    def _gather_chunks(
        self,
        gathered: Gathered,
        knowledge: Knowledge,
        queries: Sequence[str],
        find: Callable[[str], Sequence[Part]],
        shown: Collection[str],
        most: int,
    ) -> None:
        """Add the best passages that `find` has for each query, at most `most` that are not shown."""
        if not most:
            return
        found = [find(query) for query in queries]
        n_found = sum(map(len, found))
        gathered.about |= {
            "query_used": " ".join(queries),
            "chunks_retrieved": n_found,
            "reranking_used": bool(n_found) and knowledge.is_reranking,
        }
        added: set[str] = set()
        for parts in found:
            left = most
            for part in parts:
                left -= part.id not in shown
                if left < 0:
                    break
                if part.id not in added:
                    gathered.parts.append(part)
                    added.add(part.id)

    def _chunks(
        self, gathered: Gathered, knowledge: Knowledge, query: str, *, names: Sequence[str], most: int
    ) -> Sequence[Part]:
        config = self.config
        found = gathered.attempt(
            "knowledge",
            lambda: knowledge.retrieve(
                query,
                most * _MORE_CHUNKS,
                min_relevance=config.knowledge_relevance_threshold,
                entities=[name for name in names if name],
                recency_weight=config.knowledge_recency_weight,
                entity_weight=config.knowledge_entity_weight,
            ),
        )
        return [chunk_part(chunk) for chunk in found or ()]

    def _chosen(
        self,
        gathered: Gathered,
        knowledge: Knowledge,
        query: str,
        *,
        names: Sequence[str],
        facts: Sequence[Fact],
    ) -> Sequence[Part]:
        """Return passages for a small tail, the one that answers the query best first.

        Where there is a way to tell, it is chosen among more, which other words for the same thing find too.
        """
        first = self._chunks(gathered, knowledge, searched_words(query), names=names, most=_SHORT_PASSAGES)
        if self._best_first is None:
            return first
        wider = gathered.attempt(
            "knowledge", lambda: knowledge.search(wider_search(query), _CHOSEN_FROM, part="text")
        )
        parts = {part.id: part for part in (*first, *map(chunk_part, wider or ()))}
        return self._best_first(query, [*parts.values()], facts)

    def _gather_changes(self, gathered: Gathered, knowledge: Knowledge, snapshot: Snapshot) -> None:
        """Add a line of the hubs that are new or changed since the snapshot."""
        if not snapshot.background:
            return
        hubs = gathered.attempt("background", lambda: knowledge.hubs(self.config.auto_context_limit)) or []
        if new := changed_since(snapshot, hubs, tuple(self._shown_hubs.values())):
            markers = background_block(new).rpartition("\n\n")[2].replace("\n", "; ")
            about = {"title": "background", "hubs": tuple(new)}
            gathered.parts.append(Part("focus", "changed", _CHANGED + markers, score=1.0, about=about))


def hubs_of(part: Part) -> tuple[Hub, ...]:
    """Return the background nodes that a part shows as changed."""
    hubs = part.about.get("hubs") if part.id == "changed" else None
    return hubs if isinstance(hubs, tuple) else ()


def memory_part(injection: Injection) -> Part:
    """Return the part of facts and memories; its shorter forms have fewer memories, then fewer facts.

    The shorter forms are cut out of the whole text: ` | ` separates results and occurs nowhere else.
    """
    whole = _lines_of(injection)
    lines, mark, block = f"\n{whole}".partition(_CONTEXT)
    pieces = block.removesuffix("]").split(_BETWEEN_RESULTS)
    n_shown = len(pieces) if mark else 0
    shorter = []
    for n in range(n_shown - 1, 0, -1):
        fewer = _BETWEEN_RESULTS.join(pieces[i] for i in _best_places(injection, n))
        shorter.append(f"{lines}{mark}{fewer}]".removeprefix("\n"))
    if injection.facts and injection.results:
        shorter.append(whole.partition(_CONTEXT)[0])
    shorter += [text for text, _ in injection.fewer_facts]
    return Part("memory", "memory", whole, shorter=tuple(shorter))


def short_injection(injection: Injection, text: str, each: Sequence[Injection] = ()) -> Injection:
    """Return the injection with the best memory, or more of them if they are short, and a few facts.

    These are the facts that `text` is about, then the newest. Facts of another time, for a question about it,
    stay with all others. `each` are the injections of its questions, if there are several: each has a best
    memory.
    """
    facts = injection.facts
    lines = f"\n{_lines_of(injection)}".partition(_CONTEXT)[0].removeprefix("\n")
    if lines == facts_block(facts) and not _ABOUT_ALL.search(text):
        facts = _short_facts(facts, text)
        lines = facts_block(facts)
    chosen = {result.id: (result, piece) for one in each or (injection,) for result, piece in _best_of(one)}
    results = tuple(result for result, _ in chosen.values())
    pieces = _BETWEEN_RESULTS.join(piece for _, piece in chosen.values())
    memories = f"{_CONTEXT.lstrip()}{pieces}]" if chosen else ""
    shown = "\n".join(filter(None, (lines, memories)))
    tail = f"\n\n{shown}" if shown else ""
    return replace(injection, tail=tail, facts=facts, results=results, fewer_facts=fewer_facts(facts))


def _best_of(injection: Injection) -> Iterator[tuple[SearchResult, str]]:
    """Yield the best memory and the next ones, if they are short, in the order of the tail, with texts."""
    texts = f"\n{_lines_of(injection)}".partition(_CONTEXT)[2].removesuffix("]").split(_BETWEEN_RESULTS)
    best = sorted(range(len(injection.results)), key=lambda i: -injection.results[i].score)
    size = n = 0
    while n < len(best) and (not n or size + len(texts[best[n]]) <= _SHORT_MEMORIES_CHARS):
        size += len(texts[best[n]])
        n += 1
    for i in sorted(best[:n]):
        yield injection.results[i], texts[i]


def _short_facts(facts: Sequence[Fact], text: str) -> tuple[Fact, ...]:
    """Return the few facts for a message; a very small model cannot follow instructions."""
    asked, wanted = text.casefold(), {key_of(fact) for meant in asked_facts(text, facts) for fact in meant}
    # With the names by which the question may have asked.
    wanted |= {f"{key.rpartition('_')[0]}_name" for key in wanted}
    wanted |= {fact.key for fact in named_in(text, facts)}
    wanted |= {fact.key for fact in companions(wanted, facts)}
    near = (nearest_fact(one, text, facts) for one in questions_in(text))
    wanted |= {key_of(one.fact) for one in near if one}
    somebody = set(_relations_elsewhere(text))
    wanted |= {fact.key for fact in facts if not somebody.isdisjoint(words_of(fact.key)[:1])}
    said = set(content_words(text)) - GENERAL

    def is_touched(fact: Fact) -> bool:
        return not said.isdisjoint(content_words(f"{fact.key} {fact.value}"))

    able = [fact for fact in facts if fact.key != INSTRUCTIONS or is_about(asked, fact.key)]
    # "Allergic" is about an allergy as well.
    stems = {word[:_STEM] for word in asked.split() if len(word) > _STEM}

    def is_far(key: str) -> bool:
        return not (is_about(asked, key) or any(word[:_STEM] in stems for word in words_of(key)))

    ranked = sorted(
        able,
        key=lambda fact: (fact.key not in wanted, is_far(fact.key), not is_touched(fact), -fact.updated_at),
    )
    keys = {fact.key for fact in ranked[: max(_SHORT_FACTS, len(wanted))]}
    return tuple(fact for fact in facts if fact.key in keys)


def _relations_elsewhere(text: str) -> Iterator[str]:
    """Yield the English words for the user's people in another language: "wife" for "mi mujer"."""
    for mine in _MINE_ELSEWHERE.finditer(text):
        said = mine[1].casefold()
        yield from (row[0] for row in map(str.split, words("relations")) if said in row[1:])


def shown_injection(injection: Injection, part: Part | None) -> Injection:
    """Return the injection as far as the part shows it: all of it, fewer memories or facts, or nothing."""
    if part is None:
        return replace(injection, tail="", facts=(), results=())
    if part.text == _lines_of(injection):
        return injection
    if (facts := dict(injection.fewer_facts).get(part.text)) is not None:
        return replace(injection, facts=facts, results=())
    whole = memory_part(injection)
    n = len(injection.results) - 1 - whole.shorter.index(part.text)
    return replace(injection, results=tuple(injection.results[i] for i in _best_places(injection, n)))


def _best_places(injection: Injection, n: int) -> list[int]:
    """Return where the best `n` memories are, in their order: of equal scores those that come first."""
    scores = [result.score for result in injection.results]
    return sorted(sorted(range(len(scores)), key=lambda i: -scores[i])[:n])


def _lines_of(injection: Injection) -> str:
    return injection.tail.removeprefix("\n\n")


def chunk_part(chunk: ChunkResult) -> Part:
    """Return the part of a passage."""
    about = {
        "chunk_id": chunk.id,
        "node_id": chunk.node_id,
        "title": chunk.title,
        "relevance": chunk.relevance,
        "source": chunk.link,
        "date": chunk.date,
        "passage": RecalledPassage(
            chunk.id,
            chunk.node_id,
            chunk.title,
            chunk.text[:_PASSAGE_CHARS].strip(),
            chunk.relevance,
        ),
    }
    return Part("knowledge", f"chunk:{chunk.id}", chunk_block(chunk), score=chunk.score, about=about)


def focus_part(focused: Sequence[Focused]) -> Part:
    """Return the part of the focused nodes, whose shorter form has the primary node alone."""
    about = {"title": focused[0].node.title, "nodes": ", ".join(str(f.node.id) for f in focused)}
    shorter = (focus_block(focused[:1]),) if len(focused) > 1 else ()
    return Part("focus", "focus", focus_block(focused), shorter=shorter, about=about)

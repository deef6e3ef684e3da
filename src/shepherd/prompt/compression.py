"""Compression: parts say less, level by level, where they exceed their budget."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from shepherd.errors import ContextOverflowError
from shepherd.escaping import ELLIPSIS, shorten
from shepherd.prompt.allocation import Request, grouped_turns, make_plan, measured
from shepherd.prompt.plan import SUMMARY_ID, Category, LeftOut, Part, Plan
from shepherd.prompt.rendering import opening
from shepherd.prompt.summary import labelled, speaker_label, turns_left_out
from shepherd.sentences import split_sentences

__all__ = [
    "HEAVY_SUMMARY_TOKENS",
    "LEVELS",
    "Compressed",
    "Level",
    "Measure",
    "Summarize",
    "at_level",
    "compress",
    "cut",
    "level_for",
    "make_fitted_plan",
    "simplified",
    "summary_part",
]


_log = logging.getLogger(__name__)

Level = Literal["", "light", "medium", "heavy", "extreme", "bare"]
LEVELS: tuple[Level, ...] = ("light", "medium", "heavy", "extreme", "bare")
# Takes a text and a limit in tokens, and returns a summary; if it raises, there is none.
Summarize = Callable[[str, int], str]
# Returns the tokens of one part with the separator before it.
Measure = Callable[[Part], int]

_LIGHT, _MEDIUM, _HEAVY = 0.2, 0.4, 0.6
_VERBATIM_TURNS = 4
_MEDIUM_SUMMARY_TOKENS = 200
HEAVY_SUMMARY_TOKENS = 100
_ESSENTIAL_CHARS = 160
_FIXED = ("system", "query")
_TOP_CHUNKS = {"medium": 3, "heavy": 2, "extreme": 1}
_TOP_ENTITIES = {"heavy": 3, "extreme": 1}


@dataclass(frozen=True, slots=True)
class Compressed:
    """Compressed parts with their token counts; `level` is "" where no compression was needed.

    `left_out` are the parts that were dropped, in their original form.
    """

    parts: tuple[Part, ...]
    level: Level
    tokens: int
    left_out: tuple[LeftOut, ...] = ()


def compress(
    parts: Sequence[Part],
    budget: int,
    measure: Measure,
    *,
    summarize: Summarize | None = None,
    whole: Callable[[Sequence[Part]], int] | None = None,
) -> Compressed:
    """Compress `parts` to at most `budget` tokens, no further than necessary.

    `whole` counts the tokens of parts together where that differs from their sum. Raises
    ContextOverflowError, with the numbers, if the system part and the user's text alone are too long.
    """
    original = tuple(part.with_tokens(measure(part)) for part in parts)
    count = whole or _sum
    tokens = count(original)
    if tokens <= budget:
        return Compressed(original, "", tokens)
    for level in LEVELS[LEVELS.index(level_for(1 - budget / tokens)) :]:
        kept = at_level(original, level, measure, summarize)
        size = count(kept)
        if size <= budget:
            ids = {part.id for part in kept}
            gone = tuple(LeftOut(part, "compressed") for part in original if part.id not in ids)
            return Compressed(kept, level, size, gone)
    needed = count([part for part in original if part.category in _FIXED])
    raise ContextOverflowError(
        f"system part and question have {needed:,} tokens,"
        f" {needed - budget:,} more than the {budget:,} allowed",
        prompt_tokens=needed,
        window_tokens=budget,
        hint="allow more tokens, or shorten the question or the setting system_prompt",
    )


def level_for(reduction: float) -> Level:
    """Return the first level to try for the share of the tokens that has to go."""
    if reduction < _LIGHT:
        return "light"
    if reduction < _MEDIUM:
        return "medium"
    return "heavy" if reduction < _HEAVY else "extreme"


def simplified(text: str) -> str:
    """Remove trailing and repeated blanks, repeated empty lines, rules and bold marks from `text`.

    Code between ``` fences stays as it is. Applying it twice changes nothing.
    """
    lines: list[str] = []
    is_code = False
    for line in text.split("\n"):
        is_fence = line.lstrip().startswith("```")
        if is_code or is_fence:
            lines.append(line)
            is_code = is_code != is_fence
        else:
            lines += _simple_line(line, lines)
    return "\n".join(lines).strip("\n")


# ---- the levels


def at_level(
    parts: Sequence[Part], level: Level, measure: Measure, summarize: Summarize | None = None
) -> tuple[Part, ...]:
    """Compress parts to a level, in their order, whatever the budget; no part grows."""
    parts = [part if part.tokens else part.with_tokens(measure(part)) for part in parts]
    kept: dict[str, Part] = {}
    for part in parts:
        if part.category in _FIXED:
            kept[part.id] = part
    if level != "bare":
        kept |= _by_id(_history(parts, level, measure, summarize))
        kept |= _by_id(_entities(parts, level, measure))
        kept |= _by_id(_chunks(parts, level))
        kept |= _by_id(_others(parts, level, measure))
    if SUMMARY_ID in kept and all(part.id != SUMMARY_ID for part in parts):
        first = next((i for i, part in enumerate(parts) if part.category == "history"), len(parts))
        ids = [*(p.id for p in parts[:first]), SUMMARY_ID, *(p.id for p in parts[first:])]
    else:
        ids = [part.id for part in parts]
    return tuple(kept[part_id] for part_id in ids if part_id in kept)


def _history(
    parts: Sequence[Part], level: Level, measure: Measure, summarize: Summarize | None
) -> Iterator[Part]:
    history = [part for part in parts if part.category == "history"]
    if level == "light":
        yield from (_smaller(part, simplified(part.text), measure) for part in history)
        return
    verbatim = _VERBATIM_TURNS if level == "medium" else 1
    recent = _last_turns(history, verbatim)
    if level == "extreme":
        yield from (_smaller(part, _essence(part.text), measure) for part in recent)
        return
    older = history[: len(history) - len(recent)]
    longest = _MEDIUM_SUMMARY_TOKENS if level == "medium" else HEAVY_SUMMARY_TOKENS
    yield from _summed_up(older, longest, measure, summarize)
    yield from (_smaller(part, simplified(part.text), measure) for part in recent)


def _entities(parts: Sequence[Part], level: Level, measure: Measure) -> Iterator[Part]:
    entities = [part for part in parts if part.category == "entities"]
    for part in _best(entities, _TOP_ENTITIES.get(level, len(entities))):
        yield part if level == "light" else _less_detail(part, measure)


def _chunks(parts: Sequence[Part], level: Level) -> list[Part]:
    distinct: dict[str, Part] = {}
    chunks = [part for part in parts if part.category == "knowledge"]
    for part in _best(chunks, len(chunks)):
        distinct.setdefault(_said(part.text), part)
    return _best(list(distinct.values()), _TOP_CHUNKS.get(level, len(distinct)))


def _others(parts: Sequence[Part], level: Level, measure: Measure) -> Iterator[Part]:
    """Yield the memory part, which stays at every level, and focused nodes, which stay below `extreme`."""
    for part in parts:
        if part.category == "memory" or (part.category == "focus" and level != "extreme"):
            yield part if level == "light" else _less_detail(part, measure, most=level != "medium")


# ---- pieces


def _last_turns(history: Sequence[Part], n: int) -> list[Part]:
    """Return the parts of the last `n` turns."""
    return [part for turn in grouped_turns(history)[-n:] for part in turn]


def _summed_up(
    older: Sequence[Part], longest: int, measure: Measure, summarize: Summarize | None
) -> list[Part]:
    """Return one summary in place of older turns and their summary; or the turns, if it is not shorter."""
    if _sum(older) <= longest and len(older) <= 1:
        return list(older)
    said = ""
    if summarize is not None:
        try:
            said = " ".join(summarize("\n".join(part.text for part in older), longest).split())
        except Exception as error:  # a failure of the model only costs the summary
            _log.info("summarising failed: %s", type(error).__name__)
    said = said or turns_left_out(len(grouped_turns(older)))
    summary = summary_part(said, longest, measure)
    if summary is None:
        return []
    return [summary] if summary.tokens < _sum(older) else list(older)


def summary_part(text: str, longest: int, measure: Measure) -> Part | None:
    """Return the summary with as many words as `longest` tokens allow; None if not even one fits."""
    return cut(Part("history", SUMMARY_ID, text), longest, measure, form=labelled)


def cut(
    part: Part, longest: int, measure: Measure, *, form: Callable[[str], str] = lambda text: text
) -> Part | None:
    """Return the part in `form` with as many words as `longest` tokens allow; None if not even one fits.

    A text without blanks, such as one in Japanese, is cut between its characters. The speaker of a line is no
    word of it. An empty text gives None.
    """

    def with_text(text: str) -> Part:
        other = replace(part, text=form(text), shorter=(), tokens=0)
        return other.with_tokens(measure(other))

    if not part.text.strip():
        return None
    whole = with_text(part.text)
    if whole.tokens <= longest:
        return whole
    places = _places_to_cut(part.text)
    low, high, best = 0, len(places), None
    while low < high:
        middle = (low + high) // 2
        # It never ends within a grapheme.
        beginning = shorten(part.text, places[middle] + 1).removesuffix(ELLIPSIS).rstrip()
        other = with_text(f"{beginning} {ELLIPSIS}")
        if other.tokens <= longest:
            best, low = other, middle + 1
        else:
            high = middle
    return best


# A text may be cut before a blank, behind some characters of a script that has no blanks (Thai to Japanese),
# and in what is longer than a word.
_LEAST_CHARS = 4
_PLACE = re.compile(
    r"(?<=\S)(?=\s)|(?P<unspaced>(?<=[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u3400-\u9fff\uf900-\ufaff"
    r"\uff01-\uff9f\U00020000-\U0003ffff])(?=\S))|(?<=\S{60})(?=\S)"
)


def _places_to_cut(text: str) -> list[int]:
    """Return where a text may be cut, behind the name of its speaker."""
    begin = len(speaker_label(text))
    return [
        match.start()
        for match in _PLACE.finditer(text, begin + 1)
        if match["unspaced"] is None or match.start() >= begin + _LEAST_CHARS
    ]


def _less_detail(part: Part, measure: Measure, *, most: bool = False) -> Part:
    """Return the next shorter form of a part, or with `most` the shortest."""
    if not part.shorter:
        return part
    return _smaller(part, part.shorter[-1] if most else part.shorter[0], measure)


def _smaller(part: Part, text: str, measure: Measure) -> Part:
    """Return the part with another text, if that has fewer tokens."""
    if text == part.text:
        return part
    other = replace(part, text=text)
    other = other.with_tokens(measure(other))
    return other if other.tokens < part.tokens else part


def _best(parts: Sequence[Part], n: int) -> list[Part]:
    return sorted(parts, key=lambda part: -part.score)[:n]


def _by_id(parts: Iterator[Part] | Sequence[Part]) -> dict[str, Part]:
    return {part.id: part for part in parts}


def _sum(parts: Sequence[Part]) -> int:
    return sum(part.tokens for part in parts)


_BLANKS = re.compile(r"(?<=\S)[ \t]{2,}")
_RULE = re.compile(r"\s*([-*_=])(?:\s*\1){2,}\s*")
_EMPHASIS = re.compile(r"(?<!\*)\*\*(?=[^\s*])([^*]*[^\s*])\*\*(?!\*)")


def _simple_line(line: str, before: Sequence[str]) -> list[str]:
    line = _BLANKS.sub(" ", line.rstrip())
    if "```" not in line:  # a line such as **```** would become a fence
        line = _EMPHASIS.sub(r"\1", line)
    if _RULE.fullmatch(line) or (not line and before and not before[-1]):
        return []
    return [line]


def _essence(text: str) -> str:
    """Return the first sentence, shortened if it is long."""
    sentences = split_sentences(" ".join(simplified(text).split()))
    return shorten(sentences[0] if sentences else "", _ESSENTIAL_CHARS)


def _said(text: str) -> str:
    """Return the text of a chunk without the line of its source, in normalised case and spacing."""
    first, _, rest = text.partition("\n")
    return " ".join((rest if first.startswith("Source:") and rest else text).casefold().split())


_COMPRESSED: tuple[Category, ...] = ("entities", "knowledge", "focus")
_ORDER: tuple[Level, ...] = ("", *LEVELS)


def make_fitted_plan(request: Request, count: Callable[[str], int]) -> Plan:
    """Make a plan as `make_plan` does; where parts of a category do not fit, try all of it with less
    detail.
    """
    plan = make_plan(request, count)
    missed = {left.part.category for left in plan.left_out if left.reason == "no room"}
    crowded = [category for category in _COMPRESSED if category in missed]
    if not crowded:
        return plan
    wanted = {left.part.id for left in plan.left_out if left.reason == "no room"}
    wanted |= {part.id for part in plan.chosen}
    candidates = list(request.candidates)
    level: Level = ""
    gone: list[LeftOut] = []
    for category in crowded:
        granted = next(share.granted for share in plan.shares if share.category == category)
        parts = _distinct(part for part in candidates if part.category == category and part.id in wanted)
        less = _compressed(parts, granted - count(opening(category)), count)
        if not less.parts or len(less.parts) < len(plan.of(category)):
            continue  # the best parts in full and one shorter say more
        ids = {part.id for part in parts}
        doubles = [part for part in candidates if part.id in ids and not any(part is one for one in parts)]
        gone += [*less.left_out, *(LeftOut(part, "duplicate") for part in doubles)]
        candidates = [*(part for part in candidates if part.id not in ids), *less.parts]
        level = max(level, less.level, key=_ORDER.index)
    again = make_plan(replace(request, candidates=candidates), count)
    return replace(again, compression=level, left_out=(*again.left_out, *gone))


def _compressed(parts: Sequence[Part], room: int, count: Callable[[str], int]) -> Compressed:
    def measure(part: Part) -> int:
        return measured(part.with_tokens(0), count).tokens

    return compress(parts, room, measure) if room > 0 else Compressed((), "bare", 0)


def _distinct(parts: Iterable[Part]) -> list[Part]:
    """Return each part once, by its id."""
    first: dict[str, Part] = {}
    for part in parts:
        first.setdefault(part.id, part)
    return list(first.values())

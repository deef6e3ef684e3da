"""The sentence of a document or of the user that may answer a question, where the model does not find it.

A sentence is taken if its source has more than half of the question's words, and its numbers and names, and
if it holds what was asked for: a time for "when", a price for "how much does it cost".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import Literal

from shepherd._native.rank import ASSISTANT_ANSWER, ASSISTANT_QUESTION
from shepherd.claims.material import GAP, own_words
from shepherd.claims.speakers import begin_of_others, sentences_with_speakers
from shepherd.claims.wordings import rule
from shepherd.memory.discourse import TALKS, assistants
from shepherd.prompt.archive_policy import is_about_oneself, is_statement, told_as_question
from shepherd.prompt.concepts import FRAME, meanings_of
from shepherd.prompt.fact_profiles import names_of
from shepherd.prompt.plan import Part
from shepherd.prompt.questions import Question
from shepherd.sentences import is_question, split_sentences
from shepherd.turn.answer_types import BACK, Wanted, content_of, numbers_in, tells_somebody, wanted_by
from shepherd.turn.cries_for_help import needs_help
from shepherd.turn.subjects import tells_of_another
from shepherd.turn.validity import (
    asks_of_past,
    calls_off,
    is_unreal,
    stands_for,
    tells_of_change,
    tells_of_past,
)
from shepherd.types import Fact, Message, SearchResult

__all__ = [
    "MOST_WORDS",
    "Kind",
    "Quote",
    "Source",
    "attached_to",
    "best_first",
    "quotation",
    "repeats",
    "sources_of",
    "without_attached",
]

# Text of a document, what the user said, and what he imported or entered as the answer to a question.
Kind = Literal["document", "told", "stored", "answered"]

MOST_WORDS = 60  # of an answer to one question
_MOST_REPEATED = 2  # times that the same three words can stand in an answer
_LONGEST_QUOTED = 240  # characters of a sentence of the user
_WORD = re.compile(r"\w+")

# ---- documents

_ATTACHED = re.compile(
    r"(?:\A|\n\n)\[attached: (?P<name>[^\n]*)\]\n(?P<fence>`{3,})\n(?P<text>.*?)\n(?P=fence)(?=\n\n|\Z)",
    re.DOTALL,
)
_HEADING = re.compile(r"#{1,6}\s+")
# The bar between cells is written wide where a text is shown to the model.
_BAR = "|\uff5c"
_ROW = re.compile(rf"\s*[{_BAR}](.+)[{_BAR}]\s*")
_RULE = re.compile(rf"\s*[{_BAR}][\s:{_BAR}-]+[{_BAR}]\s*")
_ITEM = re.compile(r"\s*(?:[-*+\u2022]|\d{1,2}[.)])\s+(?=\S)")
# A line that begins with a time: "06:35 Nolan's shop, 12 loaves".
_TIMED = re.compile(r"\s*\d{1,2}[:.]\d\d\b\W*\w")
_LABELLED = re.compile(r"[^.:!?]{1,40}: +\S")
_LABEL = re.compile(r"([\w][^.:!?|]{1,30}): ")
_LABELLED_BACK = re.compile(r"\W*(?:back|return|home|inbound)(?: \w+)?:", re.IGNORECASE)
_ENDS = (".", "!")
_OPEN_ENDS = ("?", ",", ";", ":", "-")
_LONGEST_LINE = 70  # characters of a line that is no running text
_CLOSING = "\"')]*_\u201d\u2019"
_LONGEST_SECTION = 1500  # characters of a text without headings


# Worth of a word that says little, of one in a heading, and of one beside the sentence.
_SLIGHT_WORTH, _TITLE_WORTH, _NEAR_WORTH = 0.3, 0.4, 0.3
# Decides between sentences that are worth the same: the words of the one itself.
_OWN_WORTH = 0.01
# Worth of the form of an answer, of a word that hints at it, and of the thing in "which tray".
_LIKELY_WORTH, _HINT_WORTH, _ASKED_WORTH = 0.4, 0.3, 0.1
# The share of a question that a section has to have: with a word in its title, without, and for yes or no.
_LEAST_COVERED, _LEAST_UNTITLED, _LEAST_SAID = 0.33, 0.33, 0.6
_SPREAD = 1.0
_DOUBTFUL_WORTH = 0.7  # of a sentence that has not all words, beside one of another source
_NEARLY, _MOST_QUOTED = 0.9, 2
_TALK_WORTH = 0.5  # of what was said, beside a document
# What another assistant answered is quoted if nothing else is, and never about what is the user's own.
_ANSWERED_WORTH = 0.01
_IMPORTED = TALKS - {"turn"}
_OWN = re.compile(r"\b(?:my|mine|our|ours)\b", re.IGNORECASE)
# The share of the question that a section has to have if no line has the form of an answer, and its words.
_LEAST_ABOUT, _MOST_ABOUT = 0.5, 44
_ABOUT_WORTH = 0.01  # beside the sentences of other sections
_COVER = "\u2022\u2022"
_FEW = 2  # sentences of a section that have the form of an answer
_SURE = 0.8  # closeness of words that are as good as the same

# Worth of a later sentence that tells of a change, beside the best of those before it.
_LEAST_CHANGED = 0.3
_NEW_PLACE = re.compile(r"\b(?:to|with)\b", re.IGNORECASE)
# What may be somebody else's words: they stand behind a quotation mark or a label.
_IS_OF_OTHERS = re.compile("[\"\u201c\u201e\u00ab\u2039\u300c]|(?<!\\w)['\u2018]|\\w: ")
_ASKS_OF_SPEECH = re.compile(
    r"\b(?:say|tell|ask|write|text|quote|sing|sagen|gesagt|erzählt|geschrieben|dire|raconté|écrit|decir|dicho|contó)\b",
    re.IGNORECASE,
)
_ASKS_OF_USER = re.compile(r"\b(?:I|we)\b", re.IGNORECASE)
_FORMER = re.compile(r"\b(?:ex[- ]|former |late |first |second )\w+", re.IGNORECASE)

_Names = Sequence[tuple[frozenset[str], frozenset[str]]]


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence with the title of its document, or the question that it answered once; "" for other kinds.

    It `is_sure` if it, with what it is about, has all words of the question. `later` is what the user told
    after it, where it can't be told whether that replaces it.
    """

    kind: Kind
    title: str
    sentence: str
    is_sure: bool = False
    later: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """Sentences that can be quoted: a section of a document, or what the user said or stored once.

    Of the kind `answered`, they are another assistant's answer, which may be wrong. `title` names the source
    for readers; `about` has the title and the headings, or the question that was stored, whose words count
    for each sentence. `told_at` puts what was told in order: the unix seconds, then the number of the message
    or memory.
    """

    kind: Kind
    title: str
    about: str
    sentences: Sequence[str]
    told_at: tuple[float, int] = (0.0, 0)


@dataclass(frozen=True, slots=True)
class _Told:
    """A sentence of the user that may answer, with its worth. `is_real`: it tells how things are today."""

    worth: float
    told_at: tuple[float, int, int]
    quote: Quote
    is_real: bool

    @property
    def changes(self) -> bool:
        """True if the sentence says that something is new."""
        return tells_of_change(self.quote.sentence)


def attached_to(message: Message) -> list[str]:
    """Return the names of the documents that are attached to a message, in order."""
    return [block["name"] for block in _ATTACHED.finditer(message.composed)]


def without_attached(text: str) -> str:
    """Return what a message says besides the documents that are attached to it."""
    return _ATTACHED.sub("", text)


def sources_of(
    messages: Sequence[Message], passages: Sequence[Part], memories: Sequence[SearchResult]
) -> list[Source]:
    """Return all that can be quoted: attached documents, passages, what was said before, and memories.

    Attached documents and what was said come newest first. The last of the user's messages is the question.
    """
    found: list[Source] = []
    users = [message for message in reversed(messages) if message.role == "user"]
    for message in users:
        if message.composed:
            for block in _ATTACHED.finditer(message.composed):
                found += _sections(block["name"], block["text"])
    for passage in passages:
        text = "\n".join(passage.text.splitlines()[2:-1])
        found += _sections(str(passage.about.get("title", "")), text)
    for n, message in enumerate(users[1:]):
        found.append(_told(message.raw, (message.created_at or inf, -n)))
    return [*found, *(source for memory in memories for source in _of_memory(memory))]


def _of_memory(memory: SearchResult) -> Iterator[Source]:
    """Yield what the user said, an answer entered by hand, and one that another assistant gave.

    What this assistant said is none: the model would quote itself.
    """
    by_assistants = assistants(memory.question, memory.answer, memory.source)
    told_at = (memory.timestamp, memory.id)
    if not by_assistants & ASSISTANT_QUESTION:
        yield _told(memory.question, told_at)
    if not by_assistants & ASSISTANT_ANSWER:
        about = memory.question if is_question(memory.question) else ""
        yield Source("stored", "", about, _short_sentences(memory.answer), told_at)
    elif memory.source in _IMPORTED and is_question(memory.question):
        question = " ".join(memory.question.split())
        yield Source("answered", question, question, _short_sentences(memory.answer))


def _told(text: str, told_at: tuple[float, int]) -> Source:
    """Return what the user stated in a text, neither questions nor tasks nor cries for help."""
    said = [one for one in _short_sentences(text) if _is_told(one) and not needs_help(one)]
    return Source("told", "", "", said, told_at)


def _is_told(sentence: str) -> bool:
    """Return whether a sentence states something, of the user or behind the label of somebody else."""
    theirs = sentence[begin_of_others(sentence) :].partition(": ")[2]
    return is_statement(sentence) or is_statement(theirs)


def _short_sentences(text: str) -> list[str]:
    said = [one for one in sentences_with_speakers(text) if not is_question(one) or told_as_question(one)]
    return [sentence for sentence in said if len(sentence) <= _LONGEST_QUOTED]


def _sections(title: str, text: str) -> Iterator[Source]:
    """Yield the sections of a document, with their headings, the first of all, and the heads of tables."""
    first, heading, size = "", "", 0
    lines: list[str] = []
    for line in (*text.splitlines(), "# "):
        is_heading = _HEADING.match(line) is not None
        if is_heading or (size > _LONGEST_SECTION and not line.strip()):
            if sentences := list(_quotable(lines)):
                # "Pram: tyres 2.2 bar. Rain cover is …" is about the pram throughout.
                label = None if heading else _LABEL.match(sentences[0])
                named = " ".join((label[1] if label else heading, *_heads(lines))).strip()
                yield Source("document", title, f"{title} {first} {named}", sentences)
            lines, size = [], 0
        # "Harbour contacts" above a list without marks is a heading too.
        if not is_heading and not first and not lines and _is_title(line):
            first = heading = line.strip()
        elif is_heading:
            heading = line.lstrip("# ")
            first = first or heading
        else:
            lines.append(line)
            size += len(line)


def _is_title(line: str) -> bool:
    """Return whether the first line of a document is its title."""
    is_marked = _ITEM.match(line) or _ROW.fullmatch(line) or _LABELLED.match(line) or _TIMED.match(line)
    return bool(line.strip()) and not is_marked and _is_short(line.rstrip().removesuffix(":"))


def _heads(lines: Sequence[str]) -> Iterator[str]:
    """Yield the first rows of tables, with what their columns have."""
    for line, below in pairwise(lines):
        if _RULE.fullmatch(below) and (head := _ROW.fullmatch(line)):
            yield re.sub(rf"[{_BAR}]", " ", head[1])


def _quotable(lines: Sequence[str]) -> Iterator[str]:
    """Yield the items of lists, lines such as "Rent: 900", and the whole sentences of running text."""
    blocks: list[list[str]] = [[]]
    for line in _without_tables(lines):
        if not line.strip() or _ITEM.match(line) or _LABELLED.match(line) or _TIMED.match(line):
            blocks.append([])
        if line.strip():
            blocks[-1].append(line)
    for block, is_listed in _lists_apart(blocks):
        mark = _ITEM.match(block[0])
        block[0] = block[0][mark.end() if mark else 0 :]
        is_item = mark or is_listed or _LABELLED.match(block[0]) or _TIMED.match(block[0])
        for sentence in split_sentences("\n".join(block)):
            if is_item or sentence.rstrip(_CLOSING).endswith(_ENDS):
                yield " ".join(sentence.split())


def _lists_apart(blocks: Iterable[list[str]]) -> Iterator[tuple[list[str], bool]]:
    """Yield blocks of lines, and whether each is a line of a list without marks.

    Of such a list, no line ends a sentence or goes on with the one before it.
    """
    for block in blocks:
        if len(block) > 1 and all(map(_is_short, block)) and not any(map(_continues, block[1:])):
            yield from (([line], True) for line in block)
        elif block:
            yield block, False


def _is_short(line: str) -> bool:
    """Return whether a line is no sentence and no line of running text."""
    return len(line) <= _LONGEST_LINE and not line.rstrip().endswith((*_ENDS, *_OPEN_ENDS))


def _continues(line: str) -> bool:
    return line[:1].isspace() or line[:1].islower()


def _without_tables(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines with each row of a table as an item: "- Proofreading: 62 an hour"."""
    for n, line in enumerate(lines):
        row = _ROW.fullmatch(line)
        is_head = n + 1 < len(lines) and _RULE.fullmatch(lines[n + 1]) is not None
        if row is None:
            yield line
        elif not is_head and not _RULE.fullmatch(line):
            first, *others = (cell.strip() for cell in re.split(rf"[{_BAR}]", row[1]))
            yield f"- {first}: {', '.join(filter(None, others))}"


# ---- the sentence


def quotation(question: Question, sources: Iterable[Source], facts: Sequence[Fact] = ()) -> Quote | None:
    """Return the sentence that may answer a question; of what the user told, the newest of equals.

    By `facts` such as cat_name, "my cat" and her name mean the same.
    """
    found = _best(question, sources, facts)
    return found[1] if found else None


def best_first(question: Question, passages: Sequence[Part], facts: Sequence[Fact] = ()) -> list[Part]:
    """Return passages of documents with the one first whose sentence answers a question best."""
    scores = {}
    for passage in passages:
        found = _best(question, sources_of((), (passage,), ()), facts)
        scores[passage.id] = found[0] if found else 0.0
    return sorted(passages, key=lambda passage: -scores[passage.id])


def _best(question: Question, sources: Iterable[Source], facts: Sequence[Fact]) -> tuple[float, Quote] | None:
    """Return the best sentence with its worth.

    Where it is not sure, the next best of the same section is quoted with it if it is about as good. Of what
    the user told, the newest is quoted.
    """
    wanted, names, sources = wanted_by(question), names_of(facts), list(sources)
    best: tuple[float, Quote] | None = None
    told: list[_Told] = []
    for source in sources if wanted.words else []:
        if source.kind in ("told", "stored"):
            told += _told_in(question.text, wanted, source, names)
            continue
        is_document = source.kind == "document"
        found = [*(_in_document if is_document else _in_talk)(wanted, source, names)]
        if not found:
            continue
        score, sentence, is_sure = max(found, key=lambda one: one[0])
        if source.kind == "answered":
            if _OWN.search(question.text) or _is_of_another(question.text, sentence):
                continue
            score, is_sure = _ANSWERED_WORTH * score, False
        worth = score if is_sure else _DOUBTFUL_WORTH * score
        if best is not None and worth <= best[0]:
            continue
        is_sure = is_sure and _has_same_owner(question.text, sentence)
        if is_document and not is_sure:
            near = [one for value, one, _ in found if value >= _NEARLY * score][:_MOST_QUOTED]
            if sentence in near and len(" ".join(near)) <= _LONGEST_QUOTED:
                sentence = " ".join(near)
        best = worth, Quote(source.kind, source.title, sentence, is_sure)
    first = min(told, key=lambda one: (-one.worth, one.told_at), default=None)
    if first and (best is None or first.worth > best[0]):
        best = first.worth, _newest(wanted, first, told)
    return best or _about(wanted, sources, names)


def _told_in(question: str, wanted: Wanted, source: Source, names: _Names) -> Iterator[_Told]:
    """Yield the sentences of what the user told or stored once that may answer a question.

    Two in a row are one of them if they say more than each by itself. What somebody else said of himself is
    no answer to a question about the user, unless it asks what was said.
    """
    asks_what_was_said = _ASKS_OF_SPEECH.search(question) or rule("reported").search(question)
    is_of_user = is_about_oneself(question) and not asks_what_was_said
    found = [*(_in_own_words if is_of_user else _in_talk)(wanted, source, names)]
    if not found:
        return
    most = max(found, key=lambda one: one[0])
    is_single = most[1] in source.sentences
    for n, (score, sentence, has_all) in enumerate(found):
        if (is_single and sentence not in source.sentences) or (not is_single and sentence != most[1]):
            continue
        if _is_of_another(question, sentence):
            continue
        is_of_others = _ASKS_OF_USER.search(question) is not None and tells_of_another(sentence)
        is_sure = has_all and _has_same_owner(question, sentence) and not is_of_others
        is_of_today = asks_of_past(question) or not tells_of_past(sentence)
        is_real = is_of_today and not is_unreal(sentence) and _tells_more(wanted, sentence)
        worth = score * (1.0 if is_sure else _DOUBTFUL_WORTH) * (1.0 if is_real else _DOUBTFUL_WORTH)
        quote = Quote(source.kind, source.title, sentence, is_sure)
        yield _Told(worth, (*source.told_at, n), quote, is_real)


def _in_own_words(wanted: Wanted, source: Source, names: _Names) -> Iterator[tuple[float, str, bool]]:
    """Yield the same as `_in_talk`, where the words in quotation marks answer nothing."""
    said = source.sentences
    own = [own_words(one).replace(GAP, " ") if _IS_OF_OTHERS.search(one) else one for one in said]
    whole = dict(zip(own, said, strict=True))
    whole |= {
        f"{one} {other}": " ".join(pair)
        for (one, other), pair in zip(pairwise(own), pairwise(said), strict=True)
    }
    for score, sentence, is_sure in _in_talk(wanted, replace(source, sentences=own), names):
        yield score, whole[sentence], is_sure


def _newest(wanted: Wanted, best: _Told, told: Iterable[_Told]) -> Quote:
    """Return the best of what the user told, or what replaces it: what he told later about the same.

    Both are quoted where the later one may be about something else.
    """
    later = [one for one in told if one.told_at > best.told_at and one.is_real]
    near = [one for one in later if one.worth >= (_LEAST_CHANGED if one.changes else _NEARLY) * best.worth]
    sentence, newest, is_same = best.quote.sentence, best, False
    is_valued = wanted.holds is not None or wanted.is_place
    for one in sorted(near, key=lambda one: one.told_at):
        stands = stands_for(one.quote.sentence, sentence, wanted.words, is_valued=is_valued)
        if stands is not False:
            newest, is_same = one, bool(stands)
    if is_same or newest.quote.kind != best.quote.kind or repeats((sentence, newest.quote.sentence)):
        return newest.quote
    if newest is best:
        return best.quote
    is_sure = best.quote.is_sure and newest.quote.is_sure
    return replace(best.quote, is_sure=is_sure, later=newest.quote.sentence)


def _tells_more(wanted: Wanted, sentence: str) -> bool:
    """Return whether a sentence has what is asked for besides the question's own words.

    "The parents' evening is in the hall" has no time.
    """
    if wanted.holds is None or calls_off(sentence, wanted.words):
        return True
    # "I'm nervous about it now" has no time, either.
    others = re.sub(r"\bnow\b", " ", sentence)
    others = _WORD.sub(lambda word: " " if content_of(word[0]) & wanted.words else word[0], others)
    return wanted.holds.search(others) is not None


def _about(wanted: Wanted, sources: Iterable[Source], names: _Names) -> tuple[float, Quote] | None:
    """Return the line or the short section of a document about a question that wants no certain form.

    Most of its words, but those that ask, stand in one line or in the title: "What spice is in the crumble?"
    is answered by the recipe.
    """
    best: tuple[float, Quote] | None = None
    is_certain = wanted.holds or wanted.is_person or wanted.is_place or wanted.is_yes_or_no
    if is_certain or wanted.letters or wanted.owned:
        return None
    heavy = wanted.words - wanted.slight
    for source in sources if heavy else ():
        if source.kind != "document":
            continue
        about, pieces = _words_of(source.about, names), [_words_of(one, names) for one in source.sentences]
        told = about.union(*pieces) | numbers_in(" ".join((source.about, *source.sentences)))
        if not wanted.needed <= told:
            continue
        titled = {word for word in heavy if _closeness(word, about) >= _SURE}
        found = [{word for word in heavy if _closeness(word, words) >= _SURE} for words in pieces]
        share = len(titled.union(*found)) / len(heavy)
        most = max(found, key=lambda one: len(one - titled), default=set())
        if (
            share < _LEAST_ABOUT
            or not (titled or len(most) > 1)
            or (best and _ABOUT_WORTH * share <= best[0])
        ):
            continue
        text = source.sentences[found.index(most)] if most - titled else _whole(source)
        if len(text.split()) <= _MOST_ABOUT and not repeats([text]) and _COVER not in text:
            best = _ABOUT_WORTH * share, Quote(source.kind, source.title, text)
    return best


def _whole(source: Source) -> str:
    """Return all sentences of a section; items of a list, which have no full stop, are set apart."""
    text = ""
    for sentence in source.sentences:
        gap = " " if text.endswith((*_ENDS, ":")) else "; "
        text += f"{gap if text else ''}{sentence}"
    return text


def _things_of_mine(question: str) -> set[str]:
    """Return what a question calls the user's: "my licence plate" may be one of licences or of plates."""
    found = re.findall(r"\b(?:my|our) (\w+)(?: (\w+)(?=\W*$| (?:called|is|was)\b))?", question, re.IGNORECASE)
    return {thing for things in found for thing in things if thing}


def _is_of_another(question: str, sentence: str) -> bool:
    """Return whether "my plate" of a question is "that plate" of a sentence, of which others spoke."""
    return any(
        re.search(
            rf"\b(?:that|this|those|these|your|his|her|their) (?:\w+ )?{thing}", sentence, re.IGNORECASE
        )
        and not re.search(rf"\b(?:my|our) (?:\w+ )?{thing}", sentence, re.IGNORECASE)
        for thing in _things_of_mine(question)
    )


def _has_same_owner(question: str, sentence: str) -> bool:
    """Return whether "my cat" of a question is not "my neighbour's cat" of a sentence."""
    things = re.findall(r"\b(?:my|our) (\w+)", question, re.IGNORECASE)
    return all(
        re.search(
            rf"\b(?:my|our) (?:\w+ )?{thing}|\b(?:a|an|the) (?:\w+ )?{thing}|^\W*{thing}\b(?!['\u2019])",
            sentence,
            re.IGNORECASE,
        )
        or not re.search(rf"\b{thing}", sentence, re.IGNORECASE)
        for thing in things
    )


def _words_of(text: str, names: _Names) -> frozenset[str]:
    """Return the stems of a text, with the names of the people and animals in it, or what they are."""
    words = content_of(text)
    kinds = Counter(one for one, _ in names)
    # "the dogs" are not Biscuit alone, and "my ex-wife" is not Dora.
    today = content_of(_FORMER.sub(" ", text)) if names else words
    meant = (one | other for one, other in names if (one <= today and kinds[one] == 1) or other <= words)
    return words.union(*meant)


def _in_talk(wanted: Wanted, source: Source, names: _Names) -> Iterator[tuple[float, str, bool]]:
    """Yield what was said or stored that may answer, with its worth, and whether it has all words.

    Other words for the same thing do not count: in talk they are too often about something else.
    """
    about, pieces = _words_of(source.about, names), [_words_of(one, names) for one in source.sentences]
    if source.kind in ("stored", "answered"):  # the answer to this question
        pieces = [words | about for words in pieces]
    told = about.union(*pieces) | numbers_in(" ".join((source.about, *source.sentences)))
    if not wanted.needed <= told or (wanted.context and not wanted.context & told):
        return
    places = {word: sum(word in one for one in (about, *pieces)) for word in wanted.words}
    n_found = sum(map(bool, places.values()))
    if 2 * n_found <= len(places):
        return
    for sentence, words in _candidates(source, pieces):
        score = _TALK_WORTH * sum(places[word] ** -2 for word in wanted.words & words) / len(places)
        is_answer = wanted.holds is None or wanted.holds.search(sentence) or calls_off(sentence, wanted.words)
        if not score or not is_answer or repeats([sentence]):
            continue
        if wanted.is_person and not tells_somebody(sentence, wanted.words):
            continue
        is_likely = wanted.likely is None or wanted.likely.search(sentence)
        # What "catches the eye" doesn't tell "what colour" the eyes are.
        is_named = wanted.words <= about or not wanted.asked.isdisjoint(content_of(sentence))
        # "I moved it to the cellar", "It is with Ida now".
        is_placed = is_likely or (tells_of_change(sentence) and _NEW_PLACE.search(sentence) is not None)
        if (wanted.is_place and not is_placed) or (wanted.is_color and not is_likely and not is_named):
            continue
        score *= n_found / len(places)
        yield score + 0.01 * len(wanted.context & words), sentence, wanted.words <= words | about


def _in_document(wanted: Wanted, source: Source, names: _Names) -> Iterator[tuple[float, str, bool]]:
    """Yield the sentences of a section that may answer, with their worth, and whether they have all words.

    A word of the question counts most in the sentence itself, less beside it or in a heading, and less where
    a related one stands for it.
    """
    about, pieces = _words_of(source.about, names), [_words_of(one, names) for one in source.sentences]
    told = about.union(*pieces) | numbers_in(" ".join((source.about, *source.sentences)))
    if not wanted.needed <= told or (wanted.context and not wanted.context & told):
        return
    whole = " ".join((source.about, *source.sentences))
    if any(not re.search(rf"\b{letter}\b", whole) for letter in wanted.letters):
        return
    weights = {word: _SLIGHT_WORTH if word in wanted.slight else 1.0 for word in wanted.words}
    total = sum(weights.values())
    titled = {word: _closeness(word, about) for word in weights}
    inside = [{word: _closeness(word, words) for word in weights} for words in pieces]
    found = {word: max((titled[word], *(one[word] for one in inside))) for word in weights}
    coverage = sum(weights[word] * found[word] for word in weights) / total
    least = _LEAST_COVERED if any(titled.values()) else _LEAST_UNTITLED
    if coverage < (_LEAST_SAID if wanted.is_yes_or_no else least):
        return
    # Whom it is about does not tell what is asked: "What is Ida's middle name?"
    somebody = wanted.words & frozenset[str]().union(*(one | other for one, other in names))
    if wanted.owned and not any(found[word] for word in wanted.owned):
        return
    heavy = wanted.words - wanted.slight
    if heavy and max(found[word] for word in heavy) < _SURE:
        return  # nothing but words that may ask for something else
    others = [
        word
        for word in weights
        if word not in somebody and (word not in wanted.slight or word in wanted.needed)
    ]
    if somebody and others and not any(found[word] for word in others):
        return
    # A word of the title or of many sentences does not tell them apart.
    rare = {}
    for word in weights:
        most = max((one[word] for one in inside), default=0.0)
        n_places = sum(one[word] > 0 for one in inside) + (titled[word] >= max(most, _SURE))
        rare[word] = max(1, n_places) ** -_SPREAD
    known = wanted.words | about
    lettered = [any(re.search(rf"\b{one}\b", text) for one in wanted.letters) for text in source.sentences]
    # "Flat stuff." says nothing but the title.
    empty = [
        bool(words & about) and len(words - about) <= 1 and not numbers_in(one)
        for one, words in zip(source.sentences, pieces, strict=True)
    ]
    fitting = [
        not (empty[n] and len(empty) > 1)
        and (lettered[n] or not any(lettered))
        and (wanted.holds is None or wanted.holds.search(one) is not None)
        and (not wanted.is_person or tells_somebody(one, known))
        and not repeats([one])
        and _goes_that_way(wanted, one, inside[n])
        for n, one in enumerate(source.sentences)
    ]
    is_typed = wanted.holds is not None or wanted.is_person
    for n, sentence in enumerate(source.sentences):
        if not fitting[n]:
            continue
        near = (*inside[max(0, n - 1) : n], *inside[n + 1 : n + 2])
        own = sum(weights[word] * rare[word] * inside[n][word] for word in weights)
        # A word in the sentence is worth no less than it would be in the title, however often it is used.
        worth = {
            word: max(_TITLE_WORTH * titled[word], *(_NEAR_WORTH * one[word] for one in near), 0.0)
            for word in weights
        }
        said = sum(weights[word] * max(rare[word] * inside[n][word], worth[word]) for word in weights)
        hinted = max((_closeness(word, pieces[n]) for word in wanted.hints), default=0.0)
        # The first sentence often tells what a note is about.
        is_first = (is_typed or all(titled.values())) and not any(fitting[:n]) and any(titled.values())
        is_only = is_first or (is_typed and sum(fitting) <= _FEW and any(titled.values()))
        if not own and not hinted and not is_only:
            continue
        score = (said + _OWN_WORTH * own) / total + _HINT_WORTH * hinted
        if wanted.likely is not None and wanted.likely.search(sentence):
            score += _LIKELY_WORTH
        score += _ASKED_WORTH * max((inside[n][word] for word in wanted.asked), default=0.0)
        is_sure = own > 0.0 and all(
            max(inside[n][word], titled[word]) >= _SURE for word in wanted.words - FRAME
        )
        yield score * coverage + 0.01 * len(wanted.context & pieces[n]), sentence, is_sure


def _goes_that_way(wanted: Wanted, sentence: str, found: Mapping[str, float]) -> bool:
    """Return whether a sentence is about the way back, if the question is: "the cabin on the ferry home"."""
    if not wanted.way:
        return True
    if _LABELLED_BACK.match(sentence):
        return True
    others = wanted.words - wanted.way - wanted.slight - FRAME
    return BACK.search(sentence) is not None and (not others or any(found[word] for word in others))


def _closeness(word: str, words: frozenset[str]) -> float:
    """Return how close the words of a text come to one of the question."""
    if word in words:
        return 1.0
    meanings = meanings_of(word)
    return max((meanings[one] for one in words if one in meanings), default=0.0)


def _candidates(source: Source, pieces: Sequence[frozenset[str]]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each sentence with its words, then two in a row of what the user told, where it takes both."""
    yield from zip(source.sentences, pieces, strict=True)
    if source.kind == "told":
        for n, (one, other) in enumerate(pairwise(source.sentences)):
            if len(one) + len(other) < _LONGEST_QUOTED:
                yield f"{one} {other}", pieces[n] | pieces[n + 1]


def repeats(sentences: Iterable[str]) -> bool:
    """Return whether an answer is too long, or has three words in a row too often."""
    words = " ".join(sentences).split()
    triples = Counter(zip(words, words[1:], words[2:], strict=False))
    return len(words) > MOST_WORDS or max(triples.values(), default=0) > _MOST_REPEATED

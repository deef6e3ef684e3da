"""The sentence of a document or of the user that may answer a question, where the model does not find it.

A sentence is taken if its source has more than half of the question's words, and its numbers and names, and
if it holds what was asked for: a time for "when", a price for "how much does it cost".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from shepherd._native.rank import ASSISTANT_ANSWER, ASSISTANT_QUESTION
from shepherd._native.text import STOP_WORDS, keywords
from shepherd.memory.discourse import assistants
from shepherd.prompt.archive_policy import is_statement
from shepherd.prompt.concepts import are_related, content_words
from shepherd.prompt.fact_profiles import names_of
from shepherd.prompt.plan import Part
from shepherd.prompt.questions import Question, relations_in
from shepherd.sentences import is_question, split_sentences
from shepherd.types import Fact, Message, SearchResult

__all__ = ["MOST_WORDS", "Kind", "Quote", "Source", "quotation", "repeats", "sources_of"]

# Text of a document, what the user said, and what he imported or entered as the answer to a question.
Kind = Literal["document", "told", "stored"]

MOST_WORDS = 60  # of an answer to one question
_MOST_REPEATED = 2  # times that the same three words can stand in an answer
_LONGEST_QUOTED = 240  # characters of a sentence of the user
_NUMBER = re.compile(r"\d+")
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
_LABELLED = re.compile(r"[^.:!?]{1,40}: +\S")
_ENDS = (".", "!")
_CLOSING = "\"')]*_\u201d\u2019"
_LONGEST_SECTION = 1500  # characters of a text without headings


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence with the title of its document, "" for other kinds.

    It `is_sure` if it, with what it is about, has all words of the question.
    """

    kind: Kind
    title: str
    sentence: str
    is_sure: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """Sentences that can be quoted: a section of a document, or what the user said or stored once.

    `title` names it for readers; `about` has the title and the headings, or the question that was stored,
    whose words count for each sentence.
    """

    kind: Kind
    title: str
    about: str
    sentences: Sequence[str]


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
    found += [_told(message.raw) for message in users[1:]]
    return [*found, *(source for memory in memories for source in _of_memory(memory))]


def _of_memory(memory: SearchResult) -> Iterator[Source]:
    """Yield what the user said, and an answer that was imported or entered by hand: no assistant's words."""
    by_assistants = assistants(memory.question, memory.answer, memory.source)
    if not by_assistants & ASSISTANT_QUESTION:
        yield _told(memory.question)
    if not by_assistants & ASSISTANT_ANSWER:
        about = memory.question if is_question(memory.question) else ""
        yield Source("stored", "", about, _short_sentences(memory.answer))


def _told(text: str) -> Source:
    """Return what the user stated in a text, neither questions nor tasks."""
    return Source("told", "", "", [one for one in _short_sentences(text) if is_statement(one)])


def _short_sentences(text: str) -> list[str]:
    said = [sentence for sentence in split_sentences(text) if not is_question(sentence)]
    return [sentence for sentence in said if len(sentence) <= _LONGEST_QUOTED]


def _sections(title: str, text: str) -> Iterator[Source]:
    """Yield the sections of a document, each with the first heading besides its own."""
    first, heading, size = "", "", 0
    lines: list[str] = []
    for line in (*text.splitlines(), "# "):
        is_heading = _HEADING.match(line) is not None
        if is_heading or (size > _LONGEST_SECTION and not line.strip()):
            if sentences := list(_quotable(lines)):
                yield Source("document", title, f"{title} {first} {heading}", sentences)
            lines, size = [], 0
        if is_heading:
            heading = line.lstrip("# ")
            first = first or heading
        else:
            lines.append(line)
            size += len(line)


def _quotable(lines: Sequence[str]) -> Iterator[str]:
    """Yield the items of lists, lines such as "Rent: 900", and the whole sentences of running text."""
    blocks: list[list[str]] = [[]]
    for line in _without_tables(lines):
        if not line.strip() or _ITEM.match(line) or _LABELLED.match(line):
            blocks.append([])
        if line.strip():
            blocks[-1].append(line)
    for block in filter(None, blocks):
        mark = _ITEM.match(block[0])
        block[0] = block[0][mark.end() if mark else 0 :]
        is_item = mark or _LABELLED.match(block[0])
        for sentence in split_sentences("\n".join(block)):
            if is_item or sentence.rstrip(_CLOSING).endswith(_ENDS):
                yield " ".join(sentence.split())


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


# ---- what is asked for

_NUMERAL = (
    r"\b(?:\d[\d.,:/]*|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen"
    r"|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|half"
    r"|several|few|dozen|both|no)"
)
_SOME = rf"(?:{_NUMERAL}|\b(?:an?|whole|all|another))"
_SPAN = (
    r"(?:seconds?|minutes?|hours?|days?|nights?|weeks?|weekends?|months?|years?|spring|summer|autumn|fall"
    r"|winter)"
)
_MONTH = (
    r"(?:january|february|(?-i:March)|april|(?-i:May)|june|july|august|september|october|november|december)"
)
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_MONEY = (
    r"[$\u00a3\u20ac\u00a5]|\b(?:pounds?|dollars?|euros?|cents?|pence|kroner|kr|francs?|yen|rupees?|usd|eur|gbp|chf|sek|nok"
    r"|dkk|free|nothing)\b"
)
# A measure that "how …" asks for. Its adjective need not be in the answer.
_MEASURES = {
    "long": rf"{_SOME}\W+(?:\w+\W+)?{_SPAN}|\b(?:hour|day|week|month|year)long\b"
    rf"|{_NUMERAL}\W*(?:cm|mm|m|km|met(?:re|er)s?|feet|inch(?:es)?|h|min)\b",
    "often": rf"\b(?:every|each|once|twice|daily|weekly|monthly|yearly|always|never|times|{_DAY})\b",
    "old": rf"{_NUMERAL}\W+(?:years?|months?|weeks?)\b|\b(?:aged?|turn(?:s|ed)|born|built in)\b",
    "hot": r"\d\W*(?:degrees|\u00b0|c\b|f\b)|\bdegrees\b",
    "far": rf"{_SOME}\W*(?:km|kilomet|miles?|met(?:re|er)|m\b|minutes?|hours?)",
    "tall": r"\d\W*(?:cm|mm|m|met(?:re|er)s?|feet|foot|ft|inch(?:es)?)\b",
    "heavy": rf"{_NUMERAL}\W*(?:kg|g|kilos?|(?:kilo)?gram(?:me)?s?|pounds?|lbs?|stones?|ton(?:ne)?s?)\b",
    "much": rf"\b{_NUMERAL}\b|{_MONEY}",
    "many": rf"\b{_NUMERAL}\b",
    "": rf"\b{_NUMERAL}\b",
}
_SAME = {
    **dict.fromkeys(("cold", "warm"), "hot"),
    **dict.fromkeys(
        ("high", "large", "big", "wide", "deep", "thick", "fast", "strong", "loud", "bright"), ""
    ),
}
_TIME = (
    rf"\d{{1,2}}[:.]\d\d|\b(?:{_DAY}|{_MONTH}|{_SPAN}|\d{{4}}|\d+(?:st|nd|rd|th)|(?:at|after|before|until|till|since|from|by|past"
    rf"|week|in)\W+{_NUMERAL}|[ap]\.?m|o['\u2019]clock|noon|midnight|morning|afternoon|evening|tonight|today|tomorrow|yesterday"
    r"|daily|easter|christmas|holidays|now|soon|ago|always|never|birthday)\b"
)
_UNITS = {
    "gram": "g(?:ram)?",
    "kilo": "(?:kg|kilo)",
    "kilogram": "(?:kg|kilo)",
    "litre": "l(?:it)?",
    "liter": "l(?:it)?",
    "minute": "min",
    "hour": "h(?:our|rs?)?",
    "metre": "m(?:et)?",
    "meter": "m(?:et)?",
    "people": "(?:people|persons?)",
    "person": "(?:people|persons?)",
}
_HOW = re.compile(r"\bhow\s+(\w+)", re.IGNORECASE)
_NO_MEASURE = frozenset(
    [
        "is",
        "are",
        "am",
        "was",
        "were",
        "do",
        "does",
        "did",
        "have",
        "has",
        "had",
        "can",
        "could",
        "will",
        "would",
        "should",
        "must",
        "may",
        "might",
        "to",
        "about",
        "come",
        "i",
        "you",
        "we",
        "he",
        "she",
        "it",
        "they",
        "the",
        "my",
    ]
)
_CLOCK = (
    r"\d{1,2}[:.]\d\d|\b(?:\d+\W*[ap]\.?m|noon|midnight|(?:half|quarter)\W+(?:past|to)|o['\u2019]clock|(?:at|after|before|until)"
    rf"\W+{_NUMERAL}(?!\W*(?:{_MONTH}|%|degrees)))\b"
)
_WHEN = re.compile(
    r"\W*(?:and\s+)?(?:(?:at|on|in|by|from|since|until|till)\s+)?(?:when|(?:what|which)\s+(?P<unit>time|date|days?|month|year))\b",
    re.IGNORECASE,
)
_WHO = re.compile(r"\b(?:who|whom|whose)\b", re.IGNORECASE)
_COSTS = frozenset(("cost", "pay", "price", "charge", "spend", "earn", "paid", "worth"))
_LASTS = frozenset(("take", "last", "stay"))
_NAME = re.compile(r"(?<=\w)[,;]?\s+([A-Z][\w-]*)")
_YES_OR_NO = re.compile(
    r"\W*(?:and\s+)?(?:is|are|was|were|do|does|did|has|have|can|could|will)\b", re.IGNORECASE
)
_BIRTH = re.compile(r"\b(?:birthday|birth date|date of birth)\b", re.IGNORECASE)
# Words that say nothing about what a text has to hold.
_VAGUE = frozenset(content_words("get got need use using go going like again want still mr mrs ms dr"))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The content of a question, which a sentence has to match.

    `words` are its content words, `needed` numbers and names that the source has to have, `context` the words
    of the question before it, `holds` what the sentence has to hold.
    """

    words: frozenset[str]
    needed: frozenset[str]
    context: frozenset[str]
    holds: re.Pattern[str] | None
    is_person: bool = False
    is_yes_or_no: bool = False


def _wanted(question: Question) -> _Wanted:
    text = question.text
    words, context = _content(text), _content(question.before)
    words = words - _VAGUE if len(words - _VAGUE) > 1 else words
    measured = _HOW.search(text)
    adjective = measured[1].casefold() if measured else ""
    holds = None
    if measured and adjective not in _NO_MEASURE:
        measure = _SAME.get(adjective, adjective)
        pattern = _MEASURES.get(measure)
        verbs = _LASTS if adjective == "long" else frozenset[str]()
        if adjective == "much" and words & _COSTS:
            pattern, verbs = _MONEY, _COSTS
        if pattern is not None:
            named = words - {adjective, *keywords(adjective)}
            words = named - verbs or named or words
            if adjective == "old":  # "Leo is 7."
                who = "|".join(re.findall(r"\w+", text[measured.end() :]))
                pattern = (
                    rf"{pattern}|\b(?:{who})\W+(?:is|am|are)\W+(?:\w+\W+)?{_NUMERAL}"
                    r"(?=\W*(?:$|[.,;!)]|(?:and|but|now|already)\b))"
                )
            if adjective == "many" and (counted := _counted(text)):
                pattern = (
                    rf"\b{_NUMERAL}\W+(?:\w+\W+){{0,2}}?{counted}|{counted}\w*:\s*\d"
                    rf"|\b(?:feeds?|serves?|seats?|sleeps?|fits?)\W+{_NUMERAL}"
                )
            holds = re.compile(pattern, re.IGNORECASE)
    elif asks_when := _WHEN.match(text):
        unit = (asks_when["unit"] or "").casefold()
        words = words.difference(keywords(unit)) or words
        holds = re.compile(_CLOCK if unit == "time" else _TIME, re.IGNORECASE)
    elif _BIRTH.search(text):
        holds = re.compile(rf"\d[./]\d|\b{_MONTH}\b", re.IGNORECASE)
    names = {word for name in _NAME.findall(text) for word in keywords(name)} - STOP_WORDS
    relations = {word for relation in relations_in(text) for word in keywords(relation)}
    needed = frozenset({*_NUMBER.findall(text), *names, *relations}) - _VAGUE
    if not words:  # "And when?"
        words, context = context, frozenset()
    is_yes_or_no = _YES_OR_NO.match(text) is not None
    return _Wanted(words, needed, context, holds, _WHO.search(text) is not None, is_yes_or_no)


def _content(text: str) -> frozenset[str]:
    return frozenset(content_words(text))


def _counted(text: str) -> str:
    """Return how the word of what is counted begins: "bike" of "how many bikes"."""
    found = re.search(r"\bhow many\s+(\w+)", text, re.IGNORECASE)
    word = found[1].casefold() if found else ""
    if unit := _UNITS.get(word.removesuffix("s")):
        return unit
    return "" if word.casefold() in _NO_MEASURE else re.escape(word.removesuffix("s").removesuffix("ie"))


# ---- the sentence


def quotation(question: Question, sources: Iterable[Source], facts: Sequence[Fact] = ()) -> Quote | None:
    """Return the sentence that may answer a question; the first of equals.

    By `facts` such as cat_name, "my cat" and her name mean the same.
    """
    wanted, names = _wanted(question), names_of(facts)
    best, found = 0.0, None
    for source in sources:
        for score, sentence, is_sure in _scored(wanted, source, names):
            if score > best:
                is_his = _has_same_owner(question.text, sentence)
                best, found = score, Quote(source.kind, source.title, sentence, is_sure and is_his)
    return found


def _has_same_owner(question: str, sentence: str) -> bool:
    """Return whether "my cat" of a question is not "my neighbour's cat" of a sentence."""
    things = re.findall(r"\b(?:my|our) (\w+)", question, re.IGNORECASE)
    return all(
        re.search(rf"\b(?:my|our) (?:\w+ )?{thing}|\b(?:a|an|the) (?:\w+ )?{thing}", sentence, re.IGNORECASE)
        or not re.search(rf"\b{thing}", sentence, re.IGNORECASE)
        for thing in things
    )


def _scored(
    wanted: _Wanted, source: Source, names: Sequence[tuple[frozenset[str], frozenset[str]]]
) -> Iterator[tuple[float, str, bool]]:
    """Yield the sentences of a source that may answer, with their worth, and whether they have all words."""

    def words_of(text: str) -> frozenset[str]:
        words = _content(text)
        for one, other in names:
            if one <= words or other <= words:
                words |= one | other
        return words

    about, pieces = words_of(source.about), [words_of(sentence) for sentence in source.sentences]
    if source.kind == "stored":  # the answer to this question
        pieces = [words | about for words in pieces]
    # Other words for the same thing are found in documents; in talk they are too often about something else.
    is_document = source.kind == "document"
    meant = {word: _meant_by(word, about.union(*pieces)) if is_document else {word} for word in wanted.words}
    told = about.union(*pieces) | set(_NUMBER.findall(" ".join((source.about, *source.sentences))))
    if not wanted.needed <= told or (wanted.context and not wanted.context & told):
        return
    places = {word: sum(not same.isdisjoint(one) for one in (about, *pieces)) for word, same in meant.items()}
    n_found = sum(map(bool, places.values()))
    is_titled = is_document and any(not same.isdisjoint(about) for same in meant.values())
    # What the title names may be told in other words.
    is_lenient = is_titled and not wanted.is_yes_or_no
    if 3 * n_found < len(places) if is_lenient else 2 * n_found <= len(places):
        return
    fitting = [wanted.holds is not None and wanted.holds.search(one) is not None for one in source.sentences]
    for n, (sentence, words) in enumerate(_candidates(source, pieces)):
        # A word of the title or of many sentences does not tell them apart.
        matched = [word for word, same in meant.items() if not same.isdisjoint(words)]
        score = sum(places[word] ** -2 * (1.0 if word in words else 0.6) for word in matched)
        if not score and n < len(fitting) and fitting[n] and sum(fitting) == 1 and is_titled:
            score = 0.05  # the only sentence of its document that has a time, a price …
        is_answer = wanted.holds is None or wanted.holds.search(sentence)
        if not score or not is_answer or repeats([sentence]):
            continue
        if wanted.is_person and _names_somebody(sentence, wanted.words):
            score *= 1.5
        score *= n_found / len(places)
        yield (
            score + 0.01 * len(wanted.context & words),
            sentence,
            bool(matched) and wanted.words <= words | about,
        )


def _meant_by(word: str, words: Iterable[str]) -> set[str]:
    """Return those of the words that are this one, or mean the same thing."""
    return {other for other in words if are_related(word, other)}


def _candidates(source: Source, pieces: Sequence[frozenset[str]]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each sentence with its words, then two in a row of what the user told, where it takes both."""
    yield from zip(source.sentences, pieces, strict=True)
    if source.kind == "told":
        for n, (one, other) in enumerate(pairwise(source.sentences)):
            if len(one) + len(other) < _LONGEST_QUOTED:
                yield f"{one} {other}", pieces[n] | pieces[n + 1]


def _names_somebody(sentence: str, asked: frozenset[str]) -> bool:
    """Return whether a sentence has a word with a capital that may be a name and is not in the question."""
    for found in _WORD.finditer(sentence):
        word = found[0]
        if word[0].isupper() and word != "I" and not _content(word) <= asked:
            begins = found.start() == 0
            if not begins or word.casefold() not in STOP_WORDS:
                return True
    return False


def repeats(sentences: Iterable[str]) -> bool:
    """Return whether an answer is too long, or has three words in a row too often."""
    words = " ".join(sentences).split()
    triples = Counter(zip(words, words[1:], words[2:], strict=False))
    return len(words) > MOST_WORDS or max(triples.values(), default=0) > _MOST_REPEATED

"""The questions of a message, each by itself, for a model that answers one at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from shepherd.claims.wordings import definition
from shepherd.prompt.archive_policy import is_statement
from shepherd.prompt.requests import indirect_request
from shepherd.sentences import is_question, split_sentences

__all__ = [
    "Question",
    "asks_by_form",
    "asks_for_no_place",
    "begins_question",
    "core_of",
    "open_form",
    "questions_in",
    "relations_in",
]

_WH = r"(?:(?:what|where|who|when|how)s?|whose|whom|which|why)"
_BE = r"(?:is|are|am|was|were|do|does|did|has|have|had|can|could|will|would|should|must)"
_SUBJECT = r"(?:i|you|we|he|she|it|they|my|our|your|his|her|their|the|a|an|this|that)"
_QUESTION = re.compile(rf"\s*(?:and\s+|or\s+|but\s+)?{_WH}\b", re.IGNORECASE)
_REMINDS = re.compile(
    r"\b(?:give|tell|show|remind) me\b|\bi (?:forgot|forget) (?:what|who|when|where|how)\b", re.IGNORECASE
)
# "…, where I live" is a question of its own behind these, elsewhere a clause about time or place.
_INDIRECT = re.compile(r"\b(?:tell|know|remember|remind|forgot|forget|say|wonder)\b", re.IGNORECASE)
_AND = r",?\s+(?:and|but|or)\s+(?:also\s+)?"
_ASKS_NEXT = (
    rf"(?:in|on|at|for|from|with|to)\s+(?:what|which|whom)\s+(?:\w+\s+)?{_BE}\b"
    rf"|(?:whats?|whos?|whose|whom|which)\b|(?:wheres?|whens?|hows?|why)\b(?!\s+{_SUBJECT}\b)"
    rf"|{_BE}\s+{_SUBJECT}\b|(?:give|tell|show|remind)\s+me\b"
)
_COMMA = rf",\s+(?=(?!\w+\s+{_SUBJECT}\b){_WH}(?:['\u2019]s|\s+(?:\w+\s+){{0,2}}?{_BE})\b)"
_CLAUSE = r",\s+(?:and|or|but)\s+(?=(?:is|are|was|were|do|does|did|can|will)\s+\w)"
_NEXT = re.compile(rf"{_AND}(?={_ASKS_NEXT})|{_CLAUSE}|{_COMMA}", re.IGNORECASE)
_NEXT_INDIRECT = re.compile(rf"{_AND}(?={_WH}\b|{_ASKS_NEXT})|,\s+(?={_WH}\b)", re.IGNORECASE)
_ENDS_WITH_WH = re.compile(rf"(?:^|\s){_WH}[\s?]*$", re.IGNORECASE)
_ASKS = re.compile(rf".*\b{_WH}\b|\s*{_BE}\b|.*\b(?:give|tell|show|remind)\s+me\b", re.IGNORECASE | re.DOTALL)
# Words of which the beginning of a question consists: "Can you tell me, …".
_OPENING = re.compile(
    r"(?:(?:hi|hello|hey|please|so|well|and|can|could|would|will|you|do|tell|give|me|remind|remember|know|say|just|also)\b\W*)+",
    re.IGNORECASE,
)
_ONLY_WH = re.compile(rf"(?:and\s+)?{_WH}(?:\s+(?:else|so|long|often|much))?[\s?]*", re.IGNORECASE)
# "What are my name and my age": two things of one question.
_LISTED = re.compile(
    r"(?P<head>.*?\b(?:(?:what|when|where|who|how old)(?:['\u2019]s|\s+is|\s+are)|(?:tell|give|show) me"
    r"|remind me of|know|remember)\s+)"
    r"(?P<things>(?:my|our)\s+[^?]+?\s+and\s+[^?]+?)(?P<end>\s+(?:called|named))?[\s?]*",
    re.IGNORECASE,
)
# "My dog's name and breed?"
_BARE_LIST = re.compile(
    r"(?P<owner>(?:(?:my|our)\s+)?[\w-]+['\u2019]s)\s+(?P<one>\w+)\s+and\s+(?P<other>\w+)[\s?]*",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r",?\s+and\s+|,\s+", re.IGNORECASE)
_MOST_WORDS = 4  # of each of these things
_LONGEST_LIST = 500  # characters; the time to read a list grows with the cube of its length
_NO_THING = re.compile(rf"\b(?:on|of|for|in|to|with|from|at|about|between|by|{_WH}|{_BE})\b", re.IGNORECASE)
_OWNER = re.compile(r"(?:my|our)\b(?:\s+\w+['\u2019]s?(?=\s))*", re.IGNORECASE)
_HAS_OWNER = re.compile(r"(?:my|our|the|his|her|their|its)\b|\w+['\u2019]s\b", re.IGNORECASE)
_PRONOUN = re.compile(
    r"\b(?:(?P<whose>his|its|their|her(?=\s+(?!and\b|or\b)\w))|he|she|it|they|him|her|them"
    r"|(?<!is )(?<!are )there)\b",
    re.IGNORECASE,
)
_THERE = re.compile(r"(?<!is )(?<!are )\bthere\b", re.IGNORECASE)
_ATTACHED = re.compile(r"(?<!\S)@(?:\"[^\"\n]+\"|\S*[./]\w+)(?=[\s,;:?!.]|$)[,;:]?")
_MY = re.compile(r"\b(?:my|our)\s+(\w+)", re.IGNORECASE)
_COUNTED = re.compile(r"\bhow many (\w+) (?:do|have) (?:i|we)\b", re.IGNORECASE)
_NAME = re.compile(r"(?<=\s)[A-Z][\w-]*(?:\s+[A-Z][\w-]*)*")


# Where a message may begin to ask behind what it tells, and where it may go on to tell something.
_CUT = re.compile(r"(?:,|;|:|\s[-\u2013\u2014])\s+(?:and\s+|so\s+|but\s+)?")
# What people look up to tell it to somebody: "They want my passport number".
_ENTERED = (
    r"(?:numbers?|size|e-?mail|address|postcode|name|surname|plate|reg|registration|code|birthday"
    r"|date of birth|age|height|weight|blood (?:type|group)|id)"
)
_BEFORE = r"\W*(?:(?:and|so|but|well|please|sorry|now|then|also|ok|okay|hey|hi|hello)\W+)*"
_BEFORE_IT = re.compile(_BEFORE, re.IGNORECASE)
_STARTS = re.compile(
    rf"{_BEFORE}(?!(?:when|where|while|what|how|who)\s+{_SUBJECT}\b)"
    r"(?:(?:at|in|on|for|to|from|by|with|after|before|until|under|of|about|since)\s+)?"
    rf"(?:{_WH}(?:['\u2019]?s|['\u2019]re|['\u2019]d)?\b"
    rf"|{_BE}(?:n['\u2019]t)?\s+(?:{_SUBJECT}|there|any\w*|some\w*)\b|(?:tell|remind|give|show)\s+me\b"
    r"|any idea\b|got any\b|(?:my|our)\s+[\w'\u2019 -]{2,40}\bplease\b"
    rf"|(?:my|our)\s+(?:[\w'\u2019-]+\s+){{0,4}}?{_ENTERED}\W*$)",
    re.IGNORECASE,
)
# "Am I over 40, I mean how old am I?" asks what stands behind.
_CORRECTED = re.compile(
    rf"^.*(?:,|\s[-\u2013\u2014])\s+(?:i mean|or rather|i meant)\W+(?={_WH}\b|{_BE}\s+{_SUBJECT}\b)",
    re.IGNORECASE,
)
# Behind what somebody wants to know: "…, could you remind me please?"
_COURTESY = re.compile(
    r"(?<=\w)(?:,|\s[-\u2013\u2014]|;)\s+(?:so\s+|please\s+)?(?:can|could|would|will)\s+you\s+(?:please\s+)?"
    r"(?:remind|tell|help)\s+me(?:\s+(?:again|out|quickly))?(?:,?\s+please)?\W*$",
    re.IGNORECASE,
)
_ASKED = re.compile(
    r"\b(?<!i )(?:know|ask(?:s|ed|ing)?|wonder(?:s|ing)?|wants?|remember|recall|forgot(?:ten)?)\s+"
    rf"(?:me\s+|us\s+)?(?={_WH}\b)"
    r"|\b(?:asks?|asked|asking) (?:me |us )?for (?=(?:my|our)\b)|\b(?:to|must|should) know (?=(?:my|our)\b)"
    r"|\b(?:needs?|wants?|asks?|asked|asking|requires?|after)\s+(?:me\s+|us\s+)?(?:for\s+)?(?=(?:my|our)\s+(?:[\w'\u2019-]+\s+){0,4}?"
    rf"{_ENTERED}\b(?:\s+(?:again|quick|quickly|now|please|here|first|too))*\W*(?:$|[,;]))",
    re.IGNORECASE,
)
# "I need my club, can you tell me?"
_NEEDED = re.compile(r"\bi (?:need|forgot|forget|want|lost) (?=(?:my|our)\b)", re.IGNORECASE)
_GOES_ON = re.compile(
    r"(?:the|it|its|it['\u2019]s|i|i['\u2019]\w+|he|she|they|we|my|because|since|as|please|thanks|thank|dear"
    r"|again|love|mate|for|to|in case|so|fill me in|help me)\b",
    re.IGNORECASE,
)
_WHOM = r"(?P<who>(?:(?:my|our)(?: [\w'\u2019-]+){1,3}?|i|we|(?-i:[A-ZÀ-Þ])[\w'\u2019-]+))"
_SOMEWHERE = (
    r"(?!(?:an?|the|my|our|your|his|her|its|their|this|that|these|those|which|what|any|some"
    r"|the same|home|night|weekends?|free|fun|money|myself|himself|herself)\b)"
    r"(?P<where>[\w'\u2019&.-]+)"
    r"(?: (?!(?:in|on|at|for|with|from|during|when|while|every|all|if)\b)[\w'\u2019&.-]+){0,2}?"
)
_BY_NOW = r"(?:,? (?:still|now|right now|at the moment|these days|currently|any ?more|or not|then))?\W*"
# Questions that want a yes or a no, and what they ask for.
_CLOSED = [
    (re.compile(rf"\W*(?:(?:and|so) )?{pattern}{_BY_NOW}", re.IGNORECASE), form)
    for pattern, form in (
        (rf"(?P<verb>do|does) {_WHOM} (?:still )?live in {_SOMEWHERE}", "Where {verb} {who} live?"),
        (
            rf"(?P<verb>do|does) {_WHOM} (?:still )?work (?:at|for) {_SOMEWHERE}",
            "Where {verb} {who} work?",
        ),
        (rf"(?P<verb>am|is) {_WHOM} (?:already )?\d{{1,3}}(?: years? old)?", "How old {verb} {who}?"),
        (rf"(?P<verb>am|is) {_WHOM} (?:called|named) {_SOMEWHERE}", "What {verb} {who} called?"),
    )
]

_LIVING = re.compile(rf"\W*(?:(?:and|so) )?(?:do|does) {_WHOM} (?:still )?(?:live|work) \w", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Question:
    """A question. `before` is the one that its "it" or "there" refers to, "" for none."""

    text: str
    before: str = ""

    @property
    def query(self) -> str:
        """Text to search with."""
        return f"{self.before} {self.text}".strip()


def questions_in(text: str) -> list[Question]:
    """Return the questions of a message that asks several; else the message as one question.

    So is one that states something besides. In a later question "he" or "it" is replaced by whom the earlier
    one named, if that is sure. "@lease.md", which attaches a document, is no part of a question.
    """
    text = _ATTACHED.sub("", text).strip() or text
    found: list[Question] = []
    for sentence in split_sentences(text, clauses=True):
        if begins_question(sentence):
            for part in _parts(sentence):
                found.append(_resolved(part, found[-1] if found else None))
        elif is_statement(sentence):
            return [Question(text)]
    return found if len(found) > 1 else [Question(text)]


def asks_by_form(text: str) -> bool:
    """Return whether a text has the form of a question, marked or not: "who is minding the dog"."""
    return is_question(text) or _STARTS.match(text) is not None


def asks_for_no_place(text: str) -> bool:
    """Return whether a question is about living or working, and names no place: "Do I live in a flat?"."""
    return _LIVING.match(text) is not None and not open_form(text)


def open_form(text: str) -> str:
    """Return the open question whose answer a closed one has, too, or "".

    "Do I live in Rome?" is answered by where you live.
    """
    for pattern, form in _CLOSED:
        if match := pattern.fullmatch(text):
            where = match.groupdict().get("where") or ""
            if where[:1].islower() and not text.islower():
                return ""  # "Do I live in sin?"
            return form.format(verb=match["verb"].casefold(), who=match["who"])
    return ""


@lru_cache(maxsize=8)  # each question of a message asks for that of the message
def core_of(text: str) -> tuple[str, str]:
    """Return the part of a text that asks, and what it tells besides: "my card is lost, what's my bank?".

    A text that nowhere begins to ask is returned whole.
    """
    text = _CORRECTED.sub("", text)
    sentences = split_sentences(text, clauses=True)
    for n in range(len(sentences) - 1, -1, -1):
        sentence = _COURTESY.sub("", sentences[n]) or sentences[n]
        if n and _OPENING.fullmatch(sentence):
            continue  # "…, can you tell me?"
        begin = _begin(sentence)
        needed = _NEEDED if sentence != sentences[n] else _ASKED
        if begin is None and (indirect := _ASKED.search(sentence) or needed.search(sentence)):
            begin = indirect.end()
        if begin is None:
            begin = indirect_request(sentence)
        if begin is None:
            continue
        later = [gap for gap in _CUT.finditer(sentence, begin) if _GOES_ON.match(sentence, gap.end())]
        end = later[0].start() if later else len(sentence)
        around = [*sentences[:n], sentence[:begin], sentence[end:], *sentences[n + 1 :]]
        return sentence[begin:end], " ".join(part.strip(" ,;") for part in around if part.strip(" ,;.?!"))
    return text, ""


def _begin(sentence: str) -> int | None:
    """Return where a sentence begins to ask, None if nowhere."""
    looked_at = 0
    for cut in [0, *(gap.end() for gap in _CUT.finditer(sentence))]:
        if cut < looked_at:
            continue  # in ", and, and, and", what follows is the same for each
        if _STARTS.match(sentence, cut):
            return cut
        looked_at = before.end() if (before := _BEFORE_IT.match(sentence, cut)) else cut
    return None


def begins_question(text: str) -> bool:
    """Return whether a sentence asks something, also where the question mark is left out."""
    return bool(is_question(text) or _QUESTION.match(text) or _STARTS.match(text) or _REMINDS.search(text))


def relations_in(question: str) -> list[str]:
    """Return the user's people and animals that a question is about: "dog" of "my dog"."""
    kinds = [definition(kind) for kind in ("kin", "animal")]
    return [word for word in _MY.findall(question) if any(kind.fullmatch(word) for kind in kinds)]


def _parts(sentence: str) -> list[str]:
    """Return the questions of a sentence, each with a question mark."""
    pieces = [""]
    between = _NEXT_INDIRECT if _INDIRECT.search(sentence) else _NEXT
    begin = 0
    for gap in between.finditer(sentence):
        pieces[-1] = sentence[begin : gap.start()]
        if not _is_whole(pieces[-1]):
            continue
        begin = gap.end()
        pieces.append("")
    pieces[-1] = sentence[begin:]
    return [f"{part.strip(' ,;.?!')}?" for piece in pieces for part in _listed(piece)]


def _is_whole(piece: str) -> bool:
    """Return whether a piece of a sentence asks something by itself.

    "When and where is it?" is one question, and so is "Hello, what is it?".
    """
    asks = _ASKS.match(piece) and not _OPENING.fullmatch(piece.strip())
    return bool(asks) and not _ENDS_WITH_WH.search(piece)


def _listed(part: str) -> list[str]:
    """Return a question for each of the user's things that one question lists."""
    if bare := _BARE_LIST.fullmatch(part):
        return [f"what is {bare['owner']} {thing}" for thing in (bare["one"], bare["other"])]
    found = _LISTED.fullmatch(part) if len(part) <= _LONGEST_LIST else None
    if found is None:
        return [part]
    things = [thing for thing in _BETWEEN.split(found["things"]) if thing]
    if any(len(thing.split()) > _MOST_WORDS or _NO_THING.search(thing) for thing in things):
        return [part]
    owner = _OWNER.match(found["things"])
    whose = owner[0] if owner else "my"
    owned = [thing if _HAS_OWNER.match(thing) else f"{whose} {thing}" for thing in things]
    return [f"{found['head']}{thing}{found['end'] or ''}" for thing in owned]


def _resolved(part: str, previous: Question | None) -> Question:
    """Return the question with a name in place of its pronouns, or with the question they refer to."""
    if previous is None:
        return Question(part)
    if _ONLY_WH.fullmatch(part):
        return Question(part, previous.query)
    if not _PRONOUN.search(part):
        return Question(part)
    named = _antecedent(previous.text)
    if not named or _THERE.search(part):
        return Question(part, previous.query)
    return Question(_PRONOUN.sub(lambda found: f"{named}'s" if found["whose"] else named, part))


def _antecedent(question: str) -> str:
    """Return the people, animals or name that a question is about: "my dog", "Astrid"; "" if not sure."""
    if counted := _COUNTED.search(question):
        return f"my {counted[1]}"
    if relations := relations_in(question):
        return f"my {relations[0]}" if len(relations) == 1 else ""
    names = [name for name in _NAME.findall(question) if name != "I"]
    return str(names[0]) if len(names) == 1 else ""

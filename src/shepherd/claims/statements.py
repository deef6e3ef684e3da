"""Assertions: what a message states about its writer, in so many words, as of now.

A sentence counts only if it is a statement in the first person that a frame begins. Questions, wishes,
suppositions, negations, the past, reported speech and other people's affairs state nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from shepherd.claims.beginnings import joined, with_subject
from shepherd.claims.inversions import standard_english
from shepherd.claims.keys import INSTRUCTIONS, OF_OTHERS
from shepherd.claims.letters import begins_with_letter
from shepherd.claims.material import GAP, own_words
from shepherd.claims.references import with_referents
from shepherd.claims.roles import is_work, role_in
from shepherd.claims.spellings import spelled_out
from shepherd.claims.successors import with_successor
from shepherd.claims.wordings import Frame, Frames, alternatives, frames, rule, words
from shepherd.sentences import is_question, split_sentences

__all__ = ["Assertion", "assertions", "own_sentences", "stating_sentences"]

# Longer messages are pasted material; what somebody says of themselves is short.
_LONGEST_MESSAGE = 4000
_LONGEST_SENTENCE = 400
_LONGEST_INSTRUCTION = 200
_POLITE = re.compile(r"^(?:please|bitte)\s+|[,\s]+(?:please|bitte|thanks|thank you)$", re.IGNORECASE)
# A question that only asks for a yes takes back what it stands behind: "I'm 34, am I?"
_TAG = re.compile(r"(?:\w+(?:n't)? (?:i|we|you|it|he|she|they|that|not)|right|correct)\W*$", re.IGNORECASE)
# "My name is Khan, that's the movie, right?" asks about what was said before.
_ASKS_BACK = re.compile(
    rf"^(?:that|this|it|which|who)\b|\b(?:right|correct|no|oder)\W*$|^{_TAG.pattern}", re.IGNORECASE
)
_EDGE = " \t\r\n\u00bf\u00a1\"'\u201c\u201d\u2018\u2019.,;:!?()[]{}*_~-\u2013\u2014"
_FIRST_PERSON = re.compile(r"(?:i|i'm|i've|we|we're|ich|wir|ik|wij|we)\b", re.IGNORECASE)
_ARTICLE_BEFORE = re.compile(r"(?<!\S)[Aa]\s+\Z")
# Sentences in which somebody still introduces himself.
_INTRODUCTION = 3
_ELLIPTIC = (("elliptic", "I"), ("elliptic ich", "ich"), ("elliptic ik", "ik"))
_GIVEN = re.compile(r"\bgiven (?=my\b)", re.IGNORECASE)
_LABEL = re.compile(r":(?:\s|$)")
_CLAUSE_MARK = re.compile(r"[,;:]\s")
_HAS_HAD = re.compile(r"\b(?:has|have) had\b", re.IGNORECASE)
_CAPITALISED = re.compile(r"\b(?-i:[A-Z])\w+")
_EXCLAIMS = re.compile(
    r"\W*(?:what an?|how (?:nice|lovely|sweet|great|good|cool|funny|sad|strange|wonderful))\b", re.IGNORECASE
)
_REMARK = re.compile(r"\s*,\s*|\s+\(|\s+[-\u2013\u2014]+\s+|\s*[;:]\s+|\.{2,}|!+|\u2026")
_PLACES = ("location", "origin", "birthplace")
# Kinds whose value is a proper name, behind which "and hates the rain" is another statement.
_NAMED = ("name", "last_name", "relative", "married_to", "attribute", "drives", "employer", *_PLACES)
_ADDITION = re.compile(
    r"\s+(?:and|but|und|aber|et|mais|y|pero|e|ma|mas|en|maar)\s+(?-i:[a-z\u00df-\u00ff]).*",
    re.IGNORECASE | re.DOTALL,
)
# "I've moved to Rome for two years", unlike "I moved to Rome for two years".
_PERFECT = re.compile(r"'ve|\b(?:have|has|just|now)\b", re.IGNORECASE)
# Kinds of which there may be several.
_MANY = (
    "allergy", "avoids", "condition", "dislikes", "hobby", "language", "learns", "likes", "plays", "prefers",
    "relative", "uses", "pets", "collects", "any", "favorite", "study", "children", "wears", "diet",
)  # fmt: skip
_COUNTED = ("children", "siblings", "pets")
_LONGEST_ITEM = 2
# Kinds that hold tomorrow, whatever happens today.
_EVEN_TODAY = (
    "name", "last_name", "age", "allergy", "birthday", "birth_year", "relative", "condition", "email",
    "phone",
)  # fmt: skip
# Kinds that say what something has to suit, whoever asks for it.
_NEEDS = ("allergy", "diet", "avoids", "condition", "age")
# Kinds whose values may be compounds, of nouns ("fruits de mer") or of names ("Palma de Mallorca").
_COMPOUND = ("allergy", "avoids", "dislikes", "favorite", "fears", "hobby", "likes", "prefers")
_COMPOUND_NAMES = ("employer", *_PLACES)
# With whom somebody lives who lives "on my own".
_ALONE = ("on my own", "by myself")
# Kinds whose wording has a negation of its own: "I don't eat meat".
_NEGATIVE = ("avoids", "dislikes")


@dataclass(frozen=True, slots=True)
class Assertion:
    """Something that the user states. `value` is the text that may hold the value of a fact.

    `topic` names the relation ("sister"), "" where the kind says it all. `ends`: it holds no longer.
    `changes`: the wording says that it is new. `is_weak`: it may mean something else ("I'm Steve").
    `in_question`: a question names somebody, and tells nothing else: "Where does my sister Zoe live?".
    """

    kind: str
    topic: str
    value: str
    sentence: str
    changes: bool = False
    ends: bool = False
    is_weak: bool = False
    in_question: bool = False


def assertions(message: str) -> list[Assertion]:
    """Return what a message states about its writer, in its order; time is linear in the message."""
    if len(message) > _LONGEST_MESSAGE:
        return []
    found: list[Assertion] = []
    text = own_words(message)
    # "I'm Steve" gives a name only in an introduction, such as after a greeting.
    greets = bool(rule("introducing", begins=True).match(text) or rule("contrast").search(text))
    before = earlier = ""
    for n, (typed, asks) in enumerate(_sentences(text)):
        sentence = with_successor(with_referents(standard_english(typed), before), before)
        sentence = spelled_out(sentence)
        stated = _stated(sentence, typed, asks, greets=greets and n < _INTRODUCTION)
        found += [one for one in stated if not _is_of_it(one, earlier, sentence)]
        before, earlier = typed, f"{earlier} {typed}"
    return found


def _is_of_it(assertion: Assertion, earlier: str, sentence: str) -> bool:
    """Return whether a name is that of something that was spoken of: "I have a new boss, it's Tobias".

    `earlier` are the sentences before this one. Behind a greeting, "it's Tobias" gives the user's own name.
    """
    if assertion.kind != "name":
        return False
    is_it = re.search(rf"\bit(?:'s|s| is) {re.escape(assertion.value)}", sentence, re.IGNORECASE)
    if is_it is None:
        return False
    said = f"{earlier} {sentence[: is_it.start()]}".strip()
    greeting = rule("introducing", begins=True).match(said)
    said = said[greeting.end() if greeting else 0 :]
    return _fillers().fullmatch(said) is None and bool(said.strip(_EDGE))


def stating_sentences(message: str) -> list[str]:
    """Return the sentences of the user's own words without questions, wishes, reports and negations."""
    if len(message) > _LONGEST_MESSAGE:
        return []
    return [
        sentence
        for sentence, asks in _sentences(own_words(message))
        if not asks
        and not rule("questions", begins=True).match(sentence)
        and not _is_unsure(sentence)
        and not rule("negations").search(sentence)
    ]


def own_sentences(message: str) -> list[str]:
    """Return the sentences of the user's own words that are no questions."""
    if (
        len(message) > _LONGEST_MESSAGE
        or rule("not meant").search(message)
        or rule("taken back").search(message)
    ):
        return []
    return [
        sentence
        for sentence, asks in _sentences(own_words(message))
        if not asks and not rule("questions", begins=True).match(sentence)
    ]


def _sentences(text: str) -> Iterator[tuple[str, bool]]:
    """Yield sentences, and whether each is marked as a question."""
    for piece in text.split(GAP):
        for sentence in joined(split_sentences(piece)):
            if len(sentence) <= _LONGEST_SENTENCE:
                yield sentence, is_question(sentence)


def _stated(sentence: str, typed: str, asks: bool, *, greets: bool) -> list[Assertion]:
    reminder = rule("reminding", begins=True).match(sentence)
    if reminder:
        # "Can you remember that I'm vegan?" asks for nothing but that.
        sentence, asks = sentence[reminder.end() :].lstrip(), False
    # "I live in Ulm, she said", "I love Excel, not"
    if _withdrawn().search(sentence):
        return []
    stated = _instructed(sentence, typed) if not asks else []
    stated = stated or _in_clauses(sentence, typed, asks, greets=greets)
    # "Our girls, Isla and Wren" are no girls called Isla.
    if rule("parted").search(sentence):
        return [one for one in stated if one.ends or one.kind != "relative"]
    known = [f" {assertion.value.replace(',', ' ')} " for assertion in stated]
    passing = _named_in_passing(sentence, typed)
    if (asks or _asks_unmarked(sentence)) and not rule("asked to keep", begins=True).match(sentence):
        passing = [replace(one, in_question=True) if one.kind in _NAMED else one for one in passing]
    return [*stated, *(one for one in passing if not any(f" {one.value} " in value for value in known))]


def _asks_unmarked(sentence: str) -> bool:
    begins = rule("questions", begins=True).match(sentence)
    return begins is not None and _EXCLAIMS.match(sentence) is None


def _instructed(sentence: str, typed: str) -> list[Assertion]:
    """Return the sentence as a standing instruction: its conditions belong to it, and no clause stands alone.

    It states nothing about the user, so that neither "never" nor "if I ask" takes it back.
    """
    filler = _fillers().match(sentence)
    text = sentence[filler.end() if filler else 0 :].lstrip(_EDGE)
    for frame in _frames_of_instructions().possible(text):
        match = frame.pattern.match(text)
        if match is None:
            continue
        rest = text[match.end() :]
        stop = frame.stops.search(rest)
        value = _POLITE.sub("", (rest[: stop.start()] if stop else rest).strip(_EDGE)).strip(_EDGE)
        if value and len(value) <= _LONGEST_INSTRUCTION:
            return [Assertion(INSTRUCTIONS, "", value, typed, ends=frame.ends)]
    return []


def _named_in_passing(sentence: str, typed: str) -> list[Assertion]:
    """Return who is named beside a relation, even in a question: "a gift for my brother Tom?"."""
    pairs = [
        (frame, match)
        for frame in _frames_anywhere().possible(sentence)
        for match in frame.pattern.finditer(sentence)
    ]
    # A supposition takes a name back: "if I had a cat, my cat Tofu …".
    plain = rule("polite questions").sub("", sentence)
    if (
        not pairs
        or rule("made up or gone").search(_HAS_HAD.sub("has", _GIVEN.sub("", sentence)))
        or rule("supposed").search(plain)
    ):
        return []
    # Who is named so is there, whatever is asked, planned or denied of them; except in others' words.
    own = [
        (frame, match)
        for frame, match in pairs
        if not _is_of_others(frame, rule("polite questions").sub("", sentence[: match.start()]))
    ]
    return _asserted_by(own, sentence, typed, greets=False)


def _is_of_others(frame: Frame, before: str) -> bool:
    """Return whether what stands before a name reports it, or denies it in the same clause."""
    if rule("reported").search(before):
        return True
    # "I can't have hummus because of my sesame allergy", "No ham, and my son Tom …"
    return frame.kind != "allergy" and rule("negations").search(_CLAUSE_MARK.split(before)[-1]) is not None


def _in_clauses(sentence: str, typed: str, asks: bool, *, greets: bool) -> list[Assertion]:
    found: list[Assertion] = []
    if asks and rule("about the words").search(sentence):
        return found
    # "Could you remember that …?" states it, and "I drive a Fiat, any tips?" asks with its last words.
    asks = asks and not rule("asked to keep", begins=True).match(sentence)
    asked = rule("asked in a word").search(sentence) if asks else None
    if asked is not None:
        sentence, asks = sentence[: asked.start()], False
    # Whether the clause before had the user as its subject: "I live in Ulm and work at …".
    inherits = has_begun = follows_comma = False
    end = begin = 0
    last: tuple[str, int] = ("", 0)
    for match in _clauses().finditer(sentence):
        before, end = sentence[:end], match.end()
        text = match["clause"].strip(_EDGE)
        filler = _fillers().match(text)
        text = text[filler.end() if filler else 0 :].lstrip(_EDGE)
        if not text:
            continue
        if not has_begun:
            text = with_subject(text, sentence[end:])
        if rule("questions", begins=True).match(text) or (asks and rule("asking", begins=True).match(text)):
            if not has_begun and _goes_on(match["mark"], sentence[end:]):
                has_begun, begin = True, match.start()
                continue
            # "I am 34, is it too late?" states something, "I am 34, am I?" does not.
            return [] if _TAG.match(text) or rule("question tags", begins=True).fullmatch(text) else found
        # Behind a wish, a report or a colon stands what is not meant, or said by somebody else; behind "I'd
        # like a recipe", what it has to suit.
        only_needs = _is_unsure(before)
        if has_begun and (_LABEL.search(before, begin) or (only_needs and not _asks_for_thing(before))):
            # "I'm 52 and want to learn to swim, where do I begin?" asks apart from what it states.
            return found if not asks or _asks_apart(text) else []
        if not has_begun:
            has_begun, begin = True, match.start()
        if inherits:
            text = _inherited(text, follows_comma)
        inherits = _FIRST_PERSON.match(text) is not None
        follows_comma = (match["mark"] or "").strip() == ","
        last = (text, len(found))
        stated = _of_clause(text, typed, greets=greets)
        found += [one for one in stated if one.kind in _NEEDS] if only_needs else stated
        if not found and match["mark"] and not match["mark"].strip():
            # "In my story I live in Oslo": no statement of its own without one before it.
            break
    return _unasked(found, *last) if asks else found


def _asks_for_thing(text: str) -> bool:
    """Return whether the beginning of a sentence only asks for something: "I'd like a recipe, ..."."""
    filler = _fillers().match(text)
    asked = text[filler.end() if filler else 0 :].strip(_EDGE)
    return rule("asking for a thing").fullmatch(asked) is not None


def _goes_on(mark: str | None, rest: str) -> bool:
    """Return whether a statement is put beside a question: "what can I cook, I'm vegan"."""
    is_beside = mark is not None and mark.strip() in (",", ";", "-", "\u2013", "\u2014")
    return is_beside and _FIRST_PERSON.match(rest) is not None


def _unasked(found: list[Assertion], text: str, before: int) -> list[Assertion]:
    """Return what a question states before it asks; `text` is its last clause, found after `before` others.

    "I'm in Ulm now and live alone, is it safe?" states something, "I live in Ulm?" asks for it.
    """
    return found if len(found) == before and _asks_apart(text) else []


def _asks_apart(text: str) -> bool:
    """Return whether the clause at the end of a question asks for something else than a yes."""
    return len(text.split()) > 1 and not _ASKS_BACK.search(text)


def _inherited(text: str, follows_comma: bool) -> str:
    # ", like characters and spells" gives examples.
    if follows_comma and text.startswith("like "):
        return text
    for name, subject in _ELLIPTIC:
        if rule(name, begins=True).match(text):
            return f"{subject} {text}"
    return text


def _is_unsure(text: str) -> bool:
    return any(rule(name).search(text) for name in ("unreal", "reported"))


@cache
def _fillers() -> re.Pattern[str]:
    return re.compile(rf"(?:\W*(?<!\w){alternatives('fillers')}(?!\w)\W*)*", re.IGNORECASE)


@cache
def _clauses() -> re.Pattern[str]:
    """Return the pattern of a clause: up to a mark or a conjunction behind which a subject follows."""
    conjunction = alternatives("conjunctions")
    question = alternatives("questions")
    adverb = r"(?:(?:now|tomorrow|tonight|then|currently|today|these days|actually|also|yes|oh|anyway)\s+)?"
    # "Mia, Ben and Will": names of a list, though the one is Dutch for "am".
    name = (
        r"(?-i:[A-Z\u00c0-\u00de][\w'-]+)"
        r"(?=,?\s+(?:and|&|und|et|y|e|en)\s+(?-i:[A-Z\u00c0-\u00de])|\s*(?:[.,!)(]|$))"
    )
    split = (
        rf"(?:(?:\s*[;:\u2013\u2014()]\s*|\s+-\s+|\s*,\s*(?:{conjunction}\s+)?|\s+{conjunction}\s+)(?!{name})"
        rf"(?={adverb}{alternatives('subjects')}(?!\w))|\s*[,:]\s+(?!{name})(?={alternatives('asking')}(?!\w))"
        rf"|\s*[,;:\u2013\u2014(]\s*(?!{name})(?={question}(?!\w))|\s*(?=\u00bf)"
        # People who type quickly leave out the mark between two statements.
        rf"|(?<!\blike)\s+(?={alternatives('run-on')}(?!\w)))"
    )
    return re.compile(rf"(?P<clause>(?:(?!{split}).)+)(?P<mark>{split})?", re.IGNORECASE | re.DOTALL)


@cache
def _withdrawn() -> re.Pattern[str]:
    return re.compile(alternatives("withdrawn"), re.IGNORECASE)


@cache
def _frames_of_instructions() -> Frames:
    return Frames(frame for frame in frames() if frame.kind == INSTRUCTIONS)


@cache
def _frames_anywhere() -> Frames:
    return Frames(frame for frame in frames() if frame.is_anywhere)


@cache
def _frames_of_clauses() -> Frames:
    return Frames(frame for frame in frames() if not frame.is_anywhere and frame.kind != INSTRUCTIONS)


def _of_clause(text: str, sentence: str, *, greets: bool) -> Iterator[Assertion]:
    matches = [
        (frame, match)
        for frame in _frames_of_clauses().possible(text)
        if (match := frame.pattern.match(text))
    ]
    ends = [pair for pair in matches if pair[0].ends]
    states = [pair for pair in matches if not pair[0].ends]
    # "I moved from Bonn to Ulm" is no mere end.
    if any(frame.changes for frame, _ in states):
        ends = []
    found = _asserted_by(ends, text, sentence, greets=greets) or _asserted_by(
        states, text, sentence, greets=greets
    )
    # "My age is 40" has a frame of its own, and is no attribute of any name.
    plain = [assertion for assertion in found if assertion.kind != "attribute"]
    first = {assertion.kind: assertion for assertion in reversed(plain or found)}
    yield from reversed(first.values())


def _asserted_by(
    matches: Iterable[tuple[Frame, re.Match[str]]], text: str, sentence: str, *, greets: bool
) -> list[Assertion]:
    found = (_asserted(frame, match, text, sentence, greets=greets) for frame, match in matches)
    return [assertion for assertion in found if assertion is not None]


def _begin_of_value(match: re.Match[str], text: str) -> int:
    """Return where the value begins; the A of "blood type A negative" is no article of the wording."""
    taken = _ARTICLE_BEFORE.search(text, match.start(), match.end())
    if taken is None or not begins_with_letter(text[taken.start() :]):
        return match.end()
    return taken.start()


def _said_in(rest: str, frame: Frame, kind: str) -> str:
    """Return what stands before the first stop word; "de" is none where it joins a noun: "lait de vache".

    "" where it joins whose it is: "my sister's house" says nothing about houses.
    """
    for stop in frame.stops.finditer(rest):
        if not _joins(rest, stop.start(), kind):
            is_owned = kind in _COMPOUND and rule("owned", begins=True).match(rest, stop.start())
            return "" if is_owned else rest[: stop.start()]
    return rest


def _joins(rest: str, at: int, kind: str) -> bool:
    """Return whether the word there joins what stands around it: "Palma de Mallorca" is one name.

    Nobody knows that of "Valencia de Erasmus": only behind some words a name is what follows a bare "de".
    """
    if kind in _COMPOUND:
        return rule("compounds", begins=True).match(rest, at) is not None
    if kind not in _COMPOUND_NAMES:
        return False
    if rule("compound names", begins=True).match(rest, at):
        return True
    head = rest[:at].split()[-1:]
    has_head = bool(head) and rule("heads of compound names").fullmatch(head[0]) is not None
    return has_head and rule("compound names behind a head", begins=True).match(rest, at) is not None


def _asserted(
    frame: Frame, match: re.Match[str], text: str, sentence: str, *, greets: bool
) -> Assertion | None:
    """Return what the frame finds in the clause; None where the clause takes it back or does not mean it."""
    begin = _begin_of_value(match, text)
    lead, rest = text[match.start() : begin], text[begin:]
    kind = frame.kind.removeprefix(OF_OTHERS)
    value = _without_afterthought(_said_in(rest, frame, kind).strip(_EDGE), kind)
    # "Polish and get by in Czech": languages are names, too, where the first of them is written as one.
    if kind in _NAMED or (kind == "language" and value[:1].isupper()):
        value = _ADDITION.sub("", value).strip(_EDGE)
    # "Claims Adjuster" reports nothing.
    if (
        not value
        or (kind != "fears" and _is_unsure(lead))
        or _is_unsure(_CAPITALISED.sub("", value))
        or (
            kind not in ("detail", "trait", "employment")
            and value not in _ALONE
            and rule("no values", begins=True).match(value)
        )
    ):
        return None
    after = rest[rest.find(value) + len(value) :]
    # "Reach me at a@b.example if it gets long": only the reaching depends on it.
    is_open = not frame.is_anywhere and frame.kind not in ("email", "phone")
    is_taken_back = is_open and rule("unreal", begins=True).match(after)
    if is_taken_back or rule("denied", begins=True).match(after):
        return None
    is_weak = frame.is_weak
    if is_weak and frame.kind == "name":
        if not _may_be_name(value):
            return None
        behind = sentence.partition(value)[2]
        goes_on = rule("introduction in the next clause", begins=True).match(behind)
        is_weak = not (greets or goes_on or rule("introduction", begins=True).match(after))
    is_over = rule("over").search(text) is not None
    # "I'm a nurse and need a plan for tomorrow": what is added speaks of something else.
    own = _ADDITION.sub("", rest)
    if frame.ends:
        # "I'm not a lawyer" ends nothing: nobody said that it was so.
        if rule("only not").search(lead) and not is_over:
            return None
        # "I left Bosch at five", "I don't work at Bosch on Fridays any more"
        behind = sentence.partition(value)[2]
        if behind[:1] not in ("", ",") and rule("not for good", begins=True).match(behind):
            return None
        value = rule("over").sub("", value).strip(_EDGE)
    elif (
        is_over
        or (rule("passing time").search(own) and not frame.changes and kind not in _EVEN_TODAY)
        or rule("past").search(_HAS_HAD.sub("has", own.partition(",")[0]) if frame.is_anywhere else own)
        or rule("undone").search(value)
        # An address may end in ".no", and "3 mai" is a day.
        or (kind not in ("email", "birthday") and rule("negations").search(value))
        or (frame.changes and _is_story(lead, value, sentence))
    ) or (rule("negations").search(lead) and frame.kind not in _NEGATIVE):
        return None
    topic = (match.groupdict().get("topic") or "").casefold()
    changes = frame.changes or rule("changes").search(text) is not None
    # "I moved to decaf", "I now work for peanuts": a name would have a capital letter, if others have.
    if changes and kind in ("location", "employer") and value == value.casefold():
        if frame.changes and sentence != sentence.casefold():
            return None
        changes = False
    told = frame.kind
    if told == "job" and not frame.ends and not is_work(text) and (role := role_in(value, after)):
        told, value, is_weak = "community_role", role, False
    return Assertion(told, topic, value, sentence, changes, frame.ends, is_weak) if value else None


def _is_story(lead: str, value: str, sentence: str) -> bool:
    """Return whether a change is one of earlier times: "I moved to Rome in 2015 and came back in 2019"."""
    behind = sentence.partition(value)[2] or sentence
    if rule("goes on").search(behind):
        return False
    is_stay = rule("a stay").search(f"{value}{behind}") is not None and _PERFECT.search(lead) is None
    return is_stay or rule("a story").search(f"{value}{behind}") is not None


def _may_be_name(value: str) -> bool:
    """Return whether "I'm …" may give a name: capitalised words, of which none is known as something else."""
    spelled = value.split()
    return value[:1].isupper() and not any(
        word.casefold().strip(_EDGE) in words("no names") or (n and not word[:1].isupper())
        for n, word in enumerate(spelled)
    )


def _without_afterthought(value: str, kind: str) -> str:
    """Return the value up to the comma behind which a remark begins; the items of a list belong to it."""
    first, *others = _REMARK.split(value)
    if not others:
        return value
    if kind in _PLACES or kind in ("birthday", "nationality"):
        belongs = len(others[0].split()) <= 2 and (others[0][:1].isupper() or others[0][:1].isdigit())
        return f"{first}, {others[0]}" if belongs and kind != "nationality" else first
    items = [first]
    for n, item in enumerate(others):
        is_last = rule("joining").search(item) is not None
        is_joined = is_last or any(rule("joining").search(other) for other in others[n:])
        # "Three daughters, Nell and Cass" counts them, and names them.
        if kind in _COUNTED and item[:1].isupper():
            break
        is_long = any(len(one.split()) > _LONGEST_ITEM for one in rule("joining").split(item))
        if is_long or not (is_joined or item[:1].isupper()):
            break
        items.append(item)
        if is_last:
            break
    return ", ".join(items) if kind in _MANY else first

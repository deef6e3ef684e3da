"""Whether a sentence tells how things are today, how they were, how they might be, or that they changed."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass

from shepherd.claims.wordings import rule
from shepherd.turn.answer_types import content_of

__all__ = ["asks_of_past", "calls_off", "is_unreal", "stands_for", "tells_of_change", "tells_of_past"]

_CHANGES = re.compile(
    r"\b(?:now|nowadays|instead|after all|from now on|these days|meanwhile|no longer|any ?more|any longer"
    r"|since|cancel\w*|called off|postponed|rescheduled|delayed|brought forward|pushed back|put off"
    r"|changed?|switched|moved|(?:gone|went|going|goes) (?:up|down)|increased|raised|decided against"
    r"|turns out|starting|jetzt|nun|inzwischen|mittlerweile|stattdessen|doch|ab sofort|neuerdings"
    r"|verschoben|verlegt|geändert|abgesagt|umgezogen|nicht mehr|kein\w* mehr|erhöht"
    r"|maintenant|désormais|finalement|à la place|au lieu|reporté\w*|déplacée?s?|annulée?s?|changé\w*"
    r"|augmenté|ahora|al final|en lugar|en vez|ya no|aplazad\w+|aplazaron|cancelad\w+|cambiad\w+"
    r"|cambiaron|cambió|pospuest\w+|movieron|subió|subido)\b",
    re.IGNORECASE,
)
# An appointment that is called off has no time: "Dinner with the Lees is cancelled".
_CALLS_OFF = re.compile(
    r"\b(?:cancell?ed|called off|abgesagt|fällt aus|annulée?s?|cancelad[oa]s?)\b", re.IGNORECASE
)
_ASKS_OF_PAST = re.compile(
    r"\b(?:was|were|did|had|have|has|been|war|waren|hatte|hat|habe|était|avait|ai|era|estaba|tenía)\b"
    r"|\b\w+ed\b",
    re.IGNORECASE,
)

_TOKEN = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*['\u2019]?")
# Before a thing of the user, or one that nobody is said to own.
_DETERMINER = re.compile(
    r"my|our|the|an?|this|that|der|die|das|den|dem|meine?[nmrs]?|unsere?[nmrs]?|mon|ma|mes|notre|nos|le|la|les"
    r"|el|los|las|mis?|nuestr[oa]s?|il|lo|i|gli|mio|mia|o|os|as|meus?|minhas?|de|het|mijn|onze?",
    re.IGNORECASE,
)
_SOMEBODYS = re.compile(
    r"^(?:his|her|their|your|seine?[nmrs]?|ihre?[nmrs]?|son|sa|ses|leurs?|sus?|suo|sua|seus?|suas?|zijn|haar|hun"
    r"|.+['\u2019]s?)$",
    re.IGNORECASE,
)
_WE = re.compile(r"\W*(?:I|we)\b", re.IGNORECASE)
# Before the subject of a sentence.
_LEAD_IN = re.compile(
    r"and|but|so|oh|ok|okay|well|hey|hi|sorry|now|also|today|news|update|correction|\w+ly|und|aber|also|leider"
    r"|jetzt|et|mais|y|pero",
    re.IGNORECASE,
)
_PREPOSITION = re.compile(
    r"of|on|at|in|with|for|from|to|by|von|mit|am|um|im|in|bei|für|de|du|avec|à|con|en|a", re.IGNORECASE
)
_MOST_BETWEEN = 5  # words, between a thing and its verb
_IS = re.compile(
    r"\b(?:(?:has|have|had) been|is|are|was|were|gets?|got|ist|sind|wurden?|wird"
    r"|est|sont|a été|es|está|fue|ha sido)\b",
    re.IGNORECASE,
)
_BECOMES = re.compile(
    r"is|are|was|were|has|have|had|will|got|gets|went|goes|rose|fell|dropped|changed|moved|ist|sind|wurde|wird"
    r"|hat|est|sont|sera|es|está|son|será",
    re.IGNORECASE,
)
# Somebody did it to a thing, which is elsewhere or at another time from then on.
_SHIFTS = re.compile(
    r"moved|put|hung|hid|placed|took|brought|shifted|switched|swapped|changed|rescheduled|postponed|delayed|raised"
    r"|increased|lowered|reduced",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Thing:
    """A thing that a sentence names, from `begin` to `end`, and the verb behind it, "" for none.

    `owner` is the word before it that tells it from others: "yoga", "sister's", "her"; "" for the user's.
    """

    begin: int
    end: int
    owner: str
    stems: frozenset[str]
    verb: str
    verb_begin: int
    is_subject: bool
    is_object: bool


def tells_of_change(sentence: str) -> bool:
    """Return whether a sentence says that something is new: "It starts at 7 now"."""
    return _CHANGES.search(sentence) is not None


def calls_off(sentence: str, words: Set[str]) -> bool:
    """Return whether a sentence says that the thing that is named by these stems won't happen.

    "The train to the exam is cancelled" says nothing of the exam.
    """
    said = _CALLS_OFF.search(sentence)
    thing = _thing_in(sentence, words) if said else None
    if said is None or thing is None or thing.owner:
        return False
    if said.end() <= thing.begin:  # "They cancelled the party"
        return not sentence[said.end() : thing.begin].strip()
    is_passive = said[0].startswith("f") or _IS.search(sentence, thing.end, said.start())
    between = _IS.sub(" ", sentence[thing.end : said.start()])
    return thing.is_subject and bool(is_passive) and content_of(between) <= words


def stands_for(later: str, earlier: str, words: Set[str], *, is_valued: bool) -> bool | None:
    """Return whether a sentence replaces an earlier one about a thing, or None if it may.

    The thing is named by these stems. It does if it begins with the same thing and goes on in the same way
    or, if the answer `is_valued` (a time, a number, a place), says what became of it: "The rent went up to
    900", "I moved the key to the shed". It is False if it tells of somebody else's: "Lea moved her key".
    """
    one, other = _thing_in(earlier, words), _thing_in(later, words)
    if one is None or other is None:
        return None
    # "I decided against the trip", "We do the trip after all"
    decides = not is_valued and _WE.match(later) and _WE.match(earlier) and tells_of_change(later)
    if decides and content_of(earlier) & words == content_of(later) & words:
        return True
    if other.owner != one.owner:
        return False if _SOMEBODYS.search(other.owner) else None
    if not one.stems <= other.stems:
        return None
    if is_valued and (other.is_object or calls_off(later, words)):
        return True
    goes_on = other.verb == one.verb or (is_valued and _BECOMES.fullmatch(other.verb) is not None)
    between = content_of(later[other.end : other.verb_begin])
    if other.is_subject and goes_on and between <= words | content_of(earlier):
        return True if is_valued or content_of(earlier) <= words | content_of(later) else None
    return None


def _thing_in(sentence: str, words: Set[str]) -> _Thing | None:
    """Return the first thing in a sentence that is named by one of these stems, and the verb behind it."""
    tokens = list(_TOKEN.finditer(sentence))
    named = [not words.isdisjoint(content_of(token[0])) for token in tokens]
    if True not in named:
        return None
    first = last = named.index(True)
    while last < len(tokens) and named[last]:
        last += 1
    begin, owner = first, ""
    if begin and not _SHIFTS.fullmatch(tokens[begin - 1][0]):
        begin -= 1
        if not _DETERMINER.fullmatch(tokens[begin][0]):
            owner = tokens[begin][0].casefold()
            begin -= begin > 0 and _DETERMINER.fullmatch(tokens[begin - 1][0]) is not None
    before, rest = [token[0] for token in tokens[:begin]], range(last, len(tokens))
    verb = last
    if verb in rest and _PREPOSITION.fullmatch(tokens[verb][0]):
        # "Dinner with Ben is cancelled", but "The course starts at 5"
        near = rest[: _MOST_BETWEEN + 1]
        verb = next(
            (n for n in near if _BECOMES.fullmatch(tokens[n][0])), last - 1 if last - first > 1 else last
        )
        last = min(last, verb) if verb < last else last
    return _Thing(
        begin=tokens[begin].start() if begin < len(tokens) else 0,
        end=tokens[last - 1].end(),
        owner=owner,
        stems=content_of(" ".join(token[0] for token in tokens[first:last])),
        verb=tokens[verb][0].casefold() if verb < len(tokens) else "",
        verb_begin=tokens[verb].start() if verb < len(tokens) else len(sentence),
        is_subject=all(map(_LEAD_IN.fullmatch, before)),
        is_object=bool(before) and _SHIFTS.fullmatch(before[-1]) is not None,
    )


def is_unreal(sentence: str) -> bool:
    """Return whether a sentence tells a wish, a condition or a guess; a plan is none."""
    return any(not rule("to come").fullmatch(one[0]) for one in rule("unreal").finditer(sentence))


def tells_of_past(sentence: str) -> bool:
    """Return whether a sentence tells how things were: "It started at 5", but not "It was moved to 7"."""
    found = (*rule("past").finditer(sentence), *rule("past tenses and days").finditer(sentence))
    return any(not rule("for a time").fullmatch(one[0]) for one in found) and not tells_of_change(sentence)


def asks_of_past(question: str) -> bool:
    """Return whether a question is about what was: "When did it start?"."""
    return _ASKS_OF_PAST.search(question) is not None

"""Beginnings that lack something: a subject, or the name that the next sentence gives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from shepherd.claims.wordings import rule

__all__ = ["joined", "with_subject"]

_MARKS = " \t\r\n.,;:!?()-\u2013\u2014"
_FIRST_PERSON_ANYWHERE = re.compile(r"\b(?:i|i'm|i've|my|we|me)\b", re.IGNORECASE)
# Rules for beginnings without a subject, and the subject that they lack.
_DROPPED = (
    ("dropped I was", "I was"),
    ("dropped role", "I'm"),
    ("dropped post", "I'm"),
    ("dropped condition", "I'm"),
    ("dropped I'm", "I'm"),
    ("dropped I", "I"),
    ("dropped ich", "ich"),
    ("dropped ik", "ik"),
)
# "Moved to Ulm, still no friends": goes on without a subject of its own.
_WITHOUT_SUBJECT = re.compile(
    r"\W*(?:still|and|so|but|now|can|could|any|how|what|where|is there|do|does|grew up|raised|live|moved"
    r"|always|sadly|unfortunately|btw|fyi|by the way|hence|no|never|barely|hardly|to be honest|me\W*$|exams"
    r"|second year|third year|send|diagnosed|hate|love|for (?:\w+ ){1,3}years|badly|mostly|mainly|been"
    r"|tastes|smells|sounds|makes me|gives me|feels|keeps|drives me|even|especially|nothing"
    r"|only|all|every|\d+|feel|finally|ouch|time flies|ever since|thank"
    r"|yes|yeah|yep|in an?|living|based|working|studying|no idea|haha"
    r"|since|which|that's|with|lol|please|though|sorry|(?:they|it) (?:makes?|gives?|upsets?|disagrees?)"
    r"|\d+(?:st|nd|rd|th)|(?:first|fourth|fifth|sixth|final|last) (?:year|semester|term)"
    r"|year (?:one|two|three|four|five|\d)|(?:the|an?) (?:old|new|little|red|blue|green|white|black|silver"
    r"|grey|gray|electric|hybrid|diesel|petrol|estate|automatic|manual|battered|ancient|second-hand|\d{4})"
    r"(?: (?!is|are|was|were|has|can|will|must|should)[\w-]+){0,3}\W*$"
    r"|just)\b",
    re.IGNORECASE,
)
# "Vegan, so no cheese", and not "vegan, cheap: what can she cook?"
_WITHOUT_QUESTION = re.compile(
    r"\W*(?:so|and (?:i|i'm|my|have|got|live|work)|but|for|since|diagnosed|btw|by the way"
    r"|here|hence|always)\b",
    re.IGNORECASE,
)
# "Living in Rome, my aunt …", "Baker by trade, he …"
_OF_KIN = re.compile(
    r"\W*(?:my|our) (?:\w+ )?(?:mother|mum|mom|father|dad|parents|sisters?|brothers?|wife|husband|aunt"
    r"|uncle|cousins?"
    r"|friends?|boss|son|daughter|kids|children|grand\w+|neighbou?rs?|partner|girlfriend|boyfriend|flatmate"
    r"|roommate)\b",
    re.IGNORECASE,
)
_OTHER_PERSON = re.compile(
    rf"\W*(?:he|she|they|you|his|her|their|your|people|everyone)\b|{_OF_KIN.pattern}", re.IGNORECASE
)
_HAS_ONE = re.compile(
    r"^\W*(?:(?:so|well|hi|hello|btw|and|also|yes),? )*(?:i|we)(?:'ve| have| just| finally| recently)*(?:"
    r" got| have| own"
    r"| adopted)?(?:'ve)? an? (?:[\w-]+ ){0,2}?(?!friend|boss|neighbou?r|colleague|teacher|client|customer"
    r"|question|problem)"
    r"[\w-]+[.!]$",
    re.IGNORECASE,
)
_NAMES_IT = re.compile(r"(?:his|her|its) name(?:'s| is) (?-i:[A-Z\u00c0-\u00de])", re.IGNORECASE)
_ASKS_ONESELF = re.compile(
    r"^\W*(?:my )?(?:(?:all[- ]time )?fav(?:ou?rite|e|s)? [\w-]+(?: [\w-]+)?(?: of mine| for me| ever)?"
    r"|(?<=my )(?:(?:\w+ )?(?:dog|cat|rabbit|hamster|horse)|age|job|day job|trade|profession|birthday|hobby"
    r"|star sign|major|height|shoe size|employer|instrument|first language|mother tongue|home ?town|pronouns"
    r"|blood type|car|laptop|phone|editor|name|surname|middle name)"
    r"|meine? lieblings[\w-]+|(?:mon|ma) [\w-]+ (?:préférée?|favorite?)"
    r"|mi [\w-]+ (?:favorit|preferid)[oa]|(?:il mio|la mia) [\w-]+ preferit[oa]"
    r"|(?:o meu|a minha|meu|minha) [\w-]+ (?:favorit|preferid)[oa]|mijn lievelings[\w-]+) ?\?+$",
    re.IGNORECASE,
)
# "Olives? Can't bear them.", "Nuts? Allergic."
_NAMES_A_THING = re.compile(
    r"^\W*(?!(?:your|the|this|that|my|his|her|their|our|what|why|how|who|when|where|really|seriously|okay|ok"
    r"|yes|no|me|you|us|him|them|it|so|and|but|then|well|sorry|pardon|\w+thing)\b)"
    r"[\w-]+(?: [\w-]+)?\?+$",
    re.IGNORECASE,
)
_FEELS_ABOUT_IT = re.compile(
    r"^\W*(?:i )?(?:absolutely |really |just |deeply |totally )*"
    r"(?:(?:can't|cannot) (?:stand|bear|abide|stomach)|hate|loathe|detest|love|adore) (?:them|it|the stuff)\b"
    r"(?! (?:when|if|as)\b)(?!.*\?)|^\W*(?:i'm |i am )?(?:badly |very )?allergic\W*$",
    re.IGNORECASE,
)
# "Got my first job!! Lifeguard at the lido"
_GOT_A_JOB = re.compile(
    r"^\W*(?:i |i've |just |finally )*(?:got|landed) (?:my|a|the) (?:[a-z]+ )?job[!.]+$", re.IGNORECASE
)
_EVADES = re.compile(
    r"\W*(?:h+m+|no(?:t|ne|thing)?|yours?|i|i'd|it|that|depends|hard|tough|never|can't|well|u+m+|dunno|idk"
    r"|don't|does"
    r"|who|what|why|how|is|maybe|any|all|both|good|many|too|same|so|erm|er|let|guess|ask|either|tell)\b"
    r"|.*\?\s*$",
    re.IGNORECASE | re.DOTALL,
)


def joined(sentences: Iterable[str]) -> Iterator[str]:
    """Yield sentences, a pair as one where the second gives the name or the value that the first one lacks.

    "I have a dog. Her name is Ida." "Favourite colour? Teal."
    """
    before = ""
    for sentence in sentences:
        if (
            (_HAS_ONE.search(before) and _NAMES_IT.match(sentence))
            or (_ASKS_ONESELF.match(before) and not _EVADES.match(sentence))
            or (_GOT_A_JOB.match(before) and not _EVADES.match(sentence))
            or (_NAMES_A_THING.match(before) and _FEELS_ABOUT_IT.match(sentence))
        ):
            before = f"{before} {sentence}"
            continue
        if before:
            yield before
        before = sentence
    if before:
        yield before


def with_subject(text: str, rest: str) -> str:
    """Return the beginning of a sentence with the subject that everyday speech drops: "grew up in Ulm".

    What follows must not name another subject: "Born in Ulm, Einstein …".
    """
    for name, subject in _DROPPED:
        found = rule(name, begins=True).match(text)
        if found is None:
            continue
        after = text[found.end() :]
        if name == "dropped role":
            goes_on = _speaks_of_self(f"{after} {rest}")
        elif name == "dropped post":
            others = (rule(name, begins=True) for name in ("finite", "questions", "asking", "polite"))
            goes_on = not (_OTHER_PERSON.match(rest) or any(one.match(rest) for one in others))
        elif name == "dropped condition":
            goes_on = ":" not in after and _goes_on_by_itself(f"{after} {rest}")
        elif name.startswith("dropped I") and not rule("dropped surely", begins=True).match(text):
            goes_on = _goes_on_as_i(after, rest)
        else:
            goes_on = True
        if goes_on:
            # "Learning …" begins with a capital as the first word of the sentence, and is no name.
            return f"{subject} {text[:1].lower()}{text[1:]}"
    return text


def _goes_on_as_i(text: str, rest: str) -> bool:
    """Return whether no other subject follows: neither "Learning Spanish is hard" nor "Born in Ulm, he …"."""
    # "Studying law, exams are hell for me" goes on, "Studying law, as you know, is hard" does not.
    stated, _, added = text.partition(",")
    if rule("finite").search(stated) or rule("finite", begins=True).match(added):
        return False
    if _OF_KIN.match(rest) or _OF_KIN.match(added):
        return False
    if _WITHOUT_SUBJECT.match(rest) or _WITHOUT_SUBJECT.match(added):
        return True
    return not (added.strip() or rest.strip()) or _speaks_of_self(f"{added} {rest}")


def _goes_on_by_itself(text: str) -> bool:
    return not text.strip(_MARKS) or _WITHOUT_QUESTION.match(text) is not None or _speaks_of_self(text)


def _speaks_of_self(text: str) -> bool:
    return _FIRST_PERSON_ANYWHERE.search(text) is not None and _OTHER_PERSON.match(text) is None

"""Successors: "my boss isn't Ingrid any more, it's Tobias" states who the boss is.

The pronoun stands for the relation or for what the user does, and the statement is written out with it: "my
boss is called Tobias". If the new words have another form than the old ones, nothing is stated: "my wifi
isn't down any more, it's Friday".
"""

from __future__ import annotations

import re
from functools import cache

from shepherd.claims.wordings import definition

__all__ = ["IT_IS", "are_alike", "with_successor"]

# "It", and the words around it that say as of when.
IT_IS = r"(?:now )?(?:it|that)(?:'s|s| is)(?: now| actually)? "
_MARK = r"(?:\s*[,;:.!\u2013\u2014-]+\s*|\s+)(?:(?:and|but|so) )?"
_WORD = r"(?:(?:dr|mr|mrs|ms|prof|st)\.|[\w&@+.'/-]*\w)"
_VALUE = rf"{_WORD}(?: {_WORD}){{0,4}}?"
_OVER = r"(?: (?:any ?more|any longer|now))"
_NEW = (
    rf"(?P<new>{_VALUE})(?:,? (?:now|instead|these days|from now on))?"
    r"(?=\s*(?:$|[,;.!?]|\s(?:and|but)\s))"
)
_TOPIC = r"(?P<topic>(?:my|our) (?:[\w-]+ ){0,2}?[\w-]+)"
# "My boss isn't Ingrid any more, it's …"; "used to be" needs a "now".
_OF_TOPIC = re.compile(
    rf"\b{_TOPIC}(?: is no longer| isn't| is not|'s not|'s no longer| is now not) "
    rf"(?:called )?(?P<old>{_VALUE}){_OVER}?{_MARK}(?P<it>{IT_IS}){_NEW}",
    re.IGNORECASE,
)
_OF_TOPIC_ONCE = re.compile(
    rf"\b{_TOPIC} (?:was|used to be) (?P<old>{_VALUE}){_MARK}(?P<it>(?=now |.* now\b){IT_IS}){_NEW}",
    re.IGNORECASE,
)
# "I don't work at Bosch any more, it's …"
_DOING = r"(?P<verb>[a-z]+(?: (?:at|for|in|on|as|with|to|from))?)"
_OF_DOING = re.compile(
    rf"\b(?P<who>i|we) (?:no longer {_DOING} (?P<old>{_VALUE})"
    rf"|(?:don't|do not) {_DOING.replace('verb', 'verb2')} (?P<old2>{_VALUE}) (?:any ?more|any longer)"
    rf"|used to {_DOING.replace('verb', 'verb3')} (?P<old3>{_VALUE}))"
    rf"{_MARK}(?P<it>(?=now |.* now\b){IT_IS}){_NEW}",
    re.IGNORECASE,
)
_BEGINS = re.compile(IT_IS, re.IGNORECASE)
_ARTICLE = re.compile(r"an? ", re.IGNORECASE)
_TITLE = re.compile(r"(?:dr|mr|mrs|ms|prof|professor|frau|herr|doctor)\b\.?", re.IGNORECASE)
_TIME = re.compile(
    r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august"
    r"|september|october|november|december|christmas|easter|lent|spring|summer|autumn|winter|o'clock|today"
    r"|tomorrow)s?\b",
    re.IGNORECASE,
)
# Posts are told of a person as names are: "my boss isn't Head of Sales, it's Tobias" says who has one.
_POST = re.compile(
    r"\b(?:head|chief|director|manager|president|chair\w*|leader|lead|officer|captain|partner|secretary"
    r"|treasurer|mayor|minister|dean|principal|boss|editor|deputy|team|senior|junior|ceo|cto|cfo|coo|vp|champion"
    r"|number)\b",
    re.IGNORECASE,
)
# No value: somebody else's, what was spoken of, or the beginning of a clause.
_NO_VALUE = re.compile(
    r"(?:the|my|our|his|her|their|your|this|that|these|those|me|him|them|us|not|no|just|only|all|too|so|very"
    r"|up|in|on|at|to|time|because|when|where|what|who|how|why)\b|.*'s\b(?!')",
    re.IGNORECASE,
)


def with_successor(sentence: str, before: str) -> str:
    """Return the sentence with what "it" stands for: "…, it's Tobias" as "…, my boss is called Tobias".

    `before` is the sentence before it, in which the first part may stand.
    """
    told = _written_out(sentence)
    if told == sentence and before and _BEGINS.match(sentence):
        whole = _written_out(f"{before} {sentence}")
        return whole[len(before) + 1 :] if whole.startswith(f"{before} ") else sentence
    return told


def are_alike(old: str, new: str) -> bool:
    """Return whether one may stand in the other's place: two names, two numbers, two plain words."""
    return all(form(old) == form(new) for form in (_has_article, _is_name, _has_digit, _has_at, _is_time))


def _written_out(text: str) -> str:
    for pattern in (_OF_TOPIC, _OF_TOPIC_ONCE, _OF_DOING):
        for match in reversed([*pattern.finditer(text)]):
            if beginning := _beginning(match):
                text = f"{text[: match.start('it')]}{beginning} {text[match.start('new') :]}"
    return text


def _beginning(match: re.Match[str]) -> str:
    """Return the words for "it's", "" where it may be something else."""
    said = match.groupdict()
    old, new = said["old"] or said.get("old2") or said.get("old3") or "", said["new"]
    if not are_alike(old, new) or any(_NO_VALUE.match(one) for one in (old, new)):
        return ""
    if verb := said.get("verb") or said.get("verb2") or said.get("verb3"):
        return f"{said['who']} {verb}"
    topic = said["topic"]
    if not _person().fullmatch(topic.split(maxsplit=1)[1]):
        return f"{topic} is"
    is_someone = all(_is_name(one) and not _POST.search(one) for one in (old, new))
    return f"{topic} is called" if is_someone else ""


@cache
def _person() -> re.Pattern[str]:
    return re.compile(rf"(?:[\w-]+ )*(?:{definition('person').pattern})", re.IGNORECASE)


def _has_article(value: str) -> bool:
    return _ARTICLE.match(value) is not None


def _is_name(value: str) -> bool:
    words = _TITLE.sub("", _ARTICLE.sub("", value)).split()
    return bool(words) and all(word[:1].isupper() for word in words[:1] + words[-1:] if word.isalpha())


def _has_digit(value: str) -> bool:
    return any(map(str.isdigit, value))


def _has_at(value: str) -> bool:
    return "@" in value


def _is_time(value: str) -> bool:
    return _TIME.search(value) is not None

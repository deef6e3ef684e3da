"""Sentences in another order: "every Thursday I swim" as "I swim every Thursday", and each pet by itself."""

from __future__ import annotations

import re

__all__ = ["in_plain_order"]

_SOME = r"(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|a couple of|\d{1,2})"
_PET = (
    r"(?:(?!(?:and|called|named|with|for)\b)[\w-]+ )?(?:dog|cat|puppy|puppies|kitten|rabbit|bunny|bunnies"
    r"|hamster|guinea pig|parrot|budgie|canary|canaries|cockatiel|cockatoo|horse|pony|ponies|tortoise"
    r"|turtle|snake|gecko|lizard|ferret|goldfish|fish|hen|chicken|cockerel|duck|geese|goose|goat|sheep|donkey|llama"
    r"|alpaca|labrador|beagle|poodle|terrier|spaniel|collie|greyhound|whippet|lurcher|corgi|pug|tomcat|chinchilla|gerbil|degu"
    r"|iguana|axolotl|newt|frog|hedgehog|bird|rat|cow|pig|husky|huskies|dachshund|bulldog|retriever|brother|sister)s?"
)
_NAME = r"(?-i:[A-Z\u00c0-\u00de])[\w'-]+"
_NAMES = rf"{_NAME}(?:(?:,| and| &) {_NAME})*"
_KIDS = (
    r"(?:(?!(?:and|called|named|with|for)\b)[\w-]+ )?(?:kids?|child(?:ren)?|sons?|daughters?|boys?|girls?)"
)


def _several(one: str, other: str) -> re.Pattern[str]:
    """Return the pattern of one thing that somebody has, in front of another one."""
    return re.compile(
        rf"\b((?:i|we)(?:'ve got| have got| have|'ve| own| keep|'ve had| got)) ({_SOME} {one}"
        rf"(?:,? (?:called|named) {_NAMES})?)(?:,? (?:and|&)(?: also)?|,)"
        rf"(?= {_SOME} {other}(?:\W*$|[,.;:!?()]| (?:and|&|called|named|at|who|which|but|too|as|now)\b))",
        re.IGNORECASE,
    )


# "I have a dog called Rex and two cats", "one sister and two brothers", "two kids and a dog": each is said by
# itself. "A son and a daughter" are told together.
_SEVERAL = (_several(_PET, rf"(?:{_PET}|{_KIDS})"), _several(_KIDS, _PET))
_MOST_PETS = 8
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_TIME = (
    rf"{_DAY}(?: (?:morning|afternoon|evening|night))?|day|week|month|morning|afternoon|evening|night|weekday"
    r"|weekend|year|spring|summer|autumn|winter|(?:january|february|march|april|may|june|july|august"
    r"|september|october|november|december)"
)
_OFTEN_FIRST = re.compile(
    rf"^(\W*)((?:every|each) (?:other |second |single )?(?:{_TIME})|on (?:{_DAY}s|weekdays|weekends)"
    rf"(?: and {_DAY}s)?),? ((?:i|we) (?!(?:had|was|were|did|used|would|could|might|may|will|should|wish|hope"
    r"|want|just|am|have to|still)\b)(?!play taxi\b|(?:go )?run(?:ning)? errands\b)[^,.;:!?()]{3,80}?)"
    r"(?=\W*$|\s*[,.;:!?()]| (?:but|because|so|when|which|while) "
    r"| and (?:then )?(?:i|we|he|she|it|they|you|my|our|that|this)\b)",
    re.IGNORECASE,
)


def in_plain_order(text: str) -> str:
    """Return a sentence with each of several pets in a clause of its own, and with a time behind its verb."""
    for _ in range(_MOST_PETS):
        before = text
        for pattern in _SEVERAL:
            text = pattern.sub(r"\1 \2, \1", text)
        if text == before:
            break
    return _OFTEN_FIRST.sub(lambda said: f"{said[1]}{said[3]} {said[2][:1].lower()}{said[2][1:]}", text)

"""Requests without the form of a question: "husband's name", "languages I speak", "my surname please"."""

from __future__ import annotations

import re

from shepherd.prompt.concepts import content_words, is_common, relation_of

__all__ = ["as_question", "indirect_request", "is_bare_request"]

_MOST_WORDS = 7
_VALUE = re.compile(r"\d|(?<=\w )(?!I\b)[A-ZÀ-Þ]|[:=\"@#/]|[.!]\s+\w")
# Words by which a few nouns would be a sentence or a note: "shopping for mum".
_NO_LABEL = re.compile(
    r"\b(?:is|are|was|were|am|be|been|do|does|did|has|have|had|can|could|will|would|should|must|not|no|never|new"
    r"|and|but|because|when|if|to|today|tomorrow|yesterday|tonight|next|every|thanks?|thank|hello|hi|yes|ok|okay"
    r"|buy|call|get|let|make|write|tell|give|show|explain|translate|love|hate|like|want|need)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
# "husband's name", "my wife's birthday"
_OF_SOMEBODY = re.compile(
    r"\W*(?:and )?(?:my |our )?(?P<who>\w[\w-]*)['\u2019]s?(?: [\w-]+){1,3}\W*", re.IGNORECASE
)
# "languages I speak", "the car that I drive"
_OF_MINE = re.compile(
    r"\W*(?:and )?(?:the |all )?(?=\w)(?:[\w-]+ ){0,2}?(?P<thing>[\w-]+) (?:that |which )?"
    r"(?:i|we)(?:['\u2019]\w+)? [\w-]+(?: (?:in|at|to|for|with|on))?\W*",
    re.IGNORECASE,
)
# "my own surname for the label, please"
_PLEASE = re.compile(r"\W*(?:my|our)\b(?: [\w'\u2019-]+){1,9},? (?:please|pls|plz)\W*", re.IGNORECASE)
# "The captain wants a number that he can ring": what others ask the user for.
_WANTED = re.compile(
    r"\b(?:the|my|our|a|an|they|he|she|somebody|someone)\b(?: [\w'\u2019-]+){0,4}?"
    r" (?:wants?|needs?|asks? (?:me )?for|requires?|is asking (?:me )?for"
    r"|would like)\s+(?=(?:a|an|the|some)\s+(?:[\w-]+ )?(?:number|e-?mail|address|contact|name|postcode)\b)",
    re.IGNORECASE,
)
# "name both of my animals please", "remind me of my bird's name"
_COMMAND = re.compile(
    r"\W*(?:(?:please|pls|now|then|and|so|ok(?:ay)?|hey|just|(?:can|could|would|will) you)\b[, ]+)*"
    r"(?P<verb>name(?! of\b)|list|state|recall|recite|identify|repeat|say|spell|remind me(?: of| about)?"
    r"|tell me(?: about)?|show me|give me|read (?:me|out)|refresh my memory (?:of|on|about))(?: out| again)?"
    r"(?: (?:both|all|each|every one|any|some|one|two|three|four|of|again"
    r"|the (?:names?|list|ages?|two|three)))*"
    r" (?:my|our)(?P<thing>(?: [\w'\u2019-]+){1,7}?)"
    r"(?:,? (?:again|please|pls|plz|for me|thanks|thank you|then|now|once more|if you can))*\W*",
    re.IGNORECASE,
)
_NAMES = re.compile(r"\b(?:name|names of)\b", re.IGNORECASE)
_WHETHER = re.compile(
    r"\b(?<!i )(?<!to )(?:asks?|asked|asking|(?:wants?|needs?|like|has|have|wanted|needed) to know"
    r"|wonders?)\s+(?:me\s+|us\s+)?(?:whether|if)"
    r"\s+(?=(?:i|we|my|our|there)\b)",
    re.IGNORECASE,
)
_MINE = re.compile(r"\W*(?:my|our|whether|if|i|we|there)\b", re.IGNORECASE)
_ARTICLE = re.compile(r"^\W*(?:a|an|the|some) ", re.IGNORECASE)


def is_bare_request(text: str) -> bool:
    """Return whether a message is nothing but the name of a thing that can be known about the user.

    A few words with a name, a number or a verb tell something: "flight at 9:40", "Rex, my dog".
    """
    if _commanded(text):
        return True
    if _PLEASE.fullmatch(text) and not _VALUE.search(text) and not _NO_LABEL.search(text):
        return True
    if len(text.split()) > _MOST_WORDS or _VALUE.search(text) or _NO_LABEL.search(text):
        return False
    if owned := _OF_SOMEBODY.fullmatch(text):
        stems = content_words(text)
        return any(map(relation_of, content_words(owned["who"]))) and all(map(is_common, stems))
    mine = _OF_MINE.fullmatch(text)
    return mine is not None and all(map(is_common, content_words(mine["thing"])))


def _commanded(text: str) -> re.Match[str] | None:
    """Return the match of a command to say what is known: "remind me of my bird's name"."""
    found = _COMMAND.fullmatch(text)
    is_thing = found is not None and not _VALUE.search(f"my{found['thing']}")
    return found if found and is_thing and not _NO_LABEL.search(found["thing"]) else None


def indirect_request(text: str) -> int | None:
    """Return where a text begins to say what others want to know of the user, None if nowhere."""
    found = _WANTED.search(text) or _WHETHER.search(text)
    return found.end() if found else None


def as_question(text: str) -> str:
    """Return a request as if it were a question of the user: "my husband's name" for "husband's name"."""
    if found := _commanded(text):
        thing = found["thing"].strip()
        names = _NAMES.search(text[: found.start("thing")])
        return f"what are the names of my {thing}" if names else f"what is my {thing}"
    if _OF_MINE.fullmatch(text):
        return f"which {text}"
    return text if _MINE.match(text) else f"my {_ARTICLE.sub('', text)}"

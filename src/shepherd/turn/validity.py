"""Whether a sentence tells how things are today, how they were, how they might be, or that they changed."""

from __future__ import annotations

import re

__all__ = ["asks_of_past", "calls_off", "is_unreal", "tells_of_change", "tells_of_past"]

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
_UNREAL = re.compile(
    r"^\W*(?:if|when|wenn|falls|si)\b|\b(?:wish|would|could|might|maybe|perhaps|dream\w*|imagin\w+"
    r"|wondering|wonder|hope|hoping|should|würde|wäre|hätte|könnte|vielleicht|träum\w*|beinahe|hoffe"
    r"|peut-être|presque|aimerais|voudrais|quizás?|ojalá|gustaría|casi)\b",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"\b(?:was|were|had|used to|last (?:year|time|week|month|\w+ (?:was|were))|yesterday|back then|formerly"
    r"|waren|hatte|früher|gestern|damals|était|étaient|avait|autrefois|avant|eran|estaba|tenía|ayer|antes)\b",
    re.IGNORECASE,
)
_ASKS_OF_PAST = re.compile(
    r"\b(?:was|were|did|had|have|has|been|war|waren|hatte|hat|habe|était|avait|ai|era|estaba|tenía)\b"
    r"|\b\w+ed\b",
    re.IGNORECASE,
)


def tells_of_change(sentence: str) -> bool:
    """Return whether a sentence says that something is new: "It starts at 7 now"."""
    return _CHANGES.search(sentence) is not None


def calls_off(sentence: str) -> bool:
    """Return whether a sentence says that something won't happen."""
    return _CALLS_OFF.search(sentence) is not None


def is_unreal(sentence: str) -> bool:
    """Return whether a sentence tells a wish, a condition or a guess."""
    return _UNREAL.search(sentence) is not None


def tells_of_past(sentence: str) -> bool:
    """Return whether a sentence tells how things were: "It started at 5", but not "It was moved to 7"."""
    return _PAST.search(sentence) is not None and not tells_of_change(sentence)


def asks_of_past(question: str) -> bool:
    """Return whether a question is about what was: "When did it start?"."""
    return _ASKS_OF_PAST.search(question) is not None

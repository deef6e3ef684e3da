"""Phrases of a message: the words around its subject, and whether it wants something done. English.

"Can you list the order in which I brought up the parts of my garden plan throughout our conversations?" is
about the garden plan. The other words say how to answer and that there were conversations; most memories lack
them, so that they would outweigh the plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from shepherd._native.text import terms

__all__ = ["is_about_several", "is_request", "without_frame"]

# Longer messages have no frame, and say at their beginning what they want.
_MOST_CHARACTERS = 500

# A message without any of these keywords has no frame: a lookup instead of a search in the text.
_FRAME_WORDS = frozenset(
    terms(
        "list order sequence walk summarize summarise summary overview recap bring mention cover discuss"
        " recommend suggest advise propose conversation discussion chat session aspect topic list"
        " throughout across far"
    )
)
_TALKS = "(?:conversations?|discussions?|chats?|sessions?|talks?|messages?|requests?)"
_FRAME = re.compile(
    rf"""
    # "Can you list …", "could you walk me through …"
    \b(?:can|could|would|will)\s+you\s+(?:please\s+)?
        (?:list|give|provide|show|tell|walk|describe|summari[sz]e|outline|recap|explain|remind|share)\b
        (?:\s+(?:me|us))?(?:\s+(?:through|of))?
    # "the order in which I …", "in chronological order"
    | \b(?:in\s+)?(?:the\s+|what\s+|which\s+)?(?:order|sequence)\s+(?:in\s+which\s+|that\s+|did\s+|have\s+)?
        (?=(?:i|we|you)\b)
    | \bin\s+(?:chronological\s+)?order\b(?!\s+to\b)
    # "a short summary of …"
    | \b(?:an?\s+|the\s+)?(?:comprehensive|clear|complete|full|brief|short|detailed|quick|overall|concise)?\s*
        (?:summary|overview|recap)\s+of\b
    | ^\W*(?:please\s+)?summari[sz]e\b
    | \bincluding\s+(?:the\s+)?(?:key|main)\b
    | \bdifferent\s+(?:aspects?|parts?|topics?|things|concepts?)\s+(?:of|related\s+to)\b
    # "I brought up", "we've discussed", "did you recommend"
    | \b(?:i|we|you)(?:\s+first|['\u2019]ve|\s+have|\s+had)?\s+
        (?:br(?:ought|ing)\s+up|mention(?:ed)?|said|say|told\s+you|tell\s+you|discuss(?:ed)?|talk(?:ed)?|cover(?:ed)?)
        (?:\s+about)?\b
    | \bdid\s+you\s+(?:recommend|suggest|say|tell|advise|propose)(?:\s+me)?\b
    # "throughout our earlier conversations", "so far"
    | \b(?:across|throughout|during|in|over|from|based\s+on)\s+(?:all\s+(?:of\s+)?)?(?:our|my|these)\s+
        (?:previous\s+|earlier\s+|past\s+|different\s+|various\s+)?{_TALKS}\b
    | \bso\s+far\b
    # "Mention only three items."
    | \b(?:mention|list|name|give)\s+only\b[^.?!]*
    """,
    re.IGNORECASE | re.VERBOSE,
)

# Words of a request, in lower case; most questions about the past have none.
_REQUEST_WORDS = frozenset(
    (
        "should", "could", "can", "would", "might", "shall", "how", "what", "help", "show", "teach", "give",
        "tell", "explain", "suggest", "please", "i'm", "i\u2019m", "am",
    )
)  # fmt: skip
# For lower-case text behind a space. A pattern that begins with a class of characters is found in half the
# time of one that begins with \b and ignores case.
_REQUEST = re.compile(
    r"\W(?:(?:should|could|can|would|might|shall) (?:i|you|we)\b|how (?:do|to)\b"
    r"|what (?:are|is) (?:some|the|good|a)\b"
    r"|(?:help|show|teach|give|tell|explain|suggest) (?:me|us)\b|please\b"
    r"|i(?:['\u2019]m| am) (?:\w+ing|about|looking)\b)"
)
# Asks what was said or done.
_LOOKS_BACK = re.compile(
    r"\W(?:(?:did|have|had|was|were) (?:i|we|you)\b"
    r"|(?:i|we)(?:['\u2019]ve| have| had)? (?:\w+ed|said|brought|told|made|went|got|had)\b"
    rf"|our (?:\w+ )?{_TALKS}\b)"
)
# Asks for an order of events, a number or a summary: the answer is in several conversations. Most messages
# have none of these words.
_WORDS_OF_SEVERAL = frozenset(
    (
        "across", "throughout", "how", "total", "total?", "summary", "summarize", "summarise", "order",
        "order?", "time", "time?", "considering",
    )
)  # fmt: skip
_SEVERAL = re.compile(
    r"\b(?:across|throughout) (?:all (?:of )?)?(?:my|our)\b|\bhow many (?:different|various|total)\b"
    r"|\border (?:in which|that|did|have|of)\b|\bin order\b(?! to\b)|\bsummar(?:y|i[sz]e)\b"
    r"|\bin total\b|\bover time\b|\bconsidering\b",
    re.IGNORECASE,
)


def is_about_several(text: str) -> bool:
    """Return whether a message asks about several conversations: for an order, a number, a summary."""
    if len(text) > _MOST_CHARACTERS or _WORDS_OF_SEVERAL.isdisjoint(text.lower().split()):
        return False
    return _SEVERAL.search(text) is not None


def without_frame(text: str, keywords: list[str], keywords_of: Callable[[str], Collection[str]]) -> list[str]:
    """Return the keywords of a text without those that only say how to answer; all if there are no others."""
    if _FRAME_WORDS.isdisjoint(keywords) or len(text) > _MOST_CHARACTERS:
        return keywords
    rest, n = _FRAME.subn(" ; ", text)
    if not n:
        return keywords
    left = frozenset(keywords_of(rest))
    return [word for word in keywords if word in left] or keywords


def is_request(text: str) -> bool:
    """Return whether a message wants advice or work, so that instructions and preferences matter."""
    beginning = " " + text[:_MOST_CHARACTERS].lower()
    if _REQUEST_WORDS.isdisjoint(beginning.split()):
        return False
    return _REQUEST.search(beginning) is not None and _LOOKS_BACK.search(beginning) is None

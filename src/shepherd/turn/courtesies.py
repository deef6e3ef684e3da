"""What the bundled model says to greetings, questions about itself, and sad news."""

from __future__ import annotations

import re

__all__ = ["is_sad", "is_unpleasant", "reply_to_small_talk"]

# "Nice" is no answer to these. Some words need a context: a nurse works in a hospital, and Cancer is a sign.
_SAD = re.compile(
    r"\b(?:died|(?:is|are|was|were|found|'s) (?-i:dead)|passed away|passed on|funeral|put (?:down|to sleep)"
    r"|tumou?rs?|miscarriage|stillborn|chemo(?:therapy)?"
    r"|(?:has|have|had|got|'s|'ve|with|of|from|to|my|his|her|their) (?:[a-z]+ )?cancer"
    r"(?! (?:research|charit|nurse|ward))"
    r"|divorced|divorcing|(?:a|the|my|our|their|his|her|for) divorce(?! (?:lawyer|attorney|court))"
    r"|broke up|split up|left me|dumped me|laid off|(?:made|am|'m|are|was|were|been|be) redundant"
    r"|(?:am|'m|is|'s|was|were|been|got|get|be) (?:sacked|fired)(?! up)"
    r"|lost my|stolen|robbed|burgled|mugged|flooded|burn(?:t|ed) down|written off|hospitali[sz]ed"
    r"|(?:am|'m|is|'s|are|'re|was|were|been|be|lies|stay(?:ed|s)?|back|rushed|taken|admitted|ended up)"
    r" (?:in|to|into) (?:the )?hospital"
    r"|(?:a|another|his|her) (?:[a-z]+ )?stroke(?! of)|heart attack|dementia|suicide|depress(?:ed|ion|ing)"
    r"|grie(?:f|ving)|gravely ill|terminally|terminal (?:illness|cancer|disease)|bankrupt|evicted)\b",
    re.IGNORECASE,
)
# "Nice" is no answer to this either, and pity may be too much.
_UNPLEASANT = re.compile(
    r"\b(?:sick|ill|unwell|poorly|fever|flu|covid|pain\w*|hurts?|injur\w+|broken?|sprained|accident|surgery"
    r"|operation|migraines?|tired|exhausted|stressed|anxious|anxiety|worried|scared|afraid|angry|upset|sad"
    r"|lonely|hate|failed|missed|unemployed|debts?|in trouble|worse|worst|unfortunately|sadly|argument"
    r"|quarrel\w*|crash(?:ed)?)\b",
    re.IGNORECASE,
)
_AT_WORK = re.compile(r"\b(?:work\w*|job|volunteer|volunteering|intern|research\w*)\b", re.IGNORECASE)
_GREETING = (
    r"(?:(?:hi|hey|hello|good (?:morning|afternoon|evening)|thanks|thank you)(?: there| shepherd)?[\s,.!-]*)?"
)
_FINE = "I'm fine, thank you. What would you like to tell me or ask me?"
_WHO = (
    "I'm Shepherd's bundled demo model. I can remember what you tell me and answer questions about it and"
    " about your documents, but little more."
)
_SMALL_TALK = (
    (r"(?:and )?how do you do|what's up|what is up", _FINE),
    (
        r"(?:and )?how(?: are|'re|'s| is| have) (?:you|it going|things|everything|life|your day)"
        r"(?: been| going| doing)?(?: today| these days| so far| then)?",
        _FINE,
    ),
    (r"(?:are )?you (?:ok|okay|well|alright|all right)(?: today| then)?", _FINE),
    (r"who are you|what are you|what(?: is|'s) your name|tell me about yourself|introduce yourself", _WHO),
    (r"what(?: can| do) you do(?: for me)?|what are you (?:able to do|capable of|good (?:at|for))", _WHO),
    (r"what can i (?:do with you|ask you|ask)|how do you work", _WHO),
    (r"are you (?:an? )?(?:ai|bot|robot|human|person|real person|chatgpt|language model)", _WHO),
    (r"(?:it's )?(?:nice|pleased|good|great) to meet you(?: too)?", "Nice to meet you, too!"),
)
_REPLIES = tuple(
    (re.compile(rf"\W*{_GREETING}(?:{pattern})\W*", re.IGNORECASE), reply) for pattern, reply in _SMALL_TALK
)


def reply_to_small_talk(text: str) -> str:
    """Return what to say to a message that is nothing but small talk, such as "Hi, how are you?"; else ""."""
    plain = text.replace("\u2019", "'")
    if reply := _reply_to(plain):
        return reply
    replies = [_reply_to(question) for question in re.findall(r"[^?]+\?*", plain)]
    return " ".join(dict.fromkeys(replies)) if all(replies) else ""


def _reply_to(text: str) -> str:
    return next((reply for pattern, reply in _REPLIES if pattern.fullmatch(text)), "")


def is_unpleasant(text: str) -> bool:
    """Return whether a message may contain unpleasant news."""
    return _UNPLEASANT.search(text) is not None


def is_sad(text: str) -> bool:
    """Return whether a message has sad news."""
    found = _SAD.search(text.replace("\u2019", "'"))
    return found is not None and not ("hospital" in found[0].lower() and _AT_WORK.search(text))

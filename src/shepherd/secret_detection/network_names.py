"""Names of networks: "our wifi is called TP-LINK_8A3C" tells no secret, though the name looks like one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache

from shepherd.secret_detection.anchors import Anchored, folded
from shepherd.secret_detection.vocabulary import COVER, SENTENCE_END, WORDS, words_of

__all__ = ["spans_of_names"]

# "The password is the same", "and so is the key": a name that opens the network, too, is a secret.
_SHARED = re.compile(
    r"\b(?:same|identical|equal|also|too|both|twice|likewise|as well|so is|gleich\w*|selbe\w*|auch|même|aussi"
    r"|mism[oa]|también|stess[oa]|anche|mesm[oa]|também|zelfde|ook)\b",
    re.IGNORECASE,
)
_END = re.compile(r"\s*(?:[.!?]|\n|$)")
# Every name of a network is in small letters behind one of these, at most so many characters away.
_NETWORK_HINT = re.compile(r"wi[ \-_\u2011]?fi|w[ \-_\u2011]?lan|ssid|hotspot|net[wz]|réseau|red|rede|rete")
_REACH, _MOST_SENTENCE = 400, 2000
_ASIDE = re.compile(r"[,:;(\u2013\u2014]")


def spans_of_names(text: str, spans: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the spans that lie in the name of a network.

    People who give the name often give the password as well, perhaps in a form that no rule finds: a name is
    taken for harmless only if its sentence says nothing else, if another of the spans is outside of it, or if
    a secret of the text is covered already.
    """
    small = folded(text)
    if not any(_NETWORK_HINT.search(small, max(0, start - _REACH), end) for start, end in spans):
        return set()
    found = set()
    for first, last, is_alone in _names(text, small):
        inside = {(start, end) for start, end in spans if first <= start and end <= last}
        if is_alone or COVER in text or any(end <= first or start >= last for start, end in spans):
            found |= inside
    return found


@cache
def _patterns() -> tuple[Anchored, re.Pattern[str]]:
    network, secret = (
        words_of("networks"),
        rf"(?:{WORDS['password names']}|{words_of('names', 'compound names')})",
    )
    called = (
        r"(?:called|named|heißt|heisst|nennt sich|genannt|s['\u2019]appelle|se llama|si chiama|se chama"
        r"|chama-se|heet)"
    )
    link = r"(?:\s(?:is|was|ist|lautet|est|es|è|é))?\s?[:=]?"
    names = (
        rf"{network}\b[^\n.!?:;,]{{0,40}}?\b{called}\b\??:?"
        rf"|{network}[ _-]?(?:name|ssid){link}|\bssid{link}"
        r"|\b(?:name|nom|nombre|nome|naam)\b (?:of|for|vom|von|du|de|del|della|da|do|van)\b"
        rf"[^\n.!?:;,]{{0,20}}?{network}\b[^\n.!?:;,]{{0,20}}?\b(?:is|was|ist|lautet|est|es|è|é)"
    )
    # A name may go on with the parts of a product's: "Fritz!Box 7590 XY", "Home 5G".
    name = (
        r"(?P<name>[\"\u201c\u201e\u00ab']?[^\s\"\u201c\u201d\u201e\u00ab\u00bb,;:/()=]{1,40}"
        r"(?: (?:\d{1,4}|(?-i:[A-Z]{1,3})|\d(?:[.,]\d)? ?g(?:hz)?)(?![\w!?#*$%&@+-])){0,3}"
        r"[\"\u201d\u201c\u00bb']?)"
    )
    return Anchored(rf"(?<![a-z])(?P<before>{names})\s{{1,2}}{name}"), re.compile(secret, re.IGNORECASE)


def _names(text: str, small: str) -> Iterator[tuple[int, int, bool]]:
    """Yield where names of networks are, and whether the sentence says nothing else."""
    named, secret = _patterns()
    names = list(named.finditer(text, small))
    if not names or (_SHARED.search(text) and secret.search(text)):
        return
    for match in names:
        if not secret.search(match["before"]):
            before = SENTENCE_END.split(text[max(0, match.start() - _MOST_SENTENCE) : match.start()])[-1]
            ends = match["name"].endswith((".", "!", "?")) or _END.match(text, match.end())
            yield (*match.span("name"), bool(ends) and _ASIDE.search(before) is None)

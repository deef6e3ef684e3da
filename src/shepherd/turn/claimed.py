"""A sentence of the model as a claim about somebody, which facts or the user's sentences may confirm."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shepherd.claims.keys import canonical_key, is_about
from shepherd.prompt.asked_facts import words_in
from shepherd.turn.subjects import names_a_person, tells_of_theirs, tells_of_user
from shepherd.types import Fact

__all__ = ["Claimed"]

# Sentences that quote or greet, and claim nothing.
_QUOTING = (["nice", "to"], ["your", "notes"], ["you", "said"])
# Verbs of answers that a wish or a plan bears out, and those that say what somebody likes or doesn't.
_OF_WISHES = frozenset(("want", "like", "love", "prefer", "need", "choose", "recommend", "enjoy"))
_LIKING = frozenset(("like", "love", "prefer", "enjoy", "recommend", "choose"))
_DISLIKING = frozenset(("dislike", "hate"))
_LIKED = frozenset(("likes", "prefers", "loves", "enjoys"))
_DISLIKED = frozenset(("dislikes", "avoids", "hates"))
_DISLIKES = re.compile(
    r"\b(?:hates?|hated|dislikes?|detests?|loathes?|can(?:['\u2019]t|not| not) (?:stand|bear|abide)|allergic"
    r"|avoids?|(?:don['\u2019]t|do not|never|no longer) (?:\w+ )?(?:like|love|enjoy|eat|want))\b",
    re.IGNORECASE,
)
# How a sentence says of somebody what a value is.
_TOLD_AS = {
    about: re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    for about, words in {
        "name": r"called|named|names?|nicknamed|nickname|calls?",
        "allergy": r"allerg\w+|intoleran\w+|reacts? to"
        r"|(?:can['\u2019]t|cannot|mustn['\u2019]t|may not|must not) (?:have|eat|drink|touch)",
        "job": r"works?|worked|working|jobs?|profession|trade|trained",
        "location": r"live[sd]?|living|based|home|moved|settled|resides?|stay(?:s|ing)?|house|flat",
        "birthday": r"birthday|born|b-?day",
        "age": r"years?|old|age[ds]?|turn(?:s|ed|ing)?|months?|birthday",
    }.items()
}
_IS_A = re.compile(r"\b(?:is|was|as|am|'m|are|became|become) (?:an? |the )?$", re.IGNORECASE)
# Of two wives or brothers, these tell one from the other; some also that she or he is gone.
_GONE = frozenset(("ex", "former", "late"))
_ORDER = ("first", "second", "third", "older", "elder", "younger", "eldest", "oldest", "youngest")
_QUALIFIERS = frozenset((*_GONE, *_ORDER, "step", "half"))
_ASKS_BEFORE = re.compile(
    r"\b(?:did|was|were|had|used)\b.*\b(?:before|previously|formerly|earlier|back then|used? to)\b"
    r"|\b(?:previous|former)\b",
    re.IGNORECASE,
)
# "Do I like fish?" tells nothing.
_ASKS = re.compile(
    r"\W*(?:(?:do|does|did|am|is|are|was|were|have|has|can|could|will|would|should) (?:I|we|my|our|you)\b"
    r"|(?:what|which|who|whose|where|when|how|why)\b.*\?)",
    re.IGNORECASE,
)
_PAST_VERBS = frozenset(("went", "parked", "lent", "said"))


@dataclass(frozen=True, slots=True)
class Claimed:
    """A sentence in words, with the `thing` or person that has the `value`, and what it is `about`."""

    words: Sequence[str]
    thing: Sequence[str]
    value: Sequence[str]
    about: str

    @property
    def is_quoting(self) -> bool:
        """True of a sentence that only quotes or greets."""
        return list(self.words[:2]) in _QUOTING

    @property
    def is_by_name(self) -> bool:
        """True of a sentence about neither "you" nor something of "your"s: "Ida lives in Ulm"."""
        return self.words[0] not in ("you", "your") and not self.is_quoting

    @property
    def is_of_person(self) -> bool:
        """True of a sentence about one of the user's people, such as "your wife"."""
        return self.is_by_name or (self.words[0] == "your" and any(map(names_a_person, self.thing)))

    def is_of_today(self, question: str) -> bool:
        """Return whether it tells what holds now, though the question is "Where did I live before?"."""
        if not _ASKS_BEFORE.search(question):
            return False
        if self.words[0] == "you":
            return self.words[1] not in _PAST_VERBS
        is_named = bool(self.thing) and set(words_in(question)).issuperset(self.thing)
        return is_named and self.words[0] == "your"

    def is_told_by(self, line: str) -> bool:
        """Return whether a sentence with the value tells it of those of whom this claims it, and as such."""
        if _ASKS.match(line):
            return False
        if self.words[0] == "you":
            verb, value = self.words[1], self.value
            dislikes = _DISLIKES.search(line) is not None
            is_opposite = (verb in _LIKING and dislikes) or (verb in _DISLIKING and not dislikes)
            # "My fish are 56"
            if verb == "have" and tells_of_theirs(line, self.thing or ("children",), value):
                return True
            return not is_opposite and tells_of_user(line, value, of_wishes=verb in _OF_WISHES)
        is_theirs = tells_of_theirs(line, self.thing, self.value, by_name=self.is_by_name)
        return is_theirs and not (self.is_of_person and not self._is_told_as_such(line))

    def _is_told_as_such(self, line: str) -> bool:
        """Return whether a sentence about somebody says what a value is: a name, and no trade or allergy."""
        told = _TOLD_AS.get(self.about)
        written = re.search(r"[\W_]+".join(map(re.escape, self.value)), line, re.IGNORECASE)
        if told is None or written is None:
            return True
        before = line[: written.start()]
        # An answer that was stored: "71"
        if words_in(line) == list(self.value):
            return True
        if told.search(before) or told.search(line[written.end() :]):
            return True
        if self.about == "name":
            return written[0][:1].isupper()
        return self.about == "job" and _IS_A.search(before) is not None

    def is_told_by_fact(self, key: str, known: Sequence[Fact], is_told_with: Callable[[str], bool]) -> bool:
        """Return whether a fact with the value is about those, and of the kind, of which this claims it.

        "Your wife lives in Lisbon" is not borne out by where the user lives, "Your brother is called plumber"
        not by his job, and "You like fish" not by what the user dislikes. `known` are all facts, which tell
        who has which name; `is_told_with` says whether the value is told together with a word.
        """
        owner, kind = _parts_of(key)
        is_theirs = any(map(names_a_person, owner))
        if self.words[0] == "you" and not self.is_quoting:
            verb = self.words[1]
            is_opposite = (verb in _LIKING and kind in _DISLIKED) or (verb in _DISLIKING and kind in _LIKED)
            return not is_opposite and not (is_theirs and kind in _TOLD_AS)
        if not self.is_of_person:
            return True
        if kind in _TOLD_AS and not is_theirs:
            return False
        if is_theirs and self.about in _TOLD_AS and not _is_same_kind(kind, self.about):
            return False
        named = {*owner, kind}
        if self.is_by_name:
            keys = [words_in(one.key) for one in known if not set(self.thing).isdisjoint(words_in(one.value))]
            return any(not named.isdisjoint(one) for one in (self.thing, *keys))
        mine, theirs = _QUALIFIERS.intersection(self.thing), _QUALIFIERS.intersection(named)
        if theirs - mine:
            return not (theirs - mine) & _GONE
        return all(is_told_with(one) for one in mine - theirs)


def _parts_of(key: str) -> tuple[list[str], str]:
    """Return whose a key is, and its kind: "children" and "name" of children_names."""
    kind, of, whose = key.partition("_of_")
    *owner, last = words_in((f"{whose}_{kind}" if of else key).replace("_", " ")) or [""]
    return owner, "name" if last == "names" else last


def _is_same_kind(kind: str, about: str) -> bool:
    """Return whether the last word of a key means the same as what a form is about: "city" and location."""
    known = canonical_key(kind)
    return kind == about or (known is not None and known.name == about) or is_about(kind, about)

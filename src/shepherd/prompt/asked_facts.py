"""Facts that a question plainly asks for, by its words alone: about the user, their people and animals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from shepherd._native.text import STOP_WORDS
from shepherd.claims.keys import is_about
from shepherd.claims.wordings import definition
from shepherd.prompt.questions import begins_question, questions_in
from shepherd.sentences import is_question, split_sentences
from shepherd.types import Fact

__all__ = ["asked_facts", "asks", "asks_for_all", "words_in"]

_WORD = re.compile(r"[^\W_]+")
_SPELLINGS = {"favourite": "favorite", "colour": "color"}
# Words of questions for a fact that its key does not have.
_OWN = frozenset(("i", "my", "me", "mine", "i'm", "i've", "we", "our"))
_ASKING = frozenset(
    (
        "what",
        "which",
        "where",
        "who",
        "when",
        "how",
        "whose",
        "tell",
        "know",
        "called",
        "please",
        "s",
        "give",
        "show",
        "remind",
        "forget",
        "forgot",
    )
)
_HAVING = frozenset(("have", "own", "drive", "ride", "use", "speak", "play", "prefer", "kind", "got"))
_VAGUE = frozenset(("address", "full"))
_LIKING = frozenset(("like", "love", "best", "most", "prefer", "favorite", "kind"))
# What people say about others by the end of a key, and words of questions by the word of a key.
_ATTRIBUTES = {
    "name": frozenset(("called", "name", "names", "named", "who")),
    "age": frozenset(("old", "age")),
    "allergy": frozenset(("allergic", "allergy", "allergies")),
    "birthday": frozenset(("birthday", "born")),
    "location": frozenset(("live", "lives", "based", "where")),
    "job": frozenset(("job", "work", "works", "profession", "occupation")),
    "diet": frozenset(("diet", "eat", "eats")),
}
_COUNTED = {"children": "kid", "siblings": "sibling", "pets": "pet"}
_MEANT_BY = {"allergic": "allergy", "born": "birthday"}
_LIVING = re.compile(
    r"\b(?:do for|make) a living\b|(?<=\bdoes )(?P<who>(?:my )?\w+) do(?=\W*$)", re.IGNORECASE
)
_IDENTITY = re.compile(r"\bwho (?:am i|i am)\b", re.IGNORECASE)
_TASK = re.compile(r"\bwork(?:ing)? on\b", re.IGNORECASE)
_OTHER_TIME = frozenset(("was", "were", "did", "used", "before", "will", "last", "next", "ago", "not", "why"))
_KNOWING = r"(?:know|learn(?:ed|t)|remember(?:ed)?|stored?|saved?) (?:about|of) me"
_ALL = re.compile(
    r"(?:.*[,.!]\s*)?(?:and |so |please |can you |could you )*"
    r"(?:what (?:all |else )?(?:do|have)|(?:tell|show) me (?:all|everything|what)(?: that)?) you(?: have)?"
    rf" {_KNOWING}(?: so far| by now| now| already| yet)?\W*",
    re.IGNORECASE,
)
_MOST_KNOWN = 2


def asked_facts(question: str, facts: Sequence[Fact]) -> list[list[Fact]]:
    """Return the facts that each question of a message asks for; none where that is not sure.

    Every word of a question has to be one of the key, or one in which people talk about it: "Where do I
    work?" asks for job and employer, "What is the name of my school?" not for the name.
    """
    found = (_facts_of(one.text, facts) for one in questions_in(question))
    return [meant if len(meant) <= _MOST_KNOWN else [] for meant in found]


def asks_for_all(text: str) -> bool:
    """Return whether a message asks for all that is known about the user."""
    return _ALL.fullmatch(text.strip()) is not None


def _facts_of(question: str, facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts that one question asks for."""
    plain = _LIVING.sub(lambda found: f"{found['who'] or ''} job", _TASK.sub("project", question))
    words = words_in(_IDENTITY.sub("what is my name", plain))
    asked = set(words)
    if not (asks(question) or begins_question(question)) or _OTHER_TIME & asked - (
        {"was", "were"} if "born" in asked else set()
    ):
        return []
    content = {_singular(word) for word in words if word not in STOP_WORDS} - STOP_WORDS - _OWN - _ASKING
    if others := _of_others(asked, content, facts):
        return others
    if _OWN & asked and (counted := [fact for fact in facts if _counts(fact.key, asked, content)]):
        return counted
    if any(definition(name).fullmatch(word) for name in ("kin", "animal") for word in words):
        return []
    if not _OWN & asked or not content:
        return []
    content = {_MEANT_BY.get(word, word) for word in content} | ({"number"} if "many" in asked else set())
    own = [fact for fact in facts if not _relation(fact.key)]
    # "Where do I work?" asks for the employer, not for the job.
    is_for_job = "where" not in asked
    return [fact for fact in own if _is_meant(content, fact.key) and (is_for_job or fact.key != "job")]


def _of_others(asked: set[str], content: set[str], facts: Sequence[Fact]) -> list[Fact]:
    """Return the fact about a person or an animal, by "my dog" or by name, if exactly one is asked for."""
    names = {_relation(fact.key): set(words_in(fact.value)) for fact in facts if fact.key.endswith("_name")}
    found = []
    asked, content = _kids(asked), _kids(content)
    for fact in facts:
        who, what = _relation(fact.key), fact.key.rpartition("_")[2]
        relation, named = _kids(who.split("_")), names.get(who, set())
        is_by_name = what != "name" and bool(named) and named <= asked
        is_by_relation = bool(_OWN & asked) and relation <= asked
        if not who or not (is_by_name or is_by_relation) or not _ATTRIBUTES[what] & asked:
            continue
        meant = set(map(_singular, relation | (named if is_by_name else set()) | _ATTRIBUTES[what]))
        if not content - meant:
            found.append(fact)
    return found if len(found) == 1 else []


def _counts(key: str, asked: set[str], content: set[str]) -> bool:
    """Return whether a question asks for this number and nothing else: "How many kids do I have?"."""
    is_number = "many" in asked or (asked & {"do", "have"} and not asked & {"who", "where", "called"})
    return bool(is_number) and key in _COUNTED and _kids(content) - {"many", "number"} == {_COUNTED[key]}


def _kids(words: Iterable[str]) -> set[str]:
    return {"kid" if word in ("kids", "child", "children") else word for word in words}


def _relation(key: str) -> str:
    """Return whom a key is about: "dog" of dog_age, "" if it is about the user."""
    who, _, what = key.rpartition("_")
    words = {word for part in who.split("_") for word in (part, _singular(part))} | _kids(who.split("_"))
    is_other = any(definition(name).fullmatch(word) for name in ("kin", "animal") for word in words)
    return who if what in _ATTRIBUTES and is_other else ""


def _is_meant(asked: Iterable[str], key: str) -> bool:
    """Return whether the words of a question name the fact, or are those in which people talk about it."""
    asked = set(asked)
    named = {_singular(word) for word in words_in(key)} - {"of"}
    # "What is my name?" does not ask for cat_name.
    is_named = asked >= named - {"favorite", "name"} if named - {"name"} else "name" in asked
    if not is_named and not any(is_about(word, key) for word in asked):
        return False
    others = (_LIKING if "favorite" in named else _HAVING) | _VAGUE
    return all(word in named or word in others or is_about(word, key) for word in asked)


def _singular(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 and not word.endswith("ss") else word


def words_in(text: str) -> list[str]:
    """Return the words of a text in small letters and American spelling."""
    return [_SPELLINGS.get(word, word) for word in _WORD.findall(text.casefold())]


def asks(text: str) -> bool:
    """Return whether one of the sentences is a question."""
    return any(map(is_question, split_sentences(text, clauses=True)))

"""Words that mean the same thing in questions, in keys of facts and in notes, from `concepts.txt`.

Words are compared as stems, as the index has them: "allergic" and "allergies" are both about `allergy`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from shepherd._native.text import STOP_WORDS, keywords
from shepherd.pattern_index import Replacements

__all__ = [
    "FRAME",
    "are_related",
    "are_same",
    "content_words",
    "forms_of",
    "is_common",
    "is_kind_of",
    "meanings_of",
    "relation_of",
    "relations_among",
    "relations_asked_by",
    "searched_words",
    "wider_search",
]

_SECTION = re.compile(r"\[(\w+)")
# Several words that mean one thing, as one word.
_PHRASES = (
    (r"\b(mother|father|sister|brother|son|daughter)[ _-]in[ _-]law\b", r"\1inlaw"),
    (r"\b(?:mum|mom)[ _-]in[ _-]law\b", "motherinlaw"),
    (r"\bdad[ _-]in[ _-]law\b", "fatherinlaw"),
    (r"\b(?:do|did|does|doing) (?:(?:for|to earn|to make) )a living\b", "work"),
    (r"\b(?:sports?|activity|activities|crafts?)\b(?=.*\b(?:spare|free) time\b)", "hobby"),
    (r"\b(?:spare|free) time\b", "hobby"),
    (r"\b(?:mother|native|first) tongue\b", "native language"),
    (r"\b(my|our) middle one\b", r"\1 middle child"),
    (r"\bnext[ -]door\b", "neighbor"),
    (r"\bblood (?:group|type)\b", "blood"),
    (r"\b(?:better|other) half\b|\bsignificant other\b", "partner"),
    (r"\b(?:pick|picks|picked|picking)[ -](?:it |them )?up\b", "collect"),
    (r"\b(?:call|calls|called|calling)[ _]off\b", "cancel"),
    (r"\b(?:hand|hands|handed) (?:it |them )?in\b", "submit"),
    (r"\blook(?:s|ing|ed)? after\b", "service"),
    (r"\b(?:people|friends|every(?:one|body)|they) calls? me(?: for short)?\b", "nickname"),
    (r"\b(?:stands?|standing|stood|fills?|filling) in for\b", "substitute"),
    (r"\b(?:can|must|may|should)(?:n['\u2019]t|not| not) (?:have|eat)\b", "allergic"),
    (r"\b(?:these days|at the moment|at present)\b", ""),
    (r"\bpart of (?:the )?(?:town|city)\b", "neighborhood"),
    (
        r"\b(?:part|area|side|end|district|quarter|corner|bit) of [\w' -]+?"
        r" (?:(?:do|did|am|are) (?:i|we) (?:live|stay|from|based|living|staying|at home)\b"
        r"|(?:is|are)(?= (?:my|our) (?:home|house|flat|place|apartment)\b))",
        "neighborhood",
    ),
    (r"\bfirst[ -]?(?=(?:daughter|son|child|kid|born)\b)", "eldest "),
    (r"\bline manager\b", "boss"),
    (r"\b(?:number|licen[cs]e) plates?\b", "plate"),
    (r"\bknown as\b|\bdo (?:my |our )?(?:mates|family|folks) call me\b", "nickname"),
    (r"\bfor a living\b", "job"),
    (r"\b(?:called|name) before (?:i|we) (?:(?:was|got|were) )?married\b", "maiden name"),
    (r"\bline of work\b|\bwhat do (?:i|we) do(?=\W*$)", "job"),
    (r"\bliv(?:e|ing) with\b", "flatmate"),
    (r"\bshar(?:e|ing) (?:an?|the|my|our) (?:flat|room|house|apartment|dorm) with\b", "flatmate"),
    (r"\b(?:going out with|going to marry|getting married to)\b", "dating"),
    (r"\bwhere (?:am|are|do|did) (?:i|we) (?:originally )?(?:come )?from\b", "hometown"),
)  # fmt: skip


# "check-in" is "check in".
_HYPHEN = re.compile(r"(?<=[a-z])-(?=(?:in|out|up|off|on|down|over|back|by|away)\b)")
_PARTICLE = re.compile(r"\b([a-z]{3,})[ -](in|out|up|off|on|down|over|back|by|away)\b", re.I)
_HOW = re.compile(r"\bhow (?:long|often|old|many|much|far|big|tall|high|hot|heavy)\b", re.I)
_ASKS = re.compile(
    r"\W*(?:\w+ )?(?:what|which|who|whose|where|when|how|is|are|do|does|did|can)(?:['\u2019]?s)?\b",
    re.I,
)

# How close words come that are not the same: names of a thing, forms of a word, one that asks for another.
_SAME_THING, _DERIVED, _ASKS_FOR = 0.8, 0.8, 0.6
_ENDINGS = ("er", "or", "al", "ment", "ion", "ant", "ist", "age", "anc", "y", "i")
_SHORTEST_ROOT = 3  # letters
# Words that only seem to be derived.
_UNDERIVED = frozenset(
    re.findall(
        r"\w+",
        "after all army bar bat batter bitter butter cage call can car card cat city corner counter cover"
        " dinner drawer ever fall far fat father finger flower fort ginger hall hammer hat jar ladder"
        " later letter litter lower mall man manner mar master mat matter member mother nation never"
        " number offer order other over owner page pan paper par part party pat pepper per plan plant port"
        " post poster potter power proper quarter rage rat ration rubber sat shower silver sort stage"
        " start station summer super tall tar tower toner under upper wage wall want war water weather"
        " winter",
    )
)


@dataclass(frozen=True, slots=True)
class _Lexicon:
    """Concepts by the stem of each word: by its own words, and also by words of questions about it.

    `relations` are the people and animals; `kinds` has the kinds of one: wife and husband of partner. By
    concept, `words` are all its words as they are written, `stems` the stems of its own, and `asked_by` those
    of questions about it. `asked_back` has those words of questions that a key may have as well, for a
    question with the concept's own: the key "lives in" for "location", but no "car" for "registration".
    """

    own: Mapping[str, frozenset[str]]
    about: Mapping[str, frozenset[str]]
    asked_back: Mapping[str, frozenset[str]]
    relations: Mapping[str, str]
    kinds: Mapping[str, frozenset[str]]
    things: frozenset[str]
    words: Mapping[str, tuple[str, ...]]
    stems: Mapping[str, frozenset[str]]
    asked_by: Mapping[str, frozenset[str]]


def content_words(text: str) -> list[str]:
    """Return the stems of the words of a text that say something, in their order, each once."""
    text = _HYPHEN.sub(" ", _phrases().apply(text))
    return [word for word in dict.fromkeys(keywords(text)) if word not in STOP_WORDS]


@cache
def _phrases() -> Replacements:
    return Replacements.of(_PHRASES)


def searched_words(question: str) -> str:
    """Return a question without the words that only ask: "how long do liquids go in" is about liquids.

    Other texts, and questions of nothing else, are returned as they are.
    """
    found = _HOW.sub(" ", question)
    if found == question and not _ASKS.match(question):
        return question
    words = [word for word in found.split() if not FRAME.issuperset(content_words(word))]
    return " ".join(words) or question


def wider_search(question: str) -> str:
    """Return the words of a question that say something, with those that mean the same and forms of them.

    It finds texts that tell in other words what is asked, and many others.
    """
    table, found = _lexicon(for_texts=True), dict[str, None]()
    for word in content_words(searched_words(question)):
        found |= dict.fromkeys((word, *forms_of(word)))
        for concept in sorted(table.own.get(word, frozenset()) | table.about.get(word, frozenset())):
            found |= dict.fromkeys(table.words[concept])
    found |= dict.fromkeys(f"{verb}-{particle}" for verb, particle in _PARTICLE.findall(question))
    return " ".join(found)


@lru_cache(maxsize=4096)
def meanings_of(word: str) -> Mapping[str, float]:
    """Return the stems that may stand for a stem in a text, each with how close it comes: 1.0 is the same."""
    table = _lexicon(for_texts=True)
    own, about = table.own.get(word, frozenset()), table.about.get(word, frozenset())
    found = dict.fromkeys(forms_of(word), _DERIVED)
    kinds = table.kinds.get(table.relations.get(word, ""), frozenset())
    for concept in own | about:
        closeness = _SAME_THING if concept in own else _ASKS_FOR
        for stem in table.stems[concept]:
            found[stem] = max(found.get(stem, 0.0), closeness)
        if concept in own:
            for stem in table.asked_by[concept]:
                found.setdefault(stem, _ASKS_FOR)
    found |= {stem: _SAME_THING for stem, relation in table.relations.items() if relation in kinds}
    return {**found, word: 1.0}


def forms_of(word: str) -> frozenset[str]:
    """Return stems that a stem may be derived from, or that from it: "baker" of "bake", "rental" of "rent".

    Not all of them are words.
    """
    if word in _UNDERIVED or not word.isascii() or not word.isalpha() or len(word) < _SHORTEST_ROOT:
        return frozenset()
    roots = {word}
    for ending in _ENDINGS:
        root = word.removesuffix(ending)
        if root != word and len(root) >= _SHORTEST_ROOT:
            roots |= {root, f"{root}e"}
            if root[-1] == root[-2]:  # "sitter"
                roots.add(root[:-1])
    found = set(roots)
    for root in roots:
        if len(root) >= _SHORTEST_ROOT:
            base = root.removesuffix("e")
            found |= {base + ending for ending in _ENDINGS}
            found |= {f"{base}{base[-1]}{ending}" for ending in ("er", "or")}
    return frozenset(found - {word} - _UNDERIVED)


def are_related(one: str, other: str) -> bool:
    """Return whether two stems are the same, name the same thing, or one asks for what the other names."""
    if one == other:
        return True
    table = _lexicon()
    nothing: frozenset[str] = frozenset()
    mine, theirs = table.own.get(one, nothing), table.own.get(other, nothing)
    if mine & theirs or _is_kind(table, one, other) or _is_kind(table, other, one):
        return True
    if any(table.relations.get(other, "") in table.kinds.get(name, ()) for name in table.about.get(one, ())):
        return True
    return bool(table.about.get(one, nothing) & theirs or mine & table.asked_back.get(other, nothing))


def _is_kind(table: _Lexicon, one: str, other: str) -> bool:
    return table.relations.get(one, "") in table.kinds.get(table.relations.get(other, ""), ())


def are_same(one: str, other: str) -> bool:
    """Return whether two stems are the same or name the same thing."""
    table = _lexicon()
    return one == other or not table.own.get(one, frozenset()).isdisjoint(table.own.get(other, ()))


def is_common(word: str) -> bool:
    """Return whether a stem names something that facts are about, or somebody."""
    return word in _lexicon().things


def relation_of(word: str) -> str:
    """Return the kind of person or animal that a stem names, such as "mother" or "dog"; "" if none."""
    return _lexicon().relations.get(word, "")


def relations_among(words: Iterable[str]) -> frozenset[str]:
    """Return the kinds of people and animals among stems."""
    return frozenset(filter(None, map(relation_of, words)))


def relations_asked_by(words: Iterable[str]) -> frozenset[str]:
    """Return the kinds of people that stems ask for without naming them, as in "Who am I dating?"."""
    table = _lexicon()
    asked = frozenset().union(*(table.about.get(word, frozenset()) for word in words))
    return asked & table.kinds.keys()


def is_kind_of(relation: str, other: str) -> bool:
    """Return whether a relation is another one, or a kind of it: "wife" of "partner"."""
    return relation == other or relation in _lexicon().kinds.get(other, ())


@cache
def _lexicon(*, for_texts: bool = False) -> _Lexicon:
    """Return the concepts; `for_texts` with the words that are too loose for facts."""
    own: dict[str, set[str]] = {}
    about: dict[str, set[str]] = {}
    asked_back: dict[str, set[str]] = {}
    relations: dict[str, str] = {}
    kinds: dict[str, frozenset[str]] = {}
    named: dict[str, tuple[str, ...]] = {}
    stems: dict[str, frozenset[str]] = {}
    asked_by: dict[str, frozenset[str]] = {}
    section, things = "", set()
    names = ("concepts.txt",) if for_texts else ("concepts.txt", "key_concepts.txt")
    texts = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in names)
    for line in "\n".join(texts).splitlines():
        if found := _SECTION.match(line):
            section = found[1]
        elif line and not line.startswith("#") and (for_texts or section != "texts"):
            name, words, others = (part.strip() for part in line.split("|"))
            others, _, members = others.partition(">")
            for stem in _stems(words):
                own.setdefault(stem, set()).add(name)
                if section not in ("notes", "texts"):
                    things.add(stem)
                if section == "relations":
                    relations[stem] = name
            for stem in _stems(others):
                about.setdefault(stem, set()).add(name)
                if section != "keys":
                    asked_back.setdefault(stem, set()).add(name)
            named[name] = (*named.get(name, ()), *words.replace("_", " ").split(), *others.split())
            single = " ".join(word for word in words.split() if "_" not in word)
            stems[name] = stems.get(name, frozenset()) | frozenset(_stems(single))
            asked_by[name] = asked_by.get(name, frozenset()) | frozenset(_stems(others))
            if members:
                kinds[name] = frozenset(members.split())
    return _Lexicon(
        {stem: frozenset(names) for stem, names in own.items()},
        {stem: frozenset(names) for stem, names in about.items()},
        {stem: frozenset(names) for stem, names in asked_back.items()},
        relations,
        kinds,
        frozenset(things),
        named,
        stems,
        asked_by,
    )


def _stems(words: str) -> Iterable[str]:
    return (stem for word in words.split() for stem in keywords(word.replace("_", " "))[-1:])


# Words of a question that ask and say nothing about what is asked for.
FRAME = frozenset(
    content_words(
        "again now today currently dear thing things got get have take need give show find look forgot forget"
        " ask asks asking use using go goes put way kind sort type exactly actual called call me know own"
        " main recall check correct right please come wondering write down enter fill form present else there"
        " long normally usually generally usual often always particular remind reminder make makes made well"
        " nowadays owt summat anything something here pls plz thx cheers"
    )
)

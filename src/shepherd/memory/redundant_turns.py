"""Turns that are not shown beside the facts: they repeat a fact, or state a former value of one.

A repetition says word for word what a fact says: `My name is Steve` next to `name=Steve`. `My name is not
Steve` and `I am Steve` have another word and are none. Leaving out every turn that a fact was learned from
would lose the rest of what it says.

`I live in Austin` contradicts the fact `location=Berlin`, and a model may believe the turn. It is left out if
it is one sentence that says nothing but the value that was learned from it: `Recommend me a place in Austin`
and `My sister is in Austin` say more and stay. In doubt a turn is shown. All of them stay in memory, and a
search finds them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from shepherd._native.text import STOP_WORDS, terms
from shepherd.claims.keys import LISTS, canonical_key, is_about
from shepherd.claims.wordings import definition
from shepherd.lru_cache import FIFODict
from shepherd.memory.records import FactChange
from shepherd.types import Fact, SearchResult

__all__ = [
    "Contradictions",
    "FactWords",
    "Former",
    "FormerValues",
    "fact_words",
    "former_values",
    "is_echo",
    "outdated_by",
    "repeats",
    "without_former_values",
    "without_repetitions",
]

# A longer turn is neither: it need not be compared with hundreds of facts.
_MOST_CHARACTERS = 200
# Words of an answer that is nothing but a value.
_FEW_WORDS = 6
# Number of users whose former values are cached.
_MOST_USERS = 1024
# Number of memories of which it is cached whether they contradict a fact.
_MOST_MEMORIES = 4096

# ---- repetitions

_REPEATED_WORD = re.compile(r"[^\W_]+")
# Words of a statement besides key and value. In other languages such turns stay, which only costs tokens.
_EMPTY = frozenset(("a", "am", "an", "and", "are", "i", "is", "it", "m", "my", "our", "s", "the", "we"))


class FactWords(NamedTuple):
    """The words of each fact's key and value, and all words that a repetition may have."""

    of_each: Sequence[frozenset[str]]
    of_all: frozenset[str]


def fact_words(facts: Iterable[Fact]) -> FactWords:
    """Return the words for `without_repetitions`; to be cached while the facts stay the same."""
    of_each = [_repeated_words(fact.key) | _repeated_words(fact.value) for fact in facts]
    return FactWords(of_each, _EMPTY.union(*of_each))


def without_repetitions(results: Iterable[SearchResult], facts: FactWords) -> list[SearchResult]:
    """Return the results without turns in which the user only repeated facts."""
    return [result for result in results if result.source != "turn" or not repeats(result.question, facts)]


def repeats(text: str, facts: FactWords) -> bool:
    """Return whether a text says word for word what facts say, and nothing else."""
    if len(text) > _MOST_CHARACTERS:
        return False
    folded = text.casefold()
    first = _REPEATED_WORD.search(folded)
    if first is None or first[0] not in facts.of_all:  # decides for most turns, in 1 µs
        return False
    words = frozenset(_REPEATED_WORD.findall(folded))
    if not words <= facts.of_all:
        return False
    repeated = frozenset[str]().union(*(fact for fact in facts.of_each if fact <= words))
    return bool(repeated) and words - repeated <= _EMPTY


# British spellings of words in keys.
_SPELLINGS = {"favourite": "favorite", "colour": "color", "neighbour": "neighbor"}


def _repeated_words(text: str) -> frozenset[str]:
    return frozenset(_SPELLINGS.get(word, word) for word in _REPEATED_WORD.findall(text.casefold()))


# Words beside key and value in a statement from which the fact was learned, in seven languages.
_STATING = _repeated_words(
    "a am an and are as at been born called do does from for have i im in is it ive job live lives living m"
    " me my name named of old our s speak t the to user users we what where which who work working works"
    " year years you allergic actually hi hello hey please remember that re ve so btw"
    " alt arbeite aus bei bin heiße heisse ich in ist jahre komme lebe mein meine meinem und unser wir wohne"
    " ai ans appelle au chez de du est et habite j je la le m ma mon nous suis travaille vis à"
    " años de el en es la llamo me mi soy tengo trabajo vivo y yo"
    " a abito anni chiamo di e ho il io la lavoro mi mia mio sono vivo è"
    " anos chamo e eu meu minha moro o sou tenho trabalho"
    " ben de een en heet het ik is jaar mijn oud werk woon"
)


def is_echo(text: str, facts: Iterable[Fact]) -> bool:
    """Return whether a text says nothing but these facts, which were learned from it: "I live in Austin"."""
    if len(text) > _MOST_CHARACTERS or _QUESTION_MARK.search(text):
        return False
    words = _repeated_words(text)
    said = [fact for fact in facts if _repeated_words(fact.value) <= words]
    known = _STATING.union(*(_repeated_words(f"{fact.key.replace('_', ' ')} {fact.value}") for fact in said))
    return bool(said) and words <= known


# ---- former values

# Thai to Lao, Burmese, Khmer, Japanese and Chinese have no spaces: one piece may be many words, which are
# searched for as parts of it.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_FIRST_UNSPACED = re.compile(f"[{_UNSPACED}]")
_QUESTION_MARK = re.compile("[?\uff1f\u061f\u037e]")
_SENTENCE_END = re.compile(r"[.!?;\n\u3002\uff01\uff1f](?=\s*\S)")


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


# Words of a sentence besides a value and its key. None asks, denies, or is about others.
_SMALL = _words(
    "a actually already also am an and are as at been by called for from have hello here hey hi i im in is it"
    " ive just m me my named now of oh ok okay on our please re really remember s so still that thats the"
    " this to ve was we were with yes"
    " aus bei bin ich ist mein meine sind unser unsere wir zu"  # German
    " au c de des du en est j je l la le ma mon nous suis un une à"  # French
    " el es estoy mi soy yo"  # Spanish
    " di e em eu io meu mia minha mio sono sou è é"  # Italian, Portuguese
)
# The same in Chinese and Japanese, with the words for living somewhere and for being called.
_SMALL_SIGNS = frozenset("我们的现在目前是了于来自住居叫姓就私僕俺名はにのがですまいてんだよともを")
_SUBJECTS = _words("i im ive we ich wir j je nous yo io eu")
# One more word may say how the value is so, as in `I live in Austin`; these say that it is not.
_DENIALS = _words("almost fast hardly jamais kaum mai nearly never nicht nie niemals nunca não rarely")
# Seconds between a turn and the change of a fact that was learned from it.
_SAME_TURN_S = 600


class Value(NamedTuple):
    """A former value: its text, when it was set, the words of value and key, and the fact as it is now.

    The value of a fact that the user has said to hold no longer is "" now. `sentence` is that which the value
    was learned from, in lower case.
    """

    text: str
    at: int
    words: frozenset[str]
    key: frozenset[str]
    terms: frozenset[str]
    fact: Fact
    sentence: str = ""


class Former(NamedTuple):
    """The former values of a user's facts, and the words of the present ones."""

    values: Sequence[Value] = ()
    present: Sequence[frozenset[str]] = ()


class FormerValues:
    """Cache of each user's former values, read once per change of the facts."""

    # By identity: a store returns the same tuple until something changes.
    def __init__(self) -> None:
        self._known: FIFODict[str, tuple[tuple[Fact, ...], Former]] = FIFODict(_MOST_USERS)

    def of(
        self, user_id: str, facts: tuple[Fact, ...], history: Callable[[], Iterable[FactChange]]
    ) -> Former:
        """Return the former values of the user's facts; `history` is called when the facts are new."""
        known = self._known.get(user_id)
        if known is not None and known[0] is facts:
            return known[1]
        former = former_values(facts, history())
        if facts:  # all empty tuples are the same one
            self._known[user_id] = (facts, former)
        return former


def former_values(facts: Iterable[Fact], history: Iterable[FactChange]) -> Former:
    """Return the values of the history that were replaced or have ended; what was cleared may still hold."""
    current = {fact.key: fact for fact in facts}
    changes = list(history)
    last = {change.key: change for change in sorted(changes, key=lambda change: change.changed_at)}
    current |= {
        key: Fact(key, "", change.changed_at, change.changed_at)
        for key, change in last.items()
        if key not in current and change.value is None and change.statement
    }
    now = {key: _words(fact.value) for key, fact in current.items()}
    former = [
        Value(
            change.value,
            change.changed_at,
            words,
            _words(change.key),
            _terms(change.key) | _terms(change.value),
            current[change.key],
            change.statement.casefold(),
        )
        for change in changes
        if change.value is not None
        and change.key in now
        and not (words := _words(change.value)) <= STOP_WORDS
        and not all(map(_SMALL_SIGNS.issuperset, words))
        and words != now[change.key]
    ]
    return Former(former, [words for words in now.values() if words])


def without_former_values(results: Iterable[SearchResult], former: Former) -> list[SearchResult]:
    """Return the results without turns that only state a former value of a fact."""
    return [result for result in results if result.source != "turn" or not _is_former(result, former)]


def outdated_by(result: SearchResult, former: Former) -> tuple[Value, bool] | None:
    """Return the former value that a memory says, and whether the memory says anything else.

    None if it states no former value, or names the present one too, or is newer than that.
    """
    text = f"{result.question} {result.answer}"
    lowered = text.casefold()
    said: frozenset[str] | None = None
    for value in former.values:
        # Decides for nearly all memories, without taking them to pieces.
        if next(iter(value.words)) not in lowered or result.timestamp >= value.fact.updated_at:
            continue
        said = _words(lowered) if said is None else said
        now = _words(value.fact.value)
        if not _is_in(value.words, lowered, said) or (now and _is_in(now, lowered, said)):
            continue
        if not _states(lowered, value):
            continue
        return value, _has_more(result, value)
    return None


class _Contradicted(NamedTuple):
    """The fact that a memory with this question and answer contradicts, among these facts."""

    facts: tuple[Fact, ...]
    text: tuple[str, str]
    fact: Fact | None


class Contradictions:
    """Cache of the facts that memories contradict, found once per text and change of the facts."""

    def __init__(self) -> None:
        self._known: FIFODict[tuple[str, int], _Contradicted] = FIFODict(_MOST_MEMORIES)

    def of(
        self, user_id: str, facts: tuple[Fact, ...], results: Iterable[SearchResult]
    ) -> dict[int, tuple[Fact, str]]:
        """Return the newer facts that memories contradict, and what these say, by the memories' ids."""
        found = {}
        for result in results:
            text = result.question, result.answer
            known = self._known.get((user_id, result.id))
            if known is None or known.facts is not facts or known.text != text:
                known = _Contradicted(facts, text, _contradicted_by(result, facts))
                self._known[user_id, result.id] = known
            if known.fact is not None:
                found[result.id] = known.fact, result.answer
        return found


def _contradicted_by(result: SearchResult, facts: Iterable[Fact]) -> Fact | None:
    """Return the newer fact that a short answer contradicts: `Where does the user live?`, `In Köln`.

    It was no value of that fact before; an import brings such memories.
    """
    question = result.question.casefold()
    if not question.rstrip().endswith("?") or not result.answer or len(question) > _MOST_CHARACTERS:
        return None
    said = _words(result.answer)
    is_of_others = any(definition(name).search(question) for name in ("person", "animal"))
    if is_of_others or len(said) > _FEW_WORDS or said <= _SMALL | STOP_WORDS:
        return None
    for fact in facts:
        known = canonical_key(fact.key)
        is_one = known is not None and known.name not in LISTS
        if is_one and fact.updated_at > result.timestamp and is_about(question, fact.key):
            return None if _is_in(_words(fact.value), result.answer.casefold(), said) else fact
    return None


def _states(text: str, value: Value) -> bool:
    """Return whether a text with a value states it: it has its sentence, or words about the fact."""
    if (value.sentence and value.sentence in text) or is_about(text, value.fact.key):
        return True
    # "My brother is with Bosch, the job is fine": `brother_employer`
    whose, _, told = value.fact.key.rpartition("_")
    return bool(whose) and is_about(text, whose) and is_about(text, told)


def _has_more(result: SearchResult, value: Value) -> bool:
    """Return whether a memory says anything besides a value; a turn always does, since it was said."""
    if result.source == "turn" or _SENTENCE_END.search(result.question):
        return True
    return bool(_words(result.answer) - value.words - value.key - _SMALL)


def _is_former(result: SearchResult, former: Former) -> bool:
    text = result.question
    if len(text) > _MOST_CHARACTERS or _SENTENCE_END.search(text) or _QUESTION_MARK.search(text):
        return False
    near = [value for value in former.values if abs(value.at - result.timestamp) <= _SAME_TURN_S]
    if not near:
        return False
    text = text.casefold()
    said = _words(text)
    stated = [value for value in near if _is_in(value.words, text, said)]
    return (
        bool(stated)
        and not _says_more(text, stated)
        and not any(_is_in(p, text, said) for p in former.present)
    )


def _says_more(text: str, stated: Sequence[Value]) -> bool:
    """Return whether a sentence says anything besides these values."""
    known = frozenset[str]().union(*(value.words | value.key for value in stated))
    for part in sorted(filter(_is_unspaced, known), key=len, reverse=True):
        text = text.replace(part, " ")
    said = _words(text)
    known_terms = frozenset[str]().union(*(value.terms for value in stated))
    more = [word for word in said - known - _SMALL if not known_terms.issuperset(terms(word))]
    more = [word for word in more if not _SMALL_SIGNS.issuperset(word)]
    if not more:
        return False
    if len(more) > 1 or more[0] in STOP_WORDS or more[0] in _DENIALS or _is_unspaced(more[0]):
        return True
    # `My sister is in Austin` is about somebody else; `my favourite editor` is the editor.
    return _SUBJECTS.isdisjoint(said) and not any(value.key & said for value in stated)


def _is_in(words: frozenset[str], text: str, said: frozenset[str]) -> bool:
    return all(word in text if _is_unspaced(word) else word in said for word in words)


def _is_unspaced(word: str) -> bool:
    return not word.isascii() and _FIRST_UNSPACED.match(word) is not None


def _terms(text: str) -> frozenset[str]:
    return frozenset(terms(text.replace("_", " ")))

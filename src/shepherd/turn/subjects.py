"""Whom a sentence tells something of: the user, somebody else, or a thing of either.

"My neighbour Paul drives a Porsche" tells nothing of the user's car, nor does "I dream of a Porsche".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from shepherd._native.text import STOP_WORDS
from shepherd.claims.material import own_words
from shepherd.claims.wordings import rule
from shepherd.prompt.asked_facts import words_in
from shepherd.prompt.concepts import are_related, content_words, is_common, relation_of

__all__ = ["names_a_person", "tells_of_another", "tells_of_theirs", "tells_of_user"]

# People who are no relatives.
_PEOPLE = re.compile(
    r"(?:boss|chief|manager|neighbou?r|colleague|co-?worker|workmate|classmate|flatmate|roommate|housemate"
    r"|teammate|teacher|tutor|professor|doctor|gp|dentist|vet|nurse|therapist|coach|trainer|landlord|landlady"
    r"|tenant|lodger|client|customer|guest|student|pupil|apprentice|intern|trainee|assistant|secretary|employee"
    r"|cleaner|nanny|gardener|plumber|electrician|builder|lawyer|solicitor|accountant|driver|ex(?:-\w+)?|family"
    r"|(?:\w+-)*in-?laws?|step\w+|folks|buddy|pal|lover|fling|crush|widow|widower|godfather|godmother|ancestor"
    r"|guy|man|woman|lady|person|people|stranger)s?",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*['\u2019]?")
_POSSESSIVE = re.compile(r"(?:['\u2019]s|s['\u2019])$")
_CONTRACTED = frozenset(("it", "that", "let", "what", "here", "there", "who", "where", "how", "this", "name"))
# Memories that others wrote are about "the user".
_ME = frozenset(("i", "we", "user"))
_OTHERS = frozenset(("he", "she", "they"))
_MINE = frozenset(("my", "our"))
_DETERMINERS = frozenset((*_MINE, "his", "her", "their", "the", "a", "an", "this", "that", "your"))
_BEGINNERS = frozenset(
    (
        *("and", "but", "or", "while", "whereas", "because", "since", "that", "when", "if", "where"),
        *("although", "though", "so", "as", "who"),
    )
)
_BEFORE_CLAUSE = re.compile(r"(?:[.,;:!?()\u2013\u2014\"\u201c]|\s-)\s*[\"'\u2018\u201c(]*$")
_IS = frozenset(("is", "are", "was", "were"))
_VERB = re.compile(
    r"(?:is|are|was|were|has|have|had|does|did|can|could|will|would|said|told|went|got|took|made|drove|spoke"
    r"|gave|grew|bought|sold|kept|met|[a-z]{2,}(?<!s)s|[a-z]{3,}ed)"
)
# Words with a capital at the beginning of a sentence that are no names.
_NO_NAME = re.compile(
    r"(?:just|also|only|still|now|then|never|always|often|recently|finally|currently|once|yes|no|ok(?:ay)?|well"
    r"|today|yesterday|tomorrow|nobody|everybody|everyone|someone|somebody|nothing|everything|\w+ly|\w+ing|\w+ed)",
    re.IGNORECASE,
)
# Before a statement: "Remember: my gym is Zen", "You should know that I work at BP".
_LEAD_IN = re.compile(
    r"\W*(?:(?:please |just )?(?:remember|note|fyi|ps|update|reminder|correction|for the record|by the way"
    r"|btw)\s*:"
    r"|you should (?:also )?know(?: that)?)\s*",
    re.IGNORECASE,
)
_DREAMS = re.compile(
    r"\b(?:dream\w*|wish(?:es|ed)?|would|imagin\w+|pretend\w*|if (?:I|we) (?:were|was|had|could|win|won))\b"
    r"|\b(?:I|we)['\u2019]d (?:love|like|rather|prefer)\b",
    re.IGNORECASE,
)
_MOST_OF_PHRASE = 4  # words
_CLAUSES = re.compile(r"[,;:.!?]\s|\b(?:and|but)\b")


@dataclass(frozen=True, slots=True)
class _Mention:
    """A subject of a sentence, from `begin` to `end`: the user, or somebody else of the stems `words`."""

    begin: int
    end: int
    is_user: bool
    words: frozenset[str] = frozenset()


def names_a_person(word: str) -> bool:
    """Return whether a word names a person or an animal by what they are: "boss", "wife", "dog"."""
    plain = _POSSESSIVE.sub("", word)
    return _PEOPLE.fullmatch(plain) is not None or any(map(relation_of, content_words(plain)))


def tells_of_user(sentence: str, value: Sequence[str], *, of_wishes: bool = False) -> bool:
    """Return whether a sentence with these words tells them of the user, as true unless `of_wishes`.

    A sentence without a subject, such as "Got a Skoda", is about the user, who wrote it.
    """
    places = _places(sentence, value)
    return any(_is_of_user(sentence, begin, end, of_wishes=of_wishes) for begin, end in places)


def tells_of_another(sentence: str) -> bool:
    """Return whether a sentence tells only of others or of a dream, and nothing of the user as they are."""
    own = own_words(sentence) or sentence
    if _DREAMS.search(own):
        return True
    mentions, words = _mentions(own), [word.casefold() for word in _WORD.findall(own)]
    # "Vim is my editor"
    owns = any(word in _MINE and not _person_behind(words, n) for n, word in enumerate(words))
    return bool(mentions) and not owns and not any(one.is_user for one in mentions)


def tells_of_theirs(
    sentence: str, thing: Sequence[str], value: Sequence[str], *, by_name: bool = False
) -> bool:
    """Return whether a sentence with a value tells it of the user's thing or relative, not of another's.

    `thing` are the words that follow "your": "wife", "mum's phone number"; or somebody `by_name`.
    """
    stems = set(content_words(" ".join(thing)))
    is_person = by_name or any(map(names_a_person, thing))
    for begin, _ in _places(sentence, value):
        if is_person and _is_unreal(sentence, begin):
            continue
        subject = _subject_at(sentence, begin)
        if by_name:
            if _is_about(subject, stems) or _stands_before(sentence, begin, stems):
                return True
        elif is_person:
            is_beside = _stands_before(sentence, begin, stems) and _is_of_ours(sentence, stems, subject)
            if _is_about(subject, stems) or is_beside:
                return True
        elif _is_of_ours(sentence, stems, subject):
            return True
    return False


def _is_of_user(sentence: str, begin: int, end: int, *, of_wishes: bool) -> bool:
    subject = _subject_at(sentence, begin)
    if subject is None:
        # "Nuts make my son sick"
        behind = [one for one in _mentions(sentence) if one.begin >= end]
        if (behind or _names_theirs(sentence[end:])) and not any(one.is_user for one in behind):
            return False
    elif not subject.is_user:
        return False
    return of_wishes or not _is_unreal(sentence, begin)


def _is_unreal(sentence: str, begin: int) -> bool:
    """Return whether the clause before a value tells a wish, a plan or a guess: "I'd love to live in"."""
    return rule("unreal").search(_CLAUSES.split(_LEAD_IN.sub("", sentence[:begin]))[-1]) is not None


def _names_theirs(text: str) -> bool:
    """Return whether a text names one of the user's people: "my son", and no "2 small kids"."""
    words = [word.casefold() for word in _WORD.findall(text)]
    return any(word in _MINE and _person_behind(words, n) for n, word in enumerate(words))


def _is_about(subject: _Mention | None, stems: Set[str]) -> bool:
    """Return whether a subject is one of these people; a sentence without a subject may be about anybody."""
    if subject is None:
        return True
    return not subject.is_user and any(are_related(one, other) for one in subject.words for other in stems)


def _stands_before(sentence: str, begin: int, stems: Set[str]) -> bool:
    """Return whether a person is named right before a value: "I have a brother called Tom"."""
    near = content_words(" ".join(_WORD.findall(sentence[:begin])[-_MOST_OF_PHRASE:]))
    return any(are_related(one, other) for one in near for other in stems)


def _is_of_ours(sentence: str, stems: Set[str], subject: _Mention | None) -> bool:
    """Return whether a thing in a sentence is the user's: "my dog", and not "my friend's dog"."""
    words = list(_WORD.finditer(sentence))
    found = [
        n
        for n, word in enumerate(words)
        if any(are_related(one, stem) for one in content_words(word[0]) for stem in stems)
    ]
    for n in found:
        before = [word[0].casefold() for word in words[max(0, n - _MOST_OF_PHRASE + 1) : n]]
        owners = [word for word in before if _POSSESSIVE.search(word) and word[:-2] not in _CONTRACTED]
        if owners:
            if stems >= set(content_words(_POSSESSIVE.sub("", owners[-1]))):
                return True
        elif not {*_MINE, "me", "us"}.isdisjoint(before):
            return True
        elif _DETERMINERS.isdisjoint(before[-2:]) or not {"the", "a", "an"}.isdisjoint(before[-2:]):
            governing = _subject_at(sentence, words[n].start())
            if governing is None or governing.is_user or not governing.words.isdisjoint(stems):
                return True
    return not found and (subject is None or subject.is_user or not subject.words.isdisjoint(stems))


def _places(sentence: str, value: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where these words begin and end in a sentence, unless they are quoted."""
    if (
        not value
        or f" {' '.join(value)} " not in f" {' '.join(words_in(own_words(_LEAD_IN.sub('', sentence))))} "
    ):
        return
    pattern = r"[\W_]+".join(map(re.escape, value))
    yield from (found.span() for found in re.finditer(rf"(?<!\w){pattern}(?!\w)", sentence, re.IGNORECASE))


def _subject_at(sentence: str, place: int) -> _Mention | None:
    before = [one for one in _mentions(sentence) if one.end <= place]
    return before[-1] if before else None


@lru_cache(maxsize=256)
def _mentions(sentence: str) -> tuple[_Mention, ...]:
    """Return the subjects of a sentence in their order."""
    return tuple(_found_in(sentence))


def _found_in(sentence: str) -> Iterator[_Mention]:
    words = list(_WORD.finditer(sentence))
    plain = [word[0].casefold().replace("\u2019", "'") for word in words]
    people: frozenset[str] = frozenset()
    for n, word in enumerate(words):
        base = plain[n].partition("'")[0]
        if base in _ME or (base in ("me", "us") and plain[n - 1 : n] == ["with"]):
            yield _Mention(word.start(), word.end(), is_user=True)
        elif base in _OTHERS:
            yield _Mention(word.start(), word.end(), is_user=False, words=people)
        elif base in _DETERMINERS:
            last = _person_behind(plain, n)
            is_begin = _begins_clause(sentence, words, plain, n)
            if last and (is_begin or _acts(words, last)):
                is_both = plain[last + 1 : last + 3] in (["and", "i"], ["and", "me"]) or (
                    n > 1 and plain[n - 1] == "and" and plain[n - 2] in ("i", "me", "we")
                )
                names = [one[0] for one in words[last + 1 : last + 3] if one[0][:1].isupper()]
                people = frozenset(
                    content_words(" ".join((*plain[n + 1 : last + 1], *names)).replace("'s", ""))
                )
                yield _Mention(word.start(), words[last].end(), is_user=is_both, words=people)
            elif base in _MINE and not last and is_begin and _is_actor(plain, n):
                people = frozenset(content_words(plain[n + 1]))
                yield _Mention(word.start(), words[n + 1].end(), is_user=False, words=people)
        elif _is_name(sentence, words, plain, n):
            people = frozenset(content_words(_POSSESSIVE.sub("", word[0])))
            yield _Mention(word.start(), word.end(), is_user=False, words=people)


def _person_behind(plain: Sequence[str], n: int) -> int:
    """Return the place of the last word of "my twin brother" behind its determiner; 0 if it is no person."""
    found = 0
    for place in range(n + 1, min(n + _MOST_OF_PHRASE, len(plain))):
        if names_a_person(plain[place]):
            found = place
            if _POSSESSIVE.search(plain[place]):
                break
        elif found or _VERB.fullmatch(plain[place]) or plain[place] in STOP_WORDS:
            break
    return found


def _is_actor(plain: Sequence[str], n: int) -> bool:
    """Return whether "my X" does something that only a person does: "my bandleader drives"."""
    behind = plain[n + 2 : n + 4]
    if not behind or any(map(is_common, content_words(plain[n + 1]))):
        return False
    verb = next((word for word in behind if _VERB.fullmatch(word)), "")
    return bool(verb) and verb not in _IS


def _acts(words: Sequence[re.Match[str]], last: int) -> bool:
    """Return whether a verb follows a person, perhaps behind a name, or a thing of theirs does."""
    if _POSSESSIVE.search(words[last][0]):
        return True
    behind = [word[0] for word in words[last + 1 : last + 4]]
    while behind and (
        behind[0][:1].isupper() or behind[0] in ("who", "also", "often", "always", "just", "still")
    ):
        del behind[0]
    return bool(behind) and _VERB.fullmatch(behind[0]) is not None


def _begins_clause(sentence: str, words: Sequence[re.Match[str]], plain: Sequence[str], n: int) -> bool:
    if n == 0 or plain[n - 1] in _BEGINNERS:
        return True
    return _BEFORE_CLAUSE.search(sentence[words[n - 1].end() : words[n].start()]) is not None


def _is_name(sentence: str, words: Sequence[re.Match[str]], plain: Sequence[str], n: int) -> bool:
    """Return whether a name is a subject, "Paul drives", or owns a thing, "Paul's car"."""
    word, base = words[n][0], _POSSESSIVE.sub("", plain[n])
    if not word[:1].isupper() or base in STOP_WORDS or base in _CONTRACTED or _NO_NAME.fullmatch(base):
        return False
    behind = [one[0] for one in words[n + 1 : n + 4]]
    if _POSSESSIVE.search(word):
        return bool(behind) and behind[0][:1].islower()
    while behind and (behind[0] in ("and", "who") or behind[0][:1].isupper()):
        del behind[0]
    # "Anna and Ben live"
    are_two = any(one[0] == "and" for one in words[n + 1 : n + 2])
    is_subject = bool(behind) and (are_two or _VERB.fullmatch(behind[0]) is not None)
    return is_subject and _begins_clause(sentence, words, plain, n)

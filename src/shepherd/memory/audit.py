"""Finds memories that a person may want to review: duplicates, echoes, stored tails, secrets."""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from shepherd._native.text import keywords
from shepherd.memory.memories import fold_question
from shepherd.memory.records import AuditFinding, FactChange, NewMemory
from shepherd.secret_detection import find_secrets
from shepherd.types import Fact

__all__ = ["NEVER_RECALLED_S", "NearDuplicates", "audit"]

# Age in seconds from which on a memory that no message ever got is reported.
NEVER_RECALLED_S = 90 * 86_400

# Blocks of a tail that were stored with the message.
_TAIL = re.compile(r"^\[(?:facts|context): ", re.MULTILINE)
# Number of keywords of a memory that are compared.
_CAP = 64
# Sources whose memories are statements: many have the same subject as their question.
_STATEMENTS = frozenset({"mem0", "mcp", "chatgpt"})


def audit(
    memories: Iterable[tuple[int, NewMemory]],
    facts: Iterable[Fact] = (),
    history: Iterable[FactChange] = (),
    never_recalled: Sequence[int] = (),
    in_knowledge: Iterable[AuditFinding] = (),
) -> list[AuditFinding]:
    """Return findings by kind, then by id.

    duplicate: the same question more than once; near-duplicate: nearly the same keywords in question and
    answer; echo: an answer that only says the question again; empty: no keyword, so that no search finds it;
    tail: an injected block was stored; secret: what should not be remembered; never-recalled: one finding
    with all of `never_recalled`. Those `in_knowledge` are found elsewhere.
    """
    by_question: dict[int, list[int]] = defaultdict(list)
    near = NearDuplicates()
    single: list[AuditFinding] = []
    for memory_id, memory in memories:
        question, answer = fold_question(memory.question), fold_question(memory.answer)
        if question and memory.source not in _STATEMENTS:
            # Hashes: a million questions would not fit, and 64 bits do not collide among them.
            by_question[hash(question)].append(memory_id)
        words = keywords(f"{question} {answer}", _CAP)
        near.add(memory_id, words)
        single += [AuditFinding(kind, (memory_id,)) for kind in _oddities(question, answer, words, memory)]
        if kinds := _secrets(memory.question, memory.answer):
            single.append(AuditFinding("secret", (memory_id,), kinds))
    duplicates = [AuditFinding("duplicate", tuple(ids)) for ids in by_question.values() if len(ids) > 1]
    known = {finding.ids for finding in duplicates}
    alike = [AuditFinding("near-duplicate", ids) for ids in near.groups() if ids not in known]
    in_facts = {
        fact.key: f"{kinds} in the fact {fact.key!r}"
        for fact in facts
        if (kinds := _secrets_of_fact(fact.key, fact.value))
    }
    in_facts |= {
        change.key: f"{kinds} in the history of the fact {change.key!r}"
        for change in history
        if change.key not in in_facts
        and (kinds := _secrets_of_fact(change.key, change.value or "") or _secrets(change.statement))
    }
    secrets = [AuditFinding("secret", (), detail) for detail in in_facts.values()]
    unused = [AuditFinding("never-recalled", tuple(never_recalled))] if never_recalled else []
    findings = [*single, *duplicates, *alike, *secrets, *unused, *in_knowledge]
    return sorted(findings, key=lambda finding: (finding.kind, finding.ids, finding.detail))


def _oddities(question: str, answer: str, words: Sequence[str], memory: NewMemory) -> list[str]:
    kinds = []
    # A statement of the user's is found by its own words and needs no answer.
    if not words:
        kinds.append("empty")
    elif answer and _is_echo(question, answer):
        kinds.append("echo")
    if _TAIL.search(memory.question) or _TAIL.search(memory.answer):
        kinds.append("tail")
    return kinds


def _is_echo(question: str, answer: str) -> bool:
    """Return whether the answer has the words of the question and no other."""
    if answer.strip(" ?!.") == question.strip(" ?!."):
        return True
    # One word may well be the answer: "Tea? - Tea."
    asked = set(keywords(question, _CAP))
    return len(asked) > 1 and asked == set(keywords(answer, _CAP))


def _secrets_of_fact(key: str, value: str) -> str:
    # "wifi_password" gives away what its value is.
    return _secrets(f"{key.replace('_', ' ')}: {value}") if value else ""


def _secrets(*texts: str) -> str:
    return ", ".join(sorted({secret.kind for text in texts for secret in find_secrets(text)}))


# ---- nearly equal memories

# t as a fraction: four fifths.
_ALIKE, _OF = 4, 5
# k: with 1, twenty times as many pairs are compared in ordinary text.
_SHARED = 3
# Limit of the sets with the same rare word that are compared, the nearest in size: with thousands of them
# (lines of a log), all pairs would take hours.
_MOST_CANDIDATES = 200


class NearDuplicates:
    """Collects sets of words and finds those that are nearly equal, without comparing every pair.

    Two sets are alike if |x & y| / |x | y| (Jaccard) is at least t. Then k of the n - ceil(t n) + k rarest of
    the n words of x are among as many of the rarest of y (prefix filtering; Chaudhuri, Ganti, Kaushik 2006).
    Rare words are in few sets, so few pairs are left to compare.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}  # of each word
        self._counts = array("I")  # how many sets have it
        self._ids: dict[bytes, list[int]] = defaultdict(list)  # of equal sets, by their sorted words

    def add(self, memory_id: int, words: Iterable[str]) -> None:
        """Add a set."""
        numbers = sorted({self._numbers.setdefault(word, len(self._numbers)) for word in words})
        if not numbers:
            return
        self._counts.extend([0] * (len(self._numbers) - len(self._counts)))
        for number in numbers:
            self._counts[number] += 1
        self._ids[array("I", numbers).tobytes()].append(memory_id)

    def groups(self) -> list[tuple[int, ...]]:
        """Return groups of ids that are alike, directly or through others, each in order of id."""
        sets = sorted(self._ids, key=lambda packed: (len(packed), packed))
        parents = list(range(len(sets)))
        for place, other in self._pairs(sets):
            parents[_root(parents, place)] = _root(parents, other)
        groups: dict[int, list[int]] = defaultdict(list)
        for place, packed in enumerate(sets):
            groups[_root(parents, place)] += self._ids[packed]
        return sorted(tuple(sorted(ids)) for ids in groups.values() if len(ids) > 1)

    def _pairs(self, sets: list[bytes]) -> Iterable[tuple[int, int]]:
        """Yield places of sets that are alike, the larger first; `sets` is in order of size."""
        by_word: dict[int, list[int]] = defaultdict(list)
        for place, packed in enumerate(sets):
            words = _unpacked(packed)
            least = -(-len(words) * _ALIKE // _OF)  # of words that a set alike must share, rounded up
            if least < _SHARED:
                continue  # so small that only an equal set is alike
            rarest = sorted(words, key=lambda word: (self._counts[word], word))[
                : len(words) - least + _SHARED
            ]
            candidates: Counter[int] = Counter()
            for word in rarest:
                candidates.update(by_word[word][-_MOST_CANDIDATES:])
                by_word[word].append(place)
            own = set(words)
            for other, n_shared in candidates.items():
                if n_shared >= _SHARED and _is_alike(own, _unpacked(sets[other])):
                    yield place, other


def _is_alike(words: set[int], others: array[int]) -> bool:
    shared = len(words.intersection(others))
    return _OF * shared >= _ALIKE * (len(words) + len(others) - shared)


def _unpacked(packed: bytes) -> array[int]:
    words = array("I")
    words.frombytes(packed)
    return words


def _root(parents: list[int], place: int) -> int:
    while parents[place] != place:
        parents[place] = parents[parents[place]]
        place = parents[place]
    return place

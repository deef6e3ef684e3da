"""Points at memories that a person may want to look at: doubles, echoes, leftovers, secrets."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from shepherd._native.text import keywords
from shepherd.memory.memories import fold_question
from shepherd.memory.records import AuditFinding, FactChange, NewMemory
from shepherd.memory.similarity import NearDuplicates
from shepherd.secret_detection import find_secrets
from shepherd.types import Fact

__all__ = ["NEVER_RECALLED_S", "audit"]

# Memories of at least that age are told when no message ever needed them.
NEVER_RECALLED_S = 90 * 86_400

# Blocks of a tail that were stored together with the text they were appended to.
_TAIL = re.compile(r"^\[(?:facts|context): ", re.MULTILINE)
# Keywords of a memory that are compared.
_CAP = 64
# Sources whose memories are statements: many have what they are about as their question.
_STATEMENTS = frozenset({"mem0", "mcp", "chatgpt"})


def audit(
    memories: Iterable[tuple[int, NewMemory]],
    facts: Iterable[Fact] = (),
    history: Iterable[FactChange] = (),
    never_recalled: Sequence[int] = (),
) -> list[AuditFinding]:
    """Findings by kind, then by id:

    duplicate: the same question more than once; near-duplicate: nearly the same keywords in question and
    answer; echo: an answer that only says the question again; empty: no answer; tail: an injected block was
    stored; secret: what should not be remembered; never-recalled: one finding with all of `never_recalled`.
    """
    by_question: dict[int, list[int]] = defaultdict(list)
    near = NearDuplicates()
    single: list[AuditFinding] = []
    for memory_id, memory in memories:
        question, answer = fold_question(memory.question), fold_question(memory.answer)
        if question and memory.source not in _STATEMENTS:
            # Hashes: a million questions would not fit, and 64 bits do not collide among them.
            by_question[hash(question)].append(memory_id)
        near.add(memory_id, keywords(f"{question} {answer}", _CAP))
        single += [AuditFinding(kind, (memory_id,)) for kind in _oddities(question, answer, memory)]
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
        if change.key not in in_facts and (kinds := _secrets_of_fact(change.key, change.value or ""))
    }
    told = [AuditFinding("secret", (), detail) for detail in in_facts.values()]
    unused = [AuditFinding("never-recalled", tuple(never_recalled))] if never_recalled else []
    findings = [*single, *duplicates, *alike, *told, *unused]
    return sorted(findings, key=lambda finding: (finding.kind, finding.ids, finding.detail))


def _oddities(question: str, answer: str, memory: NewMemory) -> list[str]:
    kinds = []
    if not answer:
        kinds.append("empty")
    elif _is_echo(question, answer):
        kinds.append("echo")
    if _TAIL.search(memory.question) or _TAIL.search(memory.answer):
        kinds.append("tail")
    return kinds


def _is_echo(question: str, answer: str) -> bool:
    """Whether the answer has the words of the question and no other."""
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

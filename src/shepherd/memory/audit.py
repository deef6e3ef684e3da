"""Points at memories that a person may want to look at: doubles, echoes and leftovers. Changes nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from shepherd._native.text import keywords
from shepherd.memory.memories import fold_question
from shepherd.memory.records import AuditFinding, NewMemory

__all__ = ["audit"]

# Blocks of a tail that were stored together with the text they were appended to.
_TAIL = re.compile(r"^\[(?:facts|context): ", re.MULTILINE)
_CAP = 64


def audit(memories: Iterable[tuple[int, NewMemory]]) -> list[AuditFinding]:
    """Findings by kind, then by id:

    duplicate: the same question more than once; near-duplicate: the same keywords in question and answer;
    echo: an answer that only says the question again; empty: no answer; tail: an injected block was stored.
    """
    by_question: dict[int, list[int]] = defaultdict(list)
    by_keywords: dict[int, list[int]] = defaultdict(list)
    single: list[AuditFinding] = []
    for memory_id, memory in memories:
        question, answer = fold_question(memory.question), fold_question(memory.answer)
        # Hashes: a million questions would not fit, and 64 bits do not collide among them.
        by_question[hash(question)].append(memory_id)
        by_keywords[hash(frozenset(keywords(f"{question} {answer}", _CAP)))].append(memory_id)
        if not answer:
            single.append(AuditFinding("empty", (memory_id,)))
        elif answer.strip(" ?!.") == question.strip(" ?!."):
            single.append(AuditFinding("echo", (memory_id,)))
        if _TAIL.search(memory.question) or _TAIL.search(memory.answer):
            single.append(AuditFinding("tail", (memory_id,)))
    duplicates = [AuditFinding("duplicate", tuple(ids)) for ids in by_question.values() if len(ids) > 1]
    known = {finding.ids for finding in duplicates}
    near = [
        AuditFinding("near-duplicate", tuple(ids))
        for ids in by_keywords.values()
        if len(ids) > 1 and tuple(ids) not in known
    ]
    return sorted([*single, *duplicates, *near], key=lambda finding: (finding.kind, finding.ids))

"""Claims of an extraction model about the user, and the judge that checks them against the user's words.

It knows wordings and keys; nothing of models, databases and conversations.
"""

from __future__ import annotations

from shepherd.claims.judge import (
    Verdict,
    concerns,
    ended_values,
    is_borne_out,
    judge,
    learned,
    plain_facts,
)
from shepherd.claims.keys import LISTS, canonical_key, joined_values
from shepherd.claims.material import own_words
from shepherd.claims.statements import Assertion, assertions, stating_sentences

__all__ = [
    "LISTS",
    "Assertion",
    "Verdict",
    "assertions",
    "canonical_key",
    "concerns",
    "ended_values",
    "is_borne_out",
    "joined_values",
    "judge",
    "learned",
    "own_words",
    "plain_facts",
    "stating_sentences",
]

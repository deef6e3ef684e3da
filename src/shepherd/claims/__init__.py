"""Claims of an extraction model about the user, and the judge that checks them against the user's words.

It knows wordings and keys; nothing of models, databases and conversations.
"""

from __future__ import annotations

from shepherd.claims.corrections import Correction, corrected_facts
from shepherd.claims.endings import KNOWN, may_end
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
from shepherd.claims.known_endings import ended_facts
from shepherd.claims.material import own_words
from shepherd.claims.statements import Assertion, assertions, stating_sentences

__all__ = [
    "KNOWN",
    "LISTS",
    "Assertion",
    "Correction",
    "Verdict",
    "assertions",
    "canonical_key",
    "concerns",
    "corrected_facts",
    "ended_facts",
    "ended_values",
    "is_borne_out",
    "joined_values",
    "judge",
    "learned",
    "may_end",
    "own_words",
    "plain_facts",
    "stating_sentences",
]

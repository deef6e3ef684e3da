"""Extraction: a background worker that turns the words of users into facts and memories.

It knows the wording of the request, the shape of the answer and the queue; nothing of turns and screens.
"""

from __future__ import annotations

from shepherd.extraction.answer import (
    ANSWER_SCHEMA,
    Extracted,
    Extractor,
    UnavailableError,
    is_secret,
    parse_answer,
)
from shepherd.extraction.endpoint import EndpointExtractor
from shepherd.extraction.local import LocalExtractor
from shepherd.extraction.request import ANSWER_GRAMMAR, EXTRACTION_PROMPT, INSTRUCTIONS, extraction_request
from shepherd.extraction.worker import ExtractionWorker, WorkerSettings

__all__ = [
    "ANSWER_GRAMMAR",
    "ANSWER_SCHEMA",
    "EXTRACTION_PROMPT",
    "INSTRUCTIONS",
    "EndpointExtractor",
    "Extracted",
    "ExtractionWorker",
    "Extractor",
    "LocalExtractor",
    "UnavailableError",
    "WorkerSettings",
    "extraction_request",
    "is_secret",
    "parse_answer",
]

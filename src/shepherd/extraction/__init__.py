"""Extraction: what users said, turned into facts and memories.

It knows the wording of the request and the shape of the answer, not which model answers it.
"""

from __future__ import annotations

from shepherd.extraction.prompt import EXTRACTION_PROMPT, extraction_request

__all__ = ["EXTRACTION_PROMPT", "extraction_request"]

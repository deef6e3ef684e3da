"""The plain way to mask: every rule is tried at every character, and each pass reads the whole text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from shepherd import secret_detection
from shepherd.secret_detection.anchors import Anchored


@contextmanager
def without_anchors() -> Iterator[None]:
    """Within the block, secrets are found the plain way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Anchored, "finditer", lambda self, text, _: self.pattern.finditer(text))
        patch.setattr(secret_detection, "_found_beside", _found_anywhere)
        yield


def _found_anywhere(_before: str, text: str, _covered: Any, *, in_document: bool) -> Any:
    return secret_detection.find_secrets(text, in_document=in_document)

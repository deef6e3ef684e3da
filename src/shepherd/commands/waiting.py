"""Words for the state of a model before its answer begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shepherd.wording import counted

if TYPE_CHECKING:
    from shepherd.assistant import Assistant

__all__ = ["SILENT_S", "waiting_in_words"]

# A quicker beginning needs no words.
SILENT_S = 0.2


def waiting_in_words(assistant: Assistant, waited_s: float) -> str:
    """Return what the model is doing after `waited_s` seconds. From any thread.

    It reads the prompt, pauses before a retry, or does neither.
    """
    n_read, n_to_read = assistant.progress
    if 0 < n_read < n_to_read:
        return f"reading {n_read:,} of {counted(n_to_read, 'token')}"
    if retry := assistant.retry:
        return retry.in_words()
    return f"waiting for {assistant.engine.info.name}, {waited_s:.0f} s"

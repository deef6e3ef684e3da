"""The turn: plan, prompt, generate, tools, record. Chat and server answer through it.

This package knows a draft of the prompt, a model and tools; it does not know HTTP, terminals, or where
settings come from.
"""

from __future__ import annotations

from shepherd.turn.turn import GenerationOptions, Turn, sampling_of

__all__ = ["GenerationOptions", "Turn", "sampling_of"]

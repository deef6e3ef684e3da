"""The turn: plan, prompt, generate, tools, record. Chat and server answer through it.

This package knows a draft of the prompt, a model and tools; it does not know HTTP, terminals, or where
settings come from.
"""

from __future__ import annotations

from shepherd.turn.turn import (
    Delta,
    Event,
    Finished,
    GenerationOptions,
    Recalled,
    ToolResult,
    Turn,
    Warned,
    former_facts,
    own_facts,
    refused_values,
    sampling_of,
)

__all__ = [
    "Delta",
    "Event",
    "Finished",
    "GenerationOptions",
    "Recalled",
    "ToolResult",
    "Turn",
    "Warned",
    "former_facts",
    "own_facts",
    "refused_values",
    "sampling_of",
]

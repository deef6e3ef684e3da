"""The local model: GGUF files, llama.cpp, chat templates, and the engine that answers.

It knows messages, token ids and settings; nothing of memories, terminals or configuration files.
Importing it does not load llama.cpp; making an Engine does.
"""

from __future__ import annotations

from shepherd.inference.engine import Answer, Engine, EngineSettings, Generation, PriorityLock
from shepherd.inference.gguf import GGUFHeader, TensorInfo, read_header
from shepherd.inference.grammar import schema_to_grammar
from shepherd.inference.kept_conversations import KeptCounts
from shepherd.inference.model import ModelInfo

__all__ = [
    "Answer",
    "Engine",
    "EngineSettings",
    "GGUFHeader",
    "Generation",
    "KeptCounts",
    "ModelInfo",
    "PriorityLock",
    "TensorInfo",
    "read_header",
    "schema_to_grammar",
]

"""Vectors of memories, an option: made in the background, kept beside them, fused with what words find.

They know an embedder as something that gives vectors for texts; not what model it is, nor where it runs.
"""

from __future__ import annotations

from shepherd.memory.vectors.recall import VectorRecall, VectorSettings
from shepherd.memory.vectors.table import TextEmbedder, VectorTable

__all__ = ["TextEmbedder", "VectorRecall", "VectorSettings", "VectorTable"]

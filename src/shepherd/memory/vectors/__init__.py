"""Optional vectors: made in the background, stored beside the rows, and fused with the ranking by words.

An embedder is anything that returns vectors of texts; its model and where it runs are unknown here.
"""

from __future__ import annotations

from shepherd.memory.vectors.recall import VectorRecall, VectorSettings
from shepherd.memory.vectors.table import TextEmbedder, VectorTable

__all__ = ["TextEmbedder", "VectorRecall", "VectorSettings", "VectorTable"]

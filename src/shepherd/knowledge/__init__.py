"""What a user keeps on purpose: nodes, edges with a reason, dimensions, and the chunks of long texts.

Lives in the memory's database and knows it only as shepherd.transactions; nothing of conversations or models.
"""

from shepherd.knowledge.blocks import Focused, background_block, chunk_block, focus_block
from shepherd.knowledge.knowledge import Knowledge
from shepherd.knowledge.nodes import NewNode
from shepherd.knowledge.records import EDGE_TYPES, ChunkResult, Dimension, Edge, Hub, Node, Outcome
from shepherd.knowledge.tools import ROLES, KnowledgeTools, RoleRow, role_of

__all__ = [
    "EDGE_TYPES",
    "ROLES",
    "ChunkResult",
    "Dimension",
    "Edge",
    "Focused",
    "Hub",
    "Knowledge",
    "KnowledgeTools",
    "NewNode",
    "Node",
    "Outcome",
    "RoleRow",
    "background_block",
    "chunk_block",
    "focus_block",
    "role_of",
]

"""Knowledge that a user keeps on purpose: nodes, edges with a reason, dimensions, chunks of long texts.

It is in the memory's database, which it uses only through shepherd.transactions, and knows nothing of
conversations or models.
"""

from shepherd.knowledge.blocks import (
    Focused,
    attached_block,
    background_block,
    chunk_block,
    focus_block,
    workflow_block,
)
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
    "attached_block",
    "background_block",
    "chunk_block",
    "focus_block",
    "role_of",
    "workflow_block",
]

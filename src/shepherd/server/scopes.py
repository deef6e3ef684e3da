"""What a key may be good for."""

from __future__ import annotations

__all__ = ["CHAT", "DEFAULT_SCOPES", "MEMORY", "METRICS", "SCOPES"]

CHAT = "chat"
MEMORY = "memory"
METRICS = "metrics"

# In the order in which they are shown.
SCOPES = {
    CHAT: "talk with the model; recall and learning happen on the way",
    MEMORY: "read, change and export the owner's memory, facts and traces",
    METRICS: "read the server's figures, which are about all users together",
}
DEFAULT_SCOPES = (CHAT, MEMORY)

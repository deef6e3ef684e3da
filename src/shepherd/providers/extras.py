"""What a server wants back with a call of a tool beside OpenAI's fields: `extra_content`, as it was sent.

Gemini signs what a model thought before a call, and refuses the conversation without that. No other server
gets it: what is not its own it may refuse as well.
"""

from __future__ import annotations

import json
from typing import Any

from shepherd.types import ToolCall

__all__ = ["extra_content", "sealed_extra"]


def sealed_extra(content: object, address: str = "") -> str:
    """`ToolCall.extra` for what the server at `address` has sent, "" for None.

    Without an address it is a client's, who has it from this server's provider: it may be sent there.
    """
    if content is None:
        return ""
    return json.dumps({"address": address, "content": content}, separators=(",", ":"))


def extra_content(call: ToolCall, address: str = "") -> Any:
    """What goes back with a call to the server at `address`; to a client, without one. None for nothing."""
    if not call.extra:
        return None
    sealed = json.loads(call.extra)
    return sealed["content"] if not address or sealed["address"] in ("", address) else None

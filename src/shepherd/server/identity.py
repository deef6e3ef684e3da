"""The user of the memory that a request is about, and the scopes of keys.

With a key the user is the key's owner, or `owner/user` if the request names a `user`. No owner's name
contains a slash, so users of two owners are never equal, without any escaping or normalisation of names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shepherd.memory.tenants import is_reserved
from shepherd.server.errors import Denied, invalid
from shepherd.server.request_record import record_of
from shepherd.types import ANONYMOUS_USERS

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from shepherd.server.state import AppState

__all__ = [
    "CHAT",
    "DEFAULT_SCOPES",
    "LONGEST_USER",
    "MEMORY",
    "METRICS",
    "MODELS",
    "NOBODY",
    "SCOPES",
    "Caller",
    "caller_of",
    "user_of",
]

# Scopes: what a key is good for.
CHAT = "chat"
MEMORY = "memory"
METRICS = "metrics"
MODELS = "models"

# In the order in which they are shown.
SCOPES = {
    CHAT: "use the model, with recall and learning",
    MEMORY: "read, change and export the owner's memory, facts and traces",
    METRICS: "read the server's metrics, which cover all users",
    MODELS: "download models to the server",
}
DEFAULT_SCOPES = (CHAT, MEMORY)

NOBODY = "unknown"
LONGEST_USER = 256


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request. `user_id` is the memory's user; `owner` is the key's, or "" without keys."""

    owner: str
    user_id: str
    scopes: frozenset[str]

    @property
    def is_nobody(self) -> bool:
        """True if nothing is remembered for this caller."""
        return self.user_id in ANONYMOUS_USERS

    def require(self, scope: str) -> None:
        """Raise Denied unless the key has that scope."""
        if scope not in self.scopes:
            raise Denied(403, "insufficient_scope", f"this API key has no scope {scope!r}")


def caller_of(request: HTTPConnection, requested_user: str | None) -> Caller:
    """Return the caller, by the accepted key and the request's `user`. Denied for a bad name."""
    state: AppState = request.app.state.shepherd
    key = record_of(request.scope).key
    if key is not None:
        return Caller(key.owner, user_of(key.owner, requested_user), frozenset(key.scopes))
    # Without keys all callers are on this machine.
    user = user_of("", requested_user) or state.config.user_id or NOBODY
    return Caller("", user, frozenset(SCOPES))


def user_of(owner: str, requested: str | None) -> str:
    """Return the memory's user for an owner and the user that a request names; "" without both."""
    if requested is None or requested == "":
        return owner
    if len(requested) > LONGEST_USER:
        raise invalid("user", f"more than {LONGEST_USER} characters", "invalid_user")
    try:
        requested.encode("utf-8")
    except UnicodeEncodeError:  # the store would write U+FFFD, and two such names would be one
        raise invalid("user", "half of a surrogate pair", "invalid_user") from None
    if requested in ANONYMOUS_USERS or not requested.strip():
        return NOBODY
    user = f"{owner}/{requested}" if owner else requested
    if is_reserved(user):
        raise invalid("user", "a name that is kept for users who were deleted", "invalid_user")
    return user

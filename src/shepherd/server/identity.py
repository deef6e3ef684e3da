"""Whose memory a request is about. The one place where a name from outside becomes a user of the memory.

With a key it is the key's owner, and a `user` in the request is one of his own: `owner/user`. No owner's name
has a slash in it, so that the first one ends the owner, whatever comes after it: two owners' users never
meet, and nothing is escaped, folded or compared loosely for that. Names are taken as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shepherd.server.errors import Denied
from shepherd.server.request_record import record_of
from shepherd.server.scopes import SCOPES
from shepherd.types import ANONYMOUS_USERS

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from shepherd.server.state import Gated

__all__ = ["LONGEST_USER", "NOBODY", "Caller", "caller_of", "user_of"]

NOBODY = "unknown"
LONGEST_USER = 256


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `user_id` is for the memory; `owner` is the key's, or "" without keys."""

    owner: str
    user_id: str
    scopes: frozenset[str]

    @property
    def is_nobody(self) -> bool:
        """Whether nothing is remembered for this caller."""
        return self.user_id in ANONYMOUS_USERS

    def require(self, scope: str) -> None:
        """Denied unless the key is good for that, too."""
        if scope not in self.scopes:
            raise Denied(403, "insufficient_scope", f"this API key has no scope {scope!r}")


def caller_of(request: HTTPConnection, requested_user: str | None) -> Caller:
    """Who asks, by the key that the door let in and the request's `user`. Raises Denied for a bad name."""
    state: Gated = request.app.state.shepherd
    key = record_of(request.scope).key
    if key is not None:
        return Caller(key.owner, user_of(key.owner, requested_user), frozenset(key.scopes))
    # Without keys only this machine asks.
    user = user_of("", requested_user) or state.config.user_id or NOBODY
    return Caller("", user, frozenset(SCOPES))


def user_of(owner: str, requested: str | None) -> str:
    """The memory's user for an owner and what the request calls its user; "" when neither is given."""
    if requested is None or requested == "":
        return owner
    if len(requested) > LONGEST_USER:
        raise Denied(400, "invalid_user", f"user: more than {LONGEST_USER} characters", param="user")
    try:
        requested.encode("utf-8")
    except UnicodeEncodeError:  # the store would write U+FFFD, and two such names would be one
        raise Denied(400, "invalid_user", "user: half of a surrogate pair", param="user") from None
    if requested in ANONYMOUS_USERS or not requested.strip():
        return NOBODY
    return f"{owner}/{requested}" if owner else requested

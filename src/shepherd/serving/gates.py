"""What stands before the routes of an app, from the outside in.

Observer        gives the request an id; log and metrics at its end
HostGuard       names and pages that may ask
CORS            answers for the pages of the settings, if there are any
KeyDoor         who asks, and whether for this
CrowdGuard      how many at once
BodyGuard       how large and how slow
JsonByDefault   what a body is whose sender has not said it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shepherd.serving import health, metrics
from shepherd.serving.guards import BodyGuard, CrowdGuard, HostGuard, JsonByDefault, host_of, names_in
from shepherd.serving.keys import KeyDoor
from shepherd.serving.logs import Observer

if TYPE_CHECKING:
    from fastapi import FastAPI

    from shepherd.serving.state import Gated

__all__ = ["install"]


def install(app: FastAPI, state: Gated) -> None:
    """Put all of them before the app, and /health and /metrics into it."""
    config = state.config
    counted = app.state.metrics = metrics.Metrics(state)
    state.observers.append(counted.served)
    app.include_router(health.router)
    app.include_router(metrics.router)
    origins = names_in(config.server_origins)
    # The last one added is the outermost.
    app.add_middleware(JsonByDefault)
    app.add_middleware(
        BodyGuard, most_bytes=config.server_max_body_mb << 20, timeout_s=config.server_body_timeout
    )
    app.add_middleware(
        CrowdGuard, most=config.server_max_requests, most_per_key=config.server_max_requests_per_key
    )
    app.add_middleware(KeyDoor, state=state)
    if origins:
        from starlette.middleware.cors import CORSMiddleware

        app.add_middleware(
            CORSMiddleware, allow_origins=sorted(origins), allow_methods=["*"], allow_headers=["*"]
        )
    app.add_middleware(
        HostGuard, hosts=frozenset(map(host_of, names_in(config.server_hosts))), origins=origins
    )
    app.add_middleware(Observer, metrics=counted)

"""How fast the memory is on this machine: generated memories in, times and rates out, a peer beside them.

It writes databases of its own in a temporary folder and knows nothing of the user's.
"""

from __future__ import annotations

from shepherd.benchmark.speed import Line, Report, Timed, measure

__all__ = ["Line", "Report", "Timed", "measure"]

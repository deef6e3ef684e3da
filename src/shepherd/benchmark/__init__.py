"""Benchmark of the memory on this machine with generated data, beside Python's own sqlite3 as the peer.

Its databases are in a temporary folder; the user's own is never touched.
"""

from __future__ import annotations

from shepherd.benchmark.speed import Line, Report, Timed, measure

__all__ = ["Line", "Report", "Timed", "measure"]

"""Traces: records, as paths with values, of the prompt of each turn and the reasons for it.

This package knows paths, values and their text forms; it decides nothing about what is shown.
"""

from shepherd.trace.paths import ROOT, Change, Value, diff, encode_segment, shown_path, turn_path
from shepherd.trace.records import paths_of, trace_of
from shepherd.trace.traces import KEPT_TURNS, Traces
from shepherd.trace.transfer import FORMATS, PREDICATES, Format, export, import_file

__all__ = [
    "FORMATS",
    "KEPT_TURNS",
    "PREDICATES",
    "ROOT",
    "Change",
    "Format",
    "Traces",
    "Value",
    "diff",
    "encode_segment",
    "export",
    "import_file",
    "paths_of",
    "shown_path",
    "trace_of",
    "turn_path",
]

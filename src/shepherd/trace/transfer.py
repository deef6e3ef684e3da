"""Traces out of the database and into it, in either text form; what is written is read back byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BufferedReader
from itertools import islice
from typing import Literal

from shepherd.trace.atoms import atom_of, header, read_atoms
from shepherd.trace.lines import line_of, read_lines
from shepherd.trace.paths import ROOT
from shepherd.trace.traces import Traces

__all__ = ["FORMATS", "Format", "export", "import_file"]

Format = Literal["paths", "metta"]
FORMATS: tuple[Format, ...] = ("paths", "metta")
_AT_ONCE = 8192


def export(traces: Traces, path: str = ROOT, *, form: Format = "paths") -> Iterator[str]:
    """Everything at and below a path, as lines in the order of the paths; as .metta with the header."""
    write = line_of
    if form == "metta":
        write = atom_of
        yield header()
    for entry in traces.entries(path):
        yield write(*entry)


def import_file(
    traces: Traces, file: BufferedReader, progress: Callable[[int], None] = lambda n: None
) -> int:
    """Put what `export` wrote into the traces of a user; how many paths those are.

    Which form it is shows in its first byte. A value that was there is replaced. UsageError names a line that
    is wrong. Thousands of paths are one transaction: what stands before such a line may be in already, and
    doing it again changes nothing.
    """
    entries = read_lines(file) if file.peek(1)[:1] == b"/" else read_atoms(file)
    n = 0
    while page := list(islice(entries, _AT_ONCE)):
        n += traces.merge(page)
        progress(n)
    return n

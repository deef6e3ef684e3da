"""The 28 predicates of context injection, callable from MeTTa, whose runtime is a separate process.

An option (`pip install 'shepherd-llm[metta]'`). This package knows atoms and functions over plain values; it
does not know models. Exports of traces do not need it.
"""

from shepherd.metta.functions import Host, functions, host_of
from shepherd.metta.process import MOST_ATOMS, Metta, MettaError, is_installed
from shepherd.metta.values import Record, Symbol, Value, as_metta

__all__ = [
    "MOST_ATOMS",
    "Host",
    "Metta",
    "MettaError",
    "Record",
    "Symbol",
    "Value",
    "as_metta",
    "functions",
    "host_of",
    "is_installed",
]

"""Examples of Hypothesis are the same in every run, whatever ran before."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import hashlib
from hypothesis import given, strategies as st
from tests.examples import register_profiles

register_profiles()
drawn = hashlib.sha256()

@given(st.text(), st.integers(), st.floats())
def draw(text, whole, number):
    drawn.update(repr((text, whole, number)).encode())

draw()
print(drawn.hexdigest())
"""
IMPORTS = "import shepherd.memory, shepherd.cli.main, shepherd.prompt, shepherd.inference\n"


def drawn(program: str, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout


def test_examples_depend_neither_on_the_run_nor_on_the_imported_modules() -> None:
    alone = drawn(PROGRAM, "1")

    assert len(alone) == 65
    assert drawn(IMPORTS + PROGRAM, "2") == alone

"""What the first turn of a process would compile is compiled before, while nobody waits for it."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from shepherd.turn import warm_up

COUNTING = """\
import re
from re import _compiler
from shepherd.claims.judge import plain_facts
from shepherd.prompt.archive_policy import is_statement
from shepherd.prompt.questions import questions_in
from shepherd.turn import warm_up

{before}
compiled, compile = [], _compiler.compile
_compiler.compile = lambda *given: compiled.append(given) or compile(*given)
text = "My sister Eva moved to Graz, and I'm allergic to nuts. What is her name?"
plain_facts(text), is_statement(text), questions_in(text)
print(len(compiled))
"""


def compiled_by_the_first_message(before: str) -> int:
    code = COUNTING.format(before=before)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_the_first_message_compiles_little_after_it() -> None:
    cold = compiled_by_the_first_message("")
    warm = compiled_by_the_first_message("warm_up.begin(); warm_up.wait()")

    assert cold > 200
    assert warm < cold / 3


def test_it_is_done_once_and_whoever_needs_it_waits_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, ended = threading.Event(), []

    def compiles() -> None:
        may_end.wait(60)
        ended.append(True)

    monkeypatch.setattr(warm_up, "_thread", None)
    monkeypatch.setattr(warm_up, "compile_patterns", compiles)
    warm_up.begin()
    warm_up.begin()
    threading.Timer(0.05, may_end.set).start()
    warm_up.wait()

    assert ended == [True]


def test_nobody_waits_where_it_was_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "_thread", None)

    warm_up.wait()

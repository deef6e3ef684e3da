"""The predicates called from MeTTa itself, in a process that may end without ending this one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from shepherd.errors import UsageError
from shepherd.installation import install_extra
from shepherd.metta import MOST_ATOMS, Host, Metta, MettaError, Symbol, functions, is_installed
from shepherd.metta import process as process_module
from tests.trace.turns import FULL

# hyperon has wheels for some systems and Pythons only.
NEEDS_METTA = pytest.mark.skipif(not is_installed(), reason="no hyperon: nothing was called from MeTTa")


@pytest.fixture
def metta() -> Iterator[Metta]:
    with Metta(functions(Host(lambda text: len(text.split())))) as opened:
        yield opened


@NEEDS_METTA
def test_predicates_are_called_within_expressions(metta):
    content = '(ContextContent (system "be brief") (query "who is it"))'

    assert metta.run("!(compression-level (/ 1.0 4.0))") == [[Symbol("medium")]]
    assert metta.run(f"!(total-tokens (compress-content {content} (+ 5 5)))") == [[5]]
    assert metta.run('!(assemble-history Nothing ((FormattedTurn (text "User: hi"))))') == [
        ["Recent conversation:\nUser: hi"]
    ]
    assert metta.run("(= (level $x) (compression-level $x)) !(level 0.9)") == [[Symbol("extreme")]]


@NEEDS_METTA
def test_refusal_becomes_an_atom(metta):
    [[refused]] = metta.run('!(compress-content (ContextContent (query "one two three")) 1)')
    [[wrong]] = metta.run("!(total-tokens 5)")

    assert refused[0] == wrong[0] == "Error"
    assert "2 more than the 1 allowed" in refused[-1]
    assert wrong[-1] == "total-tokens: arguments of other types than it takes"


@NEEDS_METTA
def test_function_that_fails_is_an_atom_and_the_next_program_has_its_own_result():
    def fail(value):
        return {"known": 1}[value]

    with Metta({"fail": fail, "as-integer": int}) as metta:
        [[failed]] = metta.run('!(fail "unknown")')
        [[endless]] = metta.run("!(as-integer (/ 1.0 0.0))")

        assert failed[-1] == "fail: failed (KeyError)"
        assert endless[-1] == "as-integer: failed (OverflowError)"
        assert metta.run("!(+ 1 1)") == [[2]]


@NEEDS_METTA
def test_function_that_is_interrupted_ends_the_runtime():
    def interrupted():
        raise KeyboardInterrupt

    with Metta({"interrupted": interrupted}) as metta:
        with pytest.raises(KeyboardInterrupt):
            metta.run("!(interrupted)")
        with pytest.raises(MettaError, match="ended"):
            metta.run("!(+ 1 1)")


@NEEDS_METTA
def test_traces_are_matched_by_patterns(metta):
    entries = [(f"/context/s1/00000{turn}/{path}", value) for turn in (3, 4) for path, value in FULL.items()]

    assert metta.load(entries) == len(entries)
    assert metta.run("!(match &self (context $s 3 budget total $n) ($s $n))") == [[["s1", 4096]]]
    assert metta.run('!(match &self (context "s1" $t tail facts $k "odd") $k)') == [["a/b*c", "a/b*c"]]


@NEEDS_METTA
def test_more_atoms_than_the_runtime_holds_are_refused_before_it_ends(metta):
    with pytest.raises(UsageError, match="different symbols and values"):
        metta.run("\n".join(f"(a {n})" for n in range(MOST_ATOMS)))

    most = MOST_ATOMS - 40
    metta.run("\n".join(f'(a {n}) ; "' for n in range(most)))
    assert len(metta.run("!(match &self (a $x) $x)")[0]) == most


@NEEDS_METTA
def test_runtime_that_aborts_costs_an_error_and_not_this_process(metta, monkeypatch):
    monkeypatch.setattr(process_module, "MOST_ATOMS", 1 << 20)
    metta.run("\n".join(f"(a {n})" for n in range(3000)))

    with pytest.raises(MettaError, match="ended"):
        metta.run("!(match &self (a $x) $x)")
    with pytest.raises(MettaError, match="ended"):
        metta.run("!(+ 1 1)")


@NEEDS_METTA
def test_runtime_that_was_killed_is_an_error_too(metta):
    os.kill(metta._process.pid, signal.SIGKILL)

    with pytest.raises(MettaError, match="ended"):
        metta.run("!(+ 1 1)")


@NEEDS_METTA
def test_text_that_is_no_expression_is_refused(metta):
    with pytest.raises(MettaError, match="cannot read"):
        metta.run("!(a")

    assert metta.run("!(+ 1 1)") == [[2]]


@NEEDS_METTA
def test_atom_of_the_runtime_itself_is_a_symbol(metta):
    [[error]] = metta.run("!(import! &self nosuch)")

    assert error[0] == "Error"
    assert "nosuch" in error[-1]


@NEEDS_METTA
def test_evaluation_without_end_is_ended():
    with Metta({}, limit_s=1.0) as metta, pytest.raises(MettaError, match="did not finish"):
        metta.run("(= (again $x) (again $x)) !(again 1)")


def test_without_the_runtime_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setattr(process_module, "is_installed", lambda: False)

    with pytest.raises(UsageError, match="not installed") as caught:
        Metta({})

    assert caught.value.hint == install_extra("metta")

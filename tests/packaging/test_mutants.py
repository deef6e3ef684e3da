"""tools/mutants makes faults that compile, tries them in a copy, and shows what no test finds."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tools.faults import assigned_names, faults_of

ROOT = Path(__file__).resolve().parents[2]


def changed(source: str) -> set[str]:
    return {fault.applied(source) for fault in faults_of(source)}


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ("a < b", {"a <= b"}),
        ("a is not None", {"a is None"}),
        ("a not in b", {"a in b"}),
        ("(a  # less < than\n > b)", {"(a  # less < than\n >= b)"}),
        ("a < b == c", {"a <= b == c", "a < b != c"}),
        ("é - b", {"é + b"}),
        ("a += b", {"pass", "a -= b"}),
        ("a and b and c", {"a or b and c", "a and b or c"}),
        ("a if b else c", {"a if not (b) else c"}),
        ("a if not b else c", {"a if (b) else c"}),
        ("x = True", {"x = False"}),
        ("x = 3", {"x = 4"}),
        ("x = a[:n]", {"x = a[:(n) + 1]"}),
        ("f(a, b)", {"pass", "f(b, a)"}),
        ("x = min(a, b)", {"x = max(a, b)", "x = min(b, a)"}),
        ("a.b = c", {"pass"}),
        ("raise a", {"pass"}),
        ("for a in b:\n break", {"for a in b:\n continue"}),
        ("def f():\n return a", {"def f():\n return None"}),
        ("while a:\n f()", {"while not (a):\n f()", "while a:\n pass"}),
        ("[a for a in b if a]", {"[a for a in b if not (a)]"}),
        ('"text" % a', set()),
        ('def f():\n "A docstring of 3 words."', set()),
        ("if TYPE_CHECKING:\n import a", set()),
        ('f"{a + 1}"', set()),
        ('__all__ = ["a"]', set()),
    ],
)  # fmt: skip
def test_faults_of_a_source(source: str, faults: set[str]) -> None:
    assert changed(source) == faults


def test_fault_knows_its_line_its_function_and_the_name_it_changes() -> None:
    source = "A = 1\n\ndef f():\n    return b < c\n"

    places = {(fault.line, fault.owner, fault.names) for fault in faults_of(source)}

    assert places == {(1, 0, ("A",)), (4, 3, ())}


def test_faults_of_the_package_compile_but_for_a_few() -> None:
    source = (ROOT / "src/shepherd/bytesize.py").read_text(encoding="utf-8")

    for fault in faults_of(source):
        ast.parse(fault.applied(source))


def test_files_that_changed_since_a_revision_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    mutants = runpy.run_path(str(ROOT / "tools/mutants"), run_name="mutants")
    monkeypatch.setitem(mutants["sources"].__globals__, "ROOT", tmp_path)
    folder = tmp_path / "src/shepherd/memory"
    folder.mkdir(parents=True)
    for name in ("changed.py", "removed.py", "same.py", "page.html"):
        (folder / name).write_text("A = 1\n")
    for words in ("init", "add .", "-c user.name=a -c user.email=a@example.org commit -m a"):
        subprocess.run(["git", *words.split()], cwd=tmp_path, check=True, capture_output=True)
    (folder / "changed.py").write_text("A = 2\n")
    (folder / "page.html").write_text("A = 2\n")
    (folder / "removed.py").unlink()
    (folder / "added.py").write_text("A = 1\n")

    found = mutants["sources"]([], "HEAD")

    assert [path.name for path in found] == ["added.py", "changed.py"]


def test_faults_are_tried_in_a_copy_and_counted() -> None:
    path = ROOT / "src/shepherd/bytesize.py"
    before = path.read_bytes()
    # The environment of the tests is up to date, whatever it was made from.
    command = [sys.executable, "-c", f"""if True:
        import runpy, sys, pathlib
        sys.path.insert(0, {str(ROOT / "tools")!r})
        import environment
        environment.prepare = lambda venv, **options: pathlib.Path(sys.executable).parent
        sys.argv = ["tools/mutants", "src/shepherd/bytesize.py", "--count", "3", "--seed", "1"]
        runpy.run_path({str(ROOT / "tools/mutants")!r}, run_name="__main__")
    """]  # fmt: skip

    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)

    line = r"^3 faults: (\d) found(?:, (\d) survived)? \(seed 1, \d+ s\)$"
    counted = re.search(line, done.stdout, re.MULTILINE)
    assert counted, done.stdout + done.stderr
    found, survived = (int(number or 0) for number in counted.groups())
    assert found > 0
    assert found + survived == 3
    diffs = re.findall(r"^survived  src/shepherd/bytesize\.py:\d+\n-.*\n\+", done.stdout, re.MULTILINE)
    assert len(diffs) == survived
    assert done.returncode == int(survived > 0)
    assert path.read_bytes() == before


def test_tuned_constants_and_the_benches_that_guard_them_exist() -> None:
    lines = (ROOT / "tests/tuned_constants.txt").read_text(encoding="utf-8").splitlines()
    entries = [line.split() for line in lines if line and not line.startswith("#")]

    assert entries
    for path, name, bench in entries:
        assert path.endswith(":")
        assert name in assigned_names((ROOT / path[:-1]).read_text(encoding="utf-8")), (path, name)
        assert (ROOT / bench).is_file(), bench

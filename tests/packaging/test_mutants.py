"""tools/mutants makes faults that compile, tries them in a copy, and shows what no test finds."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

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
        ("x = min(a, b)", {"x = max(a, b)"}),
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
        ("assert a is not None", set()),
        ('_log.debug("%s", a + 1)', set()),
        ('__all__ = ["a"]', set()),
        ("x = zip(a, strict=True)", set()),
        ("x = zip(a, strict=False)", {"x = zip(a, strict=True)"}),
        ("x = f(a, strict=True)", {"x = f(a, strict=False)"}),
    ],
)  # fmt: skip
def test_faults_of_a_source(source: str, faults: set[str]) -> None:
    assert changed(source) == faults


def test_fault_knows_its_line_its_function_and_the_name_it_changes() -> None:
    source = "A = 1\n\ndef f():\n    return b < c\n"

    places = {(fault.line, fault.owner, fault.names) for fault in faults_of(source)}

    assert places == {(1, 0, ("A",)), (4, 3, ())}


@pytest.fixture
def mutants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The functions of tools/mutants, for a repository in a temporary folder."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take most of such a small run
    functions = runpy.run_path(str(ROOT / "tools/mutants"), run_name="mutants")
    variables = functions["sources"].__globals__
    monkeypatch.setitem(variables, "ROOT", tmp_path)
    monkeypatch.setitem(variables, "RECORD", tmp_path / ".mutants" / "calls.json")
    for folder in ("src/shepherd", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tests/tuned_constants.txt").write_text("src/shepherd/demo.py: PAGE  bench/test_demo.py\n")
    return functions


def test_files_that_changed_since_a_revision_are_taken(mutants: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "src/shepherd"
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


DEMO = """PAGE = 500

def total(values):
    return sum(values) + 1

def other(flag):
    return [flag is None]
"""
TEST = """import subprocess, sys
from shepherd.demo import other, total

def test_total():
    code = "from shepherd.demo import total; print(total([2, 3]))"
    assert subprocess.check_output([sys.executable, "-c", code]).strip() == b"6"

def test_other():
    assert other(3)
"""


@pytest.fixture
def demo(tmp_path: Path, mutants: dict[str, Any]) -> Path:
    """A module with faults that are found, by a process of a test, and faults that are not."""
    path = tmp_path / "src/shepherd/demo.py"
    path.write_text(DEMO)
    path.with_name("__init__.py").touch()
    (tmp_path / "tests/test_demo.py").write_text(TEST)
    return path


def tried(mutants: dict[str, Any], *texts: str) -> dict[tuple[int, str], str]:
    """Try all faults, or those with one of these texts; the result by line and text."""
    targets = mutants["chosen"]([Path("src/shepherd/demo.py")], 99, seed=1)
    targets = [target for target in targets if not texts or target.fault.text in texts]
    results = mutants["try_faults"](targets, Path(sys.executable), jobs=2, limit_s=120.0, budget_s=30.0)
    return {(target.fault.line, target.fault.text): result for target, result in results.items()}


def test_faults_are_tried_in_a_copy_and_shown_where_they_survive(
    mutants: dict[str, Any], demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tried(mutants)

    assert results == {
        (4, "return None"): "found",
        (4, "-"): "found",
        (4, "2"): "found",
        (7, "return None"): "found",
        (7, "is not"): "survived",
    }
    assert demo.read_text() == DEMO
    survived = (
        "survived  src/shepherd/demo.py:7\n-    return [flag is None]\n+    return [flag is not None]\n"
    )
    assert capsys.readouterr().out == survived


def test_test_that_fails_without_the_fault_finds_nothing(
    mutants: dict[str, Any], demo: Path, tmp_path: Path
) -> None:
    (tmp_path / "tests/test_demo.py").write_text(
        f"{TEST}\ndef test_that_fails():\n    assert other(0) == 3\n"
    )

    assert tried(mutants, "-", "is not") == {(4, "-"): "found", (7, "is not"): "failing without it"}


def test_tests_that_are_gone_since_they_were_recorded_are_left_out(
    mutants: dict[str, Any], demo: Path, tmp_path: Path
) -> None:
    own = "tests/test_demo.py::test_total"
    tests = ["tests/test_gone.py::test_total", "tests/test_demo.py::test_gone", own, f"{own}[1]"]
    record = {"calls": {"demo.py": {"total": tests}}, "seconds": dict.fromkeys(tests, 0.1)}
    (tmp_path / ".mutants").mkdir()
    (tmp_path / ".mutants/calls.json").write_text(json.dumps(record))

    assert mutants["still_there"](tmp_path, ["--collect-only", *tests]) == ["--collect-only", own]
    assert tried(mutants, "-") == {(4, "-"): "found"}


def test_recorded_calls_choose_the_tests(mutants: dict[str, Any], demo: Path, tmp_path: Path) -> None:
    mutants["record"](["tests/test_demo.py"], Path(sys.executable), jobs=1)
    demo.write_text(f"# Lines have moved since.\n{DEMO}")
    selection = mutants["Selection"](30.0)

    targets = mutants["chosen"]([demo.relative_to(tmp_path)], 99, seed=1)
    [of_total, of_other] = [
        {tuple(selection.tests_of(target)[0]) for target in targets if target.fault.line == line}
        for line in (5, 8)
    ]

    total, other = "tests/test_demo.py::test_total", "tests/test_demo.py::test_other"
    assert (of_total, of_other) == ({(total, other)}, {(other, total)})


SHARED = """import subprocess, sys, pytest

CODE = '''
import sys
from shepherd.demo import other, total
for line in sys.stdin:
    print(total([int(line)]) if line.strip() else other(1), flush=True)
'''

@pytest.fixture(scope="module")
def server():
    process = subprocess.Popen([sys.executable, "-c", CODE], stdin=-1, stdout=-1, text=True)
    yield process
    process.communicate()

def ask(server, line):
    server.stdin.write(line + "\\n")
    server.stdin.flush()
    return server.stdout.readline().strip()

def test_other(server):
    assert ask(server, "") == "[False]"

def test_total(server):
    assert ask(server, "5") == "6"
"""


def test_calls_of_a_server_are_those_of_the_test_that_runs(
    mutants: dict[str, Any], demo: Path, tmp_path: Path
) -> None:
    (tmp_path / "tests/test_demo.py").write_text(SHARED)

    mutants["record"](["tests/test_demo.py"], Path(sys.executable), jobs=1)

    assert mutants["Record"].read().calls["demo.py"] == {
        "<module>": ["tests/test_demo.py::test_other"],
        "other": ["tests/test_demo.py::test_other"],
        "total": ["tests/test_demo.py::test_total"],
    }


FORMS = '''"""A docstring."""
from __future__ import annotations
import queue, threading

waiting, done = queue.Queue(), queue.Queue()

def work():
    """Go on in later tests."""
    while True:
        done.put(waiting.get())

def count():
    yield 1

async def later():
    return 2

class Thing:
    def method(self):
        """Only a docstring."""

threading.Thread(target=work, daemon=True).start()
'''
CALLING = """import asyncio, builtins
from shepherd.demo import Thing, count, done, later, waiting

def test_generator():
    assert list(count()) == [1]

def test_coroutine_without_open(monkeypatch):
    monkeypatch.setattr(builtins, "open", None)
    assert asyncio.run(later()) == 2

def test_method():
    assert Thing().method() is None
    assert Thing.method.__doc__ == "Only a docstring."

def test_work():
    waiting.put(3)
    assert done.get() == 3
    waiting.put(4)
    assert done.get() == 4
"""


def test_calls_of_each_kind_of_function_are_recorded(
    mutants: dict[str, Any], demo: Path, tmp_path: Path
) -> None:
    demo.write_text(FORMS)
    (tmp_path / "tests/test_demo.py").write_text(CALLING)

    mutants["record"](["tests/test_demo.py"], Path(sys.executable), jobs=1)

    record = mutants["Record"].read()
    names = [f"tests/test_demo.py::test_{name}" for name in ("generator", "coroutine_without_open", "method")]
    assert record.calls["demo.py"] == {
        **{function: [name] for function, name in zip(("count", "later", "method"), names, strict=True)},
        "work": ["tests/test_demo.py::test_work"],  # it has begun before
    }
    assert record.seconds.keys() == {*names, "tests/test_demo.py::test_work"}


def test_fastest_tests_come_first_and_the_budget_leaves_out_others(
    mutants: dict[str, Any], demo: Path, tmp_path: Path
) -> None:
    (tmp_path / "tests/test_demo.py").unlink()
    record = mutants["Record"]({"demo.py": {"total": ["a", "b", "c"]}}, {"a": 9.0, "b": 2.0, "c": 1.0})
    record.write()
    [target, *_] = mutants["chosen"]([demo.relative_to(tmp_path)], 99, seed=1)

    assert mutants["Selection"](3.0).tests_of(target) == (["c", "b"], 3.0)
    assert mutants["Selection"](0.5).tests_of(target) == (["c"], 1.0)


def test_constants_are_tried_with_the_tests_that_import_them(
    mutants: dict[str, Any], demo: Path, tmp_path: Path
) -> None:
    demo.write_text(f'__all__ = ["THIRD"]\n{DEMO}\nTHIRD = 3\n')
    (tmp_path / "tests/test_demo.py").unlink()
    for name, line in (
        ("third", "import (\n    THIRD,\n)"),
        ("module", "import demo"),
        ("beside", "import other"),
    ):
        (tmp_path / f"tests/test_{name}.py").write_text(f"from shepherd {line}\n")
    seconds = dict.fromkeys((f"tests/test_{name}.py::test" for name in ("beside", "third", "module")), 1.0)
    mutants["Record"]({"demo.py": {"total": ["tests/test_beside.py::test"]}}, seconds).write()
    selection = mutants["Selection"](30.0)

    targets = mutants["chosen"]([demo.relative_to(tmp_path)], 99, seed=1)
    [of_third] = [selection.tests_of(target)[0] for target in targets if target.fault.names == ("THIRD",)]

    assert of_third == [f"tests/test_{name}.py::test" for name in ("module", "third", "beside")]
    [of_total, *_] = [selection.tests_of(target)[0] for target in targets if target.fault.owner]
    assert of_total == [f"tests/test_{name}.py::test" for name in ("beside", "module", "third")]


def test_files_that_are_newer_than_the_record_are_tried_first(
    mutants: dict[str, Any], demo: Path, tmp_path: Path
) -> None:
    (tmp_path / "tests/test_other.py").write_text("")
    mutants["Record"](
        {"demo.py": {"total": ["tests/test_other.py::test"]}}, {"tests/test_other.py::test": 1.0}
    ).write()
    [target, *_] = mutants["chosen"]([demo.relative_to(tmp_path)], 99, seed=1)

    assert mutants["Selection"](3.0).tests_of(target) == (
        ["tests/test_demo.py", "tests/test_other.py::test"],
        0.0,
    )


def test_fault_that_breaks_the_import_is_found(mutants: dict[str, Any], demo: Path) -> None:
    demo.write_text(f"{DEMO}\nTHIRD = [1, 2, 3][2]\n")

    assert tried(mutants, "3", "4") == {(9, "3"): "found", (9, "4"): "survived"}


def test_tuned_constants_and_the_benches_that_guard_them_exist() -> None:
    lines = (ROOT / "tests/tuned_constants.txt").read_text(encoding="utf-8").splitlines()
    entries = [line.split() for line in lines if line and not line.startswith("#")]

    assert entries
    for path, name, bench in entries:
        assert path.endswith(":")
        assert name in assigned_names((ROOT / path[:-1]).read_text(encoding="utf-8")), (path, name)
        assert (ROOT / bench).is_file(), bench

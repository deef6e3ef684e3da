"""Run llama.cpp's own server tests against `shepherd serve`, and compare the results with the table.

The tests come from the source archive of the installed llama-cpp-python, which pip downloads into build/.
They take about seven minutes:

    python -m tests.llama_server.run            compare with docs/reference/llama-server-tests.md
    python -m tests.llama_server.run --write    write the table anew
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

from tests.llama_server.reasons import REASONS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "llama-server-tests"
PAGE = ROOT / "docs" / "reference" / "llama-server-tests.md"
HEAD = "| test | result |\n|---|---|\n"
# The files about what both servers do; the others are about LoRA, speculation, saved slots and the like.
FILES = (
    *("basic", "chat_completion", "compat_anthropic", "compat_oai_responses", "completion", "embedding"),
    *("infill", "rerank", "security", "stream", "template", "tokenize", "tool_call"),
)
INSIDE = "vendor/llama.cpp/"


def sources() -> Path:
    """Return llama.cpp's folder of server tests, downloaded and unpacked if need be."""
    number = version("llama-cpp-python")
    root = FOLDER / f"llama_cpp_python-{number}"
    tests = root / INSIDE / "tools" / "server" / "tests"
    if not (tests.exists() and (root / INSIDE / "models" / "templates").exists()):
        FOLDER.mkdir(parents=True, exist_ok=True)
        download = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*download, "--dest", FOLDER, f"llama-cpp-python=={number}"], check=True)
        with tarfile.open(next(FOLDER.glob(f"llama?cpp?python-{number}.tar.gz"))) as archive:
            folders = [f"/{INSIDE}{folder}/" for folder in ("tools/server/tests", "models/templates")]
            wanted = [m for m in archive if any(folder in m.name for folder in folders)]
            archive.extractall(FOLDER, wanted, filter="data")
    return tests


def results(tests: Path) -> dict[str, Counter[str]]:
    """Run the tests; return how often each function passed, failed or was skipped."""
    with tempfile.TemporaryDirectory(prefix="llama-server-") as scratch:
        launcher, report = Path(scratch, "llama-server"), Path(scratch, "results.xml")
        launcher.write_text(
            f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m tests.llama_server.launcher "$@"\n'
        )
        launcher.chmod(0o755)
        environment = {
            **os.environ,
            "LLAMA_TESTS_FOLDER": scratch,
            "LLAMA_SERVER_BIN_PATH": str(launcher),
            "PYTHONPATH": os.pathsep.join((str(Path(__file__).parent), str(ROOT))),
        }
        command = [sys.executable, "-m", "pytest", "-p", "plugin", "-q", "--tb=line", "-m", "not slow"]
        files = [f"unit/test_{name}.py" for name in FILES]
        subprocess.run([*command, f"--junitxml={report}", *files], cwd=tests, env=environment, check=False)
        return counted(report)


def counted(report: Path) -> dict[str, Counter[str]]:
    """Return the outcomes in a report by file and function."""
    found: dict[str, Counter[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.attrib["classname"].rpartition(".")[2]
        name = f"{file}::{case.attrib['name'].partition('[')[0]}"
        failed = case.find("failure") is not None or case.find("error") is not None
        outcome = "failed" if failed else "skipped" if case.find("skipped") is not None else "passed"
        found.setdefault(name, Counter())[outcome] += 1
    return found


def table(found: dict[str, Counter[str]]) -> str:
    """Return the rows of the document, and end with an error for a failure without a reason."""
    rows, unexplained = [], []
    for name, outcomes in sorted(found.items()):
        total, passed = sum(outcomes.values()), outcomes["passed"]
        reason = REASONS.get(name, "")
        if outcomes["failed"] and not reason:
            unexplained.append(name)
        if passed == total:
            result = "passes"
        elif not outcomes["failed"]:
            result = "skips itself"
        else:
            result = f"{passed} of {total} pass: {reason}" if passed else f"fails: {reason}"
        rows.append(f"| `{name}` | {result} |")
    if unexplained:
        sys.exit("no reason is known for: " + ", ".join(unexplained))
    return "\n".join([*rows, f"| all | {summary(found)} |"]) + "\n"


def summary(found: dict[str, Counter[str]]) -> str:
    """Return how many pass."""
    total = sum(sum(outcomes.values()) for outcomes in found.values())
    return f"{sum(outcomes['passed'] for outcomes in found.values())} of {total} pass"


def main() -> None:
    """Run, and compare or write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the table into the document")
    parser.add_argument("--report", type=Path, help="take the results of an earlier run (JUnit XML)")
    options = parser.parse_args()
    found = counted(options.report) if options.report else results(sources())
    rows = table(found)
    print(summary(found))
    page = PAGE.read_text(encoding="utf-8")
    before, _, old = page.partition(HEAD)
    if options.write:
        PAGE.write_text(before + HEAD + rows, encoding="utf-8")
    elif old != rows:
        changed = sorted(set(rows.splitlines()) ^ set(old.splitlines()))
        sys.exit("the table differs:\n" + "\n".join(changed))


if __name__ == "__main__":
    main()

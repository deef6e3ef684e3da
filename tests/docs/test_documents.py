"""What the documents say is true: links lead somewhere, their Python runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench import headlines
from shepherd.inference.models import resolve
from tests.hub import LoopbackHub
from tests.server.processes import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
RUN_ALONE = [
    *(f"docs/{page}.md" for page in ("explanation/engine", "tutorials/library")),
    *(f"docs/how-to/{page}.md" for page in ("encryption", "knowledge", "langchain", "models", "vectors")),
    *(f"docs/reference/{page}.md" for page in ("entities", "trace")),
]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", document.read_text(encoding="utf-8"))

    missing = [link for link in links if not (document.parent / link).exists()]

    assert missing == []


def test_every_bench_has_its_question_and_its_bar() -> None:
    rows = re.findall(r"^\| `(test_\w+\.py)` \|", (ROOT / "bench/README.md").read_text("utf-8"), re.MULTILINE)

    assert sorted(rows) == sorted(path.name for path in ROOT.glob("bench/test_*.py"))


def test_table_of_the_benches_is_that_of_their_results() -> None:
    text = headlines.README.read_text(encoding="utf-8")

    assert text == headlines.with_table(text)
    assert set(headlines.newest()) == set(headlines.KINDS)


def _python_of(document: str) -> str:
    text = (ROOT / document).read_text(encoding="utf-8")
    return "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))


def _run(python: str, folder: Path, **variables: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", python],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_python_of_every_page_is_run_here() -> None:
    pages = (str(path.relative_to(ROOT)) for path in DOCUMENTS if "```python" in path.read_text("utf-8"))

    assert sorted(pages) == sorted([*RUN_ALONE, "docs/how-to/requests.md"])


@pytest.mark.parametrize("document", RUN_ALONE)
def test_python_of_a_page_runs_from_top_to_bottom(
    document: str, tmp_path: Path, files: Path, hub: LoopbackHub
) -> None:
    shutil.copytree(files / "notes", tmp_path / "notes")
    shutil.copy(files / "model.gguf", tmp_path / "embedder.gguf")
    shutil.copy(resolve(""), tmp_path / "model.gguf")

    _run(_python_of(document), tmp_path, HF_HOME=str(tmp_path / "hf"), HF_ENDPOINT=hub.endpoint)


def test_python_of_the_page_about_requests_asks_a_server(tmp_path: Path, files: Path) -> None:
    with ServerProcess(tmp_path / "home", "-m", str(files / "tiny.gguf")) as server:
        python = _python_of("docs/how-to/requests.md").replace("http://127.0.0.1:8000", server.url)

        _run(python, tmp_path, NO_PROXY="*")

        assert server.url in python
        assert server.log.count('"tokens": ') == 6


def test_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--fail-on-warning",
        "-q",
        str(ROOT / "docs"),
        str(tmp_path / "site"),
    ]

    built = subprocess.run(
        command, env=os.environ | {"NO_PROXY": "*"}, capture_output=True, text=True, check=False
    )

    assert built.stderr == ""
    pages = {path.relative_to(tmp_path / "site").with_suffix("") for path in tmp_path.glob("site/**/*.html")}
    assert pages >= {path.relative_to(ROOT / "docs").with_suffix("") for path in ROOT.glob("docs/**/*.md")}

"""What the documents say is true: links lead somewhere, the reference is the code's, README's Python runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hub import LoopbackHub
from tools.config_reference import reference

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md")])


def test_reference_of_the_settings_is_that_of_the_code() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") == reference()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", document.read_text(encoding="utf-8"))

    missing = [link for link in links if not (document.parent / link).exists()]

    assert missing == []


@pytest.mark.parametrize(
    "document",
    ["README.md", *(f"docs/{page}.md" for page in ("entities", "knowledge", "langchain", "library"))]
    + [f"docs/{page}.md" for page in ("models", "trace", "vectors")],
)
def test_python_of_a_page_runs_from_top_to_bottom(
    document: str, tmp_path: Path, files: Path, hub: LoopbackHub
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), re.DOTALL)
    shutil.copytree(files / "notes", tmp_path / "notes")
    shutil.copy(files / "model.gguf", tmp_path / "embedder.gguf")
    home = {"HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf"), "HF_ENDPOINT": hub.endpoint}

    assert blocks
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)],
        cwd=tmp_path,
        env={**os.environ, **home},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


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
    pages = {path.stem for path in (tmp_path / "site").glob("*.html")}
    assert pages >= {path.stem for path in ROOT.glob("docs/*.md")}

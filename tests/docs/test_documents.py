"""What the documents say is true: links lead somewhere, the reference is the code's, README's Python runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("document", ["README.md", "docs/library.md", "docs/langchain.md", "docs/trace.md"])
def test_python_of_a_page_runs_from_top_to_bottom(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), re.DOTALL)

    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, document, "exec"), names)


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

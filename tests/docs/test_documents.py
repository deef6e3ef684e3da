"""What the documents say is true: links lead somewhere, the reference is the code's, README's Python runs."""

from __future__ import annotations

import re
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


def test_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)

    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})

"""The site of these pages: `tools/docs` builds it, without a network, into build/docs."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)
assert VERSION is not None

project = "Shepherd"
author = "The Shepherd developers"
release = version = VERSION.group(1)
extensions = ["myst_parser"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"Shepherd {version}"
html_show_copyright = False
html_copy_source = False
templates_path: list[str] = []
exclude_patterns = ["images"]

# Pages that lie elsewhere in the repository, where their readers look for them; the site includes them.
ELSEWHERE = {
    "../bench/README.md": "benchmarks.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changelog.md",
    "../README.md": "index.md",
    "../src/shepherd/models/MODEL_CARD.md": "model-card.md",
}


def _link_inside(_: Sphinx, __: str, source: list[str]) -> None:
    """Links to those pages lead to the site's copy."""
    for path, page in ELSEWHERE.items():
        source[0] = source[0].replace(f"]({path}", f"]({page}")


def _link_included(_: Sphinx, relative_path: Path, parent: str, source: list[str]) -> None:
    """Links of an included page are from where it lies; all that is no page of the site becomes its words."""
    folder = (ROOT / "docs" / relative_path).resolve().parent

    def inside(match: re.Match[str]) -> str:
        words, target, anchor = match.groups(default="")
        found = (folder / target).resolve()
        for path, page in ELSEWHERE.items():
            if found == (ROOT / "docs" / path).resolve():
                return f"[{words}]({page}{anchor})"
        if found.parent == ROOT / "docs" and found.suffix == ".md":
            return f"[{words}]({found.name}{anchor})"
        return words

    source[0] = re.sub(r"\[([^\]]+)\]\((?!https?://|#)([^)#]+)(#[^)]*)?\)", inside, source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _link_inside)
    app.connect("include-read", _link_included)

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

# Files elsewhere in the repository, and the pages of the site that include them or stand for them.
ELSEWHERE = {
    ROOT / "bench/README.md": "/reference/benchmarks.md",
    ROOT / "CONTRIBUTING.md": "/how-to/contributing.md",
    ROOT / "CHANGELOG.md": "/reference/changelog.md",
    ROOT / "README.md": "/index.md",
    ROOT / "src/shepherd/models/MODEL_CARD.md": "/reference/model-card.md",
}
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?://|#)([^)#]+)(#[^)]*)?\)")


def _link_inside(app: Sphinx, page: str, source: list[str]) -> None:
    """Point links from a page to files elsewhere at the site's pages for them."""
    folder = (Path(app.srcdir) / page).parent

    def inside(match: re.Match[str]) -> str:
        words, target, anchor = match.groups(default="")
        there = ELSEWHERE.get((folder / target).resolve())
        return f"[{words}]({there}{anchor})" if there else match[0]

    source[0] = _LINK.sub(inside, source[0])


def _link_included(_: Sphinx, relative_path: Path, parent: str, source: list[str]) -> None:
    """Resolve links of an included file from its folder; keep only the words where the site has no page."""
    folder = (ROOT / "docs" / relative_path).resolve().parent

    def inside(match: re.Match[str]) -> str:
        words, target, anchor = match.groups(default="")
        found = (folder / target).resolve()
        if there := ELSEWHERE.get(found):
            return f"[{words}]({there}{anchor})"
        if found.is_relative_to(ROOT / "docs") and found.suffix == ".md":
            return f"[{words}](/{found.relative_to(ROOT / 'docs')}{anchor})"
        return words

    source[0] = _LINK.sub(inside, source[0])


def setup(app: Sphinx) -> None:
    """Register both with Sphinx, which calls this."""
    app.connect("source-read", _link_inside)
    app.connect("include-read", _link_included)

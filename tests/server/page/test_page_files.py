"""The page's files: open to everybody, the same for all, behind a policy, and with nothing from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from shepherd.config import Config
from shepherd.memory import Memory
from shepherd.server import page
from shepherd.server.app import create_app
from shepherd.server.state import AppState
from tests.server.running import Running

STATIC = Path(page.__file__).parent / "static"
FILES = sorted(path for path in STATIC.iterdir() if path.is_file())
MODULES = [path for path in FILES if path.suffix == ".js"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with Memory(tmp_path_factory.mktemp("page") / "memory.db") as memory:
        memory.keys.create("anna", ["memory"])
        app = create_app(AppState(Config(), memory, True, needs_key=True))
        with Running(app) as running, running.client() as client:
            yield client


def test_every_file_is_served_without_a_key_behind_a_strict_policy(client):
    for path in page.PATHS:
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]

        assert answer.status_code == 200
        assert answer.content
        assert policy.startswith("default-src 'none'; ")
        assert "script-src 'self'; " in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    assert {f"/page/{path.name}" for path in FILES} - page.PATHS == {"/page/index.html"}


def test_a_file_that_is_known_already_is_not_sent_again(client):
    etag = client.get("/").headers["etag"]

    for known in (etag, f'"other", W/{etag}', "*"):
        again = client.get("/", headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
        assert again.headers["cache-control"] == "no-cache"
    assert client.get("/", headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_browser_knows_what_each_file_is(client):
    types = {Path(path).suffix or ".html": client.get(path).headers["content-type"] for path in page.PATHS}

    assert types == {
        ".html": "text/html; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }


def test_the_page_can_only_be_read(client):
    assert client.head("/").status_code == 200
    assert client.head("/").content == b""
    for method in ("POST", "PUT", "DELETE"):
        assert client.request(method, "/").status_code == 405


def test_all_modules_are_fetched_at_once():
    document = (STATIC / "index.html").read_text(encoding="utf-8")

    fetched = re.findall(
        r'<(?:link rel="modulepreload" href|script type="module" src)="/page/([^"]+)"', document
    )

    # What the first view imports, and nothing that it waits for in vain.
    needed, found = set(), ["app.js", "view_chat.js"]
    while found:
        name = found.pop()
        needed.add(name)
        imported = re.findall(r'from "\./([^"]+)"', (STATIC / name).read_text(encoding="utf-8"))
        found += [other for other in imported if other not in needed]
    assert sorted(fetched) == sorted(needed)


def test_the_page_stays_light():
    assert sum(path.stat().st_size for path in FILES) <= 400_000


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_modules_import_what_is_there_and_never_make_markup_of_text(path):
    source = path.read_text(encoding="utf-8")

    for names, name in re.findall(r'(?:\{([^{}]*)\} )?from "\./([^"]+)"', source):
        there = (STATIC / name).read_text(encoding="utf-8")
        exported = re.findall(r"^export (?:async )?(?:function\*?|const|class) (\w+)", there, re.M)
        assert {one.split(" as ")[0].strip() for one in names.split(",") if one.strip()} <= {*exported}
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|srcdoc",
        source.replace('"eval"', ""),  # a command of the program
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_is_loaded_from_elsewhere(path):
    source = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")

    assert not re.search(r"https?://|[\"'(]//[a-z0-9-]+\.[a-z]{2,}|@import|url\(", source)


def test_the_document_has_no_script_or_style_of_its_own():
    document = (STATIC / "index.html").read_text(encoding="utf-8")

    assert re.findall(r"<script(?![^>]*\bsrc=)", document) == []
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", document)

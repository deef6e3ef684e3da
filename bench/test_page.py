"""How long after its HTML does the page's chat stand, beside a page that is nothing but a text box?

A real server with 30 conversations, and Chromium without a window. Both pages are loaded in turns, each time
in a new context, so that nothing is cached. The time is the browser's own, from the last byte of the HTML
until the first frame with the text box. The other page's box is made by one script, which a server of the
standard library sends.

    python -m pytest bench/test_page.py --benchmark-only -s
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, sync_playwright

from bench.small import JUDGED, sized
from shepherd.config import default_user_id
from shepherd.memory import Memory
from shepherd.types import Message
from tests.server.page.conftest import HINT, OPTIONS, program
from tests.server.processes import ServerProcess

ROUNDS = sized(15, 2)
N_CONVERSATIONS = 30
BAR_MS = 300

# Notes when the text box has been painted: a frame begins after the one that shows it.
WATCH = """
new MutationObserver((_, observer) => {
  if (!document.querySelector("textarea")) return;
  observer.disconnect();
  const note = () => { document.documentElement.dataset.at = performance.now(); };
  requestAnimationFrame(() => requestAnimationFrame(note));
}).observe(document, { childList: true, subtree: true });
"""
SINCE_HTML = """() => {
  const { at } = document.documentElement.dataset;
  return at ? at - performance.getEntriesByType("navigation")[0].responseEnd : null;
}"""


class _TextBox(BaseHTTPRequestHandler):
    """A page whose script makes a text box."""

    def do_GET(self) -> None:
        is_script = self.path == "/box.js"
        script = b'document.body.append(document.createElement("textarea"));'
        page = b'<!doctype html><script type="module" src="/box.js"></script><body></body>'
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if is_script else "text/html")
        self.end_headers()
        self.wfile.write(script if is_script else page)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _text_box() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _TextBox) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@contextmanager
def _browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=program(), args=[*OPTIONS, "--no-sandbox"])
        except Error as error:
            pytest.skip(f"no Chromium: {str(error).splitlines()[0]} ({HINT})")
        yield browser
        browser.close()


def _milliseconds(browser: Browser, url: str) -> float:
    with browser.new_context() as context:
        page = context.new_page()
        page.add_init_script(WATCH)
        page.goto(url, wait_until="commit")
        while (taken := page.evaluate(SINCE_HTML)) is None:
            page.wait_for_timeout(20)
    return float(taken)


def test_the_chat_stands_soon_after_the_html(benchmark, tmp_path: Path) -> None:
    database = tmp_path / ".local" / "share" / "shepherd" / "memory.db"
    database.parent.mkdir(parents=True)
    with Memory(database, user_id=default_user_id()) as memory:
        for i in range(N_CONVERSATIONS):
            memory.append_message(
                memory.start_session(), Message("user", f"How do tomatoes grow in bed {i}?")
            )

    with ServerProcess(tmp_path) as server, _text_box() as peer, _browser() as browser:
        urls = {"a text box": peer, "the page's chat": f"{server.url}/"}

        def alternate() -> dict[str, list[float]]:
            figures: dict[str, list[float]] = {name: [] for name in urls}
            for _ in range(ROUNDS):
                for name, url in urls.items():
                    figures[name].append(_milliseconds(browser, url))
            return figures

        figures = benchmark.pedantic(alternate, rounds=1, warmup_rounds=1)

    print()
    for name, values in figures.items():
        print(f"  {name:<16} {statistics.median(values):6.0f} ms   {min(values):6.0f} .. {max(values):.0f}")
    assert statistics.median(figures["the page's chat"]) < BAR_MS or not JUDGED

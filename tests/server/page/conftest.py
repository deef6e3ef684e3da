"""A real Chromium against a real server; where there is none, the run's end says what was not tested."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, expect, sync_playwright

from shepherd.memory import Memory
from tests.server.page.stored import a_year
from tests.server.processes import ServerProcess

# Without a window it needs half of the time. As Debian, other systems, and Google call the others.
NAMES = (
    *("chromium-headless-shell", "chromium", "chromium-browser"),
    *("google-chrome", "google-chrome-stable", "chrome"),
)
# Root, as in a container, has no sandbox; and it looks for nothing outside of this machine.
OPTIONS = [
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = int(os.environ.get("SHEPHERD_TEST_PATIENCE_MS", "90000"))
_numbers = itertools.count(1)
# A machine may have other things to do.
expect.set_options(timeout=PATIENCE_MS)
HINT = (
    "apt-get install chromium brings one, playwright install chromium too; SHEPHERD_TEST_CHROMIUM names one"
)


def program() -> str | None:
    """Where Chromium is; None for the one that Playwright has downloaded, if it has."""
    return os.environ.get("SHEPHERD_TEST_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


_started = ExitStack()
_browsers: list[Browser] = []


@pytest.fixture(scope="module")
def browser() -> Browser:
    """The browser of all tests of this folder that come one after the other."""
    if not _browsers:
        playwright = _started.enter_context(sync_playwright())
        options = [*OPTIONS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        try:
            browser = playwright.chromium.launch(executable_path=program(), args=options)
        except Error as error:
            _started.close()
            pytest.skip(f"no Chromium: {str(error).splitlines()[0]} ({HINT})")
        _started.callback(browser.close)
        _browsers.append(browser)
    return _browsers[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, object, object]:
    # Not for the whole run: while Playwright is there, this thread has an event loop, and can start none.
    try:
        return (yield)
    finally:
        if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
            _browsers.clear()
            _started.close()


@dataclass
class Visit:
    """A page in a context of its own, what went wrong in it, and the server's address."""

    page: Page
    url: str
    user: str = ""
    problems: list[str] = field(default_factory=list)

    def open(self, view: str) -> None:
        """Go to a view and wait until it is drawn."""
        self.page.goto(f"{self.url}/#/{view}")
        self.page.wait_for_selector("main h1")
        self.page.wait_for_selector("main:not([aria-busy])")


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Opens pages of a server, as a user if one is named; none of them may complain on its console."""
    visits: list[Visit] = []
    contexts: list[BrowserContext] = []

    def begin(url: str, user: str = "", **options: object) -> Visit:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        if user:
            # The page may choose another one, and load itself anew.
            name = "'shepherd.user'"
            context.add_init_script(
                f"sessionStorage.getItem({name}) ?? sessionStorage.setItem({name}, {user!r})"
            )
        made = Visit(context.new_page(), url, user)

        def heard(message: ConsoleMessage) -> None:
            # A refused request is one line of the browser's own.
            if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
                made.problems.append(message.text)

        made.page.on("console", heard)
        made.page.on("pageerror", lambda error: made.problems.append(str(error)))
        visits.append(made)
        return made

    yield begin
    for context in contexts:
        context.close()
    assert [problem for made in visits for problem in made.problems] == []


@pytest.fixture
def memory(mini: ServerProcess) -> Iterator[Memory]:
    """The memory of the server process, opened by a second one."""
    with Memory(mini.database) as memory:
        yield memory


@pytest.fixture
def steve(mini: ServerProcess, memory: Memory, visit: Callable[..., Visit]) -> Visit:
    """A page of a user of his own, who has told a year's memories."""
    user = f"steve {next(_numbers)}"
    a_year(memory, user)
    return visit(mini.url, user)

"""Fixtures of many tests: tiny real models, built once per process, and one real PostgreSQL server."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

from tests.examples import register_profiles
from tests.postgres import NoServerError, Server, folder_in_memory

register_profiles()
# For the folders of all tests, and of the programs that they start.
if "TMPDIR" not in os.environ and (folder := folder_in_memory()):
    os.environ["TMPDIR"] = tempfile.tempdir = folder

SCRIPT = ("Hello,", " I am", " a shepherd.", " Café", " is open", " today!")
LEARNER_SCRIPT = (
    '{"facts"',
    ': {"name',
    '": "Steve',
    '"}, "context',
    '": [{"q": "',
    "Which editor?",
    '", "a": "',
    "Helix",
    '"}]}',
)


def builders() -> dict[str, Callable[[Path], None]]:
    """Return the function that writes each tiny model, by the model's name."""
    # Imported here, since the tests of a wheel run without gguf, see pyproject.toml.
    from tests import models

    return {
        "plain": models.llama,
        "spm": partial(models.llama, spm=True),
        "sliding": models.gemma3,
        "windowed": models.olmo2,
        "recurrent": models.mamba,
        "hybrid": models.qwen35,
        # Generates printable ASCII and never ends by itself.
        "endless": partial(models.llama, ascii_only=True),
        # Answers everything with SCRIPT.
        "scripted": partial(models.scripted, script=SCRIPT),
        # Answers everything with JSON that has the user's name, Steve, and editor, Helix.
        "learner": partial(models.scripted, script=LEARNER_SCRIPT),
    }


@pytest.fixture(scope="session", autouse=True)
def own_program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let PATH have `shepherd`, and nothing else of this environment: hints name it without its folder."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "shepherd").symlink_to(Path(sys.prefix, "bin", "shepherd"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        yield


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the results about the tests' model files out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_timed_drafts() -> Iterator[None]:
    """Draft nothing by the time that batches take, which differs from run to run; see test_drafts.py.

    A batch with a draft differs from one of a token in its last bits, and these may decide a close call.
    """
    from shepherd._native import engine as native
    from shepherd.inference.model import DRAFTS

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(DRAFTS, "auto", native.DRAFT_OFF)
        yield


@pytest.fixture(scope="session")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the path of a tiny model by name, see `builders`."""
    folder = tmp_path_factory.mktemp("models")

    def build(name: str) -> Path:
        path = folder / f"{name}.gguf"
        if not path.exists():
            builders()[name](path)
        return path

    return build


@pytest.fixture(scope="session")
def plain_model(model_file: Callable[[str], Path]) -> Path:
    """A tiny model with plain attention."""
    return model_file("plain")


@pytest.fixture(scope="session")
def scripted_model(model_file: Callable[[str], Path]) -> Path:
    """A tiny model that answers everything with SCRIPT."""
    return model_file("scripted")


@pytest.fixture(scope="session")
def endless_model(model_file: Callable[[str], Path]) -> Path:
    """A tiny model that generates until it is stopped."""
    return model_file("endless")


@pytest.fixture
def program_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """How to start an installation in the home folder, which PATH does not find."""
    program = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "shepherd"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.setattr("sys.prefix", str(tmp_path / "env"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return f"~/env/{program.parent.name}/shepherd"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("hangs_after", "seconds after which a test writes the stacks of all threads", default="600")


_watched_since = 0.0


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Let a test that hangs say where: it writes the stacks of all threads, and is not ended.

    pytest's faulthandler_timeout starts and ends a thread for each test, which takes half a millisecond.
    """
    global _watched_since  # noqa: PLW0603
    seconds, now = int(item.config.getini("hangs_after")), time.monotonic()
    if seconds and now - _watched_since > seconds / 10:
        _watched_since = now
        faulthandler.dump_traceback_later(seconds, file=item.config.stash[fault_handler_stderr_fd_key])


def pytest_configure() -> None:
    # A shell starts its background jobs with SIGINT ignored, which the programs started here would inherit.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# Of Python's garbage collector, which looks at all objects after a million of new ones: ten times as many as
# usual.
_THRESHOLDS = (2_000, 10, 50)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Let the garbage collector pass over modules and tests, millions of objects that stay until the end.

    It would look at all of them again and again: that takes more than half of the time of collecting. Later,
    it looks less often at what the tests leave, which took a tenth of their time.
    """
    gc.disable()
    try:
        _compile_own_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
        gc.enable()


def _compile_own_share(config: pytest.Config) -> None:
    """Import every n-th module of tests in each of n processes, and so write its bytecode for the others.

    In a fresh clone each process would compile all modules and rewrite the asserts of all tests, at the same
    time and in the same order as the others: that takes 15 seconds of each.
    """
    worker: dict[str, object] | None = getattr(config, "workerinput", None)  # of pytest-xdist
    if worker is None:
        return
    named = [Path(argument.partition("::")[0]) for argument in config.args]
    files = sorted({file for path in named if path.is_dir() for file in path.rglob("test_*.py")})
    number, count = int(str(worker["workerid"])[2:]), int(str(worker["workercount"]))
    for file in files[number::count]:
        # What cannot be imported, or not here, is reported when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            path = file.resolve().relative_to(config.rootpath).with_suffix("")
            importlib.import_module(".".join(path.parts))


@pytest.fixture
def unfrozen() -> Iterator[None]:
    """For tests of what is kept from the garbage collector: it sees all objects, as in a new process."""
    gc.unfreeze()
    yield
    gc.freeze()


def pytest_unconfigure() -> None:
    faulthandler.cancel_dump_traceback_later()
    # llama-cpp-python opens /dev/null twice when it is imported and never closes it, which is reported at
    # exit where warnings are errors: "Exception ignored in: <_io.FileIO name='/dev/null' …>".
    utils = sys.modules.get("llama_cpp._utils")
    for name in ("outnull_file", "errnull_file"):
        if file := getattr(utils, name, None):
            file.close()


# ---- what a machine may lack


def _new_server() -> Iterator[Server]:
    try:
        server = Server()
    except NoServerError as error:
        pytest.skip(f"no PostgreSQL: {error}")
    yield server
    server.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A PostgreSQL server of this process; without one, the run's last lines say so."""
    yield from _new_server()


@pytest.fixture(scope="module")
def empty_postgres_server() -> Iterator[Server]:
    """A server of this module alone, to be copied or stopped: that takes as long as it has data."""
    yield from _new_server()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name in ("PostgreSQL", "PgBouncer", "HAProxy", "Chromium"):
        _report_untested(terminalreporter, name)


def _report_untested(terminalreporter: pytest.TerminalReporter, name: str) -> None:
    """Name the tests that were skipped with "no NAME: reason", if any, and the reason."""
    skipped = {
        report.nodeid: reason[1]
        for report in terminalreporter.stats.get("skipped", [])
        if (reason := re.search(rf"no {name}: (.*)", report.longrepr[2], re.DOTALL))
    }
    if not skipped:
        return
    terminalreporter.section(f"{name} WAS NOT TESTED", sep="!", red=True, bold=True)
    for reason in sorted(set(skipped.values())):
        terminalreporter.write_line(f"{len(skipped)} tests did not run: {reason}", red=True)
    for node in skipped:
        terminalreporter.write_line(f"  {node}")

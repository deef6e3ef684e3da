"""What many tests share: tiny real models, built once per run, and one real PostgreSQL server."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import hypothesis
import pytest

from tests.postgres import NoServerError, Server

# How long an example takes says how busy the machine is, not what is right.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")

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
    """What writes each tiny model, by its name."""
    # Imported here: where a wheel is tested there is nothing that writes model files, see pyproject.toml.
    from tests import models

    return {
        "plain": models.llama,
        "spm": partial(models.llama, spm=True),
        "sliding": models.gemma3,
        "windowed": models.olmo2,
        "recurrent": models.mamba,
        "hybrid": models.qwen35,
        # Says printable ASCII and never ends by itself.
        "endless": partial(models.llama, ascii_only=True),
        # Says SCRIPT to everything.
        "scripted": partial(models.scripted, script=SCRIPT),
        # Says as JSON, to everything, that the user is Steve and uses Helix.
        "learner": partial(models.scripted, script=LEARNER_SCRIPT),
    }


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the tests remember of model files is not remembered by the user's own Shepherd."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The path of a tiny model by name, see `builders`."""
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
    """A tiny model that goes on until it is stopped."""
    return model_file("endless")


def pytest_configure() -> None:
    # A shell starts what it runs in the background with SIGINT ignored, and programs started here inherit it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure() -> None:
    # llama-cpp-python opens /dev/null twice when it is imported and leaves both to the interpreter's end,
    # which tells of it where warnings are errors: "Exception ignored in: <_io.FileIO name='/dev/null' …>".
    utils = sys.modules.get("llama_cpp._utils")
    for name in ("outnull_file", "errnull_file"):
        if file := getattr(utils, name, None):
            file.close()


# ---- PostgreSQL

_no_server = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A PostgreSQL server of this run alone; where there can be none, the run's last lines say so."""
    try:
        server = Server()
    except NoServerError as error:
        request.config.stash[_no_server] = str(error)
        pytest.skip(f"no PostgreSQL: {error}")
    yield server
    server.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reason = config.stash.get(_no_server, None)
    if reason is not None:
        _say_loudly(terminalreporter, "PostgreSQL", f"did not run: {reason}")
    _say_loudly(terminalreporter, "Chromium", "of the memory page did not run; -rs says why")


def _say_loudly(terminalreporter: pytest.TerminalReporter, name: str, what: str) -> None:
    """Which tests were skipped with "no NAME: …", if any."""
    skipped = terminalreporter.stats.get("skipped", [])
    names = [report.nodeid for report in skipped if f"no {name}: " in str(report.longrepr)]
    if not names:
        return
    terminalreporter.section(f"{name} WAS NOT TESTED", sep="!", red=True, bold=True)
    terminalreporter.write_line(f"{len(names)} tests {what}", red=True)
    for node in names:
        terminalreporter.write_line(f"  {node}")

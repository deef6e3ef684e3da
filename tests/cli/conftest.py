"""The command line as its users meet it: processes in a home of their own, with tiny real models."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import programs

# macOS has none, and a real full disk needs a mount.
_HAS_FULL = os.path.exists("/dev/full")
NEEDS_DEV_FULL = pytest.mark.skipif(not _HAS_FULL, reason="no /dev/full: a full disk was NOT tested")


def in_latin_1() -> dict[str, str]:
    """The environment of a process whose standard streams are not UTF-8."""
    return {"PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}


@dataclass
class Home:
    """An empty home folder and the environment of a process that lives in it."""

    path: Path
    environment: dict[str, str]

    @property
    def config(self) -> Path:
        return self.path / ".config" / "shepherd" / "config.json"

    @property
    def database(self) -> Path:
        return self.path / ".local" / "share" / "shepherd" / "memory.db"

    @property
    def history(self) -> Path:
        return self.path / ".local" / "state" / "shepherd" / "history"

    @property
    def asked(self) -> Path:
        """Its existence says that a full model was offered before."""
        return self.path / ".local" / "state" / "shepherd" / "first-start"

    def has_asked(self) -> None:
        """Let the next start not be the first one at a terminal, which asks for a model."""
        self.asked.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.asked.touch()


@pytest.fixture(scope="session")
def new_home() -> Callable[[Path], Home]:
    """Makes an empty home folder for user steve."""

    def make(path: Path) -> Home:
        path.mkdir()
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("SHEPHERD_", "XDG_"))
        }
        inherited.pop("NO_COLOR", None)
        own = {"HOME": str(path), "SHEPHERD_USER_ID": "steve", "PYTHONUTF8": "1", "TERM": "xterm"}
        # Each home is new, and so would be each model: half a second a test. See test_trial.py.
        own["SHEPHERD_MODEL_TRIAL"] = "false"
        return Home(path, {**inherited, **own})

    return make


@pytest.fixture
def home(new_home, tmp_path) -> Home:
    return new_home(tmp_path / "home")


@pytest.fixture
def shepherd(home) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `shepherd` with arguments; `input` is its stdin, other keywords are environment variables."""

    def run(*arguments: str, input: str | bytes = "", **variables: str) -> subprocess.CompletedProcess[str]:
        done = programs.run(
            [sys.executable, "-m", "shepherd", *(a if isinstance(a, bytes) else str(a) for a in arguments)],
            input=input.encode() if isinstance(input, str) else input,
            capture_output=True,
            env={**home.environment, **variables},
            timeout=120,
            check=False,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    return run


@pytest.fixture(scope="session")
def model(scripted_model) -> Path:
    """Says "Hello, I am a shepherd. Café is open today!" to everything."""
    return scripted_model

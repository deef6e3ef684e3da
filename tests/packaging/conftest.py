"""One source archive and one wheel for all packaging tests of a run, built as a release is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]
# A build without optimisation and debug information has the same files and symbols, and spares a minute.
SETTINGS = {
    "cmake.build-type": "Debug",
    "cmake.define.CMAKE_C_FLAGS_DEBUG": "-O0",
    "cmake.define.SHEPHERD_SQLITE": "bundled",
    "build-dir": "build",
}


def call_backend(call: str, folder: Path) -> Path:
    """What a packaging frontend does: one call of the build backend in the source's folder."""
    code = f"import scikit_build_core.build as backend; print(backend.{call})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(done.stdout.splitlines()[-1])


def _ignored(folder: str, names: list[str]) -> set[str]:
    return {".git", ".venv"} & set(names) if Path(folder) == ROOT else set()


@pytest.fixture(scope="session")
def release_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what is built once, which all processes of a run share."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "release"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def source_archive(release_folder: Path) -> Path:
    with FileLock(release_folder / "lock"):
        if not list(release_folder.glob("*.tar.gz")):
            subprocess.run([sys.executable, ROOT / "tools/get_sqlite.py", ROOT / "_sqlite"], check=True)
            # The backend would read each name in .venv, which no release has.
            checkout = release_folder / "checkout"
            shutil.copytree(ROOT, checkout, symlinks=True, ignore=_ignored)
            call_backend(f"build_sdist({str(release_folder)!r})", checkout)
    [archive] = release_folder.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="session")
def wheel(source_archive: Path, release_folder: Path) -> Path:
    """Built from the source archive, so what that lacks is noticed."""
    with FileLock(release_folder / "lock"):
        if not list(release_folder.glob("*.whl")):
            with tarfile.open(source_archive) as tar:
                tar.extractall(
                    release_folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {})
                )
            unpacked = release_folder / source_archive.name.removesuffix(".tar.gz")
            call_backend(f"build_wheel({str(release_folder)!r}, {SETTINGS!r})", unpacked)
    [wheel] = release_folder.glob("*.whl")
    return wheel

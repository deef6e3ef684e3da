"""One source archive and one wheel for all packaging tests, built as a release is."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A build without optimisation has the same files and symbols, and spares a minute.
SETTINGS = {"cmake.build-type": "Debug", "cmake.define.SHEPHERD_SQLITE": "bundled", "build-dir": "build"}


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


@pytest.fixture(scope="session")
def source_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    subprocess.run([sys.executable, ROOT / "tools/get_sqlite.py", ROOT / "_sqlite"], check=True)
    folder = tmp_path_factory.mktemp("sdist")
    return folder / call_backend(f"build_sdist({str(folder)!r})", ROOT)


@pytest.fixture(scope="session")
def wheel(source_archive: Path) -> Path:
    """Built from the source archive, so what that lacks is noticed."""
    folder = source_archive.parent
    with tarfile.open(source_archive) as tar:
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    unpacked = folder / source_archive.name.removesuffix(".tar.gz")
    return folder / call_backend(f"build_wheel({str(folder)!r}, {SETTINGS!r})", unpacked)

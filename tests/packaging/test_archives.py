"""What a release carries: the source archive and the wheel that is built from it."""

from __future__ import annotations

import runpy
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path, PurePosixPath

import shepherd

ROOT = Path(__file__).resolve().parents[2]
MODULES = {path.stem for path in ROOT.glob("src/_native/*.pyx")}


def files_of_archive(archive: Path) -> set[str]:
    with tarfile.open(archive) as tar:
        return {name.split("/", 1)[1] for name in tar.getnames() if "/" in name}


def files_of_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as unzipped:
        return set(unzipped.namelist())


def metadata(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as unzipped:
        name = next(name for name in unzipped.namelist() if name.endswith(".dist-info/METADATA"))
        return dict(Parser().parsestr(unzipped.read(name).decode()).items())


def test_source_archive_has_all_that_a_build_and_its_check_need(source_archive: Path) -> None:
    files = files_of_archive(source_archive)

    sources = [
        path for folder in ("src", "cmake", ".ci") for path in (ROOT / folder).rglob("*") if path.is_file()
    ]
    wanted = {str(path.relative_to(ROOT)) for path in sources if "__pycache__" not in path.parts}
    wanted |= {"pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE", "tools/get_sqlite.py"}
    assert wanted - files == set()


def test_source_archive_brings_the_source_of_sqlite(source_archive: Path) -> None:
    assert {"_sqlite/sqlite3.c", "_sqlite/sqlite3.h"} <= files_of_archive(source_archive)


def test_source_archive_has_no_build_products(source_archive: Path) -> None:
    products = {".so", ".o", ".pyc", ".whl", ".gguf"}

    found = {name for name in files_of_archive(source_archive) if PurePosixPath(name).suffix in products}

    assert {name for name in found if not name.startswith("src/shepherd/models/")} == set()


def test_wheel_has_every_module_with_its_stub(wheel: Path) -> None:
    files = files_of_wheel(wheel)

    built = {PurePosixPath(name).name.split(".")[0] for name in files if name.endswith((".so", ".pyd"))}
    stubs = {PurePosixPath(name).stem for name in files if name.endswith(".pyi")}
    assert built == MODULES
    assert stubs == MODULES


def test_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    found = (path for path in (ROOT / "src/shepherd").rglob("*") if path.is_file())
    wanted = {str(path.relative_to(ROOT / "src")) for path in found if "__pycache__" not in path.parts}

    # The bundled model and its card, the styles of the screen, the memory page: none of them is Python.
    names = ("models/MODEL_CARD.md", "tui/shepherd.tcss", "server/page/static/index.html", "py.typed")
    assert {f"shepherd/{name}" for name in names} <= wanted
    assert any(name.startswith("shepherd/models/") and name.endswith(".gguf") for name in wanted)
    assert wanted - files_of_wheel(wheel) == set()


def test_wheel_has_nothing_else(wheel: Path) -> None:
    files = files_of_wheel(wheel)

    tops = {name.split("/")[0] for name in files}
    suffixes = {PurePosixPath(name).suffix for name in files if name.startswith("shepherd/")}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"shepherd"}
    assert suffixes & {".pyx", ".pxd", ".c", ".h", ".a"} == set()
    assert not any(part.startswith(("test", "conftest")) for name in files for part in name.split("/"))


def test_wheel_has_the_license_texts_of_what_is_compiled_in(wheel: Path) -> None:
    names = {PurePosixPath(name).name for name in files_of_wheel(wheel) if "/licenses/" in name}

    assert names == {"LICENSE", "SQLite3MultipleCiphers.txt"}


def test_wheel_says_which_python_and_which_command(wheel: Path) -> None:
    found = metadata(wheel)

    with zipfile.ZipFile(wheel) as unzipped:
        name = next(name for name in unzipped.namelist() if name.endswith("entry_points.txt"))
        entry_points = unzipped.read(name).decode()
    assert found["Name"] == "shepherd-llm"
    assert found["Version"] == shepherd.__version__
    assert found["Requires-Python"] == ">=3.10"
    assert "shepherd = shepherd.cli.main:run" in entry_points


def test_wheel_is_not_too_large(wheel: Path) -> None:
    assert wheel.stat().st_size <= runpy.run_path(str(ROOT / "tools/wheel"))["LARGEST_BYTES"]

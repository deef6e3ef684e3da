"""One copy of SQLite per process may touch a memory database, and it is the store's.

POSIX locks belong to the process: when a second copy opens and closes the file, the locks of the first are
gone, and a row that another process committed is lost without an error.
"""

from __future__ import annotations

import ast
import shutil
import sqlite3
import subprocess
import zipfile
from pathlib import Path

import pytest

from shepherd._native import store

ROOT = Path(__file__).resolve().parents[2]
NATIVE = sorted(Path(store.__file__).parent.glob("*.so"))

# Files that import sqlite3, and why that is safe: each opens a file that no store of its process opens.
SQLITE3_IMPORTERS = {
    "src/shepherd/benchmark/stdlib_peer.py": "a process of its own; no module imports it",
    "bench/peers.py": "each side in a process of its own, on its own file",
    "bench/test_writes.py": "the peer runs in a process of its own, on its own file",
    "tests/benchmark/test_speed_figures.py": "asks for the version of the library alone",
    "tests/server/test_files.py": "writes a database of another program, which the server gets as an upload",
    "tests/packaging/test_one_sqlite.py": "the two copies work side by side on different files",
}


def exported_symbols(module: Path) -> set[str]:
    nm = shutil.which("nm")  # a C compiler needs binutils, so whoever built the module has it
    assert nm
    listed = subprocess.run(
        [nm, "-D", "--defined-only", str(module)], capture_output=True, text=True, check=True
    )
    return {line.split()[-1] for line in listed.stdout.splitlines()}


@pytest.mark.parametrize("module", NATIVE, ids=lambda path: path.name.split(".")[0])
def test_installed_module_exports_only_its_init_function(module: Path) -> None:
    assert exported_symbols(module) == {f"PyInit_{module.name.split('.')[0]}"}


def test_modules_of_a_wheel_export_only_their_init_function(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as unzipped:
        modules = [name for name in unzipped.namelist() if name.endswith(".so")]
        unzipped.extractall(tmp_path, modules)

    assert len(modules) == len(NATIVE) > 0
    for module in modules:
        assert exported_symbols(tmp_path / module) == {f"PyInit_{Path(module).name.split('.')[0]}"}


def test_only_the_store_contains_sqlite() -> None:
    containing = {path.name.split(".")[0] for path in NATIVE if b"SQLite format 3" in path.read_bytes()}

    assert containing == {"store"}


def test_no_module_loads_the_systems_sqlite() -> None:
    assert [path.name for path in NATIVE if b"libsqlite3" in path.read_bytes()] == []


def test_sqlite_is_the_bundled_one_without_the_wal_defect() -> None:
    assert store.SQLITE_KIND == "bundled"
    assert store.HAS_CIPHERS
    assert tuple(map(int, store.SQLITE_VERSION.split("."))) >= (3, 53, 0)


def test_sqlite_is_compiled_as_the_store_relies_on_it(tmp_path: Path) -> None:
    with store.Connection(str(tmp_path / "memory.db")) as connection:
        options = {row[0] for row in connection.execute("PRAGMA compile_options")}
        mmap_bytes = connection.execute("PRAGMA mmap_size")
        trusted_schema = connection.execute("PRAGMA trusted_schema")

    assert {"ENABLE_FTS5", "OMIT_LOAD_EXTENSION", "THREADSAFE=2", "DQS=0"} <= options
    assert mmap_bytes == [(0,)]
    assert trusted_schema == [(0,)]


def test_both_copies_work_in_one_process_on_different_files(tmp_path: Path) -> None:
    ours = store.Connection(str(tmp_path / "memory.db"))
    theirs = sqlite3.connect(tmp_path / "other.db")

    ours.execute("CREATE TABLE t (x)")
    theirs.execute("CREATE TABLE t (x)")
    for value in range(100):
        ours.execute("INSERT INTO t VALUES (?)", (value,))
        theirs.execute("INSERT INTO t VALUES (?)", (-value,))
    theirs.commit()

    assert ours.execute("SELECT sum(x), sqlite_version() FROM t") == [(4950, store.SQLITE_VERSION)]
    assert theirs.execute("SELECT sum(x), sqlite_version() FROM t").fetchone() == (
        -4950,
        sqlite3.sqlite_version,
    )
    theirs.close()
    assert ours.execute("SELECT count(*) FROM t") == [(100,)]
    ours.close()


def test_nothing_else_imports_pythons_sqlite3() -> None:
    bindings = {"sqlite3", "_sqlite3", "pysqlite3", "apsw", "aiosqlite"}
    importers = set()
    for folder in ("src", "tests", "bench", "tools"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if not any(name in text for name in bindings):  # in most files there is nothing to parse
                continue
            modules = set()
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Import):
                    modules |= {name.name.split(".")[0] for name in node.names}
                elif isinstance(node, ast.ImportFrom):
                    modules.add((node.module or "").split(".")[0])
            if modules & bindings:
                importers.add(str(path.relative_to(ROOT)))

    assert importers == SQLITE3_IMPORTERS.keys()

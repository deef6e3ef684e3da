"""Databases that two generations of the original wrote, small and large: each opens with all its rows.

SQLite appends pages, so the later generation's tables are described at the end of a large file.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from shepherd.memory import Memory
from shepherd.memory.identify import Owner, identify
from tests.memory import originals

# What the second generation's first start did to a file of the first.
UPGRADES = {
    "2.22>2.28": (originals.V2_22_FACTS, originals.ADD_USER, "conversations"),
    "2.22>2.30": (originals.V2_22, originals.ADD_USER + originals.FACTS, "conversations"),
    "2.22>2.32": (originals.V2_22, originals.UNINDEXED + originals.index("context"), "context"),
    "2.25>2.37": (originals.V2_22_FACTS, originals.CONTEXT, "context"),
    "2.28>2.32": (originals.V2_28, originals.CONTEXT, "context"),
    "2.30>2.37": (originals.V2_30, originals.CONTEXT, "context"),
}
STATES = ("plain", "secure_delete", "vacuumed", "wal")
SIZES = {"0.5 MiB": 1 << 19, "3 MiB": 3 << 20}
CASES = [
    (upgrade, size, state)
    for upgrade, size, state in product(UPGRADES, SIZES, STATES)
    if state == "secure_delete" or (size == "3 MiB" and UPGRADES[upgrade][2] == "context")
]
N_ROWS = 100

# Builds all files in one process; with "wal", as a kill would leave them.
BUILD = """
import hashlib, json, shutil, sqlite3, sys

def fill(connection, table, words, n_bytes):
    for number, word in enumerate(words):
        text = f"{word} " + "lorem ipsum dolor sit amet " * (n_bytes // 27)
        digest = hashlib.sha256(text.encode()).hexdigest()
        connection.execute(
            f"INSERT INTO {table}(user_message, assistant_response, timestamp, content_hash)"
            " VALUES(?, ?, ?, ?)",
            (f"Where is the {word}?", text, 1_700_000_000 + number, digest),
        )
    connection.commit()

for path, first, second, table, state, size, words in json.load(sys.stdin):
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA secure_delete = {int(state != 'plain')}")
    connection.execute(f"PRAGMA journal_mode = {'wal' if state == 'wal' else 'memory'}")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    half = len(words) // 2
    connection.executescript(first)
    fill(connection, "conversations", words[:half], size // len(words))
    connection.executescript(second)
    fill(connection, table, words[half:], size // len(words))
    if state == "vacuumed":
        connection.execute("VACUUM")
    if state == "wal":
        for name in (path, path + "-wal"):
            shutil.copy(name, name.replace("live-", ""))
    connection.close()
"""


def words_of(case: tuple[str, str, str]) -> list[str]:
    return [f"zq{CASES.index(case)}x{number}" for number in range(N_ROWS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("originals")
    listed: list[Any] = []
    for number, case in enumerate(CASES):
        upgrade, size, state = case
        prefix = "live-" if state == "wal" else ""
        path = str(folder / f"{prefix}{number}.db")
        listed.append([path, *UPGRADES[upgrade], state, SIZES[size], words_of(case)])
    subprocess.run(
        [sys.executable, "-c", BUILD], input=json.dumps(listed), text=True, check=True, timeout=120
    )
    return folder


def files_of(folder: Path, case: tuple[str, str, str]) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.glob(f"{CASES.index(case)}.db*")}


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_every_pair_of_generations_is_recognised_and_untouched(
    folder: Path, case: tuple[str, str, str]
) -> None:
    before = files_of(folder, case)
    assert sum(map(len, before.values())) > SIZES[case[1]]

    assert identify(str(folder / f"{CASES.index(case)}.db")) is Owner.ORIGINAL
    assert files_of(folder, case) == before


# Of the large ones of a kind, one without secure_delete and one with it, whose log is read, too.
OPENED = [
    case for case in CASES if case[1] == "0.5 MiB" or (case[0] == "2.28>2.32" and case[2] in ("plain", "wal"))
]


@pytest.mark.parametrize("case", OPENED, ids="-".join)
def test_every_pair_of_generations_opens_with_every_row(
    folder: Path, case: tuple[str, str, str], tmp_path: Path
) -> None:
    for name, content in files_of(folder, case).items():
        (tmp_path / name).write_bytes(content)

    with Memory(tmp_path / f"{CASES.index(case)}.db") as memory:
        assert {row.question for row in memory.list_memories("local", limit=N_ROWS)} == {
            f"Where is the {word}?" for word in words_of(case)
        }
        for word in words_of(case)[:: N_ROWS // 5]:
            assert [found.question for found in memory.search(word, 1, "local")] == [f"Where is the {word}?"]


def test_interrupted_checkpoint_is_completed_from_the_log(folder: Path, tmp_path: Path) -> None:
    case = ("2.30>2.37", "3 MiB", "wal")
    files = files_of(folder, case)
    number = CASES.index(case)
    path = tmp_path / f"{number}.db"
    # The new first page is in the file; the pages that it points to are in the log alone.
    path.write_bytes((folder / f"live-{number}.db").read_bytes()[:4096])
    path.with_name(f"{number}.db-wal").write_bytes(files[f"{number}.db-wal"])

    assert identify(str(path)) is Owner.ORIGINAL
    with Memory(path) as memory:
        assert memory.count_memories("local") == N_ROWS

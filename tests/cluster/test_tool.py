"""tools/cluster without a cluster: its configuration files, and what it says when it cannot start one.

failover.py runs a whole one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.failover import ROOT, load_tool


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "cluster"), *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def test_missing_programs_are_named_with_their_packages(tmp_path: Path) -> None:
    done = run("start", tmp_path / "new", PATH="/nowhere")

    assert done.returncode == 1
    assert "cluster: not installed: etcd, patroni" in done.stderr
    assert "install Debian's packages etcd-server, patroni" in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_folder_with_other_files_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("Dear Anna")

    done = run("start", tmp_path)

    assert (done.returncode, done.stderr) == (
        1,
        f"cluster: {tmp_path}: there are other files in it\nname a new or an empty folder\n",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_a_cluster_that_was_never_started_is_an_error(tmp_path: Path) -> None:
    done = run("status", tmp_path)

    assert done.returncode == 1
    assert done.stderr == f"cluster: {tmp_path}: there is no cluster\ntools/cluster start makes one\n"


def test_configuration_files_are_complete_and_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = load_tool()
    made = tool.Cluster(tmp_path / "cluster")
    # Programs need not be installed to be named.
    monkeypatch.setattr(tool, "provide_programs", lambda: dict.fromkeys(tool.PACKAGES, "/usr/bin/program"))
    monkeypatch.setattr(tool, "as_ordinary_user", dict)

    made.make()

    files = {path.name: path.read_text() for path in made.folder.iterdir() if path.is_file()}
    assert files.keys() == {
        *("etcd.yml", "one.yml", "two.yml", "haproxy.cfg", "pgbouncer.ini", "pgbouncer-any.ini"),
        *("users.txt", "cluster.json"),
    }
    for name, text in files.items():
        assert "$" not in text, name
        assert (made.folder / name).stat().st_mode & 0o077 == 0
        ports = set(re.findall(r"127\.0\.0\.1:(\d+)", text))
        assert ports <= set(map(str, made.ports.values())), name
    again = tool.Cluster(made.folder)
    again.load()
    assert (again.ports, again.passwords) == (made.ports, made.passwords)
    assert json.loads(files["cluster.json"])["has_database"] is False
    assert str(made.ports["pgbouncer"]) in made.address
    if haproxy := shutil.which("haproxy", path=tool.SEARCHED):
        subprocess.run([haproxy, "-c", "-q", "-f", made.folder / "haproxy.cfg"], check=True)

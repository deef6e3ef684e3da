"""The leader of a real cluster is killed again and again while two processes store and search.

`tools/test --cluster` runs it, with the programs of `tools/cluster`; the ordinary run does not, since each
kill takes half a minute.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import subprocess
import sys
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shepherd.memory import Memory

ROOT = Path(__file__).resolve().parent.parent.parent
CLIENTS = ("one", "two")
# Between a failover and the next kill everything is as usual for so long.
CALM_S = 3.0
LONGEST_PAUSE_S = 30.0
LONGEST_SEARCH_S = 5.0


def load_tool() -> Any:
    """Return tools/cluster, which has no ending, as a module."""
    loader = importlib.machinery.SourceFileLoader("cluster_tool", str(ROOT / "tools" / "cluster"))
    spec = importlib.util.spec_from_loader("cluster_tool", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class Pause(NamedTuple):
    """The time without an acknowledged write after a kill, and the searches that ended in it."""

    began: float
    ended: float
    n_searches: int
    longest_search: float


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    tool = load_tool()
    # The user who runs PostgreSQL cannot enter pytest's folders.
    folder = Path("/tmp") / f"shepherd-cluster-{time.time_ns():x}"
    made = tool.Cluster(folder)
    made.make()
    try:
        made.start()
        yield made
    finally:
        made.stop()
        if not any(made.pid(name) for name in tool.PROCESSES):
            subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.fixture
def start_client(cluster: Any) -> Iterator[Callable[[str, float, float], subprocess.Popen[str]]]:
    """Starts a process with a name that stores and searches so much a second."""
    clients: list[subprocess.Popen[str]] = []

    def start(name: str, n_writes: float, n_searches: float) -> subprocess.Popen[str]:
        command = [sys.executable, str(Path(__file__).with_name("client.py")), cluster.address, name]
        rates = [str(n_writes), str(n_searches)]
        client = subprocess.Popen(
            [*command, *rates], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        clients.append(client)
        assert client.stdout is not None
        assert client.stdout.readline() == "running\n"
        return client

    yield start
    for client in clients:
        client.kill()
        client.communicate()


def pause_after(
    killed: float, until: float, writes: list[float], searches: list[tuple[float, float]]
) -> Pause:
    """Return the longest time without an acknowledged write after a kill."""
    ends = [killed, *writes[bisect_right(writes, killed) : bisect_right(writes, until)], until]
    began, ended = max(pairwise(ends), key=lambda gap: gap[1] - gap[0])
    within = [end - start for start, end in searches if began < end < ended]
    longest = max((end - start for start, end in searches if start < ended and end > began), default=0.0)
    return Pause(began, ended, len(within), longest)


def test_nothing_is_lost_or_stored_twice_while_leaders_are_killed(
    cluster: Any,
    start_client: Callable[[str, float, float], subprocess.Popen[str]],
    pytestconfig: pytest.Config,
    capsys: pytest.CaptureFixture[str],
) -> None:
    n_kills, n_writes, n_searches = (
        pytestconfig.getoption(name) for name in ("--kills", "--writes", "--searches")
    )
    clients = [start_client(name, n_writes / 2, n_searches / 2) for name in CLIENTS]
    time.sleep(CALM_S)
    kills = []
    for number in range(n_kills):
        # The whole machine fails, or PostgreSQL alone.
        killed = cluster.kill_leader(only_postgres=number % 2 == 1)
        kills.append(time.time())
        cluster.wait_for_leader(since=killed)
        cluster.start()
        cluster.wait_for_leader()
        time.sleep(CALM_S)
        took_s = time.time() - kills[-1]
        with capsys.disabled():
            print(f"kill {number + 1} of {n_kills}: {killed.name}, {took_s:.0f} s", flush=True)
    ended = time.time()
    assert [client.poll() for client in clients] == [None, None]
    reports = [json.loads(client.communicate("")[0]) for client in clients]

    writes = sorted(end for report in reports for _, end in report["writes"])
    searches = [(start, end) for report in reports for start, end in report["searches"]]
    pauses = [
        pause_after(killed, until, writes, searches)
        for killed, until in zip(kills, [*kills[1:], ended], strict=True)
    ]
    acknowledged = [(user, word) for report in reports for _, user, word in report["stored"]]
    users = sorted({user for user, _ in acknowledged})
    there: Counter[tuple[str, str]] = Counter()
    with Memory(cluster.address) as memory:
        for user in users:
            n_there = memory.count_memories(user)
            for one in memory.list_memories(user, limit=n_there + 1):
                there[user, one.answer.rpartition(" ")[2]] += 1
        problems = memory.check().problems
    lost = [one for one in acknowledged if not there[one]]
    twice = [one for one, number in there.items() if number > 1]
    calm_s = ended - kills[0] - sum(pause.ended - pause.began for pause in pauses)
    n_by_tables = sum(report["n_by_tables"] for report in reports)
    with capsys.disabled():
        print(
            f"\n{n_kills} kills, {len(acknowledged)} writes acknowledged, {len(searches)} searches"
            f"\n{len(writes) / calm_s:.0f} writes a second but for the pauses,"
            f" {len(searches) / (ended - kills[0]):.0f} searches a second"
            f"\nlost: {len(lost)}, stored twice: {len(twice)}"
            f"\npauses of writes: {', '.join(f'{pause.ended - pause.began:.1f}' for pause in pauses)} s"
            f"\nsearches answered in the pauses: {sum(pause.n_searches for pause in pauses)}, the longest"
            f" {max(pause.longest_search for pause in pauses):.2f} s"
            f"\nsearches by the tables instead of the hot index: {n_by_tables}"
        )

    assert [error for report in reports for error in report["errors"]] == []
    assert [missed for report in reports for missed in report["not_found"]] == []
    assert (lost, twice, problems) == ([], [], ())
    assert set(there) == set(acknowledged)
    assert max(pause.ended - pause.began for pause in pauses) < LONGEST_PAUSE_S
    assert all(pause.n_searches for pause in pauses)
    assert max(pause.longest_search for pause in pauses) < LONGEST_SEARCH_S

"""`shepherd bench`, as a process."""

from __future__ import annotations

import json


def test_figures_are_printed_and_the_users_memory_is_not_touched(shepherd, home):
    done = shepherd("bench", "--memories", "40", "--users", "2", "--json")

    report = json.loads(done.stdout)
    assert (report["memories"], report["users"], report["questions"]) == (40, 2, 160)
    assert report["measures"]["hot"]["p50_us"] > 0
    assert report["measures"]["bulk"]["per_second"] > 0
    assert not home.database.exists()


def test_a_number_that_is_none_is_a_mistake_of_the_caller(shepherd):
    done = shepherd("bench", "--memories", "many")

    assert done.returncode == 2
    assert "--memories" in done.stderr

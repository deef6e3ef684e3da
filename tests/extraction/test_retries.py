"""Pauses before an extraction is tried again."""

from __future__ import annotations

from typing import Any

import pytest

from shepherd.extraction import EndpointExtractor, ExtractionWorker, WorkerSettings
from tests.extraction.server import learned, said
from tests.extraction.test_worker import until


@pytest.fixture
def fail(memory, server, tell):
    """Make a worker fail with these answers, given its retry intervals; return when the next try is due."""
    workers = []

    def run(answers: list[Any], intervals: list[float], then: str = "") -> float:
        server.answers = answers
        left = iter(intervals)
        worker = ExtractionWorker(
            memory,
            EndpointExtractor(server.url),
            "steve",
            settings=WorkerSettings(min_turns=1),
            retry_interval_s=lambda: next(left, intervals[-1]),
        )
        workers.append(worker)
        worker.start()
        tell(worker, "I am Steve")
        if then:
            until(lambda: worker.stats().done)
            tell(worker, then)
        until(lambda: len(server.requests) >= len(answers) and is_failed(memory))
        return memory.extraction.due_in()

    yield run
    for worker in workers:
        worker.close()


def is_failed(memory) -> bool:
    due_in = memory.extraction.due_in()
    return due_in is not None and 5 < due_in < LEASE_S - 20  # a job that runs is due at the end of its lease


LEASE_S = 300
UNAVAILABLE = (503, b"", {})


def test_a_server_that_asks_for_a_pause_gets_it(fail):
    due_in = fail([(503, b"", {"Retry-After": "200"})], [0.01])

    assert 150 < due_in <= 200


def test_a_pause_in_milliseconds_is_one_too(fail):
    due_in = fail([(503, b"", {"Retry-After-Ms": "200000"})], [0.01])

    assert 150 < due_in <= 200


def test_a_pause_that_is_shorter_than_ours_is_not_taken(fail):
    due_in = fail([(503, b"", {"Retry-After": "1"})], [100])

    assert 70 < due_in <= 125


def test_the_pause_doubles_with_the_second_failure_of_the_server(fail):
    due_in = fail([UNAVAILABLE, UNAVAILABLE], [0, 100])

    assert 145 < due_in <= 250


def test_the_pause_doubles_with_the_second_answer_that_cannot_be_used(fail):
    due_in = fail([said("I found nothing."), said("I found nothing.")], [0, 100])

    assert 145 < due_in <= 250


def test_a_success_begins_the_pauses_anew(fail):
    answers = [UNAVAILABLE, UNAVAILABLE, learned({"name": "Steve"}), UNAVAILABLE]
    due_in = fail(answers, [0, 0, 100], then="My dog is Rex")

    assert 70 < due_in <= 125

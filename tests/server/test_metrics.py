"""What a server counts of requests and answers, without a server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client import generate_latest

from shepherd.config import Config
from shepherd.memory import Memory, OpenJob
from shepherd.server.monitoring import Metrics
from shepherd.server.request_record import RequestRecord, current
from shepherd.server.state import AppState, InjectionTime, Served
from shepherd.types import Message, TurnStats

STATS = TurnStats(reused_tokens=5, decoded_tokens=6, generated_tokens=7, recall_ms=0.5)


@pytest.fixture
def record() -> Iterator[RequestRecord]:
    """The request that is being served."""
    made = RequestRecord("POST")
    token = current.set(made)
    yield made
    current.reset(token)


def figures(metrics: Metrics) -> dict[str, float]:
    """All figures but those of when something was created, and the buckets."""
    lines = generate_latest(metrics.registry).decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs if "_created" not in name and "_bucket" not in name}


def new_metrics(memory: Memory | None = None) -> Metrics:
    return Metrics(AppState(Config(), memory, True, started_at=12.5))


def test_requests_are_counted_by_route_and_status_and_while_they_run(record: RequestRecord) -> None:
    metrics = new_metrics()
    metrics.began()
    metrics.began()
    record.status, record.first_ms = 200, 250.0
    record.began -= 3.0
    metrics.ended(record, "/v1/x")

    found = figures(metrics)

    assert found["shepherd_requests_in_flight"] == 1
    assert found['shepherd_requests_total{method="POST",route="/v1/x",status="200"}'] == 1
    assert found['shepherd_first_byte_seconds_sum{route="/v1/x"}'] == 0.25
    assert 3.0 <= found['shepherd_request_seconds_sum{route="/v1/x"}'] < 30.0
    assert found["shepherd_start_time_seconds"] == 12.5
    record.first_ms = 0.0
    metrics.ended(record, "/v1/x")
    assert figures(metrics)['shepherd_first_byte_seconds_count{route="/v1/x"}'] == 1


def test_llama_cpps_names_have_the_same_sums(record: RequestRecord) -> None:
    metrics = new_metrics()
    assert figures(metrics)["llamacpp:prompt_tokens_seconds"] == 0
    for _ in range(2):
        stats = TurnStats(
            reused_tokens=5, decoded_tokens=30, generated_tokens=12, prefill_ms=250.0, decode_ms=2000.0
        )
        metrics.served(Served("/v1/x", stats))

    found = {name.removeprefix("llamacpp:"): value for name, value in figures(metrics).items()}

    assert (found["prompt_tokens_total"], found["prompt_seconds_total"]) == (60, 0.5)
    assert (found["tokens_predicted_total"], found["tokens_predicted_seconds_total"]) == (24, 4)
    assert (found["prompt_tokens_seconds"], found["predicted_tokens_seconds"]) == (120, 6)


def test_answers_are_counted_with_their_tokens_and_times(record: RequestRecord) -> None:
    metrics = new_metrics()
    spent = InjectionTime(0.75, 0.25)
    metrics.served(Served("/v1/x", STATS, injected=True, injection_time=spent))
    metrics.served(Served("/v1/x", STATS))
    metrics.served(Served("/v1/x", None, error="busy"))
    metrics.served(Served("/v1/x", TurnStats(generated_tokens=1)))

    found = figures(metrics)

    assert found['shepherd_answers_total{error="",injected="true"}'] == 1
    assert found['shepherd_answers_total{error="",injected="false"}'] == 2
    assert found['shepherd_answers_total{error="busy",injected="false"}'] == 1
    kinds = ("reused", "decoded", "generated")
    assert [found[f'shepherd_tokens_total{{kind="{kind}"}}'] for kind in kinds] == [10, 12, 15]
    assert (found["shepherd_recall_seconds_count"], found["shepherd_recall_seconds_sum"]) == (2, 0.001)
    assert (found["shepherd_injection_seconds_count"], found["shepherd_injection_seconds_sum"]) == (1, 0.75)
    assert found["shepherd_injection_cpu_seconds_sum"] == 0.25
    assert record.tokens == {"reused": 10, "decoded": 12, "generated": 15}
    assert record.injection is spent


def test_answers_outside_of_a_request_are_counted_too() -> None:
    metrics = new_metrics()

    metrics.served(Served("/session", STATS, injection_time=InjectionTime(0.5, 0.5)))

    assert figures(metrics)['shepherd_tokens_total{kind="generated"}'] == 7


def test_jobs_that_are_not_done_are_counted_by_state(tmp_path) -> None:
    def counts(metrics: Metrics) -> list[float | None]:
        found = figures(metrics)
        states = ("open", "waiting", "running", "dead")
        return [found.get(f'shepherd_extraction_jobs{{state="{state}"}}') for state in states]

    job = OpenJob("host/1/a", 3)
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        metrics = new_metrics(memory)
        memory.append_message(memory.start_session(), Message("user", "I am Ann."), job=job)
        assert counts(metrics) == [1, 0, 0, 0]
        memory.extraction.release(job.owner)
        assert counts(metrics) == [0, 1, 0, 0]
        memory.extraction.claim("worker")
        assert counts(metrics) == [0, 0, 1, 0]
    assert counts(new_metrics()) == [None] * 4

"""`/metrics` in Prometheus' format, about all users together and without names; and `/health`.

Each app has a registry of its own, so that two apps in one process are not added up.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from shepherd.errors import StoreError
from shepherd.inference import KeptCounts
from shepherd.server.description import described
from shepherd.server.request_record import RequestRecord, current
from shepherd.server.state import AppState, InjectionTime, Served, ServerState
from shepherd.types import TurnStats

__all__ = ["Metrics", "router"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_MEMORY_SECONDS = (1e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 7.5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 0.1, 1.0)

router = APIRouter()


class Metrics:
    """The metrics of one app; `served` is an observer of its answers."""

    def __init__(self, state: AppState) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self._requests = counter(
            "shepherd_requests", "Requests, by route and status", ["method", "route", "status"]
        )
        self._seconds = histogram(
            "shepherd_request_seconds", "Time until the last byte", ["route"], buckets=_SECONDS
        )
        self._first = histogram(
            "shepherd_first_byte_seconds",
            "Time until the first byte of the answer",
            ["route"],
            buckets=_SECONDS,
        )
        self._in_flight = Gauge("shepherd_requests_in_flight", "Requests under way", registry=self.registry)
        self._tokens = counter(
            "shepherd_tokens", "Tokens: reused from the cache, decoded (newly read), generated", ["kind"]
        )
        self._answers = counter(
            "shepherd_answers", "Answers of a model, by whether memory was appended", ["injected", "error"]
        )
        self._recall = histogram(
            "shepherd_recall_seconds",
            "Time that recall took of an answer with memory",
            buckets=_MEMORY_SECONDS,
        )
        self._injection = histogram(
            "shepherd_injection_seconds",
            "Time until the model had a request with memory: old tails, recall, plan, waits",
            buckets=_MEMORY_SECONDS,
        )
        self._injection_cpu = histogram(
            "shepherd_injection_cpu_seconds", "Of that, what a processor computed", buckets=_MEMORY_SECONDS
        )
        self._totals = _Totals()
        self.registry.register(_StateCollector(state, self._totals))

    def began(self) -> None:
        """Count a request that begins."""
        self._in_flight.inc()

    def ended(self, record: RequestRecord, route: str) -> None:
        """Count a request that has ended."""
        self._in_flight.dec()
        self._requests.labels(record.method, route, str(record.status)).inc()
        self._seconds.labels(route).observe(record.ms / 1000)
        if record.first_ms:
            self._first.labels(route).observe(record.first_ms / 1000)

    def served(self, event: Served) -> None:
        """Count an answer for the request that this task serves."""
        self._answers.labels(str(event.injected).lower(), event.error).inc()
        stats, record = event.stats, current.get()
        if stats is None:
            return
        self._totals.add(stats)
        tokens = {
            "reused": stats.reused_tokens,
            "decoded": stats.decoded_tokens,
            "generated": stats.generated_tokens,
        }
        for kind, n in tokens.items():
            self._tokens.labels(kind).inc(n)
            if record is not None:
                record.tokens[kind] = record.tokens.get(kind, 0) + n
        if stats.recall_ms:
            self._recall.observe(stats.recall_ms / 1000)
        if event.injection_time is not None:
            self._observe_injection(event.injection_time, record)

    def _observe_injection(self, spent: InjectionTime, record: RequestRecord | None) -> None:
        self._injection.observe(spent.wall_s)
        self._injection_cpu.observe(spent.cpu_s)
        if record is not None:
            record.injection = spent


class _Totals:
    """Sums over all answers, under the names that llama.cpp's server has for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_tokens = self._written_tokens = 0
        self._read_s = self._written_s = 0.0

    def add(self, stats: TurnStats) -> None:
        """Add an answer."""
        with self._lock:
            self._read_tokens += stats.decoded_tokens
            self._read_s += stats.prefill_ms / 1000
            self._written_tokens += stats.generated_tokens
            self._written_s += stats.decode_ms / 1000

    def collect(self) -> Iterator[Metric]:
        """Yield the sums, and the mean speeds."""
        with self._lock:
            read, read_s = self._read_tokens, self._read_s
            written, written_s = self._written_tokens, self._written_s
        for name, what, value in (
            ("prompt_tokens", "Prompt tokens that were read", float(read)),
            ("prompt_seconds", "Time that reading prompts took", read_s),
            ("tokens_predicted", "Tokens that were generated", float(written)),
            ("tokens_predicted_seconds", "Time that generating took", written_s),
        ):
            yield CounterMetricFamily(f"llamacpp:{name}", what, value=value)
        for name, what, n, seconds in (
            ("prompt_tokens_seconds", "Prompt tokens read per second, mean", read, read_s),
            ("predicted_tokens_seconds", "Tokens generated per second, mean", written, written_s),
        ):
            yield GaugeMetricFamily(f"llamacpp:{name}", what, value=n / seconds if seconds else 0.0)


class _StateCollector(Collector):
    """Figures that are read when they are asked for: sums, the extraction queue and the slots."""

    def __init__(self, state: AppState, totals: _Totals) -> None:
        self._state, self._totals = state, totals

    def collect(self) -> Iterator[Metric]:
        """Yield the present figures."""
        yield from self._totals.collect()
        yield GaugeMetricFamily(
            "shepherd_start_time_seconds",
            "When the server started, in unix seconds",
            value=self._state.started_at,
        )
        yield from self._slots()
        memory = self._state.memory
        if memory is None:
            return
        try:
            counts = memory.extraction.counts()
        except StoreError:  # the other metrics are still right
            return
        jobs = GaugeMetricFamily(
            "shepherd_extraction_jobs",
            "Jobs of the whole database that are not done, by state",
            labels=["state"],
        )
        for state in ("open", "waiting", "running", "dead"):
            jobs.add_metric([state], counts.get(state, 0))
        yield jobs

    def _slots(self) -> Iterator[GaugeMetricFamily]:
        if not isinstance(self._state, ServerState):
            return
        n_running = n_waiting = n_slots = 0
        for served in self._state.pool.loaded:
            engine = served.engine
            n_lent = served.conversations.models.n_lent if served.conversations is not None else 0
            slots = engine.settings.slots if engine is not None else n_lent
            n_running, n_waiting = n_running + min(n_lent, slots), n_waiting + max(n_lent - slots, 0)
            n_slots += slots if engine is not None else 0
        answers = GaugeMetricFamily(
            "shepherd_answers_under_way",
            "Answers in a slot of the engine, and waiting for one",
            labels=["state"],
        )
        answers.add_metric(["running"], n_running)
        answers.add_metric(["waiting"], n_waiting)
        yield answers
        for name, what, n in (
            ("requests_processing", "Answers under way", n_running),
            ("requests_deferred", "Answers that wait for a slot", n_waiting),
        ):
            yield GaugeMetricFamily(f"llamacpp:{name}", what, value=n)
        if n_slots:
            yield GaugeMetricFamily("shepherd_slots", "Answers that the engines make at once", value=n_slots)
        engine = self._state.pool.default.engine
        if engine is not None:
            yield from _on_disk(engine.kept())

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Return nothing: registering must not query the database."""
        return iter(())


def _on_disk(kept: KeptCounts | None) -> Iterator[GaugeMetricFamily]:
    if kept is None:
        return
    conversations = GaugeMetricFamily(
        "shepherd_kept_conversations",
        "Conversations on disk, and what this server did there",
        labels=["state"],
    )
    for state in ("n", "n_written", "n_read", "n_failed", "n_lost"):
        name = "present" if state == "n" else state.removeprefix("n_")
        conversations.add_metric([name], getattr(kept, state))
    yield conversations
    yield GaugeMetricFamily(
        "shepherd_kept_bytes", "Bytes of the conversations on disk", value=kept.size_bytes
    )


@router.get("/metrics")
@described(media_type="text/plain")
def metrics(request: Request) -> Response:
    """Return metrics about all users, without names, in Prometheus' format."""
    # On a worker thread, since the queue is in the database.
    counted: Metrics = request.app.state.metrics
    return Response(generate_latest(counted.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/health")
@described("Health", also={503: "Health"})
def health(request: Request) -> JSONResponse:
    """Return 200 if requests can be answered and remembered, 503 if the database cannot be read."""
    state: AppState = request.app.state.shepherd
    memory = "off"
    if state.memory is not None:
        memory = "ok" if state.is_writable else "read-only"
    if state.keys is not None:  # needed for every request, also without memory
        try:
            state.keys.are_any()
        except StoreError:
            memory = "failed"
    is_well = memory != "failed"
    return JSONResponse({"status": "ok" if is_well else "failed", "memory": memory}, 200 if is_well else 503)

"""The worker with a real server and a real database: when it runs, what it keeps, how it fails and ends."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from shepherd.errors import StoreLockedError
from shepherd.extraction.worker import LONGEST_PAUSE_S, is_gone, new_owner
from shepherd.memory import Memory, Turn, forgetting
from shepherd.types import Message
from tests import programs
from tests.extraction.server import learned, running, said


def until(condition: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


def test_what_was_said_becomes_facts_and_memories(new_worker, memory, server, tell):
    server.answers = [learned({"name": "Steve"}, ("What editor does the user prefer?", "Helix"))]
    worker = new_worker(min_turns=2)
    worker.start()

    tell(worker, "I am Steve", "I like Helix")

    until(lambda: worker.stats().done)
    assert [request.lines for request in server.requests] == ["User: I am Steve\nUser: I like Helix"]
    assert memory.get_fact("name") == "Steve"
    [record] = memory.list_memories()
    assert (record.question, record.answer) == ("What editor does the user prefer?", "Helix")


def test_answers_of_the_assistant_never_get_in(new_worker, server, tell):
    worker = new_worker(min_turns=1)
    worker.start()

    tell(worker, "hello")

    until(lambda: worker.stats().done)
    assert server.requests[0].lines == "User: hello"


def test_too_few_turns_wait(new_worker, server, tell):
    worker = new_worker(min_turns=3, idle_timeout_s=0)
    worker.start()

    session = tell(worker, "one", "two")
    assert (worker.stats().open, server.requests) == (1, [])
    tell(worker, "three", session=session)

    until(lambda: worker.stats().done)
    # What is counted begins anew.
    tell(worker, "four", "five", session=session)
    assert worker.stats().open == 1
    tell(worker, "six", session=session)
    until(lambda: worker.stats().done == 2)


def test_worker_of_all_users_releases_the_session_that_it_is_told_of(new_worker, memory, server):
    worker = new_worker(user_id=None, min_turns=2, idle_timeout_s=0)
    worker.start()
    sessions = {}
    for user in ("anna", "bob"):
        sessions[user] = memory.start_session(user)
        memory.append_message(
            sessions[user], Message("user", f"{user} likes tea."), user_id=user, job=worker.open_job
        )

    worker.told(sessions["bob"], "bob")
    worker.told(sessions["anna"], "anna")

    until(lambda: memory.extraction.stats("anna").done == 1, seconds=30)
    [request] = server.requests
    assert "anna likes tea" in str(request)


def test_a_pause_makes_them_due(new_worker, server, tell):
    worker = new_worker(min_turns=100, idle_timeout_s=0.05)
    worker.start()

    tell(worker, "one")

    until(lambda: worker.stats().done)


def test_the_end_flushes_what_is_open(new_worker, memory, server, tell):
    server.answers = [learned({"name": "Steve"})]
    worker = new_worker(min_turns=100, idle_timeout_s=0)
    worker.start()
    tell(worker, "I am Steve")

    assert worker.flush(30)

    assert memory.get_fact("name") == "Steve"
    assert worker.flush(30)


def test_a_long_conversation_comes_in_parts_and_none_is_skipped(new_worker, server, tell):
    worker = new_worker(min_turns=100, max_turns=4)
    worker.start()
    tell(worker, *map(str, range(10)))
    worker.flush(30)

    lines = [line for request in server.requests for line in request.lines.split("\n")]
    assert [len(request.lines.split("\n")) for request in server.requests] == [4, 4, 2]
    assert lines == [f"User: {n}" for n in range(10)]


def test_the_queue_has_a_limit_when_one_is_set(new_worker, server, tell):
    server.answers = [server.hang]
    worker = new_worker(min_turns=1, queue_limit=2)

    for n in range(5):
        tell(worker, str(n))

    assert worker.overflowed == 3
    assert worker.stats().waiting == 2


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_what_may_pass_is_tried_until_it_does(new_worker, memory, server, tell, status):
    server.answers = [*[(status, b"", {})] * 6, learned({"name": "Steve"})]
    worker = new_worker(min_turns=1)
    worker.start()
    tell(worker, "I am Steve")

    until(lambda: worker.stats().done)
    assert len(server.requests) == 7
    assert memory.get_fact("name") == "Steve"


@pytest.mark.parametrize(
    "answer", [*((status, b"", {}) for status in (401, 403, 404, 413)), said("I found nothing."), b"<html>"]
)
def test_what_will_not_pass_is_given_up_after_three_tries_and_blocks_nobody(
    new_worker, memory, server, tell, answer
):
    server.answers = [answer]
    worker = new_worker(min_turns=1)
    worker.start()
    tell(worker, "I am Steve")
    until(lambda: worker.stats().dead)
    assert len(server.requests) == 3

    server.answers = [learned({"dog": "Rex"})]
    tell(worker, "My dog is Rex")

    until(lambda: worker.stats().done)
    [dead] = memory.extraction.jobs()
    assert dead.state == "dead"
    assert dead.error
    assert "Steve" not in dead.error
    memory.extraction.retry()
    worker.flush(30)
    assert worker.stats().dead == 0


@pytest.mark.parametrize("said", ["99999999999", "1e300"])
def test_a_server_that_asks_for_a_pause_of_years_gets_the_longest_of_ours(
    new_worker, memory, server, tell, said
):
    server.answers = [(503, b"", {"Retry-After": said})]
    worker = new_worker(min_turns=1)
    worker.start()

    tell(worker, "I am Steve")

    until(lambda: [job for job in memory.extraction.jobs() if job.error])
    until(lambda: worker.flush(1))  # it waits, and is not dead
    assert worker._thread.is_alive()
    assert 0 < memory.extraction.due_in() <= 1.25 * LONGEST_PAUSE_S


class Parts:
    """An extractor that was asked in parts, whose answers are these."""

    facts_only = False

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)

    def answers(self, lines, cancellation) -> list[str]:
        return self._answers

    def close(self) -> None:
        pass


def test_one_part_that_cannot_be_read_does_not_cost_the_others(new_worker, memory, tell):
    good, other = '{"facts": {"name": "Steve"}, "context": []}', '{"facts": {"city": "Rome"}, "context": []}'
    worker = new_worker(extractor=Parts(good, '{"facts": {"a": "cut off', other), min_turns=1)
    worker.start()

    tell(worker, "I am Steve. I live in Rome.")
    until(lambda: worker.stats().done)

    assert {fact.key: fact.value for fact in memory.get_all_facts()} == {"name": "Steve", "location": "Rome"}
    assert worker.stats().dropped == 1


class Failing(Parts):
    """Fails with each of these errors, then answers."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__('{"facts": {"name": "Steve"}, "context": []}')
        self.errors = list(errors)

    def answers(self, lines, cancellation) -> list[str]:
        if self.errors:
            raise self.errors.pop(0)
        return super().answers(lines, cancellation)


def test_a_database_that_fails_in_mid_work_costs_a_pause_and_no_try(new_worker, memory, tell):
    failing = Failing(*[StoreLockedError("it is locked", hint="wait")] * 4)
    worker = new_worker(extractor=failing, min_turns=1)
    worker.start()

    tell(worker, "I am Steve")

    until(lambda: worker.stats().done)
    assert memory.get_fact("name") == "Steve"
    assert failing.errors == []


def test_a_bug_is_given_up_after_three_tries_without_a_word_of_the_user(new_worker, memory, tell):
    worker = new_worker(extractor=Failing(*[RuntimeError("I am Steve")] * 3), min_turns=1)
    worker.start()

    tell(worker, "I am Steve")

    until(lambda: worker.stats().dead)
    assert [job.error for job in memory.extraction.jobs()] == ["RuntimeError"]
    tell(worker, "I am Steve")
    until(lambda: worker.stats().done)
    assert memory.get_fact("name") == "Steve"


def test_where_no_part_can_be_read_the_job_is_given_up(new_worker, memory, tell):
    worker = new_worker(extractor=Parts("{", "nothing"), min_turns=1)
    worker.start()

    tell(worker, "I am Steve")

    until(lambda: worker.stats().dead)
    assert memory.get_all_facts() == []


def test_the_retry_interval_is_read_at_each_retry(memory, server, tell):
    from shepherd.extraction import EndpointExtractor, ExtractionWorker, WorkerSettings

    server.answers = [(503, b"", {})]
    asked = []

    def interval() -> float:
        asked.append(len(server.requests))
        return 0.01

    worker = ExtractionWorker(
        memory,
        EndpointExtractor(server.url),
        "steve",
        settings=WorkerSettings(min_turns=1),
        retry_interval_s=interval,
    )
    worker.start()
    tell(worker, "x")
    until(lambda: len(server.requests) >= 4)
    worker.close()

    assert asked[:3] == [1, 2, 3]


def test_pauses_double_up_to_five_minutes(new_worker):
    worker = new_worker(retry_s=5)

    pauses = [[worker._pause_s(n) for _ in range(200)] for n in (1, 2, 3, 50)]

    for n, longest in enumerate([5, 10, 20, 300]):
        assert 0.75 * longest <= min(pauses[n]) < max(pauses[n]) <= 1.25 * longest


def test_secrets_are_not_stored_unless_allowed(new_worker, memory, server, tell):
    server.answers = [
        learned({"name": "Steve", "wifi_password": "hunter2"}, ("What is the user's PIN?", "1234")),
    ]
    worker = new_worker(min_turns=1)
    worker.start()
    tell(worker, "I am Steve, my wifi password is hunter2 and my PIN is 1234")
    worker.flush(30)

    assert [fact.key for fact in memory.get_all_facts()] == ["name"]
    assert memory.count_memories() == 0
    assert worker.stats().dropped == 2

    worker.close()
    allowed = new_worker(min_turns=1, secrets=True)
    allowed.start()
    tell(allowed, "I am Steve, my wifi password is hunter2 and my PIN is 1234")
    allowed.flush(30)
    assert memory.get_fact("wifi_password") == "hunter2"


def test_near_duplicates_are_not_stored_twice(new_worker, memory, server, tell):
    memory.store_memory("What editor does the user prefer?", "Helix")
    server.answers = [
        learned(
            {},
            ("Which editor does the user prefer?", "helix!"),
            ("What shell does the user prefer?", "fish"),
            ("Which shell does the user prefer?", "Fish."),
            ("What editor does the user prefer?", "Kakoune"),
        )
    ]
    worker = new_worker(min_turns=1)
    worker.start()
    tell(worker, "x")
    worker.flush(30)

    assert sorted(record.answer for record in memory.list_memories()) == ["Helix", "Kakoune", "fish"]


def test_memories_of_a_session_know_it(new_worker, memory, server, tell):
    server.answers = [learned({}, ("What shell does the user prefer?", "fish"))]
    worker = new_worker(min_turns=1)
    worker.start()
    session = tell(worker, "I like fish")
    worker.flush(30)

    assert memory.recall("which shell do I prefer?").results
    assert not memory.recall("which shell do I prefer?", except_session=session).results


def test_a_turn_that_is_taken_back_in_mid_request_leaves_nothing(new_worker, memory, server, tell):
    go = threading.Event()

    def late(handler) -> None:
        go.wait(30)
        body = learned({"name": "Bob"})
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    server.answers = [late]
    worker = new_worker(min_turns=1)
    worker.start()
    session = tell(worker, "I am Bob")
    assert server.arrived.wait(30)

    memory.delete_last_turn(session)
    go.set()
    worker.flush(30)

    assert memory.get_all_facts() == []
    assert memory.extraction.jobs() == []


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_closing_in_mid_request_keeps_the_job(new_worker, memory, server, tell, fault):
    server.answers = [getattr(server, fault)]
    worker = new_worker(min_turns=1)
    worker.start()
    tell(worker, "I am Steve")
    assert server.arrived.wait(30)

    worker.close()

    assert not worker._thread.is_alive()
    assert [(job.state, job.lines) for job in memory.extraction.jobs()] == [("waiting", ("I am Steve",))]


def test_closing_is_possible_at_any_time_and_twice(new_worker):
    never_started = new_worker()
    never_started.close()
    worker = new_worker()
    worker.start()
    worker.close()
    worker.close()

    assert not worker._thread.is_alive()


def test_the_next_worker_goes_on_with_what_was_left(new_worker, memory, server, tell):
    first = new_worker(min_turns=100)
    tell(first, "I am Steve")
    first.close()
    server.answers = [learned({"name": "Steve"})]

    second = new_worker()
    second.start()

    until(lambda: second.stats().done)
    assert memory.get_fact("name") == "Steve"


def test_what_a_living_worker_collects_is_left_to_it(new_worker, memory, tell):
    first = new_worker(min_turns=100)
    tell(first, "I am Steve")

    second = new_worker()
    second.start()
    assert second.flush(30)

    assert [job.state for job in memory.extraction.jobs()] == ["open"]


def test_owners_are_known_to_be_gone_when_their_process_is():
    own = new_owner()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    machine = own.split("/")[0]

    assert not is_gone(own, {own})
    assert is_gone(own, set())
    assert is_gone(f"{machine}/{ended.pid}/x", set())
    assert not is_gone(f"{machine}/1/x", set())
    assert not is_gone(f"another-machine/{ended.pid}/x", set())
    assert not is_gone("nonsense", set())


def test_a_locked_database_costs_a_pause_and_nothing_else(new_worker, memory, server, tell, tmp_path):
    server.answers = [learned({"name": "Steve"})]
    with Memory(tmp_path / "memory.db", user_id="steve", busy_timeout_s=0.05) as impatient:
        from shepherd.extraction import EndpointExtractor, ExtractionWorker, WorkerSettings

        worker = ExtractionWorker(
            impatient,
            EndpointExtractor(server.url),
            "steve",
            settings=WorkerSettings(min_turns=1),
            retry_interval_s=lambda: 0.05,
        )
        tell(worker, "I am Steve")
        hold = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        hold += "c.execute('BEGIN IMMEDIATE'); print('locked', flush=True); sys.stdin.read()"
        command = [sys.executable, "-c", hold, str(tmp_path / "memory.db")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            other.stdout.readline()
            worker.start()
            time.sleep(0.3)
            other.communicate()

        until(lambda: worker.stats().done)
        worker.close()
    assert memory.get_fact("name") == "Steve"


CRASHING = """
import sys
import time
from shepherd.extraction import EndpointExtractor, ExtractionWorker, WorkerSettings
from shepherd.memory import Memory, Turn

from shepherd.types import Message

memory = Memory(sys.argv[1], user_id="steve")
worker = ExtractionWorker(memory, EndpointExtractor(sys.argv[2]), "steve",
                          settings=WorkerSettings(min_turns=2, max_turns=3), retry_interval_s=lambda: 0.01)
worker.start()
session = memory.start_session()
for n in range(int(sys.argv[3]), 10_000):
    memory.append_message(session, Message("user", f"line {n}"), job=worker.open_job)
    print(n, flush=True)
    worker.told(session)
    time.sleep(0.004)  # nobody types faster than the worker works
"""


def test_kill_9_at_any_moment_loses_no_line_and_stores_nothing_twice(tmp_path):
    """Every line that was acknowledged is extracted; each becomes one memory, once."""

    def answer(handler) -> None:
        lines = [line.removeprefix("User: ") for line in handler.asked.lines.split("\n")]
        body = learned({}, *[(f"What is number {line.split()[1]}?", line) for line in lines])
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    path, chance = tmp_path / "m.db", random.Random(5)
    environment = programs.in_utf8()
    said_lines = 0
    with running(answers=[answer]) as server:
        for _ in range(8):
            command = [sys.executable, "-c", CRASHING, str(path), server.url, str(said_lines)]
            with programs.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
                for _ in range(chance.randint(1, 12)):
                    said_lines = int(process.stdout.readline()) + 1
                time.sleep(chance.random() * 0.03)
                process.send_signal(signal.SIGKILL)
                rest = process.stdout.read().split()
                said_lines = int(rest[-1]) + 1 if rest else said_lines
        with Memory(path, user_id="steve") as memory:
            from shepherd.extraction import EndpointExtractor, ExtractionWorker

            worker = ExtractionWorker(memory, EndpointExtractor(server.url), "steve")
            worker.start()
            until(lambda: not memory.extraction.jobs())
            worker.close()
            answers = [record.answer for record in memory.list_memories(limit=20_000)]
            texts = [m.raw for s in memory.list_sessions(limit=99) for m in memory.load_session(s.id)]

    # A line that was stored but not yet acknowledged when the process died may be there as well, as a message
    # and as a memory; the next process says it again, which is the same memory.
    assert sorted(set(texts)) == sorted(set(answers))
    assert len(answers) == len(set(answers))
    assert {f"line {n}" for n in range(said_lines)} <= set(answers)


def archive(memory: Memory, *texts: str) -> None:
    for text in texts:
        memory.archive_turn(Turn(text, "Noted.", session=memory.start_session()))


def test_archived_turn_that_only_echoes_a_learned_fact_goes(new_worker, memory, server, tell):
    server.answers = [learned({"location": "Austin"}, ("Where do I live?", "Austin"))]
    archive(memory, "I live in Austin.", "I live in Austin with my sister Ann.", "Austin is hot.")
    worker = new_worker(min_turns=1)
    worker.start()

    tell(worker, "I live in Austin.")

    assert worker.flush(30)
    assert memory.get_fact("location") == "Austin"
    left = [memory.question for memory in memory.list_memories()]
    assert sorted(left) == ["Austin is hot.", "I live in Austin with my sister Ann."]
    # Nobody asked to forget, so kept conversations stay.
    assert memory.transactions.read(forgetting.count) == 0


def test_turn_stays_while_its_fact_was_not_learned(new_worker, memory, server, tell):
    server.answers = [learned({"location": "Austin"})]
    memory.set_fact("location", "Berlin")
    archive(memory, "I live in Austin.")
    worker = new_worker(min_turns=1)
    worker.start()

    tell(worker, "I live in Austin.")

    assert worker.flush(30)
    assert memory.get_fact("location") == "Berlin"
    assert [memory.question for memory in memory.list_memories()] == ["I live in Austin."]

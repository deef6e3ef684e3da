"""What is said becomes a fact of the next process; and `shepherd memory jobs`. Nothing is faked."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from shepherd.inference.models import ModelRegistry
from shepherd.memory import Memory, OpenJob
from shepherd.types import Message
from tests import programs
from tests.extraction.server import learned, running

ON = {"SHEPHERD_MEMORY_EXTRACTION": "true"}


@pytest.fixture(autouse=True)
def _one_thread(home) -> None:
    # Threads that wait for each other by spinning take minutes where other programs use the cores.
    home.environment["SHEPHERD_THREADS"] = "1"


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.1)


@pytest.fixture
def lines(home):
    """A `shepherd --json` process: `ask` gives the answer, `end` its exit code."""
    started = []

    class Lines:
        def __init__(self, *arguments, **variables: str) -> None:
            self.process = programs.Popen(
                [sys.executable, "-m", "shepherd", "--json", *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**home.environment, **variables},
                encoding="utf-8",
            )
            started.append(self.process)
            self.about = self.event()
            assert self.about["event"] == "ready"

        def event(self) -> dict:
            return json.loads(self.process.stdout.readline())

        def ask(self, prompt: str, **request) -> str:
            self.process.stdin.write(json.dumps({"prompt": prompt, **request}) + "\n")
            self.process.stdin.flush()
            while (event := self.event())["event"] != "finished":
                assert event["event"] != "error", event
            return event["answer"]

        def end(self) -> int:
            self.process.communicate(timeout=60)
            return self.process.returncode

    yield Lines
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def facts(shepherd) -> Callable[[], dict[str, str]]:
    return lambda: json.loads(shepherd("facts", "list", "--json").stdout)


# ---- with the model that comes with the package, as a user has it after the installation


def test_the_package_has_its_model():
    assert ModelRegistry().find("shepherd-mini") is not None


def test_what_was_told_is_a_fact_of_the_next_process_which_answers_from_it(lines, facts, shepherd):
    chat = lines("--temperature", "0")
    chat.ask("My name is Steve.")
    chat.ask("hello")  # the second message makes the job due
    until(lambda: facts().get("name"))
    assert chat.end() == 0

    done = shepherd("-e", "What is my name?", "--temperature", "0", "--show-context")

    assert facts()["name"] == "Steve"
    assert "name=Steve" in done.stderr
    assert "Steve" in done.stdout
    history = json.loads(shepherd("facts", "history", "name", "--json").stdout)
    assert [change["source"] for change in history] == ["extraction"]


def test_small_talk_and_questions_leave_nothing(lines, facts, shepherd):
    chat = lines("--temperature", "0")
    chat.ask("Hello!")
    chat.ask("What is my name?")
    until(lambda: shepherd("memory", "jobs", "--json").stdout == "[]\n")

    assert chat.end() == 0
    assert facts() == {}


def test_one_message_is_learned_from_at_the_end_or_by_the_next_process(lines, facts, shepherd):
    shepherd("-e", "My favorite color is teal.", "--temperature", "0")
    if not facts():  # a machine too busy for the last moment
        lines("--temperature", "0")
        until(facts)

    assert facts() == {"favorite_color": "teal"}


def test_a_private_message_is_not_learned_from(lines, facts, shepherd):
    chat = lines("--temperature", "0")
    chat.ask("My name is Steve.", memory=False)
    chat.ask("hello", memory=False)
    assert chat.end() == 0

    assert facts() == {}
    assert shepherd("memory", "jobs", "--json").stdout == "[]\n"


# ---- with any model


def test_other_models_learn_by_default_and_can_be_told_not_to(lines, home, model):
    on, off = lines("-m", model), lines("-m", model, SHEPHERD_MEMORY_EXTRACTION="false")

    told = {"is_on": True, "model": model.stem, "where": "chat", "reason": "", "remedy": ""}
    assert on.about["learning"] == told
    assert off.about["learning"]["is_on"] is False
    assert off.about["learning"]["reason"] == "memory_extraction is false"


@pytest.mark.parametrize("user", ["unknown"])
def test_nobody_in_particular_is_learned_from(shepherd, model, user):
    shepherd("-m", model, "-e", "My name is Steve", "--user", user, **ON)

    assert shepherd("memory", "jobs", "--json", "--user", user).stdout == "[]\n"


def test_an_endpoint_learns_for_a_model_that_cannot(lines, facts, model):
    with running(answers=[learned({"name": "Steve"})]) as server:
        chat = lines("-m", model, SHEPHERD_MEMORY_EXTRACTION_ENDPOINT=server.url, **ON)
        chat.ask("My name is Steve")
        chat.ask("hello")
        until(facts)
        chat.end()

    assert facts() == {"name": "Steve"}
    assert server.requests[0].lines == "User: My name is Steve\nUser: hello"


def test_a_server_that_is_down_keeps_nobody_and_loses_nothing(shepherd, lines, model):
    with running() as server:
        url = server.url
    chat = lines("-m", model, SHEPHERD_MEMORY_EXTRACTION_ENDPOINT=url, **ON)
    chat.ask("My name is Steve")
    chat.ask("hello")

    def jobs() -> list[dict]:
        return json.loads(shepherd("memory", "jobs", "--json").stdout)

    until(lambda: jobs()[0]["error"].endswith("ConnectError"))
    assert chat.ask("and now?")
    assert chat.end() == 0
    assert [job["state"] for job in jobs()] == ["waiting", "waiting"]


def test_a_silent_server_does_not_hold_up_the_end(shepherd, lines, model):
    with running() as server:
        server.answers = [server.hang]
        chat = lines("-m", model, SHEPHERD_MEMORY_EXTRACTION_ENDPOINT=server.url, **ON)
        chat.ask("My name is Steve")
        chat.ask("hello")
        assert server.arrived.wait(60)

        assert chat.end() == 0
        assert not server.ended.is_set()

    assert json.loads(shepherd("memory", "jobs", "--json").stdout)[0]["state"] == "waiting"


def test_with_a_wrong_endpoint_nothing_is_learned_and_the_rest_works(shepherd, model):
    done = shepherd("-m", model, "-e", "hello", SHEPHERD_MEMORY_EXTRACTION_ENDPOINT="nonsense", **ON)

    assert (done.returncode, bool(done.stdout)) == (0, True)
    assert "warning: nothing is learned: memory_extraction_endpoint is not an HTTP address" in done.stderr


# ---- shepherd memory jobs


@pytest.fixture
def dead_jobs(home) -> list[int]:
    """Two jobs of steve that were given up, and one that waits."""
    home.database.parent.mkdir(parents=True)
    with Memory(home.database, user_id="steve") as memory:
        for text in ("one", "two", "three"):
            memory.append_message(memory.start_session(), Message("user", text), job=OpenJob("x", 1))
        for _ in range(2):
            job = memory.extraction.claim("x")
            memory.extraction.fail(job, "the server answers 401", refused=True, most_refusals=1, retry_in_s=0)
        return [job.id for job in memory.extraction.jobs()]


def test_jobs_are_listed_with_their_last_failure_and_without_what_was_said(shepherd, dead_jobs):
    done = shepherd("memory", "jobs")
    as_json = json.loads(shepherd("memory", "jobs", "--json").stdout)

    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [(row[0], row[1]) for row in rows] == [
        (str(dead_jobs[0]), "dead"),
        (str(dead_jobs[1]), "dead"),
        (str(dead_jobs[2]), "waiting"),
    ]
    assert rows[0][-1] == "the server answers 401"
    assert "--retry" in done.stderr
    assert [job["state"] for job in as_json] == ["dead", "dead", "waiting"]
    assert "three" not in str(as_json) + done.stdout


def test_dead_jobs_are_retried_and_dropped(shepherd, dead_jobs):
    first, second, waiting = dead_jobs

    assert shepherd("memory", "jobs", "--retry", str(second)).stderr == "1 job tried again\n"
    assert shepherd("memory", "jobs", "--drop", "--json").stdout == '{"jobs": 1}\n'

    left = json.loads(shepherd("memory", "jobs", "--json").stdout)
    assert [(job["id"], job["state"]) for job in left] == [(second, "waiting"), (waiting, "waiting")]
    assert first not in [job["id"] for job in left]


def test_a_job_that_is_not_there_is_a_failure(shepherd, dead_jobs):
    done = shepherd("memory", "jobs", "--drop", "99")

    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no such job" in done.stderr
    assert shepherd("memory", "jobs", "--drop", "--retry").returncode == 2


def test_no_jobs_are_said_to_be_none(shepherd):
    done = shepherd("memory", "jobs")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "nothing is waiting\n")


def test_the_key_of_the_endpoint_is_never_printed(shepherd):
    said = shepherd("config", "set", "memory_extraction_api_key", "key-0815")
    shown = shepherd("config", "show")
    as_json = shepherd("config", "show", "--json")
    got = shepherd("config", "get", "memory_extraction_api_key")

    assert "key-0815" not in "".join(
        part for done in (said, shown, as_json, got) for part in (done.stdout, done.stderr)
    )
    assert got.stdout == "(set)\n"


def test_nothing_to_try_again_is_no_failure(shepherd):
    done = shepherd("memory", "jobs", "--retry")

    assert (done.returncode, done.stderr) == (0, "0 jobs tried again\n")

"""The extraction queue: no line is lost, nothing is stored twice, whoever crashes when."""

from __future__ import annotations

import sys
from collections.abc import Collection

import pytest

from shepherd.errors import UsageError
from shepherd.memory import Claim, ExtractionStats, Memory, NewMemory, OpenJob
from shepherd.memory.extraction_queue import LEASE_S
from shepherd.types import Injection, Message
from tests import programs

OWNER = OpenJob("host/1/a", 3)


@pytest.fixture
def clock() -> list[float]:
    return [1_000_000.0]


@pytest.fixture
def memory(database, clock):
    with Memory(database, user_id="steve", clock=lambda: clock[0]) as memory:
        yield memory


def say(memory: Memory, *texts: str, session: str = "", job: OpenJob = OWNER, user: str = "steve") -> str:
    session = session or memory.start_session(user)
    for text in texts:
        memory.append_message(session, Message("user", text), user, job=job)
    return session


def due(memory: Memory, *texts: str):
    """A claimed job with these lines."""
    say(memory, *texts)
    assert memory.extraction.release(OWNER.owner) == 0  # without a limit, none is dropped
    job = memory.extraction.claim("worker")
    assert job is not None
    return job


def stated(facts: dict[str, str], changed: Collection[str] = ()) -> list[Claim]:
    """The facts as a job's lines state them, without saying which line it was."""
    return [Claim(key, value, changes=key in changed) for key, value in facts.items()]


def test_lines_collect_in_one_job_until_it_is_released(memory):
    session = say(memory, "one", "two")

    [job] = memory.extraction.jobs()
    assert (job.state, job.lines, job.session_id, job.user_id) == ("open", ("one", "two"), session, "steve")
    assert memory.extraction.claim("worker") is None

    memory.extraction.release(OWNER.owner)
    claimed = memory.extraction.claim("worker")
    assert claimed.lines == ("one", "two")
    assert claimed.message_ids == job.message_ids
    assert memory.extraction.claim("worker") is None


def test_a_full_job_is_due_and_the_rest_goes_to_the_next(memory):
    say(memory, *"12345")

    states = [(job.state, job.lines) for job in memory.extraction.jobs()]
    assert states == [("waiting", ("1", "2", "3")), ("open", ("4", "5"))]


def test_sessions_and_owners_have_jobs_of_their_own(memory):
    first = say(memory, "first")
    say(memory, "second")
    say(memory, "third", job=OpenJob("host/2/b", 3))

    assert [job.lines for job in memory.extraction.jobs()] == [("first",), ("second",), ("third",)]
    memory.extraction.release(OWNER.owner, session=first)
    assert [job.state for job in memory.extraction.jobs()] == ["waiting", "open", "open"]
    memory.extraction.release(OWNER.owner)
    assert [job.state for job in memory.extraction.jobs()] == ["waiting", "waiting", "open"]


def test_what_is_not_to_be_extracted_is_not_queued(memory):
    session = memory.start_session()
    memory.append_message(session, Message("user", "private"))
    memory.append_message(session, Message("assistant", "answer"))

    assert memory.extraction.jobs() == []


@pytest.mark.parametrize("user", ["unknown", "", " "])
def test_nobody_in_particular_queues_nothing(memory, user):
    memory.append_message(memory.start_session(user), Message("user", "I am Steve"), user, job=OWNER)

    assert memory.extraction.jobs(user) == []
    assert memory.extraction.stats(user) == ExtractionStats()
    assert memory.extraction.claim("worker", user) is None


def test_users_do_not_see_each_others_jobs(memory):
    say(memory, "mine")
    say(memory, "hers", user="mary")
    memory.extraction.release(OWNER.owner, "mary")

    assert [job.lines for job in memory.extraction.jobs("mary")] == [("hers",)]
    assert memory.extraction.claim("worker") is None
    assert memory.extraction.claim("worker", "mary").lines == ("hers",)
    assert memory.extraction.drop(memory.extraction.jobs("mary")[0].id) == 0


def test_a_worker_of_all_users_has_the_jobs_of_all(memory, clock):
    everyone, other = memory.extraction.of_everyone(), OpenJob("host/2/b", 3)
    assert (everyone.claim("server"), everyone.due_in(), everyone.owners()) == (None, None, [])
    for user, job in (("steve", OWNER), ("anna", OWNER), ("bob", other)):
        say(memory, f"{user} is here", user=user, job=job)

    assert (everyone.owners(), memory.extraction.owners()) == ([OWNER.owner, other.owner], [OWNER.owner])
    assert everyone.owners("bob") == [other.owner]
    everyone.release(OWNER.owner)
    assert everyone.due_in() == 0.0
    assert memory.extraction.due_in("bob") == everyone.due_in("bob") == 86_400
    found = [everyone.claim("server"), everyone.claim("server")]
    assert {(job.user_id, job.lines) for job in found} == {
        ("steve", ("steve is here",)),
        ("anna", ("anna is here",)),
    }
    assert everyone.claim("server") is None
    assert (everyone.give_back(other.owner, "anna"), everyone.give_back(other.owner)) == (0, 1)
    assert everyone.claim("server", "anna") is None
    clock[0] += 100
    # Of all users, though the default user's jobs are running.
    assert (everyone.due_in(), everyone.due_in("bob"), memory.extraction.due_in()) == (0.0, 0.0, 200.0)
    assert everyone.claim("server", "bob").lines == ("bob is here",)
    assert everyone.due_in() == 200.0


def test_a_finished_job_has_stored_what_it_gave_and_keeps_no_text(memory):
    job = due(memory, "I am Steve and use Helix")

    stored = memory.extraction.finish(
        job,
        stated({"name": "Steve"}),
        [NewMemory("Which editor?", "Helix", job.told_at, "extraction")],
        dropped=2,
    )

    assert stored == (1, 1)
    assert memory.get_fact("name") == "Steve"
    assert [record.source for record in memory.list_memories()] == ["extraction"]
    assert memory.fact_history("name")[0].source == "extraction"
    assert memory.extraction.jobs() == []
    assert memory.extraction.stats() == ExtractionStats(done=1, facts=1, memories=1, dropped=2)


def test_a_job_is_finished_once(memory):
    job = due(memory, "I am Steve")
    memory.extraction.finish(job, stated({"name": "Steve"}), [])
    memory.clear_fact("name")

    assert memory.extraction.finish(job, stated({"name": "Steve"}), []) is None
    assert memory.get_fact("name") is None


def test_a_job_that_another_worker_took_over_is_not_finished_by_the_first(memory, clock):
    job = due(memory, "I am Steve")
    clock[0] += 301
    second = memory.extraction.claim("other")

    assert second.lines == job.lines
    assert memory.extraction.finish(job, stated({"name": "First"}), []) is None
    assert memory.extraction.finish(second, stated({"name": "Second"}), []) == (1, 0)
    assert memory.get_fact("name") == "Second"


def test_a_job_that_takes_long_has_more_time_with_each_attempt_and_ends_once(memory, clock):
    takes_s = 1000
    first = due(memory, "I am Steve")
    clock[0] += 301
    second = memory.extraction.claim("other")
    clock[0] += takes_s - 301
    assert memory.extraction.finish(first, stated({"name": "First"}), []) is None

    third = memory.extraction.claim("worker")
    clock[0] += takes_s

    assert memory.extraction.claim("other") is None
    assert memory.extraction.finish(second, stated({"name": "Second"}), []) is None
    assert memory.extraction.finish(third, stated({"name": "Third"}), []) == (1, 0)


def test_the_lease_of_a_job_that_failed_often_still_ends(memory, clock):
    job = due(memory, "I am Steve")
    for _ in range(50):
        memory.extraction.fail(job, "away", refused=False, most_refusals=3, retry_in_s=0)
        job = memory.extraction.claim("worker")

    assert 3600 < memory.extraction.due_in() < 86_400
    assert memory.extraction.due_in() == 64 * LEASE_S


def test_an_open_job_that_nobody_adds_to_any_more_is_anybodys(memory, clock):
    session = say(memory, "one")
    clock[0] += 80_000
    say(memory, "two", session=session)
    clock[0] += 80_000
    assert memory.extraction.claim("other") is None
    assert memory.extraction.due_in() == 6_400

    clock[0] += 6_400
    assert memory.extraction.claim("other").lines == ("one", "two")
    say(memory, "three", session=session)
    assert [(job.state, job.lines) for job in memory.extraction.jobs()] == [
        ("running", ("one", "two")),
        ("open", ("three",)),
    ]


def test_taking_a_message_back_leaves_the_open_job_to_its_owner(memory):
    memory.delete_last_turn(say(memory, "keep this", "take this back"))

    assert memory.extraction.claim("other") is None


def test_a_newer_value_wins_and_the_old_one_stays_in_the_history(memory, clock):
    memory.extraction.finish(due(memory, "I live in Ohio"), stated({"location": "Ohio"}), [])
    clock[0] += 10
    memory.extraction.finish(due(memory, "I moved to Texas"), stated({"Location": "Texas"}), [])

    assert memory.get_fact("location") == "Texas"
    assert [change.value for change in memory.fact_history("location")] == ["Ohio", "Texas"]


def test_what_was_said_before_a_change_does_not_undo_it(memory, clock):
    late = due(memory, "I live in Ohio and my dog is Rex")
    clock[0] += 10
    memory.set_fact("location", "Texas")
    memory.set_fact("dog", "Rex")
    memory.clear_fact("dog")

    stored = memory.extraction.finish(late, stated({"location": "Ohio", "dog": "Rex", "name": "Steve"}), [])

    assert stored == (1, 0)
    assert memory.get_fact("location") == "Texas"
    assert memory.get_fact("dog") is None


def test_a_known_value_and_an_identical_memory_are_not_stored_again(memory):
    for _ in range(2):
        job = due(memory, "I am Steve and use Helix")
        stored = memory.extraction.finish(
            job, stated({"name": "Steve"}), [NewMemory("Which editor?", "Helix", job.told_at)]
        )

    assert stored == (0, 0)
    assert len(memory.fact_history()) == 1
    assert memory.count_memories() == 1


def test_a_failure_waits_for_its_time(memory, clock):
    job = due(memory, "I am Steve")

    assert not memory.extraction.fail(job, "no answer", refused=False, most_refusals=3, retry_in_s=60)

    assert memory.extraction.claim("worker") is None
    assert memory.extraction.due_in() == 60
    clock[0] += 60
    again = memory.extraction.claim("worker")
    assert (again.attempts, again.refusals, again.error) == (2, 0, "no answer")


def test_three_refusals_are_death_and_block_nobody(memory):
    job = due(memory, "I am Steve")
    for _ in range(2):
        assert not memory.extraction.fail(job, "refused", refused=True, most_refusals=3, retry_in_s=0)
        job = memory.extraction.claim("worker")
    assert memory.extraction.fail(job, "refused", refused=True, most_refusals=3, retry_in_s=0)

    assert memory.extraction.jobs()[0].state == "dead"
    assert due(memory, "next").lines == ("next",)


def test_unavailability_is_no_refusal(memory):
    for _ in range(10):
        job = due(memory, "x") if not memory.extraction.jobs() else memory.extraction.claim("worker")
        assert not memory.extraction.fail(job, "down", refused=False, most_refusals=3, retry_in_s=0)

    assert memory.extraction.jobs()[0].attempts == 10


def test_the_dead_are_retried_or_dropped(memory):
    for text in ("one", "two", "three"):
        memory.extraction.fail(due(memory, text), "no", refused=True, most_refusals=1, retry_in_s=0)
    first, second, third = (job.id for job in memory.extraction.jobs())

    assert memory.extraction.retry(second) == 1
    assert memory.extraction.claim("worker").lines == ("two",)
    assert memory.extraction.drop(first) == 1
    assert memory.extraction.retry() == 1
    assert memory.extraction.drop() == 0
    assert memory.extraction.retry(99) == 0
    assert [job.id for job in memory.extraction.jobs()] == [second, third]


def test_a_retried_job_has_all_its_refusals_again(memory):
    job = due(memory, "one")
    options = {"refused": True, "most_refusals": 2, "retry_in_s": 0}
    assert not memory.extraction.fail(job, "no", **options)
    assert memory.extraction.fail(memory.extraction.claim("worker"), "no", **options)

    memory.extraction.retry(job.id)

    assert not memory.extraction.fail(memory.extraction.claim("worker"), "no", **options)
    assert memory.extraction.fail(memory.extraction.claim("worker"), "no", **options)


def test_the_oldest_waiting_goes_beyond_the_limit(memory):
    for text in "12345":
        say(memory, text)

    assert memory.extraction.release(OWNER.owner, limit=2) == 3
    assert [job.lines for job in memory.extraction.jobs()] == [("4",), ("5",)]


def test_what_is_given_back_is_due_at_once(memory):
    due(memory, "running")
    say(memory, "open", job=OpenJob("worker", 3))

    assert sorted(memory.extraction.owners()) == ["worker"]
    assert memory.extraction.give_back("worker") == 2
    assert memory.extraction.claim("next").lines == ("running",)
    assert memory.extraction.claim("next").lines == ("open",)


@pytest.mark.parametrize("state", ["open", "waiting", "running", "dead"])
def test_a_message_that_is_taken_back_is_not_extracted(memory, state):
    session = say(memory, "keep this", "take this back")
    job = None
    if state != "open":
        memory.extraction.release(OWNER.owner)
    if state in ("running", "dead"):
        job = memory.extraction.claim("worker")
    if state == "dead":
        memory.extraction.fail(job, "no", refused=True, most_refusals=1, retry_in_s=0)

    memory.delete_last_turn(session)

    assert [job.lines for job in memory.extraction.jobs()] == [("keep this",)]
    if state == "running":
        assert memory.extraction.finish(job, stated({"wrong": "fact"}), []) is None
        assert memory.get_all_facts() == []
        assert memory.extraction.claim("worker").lines == ("keep this",)


def test_what_was_learned_from_a_message_goes_with_it(memory, clock):
    memory.set_fact("location", "Ohio")
    clock[0] += 10
    session = say(memory, "I moved to Texas and use Helix")
    memory.extraction.release(OWNER.owner)
    job = memory.extraction.claim("worker")
    helix = NewMemory("Which editor?", "Helix", job.told_at, "extraction")
    memory.extraction.finish(job, stated({"location": "Texas", "editor": "Helix"}), [helix])

    memory.delete_last_turn(session)

    assert [(fact.key, fact.value) for fact in memory.get_all_facts()] == [("location", "Ohio")]
    assert memory.get_all_facts()[0].updated_at == clock[0] - 10
    assert [change.value for change in memory.fact_history()] == ["Ohio"]
    assert memory.search("editor") == []
    assert memory.extraction.stats() == ExtractionStats()
    assert memory.check().problems == ()


@pytest.mark.parametrize("changed", ["set", "cleared"])
def test_what_the_user_changed_between_the_lines_of_a_job_stays(memory, clock, changed):
    session = say(memory, "I live in Austin")
    clock[0] += 10
    memory.set_fact("location", "Berlin")
    if changed == "cleared":
        memory.clear_fact("location")
    clock[0] += 10
    say(memory, "What a day", session=session)
    memory.extraction.release(OWNER.owner)

    stored = memory.extraction.finish(memory.extraction.claim("worker"), stated({"location": "Austin"}), [])

    assert stored == (0, 0)
    assert memory.get_fact("location") == ("Berlin" if changed == "set" else None)


def test_what_was_imported_without_history_between_the_lines_of_a_job_stays(memory, clock):
    session = say(memory, "I live in Bern")
    clock[0] += 60
    fact = {"type": "fact", "key": "city", "value": "Oslo", "updated_at": int(clock[0])}
    memory.import_memories([fact])
    clock[0] += 60
    say(memory, "and I like it", session=session)
    memory.extraction.release(OWNER.owner)

    memory.extraction.finish(memory.extraction.claim("worker"), stated({"city": "Bern"}), [])

    assert memory.get_fact("city") == "Oslo"


def test_what_a_tool_of_the_model_set_between_the_lines_of_a_job_gives_way(memory, clock):
    """Otherwise the last statement of the user would never be learned: the job is done."""
    session = say(memory, "I live in Austin")
    clock[0] += 10
    memory.set_fact("location", "Austin", source="tool")
    clock[0] += 10
    say(memory, "Sorry, I live in Berlin now", session=session)
    memory.extraction.release(OWNER.owner)

    job = memory.extraction.claim("worker")
    stored = memory.extraction.finish(job, stated({"location": "Berlin"}, changed={"location"}), [])

    assert stored == (1, 0)
    assert memory.get_fact("location") == "Berlin"


def test_what_another_job_learned_between_the_lines_of_a_job_gives_way(memory, clock):
    session = say(memory, "Hello")
    clock[0] += 10
    say(memory, "I live in Austin", job=OpenJob("host/2/b", 3))
    memory.extraction.release("host/2/b")
    memory.extraction.finish(memory.extraction.claim("worker"), stated({"location": "Austin"}), [])
    clock[0] += 10
    say(memory, "I moved to Texas", session=session)
    memory.extraction.release(OWNER.owner)

    job = memory.extraction.claim("worker")
    memory.extraction.finish(job, stated({"location": "Texas"}), [])

    assert job.lines == ("Hello", "I moved to Texas")
    assert memory.get_fact("location") == "Texas"


def test_an_answer_with_half_a_character_is_stored(memory):
    half = "tea \ud83c"
    job = due(memory, "I like tea")

    stored = memory.extraction.finish(job, stated({half: half}), [NewMemory(half, half, job.told_at)])

    assert stored == (1, 1)
    assert [fact.value for fact in memory.get_all_facts()] == ["tea \ufffd"]
    assert memory.list_memories()[0].answer == "tea \ufffd"


@pytest.mark.parametrize("job_id", [0, -1, 1 << 63, 10**30])
def test_a_number_that_no_job_can_have_is_no_job(memory, job_id):
    say(memory, "I like tea")

    assert memory.extraction.drop(job_id) == 0
    assert memory.extraction.retry(job_id) == 0
    assert len(memory.extraction.jobs()) == 1


def test_what_was_changed_since_it_was_learned_stays(memory, clock):
    session = say(memory, "I moved to Texas, my dog is Rex, I use Helix")
    memory.extraction.release(OWNER.owner)
    job = memory.extraction.claim("worker")
    new = [NewMemory(f"q{n}", "a", job.told_at, "extraction") for n in range(3)]
    memory.extraction.finish(job, stated({"location": "Texas", "dog": "Rex"}), new)
    clock[0] += 10
    memory.set_fact("location", "Maine")
    memory.clear_fact("dog")
    edited, pinned, _ = [record.id for record in memory.list_memories()][::-1]
    memory.edit_memory(edited, answer="other")
    memory.pin_memory(pinned)

    memory.delete_last_turn(session)

    assert [fact.value for fact in memory.get_all_facts()] == ["Maine"]
    assert sorted(record.question for record in memory.list_memories()) == ["q0", "q1"]


def test_the_other_lines_of_a_job_that_is_taken_back_are_extracted_again(memory):
    session = say(memory, "I am Steve", "I use Helix")
    memory.extraction.release(OWNER.owner)
    memory.extraction.finish(
        memory.extraction.claim("worker"), stated({"name": "Steve", "editor": "Helix"}), []
    )

    memory.delete_last_turn(session)

    assert memory.get_all_facts() == []
    again = memory.extraction.claim("worker")
    assert again.lines == ("I am Steve",)
    assert memory.extraction.finish(again, stated({"name": "Steve"}), []) == (1, 0)
    assert memory.extraction.stats() == ExtractionStats(done=1, facts=1)


def test_an_imported_fact_has_its_value_of_before_again(memory, clock):
    memory.import_memories([{"type": "fact", "key": "location", "value": "Ohio", "updated_at": 5}])
    session = say(memory, "I moved to Texas")
    memory.extraction.release(OWNER.owner)
    job = memory.extraction.claim("worker")
    memory.extraction.finish(job, stated({"location": "Texas"}, changed={"location"}), [])
    assert memory.get_fact("location") == "Texas"

    memory.delete_last_turn(session)

    assert memory.get_fact("location") == "Ohio"


def test_a_job_goes_when_all_of_it_is_taken_back(memory):
    memory.delete_last_turn(say(memory, "take this back"))

    assert memory.extraction.jobs() == []


def test_nothing_is_learned_from_a_conversation_after_it_was_deleted(memory):
    say(memory, "I am Bob")
    memory.clear_session(say(memory, "I am Steve"))

    assert [job.lines for job in memory.extraction.jobs()] == [("I am Bob",)]


def test_an_injected_tail_that_comes_back_is_left_out(memory):
    session = memory.start_session()
    tail = "\n\n[facts: name=Steve]"
    memory.append_message(session, Message("user", "hi", "hi" + tail, Injection(tail)), job=OWNER)

    say(memory, "what does this mean? [facts: name=Steve]", "[facts: name=Steve]", session=session)
    say(memory, "[facts: name=Bob] is mine", session=session)

    lines = [line for job in memory.extraction.jobs() for line in job.lines]
    assert lines == ["hi", "what does this mean?", "is mine"]


def test_a_message_and_its_job_are_stored_together_or_not_at_all(memory):
    with pytest.raises(UsageError):
        memory.append_message("no such session", Message("user", "x"), job=OWNER)

    assert memory.extraction.jobs() == []


def test_jobs_survive_their_process(database):
    with Memory(database, user_id="steve") as memory:
        say(memory, "I am Steve")

    with Memory(database, user_id="steve") as memory:
        assert memory.extraction.jobs()[0].lines == ("I am Steve",)


WORKER = """
import sys
from shepherd.memory import Claim, Memory, NewMemory
with Memory(sys.argv[1], user_id="steve", busy_timeout_s=60) as memory:
    while job := memory.extraction.claim(sys.argv[2]):
        new = [NewMemory(job.lines[0], "answer", 1)]
        assert memory.extraction.finish(job, [Claim(f"fact {job.id}", sys.argv[2])], new)
"""


def test_processes_that_work_at_once_do_each_job_once(database):
    with Memory(database, user_id="steve") as memory:
        for n in range(40):
            say(memory, f"line {n}", job=OpenJob("o", 1))

        workers = [
            programs.Popen([sys.executable, "-c", WORKER, database, name], env=programs.in_utf8())
            for name in ("one", "two")
        ]
        assert [worker.wait(120) for worker in workers] == [0, 0]

        assert memory.extraction.stats() == ExtractionStats(done=40, facts=40, memories=40)
        assert len(memory.fact_history()) == memory.count_memories() == 40
        assert memory.check().problems == ()


def test_text_that_is_no_text_everywhere_comes_back(memory):
    text = '\0 \U0010fffe0 ? ?1 \ud800 \\ " 日本語'

    assert due(memory, text).lines == (text.replace("\ud800", "\ufffd"),)


def test_only_the_newest_ended_jobs_are_kept(memory):
    session = memory.start_session()
    for n in range(510):
        memory.append_message(session, Message("user", str(n)), job=OpenJob("o", 1))
        memory.extraction.finish(memory.extraction.claim("worker"), [], [])

    assert memory.extraction.stats().done == 500

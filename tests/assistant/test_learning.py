"""What a conversation hands to the extraction worker: the user's own words, unless they are taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from shepherd.extraction import ExtractionWorker, LocalExtractor, WorkerSettings
from shepherd.inference import Engine, EngineSettings


@pytest.fixture(scope="module")
def learner(model_file) -> Iterator[Engine]:
    """Says to everything that the user is Steve and uses Helix, as JSON."""
    with Engine(model_file("learner"), settings=EngineSettings(n_threads=1, n_ctx=2048)) as engine:
        yield engine


@pytest.fixture
def new_worker(memory, learner) -> Iterator[Callable[..., ExtractionWorker]]:
    made = []

    def make(**settings) -> ExtractionWorker:
        extractor = LocalExtractor(learner.sibling, max_tokens=200, temperature=0.0)
        worker = ExtractionWorker(memory, extractor, "steve", settings=WorkerSettings(**settings))
        made.append(worker)
        return worker

    yield make
    for worker in made:
        worker.close()


def ask(assistant, text: str) -> None:
    for _ in assistant.ask(text):
        pass


def queued(memory) -> list[str]:
    return [line for job in memory.extraction.jobs() for line in job.lines]


def test_what_is_told_is_known_in_the_next_turn(new_assistant, new_worker, learner, memory):
    worker = new_worker(min_turns=2)
    assistant = new_assistant(engine=learner, extraction=worker)
    worker.start()

    ask(assistant, "I am Steve")
    ask(assistant, "and I use Helix")
    assert worker.flush(60)
    ask(assistant, "Who am I?")

    assert assistant.last.injection.tail.strip().startswith("[facts: name=Steve, uses=Helix]")
    assert [record.answer for record in memory.list_memories() if record.source == "extraction"] == ["Helix"]


def test_what_was_learned_from_a_turn_is_undone_with_it(new_assistant, new_worker, learner, memory):
    worker = new_worker(min_turns=1)
    assistant = new_assistant(engine=learner, extraction=worker)
    worker.start()
    ask(assistant, "I am Steve and I use Helix")
    assert worker.flush(60)
    assert memory.get_fact("name") == "Steve"

    assistant.undo()

    assert memory.get_all_facts() == []
    assert memory.list_memories() == []


def test_only_the_users_words_are_queued_without_their_tail(new_assistant, new_worker, memory):
    memory.set_fact("name", "Steve")
    assistant = new_assistant(extraction=new_worker(min_turns=99))

    ask(assistant, "What is my name?")

    assert assistant.last.injection
    assert queued(memory) == ["What is my name?"]


def test_a_message_that_is_undone_is_not_learned_from(new_assistant, new_worker, memory):
    assistant = new_assistant(extraction=new_worker(min_turns=99))
    ask(assistant, "I am Steve")
    ask(assistant, "no, I am Bob")

    assistant.undo()

    assert queued(memory) == ["I am Steve"]


def test_private_turns_are_not_learned_from(new_assistant, new_worker, memory):
    assistant = new_assistant(extraction=new_worker(min_turns=99))
    assistant.private = True

    ask(assistant, "I am Steve")

    assert queued(memory) == []


def test_a_new_conversation_makes_the_old_one_due(new_assistant, new_worker, memory):
    assistant = new_assistant(extraction=new_worker(min_turns=99))
    ask(assistant, "I am Steve")

    assistant.clear()

    assert [job.state for job in memory.extraction.jobs()] == ["waiting"]


def test_a_memory_that_is_only_read_queues_nothing(new_assistant, new_worker, memory):
    assistant = new_assistant(extraction=new_worker(min_turns=1), writes_memory=False)

    ask(assistant, "I am Steve")

    assert queued(memory) == []


def test_nobody_in_particular_queues_nothing(new_assistant, new_worker, memory):
    assistant = new_assistant(extraction=new_worker(min_turns=1), user_id="unknown")

    ask(assistant, "I am Steve")

    assert assistant.extraction is None
    assert memory.extraction.jobs("unknown") == queued(memory) == []

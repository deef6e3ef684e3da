"""Facts of users who each say one line, learned by the real worker with the bundled model."""

from __future__ import annotations

import pytest

from shepherd.extraction import ExtractionWorker, LocalExtractor, WorkerSettings
from shepherd.inference import Engine, EngineSettings
from shepherd.inference.models import BUILT_IN_FILE
from shepherd.memory import Memory
from shepherd.types import Message
from tests.claims.lines import false_facts, is_learned, lines_of
from tests.examples import examples

# --deep, which selects by this mark, asks about all lines.
pytestmark = pytest.mark.hypothesis
EVERY = 12 if examples(1) == 1 else 1
FILES = ("corpus.jsonl", "held_out.jsonl")
BY_HAND = {"name": "Steve", "location": "Köln", "allergy": "bee stings", "employer": "Bosch"}


@pytest.fixture(scope="module")
def facts(tmp_path_factory) -> dict[int, dict[str, str]]:
    """Facts by the number of the line, which is the user's name too."""
    with (
        Memory(tmp_path_factory.mktemp("learning") / "memory.db") as memory,
        Engine(BUILT_IN_FILE, settings=EngineSettings(n_threads=1, n_ctx=2048)) as engine,
    ):
        extractor = LocalExtractor(
            engine.sibling, max_tokens=200, temperature=0.0, facts_only=True, apart=True
        )
        worker = ExtractionWorker(memory, extractor, None, settings=WorkerSettings(min_turns=1))
        try:
            for line in all_lines():
                user = str(line["id"])
                for key, value in BY_HAND.items() if line["kind"] != "want" else ():
                    memory.set_fact(key, value, user)
                session = memory.start_session(user_id=user)
                memory.append_message(session, Message("user", line["say"]), user, job=worker.open_job)
                worker.told(session, user)
            worker.start()
            assert worker.flush(600)
        finally:
            worker.close()
        return {
            line["id"]: {fact.key: fact.value for fact in memory.get_all_facts(str(line["id"]))}
            for line in all_lines()
        }


def all_lines(*kinds: str) -> list[dict]:
    return [
        line for file in FILES for kind in kinds or ("none", "ended", "want") for line in some_of(file, kind)
    ]


def some_of(file: str, kind: str) -> list[dict]:
    return lines_of(file, kind)[::EVERY]


def kept_through(line: dict) -> dict[str, str]:
    """Return the facts set by hand but those that the line says are over: "I quit my job at Bosch"."""
    return {key: value for key, value in BY_HAND.items() if value != line.get("never")}


def test_no_fact_that_was_set_by_hand_changes(facts):
    changed = {
        line["say"]: facts[line["id"]]
        for line in all_lines("none", "ended")
        if not kept_through(line).items() <= facts[line["id"]].items()
    }

    assert changed == {}


def test_at_most_one_in_a_hundred_lines_leaves_a_false_fact(facts):
    lines = all_lines("none", "ended")

    wrong = [
        line["say"]
        for line in lines
        if false_facts(line, set(facts[line["id"]].items()) - set(BY_HAND.items()))
    ]

    assert len(wrong) <= 0.01 * len(lines), wrong


@pytest.mark.parametrize("file", FILES)
def test_most_of_what_people_tell_of_themselves_is_learned(facts, file):
    wanted = some_of(file, "want")

    learned = [line for line in wanted if is_learned(line, set(facts[line["id"]].items()))]

    assert len(learned) >= 0.85 * len(wanted)

"""What was said while memory was off is written down nowhere: no summary, no trace, whatever comes later."""

from __future__ import annotations

import json

import pytest

from shepherd.assistant import Assistant
from shepherd.inference import Engine, EngineSettings
from shepherd.inference.models import resolve
from shepherd.memory import Claim, EndedValue, Memory
from shepherd.prompt.summary import SummaryStore
from shepherd.trace import Traces
from tests.learned import learn

SOLD = "We sold the Fiat."

SECRET = "The combination of the vault is fourteen parrots."


@pytest.fixture(scope="module")
def engine(scripted_model):
    with Engine(scripted_model, settings=EngineSettings(n_ctx=1024, n_threads=1)) as engine:
        yield engine


@pytest.fixture
def assistant(new_assistant, engine, summarizer):
    return new_assistant(
        engine=engine,
        system_prompt="Be brief.",
        rag_context_injection=False,
        max_tokens=64,
        trace_prompts=True,
        summarizer=summarizer,
    )


def ask(assistant, text, *, private=False):
    assistant.private = private
    *_, finished = assistant.ask(text)
    assistant._compaction.wait()
    return finished


def statement(number):
    return f"The house number {number} in our street belongs to a family with {number} cats."


def read_by(summarizer):
    """The last prompt of the model that sums up."""
    engine = summarizer._model
    ids = engine.decoder.mirror_ids
    return b"".join(engine.model.vocabulary.detokenize([token]) for token in ids).decode("utf-8", "replace")


def stored(memory):
    """Every text that the database holds."""
    tables = [
        name
        for (name,) in memory.transactions.read(
            lambda c: c.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
            )
        )
    ]
    rows = [memory.transactions.read(lambda c, t=t: c.execute(f"SELECT * FROM {t}")) for t in tables]
    return json.dumps(rows, default=repr)


def test_who_sums_up_is_not_told_what_was_private(assistant, summarizer, memory):
    ask(assistant, statement(0))
    ask(assistant, SECRET, private=True)

    finished = None
    while finished is None or not finished.stats.evicted_turns:
        finished = ask(assistant, statement(1))
        assert summarizer._model is None or "parrots" not in read_by(summarizer)

    assert "house number 0" in read_by(summarizer)
    assert assistant.snapshot.summary.pieces
    assert "parrots" not in stored(memory)
    assert "house number 0" in stored(memory)


def test_a_talk_that_was_private_is_summed_up_for_the_model_alone(assistant, summarizer, memory):
    finished = None
    while finished is None or not finished.stats.evicted_turns:
        finished = ask(assistant, SECRET, private=True)
    assert assistant.snapshot.summary.pieces
    assert "parrots" in read_by(summarizer)

    kept = SummaryStore(memory.transactions, "steve")
    ask(assistant, statement(0))
    while not kept.load(assistant.session_id).last_id:  # until what is stored leaves the window, too
        ask(assistant, statement(1))

    left = kept.load(assistant.session_id)
    assert left.summary.n_turns == assistant.snapshot.summary.n_turns
    # This model says the same of every talk, so that all pieces are the private one.
    assert left.summary.pieces == ()
    assert "parrots" not in stored(memory)


def test_whole_prompts_are_traced_without_what_was_private(assistant, memory):
    ask(assistant, statement(0))
    ask(assistant, SECRET, private=True)
    ask(assistant, statement(1))

    traces = Traces(memory.transactions, "steve")
    root = f"/context/{assistant.session_id}/000001"
    prompt = traces.get(f"{root}/assembled/full_prompt")
    assert "house number 0" in prompt
    assert "house number 1" in prompt
    assert "parrots" not in stored(memory)


def test_private_turn_sends_no_tail_of_earlier_turns(new_assistant, engine, memory):
    memory.set_fact("name", "Steve")
    assistant = new_assistant(engine=engine, max_tokens=8, injection_retention="keep")
    ask(assistant, "hello there")
    assert "[facts: name=Steve]" in assistant.history[0].sent

    ask(assistant, "and now?", private=True)

    assert all(message.sent == message.raw for message in assistant.history)
    ask(assistant, "and again?")
    assert "[facts: name=Steve]" in assistant.history[-2].sent


def test_bundled_model_promises_to_remember_only_where_something_is_stored(tmp_path):
    with (
        Engine(resolve(""), settings=EngineSettings(n_threads=1)) as bundled,
        Memory(tmp_path / "own.db", user_id="steve") as own,
    ):
        with_memory = Assistant(bundled, own, user_id="steve")
        assert ask(with_memory, "My cat is called Tom.").answer == "Nice, I'll remember that."
        without = "Nice, I'll keep that in mind for this conversation."
        assert ask(with_memory, "My dog is called Rex.", private=True).answer == without
        assert ask(Assistant(bundled), "My cat is called Tom.").answer == without
        assert ask(Assistant(bundled), "hello").answer.startswith("Hello!")


def test_bundled_model_tells_what_has_ended_although_nothing_else_is_known(tmp_path):
    times = iter(range(1_700_000_000, 1_800_000_000, 86_400))
    with (
        Engine(resolve(""), settings=EngineSettings(n_threads=1)) as bundled,
        Memory(tmp_path / "own.db", user_id="steve", clock=lambda: next(times)) as own,
    ):
        learn(own, "steve", "I drive a Fiat.", Claim("car", "Fiat", "I drive a Fiat.", 0))
        learn(own, "steve", SOLD, EndedValue("Fiat", "any", SOLD, 0))

        answer = ask(Assistant(bundled, own, user_id="steve"), "What do I drive?").answer

        assert answer.startswith("Until ")
        assert answer.endswith(", your car was a Fiat.")
        # Another user's past is none of hers.
        assert "Fiat" not in ask(Assistant(bundled, own, user_id="anna"), "What do I drive?").answer

"""What was learned, decided and appended, and the arguments of a call, in words."""

from __future__ import annotations

import io
import time

import pytest

from shepherd.commands.explain import (
    arguments_in_full,
    decided_in_words,
    explain_injection,
    explain_stats,
    explain_turn,
    fact_provenance,
    item_in_words,
    kept_in_words,
    list_learned,
    news_in_words,
    nothing_to,
    state_in_words,
)
from shepherd.commands.screen import Screen
from shepherd.inference import KeptCounts
from shepherd.memory import FactPeriod, LearnedItem
from shepherd.turn import Finished
from shepherd.types import Fact, Injection, SearchResult, TurnStats


def item(kind: str, value: str = "Paris", before: str | None = None, **changes) -> LearnedItem:
    fields = {"id": 7, "key": "city", "statement": "I said it.", "session": "s", "at": 0, "state": "new"}
    return LearnedItem(**{**fields, "kind": kind, "value": value, "before": before, **changes})


@pytest.mark.parametrize(
    ("one", "words", "news", "undone"),
    [
        (item("learned"), "your city is Paris", "learned: your city is Paris · /undo 7",
         'undone: "your city is Paris" is forgotten'),
        (item("learned", before="Ulm"), "your city is Paris (before: Ulm)",
         "learned: your city is Paris (before: Ulm) · /undo 7", "undone: your city is Ulm, as before"),
        (item("ended", before="Ulm"), "your city is no longer Ulm",
         "learned: your city is no longer Ulm · /undo 7", "undone: your city is Ulm, as before"),
        (item("ended"), "your city is no longer Paris", "learned: your city is no longer Paris · /undo 7",
         'undone: "your city is no longer Paris" is forgotten'),
        (item("remembered", key="Which?"), "Which? Paris", "remembered: Which? Paris · /undo 7",
         "undone: the memory 'Which?' is deleted"),
        (item("remembered", "", key="Which?"), "Which?", "remembered: Which? · /undo 7",
         "undone: the memory 'Which?' is deleted"),
        (item("remembered", "Rex", key="What is the user's dog called?"), "what your dog is called: Rex",
         "remembered: what your dog is called: Rex · /undo 7",
         'undone: the memory "What is the user\'s dog called?" is deleted'),
        (item("proposed", before="Ulm"), "your city is Paris (you set: Ulm)",
         "you said that your city is Paris, but you set Ulm yourself · /accept 7 · /reject 7",
         "undone: your city is Ulm, as before"),
        (item("proposed", "", "Ulm"), "your city is no longer Ulm",
         "you said that your city is no longer Ulm, but you set it yourself · /accept 7 · /reject 7",
         "undone: your city is Ulm, as before"),
    ],
)  # fmt: skip
def test_a_learned_thing_is_said_with_what_was_before(one, words, news, undone):
    assert item_in_words(one) == words
    assert news_in_words([one]) == [news]
    assert decided_in_words(one) == undone


def test_outside_of_a_chat_the_commands_are_those_of_the_command_line():
    assert news_in_words([item("learned")], in_chat=False) == [
        "learned: your city is Paris · shepherd memory learned --undo 7"
    ]
    assert news_in_words([item("proposed", before="Ulm")], in_chat=False) == [
        "you said that your city is Paris, but you set Ulm yourself · shepherd memory learned --accept 7 or"
        " shepherd memory learned --reject 7"
    ]


@pytest.mark.parametrize(
    ("n", "first"), [(5, None), (6, "1 more thing learned"), (7, "2 more things learned")]
)
def test_of_many_learned_things_the_latest_five_are_shown(n, first):
    lines = news_in_words([item("learned", id=number) for number in range(1, n + 1)])

    assert lines[-5:] == [f"learned: your city is Paris · /undo {number}" for number in range(n - 4, n + 1)]
    assert lines[:-5] == ([f"{first} · /learned"] if first else [])


@pytest.mark.parametrize(
    ("state", "value", "before", "words"),
    [
        ("kept", "Paris", "Ulm", "kept: your city is Paris (before: Ulm)"),
        ("rejected", "Paris", "Ulm", "rejected: your city is Ulm, as before"),
        ("rejected", "Paris", None, "rejected: your city is Paris"),
        ("accepted", "Paris", "Ulm", "accepted: your city is Paris"),
        ("accepted", "", "Ulm", "accepted: your city is no longer Ulm"),
    ],
)
def test_a_decision_says_what_holds_now(state, value, before, words):
    assert decided_in_words(item("learned", value, before, state=state)) == words


def test_a_decision_that_cannot_be_made_names_its_number():
    assert nothing_to("undo") == "there is nothing to undo"
    assert nothing_to("undo", 7).startswith("cannot undo 7: there is no such number")


def test_learned_things_are_listed_below_their_sentences():
    out = io.StringIO()
    then = int(time.time()) - 7200
    items = [
        item("learned", id=9, at=then),
        item("proposed", before="Ulm", id=10, at=then, statement=""),
        item("proposed", before="Ulm", id=11, at=then, state="rejected", statement="x" * 161),
        item("learned", id=12, at=then),
    ]

    list_learned(Screen(out, out), items, {9})
    list_learned(Screen(out, out), [], ())

    assert out.getvalue().splitlines() == [
        ' 9  "I said it."',
        "    your city is Paris",
        "    2 hours ago · fact city",
        "10  by the model",
        "    proposed: your city is Paris (you set: Ulm)",
        "    2 hours ago · fact city · waits to be accepted or rejected",
        f'11  "{"x" * 159}…"',
        "    proposed: your city is Paris (you set: Ulm)",
        "    2 hours ago · fact city · rejected",
        '12  "I said it."',
        "    your city is Paris",
        "    2 hours ago · fact city · changed since",
    ]
    assert state_in_words(item("learned", state="kept", at=then)) == "2 hours ago · fact city · kept"


def test_long_arguments_of_a_call_are_shown_from_both_ends():
    assert arguments_in_full({}) == ""
    assert arguments_in_full({"a": "é\u200b\n", "b": 1}) == '{\n  "a": "é\\u200b\\n",\n  "b": 1\n}'
    n_around = len(arguments_in_full({"a": ""}))
    whole = arguments_in_full({"a": "x" * (4000 - n_around)})
    cut = arguments_in_full({"a": "x" * (4001 - n_around)})

    assert (len(whole), whole.count("x")) == (4000, 4000 - n_around)
    assert cut.splitlines()[2:-2] == ["… 1 of 4,001 characters are not shown"]
    assert cut.count("x") == 4000 - n_around


def test_what_was_appended_is_listed_with_the_commands_that_change_it():
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out, err)
    fact = Fact("city", "P" * 201, 0, 0)
    stored = [(5 << 40 | number, answer) for number, answer in ((8, "a"), (1234, ""))]
    found = [SearchResult(id, "q", answer, 0, 0.5, 0.5, 3.0) for id, answer in stored]
    injection = Injection("tail", (fact,), tuple(found), ("soup", "recip"), recall_us=41_400.0)
    asked = "Which soups have recipes?"

    assert explain_injection(screen, Finished("", TurnStats(), injection), asked) == [8, 1234]
    assert out.getvalue().splitlines() == [
        "Appended to your last message (recall took 41 ms, searched for: soups, recipes)",
        "facts",
        f"  city = {'P' * 199}…",
        "memories",
        "   8  q",
        "      a",
        "      3 days ago · score 0.50 · relevance 0.50",
        "1234  q",
        "      3 days ago · score 0.50 · relevance 0.50",
    ]
    facts, memories = "/forget KEY, /facts KEY VALUE", "/edit 8, /forget 8, /pin 8"
    assert err.getvalue() == f"to change it: {facts} · {memories}\n"
    for changed, shown in ((Injection("t", (fact,)), facts), (Injection("t", (), tuple(found)), memories)):
        err.truncate(err.seek(0))
        explain_injection(screen, Finished("", TurnStats(), changed))
        assert err.getvalue() == f"to change it: {shown}\n"


@pytest.mark.parametrize(
    ("last", "private", "words"),
    [
        (None, False, "nothing has been answered yet"),
        (Injection(), False, "nothing was appended"),
        (Injection(keywords=("a", "b")), False, "no fact is known, and no memory matches a b well enough"),
        (Injection(keywords=("a", "b")), True, "nothing was appended: memory is private"),
    ],
)
def test_nothing_appended_has_its_reason(last, private, words):
    out, err = io.StringIO(), io.StringIO()
    finished = None if last is None else Finished("", TurnStats(), last)

    assert explain_injection(Screen(out, err), finished, private=private) == []
    assert out.getvalue() == ""
    assert err.getvalue().endswith(f"{words}\n")


def test_estimates_and_a_window_of_unknown_size_are_said():
    out, err = io.StringIO(), io.StringIO()
    stats = TurnStats(prompt_tokens=1, generated_tokens=1, is_estimated=True, finish_reason="length")

    explain_stats(Screen(out, err), Finished("", stats, Injection()))

    assert out.getvalue().splitlines()[:3] == [
        "prompt  1 token: 0 reused, 0 decoded",
        "answer  1 token generated, 0.0 tokens/s, ended by --max-tokens or the window",
        "window  0 tokens, 0 % used",
    ]
    assert err.getvalue() == "the provider sent no token counts: these are estimates\n"


def test_stats_say_how_much_of_an_answer_was_drafted():
    out = io.StringIO()
    stats = TurnStats(generated_tokens=100, drafted_tokens=1200, accepted_tokens=60)

    explain_stats(Screen(out, out), Finished("", stats, Injection()))

    assert "drafts  1,200 tokens drafted, 60 accepted: 2.5 tokens per batch\n" in out.getvalue()
    assert "draft model" not in out.getvalue()


def test_stats_say_how_much_a_draft_model_drafted():
    out = io.StringIO()
    stats = TurnStats(
        generated_tokens=100, drafted_tokens=1200, accepted_tokens=60,
        model_drafted_tokens=1100, model_accepted_tokens=40,
    )  # fmt: skip

    explain_stats(Screen(out, out), Finished("", stats, Injection()))

    assert "\n        1,100 of them by the draft model, 40 accepted\n" in out.getvalue()


def test_a_turn_without_a_trace_says_nothing_and_one_of_little_says_little():
    out = io.StringIO()
    screen = Screen(out, out)

    explain_turn(screen, "s", 1, {})
    assert out.getvalue() == ""
    explain_turn(screen, "s", 1, {"budget/total": "x", "entities/count": 1, "warnings/0001": "not the first"})
    assert out.getvalue().splitlines() == [
        "the whole prompt: 0 of 0 tokens",
        "  entity    ()",
        "all of it: shepherd trace tree s/1",
    ]


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((1, 1 << 20, 3 << 29, 2, 1, 0, 0), "1 conversation, 1.0 MiB of 1.5 GiB; 2 written, 1 read"),
        (
            (2000, 5, 6, 1234, 5678, 3, 0),
            "2,000 conversations, 5 bytes of 6 bytes; 1,234 written, 5,678 read, 3 failed",
        ),
        (
            (0, 0, 0, 0, 0, 0, 4),
            "0 conversations, 0 bytes of 0 bytes; 0 written, 0 read, 4 dropped before they were written",
        ),
    ],
)
def test_what_is_kept_on_disk_is_counted(counts, words):
    assert kept_in_words(KeptCounts(*counts)) == words


def test_everything_of_a_turn_is_explained():
    out = io.StringIO()
    screen = Screen(out, out)
    entries = {
        "assembled/total_tokens": 1234,
        "budget/total": 4096,
        "entities/count": 1,
        "entities/0000/name": "Anna",
        "entities/0000/type": "person",
        "entities/0000/relevance": 0.5,
        "entities/0000/tokens": 7,
        "rag/chunks_selected": 2,
        "rag/chunks/0000/doc_title": "Bees",
        "rag/chunks/0000/relevance": 0.25,
        "rag/chunks/0001/doc_title": "B" * 300,
        "rag/chunks/0001/tokens": 1,
        "history/compression_level": "light",
        "warnings/0000": "first",
        "warnings/0001": "second",
        "warnings/0003": "never",
    }

    explain_turn(screen, "s", 3, entries)

    assert out.getvalue().splitlines() == [
        "the whole prompt: 1,234 of 4,096 tokens",
        "  entity   Anna (person), relevance 0.50, 7 tokens",
        "  passage  Bees, relevance 0.25",
        f"  passage  {'B' * 199}\N{HORIZONTAL ELLIPSIS}, 1 token",
        "  history  compressed, light",
        "  warning  first",
        "  warning  second",
        "all of it: shepherd trace tree s/3",
    ]


@pytest.mark.parametrize(
    ("source", "statement", "words"),
    [
        ("user", "", "set by you"),
        ("extraction", "I like tea.", 'you said "I like tea."'),
        ("tool", "", "set by the model, with a tool"),
        ("import", "", "imported"),
        ("import:mem0", "", "imported from mem0"),
        ("mcp", "", "from mcp"),
        ("", "", "from an older version"),
    ],
)
def test_a_fact_says_where_it_came_from(source, statement, words):
    since = int(time.time()) - 3 * 86_400
    period = FactPeriod(
        key="drink", value="tea", since=since, until=None, source=source, statement=statement,
        recorded_at=since,
    )  # fmt: skip

    assert fact_provenance(period) == f"{words} \N{MIDDLE DOT} 3 days ago"

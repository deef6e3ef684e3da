"""Numbers, times and lists as the commands print them, at the borders of their units."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import pty
import re
import struct
import termios
import time
from argparse import Namespace

import pytest

from shepherd.cli.receipts import print_receipt
from shepherd.commands.explain import ending, explain_stats, provenance, turn_in_words
from shepherd.commands.screen import (
    Screen,
    age_in_words,
    counted,
    day,
    duration,
    hint_with_command,
    near_miss,
    printable,
    shortened,
    size,
)
from shepherd.errors import NEW_CONVERSATION
from shepherd.memory import Receipt
from shepherd.turn import Finished
from shepherd.types import Fact, Injection, MemoryRecord, SearchResult, TurnStats

SECOND = 1 / 86_400


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (59, "just now"),
        (60, "1 minute ago"),
        (3_599, "59 minutes ago"),
        (3_600, "1 hour ago"),
        (86_399, "23 hours ago"),
        (86_400, "1 day ago"),
        (2_629_799, "30 days ago"),
        (2_629_800, "1 month ago"),
        (31_557_599, "11 months ago"),
        (31_557_600, "1 year ago"),
        (-5, "just now"),
    ],
)
def test_ages_change_their_unit_when_one_is_full(seconds, words):
    assert age_in_words(seconds * SECOND * (1 + 1e-12)) == words


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [(0, "0 µs"), (0.312, "312 µs"), (1, "1 ms"), (41.4, "41 ms"), (999, "999 ms"), (1000, "1.0 s")],
)
def test_durations_change_their_unit_when_one_is_full(milliseconds, words):
    assert duration(milliseconds) == words


@pytest.mark.parametrize(
    ("n_bytes", "words"),
    [
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (1024, "1.0 KiB"),
        (1023 << 10, "1,023.0 KiB"),
        (1 << 20, "1.0 MiB"),
        (3 << 29, "1.5 GiB"),
        (1 << 40, "1.0 TiB"),
        (1 << 52, "4,096.0 TiB"),
    ],
)
def test_sizes_change_their_unit_when_one_is_full(n_bytes, words):
    assert size(n_bytes) == words


def test_counts_have_their_plural():
    assert (counted(0, "fact"), counted(1, "fact"), counted(2, "fact")) == ("0 facts", "1 fact", "2 facts")
    assert (counted(1, "memory", "memories"), counted(1234, "memory", "memories")) == (
        "1 memory",
        "1,234 memories",
    )


def test_texts_are_cut_beyond_the_limit_and_not_at_it():
    assert shortened("a" * 120) == "a" * 120
    assert shortened("a" * 121) == "a" * 119 + "…"
    assert shortened("two\n  words", 9) == "two words"


def test_control_characters_are_shown_and_line_feeds_kept():
    assert printable("a\x1b[2J\tb\nc\x9f\u202e") == "a\ufffd[2J\tb\nc\ufffd\ufffd"


def test_days_are_local_and_may_have_the_minute():
    moment = int(time.mktime((2026, 1, 31, 9, 5, 59, 0, 0, -1)))

    assert (day(moment), day(moment, with_time=True)) == ("2026-01-31", "2026-01-31 09:05")


def test_near_misses_are_two_at_most():
    assert near_miss("memroy", ["memory", "model"]) == "did you mean memory?"
    assert near_miss("aaaa", ["aaab", "aaac", "aaad"]).count(" or ") == 1
    assert near_miss("zzz", ["memory"]) == ""


def test_hints_name_the_slash_command_only_in_a_chat():
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out, err)

    screen.error("full", NEW_CONVERSATION)
    screen.begin_chat()
    screen.error("full", NEW_CONVERSATION)

    assert err.getvalue().splitlines() == [
        "shepherd: error: full",
        f"  {NEW_CONVERSATION}",
        "error: full",
        f"  {hint_with_command(NEW_CONVERSATION)}",
    ]
    assert hint_with_command(NEW_CONVERSATION).endswith("with /clear")


def test_results_are_json_or_text_and_note():
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out, err)

    screen.result({"id": 1}, "1", note="stored")
    screen.result({"id": 2})
    screen.as_json = True
    screen.result({"id": 3}, "3", note="stored")

    assert (out.getvalue(), err.getvalue()) == ('1\n{"id": 3}\n', "stored\n")


def test_listings_are_json_or_rows_or_a_note_that_there_are_none():
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out, err)

    screen.listing([1], ["a", "b"], [(1, "x\ty\nz\\")], empty="none")
    screen.listing([], ["a"], [], empty="none")
    screen.as_json = True
    screen.listing([], ["a"], [], empty="none")

    assert (out.getvalue(), err.getvalue()) == ("1\tx\\ty\\nz\\\\\n[]\n", "none\n")


def test_line_separators_of_unicode_end_no_json_line():
    out = io.StringIO()

    Screen(out, out).json("a\x85b\u2028c\u2029")

    assert out.getvalue().count("\n") == len(out.getvalue().splitlines()) == 1
    assert json.loads(out.getvalue()) == "a\x85b\u2028c\u2029"


# ---- explanations


def result(**changes) -> SearchResult:
    values = {"id": 7, "question": "q", "answer": "a", "timestamp": 0, "score": 0.581, "relevance": 0.756}
    return SearchResult(**{**values, "age_days": 3.0, **changes})


def test_provenance_has_id_age_source_and_scores():
    assert provenance(result(source="user", pinned=True)) == (
        "id 7 · 3 days ago · entered by hand · score 0.58 · relevance 0.76 · pinned"
    )
    now = int(time.time())
    assert provenance(MemoryRecord(8, "q", "a", now - 7200, source="mcp")) == (
        "id 8 · 2 hours ago · stored by another assistant"
    )


def test_one_line_about_a_turn_has_what_was_recalled_and_its_cost():
    injection = Injection("tail", (Fact("name", "Steve", 0, 0),), (result(), result(id=8)))
    stats = TurnStats(
        prompt_tokens=1234, decoded_tokens=1, generated_tokens=10, decode_ms=500.0, total_ms=1000.0
    )

    assert turn_in_words(Finished("answer", stats, injection)) == "recalled 1 fact, 2 memories · 1.0 s"
    others = Injection("tail", parts=("entity:1", "chunk:5", "chunk:7"))
    assert turn_in_words(Finished("", TurnStats(total_ms=41.0), others)) == (
        "recalled 2 passages, 1 entity · 41 ms"
    )
    focus = Finished("", TurnStats(), Injection("tail", parts=("focus",)))
    assert turn_in_words(focus) == "recalled the nodes in focus · 0 µs"
    stopped = Finished("", TurnStats(finish_reason="cancelled", total_ms=41.0), Injection())
    assert turn_in_words(stopped) == "41 ms · stopped"


def test_stats_explain_tokens_window_and_times():
    out, err = io.StringIO(), io.StringIO()
    stats = TurnStats(
        prompt_tokens=347,
        reused_tokens=274,
        decoded_tokens=73,
        generated_tokens=8,
        window_tokens=1024,
        evicted_turns=2,
        recall_ms=0.286,
        prefill_ms=13.0,
        ttft_ms=14.0,
        decode_ms=10.0,
        total_ms=24.0,
    )

    explain_stats(Screen(out, err), Finished("answer", stats, Injection()))

    assert out.getvalue().splitlines() == [
        "prompt  347 tokens: 274 reused, 73 decoded",
        "answer  8 tokens generated, 800.0 tokens/s, ended by the model",
        "window  1,024 tokens, 35 % used; 2 old turns left it",
        "times   recall 286 µs, prefill 13 ms, first token 14 ms, total 24 ms",
    ]
    explain_stats(Screen(out, err), None)
    assert err.getvalue() == "nothing has been answered yet\n"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("stop", ""),
        ("length", "cut at the longest allowed answer (--max-tokens)"),
        ("cancelled", "stopped"),
        ("filtered", "ended by the provider's filter"),
    ],
)
def test_only_answers_that_ended_early_say_why(reason, words):
    assert ending(TurnStats(finish_reason=reason)) == words


def read_all(master: int) -> str:
    """Return all that a terminal showed before its other end was closed. One read may return only a part."""
    shown = b""
    with open(master, "rb", buffering=0) as terminal, contextlib.suppress(OSError):
        while piece := terminal.read(4096):
            shown += piece
    return shown.decode()


def test_what_a_chat_prints_is_wrapped_between_words_and_results_of_commands_are_not():
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 30, 0, 0))
    with open(slave, "w", encoding="utf-8") as out:
        screen = Screen(out, io.StringIO())
        screen.print("a result that is longer than the terminal")
        screen.begin_chat()
        screen.print("12  a memory that is longer than the terminal")
        screen.print("    its answer, of  two words")
        screen.flush()

    assert read_all(master).split("\r\n")[:-1] == [
        "a result that is longer than the terminal",
        "12  a memory that is longer",
        "    than the terminal",
        "    its answer, of  two words",
    ]


def test_a_receipt_on_a_narrow_terminal_continues_below_its_second_column():
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 40, 0, 0))
    receipt = Receipt()
    receipt.left.append("what a chat or server that is running holds")
    with open(slave, "w", encoding="utf-8") as out:
        screen = Screen(out, io.StringIO())
        print_receipt(receipt, Namespace(memory_db=None, user=None, settings=[]), screen)
        screen.flush()

    assert read_all(master).split("\r\n")[:2] == [
        "not reached  what a chat or server that",
        "             is running holds",
    ]


def test_a_remark_on_a_narrow_terminal_is_wrapped_between_words():
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 30, 0, 0))
    with open(slave, "w", encoding="utf-8") as err:
        screen = Screen(io.StringIO(), err)
        screen.note("  a remark that is longer than the terminal is wide")
        screen.error("something did not work as it was meant to", "a hint that is also too long for it")
        screen.flush()
    shown = re.sub(r"\x1b\[[0-9;]*m", "", read_all(master)).split("\r\n")

    assert shown == [
        "  a remark that is longer than",
        "  the terminal is wide",
        "shepherd: error: something did",
        "not work as it was meant to",
        "  a hint that is also too long",
        "  for it",
        "",
    ]


def test_a_state_never_wraps_since_it_could_not_be_removed():
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with open(slave, "w", encoding="utf-8") as err:
        Screen(io.StringIO(), err).transient("learning from your last messages; Ctrl-C skips it …")
    assert re.sub(r"\x1b\[\d*[mK]|\r", "", read_all(master)) == "learning from your last messages; Ctrl…"

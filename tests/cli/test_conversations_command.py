"""`shepherd conversations` and `shepherd --continue NAME`, as processes."""

from __future__ import annotations

import json

import pytest

from shepherd.memory import Memory
from shepherd.types import Message
from tests.cli.test_terminal import start


@pytest.fixture
def talks(home) -> dict[str, str]:
    """Ids of three conversations by what they are about, the oldest first; the last one has a title."""
    ids = {}
    seconds = [1_700_000_000.0]
    home.database.parent.mkdir(parents=True)
    with Memory(home.database, user_id="steve", clock=lambda: seconds[0]) as memory:
        for about in ("tomatoes", "cafés", "taxes"):
            seconds[0] += 3600
            ids[about] = memory.start_session(model="tiny")
            for role, text in (("user", f"Tell me about {about}"), ("assistant", f"All of {about}.")):
                memory.append_message(ids[about], Message(role, text))
        memory.rename_session(ids["taxes"], "Tax return 2025")
    return ids


def rows(done) -> list[list[str]]:
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_list_is_latest_first_and_paged(shepherd, talks):
    listed = rows(shepherd("conversations", "list"))
    paged = shepherd("conversations", "list", "--limit", "1", "--offset", "1")

    assert [row[0] for row in listed] == [talks[name][:8] for name in ("taxes", "cafés", "tomatoes")]
    assert [row[2:] for row in listed][::2] == [["2", "Tax return 2025"], ["2", "Tell me about tomatoes"]]
    assert rows(paged) == [listed[1]]
    assert "1 of 3 conversations" in paged.stderr
    assert [one["id"] for one in json.loads(shepherd("conversations", "list", "--json").stdout)] == [
        *reversed(talks.values())
    ]


def test_single_questions_are_listed_with_all_alone_but_found(shepherd, home, talks):
    with Memory(home.database, user_id="steve") as memory:
        alone = memory.start_session(model="tiny", is_one_off=True)
        memory.append_message(alone, Message("user", "Is a tax due on tomatoes?"))

    usual = shepherd("conversations", "list")
    every = shepherd("conversations", "list", "--all")

    assert [row[0] for row in rows(usual)] == [talks[name][:8] for name in ("taxes", "cafés", "tomatoes")]
    assert usual.stderr == "1 single question is not listed; --all lists it, too\n"
    assert [row[0] for row in rows(every)] == [alone[:8], *(row[0] for row in rows(usual))]
    assert every.stderr == ""
    assert [one["id"] for one in json.loads(shepherd("conversations", "list", "--all", "--json").stdout)] == [
        alone,
        *reversed(talks.values()),
    ]
    assert [row[0] for row in rows(shepherd("conversations", "search", "due"))] == [alone[:8]]
    # Its title has the word, too, but a conversation is meant first.
    assert f"conversation {talks['taxes'][:8]}" in shepherd("conversations", "show", "tax").stderr
    assert f"conversation {alone[:8]}" in shepherd("conversations", "show", "tax due").stderr


def test_search_finds_what_was_said_and_titles(shepherd, talks):
    assert rows(shepherd("conversations", "search", "ALL", "of", "cafes"))[0][0] == talks["cafés"][:8]
    assert rows(shepherd("conversations", "search", "return"))[0][0] == talks["taxes"][:8]
    none = shepherd("conversations", "search", "submarine")
    assert (none.returncode, none.stdout, none.stderr) == (0, "", "no conversation contains this text\n")


@pytest.mark.parametrize("name", ["id", "beginning", "tax RETURN 2025", "return"])
def test_a_conversation_is_shown_by_id_and_by_title(shepherd, talks, name):
    name = {"id": talks["taxes"], "beginning": talks["taxes"][:8]}.get(name, name)

    done = shepherd("conversations", "show", name)

    assert done.stdout == "## You\n\nTell me about taxes\n\n## Assistant\n\nAll of taxes.\n"
    assert "Tax return 2025" in done.stderr
    shown = json.loads(shepherd("conversations", "show", name, "--json").stdout)
    assert (shown["id"], [one["role"] for one in shown["messages"]]) == (
        talks["taxes"],
        ["user", "assistant"],
    )


def test_a_title_is_given_and_taken_away(shepherd, talks):
    assert "is now: Garden" in shepherd("conversations", "rename", "tomatoes", " Garden ").stderr
    words = shepherd("conversations", "rename", "garden", "Our", "vegetable", "garden")
    assert "is now: Our vegetable garden" in words.stderr
    assert rows(shepherd("conversations", "list"))[2][3] == "Our vegetable garden"
    assert "is now: Tell me about tomatoes" in shepherd("conversations", "rename", "garden", "").stderr


def test_a_deleted_conversation_is_gone_with_its_title(shepherd, talks, home):
    done = shepherd("conversations", "delete", "tax return 2025", talks["tomatoes"][:8])

    assert done.returncode == 0
    assert [row[0] for row in rows(shepherd("conversations", "list"))] == [talks["cafés"][:8]]
    with Memory(home.database, user_id="steve") as memory:
        assert memory.title_of_session(talks["taxes"]) == ""


def test_a_terminal_is_asked_before_a_conversation_is_deleted(shepherd, talks, home):
    asked = start(home, "conversations", "delete", talks["taxes"], talks["cafés"])
    asked.expect(r'Delete "Tax return 2025", "Tell me about cafés"\? This can\'t be undone. \[y/N\] ')
    asked.type("n")
    asked.expect("nothing was deleted")
    left = len(rows(shepherd("conversations", "list")))
    told = start(home, "conversations", "delete", "-y", talks["taxes"])
    told.expect("deleted")

    assert (asked.end(), left, told.end()) == (1, 3, 0)
    assert len(rows(shepherd("conversations", "list"))) == 2


def test_nothing_is_deleted_by_words_of_a_title_or_beside_a_wrong_name(shepherd, talks):
    by_words = shepherd("conversations", "delete", "return")
    beside = shepherd("conversations", "delete", talks["taxes"], "beef")

    assert (by_words.returncode, beside.returncode) == (1, 1)
    assert "there is no conversation 'return'" in by_words.stderr
    assert "shepherd conversations list" in beside.stderr
    assert len(rows(shepherd("conversations", "list"))) == 3


def test_where_no_title_has_the_words_the_hint_names_where_they_were_said(shepherd, talks):
    done = shepherd("conversations", "show", "all of taxes")

    assert done.returncode == 1
    line = done.stderr.partition("use the id of one:\n")[2].strip()
    assert line.startswith(talks["taxes"][:8])
    assert line.endswith("Tax return 2025")


def test_a_name_of_several_lists_their_ids(shepherd, talks):
    done = shepherd("conversations", "show", "tell me about")

    assert done.returncode == 1
    lines = done.stderr.partition("choose one by its id:\n")[2].splitlines()
    assert len(lines) == 2
    for name, line in zip(("cafés", "tomatoes"), lines, strict=True):
        id_, *_, title = line.strip().split("  ")
        assert (id_, title) == (talks[name][:8], f"Tell me about {name}")
        assert "2 messages" in line


def test_a_list_without_conversations_says_how_to_see_single_questions(shepherd, home):
    home.database.parent.mkdir(parents=True)
    with Memory(home.database, user_id="steve") as memory:
        alone = memory.start_session(model="tiny", is_one_off=True)
        memory.append_message(alone, Message("user", "Is a tax due on tomatoes?"))

    usual = shepherd("conversations", "list")

    assert usual.stdout == ""
    assert usual.stderr == "no conversations except 1 single question; --all lists it\n"


def test_conversations_of_another_user_cannot_be_reached(shepherd, talks):
    for arguments in (["show"], ["delete"]):
        assert shepherd("conversations", *arguments, talks["taxes"], "--user", "mallory").returncode == 1
    assert shepherd("conversations", "list", "--user", "mallory").stderr == "no conversation is stored yet\n"
    assert len(rows(shepherd("conversations", "list"))) == 3


def test_a_named_conversation_is_continued(shepherd, talks, model):
    done = shepherd("-m", model, "--continue", talks["tomatoes"][:8], "-e", "and now?")

    assert done.returncode == 0
    assert rows(shepherd("conversations", "list"))[0][::2] == [talks["tomatoes"][:8], "4"]


def test_a_question_in_quotes_behind_continue_is_no_name(shepherd, talks, model):
    shepherd("-m", model, "--continue", "and what now?")
    by_title = shepherd("-m", model, "--continue=tax return", "what else?")

    assert by_title.returncode == 0
    assert rows(shepherd("conversations", "list"))[0][2:] == ["6", "Tax return 2025"]


def test_words_of_a_title_in_quotes_continue_it_at_a_terminal(talks, model, home):
    continued = start(home, "-m", model, "--continue", "tax return")
    continued.expect("continued after 1 exchange")
    continued.type("/quit")

    assert continued.end() == 0


def test_what_begins_with_an_option_is_no_question(shepherd, talks, model):
    done = shepherd("--continue=tax return", "-m", model, "-e", "what else?")

    assert done.returncode == 0, done.stderr
    assert rows(shepherd("conversations", "list"))[0][2:] == ["4", "Tax return 2025"]


def test_a_conversation_that_is_not_there_is_an_error_before_a_model_is_looked_for(shepherd, talks):
    done = shepherd("-m", "nowhere.gguf", "--continue", "tomato-soup", "-e", "hi")

    assert done.returncode == 1
    assert "there is no conversation 'tomato-soup'" in done.stderr
    assert "shepherd conversations list" in done.stderr


def test_a_search_that_finds_nothing_prints_no_header(shepherd, talks, home):
    asked = start(home, "conversations", "search", "zeppelin")

    shown = asked.expect("no conversation contains this text")
    assert "last message" not in shown
    assert asked.end() == 0

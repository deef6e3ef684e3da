"""Conversations are kept for --continue: raw, sent, injected and token ids come back as they were."""

from __future__ import annotations

import pytest

from shepherd.errors import ConflictError, UsageError
from shepherd.memory import Claim, Memory, OpenJob, Turn
from shepherd.types import Fact, Injection, Message, SearchResult, ToolCall
from tests.memory.conftest import NOW

INJECTION = Injection(
    "\n\n[facts: name=Steve]",
    (Fact("name", "Steve", 1, 2),),
    (SearchResult(7, "q", "a\udcff", 3, 1.5, 0.7, 0.25, True, "turn"),),
    ("name",),
    12.5,
)


def test_messages_come_back_as_they_were(memory: Memory) -> None:
    session = memory.start_session(model="tiny")
    sent = [
        Message("system", "Be brief."),
        Message("user", "hi", "hi\n\n[facts: name=Steve]", INJECTION, tokens=12),
        Message("user", "hi", "Say hi.\n\n[facts: name=Steve]", INJECTION, composed="Say hi."),
        Message("user", "", injected=Injection(), composed="Nothing was typed."),
        Message("assistant", "Hello \x00 there", token_ids=(0, 1, 2**31 - 1), tokens=3),
        Message("assistant", "", tool_calls=(ToolCall("a", "f", "{}"), ToolCall("b", "f", "", '{"x":1}'))),
    ]

    for message in sent:
        message.id = memory.append_message(session, message)

    assert memory.load_session(session) == sent
    assert memory.load_session() == sent


def test_undecodable_text_of_a_message_is_replaced(memory: Memory) -> None:
    session = memory.start_session()
    memory.append_message(session, Message("user", "caf\udce9"))

    [message] = memory.load_session(session)

    assert (message.raw, message.sent) == ("caf\ufffd", "caf\ufffd")


def test_of_one_second_the_session_with_the_latest_message_is_the_latest(memory: Memory) -> None:
    sessions = [memory.start_session() for _ in range(3)]
    for session in (sessions[1], sessions[2], sessions[0]):
        memory.append_message(session, Message("user", f"hello from {session}"))
    latest = [sessions[0], sessions[2], sessions[1]]

    assert [found.id for found in memory.list_sessions()] == latest
    assert [found.id for found in memory.list_sessions(words="hello")] == latest
    assert [message.raw for message in memory.load_session()] == [f"hello from {sessions[0]}"]


def test_questions_asked_alone_can_be_left_out_of_the_list(memory: Memory) -> None:
    talk, named = memory.start_session(), memory.start_session(name="work")
    alone = memory.start_session(is_one_off=True)
    for session in (talk, named, alone):
        memory.append_message(session, Message("user", "hi"))

    assert [found.id for found in memory.list_sessions()] == [alone, named, talk]
    assert [found.id for found in memory.list_sessions(one_offs=False)] == [named, talk]

    memory.claim("steve", "anna")

    assert [found.id for found in memory.list_sessions("anna", one_offs=False)] == [named, talk]

    memory.rename_session(alone, "Named later", "anna")

    assert [found.id for found in memory.list_sessions("anna", one_offs=False)] == [alone, named, talk]


def test_a_question_asked_alone_is_a_conversation_once_it_was_continued(memory: Memory) -> None:
    alone = memory.start_session(is_one_off=True)
    for role in ("user", "assistant"):
        memory.append_message(alone, Message(role, "about boats"))

    assert memory.list_sessions(one_offs=False) == memory.list_sessions(one_offs=False, words="boat") == []
    assert [memory.count_sessions(one_offs=one_offs) for one_offs in (True, False)] == [1, 0]
    assert [memory.count_sessions(one_offs=one_offs, words="boat") for one_offs in (True, False)] == [1, 0]

    memory.append_message(alone, Message("user", "and ships?"))

    assert [found.id for found in memory.list_sessions(one_offs=False)] == [alone]
    assert memory.count_sessions(one_offs=False) == memory.count_sessions(one_offs=False, words="boat") == 1


def test_titles_show_no_secrets_and_are_found_by_them(memory: Memory) -> None:
    token = "ghp_" + "x9Qm2LkT7vRb4WnZ8sYc1HdJ6pFg3EaUoI5t"
    for text in ("My door code is 4711.", f"{'word ' * 35}so use this: {token} and no other"):
        memory.append_message(memory.start_session(), Message("user", text))
    long, short = memory.list_sessions()

    assert short.title == memory.title_of_session(short.id) == "My door code is \u2022\u2022\u2022\u2022."
    assert "ghp" not in long.title
    assert len(long.title) == 200
    assert [found.id for found in memory.list_sessions(words="4711")] == [short.id]
    memory.rename_session(short.id, "Code 4711 of the door")
    assert "4711" not in memory.list_sessions(words="4711")[0].title


def test_latest_session_is_the_one_last_written_to(database: str) -> None:
    now = [100.0]
    with Memory(database, clock=lambda: now[0]) as memory:
        first, second = memory.start_session(), memory.start_session()
        memory.append_message(second, Message("user", "second"))
        now[0] = 200
        memory.append_message(first, Message("user", "first"))
        memory.start_session()  # empty: nothing to continue

        assert [message.raw for message in memory.load_session()] == ["first"]
        assert [session.id for session in memory.list_sessions()] == [first, second]
        assert memory.list_sessions()[0].n_messages == 1
        assert [session.id for session in memory.list_sessions(limit=1, offset=1)] == [second]
        assert (memory.count_sessions(), memory.count_sessions("nobody")) == (2, 0)


def test_last_turn_can_be_taken_back(memory: Memory) -> None:
    session = memory.start_session()
    for role, text in [("user", "1"), ("assistant", "2"), ("user", "3"), ("assistant", "4")]:
        memory.append_message(session, Message(role, text))  # type: ignore[arg-type]

    assert memory.delete_last_turn(session) == 2
    assert [message.raw for message in memory.load_session(session)] == ["1", "2"]
    assert memory.delete_last_turn(session) == 2
    assert memory.delete_last_turn(session) == 0


def test_cleared_session_is_empty_and_usable(memory: Memory) -> None:
    session = memory.start_session()
    memory.append_message(session, Message("user", "1"))
    memory.rename_session(session, "A title")

    assert memory.clear_session(session) == 1

    assert memory.load_session(session) == []
    memory.append_message(session, Message("user", "2"))
    assert memory.title_of_session(session) == "2"
    assert [message.raw for message in memory.load_session(session)] == ["2"]


def test_session_of_another_user_does_not_exist(memory: Memory) -> None:
    session = memory.start_session()
    memory.append_message(session, Message("user", "secret"))

    assert memory.load_session(session, "anna") == []
    assert memory.load_session(None, "anna") == []
    for forbidden in (
        lambda: memory.append_message(session, Message("user", "x"), "anna"),
        lambda: memory.delete_last_turn(session, "anna"),
        lambda: memory.clear_session(session, "anna"),
        lambda: memory.append_message("no such", Message("user", "x")),
    ):
        with pytest.raises(UsageError, match="no session"):
            forbidden()
    assert len(memory.load_session(session)) == 1


def said_in(memory, *texts: str) -> str:
    session = memory.start_session()
    for text in texts:
        memory.append_message(session, Message("user", text))
        memory.append_message(session, Message("assistant", f"about {text}"))
    return session


def test_conversations_are_found_by_what_was_said_in_them(memory):
    first = said_in(memory, "Prune the Tomatoes", "100% of them?")
    second = said_in(memory, "Merge two lists", "a_b")
    memory.append_message(second, Message("tool", "tomatoes everywhere"))

    def found(words: str) -> list[str]:
        sessions = memory.list_sessions(words=words)
        assert len(sessions) == memory.count_sessions(words=words)
        return [session.id for session in sessions]

    assert found("tomatoes") == [first]
    assert found("about merge") == [second]
    assert found("100%") == [first]
    assert found("a_b") == [second]
    assert found("a%b") == found("axb") == found("!") == []
    assert sorted(found("")) == sorted([first, second])
    assert memory.list_sessions("other", words="tomatoes") == []


def test_the_title_of_a_conversation_is_the_beginning_of_its_first_question(memory):
    said_in(memory, "x" * 300, "later")

    assert memory.list_sessions()[0].title == "x" * 200


def test_a_message_is_deleted_with_all_after_it(memory):
    session = said_in(memory, "one", "two", "three")

    assert memory.delete_messages(session, 3) == 4
    assert [message.raw for message in memory.load_session(session)] == ["one", "about one"]
    assert memory.delete_messages(session, 3) == 0
    assert memory.delete_messages(session, 1) == 2


def test_a_search_folds_case_and_accents_in_any_script_and_reads_many_conversations(memory: Memory) -> None:
    told = [
        "Der Weg zur ÉCOLE",
        "Straße nach Ærø",
        "ПРИВЕТ",
        "100% of_it!",
        *(f"number {n}" for n in range(70)),
    ]
    for text in told:
        memory.append_message(memory.start_session(), Message("user", text))

    def found(words: str, **window: int) -> list[str]:
        return [session.title for session in memory.list_sessions(words=words, **window)]

    assert found("ecole") == found("école") == [told[0]]
    assert found("STRASSE") == [told[1]]
    assert found("привет") == [told[2]]
    assert found("0% of_") == [told[3]]
    assert found("100_") == []
    assert found("number", limit=2, offset=68) == ["number 1", "number 0"]
    assert memory.count_sessions(words="NUMBER") == 70
    assert [session.title for session in memory.list_sessions(limit=100)] == told[::-1]


def test_a_title_stays_until_it_is_taken_away(memory: Memory) -> None:
    session = memory.start_session()
    memory.append_message(session, Message("user", "Hello"))

    memory.rename_session(session, "Greetings")
    memory.append_message(session, Message("user", "Again"))
    named = memory.list_sessions()[0].title, memory.title_of_session(session)
    memory.rename_session(session, " ")

    assert named == ("Greetings", "Greetings")
    assert memory.title_of_session(session) == "Hello"
    assert memory.title_of_session(session, "anna") == ""
    with pytest.raises(UsageError):
        memory.rename_session(session, "Mine", "anna")


@pytest.mark.parametrize(
    "delete",
    [
        lambda memory, session: memory.clear_session(session),
        lambda memory, session: memory.delete_messages(session, 1),
        lambda memory, session: memory.delete_user(),
    ],
    ids=["conversation", "messages", "user"],
)
def test_nothing_is_added_to_what_was_deleted_since_the_mark(memory: Memory, delete) -> None:
    session = memory.start_session()
    memory.append_message(session, Message("user", "One"))
    mark = memory.mark_session(session)
    memory.append_message(session, Message("assistant", "1"), mark=mark)
    delete(memory, session)

    with pytest.raises(ConflictError, match="deleted meanwhile"):
        memory.append_message(session, Message("user", "Two"), mark=mark)
    assert memory.list_sessions() == []


def test_no_conversation_of_a_user_who_had_only_facts_begins_after_everything_was_deleted(
    memory: Memory,
) -> None:
    memory.set_fact("name", "Steve")
    mark = memory.mark_session()
    memory.delete_user()

    with pytest.raises(ConflictError, match="deleted meanwhile"):
        memory.start_session(mark=mark)


def test_messages_behind_the_last_one_that_is_known_are_not_deleted(memory: Memory) -> None:
    session = memory.start_session()
    for text in ("One", "1", "Two"):
        memory.append_message(session, Message("user", text))

    with pytest.raises(ConflictError):
        memory.delete_messages(session, 1, last_known=2)
    assert len(memory.load_session(session)) == 3
    assert memory.delete_messages(session, 3, last_known=3) == 1


def test_another_answer_replaces_what_follows_a_message_and_its_tail(memory: Memory) -> None:
    told = "My cat is Tom, and he sleeps behind the oven."
    session = memory.start_session()
    memory.append_message(session, Message("user", "Hi"))
    said = memory.append_message(session, Message("user", told), job=OpenJob("me", 1))
    memory.append_message(session, Message("assistant", "Nice."))
    kept = memory.archive_turn(Turn(told, "Nice.", int(NOW), session))
    job = memory.extraction.claim("me", "steve")
    assert job is not None
    memory.extraction.finish(job, [Claim("cat", "Tom", told, 0)], [])
    mark = memory.mark_session(session, answered=said)
    seen = Message("user", told, told + INJECTION.tail, INJECTION, tokens=9)

    [again] = memory.answer_again(
        session,
        seen,
        [Message("assistant", "A cat!")],
        mark=mark,
        turn=Turn(told, "A cat!", int(NOW), session),
    )

    _, asked, answer = memory.load_session(session)
    assert (asked.id, asked.sent, asked.injected, asked.tokens) == (said, seen.sent, INJECTION, 9)
    assert (answer.id, answer.raw) == (again, "A cat!")
    assert [(one.id, one.question, one.answer) for one in memory.list_memories()] == [(kept, told, "A cat!")]
    assert [(fact.key, fact.value) for fact in memory.get_all_facts()] == [("cat", "Tom")]
    assert memory.check().problems == ()
    memory.append_message(session, Message("user", "Bye"))
    assert memory.answer_again(session, None, [Message("assistant", "Late")], mark=mark) is None
    assert memory.mark_session(session, answered=said).last_message == 0
    memory.clear_session(session)
    with pytest.raises(ConflictError, match="deleted meanwhile"):
        memory.answer_again(session, None, [Message("assistant", "Late")], mark=mark)


def test_a_mark_tells_nothing_of_a_conversation_of_another_user(memory: Memory) -> None:
    session = memory.start_session()
    said = memory.append_message(session, Message("user", "Hi"))

    assert memory.mark_session(session).last_message == said
    assert memory.mark_session(session, "mallory").last_message == 0
    assert memory.mark_session(session, "mallory", answered=said).last_message == 0


# The answer was broken off; it holds a secret.
@pytest.mark.parametrize("answer", [None, "Your key is sk-proj-abcdEFGH1234567890abcdEFGH1234567890abcd"])
def test_after_an_answer_that_is_not_remembered_the_memory_still_belongs_to_its_turn(
    memory: Memory, answer: str | None
) -> None:
    told = "I bought a red bicycle in Rome."
    session = memory.start_session()
    said = memory.append_message(session, Message("user", told))
    memory.append_message(session, Message("assistant", "Great!"))
    memory.archive_turn(Turn(told, "Great!", int(NOW), session))
    mark = memory.mark_session(session, answered=said)

    def remembered_after(answer: str | None) -> list[str]:
        turn = None if answer is None else Turn(told, answer, int(NOW), session)
        memory.answer_again(session, None, [Message("assistant", answer or "Well")], mark=mark, turn=turn)
        return [f"{one.question} {one.answer}" for one in memory.list_memories()]

    assert remembered_after(answer) == [f"{told} "]
    assert remembered_after("A bicycle!") == [f"{told} A bicycle!"]
    assert remembered_after(answer) == [f"{told} "]
    assert memory.delete_last_turn(session) == 2
    assert memory.list_memories() == []

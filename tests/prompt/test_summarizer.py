"""The text that the model of summaries is given."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest

from shepherd.errors import ModelError, UsageError
from shepherd.prompt.summary import SUMMARY_PROMPT, Summarizer, SummaryJob
from shepherd.types import Message

MAX_TOKENS = 20


class Reply(list[str]):
    """A whole answer."""

    text = "They met."

    def __enter__(self) -> Reply:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def cancel(self) -> None:
        """Do nothing: it has ended."""


class Reader:
    """A model whose tokens are characters, and that keeps what it was given to read."""

    def __init__(self, window_tokens: int) -> None:
        self.window_tokens = window_tokens
        self.read: list[str] = []
        self.longest_prompt = 0

    def count_tokens(self, text: str) -> int:
        return len(text)

    def generate(self, messages: Sequence[Message], **_: object) -> Reply:
        self.longest_prompt = max(self.longest_prompt, sum(len(message.sent) for message in messages))
        self.read.append(messages[-1].sent.partition("\n\n")[2])
        return Reply()


def read(turns: Sequence[str], window_tokens: int) -> list[str]:
    """Return the texts that the model reads for a summary of these turns, which has room beside each."""
    model = Reader(window_tokens)
    with closing(Summarizer(lambda: model, max_tokens=MAX_TOKENS)) as summarizer:
        assert summarizer.begin(turns).wait(10)
    assert model.longest_prompt + MAX_TOKENS <= window_tokens
    return model.read


def windows() -> Iterator[int]:
    least = len(SUMMARY_PROMPT) + MAX_TOKENS
    return iter(range(least + 200, least + 600))


def test_a_turn_is_read_whole_from_the_window_on_in_which_two_of_its_size_are_read_together() -> None:
    """Nothing is cut that has room, and nothing is read apart that has room together."""
    turn = "x" * 300
    two = ["y" * 149, "z" * 149]

    whole = next(window for window in windows() if read([turn], window) == [turn])
    together = next(window for window in windows() if read(two, window) == ["\n\n".join(two)])

    assert whole == together
    assert read(two, together - 1) == two


@pytest.mark.parametrize("spare", [1, 50, 100])
def test_a_turn_without_room_is_cut_in_its_middle(spare: int) -> None:
    turn = "a" * 150 + "b" * 150
    window = next(window for window in windows() if read([turn], window) == [turn]) - spare

    [cut] = read([turn], window)

    assert (300 - spare) // 2 < len(cut) <= 300 - spare
    assert cut.startswith("aaa")
    assert cut.endswith("bbb")
    assert " … " in cut


def test_lines_are_summarized_at_once_and_a_model_that_fails_is_told() -> None:
    model = Reader(2000)
    with closing(Summarizer(lambda: model, max_tokens=MAX_TOKENS)) as summarizer:
        assert summarizer.summarize("User: hi\nAssistant: hello", 10) == "They met."
        assert summarizer.summarize("x" * 4000, 10).startswith("They met.")
    assert model.read[0] == "User: hi\n\nAssistant: hello"

    def fail() -> Reader:
        raise UsageError("there is no such model")

    with (
        closing(Summarizer(fail, max_tokens=MAX_TOKENS)) as summarizer,
        pytest.raises(ModelError, match="the summary failed: there is no such model"),
    ):
        summarizer.summarize("User: hi", 10)


@pytest.mark.parametrize(
    ("pieces", "error", "found"),
    [
        (["a", "", "b"], None, (("a", "b"), "")),
        ([""], None, ((), "the model said nothing")),
        ([], None, ((), "the model said nothing")),
        ([], UsageError("too long"), ((), "too long")),
        ([], ZeroDivisionError("a user's text"), ((), "ZeroDivisionError")),
    ],
)
def test_a_job_ends_with_pieces_or_the_reason(pieces, error, found) -> None:
    def work(_: SummaryJob) -> list[str]:
        if error is not None:
            raise error
        return pieces

    job = SummaryJob(work)

    assert job.wait(10)
    assert ((job.pieces, job.error), job.is_done, job.is_cancelled) == (found, True, False)


def test_a_cancelled_job_stops_its_answer_and_has_no_result() -> None:
    has_begun, may_end = threading.Event(), threading.Event()
    cancelled: list[str] = []

    def work(job: SummaryJob) -> list[str]:
        job.attach(lambda: cancelled.append("during"))
        has_begun.set()
        may_end.wait(10)
        job.attach(None)
        job.attach(lambda: cancelled.append("later"))
        return ["a"]

    job = SummaryJob(work)
    assert has_begun.wait(10)
    assert not job.wait(0)
    assert not job.is_cancelled
    job.cancel()
    assert (job.is_cancelled, cancelled) == (True, ["during"])
    may_end.set()

    assert job.wait(10)
    assert (job.pieces, cancelled) == ((), ["during", "later"])


class Slow(Reader):
    """A model whose answers wait until they are cancelled, and that notes when it is closed."""

    def __init__(self) -> None:
        super().__init__(100_000)
        self.begun, self.cancelled, self.is_closed = threading.Event(), threading.Event(), False

    def generate(self, messages: Sequence[Message], **_: object) -> Reply:
        slow = self

        class SlowReply(Reply):
            def __iter__(self) -> Iterator[str]:
                slow.begun.set()
                assert slow.cancelled.wait(30)
                return iter(())

            def cancel(self) -> None:
                slow.cancelled.set()

        return SlowReply()

    def close(self) -> None:
        self.is_closed = True


def test_a_released_summarizer_ends_its_summary_and_opens_the_model_again() -> None:
    opened: list[Slow] = []

    def open_model() -> Slow:
        opened.append(Slow())
        return opened[-1]

    with closing(Summarizer(open_model, max_tokens=MAX_TOKENS, queues=True)) as summarizer:
        job = summarizer.begin(["User: I sail."])
        while not opened:
            pass
        assert opened[0].begun.wait(30)
        summarizer.release()
        assert job.wait(30)
        summarizer.begin(["User: I sail."])
        while len(opened) < 2:
            pass

    assert (job.pieces, opened[0].is_closed, len(opened)) == ((), True, 2)

"""The byte stream between the engine thread and its reader: UTF-8, stop strings, ids."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd._native import engine as native


def write(pieces: list[bytes], stops: tuple[str, ...] = ()) -> tuple[list[str], bool]:
    """What the reader gets after each piece and at the end, and whether a stop string was met."""
    stream = native.Stream([stop.encode() for stop in stops])
    seen = []
    stopped = False
    for i, piece in enumerate(pieces):
        stopped = not native.feed_stream(stream, i, piece)
        seen.append((stream.read(0) or b"").decode("utf-8"))
        if stopped:
            break
    native.end_stream(stream)
    seen.append((stream.read(0) or b"").decode("utf-8"))
    assert stream.read(0) is None
    return seen, stopped


def test_character_waits_for_its_last_byte() -> None:
    seen, _ = write([b"a\xf0\x9f", b"\x98", b"\x80b"])

    assert seen == ["a", "", "\U0001f600b", ""]


def test_invalid_byte_becomes_a_replacement_and_the_stream_goes_on() -> None:
    seen, _ = write([b"a\xff", b"\xe2\x82", b"b"])

    assert "".join(seen) == "a\ufffd\ufffdb"


def test_character_cut_off_by_the_end_becomes_a_replacement() -> None:
    seen, _ = write([b"a", b"\xe2\x82"])

    assert seen == ["a", "", "\ufffd"]


@given(st.lists(st.binary(max_size=6), max_size=12))
def test_bytes_decode_as_python_decodes_them(pieces: list[bytes]) -> None:
    seen, _ = write(pieces)

    assert "".join(seen) == b"".join(pieces).decode("utf-8", "replace")


def test_beginning_of_a_stop_string_is_held_back_until_it_cannot_be_one() -> None:
    seen, stopped = write([b"one\n", b"Us", b"ed up"], stops=("\nUser:",))

    assert seen == ["one", "", "\nUsed up", ""]
    assert not stopped


def test_stop_string_across_token_borders_ends_the_text_before_it() -> None:
    seen, stopped = write([b"one\n", b"Us", b"er: two"], stops=("\nUser:",))

    assert "".join(seen) == "one"
    assert stopped


def test_held_back_text_comes_at_the_end() -> None:
    seen, stopped = write([b"one\nUser"], stops=("\nUser:",))

    assert seen == ["one", "\nUser"]
    assert not stopped


def test_longer_of_two_stop_strings_that_end_together_counts() -> None:
    seen, stopped = write([b"say END now END"], stops=("END", "now END"))

    assert "".join(seen) == "say "
    assert stopped


def test_stop_string_of_repeated_parts_is_found() -> None:
    # A matcher that starts over at a mismatch misses this one.
    seen, stopped = write([b"a", b"a", b"b", b"a", b"a", b"a", b"b", b"c"], stops=("aabaab",))

    assert not stopped
    assert "".join(seen) == "aabaaabc"
    assert write([b"aabaabaac"], stops=("aabaac",))[1]


@given(
    st.lists(st.text(alphabet="ab\u00e9", max_size=3), max_size=12),
    st.lists(st.text(alphabet="ab\u00e9", min_size=1, max_size=4), max_size=3),
)
def test_stop_strings_cut_where_a_search_of_the_whole_text_does(pieces: list[str], stops: list[str]) -> None:
    seen, stopped = write([piece.encode() for piece in pieces], tuple(stops))

    text = "".join(pieces)
    # The first end of any stop string; of those that end there, the longest.
    ends = [(i, -len(s)) for i in range(len(text) + 1) for s in stops if text[:i].endswith(s)]
    expected = text if not ends else text[: min(ends)[0] + min(ends)[1]]
    assert stopped == bool(ends)
    assert "".join(seen) == expected


def test_ids_know_where_their_bytes_end() -> None:
    stream = native.Stream([b"stop"])
    for token, piece in [(7, b"ab"), (8, b""), (9, b"\xc3"), (10, b"\xa9c"), (11, b"xst"), (12, b"op and")]:
        native.feed_stream(stream, token, piece)
    native.end_stream(stream)

    text = stream.read(0)
    ends = dict(stream.tokens())

    assert text == "abécx".encode()
    assert [ends[i] for i in (7, 8, 9, 10)] == [2, 2, 3, 5]
    assert ends[11] > len(text)
    assert ends[12] > len(text)


def test_tokens_come_one_by_one_behind_their_text() -> None:
    stream = native.Stream([b"stop"])
    for token, piece in [(7, b"ab"), (8, b""), (9, b"\xc3")]:
        native.feed_stream(stream, token, piece)

    assert stream.token(0) is None
    assert stream.read(0) == b"ab"
    assert [stream.token(i) for i in range(3)] == [(7, 2), (8, 2), None]
    native.feed_stream(stream, 10, b"\xa9st")
    assert stream.read(0) == "é".encode()
    assert [stream.token(i) for i in range(2, 5)] == [(9, 3), None, None]
    native.feed_stream(stream, 11, b"op")
    native.end_stream(stream)
    stream.read(0)
    assert [stream.token(i) for i in (3, 4, 1 << 40)] == [None, None, None]


def test_tokens_of_a_running_stream_are_refused() -> None:
    with pytest.raises(RuntimeError, match="not ended"):
        native.Stream().tokens()


def test_read_of_an_idle_stream_times_out_empty() -> None:
    assert native.Stream().read(1) == b""


@pytest.mark.parametrize(
    ("pieces", "which"),
    [([b"say END"], 0), ([b"say now", b" END"], 1), ([b"say EN"], -1), ([b"a", b"b"], -1)],
)
def test_stream_knows_which_stop_string_ended_it(pieces: list[bytes], which: int) -> None:
    stream = native.Stream([b"END", b"now END"])

    for i, piece in enumerate(pieces):
        native.feed_stream(stream, i, piece)
    native.end_stream(stream)

    assert stream.stopped_by == which


@pytest.fixture
def bell() -> Iterator[tuple[int, int]]:
    """A pipe's two ends, of which the first gives nothing where nothing is."""
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    yield ends
    for end in ends:
        os.close(end)


def rings(bell: tuple[int, int]) -> bytes:
    try:
        return os.read(bell[0], 100)
    except BlockingIOError:
        return b""


@pytest.mark.skipif(os.name != "posix", reason="a pipe is no file for an event loop there")
def test_bell_rings_for_a_reader_that_found_nothing_and_at_the_end(bell: tuple[int, int]) -> None:
    stream = native.Stream()
    assert stream.notify(bell[1])
    assert rings(bell) == b""

    native.feed_stream(stream, 1, b"a")
    native.feed_stream(stream, 2, b"b")
    assert rings(bell) == b"\0"
    assert stream.read(0) == b"ab"
    # It has found something, and looks again by itself.
    native.feed_stream(stream, 3, b"c")
    assert rings(bell) == b""
    assert stream.read(0) == b"c"
    assert stream.read(0) == b""
    native.feed_stream(stream, 4, b"d")
    assert rings(bell) == b"\0"
    native.end_stream(stream)
    assert rings(bell) == b"\1"


@pytest.mark.skipif(os.name != "posix", reason="a pipe is no file for an event loop there")
def test_bell_rings_at_once_for_what_came_before_it(bell: tuple[int, int]) -> None:
    stream = native.Stream()
    native.feed_stream(stream, 1, b"a")
    assert stream.notify(bell[1])

    assert rings(bell) == b"\0"


@pytest.mark.skipif(os.name != "posix", reason="a pipe is no file for an event loop there")
def test_bell_does_not_ring_for_what_a_stop_string_holds_back(bell: tuple[int, int]) -> None:
    stream = native.Stream([b"\nUser:"])
    assert stream.notify(bell[1])

    native.feed_stream(stream, 1, b"\nUs")
    assert rings(bell) == b""
    native.feed_stream(stream, 2, b"ed up")
    assert rings(bell) == b"\0"

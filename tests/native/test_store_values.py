"""Values of a connection: what goes in comes back, or is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd._native.store import Connection


@pytest.mark.parametrize(
    "value",
    [
        None,
        0,
        -1,
        2**63 - 1,
        -(2**63),
        0.0,
        1.5,
        float("inf"),
        "",
        "text",
        "a\0b",
        "\0",
        "é 漢 🐑",
        b"",
        b"\0\xff",
    ],
)
def test_value_comes_back_as_it_went_in(connection: Connection, value: object) -> None:
    connection.execute("INSERT INTO t (b) VALUES (?)", (value,))

    [(found,)] = connection.execute("SELECT b FROM t")

    assert found == value
    assert type(found) is type(value)


@given(
    st.lists(
        st.none()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False)
        | st.text(st.characters(exclude_categories=["Cs"]))
        | st.binary(),
        max_size=40,
    )
)
def test_any_row_of_values_comes_back(values: list[object]) -> None:
    with Connection(":memory:") as connection:
        [row] = connection.execute("SELECT 'x', " + ", ".join(["?"] * len(values) or ["'none'"]), values)

    assert row == ("x", *(values or ["none"]))


def test_booleans_are_stored_as_integers(connection: Connection) -> None:
    assert connection.execute("SELECT ?, ?", (True, False)) == [(1, 0)]


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (2**63, OverflowError, "64 bits"),
        (-(2**63) - 1, OverflowError, "64 bits"),
        (float("nan"), ValueError, "NaN"),
        ("se\ud800cret", ValueError, "lone surrogate"),
        ({"se": "cret"}, TypeError, "dict"),
        (bytearray(b"secret"), TypeError, "bytearray"),
    ],
)
def test_value_that_cannot_be_stored_is_refused_by_position(
    connection: Connection, value: object, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        connection.execute("SELECT ?, ?", (1, value))  # type: ignore[list-item]

    assert str(caught.value).startswith("parameter 2: ")
    assert "cret" not in str(caught.value)
    assert caught.value.__context__ is None
    assert connection.execute("SELECT ?, ?", (1, 2)) == [(1, 2)]


def test_text_that_is_not_utf8_comes_back_with_replacement_characters(connection: Connection) -> None:
    assert connection.execute("SELECT CAST(x'61ff62' AS TEXT)") == [("a\ufffdb",)]


def test_result_larger_than_one_batch_is_complete(connection: Connection) -> None:
    connection.execute_many("INSERT INTO t VALUES (?, ?)", ((i, "x" * 100) for i in range(50_000)))

    rows = connection.execute("SELECT a, b FROM t ORDER BY a")

    assert rows == [(i, "x" * 100) for i in range(50_000)]


def test_value_larger_than_one_batch_is_complete(connection: Connection) -> None:
    big = "é" * 3_000_000

    assert connection.execute("SELECT ?, ?", (big, big.encode())) == [(big, big.encode())]

"""Thoughts at the beginning of a plain answer are told apart wherever the pieces are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.replies import ReplyParser
from shepherd.types import Thought


def split(pieces: list[str]) -> tuple[str, str]:
    """All thoughts, and all of the answer, of a model whose template is not known."""
    parser = ReplyParser("")
    parts = [event.piece for piece in pieces for event in parser.feed(piece)]
    parts += [event.piece for event in parser.end()]
    thoughts = "".join(part.text for part in parts if isinstance(part, Thought))
    return thoughts, "".join(part for part in parts if isinstance(part, str))


@pytest.mark.parametrize(
    ("whole", "thoughts", "text"),
    [
        ("<think>a</think>\n\nb", "a", "b"),
        ("\n <think>a</think>b", "a", "b"),
        ("plain <think>no</think>", "", "plain <think>no</think>"),
        ("<think>never ends", "never ends", ""),
        ("<thin", "", "<thin"),
        ("< 5", "", "< 5"),
        ("<think>a</thi", "a</thi", ""),
        ("<think></think>", "", ""),
        ("  indented", "", "  indented"),
        ('<tool_call>{"name": "add", "arguments": {}}</tool_call>', "",
         '<tool_call>{"name": "add", "arguments": {}}</tool_call>'),
        ("", "", ""),
    ],
)  # fmt: skip
def test_only_a_block_at_the_beginning_is_a_thought(whole, thoughts, text):
    assert split([whole]) == (thoughts, text)
    assert split(list(whole)) == (thoughts, text)


@given(st.text(alphabet="<think/>a \n", max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_where_the_pieces_are_cut_makes_no_difference(whole, cuts):
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[a:b] for a, b in pairwise(edges)]

    assert split(pieces) == split([whole])

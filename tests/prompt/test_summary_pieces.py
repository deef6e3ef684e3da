"""Summaries of several pieces: how they grow, what leaves first, and which are private."""

from __future__ import annotations

from shepherd.prompt.summary import NO_SUMMARY, Summary, labelled, turns_left_out, unlabelled


def always(_: str) -> bool:
    return True


def test_a_summary_grows_by_pieces_and_counts_their_turns() -> None:
    first = NO_SUMMARY.with_pieces([" They  met. ", ""], 2, fits=always)
    both = first.with_pieces(["[Conversation summary: They talked."], 3, fits=always)

    assert first == Summary(("They met.",), 2)
    assert both == Summary(("They met.", "They talked."), 5)
    assert both.text == labelled("They met. They talked.") == "[Conversation summary: They met. They talked.]"
    assert unlabelled(both.text) == "They met. They talked."
    assert NO_SUMMARY.text == ""


def test_the_oldest_pieces_leave_until_the_rest_fits() -> None:
    old = Summary(("one", "two"), 2)

    grown = old.with_pieces(["three"], 1, fits=lambda text: "one" not in text)
    last = old.with_pieces(["three"], 1, fits=lambda text: False)

    assert (grown.pieces, grown.n_turns) == (("two", "three"), 3)
    assert last.pieces == ("three",)


def test_of_the_oldest_piece_as_many_sentences_stay_as_fit() -> None:
    for old, new, kept in (
        (
            "Anna is 34. She lives in Ulm. Rex is her dog.",
            "They talked.",
            "She lives in Ulm. Rex is her dog.",
        ),
        (
            "健太は大阪に住んでいます。娘は美咲です。犬はレックスです。",
            "話しました。",
            "娘は美咲です。犬はレックスです。",
        ),
    ):
        longest = len(labelled(f"{kept} {new}"))
        summary = Summary((old,), 2)

        grown = summary.with_pieces([new], 1, fits=lambda text, longest=longest: len(text) <= longest)

        assert grown.pieces == (kept, new)


def test_what_is_left_of_a_private_piece_is_private() -> None:
    private = NO_SUMMARY.with_pieces(["Anna is 34. She lives in Ulm."], 1, fits=always, is_private=True)
    grown = private.with_pieces(["They talked."], 1, fits=lambda text: "34" not in text)

    assert grown.pieces == ("She lives in Ulm.", "They talked.")
    assert grown.public.pieces == ("They talked.",)


def test_private_pieces_are_in_the_text_and_not_in_what_is_stored() -> None:
    open_ = NO_SUMMARY.with_pieces(["one"], 1, fits=always)
    private = open_.with_pieces(["two"], 1, fits=always, is_private=True)
    later = private.with_pieces(["three"], 1, fits=always)
    without = later.with_pieces(["four"], 1, fits=lambda text: "two" not in text)

    assert private.text == labelled("one two")
    assert private.private == later.private == frozenset({"two"})
    assert later.public == Summary(("one", "three"), 3)
    assert without.private == frozenset()


def test_turns_without_a_summary_are_counted() -> None:
    assert turns_left_out(1) == "1 earlier turn is left out"
    assert turns_left_out(3, after="So far.") == "So far. 3 later turns are left out"

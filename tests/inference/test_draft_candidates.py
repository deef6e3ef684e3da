"""Drafts without a model: what is likely next, against a slow twin, and how much of it is worth a batch."""

from __future__ import annotations

import ctypes
import math
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd._native import engine as native
from shepherd.inference import schema_to_grammar
from shepherd.inference.binding import llama
from tests.examples import examples

MOST_STEPS, MOST_COMPARED, LONG_RUN, MOST_CHANGED, MOST_SKIPPED = 32, 64, 8, 16, 24


@pytest.fixture(scope="module")
def vocabulary(plain_model: Path) -> Iterator[int]:
    """The address of a vocabulary of 401 tokens, of which 398 ends an answer."""
    c = llama()
    parameters = c.llama_model_default_params()
    parameters.vocab_only = True
    model = c.llama_model_load_from_file(str(plain_model).encode(), parameters)
    yield int(c.llama_model_get_vocab(model))
    c.llama_model_free(model)


@dataclass
class Twin:
    """The same by comparing everything with everything."""

    own: list[int]
    earlier: list[int]
    place: tuple[list[int], int] | None = None
    n_matched: int = 1
    # A long run that was left: where, how long it was, and how many tokens ago.
    lost: tuple[list[int], int] | None = None
    lost_matched: int = 0
    n_lost: int = 0

    def __post_init__(self) -> None:
        self._find()

    def take(self, token: int) -> None:
        place, n_matched = self.place, self.n_matched
        is_right = place is not None and place[0][place[1]] == token
        self.own.append(token)
        if is_right:
            if n_matched == 0 and self.lost is not None:
                n_matched = self.lost_matched
            if n_matched >= LONG_RUN:
                self.lost = None
            if place is not None and self._go_on(place[0], place[1] + 1, n_matched + 1):
                return
        elif place is not None and n_matched >= LONG_RUN:
            self.lost, self.lost_matched, self.n_lost = place, n_matched, 0
        if self._resume():
            return
        self._find()
        if self.place is None and self.lost is not None and self.n_lost == 1:
            self._go_on(self.lost[0], self.lost[1] + 1, 0)

    def _go_on(self, tokens: list[int], at: int, n_matched: int) -> bool:
        if at >= len(tokens):
            return False
        self.place, self.n_matched = (tokens, at), n_matched
        return True

    def _resume(self) -> bool:
        self.n_lost += 1
        if self.lost is None or self.n_lost > MOST_CHANGED:
            self.lost = None
            return False
        tokens, left_at = self.lost
        for at in range(left_at + 1, min(left_at + MOST_SKIPPED + 1, len(tokens))):
            if at >= 2 and tokens[at - 2 : at] == self.own[-2:]:
                return self._go_on(tokens, at, self.lost_matched)
        return False

    def candidates(self, most: int, ends: set[int]) -> list[int]:
        found: list[int] = []
        if self.place is None:
            return found
        tokens, at = self.place
        text = list(tokens)
        while len(found) < most and at < len(text) and text[at] not in ends:
            found.append(text[at])
            if tokens is self.own:
                text.append(text[at])
            at += 1
        return found

    def _find(self) -> None:
        self.place, self.n_matched = None, 1
        for tokens in (self.own, self.earlier):
            at, length = self._longest(tokens)
            if at >= 0 and length > self.n_matched:
                self.place, self.n_matched = (tokens, at), length

    def _longest(self, tokens: list[int]) -> tuple[int, int]:
        best, longest = -1, 1
        pair = self.own[-2:]
        places = [i for i in range(len(tokens) - 1, 1, -1) if tokens[i - 2 : i] == pair]
        for i in places[:MOST_STEPS]:
            n = 0
            while n < min(i, len(self.own), MOST_COMPARED) and tokens[i - 1 - n] == self.own[-1 - n]:
                n += 1
            if n > longest:
                best, longest = i, n
        return best, longest


# Few different tokens, so that they repeat; 398 ends an answer.
_TOKENS = st.lists(st.sampled_from([1, 2, 3, 4, 5, 398]), min_size=1, max_size=60)


@pytest.mark.hypothesis
@given(
    prompts=st.lists(_TOKENS, min_size=1, max_size=3),
    earlier=_TOKENS,
    answer=_TOKENS,
    most=st.integers(0, 40),
)
@settings(max_examples=examples(60))
def test_candidates_follow_the_longest_end_that_was_there_before(
    vocabulary: int, prompts: list[list[int]], earlier: list[int], answer: list[int], most: int
) -> None:
    draft = native.Draft(vocabulary)
    ends = {i for i in range(401) if llama().llama_vocab_is_eog(vocabulary, i)}
    assert 398 in ends
    for prompt in prompts:  # the same index again, cut to what is common
        draft.begin(array("i", prompt), array("i", earlier))
        twin = Twin(list(prompt), earlier)

        for token in answer:
            found, n_matched = draft.candidates(most)
            assert found == twin.candidates(min(most, 31), ends)
            if twin.place is not None:
                assert n_matched == twin.n_matched
            draft.take(token)
            twin.take(token)


def _repeating(vocabulary: int, n_matched: int) -> native.Draft:
    """A draft of an answer that has repeated so many tokens of its prompt, which has 200."""
    text = list(range(200))
    draft = native.Draft(vocabulary)
    draft.begin(array("i", text), array("i", [400]))
    for token in text[:n_matched]:
        draft.take(token)
    draft.candidates(31)
    return draft


def _linear(one: int, more: int) -> list[tuple[int, int]]:
    """Times of batches: what the first token takes, and each further one, measured twice."""
    return [(n, one + more * (n - 1)) for n in range(1, 65) for _ in range(2)]


def test_a_draft_is_long_where_further_tokens_cost_nothing(vocabulary: int) -> None:
    assert native.choose_drafts([_repeating(vocabulary, 40)], _linear(1000, 1), 63) == [31]


def test_there_is_no_draft_where_a_batch_saves_no_time(vocabulary: int) -> None:
    assert native.choose_drafts([_repeating(vocabulary, 40)], _linear(1000, 1000), 63) == [0]


def test_nothing_is_drafted_before_a_batch_was_measured(vocabulary: int) -> None:
    assert native.choose_drafts([_repeating(vocabulary, 40)], [], 63) == [0]


def test_sizes_that_were_slow_are_left_out(vocabulary: int) -> None:
    """As on a CPU whose kernels like sixteen tokens."""
    times = [(1, 1000), (1, 1000)]
    times += [(n, 4800 if n == 16 else 19_000) for n in (*range(2, 33),) for _ in range(2)]

    assert native.choose_drafts([_repeating(vocabulary, 40)], times, 63) == [15]


def test_a_doubtful_candidate_is_drafted_only_where_it_costs_little(vocabulary: int) -> None:
    doubtful = _repeating(vocabulary, 2)

    (cheap,) = native.choose_drafts([doubtful], _linear(1000, 10), 63)
    (dear,) = native.choose_drafts([doubtful], _linear(1000, 500), 63)

    assert cheap > 0
    assert dear == 0


def test_one_slow_measurement_does_not_rule_a_size_out(vocabulary: int) -> None:
    times = [(1, 1000), (1, 1000), *((n, 90_000) for n in range(2, 33))]

    assert native.choose_drafts([_repeating(vocabulary, 40)], times, 63) != [0]


def test_other_answers_are_not_slowed_down_for_one(vocabulary: int) -> None:
    """A batch of 16 that takes twice as long is worth it for one answer, and not for one of eight."""
    others = [native.Draft(vocabulary) for _ in range(7)]
    times = [(n, 1000 if n <= 8 else 2000) for n in range(1, 65) for _ in range(2)]
    repeating = _repeating(vocabulary, 40)

    assert native.choose_drafts([repeating], times, 63)[0] > 0
    assert native.choose_drafts([repeating, *others], times, 56) == [0] * 8


def test_room_limits_all_drafts_together(vocabulary: int) -> None:
    drafts = [_repeating(vocabulary, 40) for _ in range(4)]

    sizes = native.choose_drafts(drafts, _linear(1000, 1), 12)

    assert sum(sizes) == 12
    assert max(sizes) - min(sizes) <= 1


def test_an_answer_that_stops_repeating_stops_drafting(vocabulary: int) -> None:
    text = [i % 7 * 10 + i % 5 for i in range(300)]
    draft = native.Draft(vocabulary)
    draft.begin(array("i", text), array("i", [400]))
    times = _linear(1000, 150)
    sizes = []
    for i in range(60):
        draft.candidates(31)
        sizes += native.choose_drafts([draft], times, 31)
        found, _ = draft.candidates(31)
        draft.take(found[0] if found and i < 20 else 300 + i)

    assert max(sizes[10:20]) > 8
    assert sizes[-1] == 0


def test_a_run_goes_on_behind_a_changed_token(vocabulary: int) -> None:
    draft = _repeating(vocabulary, 40)

    draft.take(300)  # in place of 40

    assert draft.candidates(3) == ([41, 42, 43], 0)
    draft.take(41)
    assert draft.candidates(3) == ([42, 43, 44], 41)


def test_a_run_is_resumed_near_by_and_not_where_the_same_pair_was_last(vocabulary: int) -> None:
    text = [*range(200), 43, 44, 7, 7]
    draft = native.Draft(vocabulary)
    draft.begin(array("i", text), array("i", [400]))
    for token in (*range(40), 300, 301, 302, 43, 44):  # three tokens in place of 40 to 42
        draft.take(token)

    found, n_matched = draft.candidates(3)

    assert found == [45, 46, 47]
    assert n_matched >= 38


def test_a_run_that_is_not_found_again_is_given_up(vocabulary: int) -> None:
    draft = _repeating(vocabulary, 40)
    for token in range(300, 317):
        draft.take(token)
    draft.take(41)
    draft.take(42)

    assert draft.candidates(3) == ([43, 44, 45], 2)


@pytest.fixture
def grammar(vocabulary: int) -> Iterator[Callable[[str], int]]:
    """Makes the sampler of a grammar; its address."""
    c = llama()
    made = []

    def make(text: str) -> int:
        made.append(c.llama_sampler_init_grammar(vocabulary, text.encode(), b"root"))
        return int(ctypes.cast(made[-1], ctypes.c_void_p).value or 0)

    yield make
    for sampler in made:
        c.llama_sampler_free(sampler)


def _forced(vocabulary: int, grammar: int, most: int = 31, before: str = "x") -> list[int]:
    """The draft behind a conversation in which nothing repeats."""
    draft = native.Draft(vocabulary)
    draft.begin(array("i", _ids(vocabulary, before)), array("i", [400]))
    return draft.candidates(most, grammar)[0]


@pytest.mark.parametrize(
    ("rules", "forced"),
    [
        ('root ::= "the dog" [a-z]', "the dog"),
        ('root ::= "{\\"name\\": " ("1" | "2")', '{"name": '),
        ('root ::= [a-z]+ "dog"', ""),
        ('root ::= "dog" | "dot"', "do"),
        # The end of the text.
        ('root ::= "dog"', "dog"),
        # What comes next may be nothing at all, which is no character.
        ('root ::= "dog"?', "dog"),
        # Beyond ASCII, a character's first byte says too little.
        ('root ::= "dogé"', "dog"),
        # A blank that may be left out is expected behind a colon and a comma.
        ('root ::= "{" " "? "a:" " "? ("t" | "f")', "{a: "),
        ('root ::= "[" " "? "1" " "? "," " "? [0-9]', "[1, "),
        # Inside a string it is one character of many.
        ('root ::= "a:" [ -~] "b"', "a:"),
    ],
)
def test_tokens_that_a_grammar_forces(
    vocabulary: int, grammar: Callable[[str], int], rules: str, forced: str
) -> None:
    address = grammar(rules)

    found = _forced(vocabulary, address)

    assert _text(vocabulary, found) == forced
    # Nothing was taken from the grammar.
    assert _forced(vocabulary, address) == found
    assert _forced(vocabulary, address, 1) == found[:1]


def test_an_ambiguous_grammar_is_not_followed_for_long(
    vocabulary: int, grammar: Callable[[str], int]
) -> None:
    """Each character doubles the ways to read it; all ninety would take longer than anybody lives."""
    address = grammar('root ::= ("aa" | "a" "a" | "a" b){60}\nb ::= "a"')

    assert set(_text(vocabulary, _forced(vocabulary, address))) == {"a"}


_TASKS = (
    ("water the lambs", "Ann Weber", "in_progress", "false"),
    ("mend the old fence", "Karim Diallo", "not_started", "true"),
    ("sell the wool", "Ann Weber", "finished", "false"),
    ("call the vet about the ram", "Karim Diallo", "in_progress", "true"),
)
_LISTED = "Write this list as JSON: " + "; ".join(
    f"{title} ({who}), {status.replace('_', ' ')}" for title, who, status, _ in _TASKS
)
_KEYS = ("title", "assigned_to", "status", "is_open")
_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "assigned_to": {"type": "string"},
            "status": {"enum": ["not_started", "in_progress", "finished"]},
            "is_open": {"type": "boolean"},
        },
        "required": [*_KEYS],
    },
}


def _json(colon: str, comma: str) -> str:
    objects = (
        comma.join(
            f'"{key}"{colon}{value if key == "is_open" else chr(34) + value + chr(34)}'
            for key, value in zip(_KEYS, task, strict=True)
        )
        for task in _TASKS
    )
    return "[" + comma.join("{" + one + "}" for one in objects) + "]"


@dataclass
class Drafted:
    """An answer that was drafted to its end: batches that it took, and tokens that were drafted and right."""

    batches: int = 0
    drafted: int = 0
    right: int = 0


def _drafted(vocabulary: int, prompt: str, answer: str, address: int, most: int = 15) -> Drafted:
    draft, found, c = native.Draft(vocabulary), Drafted(), llama()
    draft.begin(array("i", _ids(vocabulary, prompt)), array("i", [400]))
    ids = _ids(vocabulary, answer)
    while ids:
        candidates, _ = draft.candidates(most, address)
        _check_allowed(address, candidates)
        n = 0
        while n < min(len(candidates), len(ids) - 1) and candidates[n] == ids[n]:
            n += 1
        found.batches += 1
        found.drafted += len(candidates)
        found.right += n
        for token in ids[: n + 1]:
            draft.take(token)
            c.llama_sampler_accept(_sampler(address), token)
        ids = ids[n + 1 :]
    return found


def _check_allowed(address: int, candidates: list[int]) -> None:
    """A forced token, and what is drafted behind it, is one that the grammar takes."""
    c = llama()
    copy = c.llama_sampler_clone(_sampler(address))
    one = (c.llama_token_data * 1)()
    for token in candidates:
        one[0] = c.llama_token_data(token, 1.0, 0.0)
        alone = c.llama_token_data_array(one, 1, -1, False)
        c.llama_sampler_apply(copy, ctypes.byref(alone))
        if one[0].logit == -math.inf:
            break  # a run of the conversation, inside a value: that ends here
        c.llama_sampler_accept(copy, token)
    c.llama_sampler_free(copy)


@pytest.mark.parametrize(("colon", "comma"), [(": ", ", "), (":", ","), (": ", ","), (":", ", ")])
def test_keys_and_values_of_json_are_drafted_together(
    vocabulary: int, grammar: Callable[[str], int], colon: str, comma: str
) -> None:
    """A batch ends where a value does. The next one has what is forced there, and the value behind it."""
    answer = _json(colon, comma)

    found = _drafted(vocabulary, _LISTED, answer, grammar(schema_to_grammar(_SCHEMA)))

    n = len(_ids(vocabulary, answer))
    assert n / found.batches > 5
    # The end of a value cannot be foreseen, and behind it the draft is wrong.
    assert found.right / found.drafted > 0.4


def test_values_in_another_order_are_drafted_less_and_never_forbidden(
    vocabulary: int, grammar: Callable[[str], int]
) -> None:
    listed = "; ".join(f"{who}: {title}" for title, who, *_ in reversed(_TASKS))
    answer = _json(": ", ", ")

    found = _drafted(vocabulary, listed, answer, grammar(schema_to_grammar(_SCHEMA)))

    assert len(_ids(vocabulary, answer)) / found.batches > 4


def test_the_next_word_of_a_list_begins_the_next_value(
    vocabulary: int, grammar: Callable[[str], int]
) -> None:
    draft = native.Draft(vocabulary)
    address = grammar('root ::= "\\"" [a-z ]+ "\\",\\"" [a-z ]+ "\\""')
    draft.begin(array("i", _ids(vocabulary, "Say (ram one); (vet two)")), array("i", [400]))
    for token in _ids(vocabulary, '"ram one"'):
        draft.candidates(15, address)
        draft.take(token)
        llama().llama_sampler_accept(_sampler(address), token)

    found, _ = draft.candidates(15, address)

    assert _text(vocabulary, found) == ',"vet two'


def test_what_was_drafted_by_a_grammar_leaves_no_trace(
    vocabulary: int, grammar: Callable[[str], int]
) -> None:
    address = grammar(schema_to_grammar(_SCHEMA["items"]))
    with_grammar, without = native.Draft(vocabulary), native.Draft(vocabulary)
    for draft in (with_grammar, without):
        draft.begin(array("i", _ids(vocabulary, _LISTED + _json(": ", ", "))), array("i", [400]))

    drafted, _ = with_grammar.candidates(31, address)
    assert len(drafted) > 4

    assert with_grammar.candidates(31) == without.candidates(31)
    # If it were still in the text, it would be followed to its end.
    for token in drafted[:4]:
        for draft in (with_grammar, without):
            draft.take(token)
        assert with_grammar.candidates(31) == without.candidates(31)


def _sampler(address: int) -> Any:
    return ctypes.cast(address, ctypes.POINTER(llama().llama_sampler))


def _ids(vocabulary: int, text: str) -> list[int]:
    c, out = llama(), (ctypes.c_int32 * 2000)()
    n = c.llama_tokenize(vocabulary, text.encode(), len(text.encode()), out, len(out), False, False)
    return list(out[:n])


def _text(vocabulary: int, ids: list[int]) -> str:
    c, out = llama(), ctypes.create_string_buffer(64)
    pieces = []
    for token in ids:
        n = c.llama_token_to_piece(vocabulary, token, out, len(out), 0, False)
        pieces.append(out.raw[:n])
    return b"".join(pieces).decode()

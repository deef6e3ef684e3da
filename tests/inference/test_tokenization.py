"""A vocabulary's patterns, ids and texts, at the ends of its buffers and after its model is gone."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shepherd.errors import UsageError
from shepherd.inference import EngineSettings
from shepherd.inference.model import LoadedModel
from shepherd.inference.tokenization import Prompt, PromptBuilder, Vocabulary
from shepherd.inference.vision import PlacedPicture
from shepherd.types import Picture
from tests import models

BUILDERS = {
    "bpe": models.llama,
    "bpe with bos": partial(models.llama, add_bos=True),
    "spm": partial(models.llama, spm=True),
}


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Vocabulary]]:
    folder = tmp_path_factory.mktemp("vocabularies")
    loaded = []
    for name, build in BUILDERS.items():
        build(folder / f"{name}.gguf")
        loaded.append(LoadedModel(folder / f"{name}.gguf", EngineSettings(n_ctx=256, n_threads=1)))
    yield {name: model.vocabulary for name, model in zip(BUILDERS, loaded, strict=True)}
    for model in loaded:
        model.close()


def test_a_vocabulary_says_what_its_file_says(vocabularies: dict[str, Vocabulary]) -> None:
    bpe, with_bos, spm = vocabularies.values()

    assert (bpe.n_tokens, bpe.piece(bpe.bos), bpe.piece(bpe.eos)) == (401, "<|endoftext|>", "<|im_end|>")
    assert (spm.bos, spm.eos, spm.piece(0), spm.piece(-1)) == (1, 2, "<unk>", "")
    assert [one.adds_bos for one in (bpe, with_bos, spm)] == [False, True, True]
    assert [one.prefixes_space for one in (bpe, spm)] == [False, True]
    assert bpe.gap_marks is None
    assert bpe.longest_bytes == max(len(bpe.detokenize([i], shown={i})) for i in range(bpe.n_tokens))
    assert {"<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"} == spm.controls.keys()
    assert [spm.is_end(token) for token in (0, 1, 2, spm.controls["<|im_end|>"])] == [
        False,
        False,
        True,
        True,
    ]


def test_patterns_match_the_longest_text(vocabularies: dict[str, Vocabulary]) -> None:
    bpe = vocabularies["bpe"]

    for pattern in (bpe.control_pattern, bpe.cut_pattern, bpe.reserved_pattern):
        assert [found[0] for found in pattern.finditer("a<|im_end|><|im_start|>b")] == [
            "<|im_end|>", "<|im_start|>",
        ]  # fmt: skip
        assert pattern.search("im_end") is None
    marks = bpe.ids_of(["<|im_start|>", "<|im_end|>", "no mark"])
    assert marks == tuple(sorted(bpe.controls[one] for one in ("<|im_start|>", "<|im_end|>")))
    assert bpe.ids_of(["<|im_end|>", "<|im_end|>"]) == (bpe.controls["<|im_end|>"],)
    assert bpe.strips(bpe.controls["<|im_end|>"]) == bpe.strips(5) == (False, False)


def test_control_tokens_are_read_only_on_request(vocabularies: dict[str, Vocabulary]) -> None:
    for vocabulary in vocabularies.values():
        end = vocabulary.controls["<|im_end|>"]
        assert end not in vocabulary.tokenize("<|im_end|>")
        special = vocabulary.tokenize("<|im_end|>", special=True)
        assert special[-1] == end
        assert vocabulary.detokenize([end]) == b""
        assert vocabulary.detokenize([end], shown={end}) == b"<|im_end|>"
        assert vocabulary.tokenize("") == array("i")


def test_framed_text_has_the_models_own_marks(vocabularies: dict[str, Vocabulary]) -> None:
    bpe, with_bos, spm = vocabularies.values()

    for vocabulary, marks in ((bpe, []), (with_bos, [with_bos.bos]), (spm, [1])):
        plain = vocabulary.tokenize("the fox")
        assert list(vocabulary.tokenize("the fox", framed=True)) == [*marks, *plain]
        assert list(vocabulary.tokenize("", framed=True)) == marks


def test_text_behind_other_ids_has_no_blank_before_it(vocabularies: dict[str, Vocabulary]) -> None:
    spm, bpe = vocabularies["spm"], vocabularies["bpe"]

    for text in ("fox", " fox", "\nfox", "<|im_end|>", "ü"):
        assert spm.detokenize(spm.tokenize_after(text)) == text.encode()
        assert bpe.tokenize_after(text) == bpe.tokenize(text)
    assert spm.detokenize(spm.tokenize("fox")) == b" fox"
    assert spm.tokenize_after("") == array("i")


def test_texts_and_tokens_longer_than_expected_are_whole(
    vocabularies: dict[str, Vocabulary], monkeypatch: pytest.MonkeyPatch
) -> None:
    bpe = vocabularies["bpe"]
    expected = bpe.tokenize("the fox " * 3)
    tokenize, piece = bpe._c.llama_tokenize, bpe._c.llama_token_to_piece
    asked: list[int] = []

    def tokenized(vocabulary: Any, data: bytes, n: int, out: Any, capacity: int, *more: Any) -> int:
        """Normalise, as some tokenizers do, into more ids than the text has bytes."""
        asked.append(capacity)
        return -2 * n if capacity < 2 * n else tokenize(vocabulary, data, n, out, capacity, *more)

    monkeypatch.setattr(bpe._c, "llama_tokenize", tokenized)
    assert bpe.tokenize("the fox " * 3) == expected
    assert asked == [24 + 4, 48]

    def long_piece(vocabulary: Any, token: int, buffer: Any, size: int, *more: Any) -> int:
        if token != 5:
            return piece(vocabulary, token, buffer, size, *more)
        if size < 300:
            return -300
        ctypes.memmove(buffer, b"x" * 300, 300)
        return 300

    monkeypatch.setattr(bpe._c, "llama_token_to_piece", long_piece)
    one = bpe.detokenize([6])
    assert bpe.detokenize([6, 5, 6]) == one + b"x" * 300 + one


def test_what_precedes_the_newest_message_is_a_prompt_of_its_own() -> None:
    placed = [PlacedPicture(at, Picture(b"x"), 0) for at in (2, 6)]
    whole = Prompt(array("i", range(10)), (4, 6), "text", (2, 6, 9), head=2, pictures=tuple(placed), newest=6)

    before = whole.before_newest

    assert before == Prompt(array("i", range(6)), (6,), "", (2,), head=2, pictures=(placed[0],), newest=6)
    nothing = Prompt(array("i", range(3)), (3,), "text").before_newest
    assert (nothing.token_ids, nothing.tokens_per_message, nothing.boundaries) == (array("i"), (0,), ())


def test_a_vocabulary_whose_model_is_gone_says_so(tmp_path: Path) -> None:
    models.llama(tmp_path / "model.gguf")
    model = LoadedModel(tmp_path / "model.gguf", EngineSettings(n_ctx=256, n_threads=1))
    vocabulary = model.vocabulary
    assert not vocabulary.is_closed
    assert vocabulary.address > 0
    model.close()

    assert vocabulary.is_closed
    assert vocabulary.address == 0
    for use in (
        lambda: vocabulary.tokenize("a"),
        lambda: vocabulary.detokenize([1]),
        lambda: vocabulary.piece(1),
        lambda: vocabulary.is_end(1),
    ):
        with pytest.raises(UsageError, match="the engine is closed"):
            use()


# ---- prompts being made


def builder(vocabulary: Vocabulary, n_messages: int = 2) -> PromptBuilder:
    def tokenize(text: str, after_ids: bool) -> array[int]:
        return vocabulary.tokenize_after(text) if after_ids else vocabulary.tokenize(text)

    return PromptBuilder(vocabulary, tokenize, n_messages)


def test_text_is_cut_at_control_tokens_of_the_template_alone(vocabularies: dict[str, Vocabulary]) -> None:
    bpe = vocabularies["bpe"]
    end = bpe.controls["<|im_end|>"]
    building = builder(bpe)

    building.template("a<|im_end|>b", bound_at=1)
    building.owner = 1
    building.content("c<|im_end|>")
    building.template("d")
    building.flush()
    prompt = building.prompt(building.counts, "text")

    head, tail = bpe.tokenize("a"), bpe.tokenize("bc<|im_end|>d")
    assert prompt.token_ids == array("i", [*head, end, *tail])
    assert prompt.tokens_per_message == (len(head) + 1, len(tail))
    assert (prompt.text, prompt.boundaries, prompt.head, prompt.newest) == ("text", (len(head),), 0, 0)


def test_bos_comes_once_and_moves_all_places_by_one(vocabularies: dict[str, Vocabulary]) -> None:
    for vocabulary in vocabularies.values():
        building = builder(vocabulary)
        building.template("<|im_start|>a<|im_end|>")
        building.mark()
        building.bound(is_head=True, is_newest=True)
        building.owner = 1
        building.template("<|im_start|>b<|im_end|>")
        n = len(building.ids)
        at = building.marked.n_ids  # type: ignore[union-attr]
        prompt = building.prompt(building.counts, "")

        by = int(vocabulary.adds_bos)
        assert len(prompt.token_ids) == n + by
        assert (prompt.token_ids[0] == vocabulary.bos) == bool(by)
        assert (prompt.boundaries, prompt.head, prompt.newest) == ((at + by,), at + by, at + by)
        assert sum(prompt.tokens_per_message) == n + by

        written = builder(vocabulary)
        written.template(vocabulary.piece(vocabulary.bos) + "<|im_end|>")
        own = written.prompt(written.counts, "")
        assert list(own.token_ids) == [vocabulary.bos, vocabulary.controls["<|im_end|>"]]
        assert (own.head, own.newest, own.boundaries) == (0, 0, ())
        if by:
            empty = builder(vocabulary)
            empty.template("x")
            empty.flush()
            plain = empty.prompt(empty.counts, "")
            assert (plain.head, plain.newest) == (0, 0)


def test_a_prompt_goes_on_from_a_mark_as_it_was(vocabularies: dict[str, Vocabulary]) -> None:
    for vocabulary in vocabularies.values():
        whole = builder(vocabulary, 3)
        whole.template("<|im_start|>system")
        whole.flush()
        whole.bound(is_head=True)
        whole.answer(vocabulary.tokenize_after("fox"))
        whole.owner = 1
        whole.content("the ")
        whole.mark()
        mark, ids = whole.marked, array("i", whole.ids)
        assert mark is not None
        other = builder(vocabulary, 3)
        other.resume(mark, array("i", [*ids, 5, 5]))

        for building in (whole, other):
            building.owner = 2
            building.template("dog<|im_end|>")
        first, second = whole.prompt(whole.counts, "t"), other.prompt(other.counts, "t")

        assert second.token_ids == first.token_ids
        assert second.tokens_per_message == first.tokens_per_message
        assert second.boundaries == first.boundaries == (first.head,)
        assert second.head == first.head > 0
        shorter = builder(vocabulary, 1)
        shorter.resume(mark, ids)
        assert shorter.counts == list(mark.counts[:1])


def test_an_answer_enters_as_its_ids_and_what_follows_has_no_blank(
    vocabularies: dict[str, Vocabulary],
) -> None:
    spm = vocabularies["spm"]
    building = builder(spm)
    sampled = spm.tokenize_after("fox")

    building.template("<|im_start|>the ")
    building.owner = 1
    building.answer(sampled)
    building.template("es")
    building.flush()

    start = spm.controls["<|im_start|>"]
    assert building.ids == array("i", [start, *spm.tokenize("the "), *sampled, *spm.tokenize_after("es")])
    assert sum(building.counts) == len(building.ids)

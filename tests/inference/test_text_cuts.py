"""Texts that are cut in two: the ids of both parts, one after the other, are those of the whole."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shepherd.inference.text_cuts import TextCuts
from shepherd.inference.tokenization import Vocabulary, open_tokenizer
from tests import models
from tests.examples import examples

# One model for each of llama.cpp's patterns of words.
PATTERNS = (
    *("afmoe", "bailingmoe", "chameleon", "chatglm-bpe", "deepseek-coder", "deepseek-llm", "deepseek-v3"),
    *("default", "exaone-moe", "falcon", "gpt-2", "gpt-4o", "granite-embed-multi-97m", "grok-2", "jais-2"),
    *("kimi-k2", "laguna", "llama-bpe", "minicpm5", "poro-chat", "qwen2", "qwen35", "seed-coder", "spark2_5"),
    *("starcoder", "superbpe", "tekken", "tiny_aya", "ufakzeka", "viking", "youtu"),
)
# Of byte-level vocabularies: blanks and line breaks behind each other, behind signs, and behind a letter.
MERGES = (("Ġ", "Ġ"), ("Ċ", "Ċ"), ("Ċ", "Ġ"), (".", "Ċ"), (".Ċ", "Ċ"), (":", "Ġ"), ("g", "Ġ"), ("?", "Ċ"))
BLANKS = (" ", " ", " ", "\n", "  ", "\n\n", " \n", "\r\n", "\t", "\u00a0")
PIECES = (
    *(".", "?", "!", "'s", "'", ":", "-", "/", "(", "「", "。", "…", "•"),
    *(
        "the",
        "dog",
        "The",
        "DOG",
        "quickBrown",
        "a",
        "1",
        "12",
        "1234567",
        "é",
        "e\u0301",
        "你好",
        "안녕",
        "ありがとう",
    ),
    *("กา", "नमस्ते", "😀", "\u3000", "\u2581", "IMGIMGABZ", "User", "Assistant", "```", "{}", "\x00"),
)


def byte_level(pre: str) -> Callable[[models.Builder], object]:
    return lambda build: build.bpe(pre=pre, more_merges=MERGES)


VOCABULARIES: dict[str, Callable[[models.Builder], object]] = {
    **{pre: byte_level(pre) for pre in PATTERNS},
    "sentencepiece": lambda build: build.spm(),
    "rwkv": lambda build: build.rwkv(
        [" the", "the", "dog.", "\n\n", ": ", "User", " 12", "g\n", "好", " User"]
    ),
}


@pytest.fixture(params=VOCABULARIES)
def vocabulary(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Vocabulary]:
    build = models.Builder(tmp_path / "model.gguf", "llama", "tiny", 1)
    build.shape(n_ctx=64, n_embd=8, n_layer=1)
    build.matrix("token_embd.weight", 8, 1)
    VOCABULARIES[request.param](build)
    build.write()
    with open_tokenizer(build.path) as found:
        yield found


def test_ids_of_both_parts_are_those_of_the_whole(vocabulary: Vocabulary) -> None:
    choose = random.Random(5)
    n_cut = 0
    for _ in range(examples(300)):
        pieces = [choose.choice(PIECES if choose.random() < 0.6 else BLANKS) for _ in range(12)]
        text = "".join(pieces)
        end = len(text)
        while end := vocabulary.cuts.last(text[:end]):
            parts = [*vocabulary.tokenize(text[:end]), *vocabulary.tokenize_after(text[end:])]
            assert parts == list(vocabulary.tokenize(text)), (text[:end], text[end:])
            n_cut += 1

    assert n_cut > 200


def test_dialogue_is_cut_in_its_last_words(vocabulary: Vocabulary) -> None:
    talk = "User: what is it?\n\nAssistant: a lazy fox.\n\nUser: and now?\n\nAssistant:"

    assert vocabulary.cuts.last(talk) >= talk.index("now") - 1


def test_text_is_not_cut_where_a_token_could_lie_on_both_sides() -> None:
    cuts = TextCuts(2, before_blank=b":", before_break=b"x")

    assert cuts.last("a: b") == 0
    assert cuts.last("a b: c") == 1
    assert cuts.last("x\n") == 0
    assert cuts.last("y\n") == 1


def test_byte_level_text_is_not_cut_between_a_sign_and_a_line_break() -> None:
    assert TextCuts(2, b"", b"").last("a.\n") == 0
    assert TextCuts(5, b"", b"").last("a.\n") == 2


def test_text_is_not_cut_between_blanks() -> None:
    assert TextCuts(2, b"", b"").last("a  b") == 1
    assert TextCuts(1, b"", b"").last("\u2581 b") == 0


@pytest.mark.parametrize("kind", [0, 3, 4, 6])
def test_tokenizers_that_weigh_the_whole_text_are_not_cut(kind: int) -> None:
    assert TextCuts(kind, b"", b"").last("one two") == 0


def test_sentencepiece_is_not_cut_where_its_first_letter_could_join_a_blank() -> None:
    assert TextCuts(1, b"a", b"").last("one two") == 0
    assert TextCuts(1, b"b", b"").last("one two") == 3

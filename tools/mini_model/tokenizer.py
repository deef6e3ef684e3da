"""Byte-level BPE whose pieces let a value be copied: the same word is the same tokens wherever it stands.

Merges never join a space, `=` or a quote to a word that can be a value; only words of the templates have a
form with a leading space. Digits and most punctuation stay single. The split into words is llama.cpp's
`qwen2` rule, so the GGUF needs no tokenizer of its own.
"""

from __future__ import annotations

import collections
import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import relations
import values
from tokenizers import Regex, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

__all__ = ["CONTROL", "Tokenizer", "learn"]

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCABULARY = 4096
# The words of notes and chats are not those of the templates: the project's own documents stand for them.
PROSE, PROSE_WEIGHT = ("docs/*/*.md", "*.md"), 40
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# The joints of the extraction answer and of the tail, as pairs to merge; "_" stands for the space.
JOINTS = (
    '_ " | " : | " , | { " | _ { | _{ " | " } | "} , | _{ } | _{} , '
    '| _ [ | _[ ] | _[] } | _[ { | _[{ " | "} ] | "}] }'
)


def byte_letters() -> dict[int, str]:
    """The printable stand-in of every byte, as GPT-2's tokenizer has it."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    letters, extra = {}, 256
    for byte in range(256):
        letters[byte] = chr(byte if byte in plain else extra)
        extra += byte not in plain
    return letters


LETTERS = byte_letters()
BYTES = {letter: byte for byte, letter in LETTERS.items()}


def value_words() -> set[str]:
    """Lower-case words that stand in values or slots, and therefore get no form with a leading space."""
    lists = (values.NOUNS, values.ADJECTIVES, values.OCCUPATIONS, values.FIELDS, values.ROLES)
    slots = [slot for relation in relations.RELATIONS for slot in relation.slots]
    return {word for words in (*lists, slots) for entry in words for word in re.findall("[a-z]+", entry)}


def learn(path: Path, *, seed: int = 1, conversations: int = 3000) -> None:
    """Learn the merges from generated conversations and write them as JSON."""
    import generator  # renders with the package, which a machine that only trains need not have

    random = Random(seed)
    jobs, weights = zip(*generator.JOBS.items(), strict=True)
    counts: collections.Counter[str] = collections.Counter()
    led: collections.Counter[str] = collections.Counter()
    for _ in range(conversations):
        for role, text in generator.conversation(random, random.choices(jobs, weights)[0]):
            counts.update((role, *re.findall(r"[A-Za-z]+|\n\n", text)))
            led.update(re.findall(r" ([a-z]+)", text))
    for pattern in PROSE:
        for page in sorted(generator.ROOT.glob(pattern)):
            for word in re.findall(r"[A-Za-z]+", page.read_text(encoding="utf-8")):
                counts[word] += PROSE_WEIGHT
    taken = value_words()
    leading = [word for word, count in led.most_common() if count >= 40 and word not in taken]
    joints = [tuple(pair.replace("_", LETTERS[32]).split()) for pair in JOINTS.split(" | ")]
    budget = VOCABULARY - 256 - len(CONTROL) - len(joints) - len(leading)
    merges = learn_merges(counts, budget + len(leading))
    # A leading space needs the word as one piece; those which never become one leave their place to merges.
    size, words_led = 0, set(leading)
    whole = set("abcdefghijklmnopqrstuvwxyz")
    for left, right in merges:
        if size + len(whole & words_led) >= budget + len(leading):
            break
        whole.add(left + right)
        size += 1
    merges = merges[:size]
    merges += [(left, right) for left, right in joints]
    merges += [(LETTERS[32], word) for word in leading if word in whole]
    tokens = [LETTERS[byte] for byte in range(256)] + [left + right for left, right in merges]
    assert len(set(tokens)) == len(tokens)
    tokens += [f"[PAD{number}]" for number in range(len(tokens), VOCABULARY - len(CONTROL))]
    tokens += CONTROL
    path.write_text(json.dumps({"tokens": tokens, "merges": merges}, ensure_ascii=False), encoding="utf-8")


def learn_merges(counts: collections.Counter[str], budget: int) -> list[tuple[str, str]]:
    """The `budget` most frequent merges of neighbours, found greedily over the counted words."""
    words = [[[LETTERS[byte] for byte in word.encode()], count] for word, count in counts.items()]
    pairs: collections.Counter[tuple[str, str]] = collections.Counter()
    where: dict[tuple[str, str], set[int]] = collections.defaultdict(set)
    for index, (pieces, count) in enumerate(words):
        for pair in itertools.pairwise(pieces):
            pairs[pair] += count
            where[pair].add(index)
    merges: list[tuple[str, str]] = []
    while len(merges) < budget and pairs:
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        if pairs[best] <= 0:
            break
        merges.append(best)
        for index in list(where[best]):
            pieces, count = words[index]
            for pair in itertools.pairwise(pieces):
                pairs[pair] -= count
            words[index][0] = pieces = join(pieces, best)
            for pair in itertools.pairwise(pieces):
                pairs[pair] += count
                where[pair].add(index)
        del pairs[best]
    return merges


def join(pieces: Sequence[str], pair: tuple[str, str]) -> list[str]:
    """The pieces with every occurrence of the pair made one."""
    joined: list[str] = []
    for piece in pieces:
        if joined and (joined[-1], piece) == pair:
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined


class Tokenizer:
    """Text to ids and back, and whole conversations with the mask of what is learned."""

    def __init__(self, path: Path) -> None:
        stored = json.loads(path.read_text(encoding="utf-8"))
        self.tokens: list[str] = stored["tokens"]
        self.merges: list[tuple[str, str]] = [tuple(pair) for pair in stored["merges"]]
        self.ids = {token: index for index, token in enumerate(self.tokens)}
        self.pad, self.start, self.end = (self.ids[token] for token in CONTROL)
        self.backend = Backend(models.BPE(vocab=self.ids, merges=self.merges))
        split = pre_tokenizers.Split(Regex(QWEN2), "isolated")
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        self.backend.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
        self.newline = self.encode("\n")
        self.heads = {
            role: [self.start, *self.encode(f"{role}\n")] for role in ("system", "user", "assistant")
        }

    def encode(self, text: str) -> list[int]:
        """Ids of plain text; control tokens in it are text."""
        return self.backend.encode(text, add_special_tokens=False).ids

    def count(self, text: str) -> int:
        """The number of tokens of a text."""
        return len(self.encode(text))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids."""
        raw = b"".join(
            self.tokens[index].encode()
            if self.tokens[index] in CONTROL
            else bytes(BYTES[c] for c in self.tokens[index])
            for index in ids
        )
        return raw.decode("utf-8", "replace")

    def conversation(self, messages: Sequence[tuple[str, str]]) -> tuple[np.ndarray, np.ndarray]:
        """Ids of the conversation in ChatML, and 1 for the tokens that the model has to say itself."""
        ids: list[int] = []
        said: list[int] = []
        for role, text in messages:
            body = [*self.encode(text), self.end]
            head = self.heads["assistant" if role == "earlier" else role]
            ids += head + body + self.newline
            said += [0] * len(head) + [int(role == "assistant")] * len(body) + [0] * len(self.newline)
        cut = len(self.newline)
        return np.array(ids[:-cut], dtype=np.uint16), np.array(said[:-cut], dtype=np.uint8)

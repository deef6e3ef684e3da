"""Text to token ids and back, by the model's own tokenizer, and prompts built from them."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any

from shepherd._native import engine as native
from shepherd.errors import UsageError
from shepherd.inference.binding import llama, load_weights
from shepherd.inference.gguf import read_header
from shepherd.inference.text_cuts import TextCuts
from shepherd.inference.vision import PicturePart, PlacedPicture, VisionModel
from shepherd.pictures import MARK
from shepherd.types import Picture

__all__ = ["Mark", "Prompt", "PromptBuilder", "Vocabulary", "open_tokenizer"]


# Tokenizers keep most texts apart from one of these; see tokenize_after.
_SENTINELS = ("\n", "a", "0", ".")
# llama_token_attr
_UNKNOWN, _CONTROL, _USER_DEFINED, _LSTRIP, _RSTRIP = 1, 8, 16, 128, 256
# Characters since the last control token from which a text is tokenised in parts.
_LONG_RUN = 256
# The form that marks of templates have in most vocabularies.
_MARK = re.compile("<[|\uff5c][^<>|\uff5c\\s]+[|\uff5c]>")
_OF_MARKS = re.compile("<[|\uff5c]|[|\uff5c]>|^>|<$")


class Vocabulary:
    """The tokenizer of a loaded model, until that is closed. Thread-safe.

    `controls` maps the text of every token that only a template may say (such as `<|im_end|>`) to its id,
    `marks` that of other tokens at which llama.cpp cuts a text in any case, and which have the same form. So
    llama.cpp reads gpt-oss's.
    """

    def __init__(self, model: Any) -> None:
        self._c = llama()
        # Held while llama.cpp reads the vocabulary, so that it is not freed meanwhile.
        self._lock = threading.RLock()
        self._handle = handle = self._c.llama_model_get_vocab(model)
        self.n_tokens: int = self._c.llama_vocab_n_tokens(handle)
        self.bos: int = self._c.llama_vocab_bos(handle)
        self.eos: int = self._c.llama_vocab_eos(handle)
        self.adds_bos = bool(self._c.llama_vocab_get_add_bos(handle)) and self.bos >= 0
        # Bytes of the longest token, so n bytes are at least n / longest tokens.
        self.longest_bytes = native.longest_token(self.address)
        marks = (self._c.llama_vocab_fim_pre, self._c.llama_vocab_fim_suf, self._c.llama_vocab_fim_mid)
        before, behind, between = (int(mark(handle)) for mark in marks)
        # What a model for code finds before a gap's beginning, before its end, and before what fills it.
        self.gap_marks = (before, behind, between) if min(before, behind, between) >= 0 else None
        self.controls: dict[str, int] = {}
        self._strips: dict[int, tuple[bool, bool]] = {}
        others: dict[str, int] = {}
        mask = _CONTROL | _UNKNOWN | _USER_DEFINED
        for token, attributes, raw in native.special_tokens(self.address, mask):
            if text := raw.decode("utf-8", "replace"):
                is_control = attributes & (_CONTROL | _UNKNOWN)
                (self.controls if is_control else others).setdefault(text, token)
                self._strips[token] = (bool(attributes & _LSTRIP), bool(attributes & _RSTRIP))
        found = {text: token for text, token in others.items() if _MARK.fullmatch(text)}
        # All of them, for what nobody may say but a template.
        self._all_marks = tuple(found)
        # If none of the others can overlap a mark, a text is cut at each.
        loose = (text for text in (*self.controls, *others) if not _MARK.fullmatch(text))
        self.marks = {} if any(map(_OF_MARKS.search, loose)) else found

    @property
    def address(self) -> int:
        """Address of the llama_vocab; 0 once closed."""
        return int(ctypes.cast(self._handle, ctypes.c_void_p).value or 0)

    @property
    def is_closed(self) -> bool:
        """Return whether the model it belongs to is gone."""
        return self._handle is None

    def close(self) -> None:
        """Let go of the model's memory, which is about to be freed."""
        with self._lock:
            self._handle = None

    def _open(self) -> Any:
        """Return the vocabulary, for who holds the lock."""
        if self._handle is None:
            raise UsageError("the engine is closed", hint="make a new one")
        return self._handle

    @cached_property
    def control_pattern(self) -> re.Pattern[str]:
        """Matches the text of any control token, the longest first, as llama.cpp does."""
        texts = sorted(self.controls, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, texts)) or r"(?!)")

    @cached_property
    def cut_pattern(self) -> re.Pattern[str]:
        """Matches the text of any control token or mark."""
        texts = sorted((*self.controls, *self.marks), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, texts)) or r"(?!)")

    @cached_property
    def mark_pattern(self) -> re.Pattern[str]:
        """Matches the text of any mark that llama.cpp reads in a text, whoever wrote it."""
        texts = sorted(self._all_marks, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, texts)) or r"(?!)")

    @cached_property
    def reserved_pattern(self) -> re.Pattern[str]:
        """Matches the text of any control token or mark, even of marks at which texts are not cut."""
        texts = sorted((*self.controls, *self._all_marks), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, texts)) or r"(?!)")

    @cached_property
    def prefixes_space(self) -> bool:
        """Return whether text after a control token gets a blank put before it (SentencePiece)."""
        return self.detokenize(self.tokenize("a")) == b" a"

    @cached_property
    def cuts(self) -> TextCuts:
        """Places where a text between control tokens can be cut; none if other tokens swallow blanks."""
        with self._lock:
            kind = self._c.llama_vocab_type(self._open())
            before = [native.bytes_before(self.address, ord(blank)) for blank in " \n"]
        controls = set(self.controls.values())
        has_strips = any(token not in controls and strips[1] for token, strips in self._strips.items())
        return TextCuts(0 if has_strips else kind, *before)

    def strips(self, token: int) -> tuple[bool, bool]:
        """Return whether a control token swallows the blanks before and after it."""
        return self._strips.get(token, (False, False))

    def ids_of(self, marks: Iterable[str]) -> tuple[int, ...]:
        """Return those of these texts that are control tokens, as ids, ascending."""
        return tuple(sorted({self.controls[mark] for mark in marks if mark in self.controls}))

    def is_end(self, token: int) -> bool:
        """Return whether the model ends its turn with this token."""
        with self._lock:
            return bool(self._c.llama_vocab_is_eog(self._open(), token))

    def piece(self, token: int) -> str:
        """Return the text of one token as the vocabulary writes it, control tokens included; empty for -1."""
        if token < 0:
            return ""
        with self._lock:
            return (self._c.llama_vocab_get_text(self._open(), token) or b"").decode("utf-8", "replace")

    def tokenize(self, text: str, *, special: bool = False, framed: bool = False) -> array[int]:
        """Return the ids of `text`, without BOS. With `special`, texts of control tokens become those tokens.

        With `framed`, between the tokens that the model was trained to find around a text: BOS and EOS, CLS
        and SEP.
        """
        data = text.encode("utf-8", "replace")
        if not data and not framed:
            return array("i")
        # No token is empty and SentencePiece may put one blank before: no more ids than bytes + 1.
        # Normalising tokenizers may exceed it; they answer with the number that they need.
        capacity = len(data) + 4
        while True:
            out = (ctypes.c_int32 * capacity)()
            with self._lock:
                n = self._c.llama_tokenize(self._open(), data, len(data), out, capacity, framed, special)
            if n >= 0:
                return array("i", ctypes.string_at(out, 4 * n))
            capacity = -n

    def tokenize_after(self, text: str) -> array[int]:
        """Return the ids of `text` behind other ids: without SentencePiece's blank before it."""
        if text and self.prefixes_space:
            for sentinel in _SENTINELS:
                head = self.tokenize(sentinel)
                both = self.tokenize(sentinel + text)
                if both[: len(head)] == head:
                    return both[len(head) :]
        return self.tokenize(text)

    def detokenize(self, tokens: Iterable[int], *, shown: Collection[int] = ()) -> bytes:
        """Return the bytes of these tokens; control tokens have none, except those in `shown`."""
        out = bytearray()
        buffer = ctypes.create_string_buffer(256)
        with self._lock:
            handle = self._open()
            for token in tokens:
                special = token in shown
                n = self._c.llama_token_to_piece(handle, token, buffer, len(buffer), 0, special)
                if n < 0:
                    buffer = ctypes.create_string_buffer(-n)
                    n = self._c.llama_token_to_piece(handle, token, buffer, len(buffer), 0, special)
                out += buffer.raw[:n]
        return bytes(out)


_Tokenize = Callable[[str, bool], "array[int]"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """Ids for the engine; how many each message has of them, the template's text around it included.

    `boundaries`: lengths at which later prompts may part from this one, ascending: the end of the system
    prompt (`head`; 0 without one), the begin of the newest message of the user, whose tail may be gone next
    time, and the end of the last message, before the template's invitation to answer. `pictures` are those
    for which negative ids stand. `newest`: how many ids precede the newest message of the user and depend on
    nothing in it; 0 where that is unknown.
    """

    token_ids: array[int]
    tokens_per_message: tuple[int, ...]
    text: str
    boundaries: tuple[int, ...] = ()
    head: int = 0
    pictures: tuple[PlacedPicture, ...] = ()
    newest: int = 0

    @property
    def before_newest(self) -> Prompt:
        """The part before the newest message of the user."""
        n = self.newest
        return replace(
            self,
            token_ids=self.token_ids[:n],
            tokens_per_message=(n,),
            text="",
            boundaries=tuple(length for length in self.boundaries if length < n),
            pictures=tuple(placed for placed in self.pictures if placed.at < n),
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """Position in a prompt: its first `n_ids` ids, and the text collected behind them."""

    n_ids: int
    counts: tuple[int, ...]
    run: tuple[str, ...]
    run_owner: int | None
    after_ids: bool
    strip_next: bool
    head: int


class PromptBuilder:
    """One prompt being made; `owner` is the message that what comes next belongs to."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        tokenize: _Tokenize,
        n_messages: int,
        *,
        vision: VisionModel | None = None,
    ) -> None:
        self._vocabulary, self._tokenize, self._vision = vocabulary, tokenize, vision
        self.ids: array[int] = array("i")
        self.counts = [0] * n_messages
        self.owner = 0
        self._run: list[str] = []
        self._run_owner: int | None = None
        self._after_ids = False
        self._strip_next = False
        self._boundaries: list[int] = []
        self._head = 0
        self._newest = 0
        self.marked: Mark | None = None

    def mark(self) -> None:
        """Note the place, from which another prompt can continue with `resume`."""
        self._settle()
        self.marked = Mark(
            len(self.ids), tuple(self.counts), tuple(self._run), self._run_owner, self._after_ids,
            self._strip_next, self._head,
        )  # fmt: skip

    def resume(self, mark: Mark, ids: array[int]) -> None:
        """Begin at that place: `ids` are those of the prompt that was marked."""
        self.ids = ids[: mark.n_ids]
        n = min(len(self.counts), len(mark.counts))
        self.counts[:n] = mark.counts[:n]
        self._run, self._run_owner = list(mark.run), mark.run_owner
        self._after_ids, self._strip_next = mark.after_ids, mark.strip_next
        self._head = mark.head
        if mark.head:
            self._boundaries.append(mark.head)

    def bound(self, *, is_head: bool = False, is_newest: bool = False) -> None:
        """Put a boundary after ids that later text can't change; flags say which message begins there."""
        self._settle()
        if self.ids:
            self._boundaries.append(len(self.ids))
        if is_head:
            self._head = len(self.ids)
        if is_newest:
            self._newest = len(self.ids)

    def template(self, text: str, *, bound_at: int = -1) -> None:
        """The template's text; a boundary before the control token that begins at `bound_at`, if one does."""
        start = 0
        controls, marks = self._vocabulary.controls, self._vocabulary.marks
        for match in self._vocabulary.cut_pattern.finditer(text):
            self._run.append(text[start : match.start()])
            token = controls[match[0]] if match[0] in controls else marks[match[0]]
            self._control(token, is_bound=match.start() == bound_at)
            start = match.end()
        self._run.append(text[start:])

    def content(self, text: str, pictures: Sequence[Picture] = ()) -> None:
        """Add text that a person or a tool wrote, pictures at its marks. It never becomes a control token.

        Marks of the vocabulary that llama.cpp reads in any text are tokenised in two pieces.
        """
        self._settle()
        for piece, picture in zip_longest(text.split(MARK, len(pictures)), pictures):
            self._plain(piece or "")
            if picture is not None:
                self._picture(picture)
        # The run ends in the template's text of the next message, and still is this one's.
        self._run_owner = self.owner

    def _plain(self, text: str) -> None:
        start = 0
        for mark in self._vocabulary.mark_pattern.finditer(text):
            self._run.append(text[start : mark.start() + 1])
            start = mark.start() + 1
            self._run_owner = self.owner
            self.flush()
            self._after_ids = True
        self._run.append(text[start:])

    def _picture(self, picture: Picture) -> None:
        assert self._vision is not None
        self._run_owner = self.owner
        self.flush()
        for part in self._vision.layout(picture):
            self._add(part.ids if isinstance(part, PicturePart) else part)

    def answer(self, token_ids: Sequence[int]) -> None:
        """An answer as it was sampled."""
        self.flush()
        self._add(array("i", token_ids))
        self._after_ids = True

    def _settle(self) -> None:
        """Tokenise the part of a long text without control tokens that nothing to come can change."""
        if sum(map(len, self._run)) < _LONG_RUN:
            return
        run = "".join(self._run)
        end = self._vocabulary.cuts.last(run)
        self._run = [run[end:]]
        if end:
            settled = run[:end].lstrip() if self._strip_next else run[:end]
            self._add(self._tokenize(settled, self._after_ids))
            self._after_ids, self._strip_next = True, False

    def flush(self, *, strip_end: bool = False) -> None:
        """Tokenise what was collected since the last control token."""
        run = "".join(self._run)
        self._run.clear()
        if self._strip_next:
            run = run.lstrip()
        if strip_end:
            run = run.rstrip()
        if run:
            self._add(self._tokenize(run, self._after_ids))
        self._run_owner = None
        self._after_ids = self._strip_next = False

    def prompt(self, counts: list[int], text: str) -> Prompt:
        """Return the ids, after one BOS if the model wants one: templates may have written it themselves."""
        bos, boundaries, head = self._vocabulary.bos, self._boundaries, self._head
        newest = self._newest
        if self._vocabulary.adds_bos and (not self.ids or self.ids[0] != bos):
            self.ids.insert(0, bos)
            counts[0] += 1
            boundaries = [length + 1 for length in boundaries]
            head += head > 0
            newest += newest > 0
        inner = sorted({length for length in boundaries if length < len(self.ids)})
        return Prompt(self.ids, tuple(counts), text, tuple(inner), head, newest=newest)

    def _control(self, token: int, *, is_bound: bool) -> None:
        before, after = self._vocabulary.strips(token)
        self.flush(strip_end=before)
        if is_bound:
            self.bound()
        self._add(array("i", [token]))
        self._strip_next = after

    def _add(self, ids: array[int]) -> None:
        self.ids.extend(ids)
        self.counts[self.owner if self._run_owner is None else self._run_owner] += len(ids)


@contextmanager
def open_tokenizer(path: str | os.PathLike[str]) -> Iterator[Vocabulary]:
    """Yield the vocabulary of the model at `path`, while the block runs.

    Raises ModelFormatError for a damaged file, ModelLoadError when llama.cpp refuses it.
    """
    name = os.fspath(path)
    read_header(name)
    model = load_weights(name, what="the tokenizer of", vocab_only=True)
    try:
        vocabulary = Vocabulary(model)
        try:
            yield vocabulary
        finally:
            vocabulary.close()
    finally:
        llama().llama_model_free(model)

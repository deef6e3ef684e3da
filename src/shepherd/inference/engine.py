"""The engine: one model, one conversation in its KV cache, answers as they are sampled."""

from __future__ import annotations

import os
import threading
import time
import weakref
from array import array
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TypeVar

from shepherd import kept_files
from shepherd._native import engine as native
from shepherd.errors import NEW_CONVERSATION, ContextOverflowError, UsageError
from shepherd.inference import load_check
from shepherd.inference.draft_model import native_draft_model, open_draft_model
from shepherd.inference.earlier_answers import EarlierAnswers
from shepherd.inference.generation import Answer, Generation, Review
from shepherd.inference.grammar import GrammarCache
from shepherd.inference.kept_conversations import KeptConversations, KeptCounts
from shepherd.inference.model import DRAFTS, KV_EDITS, EngineSettings, LoadedModel, ModelInfo
from shepherd.inference.sampler import SamplerCache
from shepherd.inference.template import ChatTemplate, TemplateOptions
from shepherd.inference.tools import check_tools
from shepherd.inference.transcript import Prompt, Transcript
from shepherd.lru_cache import LRUCache
from shepherd.pictures import no_pictures
from shepherd.replies import ReplyParser, parameter_types
from shepherd.threads import NativeThread
from shepherd.types import Message, Sampling, Tool

__all__ = ["Answer", "Engine", "EngineSettings", "Generation", "PriorityLock"]

PriorityLock = native.PriorityLock

# Prompt tokens between two checks of the priorities, where llama_decode cannot be interrupted (GPUs).
_BACKGROUND_CHUNK = 128
_MOST_BYTES = 4  # of a character
# In place of a message that the user is still writing.
_STILL_TO_COME = Message("user", "?")
# Sets of options for the template that are known at once; each has caches of its own.
_KEPT_OPTIONS = 4
_THINKS = {"auto": None, "on": True, "off": False}

_Run = TypeVar("_Run", Answer, Generation)


class Engine:
    """A model ready to answer; close() it, or leave its `with` block.

    The prompt of each answer is compared with what the KV cache holds, and only the rest is decoded. Sampling
    runs on a thread of its own, without Python. As many answers as the settings have slots are made together;
    more wait their turn.

        with Engine("model.gguf") as engine, engine.generate([Message("user", "Hello")]) as answer:
            for piece in answer:
                if isinstance(piece, str):  # else a Thought or a ToolCall
                    print(piece, end="", flush=True)

    `model` is the path of a GGUF file, the name of an installed model, or `hf:user/repo:quant`, which is
    downloaded; "" is the small model that comes with Shepherd.
    A file that was never loaded here is loaded in a child process first, where it may crash llama.cpp without
    harm; `is_trusted` skips that, and without `tries_projector` it's skipped for the projector.
    With `yields_to`, its answers pause while that engine makes one. `progress`
    is called with the share of the file that is loaded, 0 to 1. Engines that share a `priority_lock` have one
    priority: what yields to one of them waits for answers of all.
    Raises ModelFormatError, ModelLoadError and TemplateError as its parts do.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] = "",
        *,
        settings: EngineSettings | None = None,
        yields_to: Engine | native.PriorityLock | None = None,
        is_trusted: bool = False,
        tries_projector: bool = True,
        progress: Callable[[float], object] | None = None,
        priority_lock: native.PriorityLock | None = None,
        _weights_of: LoadedModel | None = None,
    ) -> None:
        self.settings = settings or EngineSettings()
        path = _path_of(model)
        if _weights_of is None:
            load_check.require(path, is_trusted=is_trusted)
        self.model = LoadedModel(
            path,
            self.settings,
            weights_of=_weights_of,
            progress=progress,
            tries_projector=tries_projector,
        )
        self._priority_lock = priority_lock or native.PriorityLock()
        self.draft_model: LoadedModel | None = None
        try:
            if self.settings.draft_model and self.settings.draft != "off":
                self.draft_model = open_draft_model(self.model, self.settings, is_trusted=is_trusted)
            vocabulary = self.model.vocabulary
            self.template = ChatTemplate(
                self.model.info.chat_template,
                bos=vocabulary.piece(vocabulary.bos),
                eos=vocabulary.piece(vocabulary.eos),
                has_chatml_tokens={"<|im_start|>", "<|im_end|>"} <= vocabulary.controls.keys(),
            )
            self._options = TemplateOptions(_THINKS[self.settings.thinking])
            self._transcript = self._make_transcript(self._options)
            self._transcripts: LRUCache[TemplateOptions, Transcript] = LRUCache(_KEPT_OPTIONS)
            self._samplers = SamplerCache(vocabulary.n_tokens, vocabulary.address)
            self._grammars = GrammarCache(vocabulary.address)
            self._earlier = EarlierAnswers(vocabulary.eos)
            self.decoder = native.Decoder(
                self.model.context_address,
                self.model.memory_address,
                vocabulary.address,
                kind=self.model.native_kind(),
                n_window=self.model.window_tokens,
                n_swa=self.model.info.n_swa,
                n_chunk=self.model.settings.n_ubatch,
                n_embd=0 if self.model.vision is None else self.model.vision.n_embd,
                n_slots=self.settings.slots,
                n_cells=self.model.n_cells,
                cache_bytes=self.settings.cache_ram_bytes,
                writes=self.settings.cache_disk_bytes > 0,
                edit=KV_EDITS[self.settings.kv_edit],
                draft=DRAFTS[self.settings.draft],
                is_on_cpu=self.model.info.n_gpu_layers == 0,
                draft_model=None if self.draft_model is None else native_draft_model(self.draft_model),
                priority_lock=self._priority_lock,
                yields_to=yields_to._priority_lock if isinstance(yields_to, Engine) else yields_to,
            )
            self._kept = self._kept_conversations()
        except BaseException:
            if self.draft_model is not None:
                self.draft_model.close()
            self.model.close()
            raise
        # Held while a prompt is submitted. Nothing under it depends on the size of a request.
        self._lock = threading.Lock()
        self._is_closing = False
        self._pid = os.getpid()
        self._thread = NativeThread(self.decoder.serve, name="shepherd-engine")
        self._thread.start()
        if self._kept is not None:
            self._kept.start(self.decoder)
        # Also at interpreter exit: the thread must be out of llama.cpp before its globals are destroyed.
        self._close = weakref.finalize(
            self,
            _shut_down,
            self.decoder,
            self._thread,
            self._kept,
            (self._samplers, self._grammars, *filter(None, [self.draft_model]), self.model),
        )

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def info(self) -> ModelInfo:
        """Description of the model."""
        return self.model.info

    @property
    def window_tokens(self) -> int:
        """Tokens that prompt and answer can have together."""
        return self.model.window_tokens

    @property
    def n_cells(self) -> int:
        """Tokens that all conversations can have together; less than asked for where memory ends."""
        return self.model.n_cells

    @property
    def reads_pictures(self) -> bool:
        """Return whether messages may have pictures."""
        return self.model.vision is not None

    @property
    def picture_problem(self) -> str:
        """Why the projector beside the model is not used; "" if there is none, or it is used."""
        return self.model.vision_problem

    @property
    def _drafts(self) -> bool:
        return self.settings.draft != "off" and self.info.cache_kind in ("plain", "sliding")

    @property
    def is_locked(self) -> bool:
        """True while an answer would wait for another thread."""
        return self._lock.locked()

    @property
    def is_closed(self) -> bool:
        """Return whether close() was called."""
        return not self._close.alive

    def close(self) -> None:
        """Cancel what runs, end the thread, free the model. May be called twice, from any thread.

        Prompts that are being made elsewhere end with UsageError.
        """
        self._is_closing = True
        self.decoder.close()  # ends the answers that the holder of the lock may wait for
        with self._lock:
            self._close()

    def _kept_conversations(self) -> KeptConversations | None:
        settings = self.settings
        if settings.cache_disk_bytes == 0 or settings.cache_ram_bytes == 0:
            return None
        return KeptConversations(
            kept_files.folder(),
            self.model.state_identity(),
            limit_bytes=settings.cache_disk_bytes,
            state_bytes=settings.cache_ram_bytes,
            window=self.window_tokens,
        )

    def sibling(self, *, n_ctx: int = 0) -> Engine:
        """Another engine on the same weights, for work in the background: it pauses while this one answers.

        Its cache and its thread are its own; n_ctx 0 is this one's window. Either may be closed first.
        """
        self._check_open()
        chunk = min(self.settings.n_ubatch, _BACKGROUND_CHUNK)
        settings = replace(
            self.settings,
            n_ctx=n_ctx or self.window_tokens,
            n_ubatch=chunk,
            n_batch=chunk,
            slots=1,
            windows=1,
            cache_ram_bytes=self.settings.cache_ram_bytes // 4,
            cache_disk_bytes=0,
            draft_model="",
        )
        return Engine(self.model.path, settings=settings, yields_to=self, _weights_of=self.model)

    def kept(self) -> KeptCounts | None:
        """Return what is kept on disk and what this engine did there; None if it keeps nothing."""
        return None if self._kept is None else self._kept.counts()

    def tokenize(self, text: str, special: bool = False) -> list[int]:
        """Return the ids of `text`; with `special`, control tokens written in it become those tokens."""
        self._check_open()
        return list(self.model.vocabulary.tokenize(text, special=special))

    def tokenize_prompt(self, text: str, special: bool = False) -> list[int]:
        """Return the ids to `complete` after: those of `text`, after BOS if the model wants one.

        With `special`, control tokens written in it become those tokens; a BOS written there is not doubled.
        """
        ids = self.tokenize(text, special)
        vocabulary = self.model.vocabulary
        has_bos = special and ids[:1] == [vocabulary.bos]
        return [*([vocabulary.bos] if vocabulary.adds_bos and not has_bos else []), *ids]

    def tokenize_prefill(self, text: str) -> list[int]:
        """Return the ids of the beginning of an answer, as `generate` reads it."""
        self._check_open()
        return list(self.model.vocabulary.tokenize_after(text))

    @property
    def fills_gaps(self) -> bool:
        """True if the model was trained to fill a gap in a text, as models for code are."""
        return self.model.vocabulary.gap_marks is not None

    def tokenize_gap(self, before: str, behind: str) -> list[int]:
        """Return the ids to `complete` after for the text between two others, neither with control tokens.

        If they don't fit into the window together with an answer of a quarter of it, the beginning of
        `before` and the end of `behind` are left out.
        """
        self._check_open()
        vocabulary = self.model.vocabulary
        if vocabulary.gap_marks is None:
            raise UsageError(
                "the model was not trained to fill a gap in a text",
                hint="models for code are, such as Qwen-Coder",
            )
        first, second, middle = vocabulary.gap_marks
        room = max(self.window_tokens * 3 // 4 - 4, 2)
        head, tail = list(vocabulary.tokenize(before)), list(vocabulary.tokenize(behind))
        # What stands behind takes a quarter if both are too long.
        n_tail = min(len(tail), max(room - len(head), room // 4))
        head = head[max(0, len(head) - (room - n_tail)) :]
        bos = [vocabulary.bos] if vocabulary.adds_bos else []
        return [*bos, first, *head, second, *tail[:n_tail], middle]

    def detokenize(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes of tokens, those of control tokens left out; UsageError for ids that are none."""
        self._check_open()
        if not all(0 <= token < self.info.n_vocab for token in tokens):
            raise UsageError(
                "one of the numbers is not a token of this model",
                hint=f"they are 0 to {self.info.n_vocab - 1}",
            )
        return self.model.vocabulary.detokenize(tokens)

    def text_of(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, control tokens by their names."""
        self._check_open()
        vocabulary = self.model.vocabulary
        shown = frozenset(vocabulary.controls.values())
        return vocabulary.detokenize(tokens, shown=shown).decode("utf-8", "replace")

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        *,
        template: TemplateOptions | None = None,
        asks: bool = True,
    ) -> str:
        """Return the text of a prompt, without `asks` up to where the template would ask for an answer.

        Raises TemplateError when the template refuses the messages.
        """
        self._check_open()
        transcript = self._transcript_of(template)
        return transcript.prompt(messages, tools).text if asks else transcript.unasked(messages, tools)

    def count_tokens(self, text: str) -> int:
        """Return how many tokens `text` has for this model."""
        self._check_open()
        return len(self.model.vocabulary.tokenize(text))

    def count_prompt_tokens(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        *,
        template: TemplateOptions | None = None,
    ) -> int:
        """Return how many tokens a prompt of these messages has, the template's own included."""
        self._check_open()
        return len(self._transcript_of(template).prompt(messages, tools).token_ids)

    def _make_transcript(self, options: TemplateOptions) -> Transcript:
        template = self.template.with_options(options)
        return Transcript(self.model.vocabulary, template, vision=self.model.vision)

    def _transcript_of(self, options: TemplateOptions | None) -> Transcript:
        """Return the prompts of these options. A switch of thoughts that is not set is the engine's."""
        if options is None:
            return self._transcript
        thinks = self._options.thinks if options.thinks is None else options.thinks
        known = replace(options, thinks=thinks).for_source(self.template.source)
        if known == self._options:
            return self._transcript
        found = self._transcripts.get(known)
        if found is None:
            found = self._make_transcript(known)
            self._transcripts.put(known, found)
        return found

    def generate(
        self,
        messages: Sequence[Message],
        *,
        sampling: Sampling | None = None,
        max_tokens: int = 1024,
        stop: Sequence[str] = (),
        grammar: str = "",
        background: bool = False,
        tools: Sequence[Tool] = (),
        must_call: bool | str = False,
        logprobs: int | None = None,
        review: Callable[[], Review] | None = None,
        user: str = "",
        is_cancelled: Callable[[], bool] = lambda: False,
        owner: str = "",
        template: TemplateOptions | None = None,
        prefill: str = "",
    ) -> Answer:
        """Begin the answer to a conversation, in which the model may think and call `tools`.

        Calls and their results are in the messages: an answer has its `tool_calls`, and after it comes a
        message of role "tool" for each, with its `tool_call_id`. An answer of this engine goes into the next
        request with its ids, so that the cache holds to its end: `messages.append(answer.message())`.

        With `must_call` the answer is one call, of the tool of that name or of any of them, by its schema,
        and without a thought before. UsageError for a model whose calls no grammar can say.

        May be called from any thread; as many answers as there are slots are made at once, and more wait.
        Each is read by one thread, or by an event loop through `notify` and `poll`.

        With a `grammar` (GBNF; schema_to_grammar makes one of a JSON schema) the answer follows it, without a
        thought before; calls come only if the grammar has them. Such an answer is whole when it ends with
        finish_reason "stop", unless a stop string cut it. UsageError when the grammar is none, or a tool has
        no usable name.

        With `logprobs` (0 to 20) each token comes with the logarithm of its probability, and those of so many
        of the likeliest: a softmax of the model's own logits, as OpenAI's, before samplers and grammar.
        `review` returns what gets the text before it is shown, and may replace it or end the answer; it is
        called when the prompt is known to fit.
        With a `user`, likely next tokens are also guessed from earlier answers to the same user, see
        EngineSettings.draft.
        `is_cancelled` is called when the prompt is made. If it returns True, nothing is decoded, and the
        answer ends with finish_reason "cancelled".
        With an `owner` (of kept_files), the conversation is kept on disk if the settings say so, and one that
        is kept there is continued; it must be theirs alone, and something that may be stored.
        `template` has options for the chat template. The answer continues `prefill`, which is no part of it.
        Raises ContextOverflowError before anything is decoded when the prompt leaves no room in the window,
        TemplateError when the template refuses the messages. An answer that meets the end of the window ends
        with finish_reason "length". One in the `background` pauses while others are made.
        """
        started = time.perf_counter()
        self._check_open()
        self._check_length(messages, tools)
        self._check_pictures(messages)
        if must_call:
            name = must_call if isinstance(must_call, str) else ""
            grammar = self._transcript.call_grammar(tools, name)
        transcript = self._transcript_of(template)
        prompt = transcript.prompt(messages, tools, ends_thought=bool(grammar or prefill))
        if prefill:
            prompt = self._continued(prompt, prefill)
        parser = ReplyParser(
            self.template.source,
            family=self._transcript.family(tools),
            prompt=prompt.text,
            tools={tool.name: parameter_types(tool.parameters) for tool in tools},
        )
        return self._begin(
            partial(Answer, parser=parser, review=review, stop=stop),
            prompt,
            sampling or Sampling(),
            max_tokens=max_tokens,
            stop=(*stop, *self.template.stops),
            grammar=grammar,
            background=background,
            logprobs=logprobs,
            shown=self._transcript.shown(tools),
            started=started,
            user=user,
            is_cancelled=is_cancelled,
            owner=owner,
        )

    def read_ahead(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), *, owner: str = ""
    ) -> Generation | None:
        """Begin to read a conversation for which the user is still writing the next message.

        What precedes that message in the next prompt is read in the background: it pauses while answers are
        made. Cancelling it, or dropping what is returned, ends it within a micro-batch, and what was read
        stays. Returns None where there is nothing to read by itself: the template writes something that
        depends on the newest message before it, or there are pictures that would have to be encoded first.
        Raises ContextOverflowError and TemplateError as `generate` does.
        """
        started = time.perf_counter()
        self._check_open()
        self._check_length(messages, tools)
        prompt = self._transcript.prompt([*messages, _STILL_TO_COME], tools).before_newest
        if not prompt.token_ids or prompt.pictures:
            return None
        return self._begin(
            Generation,
            prompt,
            Sampling(),
            max_tokens=0,
            stop=(),
            grammar="",
            background=True,
            logprobs=None,
            started=started,
            owner=owner,
        )

    def complete(
        self,
        token_ids: Sequence[int],
        *,
        sampling: Sampling | None = None,
        max_tokens: int = 1024,
        stop: Sequence[str] = (),
        grammar: str = "",
        background: bool = False,
        logprobs: int | None = None,
        after_sampling: bool = False,
        user: str = "",
    ) -> Generation:
        """Like `generate`, below the chat: continue after these ids. No BOS is added.

        With `after_sampling`, log probabilities are those with which the samplers chose each token.
        """
        started = time.perf_counter()
        self._check_open()
        if not token_ids:
            raise UsageError("there are no token ids to continue from", hint="pass at least one, such as BOS")
        n_vocab = self.info.n_vocab
        if not all(0 <= token < n_vocab for token in token_ids):
            raise UsageError("a token id is outside the vocabulary", hint=f"use ids from 0 to {n_vocab - 1}")
        prompt = Prompt(array("i", token_ids), (len(token_ids),), "")
        return self._begin(
            Generation,
            prompt,
            sampling or Sampling(),
            max_tokens=max_tokens,
            stop=stop,
            grammar=grammar,
            background=background,
            logprobs=logprobs,
            after_sampling=after_sampling,
            started=started,
            user=user,
        )

    def _begin(
        self,
        kind: Callable[..., _Run],
        prompt: Prompt,
        sampling: Sampling,
        *,
        max_tokens: int,
        stop: Sequence[str],
        grammar: str,
        background: bool,
        logprobs: int | None,
        started: float,
        after_sampling: bool = False,
        shown: Sequence[int] = (),
        user: str = "",
        is_cancelled: Callable[[], bool] = lambda: False,
        owner: str = "",
    ) -> _Run:
        if max_tokens < 0:
            raise UsageError(f"max_tokens is {max_tokens}", hint="use 1 or more; 0 only reads the prompt")
        if logprobs is not None and not 0 <= logprobs <= native.MOST_LIKELY:
            raise UsageError(
                f"logprobs is {logprobs}", hint=f"ask for 0 to {native.MOST_LIKELY} likeliest tokens"
            )
        if len(prompt.token_ids) >= self.window_tokens:
            raise self._overflow(len(prompt.token_ids), "")
        if sampling.seed is None and self.settings.seed is not None:
            sampling = replace(sampling, seed=self.settings.seed)
        stream = native.Stream([text.encode("utf-8", "replace") for text in stop if text])
        generation = kind(
            stream,
            self.model.vocabulary,
            prompt_tokens_per_message=prompt.tokens_per_message,
            window_tokens=self.window_tokens,
            started=started,
            shown=shown,
            has_logprobs=logprobs is not None,
            has_biases=bool(sampling.logit_bias),
            take_warnings=tuple if self._kept is None else self._kept.take_warnings,
            keep=partial(self._earlier.add, user) if user and self._drafts else None,
        )
        belonging = self._belonging(owner, prompt)
        pictures = self._read_pictures(prompt)
        with ExitStack() as undo:
            sampler = self._samplers.borrow(sampling, stream, undo)
            rules = self._grammars.borrow(grammar, stream, undo) if grammar else None
            with self._lock:
                self._check_open()
                if is_cancelled():
                    stream.cancel()
                self.decoder.submit(
                    prompt.token_ids,
                    stream,
                    sampler=sampler.address,
                    grammar=0 if rules is None else rules.address,
                    max_tokens=max_tokens,
                    penalty_last_n=sampling.penalty_last_n,
                    boundaries=prompt.boundaries,
                    head=prompt.head,
                    shown=shown,
                    background=background,
                    may_wait=True,
                    logprobs=logprobs,
                    after_sampling=after_sampling,
                    **belonging,
                    earlier=self._earlier.of(user) if user and self._drafts else None,
                    pictures=pictures,
                )
            undo.pop_all()  # the samplers are the stream's until it ends
        # One that is dropped unfinished is cancelled; the engine ends it within a micro-batch.
        weakref.finalize(generation, stream.cancel).atexit = False
        return generation

    def _continued(self, prompt: Prompt, text: str) -> Prompt:
        """Return a prompt that ends with the beginning of the answer."""
        ids = array("i", [*prompt.token_ids, *self.tokenize_prefill(text)])
        return replace(prompt, token_ids=ids, text=prompt.text + text)

    def _belonging(self, owner: str, prompt: Prompt) -> dict[str, int]:
        if self._kept is None or not owner:
            return {}
        file, n_in_file = self._kept.find(owner, prompt.token_ids)
        return {
            "owner": self._kept.number_of(owner),
            "asked_ms": int(1000 * time.time()),
            "file": file,
            "in_file": n_in_file,
        }

    def _read_pictures(self, prompt: Prompt) -> list[tuple[int, native.Picture]]:
        """Return the pictures of a prompt. Those that were not read lately are encoded, which takes time."""
        vision = self.model.vision
        if vision is None:
            return []
        return [(placed.at, vision.read(placed.picture)[placed.part]) for placed in prompt.pictures]

    def _check_pictures(self, messages: Sequence[Message]) -> None:
        if messages and messages[-1].pictures and not self.reads_pictures:
            raise no_pictures(self.picture_problem)

    def _check_open(self) -> None:
        if self._is_closing or self.is_closed:
            raise UsageError("the engine is closed", hint="make a new one")
        if os.getpid() != self._pid:  # the thread that answers is in the parent
            raise UsageError(
                "this process was forked after the engine was made",
                hint='make a new one here; with multiprocessing, start processes by "spawn"',
            )

    def _check_length(self, messages: Sequence[Message], tools: Sequence[Tool]) -> None:
        # Rendering and tokenising 10 MB takes seconds; that it cannot fit is known without. A template writes
        # at least a token around each message, and the names of all tools, which differ.
        check_tools(tools)
        longest = self.model.vocabulary.longest_bytes
        n_names = sum(len(tool.name) for tool in tools)
        n_bytes = n_names + _MOST_BYTES * sum(len(message.sent) for message in messages)
        if n_bytes // longest >= self.window_tokens:  # perhaps: few characters are that long
            n_bytes = n_names + sum(len(message.sent.encode("utf-8", "replace")) for message in messages)
        least = max(n_bytes // longest, len(messages) - 1)
        if least >= self.window_tokens:
            raise self._overflow(least, "at least ")

    def _overflow(self, prompt_tokens: int, at_least: str) -> ContextOverflowError:
        window, trained = self.window_tokens, self.info.n_ctx_train
        ways = [NEW_CONVERSATION, "shorten the message"]
        if window < trained:
            ways.insert(0, f"set n_ctx up to {trained} (now {window})")
        else:
            ways.append(f"use a model with a window above {window} tokens")
        return ContextOverflowError(
            f"the prompt has {at_least}{prompt_tokens} tokens, the window {window}, none left to answer",
            prompt_tokens=prompt_tokens,
            window_tokens=window,
            hint="; ".join(ways),
        )


def _shut_down(
    decoder: native.Decoder,
    thread: NativeThread,
    kept: KeptConversations | None,
    parts: tuple[SamplerCache | GrammarCache | LoadedModel, ...],
) -> None:
    """Stop the threads and free what they use. Ctrl-C leaves out the writing of conversations, and is raised
    in the end.
    """
    interruption: KeyboardInterrupt | None = None
    has_stopped = False
    while not has_stopped:
        try:
            decoder.close()
            thread.wait()
            if kept is not None:
                kept.stop(decoder)
            has_stopped = True
        except KeyboardInterrupt as error:
            # They end soon. A thread in llama.cpp crashes the process when llama.cpp's globals are destroyed.
            interruption = error
    try:
        if kept is not None and interruption is None:
            kept.write_rest(decoder)
    finally:
        for part in parts:
            part.close()
    if interruption is not None:
        raise interruption


def _path_of(model: str | os.PathLike[str]) -> str | os.PathLike[str]:
    if not isinstance(model, str) or model.endswith(".gguf") or (model and os.path.exists(model)):
        return model
    # Not at the top: an engine that is given a file needs no downloads.
    from shepherd.inference.models import resolve

    return resolve(model)

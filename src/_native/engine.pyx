# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False, autotestdict=False, embedsignature=False
"""Continuous batching of many sequences in one llama.cpp context, without the GIL.

Token ids go in; bytes and token ids come out. This module knows ids, positions and addresses; text, templates, settings
and the wording of errors live in shepherd.inference. The scheduling loop is scheduler.c.
"""

import ctypes

cimport cython

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset, strcmp, strlen

from priority_lock cimport shp_priority_lock, shp_priority_lock_free, shp_priority_lock_new
from scheduler cimport (
    SHP_CODE_AMBIGUOUS,
    SHP_CODE_NO_LOGITS,
    SHP_CODE_NO_MEMORY,
    SHP_CODE_NO_NUMBERS,
    SHP_CODE_NO_TOKEN,
    SHP_DRAFT_ALWAYS,
    SHP_DRAFT_AUTO,
    SHP_DRAFT_OFF,
    SHP_EDIT_EXACT,
    SHP_EDIT_HOLE,
    SHP_HYBRID,
    SHP_MOST_BOUNDARIES,
    SHP_MOST_SHOWN,
    SHP_MOST_SLOTS,
    SHP_MOST_WRITTEN,
    SHP_PICTURE_BITS,
    SHP_PLAIN,
    SHP_RECURRENT,
    SHP_SLIDING,
    SHP_STATE_PARTIAL,
    SHP_STATE_WHOLE,
    shp_api,
    SHP_MOST_DRAFTED,
    SHP_MOST_DRAFTS,
    shp_batch_costs,
    shp_batch_costs_add,
    shp_begins_picture,
    shp_belonging,
    shp_context,
    shp_draft,
    shp_draft_begin,
    shp_draft_choose,
    shp_draft_collect,
    shp_draft_collect_allowed,
    shp_draft_free,
    shp_draft_mode,
    shp_draft_model_counts, shp_draft_model_ids,
    shp_draft_take,
    shp_edit,
    shp_job,
    shp_job_free,
    shp_job_new,
    shp_keeping_give_back,
    shp_keeping_n_lost,
    shp_keeping_next_read,
    shp_keeping_stage_one,
    shp_keeping_take,
    shp_keeping_wait,
    shp_keeping_wake,
    shp_keeping_was_read,
    shp_letters,
    shp_llama,
    shp_llama_batch,
    shp_llama_token_data,
    shp_llama_token_data_array,
    shp_ngrams,
    shp_ngrams_assign,
    shp_ngrams_free,
    shp_picture,
    shp_picture_free,
    shp_picture_hold,
    shp_picture_new,
    shp_placed_picture,
    shp_schedule,
    shp_scheduler,
    shp_scheduler_close,
    shp_scheduler_draft_model,
    shp_scheduler_forget,
    shp_scheduler_free,
    shp_scheduler_last_slot,
    shp_scheduler_new,
    shp_scheduler_park,
    shp_scheduler_serve,
    shp_scheduler_slot,
    shp_scheduler_snapshots,
    shp_scheduler_submit,
    shp_scheduler_wait_idle,
    shp_sequence,
    shp_snapshot,
    shp_snapshots_add_read,
    shp_snapshots_free_data,
    shp_snapshots_new_data,
    shp_snapshots_want_none,
)
from stream cimport (
    SHP_END_STOP,
    SHP_LOG_CAPACITY,
    SHP_MOST_LIKELY,
    SHP_NO_MEMORY,
    SHP_OK,
    SHP_RUNNING,
    shp_counters,
    shp_ending,
    shp_likely,
    shp_log_init,
    shp_log_set_level,
    shp_log_take,
    shp_log_write,
    shp_status,
    shp_stream,
    shp_stream_add_stop,
    shp_stream_cancel,
    shp_stream_end,
    shp_stream_ending,
    shp_stream_free,
    shp_stream_likely,
    shp_stream_new,
    shp_stream_notify,
    shp_stream_progress,
    shp_stream_stopped_by,
    shp_stream_take,
    shp_stream_token,
    shp_stream_tokens,
    shp_stream_wait,
    shp_stream_write,
)

cdef bint is_bound = False

if shp_log_init() != 0:
    raise MemoryError("cannot make the lock of the log")

PLAIN, SLIDING, RECURRENT, HYBRID = SHP_PLAIN, SHP_SLIDING, SHP_RECURRENT, SHP_HYBRID
RUNNING, STOP, LENGTH, CANCELLED, FAILED = range(5)     # as shp_ending
NO_MEMORY, NO_LOGITS, NO_TOKEN = SHP_CODE_NO_MEMORY, SHP_CODE_NO_LOGITS, SHP_CODE_NO_TOKEN
AMBIGUOUS, NO_NUMBERS = SHP_CODE_AMBIGUOUS, SHP_CODE_NO_NUMBERS
EXACT, SHIFT, HOLE = range(3)                           # as shp_edit
DRAFT_OFF, DRAFT_AUTO, DRAFT_ALWAYS = range(3)          # as shp_draft_mode
MOST_SLOTS, MOST_BOUNDARIES, MOST_SHOWN = SHP_MOST_SLOTS, SHP_MOST_BOUNDARIES, SHP_MOST_SHOWN
MOST_LIKELY = SHP_MOST_LIKELY
MOST_WRITTEN = SHP_MOST_WRITTEN

# In the order of the members of shp_llama (llama_api.h).
_FUNCTIONS = (
    "llama_decode", "llama_synchronize", "llama_get_logits_ith", "llama_set_abort_callback", "llama_memory_clear",
    "llama_memory_seq_rm", "llama_memory_seq_cp", "llama_memory_seq_add", "llama_memory_seq_pos_min",
    "llama_memory_seq_pos_max", "llama_memory_can_shift", "llama_state_seq_get_size_ext",
    "llama_state_seq_get_data_ext", "llama_state_seq_set_data_ext", "llama_sampler_apply",
    "llama_sampler_accept", "llama_sampler_reset", "llama_sampler_clone", "llama_sampler_free", "llama_vocab_is_eog",
    "llama_vocab_n_tokens", "llama_vocab_get_attr", "llama_vocab_get_text", "llama_token_to_piece", "llama_tokenize",
    "llama_log_set", "llama_set_causal_attn",
)


cdef void *address(library, name) except NULL:
    return <void *><uintptr_t>ctypes.cast(getattr(library, name), ctypes.c_void_p).value


cdef check_layout(name, theirs, here, size):
    there = {field[0]: getattr(theirs, field[0]).offset for field in theirs._fields_}
    if here != there or ctypes.sizeof(theirs) != size:
        raise ImportError(f"{name} is laid out differently: {there}, compiled for {here}")


cdef check_structs(batch_type, data_type, array_type):
    cdef shp_llama_batch b
    cdef shp_llama_token_data d
    cdef shp_llama_token_data_array a
    check_layout("llama_batch", batch_type, {
        "n_tokens": <char *>&b.n_tokens - <char *>&b, "token": <char *>&b.token - <char *>&b,
        "embd": <char *>&b.embd - <char *>&b, "pos": <char *>&b.pos - <char *>&b,
        "n_seq_id": <char *>&b.n_seq_id - <char *>&b, "seq_id": <char *>&b.seq_id - <char *>&b,
        "logits": <char *>&b.logits - <char *>&b,
    }, sizeof(shp_llama_batch))
    check_layout("llama_token_data", data_type, {
        "id": <char *>&d.id - <char *>&d, "logit": <char *>&d.logit - <char *>&d, "p": <char *>&d.p - <char *>&d,
    }, sizeof(shp_llama_token_data))
    check_layout("llama_token_data_array", array_type, {
        "data": <char *>&a.data - <char *>&a, "size": <char *>&a.size - <char *>&a,
        "selected": <char *>&a.selected - <char *>&a, "sorted": <char *>&a.sorted - <char *>&a,
    }, sizeof(shp_llama_token_data_array))


def bind(library, batch_type, data_type, array_type):
    """Take the addresses of the functions out of the library that llama_cpp loaded.

    The types are ctypes' llama_batch, llama_token_data and llama_token_data_array: ImportError when one is not
    the struct that was compiled in.
    """
    global is_bound
    cdef Py_ssize_t i
    check_structs(batch_type, data_type, array_type)
    if len(_FUNCTIONS) * sizeof(void *) != sizeof(shp_llama):
        raise ImportError("llama_api.h and the names of its functions do not belong together")
    found = [<uintptr_t>address(library, name) for name in _FUNCTIONS]
    for i in range(len(found)):
        (<void **>&shp_api)[i] = <void *><uintptr_t>found[i]
    is_bound = True


def keep_log(int least):
    """Keep llama.cpp's log lines of this ggml level and above for `take_log`.

    1 is debug, 2 info, 3 warning, 4 error. ValueError before `bind`.
    """
    if not is_bound:
        raise ValueError("bind() first")
    shp_log_set_level(least)
    shp_api.log_set(<void (*)(int, const char *, void *) noexcept nogil>shp_log_write, NULL)


def log_address():
    """Return the address of the function that keeps log lines, for libraries beside llama.cpp."""
    return <uintptr_t>&shp_log_write


def take_log():
    """Return the log lines since the last call: for each RS (0x1E), a level digit and the text; the newest 64 KiB."""
    cdef bytes out = PyBytes_FromStringAndSize(NULL, SHP_LOG_CAPACITY)
    return out[:shp_log_take(PyBytes_AS_STRING(out), SHP_LOG_CAPACITY)]


def special_tokens(uintptr_t vocab, int mask):
    """Return `(id, attributes, text)` of every token with an attribute in `mask`."""
    if not is_bound or vocab == 0:
        raise ValueError("bind() first, and pass a vocabulary")
    cdef void *v = <void *>vocab
    cdef int32_t i, attributes
    cdef const char *text
    found = []
    for i in range(shp_api.vocab_n_tokens(v)):
        attributes = shp_api.vocab_get_attr(v, i)
        if attributes & mask:
            text = shp_api.vocab_get_text(v, i)
            found.append((i, attributes, <bytes>text if text != NULL else b""))
    return found


def first_difference(uintptr_t vocab, uintptr_t other):
    """Return the lowest id whose token has another text in the other vocabulary, -1 if there is none.

    Ids that only one of them has are left out.
    """
    if not is_bound or vocab == 0 or other == 0:
        raise ValueError("bind() first, and pass two vocabularies")
    cdef void *v = <void *>vocab
    cdef void *w = <void *>other
    cdef const char *one
    cdef const char *two
    cdef int32_t i
    for i in range(min(shp_api.vocab_n_tokens(v), shp_api.vocab_n_tokens(w))):
        one, two = shp_api.vocab_get_text(v, i), shp_api.vocab_get_text(w, i)
        if one == NULL or two == NULL or strcmp(one, two) != 0:
            return i
    return -1


def longest_token(uintptr_t vocab):
    """Return the length in bytes of the vocabulary's longest token text, at least 1."""
    if not is_bound or vocab == 0:
        raise ValueError("bind() first, and pass a vocabulary")
    cdef void *v = <void *>vocab
    cdef const char *text
    cdef size_t longest = 1
    cdef int32_t i
    for i in range(shp_api.vocab_n_tokens(v)):
        text = shp_api.vocab_get_text(v, i)
        if text != NULL:
            longest = max(longest, strlen(text))
    return longest


def bytes_before(uintptr_t vocab, unsigned char byte):
    """Return the bytes, ascending, that some token of the vocabulary has directly before `byte`.

    SentencePiece's sign for a blank (U+2581) counts as a blank. Cost: some 10 ms for 150,000 tokens.
    """
    if not is_bound or vocab == 0:
        raise ValueError("bind() first, and pass a vocabulary")
    cdef void *v = <void *>vocab
    cdef bytearray piece = bytearray(256)
    cdef unsigned char[::1] view = piece
    cdef unsigned char found[256]
    cdef int32_t i, k, n
    memset(found, 0, sizeof(found))
    for i in range(shp_api.vocab_n_tokens(v)):
        n = shp_api.token_to_piece(v, i, <char *>&view[0], <int32_t>view.shape[0], 0, True)
        if n < 0:
            piece = bytearray(-n)
            view = piece
            n = shp_api.token_to_piece(v, i, <char *>&view[0], <int32_t>view.shape[0], 0, True)
        for k in range(1, n):
            if view[k] == byte or (byte == 0x20 and k + 2 < n and view[k] == 0xE2 and view[k + 1] == 0x96
                                   and view[k + 2] == 0x81):
                found[view[k - 1]] = 1
    return bytes([k for k in range(256) if found[k]])


@cython.final
cdef class PriorityLock:
    """A lock that foreground runs of one Decoder hold and that another Decoder yields to; see Decoder."""

    cdef shp_priority_lock *ptr      # owned; freed with this object, which every Decoder that uses it holds

    def __cinit__(self):
        self.ptr = shp_priority_lock_new()
        if self.ptr == NULL:
            raise MemoryError

    def __dealloc__(self):
        shp_priority_lock_free(self.ptr)


@cython.final
cdef class Stream:
    """The output of one run, for one reader; `cancel` may be called from any thread."""

    cdef shp_stream *ptr    # held; the engine thread holds it too while it writes

    def __cinit__(self, stops=()):
        self.ptr = shp_stream_new()
        if self.ptr == NULL:
            raise MemoryError
        cdef bytes stop
        for stop in stops:
            if shp_stream_add_stop(self.ptr, PyBytes_AS_STRING(stop), len(stop)) != SHP_OK:
                raise MemoryError

    def __dealloc__(self):
        shp_stream_free(self.ptr)

    def read(self, int timeout_ms):
        """Return all new text in whole UTF-8 characters; `b""` after the timeout, None at the end."""
        cdef size_t n
        cdef shp_ending ending
        with nogil:
            n = shp_stream_wait(self.ptr, timeout_ms)
            ending = shp_stream_ending(self.ptr, NULL)
        if n == 0:
            # The ending was read after the wait: once it is there, no bytes follow the ones still to take.
            n = shp_stream_wait(self.ptr, 0)
            if n == 0:
                return b"" if ending == SHP_RUNNING else None
        cdef bytes out = PyBytes_FromStringAndSize(NULL, n)
        shp_stream_take(self.ptr, PyBytes_AS_STRING(out), n)
        return out

    def notify(self, int fd):
        """Also write a byte to this non-blocking file when text arrives after an empty `read`, and at the end.

        Close the file only after the end. Returns False where this is unsupported (Windows).
        """
        return shp_stream_notify(self.ptr, fd) != 0

    def cancel(self):
        """Ask the run to end: at the next token, micro-batch or, on the CPU, graph node."""
        shp_stream_cancel(self.ptr)

    @property
    def ending(self):
        """RUNNING, STOP, LENGTH, CANCELLED or FAILED."""
        return <int>shp_stream_ending(self.ptr, NULL)

    @property
    def stopped_by(self):
        """Index of the stop string that ended the text, in the order given; -1: none."""
        return shp_stream_stopped_by(self.ptr)

    @property
    def progress(self):
        """Return `(read, total)`: tokens of the prompt that were read, of those that the cache lacks; zeros before."""
        cdef int32_t n_read, n_to_read
        shp_stream_progress(self.ptr, &n_read, &n_to_read)
        return n_read, n_to_read

    def counters(self):
        """Return the run's token counts and times in nanoseconds, by name; zeros until it ends."""
        cdef shp_counters c
        shp_stream_ending(self.ptr, &c)
        return c

    def tokens(self):
        """Return `(id, end)` of each sampled token once the run has ended; `end` is where its bytes end in the text.

        The token that completed a stop string has an end beyond the end of the text.
        """
        cdef const int32_t *ids
        cdef const int64_t *ends
        cdef size_t i, n
        if shp_stream_ending(self.ptr, NULL) == SHP_RUNNING:
            raise RuntimeError("the run has not ended")
        n = shp_stream_tokens(self.ptr, &ids, &ends)
        return [(ids[i], ends[i]) for i in range(n)]

    def likely(self, size_t i):
        """Return `(id, logprob, [(id, logprob) of the likeliest tokens])` of the i-th token.

        None until all its text was read, when a stop string cut it off, and when the run did not ask for logprobs.
        """
        cdef int32_t token
        cdef shp_likely found
        cdef int32_t k
        if not shp_stream_likely(self.ptr, i, &token, &found):
            return None
        return token, found.logprob, [(found.top_ids[k], found.top_logprobs[k]) for k in range(found.n_top)]

    def token(self, size_t i):
        """Return `(id, end)` of the i-th token; None until all its text was read, and when a stop string cut it off."""
        cdef int32_t token
        cdef int64_t end
        if not shp_stream_token(self.ptr, i, &token, &end):
            return None
        return token, end


def feed_stream(Stream stream not None, int token, bytes piece not None):
    """Write a token's bytes as the engine thread does; False once a stop string is complete."""
    cdef shp_status status = shp_stream_write(stream.ptr, token, PyBytes_AS_STRING(piece), len(piece), NULL)
    if status == SHP_NO_MEMORY:
        raise MemoryError
    return status == SHP_OK


def end_stream(Stream stream not None, int ending=SHP_END_STOP):
    """End the stream as the engine thread does."""
    shp_stream_end(stream.ptr, <shp_ending>ending, NULL)


def common_prefix(const int32_t[::1] one not None, const int32_t[::1] other not None):
    """Return how many leading ids are the same."""
    cdef Py_ssize_t n = min(one.shape[0], other.shape[0]), i = 0
    while i < n and one[i] == other[i]:
        i += 1
    return i


def common_prefixes(list several not None, const int32_t[::1] other not None):
    """Return for each of several arrays of ids how many leading ones are the same as in the other."""
    return [common_prefix(one, other) for one in several]


@cython.final
cdef class State:
    """Memory for a sequence's state that is read from a file. A Decoder takes it over."""

    cdef uint8_t *data      # owned until a Decoder takes it
    cdef readonly size_t size

    def __cinit__(self, size_t size):
        self.data = shp_snapshots_new_data(size) if size > 0 else NULL
        self.size = size
        if self.data == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.data != NULL:
            shp_snapshots_free_data(self.data, self.size)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, <Py_ssize_t>self.size, 0, flags)

    def view(self):
        """Return the memory; release it before the state is passed on."""
        return memoryview(self)


@cython.final
cdef class Unwritten:
    """A sequence to be written, with its checkpoints; give it back to its Decoder.

    `parts` yields `(ids, state, is_checkpoint)`, the sequence itself first; they are valid until it is given back.
    """

    cdef shp_snapshot items[SHP_MOST_WRITTEN]
    cdef int32_t n

    @property
    def owner(self):
        """Number of the owner, as it was submitted."""
        return self.items[0].belonging.owner

    @property
    def asked_ms(self):
        """Time of the sequence's last run, as it was submitted."""
        return self.items[0].belonging.asked_ms

    @property
    def head(self):
        """Number of leading tokens that unrelated conversations share."""
        return self.items[0].belonging.n_head

    def parts(self):
        """Return the sequence and its checkpoints, the longest first."""
        cdef int32_t i
        found = []
        for i in range(self.n):
            found.append((
                <int32_t[:self.items[i].n]>self.items[i].ids, <uint8_t[:self.items[i].size]>self.items[i].data,
                self.items[i].flags == SHP_STATE_PARTIAL,
            ))
        return found


@cython.final
cdef class Picture:
    """A picture for prompts: `embeddings` of its tokens, one after the other, for a model with these `n_embd` numbers each.

    It takes `n_positions`, at most as many as it has tokens; with `places`, in four dimensions: four numbers for each
    token, dimension by dimension, relative to the first position. `is_whole`: its tokens attend to each other.
    """

    cdef shp_picture *ptr   # held, as by each run that reads it
    cdef int32_t n_embd

    def __cinit__(self, const float[::1] embeddings not None, *, int n_embd, int n_positions, bint is_whole=False,
                  const int32_t[::1] places=None):
        cdef Py_ssize_t n = embeddings.shape[0] // n_embd if n_embd > 0 else 0
        if n < 1 or n > SHP_PICTURE_BITS or n * n_embd != embeddings.shape[0] or not 1 <= n_positions <= n:
            raise ValueError(f"{embeddings.shape[0]} numbers, {n_embd} a token, {n_positions} positions")
        if places is not None and places.shape[0] != 4 * n:
            raise ValueError(f"{places.shape[0]} places of {n} tokens")
        self.ptr = shp_picture_new(<int32_t>n, n_embd, places is not None)
        if self.ptr == NULL:
            raise MemoryError
        memcpy(self.ptr.embeddings, &embeddings[0], embeddings.shape[0] * sizeof(float))
        if places is not None:
            memcpy(self.ptr.places, &places[0], places.shape[0] * sizeof(int32_t))
        self.ptr.n_positions, self.ptr.is_whole, self.n_embd = n_positions, is_whole, n_embd

    def __dealloc__(self):
        shp_picture_free(self.ptr)

    @property
    def n_tokens(self):
        """Number of its tokens."""
        return self.ptr.n


@cython.final
cdef class Draft:
    """The drafts of one answer, without a model: what the engine thread would check next, token by token.

    `vocab` is the address of the vocabulary, whose ends of answers end a draft. `begin` may be called again.
    """

    cdef shp_draft draft
    cdef shp_ngrams earlier
    cdef shp_context context
    cdef shp_letters letters

    def __cinit__(self, uintptr_t vocab):
        if not is_bound or vocab == 0:
            raise ValueError("bind() first, and pass a vocabulary")
        self.context.vocab, self.context.n_vocab = <void *>vocab, shp_api.vocab_n_tokens(<void *>vocab)

    def __dealloc__(self):
        shp_draft_free(&self.draft)
        shp_ngrams_free(&self.earlier)

    def begin(self, const int32_t[::1] tokens not None, const int32_t[::1] earlier not None):
        """Begin an answer after these tokens, to a user with these earlier answers (both not empty)."""
        if tokens.shape[0] == 0 or earlier.shape[0] == 0:
            raise ValueError("no tokens")
        if not shp_ngrams_assign(&self.earlier, &earlier[0], <int32_t>earlier.shape[0]):
            raise MemoryError
        shp_draft_begin(&self.draft, &self.context, &tokens[0], <int32_t>tokens.shape[0], &self.earlier)

    def take(self, int token):
        """Continue the answer with this token."""
        shp_draft_take(&self.draft, token)

    def candidates(self, int most, uintptr_t grammar=0):
        """Return at most so many likely next tokens (31 of them at most), and how many tokens before them agree.

        With the address of a grammar, a sampler, they are those that it forces or allows.
        """
        most = max(0, min(most, SHP_MOST_DRAFTED))
        if grammar == 0:
            shp_draft_collect(&self.draft, most)
        else:
            shp_draft_collect_allowed(&self.draft, <void *>grammar, &self.letters, most)
        return [self.draft.tokens[i] for i in range(self.draft.n_candidates)], self.draft.place.n_matched


@cython.final
cdef class DraftModel:
    """A context of a second model with the same vocabulary, which drafts for a Decoder. It must stay until that is gone.

    `ctx`, `memory` and `vocab` are addresses, the others as for Decoder. The cache is one that can be cut.
    """

    cdef shp_context context
    cdef int32_t n_chunk

    def __cinit__(self, uintptr_t ctx, uintptr_t memory, uintptr_t vocab, *, int kind, int n_window, int n_swa,
                  int n_chunk):
        if not is_bound or ctx == 0 or memory == 0 or vocab == 0:
            raise ValueError("bind() first, and pass a context, its memory and a vocabulary")
        if n_window < 1 or n_chunk < 1 or not SHP_PLAIN <= kind <= SHP_SLIDING:
            raise ValueError(f"n_window {n_window}, n_chunk {n_chunk}, kind {kind}")
        self.context.ctx, self.context.memory, self.context.vocab = <void *>ctx, <void *>memory, <void *>vocab
        self.context.kind, self.context.n_window, self.context.n_swa = kind, n_window, n_swa
        self.context.n_vocab = shp_api.vocab_n_tokens(self.context.vocab)
        self.n_chunk = n_chunk


def choose_drafts(drafts, times, int room):
    """Return how many candidates of each Draft go into the next batch, by the times of batches by their tokens.

    `times` are `(tokens, nanoseconds)` in the order of measurement. Beside the drafts the batch has a token of each.
    """
    cdef shp_draft *chosen[SHP_MOST_DRAFTS]
    cdef shp_batch_costs costs
    cdef int32_t i, n = 0
    if len(drafts) > SHP_MOST_DRAFTS:
        raise ValueError(f"{len(drafts)} drafts; at most {SHP_MOST_DRAFTS}")
    memset(&costs, 0, sizeof(costs))
    for tokens, ns in times:
        shp_batch_costs_add(&costs, tokens, ns)
    for draft in drafts:
        chosen[n] = &(<Draft?>draft).draft
        chosen[n].n = 0
        n += 1
    shp_draft_choose(chosen, n, n, room, &costs)
    return [chosen[i].n for i in range(n)]


@cython.final
cdef class Decoder:
    """The scheduler of one context: its sequences, the mirrors of their KV cache, and the decoding loop.

    `serve` runs on a thread of its own; `submit` may be called from any thread. The addresses must outlive this object:
    call close() and let `serve` return before you free them. Each running job has one of `n_slots` sequences, which
    share `n_cells` cells of the KV cache (0: as many as one window has tokens); more jobs wait in the queue if they
    may. `cache_bytes` bounds the memory for snapshots: checkpoints and parked sequences. If it `writes`, other
    threads read and write files: see `next_read` and `take_unwritten`.

    Foreground runs hold `priority_lock`. While `yields_to` is held, all runs of this Decoder pause: after a token, or,
    on the CPU, within a micro-batch of the prompt, which is then decoded again.

    `draft`: check several likely next tokens of an answer in one batch, never, where batches so far say that it saves
    time (DRAFT_AUTO), or wherever there are any. Only caches that can be cut have drafts. With `is_on_cpu`, batches
    are timed by what the thread of `serve` computes. A `draft_model` drafts where an answer repeats nothing.
    """

    cdef shp_context context
    cdef shp_scheduler *scheduler   # owned
    cdef int32_t n_slots, n_chunk
    cdef DraftModel draft_model
    cdef PriorityLock priority_lock # held by our foreground runs; may be None, as the next
    cdef PriorityLock yields_to     # while another Decoder's runs hold it, ours pause

    def __cinit__(self, uintptr_t ctx, uintptr_t memory, uintptr_t vocab, *, int kind, int n_window, int n_swa,
                  int n_chunk, int n_slots=1, int n_cells=0, int n_embd=0, size_t cache_bytes=0, bint writes=False,
                  int edit=SHP_EDIT_EXACT, int draft=SHP_DRAFT_OFF, bint is_on_cpu=False,
                  DraftModel draft_model=None,
                  PriorityLock priority_lock=None,
                  PriorityLock yields_to=None):
        cdef shp_schedule schedule
        if not is_bound:
            raise RuntimeError("bind() first")
        if ctx == 0 or memory == 0 or vocab == 0:
            raise ValueError("a context, its memory and a vocabulary are needed")
        if n_window < 1 or n_chunk < 1 or not SHP_PLAIN <= kind <= SHP_HYBRID:
            raise ValueError(f"n_window {n_window}, n_chunk {n_chunk}, kind {kind}")
        if not 1 <= n_slots <= SHP_MOST_SLOTS or not SHP_EDIT_EXACT <= edit <= SHP_EDIT_HOLE:
            raise ValueError(f"n_slots {n_slots}, edit {edit}")
        if not SHP_DRAFT_OFF <= draft <= SHP_DRAFT_ALWAYS:
            raise ValueError(f"draft {draft}")
        self.context.ctx, self.context.memory, self.context.vocab = <void *>ctx, <void *>memory, <void *>vocab
        self.context.kind, self.context.n_window, self.context.n_swa = kind, n_window, n_swa
        self.context.n_vocab = shp_api.vocab_n_tokens(self.context.vocab)
        self.context.n_embd, self.n_chunk = n_embd, min(n_chunk, n_window)
        self.priority_lock, self.yields_to, self.n_slots = priority_lock, yields_to, n_slots
        schedule.n_slots, schedule.n_chunk = n_slots, min(n_chunk, n_window)
        schedule.n_cells = max(n_cells, n_window)
        schedule.snapshot_bytes, schedule.edit, schedule.draft = cache_bytes, <shp_edit>edit, <shp_draft_mode>draft
        schedule.writes = writes and cache_bytes > 0
        schedule.is_on_cpu, schedule.draft_context, schedule.n_draft_chunk = is_on_cpu, NULL, 0
        if draft_model is not None:
            schedule.draft_context, schedule.n_draft_chunk = &draft_model.context, draft_model.n_chunk
        self.draft_model = draft_model
        schedule.priority_lock = NULL if priority_lock is None else priority_lock.ptr
        schedule.yields_to = NULL if yields_to is None else yields_to.ptr
        self.scheduler = shp_scheduler_new(&self.context, &schedule)
        if self.scheduler == NULL:
            raise MemoryError

    def __dealloc__(self):
        shp_scheduler_free(self.scheduler)

    def submit(self, const int32_t[::1] tokens not None, Stream stream not None, *, uintptr_t sampler=0,
               uintptr_t grammar=0, max_tokens=0, int penalty_last_n=0, boundaries=(), int head=0, shown=(),
               bint background=False, bint may_wait=False, logprobs=None, bint after_sampling=False,
               int64_t owner=0, int64_t asked_ms=0,
               int64_t file=0, int in_file=0, const int32_t[::1] earlier=None, pictures=()):
        """Queue a run for the engine thread: prefill `tokens`, then sample up to `max_tokens` into `stream`.

        Returns False when all slots are busy and the run may not wait. `sampler` may be 0 when nothing is sampled.
        `grammar`, unless 0, is a sampler that rejects tokens. The run owns both until the stream ends. The sampler
        accepts the last `penalty_last_n` tokens of the prompt first. `boundaries` are prompt lengths, ascending, at
        which later prompts may diverge from this one: where the cache cannot rewind, a checkpoint is saved there.
        `head` is the number of leading tokens that unrelated conversations share, such as a system prompt.
        `shown` are control tokens whose text goes into the stream; the text of other control tokens does not.
        A `background` run pauses while foreground runs wait or run. `logprobs`: also record each token's log
        probability and those of the so many likeliest tokens; see Stream.likely. With `after_sampling`, they are those
        with which the samplers chose, and tokens that could not be chosen are left out.
        With an `owner`, who asked at `asked_ms`, the sequence is to be written. `file` is the number of a file that
        has the first `in_file` tokens; if the cache has fewer, it is read first. `earlier`: tokens that the answer may
        repeat, beside those of the prompt; they are only looked at to draft.
        `pictures` are `(index of the first id, Picture)`, in order, for all negative ids among the tokens: see pictures.h.
        """
        cdef Py_ssize_t n = tokens.shape[0], i
        cdef shp_job *job
        cdef int answer
        if not 1 <= n <= self.context.n_window:
            raise ValueError(f"{n} tokens; the window holds {self.context.n_window}")
        self._check_prompt(tokens, pictures)
        if earlier is not None:
            for i in range(earlier.shape[0]):
                if not 0 <= earlier[i] < self.context.n_vocab:
                    raise ValueError(f"earlier token {earlier[i]}; the vocabulary has {self.context.n_vocab}")
        if max_tokens < 0 or penalty_last_n < 0 or (max_tokens > 0 and sampler == 0):
            raise ValueError(f"max_tokens {max_tokens}, penalty_last_n {penalty_last_n}")
        if len(boundaries) > SHP_MOST_BOUNDARIES:
            raise ValueError(f"{len(boundaries)} boundaries; at most {SHP_MOST_BOUNDARIES}")
        if logprobs is not None and not 0 <= logprobs <= SHP_MOST_LIKELY:
            raise ValueError(f"logprobs {logprobs}; at most {SHP_MOST_LIKELY}")
        if len(shown) > SHP_MOST_SHOWN:
            raise ValueError(f"{len(shown)} control tokens to show; at most {SHP_MOST_SHOWN}")
        job = shp_job_new(stream.ptr, &tokens[0], <int32_t>n)
        if job == NULL:
            raise MemoryError
        try:
            for boundary in boundaries:
                if not 0 < boundary < n:
                    raise ValueError(f"a boundary at {boundary} of {n} tokens")
                job.boundaries[job.n_boundaries] = boundary
                job.n_boundaries += 1
            self._place_pictures(job, pictures)
            job.n_shared_head = max(0, min(head, <int>n - 1))
            for token in shown:
                job.sampling.shown[job.sampling.n_shown] = token
                job.sampling.n_shown += 1
            job.max_tokens = min(max_tokens, self.context.n_window)
            job.n_penalty, job.is_background = penalty_last_n, background
            job.belonging.owner, job.belonging.asked_ms = owner, asked_ms
            job.belonging.n_head = job.n_shared_head
            job.file, job.n_in_file = file, in_file
            job.sampling.sampler, job.sampling.grammar = <void *>sampler, <void *>grammar
            if logprobs is not None:
                job.sampling.asks_likely, job.sampling.n_likely = 1, logprobs
                job.sampling.is_after = after_sampling
            if earlier is not None and earlier.shape[0] > 0:
                shp_ngrams_assign(&job.earlier, &earlier[0], <int32_t>earlier.shape[0])
            answer = shp_scheduler_submit(self.scheduler, job, may_wait)
            if answer == 1:
                job = NULL
        finally:
            if job != NULL:
                shp_job_free(job)
        if answer < 0:
            raise RuntimeError("the engine is closed")
        return answer == 1

    cdef _check_prompt(self, const int32_t[::1] tokens, pictures):
        cdef Py_ssize_t i = 0, end, n = tokens.shape[0]
        cdef Picture picture
        for at, picture in pictures:
            end = at + picture.ptr.n
            if not i <= at < end < n or picture.n_embd != self.context.n_embd:
                raise ValueError(f"a picture of {picture.ptr.n} tokens at {at} of {n}, {picture.n_embd} numbers each")
            if picture.ptr.is_whole and picture.ptr.n > self.n_chunk:
                raise ValueError(f"a picture of {picture.ptr.n} tokens; a batch has {self.n_chunk}")
            self._check_tokens(tokens, i, at)
            for i in range(at, end):
                if tokens[i] >= 0 or (shp_begins_picture(tokens[i]) != 0) != (i == at):
                    raise ValueError(f"id {tokens[i]} at {i}, in a picture")
            if picture.ptr.n > 1 and (tokens[at + 1] & SHP_PICTURE_BITS) != picture.ptr.n_positions:
                raise ValueError(f"a picture of {picture.ptr.n_positions} positions at {at} has another number in its ids")
            i = end
        self._check_tokens(tokens, i, n)

    cdef _check_tokens(self, const int32_t[::1] tokens, Py_ssize_t begin, Py_ssize_t end):
        cdef Py_ssize_t i
        for i in range(begin, end):
            if not 0 <= tokens[i] < self.context.n_vocab:
                raise ValueError(f"token {tokens[i]} at {i}; the vocabulary has {self.context.n_vocab}")

    cdef _place_pictures(self, shp_job *job, pictures):
        cdef Picture picture
        if not pictures:
            return
        job.pictures = <shp_placed_picture *>calloc(len(pictures), sizeof(shp_placed_picture))
        if job.pictures == NULL:
            raise MemoryError
        for at, picture in pictures:
            shp_picture_hold(picture.ptr)
            job.pictures[job.n_pictures].picture, job.pictures[job.n_pictures].at = picture.ptr, at
            job.n_pictures += 1

    def serve(self):
        """Run submitted jobs until close(), without ever taking the GIL."""
        with nogil:
            shp_scheduler_serve(self.scheduler)

    def close(self):
        """Cancel all jobs and let `serve` return. May be called twice."""
        shp_scheduler_close(self.scheduler)

    def wait_idle(self, int timeout_ms=-1):
        """Wait until no job waits or runs; False after the timeout (-1: none)."""
        cdef int idle
        with nogil:
            idle = shp_scheduler_wait_idle(self.scheduler, timeout_ms)
        return idle != 0

    def forget(self):
        """Empty the KV cache and drop all snapshots. Only while idle, like all methods below."""
        self._check_idle()
        shp_scheduler_forget(self.scheduler)

    def park(self):
        """Save a snapshot of every sequence; return how many there was room for."""
        self._check_idle()
        return shp_scheduler_park(self.scheduler)

    def adopt(self, const int32_t[::1] ids not None, const uint8_t[::1] state not None, bint is_checkpoint):
        """Add a snapshot of these tokens. Returns False when it does not fit into `cache_bytes`."""
        self._check_idle()
        self._check_ids(ids)
        cdef shp_belonging nobody
        cdef uint8_t *data
        nobody.owner, nobody.asked_ms, nobody.n_head = 0, 0, 0
        if state.shape[0] == 0:
            raise ValueError("the state is empty")
        data = shp_snapshots_new_data(state.shape[0])
        if data == NULL:
            raise MemoryError
        memcpy(data, &state[0], state.shape[0])
        cdef int is_added = shp_snapshots_add_read(
            shp_scheduler_snapshots(self.scheduler), &ids[0], <int32_t>ids.shape[0], data, state.shape[0],
            SHP_STATE_PARTIAL if is_checkpoint else SHP_STATE_WHOLE, nobody)
        shp_snapshots_want_none(shp_scheduler_snapshots(self.scheduler))
        return is_added != 0

    def wait_for_read(self, int timeout_ms):
        """Wait until `next_read` has something; False after the timeout or once woken."""
        cdef int has_work
        with nogil:
            has_work = shp_keeping_wait(self.scheduler, 1, timeout_ms)
        return has_work != 0

    def wait_for_unwritten(self, int timeout_ms):
        """Wait until `take_unwritten` has something; False after the timeout or once woken."""
        cdef int has_work
        with nogil:
            has_work = shp_keeping_wait(self.scheduler, 0, timeout_ms)
        return has_work != 0

    def wake_files(self):
        """Let `wait_for_read` and `wait_for_unwritten` return."""
        with nogil:
            shp_keeping_wake(self.scheduler)

    def next_read(self):
        """Return `(job, file)` of the next job that waits for its file; None without one. Pass it to `was_read`."""
        cdef shp_job *job
        with nogil:
            job = shp_keeping_next_read(self.scheduler)
        return None if job == NULL else (<uintptr_t>job, job.file)

    def was_read(self, uintptr_t job, parts):
        """Let the job go on with what was read, `(ids, State, is_checkpoint)`: the sequence, then checkpoints of it.

        The states are taken over; ValueError, after which the job still waits, if the ids cannot be a sequence here.
        """
        cdef shp_snapshot items[SHP_MOST_WRITTEN]
        cdef int32_t n = 0, i
        cdef State state
        cdef const int32_t[::1] ids
        parts = list(parts)
        if len(parts) > SHP_MOST_WRITTEN:
            raise ValueError(f"{len(parts)} parts; at most {SHP_MOST_WRITTEN}")
        for part in parts:
            self._check_ids(part[0])
        for ids, state, is_checkpoint in parts:
            items[n].ids = <int32_t *>malloc(ids.shape[0] * sizeof(int32_t))
            if items[n].ids == NULL or state.data == NULL:
                free(items[n].ids)
                break
            memcpy(items[n].ids, &ids[0], ids.shape[0] * sizeof(int32_t))
            items[n].n, items[n].size = <int32_t>ids.shape[0], state.size
            items[n].flags = SHP_STATE_PARTIAL if is_checkpoint else SHP_STATE_WHOLE
            items[n].data, state.data = state.data, NULL
            n += 1
        with nogil:
            shp_keeping_was_read(self.scheduler, <shp_job *>job, items, n)

    def take_unwritten(self):
        """Return the Unwritten sequence to write next; None without one."""
        cdef Unwritten found = Unwritten.__new__(Unwritten)
        with nogil:
            found.n = shp_keeping_take(self.scheduler, found.items)
        return found if found.n > 0 else None

    def give_back(self, Unwritten unwritten not None):
        """Give back what was taken, written or not; it is not to be written again."""
        with nogil:
            shp_keeping_give_back(self.scheduler, unwritten.items, unwritten.n)
        unwritten.n = 0

    def stage(self):
        """Make the next idle sequence to be written one of `take_unwritten`, once `serve` has returned."""
        cdef int has_staged
        with nogil:
            has_staged = shp_keeping_stage_one(self.scheduler)
        return has_staged != 0

    @property
    def n_lost(self):
        """Number of sequences that left the memory before they were written."""
        return shp_keeping_n_lost(self.scheduler)

    cdef _check_ids(self, const int32_t[::1] ids):
        cdef Py_ssize_t n = ids.shape[0], i
        if not 0 < n < self.context.n_window:
            raise ValueError(f"{n} ids; the window holds {self.context.n_window}")
        for i in range(n):
            if ids[i] >= self.context.n_vocab:   # those of pictures are negative
                raise ValueError(f"token {ids[i]} at {i}; the vocabulary has {self.context.n_vocab}")

    @property
    def snapshot_bytes(self):
        """Bytes that all snapshots take."""
        self._check_idle()
        return shp_scheduler_snapshots(self.scheduler).bytes

    @property
    def last_slot(self):
        """The slot of the last run."""
        self._check_idle()
        return shp_scheduler_last_slot(self.scheduler)

    def ids_of(self, int slot):
        """The token ids of a slot's sequence in the KV cache, in order."""
        cdef shp_sequence *sequence = self._sequence(slot)
        return [sequence.ids[i] for i in range(sequence.n)]

    def positions_of(self, int slot):
        """The positions of those tokens: 0, 1, 2, … unless an edit left a hole."""
        cdef shp_sequence *sequence = self._sequence(slot)
        return [sequence.positions[i] for i in range(sequence.n)]

    def position_max_of(self, int slot):
        """The last position that llama.cpp has for that sequence; -1 when it is empty."""
        self._sequence(slot)
        return shp_api.seq_pos_max(self.context.memory, slot)

    def draft_model_of(self, int slot):
        """Return the ids of a slot's text in the draft model's cache, and llama.cpp's last position or -1."""
        cdef const int32_t *ids
        cdef int32_t last, n
        self._sequence(slot)
        if shp_scheduler_draft_model(self.scheduler) == NULL:
            return [], -1
        n = shp_draft_model_ids(shp_scheduler_draft_model(self.scheduler), slot, &ids, &last)
        return [ids[i] for i in range(n)], last

    @property
    def draft_model_counts(self):
        """How many batches the draft model has decoded, and how many tokens; when idle."""
        cdef int64_t n_batches = 0, n_read = 0
        if shp_scheduler_draft_model(self.scheduler) != NULL:
            shp_draft_model_counts(shp_scheduler_draft_model(self.scheduler), &n_batches, &n_read)
        return n_batches, n_read

    @property
    def mirror_ids(self):
        """The token ids of the last run's sequence, in order."""
        return self.ids_of(self.last_slot)

    @property
    def position_max(self):
        """The last position that llama.cpp has for the last run's sequence; -1 when it is empty."""
        return self.position_max_of(self.last_slot)

    def logits(self):
        """The logits of the last decoded token as float32 bytes; None without any."""
        if self._sequence(self.last_slot).n == 0:
            return None
        cdef float *row = shp_api.get_logits_ith(self.context.ctx, -1)
        return None if row == NULL else (<char *>row)[:self.context.n_vocab * sizeof(float)]

    cdef shp_sequence *_sequence(self, int slot) except NULL:
        self._check_idle()
        if not 0 <= slot < self.n_slots:
            raise ValueError(f"slot {slot} of {self.n_slots}")
        return &shp_scheduler_slot(self.scheduler, slot).sequence

    def _check_idle(self):
        if not shp_scheduler_wait_idle(self.scheduler, 0):
            raise RuntimeError("a run is on")

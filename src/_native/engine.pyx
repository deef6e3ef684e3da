# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, auto_pickle=False, autotestdict=False, embedsignature=False
"""The decode-and-sample loop of one conversation, without the GIL: token ids in, bytes and token ids out.

It knows ids, positions and addresses. Text, templates, settings and errors' wording live in shepherd.inference.
"""

import ctypes

cimport cython

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, int8_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strlen

from gate cimport *
from llama cimport *
from stream cimport *

cdef enum:
    PIECE_BYTES = 256          # longer pieces (runs of blanks) take a detour through malloc
    NO_MEMORY_CODE = 1000      # own codes, apart from those of llama_decode
    NO_LOGITS_CODE = 1001
    NO_TOKEN_CODE = 1002       # the grammar refuses every token of the vocabulary
    REFUSED = -2               # in place of a token id
    LOOK_MS = 20               # a waiting run looks at its cancel flag this often
    KIND_PLAIN = 0             # kinds of cache: what can be cut off its end
    KIND_SLIDING = 1
    KIND_RECURRENT = 2
    KIND_HYBRID = 3

cdef llama_decode_fn llama_decode
cdef llama_synchronize_fn llama_synchronize
cdef llama_get_logits_ith_fn llama_get_logits_ith
cdef llama_set_abort_callback_fn llama_set_abort_callback
cdef llama_memory_clear_fn llama_memory_clear
cdef llama_memory_seq_rm_fn llama_memory_seq_rm
cdef llama_memory_seq_pos_fn llama_memory_seq_pos_min
cdef llama_memory_seq_pos_fn llama_memory_seq_pos_max
cdef llama_sampler_sample_fn llama_sampler_sample
cdef llama_sampler_apply_fn llama_sampler_apply
cdef llama_sampler_accept_fn llama_sampler_accept
cdef llama_sampler_fn llama_sampler_reset
cdef llama_vocab_is_eog_fn llama_vocab_is_eog
cdef llama_vocab_n_tokens_fn llama_vocab_n_tokens
cdef llama_vocab_get_attr_fn llama_vocab_get_attr
cdef llama_vocab_get_text_fn llama_vocab_get_text
cdef llama_token_to_piece_fn llama_token_to_piece
cdef llama_log_set_fn llama_log_set
cdef bint is_bound = False

if shp_log_init() != 0:
    raise MemoryError("cannot make the lock of the log")

PLAIN, SLIDING, RECURRENT, HYBRID = KIND_PLAIN, KIND_SLIDING, KIND_RECURRENT, KIND_HYBRID
RUNNING, STOP, LENGTH, CANCELLED, FAILED = range(5)     # as shp_ending
NO_MEMORY, NO_LOGITS, NO_TOKEN = NO_MEMORY_CODE, NO_LOGITS_CODE, NO_TOKEN_CODE


cdef void *address(library, name) except NULL:
    return <void *><uintptr_t>ctypes.cast(getattr(library, name), ctypes.c_void_p).value


cdef check_layout(name, theirs, here, size):
    there = {field[0]: getattr(theirs, field[0]).offset for field in theirs._fields_}
    if here != there or ctypes.sizeof(theirs) != size:
        raise ImportError(f"{name} is laid out differently: {there}, compiled for {here}")


cdef check_structs(batch_type, data_type, array_type):
    cdef llama_batch b
    cdef llama_token_data d
    cdef llama_token_data_array a
    check_layout("llama_batch", batch_type, {
        "n_tokens": <char *>&b.n_tokens - <char *>&b, "token": <char *>&b.token - <char *>&b,
        "embd": <char *>&b.embd - <char *>&b, "pos": <char *>&b.pos - <char *>&b,
        "n_seq_id": <char *>&b.n_seq_id - <char *>&b, "seq_id": <char *>&b.seq_id - <char *>&b,
        "logits": <char *>&b.logits - <char *>&b,
    }, sizeof(llama_batch))
    check_layout("llama_token_data", data_type, {
        "id": <char *>&d.id - <char *>&d, "logit": <char *>&d.logit - <char *>&d, "p": <char *>&d.p - <char *>&d,
    }, sizeof(llama_token_data))
    check_layout("llama_token_data_array", array_type, {
        "data": <char *>&a.data - <char *>&a, "size": <char *>&a.size - <char *>&a,
        "selected": <char *>&a.selected - <char *>&a, "sorted": <char *>&a.sorted - <char *>&a,
    }, sizeof(llama_token_data_array))


def bind(library, batch_type, data_type, array_type):
    """Take the functions' addresses out of the library that llama_cpp loaded.

    The types are ctypes' llama_batch, llama_token_data and llama_token_data_array: ImportError when one is not
    the struct that was compiled in.
    From here on llama.cpp's log lines are kept for `take_log` instead of going to stderr.
    """
    global llama_decode, llama_synchronize, llama_get_logits_ith, llama_set_abort_callback, llama_memory_clear
    global llama_memory_seq_rm, llama_memory_seq_pos_min, llama_memory_seq_pos_max, llama_sampler_sample
    global llama_sampler_apply, llama_sampler_accept, llama_sampler_reset, llama_vocab_is_eog, llama_vocab_n_tokens
    global llama_vocab_get_attr, llama_vocab_get_text, llama_token_to_piece, llama_log_set, is_bound
    check_structs(batch_type, data_type, array_type)
    llama_decode = <llama_decode_fn>address(library, "llama_decode")
    llama_synchronize = <llama_synchronize_fn>address(library, "llama_synchronize")
    llama_get_logits_ith = <llama_get_logits_ith_fn>address(library, "llama_get_logits_ith")
    llama_set_abort_callback = <llama_set_abort_callback_fn>address(library, "llama_set_abort_callback")
    llama_memory_clear = <llama_memory_clear_fn>address(library, "llama_memory_clear")
    llama_memory_seq_rm = <llama_memory_seq_rm_fn>address(library, "llama_memory_seq_rm")
    llama_memory_seq_pos_min = <llama_memory_seq_pos_fn>address(library, "llama_memory_seq_pos_min")
    llama_memory_seq_pos_max = <llama_memory_seq_pos_fn>address(library, "llama_memory_seq_pos_max")
    llama_sampler_sample = <llama_sampler_sample_fn>address(library, "llama_sampler_sample")
    llama_sampler_apply = <llama_sampler_apply_fn>address(library, "llama_sampler_apply")
    llama_sampler_accept = <llama_sampler_accept_fn>address(library, "llama_sampler_accept")
    llama_sampler_reset = <llama_sampler_fn>address(library, "llama_sampler_reset")
    llama_vocab_is_eog = <llama_vocab_is_eog_fn>address(library, "llama_vocab_is_eog")
    llama_vocab_n_tokens = <llama_vocab_n_tokens_fn>address(library, "llama_vocab_n_tokens")
    llama_vocab_get_attr = <llama_vocab_get_attr_fn>address(library, "llama_vocab_get_attr")
    llama_vocab_get_text = <llama_vocab_get_text_fn>address(library, "llama_vocab_get_text")
    llama_token_to_piece = <llama_token_to_piece_fn>address(library, "llama_token_to_piece")
    llama_log_set = <llama_log_set_fn>address(library, "llama_log_set")
    llama_log_set(<void (*)(int, const char *, void *) noexcept nogil>shp_log_write, NULL)
    is_bound = True


def set_log_level(int least):
    """Keep log lines from this ggml level on: 1 debug, 2 info, 3 warning, 4 error."""
    shp_log_set_level(least)


def take_log():
    """The log lines since the last call, each RS (0x1E), a level digit and its text; at most 64 KiB, the newest."""
    cdef bytes out = PyBytes_FromStringAndSize(NULL, SHP_LOG_CAPACITY)
    return out[:shp_log_take(PyBytes_AS_STRING(out), SHP_LOG_CAPACITY)]


def special_tokens(uintptr_t vocab, int mask):
    """`(id, attributes, text)` of every token with one of the attributes in `mask`."""
    if not is_bound or vocab == 0:
        raise ValueError("bind() first, and pass a vocabulary")
    cdef void *v = <void *>vocab
    cdef int32_t i, attributes
    cdef const char *text
    found = []
    for i in range(llama_vocab_n_tokens(v)):
        attributes = llama_vocab_get_attr(v, i)
        if attributes & mask:
            text = llama_vocab_get_text(v, i)
            found.append((i, attributes, <bytes>text if text != NULL else b""))
    return found


def longest_token(uintptr_t vocab):
    """The most bytes that a token's text has in this vocabulary, at least 1."""
    if not is_bound or vocab == 0:
        raise ValueError("bind() first, and pass a vocabulary")
    cdef void *v = <void *>vocab
    cdef const char *text
    cdef size_t longest = 1
    cdef int32_t i
    for i in range(llama_vocab_n_tokens(v)):
        text = llama_vocab_get_text(v, i)
        if text != NULL:
            longest = max(longest, strlen(text))
    return longest


@cython.final
cdef class Gate:
    """Held while runs that go first are on; see Decoder."""

    cdef shp_gate *ptr      # owned; freed with this object, which every Decoder that uses it holds

    def __cinit__(self):
        self.ptr = shp_gate_new()
        if self.ptr == NULL:
            raise MemoryError

    def __dealloc__(self):
        shp_gate_free(self.ptr)


cdef struct interruption:       # what llama.cpp's abort callback looks at
    shp_stream *out
    shp_gate *before            # NULL: nobody goes first, or not now


cdef c_bool is_interrupted(void *data) noexcept nogil:
    cdef interruption *why = <interruption *>data
    return shp_stream_is_cancelled(why.out) or (why.before != NULL and shp_gate_is_taken(why.before))


@cython.final
cdef class Stream:
    """What one run produces, for one reader; `cancel` may come from any thread."""

    cdef shp_stream *ptr    # owned; freed with this object, which the Decoder holds while it writes

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
        """All text that is there: whole UTF-8 characters; `b""` after the timeout, None at the end."""
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

    def cancel(self):
        """Ask the run to end at the next token, micro-batch or, on the CPU, graph node."""
        shp_stream_cancel(self.ptr)

    @property
    def ending(self):
        """RUNNING, STOP, LENGTH, CANCELLED or FAILED."""
        return <int>shp_stream_ending(self.ptr, NULL)

    def counters(self):
        """Tokens and nanoseconds of the run, by name; zeros until it ends."""
        cdef shp_counters c
        shp_stream_ending(self.ptr, &c)
        return c

    def tokens(self):
        """`(id, end)` of each sampled token after the end: `end` is where its bytes end in the text.

        The token that completed a stop string has an end beyond every text.
        """
        cdef const int32_t *ids
        cdef const int64_t *ends
        cdef size_t i, n
        if shp_stream_ending(self.ptr, NULL) == SHP_RUNNING:
            raise RuntimeError("the run has not ended")
        n = shp_stream_tokens(self.ptr, &ids, &ends)
        return [(ids[i], ends[i]) for i in range(n)]


def feed_stream(Stream stream not None, int token, bytes piece not None):
    """Write a token's bytes as the loop does; False when a stop string is complete."""
    cdef shp_status status = shp_stream_write(stream.ptr, token, PyBytes_AS_STRING(piece), len(piece))
    if status == SHP_NO_MEMORY:
        raise MemoryError
    return status == SHP_OK


def end_stream(Stream stream not None, int ending=SHP_END_STOP):
    """End it as the loop does."""
    shp_stream_end(stream.ptr, <shp_ending>ending, NULL)


@cython.final
cdef class Decoder:
    """One sequence of one context, its mirror and the loop.

    Made on one thread, `serve` runs on its own, `submit` is for one caller at a time. The addresses must outlive
    it: close() it and let `serve` return before they are freed.

    Its runs hold `gate`. While anybody holds `yields_to`, its own runs pause: after a token, or, on the CPU, within
    a micro-batch of the prompt, which is then decoded again.
    """

    cdef void *ctx
    cdef void *memory
    cdef void *vocab
    cdef int kind
    cdef int32_t n_window           # tokens the context holds
    cdef int32_t n_swa              # sliding window, tokens
    cdef int32_t n_chunk            # tokens per llama_decode of a prompt
    cdef int32_t n_vocab

    cdef llama_batch batch          # its arrays hold n_chunk entries; owned
    cdef int32_t seq_zero           # what every seq_id entry points to
    cdef int32_t *mirror            # n_window ids: what the cache holds, in order; owned
    cdef int32_t n_mirror

    cdef shp_mailbox *box           # owned
    cdef object stream              # the Stream being written, kept alive; only touched with the GIL
    cdef int32_t *prompt            # n_window ids; owned
    cdef int32_t n_prompt, max_tokens, n_penalty
    cdef void *sampler              # borrowed; NULL: read the prompt only
    cdef void *grammar              # borrowed; NULL: every token may come
    cdef shp_stream *out            # borrowed from `stream`
    cdef llama_token_data *candidates   # n_vocab entries, with the first grammar; owned
    cdef int32_t *refused           # n_vocab ids, likewise: tokens that do not fit here after all; owned

    cdef Gate gate                  # held by our runs; may be None, as the next
    cdef Gate yields_to
    cdef shp_gate *before           # that of yields_to, or NULL
    cdef interruption why

    def __cinit__(self, uintptr_t ctx, uintptr_t memory, uintptr_t vocab, *, int kind, int n_window, int n_swa,
                  int n_chunk, Gate gate=None, Gate yields_to=None):
        cdef int32_t i
        if not is_bound:
            raise RuntimeError("bind() first")
        if ctx == 0 or memory == 0 or vocab == 0:
            raise ValueError("a context, its memory and a vocabulary are needed")
        if n_window < 1 or n_chunk < 1 or not KIND_PLAIN <= kind <= KIND_HYBRID:
            raise ValueError(f"n_window {n_window}, n_chunk {n_chunk}, kind {kind}")
        self.ctx, self.memory, self.vocab = <void *>ctx, <void *>memory, <void *>vocab
        self.kind, self.n_window, self.n_swa = kind, n_window, n_swa
        self.n_chunk = min(n_chunk, n_window)
        self.gate, self.yields_to = gate, yields_to
        self.before = NULL if yields_to is None else yields_to.ptr
        self.n_vocab = llama_vocab_n_tokens(self.vocab)
        self.box = shp_mailbox_new()
        self.mirror = <int32_t *>malloc(n_window * sizeof(int32_t))
        self.prompt = <int32_t *>malloc(n_window * sizeof(int32_t))
        self.batch.embd = NULL
        self.batch.token = <int32_t *>malloc(self.n_chunk * sizeof(int32_t))
        self.batch.pos = <int32_t *>malloc(self.n_chunk * sizeof(int32_t))
        self.batch.n_seq_id = <int32_t *>malloc(self.n_chunk * sizeof(int32_t))
        self.batch.seq_id = <int32_t **>malloc(self.n_chunk * sizeof(int32_t *))
        self.batch.logits = <int8_t *>malloc(self.n_chunk)
        if (self.box == NULL or self.mirror == NULL or self.prompt == NULL or self.batch.token == NULL
                or self.batch.pos == NULL or self.batch.n_seq_id == NULL or self.batch.seq_id == NULL
                or self.batch.logits == NULL):
            raise MemoryError
        for i in range(self.n_chunk):
            self.batch.n_seq_id[i] = 1
            self.batch.seq_id[i] = &self.seq_zero

    def __dealloc__(self):
        shp_mailbox_free(self.box)
        free(self.mirror)
        free(self.prompt)
        free(self.batch.token)
        free(self.batch.pos)
        free(self.batch.n_seq_id)
        free(self.batch.seq_id)
        free(self.batch.logits)
        free(self.candidates)
        free(self.refused)

    # ---- for Python ----

    def submit(self, const int32_t[::1] tokens not None, Stream stream not None, *, uintptr_t sampler=0,
               uintptr_t grammar=0, int max_tokens=0, int penalty_last_n=0):
        """Hand a run to the engine thread: read `tokens`, then sample up to `max_tokens` into `stream`.

        False when another run is on. `sampler` may be 0 when nothing is sampled. `grammar`, unless 0, is a sampler
        that refuses tokens. Of the prompt, the last `penalty_last_n` tokens are shown to the sampler first.
        """
        cdef Py_ssize_t n = tokens.shape[0], i
        if not 1 <= n <= self.n_window:
            raise ValueError(f"{n} tokens; the window holds {self.n_window}")
        for i in range(n):
            if not 0 <= tokens[i] < self.n_vocab:
                raise ValueError(f"token {tokens[i]} at {i}; the vocabulary has {self.n_vocab}")
        if max_tokens < 0 or penalty_last_n < 0 or (max_tokens > 0 and sampler == 0):
            raise ValueError(f"max_tokens {max_tokens}, penalty_last_n {penalty_last_n}")
        if grammar != 0:
            self._make_room_for_candidates()
        cdef int begun = shp_mailbox_begin(self.box)
        if begun == 0:
            return False
        if begun < 0:
            raise RuntimeError("the engine is closed")
        memcpy(self.prompt, &tokens[0], n * sizeof(int32_t))
        self.n_prompt = <int32_t>n
        self.sampler, self.grammar = <void *>sampler, <void *>grammar
        self.max_tokens = max_tokens
        self.n_penalty = penalty_last_n
        self.stream = stream
        self.out = stream.ptr
        if self.gate is not None:
            shp_gate_enter(self.gate.ptr)
        shp_mailbox_post(self.box)
        return True

    cdef _make_room_for_candidates(self):
        # 16 bytes a token, for those engines alone that are given grammars.
        if self.candidates == NULL:
            self.candidates = <llama_token_data *>malloc(self.n_vocab * sizeof(llama_token_data))
        if self.refused == NULL:
            self.refused = <int32_t *>malloc(self.n_vocab * sizeof(int32_t))
        if self.candidates == NULL or self.refused == NULL:
            raise MemoryError

    def serve(self):
        """Run what is submitted until close(); the GIL is not held once."""
        with nogil:
            while shp_mailbox_take(self.box):
                self.run()
                shp_mailbox_done(self.box)

    def close(self):
        """Cancel what runs and let `serve` return. May be called twice."""
        cdef Stream stream = self.stream
        if stream is not None:
            stream.cancel()
        shp_mailbox_close(self.box)

    def wait_idle(self, int timeout_ms=-1):
        """True once no run is on."""
        cdef int idle
        with nogil:
            idle = shp_mailbox_wait_idle(self.box, timeout_ms)
        return idle != 0

    def forget(self):
        """Empty the cache; only when idle."""
        self._check_idle()
        self.clear()

    @property
    def mirror_ids(self):
        """The ids in the cache, in order; only when idle."""
        self._check_idle()
        return [self.mirror[i] for i in range(self.n_mirror)]

    @property
    def position_max(self):
        """llama.cpp's own last position, -1 when its cache is empty; only when idle."""
        self._check_idle()
        return llama_memory_seq_pos_max(self.memory, 0)

    def logits(self):
        """The logits of the last decoded token as float32 bytes; only when idle. None when there are none."""
        self._check_idle()
        if self.n_mirror == 0:
            return None
        cdef float *row = llama_get_logits_ith(self.ctx, -1)
        return None if row == NULL else (<char *>row)[:self.n_vocab * sizeof(float)]

    def _check_idle(self):
        if not shp_mailbox_wait_idle(self.box, 0):
            raise RuntimeError("a run is on")

    # ---- the engine thread ----

    cdef void run(self) noexcept nogil:
        cdef shp_counters counts
        cdef shp_ending ending
        cdef int64_t started = shp_now_ns(), prefilled
        cdef int32_t reused, code = 0
        self.why.out, self.why.before = self.out, NULL
        llama_set_abort_callback(self.ctx, is_interrupted, &self.why)
        reused = self.ensure()
        counts.prompt_tokens = self.n_prompt
        counts.reused_tokens = reused
        counts.sampled_tokens = 0
        counts.first_token_ns = counts.decode_ns = 0
        ending = self.prefill(&code)
        counts.decoded_tokens = max(self.n_mirror - reused, 0)
        prefilled = shp_now_ns()
        counts.prefill_ns = prefilled - started
        if ending == SHP_RUNNING:
            ending = self.generate(&counts, started, &code)
            counts.decode_ns = shp_now_ns() - prefilled
        # The stream and its flag end with this run; the context lives on.
        llama_set_abort_callback(self.ctx, NULL, NULL)
        counts.total_ns = shp_now_ns() - started
        counts.code = code
        if self.gate is not None:
            shp_gate_leave(self.gate.ptr)
        shp_stream_end(self.out, ending, &counts)

    cdef int32_t ensure(self) noexcept nogil:
        """Cut the cache down to what it has in common with the prompt, less than all of it; its length."""
        cdef int32_t n = 0, most = min(self.n_mirror, self.n_prompt - 1)
        while n < most and self.mirror[n] == self.prompt[n]:
            n += 1
        if n < self.n_mirror:
            self.rewind(n)
        return self.n_mirror

    cdef void rewind(self, int32_t n) noexcept nogil:
        """Keep the first n tokens of the cache, or none where that cannot be done exactly."""
        if n == 0 or not self.holds_window(n):
            self.clear()
            return
        # Recurrent and hybrid caches refuse, unless they can roll back to exactly that position.
        if not llama_memory_seq_rm(self.memory, 0, n, -1) or llama_memory_seq_pos_max(self.memory, 0) != n - 1:
            self.clear()
            return
        self.n_mirror = n

    cdef bint holds_window(self, int32_t n) noexcept nogil:
        """Whether the token at position n would see all it may attend to.

        seq_rm says yes even when the sliding window before n is gone, and the logits are then wrong without an
        error. Position p is seen while n - p < n_swa.
        """
        if self.n_swa <= 0:
            return True
        return llama_memory_seq_pos_min(self.memory, 0) <= max(n - self.n_swa + 1, 0)

    cdef void clear(self) noexcept nogil:
        llama_memory_clear(self.memory, True)
        self.n_mirror = 0

    cdef void resync(self) noexcept nogil:
        """After a failed or aborted llama_decode: believe the cache, not our list."""
        cdef int32_t n = llama_memory_seq_pos_max(self.memory, 0) + 1
        if self.kind == KIND_RECURRENT or self.kind == KIND_HYBRID or n > self.n_mirror:
            # A state may hold half of a micro-batch, layer by layer, behind an old position.
            self.clear()
        elif n <= 0 or not self.holds_window(n):
            self.clear()
        else:
            self.n_mirror = n

    cdef shp_ending prefill(self, int32_t *code) noexcept nogil:
        """Decode the rest of the prompt, a micro-batch at a time; SHP_RUNNING when its logits are there."""
        cdef int32_t n, chunk = self.n_chunk, rc
        while self.n_mirror < self.n_prompt:
            if not self.wait_turn():
                return SHP_END_CANCELLED
            n = min(chunk, self.n_prompt - self.n_mirror)
            self.why.before = self.before
            rc = self.decode(self.prompt + self.n_mirror, n, self.n_mirror + n == self.n_prompt)
            # Not inside a single token: one that is given up costs caches that cannot rewind all they hold.
            self.why.before = NULL
            if rc == 0 or (rc == 2 and self.before != NULL and not shp_stream_is_cancelled(self.out)):
                continue
            if rc == 1 and n > 1:
                chunk = n // 2
                continue
            return self.give_up(rc, code)
        llama_synchronize(self.ctx)
        return SHP_RUNNING

    cdef bint wait_turn(self) noexcept nogil:
        """Wait while somebody goes first; False when the run is cancelled."""
        while not shp_stream_is_cancelled(self.out):
            if self.before == NULL or not shp_gate_is_taken(self.before):
                return True
            shp_gate_wait(self.before, LOOK_MS)
        return False

    cdef shp_ending give_up(self, int32_t rc, int32_t *code) noexcept nogil:
        if rc == 2 and shp_stream_is_cancelled(self.out):
            return SHP_END_CANCELLED
        code[0] = rc
        return SHP_END_FAILED

    cdef int32_t decode(self, const int32_t *tokens, int32_t n, bint wants_logits) noexcept nogil:
        """Decode n <= n_chunk tokens after the mirror, and put them into it; llama_decode's code."""
        cdef int32_t i, rc
        for i in range(n):
            self.batch.token[i] = tokens[i]
            self.batch.pos[i] = self.n_mirror + i
            self.batch.logits[i] = 0
        self.batch.logits[n - 1] = wants_logits
        self.batch.n_tokens = n
        rc = llama_decode(self.ctx, self.batch)
        if rc == 0 or rc == 2 or rc < -1:
            # Parts of the batch may be there, so the list first says all of it and is then cut to the truth.
            memcpy(self.mirror + self.n_mirror, self.batch.token, n * sizeof(int32_t))
            self.n_mirror += n
        if rc != 0:
            self.resync()
        return rc

    cdef shp_ending generate(self, shp_counters *counts, int64_t started, int32_t *code) noexcept nogil:
        """Sample, write, decode, until something ends it. O(1) per token beside the model's own work."""
        cdef int32_t token, rc
        cdef shp_status status
        if self.max_tokens == 0:
            return SHP_END_LENGTH
        if llama_get_logits_ith(self.ctx, -1) == NULL:
            code[0] = NO_LOGITS_CODE
            return SHP_END_FAILED
        self.prepare_sampler()
        while True:
            if not self.wait_turn():
                return SHP_END_CANCELLED
            token = self.sample()
            if token == REFUSED:
                code[0] = NO_TOKEN_CODE
                return SHP_END_FAILED
            if counts.sampled_tokens == 0:
                counts.first_token_ns = shp_now_ns() - started
            if token < 0 or token >= self.n_vocab or llama_vocab_is_eog(self.vocab, token):
                return SHP_END_STOP
            counts.sampled_tokens += 1
            status = self.write(token)
            if status == SHP_STOPPED:
                return SHP_END_STOP
            if status != SHP_OK:
                code[0] = NO_MEMORY_CODE
                return SHP_END_FAILED
            if counts.sampled_tokens == self.max_tokens or self.n_mirror == self.n_window:
                return SHP_END_LENGTH
            rc = self.decode(&token, 1, True)
            if rc == 1:
                return SHP_END_LENGTH
            if rc != 0:
                return self.give_up(rc, code)

    cdef void prepare_sampler(self) noexcept nogil:
        cdef int32_t i
        llama_sampler_reset(self.sampler)
        if self.grammar != NULL:
            llama_sampler_reset(self.grammar)
        for i in range(max(self.n_prompt - self.n_penalty, 0), self.n_prompt):
            llama_sampler_accept(self.sampler, self.prompt[i])

    cdef int32_t sample(self) noexcept nogil:
        """The next token, known to the samplers; REFUSED when the grammar has none.

        The first draw is looked at alone. Only when it does not fit is the grammar applied to the whole vocabulary,
        which at 150,000 tokens costs as much as many layers.
        """
        cdef int32_t token, n_refused = 0
        if self.grammar == NULL:
            return llama_sampler_sample(self.sampler, self.ctx, -1)
        token = self.draw(0)
        while token != REFUSED and not self.fits(token):
            self.refused[n_refused] = token
            n_refused += 1
            token = self.draw(n_refused)
        if token != REFUSED:
            # An end is told to nobody: the grammar asserts that it is not asked twice.
            if not llama_vocab_is_eog(self.vocab, token):
                llama_sampler_accept(self.grammar, token)
            llama_sampler_accept(self.sampler, token)
        return token

    cdef int32_t draw(self, int32_t n_refused) noexcept nogil:
        """A token as the sampler chooses it; when some were refused, of those that the grammar lets through."""
        cdef llama_token_data_array all_tokens
        cdef float *logits = llama_get_logits_ith(self.ctx, -1)
        cdef int32_t i
        for i in range(self.n_vocab):
            self.candidates[i].id, self.candidates[i].logit, self.candidates[i].p = i, logits[i], 0
        all_tokens.data, all_tokens.size = self.candidates, self.n_vocab
        all_tokens.selected, all_tokens.sorted = -1, 0
        if n_refused > 0:
            llama_sampler_apply(self.grammar, &all_tokens)
            for i in range(n_refused):
                self.candidates[self.refused[i]].logit = -INFINITY
            i = 0
            while i < self.n_vocab and self.candidates[i].logit == -INFINITY:
                i += 1
            if i == self.n_vocab:
                return REFUSED
        llama_sampler_apply(self.sampler, &all_tokens)
        if not 0 <= all_tokens.selected < <int64_t>all_tokens.size:
            return REFUSED
        return all_tokens.data[all_tokens.selected].id

    cdef bint fits(self, int32_t token) noexcept nogil:
        """Whether the grammar takes this token, and the text that the reader gets is the text that it saw."""
        cdef llama_token_data one
        cdef llama_token_data_array alone
        cdef char piece[PIECE_BYTES]
        cdef int32_t n
        one.id, one.logit, one.p = token, 1, 0
        alone.data, alone.size, alone.selected, alone.sorted = &one, 1, -1, 0
        llama_sampler_apply(self.grammar, &alone)
        if one.logit == -INFINITY:
            return False
        if llama_vocab_is_eog(self.vocab, token):
            return True
        # Control tokens have a text for the grammar, and none for the reader.
        n = llama_token_to_piece(self.vocab, token, piece, PIECE_BYTES, 0, False)
        return n < 0 or (n > 0 and shp_stream_fits(self.out, piece, n))

    cdef shp_status write(self, int32_t token) noexcept nogil:
        cdef char small[PIECE_BYTES]
        cdef char *large
        cdef shp_status status
        cdef int32_t n = llama_token_to_piece(self.vocab, token, small, PIECE_BYTES, 0, False)
        if n >= 0:
            return shp_stream_write(self.out, token, small, n)
        large = <char *>malloc(-n)
        if large == NULL:
            return SHP_NO_MEMORY
        n = llama_token_to_piece(self.vocab, token, large, -n, 0, False)
        status = shp_stream_write(self.out, token, large, max(n, 0))
        free(large)
        return status

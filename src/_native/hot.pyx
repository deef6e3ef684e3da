"""The hot index: one user's memories in memory, ranked as the FTS5 index ranks them, bit for bit, in microseconds.

It knows rows and words; which user it is, when it is made and where it is kept is decided above.
"""
cimport cython

from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.math cimport isfinite, isnan
from libc.stdint cimport INT64_MAX, UINT32_MAX, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp

from hot_h cimport (
    SHP_HOT_BAD_ROW,
    SHP_HOT_BUSY,
    SHP_HOT_DAMAGED,
    SHP_HOT_FULL,
    SHP_HOT_LONG,
    SHP_HOT_NO_MEMORY,
    SHP_HOT_OK,
    SHP_HOT_STALE,
    shp_hot,
    shp_hot_add,
    shp_hot_count,
    shp_hot_counts,
    shp_hot_fetch,
    shp_hot_find,
    shp_hot_found,
    shp_hot_found_free,
    shp_hot_free,
    shp_hot_load,
    shp_hot_new,
    shp_hot_publish,
    shp_hot_query,
    shp_hot_remove,
    shp_hot_replace,
    shp_hot_row,
    shp_hot_save,
    shp_hot_sequences,
    shp_hot_status,
    shp_hot_word,
)
from rank cimport check_rank_numbers
from rescore_query cimport set_rescore_query
from text_h cimport shp_text_initialise

from shepherd._native.text import folded

cdef extern from "Python.h":
    # Macros, where str.isascii and str.encode would be calls; the bytes of an ASCII text are its UTF-8.
    bint PyUnicode_IS_ASCII(str text)
    const void* PyUnicode_DATA(str text)
    Py_ssize_t PyUnicode_GET_LENGTH(str text)

__all__ = ["HotIndex", "HotIndexes", "HotSlot"]

shp_text_initialise()     # this module has its own copy of the tokenizer

cdef enum:
    MAX_WORDS = 64                  # at most so many are looked up, as in Recall
    # A search over up to so many postings takes less than 0.1 ms and keeps the GIL: a thread that let it go waits up
    # to 5 ms (sys.getswitchinterval) to get it back from a busy one.
    KEEP_GIL_POSTINGS = 20_000
    # The same of memories that are added, by the bytes of their texts: 20 us.
    KEEP_GIL_BYTES = 2_000


cdef int _check(shp_hot_status status) except -1:
    """Raise for a status after which the index is unusable; SHP_HOT_STALE is left to the caller."""
    if status == SHP_HOT_NO_MEMORY:
        raise MemoryError
    if status == SHP_HOT_FULL:
        raise OverflowError("more words or memories than a hot index can hold")
    if status == SHP_HOT_BAD_ROW:
        raise ValueError("rows out of order, or sums or lengths that are not those of the texts")
    if status == SHP_HOT_DAMAGED:
        raise ValueError("these bytes are no saved index of this build")
    return 0


cdef int _fill_text(str text, shp_hot_row* row, int i, list kept) except -1:
    """Point the row at the text's own bytes, or at folded ones, which are appended to `kept`."""
    cdef bytes other
    if text is not None and PyUnicode_IS_ASCII(text):
        row.texts[i] = <const uint8_t*>PyUnicode_DATA(text)
        row.n_bytes[i] = PyUnicode_GET_LENGTH(text)
        return 0
    other = folded(text)
    kept.append(other)
    row.texts[i] = <const uint8_t*>PyBytes_AS_STRING(other)
    row.n_bytes[i] = PyBytes_GET_SIZE(other)
    return 0


cdef int64_t _sequence(int64_t memory_id, int64_t first_id) except? -1:
    """Return the sequence of an id; -1, which no memory has, for an id below the first."""
    return memory_id - first_id if memory_id >= first_id else -1


cdef int _check_first_id(int64_t first_id) except -1:
    if not 0 <= first_id <= INT64_MAX - UINT32_MAX:
        raise ValueError(f"first_id must be from 0 to {INT64_MAX - UINT32_MAX}")
    return 0


cdef int _fill_row(tuple values, int64_t first_id, shp_hot_row* row, list kept) except -1:
    try:
        row.sequence, row.timestamp, row.doc_len = _sequence(values[0], first_id), values[1], values[2]
        row.thread, row.label, row.asks = values[3], values[4], values[5]
        _fill_text(values[6], row, 0, kept)
        _fill_text(values[7], row, 1, kept)
    except TypeError as error:
        # SQLite stores any type in any column: another program or a damaged page can leave bytes for a text.
        raise ValueError("a row with values of other types than a memory has") from error
    return 0


cdef bytes _fill_word(str word, shp_hot_word* out):
    """Point `out` at a keyword's UTF-8; return the bytes to keep alive, None if they are the keyword's own.

    As in match_expression, a lone surrogate is a word that no memory has.
    """
    cdef bytes other
    if word is None:
        raise TypeError("a keyword is a str, not None")
    if PyUnicode_IS_ASCII(word):
        out.bytes = <const uint8_t*>PyUnicode_DATA(word)
        out.n_bytes = PyUnicode_GET_LENGTH(word)
        return None
    other = word.encode("utf-8", "surrogatepass")
    out.bytes = <const uint8_t*>PyBytes_AS_STRING(other)
    out.n_bytes = PyBytes_GET_SIZE(other)
    return other


cdef list _fill_words(tuple keywords, shp_hot_word* words, int* n_words):
    """Fill `words` with the first MAX_WORDS distinct keywords; return the bytes to keep alive, mostly None."""
    cdef int n = 0
    cdef bytes other
    cdef list kept = None
    for keyword in keywords:
        if n == MAX_WORDS:
            break
        other = _fill_word(keyword, &words[n])
        if other is not None:
            kept = [other] if kept is None else [*kept, other]
        n += not _is_among(words, n)
    n_words[0] = n
    return kept


cdef bint _is_among(const shp_hot_word* words, int n) noexcept:
    """Return whether words[n] equals one before it.  They are few: a set would cost more than it saves."""
    cdef int i
    for i in range(n):
        if words[i].n_bytes == words[n].n_bytes and memcmp(words[i].bytes, words[n].bytes, words[n].n_bytes) == 0:
            return True
    return False


cdef int _fill_query(shp_hot_query* query, int64_t k, double now, double k1, double b, double recency_floor,
                     double min_relevance, periods, weights, bint is_request) except -1:
    """Check the numbers and fill everything but the version."""
    if not isfinite(now):
        raise ValueError("now must be finite")
    check_rank_numbers(k1, b, recency_floor)
    if isnan(min_relevance):
        raise ValueError("min_relevance must be a number")
    query.k, query.most_postings = k, KEEP_GIL_POSTINGS
    query.k1, query.b, query.min_relevance = k1, b, min_relevance
    set_rescore_query(&query.rescore, now, recency_floor, periods, weights, is_request)
    return 0


cdef list _hits(const shp_hot_found* found, int64_t first_id):
    """Return the hits as tuples, in a list made with its final size: one that grows takes twice as long."""
    cdef list hits = PyList_New(found.n)
    cdef int64_t i
    for i in range(found.n):
        hit = (first_id + found.hits[i].sequence, found.hits[i].bm25, found.hits[i].score, found.hits[i].relevance)
        Py_INCREF(hit)
        PyList_SET_ITEM(hits, i, hit)
    return hits


cdef class HotIndex:
    """Words, times and lengths of one user's memories at one version of them.

    A memory is a row (id, timestamp, doc_len, thread, label, asks, question, answer).  `doc_len` is the length of
    both texts (rank.length_of); the next three are as in rescore.h.  Ids are at least `first_id`, and less than
    `first_id` + 2^32.

    One thread at a time can call `add`, `remove` and `replace`; they leave the index stale until `publish`, and
    unusable when they raise.  Any number of threads can call `search` meanwhile.
    """

    cdef shp_hot* index                # owned
    cdef readonly int64_t first_id     # id of sequence 0

    def __cinit__(self):
        self.index = NULL

    def __init__(self, int64_t first_id=0):
        _check_first_id(first_id)
        self.first_id = first_id
        if self.index == NULL:
            self.index = shp_hot_new()
        if self.index == NULL:
            raise MemoryError

    def __dealloc__(self):
        shp_hot_free(self.index)

    # ---- changes

    def add(self, list rows not None):
        """Add memories in ascending order of id, above the existing ones.  About 8 us each; many without the GIL."""
        cdef Py_ssize_t i, n = len(rows)
        cdef size_t n_bytes = 0
        cdef list kept = []
        cdef shp_hot_status status = SHP_HOT_BUSY
        cdef shp_hot_row* filled = <shp_hot_row*>malloc((n + 1) * sizeof(shp_hot_row))
        if filled == NULL:
            raise MemoryError
        try:
            for i in range(n):
                _fill_row(rows[i], self.first_id, &filled[i], kept)
                n_bytes += filled[i].n_bytes[0] + filled[i].n_bytes[1]
            if n_bytes <= KEEP_GIL_BYTES:
                status = shp_hot_add(self.index, filled, n, False)
            if status == SHP_HOT_BUSY:
                with nogil:
                    status = shp_hot_add(self.index, filled, n, True)
            _check(status)
        finally:
            free(filled)

    def replace(self, tuple row not None):
        """Replace a memory's text, time and length; ValueError when there is no such memory."""
        cdef shp_hot_row filled
        cdef list kept = []
        cdef shp_hot_status status
        _fill_row(row, self.first_id, &filled, kept)
        with nogil:
            status = shp_hot_replace(self.index, &filled)
        _check(status)

    def remove(self, ids):
        """Remove memories; unknown ids are ignored."""
        cdef list ordered = sorted(set(ids))
        cdef Py_ssize_t i, n = len(ordered)
        cdef shp_hot_status status
        cdef int64_t* filled = <int64_t*>malloc((n + 1) * sizeof(int64_t))
        if filled == NULL:
            raise MemoryError
        try:
            for i in range(n):
                filled[i] = _sequence(ordered[i], self.first_id)
            with nogil:
                status = shp_hot_remove(self.index, filled, n)
            _check(status)
        finally:
            free(filled)

    def publish(self, int64_t version, int64_t n_memories, int64_t total_length):
        """Set the version that `search` answers for; ValueError when the sums differ from the index's own."""
        cdef shp_hot_status status
        if version < 0:
            raise ValueError("a version is not negative")
        status = shp_hot_publish(self.index, version, n_memories, total_length, False)
        if status == SHP_HOT_BUSY:
            with nogil:
                status = shp_hot_publish(self.index, version, n_memories, total_length, True)
        _check(status)

    # ---- questions

    def search(self, int64_t version, keywords, int64_t k, double now, *, double k1=0.9, double b=0.3,
               double recency_floor=0.9, double min_relevance=0.0, periods=(), weights=None,
               bint is_request=False):
        """Return (id, bm25, score, relevance) of the best `k` as Recall.search does, ties by the larger id first.

        None when the index has another version or is being changed.
        """
        cdef shp_hot_query query
        shp_hot_fetch(self.index)
        _fill_query(&query, k, now, k1, b, recency_floor, min_relevance, periods, weights, is_request)
        return self._find(version, tuple(keywords), &query)

    cdef list _find(self, int64_t version, tuple keywords, shp_hot_query* query):
        cdef shp_hot_word words[MAX_WORDS]
        cdef shp_hot_found found
        cdef int n
        cdef shp_hot_status status
        cdef list kept      # with `keywords`, keeps the words alive while the GIL is released
        kept = _fill_words(keywords, words, &n)
        if not n or query.k < 1:
            return []
        query.version = version
        status = shp_hot_find(self.index, query, words, n, &found)
        if status == SHP_HOT_LONG:
            query.most_postings = INT64_MAX
            with nogil:
                status = shp_hot_find(self.index, query, words, n, &found)
        if status == SHP_HOT_STALE:
            return None
        try:
            _check(status)
            return _hits(&found, self.first_id)
        finally:
            shp_hot_found_free(&found)

    def counts(self):
        """Return the index's counts by name; None while it is being changed.

        version (-1: stale), n_memories, total_length, last_sequence (id - first_id of the last memory; -1: none),
        n_terms, n_postings, n_bytes, n_free_bytes (chunks left by lists that grew; part of n_bytes).
        """
        cdef shp_hot_counts counts
        if shp_hot_count(self.index, &counts) != SHP_HOT_OK:
            return None
        return counts

    def sequences(self):
        """Return id - first_id of the memories in ascending order, as native 64-bit integers."""
        cdef shp_hot_counts counts
        cdef int64_t n = 0
        cdef bytes room
        cdef int64_t* out
        if shp_hot_count(self.index, &counts) == SHP_HOT_OK:
            n = counts.n_memories
        room = PyBytes_FromStringAndSize(NULL, n * sizeof(int64_t))
        out = <int64_t*>PyBytes_AS_STRING(room)
        with nogil:
            n = shp_hot_sequences(self.index, out, n)
        return room[:n * sizeof(int64_t)]

    # ---- saving

    def save(self):
        """Return the index as bytes for `load`, with a checksum; None while it is stale."""
        cdef uint8_t* saved = NULL
        cdef size_t n = 0
        cdef shp_hot_status status
        with nogil:
            status = shp_hot_save(self.index, &saved, &n)
        if status == SHP_HOT_STALE:
            return None
        try:
            _check(status)
            return PyBytes_FromStringAndSize(<const char*>saved, n)
        finally:
            free(saved)

    @staticmethod
    def load(const uint8_t[::1] saved not None, int64_t first_id=0):
        """Return the index that `save` made with the same `first_id`.

        ValueError for bytes that are damaged or come from another build or kind of machine.
        """
        cdef HotIndex loaded = HotIndex.__new__(HotIndex)
        cdef size_t n = saved.shape[0]
        cdef shp_hot_status status = SHP_HOT_DAMAGED
        _check_first_id(first_id)
        if n:
            with nogil:
                status = shp_hot_load(&saved[0], n, &loaded.index)
        _check(status)
        loaded.first_id = first_id
        return loaded


@cython.auto_pickle(False)
cdef class HotSlot:
    """The place of one tenant's index in HotIndexes."""

    cdef HotIndex held
    cdef shp_hot* inside           # of `held`, to be prefetched without reading that; NULL without one
    cdef public int64_t used       # number of the last search that used it

    @property
    def index(self):
        """The index; None while searches use the tables."""
        return self.held

    @index.setter
    def index(self, HotIndex index):
        self.held = index
        self.inside = NULL if index is None else index.index


cdef class HotIndexes:
    """Searches by each tenant's index, or by `_search_tables` of a subclass where its version is another.

    Native, because these steps in Python take as long as a search of a small index.
    """

    cdef readonly dict _slots      # a HotSlot by number of tenant
    cdef int64_t clock

    def __cinit__(self):
        self._slots = {}

    cdef list _find(self, tenant, version, connection, tuple words, int64_t k, double now, double k1, double b,
                    double recency_floor, double min_relevance, periods, weights, bint is_request):
        """Return the hits by the tenant's index; None if it does not have the version, which may be read first."""
        cdef shp_hot_query query
        cdef HotSlot slot = self._slots.get(tenant)
        cdef HotIndex index = None
        if slot is not None and slot.inside != NULL:
            shp_hot_fetch(slot.inside)
            index = slot.held
        if index is None:
            return None
        self.clock += 1
        slot.used = self.clock
        if version is None:
            version = self._read_version(connection, tenant)
        _fill_query(&query, k, now, k1, b, recency_floor, min_relevance, periods, weights, is_request)
        return index._find(version, words, &query)

    def find(self, tenant, int64_t version, keywords, int64_t k, double now, *, double k1=0.9, double b=0.3,
             double recency_floor=0.9, double min_relevance=0.0, periods=(), weights=None, bint is_request=False):
        """Return what `search` returns in a transaction that sees this version; None without an index of it."""
        return self._find(tenant, version, None, tuple(keywords), k, now, k1, b, recency_floor, min_relevance,
                          periods, weights, is_request)

    def search(self, connection, tenant, keywords, int64_t k, double now, version=None, *, double k1=0.9,
               double b=0.3, double recency_floor=0.9, double min_relevance=0.0, periods=(), weights=None,
               bint is_request=False):
        """Return (id, bm25, score, relevance) of the best `k`, equal to Recall.search in the same transaction.

        `version` is the tenant's in this transaction, if the caller has read it.
        """
        cdef tuple words = tuple(keywords)
        cdef list found = self._find(tenant, version, connection, words, k, now, k1, b, recency_floor, min_relevance,
                                     periods, weights, is_request)
        if found is not None:
            return found
        return self._search_tables(
            connection, tenant, words, k, now, k1=k1, b=b, recency_floor=recency_floor, min_relevance=min_relevance,
            periods=periods, weights=weights, is_request=is_request)

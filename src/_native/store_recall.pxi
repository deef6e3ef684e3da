# Part of store.pyx: searches over the FTS5 index, through a Connection.

@cython.final
cdef class Recall:
    """Finds the memories of one user that fit some keywords.  One per database, for all its connections.

    With `corpus="chunks"` it finds chunks of the user's knowledge instead: a chunk's neighbours are those stored
    beside it, its conversation is its node, and it has no time.

    Keeps what ranking needs of the memories of the users it has searched (29 bytes each), brought up to date
    inside every search from `tenants`: writes of other connections and other processes are seen as far as
    the transaction of the search sees them.  After a database was replaced by another under the same path,
    make a new one.  May be used by any number of threads at a time, each with its own connection.
    """

    cdef shp_documents_cache* cache   # owned
    cdef object database              # Connection.database of the one it serves; None before the first search
    cdef int corpus                   # SHP_RECALL_...

    def __cinit__(self, *, corpus="memories"):
        if corpus not in ("memories", "chunks"):
            raise ValueError(f"corpus is memories or chunks, not {corpus!r}")
        self.corpus = SHP_RECALL_CHUNKS if corpus == "chunks" else SHP_RECALL_MEMORIES
        self.cache = shp_documents_cache_new()
        if self.cache == NULL:
            raise MemoryError

    def __dealloc__(self):
        shp_documents_cache_free(self.cache)

    def search(self, Connection connection not None, int64_t tenant, keywords, int64_t k, double now, *,
               double k1=0.9, double b=0.3, double recency_floor=0.9, double min_relevance=0.0, periods=(),
               weights=None):
        """(id, bm25, score, relevance) of the best `k` memories, best first; of equal scores the larger id first.

        Score: BM25 and what the conversation adds to it (rescore.c), times recency at `now` (seconds).  A memory
        without any keyword, whose neighbours have them, has a `bm25` of 0.  Memories whose time lies in one of
        the `periods`, pairs (first second, the one after the last), count for more.  `weights` as
        rank.Weights.  Statistics are the tenant's own.  Sums are taken in the order of the keywords (repeats
        count once), so that equal data gives equal bits.  At most 64 keywords are looked up, and of those that
        the tenant's memories have the 16 rarest ranked by.  Memories of less than `min_relevance` are left out.
        Reads inside the connection's transaction, or in one of its own.
        """
        cdef list words = list(dict.fromkeys(keywords))[:SHP_RECALL_MAX_PHRASES]
        cdef shp_recall_query query
        cdef bytes match, encoded
        if not 0 <= tenant <= SHP_MAX_TENANT:
            raise ValueError(f"a tenant's number is from 0 to {SHP_MAX_TENANT}, not {tenant}")
        if not (isfinite(now) and isfinite(k1) and k1 >= 0 and 0 <= b <= 1 and 0 <= recency_floor <= 1):
            raise ValueError("now must be finite, k1 at least 0, b and recency_floor between 0 and 1")
        if isnan(min_relevance):
            raise ValueError("min_relevance must be a number")
        self._check_database(connection)
        if not words or k < 1:
            return []
        match = match_expression(words, tenant)
        query.tenant = tenant
        query.match = match
        query.match_bytes = <int>len(match)
        query.n_phrases = <int>len(words)
        query.k, query.k1, query.b, query.min_relevance = k, k1, b, min_relevance
        set_rescore_query(&query.rescore, now, recency_floor, periods, weights)
        query.rescore.n_labels = query.n_phrases
        for i, word in enumerate(words):
            encoded = (<str>word).encode("utf-8", "surrogatepass")
            query.rescore.labels[i] = shp_rescore_key(encoded, <size_t>len(encoded))
        connection._enter_settled()
        try:
            return self._search(connection, &query)
        finally:
            connection._leave()

    cdef list _search(self, Connection connection, const shp_recall_query* query):
        cdef const shp_recall_hit* hits = NULL
        cdef int64_t i, n_hits = 0
        cdef int code = SQLITE_OK
        cdef list found = []
        with nogil:
            if connection.readers[self.corpus] == NULL:
                code = shp_recall_reader_open(connection.db, self.corpus, &connection.readers[self.corpus])
            if code == SQLITE_OK:
                code = shp_recall_search(self.cache, connection.readers[self.corpus], query, &hits, &n_hits)
        if code != SQLITE_OK:
            raise _error(connection.db, code, True)
        for i in range(n_hits):
            found.append((hits[i].id, hits[i].bm25, hits[i].score, hits[i].relevance))
        return found

    cdef int _check_database(self, Connection connection) except -1:
        if self.database is None:
            self.database = connection.database
        elif self.database != connection.database:
            raise ValueError("a Recall serves one database; this connection is to another")
        return 0

    def forget(self, int64_t tenant):
        """Drops what is kept of a tenant; the next search reads it again."""
        shp_documents_forget(self.cache, tenant)

    @property
    def memory_bytes(self):
        """Bytes that the arrays of all tenants take."""
        return shp_documents_cache_bytes(self.cache)

# Declarations of recall.h and documents.h. Result codes are SQLite's; no call needs the GIL.
from libc.stdint cimport int64_t

from rescore cimport shp_rescore_query
from sqlite3 cimport sqlite3

cdef extern from "documents.h" nogil:
    const int64_t SHP_MAX_TENANT
    ctypedef struct shp_documents_cache:
        pass

    shp_documents_cache* shp_documents_cache_new() noexcept   # NULL when memory is out
    void shp_documents_cache_free(shp_documents_cache* cache) noexcept
    int64_t shp_documents_cache_bytes(shp_documents_cache* cache) noexcept
    void shp_documents_forget(shp_documents_cache* cache, int64_t tenant) noexcept

cdef extern from "recall.h" nogil:
    const int SHP_RECALL_MAX_PHRASES, SHP_RECALL_MAX_KEYWORDS
    const int SHP_RECALL_MEMORIES, SHP_RECALL_CHUNKS
    enum: SHP_RECALL_CORPORA
    ctypedef struct shp_recall_reader:
        pass
    ctypedef struct shp_recall_query:
        int64_t tenant
        const char* match        # FTS5 query, owned by the caller
        int match_bytes
        int n_phrases
        int64_t k
        double k1, b, min_relevance
        shp_rescore_query rescore
    ctypedef struct shp_recall_hit:
        int64_t id
        double bm25, score, relevance

    int shp_recall_reader_open(sqlite3* db, int corpus, shp_recall_reader** out) noexcept
    void shp_recall_reader_close(shp_recall_reader* reader) noexcept
    int shp_recall_search(shp_documents_cache* cache, shp_recall_reader* reader, const shp_recall_query* query,
                          const shp_recall_hit** hits, int64_t* n_hits) noexcept

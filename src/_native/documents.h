/* A cache of the fields that ranking needs of every user's memories, shared by all connections; see documents.c. */
#ifndef SHP_DOCUMENTS_H
#define SHP_DOCUMENTS_H

#include <stdint.h>

#include "pairs.h"

#include "sqlite3.h"

/* id = tenant << SHP_SEQUENCE_BITS | sequence */
#define SHP_SEQUENCE_BITS 40
#define SHP_SEQUENCE_MASK (((int64_t)1 << SHP_SEQUENCE_BITS) - 1)
#define SHP_MAX_TENANT (((int64_t)1 << (63 - SHP_SEQUENCE_BITS)) - 1)

enum { SHP_DOCUMENTS_BLOCK = 4096 };

typedef struct shp_documents_columns shp_documents_columns;

/* One user's memories at one version; never changes once handed out. */
typedef struct {
    const int64_t *sequence;  /* ascending; n of each */
    const int64_t *timestamp; /* seconds */
    const int32_t *doc_len;   /* in words of a person (shp_length_of), not negative */
    const int32_t *thread;    /* conversation, 0 for none; this and the next two as in rescore.h */
    const int32_t *label;
    const uint8_t *asks;
    const shp_pairs *pairs;
    const int64_t *newest;    /* latest timestamp of each SHP_DOCUMENTS_BLOCK; read only those that n fills */
    int64_t n;                /* below 2^32 */

    int64_t version, edits;     /* the row of tenants that it belongs to */
    int64_t first_version;      /* version at which it was read as a whole: memories deleted later are in it */
    int64_t n_references;       /* under the cache's mutex */
    shp_documents_columns *columns;
} shp_documents;

typedef struct shp_documents_cache shp_documents_cache;

/* NULL when memory is out. */
shp_documents_cache *shp_documents_cache_new(void);
void shp_documents_cache_free(shp_documents_cache *cache);
int64_t shp_documents_cache_bytes(shp_documents_cache *cache);
void shp_documents_forget(shp_documents_cache *cache, int64_t tenant);

/* The arrays of `tenant` as of (version, edits), which the caller has read in the transaction that is open on
   the connection of `load`: SELECT id, timestamp, doc_len, thread, label, asks, pairs ... WHERE id BETWEEN ?1 AND ?2,
   ascending.  Returns an SQLite code; after SQLITE_OK the caller releases the result. */
int shp_documents_acquire(shp_documents_cache *cache, sqlite3_stmt *load, int64_t tenant, int64_t version,
                          int64_t edits, shp_documents **out);
void shp_documents_release(shp_documents_cache *cache, shp_documents *documents);

/* Index of `sequence`, or -1.  `start`: every index below it has a smaller sequence. */
int64_t shp_documents_find(const shp_documents *documents, int64_t start, int64_t sequence);

#endif

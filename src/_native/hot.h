/* An index of one user's memories in RAM, with the same results as recall.c has with FTS5; see hot_index.c. */
#ifndef SHP_HOT_H
#define SHP_HOT_H

#include <stddef.h>
#include <stdint.h>

#include "rescore.h"

enum {
    SHP_HOT_MAX_KEYWORDS = 16, /* keywords used: the rarest of the query that the memories have */
    SHP_HOT_FEW = 16           /* hits that fit into shp_hot_found */
};

typedef enum {
    SHP_HOT_OK = 0,
    SHP_HOT_STALE = 1,      /* of another version than the query's, or being changed: search with FTS5 */
    SHP_HOT_LONG = 2,       /* more postings than the query allows: nothing was done */
    SHP_HOT_BUSY = 3,       /* a search is running, and the caller does not wait: nothing was done */
    SHP_HOT_NO_MEMORY = -1, /* after this code and the following ones the index is unusable */
    SHP_HOT_FULL = -2,      /* more words or memories than 32-bit numbers can count */
    SHP_HOT_BAD_ROW = -3,   /* rows out of order, or lengths that are not those of their texts */
    SHP_HOT_DAMAGED = -4    /* the bytes are not a saved index */
} shp_hot_status;

typedef struct shp_hot shp_hot;

/* A memory to be added.  Texts as for shp_terms_read. */
typedef struct {
    int64_t sequence, timestamp, doc_len;
    int64_t thread, label, asks; /* as in rescore.h */
    const uint8_t *texts[2];
    size_t n_bytes[2];
} shp_hot_row;

typedef struct {
    const uint8_t *bytes; /* UTF-8 */
    size_t n_bytes;
} shp_hot_word;

typedef struct {
    int64_t version; /* of tenants, as the caller's transaction sees it */
    int64_t k;       /* at least 1 */
    int64_t most_postings; /* in the lists of its words */
    double k1, b, min_relevance;
    shp_rescore_query rescore; /* n_labels and labels come from the words */
} shp_hot_query;

typedef struct {
    int64_t sequence;
    double bm25, score, relevance; /* bm25: its own, 0 when only its neighbours have keywords */
} shp_hot_hit;

typedef struct {
    shp_hot_hit *hits; /* best first: `few`, or malloc'ed */
    int64_t n;
    shp_hot_hit few[SHP_HOT_FEW];
} shp_hot_found;

/* NULL when memory is out. */
shp_hot *shp_hot_new(void);
void shp_hot_free(shp_hot *index);

/* ---- changes: one thread at a time.  Each makes the index stale until shp_hot_publish. */

/* Adds rows in ascending order of sequence, all above the existing ones. */
shp_hot_status shp_hot_add(shp_hot *index, const shp_hot_row *rows, size_t n_rows, int waits);

/* Removes memories by their sequences (ascending); unknown ones are ignored. */
shp_hot_status shp_hot_remove(shp_hot *index, const int64_t *sequences, size_t n);

/* Replaces a memory's text, time and length. */
shp_hot_status shp_hot_replace(shp_hot *index, const shp_hot_row *row);

/* Sets the version of the table `tenants` that the index now has; SHP_HOT_BAD_ROW when its sums differ from the
   table's. */
shp_hot_status shp_hot_publish(shp_hot *index, int64_t version, int64_t n_memories, int64_t total_length, int waits);

/* ---- searches: any number of threads at a time, without waiting */

/* Prefetches the cache lines that every search reads first; to be called as soon as the index is known. */
void shp_hot_fetch(const shp_hot *index);
/* Finds at most k hits.  `found` is set in any case; the caller frees it with shp_hot_found_free. */
shp_hot_status shp_hot_find(shp_hot *index, shp_hot_query *query, const shp_hot_word *words, int n_words,
                            shp_hot_found *found);
void shp_hot_found_free(shp_hot_found *found);

typedef struct {
    int64_t version; /* -1: stale */
    int64_t n_memories, total_length, last_sequence;
    int64_t n_terms, n_postings;
    int64_t n_bytes, n_free_bytes; /* of all data; free of these, since lists moved away */
} shp_hot_counts;

shp_hot_status shp_hot_count(shp_hot *index, shp_hot_counts *out);

/* Writes the sequences of the memories in ascending order, at most `room`; returns how many. */
int64_t shp_hot_sequences(shp_hot *index, int64_t *out, int64_t room);

/* ---- saving */

/* The whole index as bytes that shp_hot_load takes on a machine of this kind, malloc'ed; the caller frees them.
   SHP_HOT_STALE while it has no version. */
shp_hot_status shp_hot_save(shp_hot *index, uint8_t **out, size_t *n_bytes);
shp_hot_status shp_hot_load(const uint8_t *bytes, size_t n_bytes, shp_hot **out);

#endif

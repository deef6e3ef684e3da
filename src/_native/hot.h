/* One user's memories as an index in memory: the same results as recall.c finds with FTS5; see hot_index.c. */
#ifndef SHP_HOT_H
#define SHP_HOT_H

#include <stddef.h>
#include <stdint.h>

#include "rescore.h"

enum {
    SHP_HOT_MAX_KEYWORDS = 16, /* ranked by: the rarest of those asked that the memories have */
    SHP_HOT_FEW = 16           /* hits that need no memory of their own */
};

typedef enum {
    SHP_HOT_OK = 0,
    SHP_HOT_STALE = 1,      /* not of the version asked for, or being changed: ask the tables */
    SHP_HOT_LONG = 2,       /* more postings than the query allows: nothing was done */
    SHP_HOT_BUSY = 3,       /* a question is inside, and the caller would not wait: nothing was done */
    SHP_HOT_NO_MEMORY = -1, /* after this and what follows the index is of no more use */
    SHP_HOT_FULL = -2,      /* more than its 32-bit numbers can count */
    SHP_HOT_BAD_ROW = -3,   /* rows out of order, or of another length than their texts */
    SHP_HOT_DAMAGED = -4    /* a saved index that is none */
} shp_hot_status;

typedef struct shp_hot shp_hot;

/* A memory on its way in.  Texts as shp_terms_read takes them. */
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

/* Rows of rising sequence, all above those already there. */
shp_hot_status shp_hot_add(shp_hot *index, const shp_hot_row *rows, size_t n_rows, int waits);

/* Takes memories out; sequences (rising) that are not there are passed over. */
shp_hot_status shp_hot_remove(shp_hot *index, const int64_t *sequences, size_t n);

/* Puts a memory's new text, time and length in the place of the old. */
shp_hot_status shp_hot_replace(shp_hot *index, const shp_hot_row *row);

/* Says which version of tenants it now is; SHP_HOT_BAD_ROW when its sums are others than the table's. */
shp_hot_status shp_hot_publish(shp_hot *index, int64_t version, int64_t n_memories, int64_t total_length, int waits);

/* ---- questions: any number of threads at a time; none of them waits */

/* Asks for the cache lines that each question begins with: to be called as soon as the index is known. */
void shp_hot_fetch(const shp_hot *index);
/* At most k.  `found` is filled, also where there is nothing to find; the caller frees what is in it. */
shp_hot_status shp_hot_find(shp_hot *index, shp_hot_query *query, const shp_hot_word *words, int n_words,
                            shp_hot_found *found);
void shp_hot_found_free(shp_hot_found *found);

typedef struct {
    int64_t version; /* -1: stale */
    int64_t n_memories, total_length, last_sequence;
    int64_t n_terms, n_postings;
    int64_t n_bytes, n_free_bytes; /* of all it holds; of that, given back by lists that moved */
} shp_hot_counts;

shp_hot_status shp_hot_count(shp_hot *index, shp_hot_counts *out);

/* Sequences of the memories, rising; room for n_memories.  Returns how many were written. */
int64_t shp_hot_sequences(shp_hot *index, int64_t *out, int64_t room);

/* ---- saving */

/* The whole index as bytes that shp_hot_load takes on a machine of this kind, malloc'ed; the caller frees them.
   SHP_HOT_STALE while it is of no version. */
shp_hot_status shp_hot_save(shp_hot *index, uint8_t **out, size_t *n_bytes);
shp_hot_status shp_hot_load(const uint8_t *bytes, size_t n_bytes, shp_hot **out);

#endif

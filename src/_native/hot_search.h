/* One search of the hot index: what its windows (hot_search.c), candidates (hot_candidates.c) and their rescoring
   (hot_rescore.c) share. */
#ifndef SHP_HOT_SEARCH_H
#define SHP_HOT_SEARCH_H

#include <string.h>

#include "heap.h"
#include "hot_parts.h"
#include "rank.h"

enum {
    MAX_WORDS = 64,                   /* looked up */
    WINDOW = 16384,                   /* memories scored at a time, at most: 128 KiB of sums, of which few are touched */
    NARROW = 4096,                    /* where recency falls fast */
    REACH = SHP_RESCORE_REACH,
    SMALL_K = SHP_RESCORE_CANDIDATES, /* candidates kept on the stack */
    TABLE_POSTINGS = 200,             /* from here on a list gets a table of its scores by length */
    COUNTED_POSTINGS = 1000,          /* up to here a list's lengths are counted ... */
    COUNTED_SUMS = 3,                 /* from here on, in memories for each candidate, an only window's sums are counted */
    SMALL_POOL = 4 * SMALL_K,         /* candidates kept on the stack before the best are chosen */
    HOT_STEPS = 256,                  /* see hot_candidates.c */
    FEW_BITS = 5, FEW_DOCUMENTS = 1 << (31 - FEW_BITS), /* see hot_few.c */
    PROBE_NS = 1, HALVE_NS = 40       /* a posting probed, a memory looked up and what comes of that */
};

/* Of memories in a window: in two lists; in three or more, perhaps not added up in the order of the keywords. */
enum { TWICE = 1, MIXED = 2 };

static const double SLACK = 1.0 + 1e-12;
static const double COUNTED_RECENCY = 0.5; /* ... if the oldest memory has so much */

typedef struct {
    hot_list list;
    uint32_t term;
    enum { HALVED, PROBED, WALKED } how; /* in this window: see hot_search.c */
    int64_t top;   /* no memory of this window is above this place of the list */
    int64_t at;    /* no memory of the next window is; those of this one lie between */
    int rank; /* place in rising */
    double idf;
    double most;         /* that it can add, with slack */
    int n_table;         /* scores of one occurrence by length, below this length */
    const double *table;
} hot_keyword;

/* BM25 of a candidate and the memories beside it in the arrays: a cache line, kept from the window that they were
   added up in. */
typedef struct {
    double sums[2 * REACH + 1]; /* [REACH]: its own */
    double n_left_out;          /* the first so many of `rising` may be missing in the others */
} hot_reach;

/* What a window is added up in, one for each thread: sums and marks are zero between windows, so that no search has to
   clear them first. */
typedef struct {
    double sums[WINDOW + 2 * REACH]; /* of its memories, from REACH on */
    uint8_t marks[WINDOW];           /* TWICE, ... */
    uint16_t touched[WINDOW], marked[WINDOW], kept[WINDOW];
    float about[WINDOW]; /* the sums of those touched, where they are counted */
} hot_window;

typedef struct {
    const shp_hot *index;
    shp_hot_query *query;
    const shp_hot_word *words; /* as they were asked */
    int n_words;
    shp_rank_bm25 bm25;
    double n_docs, idf_sum;
    int64_t n_postings;   /* of all words asked */
    int64_t n_wanted;     /* candidates */
    double threshold;     /* so many memories have at least this score */
    int n;
    int n_free; /* so many of rising are not walked in this window */
    hot_keyword keywords[SHP_HOT_MAX_KEYWORDS]; /* as they were asked */
    hot_keyword *rising[SHP_HOT_MAX_KEYWORDS];  /* by most */
    double below[SHP_HOT_MAX_KEYWORDS + 1];     /* sum of most of the keywords before, by most */
    shp_candidate small_pool[SMALL_POOL], *pool;
    hot_reach small_reach[SMALL_POOL], *reach; /* by slot of the candidates */
    int64_t n_pool, n_slots, capacity;
    int64_t n_rated; /* the first so many of the pool have their scores */
    int64_t first_step;
    uint32_t n_on_step[HOT_STEPS]; /* from the first one on */
    int64_t n_above, step;         /* scores on this step or above it */
    int is_ordered; /* candidates rise, and nothing is missing around them */
    int64_t end;           /* memories from here on were in windows before */
    hot_window *window;
    int n_marked;
    double tables[SHP_HOT_MAX_KEYWORDS][HOT_BIG];
} hot_search;

static inline double recency_at(const hot_search *s, int64_t timestamp)
{
    return shp_rank_recency((s->query->rescore.now - (double)timestamp) / 86400.0, s->query->rescore.recency_floor);
}

static inline double score_posting(const hot_search *s, const hot_keyword *word, int64_t at)
{
    uint16_t weight = word->list.weights[at];
    uint32_t tf = weight & 255, len = weight >> 8, document = word->list.documents[at];
    if (tf == 1 && (int)len < word->n_table)
        return word->table[len];
    if (tf == HOT_BIG)
        tf = hot_big_tf_of(&s->index->heap, word->term, document);
    double doc_len = len == HOT_BIG ? s->index->documents[document].doc_len : (double)len;
    return shp_rank_term(&s->bm25, word->idf, tf, doc_len);
}

/* Last place above `low`, at most `high`, whose document is at most `document`; `low` if there is none.  Without a
   branch that depends on the documents: those would be mispredicted half of the time, which costs more than a step. */
static inline int64_t seek_down(const uint32_t *documents, int64_t low, int64_t high, uint32_t document)
{
    const uint32_t *from = documents + low + 1;
    size_t n = (size_t)(high - low), n_below = 0;
    while (n > 1) {
        size_t half = n / 2;
        n_below += half & -(size_t)(from[n_below + half - 1] <= document);
        n -= half;
    }
    return low + (int64_t)(n ? n_below + (from[n_below] <= document) : 0);
}

/* The same from `at` down, in a list whose wanted place is most likely near: what lies far apart is not in the cache. */
static inline int64_t gallop_down(const uint32_t *documents, int64_t at, uint32_t document)
{
    int64_t high = at, step = 16;
    while (at >= 0 && documents[at] > document) {
        high = at - 1;
        at -= step;
        step *= 2;
    }
    return at >= 0 ? seek_down(documents, at - 1, high, document) : seek_down(documents, -1, high, document);
}

/* Looks the words up; s->n of them are known, with s->n_postings in all. */
void hot_find_keywords(hot_search *s);
/* What the windows need to know of them besides: bounds, tables. */
void hot_bound_keywords(hot_search *s);

/* Whether all memories that have a keyword are candidates, and those few. */
static inline int hot_are_few(const hot_search *s)
{
    return s->n_postings <= SMALL_K && s->index->n_documents <= FEW_DOCUMENTS;
}
/* Then: all of them, rising, with the sums around them. */
void hot_take_few(hot_search *s);

/* Before the first one, when the keywords are bounded. */
void hot_begin_candidates(hot_search *s);
/* Raises the threshold by the sums of the first window, as if each memory had the recency of the oldest. */
void hot_count_sums(hot_search *s, int n_touched, double oldest);
/* Makes room in a pool that is full. */
shp_hot_status hot_make_room(hot_search *s);
/* Gives those that were added their scores. */
void hot_rate_candidates(hot_search *s);
/* Leaves the best of them, at most as many as are wanted. */
void hot_choose_candidates(hot_search *s);

/* A memory that may be a candidate, with its BM25 and the sums around its own in the window, `sum`, in which the first
   `n_left_out` of the rising lists may be missing. */
static inline shp_hot_status hot_add_candidate(hot_search *s, uint32_t document, double bm25, const double *sum,
                                               int n_left_out)
{
    if (s->n_pool == s->capacity && hot_make_room(s) != SHP_HOT_OK)
        return SHP_HOT_NO_MEMORY;
    if (s->n_pool == s->n_slots)
        s->pool[s->n_pool].slot = (uint32_t)s->n_slots++;
    shp_candidate *added = &s->pool[s->n_pool++];
    hot_reach *reach = &s->reach[added->slot];
    FETCH(&s->index->near[document]);
    *added = (shp_candidate){0.0, bm25, document, added->slot};
    memcpy(reach->sums, sum - REACH, sizeof reach->sums);
    reach->sums[REACH] = bm25;
    reach->n_left_out = n_left_out;
    return SHP_HOT_OK;
}

/* Rescores the candidates and finds the best k. */
shp_hot_status hot_rescore(hot_search *s, shp_hot_found *found);

#endif

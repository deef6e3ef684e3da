/* One search of the hot index: the state that its windows (hot_search.c), candidates (hot_candidates.c) and rescoring
   (hot_rescore.c) share. */
#ifndef SHP_HOT_SEARCH_H
#define SHP_HOT_SEARCH_H

#include <string.h>

#include "heap.h"
#include "hot_parts.h"
#include "rank.h"

enum {
    MAX_WORDS = 64,                   /* keywords looked up, at most */
    MAX_LISTS = 2 * SHP_HOT_MAX_KEYWORDS, /* see HOT_REPLIES */
    WINDOW = 16384,                   /* memories scored at a time, at most: 128 KiB of sums, few of which are touched */
    NARROW = 4096,                    /* the same where recency decreases fast */
    REACH = SHP_RESCORE_REACH,        /* memories on each side of a candidate that rescoring uses */
    SMALL_K = SHP_RESCORE_REQUEST_CANDIDATES, /* up to so many candidates, rescoring needs no memory from the heap */
    TABLE_POSTINGS = 200,             /* lists of at least so many postings get a table of scores by length */
    COUNTED_POSTINGS = 1000,          /* lists of at most so many have their lengths counted (initial_threshold), if the
                                         oldest memory has a recency of COUNTED_RECENCY at least */
    COUNTED_SUMS = 3,                 /* an only window with more memories than this per candidate has its sums counted
                                         (count_only_window), under the same condition */
    SMALL_POOL = 4 * SHP_RESCORE_CANDIDATES, /* candidates on the stack before the best are chosen */
    HOT_STEPS = 256,                  /* steps of the scale of scores: see hot_candidates.c */
    FEW_BITS = 6, FEW_DOCUMENTS = 1 << (31 - FEW_BITS), /* see hot_few.c */
    SCAN_NS = 1, SEEK_NS = 40         /* cost of a posting scanned, and of a memory looked up, with what follows */
};

/* Marks of memories in a window: TWICE, in two lists; MIXED, in three or more, perhaps not summed in keyword order. */
enum { TWICE = 1, MIXED = 2 };

static const double SLACK = 1.0 + 1e-12; /* for bounds: more than the roundings of 16 sums and products */
static const double COUNTED_RECENCY = 0.5; /* see COUNTED_POSTINGS */

/* A list of a keyword. */
typedef struct {
    hot_list list;
    uint32_t term;
    enum { SEEK, SCAN, ESSENTIAL } role; /* in this window: see hot_search.c */
    int64_t top;         /* index of the list's newest posting in this window, or of the next older one */
    int64_t at;          /* the same for the next window: this window's postings are (at, top] */
    int bound_rank;      /* index in by_bound */
    double idf;
    double upper_bound;  /* of the score of any of its postings, with slack */
    uint32_t usual_parts; /* of most of its postings: those of a word that a person, or an assistant, wrote once */
    int n_table;          /* lengths below this one are in the table */
    const double *table;  /* score of a posting with the usual parts, by length */
} hot_keyword;

/* BM25 of a candidate and of the memories next to it: one cache line, copied from the window in which they were
   summed. */
typedef struct {
    double sums[2 * REACH + 1]; /* [REACH]: its own */
    double n_missing;           /* the first so many lists of by_bound may be missing in the other sums */
} hot_reach;

/* The accumulators of a window, one per thread. Sums and marks are zero between windows, so that no search has to clear
   them first. */
typedef struct {
    double sums[WINDOW + 2 * REACH]; /* of its memories, from REACH on */
    uint8_t marks[WINDOW];           /* TWICE, ... */
    uint16_t touched[WINDOW], marked[WINDOW], kept[WINDOW];
    float about[WINDOW]; /* rounded sums of the memories touched, for hot_count_sums */
} hot_window;

typedef struct {
    const shp_hot *index;
    shp_hot_query *query;
    const shp_hot_word *words; /* of the query, in its order */
    int n_words;
    shp_rank_bm25 bm25;
    double n_docs, idf_sum;
    int64_t n_postings;   /* of all words of the query */
    int64_t n_unknown;    /* words of the query that no memory has */
    int64_t n_wanted;     /* candidates */
    double threshold;     /* at least n_wanted memories score this or more */
    int n;
    int n_nonessential; /* the first so many lists of by_bound are non-essential in this window */
    hot_keyword keywords[MAX_LISTS];  /* in the order of the query */
    hot_keyword *by_bound[MAX_LISTS]; /* by upper bound, ascending */
    double bound_sums[MAX_LISTS + 1]; /* [i]: sum of the first i upper bounds of by_bound */
    shp_candidate small_pool[SMALL_POOL], *pool;
    hot_reach small_reach[SMALL_POOL], *reach; /* by the candidates' slots */
    int64_t n_pool, n_slots, capacity;
    int64_t n_rated; /* the first so many of the pool have scores */
    int64_t first_step;
    uint32_t n_on_step[HOT_STEPS]; /* scores per step, from first_step on */
    int64_t n_above, step;         /* n_above scores are on `step` or above it */
    int is_ordered; /* candidates are in ascending order, and no sum around them is missing */
    int64_t end;    /* memories from here on were in earlier windows */
    hot_window *window;
    int n_marked;
    double tables[MAX_LISTS][HOT_BIG];
} hot_search;

static inline double recency_at(const hot_search *s, int64_t timestamp)
{
    return shp_rank_recency((s->query->rescore.now - (double)timestamp) / 86400.0, s->query->rescore.recency_floor);
}

static inline uint32_t parts_at(const hot_search *s, const hot_keyword *word, int64_t at)
{
    uint32_t parts = word->list.weights[at] & 255;
    return parts < HOT_BIG ? parts : hot_big_parts_of(&s->index->heap, word->term, word->list.documents[at]);
}

static inline double doc_len_at(const hot_search *s, const hot_keyword *word, int64_t at)
{
    uint32_t len = word->list.weights[at] >> 8;
    return len < HOT_BIG ? (double)len : s->index->documents[word->list.documents[at]].doc_len;
}

static inline double score_posting(const hot_search *s, const hot_keyword *word, int64_t at)
{
    uint16_t weight = word->list.weights[at];
    if ((weight & 255u) == word->usual_parts && weight >> 8 < word->n_table)
        return word->table[weight >> 8];
    return shp_rank_term(&s->bm25, word->idf, shp_rank_tf(parts_at(s, word, at)), doc_len_at(s, word, at));
}

/* Binary search: the last index in (low, high] whose document is at most `document`; `low` if there is none. No branch
   depends on the documents: half of them would be mispredicted, which costs more than a step. */
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

/* The same from `at` down by galloping search, for results that are most likely near and so in the cache. */
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

/* Sorts up to SMALL_K keys by comparing each with all others, without branches: a few vector instructions each, where
   other sorts would mispredict.  `keys` has room for SMALL_K; places behind the keys are overwritten.  `place[i]`: where
   keys[i] goes. */
static inline void sort_few(int32_t *keys, int n, uint8_t *place)
{
    int n_padded = (n + 7) & ~7; /* whole vectors */
    for (int i = n; i < n_padded; i++)
        keys[i] = INT32_MAX;
    for (int i = 0; i < n; i++) {
        int n_below = 0;
        for (int j = 0; j < n_padded; j++)
            n_below += keys[j] < keys[i];
        place[i] = (uint8_t)n_below;
    }
}

/* Looks up the words of the query; sets keywords, n and n_postings. */
void hot_find_keywords(hot_search *s);
/* Sets the upper bounds, score tables and the initial threshold. */
void hot_bound_keywords(hot_search *s);

/* Whether all memories with a keyword become candidates because they are so few. */
static inline int hot_are_few(const hot_search *s)
{
    int64_t most = s->n_wanted < SMALL_K ? s->n_wanted : SMALL_K;
    return s->n_postings <= most && s->index->n_documents <= FEW_DOCUMENTS;
}
/* In that case: takes all of them as candidates, in ascending order, with the sums around them. */
void hot_take_few(hot_search *s);

/* To be called before the first candidate, after hot_bound_keywords. */
void hot_begin_candidates(hot_search *s);
/* Raises the threshold by the sums of the first window, as if each memory had the recency of the oldest. */
void hot_count_sums(hot_search *s, int n_touched, double oldest);
/* Makes room in a pool that is full. */
shp_hot_status hot_make_room(hot_search *s);
/* Scores the candidates added since the last call. */
void hot_rate_candidates(hot_search *s);
/* Keeps the best n_wanted candidates. */
void hot_choose_candidates(hot_search *s);

/* Adds a memory to the pool, with its BM25 and the sums around `sum`, its own in the window; in those, the first
   `n_missing` lists of by_bound may be missing. */
static inline shp_hot_status hot_add_candidate(hot_search *s, uint32_t document, double bm25, const double *sum,
                                               int n_missing)
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
    reach->n_missing = n_missing;
    return SHP_HOT_OK;
}

/* Rescores the candidates and returns the best k in `found`. */
shp_hot_status hot_rescore(hot_search *s, shp_hot_found *found);

#endif

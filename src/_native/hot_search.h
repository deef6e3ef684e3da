/* One search of the hot index: what its candidates (hot_search.c) and their rescoring (hot_rescore.c) share. */
#ifndef SHP_HOT_SEARCH_H
#define SHP_HOT_SEARCH_H

#include "hot_parts.h"
#include "rank.h"

enum {
    MAX_WORDS = 64,                   /* looked up */
    WINDOW = 4096,                    /* memories scored at a time: 32 KiB of sums */
    SMALL_K = SHP_RESCORE_CANDIDATES, /* candidates kept on the stack */
    TABLE_POSTINGS = 100,             /* from here on a list gets a table of its scores by length */
    WALK_NS = 2, HALVE_NS = 12        /* a posting added up, a memory looked up */
};

/* Asks for a cache line that is read soon: times and memories lie apart, and half of a search was waiting for them. */
#if defined(__GNUC__)
#define FETCH(place) __builtin_prefetch(place)
#else
#define FETCH(place) ((void)(place))
#endif

static const double SLACK = 1.0 + 1e-12;

typedef struct {
    hot_list list;
    uint32_t term;
    int64_t at;    /* no memory still to come is above this place of the list */
    double idf;
    double most;   /* that it can add, with slack */
    int is_walked; /* in this window: else halved */
    int n_table;   /* scores of one occurrence by length, below this length */
    double table[HOT_BIG];
} hot_keyword;

typedef struct {
    double score, bm25;
    uint32_t document;
} hot_candidate;

typedef struct {
    const shp_hot *index;
    const shp_hot_query *query;
    shp_rank_bm25 bm25;
    double n_docs, idf_sum;
    int64_t n_candidates; /* wanted */
    double least_score;   /* so many memories have at least this score, whichever they are */
    int n;
    hot_keyword keywords[SHP_HOT_MAX_KEYWORDS]; /* as they were asked */
    hot_keyword *rising[SHP_HOT_MAX_KEYWORDS];  /* by most */
    double below[SHP_HOT_MAX_KEYWORDS + 1]; /* sum of most of the keywords before, by most */
    hot_candidate small[SMALL_K], *heap;        /* min-heap by (score, document) */
    int64_t n_heap, capacity;
    double sums[WINDOW]; /* all zero between windows */
    uint16_t touched[WINDOW];
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

/* Last place at or below `at` whose document is at most `document`, or -1. */
static inline int64_t seek_down(const uint32_t *documents, int64_t at, uint32_t document)
{
    if (at < 0 || documents[at] <= document)
        return at;
    int64_t high = at, low = at - 1;
    for (int64_t step = 1; low >= 0 && documents[low] > document; step *= 2) {
        high = low;
        low -= step;
    }
    low = low < -1 ? -1 : low;
    while (high - low > 1) {
        int64_t middle = (high + low) / 2;
        if (documents[middle] > document)
            high = middle;
        else
            low = middle;
    }
    return low;
}

/* Rescores the candidates; the best k into *hits, malloc'ed. */
shp_hot_status hot_rescore(hot_search *s, shp_hot_hit **hits, int64_t *n_hits);

#endif

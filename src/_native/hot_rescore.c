/* What the conversations of the hot index's candidates add to them: rescore.c's formula, without its lists.

   The BM25 of the memories beside a candidate was kept when its window was added up (hot_reach), and who they are
   stands in hot_near: so nothing is looked up but what a window's end cut off, or a list that was left out, and there is one
   pass over the candidates, from the oldest to the newest.  The k best so far are in a heap; most of the others are
   out before their time is asked for. */
#include <stdlib.h>
#include <string.h>

#include "hot_search.h"

typedef struct {
    int32_t thread; /* 0: free */
    double best;
} session;

typedef struct {
    hot_search *search;
    uint64_t *order; /* document << 32 | place in the heap, rising */
    session *sessions;
    size_t n_sessions; /* a power of two */
    double least;      /* that the mean of a hit needs */
    int is_strict;     /* ask for the relevance of each */
    shp_candidate *best; /* a heap; bm25 is the hit's own, slot tells its evidence */
    double *evidence;
    int64_t n_best, most;
} rescoring;

/* ---- what was cut off */

/* The BM25 of the memories around a candidate.  Called from the newest to the oldest. */
static void look_up_reach(hot_search *s, int64_t document, double *sums)
{
    int64_t top = document + REACH < s->index->n_documents ? document + REACH : s->index->n_documents - 1;
    memset(sums, 0, (2 * REACH + 1) * sizeof *sums);
    for (int i = 0; i < s->n; i++) {
        hot_keyword *word = &s->keywords[i];
        int64_t at = word->at = gallop_down(word->list.documents, word->at, (uint32_t)top);
        for (; at >= 0 && word->list.documents[at] + REACH >= document; at--)
            sums[(int64_t)word->list.documents[at] - document + REACH] += score_posting(s, word, at);
    }
}

/* Adds to the memories beside a candidate what the lists that were left out give them; 0 when one of them has a sum
   already, into whose middle it would have to go.  Called as look_up_reach. */
static int add_left_out(hot_search *s, int64_t document, double *sums, int n_left_out)
{
    double added[2 * REACH + 1] = {0};
    int is_added = 0;
    for (int i = 0; i < s->n; i++) {
        hot_keyword *word = &s->keywords[i];
        const uint32_t *documents = word->list.documents;
        if (word->rank >= n_left_out)
            continue;
        int64_t at = word->at = gallop_down(documents, word->at, (uint32_t)(document + REACH));
        for (; at >= 0 && documents[at] + REACH >= document; at--) {
            int64_t place = (int64_t)documents[at] - document + REACH;
            if (place == REACH)
                continue;
            if (sums[place] != 0.0)
                return 0;
            added[place] += score_posting(s, word, at);
            is_added = 1;
        }
    }
    for (int i = 0; is_added && i <= 2 * REACH; i++)
        sums[i] += added[i];
    return 1;
}

static void complete_reach(rescoring *r)
{
    hot_search *s = r->search;
    for (int i = 0; i < s->n; i++)
        s->keywords[i].at = (int64_t)s->keywords[i].list.n - 1;
    for (int64_t i = s->n_heap; i-- > 0;) {
        const shp_candidate *candidate = &s->heap[(uint32_t)r->order[i]];
        hot_reach *reach = &s->reach[candidate->slot];
        int n_left_out = (int)reach->n_left_out;
        if (!n_left_out || !s->index->near[candidate->document].thread)
            continue;
        if (n_left_out == s->n || !add_left_out(s, candidate->document, reach->sums, n_left_out))
            look_up_reach(s, candidate->document, reach->sums);
    }
}

/* ---- order and sessions */

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Every one is compared with all others, without a branch: a few vector instructions each, where sorting would guess. */
static void sort_few(rescoring *r)
{
    const hot_search *s = r->search;
    int32_t keys[SMALL_K]; /* signed, since that is what vectors compare */
    for (int i = 0; i < SMALL_K; i++)
        keys[i] = i < s->n_heap ? (int32_t)(s->heap[i].document ^ UINT32_C(0x80000000)) : INT32_MAX;
    for (int i = 0; i < s->n_heap; i++) {
        int n_below = 0;
        for (int j = 0; j < SMALL_K; j++)
            n_below += keys[j] < keys[i];
        r->order[n_below] = (uint64_t)s->heap[i].document << 32 | (uint64_t)i;
    }
}

static void sort_candidates(rescoring *r)
{
    const hot_search *s = r->search;
    if (s->n_heap <= SMALL_K) {
        sort_few(r);
        return;
    }
    for (int64_t i = 0; i < s->n_heap; i++)
        r->order[i] = (uint64_t)s->heap[i].document << 32 | (uint64_t)i;
    qsort(r->order, (size_t)s->n_heap, sizeof *r->order, by_number);
}

static session *session_of(const rescoring *r, int32_t thread)
{
    size_t i = ((uint32_t)thread * UINT32_C(2654435761)) >> 7 & (r->n_sessions - 1);
    while (r->sessions[i].thread && r->sessions[i].thread != thread)
        i = (i + 1) & (r->n_sessions - 1);
    return &r->sessions[i];
}

/* The best candidate of each thread. */
static void collect_sessions(rescoring *r)
{
    const hot_search *s = r->search;
    memset(r->sessions, 0, r->n_sessions * sizeof *r->sessions);
    for (int64_t i = 0; i < s->n_heap; i++) {
        int32_t thread = s->index->near[s->heap[i].document].thread;
        if (!thread)
            continue;
        session *found = session_of(r, thread);
        if (!found->thread || s->heap[i].bm25 > found->best)
            found->best = s->heap[i].bm25;
        found->thread = thread;
    }
}

/* ---- hits */

/* Keeps a hit if it is among the best so far. */
static void keep(rescoring *r, uint32_t document, double bm25, double evidence)
{
    const hot_search *s = r->search;
    const shp_rescore_hit hit = {.bm25 = bm25, .evidence = evidence};
    int is_full = r->n_best == r->most;
    /* Recency is at most 1, but for roundings. */
    if (is_full && evidence * SLACK < r->best[0].score)
        return;
    double mean = shp_rescore_mean(&hit);
    if (mean < r->least)
        return;
    if (r->is_strict && shp_rank_relevance(mean, s->idf_sum, s->n_docs) < s->query->min_relevance)
        return;
    shp_candidate found = {evidence * recency_at(s, s->index->near[document].timestamp), bm25, document, 0};
    if (is_full && !shp_candidate_is_less(&r->best[0], &found))
        return;
    FETCH(&s->index->documents[document]); /* whose number it gets if it stays */
    found.slot = is_full ? r->best[0].slot : (uint32_t)r->n_best;
    r->evidence[found.slot] = evidence;
    if (is_full) {
        shp_heap_sift(r->best, r->n_best, 0, found);
        return;
    }
    r->best[r->n_best++] = found;
    if (r->n_best == r->most)
        shp_heap_order(r->best, r->n_best);
}

/* Scores one memory; `best`: of the candidates of its thread, 0 without; `sums` stands at its own BM25, with that of the
   memories beside it around. */
static void score_memory(rescoring *r, uint32_t document, double best, const double *sums)
{
    const hot_near *near = &r->search->index->near[document];
    int before = near->second & 15, after = near->second >> 4;
    shp_rescore_beside beside = {
        .bm25 = sums[0],
        .previous = near->beside & HOT_PREVIOUS ? sums[-1] : 0.0,
        .next = near->beside & HOT_NEXT ? sums[1] : 0.0,
        .second_before = before ? sums[-before] : 0.0,
        .second_after = after ? sums[after] : 0.0,
        .best = best > sums[0] ? best : sums[0],
        .asks_before = near->asks >> 4,
        .asks = near->asks & 15,
        .label = near->has_label ? r->search->index->documents[document].label : 0,
        .timestamp = near->timestamp,
    };
    double evidence = shp_rescore_evidence(&r->search->query->rescore, &beside);
    if (evidence > 0.0)
        keep(r, document, sums[0], evidence);
}

/* Candidates, and of sessions the memories one step away; each once. */
static void score_all(rescoring *r)
{
    const hot_search *s = r->search;
    int64_t scored = -1; /* the last that was, which is a candidate or beside one */
    r->n_best = 0;
    for (int64_t i = 0; i < s->n_heap; i++) {
        const shp_candidate *candidate = &s->heap[(uint32_t)r->order[i]];
        int64_t document = candidate->document;
        int64_t next = i + 1 < s->n_heap ? (int64_t)(r->order[i + 1] >> 32) : -1;
        const double *sums = s->reach[candidate->slot].sums + REACH;
        const hot_near *near = &s->index->near[document];
        /* Those beside it are of its thread. */
        double best = near->thread ? session_of(r, near->thread)->best : 0.0;
        if (near->thread > 0 && near->beside & HOT_PREVIOUS && document - 1 > scored)
            score_memory(r, (uint32_t)document - 1, best, sums - 1);
        score_memory(r, (uint32_t)document, best, sums);
        scored = document;
        if (near->thread > 0 && near->beside & HOT_NEXT && document + 1 != next) {
            score_memory(r, (uint32_t)document + 1, best, sums + 1);
            scored = document + 1;
        }
    }
}

/* Fills `hits` from the best; 0 when one is not as relevant as asked. */
static int fill_hits(rescoring *r, shp_hot_hit *hits)
{
    const hot_search *s = r->search;
    if (r->n_best < r->most)
        shp_heap_order(r->best, r->n_best);
    shp_heap_sort(r->best, r->n_best);
    for (int64_t i = 0; i < r->n_best; i++) {
        const shp_candidate *best = &r->best[i];
        const shp_rescore_hit hit = {.bm25 = best->bm25, .evidence = r->evidence[best->slot]};
        double relevance = shp_rank_relevance(shp_rescore_mean(&hit), s->idf_sum, s->n_docs);
        if (relevance < s->query->min_relevance)
            return 0;
        hits[i] = (shp_hot_hit){s->index->documents[best->document].sequence, best->bm25, best->score, relevance};
    }
    return 1;
}

static void rescore(rescoring *r, shp_hot_found *found)
{
    const hot_search *s = r->search;
    sort_candidates(r);
    complete_reach(r);
    collect_sessions(r);
    /* Relevance grows strictly with the mean: a threshold on the one is one on the other, asked with some slack
       because it costs less; what is as near as that to it is asked exactly. */
    r->least = shp_rank_min_bm25(s->query->min_relevance, s->idf_sum, s->n_docs) * (1.0 - 1e-12);
    score_all(r);
    if (!fill_hits(r, found->hits)) {
        r->is_strict = 1;
        score_all(r);
        fill_hits(r, found->hits);
    }
    found->n = r->n_best;
}

shp_hot_status hot_rescore(hot_search *s, shp_hot_found *found)
{
    enum { SMALL_BEST = 32 };
    uint64_t order[SMALL_K];
    session sessions[2 * SMALL_K];
    shp_candidate best[SMALL_BEST];
    double evidence[SMALL_BEST];
    /* A hit is a candidate or beside one. */
    int64_t most = s->query->k < 3 * s->n_heap ? s->query->k : 3 * s->n_heap;
    rescoring r = {.search = s, .order = order, .sessions = sessions, .n_sessions = 2 * SMALL_K, .best = best,
                   .evidence = evidence, .most = most};
    void *large = NULL;
    while (r.n_sessions < 2 * (size_t)s->n_heap)
        r.n_sessions *= 2;
    if (s->n_heap > SMALL_K || most > SMALL_BEST) {
        size_t n_bytes = (size_t)s->n_heap * sizeof *r.order + r.n_sessions * sizeof *r.sessions +
                         (size_t)most * (sizeof *r.best + sizeof *r.evidence);
        large = malloc(n_bytes);
        r.order = large;
        r.sessions = (session *)(r.order + s->n_heap);
        r.best = (shp_candidate *)(r.sessions + r.n_sessions);
        r.evidence = (double *)(r.best + most);
        if (!large)
            return SHP_HOT_NO_MEMORY;
    }
    if (most > SHP_HOT_FEW)
        found->hits = malloc((size_t)most * sizeof *found->hits);
    if (found->hits)
        rescore(&r, found);
    free(large);
    return found->hits ? SHP_HOT_OK : SHP_HOT_NO_MEMORY;
}

/* What the conversations of the hot index's candidates add to them: the memories beside them, their BM25, rescore.c.

   From the newest candidate to the oldest the lists are galloped down once more, around those candidates that
   belong to a conversation: one look-up per keyword and run of candidates whose reaches meet, then a walk. */
#include <stdlib.h>
#include <string.h>

#include "hot_search.h"

/* ---- what lies within reach of the candidates */

/* The newest first. */
static int by_document(const void *a, const void *b)
{
    uint32_t x = ((const hot_candidate *)a)->document, y = ((const hot_candidate *)b)->document;
    return (x < y) - (x > y);
}

static void sort_candidates(hot_search *s)
{
    if (s->n_heap > SMALL_K) {
        qsort(s->heap, (size_t)s->n_heap, sizeof *s->heap, by_document);
        return;
    }
    for (int64_t i = 1; i < s->n_heap; i++) {
        hot_candidate moved = s->heap[i];
        int64_t j = i;
        for (; j > 0 && s->heap[j - 1].document < moved.document; j--)
            s->heap[j] = s->heap[j - 1];
        s->heap[j] = moved;
    }
}

static shp_rescore_memory memory_of(const hot_search *s, uint32_t document, double bm25, int is_candidate)
{
    const hot_document *from = &s->index->documents[document];
    return (shp_rescore_memory){
        .sequence = from->sequence,
        .timestamp = s->index->timestamps[document],
        .bm25 = bm25,
        .thread = from->thread,
        .label = from->label,
        .asks = from->asks,
        .is_candidate = (uint8_t)is_candidate,
    };
}

static int64_t thread_of(const hot_search *s, int64_t candidate)
{
    return s->index->documents[s->heap[candidate].document].thread;
}

/* The oldest memory that a candidate's conversation can have beside it; may be below 0. */
static int64_t bottom_of(const hot_search *s, int64_t candidate)
{
    return (int64_t)s->heap[candidate].document - (thread_of(s, candidate) ? SHP_RESCORE_REACH : 0);
}

/* Last of the candidates from `first` on whose reaches meet; *bottom: the oldest memory that they reach. */
static int64_t end_of_run(const hot_search *s, int64_t first, int64_t *bottom)
{
    int64_t last = first;
    *bottom = bottom_of(s, first);
    while (last + 1 < s->n_heap && s->heap[last + 1].document + SHP_RESCORE_REACH >= *bottom) {
        int64_t reached = bottom_of(s, ++last);
        *bottom = reached < *bottom ? reached : *bottom;
    }
    *bottom = *bottom < 0 ? 0 : *bottom;
    return last;
}

/* The BM25 of every memory from `top` down to `bottom`, in sums[0] and on. */
static void sum_run(hot_search *s, uint32_t top, uint32_t bottom, double *sums)
{
    memset(sums, 0, (top - bottom + 1) * sizeof *sums);
    for (int i = 0; i < s->n; i++) {
        hot_keyword *word = &s->keywords[i];
        int64_t at = seek_down(word->list.documents, word->at, top);
        for (; at >= 0 && word->list.documents[at] >= bottom; at--)
            sums[top - word->list.documents[at]] += score_posting(s, word, at);
        word->at = at;
    }
}

/* Adds a run's candidates and what is beside them, the newest first; how many. */
static int64_t add_run(hot_search *s, int64_t first, int64_t last, int64_t bottom, double *sums, shp_rescore_memory *out)
{
    int64_t n = 0, top = (int64_t)s->heap[first].document + (thread_of(s, first) ? SHP_RESCORE_REACH : 0);
    top = top < s->index->n_documents ? top : (int64_t)s->index->n_documents - 1;
    if (first == last && !thread_of(s, first)) {
        out[0] = memory_of(s, (uint32_t)top, s->heap[first].bm25, 1);
        return 1;
    }
    sum_run(s, (uint32_t)top, (uint32_t)bottom, sums);
    for (int64_t document = top, next = first; document >= bottom; document--) {
        const hot_document *beside = &s->index->documents[document];
        int is_candidate = next <= last && s->heap[next].document == document;
        next += is_candidate;
        if (is_candidate || (beside->thread && beside->doc_len >= 0))
            out[n++] = memory_of(s, (uint32_t)document, sums[top - document], is_candidate);
    }
    return n;
}

/* The candidates and what is beside them, the newest first; how many.  Room for 7 of each candidate in both. */
static int64_t collect_reach(hot_search *s, double *sums, shp_rescore_memory *out)
{
    int64_t n = 0, bottom;
    sort_candidates(s);
    for (int64_t i = 0; i < s->n_heap; i++) {
        uint32_t document = s->heap[i].document;
        FETCH(&s->index->documents[document < SHP_RESCORE_REACH ? 0 : document - SHP_RESCORE_REACH]);
        FETCH(&s->index->documents[document]);
        FETCH(&s->index->timestamps[document]);
    }
    for (int i = 0; i < s->n; i++)
        s->keywords[i].at = (int64_t)s->keywords[i].list.n - 1;
    for (int64_t first = 0, last; first < s->n_heap; first = last + 1) {
        last = end_of_run(s, first, &bottom);
        n += add_run(s, first, last, bottom, sums, out + n);
    }
    return n;
}

static void reverse(shp_rescore_memory *memories, int64_t n)
{
    for (int64_t low = 0, high = n - 1; low < high; low++, high--) {
        shp_rescore_memory moved = memories[low];
        memories[low] = memories[high];
        memories[high] = moved;
    }
}

/* ---- hits */

static shp_hot_status take_best(hot_search *s, shp_rescore_buffers *rescored, shp_hot_hit **hits, int64_t *n_hits)
{
    const shp_hot_query *query = s->query;
    int64_t room = rescored->n_hits < query->k ? rescored->n_hits : query->k;
    shp_rescore_hit best;
    if (!room)
        return SHP_HOT_OK;
    *hits = malloc((size_t)room * sizeof **hits);
    if (!*hits)
        return SHP_HOT_NO_MEMORY;
    /* As in recall.c: less to pay than for the relevance itself. */
    double least = shp_rank_min_bm25(query->min_relevance, s->idf_sum, s->n_docs) * (1.0 - 1e-12);
    while (*n_hits < room && shp_rescore_pop(rescored, &best)) {
        double mean = shp_rescore_mean(&best);
        if (mean < least)
            continue;
        double relevance = shp_rank_relevance(mean, s->idf_sum, s->n_docs);
        if (relevance >= query->min_relevance)
            (*hits)[(*n_hits)++] = (shp_hot_hit){best.sequence, best.bm25, best.score, relevance};
    }
    return SHP_HOT_OK;
}

shp_hot_status hot_rescore(hot_search *s, shp_hot_hit **hits, int64_t *n_hits)
{
    shp_rescore_buffers rescored = {0};
    size_t room = (size_t)s->n_heap * (2 * SHP_RESCORE_REACH + 1) + 1;
    shp_rescore_memory *reach = malloc(room * (sizeof *reach + sizeof(double)));
    shp_hot_status status = reach ? SHP_HOT_OK : SHP_HOT_NO_MEMORY;
    int64_t n = 0;
    if (reach) {
        n = collect_reach(s, (double *)(reach + room), reach);
        reverse(reach, n);
    }
    if (status == SHP_HOT_OK && !shp_rescore(&rescored, &s->query->rescore, reach, n))
        status = SHP_HOT_NO_MEMORY;
    if (status == SHP_HOT_OK)
        status = take_best(s, &rescored, hits, n_hits);
    shp_rescore_free(&rescored);
    free(reach);
    return status;
}


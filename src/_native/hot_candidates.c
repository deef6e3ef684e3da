/* The candidates of a search of the hot index: the best memories by BM25 and recency, in a heap.

   What may become one waits for the cache line with its time while the next window is added up, and takes along the sums
   of the memories beside it: rescoring need not look them up again, unless the window ends there, or a list was left
   out that has one of them. */
#include <stdlib.h>
#include <string.h>

#include "hot_search.h"

static shp_hot_status grow(hot_search *s)
{
    int is_small = s->heap == s->small;
    shp_candidate *heap = realloc(is_small ? NULL : s->heap, 2 * (size_t)s->capacity * sizeof *heap);
    if (!heap)
        return SHP_HOT_NO_MEMORY;
    if (is_small)
        memcpy(heap, s->small, sizeof s->small);
    s->heap = heap;
    hot_reach *reach = realloc(is_small ? NULL : s->reach, 2 * (size_t)s->capacity * sizeof *reach);
    if (!reach) {
        s->reach = is_small ? NULL : s->reach;
        return SHP_HOT_NO_MEMORY;
    }
    if (is_small)
        memcpy(reach, s->small_reach, sizeof s->small_reach);
    s->reach = reach;
    s->capacity *= 2;
    return SHP_HOT_OK;
}

/* Keeps a candidate if it is among the best so far, with the sums around it. */
static shp_hot_status offer(hot_search *s, shp_candidate offered, const hot_reach *reach)
{
    int is_full = s->n_heap == s->n_candidates;
    if (is_full && !shp_candidate_is_less(&s->heap[0], &offered))
        return SHP_HOT_OK;
    if (!is_full && s->n_heap == s->capacity && grow(s) != SHP_HOT_OK)
        return SHP_HOT_NO_MEMORY;
    offered.slot = is_full ? s->heap[0].slot : (uint32_t)s->n_heap;
    s->reach[offered.slot] = *reach;
    FETCH(&s->index->near[offered.document < 1 ? 0 : offered.document - 1]);
    FETCH(&s->index->near[offered.document + 1]);
    if (is_full) {
        shp_heap_sift(s->heap, s->n_heap, 0, offered);
        return SHP_HOT_OK;
    }
    s->heap[s->n_heap++] = offered;
    if (s->n_heap == s->n_candidates)
        shp_heap_order(s->heap, s->n_heap);
    return SHP_HOT_OK;
}

/* By now their times are in the cache. */
shp_hot_status hot_offer_waiting(hot_search *s)
{
    int takes_all = s->n_postings <= s->n_candidates;
    double scores[MOST_WAITING];
    shp_hot_status status = SHP_HOT_OK;
    /* All divisions first: between them nothing has to be guessed, so they overlap. */
    for (int i = 0; i < s->n_waiting && !takes_all; i++)
        scores[i] = s->waiting[i].reach.sums[REACH] * recency_at(s, s->index->near[s->waiting[i].document].timestamp);
    for (int i = 0; i < s->n_waiting && status == SHP_HOT_OK; i++) {
        const hot_waiting *waiting = &s->waiting[i];
        double score = takes_all ? 0.0 : scores[i];
        status = offer(s, (shp_candidate){score, waiting->reach.sums[REACH], waiting->document, 0}, &waiting->reach);
    }
    s->n_waiting = 0;
    return status;
}

shp_hot_status hot_wait(hot_search *s, uint32_t document, double bm25, const double *sum, int n_left_out)
{
    shp_hot_status status = s->n_waiting == MOST_WAITING ? hot_offer_waiting(s) : SHP_HOT_OK;
    hot_waiting *waiting = &s->waiting[s->n_waiting++];
    FETCH(&s->index->near[document]);
    waiting->document = document;
    memcpy(waiting->reach.sums, sum - REACH, sizeof waiting->reach.sums);
    waiting->reach.sums[REACH] = bm25;
    waiting->reach.n_left_out = n_left_out;
    return status;
}

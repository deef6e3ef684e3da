/* The best so many of the memories that a search comes by: both engines keep their candidates in one.

   A min-heap by (score, document) once it is full; until then it is filled as memories come, in no order. */
#ifndef SHP_HEAP_H
#define SHP_HEAP_H

#include <stdint.h>

typedef struct {
    double score, bm25;
    uint32_t document; /* place in the arrays: of equal scores the larger is the better */
    uint32_t slot;     /* the caller's: where more is kept of it */
} shp_candidate;

static inline int shp_candidate_is_less(const shp_candidate *a, const shp_candidate *b)
{
    /* No branches: nobody can predict them. */
    return (a->score < b->score) | ((a->score == b->score) & (a->document < b->document));
}

/* Puts `moved` where it belongs from i on down. */
static inline void shp_heap_sift(shp_candidate *heap, int64_t n, int64_t i, shp_candidate moved)
{
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n)
            child += shp_candidate_is_less(&heap[child + 1], &heap[child]);
        if (!shp_candidate_is_less(&heap[child], &moved))
            break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

/* Makes a heap of what has been filled in: the least is heap[0]. */
static inline void shp_heap_order(shp_candidate *heap, int64_t n)
{
    for (int64_t i = n / 2; i-- > 0;)
        shp_heap_sift(heap, n, i, heap[i]);
}

/* Sorts a heap, the best first. */
static inline void shp_heap_sort(shp_candidate *heap, int64_t n)
{
    while (n > 1) {
        shp_candidate least = heap[0];
        n--;
        shp_heap_sift(heap, n, 0, heap[n]);
        heap[n] = least;
    }
}

#endif

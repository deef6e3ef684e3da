/* The best candidates of a search, for both engines (FTS5 and hot index).

   A min-heap by (score, document) once it is full; until then an array in no order. */
#ifndef SHP_HEAP_H
#define SHP_HEAP_H

#include <stdint.h>

typedef struct {
    double score, bm25;
    uint32_t document; /* index of the memory; of equal scores the larger one ranks higher */
    uint32_t slot;     /* for the caller: index of more data about it */
} shp_candidate;

static inline int shp_candidate_is_less(const shp_candidate *a, const shp_candidate *b)
{
    /* Without branches, which would be mispredicted. */
    return (a->score < b->score) | ((a->score == b->score) & (a->document < b->document));
}

/* Sifts `moved` down from i. */
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

/* Heapifies the array: the least becomes heap[0]. */
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

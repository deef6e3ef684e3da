/* The postings lists of the hot index: for each word its memories, term frequencies and lengths, in one heap.

   A list is a chunk of the heap: bounds, documents, weights.  A full list moves to a chunk of the next size class (a
   fifth larger on average), and its old chunk becomes free for lists that grow into its class: all lists grow,
   so a rarer word soon needs the chunk that a frequent one no longer uses.  A single posting is stored in the term
   itself; half of all words have no more.  A list is contiguous, from the oldest memory to the newest, so that a search
   scans or bisects one array per word.  (Segments, merged by doubling, would need a scan per segment and word, and
   bounds and offsets for each.)

   A posting takes 6 bytes: the document, and parts and length in a byte each, so that a score needs nothing else of the
   memory.  255 means "255 or more": then the length is read from the memory, and the parts from a table. */
#include <stdlib.h>
#include <string.h>

#include "hot_parts.h"

enum { POSTING_BYTES = 6, FIRST_UNITS = 1 << 10 };

/* ---- chunks */

/* 3 to 8 units of 8 bytes one by one, then four steps from one power of two to the next. */
uint32_t hot_class_units(int size_class)
{
    /* Both are computed: a branch would be mispredicted. */
    uint32_t step = size_class > 7 ? (uint32_t)size_class - 7 : 0;
    uint32_t small = (uint32_t)size_class + 2, large = (5 + step % 4) << (1 + step / 4);
    return size_class <= 6 ? small : large;
}

uint32_t hot_class_capacity(int size_class)
{
    return (uint32_t)(((uint64_t)hot_class_units(size_class) * 8 - sizeof(hot_bounds)) / POSTING_BYTES);
}

static shp_hot_status chunk_new(hot_heap *heap, int size_class, uint32_t *out)
{
    if (size_class >= HOT_CLASSES)
        return SHP_HOT_FULL;
    uint32_t n_units = hot_class_units(size_class);
    if (heap->free_chunks[size_class]) {
        *out = heap->free_chunks[size_class];
        memcpy(&heap->free_chunks[size_class], &heap->units[*out], sizeof(uint32_t));
        heap->n_free_units -= n_units;
        return SHP_HOT_OK;
    }
    /* No chunk is at place 0: it ends the lists of free chunks. */
    uint64_t place = heap->n_units ? heap->n_units : 1;
    if (place + n_units > UINT32_MAX)
        return SHP_HOT_FULL;
    if (place + n_units > heap->capacity) {
        uint64_t capacity = heap->capacity + heap->capacity / 4 + n_units + FIRST_UNITS;
        uint64_t *units = realloc(heap->units, (size_t)capacity * sizeof *units);
        if (!units)
            return SHP_HOT_NO_MEMORY;
        heap->units = units;
        heap->capacity = capacity;
    }
    heap->n_units = place + n_units;
    *out = (uint32_t)place;
    return SHP_HOT_OK;
}

static void chunk_free(hot_heap *heap, uint32_t place, int size_class)
{
    memcpy(&heap->units[place], &heap->free_chunks[size_class], sizeof(uint32_t));
    heap->free_chunks[size_class] = place;
    heap->n_free_units += hot_class_units(size_class);
}

static hot_bounds *bounds_of(const hot_heap *heap, const hot_term *term)
{
    return (hot_bounds *)(heap->units + term->place);
}

static uint32_t *documents_of(const hot_heap *heap, const hot_term *term)
{
    return (uint32_t *)(heap->units + term->place + 1);
}

static uint16_t *weights_of(const hot_heap *heap, const hot_term *term)
{
    return (uint16_t *)(documents_of(heap, term) + hot_class_capacity(term->size_class));
}

void hot_heap_free(hot_heap *heap)
{
    free(heap->units);
    free(heap->big_parts);
}

/* ---- words that one memory has very often */

/* The index of the key, or where it is to be inserted. */
static uint32_t big_parts_place(const hot_heap *heap, uint64_t key)
{
    uint32_t low = 0, high = heap->n_big_parts;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (heap->big_parts[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t big_parts_key(uint32_t term, uint32_t document) { return (uint64_t)term << 32 | document; }

uint32_t hot_big_parts_of(const hot_heap *heap, uint32_t term, uint32_t document)
{
    uint64_t key = big_parts_key(term, document);
    uint32_t at = big_parts_place(heap, key);
    return at < heap->n_big_parts && heap->big_parts[at].key == key ? heap->big_parts[at].parts : HOT_BIG;
}

static shp_hot_status big_parts_insert(hot_heap *heap, uint64_t key, uint32_t parts)
{
    if (heap->n_big_parts == heap->big_parts_capacity) {
        uint32_t capacity = 2 * heap->big_parts_capacity + 8;
        hot_big_parts *grown = realloc(heap->big_parts, capacity * sizeof *grown);
        if (!grown)
            return SHP_HOT_NO_MEMORY;
        heap->big_parts = grown;
        heap->big_parts_capacity = capacity;
    }
    uint32_t at = big_parts_place(heap, key);
    memmove(heap->big_parts + at + 1, heap->big_parts + at, (heap->n_big_parts - at) * sizeof *heap->big_parts);
    heap->big_parts[at] = (hot_big_parts){.key = key, .parts = parts};
    heap->n_big_parts++;
    return SHP_HOT_OK;
}

static void big_parts_remove(hot_heap *heap, uint64_t key)
{
    uint32_t at = big_parts_place(heap, key);
    if (at < heap->n_big_parts && heap->big_parts[at].key == key) {
        heap->n_big_parts--;
        memmove(heap->big_parts + at, heap->big_parts + at + 1, (heap->n_big_parts - at) * sizeof *heap->big_parts);
    }
}

/* ---- lists */

static void widen(hot_bounds *bounds, uint8_t parts, uint8_t len)
{
    int step = hot_step_of(parts);
    if (len < bounds->least_len[step])
        bounds->least_len[step] = len;
    if (parts < bounds->least_parts)
        bounds->least_parts = parts;
    if (parts > bounds->most_parts)
        bounds->most_parts = parts;
}

static const hot_bounds NO_BOUNDS = {.least_len = {HOT_BIG, HOT_BIG, HOT_BIG, HOT_BIG, HOT_BIG, HOT_BIG},
                                     .least_parts = HOT_BIG};

void hot_list_open(const hot_heap *heap, const hot_term *term, hot_list *out)
{
    out->n = term->n;
    if (term->size_class) {
        out->bounds = *bounds_of(heap, term);
        out->documents = documents_of(heap, term);
        out->weights = weights_of(heap, term);
        return;
    }
    out->single_document = term->place;
    out->single_weight = (uint16_t)(term->parts | term->len << 8);
    out->documents = &out->single_document;
    out->weights = &out->single_weight;
    out->bounds = NO_BOUNDS;
    if (term->n)
        widen(&out->bounds, term->parts, term->len);
}

void hot_list_fetch(const hot_heap *heap, const hot_term *term)
{
    if (!term->size_class || !term->n)
        return;
    FETCH(bounds_of(heap, term));
    FETCH(documents_of(heap, term) + term->n - 1);
    FETCH(weights_of(heap, term) + term->n - 1);
}

/* Moves the list to a chunk of the next class. */
static shp_hot_status grow(hot_heap *heap, hot_term *term)
{
    hot_term moved = *term;
    moved.size_class++;
    shp_hot_status status = chunk_new(heap, moved.size_class, &moved.place);
    if (status != SHP_HOT_OK)
        return status;
    hot_list old;
    hot_list_open(heap, term, &old);
    *bounds_of(heap, &moved) = old.bounds;
    memcpy(documents_of(heap, &moved), old.documents, term->n * sizeof *old.documents);
    memcpy(weights_of(heap, &moved), old.weights, term->n * sizeof *old.weights);
    if (term->size_class)
        chunk_free(heap, term->place, term->size_class);
    *term = moved;
    return SHP_HOT_OK;
}

/* First place whose document is not below `document`. */
static uint32_t lower_bound(const uint32_t *documents, uint32_t n, uint32_t document)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (documents[middle] < document)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

shp_hot_status hot_postings_insert(hot_heap *heap, hot_term *term, uint32_t number, uint32_t document, uint32_t parts,
                                   int32_t doc_len)
{
    uint8_t short_parts = (uint8_t)(parts < HOT_BIG ? parts : HOT_BIG);
    uint8_t short_len = (uint8_t)(doc_len < HOT_BIG ? doc_len : HOT_BIG);
    shp_hot_status status =
        parts < HOT_BIG ? SHP_HOT_OK : big_parts_insert(heap, big_parts_key(number, document), parts);
    if (status != SHP_HOT_OK)
        return status;
    if (!term->n && !term->size_class) {
        term->place = document;
        term->parts = short_parts;
        term->len = short_len;
        term->n = 1;
        return SHP_HOT_OK;
    }
    if (!term->size_class || term->n == hot_class_capacity(term->size_class))
        status = grow(heap, term);
    if (status != SHP_HOT_OK)
        return status;
    uint32_t *documents = documents_of(heap, term);
    uint16_t *weights = weights_of(heap, term);
    uint32_t at = term->n;
    if (at && documents[at - 1] > document) {
        at = lower_bound(documents, term->n, document);
        memmove(documents + at + 1, documents + at, (term->n - at) * sizeof *documents);
        memmove(weights + at + 1, weights + at, (term->n - at) * sizeof *weights);
    }
    documents[at] = document;
    weights[at] = (uint16_t)(short_parts | short_len << 8);
    widen(bounds_of(heap, term), short_parts, short_len);
    term->n++;
    return SHP_HOT_OK;
}

static uint32_t remove_all(hot_heap *heap, uint32_t number, uint32_t *documents, uint16_t *weights, uint32_t n,
                         const uint32_t *removed, size_t n_removed)
{
    uint32_t at = lower_bound(documents, n, removed[0]), kept = at;
    size_t next = 0;
    for (; at < n; at++) {
        while (next < n_removed && removed[next] < documents[at])
            next++;
        if (next < n_removed && removed[next] == documents[at]) {
            if ((weights[at] & 255) == HOT_BIG)
                big_parts_remove(heap, big_parts_key(number, documents[at]));
            continue;
        }
        documents[kept] = documents[at];
        weights[kept++] = weights[at];
    }
    return n - kept;
}

/* Whether any of the documents is in the list: exact, by bisection, for a few documents; else 1. */
static int has_any(const uint32_t *documents, uint32_t n, const uint32_t *wanted, size_t n_wanted)
{
    if (n_wanted > 16)
        return 1;
    for (size_t i = 0; i < n_wanted; i++) {
        uint32_t at = lower_bound(documents, n, wanted[i]);
        if (at < n && documents[at] == wanted[i])
            return 1;
    }
    return 0;
}

uint32_t hot_postings_remove(hot_heap *heap, hot_term *term, uint32_t number, const uint32_t *documents, size_t n)
{
    if (!term->n || !n)
        return 0;
    hot_list list;
    hot_list_open(heap, term, &list);
    if (!has_any(list.documents, list.n, documents, n))
        return 0;
    uint32_t n_removed;
    if (term->size_class)
        n_removed = remove_all(heap, number, documents_of(heap, term), weights_of(heap, term), term->n, documents, n);
    else
        n_removed = remove_all(heap, number, &list.single_document, &list.single_weight, 1, documents, n);
    term->n -= n_removed;
    return n_removed;
}

/* What the files of the hot index share: words, postings, memories.  Layout and reasons in hot_index.c. */
#ifndef SHP_HOT_PARTS_H
#define SHP_HOT_PARTS_H

#include "hot.h"
#include "sync.h"

#define HOT_NONE UINT32_MAX

/* ---- words (hot_dictionary.c) */

typedef struct {
    uint32_t name;  /* offset into names */
    uint32_t n;     /* memories that have it */
    uint32_t place; /* size_class 0: the one memory that has it; else its chunk, in units of 8 bytes */
    uint8_t tf, len; /* size_class 0: of that one posting */
    uint8_t size_class;
    uint8_t unused;
} hot_term;

typedef struct {
    uint8_t *names; /* two bytes of length, then UTF-8 */
    uint32_t n_name_bytes, name_capacity;
    hot_term *terms;
    uint32_t n, capacity;
    uint32_t *slots; /* number of a term + 1, 0 = free; n_slots is a power of two */
    uint32_t n_slots;
} hot_dictionary;

/* Number of a word, HOT_NONE when it is unknown. */
uint32_t hot_dictionary_find(const hot_dictionary *dictionary, const uint8_t *word, size_t n);
shp_hot_status hot_dictionary_intern(hot_dictionary *dictionary, const uint8_t *word, size_t n, uint32_t *out);
/* Fills the slots again from the terms. */
shp_hot_status hot_dictionary_rehash(hot_dictionary *dictionary, uint32_t n_slots);
void hot_dictionary_free(hot_dictionary *dictionary);

/* ---- postings (hot_postings.c) */

enum {
    HOT_BIG = 255,    /* this or more: the true number stands elsewhere */
    HOT_CLASSES = 119 /* of chunks; the largest has 2^31 units */
};

/* Head of a chunk; behind it capacity documents (uint32_t, rising), then as many weights (uint16_t). */
typedef struct {
    uint8_t least_len[4]; /* shortest memory that has the word once, twice, three times, more often; 255 at most */
    uint8_t most_tf;      /* 255 at most */
    uint8_t unused[3];
} hot_bounds;

typedef struct {
    const uint32_t *documents; /* rising */
    const uint16_t *weights;   /* tf | len << 8, each 255 at most */
    uint32_t n;
    uint32_t single_document; /* what the pointers point to where there is no chunk */
    uint16_t single_weight;
    hot_bounds bounds;
} hot_list;

/* A word that one memory has 255 times or more. */
typedef struct {
    uint64_t key; /* term << 32 | document */
    uint32_t tf;
} hot_big_tf;

typedef struct {
    uint64_t *units; /* all chunks */
    uint64_t n_units, capacity;
    uint32_t free_chunks[HOT_CLASSES]; /* first of each class, linked by their first four bytes; 0 = none */
    uint64_t n_free_units;
    hot_big_tf *big_tfs; /* rising by key */
    uint32_t n_big_tfs, big_tf_capacity;
} hot_heap;

uint32_t hot_class_units(int size_class);
uint32_t hot_class_capacity(int size_class);

/* Points `out` at a term's list; `out` must stay where it is. */
void hot_list_open(const hot_heap *heap, const hot_term *term, hot_list *out);
uint32_t hot_big_tf_of(const hot_heap *heap, uint32_t term, uint32_t document);

/* Adds a posting, mostly at the end; the document must not be there yet. */
shp_hot_status hot_postings_insert(hot_heap *heap, hot_term *term, uint32_t number, uint32_t document, uint32_t tf,
                                   int32_t doc_len);
/* Takes out the postings of the documents (rising); how many there were. */
uint32_t hot_postings_remove(hot_heap *heap, hot_term *term, uint32_t number, const uint32_t *documents, size_t n);
void hot_heap_free(hot_heap *heap);

/* ---- memories (hot_index.c) */

enum { HOT_BLOCK = 256 }; /* memories per entry of newest */

typedef struct {
    uint32_t sequence;
    int32_t doc_len;       /* -1: taken out */
    int32_t thread, label; /* as in rescore.h, as asks */
    uint8_t asks;
    uint8_t unused[3];
} hot_document;

struct shp_hot {
    shp_rwlock lock; /* shared by questions, which only try it; exclusive while anything below changes */
    hot_document *documents; /* rising by sequence */
    int64_t *timestamps;     /* of the same: asked for most often */
    uint32_t n_documents, capacity;
    int64_t *newest; /* per block: newest timestamp in it and in all before it */
    int64_t n_memories, total_length, n_postings;
    int64_t oldest;  /* timestamp, as the next of any memory so far */
    int32_t longest; /* doc_len */
    int64_t version; /* -1 while it is changed */
    hot_dictionary dictionary;
    hot_heap heap;
};

/* Position of a sequence, HOT_NONE when it is not there. */
uint32_t hot_document_find(const shp_hot *index, int64_t sequence);

#endif

/* Shared by the files of the hot index: dictionary, postings, memories.  hot_index.c has the layout and the reasons. */
#ifndef SHP_HOT_PARTS_H
#define SHP_HOT_PARTS_H

#include "hot.h"
#include "sync.h"
#include "text.h"

#define HOT_NONE UINT32_MAX

/* Prefetches a cache line: half the time of a search was spent waiting for them. */
#if defined(__GNUC__)
/* GCC drops calls of a function that does nothing but prefetch: hence the empty asm. */
#define FETCH(place)                \
    do {                            \
        __builtin_prefetch(place);  \
        __asm__ volatile("");       \
    } while (0)
#else
#define FETCH(place) ((void)(place))
#endif

/* ---- words (hot_dictionary.c) */

enum { HOT_LETTERS = 12, HOT_LONG = 255 };

/* A word has two lists: of the memories in which a person wrote it, and of those in which only an assistant did, whose
   term is the word behind this byte, which no UTF-8 has. */
enum { HOT_REPLIES = 255, HOT_LONGEST_WORD = 4 * SHP_TERM_CHARACTERS };
/* Before the number of a term whose word no memory has any more; no UTF-8 has this byte either. */
enum { HOT_FORGOTTEN = 254 };

/* All data of a word except its list, together to save a cache miss. */
typedef struct {
    uint32_t n;     /* memories that have it */
    uint32_t place; /* size_class 0: the one memory that has it; else its chunk, in units of 8 bytes */
    uint8_t parts, len; /* size_class 0: of that one posting, as in hot_list */
    uint8_t size_class;
    uint8_t n_letters; /* bytes, or HOT_LONG: the word is in names */
    union {
        uint8_t letters[HOT_LETTERS]; /* UTF-8, zeros behind it */
        uint32_t name;                /* offset into names */
    } word;
} hot_term;

typedef struct {
    uint8_t *names; /* of the long words: two bytes of length, then UTF-8 */
    uint32_t n_name_bytes, name_capacity;
    hot_term *terms;
    uint32_t n, capacity;
    uint32_t *slots; /* number of a term + 1, above it bits of the hash; 0 = free; n_slots is a power of two */
    uint32_t n_slots;
    uint32_t n_replies; /* terms that begin with HOT_REPLIES */
} hot_dictionary;

uint32_t hot_dictionary_hash(const uint8_t *word, size_t n);
/* Number of a word, HOT_NONE when it is unknown. */
uint32_t hot_dictionary_find(const hot_dictionary *dictionary, uint32_t hash, const uint8_t *word, size_t n);
/* The most likely number, without reading the word; HOT_NONE is certain.  Not for an empty dictionary. */
uint32_t hot_dictionary_guess(const hot_dictionary *dictionary, uint32_t hash);
/* Whether the guessed number is the word's. */
int hot_dictionary_is(const hot_dictionary *dictionary, uint32_t number, const uint8_t *word, size_t n);
/* A term's word; valid until the next one is added. */
const uint8_t *hot_dictionary_word(const hot_dictionary *dictionary, const hot_term *term, size_t *n);
shp_hot_status hot_dictionary_intern(hot_dictionary *dictionary, const uint8_t *word, size_t n, uint32_t *out);
/* Overwrites the word of a term whose list is empty; the word gets another term when it comes again. */
void hot_dictionary_forget(hot_dictionary *dictionary, uint32_t number);
/* Fills the slots again from the terms; SHP_HOT_DAMAGED when two terms have the same word. */
shp_hot_status hot_dictionary_rehash(hot_dictionary *dictionary, uint32_t n_slots);
void hot_dictionary_free(hot_dictionary *dictionary);

/* ---- postings (hot_postings.c) */

enum {
    HOT_BIG = 255,     /* this or more: the true number is stored elsewhere */
    HOT_CLASSES = 119, /* of chunks; the largest has 2^31 units */
    HOT_STEPS_OF_PARTS = 6, HOT_STEP_OF_ONE = 2 /* see hot_bounds; the step of a word that a person wrote once */
};

/* Head of a chunk; behind it capacity documents (uint32_t, rising), then as many weights (uint16_t). */
typedef struct {
    uint8_t least_len[HOT_STEPS_OF_PARTS]; /* of the memories whose parts are on this step, the shortest; 255 at most */
    uint8_t least_parts, most_parts;       /* 255 at most */
} hot_bounds;

/* The most parts of each step: a word that an assistant wrote once, or a few times, or a person once, twice, three
   times, more often. */
static const uint8_t HOT_MOST_OF_STEP[HOT_STEPS_OF_PARTS] = {
    1, 4, SHP_RANK_PARTS, 2 * SHP_RANK_PARTS, 3 * SHP_RANK_PARTS, HOT_BIG,
};

static inline int hot_step_of(uint8_t parts)
{
    int step = 0;
    for (int i = 0; i < HOT_STEPS_OF_PARTS - 1; i++)
        step += parts > HOT_MOST_OF_STEP[i];
    return step;
}

typedef struct {
    const uint32_t *documents; /* rising */
    const uint16_t *weights;   /* parts (rank.h) | len << 8, each 255 at most */
    uint32_t n;
    uint32_t single_document; /* where the pointers point if there is no chunk */
    uint16_t single_weight;
    hot_bounds bounds;
} hot_list;

/* A word that counts 255 parts or more in one memory. */
typedef struct {
    uint64_t key; /* term << 32 | document */
    uint32_t parts;
    uint32_t unused; /* 0: no padding gets into a saved file */
} hot_big_parts;

typedef struct {
    uint64_t *units; /* all chunks; a search reads nothing else of the heap but the next field */
    hot_big_parts *big_parts; /* rising by key */
    uint32_t n_big_parts, big_parts_capacity;
    uint64_t n_units, capacity;
    uint32_t free_chunks[HOT_CLASSES]; /* first of each class, linked by their first four bytes; 0 = none */
    uint64_t n_free_units;
} hot_heap;

uint32_t hot_class_units(int size_class);
uint32_t hot_class_capacity(int size_class);

/* Points `out` at a term's list; `out` must stay where it is. */
void hot_list_open(const hot_heap *heap, const hot_term *term, hot_list *out);
/* Prefetches the cache lines that a search of the list reads first. */
void hot_list_fetch(const hot_heap *heap, const hot_term *term);
uint32_t hot_big_parts_of(const hot_heap *heap, uint32_t term, uint32_t document);

/* Adds a posting, mostly at the end; the document must not be there yet. */
shp_hot_status hot_postings_insert(hot_heap *heap, hot_term *term, uint32_t number, uint32_t document, uint32_t parts,
                                   int32_t doc_len);
/* Removes the postings of the documents (ascending); returns how many there were. */
uint32_t hot_postings_remove(hot_heap *heap, hot_term *term, uint32_t number, const uint32_t *documents, size_t n);
void hot_heap_free(hot_heap *heap);

/* ---- memories (hot_documents.c) */

enum { HOT_BLOCK = 256 }; /* memories per entry of newest */

typedef struct {
    uint32_t sequence;
    int32_t doc_len; /* -1: deleted */
    int32_t label;   /* as in rescore.h */
} hot_document;

enum { HOT_PREVIOUS = 1, HOT_NEXT = 2, HOT_ASSISTANT = 4, HOT_INSTRUCTS = 8, HOT_PREFERS = 16, HOT_LABELLED = 32 };

/* The fields that ranking reads of every candidate and its neighbours, four memories to a cache line; hot_document is
   read of the best alone. */
typedef struct {
    int64_t timestamp;
    int32_t thread;      /* as in rescore.h */
    uint8_t beside;      /* HOT_PREVIOUS, HOT_NEXT: the memory of its thread one sequence away is the one at -1, 1;
                            HOT_ASSISTANT: an assistant wrote in it or in one of these;
                            HOT_INSTRUCTS, HOT_PREFERS, HOT_LABELLED: of it alone */
    uint8_t second;      /* places to the ones two sequences away: before, and after in the upper half; 0: none */
    uint8_t asks;        /* SHP_ASKS_..., SHP_ASSISTANT_...; in the upper half of the memory before, if HOT_PREVIOUS */
    uint8_t length;      /* shp_length_class */
} hot_near;

struct shp_hot {
    shp_rwlock lock; /* shared by questions, which only try it; exclusive while anything below changes */
    hot_document *documents; /* rising by sequence */
    hot_near *near;          /* of the same */
    shp_pairs *pairs;        /* of the same */
    uint32_t n_documents, capacity;
    int64_t ahead;   /* a sequence less its place, if that is the same for all; else -1 */
    int64_t *newest; /* per block: newest timestamp in it and in all before it */
    int64_t n_memories, total_length, n_postings;
    int64_t oldest;  /* timestamp, as the next of any memory so far */
    int32_t longest; /* doc_len */
    int64_t version; /* -1 while it is changed */
    hot_dictionary dictionary;
    hot_heap heap;
};

/* Reads nothing for most users: without deletions there are no gaps. */
static inline int64_t hot_sequence_of(const shp_hot *index, uint32_t document)
{
    return index->ahead >= 0 ? index->ahead + document : index->documents[document].sequence;
}

/* Updates `ahead`; to be called for each memory in order. */
static inline void hot_note_sequence(shp_hot *index, uint32_t document)
{
    int64_t ahead = (int64_t)index->documents[document].sequence - document;
    index->ahead = !document || index->ahead == ahead ? ahead : -1;
}

int hot_row_is_sound(const shp_hot_row *row);
/* Adds a memory after all others; SHP_HOT_BAD_ROW when its sequence is not above theirs. */
shp_hot_status hot_document_add(shp_hot *index, const shp_hot_row *row);
/* Replaces a memory by a row; the caller has subtracted its old length. */
void hot_document_set(shp_hot *index, uint32_t document, const shp_hot_row *row);
void hot_document_remove(shp_hot *index, uint32_t document);
/* Links the memories from `first` to `last` to their neighbours again; both may be out of range. */
void hot_relink(shp_hot *index, int64_t first, int64_t last);

/* Position of a sequence, HOT_NONE when it is not there. */
uint32_t hot_document_find(const shp_hot *index, int64_t sequence);

#endif

/* From text to terms: the one tokenizer of index and query.  See text.c. */
#ifndef SHP_TEXT_H
#define SHP_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Stored in every database; an index of another version has to be rebuilt.  To be raised when a text gives other terms,
   and when a memory's length or `asks` is computed by another rule. */
#define SHP_TEXT_VERSION 5

/* Longer words are cut, longer technical forms are kept in parts only: no query has them whole, and one
 * pasted base64 block must not become one term of a megabyte.  In characters. */
#define SHP_TERM_CHARACTERS 64

typedef enum {
    SHP_TEXT_OK = 0,
    SHP_TEXT_FULL = 1, /* the limit of terms is reached; the rest was not read */
    SHP_TEXT_NO_MEMORY = -1
} shp_text_status;

/* Terms in order, UTF-8, one after the other without separators.
 * Small texts stay in the struct's own arrays, so it must not be copied or moved once begun. */
typedef struct {
    uint8_t *bytes; /* small_bytes, or malloc'ed; freed by shp_terms_free */
    size_t n_bytes, bytes_capacity;
    size_t *ends; /* term i is bytes[ends[i - 1] .. ends[i]); small_ends or malloc'ed */
    size_t n, ends_capacity;
    uint32_t *slots; /* distinct only: open addressing, term number + 1, 0 = free; small_slots or malloc'ed */
    size_t n_slots;  /* a power of two */
    size_t limit;    /* at most so many terms */
    int distinct;    /* each term once */
    int all_words;   /* stop words too */
    uint8_t small_bytes[1024];
    size_t small_ends[128];
    uint32_t small_slots[256];
} shp_terms;

/* Fills the tables that the functions below read; once, before anything else. */
void shp_text_initialise(void);

void shp_terms_begin(shp_terms *terms, size_t limit, int distinct, int all_words);
void shp_terms_free(shp_terms *terms);

/* Adds the terms of `text`: ASCII, or UTF-8 made by the fold (every character of a letter, everything else
 * blank).  May be called again with the text's next piece when pieces end before a blank. */
shp_text_status shp_terms_read(shp_terms *terms, const uint8_t *text, size_t n);

/* Stems a lower-case ASCII word in place; returns the new length, never longer. */
size_t shp_text_stem(char *word, size_t n);

/* Stop word number i of all languages; NULL after the last. */
const char *shp_text_stop_word(size_t i);

/* Form number i that is read as another word, its base; NULL after the last. */
const char *shp_text_form(size_t i, const char **base);

/* A term as one token of FTS5's `ascii` tokenizer with tokenchars '_': letters a-z, digits and bytes from 128
 * stay, every other byte is '_' and two hex digits.  Writes at most 3 n bytes; returns how many. */
size_t shp_term_encode(uint8_t *out, const uint8_t *term, size_t n);

/* All terms, each after `prefix`, joined by blanks.  `out` may be NULL to get the size. */
size_t shp_terms_scoped(const shp_terms *terms, const char *prefix, uint8_t *out);

#endif

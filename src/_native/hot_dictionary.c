/* The dictionary of one user: from a word in UTF-8 to a number, and back for saving.

   A word of up to 12 bytes is stored in its term; longer ones are in `names`, one after the other, each after its
   length.  The hash table holds numbers, with open addressing, at most three quarters full.  A number takes as many bits
   of its slot as the mask has; the other bits hold a part of the hash, so that a wrong word, which costs a cache miss or
   two, is hardly ever read.  24 bytes a word for the term, about 7 for its slot. */
#include <stdlib.h>
#include <string.h>

#include "hot_parts.h"

enum { FIRST_TERMS = 64, FIRST_NAME_BYTES = 512, LONGEST_NAME = UINT16_MAX };

/* Little-endian integers on every machine; compilers make one load of each. */
static uint32_t four_bytes(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static uint64_t eight_bytes(const uint8_t *from) { return four_bytes(from) | (uint64_t)four_bytes(from + 4) << 32; }

typedef struct {
    uint64_t first;
    uint32_t last;
} letters;

/* Up to 12 bytes, padded with zeros, by overlapping loads: to copy or compare a variable number of bytes would cost a
   call and a mispredicted branch. */
static letters letters_of(const uint8_t *word, size_t n)
{
    if (n >= 8)
        return (letters){eight_bytes(word), n > 8 ? four_bytes(word + n - 4) >> 8 * (12 - n) : 0};
    if (n >= 4)
        return (letters){four_bytes(word) | (uint64_t)four_bytes(word + n - 4) << 8 * (n - 4), 0};
    if (n)
        return (letters){word[0] | (uint64_t)word[n / 2] << 8 * (n / 2) | (uint64_t)word[n - 1] << 8 * (n - 1), 0};
    return (letters){0, 0};
}

/* Eight bytes at a time, multiplied and mixed.  Words come from the user's own texts: no other user can choose them,
   so the hash needs no secret. */
static uint64_t mixed(uint64_t h, uint64_t part)
{
    h = (h ^ part) * 0x9FB21C651E98DF25u;
    return h ^ h >> 32;
}

uint32_t hot_dictionary_hash(const uint8_t *word, size_t n)
{
    uint64_t h = 1469598103934665603u ^ (uint64_t)n * 0x9E3779B97F4A7C15u;
    for (; n > HOT_LETTERS; word += 8, n -= 8)
        h = mixed(h, eight_bytes(word));
    letters rest = letters_of(word, n);
    return (uint32_t)(mixed(mixed(h, rest.first), rest.last) * 0xD6E8FEB86659FD93u >> 32);
}

const uint8_t *hot_dictionary_word(const hot_dictionary *dictionary, const hot_term *term, size_t *n)
{
    if (term->n_letters <= HOT_LETTERS) {
        *n = term->n_letters;
        return term->word.letters;
    }
    const uint8_t *name = dictionary->names + term->word.name;
    *n = (size_t)name[0] | (size_t)name[1] << 8;
    return name + 2;
}

int hot_dictionary_is(const hot_dictionary *dictionary, uint32_t number, const uint8_t *word, size_t n)
{
    const hot_term *term = &dictionary->terms[number];
    if (n <= HOT_LETTERS) {
        letters asked = letters_of(word, n);
        return (term->n_letters == n) & (eight_bytes(term->word.letters) == asked.first) &
               (four_bytes(term->word.letters + 8) == asked.last);
    }
    size_t n_own;
    const uint8_t *own = hot_dictionary_word(dictionary, term, &n_own);
    return n_own == n && !memcmp(own, word, n);
}

/* Whether the slot's number can be that of a word with this hash. */
static int can_be(const hot_dictionary *dictionary, uint32_t slot, uint32_t hash)
{
    return !((slot ^ hash) & ~(dictionary->n_slots - 1));
}

static uint32_t number_in(const hot_dictionary *dictionary, uint32_t slot)
{
    return (slot & (dictionary->n_slots - 1)) - 1;
}

/* The slot of a word, or the free one where it would go. */
static uint32_t *slot_of(const hot_dictionary *dictionary, uint32_t hash, const uint8_t *word, size_t n)
{
    uint32_t mask = dictionary->n_slots - 1, i = hash & mask;
    while (dictionary->slots[i] && !(can_be(dictionary, dictionary->slots[i], hash) &&
                                     hot_dictionary_is(dictionary, number_in(dictionary, dictionary->slots[i]), word, n)))
        i = (i + 1) & mask;
    return &dictionary->slots[i];
}

uint32_t hot_dictionary_guess(const hot_dictionary *dictionary, uint32_t hash)
{
    uint32_t mask = dictionary->n_slots - 1, i = hash & mask;
    while (dictionary->slots[i] && !can_be(dictionary, dictionary->slots[i], hash))
        i = (i + 1) & mask;
    return dictionary->slots[i] ? number_in(dictionary, dictionary->slots[i]) : HOT_NONE;
}

uint32_t hot_dictionary_find(const hot_dictionary *dictionary, uint32_t hash, const uint8_t *word, size_t n)
{
    if (!dictionary->n)
        return HOT_NONE;
    uint32_t slot = *slot_of(dictionary, hash, word, n);
    return slot ? number_in(dictionary, slot) : HOT_NONE;
}

/* The slot of a term whose word has this hash. */
static uint32_t slot_value(const hot_dictionary *dictionary, uint32_t hash, uint32_t number)
{
    return (hash & ~(dictionary->n_slots - 1)) | (number + 1);
}

shp_hot_status hot_dictionary_rehash(hot_dictionary *dictionary, uint32_t n_slots)
{
    uint32_t *slots = calloc(n_slots, sizeof *slots);
    if (!slots)
        return SHP_HOT_NO_MEMORY;
    free(dictionary->slots);
    dictionary->slots = slots;
    dictionary->n_slots = n_slots;
    dictionary->n_replies = 0;
    for (uint32_t number = 0; number < dictionary->n; number++) {
        size_t n;
        const uint8_t *word = hot_dictionary_word(dictionary, &dictionary->terms[number], &n);
        uint32_t hash = hot_dictionary_hash(word, n), *slot = slot_of(dictionary, hash, word, n);
        if (*slot)
            return SHP_HOT_DAMAGED;
        dictionary->n_replies += n && word[0] == HOT_REPLIES;
        *slot = slot_value(dictionary, hash, number);
    }
    return SHP_HOT_OK;
}

static shp_hot_status reserve(hot_dictionary *dictionary, size_t n)
{
    if (dictionary->n == dictionary->capacity) {
        uint32_t capacity = dictionary->capacity + dictionary->capacity / 2 + FIRST_TERMS;
        hot_term *terms = realloc(dictionary->terms, (size_t)capacity * sizeof *terms);
        if (!terms)
            return SHP_HOT_NO_MEMORY;
        dictionary->terms = terms;
        dictionary->capacity = capacity;
    }
    if (n > HOT_LETTERS && dictionary->n_name_bytes + n + 2 > dictionary->name_capacity) {
        uint64_t capacity = dictionary->name_capacity;
        capacity = capacity + capacity / 2 + n + FIRST_NAME_BYTES;
        uint8_t *names = realloc(dictionary->names, capacity);
        if (!names)
            return SHP_HOT_NO_MEMORY;
        dictionary->names = names;
        dictionary->name_capacity = (uint32_t)capacity;
    }
    if (4 * (uint64_t)(dictionary->n + 1) > 3 * (uint64_t)dictionary->n_slots)
        return hot_dictionary_rehash(dictionary, dictionary->n_slots ? 2 * dictionary->n_slots : FIRST_TERMS);
    return SHP_HOT_OK;
}

/* Writes a word that there is room for. */
static hot_term term_of(hot_dictionary *dictionary, const uint8_t *word, size_t n)
{
    hot_term term = {.n_letters = (uint8_t)(n <= HOT_LETTERS ? n : HOT_LONG)};
    if (n <= HOT_LETTERS) {
        memcpy(term.word.letters, word, n);
        return term;
    }
    uint8_t *name = dictionary->names + dictionary->n_name_bytes;
    name[0] = (uint8_t)n;
    name[1] = (uint8_t)(n >> 8);
    memcpy(name + 2, word, n);
    term.word.name = dictionary->n_name_bytes;
    dictionary->n_name_bytes += (uint32_t)n + 2;
    return term;
}

shp_hot_status hot_dictionary_intern(hot_dictionary *dictionary, const uint8_t *word, size_t n, uint32_t *out)
{
    uint32_t hash = hot_dictionary_hash(word, n);
    *out = hot_dictionary_find(dictionary, hash, word, n);
    if (*out != HOT_NONE)
        return SHP_HOT_OK;
    /* Both arrays stay where 32 bits, and half as much again, reach. */
    if (n > LONGEST_NAME || dictionary->n >= UINT32_MAX / 4 || dictionary->n_name_bytes >= UINT32_MAX / 2)
        return SHP_HOT_FULL;
    shp_hot_status status = reserve(dictionary, n);
    if (status != SHP_HOT_OK)
        return status;
    *slot_of(dictionary, hash, word, n) = slot_value(dictionary, hash, dictionary->n);
    dictionary->terms[dictionary->n] = term_of(dictionary, word, n);
    dictionary->n_replies += n && word[0] == HOT_REPLIES;
    *out = dictionary->n++;
    return SHP_HOT_OK;
}

void hot_dictionary_forget(hot_dictionary *dictionary, uint32_t number)
{
    hot_term *term = &dictionary->terms[number];
    size_t n;
    const uint8_t *word = hot_dictionary_word(dictionary, term, &n);
    if (n && word[0] == HOT_FORGOTTEN)
        return;
    dictionary->n_replies -= n && word[0] == HOT_REPLIES;
    if (n > HOT_LETTERS)
        memset(dictionary->names + term->word.name + 2, 0, n);
    memset(&term->word, 0, sizeof term->word);
    term->word.letters[0] = HOT_FORGOTTEN;
    for (int i = 0; i < 4; i++)
        term->word.letters[1 + i] = (uint8_t)(number >> 8 * i);
    term->n_letters = 5;
}

void hot_dictionary_free(hot_dictionary *dictionary)
{
    free(dictionary->names);
    free(dictionary->terms);
    free(dictionary->slots);
}

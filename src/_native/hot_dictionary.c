/* Words of one user: from UTF-8 to a number, and back for saving.

   Names lie one after the other, each with its length before it; a hash table of numbers, open addressing,
   at most three quarters full.  About 16 bytes a word for the term, 7 for its slot, 2 and its letters for the name. */
#include <stdlib.h>
#include <string.h>

#include "hot_parts.h"

enum { FIRST_TERMS = 64, FIRST_NAME_BYTES = 512, LONGEST_NAME = UINT16_MAX };

/* Eight bytes at a time, multiplied and folded.  Words come from the user's own texts: nobody else can choose them,
   so the hash need not keep a secret. */
static uint32_t hash(const uint8_t *word, size_t n)
{
    uint64_t h = 1469598103934665603u ^ (uint64_t)n * 0x9E3779B97F4A7C15u, part;
    for (; n >= 8; word += 8, n -= 8) {
        memcpy(&part, word, 8);
        h = (h ^ part) * 0x9FB21C651E98DF25u;
        h ^= h >> 32;
    }
    part = 0;
    memcpy(&part, word, n);
    h = (h ^ part) * 0x9FB21C651E98DF25u;
    h ^= h >> 29;
    h *= 0xD6E8FEB86659FD93u;
    return (uint32_t)(h >> 32);
}

static size_t name_length(const uint8_t *name) { return (size_t)name[0] | (size_t)name[1] << 8; }

static int is_named(const hot_dictionary *dictionary, uint32_t number, const uint8_t *word, size_t n)
{
    const uint8_t *name = dictionary->names + dictionary->terms[number].name;
    return name_length(name) == n && !memcmp(name + 2, word, n);
}

/* The slot of a word, or the free one where it would go. */
static uint32_t *slot_of(const hot_dictionary *dictionary, const uint8_t *word, size_t n)
{
    uint32_t mask = dictionary->n_slots - 1, i = hash(word, n) & mask;
    while (dictionary->slots[i] && !is_named(dictionary, dictionary->slots[i] - 1, word, n))
        i = (i + 1) & mask;
    return &dictionary->slots[i];
}

uint32_t hot_dictionary_find(const hot_dictionary *dictionary, const uint8_t *word, size_t n)
{
    if (!dictionary->n)
        return HOT_NONE;
    uint32_t number = *slot_of(dictionary, word, n);
    return number ? number - 1 : HOT_NONE;
}

shp_hot_status hot_dictionary_rehash(hot_dictionary *dictionary, uint32_t n_slots)
{
    uint32_t *slots = calloc(n_slots, sizeof *slots);
    if (!slots)
        return SHP_HOT_NO_MEMORY;
    free(dictionary->slots);
    dictionary->slots = slots;
    dictionary->n_slots = n_slots;
    for (uint32_t number = 0; number < dictionary->n; number++) {
        const uint8_t *name = dictionary->names + dictionary->terms[number].name;
        *slot_of(dictionary, name + 2, name_length(name)) = number + 1;
    }
    return SHP_HOT_OK;
}

static shp_hot_status reserve(hot_dictionary *dictionary, size_t n)
{
    if (dictionary->n == dictionary->capacity) {
        uint32_t capacity = dictionary->capacity ? dictionary->capacity + dictionary->capacity / 2 : FIRST_TERMS;
        hot_term *terms = realloc(dictionary->terms, (size_t)capacity * sizeof *terms);
        if (!terms)
            return SHP_HOT_NO_MEMORY;
        dictionary->terms = terms;
        dictionary->capacity = capacity;
    }
    if (dictionary->n_name_bytes + n + 2 > dictionary->name_capacity) {
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

shp_hot_status hot_dictionary_intern(hot_dictionary *dictionary, const uint8_t *word, size_t n, uint32_t *out)
{
    *out = hot_dictionary_find(dictionary, word, n);
    if (*out != HOT_NONE)
        return SHP_HOT_OK;
    /* Both arrays stay where 32 bits, and half as much again, reach. */
    if (n > LONGEST_NAME || dictionary->n >= UINT32_MAX / 4 || dictionary->n_name_bytes >= UINT32_MAX / 2)
        return SHP_HOT_FULL;
    shp_hot_status status = reserve(dictionary, n);
    if (status != SHP_HOT_OK)
        return status;
    uint8_t *name = dictionary->names + dictionary->n_name_bytes;
    name[0] = (uint8_t)n;
    name[1] = (uint8_t)(n >> 8);
    memcpy(name + 2, word, n);
    *slot_of(dictionary, word, n) = dictionary->n + 1;
    dictionary->terms[dictionary->n] = (hot_term){.name = dictionary->n_name_bytes};
    dictionary->n_name_bytes += (uint32_t)n + 2;
    *out = dictionary->n++;
    return SHP_HOT_OK;
}

void hot_dictionary_free(hot_dictionary *dictionary)
{
    free(dictionary->names);
    free(dictionary->terms);
    free(dictionary->slots);
}

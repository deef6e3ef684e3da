/* The hot index of one user: adding and removing memories, and concurrent searches.

   Layout.  Memories are numbered in the order of their sequences, which is that of their ids.  Each takes 60 bytes, in
   three arrays: the fields that ranking reads of all candidates, the pairs of their words, and what it reads of the best
   alone (hot_documents.c).  A dictionary gives each word a term; a term has the list of the memories with the word
   (hot_postings.c), and another of those in which only an assistant wrote it.  The texts are not stored.  About
   290 bytes a memory for a large user.

   Changes.  Added memories are appended to the lists.  A deleted or edited memory is searched for in every list, since
   its words are not stored: by binary search for a few memories, by one pass for many (5 to 50 ms for a million
   memories, and rare).  It keeps its number: a deleted memory is in no list, an edited one is inserted again at its
   place.

   Consistency.  A search names the version of `tenants` that its transaction sees, and the index answers only if it has
   exactly that version.  A change makes the index stale; shp_hot_publish gives it the next version if the number and
   total length of its memories are those of the table.  Readers try the lock and never wait: while a writer holds it
   they search with FTS5, which gives the same results. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hot_parts.h"
#include "text.h"

shp_hot *shp_hot_new(void)
{
    shp_hot *index = calloc(1, sizeof *index);
    if (!index)
        return NULL;
    index->version = -1;
    index->oldest = INT64_MAX;
    if (shp_rwlock_init(&index->lock)) {
        free(index);
        return NULL;
    }
    return index;
}

void shp_hot_free(shp_hot *index)
{
    if (!index)
        return;
    shp_rwlock_destroy(&index->lock);
    free(index->documents);
    free(index->near);
    free(index->pairs);
    free(index->newest);
    hot_dictionary_free(&index->dictionary);
    hot_heap_free(&index->heap);
    free(index);
}

/* ---- tokens of a text, outside the lock */

typedef struct {
    uint8_t *bytes;
    size_t n_bytes, byte_capacity;
    uint32_t *lengths; /* in bytes, of each token; BY_ASSISTANT is set in those that an assistant wrote, and BEGINS in
                          the first of a text */
    size_t n, capacity;
} token_buffer;

#define BY_ASSISTANT (UINT32_C(1) << 31)
#define BEGINS (UINT32_C(1) << 30)
#define LENGTH (BEGINS - 1)

static void buffer_free(token_buffer *buffer)
{
    free(buffer->bytes);
    free(buffer->lengths);
}

static shp_hot_status buffer_append(token_buffer *buffer, const shp_terms *terms, uint32_t writer)
{
    if (buffer->n + terms->n > buffer->capacity) {
        size_t capacity = 2 * (buffer->n + terms->n) + 64;
        uint32_t *lengths = realloc(buffer->lengths, capacity * sizeof *lengths);
        if (!lengths)
            return SHP_HOT_NO_MEMORY;
        buffer->lengths = lengths;
        buffer->capacity = capacity;
    }
    if (buffer->n_bytes + terms->n_bytes > buffer->byte_capacity) {
        size_t capacity = 2 * (buffer->n_bytes + terms->n_bytes) + 512;
        uint8_t *bytes = realloc(buffer->bytes, capacity);
        if (!bytes)
            return SHP_HOT_NO_MEMORY;
        buffer->bytes = bytes;
        buffer->byte_capacity = capacity;
    }
    size_t start = 0;
    for (size_t i = 0; i < terms->n; i++) {
        buffer->lengths[buffer->n++] = (uint32_t)(terms->ends[i] - start) | writer | (i ? 0 : BEGINS);
        start = terms->ends[i];
    }
    if (terms->n_bytes)
        memcpy(buffer->bytes + buffer->n_bytes, terms->bytes, terms->n_bytes);
    buffer->n_bytes += terms->n_bytes;
    return SHP_HOT_OK;
}

/* As text.pyx reads: all words of a text that has nothing but stop words. */
static shp_hot_status read_text(token_buffer *buffer, const uint8_t *text, size_t n_bytes, uint32_t writer)
{
    shp_terms terms;
    shp_hot_status status = SHP_HOT_OK;
    for (int all_words = 0; all_words < 2; all_words++) {
        shp_terms_begin(&terms, SIZE_MAX, 0, all_words);
        if (shp_terms_read(&terms, text, n_bytes) == SHP_TEXT_NO_MEMORY)
            status = SHP_HOT_NO_MEMORY;
        size_t n = terms.n;
        if (status == SHP_HOT_OK)
            status = buffer_append(buffer, &terms, writer);
        shp_terms_free(&terms);
        if (n || status != SHP_HOT_OK)
            break;
    }
    return status;
}

/* Appends a row's tokens, `n` in all, whose length must be the row's. */
static shp_hot_status read_row(token_buffer *buffer, const shp_hot_row *row, size_t *n)
{
    uint8_t asks = (uint8_t)row->asks;
    size_t n_of_text[2], before = buffer->n;
    for (int i = 0; i < 2; i++) {
        uint32_t writer = shp_parts_of_word(asks, i) == 1 ? BY_ASSISTANT : 0;
        size_t first = buffer->n;
        shp_hot_status status = read_text(buffer, row->texts[i], row->n_bytes[i], writer);
        if (status != SHP_HOT_OK)
            return status;
        n_of_text[i] = buffer->n - first;
    }
    *n = buffer->n - before;
    int64_t length = shp_length_of(asks, (int64_t)n_of_text[0], (int64_t)n_of_text[1]);
    return row->doc_len == length ? SHP_HOT_OK : SHP_HOT_BAD_ROW;
}

/* ---- words of a memory, under the lock */

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void sort_numbers(uint32_t *numbers, size_t n)
{
    if (n > 64) {
        qsort(numbers, n, sizeof *numbers, compare_numbers);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        uint32_t moved = numbers[i];
        size_t j = i;
        for (; j > 0 && numbers[j - 1] > moved; j--)
            numbers[j] = numbers[j - 1];
        numbers[j] = moved;
    }
}

/* Puts `document` into the lists of its tokens, given as sorted numbers with repeats: twice the term's number, and one
   more where an assistant wrote it. */
static shp_hot_status insert_postings(shp_hot *index, uint32_t document, const uint32_t *numbers, size_t n)
{
    int32_t doc_len = index->documents[document].doc_len;
    for (size_t i = 0, next; i < n; i = next) {
        uint32_t number = numbers[i] >> 1, parts = 0;
        for (next = i; next < n && numbers[next] >> 1 == number; next++)
            parts += numbers[next] & 1 ? 1 : SHP_RANK_PARTS;
        shp_hot_status status = hot_postings_insert(&index->heap, &index->dictionary.terms[number], number, document,
                                                    parts, doc_len);
        if (status != SHP_HOT_OK)
            return status;
        index->n_postings++;
    }
    return SHP_HOT_OK;
}

/* The term of a word that an assistant wrote in a memory in which people wrote those of `own`, sorted as below. */
static shp_hot_status intern_reply(shp_hot *index, const uint8_t *word, size_t n, const uint32_t *own, size_t n_own,
                                   uint32_t *out)
{
    uint8_t marked[1 + HOT_LONGEST_WORD] = {HOT_REPLIES};
    *out = hot_dictionary_find(&index->dictionary, hot_dictionary_hash(word, n), word, n);
    uint32_t wanted = *out << 1;
    if (*out != HOT_NONE && n_own && bsearch(&wanted, own, n_own, sizeof wanted, compare_numbers))
        return SHP_HOT_OK;
    if (n > HOT_LONGEST_WORD)
        return SHP_HOT_BAD_ROW;
    memcpy(marked + 1, word, n);
    return hot_dictionary_intern(&index->dictionary, marked, n + 1, out);
}

/* Sets the numbers of the tokens, `n` from `first` on, and sorts them; their bytes begin at `bytes`. */
static shp_hot_status number_tokens(shp_hot *index, const token_buffer *buffer, size_t first, size_t n,
                                    const uint8_t *bytes, uint32_t *numbers)
{
    size_t n_own = 0, n_numbers = 0;
    shp_hot_status status = SHP_HOT_OK;
    for (uint32_t writer = 0; writer < 2 && n_numbers < n; writer++) {
        const uint8_t *word = bytes;
        for (size_t i = first; i < first + n && status == SHP_HOT_OK; i++) {
            uint32_t length = buffer->lengths[i] & LENGTH, number = 0;
            if (!(buffer->lengths[i] & BY_ASSISTANT) == !writer) {
                status = writer ? intern_reply(index, word, length, numbers, n_own, &number)
                                : hot_dictionary_intern(&index->dictionary, word, length, &number);
                numbers[n_numbers++] = number << 1 | writer;
            }
            word += length;
        }
        if (status != SHP_HOT_OK)
            return status;
        n_own = n_numbers;
        sort_numbers(numbers, n_numbers);
    }
    return SHP_HOT_OK;
}

/* Sets the pairs of a memory's tokens, whose bytes begin at `bytes`. */
static void set_pairs(const token_buffer *buffer, size_t first, size_t last, const uint8_t *bytes, shp_pairs *out)
{
    shp_pairs_reader reader = {0};
    memset(out, 0, sizeof *out);
    for (size_t i = first; i < last; i++) {
        uint32_t length = buffer->lengths[i] & LENGTH;
        uint16_t pair;
        if (buffer->lengths[i] & BEGINS)
            reader.n = 0;
        if (!(buffer->lengths[i] & BY_ASSISTANT) && reader.n < SHP_PAIRS_TERMS &&
            shp_pairs_next(&reader, bytes, length, &pair))
            shp_pairs_add(out, pair);
        bytes += length;
    }
}

/* Tokens `first` to `last` of the buffer, whose bytes begin at *offset, become postings of `document`. */
static shp_hot_status index_tokens(shp_hot *index, uint32_t document, const token_buffer *buffer, size_t first,
                                   size_t last, size_t *offset)
{
    uint32_t small[256], *numbers = small;
    size_t n = last - first;
    shp_hot_status status = SHP_HOT_OK;
    if (n > 256 && !(numbers = malloc(n * sizeof *numbers)))
        return SHP_HOT_NO_MEMORY;
    set_pairs(buffer, first, last, buffer->bytes + *offset, &index->pairs[document]);
    status = number_tokens(index, buffer, first, n, buffer->bytes + *offset, numbers);
    for (size_t i = first; i < last; i++)
        *offset += buffer->lengths[i] & LENGTH;
    if (status == SHP_HOT_OK)
        status = insert_postings(index, document, numbers, n);
    if (numbers != small)
        free(numbers);
    return status;
}

/* Takes the documents (rising) out of every list. */
static void remove_postings(shp_hot *index, const uint32_t *documents, size_t n)
{
    for (uint32_t number = 0; number < index->dictionary.n; number++)
        index->n_postings -= hot_postings_remove(&index->heap, &index->dictionary.terms[number], number, documents, n);
}

/* Overwrites the words that no memory has any more, so that a saved index does not have them. */
static void forget_words(shp_hot *index)
{
    for (uint32_t number = 0; number < index->dictionary.n; number++)
        if (!index->dictionary.terms[number].n)
            hot_dictionary_forget(&index->dictionary, number);
}

/* ---- changes */

static shp_hot_status add_row(shp_hot *index, const shp_hot_row *row, const token_buffer *buffer, size_t first,
                              size_t n, size_t *offset)
{
    shp_hot_status status = hot_document_add(index, row);
    if (status != SHP_HOT_OK)
        return status;
    uint32_t document = index->n_documents - 1;
    return index_tokens(index, document, buffer, first, first + n, offset);
}

/* Takes the lock for a change; 0 when it would have to wait and must not. */
static int own(shp_hot *index, int waits)
{
    if (!waits)
        return shp_rwlock_try_own(&index->lock);
    shp_rwlock_own(&index->lock);
    return 1;
}

shp_hot_status shp_hot_add(shp_hot *index, const shp_hot_row *rows, size_t n_rows, int waits)
{
    token_buffer buffer = {0};
    size_t small[16], *n_tokens = n_rows > 16 ? malloc(n_rows * sizeof *n_tokens) : small;
    shp_hot_status status = n_tokens ? SHP_HOT_OK : SHP_HOT_NO_MEMORY;
    for (size_t i = 0; i < n_rows && status == SHP_HOT_OK; i++)
        status = hot_row_is_sound(&rows[i]) ? read_row(&buffer, &rows[i], &n_tokens[i]) : SHP_HOT_BAD_ROW;
    if (!own(index, waits)) {
        buffer_free(&buffer);
        if (n_tokens != small)
            free(n_tokens);
        return SHP_HOT_BUSY;
    }
    index->version = -1;
    size_t first = 0, offset = 0;
    for (size_t i = 0; i < n_rows && status == SHP_HOT_OK; i++) {
        status = add_row(index, &rows[i], &buffer, first, n_tokens[i], &offset);
        first += n_tokens[i];
    }
    shp_rwlock_disown(&index->lock);
    buffer_free(&buffer);
    if (n_tokens != small)
        free(n_tokens);
    return status;
}

shp_hot_status shp_hot_remove(shp_hot *index, const int64_t *sequences, size_t n)
{
    uint32_t *documents = malloc((n + 1) * sizeof *documents);
    size_t n_found = 0;
    if (!documents)
        return SHP_HOT_NO_MEMORY;
    shp_rwlock_own(&index->lock);
    index->version = -1;
    for (size_t i = 0; i < n; i++) {
        uint32_t document = hot_document_find(index, sequences[i]);
        if (document == HOT_NONE)
            continue;
        hot_document_remove(index, document);
        documents[n_found++] = document;
    }
    remove_postings(index, documents, n_found);
    forget_words(index);
    shp_rwlock_disown(&index->lock);
    free(documents);
    return SHP_HOT_OK;
}

shp_hot_status shp_hot_replace(shp_hot *index, const shp_hot_row *row)
{
    token_buffer buffer = {0};
    size_t n_tokens = 0;
    shp_hot_status status = hot_row_is_sound(row) ? read_row(&buffer, row, &n_tokens) : SHP_HOT_BAD_ROW;
    shp_rwlock_own(&index->lock);
    index->version = -1;
    uint32_t document = hot_document_find(index, row->sequence);
    if (status == SHP_HOT_OK && document == HOT_NONE)
        status = SHP_HOT_BAD_ROW;
    if (status == SHP_HOT_OK) {
        size_t offset = 0;
        remove_postings(index, &document, 1);
        index->total_length -= index->documents[document].doc_len;
        hot_document_set(index, document, row);
        status = index_tokens(index, document, &buffer, 0, n_tokens, &offset);
        forget_words(index);
    }
    shp_rwlock_disown(&index->lock);
    buffer_free(&buffer);
    return status;
}

shp_hot_status shp_hot_publish(shp_hot *index, int64_t version, int64_t n_memories, int64_t total_length, int waits)
{
    if (!own(index, waits))
        return SHP_HOT_BUSY;
    int agrees = index->n_memories == n_memories && index->total_length == total_length;
    index->version = agrees ? version : -1;
    shp_rwlock_disown(&index->lock);
    return agrees ? SHP_HOT_OK : SHP_HOT_BAD_ROW;
}

/* ---- counts */

shp_hot_status shp_hot_count(shp_hot *index, shp_hot_counts *out)
{
    if (!shp_rwlock_try_share(&index->lock))
        return SHP_HOT_STALE;
    const hot_dictionary *dictionary = &index->dictionary;
    *out = (shp_hot_counts){
        .version = index->version,
        .n_memories = index->n_memories,
        .total_length = index->total_length,
        .last_sequence = index->n_documents ? (int64_t)index->documents[index->n_documents - 1].sequence : -1,
        .n_terms = dictionary->n,
        .n_postings = index->n_postings,
        .n_free_bytes = (int64_t)index->heap.n_free_units * 8,
    };
    size_t n_bytes = sizeof *index + index->capacity * (sizeof(hot_document) + sizeof(hot_near) + sizeof(shp_pairs)) +
                     index->capacity / HOT_BLOCK * sizeof(int64_t) + dictionary->name_capacity +
                     dictionary->capacity * sizeof(hot_term) + dictionary->n_slots * sizeof(uint32_t) +
                     index->heap.capacity * 8 + index->heap.big_parts_capacity * sizeof(hot_big_parts);
    out->n_bytes = (int64_t)n_bytes;
    shp_rwlock_unshare(&index->lock);
    return SHP_HOT_OK;
}

int64_t shp_hot_sequences(shp_hot *index, int64_t *out, int64_t room)
{
    int64_t n = 0;
    shp_rwlock_share(&index->lock);
    for (uint32_t i = 0; i < index->n_documents && n < room; i++)
        if (index->documents[i].doc_len >= 0)
            out[n++] = index->documents[i].sequence;
    shp_rwlock_unshare(&index->lock);
    return n;
}

/* Saving the hot index as a block of bytes, and loading it.

   Format: a header of 64-bit numbers, then the arrays as they are in memory, each padded to 8 bytes: documents, near,
   pairs, newest, names, terms, heap, big_parts; at the end a checksum of everything before it.  Space of the heap that belongs
   to no posting is saved as zeros, so that a file holds nothing else of the process's memory.

   The block is a cache for the machine that wrote it: another byte order, format or tokenizer is treated as damage, and
   so are inconsistent contents, whatever the checksum says.  Everything that searches and changes rely on is checked
   before the index is used: nothing outside the arrays is ever read or written. */
#include <stdlib.h>
#include <string.h>

#include "hot_parts.h"
#include "text.h"

enum { FORMAT = 6 };

static const uint64_t MAGIC = 0x31746F6870656853; /* "Shephot1" on a little-endian machine */

typedef struct {
    uint64_t magic, format, tokenizer, size;
    uint64_t n_documents, n_names, n_terms, n_units, n_big_parts;
    int64_t version, n_memories, total_length, n_postings;
    uint64_t n_free_units;
    uint32_t free_chunks[HOT_CLASSES + 1];
} header;

typedef struct {
    const void *from;
    size_t n_bytes;
} section;

enum { HEAP = 6, N_SECTIONS = 8 };

static size_t padded(size_t n_bytes) { return (n_bytes + 7) & ~(size_t)7; }

/* Four lanes of 8 bytes: 10 GB a second, and any changed byte changes it. */
static uint64_t checksum(const uint8_t *bytes, size_t n)
{
    uint64_t lanes[4] = {1, 2, 3, 4}, part, sum = n;
    for (size_t i = 0; i + 8 <= n; i += 8) {
        uint64_t *lane = &lanes[i / 8 % 4];
        memcpy(&part, bytes + i, 8);
        *lane = (*lane ^ part) * 0x9FB21C651E98DF25u;
        *lane ^= *lane >> 29;
    }
    for (int i = 0; i < 4; i++)
        sum = (sum ^ lanes[i]) * 0xD6E8FEB86659FD93u, sum ^= sum >> 32;
    return sum;
}

static size_t n_blocks(size_t n_documents) { return (n_documents + HOT_BLOCK - 1) / HOT_BLOCK; }

static void sections_of(const shp_hot *index, section *out)
{
    const hot_dictionary *dictionary = &index->dictionary;
    const hot_heap *heap = &index->heap;
    out[0] = (section){index->documents, index->n_documents * sizeof *index->documents};
    out[1] = (section){index->near, index->n_documents * sizeof *index->near};
    out[2] = (section){index->pairs, index->n_documents * sizeof *index->pairs};
    out[3] = (section){index->newest, n_blocks(index->n_documents) * sizeof *index->newest};
    out[4] = (section){dictionary->names, dictionary->n_name_bytes};
    out[5] = (section){dictionary->terms, dictionary->n * sizeof *dictionary->terms};
    out[HEAP] = (section){heap->units, heap->n_units * sizeof *heap->units};
    out[7] = (section){heap->big_parts, heap->n_big_parts * sizeof *heap->big_parts};
}

static void fill_header(const shp_hot *index, size_t size, header *out)
{
    memset(out, 0, sizeof *out);
    out->magic = MAGIC;
    out->format = FORMAT;
    out->tokenizer = SHP_TEXT_VERSION;
    out->size = size;
    out->n_documents = index->n_documents;
    out->n_names = index->dictionary.n_name_bytes;
    out->n_terms = index->dictionary.n;
    out->n_units = index->heap.n_units;
    out->n_big_parts = index->heap.n_big_parts;
    out->version = index->version;
    out->n_memories = index->n_memories;
    out->total_length = index->total_length;
    out->n_postings = index->n_postings;
    out->n_free_units = index->heap.n_free_units;
    memcpy(out->free_chunks, index->heap.free_chunks, sizeof index->heap.free_chunks);
}

/* Clears the units of the heap without postings: place 0, the ends of chunks, and free chunks except for their link. */
static void clear_unused(const shp_hot *index, uint64_t *units)
{
    const hot_heap *heap = &index->heap;
    if (heap->n_units)
        units[0] = 0;
    for (uint32_t i = 0; i < index->dictionary.n; i++) {
        const hot_term *term = &index->dictionary.terms[i];
        if (!term->size_class)
            continue;
        uint32_t capacity = hot_class_capacity(term->size_class), n_unused = capacity - term->n;
        uint8_t *documents = (uint8_t *)(units + term->place + 1), *weights = documents + 4 * (size_t)capacity;
        uint8_t *unused = weights + 2 * (size_t)term->n;
        uint8_t *end = (uint8_t *)(units + term->place + hot_class_units(term->size_class));
        memset(documents + 4 * (size_t)term->n, 0, 4 * (size_t)n_unused);
        memset(unused, 0, (size_t)(end - unused));
    }
    for (int size_class = 1; size_class < HOT_CLASSES; size_class++)
        for (uint32_t place = heap->free_chunks[size_class], next; place; place = next) {
            memcpy(&next, &heap->units[place], sizeof next);
            memset(&units[place], 0, (size_t)hot_class_units(size_class) * 8);
            memcpy(&units[place], &next, sizeof next);
        }
}

static shp_hot_status save_shared(const shp_hot *index, uint8_t **out, size_t *n_bytes)
{
    section sections[N_SECTIONS];
    size_t size = sizeof(header), at = sizeof(header);
    header head;
    if (index->version < 0)
        return SHP_HOT_STALE;
    sections_of(index, sections);
    for (int i = 0; i < N_SECTIONS; i++)
        size += padded(sections[i].n_bytes);
    uint8_t *bytes = malloc(size + 8);
    if (!bytes)
        return SHP_HOT_NO_MEMORY;
    fill_header(index, size, &head);
    memcpy(bytes, &head, sizeof head);
    for (int i = 0; i < N_SECTIONS; i++) {
        size_t n = sections[i].n_bytes;
        if (n)
            memcpy(bytes + at, sections[i].from, n);
        memset(bytes + at + n, 0, padded(n) - n);
        if (i == HEAP)
            clear_unused(index, (uint64_t *)(bytes + at));
        at += padded(n);
    }
    uint64_t sum = checksum(bytes, size);
    memcpy(bytes + size, &sum, 8);
    *out = bytes;
    *n_bytes = size + 8;
    return SHP_HOT_OK;
}

shp_hot_status shp_hot_save(shp_hot *index, uint8_t **out, size_t *n_bytes)
{
    shp_rwlock_share(&index->lock);
    shp_hot_status status = save_shared(index, out, n_bytes);
    shp_rwlock_unshare(&index->lock);
    return status;
}

/* ---- loading */

/* 0 when it is no header of this build, or its arrays do not fill the size. */
static int is_header_sound(const header *head, size_t n_bytes)
{
    const uint64_t most = UINT32_MAX;
    if (head->magic != MAGIC || head->format != FORMAT || head->tokenizer != SHP_TEXT_VERSION ||
        head->size + 8 != n_bytes)
        return 0;
    if (head->n_documents >= most / 2 || head->n_names >= most / 2 || head->n_terms >= most / 4 ||
        head->n_units > most || head->n_big_parts >= most / 4 || head->version < 0)
        return 0;
    uint64_t size = sizeof *head + padded((size_t)head->n_documents * sizeof(hot_document)) +
                    head->n_documents * (sizeof(hot_near) + sizeof(shp_pairs)) + n_blocks((size_t)head->n_documents) * 8 +
                    padded((size_t)head->n_names) + head->n_terms * sizeof(hot_term) + head->n_units * 8 +
                    head->n_big_parts * sizeof(hot_big_parts);
    return size == head->size;
}

/* An array of `n` with room for `capacity`, filled from *at, which moves behind it; NULL when memory is out. */
static void *copied(const uint8_t **at, size_t n, size_t capacity, size_t size)
{
    void *array = malloc((capacity + 1) * size);
    if (array && n)
        memcpy(array, *at, n * size);
    *at += padded(n * size);
    return array;
}

static shp_hot_status copy_arrays(shp_hot *index, const header *head, const uint8_t *at)
{
    size_t n_documents = (size_t)head->n_documents, capacity = n_blocks(n_documents) * HOT_BLOCK;
    hot_dictionary *dictionary = &index->dictionary;
    hot_heap *heap = &index->heap;
    index->documents = copied(&at, n_documents, capacity, sizeof *index->documents);
    index->near = copied(&at, n_documents, capacity, sizeof *index->near);
    index->pairs = copied(&at, n_documents, capacity, sizeof *index->pairs);
    index->newest = copied(&at, capacity / HOT_BLOCK, capacity / HOT_BLOCK, sizeof *index->newest);
    dictionary->names = copied(&at, (size_t)head->n_names, (size_t)head->n_names, 1);
    dictionary->terms = copied(&at, (size_t)head->n_terms, (size_t)head->n_terms, sizeof *dictionary->terms);
    heap->units = copied(&at, (size_t)head->n_units, (size_t)head->n_units, sizeof *heap->units);
    heap->big_parts = copied(&at, (size_t)head->n_big_parts, (size_t)head->n_big_parts, sizeof *heap->big_parts);
    index->n_documents = (uint32_t)n_documents;
    index->capacity = (uint32_t)capacity;
    dictionary->n_name_bytes = dictionary->name_capacity = (uint32_t)head->n_names;
    dictionary->n = dictionary->capacity = (uint32_t)head->n_terms;
    heap->n_units = heap->capacity = head->n_units;
    heap->n_big_parts = heap->big_parts_capacity = (uint32_t)head->n_big_parts;
    heap->n_free_units = head->n_free_units;
    memcpy(heap->free_chunks, head->free_chunks, sizeof heap->free_chunks);
    index->version = head->version;
    index->n_memories = head->n_memories;
    index->total_length = head->total_length;
    index->n_postings = head->n_postings;
    int is_full = index->documents && index->near && index->pairs && index->newest && dictionary->names && dictionary->terms &&
                  heap->units && heap->big_parts;
    return is_full ? SHP_HOT_OK : SHP_HOT_NO_MEMORY;
}

/* Marks the units of a chunk in `taken`, a bit for each of the heap; 0 when it is not inside or overlaps another. */
static int take_chunk(const hot_heap *heap, uint32_t place, int size_class, uint8_t *taken)
{
    uint64_t end = (uint64_t)place + hot_class_units(size_class);
    if (!place || end > heap->n_units)
        return 0;
    int is_free = 1;
    for (uint64_t i = place; i < end; i++) {
        is_free &= !(taken[i / 8] >> i % 8 & 1);
        taken[i / 8] |= (uint8_t)(1 << i % 8);
    }
    return is_free;
}

/* State of the checks of the lists. */
typedef struct {
    const shp_hot *index;
    uint8_t *taken; /* a bit for each unit of the heap */
    int64_t n_postings;
    uint32_t n_big_parts; /* met so far: they are in the order of the lists */
} list_check;

/* Whether the term's numbers allow hot_list_open to be called. */
static int is_place_sound(list_check *check, const hot_term *term)
{
    if (!term->size_class)
        return !term->n || (term->n == 1 && term->parts);
    return term->size_class < HOT_CLASSES && term->n <= hot_class_capacity(term->size_class) &&
           take_chunk(&check->index->heap, term->place, term->size_class, check->taken);
}

static int is_big_parts_sound(list_check *check, uint32_t number, uint32_t document, int32_t doc_len)
{
    const hot_heap *heap = &check->index->heap;
    if (check->n_big_parts == heap->n_big_parts)
        return 0;
    const hot_big_parts *big = &heap->big_parts[check->n_big_parts++];
    return big->key == ((uint64_t)number << 32 | document) && big->parts >= HOT_BIG &&
           (int64_t)big->parts <= (int64_t)doc_len * SHP_RANK_PARTS;
}

static int is_list_sound(list_check *check, uint32_t number)
{
    const shp_hot *index = check->index;
    const hot_term *term = &index->dictionary.terms[number];
    hot_list list;
    if (!is_place_sound(check, term))
        return 0;
    hot_list_open(&index->heap, term, &list);
    check->n_postings += list.n;
    for (uint32_t i = 0, least = 0; i < list.n; i++) {
        uint32_t document = list.documents[i], parts = list.weights[i] & 255, len = list.weights[i] >> 8;
        if (document < least || document >= index->n_documents || !parts)
            return 0;
        int32_t doc_len = index->documents[document].doc_len; /* -1 where the memory was deleted */
        if ((int64_t)doc_len * SHP_RANK_PARTS < (int64_t)parts ||
            len != (uint32_t)(doc_len < HOT_BIG ? doc_len : HOT_BIG))
            return 0;
        if (parts < list.bounds.least_parts || parts > list.bounds.most_parts ||
            len < list.bounds.least_len[hot_step_of((uint8_t)parts)])
            return 0;
        if (parts == HOT_BIG && !is_big_parts_sound(check, number, document, doc_len))
            return 0;
        least = document + 1;
    }
    return 1;
}

static int is_word_sound(const hot_dictionary *dictionary, const hot_term *term)
{
    static const uint8_t zeros[HOT_LETTERS] = {0};
    if (term->n_letters <= HOT_LETTERS)
        return !memcmp(term->word.letters + term->n_letters, zeros, (size_t)(HOT_LETTERS - term->n_letters));
    if (term->n_letters != HOT_LONG)
        return 0;
    uint64_t name = term->word.name;
    if (name + 2 > dictionary->n_name_bytes)
        return 0;
    uint64_t length = dictionary->names[name] | (uint64_t)dictionary->names[name + 1] << 8;
    return length > HOT_LETTERS && name + 2 + length <= dictionary->n_name_bytes;
}

static int are_terms_sound(const shp_hot *index, uint8_t *taken)
{
    list_check check = {.index = index, .taken = taken};
    for (uint32_t i = 0; i < index->dictionary.n; i++)
        if (!is_word_sound(&index->dictionary, &index->dictionary.terms[i]) || !is_list_sound(&check, i))
            return 0;
    return check.n_postings == index->n_postings && check.n_big_parts == index->heap.n_big_parts;
}

/* Each list of free chunks stays inside the heap and ends: no chunk comes twice. */
static int are_free_chunks_sound(const hot_heap *heap, uint8_t *taken)
{
    uint64_t n_units = 0;
    for (int size_class = 1; size_class < HOT_CLASSES; size_class++) {
        for (uint32_t place = heap->free_chunks[size_class]; place;) {
            if (!take_chunk(heap, place, size_class, taken))
                return 0;
            n_units += hot_class_units(size_class);
            memcpy(&place, &heap->units[place], sizeof place);
        }
    }
    return n_units == heap->n_free_units && !heap->free_chunks[0];
}

static int is_document_sound(const shp_hot *index, uint32_t i)
{
    const hot_document *document = &index->documents[i];
    const hot_near *near = &index->near[i];
    return document->sequence < UINT32_MAX && (!i || document->sequence > document[-1].sequence) &&
           document->doc_len >= -1 && near->timestamp <= index->newest[i / HOT_BLOCK] &&
           (near->asks & 3) <= SHP_ASKS_ONLY;
}

/* Also sets the fields that are not saved (longest, oldest, ahead), and those that hot_relink computes. */
static int are_documents_sound(shp_hot *index)
{
    int64_t n_memories = 0, total_length = 0;
    for (size_t i = 1; i < n_blocks(index->n_documents); i++)
        if (index->newest[i] < index->newest[i - 1])
            return 0;
    for (uint32_t i = 0; i < index->n_documents; i++) {
        if (!is_document_sound(index, i))
            return 0;
        int32_t doc_len = index->documents[i].doc_len;
        hot_note_sequence(index, i);
        if (doc_len > index->longest)
            index->longest = doc_len;
        if (index->near[i].timestamp < index->oldest)
            index->oldest = index->near[i].timestamp;
        n_memories += doc_len >= 0;
        total_length += doc_len >= 0 ? doc_len : 0;
    }
    hot_relink(index, 0, (int64_t)index->n_documents - 1);
    return n_memories == index->n_memories && total_length == index->total_length;
}

static shp_hot_status check_arrays(shp_hot *index)
{
    uint8_t *taken = calloc((size_t)index->heap.n_units / 8 + 1, 1);
    if (!taken)
        return SHP_HOT_NO_MEMORY;
    int is_sound =
        are_documents_sound(index) && are_terms_sound(index, taken) && are_free_chunks_sound(&index->heap, taken);
    free(taken);
    return is_sound ? SHP_HOT_OK : SHP_HOT_DAMAGED;
}

shp_hot_status shp_hot_load(const uint8_t *bytes, size_t n_bytes, shp_hot **out)
{
    header head;
    uint64_t sum;
    if (n_bytes < sizeof head + 8)
        return SHP_HOT_DAMAGED;
    memcpy(&head, bytes, sizeof head);
    memcpy(&sum, bytes + n_bytes - 8, 8);
    if (!is_header_sound(&head, n_bytes) || sum != checksum(bytes, n_bytes - 8))
        return SHP_HOT_DAMAGED;
    shp_hot *index = shp_hot_new();
    shp_hot_status status = index ? copy_arrays(index, &head, bytes + sizeof head) : SHP_HOT_NO_MEMORY;
    if (status == SHP_HOT_OK)
        status = check_arrays(index);
    uint32_t n_slots = 64;
    while (status == SHP_HOT_OK && 4 * (uint64_t)(index->dictionary.n + 1) > 3 * (uint64_t)n_slots)
        n_slots *= 2;
    if (status == SHP_HOT_OK)
        status = hot_dictionary_rehash(&index->dictionary, n_slots);
    if (status != SHP_HOT_OK) {
        shp_hot_free(index);
        return status;
    }
    *out = index;
    return SHP_HOT_OK;
}

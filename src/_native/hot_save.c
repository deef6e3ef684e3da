/* Saving the hot index as a block of bytes, and loading it.

   Format: a header of 64-bit numbers, then the arrays as they are in memory, each padded to 8 bytes: documents, near,
   newest, names, terms, heap, big_tfs; at the end a checksum of everything before it.  The block is a cache for the
   machine that wrote it: another byte order or format number is treated as damage, and so are inconsistent contents,
   whatever the checksum says: nothing outside the arrays is ever read. */
#include <stdlib.h>
#include <string.h>

#include "hot_parts.h"

enum { FORMAT = 3 };

static const uint64_t MAGIC = 0x31746F6870656853; /* "Shephot1" on a little-endian machine */

typedef struct {
    uint64_t magic, format, size;
    uint64_t n_documents, n_names, n_terms, n_units, n_big_tfs;
    int64_t version, n_memories, total_length, n_postings;
    uint64_t n_free_units;
    uint32_t free_chunks[HOT_CLASSES + 1];
} header;

typedef struct {
    const void *from;
    size_t n_bytes;
} section;

enum { N_SECTIONS = 7 };

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
    out[2] = (section){index->newest, n_blocks(index->n_documents) * sizeof *index->newest};
    out[3] = (section){dictionary->names, dictionary->n_name_bytes};
    out[4] = (section){dictionary->terms, dictionary->n * sizeof *dictionary->terms};
    out[5] = (section){heap->units, heap->n_units * sizeof *heap->units};
    out[6] = (section){heap->big_tfs, heap->n_big_tfs * sizeof *heap->big_tfs};
}

static void fill_header(const shp_hot *index, size_t size, header *out)
{
    memset(out, 0, sizeof *out);
    out->magic = MAGIC;
    out->format = FORMAT;
    out->size = size;
    out->n_documents = index->n_documents;
    out->n_names = index->dictionary.n_name_bytes;
    out->n_terms = index->dictionary.n;
    out->n_units = index->heap.n_units;
    out->n_big_tfs = index->heap.n_big_tfs;
    out->version = index->version;
    out->n_memories = index->n_memories;
    out->total_length = index->total_length;
    out->n_postings = index->n_postings;
    out->n_free_units = index->heap.n_free_units;
    memcpy(out->free_chunks, index->heap.free_chunks, sizeof index->heap.free_chunks);
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

/* 0 when it is no header of ours, or its arrays do not fill the size. */
static int is_header_sound(const header *head, size_t n_bytes)
{
    const uint64_t most = UINT32_MAX;
    if (head->magic != MAGIC || head->format != FORMAT || head->size + 8 != n_bytes)
        return 0;
    if (head->n_documents >= most / 2 || head->n_names >= most / 2 || head->n_terms >= most / 4 ||
        head->n_units > most || head->n_big_tfs > most || head->version < 0)
        return 0;
    uint64_t size = sizeof *head + padded((size_t)head->n_documents * sizeof(hot_document)) +
                    head->n_documents * sizeof(hot_near) + n_blocks((size_t)head->n_documents) * 8 + padded((size_t)head->n_names) +
                    head->n_terms * sizeof(hot_term) + head->n_units * 8 + head->n_big_tfs * sizeof(hot_big_tf);
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
    index->newest = copied(&at, capacity / HOT_BLOCK, capacity / HOT_BLOCK, sizeof *index->newest);
    dictionary->names = copied(&at, (size_t)head->n_names, (size_t)head->n_names, 1);
    dictionary->terms = copied(&at, (size_t)head->n_terms, (size_t)head->n_terms, sizeof *dictionary->terms);
    heap->units = copied(&at, (size_t)head->n_units, (size_t)head->n_units, sizeof *heap->units);
    heap->big_tfs = copied(&at, (size_t)head->n_big_tfs, (size_t)head->n_big_tfs, sizeof *heap->big_tfs);
    index->n_documents = (uint32_t)n_documents;
    index->capacity = (uint32_t)capacity;
    dictionary->n_name_bytes = dictionary->name_capacity = (uint32_t)head->n_names;
    dictionary->n = dictionary->capacity = (uint32_t)head->n_terms;
    heap->n_units = heap->capacity = head->n_units;
    heap->n_big_tfs = heap->big_tf_capacity = (uint32_t)head->n_big_tfs;
    heap->n_free_units = head->n_free_units;
    memcpy(heap->free_chunks, head->free_chunks, sizeof heap->free_chunks);
    index->version = head->version;
    index->n_memories = head->n_memories;
    index->total_length = head->total_length;
    index->n_postings = head->n_postings;
    int is_full = index->documents && index->near && index->newest && dictionary->names && dictionary->terms && heap->units &&
                  heap->big_tfs;
    return is_full ? SHP_HOT_OK : SHP_HOT_NO_MEMORY;
}

/* Marks the units of a chunk in `taken`, a bit for each of the heap; 0 when it is not inside, or meets another's. */
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

static int is_list_sound(const shp_hot *index, const hot_term *term, uint8_t *taken)
{
    hot_list list;
    if (term->size_class) {
        if (term->size_class >= HOT_CLASSES || term->n > hot_class_capacity(term->size_class) ||
            !take_chunk(&index->heap, term->place, term->size_class, taken))
            return 0;
    } else if (term->n > 1)
        return 0;
    hot_list_open(&index->heap, term, &list);
    uint32_t least = 0;
    int is_sound = 1;
    for (uint32_t i = 0; i < list.n; i++) {
        is_sound &= list.documents[i] >= least && (list.weights[i] & 255) != 0;
        least = list.documents[i] + 1;
    }
    return is_sound && least <= index->n_documents;
}

static int is_word_sound(const hot_dictionary *dictionary, const hot_term *term)
{
    if (term->n_letters != HOT_LONG)
        return term->n_letters <= HOT_LETTERS;
    uint64_t name = term->word.name;
    return name + 2 <= dictionary->n_name_bytes &&
           name + 2 + (dictionary->names[name] | (uint64_t)dictionary->names[name + 1] << 8) <= dictionary->n_name_bytes;
}

static int are_terms_sound(const shp_hot *index, uint8_t *taken)
{
    const hot_dictionary *dictionary = &index->dictionary;
    for (uint32_t i = 0; i < dictionary->n; i++)
        if (!is_word_sound(dictionary, &dictionary->terms[i]) || !is_list_sound(index, &dictionary->terms[i], taken))
            return 0;
    return 1;
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
    return n_units == heap->n_free_units;
}

/* Finds the longest and the oldest on the way, and whether there are gaps. */
static int are_documents_sound(shp_hot *index)
{
    int64_t n_memories = 0, total_length = 0;
    for (size_t i = 1; i < n_blocks(index->n_documents); i++)
        if (index->newest[i] < index->newest[i - 1])
            return 0;
    for (uint32_t i = 0; i < index->n_documents; i++) {
        const hot_document *document = &index->documents[i];
        if ((i && document->sequence <= document[-1].sequence) || document->doc_len < -1)
            return 0;
        hot_note_sequence(index, i);
        if (document->doc_len > index->longest)
            index->longest = document->doc_len;
        if (index->near[i].timestamp < index->oldest)
            index->oldest = index->near[i].timestamp;
        if (index->newest[i / HOT_BLOCK] < index->near[i].timestamp)
            return 0;
        if ((index->near[i].asks & 15) > SHP_ASKS_ONLY)
            return 0;
        if (document->doc_len >= 0) {
            n_memories++;
            total_length += document->doc_len;
        }
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

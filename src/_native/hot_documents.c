/* The memories of the hot index: times, lengths, and their neighbours in the conversation.

   For the memories next to a candidate, ranking needs to know whether they are of the same conversation, one or two
   sequences away, and how they end.  This is computed when a memory is added or removed, for it and the two on either
   side, and stored with the memory (hot_near): a search reads one cache line instead of comparing seven memories. */
#include <stdlib.h>
#include <string.h>

#include "hot_parts.h"

uint32_t hot_document_find(const shp_hot *index, int64_t sequence)
{
    uint32_t low = 0, high = index->n_documents;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (index->documents[middle].sequence < sequence)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == index->n_documents || index->documents[low].sequence != sequence ||
        index->documents[low].doc_len < 0)
        return HOT_NONE;
    return low;
}

int hot_row_is_sound(const shp_hot_row *row)
{
    return row->sequence >= 0 && row->sequence < UINT32_MAX && row->doc_len >= 0 && row->doc_len <= INT32_MAX &&
           row->thread >= INT32_MIN && row->thread <= INT32_MAX && row->label >= INT32_MIN &&
           row->label <= INT32_MAX && row->asks >= 0 && row->asks <= UINT8_MAX;
}

static hot_document document_of(const shp_hot_row *row)
{
    return (hot_document){
        .sequence = (uint32_t)row->sequence,
        .doc_len = (int32_t)row->doc_len,
        .label = (int32_t)row->label,
    };
}

/* Without those beside it. */
static hot_near near_of(const shp_hot_row *row)
{
    int wishes = (row->asks & SHP_INSTRUCTS ? HOT_INSTRUCTS : 0) | (row->asks & SHP_PREFERS ? HOT_PREFERS : 0);
    return (hot_near){
        .timestamp = row->timestamp,
        .thread = (int32_t)row->thread,
        .asks = (uint8_t)(shp_asks_of((uint8_t)row->asks) | (row->asks & SHP_ASSISTANT)),
        .beside = (uint8_t)wishes,
    };
}

/* Sequences from the memory at `place` to the one `step` places on, when both are there and of one thread; else 0. */
static int64_t distance_to(const shp_hot *index, int64_t place, int64_t step)
{
    int64_t other = place + step;
    if (other < 0 || other >= index->n_documents || index->documents[other].doc_len < 0 ||
        index->near[other].thread != index->near[place].thread)
        return 0;
    return (int64_t)index->documents[other].sequence - (int64_t)index->documents[place].sequence;
}

static void link_one(shp_hot *index, int64_t place)
{
    hot_near *near = &index->near[place];
    near->second = 0;
    near->asks &= 15;
    near->length = shp_length_class(index->documents[place].doc_len);
    near->beside &= HOT_INSTRUCTS | HOT_PREFERS;
    near->beside |= (index->documents[place].label ? HOT_LABELLED : 0) | (near->asks & SHP_ASSISTANT ? HOT_ASSISTANT : 0);
    if (!near->thread || index->documents[place].doc_len < 0)
        return;
    if (distance_to(index, place, -1) == -1) {
        uint8_t previous = near[-1].asks;
        near->beside |= HOT_PREVIOUS | (previous & SHP_ASSISTANT ? HOT_ASSISTANT : 0);
        near->asks |= (uint8_t)(previous << 4);
    }
    if (distance_to(index, place, 1) == 1)
        near->beside |= HOT_NEXT | (near[1].asks & SHP_ASSISTANT ? HOT_ASSISTANT : 0);
    for (int step = 1; step <= 2; step++) {
        near->second |= (uint8_t)(distance_to(index, place, -step) == -2 ? step : 0);
        near->second |= (uint8_t)(distance_to(index, place, step) == 2 ? step << 4 : 0);
    }
}

void hot_relink(shp_hot *index, int64_t first, int64_t last)
{
    for (int64_t place = first < 0 ? 0 : first; place <= last && place < index->n_documents; place++)
        link_one(index, place);
}

static shp_hot_status reserve(shp_hot *index)
{
    if (index->n_documents < index->capacity)
        return SHP_HOT_OK;
    if (index->n_documents >= UINT32_MAX / 2)
        return SHP_HOT_FULL;
    uint32_t capacity = index->capacity + index->capacity / 4 + HOT_BLOCK;
    capacity -= capacity % HOT_BLOCK;
    hot_document *documents = realloc(index->documents, capacity * sizeof *documents);
    if (documents)
        index->documents = documents;
    hot_near *near = realloc(index->near, capacity * sizeof *near);
    if (near)
        index->near = near;
    shp_pairs *pairs = realloc(index->pairs, capacity * sizeof *pairs);
    if (pairs)
        index->pairs = pairs;
    int64_t *newest = realloc(index->newest, capacity / HOT_BLOCK * sizeof *newest);
    if (newest)
        index->newest = newest;
    if (!documents || !near || !pairs || !newest)
        return SHP_HOT_NO_MEMORY;
    index->capacity = capacity;
    return SHP_HOT_OK;
}

/* Updates `newest` for the document's time; the values of later blocks can only rise. */
static void note_time(shp_hot *index, uint32_t document)
{
    int64_t timestamp = index->near[document].timestamp;
    uint32_t block = document / HOT_BLOCK, n_blocks = (index->n_documents + HOT_BLOCK - 1) / HOT_BLOCK;
    if (document == index->n_documents - 1 && document % HOT_BLOCK == 0)
        index->newest[block] = block && index->newest[block - 1] > timestamp ? index->newest[block - 1] : timestamp;
    for (; block < n_blocks && index->newest[block] < timestamp; block++)
        index->newest[block] = timestamp;
    if (timestamp < index->oldest)
        index->oldest = timestamp;
}

static void note_length(shp_hot *index, int64_t doc_len)
{
    if (index->longest < doc_len)
        index->longest = (int32_t)doc_len;
}

void hot_document_set(shp_hot *index, uint32_t document, const shp_hot_row *row)
{
    index->documents[document] = document_of(row);
    index->near[document] = near_of(row);
    hot_relink(index, (int64_t)document - 2, (int64_t)document + 2);
    note_time(index, document);
    index->total_length += row->doc_len;
    note_length(index, row->doc_len);
}

shp_hot_status hot_document_add(shp_hot *index, const shp_hot_row *row)
{
    if (index->n_documents && index->documents[index->n_documents - 1].sequence >= row->sequence)
        return SHP_HOT_BAD_ROW;
    shp_hot_status status = reserve(index);
    if (status != SHP_HOT_OK)
        return status;
    index->n_memories++;
    hot_document_set(index, index->n_documents++, row);
    hot_note_sequence(index, index->n_documents - 1);
    return SHP_HOT_OK;
}

void hot_document_remove(shp_hot *index, uint32_t document)
{
    index->n_memories--;
    index->total_length -= index->documents[document].doc_len;
    index->documents[document].doc_len = -1;
    memset(&index->pairs[document], 0, sizeof *index->pairs); /* its words are forgotten */
    hot_relink(index, (int64_t)document - 2, (int64_t)document + 2);
}

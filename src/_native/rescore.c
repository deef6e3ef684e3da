/* Rescoring: the evidence that the conversation around a memory adds to its BM25.  Arrays in, a heap of hits out.

   An answer seldom repeats the words of its question: "How long have you been married?" - "Five years already!"
   So a memory is given a share of the BM25 of its neighbours, a large one when the one before ends with a question.

   Neighbours of d are the memories of the same thread (not 0) whose sequence is one or two away; a missing one has
   BM25 0.  With B for BM25, C the candidates, S the best B of the candidates in d's thread (at least B(d)), and the
   weights of shp_rescore_query, those of talks with an assistant where one wrote in d, d-1 or d+1:

       E = B(d)
       E = E + pair n B(d)         n: how many pairs of neighbouring keywords stand side by side in d (pairs.h), if d is in C
       E = E + answer[asks(d-1)] B(d-1)      answer[0] where d-1 is missing
       E = E + next B(d+1)
       E = E + second B(d-2)
       E = E + second B(d+2)
       E = E + session (S - B(d))
       E = E asking       if d only asks
       E = E label        if one of the query's keywords is d's label
       E = E period       if d's time lies in one of the query's periods
       E = E instruction  if a person said in d how answers have to be (1 unless the query wants something done)
       E = E preference   if a person said in d what they prefer (the same)
       score = E L R,     L = length^n, n: by how many binary digits d's length is longer than the mean one; R = recency

   in this order, one rounding per operation.  Scored are the candidates and, of a thread above 0 (a session; below 0
   are memories that merely were stored one after the other), their neighbours one step away, if E > 0.  A memory
   alone has E = B, but for the factors.

   Cost: linear in the number of memories; 32 bytes a hit and 16 a candidate, kept between searches. */
#include "rescore.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    int32_t thread; /* 0: free */
    double best;
} slot;

/* ---- the best candidate of each thread */

static slot *find_slot(const shp_rescore_buffers *buffers, int32_t thread)
{
    slot *slots = buffers->slots;
    size_t i = ((uint32_t)thread * UINT32_C(2654435761)) >> 7 & (buffers->n_slots - 1);
    while (slots[i].thread && slots[i].thread != thread)
        i = (i + 1) & (buffers->n_slots - 1);
    return &slots[i];
}

static int collect_sessions(shp_rescore_buffers *buffers, const shp_rescore_memory *memories, int64_t n)
{
    size_t n_candidates = 0, n_slots = 2 * SHP_RESCORE_CANDIDATES;
    for (int64_t i = 0; i < n; i++)
        n_candidates += memories[i].is_candidate;
    while (n_slots < 2 * n_candidates)
        n_slots *= 2;
    if (n_slots > buffers->n_slots) {
        free(buffers->slots);
        buffers->n_slots = 0;
        buffers->slots = malloc(n_slots * sizeof(slot));
        if (!buffers->slots)
            return 0;
        buffers->n_slots = n_slots;
    }
    memset(buffers->slots, 0, buffers->n_slots * sizeof(slot));
    for (int64_t i = 0; i < n; i++) {
        if (!memories[i].is_candidate || !memories[i].thread)
            continue;
        slot *found = find_slot(buffers, memories[i].thread);
        if (!found->thread || memories[i].bm25 > found->best)
            found->best = memories[i].bm25;
        found->thread = memories[i].thread;
    }
    return 1;
}

/* ---- evidence */

/* The memory `distance` sequences after memories[i] (before, when negative) in its thread, or NULL. */
static const shp_rescore_memory *neighbour(const shp_rescore_memory *memories, int64_t n, int64_t i, int distance)
{
    int64_t wanted = memories[i].sequence + distance, step = distance < 0 ? -1 : 1;
    if (!memories[i].thread)
        return NULL;
    for (int64_t j = i + step; j >= 0 && j < n && (memories[j].sequence - wanted) * step <= 0; j += step)
        if (memories[j].sequence == wanted)
            return memories[j].thread == memories[i].thread ? &memories[j] : NULL;
    return NULL;
}

static double bm25_of(const shp_rescore_memory *memory)
{
    return memory ? memory->bm25 : 0.0;
}

static int asks(const shp_rescore_memory *memory)
{
    return memory ? shp_asks_of(memory->asks) : SHP_ASKS_NOT;
}

static int has_assistant(const shp_rescore_memory *memory)
{
    return memory && memory->asks & SHP_ASSISTANT;
}

static double best_of_session(const shp_rescore_buffers *buffers, const shp_rescore_memory *memory)
{
    const slot *found = memory->thread ? find_slot(buffers, memory->thread) : NULL;
    return found && found->thread && found->best > memory->bm25 ? found->best : memory->bm25;
}

static void add_hit(shp_rescore_buffers *buffers, const shp_rescore_query *query, const shp_rescore_lengths *lengths,
                    const shp_rescore_memory *memories, int64_t n, int64_t i)
{
    const shp_rescore_memory *memory = &memories[i];
    const shp_rescore_memory *previous = neighbour(memories, n, i, -1), *next = neighbour(memories, n, i, 1);
    int is_beside = memory->thread > 0 && ((previous && previous->is_candidate) || (next && next->is_candidate));
    if (!memory->is_candidate && !is_beside)
        return;
    int talk = has_assistant(memory) || has_assistant(previous) || has_assistant(next) ? SHP_TALK_ASSISTANT
                                                                                       : SHP_TALK_PEOPLE;
    shp_rescore_beside beside = {
        .bm25 = memory->bm25,
        .previous = bm25_of(previous),
        .next = bm25_of(next),
        .second_before = bm25_of(neighbour(memories, n, i, -2)),
        .second_after = bm25_of(neighbour(memories, n, i, 2)),
        .best = best_of_session(buffers, memory),
        .asks_before = asks(previous),
        .asks = asks(memory),
        .instructs = memory->asks & SHP_INSTRUCTS,
        .prefers = memory->asks & SHP_PREFERS,
        .pairs = memory->is_candidate ? memory->pairs : 0,
        .talk = talk,
        .label = memory->label,
        .timestamp = memory->timestamp,
    };
    double evidence = shp_rescore_evidence(query, &beside);
    if (!(evidence > 0.0))
        return;
    double age_days = (query->now - (double)memory->timestamp) / 86400.0;
    shp_rescore_hit *hit = &buffers->hits[buffers->n_hits++];
    hit->sequence = memory->sequence;
    hit->bm25 = memory->bm25;
    hit->whole = memory->whole;
    hit->evidence = shp_rescore_for_relevance(query, &beside, evidence);
    hit->score = evidence * lengths->factor[talk][memory->length] * shp_rank_recency(age_days, query->recency_floor);
}

/* ---- the heap */

static int is_better(const shp_rescore_hit *a, const shp_rescore_hit *b)
{
    return a->score > b->score || (a->score == b->score && a->sequence > b->sequence);
}

static void sift_down(shp_rescore_hit *hits, int64_t n, int64_t i)
{
    shp_rescore_hit moved = hits[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && is_better(&hits[child + 1], &hits[child]))
            child++;
        if (!is_better(&hits[child], &moved))
            break;
        hits[i] = hits[child];
    }
    hits[i] = moved;
}

int shp_rescore_pop(shp_rescore_buffers *buffers, shp_rescore_hit *out)
{
    if (!buffers->n_hits)
        return 0;
    *out = buffers->hits[0];
    buffers->hits[0] = buffers->hits[--buffers->n_hits];
    if (buffers->n_hits)
        sift_down(buffers->hits, buffers->n_hits, 0);
    return 1;
}

/* ---- all of it */

int shp_rescore(shp_rescore_buffers *buffers, const shp_rescore_query *query, int64_t mean_len,
                const shp_rescore_memory *memories, int64_t n)
{
    shp_rescore_lengths lengths;
    buffers->n_hits = 0;
    if (n > buffers->hit_capacity) {
        shp_rescore_hit *grown = realloc(buffers->hits, (size_t)n * sizeof *grown);
        if (!grown)
            return 0;
        buffers->hits = grown;
        buffers->hit_capacity = n;
    }
    if (!collect_sessions(buffers, memories, n))
        return 0;
    shp_rescore_set_lengths(query, mean_len, &lengths);
    for (int64_t i = 0; i < n; i++)
        add_hit(buffers, query, &lengths, memories, n, i);
    for (int64_t i = buffers->n_hits / 2; i-- > 0;)
        sift_down(buffers->hits, buffers->n_hits, i);
    return 1;
}

void shp_rescore_free(shp_rescore_buffers *buffers)
{
    free(buffers->hits);
    free(buffers->slots);
    memset(buffers, 0, sizeof *buffers);
}

int32_t shp_rescore_key(const uint8_t *bytes, size_t n)
{
    uint32_t hash = UINT32_C(2166136261);
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * UINT32_C(16777619);
    hash &= UINT32_C(0x7FFFFFFF);
    return hash ? (int32_t)hash : 1;
}

/* The best k of one user's memories from the hot index: bit for bit what recall.c finds.

   Candidates by BM25 and recency first (32, or k), then what their conversations add to them (hot_rescore.c).

   Candidates.  Windows of 8,192 memories, or 4,096, from the newest to the oldest: in each, the scores of the postings are
   added up in the order of the keywords, 2 ns a posting, in sums that stay in the nearest caches.  A posting's score comes
   from a table by length where a list is long.  MaxScore: with P the sum of the most that some keywords can add,
   memories that have no other keyword cannot be among the best once

       P * recency(newest time in the window or before it) < 32nd score,

   so the lists of those keywords are not walked, but halved for the few memories whose sum they could still lift above
   it; and the search ends when it holds for all keywords.  Whether halving (about 12 ns) is worth it is
   estimated from the lengths of the lists.  (MaxScore by passes, one rare keyword after the other with all others
   halved, needed 3 times as long: with many candidates to find, few lists can be left out.)

   Waiting.  What may become a candidate waits for the cache line with its time while the next window is added up, and
   takes along the sums of the memories beside it: rescoring need not look them up again, unless the window ends
   there or a list was left out.

   Exact.  A bound has 1 + 1e-12 of slack, more than the roundings of 16 sums and products, and only what is
   strictly below the least candidate's score is dropped: equal scores are decided by the larger sequence.  What
   becomes a candidate has its sum in the order of the keywords, each product rounded by itself, as in recall.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hot_search.h"

/* ---- the best candidates */

static shp_hot_status grow(hot_search *s)
{
    int is_small = s->heap == s->small;
    shp_candidate *heap = realloc(is_small ? NULL : s->heap, 2 * (size_t)s->capacity * sizeof *heap);
    if (!heap)
        return SHP_HOT_NO_MEMORY;
    if (is_small)
        memcpy(heap, s->small, sizeof s->small);
    s->heap = heap;
    hot_reach *reach = realloc(is_small ? NULL : s->reach, 2 * (size_t)s->capacity * sizeof *reach);
    if (!reach) {
        s->reach = is_small ? NULL : s->reach;
        return SHP_HOT_NO_MEMORY;
    }
    if (is_small)
        memcpy(reach, s->small_reach, sizeof s->small_reach);
    s->reach = reach;
    s->capacity *= 2;
    return SHP_HOT_OK;
}

/* Keeps a candidate if it is among the best so far, with the sums around it. */
static shp_hot_status offer(hot_search *s, shp_candidate offered, const hot_reach *reach)
{
    int is_full = s->n_heap == s->n_candidates;
    if (is_full && !shp_candidate_is_less(&s->heap[0], &offered))
        return SHP_HOT_OK;
    if (!is_full && s->n_heap == s->capacity && grow(s) != SHP_HOT_OK)
        return SHP_HOT_NO_MEMORY;
    offered.slot = is_full ? s->heap[0].slot : (uint32_t)s->n_heap;
    s->reach[offered.slot] = *reach;
    FETCH(&s->index->near[offered.document < 1 ? 0 : offered.document - 1]);
    FETCH(&s->index->near[offered.document + 1]);
    if (is_full) {
        shp_heap_sift(s->heap, s->n_heap, 0, offered);
        return SHP_HOT_OK;
    }
    s->heap[s->n_heap++] = offered;
    if (s->n_heap == s->n_candidates)
        shp_heap_order(s->heap, s->n_heap);
    return SHP_HOT_OK;
}

/* Offers those that wait for their times; by now those are in the cache. */
static shp_hot_status offer_waiting(hot_search *s)
{
    int takes_all = s->n_postings <= s->n_candidates;
    double scores[MOST_WAITING];
    shp_hot_status status = SHP_HOT_OK;
    /* All divisions first: between them nothing has to be guessed, so they overlap. */
    for (int i = 0; i < s->n_waiting && !takes_all; i++)
        scores[i] = s->waiting[i].reach.sums[REACH] * recency_at(s, s->index->near[s->waiting[i].document].timestamp);
    for (int i = 0; i < s->n_waiting && status == SHP_HOT_OK; i++) {
        const hot_waiting *waiting = &s->waiting[i];
        double score = takes_all ? 0.0 : scores[i];
        status = offer(s, (shp_candidate){score, waiting->reach.sums[REACH], waiting->document, 0}, &waiting->reach);
    }
    s->n_waiting = 0;
    return status;
}

/* A memory that may become a candidate, with the sums around `sum`, its own in the window. */
static shp_hot_status wait_for_time(hot_search *s, uint32_t document, double bm25, const double *sum, int is_known)
{
    shp_hot_status status = s->n_waiting == MOST_WAITING ? offer_waiting(s) : SHP_HOT_OK;
    hot_waiting *waiting = &s->waiting[s->n_waiting++];
    FETCH(&s->index->near[document]);
    waiting->document = document;
    memcpy(waiting->reach.sums, sum - REACH, sizeof waiting->reach.sums);
    waiting->reach.sums[REACH] = bm25;
    waiting->reach.is_known = is_known;
    return status;
}

/* The score that a memory must reach. */
static double threshold(const hot_search *s)
{
    double least = s->n_heap == s->n_candidates ? s->heap[0].score : 0.0;
    return least > s->least_score ? least : s->least_score;
}

/* ---- windows */

/* Decides which lists are walked between `newest` and the end; 0 when no memory there can be among the best. */
static int choose_lists(hot_search *s, double recency)
{
    double least = threshold(s);
    int64_t n_walked = 0, cost = 0, best_cost;
    int n_free = 0, best = 0;
    for (int i = 0; i < s->n; i++)
        n_walked += s->rising[i]->at + 1;
    best_cost = n_walked * WALK_NS;
    while (n_free < s->n && s->below[n_free + 1] * recency < least) {
        n_walked -= s->rising[n_free++]->at + 1;
        cost = n_walked * (WALK_NS + HALVE_NS * n_free);
        if (cost < best_cost) {
            best_cost = cost;
            best = n_free;
        }
    }
    for (int i = 0; i < s->n; i++)
        s->rising[i]->is_walked = i >= best;
    return n_free < s->n;
}

/* Newest memory of the lists that are walked, or -1. */
static int64_t newest_document(const hot_search *s)
{
    int64_t newest = -1;
    for (int i = 0; i < s->n; i++) {
        const hot_keyword *word = &s->keywords[i];
        if (word->is_walked && word->at >= 0 && word->list.documents[word->at] > newest)
            newest = word->list.documents[word->at];
    }
    return newest;
}

/* Asks for what the next window will walk of a list: about as many postings as this one did, `n`, from `at` down. */
static void fetch_postings(const hot_keyword *word, int64_t at, int64_t n)
{
    int64_t stop = at - n - n / 2 - 16;
    stop = stop < 0 ? 0 : stop;
    for (int64_t i = at; i >= stop; i -= 16)
        FETCH(&word->list.documents[i]);
    for (int64_t i = at; i >= stop; i -= 32)
        FETCH(&word->list.weights[i]);
}

/* Adds up the scores of a list's memories from `base` on; how many memories are touched by now.  What the loop needs
   stands in variables of its own: the compiler cannot know that the sums are not among it. */
static int sum_list(hot_search *s, hot_keyword *word, uint32_t base, int n_touched)
{
    const uint32_t *documents = word->list.documents;
    const uint16_t *weights = word->list.weights;
    const double *table = word->table;
    const uint32_t end = (uint32_t)word->n_table << 8;
    double *sums = s->sums + REACH;
    uint16_t *touched = s->touched;
    int64_t at = word->at;
    for (; at >= 0 && documents[at] >= base; at--) {
        uint32_t place = documents[at] - base, weight = weights[at];
        double sum = sums[place];
        touched[n_touched] = (uint16_t)place;
        n_touched += sum == 0.0;
        sums[place] = sum + ((weight & 255) == 1 && weight < end ? table[weight >> 8] : score_posting(s, word, at));
    }
    word->at = at;
    return n_touched;
}

/* The same of all lists that are walked, and finds where the window ends in the others. */
static int sum_window(hot_search *s, uint32_t base)
{
    int n_touched = 0;
    for (int i = 0; i < s->n; i++) {
        hot_keyword *word = &s->keywords[i];
        word->top = word->at;
        if (!word->is_walked) {
            word->at = base ? gallop_down(word->list.documents, word->at, base - 1) : -1;
            continue;
        }
        n_touched = sum_list(s, word, base, n_touched);
        fetch_postings(word, word->at, word->top - word->at);
    }
    return n_touched;
}

static int has(const hot_keyword *word, uint32_t document, int64_t *at)
{
    *at = seek_down(word->list.documents, word->at, word->top, document);
    return *at > word->at && word->list.documents[*at] == document;
}

/* The whole BM25 of a memory, from lists that stand at or above it, in the order of the keywords. */
static double bm25_of(const hot_search *s, uint32_t document)
{
    double bm25 = 0.0;
    int64_t at;
    for (int i = 0; i < s->n; i++)
        if (has(&s->keywords[i], document, &at))
            bm25 += score_posting(s, &s->keywords[i], at);
    return bm25;
}

/* Whether the lists that are not walked can lift the memory above `least`. */
static int is_worth_it(const hot_search *s, uint32_t document, double sum, double least)
{
    int i = 0;
    int64_t at;
    while (i < s->n && !s->rising[i]->is_walked)
        i++;
    for (; i > 0; i--) {
        if (sum * SLACK + s->below[i] < least)
            return 0;
        if (has(s->rising[i - 1], document, &at))
            sum += score_posting(s, s->rising[i - 1], at);
    }
    return sum * SLACK >= least;
}

/* What a BM25 must reach; recency is above 0 where there is anything to reach. */
static double least_bm25(const hot_search *s, double recency) { return threshold(s) / recency * (1.0 - 1e-12); }

/* Keeps of the memories touched those whose sum, and what the other lists can add, reaches the threshold. */
static int sift_window(hot_search *s, int n_touched, double least)
{
    const double *sums = s->sums + REACH;
    const uint16_t *restrict touched = s->touched;
    uint16_t *restrict kept = s->kept;
    int n_kept = 0;
    for (int i = 0; i < s->n && !s->rising[i]->is_walked; i++)
        least -= s->rising[i]->most * SLACK;
    least /= SLACK * SLACK;
    for (int i = 0; i < n_touched; i++) {
        kept[n_kept] = touched[i];
        n_kept += sums[touched[i]] >= least;
    }
    return n_kept;
}

static shp_hot_status offer_window(hot_search *s, uint32_t base, int n_touched, double recency)
{
    int is_whole = s->rising[0]->is_walked;
    double least = least_bm25(s, recency), *sums = s->sums + REACH;
    int n_kept = sift_window(s, n_touched, least);
    shp_hot_status status = SHP_HOT_OK;
    for (int i = 0; i < n_kept && status == SHP_HOT_OK; i++) {
        int64_t place = s->kept[i], document = base + place;
        double bm25 = sums[place];
        if (!is_whole && !is_worth_it(s, (uint32_t)document, bm25, least))
            continue;
        int is_known = is_whole && (place >= REACH || base == 0) && document + REACH < s->end;
        bm25 = is_whole ? bm25 : bm25_of(s, (uint32_t)document);
        status = wait_for_time(s, (uint32_t)document, bm25, sums + place, is_known);
    }
    for (int i = 0; i < n_touched; i++)
        sums[s->touched[i]] = 0.0;
    return status;
}

/* Where the window below `newest` begins.  Its bound is the recency of its newest memory: half as wide where that would
   say little about the oldest. */
static uint32_t window_base(const hot_search *s, int64_t newest, double recency)
{
    int64_t base = newest < WINDOW ? 0 : newest - (WINDOW - 1);
    if (newest >= NARROW && recency_at(s, s->index->newest[base / HOT_BLOCK]) < 0.8 * recency)
        base = newest - (NARROW - 1);
    return (uint32_t)base;
}

static shp_hot_status find_candidates(hot_search *s)
{
    shp_hot_status status = SHP_HOT_OK;
    size_t n_sums = s->index->n_documents < WINDOW ? s->index->n_documents : WINDOW;
    int64_t newest = (int64_t)s->index->n_documents - 1;
    s->end = (int64_t)s->index->n_documents + REACH;
    memset(s->sums, 0, (n_sums + 2 * REACH) * sizeof *s->sums);
    while (status == SHP_HOT_OK && newest >= 0) {
        double recency = recency_at(s, s->index->newest[newest / HOT_BLOCK]);
        if (!choose_lists(s, recency))
            break;
        newest = newest_document(s);
        if (newest < 0)
            break;
        uint32_t base = window_base(s, newest, recency);
        int n_touched = sum_window(s, base);
        status = offer_waiting(s);
        if (status == SHP_HOT_OK)
            status = offer_window(s, base, n_touched, recency);
        newest = (int64_t)base - 1;
        s->end = base;
    }
    return status == SHP_HOT_OK ? offer_waiting(s) : status;
}

/* ---- one search */

static void begin(hot_search *s, const shp_hot *index, const shp_hot_query *query)
{
    s->index = index;
    s->query = query;
    s->n_docs = (double)index->n_memories;
    s->idf_sum = s->below[0] = 0.0;
    s->n = 0;
    s->n_postings = 0;
    s->heap = s->small;
    s->reach = s->small_reach;
    s->n_heap = 0;
    s->n_waiting = 0;
    s->capacity = SMALL_K;
    s->n_candidates = query->k > SHP_RESCORE_CANDIDATES ? query->k : SHP_RESCORE_CANDIDATES;
    double mean_len = index->n_memories ? (double)index->total_length / s->n_docs : 0.0;
    shp_rank_bm25_set(query->k1, query->b, mean_len, &s->bm25);
}

static shp_hot_status find_locked(shp_hot *index, const shp_hot_query *query, const shp_hot_word *words, int n_words,
                                  shp_hot_hit **hits, int64_t *n_hits)
{
    hot_search s;
    begin(&s, index, query);
    hot_find_keywords(&s, words, n_words);
    if (s.n_postings > query->most_postings)
        return SHP_HOT_LONG;
    if (!s.n)
        return SHP_HOT_OK;
    shp_hot_status status = find_candidates(&s);
    if (status == SHP_HOT_OK && s.n_heap)
        status = hot_rescore(&s, hits, n_hits);
    if (s.heap != s.small)
        free(s.heap);
    if (s.reach != s.small_reach)
        free(s.reach);
    return status;
}

shp_hot_status shp_hot_find(shp_hot *index, shp_hot_query *query, const shp_hot_word *words, int n_words,
                            shp_hot_hit **hits, int64_t *n_hits)
{
    *hits = NULL;
    *n_hits = 0;
    if (!shp_rwlock_try_share(&index->lock))
        return SHP_HOT_STALE;
    shp_hot_status status = SHP_HOT_STALE;
    query->rescore.n_labels = n_words < MAX_WORDS ? n_words : MAX_WORDS;
    for (int i = 0; i < query->rescore.n_labels; i++)
        query->rescore.labels[i] = shp_rescore_key(words[i].bytes, words[i].n_bytes);
    if (index->version == query->version && index->version >= 0)
        status = find_locked(index, query, words, n_words, hits, n_hits);
    shp_rwlock_unshare(&index->lock);
    return status;
}

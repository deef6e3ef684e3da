/* The best k of one user's memories from the hot index: bit for bit what recall.c finds.

   Candidates by BM25 and recency first (32, or k; hot_candidates.c), or all where they are few (hot_few.c); then what
   their conversations add to them (hot_rescore.c).

   Windows of 16,384 memories, or 4,096, from the newest to the oldest: in each, the scores of the postings are added up
   in the order of the keywords, 2 ns a posting, in sums that stay in the near caches.  A posting's score comes from a
   table by length where a list is long.  MaxScore: with P the sum of the most that some keywords can add, memories that
   have no other keyword cannot be among the best once

       P * recency(newest time in the window or before it) < a score that 32 memories reach,

   and the search ends when that holds for all keywords.  The lists of those keywords are not added up ("walked"):

     - probed: gone through after the others, for the memories that these have touched.  Most postings meet none, and
       cost a third of one that is added up, sifted and cleared.
     - halved, where the others have so few memories that looking up each of them costs less.

   Half of the postings are of such lists.  (MaxScore by passes, one rare keyword after the other with all others halved,
   needed 3 times as long: with many candidates to find, few lists can be left out.)

   Exact.  A bound has 1 + 1e-12 of slack, more than the roundings of 16 sums and products, and only what is
   strictly below that score is dropped: equal scores are decided by the larger sequence.  What
   becomes a candidate has its sum in the order of the keywords, each product rounded by itself, as in recall.c: a probe
   adds its score last, which two scores do not mind; a memory of more is added up again if it becomes a candidate.  A
   memory beside a candidate that only probed or halved lists have gets its sum when rescoring asks (hot_rescore.c). */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "hot_search.h"

/* ---- windows */

/* Decides what is done with each list between `newest` and the end; 0 when no memory there can be among the best. */
static int choose_lists(hot_search *s, double recency)
{
    double least = s->threshold;
    int64_t n_walked = 0;
    int n_free = 0;
    while (n_free < s->n && s->below[n_free + 1] * recency < least)
        n_free++;
    for (int i = n_free; i < s->n; i++) {
        s->rising[i]->how = WALKED;
        n_walked += s->rising[i]->at + 1;
    }
    int is_halved = 1;
    for (int i = 0; i < n_free; i++) {
        is_halved &= s->rising[i]->at * PROBE_NS > n_walked * HALVE_NS;
        s->rising[i]->how = is_halved ? HALVED : PROBED;
    }
    s->n_free = n_free;
    return n_free < s->n;
}

/* Newest memory of the lists that are walked, or -1. */
static int64_t newest_document(const hot_search *s)
{
    int64_t newest = -1;
    for (int i = 0; i < s->n; i++) {
        const hot_keyword *word = &s->keywords[i];
        if (word->how == WALKED && word->at >= 0 && word->list.documents[word->at] > newest)
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

/* The same before the first window, of as many postings as lie in it where they are spread evenly. */
static void fetch_first_window(const hot_search *s)
{
    int64_t n_documents = (int64_t)s->index->n_documents + WINDOW;
    for (int i = 0; i < s->n; i++) {
        int64_t n = s->keywords[i].list.n;
        fetch_postings(&s->keywords[i], n - 1, n * (2 * WINDOW / 3) / n_documents);
    }
}

static void mark_twice(hot_search *s, uint32_t place)
{
    if (s->window->marks[place])
        return;
    s->window->marks[place] = TWICE;
    s->window->marked[s->n_marked++] = (uint16_t)place;
}

/* Adds up the scores of a list's memories from `base` on; how many memories are touched by now.  What the loop needs
   stands in variables of its own: the compiler cannot know that the sums are not among it.  That few memories are in
   two lists is guessed right. */
static int sum_list(hot_search *s, hot_keyword *word, uint32_t base, int n_touched)
{
    const uint32_t *documents = word->list.documents;
    const uint16_t *weights = word->list.weights;
    const double *table = word->table;
    const uint32_t end = (uint32_t)word->n_table << 8;
    double *sums = s->window->sums + REACH;
    uint16_t *touched = s->window->touched;
    int64_t at = word->at;
    for (; at >= 0 && documents[at] >= base; at--) {
        uint32_t place = documents[at] - base, weight = weights[at];
        double sum = sums[place];
        if (sum == 0.0)
            touched[n_touched++] = (uint16_t)place;
        else
            mark_twice(s, place);
        sums[place] = sum + ((weight & 255) == 1 && weight < end ? table[weight >> 8] : score_posting(s, word, at));
    }
    word->at = at;
    return n_touched;
}

/* Adds the scores of a list's memories that are touched.  Of two scores the order does not matter. */
static void probe_list(hot_search *s, hot_keyword *word, uint32_t base)
{
    const uint32_t *documents = word->list.documents;
    double *sums = s->window->sums + REACH;
    int64_t at = word->at;
    for (; at >= 0 && documents[at] >= base; at--) {
        uint32_t place = documents[at] - base;
        if (sums[place] == 0.0)
            continue;
        sums[place] += score_posting(s, word, at);
        if (s->window->marks[place])
            s->window->marks[place] = MIXED;
        else
            mark_twice(s, place);
    }
    word->at = at;
}

/* Adds up what the lists give the memories from `newest` down to `base`, or finds where these lie in them; how many are
   touched. */
static int sum_window(hot_search *s, uint32_t base, uint32_t newest)
{
    int n_touched = 0;
    for (int i = 0; i < s->n; i++) {
        hot_keyword *word = &s->keywords[i];
        /* Above `newest` are memories that no list which is walked has. */
        if (word->how != WALKED)
            word->at = gallop_down(word->list.documents, word->at, newest);
        word->top = word->at;
        if (word->how == WALKED)
            n_touched = sum_list(s, word, base, n_touched);
        else if (word->how == HALVED)
            word->at = base ? gallop_down(word->list.documents, word->at, base - 1) : -1;
    }
    for (int i = 0; i < s->n_free; i++)
        if (s->rising[i]->how == PROBED)
            probe_list(s, s->rising[i], base);
    for (int i = 0; i < s->n; i++)
        if (s->keywords[i].how != HALVED)
            fetch_postings(&s->keywords[i], s->keywords[i].at, s->keywords[i].top - s->keywords[i].at);
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

/* Whether the lists that are halved can lift the memory above `least`. */
static int is_worth_it(const hot_search *s, uint32_t document, double sum, double least)
{
    int i = 0;
    int64_t at;
    while (i < s->n && s->rising[i]->how == HALVED)
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
static double least_bm25(const hot_search *s, double recency) { return s->threshold / recency * (1.0 - 1e-12); }

/* Keeps of the memories touched those whose sum, and what the other lists can add, reaches the threshold. */
static int sift_window(hot_search *s, int n_touched, double least)
{
    const double *sums = s->window->sums + REACH;
    const uint16_t *restrict touched = s->window->touched;
    uint16_t *restrict kept = s->window->kept;
    int n_kept = 0;
    for (int i = 0; i < s->n && s->rising[i]->how == HALVED; i++)
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
    int is_whole = s->rising[0]->how != HALVED;
    double least = least_bm25(s, recency);
    hot_window *window = s->window;
    double *sums = window->sums + REACH;
    int n_kept = sift_window(s, n_touched, least);
    shp_hot_status status = SHP_HOT_OK;
    for (int i = 0; i < n_kept && status == SHP_HOT_OK; i++) {
        int64_t place = window->kept[i], document = base + place;
        double bm25 = sums[place];
        if (!is_whole && !is_worth_it(s, (uint32_t)document, bm25, least))
            continue;
        int is_inside = (place >= REACH || base == 0) && document + REACH < s->end;
        int is_exact = is_whole && window->marks[place] != MIXED;
        bm25 = is_exact ? bm25 : bm25_of(s, (uint32_t)document);
        status = hot_add_candidate(s, (uint32_t)document, bm25, sums + place, is_inside ? s->n_free : s->n);
    }
    for (int i = 0; i < n_touched; i++)
        sums[window->touched[i]] = 0.0;
    for (int i = 0; i < s->n_marked; i++)
        window->marks[window->marked[i]] = 0;
    s->n_marked = 0;
    return status;
}

/* Where the window below `newest` begins.  Its bound is the recency of its newest memory: narrower where that would say
   little about the oldest. */
static uint32_t window_base(const hot_search *s, int64_t newest, double recency)
{
    int64_t base = newest < WINDOW ? 0 : newest - (WINDOW - 1);
    if (newest >= NARROW && recency_at(s, s->index->newest[base / HOT_BLOCK]) < 0.8 * recency)
        base = newest - (NARROW - 1);
    return (uint32_t)base;
}

/* In an only window all are candidates before the first of them raises the threshold: there the sums do, if recency
   says little. */
static void count_only_window(hot_search *s, uint32_t base, int n_touched)
{
    if (base || s->n_above || n_touched <= COUNTED_SUMS * s->n_wanted)
        return;
    double oldest = recency_at(s, s->index->oldest);
    if (oldest >= COUNTED_RECENCY)
        hot_count_sums(s, n_touched, oldest);
}

static shp_hot_status search_window(hot_search *s, int64_t newest, double recency)
{
    uint32_t base = window_base(s, newest, recency);
    int n_touched = sum_window(s, base, (uint32_t)newest);
    hot_rate_candidates(s);
    count_only_window(s, base, n_touched);
    shp_hot_status status = offer_window(s, base, n_touched, recency);
    s->end = base;
    return status;
}

static shp_hot_status find_candidates(hot_search *s)
{
    static SHP_THREAD_LOCAL hot_window window;
    shp_hot_status status = SHP_HOT_OK;
    int64_t newest = (int64_t)s->index->n_documents - 1;
    s->end = (int64_t)s->index->n_documents + REACH;
    s->window = &window;
    fetch_first_window(s);
    hot_bound_keywords(s);
    hot_begin_candidates(s);
    while (status == SHP_HOT_OK && newest >= 0) {
        double recency = recency_at(s, s->index->newest[newest / HOT_BLOCK]);
        if (!choose_lists(s, recency))
            break;
        newest = newest_document(s);
        if (newest < 0)
            break;
        status = search_window(s, newest, recency);
        newest = s->end - 1;
    }
    if (status == SHP_HOT_OK)
        hot_choose_candidates(s);
    else
        memset(&window, 0, sizeof window);
    return status;
}

/* ---- one search */

static void begin(hot_search *s, const shp_hot *index, shp_hot_query *query)
{
    s->index = index;
    s->query = query;
    s->n_docs = (double)index->n_memories;
    s->idf_sum = s->below[0] = 0.0;
    s->n = s->n_free = s->n_marked = 0;
    s->n_postings = 0;
    s->pool = s->small_pool;
    s->reach = s->small_reach;
    s->n_pool = s->n_rated = s->n_slots = 0;
    s->is_ordered = 0;
    s->capacity = SMALL_POOL;
    /* No more than there are: whoever wants all asks for the largest number there is. */
    s->n_wanted = query->k < index->n_memories ? query->k : index->n_memories;
    if (s->n_wanted < SHP_RESCORE_CANDIDATES)
        s->n_wanted = SHP_RESCORE_CANDIDATES;
    double mean_len = index->n_memories ? (double)index->total_length / s->n_docs : 0.0;
    shp_rank_bm25_set(query->k1, query->b, mean_len, &s->bm25);
}

static shp_hot_status find_locked(const shp_hot *index, shp_hot_query *query, const shp_hot_word *words, int n_words,
                                  shp_hot_found *found)
{
    hot_search s;
    begin(&s, index, query);
    s.words = words;
    s.n_words = n_words < MAX_WORDS ? n_words : MAX_WORDS;
    hot_find_keywords(&s);
    if (s.n_postings > query->most_postings)
        return SHP_HOT_LONG;
    if (!s.n)
        return SHP_HOT_OK;
    shp_hot_status status = SHP_HOT_OK;
    if (hot_are_few(&s))
        hot_take_few(&s);
    else
        status = find_candidates(&s);
    if (status == SHP_HOT_OK && s.n_pool)
        status = hot_rescore(&s, found);
    if (s.pool != s.small_pool)
        free(s.pool);
    if (s.reach != s.small_reach)
        free(s.reach);
    return status;
}

void shp_hot_fetch(const shp_hot *index)
{
    for (size_t at = 0; at < offsetof(shp_hot, heap.n_units); at += 64)
        FETCH((const char *)index + at);
}

shp_hot_status shp_hot_find(shp_hot *index, shp_hot_query *query, const shp_hot_word *words, int n_words,
                            shp_hot_found *found)
{
    found->hits = found->few;
    found->n = 0;
    if (!shp_rwlock_try_share(&index->lock))
        return SHP_HOT_STALE;
    shp_hot_status status = SHP_HOT_STALE;
    query->rescore.n_labels = 0; /* until a memory with a label is met */
    if (index->version == query->version && index->version >= 0)
        status = find_locked(index, query, words, n_words, found);
    shp_rwlock_unshare(&index->lock);
    return status;
}

void shp_hot_found_free(shp_hot_found *found)
{
    if (found->hits != found->few)
        free(found->hits);
}

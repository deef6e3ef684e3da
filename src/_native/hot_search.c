/* The best k of one user's memories from the hot index: bit for bit the result of recall.c.

   First candidates by BM25 and recency are found (32, or k; hot_candidates.c), or all memories with a keyword where
   these are few (hot_few.c); then the conversations around the candidates are added (hot_rescore.c).

   The memories are scored in windows of 16,384, or 4,096, from the newest to the oldest: in each, the scores of the
   postings are summed in the order of the keywords, 2 ns a posting, in accumulators that stay in the near caches.  Long
   lists take a posting's score from a table by length.

   MaxScore (Turtle and Flood, 1995) divides the lists of each window.  Let P be the sum of the upper bounds of some
   lists.  A memory that is only in these cannot be among the best once

       P * recency(newest memory in the window or before it) < threshold, a score that 32 memories reach.

   The largest such set are the non-essential lists, and the others the essential ones.  Only memories in an essential
   list can become candidates; the search ends when no list is essential.  The essential lists are summed first, over
   all their postings.  A non-essential list adds only to memories that these have touched, in one of two ways:

     - SCAN: all its postings in the window are read.  Most of them meet no memory touched, and cost a third of one that
       is summed, filtered and cleared.
     - SEEK: a binary search for each memory that can still reach the threshold, where the essential lists have so few
       postings that this costs less.

   A keyword has two lists, which have no memory in common: of the memories in which a person wrote it, and of those in
   which only an assistant did.  In talks with one, the second have most postings and low upper bounds; in one list
   with the first, they would be read for the sake of those (p50 16 instead of 12 us, p99 58 instead of 26, in 100,000
   exchanges).

   Half of all postings are in non-essential lists.  (MaxScore one essential list after the other, with binary search in
   all others, took 3 times as long: with many candidates to find, few lists become non-essential.)

   The result is exact.  A bound has 1 + 1e-12 of slack, more than the roundings of 16 sums and products, and only
   memories strictly below the threshold are dropped: equal scores are decided by the larger sequence.  A candidate's
   BM25 is summed in the order of the keywords, each product rounded by itself, as in recall.c.  A scanned list adds its
   score last, which makes no difference for two scores; a memory with more is summed again if it becomes a candidate.
   The sum of a memory next to a candidate that only non-essential lists have is completed by hot_rescore.c on demand. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "hot_search.h"

/* ---- windows */

/* Sets the role of each list in the next window, whose newest memory has `recency`; 0 when no list is essential. */
static int partition_lists(hot_search *s, double recency)
{
    double least = s->threshold;
    int64_t n_essential = 0;
    int n_nonessential = 0;
    while (n_nonessential < s->n && s->bound_sums[n_nonessential + 1] * recency < least)
        n_nonessential++;
    for (int i = n_nonessential; i < s->n; i++) {
        s->by_bound[i]->role = ESSENTIAL;
        n_essential += s->by_bound[i]->at + 1;
    }
    int is_seek = 1;
    for (int i = 0; i < n_nonessential; i++) {
        is_seek &= s->by_bound[i]->at * SCAN_NS > n_essential * SEEK_NS;
        s->by_bound[i]->role = is_seek ? SEEK : SCAN;
    }
    s->n_nonessential = n_nonessential;
    return n_nonessential < s->n;
}

/* Newest memory of the essential lists, or -1. */
static int64_t newest_document(const hot_search *s)
{
    int64_t newest = -1;
    for (int i = 0; i < s->n; i++) {
        const hot_keyword *word = &s->keywords[i];
        if (word->role == ESSENTIAL && word->at >= 0 && word->list.documents[word->at] > newest)
            newest = word->list.documents[word->at];
    }
    return newest;
}

/* Prefetches a list's postings of the next window: about as many as in this one, `n`, from `at` down. */
static void fetch_postings(const hot_keyword *word, int64_t at, int64_t n)
{
    int64_t stop = at - n - n / 2 - 16;
    stop = stop < 0 ? 0 : stop;
    for (int64_t i = at; i >= stop; i -= 16)
        FETCH(&word->list.documents[i]);
    for (int64_t i = at; i >= stop; i -= 32)
        FETCH(&word->list.weights[i]);
}

/* The same before the first window, as if postings were spread evenly. */
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

/* Adds the scores of an essential list's memories from `base` on; returns how many memories are touched now.  The loop
   works on local variables because the compiler cannot know that the sums do not alias them.  The branch is predicted
   well: few memories are in two lists. */
static int sum_list(hot_search *s, hot_keyword *word, uint32_t base, int n_touched)
{
    const uint32_t *documents = word->list.documents;
    const uint16_t *weights = word->list.weights;
    const double *table = word->table;
    const uint32_t end = (uint32_t)word->n_table << 8, usual = word->usual_parts;
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
        int is_in_table = (weight & 255) == usual && weight < end;
        sums[place] = sum + (is_in_table ? table[weight >> 8] : score_posting(s, word, at));
    }
    word->at = at;
    return n_touched;
}

/* Adds the scores of a non-essential list to the memories touched.  The order of two scores does not matter. */
static void scan_list(hot_search *s, hot_keyword *word, uint32_t base)
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

/* Sums the lists over the memories from `newest` down to `base`, or, for SEEK, finds that range in the list; returns
   how many memories are touched. */
static int sum_window(hot_search *s, uint32_t base, uint32_t newest)
{
    int n_touched = 0;
    for (int i = 0; i < s->n; i++) {
        hot_keyword *word = &s->keywords[i];
        /* Memories above `newest` are in no essential list. */
        if (word->role != ESSENTIAL)
            word->at = gallop_down(word->list.documents, word->at, newest);
        word->top = word->at;
        if (word->role == ESSENTIAL)
            n_touched = sum_list(s, word, base, n_touched);
        else if (word->role == SEEK)
            word->at = base ? gallop_down(word->list.documents, word->at, base - 1) : -1;
    }
    for (int i = 0; i < s->n_nonessential; i++)
        if (s->by_bound[i]->role == SCAN)
            scan_list(s, s->by_bound[i], base);
    for (int i = 0; i < s->n; i++)
        if (s->keywords[i].role != SEEK)
            fetch_postings(&s->keywords[i], s->keywords[i].at, s->keywords[i].top - s->keywords[i].at);
    return n_touched;
}

static int has(const hot_keyword *word, uint32_t document, int64_t *at)
{
    *at = seek_down(word->list.documents, word->at, word->top, document);
    return *at > word->at && word->list.documents[*at] == document;
}

/* The whole BM25 of a memory of this window, summed in the order of the keywords. */
static double bm25_of(const hot_search *s, uint32_t document)
{
    double bm25 = 0.0;
    int64_t at;
    for (int i = 0; i < s->n; i++)
        if (has(&s->keywords[i], document, &at))
            bm25 += score_posting(s, &s->keywords[i], at);
    return bm25;
}

/* Whether the memory can reach `least`: adds the SEEK lists one by one until it has or cannot any more. */
static int can_reach(const hot_search *s, uint32_t document, double sum, double least)
{
    int i = 0;
    int64_t at;
    while (i < s->n && s->by_bound[i]->role == SEEK)
        i++;
    for (; i > 0; i--) {
        if (sum * SLACK + s->bound_sums[i] < least)
            return 0;
        if (has(s->by_bound[i - 1], document, &at))
            sum += score_posting(s, s->by_bound[i - 1], at);
    }
    return sum * SLACK >= least;
}

/* The BM25 that a candidate needs at least; recency is above 0 wherever the threshold is. */
static double least_bm25(const hot_search *s, double recency) { return s->threshold / recency * (1.0 - 1e-12); }

/* Keeps the memories touched that can reach the threshold with their sum and the upper bounds of the SEEK lists. */
static int sift_window(hot_search *s, int n_touched, double least)
{
    const double *sums = s->window->sums + REACH;
    const uint16_t *restrict touched = s->window->touched;
    uint16_t *restrict kept = s->window->kept;
    int n_kept = 0;
    for (int i = 0; i < s->n && s->by_bound[i]->role == SEEK; i++)
        least -= s->by_bound[i]->upper_bound * SLACK;
    least /= SLACK * SLACK;
    for (int i = 0; i < n_touched; i++) {
        kept[n_kept] = touched[i];
        n_kept += sums[touched[i]] >= least;
    }
    return n_kept;
}

static shp_hot_status offer_window(hot_search *s, uint32_t base, int n_touched, double recency)
{
    int is_whole = s->by_bound[0]->role != SEEK;
    double least = least_bm25(s, recency);
    hot_window *window = s->window;
    double *sums = window->sums + REACH;
    int n_kept = sift_window(s, n_touched, least);
    shp_hot_status status = SHP_HOT_OK;
    for (int i = 0; i < n_kept && status == SHP_HOT_OK; i++) {
        int64_t place = window->kept[i], document = base + place;
        double bm25 = sums[place];
        if (!is_whole && !can_reach(s, (uint32_t)document, bm25, least))
            continue;
        int is_inside = (place >= REACH || base == 0) && document + REACH < s->end;
        int is_exact = is_whole && window->marks[place] != MIXED;
        bm25 = is_exact ? bm25 : bm25_of(s, (uint32_t)document);
        status = hot_add_candidate(s, (uint32_t)document, bm25, sums + place, is_inside ? s->n_nonessential : s->n);
    }
    for (int i = 0; i < n_touched; i++)
        sums[window->touched[i]] = 0.0;
    for (int i = 0; i < s->n_marked; i++)
        window->marks[window->marked[i]] = 0;
    s->n_marked = 0;
    return status;
}

/* The first memory of the window that ends at `newest`.  Its scores are bounded with the recency of its newest memory,
   so it is narrower where that bound would be loose for its oldest. */
static uint32_t window_base(const hot_search *s, int64_t newest, double recency)
{
    int64_t base = newest < WINDOW ? 0 : newest - (WINDOW - 1);
    if (newest >= NARROW && recency_at(s, s->index->newest[base / HOT_BLOCK]) < 0.8 * recency)
        base = newest - (NARROW - 1);
    return (uint32_t)base;
}

/* With a single window the threshold would rise only after all memories have become candidates.  So the sums raise
   it before, where recency changes scores little. */
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
        if (!partition_lists(s, recency))
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
    s->idf_sum = s->bound_sums[0] = 0.0;
    s->n = s->n_nonessential = s->n_marked = 0;
    s->n_postings = s->n_unknown = 0;
    s->pool = s->small_pool;
    s->reach = s->small_reach;
    s->n_pool = s->n_rated = s->n_slots = 0;
    s->is_ordered = 0;
    s->capacity = SMALL_POOL;
    /* At most as many as there are: a query for all memories passes the largest k. */
    int64_t most = query->k < index->n_memories ? query->k : index->n_memories;
    s->n_wanted = shp_rescore_candidates(&query->rescore, most);
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

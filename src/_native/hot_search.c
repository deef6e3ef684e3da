/* The best k of one user's memories from the hot index: bit for bit what recall.c finds.

   Candidates by BM25 and recency first (64, or k), then what their conversations add to them (rescore.c).

   Candidates.  Windows of 4,096 memories from the newest to the oldest: in each, the scores of the postings are added
   up in the order of the keywords, 2 ns a posting, in sums that stay in the first-level cache.  A posting's score comes
   from a table by length where a list is long.  MaxScore: with P the sum of the most that some keywords can add,
   memories that have no other keyword cannot be among the best once

       P * recency(newest time in the window or before it) < 64th score,

   so the lists of those keywords are not walked, but halved for the few memories whose sum they could still lift above
   it; and the search ends when it holds for all keywords.  Whether halving (about 12 ns) is worth it is
   estimated from the lengths of the lists.  (MaxScore by passes, one rare keyword after the other with all others
   halved, needed 3 times as long: with 64 candidates to find, few lists can be left out.)

   Exact.  A bound has 1 + 1e-12 of slack, more than the roundings of 16 sums and products, and only what is
   strictly below the least candidate's score is dropped: equal scores are decided by the larger sequence.  What
   becomes a candidate has its sum in the order of the keywords, each product rounded by itself, as in recall.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hot_search.h"

/* ---- the keywords */

typedef struct {
    uint32_t term, n;
} known_word;

/* Whether at least 16 other known keywords are rarer than the i-th (or as rare, and earlier). */
static int is_too_common(const known_word *words, int n, int i)
{
    int n_rarer = 0;
    for (int j = 0; j < n; j++)
        n_rarer += words[j].n < words[i].n || (words[j].n == words[i].n && j < i);
    return n_rarer >= SHP_HOT_MAX_KEYWORDS;
}

/* The most that a posting of the list can score: it grows with tf and falls with the length. */
static double most_of(const hot_search *s, const hot_keyword *word)
{
    const hot_bounds *bounds = &word->list.bounds;
    double most = 0.0;
    for (int times = 1; times <= 4; times++) {
        uint8_t len = bounds->least_len[times - 1];
        double tf = times < 4 ? times : bounds->most_tf == HOT_BIG ? INFINITY : bounds->most_tf;
        if (tf > bounds->most_tf)
            continue;
        /* Of 255 occurrences and more nothing is known but the limit of the formula. */
        double share = isinf(tf) ? word->idf * s->bm25.k1_plus_1 : shp_rank_term(&s->bm25, word->idf, tf, len);
        most = share > most ? share : most;
    }
    return most * SLACK;
}

/* Scores of one occurrence, as far as the user's longest memory. */
static void fill_table(const hot_search *s, hot_keyword *word)
{
    if (word->list.n < TABLE_POSTINGS)
        return;
    word->n_table = s->index->longest < HOT_BIG ? s->index->longest + 1 : HOT_BIG;
    for (int len = 0; len < word->n_table; len++)
        word->table[len] = shp_rank_term(&s->bm25, word->idf, 1.0, len);
}

static void add_keyword(hot_search *s, uint32_t term)
{
    const hot_term *found = &s->index->dictionary.terms[term];
    hot_keyword *word = &s->keywords[s->n];
    word->term = term;
    word->idf = shp_rank_idf(s->n_docs, found->n);
    word->n_table = 0;
    s->idf_sum += word->idf;
    hot_list_open(&s->index->heap, found, &word->list);
    word->at = (int64_t)word->list.n - 1;
    word->most = most_of(s, word);
    fill_table(s, word);
    int i = s->n++;
    for (; i > 0 && s->rising[i - 1]->most > word->most; i--)
        s->rising[i] = s->rising[i - 1];
    s->rising[i] = word;
}

/* A list that is as long as the candidates are many: each of its memories scores at least what the longest and oldest
   one could.  For a user of a million it leaves out the most frequent words from the first window on. */
static double surely_reached(const hot_search *s)
{
    double least = 0.0, oldest = recency_at(s, s->index->oldest) / SLACK;
    for (int i = 0; i < s->n; i++) {
        const hot_keyword *word = &s->keywords[i];
        double reached = shp_rank_term(&s->bm25, word->idf, 1.0, s->index->longest) / SLACK * oldest;
        if (word->list.n >= s->n_candidates && reached > least)
            least = reached;
    }
    return least;
}

/* How many postings the lists of all known words have. */
static int64_t find_keywords(hot_search *s, const shp_hot_word *words, int n_words)
{
    known_word known[MAX_WORDS];
    int64_t n_postings = 0;
    int n_known = 0;
    for (int i = 0; i < n_words && i < MAX_WORDS; i++) {
        uint32_t term = hot_dictionary_find(&s->index->dictionary, words[i].bytes, words[i].n_bytes);
        if (term == HOT_NONE || !s->index->dictionary.terms[term].n)
            continue;
        known[n_known] = (known_word){term, s->index->dictionary.terms[term].n};
        n_postings += known[n_known++].n;
    }
    for (int i = 0; i < n_known; i++)
        if (n_known <= SHP_HOT_MAX_KEYWORDS || !is_too_common(known, n_known, i))
            add_keyword(s, known[i].term);
    for (int i = 0; i < s->n; i++)
        s->below[i + 1] = s->below[i] + s->rising[i]->most;
    s->least_score = surely_reached(s);
    return n_postings;
}

/* ---- the best candidates */

static int is_less(const hot_candidate *a, const hot_candidate *b)
{
    return a->score < b->score || (a->score == b->score && a->document < b->document);
}

static void sift_down(hot_candidate *heap, int64_t n, hot_candidate moved)
{
    int64_t i = 0;
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && is_less(&heap[child + 1], &heap[child]))
            child++;
        if (!is_less(&heap[child], &moved))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moved;
}

static shp_hot_status heap_push(hot_search *s, const hot_candidate *pushed)
{
    if (s->n_heap == s->n_candidates) {
        if (is_less(&s->heap[0], pushed))
            sift_down(s->heap, s->n_heap, *pushed);
        return SHP_HOT_OK;
    }
    if (s->n_heap == s->capacity) {
        hot_candidate *old = s->heap == s->small ? NULL : s->heap;
        hot_candidate *grown = realloc(old, 2 * (size_t)s->capacity * sizeof *grown);
        if (!grown)
            return SHP_HOT_NO_MEMORY;
        if (!old)
            memcpy(grown, s->small, sizeof s->small);
        s->heap = grown;
        s->capacity *= 2;
    }
    int64_t i = s->n_heap++;
    while (i > 0 && is_less(pushed, &s->heap[(i - 1) / 2])) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = *pushed;
    return SHP_HOT_OK;
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

/* Adds up the scores of the memories from `base` on in the lists that are walked; how many memories. */
static int sum_window(hot_search *s, uint32_t base)
{
    int n_touched = 0;
    for (int i = 0; i < s->n; i++) {
        const hot_keyword *word = &s->keywords[i];
        if (!word->is_walked)
            continue;
        for (int64_t at = word->at; at >= 0 && word->list.documents[at] >= base; at--) {
            uint32_t place = word->list.documents[at] - base;
            double sum = s->sums[place];
            s->touched[n_touched] = (uint16_t)place;
            n_touched += sum == 0.0;
            s->sums[place] = sum + score_posting(s, word, at);
        }
    }
    return n_touched;
}

static int has(const hot_keyword *word, uint32_t document, int64_t *at)
{
    *at = seek_down(word->list.documents, word->at, document);
    return *at >= 0 && word->list.documents[*at] == document;
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
static int sift_window(hot_search *s, uint32_t base, int n_touched, double recency)
{
    double least = least_bm25(s, recency);
    int n_kept = 0;
    for (int i = 0; i < s->n && !s->rising[i]->is_walked; i++)
        least = least_bm25(s, recency) - s->below[i + 1];
    for (int i = 0; i < n_touched; i++) {
        uint16_t place = s->touched[i];
        if (s->sums[place] * SLACK < least) {
            s->sums[place] = 0.0;
            continue;
        }
        s->touched[n_kept++] = place;
        FETCH(&s->index->timestamps[base + place]);
    }
    return n_kept;
}

static shp_hot_status offer_window(hot_search *s, uint32_t base, int n_touched, double recency)
{
    int is_whole = s->rising[0]->is_walked;
    shp_hot_status status = SHP_HOT_OK;
    double least = least_bm25(s, recency);
    n_touched = sift_window(s, base, n_touched, recency);
    for (int i = 0; i < n_touched; i++) {
        uint32_t document = base + s->touched[i];
        double bm25 = s->sums[s->touched[i]];
        s->sums[s->touched[i]] = 0.0;
        if (is_whole ? bm25 < least : !is_worth_it(s, document, bm25, least))
            continue;
        if (!is_whole)
            bm25 = bm25_of(s, document);
        hot_candidate found = {bm25 * recency_at(s, s->index->timestamps[document]), bm25, document};
        if (status == SHP_HOT_OK)
            status = heap_push(s, &found);
        least = least_bm25(s, recency);
    }
    return status;
}

/* Every list to the newest place that is not above `document`. */
static void go_down(hot_search *s, int64_t document)
{
    for (int i = 0; i < s->n; i++) {
        hot_keyword *word = &s->keywords[i];
        word->at = document < 0 ? -1 : seek_down(word->list.documents, word->at, (uint32_t)document);
    }
}

static shp_hot_status find_candidates(hot_search *s)
{
    shp_hot_status status = SHP_HOT_OK;
    size_t n_sums = s->index->n_documents < WINDOW ? s->index->n_documents : WINDOW;
    int64_t newest = (int64_t)s->index->n_documents - 1;
    memset(s->sums, 0, n_sums * sizeof *s->sums);
    while (status == SHP_HOT_OK && newest >= 0) {
        double recency = recency_at(s, s->index->newest[newest / HOT_BLOCK]);
        if (!choose_lists(s, recency))
            break;
        newest = newest_document(s);
        if (newest < 0)
            break;
        uint32_t base = newest < WINDOW ? 0 : (uint32_t)(newest - (WINDOW - 1));
        status = offer_window(s, base, sum_window(s, base), recency);
        newest = (int64_t)base - 1;
        go_down(s, newest);
    }
    return status;
}

/* ---- one search */

static void begin(hot_search *s, const shp_hot *index, const shp_hot_query *query)
{
    s->index = index;
    s->query = query;
    s->n_docs = (double)index->n_memories;
    s->idf_sum = s->below[0] = 0.0;
    s->n = 0;
    s->heap = s->small;
    s->n_heap = 0;
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
    if (find_keywords(&s, words, n_words) > query->most_postings)
        return SHP_HOT_LONG;
    if (!s.n)
        return SHP_HOT_OK;
    shp_hot_status status = find_candidates(&s);
    if (status == SHP_HOT_OK && s.n_heap)
        status = hot_rescore(&s, hits, n_hits);
    if (s.heap != s.small)
        free(s.heap);
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

/* The best k of one user's memories from the hot index: bit for bit what recall.c finds.

   Candidates by BM25 and recency first (64, or k), then what their conversations add to them (rescore.c).

   Candidates: MaxScore by passes.  The keywords stand in rising order of the most that each can add to a BM25; P(j) is the most that
   those below the j-th can add together.  Pass j, from the last keyword to the first, walks the j-th list from
   the newest memory to the oldest and owns the memories in which none of the later keywords occurs, so no memory is
   worth more than P(j) and its own share.  Rare keywords come first: after a few hundred postings the heap holds scores
   that whole lists cannot reach, and the pass, or the search, ends where

       P(j + 1) * recency(newest time here or further down) < k-th score.

   Within a pass a memory is dropped as soon as what it has, and the most that the keywords not yet looked up could
   add, is too little; lists are searched by galloping down from where the memory before was found.

   Exact.  A bound has 1 + 1e-12 of slack, more than the roundings of 16 sums and products, and only what is
   strictly below the k-th score is dropped: equal scores are decided by the larger sequence.  A memory that stays gets
   its sum again in the order of the keywords, each product rounded by itself, as in recall.c.

   Rescoring asks for the BM25 of the memories beside the candidates: from the newest candidate to the oldest the lists
   are galloped down once more, and only for memories of the candidate's own thread. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hot_parts.h"
#include "rank.h"

enum {
    MAX_WORDS = 64,       /* looked up */
    SMALL_K = SHP_RESCORE_CANDIDATES, /* candidates kept on the stack */
    TABLE_POSTINGS = 512, /* from here on a list gets a table of its scores by length */
    REFRESH = 8           /* postings between two looks at how recent a memory can still be */
};

static const double SLACK = 1.0 + 1e-12;

typedef struct {
    hot_list list;
    uint32_t term;
    int order;    /* among the keywords ranked by, as they were asked */
    int64_t at;   /* no memory still to come is above this place of the list */
    double idf;
    double most;  /* that it can add, with slack */
} keyword;

typedef struct {
    double score, bm25;
    uint32_t document;
} candidate;

typedef struct {
    const shp_hot *index;
    const shp_hot_query *query;
    shp_rank_bm25 bm25;
    double n_docs, idf_sum;
    int64_t n_candidates; /* wanted */
    int n;
    keyword keywords[SHP_HOT_MAX_KEYWORDS]; /* rising by most */
    double below[SHP_HOT_MAX_KEYWORDS + 1]; /* P: sum of most of the keywords before */
    candidate small[SMALL_K], *heap;        /* min-heap by (score, document) */
    int64_t n_heap, capacity;
} search;

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
static double most_of(const search *s, const keyword *word)
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

static void add_keyword(search *s, uint32_t term)
{
    const hot_term *found = &s->index->dictionary.terms[term];
    double idf = shp_rank_idf(s->n_docs, found->n);
    keyword word = {.term = term, .order = s->n, .idf = idf};
    s->idf_sum += idf;
    hot_list_open(&s->index->heap, found, &word.list);
    word.most = most_of(s, &word);
    int i = s->n++;
    for (; i > 0 && s->keywords[i - 1].most > word.most; i--)
        s->keywords[i] = s->keywords[i - 1];
    s->keywords[i] = word;
}

/* What stands in the list itself has moved with it. */
static void settle_keywords(search *s)
{
    for (int i = 0; i < s->n; i++) {
        keyword *word = &s->keywords[i];
        if (!s->index->dictionary.terms[word->term].size_class) {
            word->list.documents = &word->list.single_document;
            word->list.weights = &word->list.single_weight;
        }
        s->below[i + 1] = s->below[i] + word->most;
    }
}

/* How many postings the lists of all known words have. */
static int64_t find_keywords(search *s, const shp_hot_word *words, int n_words)
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
    settle_keywords(s);
    return n_postings;
}

/* ---- one posting */

static double score_posting(const search *s, const keyword *word, int64_t at)
{
    uint16_t weight = word->list.weights[at];
    uint32_t tf = weight & 255, len = weight >> 8, document = word->list.documents[at];
    if (tf == HOT_BIG)
        tf = hot_big_tf_of(&s->index->heap, word->term, document);
    double doc_len = len == HOT_BIG ? s->index->documents[document].doc_len : (double)len;
    return shp_rank_term(&s->bm25, word->idf, tf, doc_len);
}

/* Last place at or below `at` whose document is at most `document`, or -1. */
static int64_t seek_down(const uint32_t *documents, int64_t at, uint32_t document)
{
    if (at < 0 || documents[at] <= document)
        return at;
    int64_t high = at, low = at - 1;
    for (int64_t step = 1; low >= 0 && documents[low] > document; step *= 2) {
        high = low;
        low -= step;
    }
    low = low < -1 ? -1 : low;
    while (high - low > 1) {
        int64_t middle = (high + low) / 2;
        if (documents[middle] > document)
            high = middle;
        else
            low = middle;
    }
    return low;
}

/* Whether the keyword's list has the document; its place is then word->at. */
static int has(keyword *word, uint32_t document)
{
    word->at = seek_down(word->list.documents, word->at, document);
    return word->at >= 0 && word->list.documents[word->at] == document;
}

static double recency_at(const search *s, int64_t timestamp)
{
    return shp_rank_recency((s->query->rescore.now - (double)timestamp) / 86400.0, s->query->rescore.recency_floor);
}

/* ---- the best candidates */

static int is_less(const candidate *a, const candidate *b)
{
    return a->score < b->score || (a->score == b->score && a->document < b->document);
}

static void sift_down(candidate *heap, int64_t n, candidate moved)
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

static shp_hot_status heap_push(search *s, const candidate *pushed)
{
    if (s->n_heap == s->n_candidates) {
        if (is_less(&s->heap[0], pushed))
            sift_down(s->heap, s->n_heap, *pushed);
        return SHP_HOT_OK;
    }
    if (s->n_heap == s->capacity) {
        candidate *old = s->heap == s->small ? NULL : s->heap;
        candidate *grown = realloc(old, 2 * (size_t)s->capacity * sizeof *grown);
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

/* The score that a memory must reach, -1 while there is room. */
static double threshold(const search *s) { return s->n_heap == s->n_candidates ? s->heap[0].score : -1.0; }

/* ---- passes */

/* Looks up the document of place `at` in the other lists of pass `pass`, of whose own `own` it has; `recency` is the
   most that its time can leave.  Its exact sum by order in *bm25; 0 when it cannot be among the best, or is no
   memory of this pass. */
static int complete(search *s, int pass, int64_t at, double own, double recency, double *bm25)
{
    double shares[SHP_HOT_MAX_KEYWORDS] = {0}, sum = own, least = threshold(s);
    uint32_t document = s->keywords[pass].list.documents[at];
    shares[s->keywords[pass].order] = own;
    for (int i = pass - 1; i >= 0; i--) {
        keyword *word = &s->keywords[i];
        double bound = sum * SLACK + s->below[i + 1];
        if (bound * recency < least)
            return 0;
        if (has(word, document))
            sum += shares[word->order] = score_posting(s, word, word->at);
    }
    if (sum * SLACK * recency < least)
        return 0;
    for (int i = pass + 1; i < s->n; i++)
        if (has(&s->keywords[i], document))
            return 0;
    *bm25 = 0.0;
    for (int i = 0; i < s->n; i++)
        *bm25 += shares[i];
    return 1;
}

static shp_hot_status offer(search *s, uint32_t document, double bm25)
{
    candidate found = {bm25 * recency_at(s, s->index->documents[document].timestamp), bm25, document};
    return heap_push(s, &found);
}

static shp_hot_status walk(search *s, int pass)
{
    const keyword *word = &s->keywords[pass];
    const uint16_t *weights = word->list.weights;
    double table[HOT_BIG], recency = 1.0;
    int has_table = word->list.n >= TABLE_POSTINGS, wait = 0;
    for (int len = 0; has_table && len < HOT_BIG; len++)
        table[len] = shp_rank_term(&s->bm25, word->idf, 1.0, len);
    for (int i = 0; i < s->n; i++)
        s->keywords[i].at = (int64_t)s->keywords[i].list.n - 1;
    for (int64_t at = (int64_t)word->list.n - 1; at >= 0; at--) {
        /* It only falls on the way down, so an old value is a bound too. */
        if (--wait < 0) {
            recency = recency_at(s, s->index->newest[word->list.documents[at] / HOT_BLOCK]);
            if (s->below[pass + 1] * recency < threshold(s))
                break;
            wait = REFRESH - 1;
        }
        int is_simple = has_table && (weights[at] & 255) == 1 && weights[at] >> 8 != HOT_BIG;
        double own = is_simple ? table[weights[at] >> 8] : score_posting(s, word, at), bm25;
        if (!complete(s, pass, at, own, recency, &bm25))
            continue;
        shp_hot_status status = offer(s, word->list.documents[at], bm25);
        if (status != SHP_HOT_OK)
            return status;
    }
    return SHP_HOT_OK;
}

static shp_hot_status run_passes(search *s)
{
    shp_hot_status status = SHP_HOT_OK;
    for (int pass = s->n - 1; pass >= 0 && status == SHP_HOT_OK; pass--) {
        if (s->below[pass + 1] < threshold(s))
            break;
        status = walk(s, pass);
    }
    return status;
}

/* ---- what lies within reach of the candidates */

/* The newest first. */
static int by_document(const void *a, const void *b)
{
    uint32_t x = ((const candidate *)a)->document, y = ((const candidate *)b)->document;
    return (x < y) - (x > y);
}

/* The same sum as `complete` makes.  Documents must be asked for from the newest to the oldest. */
static double bm25_of(search *s, uint32_t document)
{
    double shares[SHP_HOT_MAX_KEYWORDS] = {0}, bm25 = 0.0;
    for (int i = 0; i < s->n; i++)
        if (has(&s->keywords[i], document))
            shares[s->keywords[i].order] = score_posting(s, &s->keywords[i], s->keywords[i].at);
    for (int i = 0; i < s->n; i++)
        bm25 += shares[i];
    return bm25;
}

static shp_rescore_memory memory_of(const search *s, uint32_t document, double bm25, int is_candidate)
{
    const hot_document *from = &s->index->documents[document];
    return (shp_rescore_memory){
        .sequence = from->sequence,
        .timestamp = from->timestamp,
        .bm25 = bm25,
        .thread = from->thread,
        .label = from->label,
        .asks = from->asks,
        .is_candidate = (uint8_t)is_candidate,
    };
}

/* Whether a candidate within reach is of the document's thread; the `first` is none too new. */
static int is_beside(const search *s, int64_t document, int64_t first)
{
    int32_t thread = s->index->documents[document].thread;
    if (!thread || s->index->documents[document].doc_len < 0)
        return 0;
    for (int64_t i = first; i < s->n_heap && s->heap[i].document + SHP_RESCORE_REACH >= document; i++)
        if (s->index->documents[s->heap[i].document].thread == thread)
            return 1;
    return 0;
}

/* The candidates and what is beside them, the oldest last; how many.  Room for 7 of each candidate. */
static int64_t collect_reach(search *s, shp_rescore_memory *out)
{
    int64_t n = 0, first = 0, done = s->index->n_documents; /* from there up */
    if (s->n_heap)
        qsort(s->heap, (size_t)s->n_heap, sizeof *s->heap, by_document);
    for (int i = 0; i < s->n; i++)
        s->keywords[i].at = (int64_t)s->keywords[i].list.n - 1;
    for (int64_t c = 0, next = 0; c < s->n_heap; c++) {
        int64_t document = s->heap[c].document, at = document + SHP_RESCORE_REACH;
        for (at = at < done ? at : done - 1; at >= 0 && at >= document - SHP_RESCORE_REACH; at--) {
            while (s->heap[first].document > at + SHP_RESCORE_REACH)
                first++;
            if (next < s->n_heap && s->heap[next].document == at)
                out[n++] = memory_of(s, (uint32_t)at, s->heap[next++].bm25, 1);
            else if (is_beside(s, at, first))
                out[n++] = memory_of(s, (uint32_t)at, bm25_of(s, (uint32_t)at), 0);
            done = at;
        }
    }
    return n;
}

static void reverse(shp_rescore_memory *memories, int64_t n)
{
    for (int64_t low = 0, high = n - 1; low < high; low++, high--) {
        shp_rescore_memory moved = memories[low];
        memories[low] = memories[high];
        memories[high] = moved;
    }
}

/* ---- hits */

static shp_hot_status take_best(search *s, shp_rescore_buffers *rescored, shp_hot_hit **hits, int64_t *n_hits)
{
    const shp_hot_query *query = s->query;
    int64_t room = rescored->n_hits < query->k ? rescored->n_hits : query->k;
    shp_rescore_hit best;
    if (!room)
        return SHP_HOT_OK;
    *hits = malloc((size_t)room * sizeof **hits);
    if (!*hits)
        return SHP_HOT_NO_MEMORY;
    /* As in recall.c: less to pay than for the relevance itself. */
    double least = shp_rank_min_bm25(query->min_relevance, s->idf_sum, s->n_docs) * (1.0 - 1e-12);
    while (*n_hits < room && shp_rescore_pop(rescored, &best)) {
        double mean = shp_rescore_mean(&best);
        if (mean < least)
            continue;
        double relevance = shp_rank_relevance(mean, s->idf_sum, s->n_docs);
        if (relevance >= query->min_relevance)
            (*hits)[(*n_hits)++] = (shp_hot_hit){best.sequence, best.bm25, best.score, relevance};
    }
    return SHP_HOT_OK;
}

static shp_hot_status rescore(search *s, shp_hot_hit **hits, int64_t *n_hits)
{
    shp_rescore_buffers rescored = {0};
    size_t room = (size_t)s->n_heap * (2 * SHP_RESCORE_REACH + 1) + 1;
    shp_rescore_memory *reach = malloc(room * sizeof *reach);
    shp_hot_status status = reach ? SHP_HOT_OK : SHP_HOT_NO_MEMORY;
    int64_t n = 0;
    if (reach) {
        n = collect_reach(s, reach);
        reverse(reach, n);
    }
    if (status == SHP_HOT_OK && !shp_rescore(&rescored, &s->query->rescore, reach, n))
        status = SHP_HOT_NO_MEMORY;
    if (status == SHP_HOT_OK)
        status = take_best(s, &rescored, hits, n_hits);
    shp_rescore_free(&rescored);
    free(reach);
    return status;
}

/* ---- one search */

static void begin(search *s, const shp_hot *index, const shp_hot_query *query)
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
    search s;
    begin(&s, index, query);
    if (find_keywords(&s, words, n_words) > query->most_postings)
        return SHP_HOT_LONG;
    shp_hot_status status = run_passes(&s);
    if (status == SHP_HOT_OK && s.n_heap)
        status = rescore(&s, hits, n_hits);
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

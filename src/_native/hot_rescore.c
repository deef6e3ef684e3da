/* Rescoring of the hot index's candidates by the conversations around them: rescore.c's formula, without its lists.

   The BM25 of the memories next to a candidate was copied when its window was summed (hot_reach), and hot_near says
   which of them belong to its conversation. So only sums beyond the end of a window, or of non-essential lists, are
   looked up.

   Most of the time would be spent on unpredictable branches. So all possible hits get their evidence first, without
   branches; the best of each eighth of them give a threshold; and only memories that reach it get their recency and
   are sorted.

   For relevance the words of an assistant are summed in full, for which a memory is looked up in every list: first for
   the best alone, and for the others only if one of those is not relevant enough. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hot_search.h"

enum { LANES = 8, SMALL_BEST = 32, SMALL_SCORED = 3 * SMALL_K, SMALL_SLOTS = 256 };

/* A candidate. */
typedef struct {
    const hot_near *near;
    double *sums; /* points at its own BM25, between those of the memories next to it */
    double best;  /* BM25 of its thread's candidates; valid in the first of them */
    uint32_t document, first;
    int n_missing;
} ranked;

typedef struct {
    hot_search *search;
    uint64_t *order; /* document << 32 | place in the heap, rising */
    ranked *ranked;  /* the candidates in that order */
    uint32_t *slots; /* of threads: number of the first candidate + 1, 0: free */
    size_t n_slots;  /* a power of two */
    shp_rank_query relevance_of;
    shp_rescore_lengths lengths;
    double least;    /* smallest mean of a hit, in which an assistant's words count as much as they can */
    int64_t n_scored;    /* memories that may be hits, with: */
    double *evidence;    /* with the factor of length; -1: it is none; to a multiple of LANES */
    double *plain;       /* evidence without that factor, for relevance */
    double *bm25;
    double *relevance; /* -1: not computed yet */
    uint32_t *documents;
    uint32_t *kept; /* numbers of the memories that reach a threshold */
    shp_candidate *best; /* a heap of the hits; slot: their number among the scored */
    int64_t n_best, most;
} rescoring;

/* ---- sums that are missing */

/* Looks up the BM25 of all memories around a candidate.  To be called from the newest candidate to the oldest. */
static void look_up_reach(hot_search *s, int64_t document, double *sums)
{
    int64_t top = document + REACH < s->index->n_documents ? document + REACH : s->index->n_documents - 1;
    memset(sums, 0, (2 * REACH + 1) * sizeof *sums);
    for (int i = 0; i < s->n; i++) {
        hot_keyword *word = &s->keywords[i];
        int64_t at = word->at = gallop_down(word->list.documents, word->at, (uint32_t)top);
        for (; at >= 0 && word->list.documents[at] + REACH >= document; at--)
            sums[(int64_t)word->list.documents[at] - document + REACH] += score_posting(s, word, at);
    }
}

/* Adds the scores of the missing lists to the memories next to a candidate; 0 when one of them has a sum already, since
   the order of the keywords would be lost.  To be called like look_up_reach. */
static int add_missing(hot_search *s, int64_t document, double *sums, int n_missing)
{
    double added[2 * REACH + 1] = {0};
    int is_added = 0;
    for (int i = 0; i < s->n; i++) {
        hot_keyword *word = &s->keywords[i];
        const uint32_t *documents = word->list.documents;
        if (word->bound_rank >= n_missing)
            continue;
        int64_t at = word->at = gallop_down(documents, word->at, (uint32_t)(document + REACH));
        for (; at >= 0 && documents[at] + REACH >= document; at--) {
            int64_t place = (int64_t)documents[at] - document + REACH;
            if (place == REACH)
                continue;
            if (sums[place] != 0.0)
                return 0;
            added[place] += score_posting(s, word, at);
            is_added = 1;
        }
    }
    for (int i = 0; is_added && i <= 2 * REACH; i++)
        sums[i] += added[i];
    return 1;
}

static void complete_reach(rescoring *r)
{
    hot_search *s = r->search;
    for (int i = 0; i < s->n; i++)
        s->keywords[i].at = (int64_t)s->keywords[i].list.n - 1;
    for (int64_t i = s->n_pool; i-- > 0;) {
        const ranked *candidate = &r->ranked[i];
        int n_missing = candidate->n_missing;
        double *sums = candidate->sums - REACH;
        if (!n_missing || !candidate->near->thread)
            continue;
        if (n_missing == s->n || !add_missing(s, candidate->document, sums, n_missing))
            look_up_reach(s, candidate->document, sums);
    }
}

/* ---- order and sessions */

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sort_few_candidates(rescoring *r)
{
    const hot_search *s = r->search;
    int32_t keys[SMALL_K]; /* signed, since that is what vectors compare */
    uint8_t place[SMALL_K];
    int n = (int)s->n_pool;
    for (int i = 0; i < n; i++)
        keys[i] = (int32_t)(s->pool[i].document ^ UINT32_C(0x80000000));
    sort_few(keys, n, place);
    for (int i = 0; i < n; i++)
        r->order[place[i]] = (uint64_t)s->pool[i].document << 32 | (uint64_t)i;
}

static void sort_candidates(rescoring *r)
{
    const hot_search *s = r->search;
    if (s->is_ordered)
        return;
    if (s->n_pool <= SMALL_K) {
        sort_few_candidates(r);
        return;
    }
    for (int64_t i = 0; i < s->n_pool; i++)
        r->order[i] = (uint64_t)s->pool[i].document << 32 | (uint64_t)i;
    qsort(r->order, (size_t)s->n_pool, sizeof *r->order, by_number);
}

/* The query's pairs, and the cache lines in which candidates are asked for them. */
static void read_pairs(const hot_search *s)
{
    shp_rescore_query *query = &s->query->rescore;
    shp_pairs_reader reader = {0};
    query->n_pairs = 0;
    for (int i = 0; shp_rescore_counts_pairs(query) && i < s->n_words; i++)
        shp_rescore_read_word(query, &reader, s->words[i].bytes, s->words[i].n_bytes);
    for (int64_t i = 0; query->n_pairs && i < s->n_pool; i++)
        FETCH(&s->index->pairs[s->pool[i].document]);
}

static void rank_candidates(rescoring *r)
{
    hot_search *s = r->search;
    sort_candidates(r);
    for (int64_t i = 0; i < s->n_pool; i++) {
        const shp_candidate *candidate = &s->pool[s->is_ordered ? (uint32_t)i : (uint32_t)r->order[i]];
        hot_reach *reach = &s->reach[candidate->slot];
        r->ranked[i] = (ranked){&s->index->near[candidate->document], reach->sums + REACH, candidate->bm25,
                                candidate->document, (uint32_t)i, (int)reach->n_missing};
    }
}

/* The first candidate of the thread, which the i-th is itself if it is not known yet. */
static uint32_t first_of_thread(const rescoring *r, int32_t thread, uint32_t i)
{
    size_t at = ((uint32_t)thread * UINT32_C(2654435761)) >> 7 & (r->n_slots - 1);
    while (r->slots[at] && r->ranked[r->slots[at] - 1].near->thread != thread)
        at = (at + 1) & (r->n_slots - 1);
    if (!r->slots[at])
        r->slots[at] = i + 1;
    return r->slots[at] - 1;
}

/* The best candidate of each thread. */
static void collect_sessions(rescoring *r)
{
    memset(r->slots, 0, r->n_slots * sizeof *r->slots);
    for (int64_t i = 0; i < r->search->n_pool; i++) {
        ranked *candidate = &r->ranked[i];
        if (!candidate->near->thread)
            continue;
        candidate->first = first_of_thread(r, candidate->near->thread, (uint32_t)i);
        ranked *first = &r->ranked[candidate->first];
        first->best = candidate->best > first->best ? candidate->best : first->best;
    }
}

/* ---- evidence */

/* The label of a memory that has one; the first call computes the labels of the query. */
static int32_t label_of(const hot_search *s, uint32_t document)
{
    shp_rescore_query *query = &s->query->rescore;
    if (!query->n_labels)
        for (; query->n_labels < s->n_words; query->n_labels++) {
            const shp_hot_word *word = &s->words[query->n_labels];
            query->labels[query->n_labels] = shp_rescore_key(word->bytes, word->n_bytes);
        }
    return s->index->documents[document].label;
}

/* The BM25 of a memory's whole words, of which `bm25` is the usual one. */
static double whole_of(const hot_search *s, uint32_t document, double bm25)
{
    if (!(s->index->near[document].asks & SHP_ASSISTANT))
        return bm25;
    double whole = 0.0;
    for (int i = 0; i < s->n; i++) {
        const hot_keyword *word = &s->keywords[i];
        int64_t at = seek_down(word->list.documents, -1, (int64_t)word->list.n - 1, document);
        if (at >= 0 && word->list.documents[at] == document)
            whole += shp_rank_term(&s->bm25, word->idf, shp_rank_whole_tf(parts_at(s, word, at)),
                                   doc_len_at(s, word, at));
    }
    return whole;
}

/* Where the next memory that may be a hit is written. */
typedef struct {
    double *evidence, *plain, *bm25, *relevance;
    uint32_t *document;
} scored;

/* Scores one memory.  `best`: of the candidates of its thread; `sums` points at its own BM25, between those of the
   memories around it.  One that is not its neighbour is multiplied by 0, which costs less than a branch. */
static inline void score_memory(const rescoring *r, scored *out, uint32_t document, double best, const double *sums,
                                int pairs)
{
    static const double counts[3] = {0.0, 1.0, 1.0};
    const hot_search *s = r->search;
    const hot_near *near = &s->index->near[document];
    const shp_rescore_query *query = &s->query->rescore;
    int before = near->second & 15, after = near->second >> 4;
    int talk = near->beside & HOT_ASSISTANT ? SHP_TALK_ASSISTANT : SHP_TALK_PEOPLE;
    shp_rescore_beside beside = {
        .bm25 = sums[0],
        .previous = sums[-1] * counts[near->beside & HOT_PREVIOUS],
        .next = sums[1] * counts[near->beside & HOT_NEXT],
        .second_before = sums[-before] * counts[before],
        .second_after = sums[after] * counts[after],
        .best = best > sums[0] ? best : sums[0],
        .asks_before = shp_asks_of(near->asks >> 4),
        .asks = shp_asks_of(near->asks),
        .instructs = near->beside & HOT_INSTRUCTS,
        .prefers = near->beside & HOT_PREFERS,
        .pairs = pairs,
        .talk = talk,
        .label = near->beside & HOT_LABELLED ? label_of(s, document) : 0,
        .timestamp = near->timestamp,
    };
    double evidence = shp_rescore_evidence(query, &beside);
    double plain = shp_rescore_for_relevance(query, &beside, evidence);
    /* No word of an assistant counts more than so many times as much when it is whole. */
    double most_whole = sums[0] * (near->asks & SHP_ASSISTANT ? SHP_RANK_PARTS : 1);
    const shp_rescore_hit most = {.bm25 = sums[0], .whole = most_whole, .evidence = plain};
    int is_hit = (evidence > 0.0) & (shp_rescore_mean(&most) >= r->least);
    *out->evidence++ = is_hit ? evidence * r->lengths.factor[talk][near->length] : -1.0;
    *out->plain++ = plain;
    *out->bm25++ = sums[0];
    *out->relevance++ = -1.0;
    *out->document++ = document;
}

/* Scores the candidates and, in sessions, the memories one step away, each once. */
static void score_all(rescoring *r)
{
    const shp_hot *index = r->search->index;
    const shp_rescore_query *query = &r->search->query->rescore;
    const ranked *candidates = r->ranked, *end = candidates + r->search->n_pool;
    scored out = {r->evidence, r->plain, r->bm25, r->relevance, r->documents};
    int64_t last = -1; /* that was scored, which is a candidate or beside one */
    for (const ranked *candidate = candidates; candidate < end; candidate++) {
        int64_t document = candidate->document;
        int beside = candidate->near->thread > 0 ? candidate->near->beside : 0;
        /* Those beside it are of its thread. */
        double best = candidates[candidate->first].best;
        if (beside & HOT_PREVIOUS && document - 1 > last)
            score_memory(r, &out, (uint32_t)document - 1, best, candidate->sums - 1, 0);
        int pairs = shp_pairs_count(&index->pairs[document], query->pairs, query->n_pairs);
        score_memory(r, &out, (uint32_t)document, best, candidate->sums, pairs);
        last = document;
        if (beside & HOT_NEXT && (candidate + 1 == end || candidate[1].document != document + 1)) {
            score_memory(r, &out, (uint32_t)document + 1, best, candidate->sums + 1, 0);
            last = document + 1;
        }
    }
    r->n_scored = out.evidence - r->evidence;
}

/* ---- hits */

static double larger(double a, double b) { return a > b ? a : b; }

/* An evidence below which no memory is a hit: of as many groups as there are hits to find, each has a memory
   that reaches it even if it is as old as the oldest. */
static double least_evidence(rescoring *r)
{
    const hot_search *s = r->search;
    double lanes[LANES], groups[LANES], least = INFINITY;
    if (r->most > LANES)
        return 0.0;
    for (int i = 0; i < LANES; i++)
        lanes[i] = groups[i] = r->evidence[r->n_scored + i] = -1.0;
    for (int64_t at = 0; at < r->n_scored; at += LANES)
        for (int i = 0; i < LANES; i++)
            lanes[i] = larger(r->evidence[at + i], lanes[i]);
    for (int i = 0, group = 0; i < LANES; i++, group = group + 1 < r->most ? group + 1 : 0)
        groups[group] = larger(groups[group], lanes[i]);
    for (int i = 0; i < r->most; i++)
        least = groups[i] < least ? groups[i] : least;
    return least > 0.0 ? least * recency_at(s, s->index->oldest) / (SLACK * SLACK) : 0.0;
}

static void keep(rescoring *r, int64_t number)
{
    const hot_search *s = r->search;
    uint32_t document = r->documents[number];
    double score = r->evidence[number] * recency_at(s, s->index->near[document].timestamp);
    shp_candidate found = {score, r->bm25[number], document, (uint32_t)number};
    if (s->index->ahead < 0)
        FETCH(&s->index->documents[document]); /* whose sequence it gets if it stays */
    if (r->n_best < r->most) {
        r->best[r->n_best++] = found;
        if (r->n_best == r->most)
            shp_heap_order(r->best, r->n_best);
    } else if (shp_candidate_is_less(&r->best[0], &found)) {
        shp_heap_sift(r->best, r->n_best, 0, found);
    }
}

static void choose_best(rescoring *r)
{
    double least = least_evidence(r);
    int64_t n_kept = 0;
    for (int64_t i = 0; i < r->n_scored; i++) {
        r->kept[n_kept] = (uint32_t)i;
        n_kept += r->evidence[i] >= least;
    }
    r->n_best = 0;
    for (int64_t i = 0; i < n_kept; i++)
        keep(r, r->kept[i]);
    if (r->n_best < r->most)
        shp_heap_order(r->best, r->n_best);
    shp_heap_sort(r->best, r->n_best);
}

/* How many times a memory's BM25 that of its whole words is at most: for one word that an assistant wrote once. */
static double most_gain(const hot_search *s, uint32_t document)
{
    double norm = s->bm25.base + s->bm25.slope * s->index->documents[document].doc_len;
    return s->index->near[document].asks & SHP_ASSISTANT ? (1.0 + SHP_RANK_PARTS * norm) / (1.0 + norm) : 1.0;
}

/* The relevance of a memory that may be a hit; 0 if it is seen to be less than asked before its words are looked up. */
static double find_relevance(const rescoring *r, int64_t number)
{
    const hot_search *s = r->search;
    uint32_t document = r->documents[number];
    shp_rescore_hit hit = {.bm25 = r->bm25[number], .evidence = r->plain[number]};
    hit.whole = hit.bm25 * most_gain(s, document);
    if (shp_rescore_mean(&hit) < r->least)
        return 0.0;
    hit.whole = whole_of(s, document, hit.bm25);
    return shp_rank_relevance(shp_rescore_mean(&hit), &r->relevance_of);
}

/* Whether a memory that may be a hit is as relevant as asked; else it is none any more. */
static int is_relevant(rescoring *r, int64_t number)
{
    const hot_search *s = r->search;
    if (r->relevance[number] < 0.0)
        r->relevance[number] = find_relevance(r, number);
    if (r->relevance[number] >= s->query->min_relevance)
        return 1;
    r->evidence[number] = -1.0;
    return 0;
}

/* Fills `hits` from the best; 0 when one of them is not as relevant as asked. */
static int fill_hits(rescoring *r, shp_hot_hit *hits)
{
    const hot_search *s = r->search;
    int are_relevant = 1;
    for (int64_t i = 0; i < r->n_best; i++) {
        const shp_candidate *best = &r->best[i];
        are_relevant &= is_relevant(r, best->slot);
        hits[i] = (shp_hot_hit){hot_sequence_of(s->index, best->document), best->bm25, best->score,
                                r->relevance[best->slot]};
    }
    return are_relevant;
}

static void rescore(rescoring *r, shp_hot_found *found)
{
    const hot_search *s = r->search;
    read_pairs(s);
    rank_candidates(r);
    if (!s->is_ordered)
        complete_reach(r);
    collect_sessions(r);
    r->relevance_of = shp_rank_query_of(s->idf_sum, s->n_docs, s->n_unknown);
    shp_rescore_set_lengths(&s->query->rescore, s->index->total_length / s->index->n_memories, &r->lengths);
    /* Relevance grows strictly with the mean: a threshold on the one is a threshold on the other.  It is compared
       with some slack because that costs less, and the relevance of the best is then computed. */
    r->least = shp_rank_min_bm25(s->query->min_relevance, &r->relevance_of) * (1.0 - 1e-12);
    score_all(r);
    choose_best(r);
    if (!fill_hits(r, found->hits)) {
        for (int64_t i = 0; i < r->n_scored; i++)
            if (r->evidence[i] > 0.0)
                is_relevant(r, i);
        choose_best(r);
        fill_hits(r, found->hits);
    }
    found->n = r->n_best;
}

/* Allocates arrays for more than the usual number of candidates or hits; returns the block to be freed. */
static void *make_room(rescoring *r)
{
    size_t n = (size_t)r->search->n_pool, n_scored = 3 * n + LANES;
    while (r->n_slots < 4 * n)
        r->n_slots *= 2;
    size_t n_bytes = n * (sizeof *r->order + sizeof *r->ranked) + (size_t)r->most * sizeof *r->best +
                     n_scored * (sizeof *r->evidence + sizeof *r->plain + sizeof *r->bm25 + sizeof *r->relevance) +
                     n_scored * 2 * sizeof *r->documents +
                     r->n_slots * sizeof *r->slots;
    void *room = malloc(n_bytes);
    r->order = room;
    r->ranked = (ranked *)(r->order + n);
    r->best = (shp_candidate *)(r->ranked + n);
    r->evidence = (double *)(r->best + r->most);
    r->plain = r->evidence + n_scored;
    r->bm25 = r->plain + n_scored;
    r->relevance = r->bm25 + n_scored;
    r->documents = (uint32_t *)(r->relevance + n_scored);
    r->kept = r->documents + n_scored;
    r->slots = r->kept + n_scored;
    return room;
}

shp_hot_status hot_rescore(hot_search *s, shp_hot_found *found)
{
    uint64_t order[SMALL_K];
    ranked candidates[SMALL_K];
    uint32_t slots[SMALL_SLOTS], documents[SMALL_SCORED], kept[SMALL_SCORED];
    double evidence[SMALL_SCORED + LANES], plain[SMALL_SCORED], bm25[SMALL_SCORED], relevance[SMALL_SCORED];
    shp_candidate best[SMALL_BEST];
    /* A hit is a candidate or beside one. */
    int64_t most = s->query->k < 3 * s->n_pool ? s->query->k : 3 * s->n_pool;
    rescoring r = {.search = s, .order = order, .ranked = candidates, .slots = slots, .n_slots = SMALL_SLOTS,
                   .evidence = evidence, .plain = plain, .bm25 = bm25, .relevance = relevance, .documents = documents, .kept = kept,
                   .best = best,
                   .most = most};
    void *room = NULL;
    if ((s->n_pool > SMALL_K || most > SMALL_BEST) && !(room = make_room(&r)))
        return SHP_HOT_NO_MEMORY;
    if (most > SHP_HOT_FEW)
        found->hits = malloc((size_t)most * sizeof *found->hits);
    if (found->hits)
        rescore(&r, found);
    free(room);
    return found->hits ? SHP_HOT_OK : SHP_HOT_NO_MEMORY;
}

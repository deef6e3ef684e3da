/* The candidates of a search of the hot index: the best memories by BM25 and recency.

   What may become one is put into a pool, where it waits for the cache line with its time while the next window is
   added up. It takes along the sums of the memories beside it: rescoring need not look them up again, unless the window
   ends there, or a list was left out that has one of them.

   The pool has no order, as a heap would: keeping that up is five guesses for each memory that is better than the worst
   so far. The threshold comes from counting how many scores lie on each step of a scale instead: once as many as are
   wanted stand on a step or above it, what is below has become useless. Only at the end are the best chosen. */
#include <stdlib.h>
#include <string.h>

#include "hot_search.h"

/* The scale: steps of a 64th to a 128th of the score, which are the first bits of a double. */
enum { STEP_BITS = 46, OCTAVES = HOT_STEPS >> (52 - STEP_BITS) };

static int64_t step_of(double score)
{
    int64_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits >> STEP_BITS;
}

static double least_on(int64_t step)
{
    int64_t bits = step << STEP_BITS;
    double score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

/* The scale ends where no score can be, or begins with the threshold. */
void hot_begin_candidates(hot_search *s)
{
    double newest = recency_at(s, s->index->newest[(s->index->n_documents - 1) / HOT_BLOCK]);
    double most = s->below[s->n] * newest * SLACK;
    double low = most / (1 << OCTAVES);
    s->first_step = step_of(s->threshold > low ? s->threshold : low);
    memset(s->n_on_step, 0, sizeof s->n_on_step);
    s->n_above = s->step = 0;
}

static shp_hot_status grow(hot_search *s, int64_t capacity)
{
    int is_small = s->pool == s->small_pool;
    shp_candidate *pool = realloc(is_small ? NULL : s->pool, (size_t)capacity * sizeof *pool);
    if (!pool)
        return SHP_HOT_NO_MEMORY;
    if (is_small)
        memcpy(pool, s->small_pool, sizeof s->small_pool);
    s->pool = pool;
    hot_reach *reach = realloc(is_small ? NULL : s->reach, (size_t)capacity * sizeof *reach);
    if (!reach) {
        s->reach = is_small ? NULL : s->reach;
        return SHP_HOT_NO_MEMORY;
    }
    if (is_small)
        memcpy(reach, s->small_reach, sizeof s->small_reach);
    s->reach = reach;
    s->capacity = capacity;
    return SHP_HOT_OK;
}

/* To the highest step that as many candidates as are wanted reach. */
static void raise_threshold(hot_search *s)
{
    while (s->n_above - s->n_on_step[s->step] >= s->n_wanted)
        s->n_above -= s->n_on_step[s->step++];
    if (s->step && least_on(s->first_step + s->step) > s->threshold)
        s->threshold = least_on(s->first_step + s->step);
}

/* What is left out stands behind the others then, where it gives its slot to the next that is added. */
static inline void keep_if(shp_candidate *pool, int64_t *n_left, int64_t i, int is_left)
{
    shp_candidate other = pool[*n_left];
    pool[*n_left] = pool[i];
    pool[i] = other;
    *n_left += is_left;
}

/* Counts the scores from the i-th on; what does not reach the threshold goes. */
static void count_scores(hot_search *s, int64_t i)
{
    const double threshold = s->threshold;
    int64_t n_left = i, n_above = 0;
    for (; i < s->n_pool; i++) {
        int64_t step = step_of(s->pool[i].score) - s->first_step;
        int is_left = s->pool[i].score >= threshold;
        step = step > 0 ? step : 0;
        step = step < HOT_STEPS ? step : HOT_STEPS - 1;
        s->n_on_step[step] += (uint32_t)is_left;
        n_above += is_left & (step >= s->step);
        keep_if(s->pool, &n_left, i, is_left);
    }
    s->n_above += n_above;
    s->n_pool = n_left;
}

void hot_rate_candidates(hot_search *s)
{
    int64_t begin = s->n_rated;
    if (s->n_postings > s->n_wanted) { /* otherwise all are candidates */
        /* All divisions first: between them nothing has to be guessed, so they overlap. */
        for (int64_t i = begin; i < s->n_pool; i++)
            s->pool[i].score = s->pool[i].bm25 * recency_at(s, s->index->near[s->pool[i].document].timestamp);
        count_scores(s, begin);
        raise_threshold(s);
    }
    s->n_rated = s->n_pool;
}

static void drop_useless(hot_search *s)
{
    const double threshold = s->threshold;
    int64_t n_left = 0;
    for (int64_t i = 0; i < s->n_pool; i++)
        keep_if(s->pool, &n_left, i, s->pool[i].score >= threshold);
    s->n_pool = s->n_rated = n_left;
}

static void choose_best(hot_search *s)
{
    shp_heap_order(s->pool, s->n_wanted);
    for (int64_t i = s->n_wanted; i < s->n_pool; i++) {
        shp_candidate offered = s->pool[i];
        if (!shp_candidate_is_less(&s->pool[0], &offered))
            continue;
        s->pool[i] = s->pool[0];
        shp_heap_sift(s->pool, s->n_wanted, 0, offered);
    }
    s->n_pool = s->n_rated = s->n_wanted;
    s->threshold = s->pool[0].score;
}

void hot_choose_candidates(hot_search *s)
{
    hot_rate_candidates(s);
    drop_useless(s);
    if (s->n_pool > s->n_wanted)
        choose_best(s);
    for (int64_t i = 0; i < s->n_pool; i++) {
        uint32_t document = s->pool[i].document;
        FETCH(&s->index->near[document ? document - 1 : 0]); /* perhaps in another cache line */
        FETCH(&s->index->near[document + 1]);
    }
}

/* Makes room in a pool that is full. */
static shp_hot_status make_room(hot_search *s)
{
    int64_t most = s->n_wanted + s->n_wanted / 2;
    hot_rate_candidates(s);
    drop_useless(s);
    if (s->n_pool <= s->capacity / 4 * 3)
        return SHP_HOT_OK;
    if (s->capacity < most)
        return grow(s, 2 * s->capacity < most ? 2 * s->capacity : most);
    choose_best(s);
    return SHP_HOT_OK;
}

shp_hot_status hot_add_candidate(hot_search *s, uint32_t document, double bm25, const double *sum, int n_left_out)
{
    if (s->n_pool == s->capacity && make_room(s) != SHP_HOT_OK)
        return SHP_HOT_NO_MEMORY;
    if (s->n_pool == s->n_slots)
        s->pool[s->n_pool].slot = (uint32_t)s->n_slots++;
    shp_candidate *added = &s->pool[s->n_pool++];
    hot_reach *reach = &s->reach[added->slot];
    FETCH(&s->index->near[document]);
    *added = (shp_candidate){0.0, bm25, document, added->slot};
    memcpy(reach->sums, sum - REACH, sizeof reach->sums);
    reach->sums[REACH] = bm25;
    reach->n_left_out = n_left_out;
    return SHP_HOT_OK;
}

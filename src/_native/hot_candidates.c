/* The candidates of a search of the hot index: the best memories by BM25 and recency.

   A possible candidate goes into a pool, where the cache line with its time is prefetched while the next window is
   summed. The sums of the memories next to it are copied along, so that rescoring need not look them up again, unless
   the window ends there or a non-essential list has one of them.

   The pool is not a heap: keeping one in order would cost about five mispredicted branches for each memory that is
   better than the worst so far. Instead, scores are counted by the steps of a scale: once n_wanted of them are on a step
   or above it, everything below is dropped. Only at the end are the best chosen, and exact scores computed, for the
   candidates on the step of the threshold alone, since all above it are among the best. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hot_search.h"

/* The scale: a step is a 64th to a 128th of the score, given by the first bits of a double. */
enum { STEP_BITS = 46, OCTAVES = HOT_STEPS >> (52 - STEP_BITS), BISECTIONS = 7 };

/* More than the rounding to a float. */
static const double FLOAT_SLACK = 1.0 + 1e-6;

static int64_t step_of(double score)
{
    int64_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits >> STEP_BITS;
}

/* The step on this search's scale, clamped to its ends. */
static int64_t place_of(const hot_search *s, double score)
{
    int64_t step = step_of(score) - s->first_step;
    step = step > 0 ? step : 0;
    return step < HOT_STEPS ? step : HOT_STEPS - 1;
}

static double least_on(int64_t step)
{
    int64_t bits = step << STEP_BITS;
    double score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

static double score_about(const hot_search *s, const shp_candidate *candidate)
{
    double age_s = s->query->rescore.now - (double)s->index->near[candidate->document].timestamp;
    return candidate->bm25 * shp_rank_recency_about(age_s, s->query->rescore.recency_floor);
}

/* Starts the scale at the threshold, or so low that its last step is the highest possible score. */
void hot_begin_candidates(hot_search *s)
{
    double newest = recency_at(s, s->index->newest[(s->index->n_documents - 1) / HOT_BLOCK]);
    double most = s->bound_sums[s->n] * newest * SLACK;
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

/* Raises the threshold to the highest step that n_wanted candidates reach. */
static void raise_threshold(hot_search *s)
{
    while (s->n_above - s->n_on_step[s->step] >= s->n_wanted)
        s->n_above -= s->n_on_step[s->step++];
    double reached = least_on(s->first_step + s->step) / SLACK;
    if (s->step && reached > s->threshold)
        s->threshold = reached;
}

static int n_that_reach(const float *sums, int n, float least)
{
    int n_reaching = 0;
    for (int i = 0; i < n; i++)
        n_reaching += sums[i] >= least;
    return n_reaching;
}

/* Bisects between a sum that enough memories reach and one that none can have: in floats, compared four at a time. */
void hot_count_sums(hot_search *s, int n_touched, double oldest)
{
    const double *sums = s->window->sums + REACH;
    const uint16_t *touched = s->window->touched;
    float *about = s->window->about;
    float low = (float)(s->threshold / oldest / FLOAT_SLACK), high = (float)s->bound_sums[s->n];
    for (int i = 0; i < n_touched; i++)
        about[i] = (float)sums[touched[i]];
    for (int i = 0; i < BISECTIONS; i++) {
        float middle = 0.5f * (low + high);
        int is_reached = n_that_reach(about, n_touched, middle) >= s->n_wanted;
        low = is_reached ? middle : low;
        high = is_reached ? high : middle;
    }
    double reached = low * oldest / FLOAT_SLACK;
    if (reached > s->threshold)
        s->threshold = reached;
}

/* Partitions in place: dropped candidates go behind the others, where the next ones added take over their slots. */
static inline void keep_if(shp_candidate *pool, int64_t *n_left, int64_t i, int is_left)
{
    shp_candidate other = pool[*n_left];
    pool[*n_left] = pool[i];
    pool[i] = other;
    *n_left += is_left;
}

/* Counts the scores from the i-th on, and drops candidates below the threshold. */
static void count_scores(hot_search *s, int64_t i)
{
    const double threshold = s->threshold;
    int64_t n_left = i, n_above = 0;
    for (; i < s->n_pool; i++) {
        int64_t step = place_of(s, s->pool[i].score);
        int is_left = s->pool[i].score >= threshold;
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
    if (s->n_postings >= s->n_wanted) { /* else no threshold was set, and all are candidates */
        /* All divisions first: without branches between them they overlap. */
        for (int64_t i = begin; i < s->n_pool; i++)
            s->pool[i].score = score_about(s, &s->pool[i]);
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

/* Moves the candidates above the step of the threshold to the front; returns how many. */
static int64_t part_sure(hot_search *s)
{
    int64_t above = s->step + 1, n_sure = 0;
    double least = above < HOT_STEPS ? least_on(s->first_step + above) * SLACK : INFINITY;
    for (int64_t i = 0; i < s->n_pool; i++)
        keep_if(s->pool, &n_sure, i, s->pool[i].score >= least);
    return n_sure;
}

/* Keeps the first `n_sure` of the pool and the best of the others, n_wanted in all; returns the worst of these. */
static shp_candidate choose_best(hot_search *s, int64_t n_sure)
{
    shp_candidate *heap = s->pool + n_sure;
    int64_t n = s->n_pool - n_sure, n_wanted = s->n_wanted - n_sure;
    for (int64_t i = 0; i < n; i++)
        heap[i].score = heap[i].bm25 * recency_at(s, s->index->near[heap[i].document].timestamp);
    shp_heap_order(heap, n_wanted);
    for (int64_t i = n_wanted; i < n; i++) {
        shp_candidate offered = heap[i];
        if (!shp_candidate_is_less(&heap[0], &offered))
            continue;
        heap[i] = heap[0];
        shp_heap_sift(heap, n_wanted, 0, offered);
    }
    s->n_pool = s->n_rated = s->n_wanted;
    return heap[0];
}

void hot_choose_candidates(hot_search *s)
{
    hot_rate_candidates(s);
    drop_useless(s);
    if (s->n_pool > s->n_wanted)
        choose_best(s, part_sure(s));
    for (int64_t i = 0; i < s->n_pool; i++) {
        uint32_t document = s->pool[i].document;
        FETCH(&s->index->near[document ? document - 1 : 0]); /* perhaps in another cache line */
        FETCH(&s->index->near[document + 1]);
    }
}

shp_hot_status hot_make_room(hot_search *s)
{
    int64_t most = s->n_wanted + s->n_wanted / 2;
    hot_rate_candidates(s);
    drop_useless(s);
    if (s->n_pool <= s->capacity / 4 * 3)
        return SHP_HOT_OK;
    if (s->capacity < most)
        return grow(s, 2 * s->capacity < most ? 2 * s->capacity : most);
    s->threshold = choose_best(s, 0).score / SLACK;
    return SHP_HOT_OK;
}

/* How much to draft: as much as saves time, by what batches of each size have taken.

   On a GPU a batch of 16 tokens takes about as long as one token. On a CPU it takes three to six times as long, and a
   batch of two may take longer than two batches of one. So the times are measured while answers are made, and a draft
   is as long as makes the most tokens in a second, or empty.
   Other answers in the batch wait for it as well. What is made most is the product of all answers' speeds: a draft that
   makes one answer twice as fast may take the others half as long, and no longer.
   Costs: O(candidates x answers), some microseconds at most, and nothing where there is no candidate. */
#include "draft.h"

#include <math.h>
#include <string.h>

enum {
    MEASURED_ENOUGH = 2, /* one measurement may be the one that another program disturbed */
    MEASURED_AGAIN = 512, /* choices after which all sizes are measured again: the machine may have been busy */
};
/* Of the time of a batch without drafts: an added token, while nothing is measured. */
static const double EXPECTED_SHARE = 0.2;
/* A draft must promise so much more, since promises are estimates. */
static const double LEAST_GAIN = 1.05;
/* Candidates that are less likely than this are left out. */
static const double LEAST_CHANCE = 0.02;

void shp_batch_costs_add(shp_batch_costs *c, int32_t n, int64_t ns) {
    if (n < 1 || n >= SHP_MOST_BATCH_COSTS || ns <= 0)
        return;
    double is = (double)ns, was = c->ns[n];
    if (c->measured[n] < MEASURED_ENOUGH) {
        c->ns[n] = was > 0 && was < is ? was : is;
        c->measured[n]++;
        return;
    }
    /* Other programs make batches slower, never faster. */
    if (is > 3 * was)
        is = 3 * was;
    c->ns[n] = was + (is < was ? .3 : .1) * (is - was);
}

static int is_measured(const shp_batch_costs *c, int32_t n) {
    return n < SHP_MOST_BATCH_COSTS && c->measured[n] >= MEASURED_ENOUGH;
}

/* The time of a batch of n tokens, of which `base` are not drafted: as measured, or at most what the measured sizes
   beside it make of it. */
double shp_batch_cost(const shp_batch_costs *c, int32_t n, int32_t base) {
    int32_t below = n, above = n;
    while (below > base && !is_measured(c, below))
        below--;
    while (above < SHP_MOST_BATCH_COSTS && !is_measured(c, above))
        above++;
    double guess = c->ns[below] + EXPECTED_SHARE * c->ns[base] * (n - below);
    if (above < SHP_MOST_BATCH_COSTS && above > below) {
        double between = c->ns[below] + (c->ns[above] - c->ns[below]) * (n - below) / (above - below);
        guess = between < guess ? between : guess;
    }
    return guess;
}

/* Sizes that are tried: fewer than there are, since each is measured, and kernels like multiples of four. */
int shp_batch_is_tried(int32_t n) { return n < 4 || n % 4 == 0; }

/* What another candidate of a draft adds to the logarithm of its answer's speed. */
typedef struct {
    double made;   /* tokens that the batch makes of this answer, on average */
    double chance; /* that all candidates so far are right */
    double gain;   /* of the next candidate; 0: there is none */
} promise;

static void look_ahead(promise *p, const shp_draft *d) {
    double chance = d->n < d->n_candidates ? p->chance * shp_draft_chance(d, d->n) : 0;
    p->gain = chance > LEAST_CHANCE ? log1p(chance / p->made) : 0;
}

static void take_next(promise *p, shp_draft *d) {
    p->chance *= shp_draft_chance(d, d->n);
    p->made += p->chance;
    d->n++;
    look_ahead(p, d);
}

static void begin(promise *promises, shp_draft *const *drafts, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        promises[i] = (promise){1, 1, 0};
        drafts[i]->n = 0;
        look_ahead(&promises[i], drafts[i]);
    }
}

/* Add the candidate with the highest gain; that gain, or 0 without any. */
static double take_best(promise *promises, shp_draft *const *drafts, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (promises[i].gain > promises[best].gain)
            best = i;
    double gain = promises[best].gain;
    if (gain > 0)
        take_next(&promises[best], drafts[best]);
    return gain;
}

/* How many candidates to take, in the order of their gain, which falls along each draft. */
static int32_t best_number(promise *promises, shp_draft *const *drafts, int32_t n_drafts, int32_t n_tokens,
                           int32_t room, const shp_batch_costs *c) {
    double gains = 0, gain, best_gain = log(LEAST_GAIN);
    int32_t best = 0;
    begin(promises, drafts, n_drafts);
    for (int32_t n = 1; n <= room && (gain = take_best(promises, drafts, n_drafts)) > 0; n++) {
        gains += gain;
        if (!shp_batch_is_tried(n_tokens + n))
            continue;
        /* All answers wait for the batch. */
        double all = gains - n_tokens * log(shp_batch_cost(c, n_tokens + n, n_tokens) / c->ns[n_tokens]);
        if (all > best_gain) {
            best_gain = all;
            best = n;
        }
    }
    return best;
}

void shp_draft_choose(shp_draft *const *drafts, int32_t n_drafts, int32_t n_tokens, int32_t room,
                      shp_batch_costs *costs) {
    promise promises[SHP_MOST_DRAFTS];
    if (n_drafts == 0 || !is_measured(costs, n_tokens))
        return;
    int32_t n = best_number(promises, drafts, n_drafts, n_tokens, room, costs);
    begin(promises, drafts, n_drafts);
    while (n-- > 0)
        take_best(promises, drafts, n_drafts);
    if (++costs->n_steps % MEASURED_AGAIN == 0)
        memset(costs->measured, 0, sizeof costs->measured);
}

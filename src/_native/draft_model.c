/* The draft model: a context of its own with a sequence for each slot, whose mirror is cut to what agrees with the
   answer, so that it reads new tokens only. It chooses the likeliest token, one after the other; the candidates are
   verified as all others are.

   Its tokens cost time, also where they are wrong. So the length of a draft is what promises the most tokens in a second,
   by the times of both models and by how often its candidates were right in this answer, or is 0: then it is asked
   nothing for a while, and on probation after that (draft_backoff.h), since a talk about other things may be easier.
   How sure it is tells the distance of the two best logits.
   On probation, it reads the last FEW tokens alone. What else it has not read of a conversation is only read after
   that, where the answer has become so long that it should pay, a micro-batch in a step.
   Costs: one batch of the model per candidate, and a scan of its logits (40 us for 150,000). */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* CLOCK_THREAD_CPUTIME_ID */
#endif
#include "draft_model.h"

#include "draft_backoff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sync.h"

enum {
    MOST_CANDIDATES = 15,
    FEW = 16,          /* unread tokens that are read together with a draft */
    LONG_ANSWER = 64,  /* tokens that an answer is expected to have still, at least */
};
static const float EXPECTED = .9f, EXPECTED_WEIGHT = 4, KEPT = .98f, KEPT_HERE = .95f;
static const double LEAST_GAIN = 1.05, LEAST_CHANCE = .02;
/* Of the time of a token of the large model: one of the small model, while nothing is measured, and one of many that are
   read together. */
static const double EXPECTED_SHARE = .1, EXPECTED_READ_SHARE = .015;

struct shp_draft_model {
    shp_context context;
    int32_t n_slots, n_chunk;
    shp_sequence *sequences; /* n_slots; owned */
    shp_llama_batch batch;   /* arrays of n_chunk entries; owned */
    shp_batch_costs costs;
    double read_ns;          /* per token of a long text; 0: not measured */
    float seen, right;       /* candidates of all answers; older ones count less */
    shp_draft_backoff backoff;
    int64_t n_batches, n_read; /* decoded, and their tokens */
    int is_on_cpu;           /* times are what this thread computes */
    int is_broken;           /* llama.cpp has failed */
};

static int make_arrays(shp_draft_model *m) {
    size_t n = (size_t)m->n_chunk;
    m->sequences = calloc((size_t)m->n_slots, sizeof *m->sequences);
    m->batch.token = malloc(n * sizeof *m->batch.token);
    m->batch.pos = malloc(n * sizeof *m->batch.pos);
    m->batch.n_seq_id = malloc(n * sizeof *m->batch.n_seq_id);
    m->batch.seq_id = malloc(n * sizeof *m->batch.seq_id);
    m->batch.logits = malloc(n);
    if (!m->sequences || !m->batch.token || !m->batch.pos || !m->batch.n_seq_id || !m->batch.seq_id
        || !m->batch.logits)
        return 0;
    for (size_t i = 0; i < n; i++)
        m->batch.n_seq_id[i] = 1;
    for (int32_t i = 0; i < m->n_slots; i++)
        if (!shp_sequence_init(&m->sequences[i], &m->context, i))
            return 0;
    return 1;
}

shp_draft_model *shp_draft_model_new(const shp_context *context, int32_t n_slots, int32_t n_chunk, int is_on_cpu) {
    shp_draft_model *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->context = *context;
    shp_draft_backoff_begin(&m->backoff);
    m->n_slots = n_slots;
    m->is_on_cpu = is_on_cpu;
    m->n_chunk = n_chunk > n_slots + FEW ? n_chunk : n_slots + FEW;
    if (!make_arrays(m)) {
        shp_draft_model_free(m);
        return NULL;
    }
    return m;
}

void shp_draft_model_free(shp_draft_model *m) {
    if (!m)
        return;
    for (int32_t i = 0; m->sequences && i < m->n_slots; i++)
        shp_sequence_free(&m->sequences[i]);
    free(m->sequences);
    free(m->batch.token);
    free(m->batch.pos);
    free(m->batch.n_seq_id);
    free(m->batch.seq_id);
    free(m->batch.logits);
    free(m);
}

void shp_draft_model_forget(shp_draft_model *m) {
    for (int32_t i = 0; i < m->n_slots; i++)
        m->sequences[i].n = 0;
    shp_api.memory_clear(m->context.memory, true);
}

int32_t shp_draft_model_ids(const shp_draft_model *m, int32_t slot, const int32_t **ids, int32_t *last) {
    *ids = m->sequences[slot].ids;
    *last = shp_api.seq_pos_max(m->context.memory, slot);
    return m->sequences[slot].n;
}

void shp_draft_model_counts(const shp_draft_model *m, int64_t *n_batches, int64_t *n_read) {
    *n_batches = m->n_batches;
    *n_read = m->n_read;
}

void shp_draft_model_begin(shp_draft_model *m, shp_draft *d) {
    d->model = m;
    d->model_right = m->right + EXPECTED * EXPECTED_WEIGHT;
    d->model_seen = m->seen + EXPECTED_WEIGHT;
}

void shp_draft_model_learn(shp_draft_model *m, shp_draft *d, int is_right) {
    if (shp_draft_backoff_learn(&m->backoff, is_right)) {
        m->seen = m->right = 0;
        shp_draft_model_begin(m, d);
        for (int kind = SHP_DRAFT_MODEL; kind < SHP_DRAFT_KINDS; kind++)
            d->seen[kind] = d->right[kind] = 0;
        return;
    }
    d->model_seen = KEPT_HERE * d->model_seen + 1;
    d->model_right = KEPT_HERE * d->model_right + (is_right ? 1 : 0);
    m->seen = KEPT * m->seen + 1;
    m->right = KEPT * m->right + (is_right ? 1 : 0);
}

/* ---- what a draft is worth ---- */

static double own_cost(const shp_draft_model *m, int32_t n, double token_ns) {
    return m->costs.ns[n < 1 ? 1 : n] > 0 ? m->costs.ns[n < 1 ? 1 : n] : EXPECTED_SHARE * token_ns;
}

static double made_by(double chance, int32_t length) {
    return chance > .999 ? length + 1 : (1 - pow(chance, length + 1)) / (1 - chance);
}

/* The logarithm of how much faster all answers get with drafts of that length. */
static double gain_of(const shp_draft_model *m, const shp_drafted_answer *answers, int32_t n, int32_t length,
                      int32_t n_tokens, const shp_batch_costs *costs) {
    double gain = 0, token_ns = costs->ns[n_tokens];
    int32_t n_more = 0, n_wanted = 0;
    for (int32_t i = 0; i < n; i++) {
        const shp_draft *d = answers[i].draft;
        if (!answers[i].is_wanted)
            continue;
        int32_t most = answers[i].most < length ? answers[i].most : length;
        gain += log(made_by(d->model_right / d->model_seen, most));
        n_more += most;
        n_wanted++;
    }
    double all = shp_batch_cost(costs, n_tokens + n_more, n_tokens) + length * own_cost(m, n_wanted, token_ns);
    return gain - n_tokens * log(all / token_ns);
}

static int32_t best_length(const shp_draft_model *m, const shp_drafted_answer *answers, int32_t n, int32_t n_tokens,
                           const shp_batch_costs *costs, double *best_gain) {
    int32_t best = 0;
    *best_gain = log(LEAST_GAIN);
    for (int32_t length = 1; length <= MOST_CANDIDATES; length++) {
        if (n == 1 && !shp_batch_is_tried(n_tokens + length))
            continue;
        double gain = gain_of(m, answers, n, length, n_tokens, costs);
        if (gain > *best_gain) {
            best = length;
            *best_gain = gain;
        }
    }
    return best;
}

/* ---- what it reads ---- */

static int is_readable(const shp_draft_model *m, const shp_draft *d) {
    return d->own.n + MOST_CANDIDATES < m->context.n_window;
}

static shp_sequence *sequence_of(const shp_draft_model *m, const shp_drafted_answer *answer) {
    return &m->sequences[answer->slot];
}

/* Cut the sequence to what agrees with the text; how many tokens are left to read, at least the last one. */
static int32_t unread(const shp_draft_model *m, const shp_drafted_answer *answer) {
    const shp_ngrams *text = &answer->draft->own;
    shp_sequence *sequence = sequence_of(m, answer);
    int32_t n = shp_sequence_common(sequence, text->ids, text->n);
    n = n < text->n ? n : text->n - 1;
    if (!shp_sequence_cut(sequence, n))
        shp_sequence_clear(sequence);
    return text->n - sequence->n;
}

static void add(shp_draft_model *m, shp_sequence *sequence, int32_t position, const int32_t *tokens, int32_t n,
                int has_logits) {
    int32_t at = m->batch.n_tokens;
    for (int32_t i = 0; i < n; i++, at++) {
        m->batch.token[at] = tokens[i];
        m->batch.pos[at] = position + i;
        m->batch.seq_id[at] = &sequence->id;
        m->batch.logits[at] = has_logits && i == n - 1;
    }
    shp_sequence_append(sequence, tokens, m->batch.pos + m->batch.n_tokens, n);
    m->batch.n_tokens = at;
}

/* Tokens of the text that the model does not have end its drafts. */
static int has_all(const shp_draft_model *m, const int32_t *tokens, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= m->context.n_vocab)
            return 0;
    return 1;
}

static int64_t now(const shp_draft_model *m) { return m->is_on_cpu ? shp_thread_clock_ns() : shp_now_ns(); }

/* The mirrors of the batch had its tokens before it was decoded; on failure they are set right. */
static int decode(shp_draft_model *m) {
    int64_t started = now(m);
    int32_t code = shp_api.decode(m->context.ctx, m->batch), n = m->batch.n_tokens;
    m->n_batches++;
    m->n_read += n;
    shp_api.synchronize(m->context.ctx);
    int64_t ns = now(m) - started;
    if (code == 0 && n > FEW)
        m->read_ns = (double)ns / n;
    else if (code == 0)
        shp_batch_costs_add(&m->costs, n, ns);
    if (code == 0)
        return 1;
    /* No room: conversations that are not drafted now leave, which is all of them. */
    m->is_broken = code != 1;
    shp_draft_model_forget(m);
    return 0;
}

/* A part of a long text that was not read yet, if it should pay: an answer is expected to be as long again. */
static int read_ahead(shp_draft_model *m, const shp_drafted_answer *answer, int32_t n_unread, double gain,
                      double token_ns) {
    const shp_draft *d = answer->draft;
    double each = m->read_ns > 0 ? m->read_ns : EXPECTED_READ_SHARE * token_ns;
    int32_t n_to_come = d->own.n - d->n_prompt;
    if (n_to_come < LONG_ANSWER)
        n_to_come = LONG_ANSWER;
    if (gain < INFINITY && n_to_come * token_ns * (1 - exp(-gain)) < n_unread * each)
        return 0;
    int32_t n = n_unread - 1 < m->n_chunk ? n_unread - 1 : m->n_chunk;
    shp_sequence *sequence = sequence_of(m, answer);
    m->batch.n_tokens = 0;
    add(m, sequence, sequence->n, d->own.ids + sequence->n, n, 0);
    return decode(m);
}

/* ---- drafting ---- */

/* The likeliest token, and how likely it is by its distance from the next one. */
static int32_t likeliest(const shp_draft_model *m, int32_t at, int32_t n_vocab, int *kind) {
    static const float distances[] = {1, 2, 4};
    const float *logits = shp_api.get_logits_ith(m->context.ctx, at);
    if (!logits)
        return -1;
    int32_t best = 0, n = n_vocab < m->context.n_vocab ? n_vocab : m->context.n_vocab;
    float most = -INFINITY, second = -INFINITY;
    for (int32_t i = 0; i < n; i++) {
        float logit = logits[i];
        if (logit <= second)
            continue;
        if (logit > most) {
            second = most;
            most = logit;
            best = i;
        } else
            second = logit;
    }
    *kind = SHP_DRAFT_MODEL;
    for (int i = 0; i < 3; i++)
        *kind += most - second >= distances[i];
    return best;
}

typedef struct {
    int is_going_on;
    int32_t at; /* index of its logits */
    double chance;
} progress;

/* Take a candidate from the logits; whether there should be another one. */
static int take(const shp_draft_model *m, const shp_drafted_answer *answer, progress *p, double least_chance) {
    shp_draft *d = answer->draft;
    int kind;
    int32_t token = likeliest(m, p->at, d->context->n_vocab, &kind);
    if (token < 0 || shp_api.is_eog(d->context->vocab, token))
        return 0;
    d->tokens[d->n_candidates] = token;
    d->kinds[d->n_candidates] = (int8_t)kind;
    d->others[d->n_candidates++] = -1;
    p->chance *= shp_draft_chance_of(d, kind);
    return p->chance > least_chance;
}

static void draft_together(shp_draft_model *m, shp_drafted_answer *answers, int32_t n, int32_t length,
                           double least_chance) {
    progress all[SHP_MOST_DRAFTS];
    int32_t n_going_on = 0;
    m->batch.n_tokens = 0;
    for (int32_t i = 0; i < n; i++) {
        all[i] = (progress){answers[i].is_wanted, 0, 1};
        if (!answers[i].is_wanted)
            continue;
        shp_draft *d = answers[i].draft;
        shp_sequence *sequence = sequence_of(m, &answers[i]);
        add(m, sequence, sequence->n, d->own.ids + sequence->n, d->own.n - sequence->n, 1);
        all[i].at = m->batch.n_tokens - 1;
        d->n_candidates = d->n_taken = 0;
        n_going_on++;
    }
    for (int32_t drafted = 0; n_going_on > 0 && decode(m); drafted++) {
        m->batch.n_tokens = n_going_on = 0;
        for (int32_t i = 0; i < n; i++) {
            int32_t most = answers[i].most < length ? answers[i].most : length;
            if (!all[i].is_going_on)
                continue;
            all[i].is_going_on = take(m, &answers[i], &all[i], least_chance) && drafted + 1 < most;
            if (!all[i].is_going_on)
                continue;
            shp_draft *d = answers[i].draft;
            add(m, sequence_of(m, &answers[i]), d->own.n + d->n_candidates - 1, &d->tokens[d->n_candidates - 1], 1, 1);
            all[i].at = m->batch.n_tokens - 1;
            n_going_on++;
        }
    }
}

/* The first answer that wants it gets one candidate. Of a text that was not read yet, the end is enough; at its place,
   since positions may mean something to the model. */
static void draft_on_probation(shp_draft_model *m, const shp_drafted_answer *answers) {
    while (!answers->is_wanted)
        answers++;
    shp_draft *d = answers->draft;
    shp_sequence *sequence = sequence_of(m, answers);
    int32_t left = unread(m, answers), is_short = left > FEW;
    left = is_short ? FEW : left;
    const int32_t *tokens = d->own.ids + d->own.n - left;
    if (!has_all(m, tokens, left))
        return;
    if (is_short)
        shp_sequence_clear(sequence);
    m->batch.n_tokens = 0;
    add(m, sequence, d->own.n - left, tokens, left, 1);
    progress p = {1, left - 1, 1};
    d->n_candidates = d->n_taken = 0;
    if (decode(m))
        take(m, answers, &p, 1);
    if (is_short) /* its mirror begins with the text */
        shp_sequence_clear(sequence);
}

int shp_draft_model_draft(shp_draft_model *m, shp_drafted_answer *answers, int32_t n, int32_t n_tokens,
                          const shp_batch_costs *costs, shp_draft_mode mode) {
    int32_t n_asking = 0, n_wanted = 0, n_to_read = 0, length = MOST_CANDIDATES;
    double token_ns = costs->ns[n_tokens], gain = INFINITY, least_chance = 0;
    int is_auto = mode == SHP_DRAFT_AUTO;
    for (int32_t i = 0; i < n; i++) {
        answers[i].is_wanted = answers[i].is_wanted && answers[i].most > 0 && is_readable(m, answers[i].draft);
        n_asking += answers[i].is_wanted;
    }
    if (m->is_broken || n_asking == 0
        || (is_auto && (token_ns <= 0 || !shp_draft_backoff_asks(&m->backoff, n_asking))))
        return 0;
    if (is_auto && shp_draft_backoff_is_on_probation(&m->backoff)) {
        draft_on_probation(m, answers);
        return 0; /* nothing to verify */
    }
    if (is_auto && (length = best_length(m, answers, n, n_tokens, costs, &gain)) == 0) {
        shp_draft_backoff_rest(&m->backoff, n_asking);
        return 0;
    }
    for (int32_t i = 0; i < n; i++) {
        if (!answers[i].is_wanted)
            continue;
        int32_t left = unread(m, &answers[i]);
        const shp_draft *d = answers[i].draft;
        answers[i].is_wanted = left <= FEW && has_all(m, d->own.ids + d->own.n - left, left);
        if (left > FEW && has_all(m, d->own.ids + d->own.n - left, left)
            && read_ahead(m, &answers[i], left, gain, token_ns))
            return 0;
        n_to_read += answers[i].is_wanted ? left : 0;
        n_wanted += answers[i].is_wanted;
    }
    if (n_wanted == 0 || n_to_read > m->n_chunk)
        return 0;
    if (is_auto && length > shp_draft_backoff_most(&m->backoff))
        length = shp_draft_backoff_most(&m->backoff);
    if (is_auto)
        least_chance = fmax(LEAST_CHANCE, own_cost(m, n_wanted, token_ns) / token_ns);
    draft_together(m, answers, n, length, least_chance);
    return 1;
}

/* Sampling: the sampler's own choice is tried first; only when the grammar refuses it is the grammar applied to
   the whole vocabulary, which at 150,000 tokens costs as much as many layers. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* CLOCK_THREAD_CPUTIME_ID */
#endif
#include "sampling.h"

#include <math.h>
#include <stdlib.h>

#include "sync.h"

enum { PIECE_BYTES = 256 }; /* longer pieces (runs of blanks) take a detour through malloc */

/* Limits of the work that one token causes in the grammar. llama.cpp follows every way in which the text so far can be
   read; of an ambiguous grammar there can be twice as many after each character, four times the work, and nothing
   interrupts it. JSON schemas of 100 kB take 0.1 ms. */
static const int64_t MOST_NS = SHP_COUNTS_THREAD_TIME ? 5000000 : 100000000;

int shp_candidates_init(shp_candidates *candidates, int32_t n_vocab) {
    candidates->tokens = malloc((size_t)n_vocab * sizeof *candidates->tokens);
    candidates->refused = malloc((size_t)n_vocab * sizeof *candidates->refused);
    return candidates->tokens && candidates->refused;
}

void shp_candidates_free(shp_candidates *candidates) {
    free(candidates->tokens);
    free(candidates->refused);
}

/* Reset the chain, which also restores its seed, and let it accept the tail of the prompt. */
void shp_sampling_begin(shp_sampling *sampling, const int32_t *tail, int32_t n) {
    shp_api.sampler_reset(sampling->sampler);
    if (sampling->grammar)
        shp_api.sampler_reset(sampling->grammar);
    for (int32_t i = 0; i < n; i++)
        if (!shp_is_picture(tail[i]))
            shp_api.sampler_accept(sampling->sampler, tail[i]);
}

/* Sample a token; when some were refused, among those that the grammar allows. Sorting what is not a number may write
   outside of the array, and a sampler to which nothing is left chooses a token that is refused all the same. */
static int32_t draw(shp_sampling *sampling, const shp_context *context, int32_t at) {
    const float *logits = shp_api.get_logits_ith(context->ctx, at);
    const shp_candidates *room = sampling->candidates;
    int32_t n = context->n_vocab, i, is_broken = 0;
    for (i = 0; i < n; i++) {
        room->tokens[i] = (shp_llama_token_data){i, logits[i], 0};
        is_broken |= !(logits[i] < INFINITY);
    }
    if (is_broken)
        return SHP_NO_NUMBERS;
    shp_llama_token_data_array candidates = {room->tokens, (size_t)n, -1, false};
    if (room->n_refused > 0) {
        shp_api.sampler_apply(sampling->grammar, &candidates);
        for (i = 0; i < room->n_refused; i++)
            room->tokens[room->refused[i]].logit = -INFINITY;
    }
    shp_api.sampler_apply(sampling->sampler, &candidates);
    sampling->left = candidates.data;
    sampling->n_left = candidates.size;
    if (candidates.selected < 0 || candidates.selected >= (int64_t)candidates.size
        || !(candidates.data[candidates.selected].logit > -INFINITY))
        return SHP_NO_TOKEN;
    return candidates.data[candidates.selected].id;
}

static int is_shown(const shp_sampling *sampling, int32_t token) {
    for (int32_t i = 0; i < sampling->n_shown; i++)
        if (sampling->shown[i] == token)
            return 1;
    return 0;
}

/* The bytes that the reader gets of a token: how many, or minus the room that they need. */
static int32_t piece_of(const shp_sampling *sampling, const shp_context *context, int32_t token, char *piece,
                        int32_t length) {
    int32_t n = shp_api.token_to_piece(context->vocab, token, piece, length, 0, false);
    if (n == 0 && is_shown(sampling, token))
        return shp_api.token_to_piece(context->vocab, token, piece, length, 0, true);
    return n;
}

/* Whether the grammar takes this token, and the text that the reader gets is the text that it saw. */
static int fits(const shp_sampling *sampling, const shp_context *context, int32_t token, const shp_stream *out) {
    shp_llama_token_data one = {token, 1, 0};
    shp_llama_token_data_array alone = {&one, 1, -1, false};
    char piece[PIECE_BYTES];
    shp_api.sampler_apply(sampling->grammar, &alone);
    if (one.logit == -INFINITY)
        return 0;
    if (shp_api.is_eog(context->vocab, token))
        return 1;
    /* Most control tokens have a text for the grammar, and none for the reader. */
    int32_t n = piece_of(sampling, context, token, piece, PIECE_BYTES);
    return n < 0 || (n > 0 && shp_stream_fits(out, piece, (size_t)n));
}

/* Keep the likeliest, in order, by their logits. */
static void rank(shp_likely *likely, int32_t n_wanted, int32_t id, float logit) {
    if (likely->n_top < n_wanted)
        likely->n_top++;
    int32_t i = likely->n_top - 1;
    for (; i > 0 && logit > likely->top_logprobs[i - 1]; i--) {
        likely->top_ids[i] = likely->top_ids[i - 1];
        likely->top_logprobs[i] = likely->top_logprobs[i - 1];
    }
    likely->top_ids[i] = id;
    likely->top_logprobs[i] = logit;
}

/* Log-softmax of the model's own logits, temperature 1, as OpenAI and llama-server give it. */
static void weigh(shp_sampling *sampling, const shp_context *context, int32_t at, int32_t token) {
    const float *logits = shp_api.get_logits_ith(context->ctx, at);
    shp_likely *likely = &sampling->likely;
    float most = -INFINITY;
    double sum = 0;
    likely->n_top = 0;
    for (int32_t i = 0; i < context->n_vocab; i++) {
        most = logits[i] > most ? logits[i] : most;
        if (likely->n_top < sampling->n_likely
            || (likely->n_top > 0 && logits[i] > likely->top_logprobs[likely->n_top - 1]))
            rank(likely, sampling->n_likely, i, logits[i]);
    }
    for (int32_t i = 0; i < context->n_vocab; i++)
        sum += expf(logits[i] - most);
    float all = most + (float)log(sum);
    likely->logprob = logits[token] - all;
    for (int32_t i = 0; i < likely->n_top; i++)
        likely->top_logprobs[i] -= all;
}

/* Log-softmax of the logits that the samplers left: that is with what probability each could be chosen. */
static void weigh_left(shp_sampling *sampling, int32_t token) {
    const shp_llama_token_data *left = sampling->left;
    shp_likely *likely = &sampling->likely;
    float most = -INFINITY, own = -INFINITY;
    double sum = 0;
    likely->n_top = 0;
    for (size_t i = 0; i < sampling->n_left; i++)
        most = left[i].logit > most ? left[i].logit : most;
    for (size_t i = 0; i < sampling->n_left; i++) {
        float weight = expf(left[i].logit - most);
        if (!(weight > 0))
            continue;
        sum += weight;
        own = left[i].id == token ? left[i].logit : own;
        if (likely->n_top < sampling->n_likely
            || (likely->n_top > 0 && left[i].logit > likely->top_logprobs[likely->n_top - 1]))
            rank(likely, sampling->n_likely, left[i].id, left[i].logit);
    }
    float all = most + (float)log(sum);
    likely->logprob = own - all;
    for (int32_t i = 0; i < likely->n_top; i++)
        likely->top_logprobs[i] -= all;
}

static int32_t choose(shp_sampling *sampling, const shp_context *context, int32_t at, const shp_stream *out) {
    shp_candidates *room = sampling->candidates;
    room->n_refused = 0;
    int32_t token = draw(sampling, context, at);
    while (sampling->grammar && token >= 0 && !fits(sampling, context, token, out)) {
        if (room->n_refused == context->n_vocab)
            return SHP_NO_TOKEN;
        room->refused[room->n_refused++] = token;
        token = draw(sampling, context, at);
    }
    if (token < 0)
        return token;
    /* The end is not accepted: the grammar asserts that it is not called after it. */
    if (sampling->grammar && !shp_api.is_eog(context->vocab, token)) {
        int64_t started = shp_thread_clock_ns();
        shp_api.sampler_accept(sampling->grammar, token);
        if (shp_thread_clock_ns() - started > MOST_NS)
            return SHP_AMBIGUOUS;
    }
    shp_api.sampler_accept(sampling->sampler, token);
    return token;
}

/* The next token, known to the samplers; or why there is none. `at`: its logits' index. */
int32_t shp_sampling_next(shp_sampling *sampling, const shp_context *context, int32_t at, const shp_stream *out) {
    int32_t token = choose(sampling, context, at, out);
    if (sampling->asks_likely && token >= 0 && token < context->n_vocab) {
        if (sampling->is_after)
            weigh_left(sampling, token);
        else
            weigh(sampling, context, at, token);
    }
    return token;
}

shp_status shp_sampling_write(const shp_sampling *sampling, const shp_context *context, shp_stream *out,
                              int32_t token) {
    char small[PIECE_BYTES];
    const shp_likely *likely = sampling->asks_likely ? &sampling->likely : NULL;
    int32_t n = piece_of(sampling, context, token, small, PIECE_BYTES);
    if (n >= 0)
        return shp_stream_write(out, token, small, (size_t)n, likely);
    int32_t room = -n;
    char *large = malloc((size_t)room);
    if (!large)
        return SHP_NO_MEMORY;
    n = piece_of(sampling, context, token, large, room);
    shp_status status = shp_stream_write(out, token, large, n > 0 ? (size_t)n : 0, likely);
    free(large);
    return status;
}

/* Forced text: the grammar is asked which single characters may come. While there is only one, a copy of the grammar
   takes it. The text is then tokenised as the model would likely write it; whether it does is checked like any draft.
   Costs: where several characters may come, which is the usual case, a check of at most 256 tokens. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* CLOCK_THREAD_CPUTIME_ID */
#endif
#include "forced.h"

#include <math.h>
#include <string.h>

#include "sync.h"

enum { MOST_BYTES = 96, MOST_TOKENS = MOST_BYTES + 8, NEWLINE = '\n' };
/* An ambiguous grammar takes twice as long for each character. */
static const int64_t MOST_NS = 1000000;

static void fill(shp_letters *letters, const shp_context *context) {
    char piece[2];
    memset(letters->ids, -1, sizeof letters->ids);
    for (int32_t i = 0; i < context->n_vocab; i++)
        if (shp_api.token_to_piece(context->vocab, i, piece, 1, 0, false) == 1
            && letters->ids[(unsigned char)piece[0]] < 0)
            letters->ids[(unsigned char)piece[0]] = i;
    letters->is_filled = 1;
}

/* The only byte that may come next, if it is ASCII; else -1. */
static int only_byte(void *grammar, const shp_letters *letters) {
    shp_llama_token_data data[256];
    int32_t n = 0, found = -1;
    for (int byte = 0; byte < 256; byte++)
        if (letters->ids[byte] >= 0)
            data[n++] = (shp_llama_token_data){letters->ids[byte], (float)byte, 0};
    shp_llama_token_data_array all = {data, (size_t)n, -1, false};
    shp_api.sampler_apply(grammar, &all);
    for (size_t i = 0; i < all.size; i++) {
        if (all.data[i].logit == -INFINITY)
            continue;
        if (found >= 0)
            return -1;
        found = (int)all.data[i].logit;
    }
    return found < 128 ? found : -1;
}

static int32_t forced_text(void *grammar, const shp_letters *letters, char *text) {
    int32_t n = 0;
    int64_t until = shp_thread_clock_ns() + MOST_NS;
    int byte = only_byte(grammar, letters);
    if (byte < 0)
        return 0;
    void *copy = shp_api.sampler_clone(grammar);
    while (copy && byte >= 0 && n < MOST_BYTES && shp_thread_clock_ns() < until) {
        text[n++] = (char)byte;
        shp_api.sampler_accept(copy, letters->ids[byte]);
        byte = only_byte(copy, letters);
    }
    if (copy)
        shp_api.sampler_free(copy);
    return n;
}

int32_t shp_forced_tokens(void *grammar, const shp_context *context, shp_letters *letters, int32_t *tokens,
                          int32_t most) {
    char text[1 + MOST_BYTES], piece[2];
    int32_t found[MOST_TOKENS], first = 0;
    if (!letters->is_filled)
        fill(letters, context);
    /* SentencePiece writes a blank before a text, but not behind a line feed. */
    text[0] = NEWLINE;
    int32_t n = forced_text(grammar, letters, text + 1);
    if (n == 0)
        return 0;
    n = shp_api.tokenize(context->vocab, text, 1 + n, found, MOST_TOKENS, false, false);
    while (first < n && !(shp_api.token_to_piece(context->vocab, found[first], piece, 1, 0, false) == 1
                          && piece[0] == NEWLINE))
        first++;
    n = n - first - 1;
    if (n <= 0 || most <= 0)
        return 0;
    n = n < most ? n : most;
    memcpy(tokens, found + first + 1, (size_t)n * sizeof *tokens);
    return n;
}

/* Forced text: the grammar is asked which single characters may come. While there is only one, a copy of the grammar
   takes it. The text is then tokenised as the model would likely write it; whether it does is checked like any draft.
   Where anything may come, as inside a string, this is seen by two characters; elsewhere 256 are checked. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* CLOCK_THREAD_CPUTIME_ID */
#endif
#include "forced.h"

#include <math.h>
#include <string.h>

#include "sync.h"

enum { MOST_TOKENS = SHP_MOST_FORCED + 8, NEWLINE = '\n', NOTHING = -1 };
/* A grammar that allows more characters than the beginning of any JSON value leaves more open than a blank. */
enum { MOST_OPEN = 20 };
/* An ambiguous grammar takes twice as long for each character. */
static const int64_t MOST_NS = 1000000;

void shp_letters_fill(shp_letters *letters, const shp_context *context) {
    char piece[2];
    if (letters->is_filled)
        return;
    memset(letters->ids, -1, sizeof letters->ids);
    for (int32_t i = 0; i < context->n_vocab; i++)
        if (shp_api.token_to_piece(context->vocab, i, piece, 1, 0, false) == 1
            && letters->ids[(unsigned char)piece[0]] < 0)
            letters->ids[(unsigned char)piece[0]] = i;
    letters->is_filled = 1;
}

/* Which of these bytes may come next: they are written to `found`; how many. */
static int32_t allowed(void *grammar, const shp_letters *letters, const uint8_t *bytes, int32_t n, uint8_t *found) {
    shp_llama_token_data data[256];
    int32_t n_data = 0, n_found = 0;
    for (int32_t i = 0; i < n; i++)
        if (letters->ids[bytes[i]] >= 0)
            data[n_data++] = (shp_llama_token_data){letters->ids[bytes[i]], (float)bytes[i], 0};
    shp_llama_token_data_array all = {data, (size_t)n_data, -1, false};
    shp_api.sampler_apply(grammar, &all);
    for (size_t i = 0; i < all.size; i++)
        if (all.data[i].logit != -INFINITY)
            found[n_found++] = (uint8_t)all.data[i].logit;
    return n_found;
}

/* The byte that comes next, if it is ASCII, else NOTHING. `has_blank`: a blank, where it may come. */
static int next_byte(void *grammar, const shp_letters *letters, int has_blank) {
    static const uint8_t anything[2] = {'a', '~'};
    uint8_t every[256], found[256];
    if (allowed(grammar, letters, anything, 2, found) == 2)
        return NOTHING;
    for (int byte = 0; byte < 256; byte++)
        every[byte] = (uint8_t)byte;
    int32_t n = allowed(grammar, letters, every, 256, found);
    if (n == 1)
        return found[0] < 128 ? found[0] : NOTHING;
    const uint8_t *blank = n <= MOST_OPEN ? memchr(found, ' ', (size_t)n) : NULL;
    if (!blank)
        return NOTHING;
    if (has_blank)
        return ' ';
    int other = found[blank == found ? 1 : 0];
    return n == 2 && other < 128 ? other : NOTHING;
}

int32_t shp_forced_text(void *grammar, const shp_letters *letters, const uint8_t *blanks, int before, char *text) {
    int32_t n = 0;
    int64_t until = shp_thread_clock_ns() + MOST_NS;
    int byte = next_byte(grammar, letters, before >= 0 && before < 128 && blanks[before]);
    if (byte == NOTHING)
        return 0;
    void *copy = shp_api.sampler_clone(grammar);
    while (copy && byte != NOTHING && n < SHP_MOST_FORCED && shp_thread_clock_ns() < until) {
        text[n++] = (char)byte;
        shp_api.sampler_accept(copy, letters->ids[byte]);
        byte = next_byte(copy, letters, blanks[byte]);
    }
    if (copy)
        shp_api.sampler_free(copy);
    return n;
}

int32_t shp_tokens_within(const shp_context *context, const char *text, int32_t length, int32_t *tokens,
                          int32_t capacity) {
    char line[1 + SHP_MOST_FORCED], piece[2];
    int32_t found[MOST_TOKENS], first = 0;
    if (length < 1 || length > SHP_MOST_FORCED)
        return -1;
    /* SentencePiece writes a blank before a text, but not behind a line feed. */
    line[0] = NEWLINE;
    memcpy(line + 1, text, (size_t)length);
    int32_t n = shp_api.tokenize(context->vocab, line, 1 + length, found, MOST_TOKENS, false, false);
    while (first < n && !(shp_api.token_to_piece(context->vocab, found[first], piece, 1, 0, false) == 1
                          && piece[0] == NEWLINE))
        first++;
    n = n - first - 1;
    if (n <= 0)
        return -1;
    n = n < capacity ? n : capacity;
    memcpy(tokens, found + first + 1, (size_t)n * sizeof *tokens);
    return n;
}

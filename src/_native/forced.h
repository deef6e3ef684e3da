/* The text that a grammar leaves no choice about, such as the keys of a JSON object. */
#ifndef SHP_FORCED_H
#define SHP_FORCED_H

#include "sequence.h"

typedef struct {
    int32_t ids[256]; /* a token for each byte, or -1 */
    int is_filled;
} shp_letters;

enum { SHP_MOST_FORCED = 96 /* bytes */ };

void shp_letters_fill(shp_letters *letters, const shp_context *context);

/* The text that must come next, in ASCII, at most SHP_MOST_FORCED bytes; how many. The grammar is as before.
   Often a grammar allows a blank and does not ask for it: `blanks` says whether one follows each character then, of which
   `before` is the last one of the text, or -1. */
int32_t shp_forced_text(void *grammar, const shp_letters *letters, const uint8_t *blanks, int before, char *text);

/* The tokens of a text, at most `capacity`, as they would stand in the middle of a line; how many, -1 on failure. */
int32_t shp_tokens_within(const shp_context *context, const char *text, int32_t length, int32_t *tokens,
                          int32_t capacity);

#endif

/* The tokens that a grammar leaves no choice about, such as the keys of a JSON object. */
#ifndef SHP_FORCED_H
#define SHP_FORCED_H

#include "sequence.h"

typedef struct {
    int32_t ids[256]; /* a token for each byte, or -1 */
    int is_filled;
} shp_letters;

/* The next tokens, at most `most`, if the grammar allows a single character now; how many. The grammar is as before. */
int32_t shp_forced_tokens(void *grammar, const shp_context *context, shp_letters *letters, int32_t *tokens,
                          int32_t most);

#endif

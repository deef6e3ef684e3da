/* When a draft model is asked, and for how many candidates: seldom while it is wrong, and soon again once it is right.

   Before it has been right, it is on probation: it gets one candidate, which the next token tells right or wrong, and
   which no batch has to verify. After a wrong one, it is not asked for a while, twice as long each time. After two right
   ones, since one may be chance, it drafts for as long as that pays and not too many candidates in a row are wrong: at
   first a few candidates, and more with those that are right. */
#ifndef SHP_DRAFT_BACKOFF_H
#define SHP_DRAFT_BACKOFF_H

#include <stdint.h>

enum {
    SHP_FIRST_PAUSE = 16, /* tokens: what one candidate costs is 2 % of that */
    SHP_MOST_PAUSE = 1024,
    SHP_TRUSTED = 2,      /* right candidates that end probation */
    SHP_PROVEN = 16,      /* right candidates after which the next pause is short again */
    SHP_MOST_WRONG = 5,   /* wrong candidates in a row before a pause */
};

typedef struct {
    int32_t pause;   /* tokens of the next pause */
    int32_t n_left;  /* tokens of this one that are still to come */
    int32_t n_right; /* candidates since the last pause */
    int32_t n_wrong; /* candidates since the last right one */
    int32_t n_idle;  /* tokens for which a draft would not have paid */
} shp_draft_backoff;

static inline void shp_draft_backoff_begin(shp_draft_backoff *b) { *b = (shp_draft_backoff){SHP_FIRST_PAUSE, 0, 0, 0, 0}; }

/* Whether it is asked before the next tokens, of which there are n at least. */
static inline int shp_draft_backoff_asks(shp_draft_backoff *b, int32_t n) {
    int is_asked = b->n_left <= 0;
    b->n_left -= is_asked ? 0 : n;
    return is_asked;
}

static inline int shp_draft_backoff_is_on_probation(const shp_draft_backoff *b) { return b->n_right < SHP_TRUSTED; }

/* Candidates of a draft at most. */
static inline int32_t shp_draft_backoff_most(const shp_draft_backoff *b) { return 2 * b->n_right - 1; }

static inline void shp_draft_backoff_pause(shp_draft_backoff *b, int32_t n) {
    b->n_left = n;
    b->n_right = b->n_wrong = b->n_idle = 0;
    b->pause = b->pause < SHP_MOST_PAUSE / 2 ? 2 * b->pause : SHP_MOST_PAUSE;
}

/* A draft would not pay before the next n tokens: it is not asked, and after as many as in a pause on probation. */
static inline void shp_draft_backoff_rest(shp_draft_backoff *b, int32_t n) {
    b->n_idle += n;
    if (b->n_idle >= b->pause)
        shp_draft_backoff_pause(b, 0);
}

/* A candidate was right or not. 1: it has just proved itself. */
static inline int shp_draft_backoff_learn(shp_draft_backoff *b, int is_right) {
    if (b->n_left > 0) /* of a draft from before the pause */
        return 0;
    b->n_idle = 0;
    b->n_wrong = is_right ? 0 : b->n_wrong + 1;
    if (!is_right) {
        if (shp_draft_backoff_is_on_probation(b) || b->n_wrong >= SHP_MOST_WRONG)
            shp_draft_backoff_pause(b, b->pause);
        return 0;
    }
    b->n_right += b->n_right < SHP_PROVEN;
    if (b->n_right == SHP_PROVEN)
        b->pause = SHP_FIRST_PAUSE;
    return b->n_right == SHP_TRUSTED;
}

#endif

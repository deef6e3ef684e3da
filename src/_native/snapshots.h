/* Saved states of sequences in RAM: checkpoints to rewind to, and parked (swapped out) sequences. */
#ifndef SHP_SNAPSHOTS_H
#define SHP_SNAPSHOTS_H

#include "sequence.h"

typedef struct {
    int32_t *ids; /* tokens of the sequence; owned, as the next */
    int32_t n;
    uint8_t *data; /* llama.cpp's own format */
    size_t size;
    uint32_t flags; /* SHP_STATE_PARTIAL: a checkpoint; SHP_STATE_WHOLE: a parked sequence */
    int64_t used_at;
} shp_snapshot;

typedef struct {
    shp_snapshot *items;
    size_t count, capacity;
    size_t bytes, budget;
    int64_t clock;
} shp_snapshots;

void shp_snapshots_init(shp_snapshots *store, size_t budget);
void shp_snapshots_free(shp_snapshots *store);

int shp_snapshots_save(shp_snapshots *store, const shp_sequence *s, uint32_t flags); /* 1: saved */
int shp_snapshots_adopt(shp_snapshots *store, const int32_t *ids, int32_t n, const uint8_t *data, size_t size,
                        uint32_t flags);
void shp_snapshots_drop(shp_snapshots *store, size_t i);
void shp_snapshots_touch(shp_snapshots *store, const int32_t *ids, int32_t n);

/* The longest checkpoint that is a prefix of these ids, at most `most` long; -1 without one. */
long shp_snapshots_checkpoint(const shp_snapshots *store, const int32_t *ids, int32_t most);
/* The parked sequence with the longest common prefix, and that length; -1 without one. */
long shp_snapshots_parked(const shp_snapshots *store, const int32_t *ids, int32_t n, int is_state, int32_t *common);

int shp_snapshots_restore(shp_snapshots *store, size_t i, shp_sequence *s); /* 0: s is empty */

/* Restore the newest checkpoint of at most n tokens, or empty the sequence; returns the tokens left. */
int32_t shp_snapshots_back(shp_snapshots *store, shp_sequence *s, int32_t n);

/* Rewind to at most n tokens: cut, or restore a checkpoint, or empty the sequence; returns the tokens left. */
int32_t shp_snapshots_rewind(shp_snapshots *store, shp_sequence *s, int32_t n);

#endif

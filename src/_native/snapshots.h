/* Saved states of sequences in RAM: checkpoints to rewind to, and parked (swapped out) sequences. */
#ifndef SHP_SNAPSHOTS_H
#define SHP_SNAPSHOTS_H

#include "sequence.h"
#include "sync.h"

/* Of a parked sequence that has an owner: whether it is on disk. */
typedef enum { SHP_NOT_WRITTEN = 0, SHP_IN_WRITING, SHP_WRITTEN } shp_on_disk;

typedef struct {
    int32_t *ids; /* tokens of the sequence; owned, as the next */
    int32_t n;
    uint8_t *data; /* llama.cpp's own format */
    size_t size;
    uint32_t flags; /* SHP_STATE_PARTIAL: a checkpoint; SHP_STATE_WHOLE: a parked sequence */
    int64_t used_at;
    shp_belonging belonging; /* owner 0: it is never written */
    shp_on_disk on_disk;
    int is_wanted;           /* read for a job that is not placed yet: not to be evicted */
    int32_t *n_holders; /* the store, and a thread that writes it; the last one frees it */
} shp_snapshot;

typedef struct {
    shp_snapshot *items;
    size_t count, capacity;
    size_t bytes, budget;
    int64_t clock;
    int writes;          /* parked sequences that have an owner are to be written */
    int32_t n_unwritten; /* of those in the store, and the staged one */
    int64_t n_lost;      /* evicted before they were written */
    shp_snapshot staged; /* a copy of a sequence that is to be written; no data: none */
    /* Held by the engine thread while it changes items, by the writing thread while it reads them. */
    shp_mutex mutex;
} shp_snapshots;

enum { SHP_MOST_WRITTEN = 9 }; /* one parked sequence and its checkpoints */

int shp_snapshots_init(shp_snapshots *store, size_t budget); /* 0: done */
void shp_snapshots_clear(shp_snapshots *store);
void shp_snapshots_free(shp_snapshots *store);

int shp_snapshots_save(shp_snapshots *store, const shp_sequence *s, uint32_t flags); /* 1: saved */
void shp_snapshots_drop(shp_snapshots *store, size_t i);
void shp_snapshots_touch(shp_snapshots *store, const int32_t *ids, int32_t n);

/* The longest checkpoint that is a prefix of these ids, at most `most` long; -1 without one. */
long shp_snapshots_checkpoint(const shp_snapshots *store, const int32_t *ids, int32_t most);
/* The parked sequence with the longest common prefix, and that length; -1 without one. */
long shp_snapshots_parked(const shp_snapshots *store, const int32_t *ids, int32_t n, int is_state, int32_t *common);

int shp_snapshots_restore(shp_snapshots *store, size_t i, shp_sequence *s); /* 0: s is empty */

/* Memory of a state, for a snapshot to own. */
uint8_t *shp_snapshots_new_data(size_t size);
void shp_snapshots_free_data(uint8_t *data, size_t size);

/* Add a snapshot that was read from a file, and that a job wants. It takes the data over, or frees it. */
int shp_snapshots_add_read(shp_snapshots *store, const int32_t *ids, int32_t n, uint8_t *data, size_t size,
                           uint32_t flags, shp_belonging belonging);

/* The job for which snapshots were read has its place. */
void shp_snapshots_want_none(shp_snapshots *store);

/* Copy the state of an idle sequence, to be written; 0: it cannot, or another one is staged. */
int shp_snapshots_stage(shp_snapshots *store, shp_sequence *s);
int shp_snapshots_has_staged(shp_snapshots *store);
/* 1: the sequence may be staged, as it has an owner and has run since it was staged last. */
int shp_snapshots_can_stage(const shp_snapshots *store, const shp_sequence *s);

/* From any thread: take what is to be written next, a parked sequence and then its checkpoints, the longest first;
   returns how many. Give all back, and say whether they were written. */
int32_t shp_snapshots_take_unwritten(shp_snapshots *store, shp_snapshot out[SHP_MOST_WRITTEN]);
void shp_snapshots_give_back(shp_snapshots *store, const shp_snapshot *taken, int32_t n);
int32_t shp_snapshots_count_unwritten(shp_snapshots *store);

/* Restore the newest checkpoint of at most n tokens, or empty the sequence; returns the tokens left. */
int32_t shp_snapshots_back(shp_snapshots *store, shp_sequence *s, int32_t n);

/* Rewind to at most n tokens: cut, or restore a checkpoint, or empty the sequence; returns the tokens left. */
int32_t shp_snapshots_rewind(shp_snapshots *store, shp_sequence *s, int32_t n);

#endif

/* The slots of a context: which sequence a prompt continues, and how much of the KV cache it reuses. */
#ifndef SHP_SLOTS_H
#define SHP_SLOTS_H

#include "scheduler.h"

typedef struct {
    shp_slot *items;
    int32_t n;
    int32_t n_cells; /* of the cache, for all sequences together */
    shp_snapshots *snapshots;
    shp_edit edit;
    int64_t clock;
} shp_slots;

/* Choose an idle slot for a prompt. Its sequence is cut to the prefix that it shares with the prompt (always less than
   the whole prompt), after a longer prefix was copied from another slot or restored from a parked sequence, if there is
   one. NULL: no slot is idle, or the prompt's conversation is parked and has no room until another job ends.
   `n_shared_head`: leading tokens of the prompt that unrelated conversations share. */
shp_slot *shp_slots_place(shp_slots *slots, const int32_t *prompt, int32_t n_prompt, int32_t n_shared_head);

/* Cut the sequence to the prompt again, after the cache has lost a part of it. */
void shp_slots_realign(shp_slots *slots, shp_slot *slot, const int32_t *prompt, int32_t n_prompt);

/* Find a slot in prefill whose prompt shares a prefix with this one's, to wait for instead of computing it twice; sets
   prefix_source (-1: none) and n_prefix. */
void shp_slots_find_prefix_source(shp_slots *slots, shp_slot *slot);
/* 1: the prefix source has not prefilled all of the shared prefix. 0: the slot prefills itself after what it copied. */
int shp_slots_awaits_prefix(shp_slots *slots, shp_slot *slot);

/* How many tokens of a prompt the slots and the parked sequences have. */
int32_t shp_slots_held(const shp_slots *slots, const int32_t *prompt, int32_t n_prompt);

/* Park and empty the least recently used idle sequence; 0 when all idle ones are empty. */
int shp_slots_evict(shp_slots *slots);

#endif

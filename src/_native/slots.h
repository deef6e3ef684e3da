/* Where a prompt goes: the slots of a context, and what of their tokens can be kept. */
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

/* The idle slot for a prompt, its sequence cut to what it has in common with it (less than all of it), the rest
   fetched from another slot or from what is parked where that has more. NULL: none is idle, or what is parked of it
   has no room until another run ends. `n_head`: how many of its tokens conversations of other people begin with as
   well. */
shp_slot *shp_slots_place(shp_slots *slots, const int32_t *prompt, int32_t n_prompt, int32_t n_head);

/* Bring the sequence in line with the prompt once more, after the cache has lost a part of it. */
void shp_slots_realign(shp_slots *slots, shp_slot *slot, const int32_t *prompt, int32_t n_prompt);

/* Another slot that reads now what this one's prompt needs as well: wait for it (leader, n_led), if there is one. */
void shp_slots_follow(shp_slots *slots, shp_slot *slot);
/* 1: its leader is still at it. 0: it reads by itself from here, with what the leader had for it. */
int shp_slots_is_led(shp_slots *slots, shp_slot *slot);

/* Park and empty the idle sequence that was used longest ago; 0 when all are empty or at work. */
int shp_slots_evict(shp_slots *slots);

#endif

/* A count of the runs that go first, and a condition for those that wait until it is zero.

   The count is looked at without the mutex between the nodes of a graph, thousands of times a second, and is
   changed twice per run: a late look costs the other side one node's time, never its place. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_condattr_setclock */
#endif
#include "gate.h"

#include <stdlib.h>

#include "sync.h"

struct shp_gate {
    shp_mutex mutex;
    shp_condition changed;
    int holders; /* written under the mutex, read through shp_flag_get */
};

shp_gate *shp_gate_new(void) {
    shp_gate *gate = calloc(1, sizeof *gate);
    if (!gate)
        return NULL;
    if (shp_mutex_init(&gate->mutex) != 0) {
        free(gate);
        return NULL;
    }
    if (shp_condition_init(&gate->changed) != 0) {
        shp_mutex_destroy(&gate->mutex);
        free(gate);
        return NULL;
    }
    return gate;
}

void shp_gate_free(shp_gate *gate) {
    if (!gate)
        return;
    shp_condition_destroy(&gate->changed);
    shp_mutex_destroy(&gate->mutex);
    free(gate);
}

static void change(shp_gate *gate, int difference) {
    shp_mutex_lock(&gate->mutex);
    shp_flag_set(&gate->holders, gate->holders + difference);
    if (gate->holders == 0)
        shp_condition_broadcast(&gate->changed);
    shp_mutex_unlock(&gate->mutex);
}

void shp_gate_enter(shp_gate *gate) { change(gate, 1); }

void shp_gate_leave(shp_gate *gate) { change(gate, -1); }

int shp_gate_is_taken(const shp_gate *gate) { return shp_flag_get(&gate->holders) != 0; }

int shp_gate_wait(shp_gate *gate, int timeout_ms) {
    shp_mutex_lock(&gate->mutex);
    if (gate->holders != 0)
        shp_condition_wait_ms(&gate->changed, &gate->mutex, timeout_ms);
    int is_free = gate->holders == 0;
    shp_mutex_unlock(&gate->mutex);
    return is_free;
}

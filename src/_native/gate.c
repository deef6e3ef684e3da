/* A count of the runs that go first, and a condition for those that wait until it is zero, or until they are let in.

   The count is looked at without the mutex between the nodes of a graph, thousands of times a second, and is
   changed twice per run: a late look costs the other side one node's time, never its place.

   Who may not wait for ever asks for a turn, and the thread of those who go first stands still between two of its steps
   for the length of that turn. The two never compute at once: threads of two graphs on the same cores wait for each
   other at every node, and both would take many times as long. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_condattr_setclock */
#endif
#include "gate.h"

#include <stdlib.h>

#include "sync.h"

struct shp_gate {
    shp_mutex mutex;
    shp_condition changed;
    int holders; /* written under the mutex, read through shp_flag_get, as the next */
    int asking;  /* how many wait for a turn, each inside shp_gate_ask */
    enum { NOT_LENT, OFFERED, LENT } turn;
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

int shp_gate_ask(shp_gate *gate, int timeout_ms) {
    shp_mutex_lock(&gate->mutex);
    int64_t until = shp_clock_ns() + (int64_t)timeout_ms * 1000000;
    shp_flag_set(&gate->asking, gate->asking + 1);
    while (gate->holders != 0 && gate->turn != OFFERED) {
        int64_t left_ms = (until - shp_clock_ns() + 999999) / 1000000;
        if (left_ms <= 0)
            break;
        shp_condition_wait_ms(&gate->changed, &gate->mutex, (int)left_ms);
    }
    /* What is offered is waited for: it is taken, however late. */
    int is_lent = gate->turn == OFFERED;
    if (is_lent)
        gate->turn = LENT;
    shp_flag_set(&gate->asking, gate->asking - 1);
    shp_mutex_unlock(&gate->mutex);
    return is_lent;
}

void shp_gate_give_back(shp_gate *gate) {
    shp_mutex_lock(&gate->mutex);
    gate->turn = NOT_LENT;
    shp_condition_broadcast(&gate->changed);
    shp_mutex_unlock(&gate->mutex);
}

void shp_gate_let_in(shp_gate *gate) {
    if (!shp_flag_get(&gate->asking))
        return;
    shp_mutex_lock(&gate->mutex);
    if (gate->asking > 0) {
        gate->turn = OFFERED;
        shp_condition_broadcast(&gate->changed);
    }
    while (gate->turn != NOT_LENT)
        shp_condition_wait_ms(&gate->changed, &gate->mutex, -1);
    shp_mutex_unlock(&gate->mutex);
}

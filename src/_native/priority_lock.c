/* A count of the foreground runs, and a condition for background engines that wait for it to reach zero or for a slice.

   The count is read without the mutex between the nodes of a graph, thousands of times a second, and written twice per
   run. A stale read costs the foreground engine the time of one node, never its priority.

   A background engine requests a time slice so that it does not starve, and the foreground engine's thread blocks
   between two of its steps for the length of that slice. The two never compute at once: the threads of two graphs on the same cores
   wait for each other at every node, and both would take many times as long. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_condattr_setclock */
#endif
#include "priority_lock.h"

#include <stdlib.h>

#include "sync.h"

struct shp_priority_lock {
    shp_mutex mutex;
    shp_condition changed;
    int n_holders;  /* foreground runs; written under the mutex, read through shp_flag_get, as the next */
    int n_requests; /* calls of shp_priority_lock_request_slice that wait */
    enum { NO_SLICE, SLICE_GRANTED, SLICE_RUNNING } slice;
};

shp_priority_lock *shp_priority_lock_new(void) {
    shp_priority_lock *lock = calloc(1, sizeof *lock);
    if (!lock)
        return NULL;
    if (shp_mutex_init(&lock->mutex) != 0) {
        free(lock);
        return NULL;
    }
    if (shp_condition_init(&lock->changed) != 0) {
        shp_mutex_destroy(&lock->mutex);
        free(lock);
        return NULL;
    }
    return lock;
}

void shp_priority_lock_free(shp_priority_lock *lock) {
    if (!lock)
        return;
    shp_condition_destroy(&lock->changed);
    shp_mutex_destroy(&lock->mutex);
    free(lock);
}

static void add_holders(shp_priority_lock *lock, int difference) {
    shp_mutex_lock(&lock->mutex);
    shp_flag_set(&lock->n_holders, lock->n_holders + difference);
    if (lock->n_holders == 0)
        shp_condition_broadcast(&lock->changed);
    shp_mutex_unlock(&lock->mutex);
}

void shp_priority_lock_acquire(shp_priority_lock *lock) { add_holders(lock, 1); }

void shp_priority_lock_release(shp_priority_lock *lock) { add_holders(lock, -1); }

int shp_priority_lock_is_held(const shp_priority_lock *lock) { return shp_flag_get(&lock->n_holders) != 0; }

int shp_priority_lock_wait(shp_priority_lock *lock, int timeout_ms) {
    shp_mutex_lock(&lock->mutex);
    if (lock->n_holders != 0)
        shp_condition_wait_ms(&lock->changed, &lock->mutex, timeout_ms);
    int is_free = lock->n_holders == 0;
    shp_mutex_unlock(&lock->mutex);
    return is_free;
}

int shp_priority_lock_request_slice(shp_priority_lock *lock, int timeout_ms) {
    shp_mutex_lock(&lock->mutex);
    int64_t until = shp_clock_ns() + (int64_t)timeout_ms * 1000000;
    shp_flag_set(&lock->n_requests, lock->n_requests + 1);
    while (lock->n_holders != 0 && lock->slice != SLICE_GRANTED) {
        int64_t left_ms = (until - shp_clock_ns() + 999999) / 1000000;
        if (left_ms <= 0)
            break;
        shp_condition_wait_ms(&lock->changed, &lock->mutex, (int)left_ms);
    }
    /* A granted slice is always taken, even after the timeout: the foreground engine waits for its end. */
    int is_granted = lock->slice == SLICE_GRANTED;
    if (is_granted)
        lock->slice = SLICE_RUNNING;
    shp_flag_set(&lock->n_requests, lock->n_requests - 1);
    shp_mutex_unlock(&lock->mutex);
    return is_granted;
}

void shp_priority_lock_end_slice(shp_priority_lock *lock) {
    shp_mutex_lock(&lock->mutex);
    lock->slice = NO_SLICE;
    shp_condition_broadcast(&lock->changed);
    shp_mutex_unlock(&lock->mutex);
}

void shp_priority_lock_grant_slice(shp_priority_lock *lock) {
    if (!shp_flag_get(&lock->n_requests))
        return;
    shp_mutex_lock(&lock->mutex);
    if (lock->n_requests > 0 && lock->slice == NO_SLICE) { /* several foreground engines may share the lock */
        lock->slice = SLICE_GRANTED;
        shp_condition_broadcast(&lock->changed);
    }
    while (lock->slice != NO_SLICE)
        shp_condition_wait_ms(&lock->changed, &lock->mutex, -1);
    shp_mutex_unlock(&lock->mutex);
}

/* Conversations on disk. The engine thread never waits for a file:

   - Writing: when there has been no job for IDLE_MS, it copies the state of each idle sequence that has an owner, one
     at a time, and a thread of its own writes the copy. Parked sequences are written from where they are. What is evicted
     before it was written is lost, so those on disk are evicted first.
   - Reading: a prompt is submitted with the number of a file that has a longer part of it than the slots may have. If
     they do not, the job is set aside until another thread has read the file, and what was read becomes a parked
     sequence. Other jobs run meanwhile.

   A message that comes while a state is copied waits for the copy: one memcpy of the state. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_condattr_setclock */
#endif
#include "keeping.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler_parts.h"

enum {
    IDLE_MS = 200,   /* longer than a client needs that sends the results of tools */
    LEAST_GAIN = 32, /* reading fewer tokens from a file costs more than computing them */
};

/* The idle sequence to stage next, the least recently used first; NULL: none. */
static shp_sequence *next_to_stage(const shp_scheduler *s) {
    shp_sequence *next = NULL;
    for (int32_t i = 0; i < s->slots.n; i++) {
        shp_slot *slot = &s->slots.items[i];
        if (!slot->job && shp_snapshots_can_stage(&s->snapshots, &slot->sequence)
            && (!next || slot->sequence.used_at < next->used_at))
            next = &slot->sequence;
    }
    return next;
}

/* ---- the engine thread */

int shp_keeping_wait_ms(shp_scheduler *s) {
    /* What is staged is written first; the thread that has written it signals the change. */
    if (s->n_jobs > 0 || s->is_closed || shp_snapshots_has_staged(&s->snapshots) || !next_to_stage(s))
        return -1;
    int64_t left_ms = IDLE_MS - (shp_now_ns() - s->idle_since_ns) / 1000000;
    return left_ms > 0 ? (int)left_ms : 0;
}

void shp_keeping_stage(shp_scheduler *s) {
    shp_sequence *sequence = next_to_stage(s);
    s->is_staging = 1;
    shp_mutex_unlock(&s->mutex);
    if (sequence)
        shp_snapshots_stage(&s->snapshots, sequence);
    shp_mutex_lock(&s->mutex);
    s->is_staging = 0;
    shp_condition_broadcast(&s->changed);
}

int shp_keeping_read_first(shp_scheduler *s, shp_job *job) {
    /* The whole sequence, which is first, comes last: it is then the last one to be evicted. */
    for (int32_t i = job->n_read; i-- > 0;) {
        const shp_snapshot *item = &job->read[i];
        shp_snapshots_add_read(&s->snapshots, item->ids, item->n, item->data, item->size, item->flags,
                               job->belonging);
        free(item->ids);
    }
    job->n_read = 0;
    if (job->n_in_file == 0)
        return 0;
    int is_gain = job->n_in_file >= shp_slots_held(&s->slots, job->prompt, job->n_prompt) + LEAST_GAIN;
    if (!is_gain || shp_stream_is_cancelled(job->out)) {
        job->n_in_file = 0;
        return 0;
    }
    shp_mutex_lock(&s->mutex);
    if (shp_flag_get(&s->is_closed))
        shp_stream_cancel(job->out);
    shp_job **end = &s->in_files;
    while (*end)
        end = &(*end)->next;
    *end = job;
    job->next = NULL;
    s->n_in_files++;
    shp_condition_broadcast(&s->changed);
    shp_mutex_unlock(&s->mutex);
    return 1;
}

void shp_keeping_tell(shp_scheduler *s) {
    if (!s->snapshots.writes || shp_snapshots_count_unwritten(&s->snapshots) == 0)
        return;
    shp_mutex_lock(&s->mutex);
    shp_condition_broadcast(&s->changed);
    shp_mutex_unlock(&s->mutex);
}

/* ---- the threads that write and read */

static shp_job *unread(const shp_scheduler *s) {
    shp_job *job = s->in_files;
    while (job && job->is_being_read)
        job = job->next;
    return job;
}

static int has_work(shp_scheduler *s, int for_reads) {
    return for_reads ? unread(s) != NULL : shp_snapshots_count_unwritten(&s->snapshots) > 0;
}

int shp_keeping_wait(shp_scheduler *s, int for_reads, int timeout_ms) {
    shp_mutex_lock(&s->mutex);
    if (!has_work(s, for_reads))
        shp_condition_wait_ms(&s->changed, &s->mutex, timeout_ms);
    int found = has_work(s, for_reads);
    shp_mutex_unlock(&s->mutex);
    return found;
}

void shp_keeping_wake(shp_scheduler *s) {
    shp_mutex_lock(&s->mutex);
    shp_condition_broadcast(&s->changed);
    shp_mutex_unlock(&s->mutex);
}

shp_job *shp_keeping_next_read(shp_scheduler *s) {
    shp_mutex_lock(&s->mutex);
    shp_job *job = unread(s);
    if (job)
        job->is_being_read = 1;
    shp_mutex_unlock(&s->mutex);
    return job;
}

void shp_keeping_was_read(shp_scheduler *s, shp_job *job, const shp_snapshot *read, int32_t n) {
    shp_mutex_lock(&s->mutex);
    shp_job **at = &s->in_files;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    s->n_in_files--;
    if (n > 0)
        memcpy(job->read, read, (size_t)n * sizeof *read);
    job->n_read = n;
    job->n_in_file = 0;
    shp_job_enqueue(s, job, 1);
    shp_condition_broadcast(&s->changed);
    shp_mutex_unlock(&s->mutex);
}

int32_t shp_keeping_take(shp_scheduler *s, shp_snapshot out[SHP_MOST_WRITTEN]) {
    return shp_snapshots_take_unwritten(&s->snapshots, out);
}

void shp_keeping_give_back(shp_scheduler *s, const shp_snapshot *taken, int32_t n) {
    shp_snapshots_give_back(&s->snapshots, taken, n);
    shp_keeping_wake(s); /* the next sequence may be staged */
}

int64_t shp_keeping_n_lost(const shp_scheduler *s) { return s->snapshots.n_lost; }

int shp_keeping_stage_one(shp_scheduler *s) {
    shp_sequence *sequence;
    while ((sequence = next_to_stage(s)))
        if (shp_snapshots_stage(&s->snapshots, sequence))
            return 1;
    return 0;
}

/* Jobs: the waiting queue, preemption, and the end of a job.

   Python's threads touch only the queue, the flag beside it and the streams. A job ends under the scheduler's mutex:
   a reader that sees the end of the stream finds the slot free, and a thread that waits for the idle scheduler finds
   the stream ended. Lock order: the scheduler's mutex, then the stream's. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_condattr_setclock */
#endif
#include <stdlib.h>
#include <string.h>

#include "scheduler_parts.h"

shp_job *shp_job_new(shp_stream *out, const int32_t *prompt, int32_t n_prompt) {
    shp_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->prompt = malloc((size_t)n_prompt * sizeof *prompt);
    if (!job->prompt) {
        free(job);
        return NULL;
    }
    memcpy(job->prompt, prompt, (size_t)n_prompt * sizeof *prompt);
    job->n_prompt = n_prompt;
    job->token = -1;
    job->out = out;
    shp_stream_hold(out);
    return job;
}

void shp_job_free(shp_job *job) {
    shp_ngrams_free(&job->earlier);
    for (int32_t i = 0; i < job->n_pictures; i++)
        shp_picture_free(job->pictures[i].picture);
    free(job->pictures);
    shp_stream_free(job->out);
    for (int32_t i = 0; i < job->n_read; i++) {
        free(job->read[i].ids);
        shp_snapshots_free_data(job->read[i].data, job->read[i].size);
    }
    free(job->prompt);
    free(job);
}

void shp_job_enqueue(shp_scheduler *s, shp_job *job, int at_front) {
    shp_job **at = &s->waiting;
    /* All foreground jobs come before all background jobs; within its kind, at the back or at the front. */
    while (*at && ((*at)->is_background < job->is_background
                   || (!at_front && (*at)->is_background == job->is_background)))
        at = &(*at)->next;
    job->next = *at;
    *at = job;
    shp_flag_set(&s->has_waiting, 1);
}

int shp_scheduler_submit(shp_scheduler *s, shp_job *job, int may_wait) {
    shp_mutex_lock(&s->mutex);
    int result = s->is_closed ? -1 : may_wait || s->n_jobs < s->slots.n;
    if (result == 1) {
        job->started_ns = shp_now_ns();
        job->sampling.candidates = &s->candidates;
        shp_job_enqueue(s, job, 0);
        s->n_jobs++;
        if (s->priority_lock && !job->is_background)
            shp_priority_lock_acquire(s->priority_lock);
        shp_condition_broadcast(&s->changed);
    }
    shp_mutex_unlock(&s->mutex);
    return result;
}

void shp_scheduler_close(shp_scheduler *s) {
    shp_mutex_lock(&s->mutex);
    shp_flag_set(&s->is_closed, 1);
    for (shp_job *job = s->waiting; job; job = job->next)
        shp_stream_cancel(job->out);
    for (shp_job *job = s->in_files; job; job = job->next)
        shp_stream_cancel(job->out);
    for (int32_t i = 0; i < s->slots.n; i++)
        if (s->slots.items[i].job)
            shp_stream_cancel(s->slots.items[i].job->out);
    shp_condition_broadcast(&s->changed);
    shp_mutex_unlock(&s->mutex);
}

int shp_scheduler_wait_idle(shp_scheduler *s, int timeout_ms) {
    int64_t until = shp_now_ns() + (int64_t)timeout_ms * 1000000;
    shp_mutex_lock(&s->mutex);
    /* The condition is also signalled for other changes. */
    while ((s->n_jobs > 0 || s->is_staging) && timeout_ms != 0) {
        int64_t left_ms = (until - shp_now_ns() + 999999) / 1000000;
        if (timeout_ms > 0 && left_ms <= 0)
            break;
        shp_condition_wait_ms(&s->changed, &s->mutex, timeout_ms < 0 ? -1 : (int)left_ms);
    }
    int is_idle = s->n_jobs == 0 && !s->is_staging;
    shp_mutex_unlock(&s->mutex);
    return is_idle;
}

/* ---- the engine thread ---- */

shp_job *shp_job_dequeue(shp_scheduler *s, int only_cancelled) {
    shp_mutex_lock(&s->mutex);
    shp_job **at = &s->waiting;
    while (only_cancelled && *at && !shp_stream_is_cancelled((*at)->out))
        at = &(*at)->next;
    shp_job *job = *at;
    if (job)
        *at = job->next;
    shp_flag_set(&s->has_waiting, s->waiting != NULL);
    shp_mutex_unlock(&s->mutex);
    return job;
}

/* End the job: free its slot, then tell the reader and any thread that waits for an idle scheduler. */
void shp_job_finish(shp_scheduler *s, shp_job *job, shp_slot *slot, shp_ending ending, int32_t code) {
    int64_t now = shp_now_ns();
    if (job->prefilled_ns)
        job->counts.decode_ns = now - job->prefilled_ns;
    else
        job->counts.prefill_ns = now - job->started_ns;
    job->counts.total_ns = now - job->started_ns;
    job->counts.model_ns = job->counts.prompt_tokens ? s->model_ns - job->model_before_ns : 0;
    job->counts.code = code;
    shp_mutex_lock(&s->mutex);
    if (slot) {
        slot->job = NULL;
        s->last_slot = (int32_t)(slot - s->slots.items);
    }
    s->n_jobs--;
    s->idle_since_ns = now;
    s->is_admission_paused = 0;
    if (s->priority_lock && !job->is_background)
        shp_priority_lock_release(s->priority_lock);
    shp_stream_end(job->out, ending, &job->counts);
    shp_condition_broadcast(&s->changed);
    shp_mutex_unlock(&s->mutex);
    shp_job_free(job);
}

void shp_job_count_prompt(shp_slot *slot) {
    shp_job *job = slot->job;
    int64_t decoded = slot->sequence.n - job->counts.reused_tokens;
    if (!job->is_resumed)
        job->counts.decoded_tokens = decoded > 0 ? decoded : 0;
}

void shp_job_end(shp_scheduler *s, shp_slot *slot, shp_ending ending, int32_t code) {
    if (!slot->is_decoding)
        shp_job_count_prompt(slot);
    shp_job_finish(s, slot->job, slot, ending, code);
}

/* Move a running job back to the front of the queue. If it was decoding, its prompt becomes the prompt and all tokens
   generated so far, the last of which is sampled but not yet in the cache. */
void shp_job_preempt(shp_scheduler *s, shp_slot *slot) {
    shp_job *job = slot->job;
    int32_t n = slot->sequence.n, more = job->token >= 0;
    if (slot->is_decoding) {
        int32_t *longer = realloc(job->prompt, ((size_t)n + 1) * sizeof *longer);
        if (!longer) {
            shp_job_end(s, slot, SHP_END_FAILED, SHP_CODE_NO_MEMORY);
            return;
        }
        memcpy(longer, slot->sequence.ids, (size_t)n * sizeof *longer);
        if (more)
            longer[n] = job->token;
        job->prompt = longer;
        job->n_prompt = n + more;
        job->token = -1;
        job->is_resumed = 1;
    }
    shp_mutex_lock(&s->mutex);
    slot->job = NULL;
    shp_job_enqueue(s, job, 1);
    shp_mutex_unlock(&s->mutex);
}

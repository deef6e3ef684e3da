/* Shared by scheduler.c, jobs.c, batch.c and drafting.c: the scheduler's state and their internal functions. */
#ifndef SHP_SCHEDULER_PARTS_H
#define SHP_SCHEDULER_PARTS_H

#include "draft_model.h"
#include "forced.h"
#include "scheduler.h"
#include "slots.h"
#include "sync.h"

struct shp_scheduler {
    shp_context context;
    shp_mutex mutex;
    shp_condition changed;
    shp_job *waiting; /* queue, in the order in which the jobs will run */
    int32_t n_jobs;   /* waiting, running, and in `in_files` */
    shp_job *in_files;   /* jobs whose conversation is being read from a file, in order */
    int32_t n_in_files;
    int is_staging;      /* the engine thread copies a state although there is no job */
    int64_t idle_since_ns;
    int has_waiting, is_closed; /* also read without the mutex, through shp_flag_get */

    shp_slots slots;
    shp_snapshots snapshots;
    shp_llama_batch batch; /* its arrays hold n_batch entries; owned */
    int32_t n_batch, n_chunk;
    const shp_picture *picture; /* the batch is a part of this picture, from its token n_seen on; NULL: it has ids */
    int32_t n_seen;
    int32_t *places;            /* positions of a picture's tokens for llama.cpp, 4 * n_batch; owned */
    shp_candidates candidates;
    int32_t prefill_limit;   /* prefill tokens of the next batch at most: divided by two while the cache has no room */
    int32_t next_prefill;    /* first slot of the next round robin of prefills */
    int32_t last_slot;       /* of the job that ended last */
    int64_t model_ns;        /* spent inside llama.cpp so far */
    int is_in_decode_call;   /* llama_decode runs with our batch; others may use the context as well */
    int has_decode;          /* the batch has tokens of decoding slots: it must not be aborted */
    shp_draft_mode draft;
    int is_on_cpu; /* see shp_schedule */
    shp_draft_model *draft_model; /* owned; NULL: none */
    shp_batch_costs costs;
    shp_letters letters;
    int32_t n_without_drafts; /* batches to come without drafts, since the cache had no room for one */
    int32_t n_drafted;        /* tokens of drafts in the current batch */
    int is_admission_paused; /* a job found no room in the cache: none is admitted until one ends */
    shp_priority_lock *priority_lock, *yields_to; /* see shp_schedule */
    int has_slice;            /* we have a time slice of yields_to: the batch is small and must not be aborted */
    int64_t next_slice_ns;    /* the time before which no slice is requested */
    int64_t waiting_since_ns; /* start of the wait for yields_to; 0: not waiting */
};

/* keeping.c; the first under the mutex */
int shp_keeping_wait_ms(shp_scheduler *s); /* until the next sequence is to be staged; -1: none */
void shp_keeping_stage(shp_scheduler *s);
int shp_keeping_read_first(shp_scheduler *s, shp_job *job); /* 1: it waits for its file; else it may be placed */
void shp_keeping_tell(shp_scheduler *s);                    /* the thread that writes, if there is something new */

/* jobs.c */
void shp_job_enqueue(shp_scheduler *s, shp_job *job, int at_front); /* under the mutex */
shp_job *shp_job_dequeue(shp_scheduler *s, int only_cancelled);     /* the first of the queue; NULL: none */
void shp_job_finish(shp_scheduler *s, shp_job *job, shp_slot *slot, shp_ending ending, int32_t code); /* frees it */
void shp_job_end(shp_scheduler *s, shp_slot *slot, shp_ending ending, int32_t code); /* the slot's running job */
void shp_job_preempt(shp_scheduler *s, shp_slot *slot); /* back to the front of the queue */
void shp_job_count_prompt(shp_slot *slot);

/* batch.c */
void shp_batch_build(shp_scheduler *s);
void shp_batch_decode(shp_scheduler *s); /* decode, sample, end jobs, recover from failures */
bool shp_batch_is_aborted(void *scheduler); /* llama.cpp's abort callback */

/* drafting.c */
void shp_drafting_begin(shp_scheduler *s, shp_slot *slot); /* its job starts to generate */
void shp_drafting_choose(shp_scheduler *s, int has_foreground); /* the draft of each slot for the next batch */
int64_t shp_drafting_clock(const shp_scheduler *s); /* times of batches, in nanoseconds */
void shp_drafting_measure(shp_scheduler *s, int64_t ns); /* the batch has taken so long */

shp_slot *shp_scheduler_background_slot(shp_scheduler *s); /* a slot with a background job, or NULL */

#endif

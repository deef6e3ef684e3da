/* What the scheduler's files share: its state, and the ways of a job between them. */
#ifndef SHP_SCHEDULER_PARTS_H
#define SHP_SCHEDULER_PARTS_H

#include "scheduler.h"
#include "slots.h"
#include "sync.h"

struct shp_scheduler {
    shp_context context;
    shp_mutex mutex;
    shp_condition changed;
    shp_job *waiting; /* in the order in which they will run */
    int32_t n_jobs;   /* that wait or run */
    int has_waiting, is_closed; /* also read without the mutex, through shp_flag_get */

    shp_slots slots;
    shp_snapshots snapshots;
    shp_llama_batch batch; /* its arrays hold n_batch entries; owned */
    int32_t n_batch, n_chunk;
    int32_t limit;         /* prompt tokens of the next batch: halved while there is no room */
    int32_t turn;          /* the slot whose prompt goes first */
    int32_t last;
    int64_t model_ns;      /* spent inside llama.cpp since the beginning */
    int is_decoding;       /* our batch, and not what somebody else does with the context */
    int has_generating;    /* the batch has tokens of answers: it is not interrupted */
    int is_blocked;        /* a job waits for lack of room: none is admitted until one ends */
    shp_gate *gate, *before;
    int has_turn;          /* those who go first stand still for our batch: it is small, and not interrupted */
    int64_t turn_after_ns; /* no such turn is asked for before */
    int64_t waits_since_ns; /* 0: it does not */
};

/* jobs.c */
void shp_job_queue(shp_scheduler *s, shp_job *job, int at_front);      /* under the mutex */
shp_job *shp_job_take(shp_scheduler *s, int only_cancelled);           /* the first that waits; NULL: none */
void shp_job_finish(shp_scheduler *s, shp_job *job, shp_slot *slot, shp_ending ending, int32_t code);
void shp_job_end(shp_scheduler *s, shp_slot *slot, shp_ending ending, int32_t code);
void shp_job_put_back(shp_scheduler *s, shp_slot *slot);
void shp_job_count_prompt(shp_slot *slot);

/* batch.c */
void shp_batch_build(shp_scheduler *s);
void shp_batch_decode(shp_scheduler *s); /* and all that follows from it: samples, ends, repairs */
bool shp_batch_is_interrupted(void *scheduler);
shp_slot *shp_scheduler_background(shp_scheduler *s); /* a slot with a background job, or NULL */

#endif

/* Many conversations in one context: jobs wait for slots, and one thread decodes a batch of all of them at a time. */
#ifndef SHP_SCHEDULER_H
#define SHP_SCHEDULER_H

#include "gate.h"
#include "sampling.h"
#include "sequence.h"
#include "snapshots.h"
#include "stream.h"

enum { /* codes of a failed run, apart from those of llama_decode */
    SHP_CODE_NO_MEMORY = 1000,
    SHP_CODE_NO_LOGITS = 1001,
    SHP_CODE_NO_TOKEN = 1002,
    SHP_CODE_AMBIGUOUS = 1003,
};

enum { SHP_MOST_BOUNDARIES = 8, SHP_MOST_SLOTS = 64 };

/* One answer to make, from its submission to its end. */
typedef struct shp_job {
    struct shp_job *next;
    shp_stream *out;    /* held */
    int32_t *prompt;    /* n_prompt ids; owned */
    int32_t n_prompt;
    int32_t boundaries[SHP_MOST_BOUNDARIES]; /* lengths at which a checkpoint is worth while, ascending */
    int32_t n_boundaries;
    int32_t n_head;     /* of the prompt: what conversations of others begin with as well */
    int32_t max_tokens, n_penalty;
    shp_sampling sampling;
    int is_background;  /* pauses while another one runs */

    /* The engine thread's own. */
    shp_counters counts;
    int64_t started_ns, prefilled_ns, model_before_ns;
    int32_t token;      /* sampled and not decoded yet, or -1 */
    int is_resumed;     /* it was put back into the queue after it had begun to answer */
} shp_job;

typedef struct {
    shp_sequence sequence;
    shp_job *job;       /* NULL: idle. Written under the scheduler's mutex */
    int32_t n_batched;  /* its tokens in the batch that is decoded */
    int32_t first;      /* index of the first of them */
    int is_generating;  /* else it reads its prompt */
    int32_t leader;     /* the slot that reads what this prompt needs as well; -1: it reads by itself */
    int64_t leader_at;  /* used_at of that slot's sequence: another run has another */
    int32_t n_led;      /* tokens to take over from it */
} shp_slot;

typedef struct shp_scheduler shp_scheduler;

typedef struct {
    int32_t n_slots, n_chunk; /* n_chunk: prompt tokens of a batch */
    int32_t n_cells;          /* tokens that all sequences have together at most; one has n_window */
    size_t snapshot_bytes;    /* for checkpoints and parked sequences */
    shp_edit edit;
    shp_gate *gate;           /* held by runs that are not background; may be NULL, as the next */
    shp_gate *before;         /* while it is taken, nothing runs */
} shp_schedule;

shp_scheduler *shp_scheduler_new(const shp_context *context, const shp_schedule *schedule); /* NULL: no memory */
void shp_scheduler_free(shp_scheduler *s);

shp_job *shp_job_new(shp_stream *out, const int32_t *prompt, int32_t n_prompt); /* NULL: no memory */
void shp_job_free(shp_job *job);

/* 1: the job is the scheduler's now; 0: all slots are taken and it may not wait; -1: closed. */
int shp_scheduler_submit(shp_scheduler *s, shp_job *job, int may_wait);
void shp_scheduler_serve(shp_scheduler *s); /* on its own thread, until it is closed */
void shp_scheduler_close(shp_scheduler *s);
int shp_scheduler_wait_idle(shp_scheduler *s, int timeout_ms); /* 1: no job waits or runs */

/* Only while it is idle. */
void shp_scheduler_forget(shp_scheduler *s);
int shp_scheduler_park(shp_scheduler *s); /* copies of all sequences go to the snapshots; how many */
shp_slot *shp_scheduler_slot(shp_scheduler *s, int32_t i);
int32_t shp_scheduler_last(const shp_scheduler *s); /* the slot of the last run */
shp_snapshots *shp_scheduler_snapshots(shp_scheduler *s);

#endif

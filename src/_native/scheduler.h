/* Continuous batching of many sequences in one context: jobs wait in a queue for slots, and one thread decodes a batch
   for all running jobs at a time. */
#ifndef SHP_SCHEDULER_H
#define SHP_SCHEDULER_H

#include "draft_model.h"
#include "priority_lock.h"
#include "sampling.h"
#include "sequence.h"
#include "snapshots.h"
#include "stream.h"

enum { /* codes of failed runs, beside those of llama_decode */
    SHP_CODE_NO_MEMORY = 1000,
    SHP_CODE_NO_LOGITS = 1001,
    SHP_CODE_NO_TOKEN = 1002,
    SHP_CODE_AMBIGUOUS = 1003,
    SHP_CODE_NO_NUMBERS = 1004,
};

enum { SHP_MOST_BOUNDARIES = 8, SHP_MOST_SLOTS = 64 };

/* One answer, from its submission to its end: waiting in the queue, or running in a slot. */
typedef struct shp_job {
    struct shp_job *next; /* in the waiting queue */
    shp_stream *out;    /* one reference; released by shp_job_free */
    int32_t *prompt;    /* n_prompt ids; owned */
    int32_t n_prompt;
    int32_t boundaries[SHP_MOST_BOUNDARIES]; /* prompt lengths worth a checkpoint, ascending */
    int32_t n_boundaries;
    int32_t n_shared_head; /* leading tokens of the prompt that unrelated conversations share */
    int32_t max_tokens, n_penalty;
    shp_ngrams earlier; /* earlier answers to the same user, which this one may repeat; owned */
    shp_sampling sampling;
    shp_placed_picture *pictures; /* n_pictures, in order; owned, and each is held */
    int32_t n_pictures;
    int is_background;  /* pauses while a foreground job waits or runs */
    shp_belonging belonging;
    int64_t file;      /* the reader's number of a file with a state, and how many tokens of the prompt that has; */
    int32_t n_in_file; /* 0: there is none, or it was read */

    /* What was read from the file; used by whoever has the job. */
    shp_snapshot read[SHP_MOST_WRITTEN];
    int32_t n_read;
    int is_being_read;

    /* Used by the engine thread only. */
    shp_counters counts;
    int64_t started_ns, prefilled_ns, model_before_ns;
    int32_t token;      /* sampled and not decoded yet, or -1 */
    int is_resumed;     /* preempted while it was decoding: its prompt has the tokens generated so far */
} shp_job;

typedef struct {
    shp_sequence sequence;
    shp_job *job;       /* the running job; NULL: idle. Written under the scheduler's mutex */
    int32_t n_batched;  /* its tokens in the current batch */
    int32_t first;      /* index of the first of them */
    int is_decoding;    /* it generates; else it is in prefill */
    int32_t prefix_source;     /* slot in prefill whose prefix this prompt shares and waits for; -1: none */
    int64_t prefix_source_run; /* used_at of that slot's sequence, which differs for each run */
    int32_t n_prefix;          /* tokens of that prefix */
    shp_draft draft;           /* of the running job, while it generates; its batched tokens are the last n_batched */
} shp_slot;

typedef struct shp_scheduler shp_scheduler;

typedef struct {
    int32_t n_slots, n_chunk; /* n_chunk: tokens of a batch at most (n_ubatch) */
    int32_t n_cells;          /* capacity of the KV cache in tokens, for all sequences; one has at most n_window */
    size_t snapshot_bytes;    /* budget for checkpoints and parked sequences */
    int writes;               /* a thread writes and reads files, see keeping.h */
    shp_edit edit;
    shp_draft_mode draft;
    const shp_context *draft_context; /* of a model that drafts; copied; NULL: none */
    int32_t n_draft_chunk;
    int is_on_cpu; /* llama.cpp computes on this thread, at least a part */
    shp_priority_lock *priority_lock; /* held by foreground jobs; borrowed, may be NULL, as the next */
    shp_priority_lock *yields_to;     /* while it is held, no job runs outside a time slice */
} shp_schedule;

shp_scheduler *shp_scheduler_new(const shp_context *context, const shp_schedule *schedule); /* NULL: no memory */
void shp_scheduler_free(shp_scheduler *s);

shp_job *shp_job_new(shp_stream *out, const int32_t *prompt, int32_t n_prompt); /* NULL: no memory */
void shp_job_free(shp_job *job);

/* 1: queued, and owned by the scheduler; 0: all slots are busy and it may not wait; -1: closed. */
int shp_scheduler_submit(shp_scheduler *s, shp_job *job, int may_wait);
void shp_scheduler_serve(shp_scheduler *s); /* the engine thread: runs until the scheduler is closed */
void shp_scheduler_close(shp_scheduler *s);
int shp_scheduler_wait_idle(shp_scheduler *s, int timeout_ms); /* 1: no job is waiting or running */

/* The following only while the scheduler is idle. */
void shp_scheduler_forget(shp_scheduler *s); /* not while another thread has something to write */
int shp_scheduler_park(shp_scheduler *s); /* saves snapshots of all sequences; returns how many */
shp_slot *shp_scheduler_slot(shp_scheduler *s, int32_t i);
int32_t shp_scheduler_last_slot(const shp_scheduler *s); /* the slot of the last run */
shp_snapshots *shp_scheduler_snapshots(shp_scheduler *s);
shp_draft_model *shp_scheduler_draft_model(shp_scheduler *s); /* NULL: none */

#endif

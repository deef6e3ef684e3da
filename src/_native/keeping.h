/* Conversations on disk: what the scheduler and the thread that writes and reads files tell each other. */
#ifndef SHP_KEEPING_H
#define SHP_KEEPING_H

#include "scheduler.h"

/* Wait until there is a file to read, or a state to write; 0 after the timeout or once woken. */
int shp_keeping_wait(shp_scheduler *s, int for_reads, int timeout_ms);
void shp_keeping_wake(shp_scheduler *s);

/* The next job that waits for its file; NULL: none. */
shp_job *shp_keeping_next_read(shp_scheduler *s);
/* Give the job what was read of its file, if anything, and let it go on. The snapshots' memory is taken over. */
void shp_keeping_was_read(shp_scheduler *s, shp_job *job, const shp_snapshot *read, int32_t n);

/* Take what is to be written next, and give it back; see snapshots.h. */
int32_t shp_keeping_take(shp_scheduler *s, shp_snapshot out[SHP_MOST_WRITTEN]);
void shp_keeping_give_back(shp_scheduler *s, const shp_snapshot *taken, int32_t n);
int64_t shp_keeping_n_lost(const shp_scheduler *s);

/* Stage the next sequence, once the engine thread has ended; 0: there is none. */
int shp_keeping_stage_one(shp_scheduler *s);

#endif

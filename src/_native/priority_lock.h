/* A lock with two priorities for engines that share the same cores.

   The runs of a foreground engine hold the lock together: acquiring it never blocks. A background engine decodes only
   while it is free, or during a time slice that the foreground engine's thread grants between two of its steps. */
#ifndef SHP_PRIORITY_LOCK_H
#define SHP_PRIORITY_LOCK_H

typedef struct shp_priority_lock shp_priority_lock;

shp_priority_lock *shp_priority_lock_new(void); /* NULL: no memory */
void shp_priority_lock_free(shp_priority_lock *lock);

/* Foreground: once per run; several runs may hold the lock at a time. */
void shp_priority_lock_acquire(shp_priority_lock *lock);
void shp_priority_lock_release(shp_priority_lock *lock);
/* Foreground engine's thread, between two steps: blocks for the slice that a background engine requests, if any.
   Costs one load without a request. */
void shp_priority_lock_grant_slice(shp_priority_lock *lock);

/* Background. */
int shp_priority_lock_is_held(const shp_priority_lock *lock);          /* one load, for use between graph nodes */
int shp_priority_lock_wait(shp_priority_lock *lock, int timeout_ms);   /* 1: it is free */
int shp_priority_lock_request_slice(shp_priority_lock *lock, int timeout_ms); /* 1: granted, until end_slice */
void shp_priority_lock_end_slice(shp_priority_lock *lock);

#endif

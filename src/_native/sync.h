/* Mutex, condition, shared lock and clock on POSIX and Windows; nothing more than our own C needs. */
#ifndef SHP_SYNC_H
#define SHP_SYNC_H

#include <stdint.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

typedef CRITICAL_SECTION shp_mutex;
typedef CONDITION_VARIABLE shp_condition;

typedef SRWLOCK shp_rwlock;

static inline int shp_rwlock_init(shp_rwlock *l) { InitializeSRWLock(l); return 0; }
static inline void shp_rwlock_destroy(shp_rwlock *l) { (void)l; }
static inline int shp_rwlock_try_share(shp_rwlock *l) { return TryAcquireSRWLockShared(l) != 0; }
static inline void shp_rwlock_share(shp_rwlock *l) { AcquireSRWLockShared(l); }
static inline void shp_rwlock_unshare(shp_rwlock *l) { ReleaseSRWLockShared(l); }
static inline int shp_rwlock_try_own(shp_rwlock *l) { return TryAcquireSRWLockExclusive(l) != 0; }
static inline void shp_rwlock_own(shp_rwlock *l) { AcquireSRWLockExclusive(l); }
static inline void shp_rwlock_disown(shp_rwlock *l) { ReleaseSRWLockExclusive(l); }

static inline int shp_mutex_init(shp_mutex *m) { InitializeCriticalSection(m); return 0; }
static inline void shp_mutex_destroy(shp_mutex *m) { DeleteCriticalSection(m); }
static inline void shp_mutex_lock(shp_mutex *m) { EnterCriticalSection(m); }
static inline void shp_mutex_unlock(shp_mutex *m) { LeaveCriticalSection(m); }
static inline int shp_condition_init(shp_condition *c) { InitializeConditionVariable(c); return 0; }
static inline void shp_condition_destroy(shp_condition *c) { (void)c; }
static inline void shp_condition_broadcast(shp_condition *c) { WakeAllConditionVariable(c); }
static inline void shp_condition_wait_ms(shp_condition *c, shp_mutex *m, int timeout_ms) {
    SleepConditionVariableCS(c, m, timeout_ms < 0 ? INFINITE : (DWORD)timeout_ms);
}
static inline int64_t shp_clock_ns(void) {
    LARGE_INTEGER count, frequency;
    QueryPerformanceFrequency(&frequency);
    QueryPerformanceCounter(&count);
    /* Whole seconds first: count * 1e9 would overflow after 15 minutes at 10 MHz. */
    return count.QuadPart / frequency.QuadPart * 1000000000LL
         + count.QuadPart % frequency.QuadPart * 1000000000LL / frequency.QuadPart;
}
#else
#include <errno.h>
#include <pthread.h>
#include <time.h>

typedef pthread_mutex_t shp_mutex;
typedef pthread_cond_t shp_condition;

typedef pthread_rwlock_t shp_rwlock;

static inline int shp_rwlock_init(shp_rwlock *l) { return pthread_rwlock_init(l, 0); }
static inline void shp_rwlock_destroy(shp_rwlock *l) { pthread_rwlock_destroy(l); }
static inline int shp_rwlock_try_share(shp_rwlock *l) { return pthread_rwlock_tryrdlock(l) == 0; }
static inline void shp_rwlock_share(shp_rwlock *l) { pthread_rwlock_rdlock(l); }
static inline void shp_rwlock_unshare(shp_rwlock *l) { pthread_rwlock_unlock(l); }
static inline int shp_rwlock_try_own(shp_rwlock *l) { return pthread_rwlock_trywrlock(l) == 0; }
static inline void shp_rwlock_own(shp_rwlock *l) { pthread_rwlock_wrlock(l); }
static inline void shp_rwlock_disown(shp_rwlock *l) { pthread_rwlock_unlock(l); }

static inline int shp_mutex_init(shp_mutex *m) { return pthread_mutex_init(m, 0); }
static inline void shp_mutex_destroy(shp_mutex *m) { pthread_mutex_destroy(m); }
static inline void shp_mutex_lock(shp_mutex *m) { pthread_mutex_lock(m); }
static inline void shp_mutex_unlock(shp_mutex *m) { pthread_mutex_unlock(m); }
static inline void shp_condition_destroy(shp_condition *c) { pthread_cond_destroy(c); }
static inline void shp_condition_broadcast(shp_condition *c) { pthread_cond_broadcast(c); }

static inline int shp_condition_init(shp_condition *c) {
#ifdef __APPLE__
    return pthread_cond_init(c, 0);
#else
    pthread_condattr_t attributes;
    int rc = pthread_condattr_init(&attributes);
    if (rc)
        return rc;
    /* The wall clock may jump; a wait must not. */
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    rc = pthread_cond_init(c, &attributes);
    pthread_condattr_destroy(&attributes);
    return rc;
#endif
}

static inline int64_t shp_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000LL + now.tv_nsec;
}

static inline void shp_condition_wait_ms(shp_condition *c, shp_mutex *m, int timeout_ms) {
    if (timeout_ms < 0) {
        pthread_cond_wait(c, m);
        return;
    }
    struct timespec span;
#ifdef __APPLE__
    span.tv_sec = timeout_ms / 1000;
    span.tv_nsec = timeout_ms % 1000 * 1000000L;
    pthread_cond_timedwait_relative_np(c, m, &span);
#else
    int64_t until = shp_clock_ns() + (int64_t)timeout_ms * 1000000LL;
    span.tv_sec = (time_t)(until / 1000000000LL);
    span.tv_nsec = (long)(until % 1000000000LL);
    pthread_cond_timedwait(c, m, &span);
#endif
}
#endif

/* What this thread has computed. Where the system does not count that, the clock, which includes other threads. */
#if !defined(_WIN32) && defined(CLOCK_THREAD_CPUTIME_ID)
enum { SHP_COUNTS_THREAD_TIME = 1 };
static inline int64_t shp_thread_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000LL + now.tv_nsec;
}
#else
enum { SHP_COUNTS_THREAD_TIME = 0 };
static inline int64_t shp_thread_clock_ns(void) { return shp_clock_ns(); }
#endif

/* Of a static variable: each thread has its own, all zero at first. */
#if defined(_MSC_VER) && !defined(__clang__)
#define SHP_THREAD_LOCAL __declspec(thread)
#else
#define SHP_THREAD_LOCAL _Thread_local
#endif

/* A flag that one thread sets and others read between steps; no order with other data is implied. */
#if defined(_MSC_VER) && !defined(__clang__)
#define shp_flag_get(p) (*(volatile const int *)(p))
#define shp_flag_set(p, v) ((void)InterlockedExchange((volatile long *)(p), (v)))
#else
#define shp_flag_get(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define shp_flag_set(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#endif

#endif

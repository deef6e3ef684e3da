/* Snapshots: an unordered array, bounded in bytes; the least recently used one is evicted first.

   A checkpoint holds the state that cannot be cut (the ring of a sliding window, a recurrent state). The cells of full
   attention stay in the cache, so a checkpoint can be restored only where these still exist: in a sequence whose first
   n tokens are the checkpoint's. A checkpoint of a purely recurrent model is complete and can be restored anywhere.
   A state has pages of its own, which return to the system with it. States are large and of different sizes: the holes
   that they left in malloc's heap were a seventh of 512 MB.
   Cost: one memcpy of the state; a search compares at most MOST_SNAPSHOTS prefixes.

   Only the engine thread changes the items, under the mutex; it reads them without. A thread that writes states to
   disk takes them under the mutex and becomes a holder of their memory, so that they may be evicted meanwhile. */
#ifdef __linux__
#define _GNU_SOURCE /* MAP_POPULATE */
#elif !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_condattr_setclock */
#endif
#include "snapshots.h"

#include <stdlib.h>
#include <string.h>

#ifndef _WIN32
#include <sys/mman.h>
#ifndef MAP_POPULATE
#define MAP_POPULATE 0
#endif
#endif

enum { MOST_SNAPSHOTS = 256, LEAST_OF_ITS_OWN = 1 << 16, LEAST_WRITTEN = 32 };

uint8_t *shp_snapshots_new_data(size_t size) {
#ifndef _WIN32
    if (size >= LEAST_OF_ITS_OWN) {
        void *found =
            mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        return found == MAP_FAILED ? NULL : found;
    }
#endif
    return malloc(size); /* that of Windows returns large blocks to the system */
}

void shp_snapshots_free_data(uint8_t *data, size_t size) {
#ifndef _WIN32
    if (size >= LEAST_OF_ITS_OWN) {
        munmap(data, size);
        return;
    }
#else
    (void)size;
#endif
    free(data);
}

int shp_snapshots_init(shp_snapshots *store, size_t budget) {
    memset(store, 0, sizeof *store);
    store->budget = budget;
    return shp_mutex_init(&store->mutex);
}

static size_t weight(const shp_snapshot *item) { return item->size + (size_t)item->n * sizeof *item->ids; }

/* Under the mutex: one holder less. */
static void let_go(const shp_snapshot *item) {
    if (--*item->n_holders > 0)
        return;
    free(item->ids);
    shp_snapshots_free_data(item->data, item->size);
    free(item->n_holders);
}

static int is_unwritten(const shp_snapshots *store, const shp_snapshot *item) {
    return store->writes && item->flags == SHP_STATE_WHOLE && item->belonging.owner != 0
           && item->on_disk == SHP_NOT_WRITTEN;
}

void shp_snapshots_drop(shp_snapshots *store, size_t i) {
    shp_mutex_lock(&store->mutex);
    store->bytes -= weight(&store->items[i]);
    store->n_unwritten -= is_unwritten(store, &store->items[i]);
    let_go(&store->items[i]);
    store->items[i] = store->items[--store->count];
    shp_mutex_unlock(&store->mutex);
}

void shp_snapshots_clear(shp_snapshots *store) {
    while (store->count > 0)
        shp_snapshots_drop(store, store->count - 1);
    free(store->items);
    store->items = NULL;
    store->capacity = 0;
}

void shp_snapshots_free(shp_snapshots *store) {
    shp_snapshots_clear(store);
    if (store->staged.data)
        let_go(&store->staged);
    shp_mutex_destroy(&store->mutex);
}

static int begins(const shp_snapshot *item, const int32_t *ids) {
    return item->ids[item->n - 1] == ids[item->n - 1] && memcmp(item->ids, ids, (size_t)item->n * sizeof *ids) == 0;
}

static long find(const shp_snapshots *store, const int32_t *ids, int32_t n, uint32_t flags) {
    for (size_t i = 0; i < store->count; i++)
        if (store->items[i].n == n && store->items[i].flags == flags && begins(&store->items[i], ids))
            return (long)i;
    return -1;
}

/* The snapshot to evict: of those that no job waits for, and then of those that are on disk or never will be, the least
   recently used. */
static size_t next_to_evict(const shp_snapshots *store) {
    size_t next = 0;
    for (size_t i = 1; i < store->count; i++) {
        const shp_snapshot *one = &store->items[i], *best = &store->items[next];
        int loss = 2 * one->is_wanted + is_unwritten(store, one);
        int least = 2 * best->is_wanted + is_unwritten(store, best);
        if (loss < least || (loss == least && one->used_at < best->used_at))
            next = i;
    }
    return next;
}

/* Evict snapshots until so many bytes fit; 0 when they never can. */
static int make_room(shp_snapshots *store, size_t bytes) {
    if (bytes > store->budget)
        return 0;
    while (store->count > 0 && (store->bytes + bytes > store->budget || store->count >= MOST_SNAPSHOTS)) {
        size_t i = next_to_evict(store);
        if (store->items[i].is_wanted)
            return 0;
        store->n_lost += is_unwritten(store, &store->items[i]);
        shp_snapshots_drop(store, i);
    }
    if (store->count == store->capacity) {
        size_t capacity = store->capacity ? 2 * store->capacity : 8;
        shp_mutex_lock(&store->mutex);
        shp_snapshot *grown = realloc(store->items, capacity * sizeof *grown);
        if (grown) {
            store->items = grown;
            store->capacity = capacity;
        }
        shp_mutex_unlock(&store->mutex);
        return grown != NULL;
    }
    return 1;
}

/* A snapshot with copied ids; no ids: no memory, and the data is freed. */
static shp_snapshot make(const int32_t *ids, int32_t n, uint8_t *data, size_t size, uint32_t flags,
                         shp_belonging belonging) {
    shp_snapshot item = {NULL, n, data, size, flags, 0, belonging, SHP_NOT_WRITTEN, 0, NULL};
    item.ids = malloc((size_t)n * sizeof *ids);
    item.n_holders = malloc(sizeof *item.n_holders);
    if (!item.ids || !item.n_holders) {
        free(item.ids);
        free(item.n_holders);
        shp_snapshots_free_data(data, size);
        item.ids = NULL;
        return item;
    }
    memcpy(item.ids, ids, (size_t)n * sizeof *ids);
    *item.n_holders = 1;
    return item;
}

/* Takes `data` over, or frees it. */
static int add(shp_snapshots *store, const int32_t *ids, int32_t n, uint8_t *data, size_t size, uint32_t flags,
               shp_belonging belonging, shp_on_disk on_disk, int is_wanted) {
    shp_snapshot item = make(ids, n, data, size, flags, belonging);
    if (!item.ids)
        return 0;
    item.on_disk = on_disk;
    item.is_wanted = is_wanted;
    int has_room = make_room(store, weight(&item));
    shp_mutex_lock(&store->mutex);
    if (has_room) {
        item.used_at = ++store->clock;
        store->items[store->count++] = item;
        store->bytes += weight(&item);
        store->n_unwritten += is_unwritten(store, &item);
    } else
        let_go(&item);
    shp_mutex_unlock(&store->mutex);
    return has_room;
}

static void mark_used(shp_snapshots *store, size_t i) {
    shp_mutex_lock(&store->mutex);
    store->items[i].used_at = ++store->clock;
    shp_mutex_unlock(&store->mutex);
}

/* Drop snapshots that a new one replaces: of the same ids, and parked prefixes of this sequence. */
static void drop_older(shp_snapshots *store, const shp_sequence *s, uint32_t flags) {
    for (size_t i = store->count; i-- > 0;) {
        const shp_snapshot *item = &store->items[i];
        int is_older = item->n == s->n || (flags == SHP_STATE_WHOLE && item->n < s->n);
        /* What another owner has to be written stays. */
        int is_same = item->belonging.owner == s->belonging.owner || !is_unwritten(store, item);
        if (item->flags == flags && is_older && is_same && begins(item, s->ids))
            shp_snapshots_drop(store, i);
    }
}

/* Behind a hole a state would be restored at other positions than its ids say; a full window has no room for another
   token. */
static int can_save(const shp_snapshots *store, const shp_sequence *s) {
    return store->budget > 0 && s->n > 0 && s->n < s->context->n_window && !shp_sequence_has_hole(s, s->n);
}

/* The state of a sequence in memory of its own, NULL where that fails. */
static uint8_t *state_of(const shp_snapshots *store, const shp_sequence *s, uint32_t flags, size_t *size) {
    *size = shp_api.state_size(s->context->ctx, s->id, flags);
    if (*size == 0 || *size > store->budget)
        return NULL;
    uint8_t *data = shp_snapshots_new_data(*size);
    if (data && shp_api.state_get(s->context->ctx, data, *size, s->id, flags) != *size) {
        shp_snapshots_free_data(data, *size);
        return NULL;
    }
    return data;
}

int shp_snapshots_save(shp_snapshots *store, const shp_sequence *s, uint32_t flags) {
    size_t size;
    if (!can_save(store, s))
        return 0;
    drop_older(store, s, flags);
    uint8_t *data = state_of(store, s, flags, &size);
    shp_on_disk on_disk = s->staged_at == s->used_at ? SHP_WRITTEN : SHP_NOT_WRITTEN;
    return data && add(store, s->ids, s->n, data, size, flags, s->belonging, on_disk, 0);
}

int shp_snapshots_add_read(shp_snapshots *store, const int32_t *ids, int32_t n, uint8_t *data, size_t size,
                           uint32_t flags, shp_belonging belonging) {
    return add(store, ids, n, data, size, flags, belonging, SHP_WRITTEN, 1);
}

void shp_snapshots_want_none(shp_snapshots *store) {
    for (size_t i = 0; i < store->count; i++)
        store->items[i].is_wanted = 0;
}

/* ---- writing */

int shp_snapshots_can_stage(const shp_snapshots *store, const shp_sequence *s) {
    return store->writes && s->belonging.owner != 0 && s->n >= LEAST_WRITTEN && s->staged_at != s->used_at;
}

int shp_snapshots_has_staged(shp_snapshots *store) {
    shp_mutex_lock(&store->mutex);
    int has_staged = store->staged.data != NULL;
    shp_mutex_unlock(&store->mutex);
    return has_staged;
}

int shp_snapshots_stage(shp_snapshots *store, shp_sequence *s) {
    size_t size;
    if (shp_snapshots_has_staged(store))
        return 0;
    s->staged_at = s->used_at; /* if it fails, it would fail again */
    uint8_t *data = can_save(store, s) ? state_of(store, s, SHP_STATE_WHOLE, &size) : NULL;
    if (!data)
        return 0;
    shp_snapshot item = make(s->ids, s->n, data, size, SHP_STATE_WHOLE, s->belonging);
    if (!item.ids)
        return 0;
    shp_mutex_lock(&store->mutex);
    store->staged = item;
    store->n_unwritten++;
    shp_mutex_unlock(&store->mutex);
    return 1;
}

/* Under the mutex. */
static shp_snapshot *first_unwritten(shp_snapshots *store) {
    shp_snapshot *first = NULL;
    if (store->staged.data && store->staged.on_disk == SHP_NOT_WRITTEN)
        return &store->staged;
    for (size_t i = 0; i < store->count; i++)
        if (is_unwritten(store, &store->items[i]) && (!first || store->items[i].used_at < first->used_at))
            first = &store->items[i];
    return first;
}

int32_t shp_snapshots_take_unwritten(shp_snapshots *store, shp_snapshot out[SHP_MOST_WRITTEN]) {
    int32_t n = 0;
    shp_mutex_lock(&store->mutex);
    shp_snapshot *whole = first_unwritten(store);
    if (whole) {
        whole->on_disk = SHP_IN_WRITING;
        store->n_unwritten--;
        out[n++] = *whole;
    }
    for (int32_t below = whole ? whole->n + 1 : 0; n > 0 && n < SHP_MOST_WRITTEN; below = out[n - 1].n) {
        long best = -1;
        for (size_t i = 0; i < store->count; i++) {
            const shp_snapshot *item = &store->items[i];
            if (item->flags == SHP_STATE_PARTIAL && item->n < below && item->n <= out[0].n
                && (best < 0 || item->n > store->items[best].n) && begins(item, out[0].ids))
                best = (long)i;
        }
        if (best < 0)
            break;
        out[n++] = store->items[best];
    }
    for (int32_t i = 0; i < n; i++)
        ++*out[i].n_holders;
    shp_mutex_unlock(&store->mutex);
    return n;
}

void shp_snapshots_give_back(shp_snapshots *store, const shp_snapshot *taken, int32_t n) {
    shp_mutex_lock(&store->mutex);
    /* What could not be written is not tried again. */
    for (size_t i = 0; n > 0 && i < store->count; i++)
        if (store->items[i].data == taken[0].data)
            store->items[i].on_disk = SHP_WRITTEN;
    if (n > 0 && store->staged.data == taken[0].data) {
        let_go(&store->staged);
        memset(&store->staged, 0, sizeof store->staged);
    }
    for (int32_t i = 0; i < n; i++)
        let_go(&taken[i]);
    shp_mutex_unlock(&store->mutex);
}

int32_t shp_snapshots_count_unwritten(shp_snapshots *store) {
    shp_mutex_lock(&store->mutex);
    int32_t n = store->n_unwritten;
    shp_mutex_unlock(&store->mutex);
    return n;
}

/* ---- reading */

void shp_snapshots_touch(shp_snapshots *store, const int32_t *ids, int32_t n) {
    long known = n > 0 ? find(store, ids, n, SHP_STATE_PARTIAL) : -1;
    if (known >= 0)
        mark_used(store, (size_t)known);
}

long shp_snapshots_checkpoint(const shp_snapshots *store, const int32_t *ids, int32_t most) {
    long best = -1;
    for (size_t i = store->count; i-- > 0;) {
        const shp_snapshot *item = &store->items[i];
        if (item->flags == SHP_STATE_PARTIAL && item->n <= most && (best < 0 || item->n > store->items[best].n)
            && begins(item, ids))
            best = (long)i;
    }
    return best;
}

long shp_snapshots_parked(const shp_snapshots *store, const int32_t *ids, int32_t n, int is_state, int32_t *common) {
    long best = -1;
    *common = 0;
    for (size_t i = 0; i < store->count; i++) {
        const shp_snapshot *item = &store->items[i];
        int32_t k = 0, most = item->n < n ? item->n : n;
        if (item->flags != SHP_STATE_WHOLE || most <= *common)
            continue;
        while (k < most && item->ids[k] == ids[k])
            k++;
        /* A state is usable only as a whole, or with a checkpoint, which is looked up after the restore. */
        if (is_state && k < item->n) {
            long under = shp_snapshots_checkpoint(store, ids, k);
            k = under < 0 ? 0 : store->items[under].n;
        }
        if (k > *common) {
            best = (long)i;
            *common = k;
        }
    }
    return best;
}

int shp_snapshots_restore(shp_snapshots *store, size_t i, shp_sequence *s) {
    shp_snapshot *item = &store->items[i];
    int is_whole = item->flags == SHP_STATE_WHOLE || s->context->kind == SHP_RECURRENT;
    if (!is_whole && (s->n < item->n || shp_sequence_has_hole(s, item->n))) {
        shp_sequence_clear(s);
        return 0;
    }
    if (is_whole)
        shp_sequence_clear(s);
    int is_read = item->n < s->context->n_window
                  && shp_api.state_set(s->context->ctx, item->data, item->size, s->id, item->flags) == item->size;
    if (is_read) {
        memcpy(s->ids, item->ids, (size_t)item->n * sizeof *s->ids);
        int32_t next = shp_picture_positions(item->ids, item->n, s->positions);
        s->n = item->n;
        /* The cells of full attention behind the checkpoint are still there. */
        is_read = shp_api.seq_rm(s->context->memory, s->id, next, -1) && shp_sequence_verify(s, item->n);
    }
    if (!is_read) {
        /* Do not try it again. */
        shp_snapshots_drop(store, i);
        shp_sequence_clear(s);
        return 0;
    }
    mark_used(store, i);
    return 1;
}

int32_t shp_snapshots_back(shp_snapshots *store, shp_sequence *s, int32_t n) {
    long i = shp_snapshots_checkpoint(store, s->ids, n < s->n ? n : s->n);
    if (i < 0 || !shp_snapshots_restore(store, (size_t)i, s))
        shp_sequence_clear(s);
    return s->n;
}

int32_t shp_snapshots_rewind(shp_snapshots *store, shp_sequence *s, int32_t n) {
    return shp_sequence_cut(s, n) ? s->n : shp_snapshots_back(store, s, n);
}

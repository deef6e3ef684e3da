/* Snapshots: an unordered array, bounded in bytes; the least recently used one is evicted first.

   A checkpoint holds the state that cannot be cut (the ring of a sliding window, a recurrent state). The cells of full
   attention stay in the cache, so a checkpoint can be restored only where these still exist: in a sequence whose first
   n tokens are the checkpoint's. A checkpoint of a purely recurrent model is complete and can be restored anywhere.
   A state has pages of its own, which return to the system with it. States are large and of different sizes: the holes
   that they left in malloc's heap were a seventh of 512 MB.
   Cost: one memcpy of the state; a search compares at most MOST_SNAPSHOTS prefixes. */
#ifdef __linux__
#define _GNU_SOURCE /* MAP_POPULATE */
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

enum { MOST_SNAPSHOTS = 256, LEAST_OF_ITS_OWN = 1 << 16 };

static uint8_t *new_data(size_t size) {
#ifndef _WIN32
    if (size >= LEAST_OF_ITS_OWN) {
        void *found =
            mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        return found == MAP_FAILED ? NULL : found;
    }
#endif
    return malloc(size); /* that of Windows returns large blocks to the system */
}

static void free_data(uint8_t *data, size_t size) {
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

void shp_snapshots_init(shp_snapshots *store, size_t budget) {
    memset(store, 0, sizeof *store);
    store->budget = budget;
}

static size_t weight(const shp_snapshot *item) { return item->size + (size_t)item->n * sizeof *item->ids; }

void shp_snapshots_drop(shp_snapshots *store, size_t i) {
    store->bytes -= weight(&store->items[i]);
    free(store->items[i].ids);
    free_data(store->items[i].data, store->items[i].size);
    store->items[i] = store->items[--store->count];
}

void shp_snapshots_free(shp_snapshots *store) {
    while (store->count > 0)
        shp_snapshots_drop(store, store->count - 1);
    free(store->items);
    store->items = NULL;
    store->capacity = 0;
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

/* Evict snapshots until so many bytes fit; 0 when they never can. */
static int make_room(shp_snapshots *store, size_t bytes) {
    if (bytes > store->budget)
        return 0;
    while (store->count > 0 && (store->bytes + bytes > store->budget || store->count >= MOST_SNAPSHOTS)) {
        size_t oldest = 0;
        for (size_t i = 1; i < store->count; i++)
            if (store->items[i].used_at < store->items[oldest].used_at)
                oldest = i;
        shp_snapshots_drop(store, oldest);
    }
    if (store->count == store->capacity) {
        size_t capacity = store->capacity ? 2 * store->capacity : 8;
        shp_snapshot *grown = realloc(store->items, capacity * sizeof *grown);
        if (!grown)
            return 0;
        store->items = grown;
        store->capacity = capacity;
    }
    return 1;
}

/* Takes `data` over, or frees it. */
static int add(shp_snapshots *store, const int32_t *ids, int32_t n, uint8_t *data, size_t size, uint32_t flags) {
    int32_t *copy = malloc((size_t)n * sizeof *copy);
    if (!copy || !make_room(store, size + (size_t)n * sizeof *copy)) {
        free(copy);
        free_data(data, size);
        return 0;
    }
    memcpy(copy, ids, (size_t)n * sizeof *copy);
    shp_snapshot item = {copy, n, data, size, flags, ++store->clock};
    store->items[store->count++] = item;
    store->bytes += weight(&item);
    return 1;
}

/* Drop snapshots that a new one replaces: of the same ids, and parked prefixes of this sequence. */
static void drop_older(shp_snapshots *store, const shp_sequence *s, uint32_t flags) {
    for (size_t i = store->count; i-- > 0;) {
        const shp_snapshot *item = &store->items[i];
        int is_older = item->n == s->n || (flags == SHP_STATE_WHOLE && item->n < s->n);
        if (item->flags == flags && is_older && begins(item, s->ids))
            shp_snapshots_drop(store, i);
    }
}

int shp_snapshots_save(shp_snapshots *store, const shp_sequence *s, uint32_t flags) {
    /* Behind a hole a state would be restored at other positions than its ids say; a full window has no room for
       another token. */
    if (store->budget == 0 || s->n == 0 || s->n >= s->context->n_window || s->positions[s->n - 1] != s->n - 1)
        return 0;
    drop_older(store, s, flags);
    size_t size = shp_api.state_size(s->context->ctx, s->id, flags);
    if (size == 0 || size > store->budget)
        return 0;
    uint8_t *data = new_data(size);
    if (!data)
        return 0;
    if (shp_api.state_get(s->context->ctx, data, size, s->id, flags) != size) {
        free_data(data, size);
        return 0;
    }
    return add(store, s->ids, s->n, data, size, flags);
}

int shp_snapshots_adopt(shp_snapshots *store, const int32_t *ids, int32_t n, const uint8_t *data, size_t size,
                        uint32_t flags) {
    uint8_t *copy = n > 0 && size > 0 && size <= store->budget ? new_data(size) : NULL;
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    return add(store, ids, n, copy, size, flags);
}

void shp_snapshots_touch(shp_snapshots *store, const int32_t *ids, int32_t n) {
    long known = n > 0 ? find(store, ids, n, SHP_STATE_PARTIAL) : -1;
    if (known >= 0)
        store->items[known].used_at = ++store->clock;
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
    if (!is_whole && (s->n < item->n || s->positions[item->n - 1] != item->n - 1)) {
        shp_sequence_clear(s);
        return 0;
    }
    if (is_whole)
        shp_sequence_clear(s);
    int is_read = item->n < s->context->n_window
                  && shp_api.state_set(s->context->ctx, item->data, item->size, s->id, item->flags) == item->size;
    if (is_read) {
        memcpy(s->ids, item->ids, (size_t)item->n * sizeof *s->ids);
        for (int32_t k = 0; k < item->n; k++)
            s->positions[k] = k;
        s->n = item->n;
        /* The cells of full attention behind the checkpoint are still there. */
        is_read = shp_api.seq_rm(s->context->memory, s->id, item->n, -1) && shp_sequence_verify(s, item->n);
    }
    if (!is_read) {
        /* Do not try it again. */
        shp_snapshots_drop(store, i);
        shp_sequence_clear(s);
        return 0;
    }
    item->used_at = ++store->clock;
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

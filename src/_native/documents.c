/* A cache of the fields that ranking needs of every user's memories besides their words, in arrays.

   Ranking reads a time and a length per match.  In the tables each costs a b-tree descent, which was most of a search;
   in an array, a cache line.  61 bytes a memory; 100,000 load in about 30 ms from the covering index context_docs, once,
   and later memories are appended.

   Consistency.  A search reads (version, edits) of its user in its own transaction and asks for the arrays
   of that state.  Cached arrays of the same `edits` serve every version from the one at which they were read
   as a whole: a memory added after the reader's snapshot, or deleted before it, is in the arrays without being
   in the reader's index, and is never looked up.  Newer than the cache: the rows after the last are appended, and
   where others were deleted meanwhile, the arrays serve no version before.
   Other `edits`: all is read again.  Older than the cache, or inside a write transaction, whose version
   number that another transaction can still use for other rows: read for this search alone.

   Layout: seven parallel columns in one block, referenced by any number of documents structs of different n.
   Appending writes behind every n that was handed out, so readers need no lock; a full block is copied to one
   twice its size.  `load` serialises the loading of one user, `mutex` guards the table and the counts. */
#include "documents.h"

#include <stdlib.h>
#include <string.h>

struct shp_documents_columns {
    int64_t *sequence, *timestamp;
    int32_t *doc_len, *thread, *label;
    uint8_t *asks;
    shp_pairs *pairs;
    int64_t *newest; /* per block; a full block's is not written again */
    int64_t n, capacity;
    int64_t n_references; /* under the cache's mutex */
};

typedef struct entry {
    int64_t tenant;
    sqlite3_mutex *load;
    shp_documents *current; /* NULL: not loaded, or forgotten; holds a reference */
    struct entry *next;
} entry;

struct shp_documents_cache {
    sqlite3_mutex *mutex;
    entry **buckets; /* owned, with the entries, which live as long as the cache */
    int64_t n_buckets, n_entries;
};

enum { FIRST_CAPACITY = 64, FIRST_BUCKETS = 64, BYTES_PER_ROW = 61 };

/* Postings hold the index of a row in 32 bits. */
#define MAX_ROWS ((int64_t)UINT32_MAX)

/* ---- columns */

static void columns_free(shp_documents_columns *columns)
{
    if (!columns)
        return;
    free(columns->sequence);
    free(columns->timestamp);
    free(columns->doc_len);
    free(columns->thread);
    free(columns->label);
    free(columns->asks);
    free(columns->pairs);
    free(columns->newest);
    free(columns);
}

/* The column with room for `capacity`; when memory is out the column as it was, and *is_ok becomes 0. */
static void *grow_column(void *column, int64_t capacity, size_t width, int *is_ok)
{
    void *grown = realloc(column, (size_t)capacity * width);
    *is_ok = *is_ok && grown;
    return grown ? grown : column;
}

/* Only while there is no other reference to them: realloc can move them.  0 when memory is out. */
static int columns_grow(shp_documents_columns *columns, int64_t capacity)
{
    int is_ok = 1;
    columns->sequence = grow_column(columns->sequence, capacity, sizeof *columns->sequence, &is_ok);
    columns->timestamp = grow_column(columns->timestamp, capacity, sizeof *columns->timestamp, &is_ok);
    columns->doc_len = grow_column(columns->doc_len, capacity, sizeof *columns->doc_len, &is_ok);
    columns->thread = grow_column(columns->thread, capacity, sizeof *columns->thread, &is_ok);
    columns->label = grow_column(columns->label, capacity, sizeof *columns->label, &is_ok);
    columns->asks = grow_column(columns->asks, capacity, sizeof *columns->asks, &is_ok);
    columns->pairs = grow_column(columns->pairs, capacity, sizeof *columns->pairs, &is_ok);
    columns->newest = grow_column(columns->newest, capacity / SHP_DOCUMENTS_BLOCK + 1, sizeof *columns->newest, &is_ok);
    if (is_ok)
        columns->capacity = capacity;
    return is_ok;
}

static shp_documents_columns *columns_new(int64_t capacity)
{
    shp_documents_columns *columns = calloc(1, sizeof *columns);
    if (!columns)
        return NULL;
    columns->n_references = 1;
    if (columns_grow(columns, capacity))
        return columns;
    columns_free(columns);
    return NULL;
}

/* Takes the times of the rows from `at` on into their blocks. */
static void note_newest(shp_documents_columns *columns, int64_t at, int64_t end)
{
    for (int64_t i = at; i < end; i++) {
        int64_t *newest = &columns->newest[i / SHP_DOCUMENTS_BLOCK];
        if (i % SHP_DOCUMENTS_BLOCK == 0 || columns->timestamp[i] > *newest)
            *newest = columns->timestamp[i];
    }
}

static void columns_copy(shp_documents_columns *to, int64_t at, const shp_documents_columns *from, int64_t n)
{
    memcpy(to->sequence + at, from->sequence, (size_t)n * sizeof *to->sequence);
    memcpy(to->timestamp + at, from->timestamp, (size_t)n * sizeof *to->timestamp);
    memcpy(to->doc_len + at, from->doc_len, (size_t)n * sizeof *to->doc_len);
    memcpy(to->thread + at, from->thread, (size_t)n * sizeof *to->thread);
    memcpy(to->label + at, from->label, (size_t)n * sizeof *to->label);
    memcpy(to->asks + at, from->asks, (size_t)n * sizeof *to->asks);
    memcpy(to->pairs + at, from->pairs, (size_t)n * sizeof *to->pairs);
    note_newest(to, at, at + n);
    to->n = at + n;
}

/* ---- counting references, under the cache's mutex */

static void documents_unreference(shp_documents *documents)
{
    if (!documents || --documents->n_references)
        return;
    if (!--documents->columns->n_references)
        columns_free(documents->columns);
    free(documents);
}

void shp_documents_release(shp_documents_cache *cache, shp_documents *documents)
{
    sqlite3_mutex_enter(cache->mutex);
    documents_unreference(documents);
    sqlite3_mutex_leave(cache->mutex);
}

/* ---- the table of users */

shp_documents_cache *shp_documents_cache_new(void)
{
    shp_documents_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    cache->mutex = sqlite3_mutex_alloc(SQLITE_MUTEX_FAST);
    cache->n_buckets = FIRST_BUCKETS;
    cache->buckets = calloc(FIRST_BUCKETS, sizeof *cache->buckets);
    if (cache->mutex && cache->buckets)
        return cache;
    shp_documents_cache_free(cache);
    return NULL;
}

void shp_documents_cache_free(shp_documents_cache *cache)
{
    if (!cache)
        return;
    for (int64_t i = 0; cache->buckets && i < cache->n_buckets; i++) {
        while (cache->buckets[i]) {
            entry *e = cache->buckets[i];
            cache->buckets[i] = e->next;
            documents_unreference(e->current);
            sqlite3_mutex_free(e->load);
            free(e);
        }
    }
    free(cache->buckets);
    sqlite3_mutex_free(cache->mutex);
    free(cache);
}

/* Tenants are numbered from 1 on: their low bits are as good as a hash. */
static entry **bucket_of(entry **buckets, int64_t n_buckets, int64_t tenant)
{
    return &buckets[tenant & (n_buckets - 1)];
}

static void grow_table(shp_documents_cache *cache)
{
    int64_t n_buckets = 2 * cache->n_buckets;
    entry **buckets = calloc((size_t)n_buckets, sizeof *buckets);
    if (!buckets)
        return; /* longer chains, nothing worse */
    for (int64_t i = 0; i < cache->n_buckets; i++) {
        while (cache->buckets[i]) {
            entry *e = cache->buckets[i], **to = bucket_of(buckets, n_buckets, e->tenant);
            cache->buckets[i] = e->next;
            e->next = *to;
            *to = e;
        }
    }
    free(cache->buckets);
    cache->buckets = buckets;
    cache->n_buckets = n_buckets;
}

/* Under the mutex.  Made when missing and wanted; NULL when it is not there. */
static entry *find_entry(shp_documents_cache *cache, int64_t tenant, int make)
{
    entry *e = *bucket_of(cache->buckets, cache->n_buckets, tenant);
    while (e && e->tenant != tenant)
        e = e->next;
    if (e || !make)
        return e;
    e = calloc(1, sizeof *e);
    sqlite3_mutex *load = e ? sqlite3_mutex_alloc(SQLITE_MUTEX_FAST) : NULL;
    if (!load) {
        free(e);
        return NULL;
    }
    if (cache->n_entries++ >= 2 * cache->n_buckets)
        grow_table(cache);
    entry **bucket = bucket_of(cache->buckets, cache->n_buckets, tenant);
    e->tenant = tenant;
    e->load = load;
    e->next = *bucket;
    *bucket = e;
    return e;
}

void shp_documents_forget(shp_documents_cache *cache, int64_t tenant)
{
    sqlite3_mutex_enter(cache->mutex);
    entry *e = find_entry(cache, tenant, 0);
    if (e) {
        documents_unreference(e->current);
        e->current = NULL;
    }
    sqlite3_mutex_leave(cache->mutex);
}

static int64_t documents_bytes(const shp_documents *documents)
{
    return documents ? (int64_t)(sizeof *documents + sizeof *documents->columns) +
                           documents->columns->capacity * BYTES_PER_ROW
                     : 0;
}

int64_t shp_documents_cache_bytes(shp_documents_cache *cache)
{
    sqlite3_mutex_enter(cache->mutex);
    int64_t bytes = (int64_t)sizeof *cache + cache->n_buckets * (int64_t)sizeof(entry *);
    for (int64_t i = 0; i < cache->n_buckets; i++)
        for (entry *e = cache->buckets[i]; e; e = e->next)
            bytes += (int64_t)sizeof *e + documents_bytes(e->current);
    sqlite3_mutex_leave(cache->mutex);
    return bytes;
}

/* ---- loading */

/* Empty where no person wrote two words; of another size only in a damaged file. */
static void read_pairs(sqlite3_stmt *load, shp_pairs *out)
{
    const void *bits = sqlite3_column_blob(load, 6);
    if (bits && sqlite3_column_bytes(load, 6) == SHP_PAIRS_BYTES)
        memcpy(out, bits, sizeof *out);
    else
        memset(out, 0, sizeof *out);
}

/* The rows of `load` whose sequence is above `after`, in a new block; an SQLite code. */
static int read_rows(sqlite3_stmt *load, int64_t tenant, int64_t after, shp_documents_columns **out)
{
    int code;
    shp_documents_columns *columns = columns_new(FIRST_CAPACITY);
    if (!columns)
        return SQLITE_NOMEM;
    sqlite3_bind_int64(load, 1, tenant << SHP_SEQUENCE_BITS | (after + 1));
    sqlite3_bind_int64(load, 2, tenant << SHP_SEQUENCE_BITS | SHP_SEQUENCE_MASK);
    while ((code = sqlite3_step(load)) == SQLITE_ROW) {
        int64_t n = columns->n, doc_len = sqlite3_column_int64(load, 2);
        if (n == columns->capacity && (n >= MAX_ROWS || !columns_grow(columns, 2 * n))) {
            code = n >= MAX_ROWS ? SQLITE_TOOBIG : SQLITE_NOMEM;
            break;
        }
        columns->sequence[n] = sqlite3_column_int64(load, 0) & SHP_SEQUENCE_MASK;
        columns->timestamp[n] = sqlite3_column_int64(load, 1);
        columns->doc_len[n] = doc_len < 0 ? 0 : doc_len > INT32_MAX ? INT32_MAX : (int32_t)doc_len;
        columns->thread[n] = sqlite3_column_int(load, 3);
        columns->label[n] = sqlite3_column_int(load, 4);
        columns->asks[n] = (uint8_t)sqlite3_column_int(load, 5);
        read_pairs(load, &columns->pairs[n]);
        note_newest(columns, n, n + 1);
        columns->n++;
    }
    sqlite3_reset(load);
    if (code != SQLITE_DONE) {
        columns_free(columns);
        return code;
    }
    *out = columns;
    return SQLITE_OK;
}

/* Takes over one reference to `columns`, also when it fails. */
static int documents_over(shp_documents_columns *columns, int64_t version, int64_t edits, shp_documents **out)
{
    shp_documents *documents = calloc(1, sizeof *documents);
    if (!documents) {
        if (columns->n_references == 1)
            columns_free(columns);
        return SQLITE_NOMEM;
    }
    documents->columns = columns;
    documents->sequence = columns->sequence;
    documents->timestamp = columns->timestamp;
    documents->doc_len = columns->doc_len;
    documents->thread = columns->thread;
    documents->label = columns->label;
    documents->asks = columns->asks;
    documents->pairs = columns->pairs;
    documents->newest = columns->newest;
    documents->n = columns->n;
    documents->version = documents->first_version = version;
    documents->edits = edits;
    documents->n_references = 1;
    *out = documents;
    return SQLITE_OK;
}

static int load_all(sqlite3_stmt *load, int64_t tenant, int64_t version, int64_t edits, shp_documents **out)
{
    shp_documents_columns *columns;
    int code = read_rows(load, tenant, -1, &columns);
    return code == SQLITE_OK ? documents_over(columns, version, edits, out) : code;
}

/* `base` and the rows after its last, in base's block where that has room. */
static int load_newer(shp_documents_cache *cache, sqlite3_stmt *load, int64_t tenant, const shp_documents *base,
                      int64_t version, shp_documents **out)
{
    shp_documents_columns *fresh, *columns = base->columns;
    int code = read_rows(load, tenant, base->n ? base->sequence[base->n - 1] : -1, &fresh);
    if (code != SQLITE_OK)
        return code;
    int64_t n = base->n + fresh->n, n_fresh = fresh->n;
    if (n > MAX_ROWS) {
        columns_free(fresh);
        return SQLITE_TOOBIG;
    }
    if (columns->n == base->n && n <= columns->capacity) {
        sqlite3_mutex_enter(cache->mutex);
        columns->n_references++;
        sqlite3_mutex_leave(cache->mutex);
    } else if ((columns = columns_new(2 * n)) != NULL)
        columns_copy(columns, 0, base->columns, base->n);
    if (columns)
        columns_copy(columns, base->n, fresh, fresh->n);
    columns_free(fresh);
    if (!columns)
        return SQLITE_NOMEM;
    code = documents_over(columns, version, base->edits, out);
    /* Each memory that was added or deleted is a version. With more of these than new rows, one may have been both
       meanwhile: it is missing here, and readers between its versions see it. */
    if (code == SQLITE_OK && version - base->version == n_fresh)
        (*out)->first_version = base->first_version;
    return code;
}

/* Makes `documents` what later searches of the user find. */
static void publish(shp_documents_cache *cache, entry *e, shp_documents *documents)
{
    sqlite3_mutex_enter(cache->mutex);
    documents_unreference(e->current);
    documents->n_references++;
    e->current = documents;
    sqlite3_mutex_leave(cache->mutex);
}

/* The cached arrays with a reference for the caller, or NULL. */
static shp_documents *current_documents(shp_documents_cache *cache, const entry *e)
{
    sqlite3_mutex_enter(cache->mutex);
    shp_documents *current = e->current;
    if (current)
        current->n_references++;
    sqlite3_mutex_leave(cache->mutex);
    return current;
}

static int serves(const shp_documents *documents, int64_t version, int64_t edits)
{
    return documents && documents->edits == edits && documents->first_version <= version &&
           version <= documents->version;
}

/* Under e->load. */
static int load_documents(shp_documents_cache *cache, entry *e, sqlite3_stmt *load, int64_t version,
                          int64_t edits, shp_documents **out)
{
    shp_documents *current = current_documents(cache, e);
    if (serves(current, version, edits)) { /* another thread loaded it while this one waited */
        *out = current;
        return SQLITE_OK;
    }
    int publishes = (!current || current->version < version) &&
                    sqlite3_txn_state(sqlite3_db_handle(load), "main") != SQLITE_TXN_WRITE;
    int code;
    if (publishes && current && current->edits == edits)
        code = load_newer(cache, load, e->tenant, current, version, out);
    else
        code = load_all(load, e->tenant, version, edits, out);
    if (code == SQLITE_OK && publishes)
        publish(cache, e, *out);
    if (current)
        shp_documents_release(cache, current);
    return code;
}

int shp_documents_acquire(shp_documents_cache *cache, sqlite3_stmt *load, int64_t tenant, int64_t version,
                          int64_t edits, shp_documents **out)
{
    sqlite3_mutex_enter(cache->mutex);
    entry *e = find_entry(cache, tenant, 1);
    sqlite3_mutex_leave(cache->mutex);
    if (!e)
        return SQLITE_NOMEM;
    shp_documents *current = current_documents(cache, e);
    if (serves(current, version, edits)) {
        *out = current;
        return SQLITE_OK;
    }
    if (current)
        shp_documents_release(cache, current);
    sqlite3_mutex_enter(e->load);
    int code = load_documents(cache, e, load, version, edits, out);
    sqlite3_mutex_leave(e->load);
    return code;
}

int64_t shp_documents_find(const shp_documents *documents, int64_t start, int64_t sequence)
{
    const int64_t *sequences = documents->sequence;
    int64_t low = start, high = documents->n - 1;
    if (start > high || sequence < sequences[0] || sequence > sequences[high])
        return -1;
    /* Nothing was ever deleted: no look at the array, which is a cache miss (a tenth of a large search). */
    if (sequences[high] - sequences[0] == high)
        return sequence - sequences[0] >= start ? sequence - sequences[0] : -1;
    /* Sequences have gaps but no repeats: the index is at most as far from start as the sequence is. */
    int64_t ahead = sequence - sequences[low];
    if (ahead < high - low)
        high = low + ahead;
    while (low < high) {
        if (sequences[high] == sequence)
            return high;
        int64_t middle = low + (high - low) / 2;
        if (sequences[middle] < sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return high == low && sequences[low] == sequence ? low : -1;
}

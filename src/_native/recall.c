/* Recall: the best k of one user's memories, by BM25, recency and the conversation around them.

   1. Postings of the keywords (postings.c).
   2. Weights.  df = postings kept; N and total length from `tenants`.  Of more than 16 known keywords the rarest
      stay, the earlier where equally rare.
   3. Candidates: the best by BM25 times recency, as many as shp_rescore_candidates says; the
      larger id where that is equal.  Windows of 4,096 memories at a time: their sums stay in the first-level cache
      whatever the number of memories.  A sum is taken in the order of the keywords, each product rounded by itself:
      the result is a function of the statistics alone, bit for bit, however the postings were gathered.
   4. Rescoring (rescore.c): candidates and their neighbours, with the BM25 of all that lie within its reach, looked
      up in the postings.  The arrays may hold memories that the transaction does not see (documents.c): those have
      no postings, so they change no score, except as the assistant's words beside a memory; those without postings
      are looked up in the table then, and so is a hit without postings.
   5. What is less relevant than asked is left out.

   Cost: besides the postings 48 bytes a candidate, 48 a memory within reach and what rescoring takes, kept between
   searches. */
#include "recall.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"
#include "postings.h"
#include "rank.h"

enum { WINDOW = SHP_DOCUMENTS_BLOCK }; /* memories scored at a time: 32 KiB of sums */

/* Memories within reach that follow each other in the arrays. */
typedef struct {
    int64_t first, end; /* in the arrays */
    int64_t place;      /* of the first one, in reader->reach */
} span;

struct shp_recall_reader {
    sqlite3_stmt *begin, *commit, *rollback, *tenant_row, *load, *is_there; /* owned */
    shp_postings postings;

    /* The search under way. */
    const shp_recall_query *query;
    const shp_documents *documents;
    shp_rank_bm25 bm25;
    double n_docs;
    shp_rank_query relevance;
    int64_t mean_len;
    int has_unseen; /* whether the arrays hold memories that the transaction does not see */

    shp_candidate *heap; /* owned */
    int64_t n_candidates, n_heap, heap_capacity;
    span *spans;               /* owned */
    shp_rescore_memory *reach; /* owned */
    int64_t n_spans, n_reach, reach_capacity; /* capacity: in candidates */
    shp_rescore_buffers rescored;
    shp_recall_hit *hits; /* owned */
    int64_t n_hits, hit_capacity;
    double sums[WINDOW]; /* all zero between windows */
    uint16_t touched[WINDOW];
};

/* ---- weights */

/* Whether at least 16 other known keywords are rarer than list i (or as rare, and earlier). */
static int is_too_common(const shp_recall_reader *reader, int i)
{
    int n_rarer = 0;
    for (int j = 0; j < reader->postings.n_phrases; j++) {
        int64_t n = reader->postings.lists[j].n;
        n_rarer += n > 0 && (n < reader->postings.lists[i].n || (n == reader->postings.lists[i].n && j < i));
    }
    return n_rarer >= SHP_RECALL_MAX_KEYWORDS;
}

/* Sets idf and is_used of every list, and what relevance depends on. */
static void weigh(shp_recall_reader *reader)
{
    double idf_sum = 0.0;
    int64_t n_unknown = 0;
    for (int i = 0; i < reader->postings.n_phrases; i++) {
        shp_posting_list *list = &reader->postings.lists[i];
        n_unknown += list->n == 0;
        list->is_used = list->n > 0 && !is_too_common(reader, i);
        if (!list->is_used)
            continue;
        list->idf = shp_rank_idf(reader->n_docs, (double)list->n);
        idf_sum += list->idf;
    }
    reader->relevance = shp_rank_query_of(idf_sum, reader->n_docs, n_unknown);
}

/* ---- candidates */

static int heap_push(shp_recall_reader *reader, const shp_candidate *pushed)
{
    if (reader->n_heap == reader->n_candidates) {
        if (shp_candidate_is_less(&reader->heap[0], pushed))
            shp_heap_sift(reader->heap, reader->n_heap, 0, *pushed);
        return SQLITE_OK;
    }
    if (reader->n_heap == reader->heap_capacity) {
        int64_t capacity = reader->heap_capacity ? 2 * reader->heap_capacity : SHP_RESCORE_CANDIDATES;
        shp_candidate *grown = realloc(reader->heap, (size_t)capacity * sizeof *grown);
        if (!grown)
            return SQLITE_NOMEM;
        reader->heap = grown;
        reader->heap_capacity = capacity;
    }
    reader->heap[reader->n_heap++] = *pushed;
    if (reader->n_heap == reader->n_candidates)
        shp_heap_order(reader->heap, reader->n_heap);
    return SQLITE_OK;
}

/* First memory that is not scored yet, or -1. */
static int64_t next_document(const shp_recall_reader *reader)
{
    int64_t first = -1;
    for (int i = 0; i < reader->postings.n_phrases; i++) {
        const shp_posting_list *list = &reader->postings.lists[i];
        if (!list->is_used || list->next == list->n)
            continue;
        if (first < 0 || list->postings[list->next].document < first)
            first = list->postings[list->next].document;
    }
    return first;
}

/* Adds up the BM25 of the memories base .. base + WINDOW - 1; how many of them have any. */
static int sum_window(shp_recall_reader *reader, int64_t base)
{
    const int32_t *doc_len = reader->documents->doc_len + base;
    int n_touched = 0;
    for (int i = 0; i < reader->postings.n_phrases; i++) {
        shp_posting_list *list = &reader->postings.lists[i];
        if (!list->is_used)
            continue;
        int64_t p = list->next;
        for (; p < list->n && list->postings[p].document < base + WINDOW; p++) {
            uint32_t place = (uint32_t)(list->postings[p].document - base);
            if (reader->sums[place] == 0.0)
                reader->touched[n_touched++] = (uint16_t)place;
            reader->sums[place] +=
                shp_rank_term(&reader->bm25, list->idf, shp_rank_tf(list->postings[p].parts), doc_len[place]);
        }
        list->next = p;
    }
    return n_touched;
}

/* No memory of the window is of more recency. */
static double best_recency(const shp_recall_reader *reader, int64_t base)
{
    const shp_rescore_query *how = &reader->query->rescore;
    if (base + WINDOW > reader->documents->n)
        return 1.0;
    double age_days = (how->now - (double)reader->documents->newest[base / WINDOW]) / 86400.0;
    return shp_rank_recency(age_days, how->recency_floor);
}

static int keep_best(shp_recall_reader *reader, int64_t base, int n_touched)
{
    const shp_rescore_query *how = &reader->query->rescore;
    double most = best_recency(reader, base);
    int code = SQLITE_OK;
    for (int i = 0; i < n_touched; i++) {
        shp_candidate found = {0.0, reader->sums[reader->touched[i]], (uint32_t)(base + reader->touched[i]), 0};
        reader->sums[reader->touched[i]] = 0.0;
        /* Most are out before their time is looked up, which is a cache miss. */
        int is_full = reader->n_heap == reader->n_candidates;
        if (is_full && found.bm25 * most < reader->heap[0].score)
            continue;
        double age_days = (how->now - (double)reader->documents->timestamp[found.document]) / 86400.0;
        found.score = found.bm25 * shp_rank_recency(age_days, how->recency_floor);
        if (is_full && !shp_candidate_is_less(&reader->heap[0], &found))
            continue;
        if (code == SQLITE_OK)
            code = heap_push(reader, &found);
    }
    return code;
}

static int find_candidates(shp_recall_reader *reader)
{
    int code = SQLITE_OK;
    reader->n_heap = 0;
    for (int64_t first; code == SQLITE_OK && (first = next_document(reader)) >= 0;) {
        int64_t base = first - first % WINDOW;
        code = keep_best(reader, base, sum_window(reader, base));
    }
    return code;
}

/* ---- memories within reach of the candidates */

static int by_document(const void *a, const void *b)
{
    uint32_t x = ((const shp_candidate *)a)->document, y = ((const shp_candidate *)b)->document;
    return (x > y) - (x < y);
}

static void copy_memory(const shp_documents *documents, int64_t document, shp_rescore_memory *out)
{
    out->sequence = documents->sequence[document];
    out->timestamp = documents->timestamp[document];
    out->bm25 = out->whole = 0.0;
    out->thread = documents->thread[document];
    out->label = documents->label[document];
    out->asks = documents->asks[document];
    out->length = shp_length_class(documents->doc_len[document]);
    out->pairs = 0;
    out->is_candidate = 0;
}

/* Fills reader->spans with the runs of memories within reach, rising, and reader->reach with the memories. */
static void collect_reach(shp_recall_reader *reader)
{
    const shp_documents *documents = reader->documents;
    const shp_rescore_query *how = &reader->query->rescore;
    qsort(reader->heap, (size_t)reader->n_heap, sizeof *reader->heap, by_document);
    reader->n_spans = reader->n_reach = 0;
    span *last = NULL;
    for (int64_t c = 0; c < reader->n_heap; c++) {
        int64_t document = reader->heap[c].document;
        /* Whose thread is 0 has no neighbours. */
        int64_t around = documents->thread[document] ? SHP_RESCORE_REACH : 0;
        int64_t from = document > around ? document - around : 0;
        int64_t end = document + around < documents->n ? document + around + 1 : documents->n;
        if (!last || from > last->end) {
            last = &reader->spans[reader->n_spans++];
            *last = (span){from, from, reader->n_reach};
        }
        for (; last->end < end; last->end++)
            copy_memory(documents, last->end, &reader->reach[reader->n_reach++]);
        shp_rescore_memory *candidate = &reader->reach[last->place + document - last->first];
        candidate->is_candidate = 1;
        candidate->pairs = (uint8_t)shp_pairs_count(&documents->pairs[document], how->pairs, how->n_pairs);
    }
}

/* The first posting from `low` on that is at or after `document`, by galloping search. */
static int64_t seek(const shp_posting_list *list, int64_t low, int64_t document)
{
    const shp_posting *postings = list->postings;
    int64_t step = 1, high;
    while (low + step < list->n && postings[low + step].document < document) {
        low += step;
        step *= 2;
    }
    high = low + step < list->n ? low + step : list->n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (postings[middle].document < document)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The BM25 of all within reach: the same sums as sum_window's. */
static void sum_reach(shp_recall_reader *reader)
{
    for (int i = 0; i < reader->postings.n_phrases; i++) {
        const shp_posting_list *list = &reader->postings.lists[i];
        int64_t p = 0;
        for (int64_t s = 0; list->is_used && s < reader->n_spans; s++) {
            const span *run = &reader->spans[s];
            p = seek(list, p, run->first);
            for (; p < list->n && list->postings[p].document < run->end; p++) {
                uint32_t document = list->postings[p].document, parts = list->postings[p].parts;
                double doc_len = reader->documents->doc_len[document];
                shp_rescore_memory *memory = &reader->reach[run->place + document - run->first];
                memory->bm25 += shp_rank_term(&reader->bm25, list->idf, shp_rank_tf(parts), doc_len);
                memory->whole += shp_rank_term(&reader->bm25, list->idf, shp_rank_whole_tf(parts), doc_len);
            }
        }
    }
}

/* SQLITE_ROW where it is, SQLITE_DONE where it is not, or an error. */
static int look_up(shp_recall_reader *reader, int64_t id)
{
    sqlite3_bind_int64(reader->is_there, 1, id);
    int code = sqlite3_step(reader->is_there);
    sqlite3_reset(reader->is_there);
    return code;
}

/* Which weights a memory gets depends on who wrote those beside it, which must be those that the transaction sees. */
static int forget_unseen_assistants(shp_recall_reader *reader)
{
    for (int64_t i = 0; i < reader->n_reach; i++) {
        shp_rescore_memory *memory = &reader->reach[i];
        if (!(memory->asks & SHP_ASSISTANT) || memory->bm25 != 0.0)
            continue;
        int found = look_up(reader, reader->query->tenant << SHP_SEQUENCE_BITS | memory->sequence);
        if (found == SQLITE_DONE)
            memory->asks &= (uint8_t)~SHP_ASSISTANT;
        else if (found != SQLITE_ROW)
            return found;
    }
    return SQLITE_OK;
}

static int rescore(shp_recall_reader *reader)
{
    if (reader->n_heap > reader->reach_capacity) {
        int64_t most = reader->heap_capacity, n_near = 2 * SHP_RESCORE_REACH + 1;
        shp_rescore_memory *reach = realloc(reader->reach, (size_t)(most * n_near) * sizeof *reach);
        reader->reach = reach ? reach : reader->reach;
        span *spans = realloc(reader->spans, (size_t)most * sizeof *spans);
        reader->spans = spans ? spans : reader->spans;
        if (!reach || !spans)
            return SQLITE_NOMEM;
        reader->reach_capacity = most;
    }
    reader->n_reach = 0;
    if (reader->n_heap) {
        collect_reach(reader);
        sum_reach(reader);
        int code = reader->has_unseen ? forget_unseen_assistants(reader) : SQLITE_OK;
        if (code != SQLITE_OK)
            return code;
    }
    int is_done = shp_rescore(&reader->rescored, &reader->query->rescore, reader->mean_len, reader->reach,
                              reader->n_reach);
    return is_done ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---- hits */

static int append_hit(shp_recall_reader *reader, const shp_rescore_hit *best, int64_t id, double relevance)
{
    if (reader->n_hits == reader->hit_capacity) {
        int64_t capacity = reader->hit_capacity ? 2 * reader->hit_capacity : 16;
        shp_recall_hit *grown = realloc(reader->hits, (size_t)capacity * sizeof *grown);
        if (!grown)
            return SQLITE_NOMEM;
        reader->hits = grown;
        reader->hit_capacity = capacity;
    }
    reader->hits[reader->n_hits++] = (shp_recall_hit){id, best->bm25, best->score, relevance};
    return SQLITE_OK;
}

static int take_best(shp_recall_reader *reader)
{
    const shp_recall_query *query = reader->query;
    /* Relevance grows strictly with that mean: a threshold on the one is one on the other, asked with some slack
       first because it costs less. */
    double least = shp_rank_min_bm25(query->min_relevance, &reader->relevance) * (1.0 - 1e-12);
    shp_rescore_hit best;
    int code = SQLITE_OK;
    while (code == SQLITE_OK && reader->n_hits < query->k && shp_rescore_pop(&reader->rescored, &best)) {
        double mean = shp_rescore_mean(&best);
        if (mean < least)
            continue;
        double relevance = shp_rank_relevance(mean, &reader->relevance);
        int64_t id = query->tenant << SHP_SEQUENCE_BITS | best.sequence;
        if (relevance < query->min_relevance)
            continue;
        int found = best.bm25 == 0.0 ? look_up(reader, id) : SQLITE_ROW;
        if (found == SQLITE_ROW)
            code = append_hit(reader, &best, id, relevance);
        else if (found != SQLITE_DONE)
            code = found;
    }
    return code;
}

static int rank_postings(shp_recall_reader *reader, int64_t n_memories, int64_t total_length)
{
    const shp_recall_query *query = reader->query;
    /* A tenants row that says less than its own index knows (a damaged file) must not give NaN. */
    int64_t n = n_memories;
    for (int i = 0; i < query->n_phrases; i++)
        n = reader->postings.lists[i].n > n ? reader->postings.lists[i].n : n;
    reader->n_docs = (double)n;
    reader->mean_len = n ? total_length / n : 0;
    reader->has_unseen = reader->documents->n != n_memories;
    shp_rank_bm25_set(query->k1, query->b, n ? (double)total_length / reader->n_docs : 0.0, &reader->bm25);
    weigh(reader);
    reader->n_candidates = shp_rescore_candidates(&query->rescore, query->k);

    int code = find_candidates(reader);
    if (code == SQLITE_OK)
        code = rescore(reader);
    return code == SQLITE_OK ? take_best(reader) : code;
}

/* ---- one search */

static int run(sqlite3_stmt *statement)
{
    sqlite3_step(statement);
    return sqlite3_reset(statement);
}

/* Inside a transaction. */
static int search_tenant(shp_documents_cache *cache, shp_recall_reader *reader)
{
    const shp_recall_query *query = reader->query;
    sqlite3_bind_int64(reader->tenant_row, 1, query->tenant);
    int code = sqlite3_step(reader->tenant_row);
    int64_t n = sqlite3_column_int64(reader->tenant_row, 0);
    int64_t total_length = sqlite3_column_int64(reader->tenant_row, 1);
    int64_t version = sqlite3_column_int64(reader->tenant_row, 2);
    int64_t edits = sqlite3_column_int64(reader->tenant_row, 3);
    sqlite3_reset(reader->tenant_row);
    if (code != SQLITE_ROW)
        return code == SQLITE_DONE ? SQLITE_OK : code; /* a user without memories */

    shp_documents *documents = NULL;
    code = shp_documents_acquire(cache, reader->load, query->tenant, version, edits, &documents);
    if (code != SQLITE_OK)
        return code;
    reader->documents = documents;
    if (documents->n)
        code = shp_postings_gather(&reader->postings, documents, query->tenant, query->match, query->match_bytes,
                                   query->n_phrases);
    if (code == SQLITE_OK && documents->n)
        code = rank_postings(reader, n, total_length);
    reader->documents = NULL;
    shp_documents_release(cache, documents);
    return code;
}

int shp_recall_search(shp_documents_cache *cache, shp_recall_reader *reader, const shp_recall_query *query,
                      const shp_recall_hit **hits, int64_t *n_hits)
{
    int has_own_transaction = sqlite3_get_autocommit(sqlite3_db_handle(reader->tenant_row));
    int code = has_own_transaction ? run(reader->begin) : SQLITE_OK;
    *n_hits = 0;
    if (code != SQLITE_OK)
        return code;
    reader->query = query;
    reader->n_hits = 0;
    code = search_tenant(cache, reader);
    shp_postings_trim(&reader->postings);
    reader->query = NULL;
    if (has_own_transaction) {
        int ended = run(code == SQLITE_OK ? reader->commit : reader->rollback);
        if (code == SQLITE_OK)
            code = ended;
    }
    *hits = reader->hits;
    *n_hits = code == SQLITE_OK ? reader->n_hits : 0;
    return code;
}

/* ---- opening */

/* Statements over the tables of a corpus.  Of a chunk `thread` is its node: the one before it and after it are of
   the same text, and its node's card is there too. */
static const struct corpus {
    const char *sums, *load, *is_there, *match;
} CORPORA[SHP_RECALL_CORPORA] = {
    [SHP_RECALL_MEMORIES] = {
        "SELECT n, total_length, version, edits FROM tenants WHERE number = ?1",
        /* The planner would take the table, with all its text, for a range of row ids. */
        "SELECT id, timestamp, doc_len, thread, label, asks, pairs FROM context INDEXED BY context_docs "
        "WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
        "SELECT 1 FROM context WHERE id = ?1",
        "SELECT 1 FROM context_fts WHERE context_fts MATCH ?1 AND shepherd_recall(context_fts, ?2)",
    },
    [SHP_RECALL_CHUNKS] = {
        "SELECT n, total_length, version, edits FROM knowledge_sums WHERE number = ?1",
        "SELECT id, 0, doc_len, node_id, 0, 0, NULL FROM chunks INDEXED BY chunks_docs WHERE id BETWEEN ?1 AND ?2 "
        "ORDER BY id",
        "SELECT 1 FROM chunks WHERE id = ?1",
        "SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH ?1 AND shepherd_recall(chunks_fts, ?2)",
    },
};

static int prepare(sqlite3 *db, const char *sql, sqlite3_stmt **out)
{
    return sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
}

int shp_recall_reader_open(sqlite3 *db, int corpus, shp_recall_reader **out)
{
    const struct corpus *tables = &CORPORA[corpus];
    shp_recall_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return SQLITE_NOMEM;
    int code = prepare(db, "BEGIN", &reader->begin);
    if (code == SQLITE_OK)
        code = prepare(db, "COMMIT", &reader->commit);
    if (code == SQLITE_OK)
        code = prepare(db, "ROLLBACK", &reader->rollback);
    if (code == SQLITE_OK)
        code = prepare(db, tables->sums, &reader->tenant_row);
    if (code == SQLITE_OK)
        code = prepare(db, tables->load, &reader->load);
    if (code == SQLITE_OK)
        code = prepare(db, tables->is_there, &reader->is_there);
    if (code == SQLITE_OK)
        code = shp_postings_open(db, tables->match, &reader->postings);
    if (code != SQLITE_OK) {
        shp_recall_reader_close(reader);
        return code;
    }
    *out = reader;
    return SQLITE_OK;
}

void shp_recall_reader_close(shp_recall_reader *reader)
{
    if (!reader)
        return;
    sqlite3_finalize(reader->begin);
    sqlite3_finalize(reader->commit);
    sqlite3_finalize(reader->rollback);
    sqlite3_finalize(reader->tenant_row);
    sqlite3_finalize(reader->load);
    sqlite3_finalize(reader->is_there);
    shp_postings_close(&reader->postings);
    shp_rescore_free(&reader->rescored);
    free(reader->heap);
    free(reader->spans);
    free(reader->reach);
    free(reader->hits);
    free(reader);
}

/* Recall: BM25 times recency over one user's memories, best k.

   Index: context_fts (FTS5, contentless), row id = tenant << 40 | sequence, tokens `t<tenant>_<word>`; so a
   phrase's rows are one user's, and its document frequency that user's own.  Rows of another tenant under
   such a token (a damaged or forged file) are passed over.

   1. Postings.  FTS5 hands out, per keyword, ascending rows and positions; kept are (index of the memory in the
      user's arrays, tf).  Looking a word up costs about 1 us per segment of the index, of which an index has
      5 to 20; a row then costs 27 to 90 ns.  Two ways to walk, the same postings:
        by row    the cursor of `"a" OR "b" OR "c"` calls an auxiliary function for each row: 90 ns a row.
        by word   xQueryPhrase for each keyword, called from inside that function: 27 to 45 ns a posting.  It needs a
                  cursor that stands on some row and knows all the phrases, and positioning the OR would look
                  every word up a second time.  So the cursor is `"a" OR NEAR("0" "b" "c")`: FTS5 gives up a NEAR
                  group at its first word without rows, no token is "0", and only "a" is looked up twice.
                  When "a" has no rows there is no call, and the next word takes its place.
      By row for users of few memories, who cannot have many rows.  100,000 memories, p50 of CPU time: of one
      user by row 319 us, by word 179; of 1,000 users 67 and 89.
   2. Weights.  df = postings kept; N and total length from `tenants`.  Of more than 16 known keywords the rarest
      stay, the earlier where equally rare.
   3. Scores.  Windows of 4,096 memories at a time: their sums stay in the first-level cache whatever the number
      of memories.  A sum is taken in the order of the keywords, each product rounded by itself: the
      result is a function of the statistics alone, bit for bit, however the postings were gathered.
   4. The threshold on the relevance becomes a least BM25 (relevance grows strictly with it), with 1e-12 of slack;
      what passes is then asked exactly.  A heap keeps the best k, the larger id where scores are equal.

   Cost: 8 bytes a posting and 32 a hit, kept between searches. */
#include "recall.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rank.h"

enum {
    WINDOW = 4096,       /* memories scored at a time: 32 KiB of sums */
    FEW_MEMORIES = 1500, /* up to here a user is walked by row */
    KEEP_POSTINGS = 1 << 20 /* buffers above this many go back after the search */
};

static const char POINTER_TYPE[] = "shepherd_recall";

typedef struct {
    uint32_t document; /* index into the user's arrays */
    uint32_t tf;
} posting;

typedef struct {
    posting *postings; /* ascending by document; owned */
    int64_t n, capacity;
    int64_t next; /* first one not yet scored */
    double idf;
    int is_used; /* among the keywords ranked by */
} posting_list;

typedef struct {
    double score, bm25;
    uint32_t document;
} candidate;

struct shp_recall_reader {
    sqlite3_stmt *begin, *commit, *rollback, *tenant_row, *load, *match; /* owned */

    /* The search under way. */
    const shp_recall_query *query;
    const shp_documents *documents;
    posting_list lists[SHP_RECALL_MAX_PHRASES];
    int64_t start; /* no row to come is below this index of the arrays */
    int by_word;   /* how it walks */
    int first;     /* by word: the keyword before the NEAR group */
    int phrase;    /* by word: the keyword being walked */
    int was_called;
    int code; /* first error inside a callback */
    char *expression; /* by word: the FTS5 query; owned */
    int64_t expression_capacity;

    candidate *heap; /* min-heap by (score, document); owned */
    int64_t n_heap, heap_capacity;
    shp_recall_hit *hits; /* owned */
    int64_t hit_capacity;
    double sums[WINDOW];  /* all zero between windows */
    uint16_t touched[WINDOW];
};

/* ---- gathering postings */

static int list_append(posting_list *list, uint32_t document, uint32_t tf)
{
    if (list->n == list->capacity) {
        int64_t capacity = list->capacity ? 2 * list->capacity : 256;
        posting *grown = realloc(list->postings, (size_t)capacity * sizeof *grown);
        if (!grown)
            return SQLITE_NOMEM;
        list->postings = grown;
        list->capacity = capacity;
    }
    list->postings[list->n].document = document;
    list->postings[list->n].tf = tf;
    list->n++;
    return SQLITE_OK;
}

static uint32_t count_positions(const Fts5ExtensionApi *api, Fts5Context *context, int phrase)
{
    Fts5PhraseIter iterator;
    int column, offset;
    uint32_t n = 0;
    if (api->xPhraseFirst(context, phrase, &iterator, &column, &offset) != SQLITE_OK)
        return 0;
    while (column >= 0) {
        n++;
        api->xPhraseNext(context, &iterator, &column, &offset);
    }
    return n;
}

/* Index of the cursor's row in the user's arrays, or -1 when it is none of the user's memories.
   FTS5 rows ascend, so each search begins where the last ended. */
static int64_t current_document(shp_recall_reader *reader, int64_t rowid)
{
    if (rowid >> SHP_SEQUENCE_BITS != reader->query->tenant)
        return -1;
    int64_t document = shp_documents_find(reader->documents, reader->start, rowid & SHP_SEQUENCE_MASK);
    if (document >= 0)
        reader->start = document + 1;
    return document;
}

static int on_word_row(const Fts5ExtensionApi *api, Fts5Context *context, void *argument)
{
    shp_recall_reader *reader = argument;
    int64_t document = current_document(reader, api->xRowid(context));
    if (document < 0)
        return SQLITE_OK;
    /* xQueryPhrase's cursor has that one phrase, as number 0. */
    uint32_t tf = count_positions(api, context, 0);
    if (tf)
        reader->code = list_append(&reader->lists[reader->phrase], (uint32_t)document, tf);
    return reader->code;
}

static void walk_by_word(shp_recall_reader *reader, const Fts5ExtensionApi *api, Fts5Context *context)
{
    for (int i = reader->first; i < reader->query->n_phrases && reader->code == SQLITE_OK; i++) {
        /* Phrase 0 is the first keyword, 1 the "0" of the group. */
        int phrase = i == reader->first ? 0 : i - reader->first + 1;
        reader->phrase = i;
        reader->start = 0;
        int code = api->xQueryPhrase(context, phrase, reader, on_word_row);
        if (reader->code == SQLITE_OK)
            reader->code = code;
    }
}

static void walk_row(shp_recall_reader *reader, const Fts5ExtensionApi *api, Fts5Context *context)
{
    int64_t document = current_document(reader, api->xRowid(context));
    if (document < 0)
        return;
    for (int i = 0; i < reader->query->n_phrases && reader->code == SQLITE_OK; i++) {
        uint32_t tf = count_positions(api, context, i);
        if (tf)
            reader->code = list_append(&reader->lists[i], (uint32_t)document, tf);
    }
}

/* shepherd_recall(context_fts, pointer): called on the cursor's rows.  True makes a row of the statement's
   result, where it stops: by word, on the first. */
static void on_row(const Fts5ExtensionApi *api, Fts5Context *context, sqlite3_context *result, int n_values,
                   sqlite3_value **values)
{
    shp_recall_reader *reader = n_values == 1 ? sqlite3_value_pointer(values[0], POINTER_TYPE) : NULL;
    int n_rest = reader ? reader->query->n_phrases - reader->first : 0;
    if (!reader || api->xPhraseCount(context) != n_rest + (reader->by_word && n_rest > 1)) {
        sqlite3_result_error_code(result, SQLITE_MISUSE);
        return;
    }
    reader->was_called = 1;
    if (reader->by_word)
        walk_by_word(reader, api, context);
    else
        walk_row(reader, api, context);
    if (reader->code != SQLITE_OK)
        sqlite3_result_error_code(result, reader->code);
    else
        sqlite3_result_int(result, reader->by_word);
}

static int run_match(shp_recall_reader *reader, const char *expression, int n_bytes)
{
    sqlite3_bind_text(reader->match, 1, expression, n_bytes, SQLITE_STATIC);
    sqlite3_bind_pointer(reader->match, 2, reader, POINTER_TYPE, NULL);
    int code = sqlite3_step(reader->match);
    sqlite3_reset(reader->match);
    sqlite3_clear_bindings(reader->match);
    if (reader->code != SQLITE_OK)
        return reader->code;
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

/* One more word from `from`: a quoted token and what stands before the next one. */
static const char *after_word(const char *from, const char *end)
{
    const char *quote = memchr(from + 1, '"', (size_t)(end - from - 1));
    return quote ? quote + 1 : end;
}

/* `"a" OR NEAR("0" "b" "c")` of the words in [from, end), which are "a" OR "b" OR "c"; its length. */
static int write_expression(shp_recall_reader *reader, const char *from, const char *end)
{
    static const char OPEN[] = " OR NEAR(\"0\"";
    const char *stop = after_word(from, end);
    char *out = reader->expression;
    memcpy(out, from, (size_t)(stop - from));
    out += stop - from;
    if (stop == end)
        return (int)(out - reader->expression);
    memcpy(out, OPEN, sizeof OPEN - 1);
    out += sizeof OPEN - 1;
    while (stop < end) {
        from = memchr(stop, '"', (size_t)(end - stop));
        if (!from)
            break;
        stop = after_word(from, end);
        *out++ = ' ';
        memcpy(out, from, (size_t)(stop - from));
        out += stop - from;
    }
    *out++ = ')';
    return (int)(out - reader->expression);
}

static int gather_by_word(shp_recall_reader *reader)
{
    const char *from = reader->query->match, *stop, *end = from + reader->query->match_bytes;
    if (reader->expression_capacity < reader->query->match_bytes + 32) {
        char *grown = realloc(reader->expression, (size_t)reader->query->match_bytes + 32);
        if (!grown)
            return SQLITE_NOMEM;
        reader->expression = grown;
        reader->expression_capacity = reader->query->match_bytes + 32;
    }
    int code = SQLITE_OK;
    while (from && code == SQLITE_OK && !reader->was_called) {
        code = run_match(reader, reader->expression, write_expression(reader, from, end));
        stop = after_word(from, end);
        from = memchr(stop, '"', (size_t)(end - stop));
        reader->first += !reader->was_called;
    }
    return code;
}

static int gather(shp_recall_reader *reader)
{
    for (int i = 0; i < reader->query->n_phrases; i++)
        reader->lists[i].n = reader->lists[i].next = 0;
    reader->start = 0;
    reader->first = 0;
    reader->was_called = 0;
    reader->code = SQLITE_OK;
    reader->by_word = reader->documents->n > FEW_MEMORIES;
    return reader->by_word ? gather_by_word(reader)
                           : run_match(reader, reader->query->match, reader->query->match_bytes);
}

/* ---- weights */

/* Whether at least 16 other known keywords are rarer than list i (or as rare, and earlier). */
static int is_too_common(const shp_recall_reader *reader, int i)
{
    int n_rarer = 0;
    for (int j = 0; j < reader->query->n_phrases; j++) {
        int64_t n = reader->lists[j].n;
        n_rarer += n > 0 && (n < reader->lists[i].n || (n == reader->lists[i].n && j < i));
    }
    return n_rarer >= SHP_RECALL_MAX_KEYWORDS;
}

/* Sets idf and is_used of every list; the sum of idf over those used. */
static double weigh(shp_recall_reader *reader, double n_docs)
{
    double idf_sum = 0.0;
    for (int i = 0; i < reader->query->n_phrases; i++) {
        posting_list *list = &reader->lists[i];
        list->is_used = list->n > 0 && !is_too_common(reader, i);
        if (!list->is_used)
            continue;
        list->idf = shp_rank_idf(n_docs, (double)list->n);
        idf_sum += list->idf;
    }
    return idf_sum;
}

/* ---- the best k */

static int is_less(const candidate *a, const candidate *b)
{
    return a->score < b->score || (a->score == b->score && a->document < b->document);
}

static void sift_down(candidate *heap, int64_t n, candidate moved)
{
    int64_t i = 0;
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && is_less(&heap[child + 1], &heap[child]))
            child++;
        if (!is_less(&heap[child], &moved))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moved;
}

static int heap_push(shp_recall_reader *reader, const candidate *pushed)
{
    if (reader->n_heap == reader->query->k) {
        if (is_less(&reader->heap[0], pushed))
            sift_down(reader->heap, reader->n_heap, *pushed);
        return SQLITE_OK;
    }
    if (reader->n_heap == reader->heap_capacity) {
        int64_t capacity = reader->heap_capacity ? 2 * reader->heap_capacity : 16;
        candidate *grown = realloc(reader->heap, (size_t)capacity * sizeof *grown);
        if (!grown)
            return SQLITE_NOMEM;
        reader->heap = grown;
        reader->heap_capacity = capacity;
    }
    int64_t i = reader->n_heap++;
    while (i > 0 && is_less(pushed, &reader->heap[(i - 1) / 2])) {
        reader->heap[i] = reader->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    reader->heap[i] = *pushed;
    return SQLITE_OK;
}

/* ---- scores */

/* First memory that is not scored yet, or -1. */
static int64_t next_document(const shp_recall_reader *reader)
{
    int64_t first = -1;
    for (int i = 0; i < reader->query->n_phrases; i++) {
        const posting_list *list = &reader->lists[i];
        if (!list->is_used || list->next == list->n)
            continue;
        if (first < 0 || list->postings[list->next].document < first)
            first = list->postings[list->next].document;
    }
    return first;
}

/* Adds up the BM25 of the memories base .. base + WINDOW - 1; how many of them have any. */
static int sum_window(shp_recall_reader *reader, const shp_rank_bm25 *bm25, int64_t base)
{
    const int32_t *doc_len = reader->documents->doc_len + base;
    int n_touched = 0;
    for (int i = 0; i < reader->query->n_phrases; i++) {
        posting_list *list = &reader->lists[i];
        if (!list->is_used)
            continue;
        int64_t p = list->next;
        for (; p < list->n && list->postings[p].document < base + WINDOW; p++) {
            uint32_t place = (uint32_t)(list->postings[p].document - base);
            if (reader->sums[place] == 0.0)
                reader->touched[n_touched++] = (uint16_t)place;
            reader->sums[place] += shp_rank_term(bm25, list->idf, list->postings[p].tf, doc_len[place]);
        }
        list->next = p;
    }
    return n_touched;
}

static int keep_best(shp_recall_reader *reader, int64_t base, int n_touched, double idf_sum, double n_docs,
                     double least_bm25)
{
    const shp_recall_query *query = reader->query;
    int code = SQLITE_OK;
    for (int i = 0; i < n_touched; i++) {
        candidate found = {0.0, reader->sums[reader->touched[i]], (uint32_t)(base + reader->touched[i])};
        reader->sums[reader->touched[i]] = 0.0;
        /* Recency is at most 1, so the score is at most the BM25. */
        int is_full = reader->n_heap == query->k;
        if (found.bm25 < least_bm25 || (is_full && found.bm25 < reader->heap[0].score))
            continue;
        double age_days = (query->now - (double)reader->documents->timestamp[found.document]) / 86400.0;
        found.score = found.bm25 * shp_rank_recency(age_days, query->recency_floor);
        if (is_full && !is_less(&reader->heap[0], &found))
            continue;
        if (query->min_relevance > 0.0 &&
            shp_rank_relevance(found.bm25, idf_sum, n_docs) < query->min_relevance)
            continue;
        if (code == SQLITE_OK)
            code = heap_push(reader, &found);
    }
    return code;
}

/* Empties the heap into the hits, from their end: the worst comes out first. */
static int sort_hits(shp_recall_reader *reader, double idf_sum, double n_docs)
{
    if (reader->n_heap > reader->hit_capacity) {
        shp_recall_hit *grown = realloc(reader->hits, (size_t)reader->n_heap * sizeof *grown);
        if (!grown)
            return SQLITE_NOMEM;
        reader->hits = grown;
        reader->hit_capacity = reader->n_heap;
    }
    while (reader->n_heap) {
        candidate worst = reader->heap[0];
        shp_recall_hit *hit = &reader->hits[--reader->n_heap];
        sift_down(reader->heap, reader->n_heap, reader->heap[reader->n_heap]);
        hit->id = reader->query->tenant << SHP_SEQUENCE_BITS | reader->documents->sequence[worst.document];
        hit->bm25 = worst.bm25;
        hit->score = worst.score;
        hit->relevance = shp_rank_relevance(worst.bm25, idf_sum, n_docs);
    }
    return SQLITE_OK;
}

static int rank_postings(shp_recall_reader *reader, int64_t n_memories, int64_t total_length, int64_t *n_hits)
{
    const shp_recall_query *query = reader->query;
    /* A tenants row that says less than its own index knows (a damaged file) must not give NaN. */
    int64_t n = n_memories;
    for (int i = 0; i < query->n_phrases; i++)
        n = reader->lists[i].n > n ? reader->lists[i].n : n;
    double n_docs = (double)n;
    shp_rank_bm25 bm25;
    shp_rank_bm25_set(query->k1, query->b, n ? (double)total_length / n_docs : 0.0, &bm25);
    double idf_sum = weigh(reader, n_docs);
    double least_bm25 = shp_rank_min_bm25(query->min_relevance, idf_sum, n_docs) * (1.0 - 1e-12);

    int code = SQLITE_OK;
    reader->n_heap = 0;
    for (int64_t base; code == SQLITE_OK && (base = next_document(reader)) >= 0;) {
        int n_touched = sum_window(reader, &bm25, base);
        code = keep_best(reader, base, n_touched, idf_sum, n_docs, least_bm25);
    }
    *n_hits = reader->n_heap;
    return code == SQLITE_OK ? sort_hits(reader, idf_sum, n_docs) : code;
}

/* ---- one search */

static int run(sqlite3_stmt *statement)
{
    sqlite3_step(statement);
    return sqlite3_reset(statement);
}

/* Inside a transaction. */
static int search_tenant(shp_documents_cache *cache, shp_recall_reader *reader, int64_t *n_hits)
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
        code = gather(reader);
    if (code == SQLITE_OK && documents->n)
        code = rank_postings(reader, n, total_length, n_hits);
    reader->documents = NULL;
    shp_documents_release(cache, documents);
    return code;
}

static void trim(shp_recall_reader *reader)
{
    for (int i = 0; i < reader->query->n_phrases; i++) {
        posting_list *list = &reader->lists[i];
        if (list->capacity > KEEP_POSTINGS) {
            free(list->postings);
            list->postings = NULL;
            list->capacity = list->n = 0;
        }
    }
}

int shp_recall_search(shp_documents_cache *cache, shp_recall_reader *reader, const shp_recall_query *query,
                      const shp_recall_hit **hits, int64_t *n_hits)
{
    int has_own_transaction = sqlite3_get_autocommit(sqlite3_db_handle(reader->match));
    int code = has_own_transaction ? run(reader->begin) : SQLITE_OK;
    *n_hits = 0;
    if (code != SQLITE_OK)
        return code;
    reader->query = query;
    code = search_tenant(cache, reader, n_hits);
    trim(reader);
    reader->query = NULL;
    if (has_own_transaction) {
        int ended = run(code == SQLITE_OK ? reader->commit : reader->rollback);
        if (code == SQLITE_OK)
            code = ended;
    }
    *hits = reader->hits;
    return code;
}

/* ---- opening */

static int register_function(sqlite3 *db)
{
    fts5_api *fts5 = NULL;
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, "SELECT fts5(?1)", -1, &statement, NULL);
    if (code != SQLITE_OK)
        return code;
    sqlite3_bind_pointer(statement, 1, &fts5, "fts5_api_ptr", NULL);
    sqlite3_step(statement);
    code = sqlite3_finalize(statement);
    if (code != SQLITE_OK || !fts5)
        return code != SQLITE_OK ? code : SQLITE_ERROR;
    return fts5->xCreateFunction(fts5, "shepherd_recall", NULL, on_row, NULL);
}

static int prepare(sqlite3 *db, const char *sql, sqlite3_stmt **out)
{
    return sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
}

int shp_recall_reader_open(sqlite3 *db, shp_recall_reader **out)
{
    shp_recall_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return SQLITE_NOMEM;
    int code = register_function(db);
    if (code == SQLITE_OK)
        code = prepare(db, "BEGIN", &reader->begin);
    if (code == SQLITE_OK)
        code = prepare(db, "COMMIT", &reader->commit);
    if (code == SQLITE_OK)
        code = prepare(db, "ROLLBACK", &reader->rollback);
    if (code == SQLITE_OK)
        code = prepare(db, "SELECT n, total_length, version, edits FROM tenants WHERE number = ?1",
                       &reader->tenant_row);
    /* The planner would take the table, with all its text, for a range of row ids. */
    if (code == SQLITE_OK)
        code = prepare(db, "SELECT id, timestamp, doc_len FROM context INDEXED BY context_docs "
                           "WHERE id BETWEEN ?1 AND ?2 ORDER BY id", &reader->load);
    if (code == SQLITE_OK)
        code = prepare(db, "SELECT 1 FROM context_fts WHERE context_fts MATCH ?1 "
                           "AND shepherd_recall(context_fts, ?2)", &reader->match);
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
    sqlite3_finalize(reader->match);
    for (int i = 0; i < SHP_RECALL_MAX_PHRASES; i++)
        free(reader->lists[i].postings);
    free(reader->expression);
    free(reader->heap);
    free(reader->hits);
    free(reader);
}

/* Postings of some words out of the FTS5 index.

   Index: context_fts or chunks_fts (FTS5, contentless), row id = tenant << 40 | sequence, tokens `t<tenant>_<word>`; so a
   phrase's rows are one user's, and its document frequency that user's own.  Rows of another tenant under
   such a token (a damaged or forged file) are passed over.

   FTS5 hands out, per word, ascending rows and positions, each with its column; kept are the index of the memory in the
   user's arrays and the parts that its occurrences count (rank.h).
   Looking a word up costs about 1 us per segment of the index, of which an index has 5 to 20; a row then costs 27
   to 90 ns.  Two ways to read, the same postings:
     by row    the cursor of `"a" OR "b" OR "c"` calls an auxiliary function for each row: 90 ns a row.
     by word   xQueryPhrase for each word, called from inside that function: 27 to 45 ns a posting.  It needs a
               cursor that stands on some row and knows all the phrases, and positioning the OR would look
               every word up a second time.  So the cursor is `"a" OR NEAR("0" "b" "c")`: FTS5 gives up a NEAR
               group at its first word without rows, no token is "0", and only "a" is looked up twice.
               When "a" has no rows there is no call, and the next word takes its place.
   By row for users of few memories, who cannot have many rows.  100,000 memories, p50 of CPU time: of one
   user by row 319 us, by word 179; of 1,000 users 67 and 89.

   Cost: 8 bytes a posting, kept between searches. */
#include "postings.h"

#include "rescore.h"

#include <stdlib.h>
#include <string.h>

enum {
    FEW_MEMORIES = 1500,    /* up to so many memories a user is read by row */
    KEEP_POSTINGS = 1 << 20 /* buffers above this many go back after the search */
};

static const char POINTER_TYPE[] = "shepherd_recall";

/* ---- lists */

static int list_append(shp_posting_list *list, uint32_t document, uint32_t parts)
{
    if (list->n == list->capacity) {
        int64_t capacity = list->capacity ? 2 * list->capacity : 256;
        shp_posting *grown = realloc(list->postings, (size_t)capacity * sizeof *grown);
        if (!grown)
            return SQLITE_NOMEM;
        list->postings = grown;
        list->capacity = capacity;
    }
    list->postings[list->n].document = document;
    list->postings[list->n].parts = parts;
    list->n++;
    return SQLITE_OK;
}

/* The parts that the occurrences of a phrase in the cursor's row count, whose texts are those of `asks`; 0 without
   any. */
static uint32_t count_parts(const Fts5ExtensionApi *api, Fts5Context *context, int phrase, uint8_t asks)
{
    const uint32_t of_text[2] = {shp_parts_of_word(asks, 0), shp_parts_of_word(asks, 1)};
    Fts5PhraseIter iterator;
    int column, offset;
    uint32_t n = 0;
    if (api->xPhraseFirst(context, phrase, &iterator, &column, &offset) != SQLITE_OK)
        return 0;
    while (column >= 0) {
        n += of_text[column != 0];
        api->xPhraseNext(context, &iterator, &column, &offset);
    }
    return n;
}

/* Index of the cursor's row in the user's arrays, or -1 when it is none of the user's memories.
   FTS5 rows ascend, so each search begins where the last ended. */
static int64_t current_document(shp_postings *postings, int64_t rowid)
{
    if (rowid >> SHP_SEQUENCE_BITS != postings->tenant)
        return -1;
    int64_t document = shp_documents_find(postings->documents, postings->start, rowid & SHP_SEQUENCE_MASK);
    if (document >= 0)
        postings->start = document + 1;
    return document;
}

static int on_word_row(const Fts5ExtensionApi *api, Fts5Context *context, void *argument)
{
    shp_postings *postings = argument;
    int64_t document = current_document(postings, api->xRowid(context));
    if (document < 0)
        return SQLITE_OK;
    /* xQueryPhrase's cursor has that one phrase, as number 0. */
    uint32_t parts = count_parts(api, context, 0, postings->documents->asks[document]);
    if (parts)
        postings->code = list_append(&postings->lists[postings->phrase], (uint32_t)document, parts);
    return postings->code;
}

static void walk_by_word(shp_postings *postings, const Fts5ExtensionApi *api, Fts5Context *context)
{
    for (int i = postings->first; i < postings->n_phrases && postings->code == SQLITE_OK; i++) {
        /* Phrase 0 is the first keyword, 1 the "0" of the group. */
        int phrase = i == postings->first ? 0 : i - postings->first + 1;
        postings->phrase = i;
        postings->start = 0;
        int code = api->xQueryPhrase(context, phrase, postings, on_word_row);
        if (postings->code == SQLITE_OK)
            postings->code = code;
    }
}

static void walk_row(shp_postings *postings, const Fts5ExtensionApi *api, Fts5Context *context)
{
    int64_t document = current_document(postings, api->xRowid(context));
    if (document < 0)
        return;
    for (int i = 0; i < postings->n_phrases && postings->code == SQLITE_OK; i++) {
        uint32_t parts = count_parts(api, context, i, postings->documents->asks[document]);
        if (parts)
            postings->code = list_append(&postings->lists[i], (uint32_t)document, parts);
    }
}

/* shepherd_recall(context_fts, pointer): called on the cursor's rows.  True makes a row of the statement's
   result, where it stops: by word, on the first. */
static void on_row(const Fts5ExtensionApi *api, Fts5Context *context, sqlite3_context *result, int n_values,
                   sqlite3_value **values)
{
    shp_postings *postings = n_values == 1 ? sqlite3_value_pointer(values[0], POINTER_TYPE) : NULL;
    int n_rest = postings ? postings->n_phrases - postings->first : 0;
    if (!postings || api->xPhraseCount(context) != n_rest + (postings->by_word && n_rest > 1)) {
        sqlite3_result_error_code(result, SQLITE_MISUSE);
        return;
    }
    postings->was_called = 1;
    if (postings->by_word)
        walk_by_word(postings, api, context);
    else
        walk_row(postings, api, context);
    if (postings->code != SQLITE_OK)
        sqlite3_result_error_code(result, postings->code);
    else
        sqlite3_result_int(result, postings->by_word);
}

static int run_match(shp_postings *postings, const char *expression, int n_bytes)
{
    sqlite3_bind_text(postings->match, 1, expression, n_bytes, SQLITE_STATIC);
    sqlite3_bind_pointer(postings->match, 2, postings, POINTER_TYPE, NULL);
    int code = sqlite3_step(postings->match);
    sqlite3_reset(postings->match);
    sqlite3_clear_bindings(postings->match);
    if (postings->code != SQLITE_OK)
        return postings->code;
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Reads the next word from `from`: a quoted token and the text up to the next one. */
static const char *after_word(const char *from, const char *end)
{
    const char *quote = memchr(from + 1, '"', (size_t)(end - from - 1));
    return quote ? quote + 1 : end;
}

/* `"a" OR NEAR("0" "b" "c")` of the words in [from, end), which are "a" OR "b" OR "c"; its length. */
static int write_expression(shp_postings *postings, const char *from, const char *end)
{
    static const char OPEN[] = " OR NEAR(\"0\"";
    const char *stop = after_word(from, end);
    char *out = postings->expression;
    memcpy(out, from, (size_t)(stop - from));
    out += stop - from;
    if (stop == end)
        return (int)(out - postings->expression);
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
    return (int)(out - postings->expression);
}

static int gather_by_word(shp_postings *postings)
{
    const char *from = postings->match_text, *stop, *end = from + postings->match_bytes;
    if (postings->expression_capacity < postings->match_bytes + 32) {
        char *grown = realloc(postings->expression, (size_t)postings->match_bytes + 32);
        if (!grown)
            return SQLITE_NOMEM;
        postings->expression = grown;
        postings->expression_capacity = postings->match_bytes + 32;
    }
    int code = SQLITE_OK;
    while (from && code == SQLITE_OK && !postings->was_called) {
        code = run_match(postings, postings->expression, write_expression(postings, from, end));
        stop = after_word(from, end);
        from = memchr(stop, '"', (size_t)(end - stop));
        postings->first += !postings->was_called;
    }
    return code;
}

int shp_postings_gather(shp_postings *postings, const shp_documents *documents, int64_t tenant, const char *match,
                        int match_bytes, int n_phrases)
{
    postings->documents = documents;
    postings->tenant = tenant;
    postings->match_text = match;
    postings->match_bytes = match_bytes;
    postings->n_phrases = n_phrases;
    for (int i = 0; i < n_phrases; i++)
        postings->lists[i].n = postings->lists[i].next = 0;
    postings->start = 0;
    postings->first = 0;
    postings->was_called = 0;
    postings->code = SQLITE_OK;
    postings->by_word = documents->n > FEW_MEMORIES;
    return postings->by_word ? gather_by_word(postings) : run_match(postings, match, match_bytes);
}

/* ---- */

void shp_postings_trim(shp_postings *postings)
{
    for (int i = 0; i < postings->n_phrases; i++) {
        shp_posting_list *list = &postings->lists[i];
        if (list->capacity > KEEP_POSTINGS) {
            free(list->postings);
            list->postings = NULL;
            list->capacity = list->n = 0;
        }
    }
}

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

int shp_postings_open(sqlite3 *db, const char *match, shp_postings *postings)
{
    int code = register_function(db);
    return code != SQLITE_OK ? code
                             : sqlite3_prepare_v3(db, match, -1, SQLITE_PREPARE_PERSISTENT, &postings->match, NULL);
}

void shp_postings_close(shp_postings *postings)
{
    sqlite3_finalize(postings->match);
    for (int i = 0; i < SHP_RECALL_MAX_PHRASES; i++)
        free(postings->lists[i].postings);
    free(postings->expression);
}

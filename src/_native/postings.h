/* The memories that have some words, and how often, from the FTS5 index; see postings.c. */
#ifndef SHP_POSTINGS_H
#define SHP_POSTINGS_H

#include <stdint.h>

#include "documents.h"
#include "sqlite3.h"

enum { SHP_RECALL_MAX_PHRASES = 64 }; /* words looked up */

typedef struct {
    uint32_t document; /* index into the user's arrays */
    uint32_t parts;    /* of its occurrences (SHP_RANK_PARTS) */
} shp_posting;

typedef struct {
    shp_posting *postings; /* ascending by document; owned */
    int64_t n, capacity;
    int64_t next; /* position of its reader */
    double idf;   /* the rest is its reader's */
    int is_used;
} shp_posting_list;

/* What one connection needs to look words up.  All zero before shp_postings_open. */
typedef struct {
    shp_posting_list lists[SHP_RECALL_MAX_PHRASES]; /* of the words asked, in their order */
    int n_phrases;

    sqlite3_stmt *match; /* owned */
    const shp_documents *documents;
    int64_t tenant;
    const char *match_text;
    int match_bytes;
    int64_t start; /* no later row is below this index of the arrays */
    int by_word;   /* how it reads */
    int first;     /* by word: the word before the NEAR group */
    int phrase;    /* by word: the word being read */
    int was_called;
    int code;         /* first error inside a callback */
    char *expression; /* by word: the FTS5 query; owned */
    int64_t expression_capacity;
} shp_postings;

/* SQLite codes.  `db` must outlive what is opened on it.  `match` is a query of an FTS5 table of these tokens:
   SELECT 1 FROM t WHERE t MATCH ?1 AND shepherd_recall(t, ?2) */
int shp_postings_open(sqlite3 *db, const char *match, shp_postings *postings);
void shp_postings_close(shp_postings *postings);

/* Fills the lists with the postings of `match`: n_phrases quoted tokens of that tenant joined by OR. */
int shp_postings_gather(shp_postings *postings, const shp_documents *documents, int64_t tenant, const char *match,
                        int match_bytes, int n_phrases);

/* Gives large buffers back. */
void shp_postings_trim(shp_postings *postings);

#endif

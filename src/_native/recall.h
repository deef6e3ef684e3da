/* The best memories for a question, from the FTS5 index; see recall.c. */
#ifndef SHP_RECALL_H
#define SHP_RECALL_H

#include <stdint.h>

#include "documents.h"
#include "postings.h"
#include "rescore.h"
#include "sqlite3.h"

enum { SHP_RECALL_MAX_KEYWORDS = 16 }; /* ranked by: the rarest of them that the user's memories have */

/* What is searched: the tables of each are in recall.c. */
enum { SHP_RECALL_MEMORIES = 0, SHP_RECALL_CHUNKS = 1, SHP_RECALL_CORPORA = 2 };

/* What one connection needs to search one corpus: statements and buffers.  For one thread at a time. */
typedef struct shp_recall_reader shp_recall_reader;

typedef struct {
    int64_t tenant;
    const char *match; /* FTS5 query: n_phrases quoted tokens of that tenant joined by OR; UTF-8 */
    int match_bytes;
    int n_phrases; /* 1 to SHP_RECALL_MAX_PHRASES */
    int64_t k;     /* at least 1 */
    double k1, b, min_relevance;
    shp_rescore_query rescore;
} shp_recall_query;

typedef struct {
    int64_t id;
    double bm25, score, relevance; /* bm25: its own, 0 when only its neighbours have keywords */
} shp_recall_hit;

/* SQLite codes.  `db` must outlive the reader; tables and index as in recall.c. */
int shp_recall_reader_open(sqlite3 *db, int corpus, shp_recall_reader **out);
void shp_recall_reader_close(shp_recall_reader *reader);

/* Best first, at most k.  In the transaction that is open, else in one of its own.
   *hits belongs to the reader and lasts until its next search. */
int shp_recall_search(shp_documents_cache *cache, shp_recall_reader *reader, const shp_recall_query *query,
                      const shp_recall_hit **hits, int64_t *n_hits);

#endif

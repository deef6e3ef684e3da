/* The candidates of a search whose keywords few memories have: all of these memories.

   Most questions to a user of 1,000 memories are of this kind. Windows, bounds and a heap would cost several times as
   much as the sums themselves. Here the postings of all keywords are sorted by memory, which brings those of one memory
   together in the order of the keywords, and summed. */
#include <string.h>

#include "hot_search.h"

/* Collects the postings of all keywords; a key is the memory and, in the low bits, the posting's number, which makes
   keys unique. Returns how many. */
static int collect_postings(const hot_search *s, int32_t *keys, double *scores)
{
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        const hot_keyword *word = &s->keywords[i];
        for (int64_t at = 0; at < word->list.n; at++, n++) {
            FETCH(&s->index->near[word->list.documents[at]]);
            keys[n] = (int32_t)(word->list.documents[at] << FEW_BITS | (uint32_t)n);
            scores[n] = score_posting(s, word, at);
        }
    }
    return n;
}

/* Copies the BM25 of candidates near each other into each other's sums. */
static void take_neighbours(hot_search *s)
{
    for (int64_t i = 0; i < s->n_pool; i++)
        for (int64_t j = i + 1; j < s->n_pool && s->pool[j].document - s->pool[i].document <= REACH; j++) {
            uint32_t distance = s->pool[j].document - s->pool[i].document;
            s->reach[i].sums[REACH + distance] = s->pool[j].bm25;
            s->reach[j].sums[REACH - distance] = s->pool[i].bm25;
        }
}

void hot_take_few(hot_search *s)
{
    int32_t keys[SMALL_K], sorted[SMALL_K];
    uint8_t place[SMALL_K];
    double scores[SMALL_K], sum = 0.0;
    int n = collect_postings(s, keys, scores);
    uint32_t last = HOT_NONE;
    sort_few(keys, n, place);
    for (int i = 0; i < n; i++)
        sorted[place[i]] = keys[i];
    for (int i = 0; i < n; i++) {
        uint32_t document = (uint32_t)sorted[i] >> FEW_BITS;
        int is_same = document == last;
        sum = (is_same ? sum : 0.0) + scores[sorted[i] & ((1 << FEW_BITS) - 1)];
        s->n_pool += !is_same;
        s->pool[s->n_pool - 1] = (shp_candidate){0.0, sum, document, (uint32_t)s->n_pool - 1};
        last = document;
    }
    memset(s->reach, 0, (size_t)s->n_pool * sizeof *s->reach);
    for (int64_t i = 0; i < s->n_pool; i++)
        s->reach[i].sums[REACH] = s->pool[i].bm25;
    take_neighbours(s);
    s->is_ordered = 1;
}

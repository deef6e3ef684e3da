/* The keywords of a search of the hot index: lookup, idf, upper bounds.

   After a pause of the user every access is a cache miss, and each keyword needs four of them, one after
   the other: slot, term with its word, list, its last documents.  So all keywords take each step together, and their
   misses overlap. */
#include <math.h>

#include "hot_search.h"

/* Its two lists, either perhaps HOT_NONE, and how many memories have it. */
typedef struct {
    uint32_t terms[2], n;
} known_word;

/* Whether at least 16 other known keywords are rarer than the i-th (or as rare, and earlier). */
static int is_too_common(const known_word *words, int n, int i)
{
    int n_rarer = 0;
    for (int j = 0; j < n; j++)
        n_rarer += words[j].n < words[i].n || (words[j].n == words[i].n && j < i);
    return n_rarer >= SHP_HOT_MAX_KEYWORDS;
}

/* Upper bound of the score of the list's postings: a score grows with the parts and falls with the length. */
static double upper_bound_of(const hot_search *s, const hot_keyword *word)
{
    const hot_bounds *bounds = &word->list.bounds;
    double most = 0.0;
    for (int step = hot_step_of(bounds->least_parts); step <= hot_step_of(bounds->most_parts); step++) {
        uint8_t parts = HOT_MOST_OF_STEP[step] < bounds->most_parts ? HOT_MOST_OF_STEP[step] : bounds->most_parts;
        /* From 255 parts on they are unknown: take the limit of the formula. */
        double share = parts == HOT_BIG
                           ? word->idf * s->bm25.k1_plus_1
                           : shp_rank_term(&s->bm25, word->idf, shp_rank_tf(parts), bounds->least_len[step]);
        most = share > most ? share : most;
    }
    return most * SLACK;
}

/* Fills the table of scores of postings with the least parts, from their shortest memory to the user's longest. */
static void fill_table(hot_search *s, hot_keyword *word)
{
    const hot_bounds *bounds = &word->list.bounds;
    if (word->list.n < TABLE_POSTINGS)
        return;
    word->usual_parts = bounds->least_parts;
    word->n_table = s->index->longest < HOT_BIG ? s->index->longest + 1 : HOT_BIG;
    double *table = s->tables[word - s->keywords];
    double tf = shp_rank_tf(word->usual_parts);
    for (int len = bounds->least_len[hot_step_of(bounds->least_parts)]; len < word->n_table; len++)
        table[len] = shp_rank_term(&s->bm25, word->idf, tf, len);
    word->table = table;
}

static uint32_t n_of(const hot_search *s, uint32_t term)
{
    return term == HOT_NONE ? 0 : s->index->dictionary.terms[term].n;
}

static void add_keyword(hot_search *s, const known_word *known)
{
    double idf = shp_rank_idf(s->n_docs, known->n);
    s->idf_sum += idf;
    for (int i = 0; i < 2; i++) {
        if (!n_of(s, known->terms[i]))
            continue;
        hot_keyword *word = &s->keywords[s->n++];
        word->term = known->terms[i];
        word->idf = idf;
        word->n_table = 0;
        word->usual_parts = 0;
        hot_list_open(&s->index->heap, &s->index->dictionary.terms[word->term], &word->list);
    }
}

/* A length that at least n_wanted memories of the list do not exceed. */
static double usual_length(const hot_search *s, const hot_keyword *word)
{
    uint16_t n_of_length[HOT_BIG + 1] = {0};
    int64_t n = 0;
    for (uint32_t i = 0; i < word->list.n; i++)
        n_of_length[word->list.weights[i] >> 8]++;
    for (int len = 0; len < HOT_BIG; len++)
        if ((n += n_of_length[len]) >= s->n_wanted)
            return len;
    return s->index->longest;
}

/* A score that at least n_wanted memories reach: in a list of so many, all reach that of the longest and oldest possible
   memory.  For the best of these lists, if it is short, lengths are counted for a higher score.  This threshold lasts
   only until better candidates are found, but it makes a large user's most frequent words non-essential from the first
   window on. */
static double initial_threshold(const hot_search *s)
{
    double least = 0.0, oldest = recency_at(s, s->index->oldest) / SLACK;
    int is_counted = oldest < COUNTED_RECENCY;
    for (int i = s->n - 1; i >= 0; i--) {
        const hot_keyword *word = s->by_bound[i];
        if (word->list.n < s->n_wanted)
            continue;
        int is_short = !is_counted && word->list.n <= COUNTED_POSTINGS;
        double length = is_short ? usual_length(s, word) : s->index->longest;
        double tf = shp_rank_tf(word->list.bounds.least_parts);
        double reached = shp_rank_term(&s->bm25, word->idf, tf, length) / SLACK * oldest;
        if (reached > least)
            least = reached;
        is_counted = 1;
    }
    return least;
}

static void bound_keyword(hot_search *s, int number)
{
    hot_keyword *word = &s->keywords[number];
    word->top = word->at = (int64_t)word->list.n - 1;
    word->upper_bound = upper_bound_of(s, word);
    fill_table(s, word);
    int i = number;
    for (; i > 0 && s->by_bound[i - 1]->upper_bound > word->upper_bound; i--)
        s->by_bound[i] = s->by_bound[i - 1];
    s->by_bound[i] = word;
}

void hot_bound_keywords(hot_search *s)
{
    for (int i = 0; i < s->n; i++)
        bound_keyword(s, i);
    for (int i = 0; i < s->n; i++) {
        s->bound_sums[i + 1] = s->bound_sums[i] + s->by_bound[i]->upper_bound;
        s->by_bound[i]->bound_rank = i;
    }
    s->threshold = initial_threshold(s);
}

/* ---- looking up */

typedef struct {
    uint32_t hash, term;
} looked_up;

/* Prefetches the heads of the words' lists and their newest postings. */
static void fetch_lists(const shp_hot *index, const looked_up *found, int n)
{
    for (int i = 0; i < n; i++) {
        if (found[i].term == HOT_NONE)
            continue;
        const hot_term *term = &index->dictionary.terms[found[i].term];
        if (term->n_letters == HOT_LONG)
            FETCH(&index->dictionary.names[term->word.name]);
        hot_list_fetch(&index->heap, term);
    }
}

/* The words' terms, HOT_NONE where one is unknown. */
static void look_up(const shp_hot *index, const shp_hot_word *words, int n, looked_up *found)
{
    const hot_dictionary *dictionary = &index->dictionary;
    for (int i = 0; i < n; i++) {
        found[i].hash = hot_dictionary_hash(words[i].bytes, words[i].n_bytes);
        FETCH(&dictionary->slots[found[i].hash & (dictionary->n_slots - 1)]);
    }
    for (int i = 0; i < n; i++) {
        found[i].term = hot_dictionary_guess(dictionary, found[i].hash);
        if (found[i].term == HOT_NONE)
            continue;
        FETCH(&dictionary->terms[found[i].term]);
        FETCH(dictionary->terms[found[i].term].word.letters + HOT_LETTERS - 1);
    }
    fetch_lists(index, found, n);
    for (int i = 0; i < n; i++)
        if (found[i].term != HOT_NONE &&
            !hot_dictionary_is(dictionary, found[i].term, words[i].bytes, words[i].n_bytes))
            found[i].term = hot_dictionary_find(dictionary, found[i].hash, words[i].bytes, words[i].n_bytes);
}

/* Writes the words of the query behind the mark of the lists of an assistant's words. */
static void mark_words(const hot_search *s, uint8_t (*room)[1 + HOT_LONGEST_WORD], shp_hot_word *out)
{
    for (int i = 0; i < s->n_words; i++) {
        /* No memory has a longer word. */
        size_t n = s->words[i].n_bytes <= HOT_LONGEST_WORD ? s->words[i].n_bytes : 0;
        room[i][0] = HOT_REPLIES;
        memcpy(room[i] + 1, s->words[i].bytes, n);
        out[i] = (shp_hot_word){room[i], n + 1};
    }
}

void hot_find_keywords(hot_search *s)
{
    known_word known[MAX_WORDS];
    looked_up found[2 * MAX_WORDS];
    shp_hot_word words[2 * MAX_WORDS];
    uint8_t marked[MAX_WORDS][1 + HOT_LONGEST_WORD];
    int n_known = 0, n = s->n_words, has_replies = s->index->dictionary.n_replies > 0;
    if (!s->index->dictionary.n)
        return;
    memcpy(words, s->words, (size_t)n * sizeof *words);
    if (has_replies)
        mark_words(s, marked, words + n);
    look_up(s->index, words, has_replies ? 2 * n : n, found);
    for (int i = 0; i < n; i++) {
        known_word word = {{found[i].term, has_replies ? found[n + i].term : HOT_NONE}, 0};
        word.n = n_of(s, word.terms[0]) + n_of(s, word.terms[1]);
        s->n_postings += word.n;
        if (word.n)
            known[n_known++] = word;
    }
    s->n_unknown = n - n_known;
    for (int i = 0; i < n_known; i++)
        if (n_known <= SHP_HOT_MAX_KEYWORDS || !is_too_common(known, n_known, i))
            add_keyword(s, &known[i]);
}

/* The keywords of a search of the hot index: lookup, idf, upper bounds.

   After a pause of the user every access is a cache miss, and each keyword needs four of them, one after
   the other: slot, term with its word, list, its last documents.  So all keywords take each step together, and their
   misses overlap. */
#include <math.h>

#include "hot_search.h"

typedef struct {
    uint32_t term, n;
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

/* Fills the table of scores of a word that a person wrote once, from the list's shortest memory to the user's
   longest. */
static void fill_table(hot_search *s, hot_keyword *word)
{
    /* In a list with the words of an assistant as well, guessing which scores are in the table takes longer than
       computing all of them. */
    if (word->list.n < TABLE_POSTINGS || word->list.bounds.least_parts < SHP_RANK_PARTS)
        return;
    word->n_table = s->index->longest < HOT_BIG ? s->index->longest + 1 : HOT_BIG;
    double *table = s->tables[word - s->keywords];
    for (int len = word->list.bounds.least_len[HOT_STEP_OF_ONE]; len < word->n_table; len++)
        table[len] = shp_rank_term(&s->bm25, word->idf, 1.0, len);
    word->table = table;
}

static void add_keyword(hot_search *s, uint32_t term)
{
    const hot_term *found = &s->index->dictionary.terms[term];
    hot_keyword *word = &s->keywords[s->n++];
    word->term = term;
    word->idf = shp_rank_idf(s->n_docs, found->n);
    word->n_table = 0;
    s->idf_sum += word->idf;
    hot_list_open(&s->index->heap, found, &word->list);
}

/* A score that at least n_wanted memories of the list reach whose parts are `parts` or more; 0 without so many. */
static double usual_score(const hot_search *s, const hot_keyword *word, uint32_t parts)
{
    uint16_t n_of_length[HOT_BIG + 1] = {0};
    int64_t n = 0;
    for (uint32_t i = 0; i < word->list.n; i++)
        n_of_length[word->list.weights[i] >> 8] += (word->list.weights[i] & 255) >= parts;
    for (int len = 0; len <= HOT_BIG; len++)
        if ((n += n_of_length[len]) >= s->n_wanted)
            return shp_rank_term(&s->bm25, word->idf, shp_rank_tf(parts), len < HOT_BIG ? len : s->index->longest);
    return 0.0;
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
        uint32_t parts = word->list.bounds.least_parts;
        double reached = is_short && parts < SHP_RANK_PARTS ? usual_score(s, word, SHP_RANK_PARTS) : 0.0;
        if (reached == 0.0)
            reached = is_short ? usual_score(s, word, parts)
                               : shp_rank_term(&s->bm25, word->idf, shp_rank_tf(parts), s->index->longest);
        reached = reached / SLACK * oldest;
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

void hot_find_keywords(hot_search *s)
{
    const hot_dictionary *dictionary = &s->index->dictionary;
    known_word known[MAX_WORDS];
    looked_up found[MAX_WORDS];
    int n_known = 0, n = s->n_words;
    if (!dictionary->n)
        return;
    look_up(s->index, s->words, n, found);
    for (int i = 0; i < n; i++) {
        if (found[i].term == HOT_NONE || !dictionary->terms[found[i].term].n)
            continue;
        known[n_known] = (known_word){found[i].term, dictionary->terms[found[i].term].n};
        s->n_postings += known[n_known++].n;
    }
    for (int i = 0; i < n_known; i++)
        if (n_known <= SHP_HOT_MAX_KEYWORDS || !is_too_common(known, n_known, i))
            add_keyword(s, known[i].term);
}

/* Evidence from the conversation around a memory: the second half of ranking, for every engine; see rescore.c. */
#ifndef SHP_RESCORE_H
#define SHP_RESCORE_H

#include <stddef.h>
#include <stdint.h>

#include "pairs.h"
#include "rank.h"

enum {
    SHP_RESCORE_CANDIDATES = 32, /* at least so many best memories by BM25 and recency are rescored */
    SHP_RESCORE_REQUEST_CANDIDATES = 48, /* the same where instructions count more: their few words rank lower */
    SHP_RESCORE_REACH = 3,       /* memories so far from a candidate play a part */
    SHP_RESCORE_MAX_LABELS = 64,
    SHP_RESCORE_MAX_PERIODS = 16
};

/* `asks` of a memory: in the lower two bits how it ends, above them which of its texts an assistant wrote, and whether a
   person said in it how answers have to be, or what they prefer. */
enum { SHP_ASKS_NOT = 0, SHP_ASKS_LAST = 1, SHP_ASKS_ONLY = 2, SHP_ASKS_KINDS = 3, SHP_ASKS_BITS = 2 };
enum { SHP_ASSISTANT_QUESTION = 4, SHP_ASSISTANT_ANSWER = 8, SHP_ASSISTANT = 12 };
enum { SHP_INSTRUCTS = 16, SHP_PREFERS = 32 };

enum { SHP_LENGTHS = 16 }; /* classes of lengths */

/* Weights of two kinds of talk: between people, and with an assistant. */
enum { SHP_TALK_PEOPLE = 0, SHP_TALK_ASSISTANT = 1, SHP_TALKS = 2 };

typedef struct {
    int64_t sequence, timestamp; /* seconds */
    double bm25;                 /* of the query's keywords; 0 when it has none of them */
    double whole;                /* the same of whole words (shp_rank_whole_tf) */
    int32_t thread;              /* key of its conversation: > 0 a session, < 0 stored together, 0 none */
    int32_t label;               /* key of the word before its first colon, 0 for none */
    uint8_t asks;                /* SHP_ASKS_... (3 counts as SHP_ASKS_ONLY), SHP_ASSISTANT_..., SHP_INSTRUCTS, ... */
    uint8_t length;              /* shp_length_class */
    uint8_t pairs;               /* of the query's pairs, SHP_PAIRS_COUNTED at most; counts in a candidate */
    uint8_t is_candidate;
} shp_rescore_memory;

typedef struct {
    double answer[SHP_ASKS_KINDS]; /* share of the memory before, by how that one ends */
    double next, second;           /* shares of the one after, and of both two steps away */
    double session;                /* share of how much better the conversation's best candidate is */
    double asking;                 /* factor of a memory that only asks */
    double label, period;          /* factors of a memory with a label, of a time, that the question names */
    double instruction, preference; /* factors of a memory with either, if the question wants something done */
    double length;                 /* factor for each doubling of the length */
    double pair;                   /* share of its own BM25 for each pair of the query's words that stand side by side */
} shp_rescore_weights;

/* Chosen on labelled conversations of each kind; docs/explanation/how-recall-works.md has what each is worth. */
static inline shp_rescore_weights shp_rescore_default_weights(int talk)
{
    return talk == SHP_TALK_PEOPLE
               ? (shp_rescore_weights){{0.15, 0.4, 0.7}, 0.2, 0.15, 0.3, 0.8, 1.15, 1.3, 1.0, 1.0, 1.0, 0.1}
               : (shp_rescore_weights){{0.05, 0.05, 0.05}, 0.05, 0.0, 0.2, 1.0, 1.15, 1.3, 2.5, 1.75, 0.875,
                                       0.2};
}

/* How a memory ends, of its `asks`. */
static inline int shp_asks_of(uint8_t asks)
{
    int kind = asks & ((1 << SHP_ASKS_BITS) - 1);
    return kind < SHP_ASKS_ONLY ? kind : SHP_ASKS_ONLY;
}

/* Parts (SHP_RANK_PARTS) that a word counts in one of a memory's texts: 0, the question, or 1, the answer. */
static inline uint32_t shp_parts_of_word(uint8_t asks, int text)
{
    return asks >> (SHP_ASKS_BITS + text) & 1 ? 1 : SHP_RANK_PARTS;
}

/* The length of a memory with so many words in its question and its answer, rounded up to whole words. */
static inline int64_t shp_length_of(uint8_t asks, int64_t n_question, int64_t n_answer)
{
    int64_t parts = n_question * shp_parts_of_word(asks, 0) + n_answer * shp_parts_of_word(asks, 1);
    return (parts + SHP_RANK_PARTS - 1) / SHP_RANK_PARTS;
}

/* The class of a length in words: its number of binary digits, 15 at most. */
static inline uint8_t shp_length_class(int64_t doc_len)
{
    uint8_t digits = 0;
    for (; doc_len > 0 && digits < SHP_LENGTHS - 1; doc_len >>= 1)
        digits++;
    return digits;
}

typedef struct {
    double now, recency_floor; /* seconds; 0 to 1 */
    shp_rescore_weights weights[SHP_TALKS];
    int n_labels;
    int32_t labels[SHP_RESCORE_MAX_LABELS]; /* keys of the query's keywords */
    int n_pairs;
    uint16_t pairs[SHP_PAIRS_MOST]; /* of neighbouring keywords */
    int n_periods;
    int64_t periods[SHP_RESCORE_MAX_PERIODS][2]; /* first second and the one after the last */
} shp_rescore_query;

typedef struct {
    int64_t sequence;
    double bm25, whole, evidence, score; /* evidence: shp_rescore_for_relevance */
} shp_rescore_hit;

/* Buffers, reused between calls; all zero at first. */
typedef struct {
    shp_rescore_hit *hits; /* after shp_rescore a heap, the best first; owned */
    int64_t n_hits, hit_capacity;
    void *slots; /* owned */
    size_t n_slots;
} shp_rescore_buffers;

/* A memory and its neighbours as scoring needs them: B of the formula in rescore.c. */
typedef struct {
    double bm25, previous, next, second_before, second_after; /* 0 where there is none */
    double best;           /* S: of the thread's candidates, at least its own */
    int asks_before, asks; /* SHP_ASKS_...; of the one before SHP_ASKS_NOT where there is none */
    int instructs, prefers; /* not 0: SHP_INSTRUCTS, SHP_PREFERS */
    int pairs;
    int talk;              /* SHP_TALK_ASSISTANT: an assistant wrote in it, or in the one before or after it */
    int32_t label;
    int64_t timestamp;
} shp_rescore_beside;

/* Adds a keyword's pair with the one before it. */
static inline void shp_rescore_read_word(shp_rescore_query *query, shp_pairs_reader *reader, const uint8_t *word,
                                         size_t n)
{
    uint16_t pair;
    if (shp_pairs_next(reader, word, n, &pair) && query->n_pairs < SHP_PAIRS_MOST)
        query->pairs[query->n_pairs++] = pair;
}

static inline int shp_rescore_counts_pairs(const shp_rescore_query *query)
{
    return query->weights[SHP_TALK_PEOPLE].pair > 0.0 || query->weights[SHP_TALK_ASSISTANT].pair > 0.0;
}

/* How many candidates a search for the best k has. */
static inline int64_t shp_rescore_candidates(const shp_rescore_query *query, int64_t k)
{
    int is_request = query->weights[SHP_TALK_ASSISTANT].instruction > 1.0;
    int64_t least = is_request ? SHP_RESCORE_REQUEST_CANDIDATES : SHP_RESCORE_CANDIDATES;
    return k > least ? k : least;
}

static inline int shp_rescore_has_label(const shp_rescore_query *query, int32_t label)
{
    for (int i = 0; label && i < query->n_labels; i++)
        if (query->labels[i] == label)
            return 1;
    return 0;
}

static inline int shp_rescore_is_in_period(const shp_rescore_query *query, int64_t timestamp)
{
    for (int i = 0; i < query->n_periods; i++)
        if (query->periods[i][0] <= timestamp && timestamp < query->periods[i][1])
            return 1;
    return 0;
}

/* E of the formula in rescore.c, in its order, one rounding per operation. */
static inline double shp_rescore_evidence(const shp_rescore_query *query, const shp_rescore_beside *beside)
{
    const shp_rescore_weights *weights = &query->weights[beside->talk];
    double evidence = beside->bm25;
    evidence += weights->pair * beside->pairs * beside->bm25;
    evidence += weights->answer[beside->asks_before] * beside->previous;
    evidence += weights->next * beside->next;
    evidence += weights->second * beside->second_before;
    evidence += weights->second * beside->second_after;
    evidence += weights->session * (beside->best - beside->bm25);
    if (beside->asks == SHP_ASKS_ONLY)
        evidence *= weights->asking;
    if (shp_rescore_has_label(query, beside->label))
        evidence *= weights->label;
    if (shp_rescore_is_in_period(query, beside->timestamp))
        evidence *= weights->period;
    if (beside->instructs)
        evidence *= weights->instruction;
    if (beside->prefers)
        evidence *= weights->preference;
    return evidence;
}

/* E as relevance takes it, half of what it has above B (shp_rescore_mean): all of it where a person said how answers have
   to be.  An instruction concerns a request though it has few of its words. */
static inline double shp_rescore_for_relevance(const shp_rescore_query *query, const shp_rescore_beside *beside,
                                               double evidence)
{
    int is_wanted = beside->instructs && query->weights[beside->talk].instruction > 1.0;
    return is_wanted ? evidence + (evidence - beside->bm25) : evidence;
}

/* Factors of the classes of lengths for each talk; 1 for the class of the mean length.  They affect the score, and not
   the relevance: a long message is as relevant as a short one. */
typedef struct {
    double factor[SHP_TALKS][SHP_LENGTHS];
} shp_rescore_lengths;

static inline void shp_rescore_set_lengths(const shp_rescore_query *query, int64_t mean_len, shp_rescore_lengths *out)
{
    int mean = shp_length_class(mean_len);
    for (int talk = 0; talk < SHP_TALKS; talk++) {
        double *factor = out->factor[talk], each = query->weights[talk].length;
        for (int i = 0; i < SHP_LENGTHS; i++)
            factor[i] = 1.0;
        if (each == 1.0) /* the divisions would take a fiftieth of a search */
            continue;
        for (int i = mean + 1; i < SHP_LENGTHS; i++)
            factor[i] = factor[i - 1] * each;
        for (int i = mean; i-- > 0;)
            factor[i] = factor[i + 1] / each;
    }
}

/* Fills buffers->hits from `memories`: rising by sequence, with every candidate and every memory within
   SHP_RESCORE_REACH of one (others change nothing).  `mean_len`: the mean length of all, rounded down.  0 when memory
   is out. */
int shp_rescore(shp_rescore_buffers *buffers, const shp_rescore_query *query, int64_t mean_len,
                const shp_rescore_memory *memories, int64_t n);

/* The BM25 from which the relevance of a hit is computed: half its own, half the evidence, its own words whole in both.
   Without an assistant's words that is the mean of B and E. */
static inline double shp_rescore_mean(const shp_rescore_hit *hit)
{
    return 0.5 * (hit->whole + (hit->evidence + (hit->whole - hit->bm25)));
}

/* Takes the best hit out of the heap; 0 when there is none.  Ties: the larger sequence first. */
int shp_rescore_pop(shp_rescore_buffers *buffers, shp_rescore_hit *out);

void shp_rescore_free(shp_rescore_buffers *buffers);

/* The key of a term, a session or a label: FNV-1a of its bytes, never 0. */
int32_t shp_rescore_key(const uint8_t *bytes, size_t n);

#endif

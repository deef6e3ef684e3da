/* Words too common to find anything by, a list per language.  Included by text.c alone.
 *
 * Lower case, folded, without apostrophes ("don't" is looked up as "dont").  At most 16 bytes each.
 * What people ask about stays out, however common: name, like, work, live, go, make, new, now, first, last,
 * day, time, long, home, well, us (the country), may (the month); rarity weighs those down by itself.
 * A change here changes the index: raise SHP_TEXT_VERSION. */
#ifndef SHP_STOPWORDS_H
#define SHP_STOPWORDS_H

static const char *const SHP_STOP_WORDS_ENGLISH[] = {
    /* articles, demonstratives, quantities without a number */
    "a", "an", "the", "this", "that", "these", "those", "such", "some", "any", "each", "every", "both",
    "either", "neither", "all", "other", "another", "more", "most", "much", "many", "few", "very", "too",
    /* pronouns */
    "i", "me", "my", "mine", "myself", "you", "your", "yours", "yourself", "yourselves", "he", "him", "his",
    "himself", "she", "her", "hers", "herself", "it", "its", "itself", "we", "our", "ours", "ourselves",
    "they", "them", "their", "theirs", "themselves", "one", "ones", "someone", "something", "anyone",
    "anything", "everyone", "everything", "nothing",
    /* question words */
    "what", "whats", "which", "who", "whos", "whom", "whose", "when", "whens", "where", "wheres", "why", "whys",
    "how", "hows",
    /* prepositions, conjunctions */
    "of", "at", "by", "for", "with", "without", "about", "against", "between", "into", "onto", "through",
    "during", "to", "from", "in", "on", "upon", "out", "off", "over", "up", "down", "toward", "towards", "via",
    "and", "or", "but", "nor", "if", "because", "as", "until", "while", "than", "then", "so", "though",
    "although", "since", "whether",
    /* to be, to have, to do; modals */
    "am", "is", "are", "was", "were", "be", "been", "being", "have", "has", "had", "having", "do", "does",
    "did", "doing", "done", "can", "cannot", "could", "might", "must", "shall", "should", "will",
    "would", "ought",
    /* contractions, as the tokenizer spells "don't" and "y'all", and as people type them */
    "im", "ive", "youre", "youve", "theyre", "theyve", "weve", "thats", "theres", "heres", "lets", "dont",
    "doesnt", "didnt", "isnt", "arent", "aint", "wasnt", "werent", "hasnt", "havent", "hadnt", "cant", "couldnt",
    "wont", "wouldnt", "shant", "shouldnt", "mustnt", "mightnt", "neednt", "darent", "oughtnt", "yall",
    /* adverbs of speech */
    "no", "not", "only", "also", "just", "even", "ever", "again", "here", "there", "still", "yet", "quite",
    "really", "maybe", "perhaps", "actually", "basically", "already", "however",
    /* fillers of casual talk */
    "please", "tell", "told", "telling", "say", "says", "said", "saying", "know", "knows", "knew", "known", "want",
    "wants", "wanted", "remember", "remembers", "remind", "let", "thanks", "thank", "hello", "hi", "hey",
    "ok", "okay", "oh", "yes", "yeah", "yep", "sure", "etc", "anyway", "mention", "mentioned",
};

typedef struct {
    const char *language; /* ISO 639-1 */
    const char *const *words;
    size_t n_words;
} shp_stop_list;

static const shp_stop_list SHP_STOP_LISTS[] = {
    {"en", SHP_STOP_WORDS_ENGLISH, sizeof SHP_STOP_WORDS_ENGLISH / sizeof SHP_STOP_WORDS_ENGLISH[0]},
};

#endif

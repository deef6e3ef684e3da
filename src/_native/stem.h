/* The stem of an English word: Porter2, the English stemmer of the Snowball project.
 *
 * Written from the published description (snowballstem.org/algorithms/english/stemmer.html), in the
 * state of Snowball 3.1; tests compare it with that project's own implementation.  The names of the steps
 * and of the regions R1 and R2 are the description's.
 *
 * In place, in a buffer of lower-case ASCII letters (and apostrophes); a stem is never longer than its
 * word.  No table is larger than 25 rows: about 30 ns a word.  Included by text.c alone. */
#ifndef SHP_STEM_H
#define SHP_STEM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    char *letters;
    size_t n;  /* letters now */
    size_t r1; /* start of R1; a suffix is "in R1" when it starts at or after it */
    size_t r2;
} shp_stem_word;

static inline int shp_stem_is_vowel(char c) {
    /* 'Y' marks a y that is a consonant. */
    return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u' || c == 'y';
}

static int shp_stem_equals(const shp_stem_word *w, size_t n, const char *text) {
    return strlen(text) == n && memcmp(w->letters, text, n) == 0;
}

static int shp_stem_ends(const shp_stem_word *w, const char *suffix) {
    size_t n = strlen(suffix);
    return w->n >= n && memcmp(w->letters + w->n - n, suffix, n) == 0;
}

static void shp_stem_replace(shp_stem_word *w, size_t suffix_length, const char *replacement) {
    size_t n = strlen(replacement);
    w->n -= suffix_length;
    memcpy(w->letters + w->n, replacement, n);
    w->n += n;
}

static int shp_stem_has_vowel(const shp_stem_word *w, size_t end) {
    for (size_t i = 0; i < end; i++)
        if (shp_stem_is_vowel(w->letters[i])) return 1;
    return 0;
}

/* A short syllable ends at `end`: consonant, vowel, consonant other than w, x, Y; or vowel and consonant
 * that are the whole word; or "past". */
static int shp_stem_short_syllable(const shp_stem_word *w, size_t end) {
    const char *s = w->letters;
    if (end < 2) return 0;
    if (end >= 4 && memcmp(s + end - 4, "past", 4) == 0) return 1;
    if (shp_stem_is_vowel(s[end - 1]) || !shp_stem_is_vowel(s[end - 2])) return 0;
    if (end == 2) return 1;
    return !shp_stem_is_vowel(s[end - 3]) && s[end - 1] != 'w' && s[end - 1] != 'x' && s[end - 1] != 'Y';
}

static int shp_stem_ends_double(const shp_stem_word *w) {
    return w->n >= 2 && w->letters[w->n - 1] == w->letters[w->n - 2] &&
           memchr("bdfgmnprt", w->letters[w->n - 1], 9) != NULL;
}

/* Whole words that the rules get wrong; returns 0 when the word is none of them. */
static int shp_stem_exception(shp_stem_word *w) {
    static const char *const FORMS[][2] = {
        {"skis", "ski"},       {"skies", "sky"},     {"idly", "idl"},   {"gently", "gentl"}, {"ugly", "ugli"},
        {"early", "earli"},    {"only", "onli"},     {"singly", "singl"}, {"sky", "sky"},    {"news", "news"},
        {"howe", "howe"},      {"atlas", "atlas"},   {"cosmos", "cosmos"}, {"bias", "bias"}, {"andes", "andes"},
    };
    if (w->n > 6) return 0;
    for (size_t i = 0; i < sizeof FORMS / sizeof FORMS[0]; i++)
        if (w->letters[0] == FORMS[i][0][0] && shp_stem_equals(w, w->n, FORMS[i][0])) {
            shp_stem_replace(w, w->n, FORMS[i][1]);
            return 1;
        }
    return 0;
}

static size_t shp_stem_region_after(const shp_stem_word *w, size_t from) {
    size_t i = from;
    while (i < w->n && !shp_stem_is_vowel(w->letters[i])) i++;
    while (i < w->n && shp_stem_is_vowel(w->letters[i])) i++;
    return i < w->n ? i + 1 : w->n;
}

static void shp_stem_mark_regions(shp_stem_word *w) {
    /* Words that would get one stem (general, generous; university, universe): R1 starts after these. */
    static const char *const BEGINNINGS[] = {"gener", "commun", "arsen", "past", "univers", "later",
                                             "emerg", "organ", "inter"};
    w->r1 = 0;
    for (size_t i = 0; i < sizeof BEGINNINGS / sizeof BEGINNINGS[0]; i++) {
        size_t n = strlen(BEGINNINGS[i]);
        if (w->letters[0] == BEGINNINGS[i][0] && w->n >= n && memcmp(w->letters, BEGINNINGS[i], n) == 0) w->r1 = n;
    }
    if (w->r1 == 0) w->r1 = shp_stem_region_after(w, 0);
    w->r2 = shp_stem_region_after(w, w->r1);
}

static void shp_stem_mark_consonant_y(shp_stem_word *w) {
    if (w->letters[0] == 'y') w->letters[0] = 'Y';
    for (size_t i = 1; i < w->n; i++)
        if (w->letters[i] == 'y' && shp_stem_is_vowel(w->letters[i - 1])) w->letters[i] = 'Y';
}

static void shp_stem_step_0(shp_stem_word *w) {
    if (shp_stem_ends(w, "'s'")) w->n -= 3;
    else if (shp_stem_ends(w, "'s")) w->n -= 2;
    else if (shp_stem_ends(w, "'")) w->n -= 1;
}

static void shp_stem_step_1a(shp_stem_word *w) {
    if (shp_stem_ends(w, "sses")) w->n -= 2;
    else if (shp_stem_ends(w, "ied") || shp_stem_ends(w, "ies")) shp_stem_replace(w, 3, w->n > 4 ? "i" : "ie");
    else if (shp_stem_ends(w, "us") || shp_stem_ends(w, "ss")) return;
    else if (shp_stem_ends(w, "s") && w->n >= 2 && shp_stem_has_vowel(w, w->n - 2)) w->n -= 1;
}

/* Repairs what -ed or -ing leaves: luxuriat(e), hop(p), hop(e). */
static void shp_stem_repair_verb(shp_stem_word *w) {
    if (shp_stem_ends(w, "at") || shp_stem_ends(w, "bl") || shp_stem_ends(w, "iz")) {
        shp_stem_replace(w, 0, "e");
    } else if (shp_stem_ends_double(w)) {
        char first = w->letters[0];
        if (w->n != 3 || (first != 'a' && first != 'e' && first != 'o')) w->n -= 1; /* add, egg, off stay */
    } else if (w->n == w->r1 && shp_stem_short_syllable(w, w->n)) {
        shp_stem_replace(w, 0, "e");
    }
}

static int shp_stem_is_ing_exception(shp_stem_word *w, size_t stem) {
    static const char *const STEMS[] = {"inn", "out", "cann", "herr", "earr", "even"};
    if (stem == 2 && w->letters[1] == 'y' && !shp_stem_is_vowel(w->letters[0])) {
        shp_stem_replace(w, 4, "ie"); /* dying, lying, tying */
        return 1;
    }
    for (size_t i = 0; i < sizeof STEMS / sizeof STEMS[0]; i++)
        if (shp_stem_equals(w, stem, STEMS[i])) return 1;
    return 0;
}

static void shp_stem_step_1b(shp_stem_word *w) {
    size_t length = shp_stem_ends(w, "eedly") ? 5 : shp_stem_ends(w, "eed") ? 3 : 0;
    if (length) {
        size_t stem = w->n - length;
        int kept = shp_stem_equals(w, stem, "proc") || shp_stem_equals(w, stem, "exc") || shp_stem_equals(w, stem, "succ");
        if (stem >= w->r1 && !kept) shp_stem_replace(w, length, "ee");
        return;
    }
    length = shp_stem_ends(w, "ingly") ? 5 : shp_stem_ends(w, "edly") ? 4
           : shp_stem_ends(w, "ing") ? 3 : shp_stem_ends(w, "ed") ? 2 : 0;
    if (length == 0) return;
    if (length == 3 && shp_stem_is_ing_exception(w, w->n - 3)) return;
    if (!shp_stem_has_vowel(w, w->n - length)) return;
    w->n -= length;
    shp_stem_repair_verb(w);
}

static void shp_stem_step_1c(shp_stem_word *w) {
    char last = w->letters[w->n - 1];
    if (w->n > 2 && (last == 'y' || last == 'Y') && !shp_stem_is_vowel(w->letters[w->n - 2])) w->letters[w->n - 1] = 'i';
}

/* Condition of a row of the suffix tables, besides its region. */
enum { SHP_STEM_ALWAYS, SHP_STEM_AFTER_L, SHP_STEM_AFTER_LI_ENDING, SHP_STEM_AFTER_S_OR_T, SHP_STEM_IN_R2 };

typedef struct {
    const char *suffix;
    uint8_t length;
    const char *replacement;
    uint8_t condition;
} shp_stem_rule;

/* Longer suffixes come before those that they end with: the first row that matches decides. */
static const shp_stem_rule SHP_STEM_STEP_2[] = {
    {"ational", 7, "ate", SHP_STEM_ALWAYS},  {"tional", 6, "tion", SHP_STEM_ALWAYS},
    {"enci", 4, "ence", SHP_STEM_ALWAYS},    {"anci", 4, "ance", SHP_STEM_ALWAYS},
    {"abli", 4, "able", SHP_STEM_ALWAYS},    {"entli", 5, "ent", SHP_STEM_ALWAYS},
    {"izer", 4, "ize", SHP_STEM_ALWAYS},     {"ization", 7, "ize", SHP_STEM_ALWAYS},
    {"ation", 5, "ate", SHP_STEM_ALWAYS},    {"ator", 4, "ate", SHP_STEM_ALWAYS},
    {"alism", 5, "al", SHP_STEM_ALWAYS},     {"aliti", 5, "al", SHP_STEM_ALWAYS},
    {"alli", 4, "al", SHP_STEM_ALWAYS},      {"fulness", 7, "ful", SHP_STEM_ALWAYS},
    {"ousli", 5, "ous", SHP_STEM_ALWAYS},    {"ousness", 7, "ous", SHP_STEM_ALWAYS},
    {"iveness", 7, "ive", SHP_STEM_ALWAYS},  {"iviti", 5, "ive", SHP_STEM_ALWAYS},
    {"biliti", 6, "ble", SHP_STEM_ALWAYS},   {"bli", 3, "ble", SHP_STEM_ALWAYS},
    {"ogist", 5, "og", SHP_STEM_ALWAYS},     {"ogi", 3, "og", SHP_STEM_AFTER_L},
    {"fulli", 5, "ful", SHP_STEM_ALWAYS},    {"lessli", 6, "less", SHP_STEM_ALWAYS},
    {"li", 2, "", SHP_STEM_AFTER_LI_ENDING},
};
static const shp_stem_rule SHP_STEM_STEP_3[] = {
    {"ational", 7, "ate", SHP_STEM_ALWAYS}, {"tional", 6, "tion", SHP_STEM_ALWAYS},
    {"alize", 5, "al", SHP_STEM_ALWAYS},    {"icate", 5, "ic", SHP_STEM_ALWAYS},
    {"iciti", 5, "ic", SHP_STEM_ALWAYS},    {"ical", 4, "ic", SHP_STEM_ALWAYS},
    {"ful", 3, "", SHP_STEM_ALWAYS},        {"ness", 4, "", SHP_STEM_ALWAYS},
    {"ative", 5, "", SHP_STEM_IN_R2},
};
static const shp_stem_rule SHP_STEM_STEP_4[] = {
    {"al", 2, "", SHP_STEM_ALWAYS},    {"ance", 4, "", SHP_STEM_ALWAYS}, {"ence", 4, "", SHP_STEM_ALWAYS},
    {"er", 2, "", SHP_STEM_ALWAYS},    {"ic", 2, "", SHP_STEM_ALWAYS},   {"able", 4, "", SHP_STEM_ALWAYS},
    {"ible", 4, "", SHP_STEM_ALWAYS},  {"ant", 3, "", SHP_STEM_ALWAYS},  {"ement", 5, "", SHP_STEM_ALWAYS},
    {"ment", 4, "", SHP_STEM_ALWAYS},  {"ent", 3, "", SHP_STEM_ALWAYS},  {"ism", 3, "", SHP_STEM_ALWAYS},
    {"ate", 3, "", SHP_STEM_ALWAYS},   {"iti", 3, "", SHP_STEM_ALWAYS},  {"ous", 3, "", SHP_STEM_ALWAYS},
    {"ive", 3, "", SHP_STEM_ALWAYS},   {"ize", 3, "", SHP_STEM_ALWAYS},  {"ion", 3, "", SHP_STEM_AFTER_S_OR_T},
};

static int shp_stem_condition_holds(const shp_stem_word *w, const shp_stem_rule *rule) {
    size_t start = w->n - rule->length;
    char before = start > 0 ? w->letters[start - 1] : '\0';
    switch (rule->condition) {
    case SHP_STEM_AFTER_L: return before == 'l';
    case SHP_STEM_AFTER_LI_ENDING: return before != '\0' && memchr("cdeghkmnrt", before, 10) != NULL;
    case SHP_STEM_AFTER_S_OR_T: return before == 's' || before == 't';
    case SHP_STEM_IN_R2: return start >= w->r2;
    default: return 1;
    }
}

static void shp_stem_apply(shp_stem_word *w, const shp_stem_rule *rules, size_t n_rules, size_t region) {
    char last = w->letters[w->n - 1];
    for (size_t i = 0; i < n_rules; i++) {
        const shp_stem_rule *rule = &rules[i];
        if (rule->suffix[rule->length - 1] != last || rule->length > w->n) continue;
        if (memcmp(w->letters + w->n - rule->length, rule->suffix, rule->length) != 0) continue;
        if (w->n - rule->length >= region && shp_stem_condition_holds(w, rule))
            shp_stem_replace(w, rule->length, rule->replacement);
        return;
    }
}

static void shp_stem_step_5(shp_stem_word *w) {
    size_t stem = w->n - 1;
    if (w->letters[stem] == 'e') {
        if (stem >= w->r2 || (stem >= w->r1 && !shp_stem_short_syllable(w, stem))) w->n = stem;
    } else if (w->letters[stem] == 'l') {
        if (stem >= w->r2 && stem > 0 && w->letters[stem - 1] == 'l') w->n = stem;
    }
}

/* Stems `word` in place; returns its new length. */
static size_t shp_stem_english(char *word, size_t n) {
    shp_stem_word w = {word, n, 0, 0};
    if (n <= 2 || shp_stem_exception(&w)) return w.n;
    if (word[0] == '\'') memmove(word, word + 1, --w.n);
    shp_stem_mark_consonant_y(&w);
    shp_stem_mark_regions(&w);
    shp_stem_step_0(&w);
    if (w.n > 0) shp_stem_step_1a(&w);
    if (w.n > 0) shp_stem_step_1b(&w);
    if (w.n > 0) shp_stem_step_1c(&w);
    if (w.n > 0) shp_stem_apply(&w, SHP_STEM_STEP_2, sizeof SHP_STEM_STEP_2 / sizeof SHP_STEM_STEP_2[0], w.r1);
    if (w.n > 0) shp_stem_apply(&w, SHP_STEM_STEP_3, sizeof SHP_STEM_STEP_3 / sizeof SHP_STEM_STEP_3[0], w.r1);
    if (w.n > 0) shp_stem_apply(&w, SHP_STEM_STEP_4, sizeof SHP_STEM_STEP_4 / sizeof SHP_STEM_STEP_4[0], w.r2);
    if (w.n > 0) shp_stem_step_5(&w);
    for (size_t i = 0; i < w.n; i++)
        if (word[i] == 'Y') word[i] = 'y';
    return w.n;
}

#endif

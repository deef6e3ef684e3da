/* From text to terms: the one tokenizer of index and query.
 *
 * Input is ASCII as it came, or UTF-8 whose characters are already folded (lower case, no diacritics) and in
 * which everything that is not part of a word is blank or ASCII.  So one scanner over bytes serves both, and an
 * ASCII text is read in place.
 *
 *   word        letters and digits of spaced scripts
 *   unit        word ('word)*, then perhaps ++, + or #        don't  o'brien  c++  c#
 *   form        .? unit ([-_.@&] unit)*                       vs-code  .net  user@example.com  v2.31
 *   run         characters of a script without blanks         overlapping pairs; alone when there is one
 *
 * A form of one plain word gives that word.  Any other form gives itself whole, as written, then its units, and
 * single letters among those are dropped.  An apostrophe is never part of a term: the endings 's 'm 're 've 'll 'd
 * are cut off ("steve's" is steve), what is left is joined ("don't" is dont, a stop word; "o'brien" is
 * obrien) and, unless it is a stop word, followed by its parts (brien).
 * Plain words that are stop words are dropped.  Of words of English letters only, irregular and colloquial
 * forms are replaced by their base (forms.h), acronyms lose their plural s (plurals.h), and the word is stemmed.
 *
 * Cost: one pass, about 10 ns a byte, stemming and scoping included; each term is copied once. */
#include "text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "forms.h"
#include "plurals.h"
#include "stem.h"
#include "stopwords.h"

/* ---------------------------------------------------------------------------------- characters */

enum { BLANK = 0, WORD, WIDE, JOINER, APOSTROPHE, PLUS, HASH };

static uint8_t CLASS[256]; /* of a byte; WIDE begins or continues a character beyond ASCII */
static uint8_t LOWER[256];

static void initialise_characters(void) {
    for (int c = 0; c < 256; c++) {
        int upper = c >= 'A' && c <= 'Z';
        int letter = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        CLASS[c] = (uint8_t)(c >= 128 ? WIDE : letter ? WORD : BLANK);
        LOWER[c] = (uint8_t)(upper ? c + 32 : c);
    }
    for (const char *joiner = "-_.@&"; *joiner; joiner++) CLASS[(uint8_t)*joiner] = JOINER;
    CLASS['\''] = APOSTROPHE;
    CLASS['+'] = PLUS;
    CLASS['#'] = HASH;
}

static size_t character_length(uint8_t lead) { return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }

/* Scripts written without blanks between words; Hangul too, whose particles stick to the noun. */
static int is_unspaced(const uint8_t *p) {
    static const uint32_t RANGES[][2] = {
        {0x0E00, 0x0EFF},   /* Thai, Lao */
        {0x1000, 0x109F},   /* Myanmar */
        {0x1780, 0x17FF},   /* Khmer */
        {0x3005, 0x3007},   /* iteration mark, closing mark, zero of Han */
        {0x3040, 0x30FF},   /* Hiragana, Katakana */
        {0x31F0, 0x31FF},   /* Katakana extensions */
        {0x3400, 0x4DBF},   /* Han */
        {0x4E00, 0x9FFF},
        {0xA9E0, 0xA9FF},   /* Myanmar extended */
        {0xAA60, 0xAA7F},
        {0xAC00, 0xD7A3},   /* Hangul syllables */
        {0xF900, 0xFAFF},   /* Han compatibility */
        {0x20000, 0x3FFFF}, /* Han extensions */
    };
    uint32_t c;
    if (p[0] < 0xE0) return 0; /* below 0x800 */
    if (p[0] < 0xF0) c = (uint32_t)(p[0] & 15) << 12 | (uint32_t)(p[1] & 63) << 6 | (p[2] & 63);
    else c = (uint32_t)(p[0] & 7) << 18 | (uint32_t)(p[1] & 63) << 12 | (uint32_t)(p[2] & 63) << 6 | (p[3] & 63);
    for (size_t i = 0; i < sizeof RANGES / sizeof RANGES[0]; i++) {
        if (c < RANGES[i][0]) return 0;
        if (c <= RANGES[i][1]) return 1;
    }
    return 0;
}

/* ---------------------------------------------------------------------------------- stop words and forms */

/* Open addressing over the word's 16 bytes, padded with zeros: one comparison of two integers. */
#define N_LISTED_SLOTS 1024
#define N_FORMS (sizeof SHP_FORMS_ENGLISH / sizeof SHP_FORMS_ENGLISH[0])
#define STOP_WORD 1 /* else 2 + its row in SHP_FORMS_ENGLISH; 0 is a free slot */

static uint64_t LISTED_LOW[N_LISTED_SLOTS], LISTED_HIGH[N_LISTED_SLOTS];
static uint16_t LISTED_AS[N_LISTED_SLOTS];

static uint64_t mix(uint64_t low, uint64_t high) {
    uint64_t h = (low ^ (high * UINT64_C(0x9E3779B97F4A7C15))) * UINT64_C(0xD6E8FEB86659FD93);
    return h ^ (h >> 32);
}

static void pack_word(const void *word, size_t n, uint64_t *low, uint64_t *high) {
    uint64_t both[2] = {0, 0};
    memcpy(both, word, n);
    *low = both[0];
    *high = both[1];
}

/* The slot of the word, or the free one where it belongs. */
static size_t listed_slot(uint64_t low, uint64_t high) {
    size_t i = (size_t)mix(low, high) & (N_LISTED_SLOTS - 1);
    while (LISTED_AS[i] != 0 && (LISTED_LOW[i] != low || LISTED_HIGH[i] != high)) i = (i + 1) & (N_LISTED_SLOTS - 1);
    return i;
}

const char *shp_text_stop_word(size_t i) {
    for (size_t list = 0; list < sizeof SHP_STOP_LISTS / sizeof SHP_STOP_LISTS[0]; list++) {
        if (i < SHP_STOP_LISTS[list].n_words) return SHP_STOP_LISTS[list].words[i];
        i -= SHP_STOP_LISTS[list].n_words;
    }
    return NULL;
}

const char *shp_text_form(size_t i, const char **base) {
    if (i >= N_FORMS) return NULL;
    *base = SHP_FORMS_ENGLISH[i][1];
    return SHP_FORMS_ENGLISH[i][0];
}

static void list_word(const char *word, uint16_t as) {
    uint64_t low, high;
    assert(strlen(word) <= 16);
    pack_word(word, strlen(word), &low, &high);
    size_t slot = listed_slot(low, high);
    LISTED_LOW[slot] = low;
    LISTED_HIGH[slot] = high;
    LISTED_AS[slot] = as;
}

static void initialise_listed_words(void) {
    const char *word, *base;
    size_t n_stop_words;
    memset(LISTED_AS, 0, sizeof LISTED_AS);
    for (n_stop_words = 0; (word = shp_text_stop_word(n_stop_words)) != NULL; n_stop_words++)
        list_word(word, STOP_WORD);
    for (size_t i = 0; (word = shp_text_form(i, &base)) != NULL; i++) list_word(word, (uint16_t)(2 + i));
    assert(n_stop_words + N_FORMS <= N_LISTED_SLOTS / 2);
}

void shp_text_initialise(void) {
    initialise_characters();
    initialise_listed_words();
}

/* ---------------------------------------------------------------------------------- the list of terms */

void shp_terms_begin(shp_terms *terms, size_t limit, int distinct, int all_words) {
    terms->bytes = terms->small_bytes;
    terms->bytes_capacity = sizeof terms->small_bytes;
    terms->ends = terms->small_ends;
    terms->ends_capacity = sizeof terms->small_ends / sizeof terms->small_ends[0];
    terms->slots = terms->small_slots;
    terms->n_slots = sizeof terms->small_slots / sizeof terms->small_slots[0];
    terms->n = terms->n_bytes = 0;
    terms->limit = limit;
    terms->distinct = distinct;
    terms->all_words = all_words;
    if (distinct) memset(terms->small_slots, 0, sizeof terms->small_slots);
}

void shp_terms_free(shp_terms *terms) {
    if (terms->bytes != terms->small_bytes) free(terms->bytes);
    if (terms->ends != terms->small_ends) free(terms->ends);
    if (terms->slots != terms->small_slots) free(terms->slots);
    terms->bytes = terms->small_bytes;
    terms->ends = terms->small_ends;
    terms->slots = terms->small_slots;
    terms->n = terms->n_bytes = 0;
}

/* Doubles an array that may still lie in the struct; returns NULL and leaves it when memory is out. */
static void *grown(void *array, void *small, size_t used_bytes, size_t new_bytes) {
    void *larger = array == small ? malloc(new_bytes) : realloc(array, new_bytes);
    if (larger != NULL && array == small) memcpy(larger, small, used_bytes);
    return larger;
}

static shp_text_status make_room(shp_terms *terms, size_t n) {
    if (terms->n_bytes + n > terms->bytes_capacity) {
        size_t capacity = 2 * terms->bytes_capacity + n;
        void *bytes = grown(terms->bytes, terms->small_bytes, terms->n_bytes, capacity);
        if (bytes == NULL) return SHP_TEXT_NO_MEMORY;
        terms->bytes = bytes;
        terms->bytes_capacity = capacity;
    }
    if (terms->n == terms->ends_capacity) {
        size_t capacity = 2 * terms->ends_capacity;
        void *ends = grown(terms->ends, terms->small_ends, terms->n * sizeof(size_t), capacity * sizeof(size_t));
        if (ends == NULL) return SHP_TEXT_NO_MEMORY;
        terms->ends = ends;
        terms->ends_capacity = capacity;
    }
    return SHP_TEXT_OK;
}

static uint64_t hash_term(const uint8_t *term, size_t n) {
    uint64_t h = n, low, high;
    for (; n > 16; term += 16, n -= 16) {
        pack_word(term, 16, &low, &high);
        h = mix(h ^ low, high);
    }
    pack_word(term, n, &low, &high);
    return mix(h ^ low, high);
}

/* The slot of the term, or the free one where it belongs. */
static size_t term_slot(const shp_terms *terms, const uint8_t *term, size_t n) {
    size_t mask = terms->n_slots - 1, i = (size_t)hash_term(term, n) & mask;
    for (; terms->slots[i] != 0; i = (i + 1) & mask) {
        size_t number = terms->slots[i] - 1;
        size_t start = number ? terms->ends[number - 1] : 0;
        if (terms->ends[number] - start == n && memcmp(terms->bytes + start, term, n) == 0) break;
    }
    return i;
}

static shp_text_status grow_slots(shp_terms *terms) {
    size_t n_slots = 2 * terms->n_slots, start = 0;
    uint32_t *slots = calloc(n_slots, sizeof *slots);
    if (slots == NULL) return SHP_TEXT_NO_MEMORY;
    if (terms->slots != terms->small_slots) free(terms->slots);
    terms->slots = slots;
    terms->n_slots = n_slots;
    for (size_t i = 0; i < terms->n; start = terms->ends[i++])
        terms->slots[term_slot(terms, terms->bytes + start, terms->ends[i] - start)] = (uint32_t)i + 1;
    return SHP_TEXT_OK;
}

static shp_text_status add_term(shp_terms *terms, const uint8_t *term, size_t n) {
    if (n == 0) return SHP_TEXT_OK;
    if (terms->n >= terms->limit) return SHP_TEXT_FULL;
    if (terms->distinct) {
        if (2 * terms->n >= terms->n_slots && grow_slots(terms) != SHP_TEXT_OK) return SHP_TEXT_NO_MEMORY;
        size_t slot = term_slot(terms, term, n);
        if (terms->slots[slot] != 0) return SHP_TEXT_OK;
        terms->slots[slot] = (uint32_t)terms->n + 1;
    }
    if (make_room(terms, n) != SHP_TEXT_OK) return SHP_TEXT_NO_MEMORY;
    memcpy(terms->bytes + terms->n_bytes, term, n);
    terms->n_bytes += n;
    terms->ends[terms->n++] = terms->n_bytes;
    return terms->n == terms->limit ? SHP_TEXT_FULL : SHP_TEXT_OK;
}

/* ---------------------------------------------------------------------------------- words and forms */

/* A term in the making. */
typedef struct {
    size_t n; /* bytes */
    size_t characters;
    int is_cut;     /* there was more than fits */
    int is_english; /* nothing but letters a to z so far */
    uint8_t bytes[4 * SHP_TERM_CHARACTERS]; /* the first 16 are zero where they are not used */
} spelling;

static void spell_nothing(spelling *s) {
    s->n = s->characters = 0;
    s->is_cut = 0;
    s->is_english = 1;
    memset(s->bytes, 0, 16);
}

/* Appends text[from .. to) in lower case, without apostrophes. */
static void spell(spelling *s, const uint8_t *text, size_t from, size_t to) {
    while (from < to) {
        uint8_t c = LOWER[text[from]];
        size_t length = character_length(c);
        if (c == '\'') {
            from++;
            continue;
        }
        if (s->characters == SHP_TERM_CHARACTERS) {
            s->is_cut = 1;
            return;
        }
        s->bytes[s->n] = c;
        for (size_t k = 1; k < length; k++) s->bytes[s->n + k] = text[from + k];
        s->n += length;
        s->characters++;
        s->is_english &= c >= 'a' && c <= 'z';
        from += length;
    }
}

/* STOP_WORD, 2 + the row of a form, or 0. */
static int listed_as(const spelling *word) {
    uint64_t low, high;
    if (word->n > 16) return 0;
    memcpy(&low, word->bytes, 8);
    memcpy(&high, word->bytes + 8, 8);
    return LISTED_AS[listed_slot(low, high)];
}

static int is_stop_word(const spelling *word) { return listed_as(word) == STOP_WORD; }

/* Adds a plain word unless it is a stop word or, as a part of a form, a single letter; English forms as their base,
 * and stemmed. */
static shp_text_status add_word(shp_terms *terms, spelling *word, int is_part) {
    if (is_part && word->characters == 1 && !(word->bytes[0] >= '0' && word->bytes[0] <= '9')) return SHP_TEXT_OK;
    int listed = listed_as(word);
    if (!terms->all_words && listed == STOP_WORD) return SHP_TEXT_OK;
    if (listed > STOP_WORD) {
        const char *base = SHP_FORMS_ENGLISH[listed - 2][1];
        word->n = strlen(base);
        memcpy(word->bytes, base, word->n);
    }
    if (word->is_english) {
        word->n = shp_plural_cut((const char *)word->bytes, word->n);
        word->n = shp_stem_english((char *)word->bytes, word->n);
    }
    return add_term(terms, word->bytes, word->n);
}

static int is_word_at(const uint8_t *text, size_t i, size_t n) {
    return i < n && (CLASS[text[i]] == WORD || (CLASS[text[i]] == WIDE && !is_unspaced(text + i)));
}

static size_t word_end(const uint8_t *text, size_t i, size_t n) {
    while (i < n) {
        if (CLASS[text[i]] == WORD) i++;
        else if (CLASS[text[i]] == WIDE && !is_unspaced(text + i)) i += character_length(text[i]);
        else break;
    }
    return i;
}

/* A unit: [start, word) are its words with apostrophes between, [word, end) its symbol. */
typedef struct {
    size_t start, word, end;
} unit_span;

static unit_span read_unit(const uint8_t *text, size_t start, size_t n) {
    unit_span unit = {start, word_end(text, start, n), 0};
    while (unit.word < n && text[unit.word] == '\'' && is_word_at(text, unit.word + 1, n))
        unit.word = word_end(text, unit.word + 1, n);
    unit.end = unit.word;
    if (unit.end < n && (text[unit.end] == '+' || text[unit.end] == '#')) {
        if (text[unit.end] == '+' && unit.end + 1 < n && text[unit.end + 1] == '+') unit.end += 2;
        else if (!is_word_at(text, unit.end + 1, n)) unit.end += 1; /* a+b is no form */
    }
    return unit;
}

/* Where the words end without the endings 's 'm 're 've 'll 'd. */
static size_t without_endings(const uint8_t *text, size_t start, size_t end) {
    for (;;) {
        size_t mark = end, n;
        while (mark > start && text[mark - 1] != '\'') mark--;
        if (mark == start) return end; /* no apostrophe left */
        n = end - mark;
        uint8_t a = LOWER[text[mark]], b = n > 1 ? LOWER[text[mark + 1]] : 0;
        int is_ending = (n == 1 && (a == 's' || a == 'm' || a == 'd')) ||
                        (n == 2 && ((b == 'e' && (a == 'r' || a == 'v')) || (a == 'l' && b == 'l')));
        if (!is_ending) return end;
        end = mark - 1;
    }
}

/* Adds a unit's words, without its symbol. */
static shp_text_status add_unit(shp_terms *terms, const uint8_t *text, unit_span unit, int is_part) {
    size_t end = without_endings(text, unit.start, unit.word);
    spelling word;
    spell_nothing(&word);
    spell(&word, text, unit.start, end);
    int has_parts = memchr(text + unit.start, '\'', end - unit.start) != NULL && !is_stop_word(&word);
    shp_text_status status = add_word(terms, &word, is_part);
    for (size_t from = unit.start, to; has_parts && status == SHP_TEXT_OK && from < end; from = to + 1) {
        to = from;
        while (to < end && text[to] != '\'') to++;
        spell_nothing(&word);
        spell(&word, text, from, to);
        status = add_word(terms, &word, 1);
    }
    return status;
}

/* Reads the unit that follows `at` in the same form; returns 0 when the form ends there. */
static int next_unit(const uint8_t *text, size_t at, size_t n, unit_span *unit) {
    size_t start = at < n && CLASS[text[at]] == JOINER ? at + 1 : at; /* c++17 has no joiner */
    if (!is_word_at(text, start, n)) return 0;
    *unit = read_unit(text, start, n);
    return 1;
}

/* Adds a technical form whole, then in parts.  `start` is its dot or its first unit, `end` where it ends. */
static shp_text_status add_form(shp_terms *terms, const uint8_t *text, size_t start, size_t end) {
    shp_text_status status = SHP_TEXT_OK;
    size_t first = start + (text[start] == '.'), at = start;
    spelling whole, with_symbol;
    unit_span unit = read_unit(text, first, end);
    int is_one_unit = unit.end == end && first == start;
    int more = 1;
    spell_nothing(&whole);
    for (; more && !whole.is_cut; more = next_unit(text, at, end, &unit)) {
        spell(&whole, text, at, without_endings(text, unit.start, unit.word)); /* from the joiner or the dot */
        spell(&whole, text, unit.word, unit.end);
        at = unit.end;
    }
    if (!whole.is_cut) status = add_term(terms, whole.bytes, whole.n);

    unit = read_unit(text, first, end);
    for (more = 1; more && status == SHP_TEXT_OK; more = next_unit(text, unit.end, end, &unit)) {
        if (unit.end > unit.word && !is_one_unit) {
            spell_nothing(&with_symbol);
            spell(&with_symbol, text, unit.start, without_endings(text, unit.start, unit.word));
            spell(&with_symbol, text, unit.word, unit.end);
            if (!with_symbol.is_cut) status = add_term(terms, with_symbol.bytes, with_symbol.n);
        }
        if (status == SHP_TEXT_OK) status = add_unit(terms, text, unit, 1);
    }
    return status;
}

/* Reads the word or form at `start`, adds it, and moves *at behind it. */
static shp_text_status read_form(shp_terms *terms, const uint8_t *text, size_t start, size_t n, size_t *at) {
    int has_dot = start > 0 && text[start - 1] == '.' && !(start > 1 && text[start - 2] == '.');
    unit_span unit = read_unit(text, start, n), next;
    *at = unit.end;
    while (next_unit(text, *at, n, &next)) *at = next.end;
    if (!has_dot && *at == unit.word) return add_unit(terms, text, unit, 0);
    return add_form(terms, text, start - has_dot, *at);
}

/* Adds the overlapping pairs of a run of unspaced script. */
static shp_text_status read_run(shp_terms *terms, const uint8_t *text, size_t start, size_t n, size_t *at) {
    size_t i = start, next = start + character_length(text[start]);
    shp_text_status status = SHP_TEXT_OK;
    int pairs = 0;
    for (; status == SHP_TEXT_OK && next < n && CLASS[text[next]] == WIDE && is_unspaced(text + next); pairs++) {
        size_t end = next + character_length(text[next]);
        status = add_term(terms, text + i, end - i);
        i = next;
        next = end;
    }
    *at = next;
    return pairs ? status : add_term(terms, text + start, next - start);
}

shp_text_status shp_terms_read(shp_terms *terms, const uint8_t *text, size_t n) {
    shp_text_status status = SHP_TEXT_OK;
    size_t i = 0;
    while (status == SHP_TEXT_OK && i < n) {
        uint8_t class = CLASS[text[i]];
        if (class == WORD || (class == WIDE && !is_unspaced(text + i))) status = read_form(terms, text, i, n, &i);
        else if (class == WIDE) status = read_run(terms, text, i, n, &i);
        else i++;
    }
    return status;
}

size_t shp_text_stem(char *word, size_t n) { return shp_stem_english(word, n); }

/* ---------------------------------------------------------------------------------- terms for FTS5 */

size_t shp_term_encode(uint8_t *out, const uint8_t *term, size_t n) {
    static const char HEX[] = "0123456789abcdef";
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = term[i];
        if (c >= 128 || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
            out[k++] = c;
        } else {
            out[k++] = '_';
            out[k++] = (uint8_t)HEX[c >> 4];
            out[k++] = (uint8_t)HEX[c & 15];
        }
    }
    return k;
}

size_t shp_terms_scoped(const shp_terms *terms, const char *prefix, uint8_t *out) {
    uint8_t encoded[3 * 4 * SHP_TERM_CHARACTERS];
    size_t prefix_length = strlen(prefix), size = 0, start = 0;
    for (size_t i = 0; i < terms->n; start = terms->ends[i++]) {
        size_t n = shp_term_encode(encoded, terms->bytes + start, terms->ends[i] - start);
        if (out != NULL) {
            if (i > 0) out[size] = ' ';
            memcpy(out + size + (i > 0), prefix, prefix_length);
            memcpy(out + size + (i > 0) + prefix_length, encoded, n);
        }
        size += (i > 0) + prefix_length + n;
    }
    return size;
}

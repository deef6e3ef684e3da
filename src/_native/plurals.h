/* Plurals of acronyms.  Included by text.c alone.
 *
 * Porter2 keeps the s of "gpus", since it takes -us for Latin, and of "pdfs" and "kpis", since it wants a vowel with a
 * letter behind it.  So a final s is cut before the word is stemmed when the letters before it are two or more
 * consonants (other than y), then at most one vowel, and do not end with s:
 *
 *     gpus cpus skus kpis ngos cves pdfs pcs vms llms        but not  bus gas his aws ios saas css boss
 *
 * Capitals do not decide: "which gpus" in lower case has to find what was stored about a "GPU".  Few English words have
 * this shape; those that would become another word, and acronyms that end with an s of their own, are listed.  An
 * acronym that is not listed loses its s in memories and questions alike, and so is still found.
 * A change here changes the index: raise SHP_TEXT_VERSION. */
#ifndef SHP_PLURALS_H
#define SHP_PLURALS_H

#include <stddef.h>
#include <string.h>

static const char *const SHP_NO_PLURALS[] = {
    "this", "thus", "plus", "chris", "mrs", /* English */
    "cms", "dns", "fps", "fts", "gps", "https", "lts", "nfs", "nhs", "pms", "rds", "sms", "tls", "vps",
};

static int shp_plural_is_vowel(char c) { return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u'; }

/* The length of a lower-case ASCII word without the plural s of an acronym. */
static size_t shp_plural_cut(const char *word, size_t n) {
    if (n < 3 || word[n - 1] != 's' || word[n - 2] == 's') return n;
    size_t n_consonants = n - 1 - (size_t)shp_plural_is_vowel(word[n - 2]);
    if (n_consonants < 2) return n;
    for (size_t i = 0; i < n_consonants; i++)
        if (shp_plural_is_vowel(word[i]) || word[i] == 'y') return n;
    for (size_t i = 0; i < sizeof SHP_NO_PLURALS / sizeof SHP_NO_PLURALS[0]; i++)
        if (strlen(SHP_NO_PLURALS[i]) == n && memcmp(SHP_NO_PLURALS[i], word, n) == 0) return n;
    return n - 1;
}

#endif

# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The tokenizer of index and query: from text to terms, by the rules in text.c.

This file folds what is not ASCII, with Python's own Unicode tables, and turns terms into Python objects.
"""
import unicodedata
from types import MappingProxyType

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8, PyUnicode_FromObject
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset

from pairs cimport SHP_PAIRS_BYTES, SHP_PAIRS_TERMS, shp_pairs, shp_pairs_add, shp_pairs_next, shp_pairs_reader
from text_h cimport (
    SHP_TEXT_NO_MEMORY, SHP_TEXT_OK, SHP_TEXT_VERSION, shp_term_encode, shp_terms, shp_terms_begin, shp_terms_free,
    shp_terms_read, shp_terms_scoped, shp_text_form, shp_text_initialise, shp_text_status, shp_text_stem,
    shp_text_stop_word,
)

__all__ = [
    "FORMS", "STOP_WORDS", "TOKENIZER_VERSION", "folded", "keywords", "keywords_compat", "match_expression", "pairs", "scoped",
    "stem", "terms",
]

shp_text_initialise()

TOKENIZER_VERSION = SHP_TEXT_VERSION

# Up to this many bytes the GIL is kept: they take less than 0.1 ms, and a thread that let it go waits up to 5 ms
# (sys.getswitchinterval) to get it back from a busy one.
cdef Py_ssize_t KEEP_GIL_BYTES = 16384

# A text that is not ASCII is normalised in pieces of about so many characters, so that a long one is only read
# as far as the limit of terms.
cdef Py_ssize_t PIECE_CHARACTERS = 2048


# ------------------------------------------------------------------------------------------ folding

cdef enum:
    KIND_BLANK    # not part of a word
    KIND_LETTER   # letter or digit, or an ASCII character that stands for it
    KIND_MARK     # belongs to the letter before it; blank when there is none
    KIND_DROPPED  # as if it were not there

ctypedef struct folded_character:
    uint8_t kind
    uint8_t length      # bytes of utf8
    char[6] utf8

# One table of 256 characters for each high byte, made when a character of it first occurs; most texts need two or
# three of them.
cdef folded_character* BLOCKS[0x1100]

# Marks over letters of Latin, Greek and Cyrillic, and the vowel points that Arabic and Hebrew are mostly written
# without. Marks of other scripts are part of the spelling.
_DROPPED_MARKS = (
    (0x0300, 0x036F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF), (0xFE20, 0xFE2F),
    (0x0591, 0x05BD), (0x05BF, 0x05BF), (0x05C1, 0x05C2), (0x05C4, 0x05C5), (0x05C7, 0x05C7),
    (0x0640, 0x0640), (0x064B, 0x065F), (0x0670, 0x0670),
)
# Invisible: soft hyphen, joiners, directions, variation selectors, tags, byte order mark.
_INVISIBLE = (
    (0x00AD, 0x00AD), (0x061C, 0x061C), (0x180B, 0x180F), (0x200C, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F),
    (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xE0000, 0xE01EF),
)
# Latin with its IPA and additional letters, Greek, Cyrillic: letters whose marks come off.
_UNMARKED = ((0x00C0, 0x02AF), (0x0370, 0x052F), (0x1E00, 0x1FFF))
# Letters that people without the key type otherwise, though Unicode does not take them apart.
_SPELLINGS = {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"}
_PUNCTUATION = {"\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u2010": "-"}


def _is_in(point, ranges):
    return any(first <= point <= last for first, last in ranges)


def _fold_character(point):
    """Return (kind, UTF-8) for one character of a text that is NFKC and casefolded."""
    character = chr(point)
    if _is_in(point, _DROPPED_MARKS) or _is_in(point, _INVISIBLE):
        return KIND_DROPPED, b""
    if character in _PUNCTUATION:
        return KIND_BLANK, _PUNCTUATION[character].encode()
    category = unicodedata.category(character)
    if category == "Nd":
        return KIND_LETTER, str(unicodedata.decimal(character)).encode()
    if category[0] == "M":
        return KIND_MARK, character.encode()
    if not character.isalnum():
        return KIND_BLANK, b" "
    if _is_in(point, _UNMARKED):
        base = "".join(c for c in unicodedata.normalize("NFKD", character) if unicodedata.category(c)[0] != "M")
        character = _SPELLINGS.get(base, base) or character
    return KIND_LETTER, character.encode()


cdef folded_character* make_block(Py_ssize_t high) except NULL:
    cdef folded_character* block = <folded_character*>PyMem_Malloc(256 * sizeof(folded_character))
    cdef Py_ssize_t low
    cdef bytes utf8
    if block == NULL:
        raise MemoryError
    try:
        for low in range(256):
            kind, utf8 = _fold_character(high << 8 | low)
            if len(utf8) > 6:
                raise AssertionError(f"U+{high << 8 | low:04X} folds to {len(utf8)} bytes")
            block[low].kind = kind
            block[low].length = <uint8_t>len(utf8)
            memcpy(block[low].utf8, PyBytes_AS_STRING(utf8), len(utf8))
    except BaseException:
        PyMem_Free(block)
        raise
    BLOCKS[high] = block
    return block


# More combining characters than this on one letter are no writing (Unicode's Stream-Safe Text Format, UAX #15, allows
# 30), and CPython sorts them in quadratic time: 80,000 take 4 s.
cdef int MOST_MARKS = 30


cdef bint may_have_too_many_marks(str text) except -1:
    """Return True for every text with more than MOST_MARKS combining characters in a row, and for few others."""
    cdef Py_UCS4 character
    cdef uint32_t c
    cdef uint8_t kind
    cdef int run = 0
    for character in text:
        c = <uint32_t>character
        if c < 0x0300:
            run = 0
            continue
        kind = (BLOCKS[c >> 8] or make_block(c >> 8))[c & 255].kind
        # U+FF9E and U+FF9F are letters that become marks.
        run = run + 1 if kind == KIND_MARK or kind == KIND_DROPPED or c == 0xFF9E or c == 0xFF9F else 0
        if run > MOST_MARKS:
            return True
    return False


def _with_fewer_marks(text):
    """Return the text without the combining characters after the thirtieth in a row."""
    kept = []
    run = 0
    for character in text:
        is_mark = unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) > 0
        run = run + 1 if is_mark else 0
        if run <= MOST_MARKS:
            kept.append(character)
    return "".join(kept)


cdef str normalised(str text):
    if may_have_too_many_marks(text):
        text = _with_fewer_marks(text)
    return unicodedata.normalize("NFKC", text).casefold()


cdef Py_ssize_t fold(str text, uint8_t* out) except -1:
    """Write a text that is NFKC and casefolded as UTF-8, at most 6 bytes a character; return the number of bytes."""
    cdef Py_ssize_t n = 0
    cdef Py_UCS4 character
    cdef uint32_t c
    cdef folded_character* entry
    cdef bint after_letter = False
    for character in text:
        c = <uint32_t>character
        if c < 128:
            out[n] = <uint8_t>c
            n += 1
            after_letter = (97 <= c <= 122) or (48 <= c <= 57)
            continue
        entry = &(BLOCKS[c >> 8] or make_block(c >> 8))[c & 255]
        if entry.kind == KIND_DROPPED:
            continue
        if entry.kind == KIND_MARK and not after_letter:
            out[n] = 32
            n += 1
            continue
        memcpy(out + n, entry.utf8, entry.length)
        n += entry.length
        after_letter = entry.kind != KIND_BLANK
    return n


cdef Py_ssize_t piece_end(str text, Py_ssize_t start):
    """Return where a piece can end: before a character that neither composes with another nor is part of a term."""
    cdef Py_ssize_t i = start + PIECE_CHARACTERS, n = len(text)
    cdef uint32_t c
    while i < n:
        c = <uint32_t>(<Py_UCS4>text[i])
        if c == 32 or 9 <= c <= 13 or 0x3000 <= c <= 0x3002 or c == 0xFF0C:
            return i
        i += 1
    return n


# ------------------------------------------------------------------------------------------ reading

cdef int check(shp_text_status status) except -1:
    if status == SHP_TEXT_NO_MEMORY:
        raise MemoryError
    return 0


cdef int read_ascii(shp_terms* found, str text) except -1:
    cdef Py_ssize_t n = 0
    cdef const char* data = PyUnicode_AsUTF8AndSize(text, &n)  # the str's own bytes, not a copy
    cdef shp_text_status status
    if n <= KEEP_GIL_BYTES:
        status = shp_terms_read(found, <const uint8_t*>data, n)
    else:
        with nogil:
            status = shp_terms_read(found, <const uint8_t*>data, n)
    return check(status)


cdef int read_folded(shp_terms* found, str text) except -1:
    cdef Py_ssize_t start = 0, end, n, capacity = 0
    cdef uint8_t* folded = NULL
    cdef shp_text_status status = SHP_TEXT_OK
    cdef str piece
    try:
        while start < len(text) and status == SHP_TEXT_OK:
            end = piece_end(text, start)
            piece = normalised(text[start:end])
            start = end
            if 6 * len(piece) > capacity:
                PyMem_Free(folded)
                capacity = 6 * len(piece)
                folded = <uint8_t*>PyMem_Malloc(capacity)
                if folded == NULL:
                    raise MemoryError
            n = fold(piece, folded)
            status = shp_terms_read(found, folded, n)
        return check(status)
    finally:
        PyMem_Free(folded)


cdef int read(shp_terms* found, str text, size_t limit, bint distinct) except -1:
    """Fill `found`, which the caller frees; with all words when the text has nothing but stop words."""
    cdef bint all_words = False
    cdef bint is_ascii = text.isascii()
    shp_terms_begin(found, limit, distinct, False)
    while limit > 0:
        if is_ascii:
            read_ascii(found, text)
        else:
            read_folded(found, text)
        if found.n > 0 or all_words:
            break
        all_words = True
        shp_terms_free(found)
        shp_terms_begin(found, limit, distinct, True)
    return 0


cdef list as_list(const shp_terms* found):
    cdef size_t i, start = 0
    cdef list result = []
    for i in range(found.n):
        result.append(PyUnicode_DecodeUTF8(<const char*>found.bytes + start, found.ends[i] - start, NULL))
        start = found.ends[i]
    return result


cdef str exact(text):
    """Return the text, of a subclass a plain copy: a `str` in a signature refuses subclasses."""
    return PyUnicode_FromObject(text)


def terms(text):
    """Return the terms of `text` in order, with repeats."""
    cdef str whole = exact(text)
    cdef shp_terms found
    try:
        read(&found, whole, <size_t>-1, False)
        return as_list(&found)
    finally:
        shp_terms_free(&found)


def keywords(text, Py_ssize_t cap=64):
    """Return the distinct terms of `text`, at most `cap`, in order of first appearance."""
    cdef str whole = exact(text)
    cdef shp_terms found
    try:
        read(&found, whole, max(cap, 0), True)
        return as_list(&found)
    finally:
        shp_terms_free(&found)


cdef int add_pairs(str text, shp_pairs* out) except -1:
    cdef shp_terms found
    cdef shp_pairs_reader reader
    cdef uint16_t pair
    cdef size_t i, start = 0
    reader.n, reader.last = 0, 0
    try:
        read(&found, text, SHP_PAIRS_TERMS, False)
        for i in range(found.n):
            if shp_pairs_next(&reader, found.bytes + start, found.ends[i] - start, &pair):
                shp_pairs_add(out, pair)
            start = found.ends[i]
    finally:
        shp_terms_free(&found)
    return 0


def pairs(texts):
    """Return the pairs of neighbouring terms in the first 32 of each text, as pairs.h has them; empty without any."""
    cdef shp_pairs found
    memset(&found, 0, sizeof(found))
    for text in texts:
        add_pairs(exact(text), &found)
    cdef bytes stored = PyBytes_FromStringAndSize(<const char*>found.bits, SHP_PAIRS_BYTES)
    return stored if any(stored) else b""


def stem(str word not None):
    """Return the Porter2 stem of an English word; a word with characters other than a-z and ' is unchanged."""
    cdef bytes copy
    cdef char* letters
    cdef size_t n
    if not word.isascii():
        return word
    copy = word.encode()  # ours alone, so it may be written to
    letters = copy
    for n in range(len(copy)):
        if not (97 <= letters[n] <= 122 or letters[n] == 39):
            return word
    n = shp_text_stem(letters, len(copy))
    return copy[:n].decode()


def folded(text):
    """Return the text as `shp_terms_read` takes it: UTF-8, lower case, without marks."""
    cdef list pieces = []
    cdef Py_ssize_t start = 0, end, n
    cdef str whole = exact(text), piece
    cdef bytes room
    while start < len(whole):
        end = piece_end(whole, start)
        piece = normalised(whole[start:end])
        start = end
        room = PyBytes_FromStringAndSize(NULL, 6 * len(piece))
        n = fold(piece, <uint8_t*>PyBytes_AS_STRING(room))
        pieces.append(room[:n])
    return b"".join(pieces)


# ------------------------------------------------------------------------------------------ FTS5

cdef bytes tenant_prefix(tenant):
    if tenant < 0:
        raise ValueError(f"tenant {tenant}: expected a number from 0")
    return b"t%d_" % tenant


def scoped(text, tenant):
    """Return (UTF-8 for an FTS5 column, number of terms), each term as `t<tenant>_<term>`."""
    cdef bytes prefix = tenant_prefix(tenant), column
    cdef const char* prefix_text = prefix
    cdef str whole = exact(text)
    cdef shp_terms found
    try:
        read(&found, whole, <size_t>-1, False)
        column = PyBytes_FromStringAndSize(NULL, shp_terms_scoped(&found, prefix_text, NULL))
        shp_terms_scoped(&found, prefix_text, <uint8_t*>PyBytes_AS_STRING(column))
        return column, found.n
    finally:
        shp_terms_free(&found)


cdef bytes encoded_term(str term):
    cdef bytes utf8 = term.encode("utf-8", "surrogatepass")
    cdef bytes room = PyBytes_FromStringAndSize(NULL, 3 * len(utf8))
    cdef size_t n = shp_term_encode(<uint8_t*>PyBytes_AS_STRING(room), <const uint8_t*>PyBytes_AS_STRING(utf8), len(utf8))
    return room[:n]


def match_expression(keywords, tenant):
    """Return the FTS5 query for rows of `tenant` with any of the keywords; empty for no keywords."""
    cdef bytes prefix = tenant_prefix(tenant)
    return b" OR ".join([b'"%b%b"' % (prefix, encoded_term(exact(keyword))) for keyword in keywords])


# ------------------------------------------------------------------------------------------ the lists

def _stop_words():
    cdef size_t i = 0
    words = []
    while shp_text_stop_word(i) != NULL:
        words.append(shp_text_stop_word(i).decode())
        i += 1
    return frozenset(words)


STOP_WORDS = _stop_words()


def _forms():
    cdef size_t i = 0
    cdef const char* base = NULL
    cdef const char* form
    cdef dict forms = {}
    while True:
        form = shp_text_form(i, &base)
        if form == NULL:
            return MappingProxyType(forms)
        forms[form.decode()] = base.decode()
        i += 1


FORMS = _forms()

_COMPAT_STOP_WORDS = frozenset(
    b"the and but for nor with from into about over under you your yours she her his him hers its our ours they them "
    b"their this that these those are was were been being have has had does did can could will would shall should may "
    b"might must what when where which who whom why how please tell told know remember want need like just get got "
    b"let say said".split()
)
_NOT_ALPHANUMERIC = bytes(c for c in range(256) if not (c < 128 and chr(c).isalnum()))


def keywords_compat(text):
    """Return the words that the original Shepherd kept: ASCII letters and digits, longer than two, no stop words."""
    words = [
        word.translate(None, _NOT_ALPHANUMERIC).lower()
        for word in exact(text).encode("utf-8", "surrogatepass").split()
    ]
    return [word.decode() for word in words if len(word) > 2 and word not in _COMPAT_STOP_WORDS]

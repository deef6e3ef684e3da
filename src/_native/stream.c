/* The stream of one answer from the engine thread to its reader.

   Layout: three arrays that only grow, under one mutex: `text` (valid UTF-8), `tokens` (ids as sampled) and `ends` (for
   each token, where its bytes end in the text), and `likely` if log probabilities were asked for. A cursor is the
   reader's position. One writer, one reader; any thread may call `cancel`.

   Text is held back or replaced before it reaches the reader:
   - an incomplete UTF-8 character waits for its other bytes. An invalid byte becomes U+FFFD, one per maximal subpart
     (Unicode 15, section 3.9, table 3-8; the same as Python's errors="replace");
   - a suffix that could grow into a stop string waits: the longest partial match over all of them, kept by one
     Knuth-Morris-Pratt automaton each;
   - a complete stop string ends the text at its first byte; if two end at the same byte, the longer one counts.

   The reader is woken at most once a millisecond: at 10,000 tokens a second, waking it for each would cost the writer a
   system call and the machine a context switch, a third of the model's own work. A token that comes sooner is read with
   the next one, at the end, or when the reader's wait times out. An event loop, to which each wake-up costs a message to
   a client, polls from time to time; its file gets a byte only for the first token after a poll that found nothing, and
   at the end.

   Cost: O(bytes x stop strings) per token, amortised O(1) allocations; one lock per token. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_condattr_setclock */
#endif
#include "stream.h"

#include <stdlib.h>
#include <string.h>

#ifndef _WIN32
#include <unistd.h>
#endif

#include "sync.h"

#define WAKE_INTERVAL_NS 1000000

static const char REPLACEMENT[3] = {(char)0xEF, (char)0xBF, (char)0xBD}; /* U+FFFD */

typedef struct {
    char *text;
    size_t *failure; /* failure[i]: length of the longest proper prefix that is a suffix of text[0..i] */
    size_t length, state;
} stop_string;

struct shp_stream {
    shp_mutex mutex;
    shp_condition changed;
    int n_holders; /* who frees it last; under the mutex */
    int fd;        /* gets a byte when the reader should look, for event loops; -1: none */
    int is_hungry; /* whose reader has found nothing since then */
    int cancelled; /* read without the mutex, through shp_flag_get */
    shp_ending ending;
    shp_counters counters;
    int32_t n_read, n_to_read;

    char *text;
    size_t text_length, text_capacity, visible, cursor;
    int64_t woken_ns; /* when the reader was last woken */
    int32_t *tokens;
    int64_t *ends;
    shp_likely *likely; /* NULL: not requested */
    size_t n_tokens, token_capacity;

    stop_string *stops;
    size_t n_stops;

    char pending[4]; /* the bytes of an incomplete character */
    int n_pending, n_missing;
    unsigned char low, high; /* what its next byte may be */
};

int64_t shp_now_ns(void) { return shp_clock_ns(); }

shp_stream *shp_stream_new(void) {
    shp_stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    if (shp_mutex_init(&s->mutex) != 0) {
        free(s);
        return NULL;
    }
    if (shp_condition_init(&s->changed) != 0) {
        shp_mutex_destroy(&s->mutex);
        free(s);
        return NULL;
    }
    s->n_holders = 1;
    s->fd = -1;
    return s;
}

void shp_stream_hold(shp_stream *s) {
    shp_mutex_lock(&s->mutex);
    s->n_holders++;
    shp_mutex_unlock(&s->mutex);
}

void shp_stream_free(shp_stream *s) {
    if (!s)
        return;
    shp_mutex_lock(&s->mutex);
    int is_held = --s->n_holders > 0;
    shp_mutex_unlock(&s->mutex);
    if (is_held)
        return;
    for (size_t i = 0; i < s->n_stops; i++) {
        free(s->stops[i].text);
        free(s->stops[i].failure);
    }
    free(s->stops);
    free(s->text);
    free(s->tokens);
    free(s->ends);
    free(s->likely);
    shp_condition_destroy(&s->changed);
    shp_mutex_destroy(&s->mutex);
    free(s);
}

shp_status shp_stream_add_stop(shp_stream *s, const char *text, size_t length) {
    if (length == 0)
        return SHP_OK;
    stop_string *grown = realloc(s->stops, (s->n_stops + 1) * sizeof *grown);
    if (!grown)
        return SHP_NO_MEMORY;
    s->stops = grown;
    stop_string stop = {malloc(length), malloc(length * sizeof(size_t)), length, 0};
    if (!stop.text || !stop.failure) {
        free(stop.text);
        free(stop.failure);
        return SHP_NO_MEMORY;
    }
    memcpy(stop.text, text, length);
    stop.failure[0] = 0;
    for (size_t i = 1, k = 0; i < length; i++) {
        while (k > 0 && text[i] != text[k])
            k = stop.failure[k - 1];
        if (text[i] == text[k])
            k++;
        stop.failure[i] = k;
    }
    s->stops[s->n_stops++] = stop;
    return SHP_OK;
}

static int reserve_text(shp_stream *s, size_t more) {
    if (s->text_length + more <= s->text_capacity)
        return 1;
    size_t capacity = s->text_capacity ? s->text_capacity : 1024;
    while (capacity < s->text_length + more)
        capacity *= 2;
    char *grown = realloc(s->text, capacity);
    if (!grown)
        return 0;
    s->text = grown;
    s->text_capacity = capacity;
    return 1;
}

static int reserve_tokens(shp_stream *s, int has_likely) {
    if (s->n_tokens < s->token_capacity)
        return 1;
    size_t capacity = s->token_capacity ? s->token_capacity * 2 : 256;
    int32_t *tokens = realloc(s->tokens, capacity * sizeof *tokens);
    if (!tokens)
        return 0;
    s->tokens = tokens;
    int64_t *ends = realloc(s->ends, capacity * sizeof *ends);
    if (!ends)
        return 0;
    s->ends = ends;
    if (has_likely) {
        shp_likely *likely = realloc(s->likely, capacity * sizeof *likely);
        if (!likely)
            return 0;
        s->likely = likely;
    }
    s->token_capacity = capacity;
    return 1;
}

/* Append one byte of a complete character; 1 when it completes a stop string. */
static int append_byte(shp_stream *s, char byte) {
    size_t longest = 0;
    s->text[s->text_length++] = byte;
    for (size_t i = 0; i < s->n_stops; i++) {
        stop_string *stop = &s->stops[i];
        while (stop->state > 0 && byte != stop->text[stop->state])
            stop->state = stop->failure[stop->state - 1];
        if (byte == stop->text[stop->state])
            stop->state++;
        if (stop->state == stop->length && stop->length > longest)
            longest = stop->length;
    }
    s->text_length -= longest;
    return longest > 0;
}

static int append(shp_stream *s, const char *bytes, int n) {
    for (int i = 0; i < n; i++)
        if (append_byte(s, bytes[i]))
            return 1;
    return 0;
}

static void expect(shp_stream *s, int missing, unsigned char low, unsigned char high) {
    s->n_missing = missing;
    s->low = low;
    s->high = high;
}

/* The number of bytes after a first byte, and the range of the second (RFC 3629, section 4). */
static int start_character(shp_stream *s, unsigned char byte) {
    if (byte < 0x80)
        expect(s, 0, 0, 0);
    else if (byte >= 0xC2 && byte <= 0xDF)
        expect(s, 1, 0x80, 0xBF);
    else if (byte >= 0xE0 && byte <= 0xEF)
        expect(s, 2, byte == 0xE0 ? 0xA0 : 0x80, byte == 0xED ? 0x9F : 0xBF);
    else if (byte >= 0xF0 && byte <= 0xF4)
        expect(s, 3, byte == 0xF0 ? 0x90 : 0x80, byte == 0xF4 ? 0x8F : 0xBF);
    else
        return 0;
    s->pending[0] = (char)byte;
    s->n_pending = 1;
    return 1;
}

/* One raw byte of the model's output; 1 when a stop string is complete. */
static int feed(shp_stream *s, unsigned char byte) {
    if (s->n_pending > 0) {
        if (byte >= s->low && byte <= s->high) {
            s->pending[s->n_pending++] = (char)byte;
            expect(s, s->n_missing - 1, 0x80, 0xBF);
        } else {
            s->n_pending = 0;
            if (append(s, REPLACEMENT, 3))
                return 1;
        }
    }
    if (s->n_pending == 0 && !start_character(s, byte))
        return append(s, REPLACEMENT, 3);
    if (s->n_missing > 0)
        return 0;
    int n = s->n_pending;
    s->n_pending = 0;
    return append(s, s->pending, n);
}

/* Engine thread: whether these bytes go on as clean UTF-8. A grammar has seen them as they are, overlong forms
   included; what the reader gets instead of them could be something that it forbids. */
int shp_stream_fits(const shp_stream *s, const char *piece, size_t length) {
    shp_stream next = {.n_pending = s->n_pending, .n_missing = s->n_missing, .low = s->low, .high = s->high};
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)piece[i];
        if (next.n_pending > 0) {
            if (byte < next.low || byte > next.high)
                return 0;
            expect(&next, next.n_missing - 1, 0x80, 0xBF);
        } else if (!start_character(&next, byte))
            return 0;
        if (next.n_missing == 0)
            next.n_pending = 0;
    }
    return 1;
}

/* Let the reader see what cannot become a stop string any more; 1 when it should be woken. */
static int show(shp_stream *s) {
    size_t held = 0;
    for (size_t i = 0; i < s->n_stops; i++)
        if (s->stops[i].state > held)
            held = s->stops[i].state;
    /* A stop string begins with a whole character, so what is visible ends with one. */
    if (s->text_length - held <= s->visible)
        return 0;
    s->visible = s->text_length - held;
    if (s->fd >= 0) {
        int was_hungry = s->is_hungry;
        s->is_hungry = 0;
        return was_hungry;
    }
    int64_t now = shp_clock_ns();
    if (now - s->woken_ns < WAKE_INTERVAL_NS)
        return 0;
    s->woken_ns = now;
    return 1;
}

/* A full pipe has woken its reader already, so whether the byte went in is all the same. */
static void signal_file(int fd, int has_ended) {
#ifndef _WIN32
    const char byte = (char)has_ended;
    if (fd >= 0 && write(fd, &byte, 1) < 0)
        return;
#else
    (void)fd, (void)has_ended;
#endif
}

shp_status shp_stream_write(shp_stream *s, int32_t token, const char *piece, size_t length,
                            const shp_likely *likely) {
    shp_status status = SHP_OK;
    shp_mutex_lock(&s->mutex);
    /* Every raw byte may turn into a U+FFFD, and so may an abandoned character before it. */
    if (!reserve_text(s, 3 * length + 3) || !reserve_tokens(s, likely != NULL)) {
        shp_mutex_unlock(&s->mutex);
        return SHP_NO_MEMORY;
    }
    int64_t end = -1;
    for (size_t i = 0; i < length && status == SHP_OK; i++)
        if (feed(s, (unsigned char)piece[i]))
            status = SHP_STOPPED;
    if (status == SHP_STOPPED)
        end = INT64_MAX; /* this token's bytes reach beyond the end of the text */
    else
        end = (int64_t)s->text_length + s->n_pending;
    if (likely && s->likely)
        s->likely[s->n_tokens] = *likely;
    s->tokens[s->n_tokens] = token;
    s->ends[s->n_tokens++] = end;
    int wake = 0, fd = s->fd;
    if (status == SHP_OK)
        wake = show(s);
    else
        s->n_pending = 0;
    shp_mutex_unlock(&s->mutex);
    /* After the unlock, or the reader would wake up only to wait for the mutex. */
    if (wake) {
        shp_condition_broadcast(&s->changed);
        signal_file(fd, 0);
    }
    return status;
}

void shp_stream_end(shp_stream *s, shp_ending ending, const shp_counters *counters) {
    shp_mutex_lock(&s->mutex);
    if (s->n_pending > 0 && reserve_text(s, 3)) {
        s->n_pending = 0;
        append(s, REPLACEMENT, 3);
    }
    s->visible = s->text_length;
    s->ending = ending;
    if (counters)
        s->counters = *counters;
    shp_condition_broadcast(&s->changed);
    /* Inside the lock: a reader that sees the end can close the file. */
    signal_file(s->fd, 1);
    shp_mutex_unlock(&s->mutex);
}

void shp_stream_report(shp_stream *s, int32_t n_read, int32_t n_to_read) {
    shp_mutex_lock(&s->mutex);
    s->n_read = n_read;
    s->n_to_read = n_to_read;
    shp_mutex_unlock(&s->mutex);
}

void shp_stream_progress(shp_stream *s, int32_t *n_read, int32_t *n_to_read) {
    shp_mutex_lock(&s->mutex);
    *n_read = s->n_read;
    *n_to_read = s->n_to_read;
    shp_mutex_unlock(&s->mutex);
}

int shp_stream_is_cancelled(const shp_stream *s) { return shp_flag_get(&s->cancelled); }

void shp_stream_cancel(shp_stream *s) { shp_flag_set(&s->cancelled, 1); }

int shp_stream_notify(shp_stream *s, int fd) {
#ifdef _WIN32
    (void)s, (void)fd;
    return 0;
#else
    shp_mutex_lock(&s->mutex);
    s->fd = fd;
    s->is_hungry = s->cursor == s->visible;
    if (!s->is_hungry || s->ending != SHP_RUNNING)
        signal_file(fd, s->ending != SHP_RUNNING);
    shp_mutex_unlock(&s->mutex);
    return 1;
#endif
}

/* Bytes that can be taken now; 0 after the timeout or at the end. */
size_t shp_stream_wait(shp_stream *s, int timeout_ms) {
    shp_mutex_lock(&s->mutex);
    if (s->cursor == s->visible && s->ending == SHP_RUNNING && timeout_ms != 0)
        shp_condition_wait_ms(&s->changed, &s->mutex, timeout_ms);
    size_t n = s->visible - s->cursor;
    s->is_hungry = n == 0;
    shp_mutex_unlock(&s->mutex);
    return n;
}

size_t shp_stream_take(shp_stream *s, char *out, size_t capacity) {
    shp_mutex_lock(&s->mutex);
    size_t n = s->visible - s->cursor;
    if (n > capacity)
        n = capacity;
    if (n > 0)
        memcpy(out, s->text + s->cursor, n);
    s->cursor += n;
    shp_mutex_unlock(&s->mutex);
    return n;
}

shp_ending shp_stream_ending(shp_stream *s, shp_counters *counters) {
    shp_mutex_lock(&s->mutex);
    shp_ending ending = s->ending;
    if (counters)
        *counters = s->counters;
    shp_mutex_unlock(&s->mutex);
    return ending;
}

/* The sampled ids and where each one's bytes end in the text. Only after the end: the arrays may move before. */
size_t shp_stream_tokens(shp_stream *s, const int32_t **tokens, const int64_t **ends) {
    *tokens = s->tokens;
    *ends = s->ends;
    return s->n_tokens;
}

int shp_stream_likely(shp_stream *s, size_t i, int32_t *token, shp_likely *likely) {
    shp_mutex_lock(&s->mutex);
    int is_there = s->likely && i < s->n_tokens && s->ends[i] <= (int64_t)s->cursor;
    if (is_there) {
        *token = s->tokens[i];
        *likely = s->likely[i];
    }
    shp_mutex_unlock(&s->mutex);
    return is_there;
}

int shp_stream_token(shp_stream *s, size_t i, int32_t *token, int64_t *end) {
    shp_mutex_lock(&s->mutex);
    int is_there = i < s->n_tokens && s->ends[i] <= (int64_t)s->cursor;
    if (is_there) {
        *token = s->tokens[i];
        *end = s->ends[i];
    }
    shp_mutex_unlock(&s->mutex);
    return is_there;
}

int32_t shp_stream_stopped_by(shp_stream *s) {
    int32_t found = -1;
    shp_mutex_lock(&s->mutex);
    for (size_t i = 0; i < s->n_stops; i++)
        if (s->stops[i].state == s->stops[i].length
            && (found < 0 || s->stops[i].length > s->stops[found].length))
            found = (int32_t)i;
    shp_mutex_unlock(&s->mutex);
    return found;
}

int64_t shp_stream_text_length(shp_stream *s) {
    shp_mutex_lock(&s->mutex);
    int64_t n = (int64_t)s->text_length;
    shp_mutex_unlock(&s->mutex);
    return n;
}

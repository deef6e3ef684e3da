/* A buffer for llama.cpp's log lines, from which Python takes them.

   A Python callback would take the GIL inside llama_decode, which beside one busy thread costs 5 ms a line. So lines go
   into one fixed buffer of 64 KiB, each as RS (0x1E), a level digit and its text. A full buffer drops its older half,
   because the last lines are the ones that explain a failure. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L
#endif
#include "log.h"

#include <string.h>

#include "sync.h"

/* ggml_log_level: 1 debug, 2 info, 3 warning, 4 error, 5 continues the line before. */
enum { LEVEL_WARNING = 3, LEVEL_CONTINUED = 5 };

static shp_mutex mutex;
static char buffer[SHP_LOG_CAPACITY];
static size_t length;
static int least = LEVEL_WARNING, last_level;

int shp_log_init(void) { return shp_mutex_init(&mutex); }

void shp_log_set_level(int level) {
    shp_mutex_lock(&mutex);
    least = level;
    shp_mutex_unlock(&mutex);
}

static void forget_older_half(void) {
    const char *middle = buffer + length / 2;
    const char *line = memchr(middle, '\x1E', (size_t)(buffer + length - middle));
    size_t cut = line ? (size_t)(line - buffer) : length;
    memmove(buffer, buffer + cut, length - cut);
    length -= cut;
}

static void put(const char *bytes, size_t n) {
    memcpy(buffer + length, bytes, n);
    length += n;
}

void shp_log_write(int level, const char *text, void *unused) {
    (void)unused;
    if (!text)
        return;
    size_t n = strlen(text);
    if (n > SHP_LOG_CAPACITY / 4)
        n = SHP_LOG_CAPACITY / 4;
    shp_mutex_lock(&mutex);
    int continued = level == LEVEL_CONTINUED;
    if (!continued)
        last_level = level;
    if (n > 0 && last_level >= least) {
        if (length + n + 2 > SHP_LOG_CAPACITY)
            forget_older_half();
        if (!continued || length == 0) {
            const char head[2] = {'\x1E', (char)('0' + (last_level & 7))};
            put(head, 2);
        }
        put(text, n);
    }
    shp_mutex_unlock(&mutex);
}

size_t shp_log_take(char *out, size_t capacity) {
    shp_mutex_lock(&mutex);
    size_t n = length < capacity ? length : capacity;
    memcpy(out, buffer, n);
    length = 0;
    shp_mutex_unlock(&mutex);
    return n;
}

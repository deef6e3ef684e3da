/* A buffer for llama.cpp's log lines: its threads never wait for the interpreter. */
#ifndef SHP_LOG_H
#define SHP_LOG_H

#include <stddef.h>

int shp_log_init(void);
void shp_log_set_level(int least);
/* The shape of ggml_log_callback. */
void shp_log_write(int level, const char *text, void *unused);
size_t shp_log_take(char *out, size_t capacity);

enum { SHP_LOG_CAPACITY = 1 << 16 };

#endif

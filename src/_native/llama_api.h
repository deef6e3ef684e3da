/* llama.h of llama-cpp-python 0.3.36: the structs and functions that the engine uses, as pointers. Their addresses
   come from the library that llama_cpp has loaded, so there is no header to find and never a second llama.cpp.
   None of them takes Python's lock. */
#ifndef SHP_LLAMA_API_H
#define SHP_LLAMA_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct { /* passed by value; compared with ctypes' view when the library is bound, as the next two */
    int32_t n_tokens;
    int32_t *token;
    float *embd; /* NULL: the batch has ids; else it has no ids but these embeddings */
    int32_t *pos;
    int32_t *n_seq_id;
    int32_t **seq_id;
    int8_t *logits; /* flags: compute logits here */
} shp_llama_batch;

typedef struct {
    int32_t id;
    float logit; /* minus infinity: refused */
    float p;
} shp_llama_token_data;

typedef struct {
    shp_llama_token_data *data; /* samplers sort, cut, and may replace it */
    size_t size;
    int64_t selected; /* index in data, -1 while nothing is */
    bool sorted;
} shp_llama_token_data_array;

/* In the order of the names in engine.pyx: it must have nothing but function pointers. */
typedef struct {
    /* 0 done; 1 no room; 2 aborted; -1 bad batch; below -1 failed. After 2 and below -1 a part may be in the cache. */
    int32_t (*decode)(void *ctx, shp_llama_batch batch);
    void (*synchronize)(void *ctx);
    float *(*get_logits_ith)(void *ctx, int32_t i); /* NULL: no logits there */
    void (*set_abort_callback)(void *ctx, bool (*callback)(void *), void *data);
    void (*memory_clear)(void *memory, bool data);
    bool (*seq_rm)(void *memory, int32_t seq, int32_t p0, int32_t p1);
    void (*seq_cp)(void *memory, int32_t source, int32_t target, int32_t p0, int32_t p1);
    void (*seq_add)(void *memory, int32_t seq, int32_t p0, int32_t p1, int32_t delta); /* aborts unless can_shift */
    int32_t (*seq_pos_min)(void *memory, int32_t seq); /* -1: nothing there */
    int32_t (*seq_pos_max)(void *memory, int32_t seq);
    bool (*can_shift)(void *memory);
    size_t (*state_size)(void *ctx, int32_t seq, uint32_t flags);
    size_t (*state_get)(void *ctx, uint8_t *out, size_t size, int32_t seq, uint32_t flags);
    size_t (*state_set)(void *ctx, const uint8_t *in, size_t size, int32_t seq, uint32_t flags); /* 0: refused */
    void (*sampler_apply)(void *sampler, shp_llama_token_data_array *candidates);
    void (*sampler_accept)(void *sampler, int32_t token);
    void (*sampler_reset)(void *sampler);
    void *(*sampler_clone)(const void *sampler); /* freed by the next */
    void (*sampler_free)(void *sampler);
    bool (*is_eog)(const void *vocab, int32_t token);
    int32_t (*vocab_n_tokens)(const void *vocab);
    int (*vocab_get_attr)(const void *vocab, int32_t token);
    const char *(*vocab_get_text)(const void *vocab, int32_t token);
    /* Negative: the bytes needed. */
    int32_t (*token_to_piece)(const void *vocab, int32_t token, char *out, int32_t capacity, int32_t lstrip,
                              bool special);
    /* Negative: the tokens needed. */
    int32_t (*tokenize)(const void *vocab, const char *text, int32_t length, int32_t *tokens, int32_t capacity,
                        bool add_special, bool parse_special);
    void (*log_set)(void (*callback)(int, const char *, void *), void *data);
    void (*set_causal_attn)(void *ctx, bool causal); /* false: the tokens of a batch attend to each other */
} shp_llama;

extern shp_llama shp_api; /* filled once, before any context is made; in sequence.c */

enum { SHP_STATE_WHOLE = 0, SHP_STATE_PARTIAL = 1 }; /* LLAMA_STATE_SEQ_FLAGS_* */

/* Kinds of cache: what can be cut off their end. */
enum { SHP_PLAIN = 0, SHP_SLIDING = 1, SHP_RECURRENT = 2, SHP_HYBRID = 3 };

#endif

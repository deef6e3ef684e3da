/* The stream of one answer from the engine thread to its reader: valid UTF-8 text, token ids and an ending.
   See stream.c for the layout, the costs and the rules for text that is held back. */
#ifndef SHP_STREAM_H
#define SHP_STREAM_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    SHP_OK = 0,
    SHP_STOPPED = 1,   /* a stop string is complete; the text ends before it */
    SHP_CANCELLED = 2, /* the reader cancelled */
    SHP_NO_MEMORY = 3,
} shp_status;

typedef enum {
    SHP_RUNNING = 0,
    SHP_END_STOP = 1,      /* end-of-generation token or stop string */
    SHP_END_LENGTH = 2,    /* max_tokens, or the window is full */
    SHP_END_CANCELLED = 3,
    SHP_END_FAILED = 4,    /* llama_decode failed; `code` says how */
} shp_ending;

/* Counters of one run, set by the engine thread before the stream ends. Times in nanoseconds. */
typedef struct {
    int64_t prompt_tokens, reused_tokens, decoded_tokens, sampled_tokens;
    int64_t drafted_tokens, accepted_tokens; /* tokens of drafts that were decoded, and those that were right */
    int64_t model_drafted_tokens, model_accepted_tokens; /* of them: by the draft model */
    int64_t prefill_ns, first_token_ns, decode_ns, total_ns;
    int64_t model_ns;      /* of total_ns: inside llama_decode and the samplers, other jobs' tokens included */
    int32_t code;          /* what llama_decode last returned when the run failed, else 0 */
} shp_counters;

enum { SHP_MOST_LIKELY = 20 };

/* Log probabilities of a token and of the likeliest tokens: by the model's logits before samplers and grammar, or of
   those among which the samplers chose. */
typedef struct {
    float logprob;
    int32_t n_top;
    int32_t top_ids[SHP_MOST_LIKELY]; /* the likeliest first; of equals the lower id */
    float top_logprobs[SHP_MOST_LIKELY];
} shp_likely;

typedef struct shp_stream shp_stream;

shp_stream *shp_stream_new(void);                  /* with one reference */
void shp_stream_hold(shp_stream *stream);
void shp_stream_free(shp_stream *stream);          /* drops a reference; the last one frees it */
shp_status shp_stream_add_stop(shp_stream *stream, const char *text, size_t length);

/* Engine thread. */
shp_status shp_stream_write(shp_stream *stream, int32_t token, const char *piece, size_t length,
                            const shp_likely *likely); /* copied; NULL, for each token of the stream: not asked */
void shp_stream_report(shp_stream *stream, int32_t n_read, int32_t n_to_read); /* new tokens of the prompt */
void shp_stream_end(shp_stream *stream, shp_ending ending, const shp_counters *counters);
int shp_stream_is_cancelled(const shp_stream *stream);
int shp_stream_fits(const shp_stream *stream, const char *piece, size_t length); /* 1: no byte becomes U+FFFD */

/* Reader; cancel is for any thread. */
void shp_stream_cancel(shp_stream *stream);
/* Also write a byte to this file when text arrives after an empty read, and at the end; 0: unsupported here. */
int shp_stream_notify(shp_stream *stream, int fd);
size_t shp_stream_wait(shp_stream *stream, int timeout_ms);
void shp_stream_progress(shp_stream *stream, int32_t *n_read, int32_t *n_to_read); /* as reported last, else 0 */
size_t shp_stream_take(shp_stream *stream, char *out, size_t capacity);
shp_ending shp_stream_ending(shp_stream *stream, shp_counters *counters);
size_t shp_stream_tokens(shp_stream *stream, const int32_t **tokens, const int64_t **ends);
int64_t shp_stream_text_length(shp_stream *stream);
/* Token i with its log probability, once all its bytes were taken. 0: not yet, cut off by a stop string, or not asked
   for. */
int shp_stream_likely(shp_stream *stream, size_t i, int32_t *token, shp_likely *likely);
/* Token i, once all its bytes were taken; of it, `*end` is where its bytes end in the text. 0: not yet, or cut off. */
int shp_stream_token(shp_stream *stream, size_t i, int32_t *token, int64_t *end);
int32_t shp_stream_stopped_by(shp_stream *stream); /* index of the complete stop string, in the order added; -1: none */

int64_t shp_now_ns(void);

#endif

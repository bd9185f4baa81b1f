/* records.h - what a fixture holds, as structs: exchange, step, op. docs/format.md gives the bytes on disk.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Members that no field holds are in each record's `extra`, so that attributes unknown to this
 * version survive a rewrite. Times are nanoseconds of the recording machine's monotonic clock
 * (t_ns). */
#ifndef TD_FORMAT_RECORDS_H
#define TD_FORMAT_RECORDS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/desc/op_desc.h"
#include "common/error.h"
#include "common/hash.h"

/* ---- wire: one socket read or write ------------------------------------------------------------------------------- */

enum td_wire_dir {
    TD_WIRE_SENT = 0,     /* bytes written to the server */
    TD_WIRE_RECEIVED = 1, /* bytes read from it */
    TD_WIRE_NOTE = 2      /* JSON by the recorder: {"open":{...}} when a stream starts, {"close":{...}} when it ends */
};

/* A stream is one exchange (not one TCP connection). Keys of the notes: docs/format.md, "wire.zst: notes". */
struct td_wire {
    int64_t t_ns;
    uint32_t stream;
    enum td_wire_dir dir;
    const uint8_t *data;  /* borrowed */
    size_t len;
    bool redacted;        /* some bytes were overwritten before they reached the disk */
};

/* ---- exchange: one request and its response, derived from the wire ------------------------------------------------ */

enum td_phase { TD_PHASE_TIMED, TD_PHASE_TAPPED, TD_PHASE_WARMUP }; /* timings are evidence in TIMED only */

struct td_token_event { int64_t t_ns; int32_t n_tokens; }; /* an SSE event, or the body */

struct td_alt { int32_t id; float logprob; };               /* id -1: not known, NaN logprob: the server said NaN or null */

/* Servers that give logits in the place of logprobs give numbers above 0; none are above this one. */
#define TD_LOGPROB_MOST 1e6
/* A server's number as a logprob: Infinity above TD_LOGPROB_MOST, which is no evidence, -Infinity below
 * all floats; NaN stays. */
float td_logprob_of(double v);

/* error_kind of an exchange that a passive recording did not see from its first to its last byte, or for which
 * this machine lacked memory, sockets or the like: it says nothing about the server, and is not judged. */
#define TD_ERROR_UNSEEN "unseen"

/* What all rows of the alternatives of an answer say together. */
struct td_top_sum {
    int32_t n_nan, first_nan;     /* logprobs that are NaN, and the token of the first; -1: none */
    int32_t rows, flat, first_flat; /* rows of three and more that are known; of these, with hardly a difference, and the first; -1 */
    bool any;                     /* some token has a second alternative that is known */
};

struct td_usage { int64_t prompt_tokens, completion_tokens; };  /* -1: not reported */

struct td_exchange {
    uint32_t stream;              /* number in wire.zst; unique within the fixture */
    char *prompt_id;              /* the suite's name of the prompt; with `repeat` and `phase` the join key */
    char *category;               /* "short", "long", "creative", "technical", or the suite's own */
    int32_t repeat;               /* 0 .. K-1 */
    int32_t concurrency;          /* requests in flight that the suite asked for */
    enum td_phase phase;
    char *api;                    /* "vllm", "openai", "llamacpp", "sglang" */
    char *method, *path;          /* "POST", "/v1/completions" */
    cJSON *request;               /* the body sent, parsed; NULL when it is no JSON (see wire) */
    int32_t http_status;          /* 0: no answer */
    char *error;                  /* NULL = complete; else what went wrong, one sentence */
    char *error_kind;             /* NULL or "connect", "timeout", "http", "stream", "parse", "cut", "server", "unseen" */
    int32_t *prompt_ids; int32_t n_prompt_ids;   /* NULL, 0: unknown */
    int32_t *token_ids;  int32_t n_tokens;       /* the answer; ids NULL when the server gives none */
    bool ids_complete;            /* ids agree with usage.completion_tokens (llama.cpp's SSE may lose some) */
    float *logprobs;              /* [n_tokens] of the chosen tokens, NULL: none; NaN: NaN or null on the wire */
    struct td_alt *top; int32_t top_k; /* [n_tokens, top_k], row-major, padded with id -1 */
    int32_t *top_at; int32_t n_top_at; /* NULL, or the tokens whose rows top still has, ascending: [n_top_at, top_k] */
    bool top_summed;              /* rows were left out: top_sum is of all */
    struct td_top_sum top_sum;
    char **token_text;            /* [n_tokens] as the server spelt them, or NULL */
    bool token_text_in_one;       /* its strings lie in the memory of token_text, and are freed with it */
    char *text; size_t text_len;  /* the answer's bytes (may hold NUL) */
    char *finish_reason;
    struct td_usage usage;
    int64_t t_sent_ns;            /* last byte of the request written; 0: not sent */
    int64_t t_first_byte_ns;      /* first byte of the response */
    int64_t t_end_ns;             /* last byte read, or the failure */
    struct td_token_event *events; int32_t n_events;
    /* role "scores": the server's logprob of each token of prompt_ids, after all tokens before
     * it */
    float *scores; int32_t n_scores;             /* NULL, or [n_prompt_ids]; -Inf: unknown */
    struct td_alt *scores_top;                   /* [n_scores] likeliest token; id -1: unknown */
    int32_t scored_from;                         /* prompt_ids from here on are a recorded answer; 0: no such request */
    cJSON *extra;                 /* members of the JSON line that no field above holds; NULL: none */
};
bool td_exchange_unseen(const struct td_exchange *x);       /* TD_ERROR_UNSEEN? */
/* Did others send it (a passive recording)? It has a connection then, and no group; its concurrency is how many were in
 * flight when it came. */
bool td_exchange_by_others(const struct td_exchange *x);
void td_exchange_release(struct td_exchange *x);      /* frees what the fields hold */
/* The alternatives of token i: [top_k], borrowed. NULL: there are none, or they were left out. */
const struct td_alt *td_exchange_top_row(const struct td_exchange *x, int32_t i);
/* What the first n rows say together; of an exchange whose rows were left out, what all of them do. */
struct td_top_sum td_exchange_top_sum(const struct td_exchange *x, int32_t n);
/* Leave all rows out, and keep what they say together. */
void td_exchange_drop_top(struct td_exchange *x);
int td_exchange_write(const struct td_exchange *x, struct td_buf *out);                 /* one JSON line without "\n" */
int td_exchange_read(const cJSON *line, struct td_exchange *out, struct td_error *err); /* out is overwritten */

/* ---- step: one forward pass ---------------------------------------------------------------------------------------- */

enum td_how { TD_HOW_EXACT, TD_HOW_INFERRED, TD_HOW_UNKNOWN };

struct td_span {                  /* rows [first_row, first_row + n_rows) of every A of the step */
    int64_t stream;               /* the exchange; -1: not one of ours, or unknown */
    int32_t first_row, n_rows;    /* first_row -1: so many of the step's rows, it is not known which */
    int32_t position;             /* of first_row in its sequence; -1: not known */
    bool decode;
};

struct td_step {
    int64_t step;                 /* the server's own count, or ours */
    int64_t t_ns;
    enum td_how how;
    struct td_span *spans; int32_t n_spans;
    int32_t padding;              /* so many of its last rows are no request's: a CUDA graph has more than the batch */
    int64_t pid;                  /* process (tensor-parallel rank) that ran it */
    cJSON *extra;
};
void td_step_release(struct td_step *s);
int td_step_write(const struct td_step *s, struct td_buf *out);
int td_step_read(const cJSON *line, struct td_step *out, struct td_error *err);

/* ---- op: one kernel call in logical terms -------------------------------------------------------------------------- */

#define TD_REC_MAX_DIMS TD_OP_MAX_DIMS

/* A tensor of an op. Its bytes are a blob of this fixture, or live in a checkpoint, or are only known by hash. */
struct td_tensor_rec {
    char role[TD_OP_MAX_ROLE];    /* "a", "qweight", "qzeros", "scales", "g_idx", "c" ... */
    char dtype[TD_OP_MAX_DTYPE];  /* safetensors' names, or a block format's */
    int32_t ndim;
    int64_t shape[TD_REC_MAX_DIMS];
    int64_t strides[TD_REC_MAX_DIMS]; /* shape and strides in elements (in blocks for block formats) */
    int64_t align;                /* of the address when recorded, at most 4096; 0: unknown */
    struct td_hash blob;          /* content address of the bytes; zero: not known */
    bool stored;                  /* the bytes are in blobs.pack; false: only the hash is (a digest) */
    cJSON *ref;                   /* NULL, or where the bytes are in a checkpoint:
                                     {"checkpoint","tensors":[..],"slice","transforms":[..],"hash"} (docs/format.md) */
};

/* Which kernel this was, for reports: nothing here decides what the op means. */
struct td_impl {
    char *symbol;                 /* "td_gptq_gemm"; a GPU kernel's symbol */
    char *library, *build;        /* path and one sentence about the build, or NULL */
    char *layout;                 /* run-time layout of the weights: "checkpoint", "exllama", "marlin", "unknown" ... */
    int64_t duration_ns;          /* in the recorded process; -1: not measured. Information, not evidence. */
    char *clock;                  /* "monotonic", "cuda-event", "hip-event" */
    cJSON *launches;              /* array, or NULL */
};

struct td_op {
    int64_t op;                   /* number within the fixture, in the order received; extra's
                                     "seq" is the order of execution in its process */
    int64_t step;                 /* -1: unknown */
    int64_t pid;
    int64_t t_ns;
    char *kind;                   /* "gptq_gemm" */
    char *layer;                  /* "model.layers.1.mlp.down_proj", or NULL */
    cJSON *attrs;                 /* object of integers: m n k bits group_size zero_offset act_order ... */
    char *act_rounding;           /* what the kernel rounds before it multiplies: "none", "uint8-token",
                                     "q8_1", "weight-f16" ... */
    struct td_tensor_rec *in; int32_t n_in;
    struct td_tensor_rec out;     /* role "c" */
    bool has_out;
    struct td_impl impl;
    cJSON *origin;                /* replayed ops: {"fixture": id, "op": n}; joined on this alone */
    cJSON *judge;                 /* replayed ops: the replayer's judgement (docs/format.md, "judge") */
    cJSON *extra;
};
void td_op_release(struct td_op *op);
/* The sizes that a tensor of an op may have: all of 0 or more, a number of elements (a size of 0
 * counts as 1) and an offset of the last one that both fit in 62 bits. Who writes an op and who reads
 * one asks this function. */
bool td_tensor_sizes_fit(const int64_t *shape, const int64_t *strides, int32_t ndim);
/* The most bytes that a blob of the tensor may have: those of its elements where they lie densely or
 * as the strides say, of the largest block that an element can be. */
uint64_t td_tensor_rec_max_bytes(const struct td_tensor_rec *t);
int td_op_write(const struct td_op *op, struct td_buf *out); /* TD_ELIMIT: td_op_read() would refuse it */
int td_op_read(const cJSON *line, struct td_op *out, struct td_error *err);
/* The same, and its judgement, most of a replayed op, is moved out of the line, not copied. */
int td_op_take(cJSON *line, struct td_op *out, struct td_error *err);
const struct td_tensor_rec *td_op_rec_in(const struct td_op *op, const char *role); /* NULL: no such role */
/* Does the layer's name, the kind or the symbol contain `pattern`, or match it as a shell pattern
 * ("*.1.mlp.*")? What --only means. */
bool td_op_named(const struct td_op *op, const char *pattern);

#endif

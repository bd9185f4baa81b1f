/* expected_size.c - how large a fixture becomes: from the suite, and from the model's files.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/expected_size.h"

#include <stdbool.h>
#include <string.h>

#include "common/json.h"
#include "model/gguf.h"
#include "model/safetensors.h"
#include "wire/scores.h"

#define DEFAULT_TOKENS 64
#define REQUEST_BYTES 4096       /* headers and body without the prompt, both ways, twice */
#define TOKEN_BYTES 900          /* of an event with one token, and of its exchange */
#define ALTERNATIVE_BYTES 160    /* of one alternative with its logprob, the same */
#define TEMPLATE_TOKENS 32       /* that a chat template adds, with its system prompt */
#define TEMPLATE_MOST 64
#define MOST ((int64_t)1 << 50)

/* ---- requests -------------------------------------------------------------------------------- */

/* How many tokens a text has: at most one for each byte, and about as many as vocabularies of
 * today make of it. English has some four letters a token, but each digit is one, each other sign
 * about half of one, and of other scripts two of three bytes. */
struct length { int64_t most; double about; };

static void add_text(struct length *l, const char *text)
{
    const unsigned char *c;

    for (c = (const unsigned char *)text; *c; c++) {
        const bool letter = (*c | 0x20) >= 'a' && (*c | 0x20) <= 'z';

        l->most++;
        l->about += *c >= 0x80              ? 2.0 / 3
                    : *c >= '0' && *c <= '9' ? 1
                    : letter || *c == ' '    ? 1.0 / 4
                                             : 1.0 / 2;
    }
}

static struct length prompt_length(const struct td_prompt *p)
{
    struct length l = {0, 0};
    const cJSON *m;

    if (p->ids)
        return (struct length){p->n_ids, (double)p->n_ids};
    if (p->text) {
        add_text(&l, p->text);
        return (struct length){l.most + 1, l.about + 1};
    }
    cJSON_ArrayForEach(m, p->messages) {
        add_text(&l, td_json_get_str(m, "content", ""));
        l.most += TEMPLATE_MOST;
        l.about += TEMPLATE_TOKENS;
    }
    return l;
}

int td_expected_requests(const struct td_record_options *o, const struct td_suite *suite,
                         struct td_expected_requests *out, struct td_error *err)
{
    const bool tap = o->mode.steps != TD_TAP_CLIENT_OFF;
    struct td_record_load load = {0};
    const int rc = td_record_load_plan(o, suite->n, &load, err);
    const int64_t prompts = (int64_t)suite->n, times = load.repeats + (tap ? o->tapped_repeat + o->digests : 0),
                  texts = o->scores < prompts ? o->scores : prompts;
    size_t i;

    *out = (struct td_expected_requests){.timed = load.requests, .load = load,
                                         .tapped = tap ? prompts * (o->tapped_repeat + o->digests) : 0,
                                         .scores = texts * TD_SCORES_PASSES};
    for (i = 0; i < suite->n; i++) {
        const struct td_prompt *p = &suite->prompts[i];
        const int64_t asked = o->max_tokens      ? o->max_tokens
                              : p->max_tokens > 0 ? p->max_tokens
                                                  : DEFAULT_TOKENS,
                      c = p->concurrency > 1 ? p->concurrency : 1;
        const struct length prompt = prompt_length(p);

        out->tokens += times * asked;
        out->bytes += times * (REQUEST_BYTES + 4 * prompt.most +
                               asked * (TOKEN_BYTES + o->logprobs * ALTERNATIVE_BYTES));
        out->bytes += (int64_t)i < texts ? TD_SCORES_PASSES * (REQUEST_BYTES + TD_SCORES_MAX_TOKENS *
                                                                               ALTERNATIVE_BYTES)
                                         : 0;
        out->decoded += tap ? o->tapped_repeat * asked : 0;
        out->rows += tap ? o->tapped_repeat * (asked + prompt.most) : 0;
        out->prompt_rows += tap ? (int64_t)((double)o->tapped_repeat * prompt.about) : 0;
        out->first_rows = tap && c * (c + 1) > out->first_rows ? c * (c + 1) : out->first_rows;
    }
    return rc;
}

/* ---- the model ------------------------------------------------------------------------------- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && !strcmp(s + n - m, end);
}

static int64_t at_most(int64_t n)
{
    return n < 0 || n > MOST ? MOST : n;
}

/* Add a matrix of n outputs and k inputs. */
static void add_matrix(struct td_expected_model *m, int64_t n, int64_t k, int64_t element)
{
    m->row = at_most(m->row + at_most((at_most(n) + at_most(k)) * element));
}

/* A packed weight does not say which of its sides is packed, nor how much: eight in a word at most,
 * on either side. Zero points, scales and orders of groups are no products of their own. */
static void add_safetensor(struct td_expected_model *m, const struct td_st_tensor *t, bool tied)
{
    static const char *const parts[] = {".qzeros", ".scales", ".g_idx"};
    size_t i;
    int64_t packed = ends_with(t->name, ".qweight") ? 8 : 1;

    if (strstr(t->name, "embed") && !tied)
        return;
    m->weights = at_most(m->weights + (int64_t)t->size_bytes);
    for (i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (ends_with(t->name, parts[i]))
            return;
    if (t->ndim >= 2)
        add_matrix(m, packed * t->shape[t->ndim - 2], packed * t->shape[t->ndim - 1],
                   t->dtype == TD_DT_F32 ? 4 : 2);
}

static int read_safetensors(const char *path, struct td_expected_model *out, struct td_error *err)
{
    struct td_safetensors *st = NULL;
    int rc = td_safetensors_open(path, &st, err);
    bool tied;
    size_t i;

    if (rc)
        return rc;
    tied = !td_safetensors_find(st, "lm_head.weight");
    for (i = 0; i < td_safetensors_count(st); i++)
        add_safetensor(out, td_safetensors_at(st, i), tied);
    td_safetensors_close(st);
    return TD_OK;
}

/* llama.cpp computes with floats of 4 bytes between its products. */
static int read_gguf(const char *path, struct td_expected_model *out, struct td_error *err)
{
    struct td_gguf *g = NULL;
    int rc = td_gguf_open(path, &g, err);
    bool tied;
    size_t i;

    if (rc)
        return rc;
    tied = !td_gguf_find(g, "output.weight");
    for (i = 0; i < td_gguf_count(g); i++) {
        const struct td_gguf_tensor *t = td_gguf_at(g, i);

        if (strstr(t->name, "token_embd") && !tied)
            continue;
        out->weights = at_most(out->weights + at_most((int64_t)t->bytes));
        if (t->ndim >= 2)
            add_matrix(out, t->ne[1], t->ne[0], 4);
    }
    td_gguf_close(g);
    return TD_OK;
}

int td_expected_model_read(const char *checkpoint, struct td_expected_model *out,
                           struct td_error *err)
{
    *out = (struct td_expected_model){0};
    return ends_with(checkpoint, ".gguf") ? read_gguf(checkpoint, out, err)
                                          : read_safetensors(checkpoint, out, err);
}

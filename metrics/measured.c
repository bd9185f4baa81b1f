/* measured.c - a set of exchanges, measured in given terms.
 * SPDX-License-Identifier: Apache-2.0 */
#include "metrics/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json.h"
#include "common/out_of_memory.h"
#include "metrics/measure.h"

enum { MAX_EXCHANGES = 1 << 24 };

bool td_measured_in_turns(const cJSON *manifest)
{
    return td_json_get_i64(td_json_get(manifest, "replay"), "turns", 0) > 1;
}

bool td_measured_needs_wire(enum td_dialect d)
{
    return d != TD_DIALECT_TAPEDECK;
}

static int no_memory(struct td_error *err)
{
    return td_fail(err, TD_ENOMEM, "out of memory for the times of the exchanges");
}

/* An exchange that failed has only its times. */
static int finish(struct td_measured *x, int rc, struct td_error *err)
{
    int t;

    for (t = 0; x->error && t < TD_N_TERMS; t++)
        x->span[t] = NAN;
    x->n_gaps = x->error ? 0 : x->n_gaps;
    return rc ? no_memory(err) : TD_OK;
}

/* A number that may be summed up. */
static int64_t bounded(int64_t n)
{
    return n < INT64_C(1) << 38 ? n : INT64_C(1) << 38;
}

/* The tokens of an answer: as the server counted them; Tapedeck's own terms: as they came. */
static int64_t tokens_of(enum td_dialect d, const struct td_exchange *x)
{
    return d != TD_DIALECT_TAPEDECK && x->usage.completion_tokens > 0 ? bounded(x->usage.completion_tokens) : x->n_tokens;
}

static bool ends_with(const char *s, const char *end)
{
    const size_t n = s ? strlen(s) : 0, k = strlen(end);

    return n >= k && !strcmp(s + n - k, end);
}

int td_measured_add_exchange(struct td_measured_set *m, const struct td_exchange *x, struct td_error *err)
{
    struct td_measured *to;
    int t, rc;

    if (x->phase != TD_PHASE_TIMED)
        return TD_OK;
    rc = td_array_grow(&m->x, m->n, &m->cap, sizeof *m->x, MAX_EXCHANGES);
    if (rc)
        return td_fail(err, rc, "no room for more than %zu exchanges", m->n);
    to = &m->x[m->n++];
    *to = (struct td_measured){.stream = x->stream, .repeat = x->repeat, .concurrency = x->concurrency,
                               .by_others = td_exchange_by_others(x),
                               .chat = ends_with(x->path, "/chat/completions"),
                               .prompt_tokens = x->usage.prompt_tokens > 0 ? bounded(x->usage.prompt_tokens) : x->n_prompt_ids,
                               .output_tokens = tokens_of(m->dialect, x),
                               .t_sent_ns = x->t_sent_ns, .t_end_ns = x->t_end_ns};
    for (t = 0; t < TD_N_TERMS; t++)
        to->span[t] = NAN;
    to->prompt_id = td_strdup(x->prompt_id ? x->prompt_id : "");
    to->category = td_strdup(x->category ? x->category : "");
    to->error = x->error ? td_strdup(x->error) : NULL;
    if (!to->prompt_id || !to->category || (x->error && !to->error))
        return no_memory(err);
    return td_measured_needs_wire(m->dialect) ? TD_OK : finish(to, td_measure_exchange(x, to), err);
}

static int by_stream(const void *a, const void *b)
{
    const struct td_measured *x = a, *y = b;

    return (x->stream > y->stream) - (x->stream < y->stream);
}

static void sort(struct td_measured_set *m)
{
    if (!m->sorted && m->n)
        qsort(m->x, m->n, sizeof *m->x, by_stream);
    m->sorted = true;
}

static int keep_text(struct td_measured *to, const struct td_buf *text)
{
    to->text = malloc(text->len + 1);
    if (!to->text)
        return TD_ENOMEM;
    memcpy(to->text, td_buf_str(text), text->len);
    to->text_len = text->len;
    return TD_OK;
}

/* Its last record was read. */
static int close_stream(struct td_measured_set *m, struct td_measured *x, struct td_error *err)
{
    const struct td_messages *of = td_messages_get(x->arriving);
    int rc = td_measure_messages(m->dialect, of, x);

    if (!rc && m->keep_texts)
        rc = keep_text(x, &of->text);
    rc = finish(x, rc, err);
    td_messages_free(x->arriving);
    x->arriving = NULL;
    return rc;
}

int td_measured_add_wire(struct td_measured_set *m, const struct td_wire *rec, struct td_error *err)
{
    const struct td_measured key = {.stream = rec->stream};
    struct td_measured *x;
    int rc;

    sort(m);
    x = m->n ? bsearch(&key, m->x, m->n, sizeof key, by_stream) : NULL;
    if (!x || (x->seen_on_wire && !x->arriving))
        return TD_OK;
    x->seen_on_wire = true;
    if (!x->arriving)
        x->arriving = td_messages_new();
    rc = x->arriving ? td_messages_feed(x->arriving, rec) : TD_ENOMEM;
    return rc == 1 ? close_stream(m, x, err) : rc ? no_memory(err) : TD_OK;
}

int td_measured_end(struct td_measured_set *m, struct td_error *err)
{
    size_t i;
    int rc = TD_OK;

    sort(m);
    for (i = 0; !rc && i < m->n; i++)
        if (m->x[i].arriving)
            rc = close_stream(m, &m->x[i], err);
    return rc;
}

size_t td_measured_unseen(const struct td_measured_set *m)
{
    size_t i, n = 0;

    for (i = 0; td_measured_needs_wire(m->dialect) && i < m->n; i++)
        n += !m->x[i].error && !m->x[i].seen_on_wire;
    return n;
}

void td_measured_release(struct td_measured_set *m)
{
    size_t i;

    for (i = 0; i < m->n; i++) {
        free(m->x[i].prompt_id);
        free(m->x[i].category);
        free(m->x[i].error);
        free(m->x[i].gap);
        free(m->x[i].text);
        td_messages_free(m->x[i].arriving);
    }
    free(m->x);
    *m = (struct td_measured_set){.dialect = m->dialect, .keep_texts = m->keep_texts};
}

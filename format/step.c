/* step.c - write and read a step as one JSON line.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "format/records.h"
#include "format/records_json.h"

static const char *const HOW[] = {"exact", "inferred", "unknown"};
static const char *const KNOWN[] = {"step", "t_ns", "how", "pid", "spans", "padding", NULL};

void td_step_release(struct td_step *s)
{
    free(s->spans);
    cJSON_Delete(s->extra);
    memset(s, 0, sizeof *s);
}

int td_step_write(const struct td_step *s, struct td_buf *out)
{
    struct td_jw w;
    int32_t i;

    td_jw_init(&w, out, false);
    td_jw_obj(&w, NULL);
    td_jw_i64(&w, "step", s->step);
    td_jw_i64(&w, "t_ns", s->t_ns);
    td_jw_cstr(&w, "how", HOW[(unsigned)s->how < 3 ? s->how : TD_HOW_UNKNOWN]);
    td_jw_i64(&w, "pid", s->pid);
    td_jw_arr(&w, "spans");
    for (i = 0; i < s->n_spans; i++) {
        const struct td_span *p = &s->spans[i];

        td_jw_obj(&w, NULL);
        td_jw_i64(&w, "stream", p->stream);
        td_jw_i64(&w, "row", p->first_row);
        td_jw_i64(&w, "rows", p->n_rows);
        td_jw_i64(&w, "position", p->position);
        td_jw_bool(&w, "decode", p->decode);
        td_jw_end(&w);
    }
    td_jw_end(&w);
    if (s->padding)
        td_jw_i64(&w, "padding", s->padding);
    td_rec_put_extra(&w, s->extra, NULL);
    td_jw_end(&w);
    return out->failed ? TD_ELIMIT : TD_OK;
}

int td_step_read(const cJSON *o, struct td_step *s, struct td_error *err)
{
    int64_t n = td_rec_count(o, "spans", TD_REC_MAX_TOKENS, err), padding;
    const cJSON *m;

    memset(s, 0, sizeof *s);
    if (!cJSON_IsObject(o) || !td_json_get(o, "step"))
        return td_fail(err, TD_ECORRUPT, "step: no object with a \"step\"");
    if (n < 0)
        return (int)n;
    s->step = td_json_get_i64(o, "step", -1);
    s->t_ns = td_json_get_i64(o, "t_ns", 0);
    s->how = (enum td_how)td_rec_name(HOW, 3, td_json_get_str(o, "how", NULL), TD_HOW_UNKNOWN);
    s->pid = td_json_get_i64(o, "pid", 0);
    padding = td_json_get_i64(o, "padding", 0);
    s->padding = padding < 0 ? 0 : padding < INT32_MAX ? (int32_t)padding : INT32_MAX;
    s->spans = calloc((size_t)n + 1, sizeof *s->spans);
    if (!s->spans)
        return td_fail(err, TD_ENOMEM, "step: no memory for %lld spans", (long long)n);
    cJSON_ArrayForEach(m, td_json_get(o, "spans")) {
        struct td_span *p = &s->spans[s->n_spans++];

        p->stream = td_json_get_i64(m, "stream", -1);
        p->first_row = (int32_t)td_json_get_i64(m, "row", 0);
        p->n_rows = (int32_t)td_json_get_i64(m, "rows", 0);
        p->position = (int32_t)td_json_get_i64(m, "position", -1);
        p->decode = td_json_get_bool(m, "decode", false);
        if (p->first_row < -1 || p->n_rows < 0) {
            td_step_release(s);
            return td_fail(err, TD_ECORRUPT, "step: a span has negative rows");
        }
    }
    s->extra = td_rec_extra(o, KNOWN);
    return TD_OK;
}

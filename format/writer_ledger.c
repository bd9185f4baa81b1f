/* writer_ledger.c - counts and facts of a recording, and the lines of the ledger that they become.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/writer_ledger.h"

#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "common/out_of_memory.h"
#include "format/manifest.h"
#include "format/writer_queue.h"

/* ---- counts --------------------------------------------------------------------------------------------------------- */

/* a + b; at the end of the range, the end. */
static int64_t add_saturating(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

void td_writer_count(struct td_writer *w, const char *name, int64_t n, int64_t bytes)
{
    int i;

    pthread_mutex_lock(&w->stat_lock);
    for (i = 0; i < w->n_counters; i++)
        if (!strcmp(w->counter[i].name, name))
            break;
    if (i == w->n_counters && i < TD_WRITER_COUNTERS) {
        w->counter[i].name = td_strdup(name);
        if (w->counter[i].name)
            w->n_counters++;
    }
    if (i < w->n_counters) {
        struct td_writer_counter *c = &w->counter[i];

        c->n = add_saturating(c->n, n);
        c->bytes = add_saturating(c->bytes, bytes);
        if ((c->n == INT64_MAX || c->bytes == INT64_MAX) && !c->full)
            td_log(TD_LOG_WARN, "format", "ledger: \"%s\" is beyond what can be counted, and stays at its end", name);
        c->full = c->n == INT64_MAX || c->bytes == INT64_MAX;
        w->counter[i].dirty = true;
    } else {
        td_log(TD_LOG_WARN, "format", "ledger: no room for \"%s\"", name);
    }
    pthread_mutex_unlock(&w->stat_lock);
}

void td_writer_count_set_bytes(struct td_writer *w, const char *name, int64_t bytes)
{
    int i;

    if (bytes)
        td_writer_count(w, name, 0, 0);
    pthread_mutex_lock(&w->stat_lock);
    for (i = 0; i < w->n_counters; i++)
        if (!strcmp(w->counter[i].name, name) && w->counter[i].bytes != bytes) {
            w->counter[i].bytes = bytes;
            w->counter[i].dirty = true;
        }
    pthread_mutex_unlock(&w->stat_lock);
}

/* ---- facts ---------------------------------------------------------------------------------------------------------- */

/* After what was added to b from `start` on: end it as a line, or take it back, for half a line would
 * spoil the next one. */
static int end_line(struct td_buf *b, size_t start)
{
    td_buf_addc(b, '\n');
    if (!b->failed)
        return TD_OK;
    b->len = start;
    b->failed = false;
    if (b->data)
        b->data[start] = '\0';
    return td_out_of_memory_count() ? TD_ENOMEM : TD_ELIMIT;
}

static int add_fact_line(struct td_buf *b, const char *section, const char *key, const cJSON *value)
{
    const size_t start = b->len;
    struct td_jw j;

    td_jw_init(&j, b, false);
    td_jw_obj(&j, NULL);
    td_jw_cstr(&j, "section", section);
    td_jw_cstr(&j, "key", key);
    td_jw_value(&j, "value", value);
    td_jw_end(&j);
    return end_line(b, start);
}

/* A recording without a fact is not complete. */
static int fact_failed(struct td_writer *w, const char *section, const char *key, int rc)
{
    struct td_error why = {0};

    td_fail(&why, rc, "%s: no room for the fact %s.%s: %s", w->dir, section, key, td_code_name(rc));
    td_writer_note_failure(w, &why);
    return rc;
}

int td_writer_fact(struct td_writer *w, const char *section, const char *key, const cJSON *value)
{
    cJSON *copy, *s;
    int rc;

    if (td_manifest_reserved(section) || !value)
        return TD_EINVAL;
    copy = cJSON_Duplicate(value, true);
    if (!copy)
        return TD_ENOMEM;
    copy = td_redactor_fact(w->redactor, section, key, copy);
    if (!copy)
        return TD_ENOMEM;
    pthread_mutex_lock(&w->stat_lock);
    rc = add_fact_line(&w->fact_lines, section, key, copy);
    if (rc) {
        pthread_mutex_unlock(&w->stat_lock);
        cJSON_Delete(copy);
        return fact_failed(w, section, key, rc);
    }
    s = cJSON_GetObjectItemCaseSensitive(w->facts, section);
    if (!s)
        s = cJSON_AddObjectToObject(w->facts, section);
    cJSON_DeleteItemFromObjectCaseSensitive(s, key);
    cJSON_AddItemToObject(s, key, copy);
    pthread_mutex_unlock(&w->stat_lock);
    return td_writer_failure(w);
}

int td_writer_fact_str(struct td_writer *w, const char *section, const char *key, const char *value)
{
    cJSON *v = value ? cJSON_CreateString(value) : cJSON_CreateNull();
    int rc = v ? td_writer_fact(w, section, key, v) : TD_ENOMEM;

    cJSON_Delete(v);
    return rc;
}

int td_writer_fact_num(struct td_writer *w, const char *section, const char *key, double value)
{
    cJSON *v = cJSON_CreateNumber(value);
    int rc = v ? td_writer_fact(w, section, key, v) : TD_ENOMEM;

    cJSON_Delete(v);
    return rc;
}

/* ---- lines ---------------------------------------------------------------------------------------------------------- */

int td_writer_ledger_begin(struct td_writer *w, const cJSON *manifest)
{
    struct td_jw j;

    td_jw_init(&j, &w->fact_lines, false);
    td_jw_obj(&j, NULL);
    td_jw_value(&j, "begin", manifest);
    td_jw_end(&j);
    return end_line(&w->fact_lines, 0);
}

static void put_counter(struct td_buf *b, const struct td_writer_counter *c)
{
    struct td_jw j;

    td_jw_init(&j, b, false);
    td_jw_obj(&j, NULL);
    td_jw_i64(&j, "t_ns", td_clock_mono_ns());
    td_jw_cstr(&j, "count", c->name);
    td_jw_i64(&j, "n", c->n);
    td_jw_i64(&j, "bytes", c->bytes);
    td_jw_end(&j);
    td_buf_addc(b, '\n');
}

bool td_writer_ledger_has_facts(struct td_writer *w)
{
    bool has;

    pthread_mutex_lock(&w->stat_lock);
    has = w->fact_lines.len > 0;
    pthread_mutex_unlock(&w->stat_lock);
    return has;
}

int td_writer_ledger_lines(struct td_writer *w, struct td_buf *lines)
{
    int i;

    pthread_mutex_lock(&w->stat_lock);
    td_buf_add(lines, td_buf_str(&w->fact_lines), w->fact_lines.len);
    td_buf_clear(&w->fact_lines);
    for (i = 0; i < w->n_counters; i++)
        if (w->counter[i].dirty) {
            put_counter(lines, &w->counter[i]);
            w->counter[i].dirty = false;
        }
    pthread_mutex_unlock(&w->stat_lock);
    return !lines->failed ? TD_OK : td_out_of_memory_count() ? TD_ENOMEM : TD_ELIMIT;
}

void td_writer_ledger_sums(struct td_writer *w, cJSON *ledger)
{
    cJSON *c;
    int i;

    for (i = 0; i < w->n_counters; i++) {
        c = cJSON_AddObjectToObject(ledger, w->counter[i].name);
        td_manifest_put_i64(c, "n", w->counter[i].n);
        td_manifest_put_i64(c, "bytes", w->counter[i].bytes);
    }
}

/* repair_steps.c - lines for the steps that ops name and that the recorder did not live to write.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/temp_file.h"
#include "format/fixture.h"
#include "format/frames.h"
#include "format/repair_state.h"

#define MOST_STEPS ((size_t)1 << 24)
#define FRAME_LINES 4096

struct known { int64_t pid, step, t_ns; };
struct list { struct known *k; size_t n, cap; };

static int by_step(const void *a, const void *b)
{
    const struct known *x = a, *y = b;

    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

/* By step, and the earliest time of a step first. */
static int by_step_and_time(const void *a, const void *b)
{
    const struct known *x = a, *y = b;
    int c = by_step(a, b);

    return c ? c : (x->t_ns > y->t_ns) - (x->t_ns < y->t_ns);
}

static int add_known(struct list *l, const struct known *k, struct td_error *err)
{
    int rc;

    if (l->n && !by_step(&l->k[l->n - 1], k)) {
        if (k->t_ns < l->k[l->n - 1].t_ns)
            l->k[l->n - 1].t_ns = k->t_ns;
        return TD_OK;
    }
    rc = td_array_grow(&l->k, l->n, &l->cap, sizeof *l->k, MOST_STEPS);
    if (rc)
        return td_fail(err, rc, "too many steps for memory");
    l->k[l->n++] = *k;
    return TD_OK;
}

static void sort_known(struct list *l)
{
    size_t i, n = 0;

    if (l->n)
        qsort(l->k, l->n, sizeof *l->k, by_step_and_time);
    for (i = 0; i < l->n; i++)
        if (!n || by_step(&l->k[n - 1], &l->k[i]))
            l->k[n++] = l->k[i];
    l->n = n;
}

/* List the steps that the records of a stream name: its own of steps, those of ops. */
static int list_steps(const struct repair *r, enum td_stream_kind kind, struct list *l,
                      struct td_error *err)
{
    struct td_cursor *c;
    struct td_step s = {0};
    struct td_op op = {0};
    int rc = td_cursor_open_dir(r->dir, kind, &c, err);

    if (rc)
        return rc;
    for (;;) {
        struct td_error why = {0};
        struct known k;

        rc = kind == TD_STREAM_STEPS ? td_cursor_step(c, &s, &why) : td_cursor_op(c, &op, &why);
        if (rc == TD_ECORRUPT || rc == TD_ETRUNCATED || rc == TD_ELIMIT)
            continue;
        if (rc < 0)
            td_fail(err, rc, "%s", why.msg);
        if (rc != 1)
            break;
        k = kind == TD_STREAM_STEPS ? (struct known){s.pid, s.step, s.t_ns}
                                    : (struct known){op.pid, op.step, op.t_ns};
        if (k.step >= 0 && (rc = add_known(l, &k, err)))
            break;
    }
    td_cursor_close(c);
    td_step_release(&s);
    td_op_release(&op);
    sort_known(l);
    return rc;
}

/* Keep those of `named` that are not in `there`. */
static void subtract(struct list *named, const struct list *there)
{
    size_t i, n = 0;

    for (i = 0; i < named->n; i++)
        if (!there->n || !bsearch(&named->k[i], there->k, there->n, sizeof *there->k, by_step))
            named->k[n++] = named->k[i];
    named->n = n;
}

static int copy_frames(const char *path, struct td_sink *to, struct td_error *err)
{
    struct td_frames f;
    int rc = td_frames_open(&f, path, TD_FILE_STEPS + 1, err);

    while (!rc && (rc = td_frames_next(&f, err)) == 1)
        rc = td_frame_copy(to, &f.head, f.comp.data, err);
    td_frames_close(&f);
    return rc;
}

/* Write lines for missing[n] as frames behind those that are there. */
static int write_lines(struct repair *r, const struct list *missing, struct td_sink *to,
                       struct td_error *err)
{
    struct td_file_fact *fact = &r->fact[TD_FILE_STEPS];
    struct td_buf raw = TD_BUF_INIT(TD_FRAME_MAX_RAW), scratch = TD_BUF_INIT(SIZE_MAX / 2);
    ZSTD_CCtx *z = ZSTD_createCCtx();
    size_t i = 0, end;
    int rc = z ? TD_OK : td_fail(err, TD_ENOMEM, "%s: out of memory", to->path);

    while (!rc && i < missing->n) {
        struct td_frame_head h = {.kind = TD_FILE_STEPS + 1, .number = fact->frames};

        end = missing->n - i > FRAME_LINES ? i + FRAME_LINES : missing->n;
        h.records = (uint32_t)(end - i);
        td_buf_clear(&raw);
        for (; i < end; i++) {
            const struct td_step s = {.step = missing->k[i].step,
                                      .t_ns = missing->k[i].t_ns,
                                      .how = TD_HOW_UNKNOWN,
                                      .pid = missing->k[i].pid};

            td_step_write(&s, &raw);
            td_buf_addc(&raw, '\n');
        }
        rc = raw.failed ? td_fail(err, TD_ENOMEM, "%s: out of memory", to->path)
                        : td_frame_write(to, z, 3, &h, raw.data, raw.len, &scratch, err);
        fact->frames += !rc;
        fact->records += rc ? 0 : h.records;
    }
    ZSTD_freeCCtx(z);
    td_buf_release(&raw);
    td_buf_release(&scratch);
    return rc;
}

static int append_lines(struct repair *r, const struct list *missing, struct td_error *err)
{
    char path[TD_PATH_MAX], tmp[TD_PATH_MAX];
    struct td_sink to;
    int rc = repair_path(r, TD_FILE_STEPS, path, err);

    if (!rc)
        rc = td_temp_name(path, tmp, err);
    if (!rc)
        rc = td_sink_open(&to, r->dir, strrchr(tmp, '/') + 1, err);
    if (rc)
        return rc;
    rc = copy_frames(path, &to, err);
    if (!rc)
        rc = write_lines(r, missing, &to, err);
    if (!rc)
        rc = td_sink_sync(&to, err);
    td_sink_close(&to);
    if (!rc)
        return td_temp_rename(tmp, path, err);
    unlink(tmp);
    return rc;
}

int repair_add_steps(struct repair *r, struct td_error *err)
{
    struct list there = {0}, named = {0};
    int rc = r->fact[TD_FILE_OPS].records ? list_steps(r, TD_STREAM_OPS, &named, err) : TD_OK;

    if (!rc && named.n)
        rc = list_steps(r, TD_STREAM_STEPS, &there, err);
    if (!rc)
        subtract(&named, &there);
    if (!rc && named.n) {
        repair_report(r, "%s/%s: %zu steps that ops name were not written yet; their rows are unknown",
                      r->dir, td_file_names[TD_FILE_STEPS], named.n);
        r->touched[TD_FILE_STEPS] = true;
        rc = append_lines(r, &named, err);
    }
    free(there.k);
    free(named.k);
    return rc;
}

/* op_window.c - read the records of chosen ops, in an order that is not that of the file.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_window.h"

#include <stdlib.h>
#include <string.h>

struct td_op_window {
    struct td_fixture *fx;
    const struct td_op_list *list;
    int32_t *which; size_t n;
    size_t next;             /* the op that is given next */
    size_t first, end;       /* of the ops that are in memory */
    struct td_op *rec;       /* [TD_OP_WINDOW] */
    int32_t *slot;           /* [list->n] where in rec an op goes; -1: nowhere */
};

int td_op_window_open(struct td_fixture *fx, const struct td_op_list *list, int32_t *which, size_t n,
                      struct td_op_window **out, struct td_error *err)
{
    struct td_op_window *w = calloc(1, sizeof *w);

    *out = NULL;
    if (!w) {
        free(which);
        return td_fail(err, TD_ENOMEM, "out of memory for %zu ops", n);
    }
    *w = (struct td_op_window){.fx = fx, .list = list, .which = which, .n = n};
    w->rec = calloc(n < TD_OP_WINDOW ? n + 1 : TD_OP_WINDOW, sizeof *w->rec);
    w->slot = malloc((list->n + 1) * sizeof *w->slot);
    if (!w->rec || !w->slot) {
        td_op_window_close(w);
        return td_fail(err, TD_ENOMEM, "out of memory for %zu ops; --max-ops N replays fewer", n);
    }
    *out = w;
    return TD_OK;
}

static bool can_read_on(int rc)
{
    return rc == TD_ECORRUPT || rc == TD_ETRUNCATED || rc == TD_ELIMIT;
}

/* Pass over lines up to the one that is wanted, which is then next. False: a line there, or a frame, cannot be
 * read any more, or they end. */
static bool go_to_line(struct td_cursor *c, int64_t line, struct td_error *bad)
{
    int rc = 1;

    while (td_cursor_lines(c) < line && rc) {
        rc = td_cursor_skip(c, bad);
        if (rc < 0 && !can_read_on(rc))
            return false;
        if (rc < 0)
            td_error_clear(bad); /* a bad frame, as when the list was made */
    }
    return td_cursor_lines(c) == line;
}

/* Read the records of the ops from w->first to w->end. Each must be that of the op which the list has at its line. */
static int read_records(struct td_op_window *w, struct td_error *err)
{
    size_t i, left = w->end - w->first;
    struct td_cursor *c = NULL;
    struct td_error bad = {0};
    int rc = td_cursor_open(w->fx, TD_STREAM_OPS, &c, err);

    if (rc)
        return rc;
    for (i = 0; left && i < w->list->n; i++) {
        if (w->slot[i] < 0)
            continue;
        if (!go_to_line(c, w->list->items[i].line, &bad))
            break;
        while ((rc = td_cursor_op(c, &w->rec[w->slot[i]], &bad)) < 0 && can_read_on(rc) &&
               td_cursor_lines(c) == w->list->items[i].line)
            td_error_clear(&bad); /* a bad frame before it */
        if (rc != 1 || w->rec[w->slot[i]].op != w->list->items[i].op)
            break;
        left--;
    }
    td_cursor_close(c);
    if (!left)
        return TD_OK;
    return bad.code ? td_fail(err, bad.code, "%s", bad.msg)
                    : td_fail(err, TD_ECORRUPT, "%s: its ops changed while they were read", td_fixture_dir(w->fx));
}

static int fill(struct td_op_window *w, struct td_error *err)
{
    size_t i;

    w->first = w->next;
    w->end = w->n - w->first < TD_OP_WINDOW ? w->n : w->first + TD_OP_WINDOW;
    memset(w->slot, -1, w->list->n * sizeof *w->slot);
    for (i = w->first; i < w->end; i++)
        w->slot[w->which[i]] = (int32_t)(i - w->first);
    return read_records(w, err);
}

const struct td_op_choice *td_op_window_peek(const struct td_op_window *w)
{
    return w->next < w->n ? &w->list->items[w->which[w->next]] : NULL;
}

const struct td_op *td_op_window_ahead(const struct td_op_window *w, size_t i)
{
    return i < w->end - w->next ? &w->rec[w->next - w->first + i] : NULL;
}

int td_op_window_next(struct td_op_window *w, struct td_op *op, struct td_error *err)
{
    int rc = w->next < w->n && w->next == w->end ? fill(w, err) : TD_OK;

    if (rc)
        return rc;
    if (w->next == w->n)
        return 0;
    *op = w->rec[w->next - w->first];
    memset(&w->rec[w->next - w->first], 0, sizeof *op);
    w->next++;
    return 1;
}

void td_op_window_close(struct td_op_window *w)
{
    size_t i;

    if (!w)
        return;
    for (i = 0; w->rec && i < w->end - w->first; i++)
        td_op_release(&w->rec[i]);
    free(w->rec);
    free(w->slot);
    free(w->which);
    free(w);
}

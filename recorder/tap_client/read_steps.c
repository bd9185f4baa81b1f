/* read_steps.c - steps as the tap sends them. Those whose rows nobody named are held until the requests are known, and named by rows.c then.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is held is lost when record is killed: its ops are in the fixture, without a line for their step. */
#include <stdlib.h>
#include <string.h>

#include "recorder/tap_client/client_state.h"

#define MOST_HELD ((size_t)1 << 18)
#define FIRST_HELD 1024
#define LOOK_BACK 64                  /* an op belongs to one of the last steps, of any process */

static void write_step(struct td_tap_client *l, const struct td_step *s)
{
    int rc = td_writer_step(l->opt.writer, s);

    client_keep_failure(l, rc, "steps");
    client_took(l, "steps.seen", rc ? "steps.dropped.recorder" : "steps.kept", 0);
    l->state.steps_kept += !rc;
}

/* ---- holding --------------------------------------------------------------------------------------------------------- */

/* False: there is no room, and s is the caller's. */
static bool hold(struct td_tap_client *l, struct td_step *s)
{
    if (l->n_held == l->cap_held) {
        const size_t cap = l->cap_held ? l->cap_held * 2 : FIRST_HELD;
        struct td_rows_step *more = cap <= MOST_HELD ? realloc(l->held, cap * sizeof *more) : NULL;

        if (!more)
            return false;
        l->held = more;
        l->cap_held = cap;
    }
    l->held[l->n_held++] = (struct td_rows_step){.step = *s, .rows = -1};
    return true;
}

static int64_t rows_of(const struct client_op *op)
{
    for (int a = 0; op->rec->n_w && a < op->rec->n_attrs; a++)
        if (!strcmp(op->attr[a].name, "m"))
            return (int64_t)op->attr[a].value;
    return -1;
}

void client_step_rows(struct td_tap_client *l, const struct client_tap *lk, const struct client_op *op)
{
    size_t i = l->n_held, k;

    for (k = 0; op->rec->has_step && k < LOOK_BACK && i; k++) {
        struct td_rows_step *p = &l->held[--i];
        const int64_t rows = rows_of(op);

        if (p->step.pid != lk->pid || (uint64_t)p->step.step != op->rec->step)
            continue;
        if (!p->begun_ns || op->rec->rec.t_ns < p->begun_ns)
            p->begun_ns = op->rec->rec.t_ns;
        p->rows = rows > p->rows ? rows : p->rows; /* the last layer of llama.cpp has fewer */
        p->padded |= op->rec->n_launches && (op->launch[0].flags & TAP_LAUNCH_IN_GRAPH);
        return;
    }
}

void client_write_held(struct td_tap_client *l)
{
    for (size_t i = 0; i < l->n_held; i++) {
        write_step(l, &l->held[i].step);
        td_step_release(&l->held[i].step);
    }
    free(l->held);
    l->held = NULL;
    l->n_held = l->cap_held = 0;
}

static int by_process(const void *a, const void *b)
{
    const struct td_rows_step *x = a, *y = b;

    return (x->step.pid > y->step.pid) - (x->step.pid < y->step.pid);
}

/* Each process has passes of its own, of the same requests. */
void client_name_held(struct td_tap_client *l, struct td_rows_request *requests, size_t n)
{
    size_t i = 0, end;

    if (l->n_held)
        qsort(l->held, l->n_held, sizeof *l->held, by_process);
    for (; i < l->n_held; i = end) {
        for (end = i; end < l->n_held && l->held[end].step.pid == l->held[i].step.pid;)
            end++;
        if (td_rows_infer(l->held + i, end - i, requests, n) < 0)
            client_keep_failure(l, TD_ENOMEM, "rows of steps");
    }
}

/* ---- a step comes --------------------------------------------------------------------------------------------------------- */

bool client_take_step(struct td_tap_client *l, struct client_tap *lk, const struct tap_step *rec, const uint8_t *data)
{
    size_t room = rec->rec.size - sizeof *rec;
    const struct tap_span *spans = (const struct tap_span *)data;
    struct td_step s = {.step = (int64_t)rec->step, .t_ns = rec->rec.t_ns, .how = rec->n_spans ? TD_HOW_EXACT : TD_HOW_UNKNOWN, .n_spans = rec->n_spans, .pid = lk->pid};
    const char *id;
    int32_t i;

    if (rec->n_spans < 0 || rec->n_spans > TAP_MAX_SPANS || (size_t)rec->n_spans * sizeof *spans > room)
        return false;
    room -= (size_t)rec->n_spans * sizeof *spans;
    id = (const char *)(spans + rec->n_spans);
    s.spans = calloc((size_t)rec->n_spans + 1, sizeof *s.spans);
    if (!s.spans) {
        client_keep_failure(l, TD_ENOMEM, "steps");
        return true;
    }
    for (i = 0; i < rec->n_spans; i++) {
        struct tap_span from = spans[i];
        char name[TAP_MAX_ID + 1];

        if (from.id_len > TAP_MAX_ID || from.id_len > room) {
            free(s.spans);
            return false;
        }
        memcpy(name, id, from.id_len);
        name[from.id_len] = '\0';
        id += from.id_len;
        room -= from.id_len;
        s.spans[i] = (struct td_span){l->nonce[0] ? td_tap_client_request_stream(l->nonce, name) : -1, from.first_row, from.n_rows, from.position, from.decode != 0};
    }
    if (!rec->n_spans && hold(l, &s))
        return true;
    write_step(l, &s);
    td_step_release(&s);
    return true;
}

/* read_steps.c - steps as the tap sends them, into the fixture.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Steps that are held are lost when record is killed: their ops are in the fixture then, without a
 * line for their step. */
#include "recorder/tap_client/read_steps.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "recorder/tap_client/client_ledger.h"

#define MOST_HELD ((size_t)1 << 18)   /* steps beyond that are written without names */
#define FIRST_HELD 1024
#define LOOK_BACK 64                  /* an op belongs to one of the last steps, of any process */

static void write_step(struct td_tap_client *c, const struct td_step *s)
{
    int rc = td_writer_step(c->opt.writer, s);

    client_ledger_failure(c, rc, "steps");
    client_ledger_count(c, "steps.seen", rc ? "steps.dropped.recorder" : "steps.kept", 0);
    c->state.steps_kept += !rc;
}

/* ---- holding --------------------------------------------------------------------------------- */

/* Hold a step; the list takes its spans. False: there is no room, and s stays the caller's. */
static bool hold_step(struct td_tap_client *c, struct td_step *s)
{
    if (c->n_held == c->cap_held) {
        const size_t cap = c->cap_held ? c->cap_held * 2 : FIRST_HELD;
        const bool room = cap <= MOST_HELD && !td_memory_room(cap * sizeof *c->held, "steps", NULL);
        struct td_rows_step *more = room ? realloc(c->held, cap * sizeof *more) : NULL;

        if (!more)
            return false;
        c->held = more;
        c->cap_held = cap;
    }
    c->held[c->n_held++] = (struct td_rows_step){.step = *s, .rows = -1};
    return true;
}

/* The rows of an op with weights; -1: it has no weights, or does not tell. */
static int64_t rows_of(const struct client_op *op)
{
    return op->rec->n_w ? client_op_attr(op, "m", -1) : -1;
}

void client_note_rows(struct td_tap_client *c, const struct client_tap *tap,
                      const struct client_op *op)
{
    size_t i = c->n_held, k;

    for (k = 0; op->rec->has_step && k < LOOK_BACK && i; k++) {
        struct td_rows_step *p = &c->held[--i];
        const int64_t rows = rows_of(op), t_ns = op->rec->rec.t_ns + c->opt.clock_shift_ns;

        if (p->step.pid != tap->pid || (uint64_t)p->step.step != op->rec->step)
            continue;
        if (!p->begun_ns || t_ns < p->begun_ns)
            p->begun_ns = t_ns;
        p->rows = rows > p->rows ? rows : p->rows; /* the last layer of llama.cpp has fewer */
        p->padded |= op->rec->n_launches && (op->launch[0].flags & TD_LAUNCH_IN_GRAPH);
        return;
    }
}

/* Spans of a held step name rows by numbers of server_ids.h: whose are they, as far as is known by now? */
static void find_streams(const struct td_tap_client *c, struct td_step *s)
{
    for (int32_t i = 0; c->opt.server_ids && s->how == TD_HOW_EXACT && i < s->n_spans; i++)
        s->spans[i].stream = client_server_ids_stream(&c->ids, s->spans[i].stream, s->t_ns);
}

void client_write_held(struct td_tap_client *c)
{
    for (size_t i = 0; i < c->n_held; i++) {
        find_streams(c, &c->held[i].step);
        write_step(c, &c->held[i].step);
        td_step_release(&c->held[i].step);
    }
    free(c->held);
    c->held = NULL;
    c->n_held = c->cap_held = 0;
}

/* Steps whose rows the server named come last: nothing is inferred of them. */
static int by_process(const void *a, const void *b)
{
    const struct td_rows_step *x = a, *y = b;

    if ((x->step.how == TD_HOW_EXACT) != (y->step.how == TD_HOW_EXACT))
        return x->step.how == TD_HOW_EXACT ? 1 : -1;
    return (x->step.pid > y->step.pid) - (x->step.pid < y->step.pid);
}

/* Each process has steps of its own, for the same requests. */
void client_name_held(struct td_tap_client *c, struct td_rows_request *requests, size_t n)
{
    size_t i = 0, end, unnamed = 0;

    if (c->n_held)
        qsort(c->held, c->n_held, sizeof *c->held, by_process);
    while (unnamed < c->n_held && c->held[unnamed].step.how != TD_HOW_EXACT)
        unnamed++;
    for (; i < unnamed; i = end) {
        for (end = i; end < unnamed && c->held[end].step.pid == c->held[i].step.pid;)
            end++;
        if (td_rows_infer(c->held + i, end - i, requests, n, !c->opt.server_ids) < 0)
            client_ledger_failure(c, TD_ENOMEM, "rows of steps");
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Fill to[n] from the spans of a record and the ids behind them, `room` bytes in all. False: they
 * do not hold together. */
static bool read_spans(struct td_tap_client *c, const uint8_t *data, size_t room, int32_t n,
                       struct td_span *to)
{
    const struct tap_span *spans = (const struct tap_span *)data;
    const char *id = (const char *)(spans + n);
    int32_t i;

    room -= (size_t)n * sizeof *spans;
    for (i = 0; i < n; i++) {
        struct tap_span from = spans[i]; /* a copy: the tap's process may go on writing */
        char name[TAP_MAX_ID + 1];

        __asm__ volatile("" : "+m"(from) : : "memory"); /* no field is read from the ring again */
        if (from.id_len > TAP_MAX_ID || from.id_len > room || from.first_row < -1 || from.n_rows < 0)
            return false;
        memcpy(name, id, from.id_len);
        name[from.id_len] = '\0';
        id += from.id_len;
        room -= from.id_len;
        to[i] = (struct td_span){
            .stream = c->opt.server_ids ? client_server_ids_note(&c->ids, name)
                      : c->nonce[0]     ? td_tap_client_request_stream(c->nonce, name)
                                        : -1,
            .first_row = from.first_row,
            .n_rows = from.n_rows,
            .position = from.position,
            .decode = from.decode != 0};
    }
    return true;
}

bool client_read_step(struct td_tap_client *c, struct client_tap *tap, const struct tap_step *rec,
                      const uint8_t *data)
{
    size_t room = rec->rec.size - sizeof *rec;
    struct td_step s = {.step = (int64_t)rec->step,
                        .t_ns = rec->rec.t_ns + c->opt.clock_shift_ns,
                        .how = rec->n_spans ? TD_HOW_EXACT : TD_HOW_UNKNOWN,
                        .n_spans = rec->n_spans,
                        .pid = tap->pid};

    if (rec->n_spans < 0 || rec->n_spans > TAP_MAX_SPANS ||
        (size_t)rec->n_spans * sizeof(struct tap_span) > room)
        return false;
    if (c->outputs.rehearses)
        return true;
    s.spans = calloc((size_t)rec->n_spans + 1, sizeof *s.spans);
    if (!s.spans) {
        client_ledger_failure(c, TD_ENOMEM, "steps");
        return true;
    }
    if (!read_spans(c, data, room, rec->n_spans, s.spans)) {
        free(s.spans);
        return false;
    }
    if (c->opt.server_ids && c->n_held == MOST_HELD)
        client_write_held(c); /* those that are over for long are known */
    if ((!rec->n_spans || c->opt.server_ids) && hold_step(c, &s))
        return true;
    find_streams(c, &s);
    write_step(c, &s);
    td_step_release(&s);
    return true;
}

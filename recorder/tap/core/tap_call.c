/* tap_call.c - record one call of a kernel: decide, copy it into this thread's ring, count it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The record becomes visible to the recorder at the end of the call, in one piece. */
#include "recorder/tap/core/tap_call.h"

#include <errno.h>
#include <string.h>

#include "recorder/tap/core/tap_budget.h"
#include "recorder/tap/core/tap_plan.h"
#include "recorder/tap/core/tap_time.h"
#include "recorder/tap/core/tap_weights.h"

static _Atomic uint64_t recorded_ops; /* of this process, over all arms */

/* ---- the record ------------------------------------------------------------------------------ */

struct places { uint64_t in, out, size; }; /* offsets in the record */

static struct places place(const struct tap_call *call)
{
    struct places p;
    uint64_t at = sizeof(struct tap_op) + (uint64_t)call->n_attrs * sizeof(struct td_attr) +
                  (uint64_t)(call->n_w + call->n_in + 1) * sizeof(struct tap_tensor);
    int i;

    if (call->fingerprint)
        at += sizeof(struct td_weight_fingerprint);
    at += (uint64_t)call->n_launches * sizeof(struct td_op_launch);
    p.in = at = tap_round_up(at, TAP_REC_ALIGN);
    for (i = 0; i < call->n_in; i++)
        at += tap_round_up(tap_operand_bytes(&call->in[i]), TAP_REC_ALIGN);
    p.out = at;
    p.size = at + tap_round_up(call->out.bytes, TAP_REC_ALIGN);
    return p;
}

/* Copy a string with its NUL, and clear the rest. False: the string does not fit; `to` is empty
 * then, because half a name is another name. */
static bool put_name(char *to, size_t n, const char *from)
{
    size_t len = from ? strnlen(from, n) : 0;
    bool fits = len < n;

    if (!fits)
        len = 0;
    if (len)
        memcpy(to, from, len);
    memset(to + len, 0, n - len);
    return fits;
}

/* The same for words of a few letters, of which an op has two dozen: without a call. */
static inline __attribute__((always_inline)) bool put_word(char *to, size_t n, const char *from)
{
    size_t i;

    memset(to, 0, n);
    for (i = 0; i < n - 1 && from && from[i]; i++)
        to[i] = from[i];
    return !from || !from[i];
}

static bool put_tensor(struct tap_tensor *t, const struct tap_operand *o)
{
    bool fits = put_word(t->role, sizeof t->role, o->role);
    int i;

    fits &= put_word(t->dtype, sizeof t->dtype, o->dtype);
    t->ndim = o->ndim;
    for (i = 0; i < TAP_DIMS; i++) {
        t->shape[i] = i < o->ndim ? o->shape[i] : 0;
        t->strides[i] = i < o->ndim ? o->strides[i] : 0;
    }
    t->bytes = tap_operand_bytes(o);
    t->opaque = !o->data;
    t->align =
        o->data ? (uint16_t)__builtin_ctzll((o->address ? o->address : (uintptr_t)o->data) | 4096u)
                : 0;
    return fits;
}

static bool put_launches(struct td_op_launch *to, const struct tap_call *call)
{
    bool fits = true;
    int i;

    for (i = 0; i < call->n_launches; i++) {
        const struct tap_call_launch *from = &call->launches[i];

        to[i] = (struct td_op_launch){.rows = {from->rows[0], from->rows[1]},
                                      .grid = {from->grid[0], from->grid[1], from->grid[2]},
                                      .block = {from->block[0], from->block[1], from->block[2]},
                                      .shared_bytes = from->shared_bytes,
                                      .flags = from->flags};
        fits &= put_name(to[i].symbol, sizeof to[i].symbol, from->symbol);
    }
    return fits;
}

/* Fill in all that is known before the call: everything but rec, seq, the duration and the output.
 * Returns the place of the output's description; NULL: a string is longer than a record takes.
 * Nothing is ever read back from the record: others may write there. */
static struct tap_tensor *put_head(struct tap_op *rec, const struct tap_call *call,
                                   uint32_t weight_set)
{
    struct td_attr *attr = (struct td_attr *)(rec + 1);
    struct tap_tensor *t = (struct tap_tensor *)(attr + call->n_attrs);
    bool fits;
    int i;

    rec->step = tap_thread.uses_steps ? tap_thread.step : 0;
    fits = put_name(rec->kind, sizeof rec->kind, call->kind);
    fits &= put_name(rec->symbol, sizeof rec->symbol, call->symbol);
    fits &= put_name(rec->layout, sizeof rec->layout, call->layout);
    fits &= put_name(rec->rounding, sizeof rec->rounding, call->rounding);
    put_name(rec->name, sizeof rec->name, call->name); /* too long: the op goes without a name */
    rec->weight = weight_set;
    rec->has_step = tap_thread.uses_steps;
    rec->has_fingerprint = call->fingerprint != NULL;
    rec->n_attrs = (uint16_t)call->n_attrs, rec->n_w = (uint16_t)call->n_w,
    rec->n_in = (uint16_t)call->n_in;
    rec->n_launches = (uint16_t)call->n_launches;
    rec->dump_reason = (uint16_t)call->dump_reason;
    memset(rec->reserved, 0, sizeof rec->reserved);
    for (i = 0; i < call->n_attrs; i++) {
        fits &= put_word(attr[i].name, sizeof attr[i].name, call->attrs[i].name);
        attr[i].value = call->attrs[i].value;
    }
    for (i = 0; i < call->n_w; i++)
        fits &= put_tensor(t++, &call->w[i]);
    for (i = 0; i < call->n_in; i++)
        fits &= put_tensor(t++, &call->in[i]);
    if (call->fingerprint)
        memcpy(t + 1, call->fingerprint, sizeof *call->fingerprint);
    fits &=
        put_launches((struct td_op_launch *)((uint8_t *)(t + 1) +
                                             (call->fingerprint ? sizeof *call->fingerprint : 0)),
                     call);
    return fits ? t : NULL;
}

static void put_inputs(uint8_t *to, const struct tap_call *call)
{
    int i;

    for (i = 0; i < call->n_in; i++) {
        uint64_t n = tap_operand_bytes(&call->in[i]);

        tap_operand_copy(to, &call->in[i], 0, n);
        to += tap_round_up(n, TAP_REC_ALIGN);
    }
}

uint64_t tap_call_record_bytes(const struct tap_call *call)
{
    return tap_call_is_sane(call) ? place(call).size : 0;
}

/* ---- begin ----------------------------------------------------------------------------------- */

static bool open_record(struct tap_ring_slot *s, struct tap_open_call *open,
                        const struct tap_call *call)
{
    struct places p = place(call);
    enum tap_count what = TAP_OPS_SENT;
    uint32_t weight_set = 0;

    if (p.size > tap_plan.ring_bytes || p.size > UINT32_MAX || tap_ring_slot_room(s) < p.size)
        what = TAP_OPS_RING;
    else if (!tap_weights_send(s, call, &weight_set))
        what = tap_weights_are_refused(s, weight_set) ? TAP_OPS_LAYERS : TAP_OPS_WEIGHTS;
    else if (tap_ring_slot_room(s) < p.size)
        what = TAP_OPS_RING;
    if (what != TAP_OPS_SENT) {
        tap_ring_slot_count(s, what, 1, tap_call_bytes(call));
        return false;
    }
    open->out = call->out;
    open->slot = s;
    open->rec = tap_ring_slot_head(s);
    open->size = p.size;
    open->out_at = p.out;
    open->out_bytes = call->out.bytes;
    open->bytes = tap_call_bytes(call);
    /* A string that is too long is noticed only here, after the weights were sent. The weights stay
     * valid for later ops of the layer; only this op is dropped. */
    open->out_tensor = put_head(open->rec, call, weight_set);
    if (!open->out_tensor) {
        tap_ring_slot_count(s, TAP_OPS_FAILED, 1, open->bytes);
        return false;
    }
    put_inputs((uint8_t *)open->rec + p.in, call);
    return true;
}

static bool begin_in_slot(struct tap_ring_slot *s, struct tap_open_call *open,
                          const struct tap_call *call)
{
    if (!tap_call_is_sane(call)) {
        tap_ring_slot_count(s, TAP_OPS_FAILED, 1, 0);
        return false;
    }
    if (!tap_thread.uses_steps)
        tap_thread.decision =
            tap_sampler_decide(&s->sampler, call->rows, &tap_thread.may_send_weights);
    if (tap_thread.decision == TAP_RECORD)
        return open_record(s, open, call);
    tap_ring_slot_count(s, tap_count_of_ops(tap_thread.decision), 1, tap_call_bytes(call));
    return false;
}

bool tap_call_begin(struct tap_open_call *open, const struct tap_call *call)
{
    uint32_t generation = atomic_load_explicit(&tap_generation, memory_order_acquire);
    bool recorded = false;
    struct tap_ring_slot *s;
    int e = errno;

    if (tap_thread.inside || !generation)
        return false;
    tap_thread.inside = true;
    s = tap_ring_slot_enter(generation);
    if (!s)
        tap_count_in_arm(generation, TAP_OPS_THREADS, 1, tap_call_bytes(call));
    else if (!(recorded = begin_in_slot(s, open, call)))
        tap_ring_slot_exit(s);
    tap_thread.inside = recorded;
    errno = e;
    if (recorded)
        open->t0_ns = tap_now();
    return recorded;
}

/* ---- end ------------------------------------------------------------------------------------- */

static void finish_record(struct tap_open_call *open, int64_t duration_ns)
{
    struct tap_op *rec = open->rec;

    if (!put_tensor(open->out_tensor, &open->out)) {
        tap_ring_slot_count(open->slot, TAP_OPS_FAILED, 1, open->bytes);
        return;
    }
    tap_operand_copy((uint8_t *)rec + open->out_at, &open->out, 0, open->out_bytes);
    rec->rec = tap_ring_slot_rec(open->slot, TAP_REC_OP, (uint32_t)open->size, open->t0_ns);
    rec->seq = atomic_fetch_add_explicit(&recorded_ops, 1, memory_order_relaxed);
    rec->duration_ns = duration_ns;
    tap_budget_charge_step(open->bytes);
    tap_ring_slot_count(open->slot, TAP_OPS_SENT, 1, open->bytes);
    tap_ring_slot_publish(open->slot, (uint32_t)open->size);
}

void tap_call_end(struct tap_open_call *open, bool ok, int64_t duration_ns)
{
    if (!*tap_plan.ours || open->rec != tap_ring_slot_head(open->slot))
        ; /* the call forked, and this is the child: the ring is the parent's */
    else if (ok && tap_operand_is_sane(&open->out) && open->out.data &&
             open->out.bytes == open->out_bytes)
        finish_record(open, duration_ns);
    else
        tap_ring_slot_count(open->slot, TAP_OPS_FAILED, 1, open->bytes);
    tap_ring_slot_exit(open->slot);
    tap_thread.inside = false;
}

/* ---- calls that are not begun ---------------------------------------------------------------- */

bool tap_call_is_wanted(void)
{
    uint32_t generation = atomic_load_explicit(&tap_generation, memory_order_acquire);

    if (!generation || tap_thread.inside)
        return false;
    return !tap_thread.uses_steps ||
           (tap_thread.generation == generation && tap_thread.decision == TAP_RECORD);
}

static void count_skipped(enum tap_count when_wanted, uint64_t n, uint64_t bytes)
{
    uint32_t generation = atomic_load_explicit(&tap_generation, memory_order_acquire);
    struct tap_ring_slot *s;
    int e = errno;

    if (tap_thread.inside || !generation || !n)
        return;
    s = tap_ring_slot_enter(generation);
    if (s) {
        tap_ring_slot_count(
            s,
            tap_thread.decision == TAP_RECORD ? when_wanted : tap_count_of_ops(tap_thread.decision),
            n, bytes);
        tap_ring_slot_exit(s);
    } else {
        tap_count_in_arm(generation, TAP_OPS_THREADS, n, bytes);
    }
    errno = e;
}

void tap_call_skip(uint64_t n, uint64_t bytes)
{
    count_skipped(TAP_OPS_PARTIAL, n, bytes);
}

void tap_call_skip_unreadable(void)
{
    count_skipped(TAP_OPS_UNREADABLE, 1, 0);
}

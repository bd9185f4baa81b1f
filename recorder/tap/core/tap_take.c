/* tap_take.c - one call of a kernel while armed: decide whether it is taken, copy it into this thread's ring, count it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing here waits: no lock, no allocation. The record becomes visible at the end of the call, in one piece. */
#include <errno.h>
#include <string.h>

#include "recorder/tap/core/tap_core.h"

#define BYTES_MAX (1ull << 48)        /* of one operand: far beyond any, and no sum of them can wrap */

/* ---- does the description make sense? ------------------------------------------------------------------------------ */

static bool sane_operand(const struct tap_operand *o)
{
    uint64_t extent;

    return o->role && o->dtype && o->ndim >= 0 && o->ndim <= TAP_DIMS && o->bytes <= BYTES_MAX &&
           (!o->row_bytes || (o->bytes % o->row_bytes == 0 && !__builtin_mul_overflow(o->bytes / o->row_bytes, o->pitch, &extent)));
}

static bool sane_operands(const struct tap_operand *o, int n, int max)
{
    int i;

    if (n < 0 || n > max)
        return false;
    for (i = 0; i < n; i++)
        if (!sane_operand(&o[i]))
            return false;
    return true;
}

static bool sane_call(const struct tap_call *call)
{
    return call && call->kind && call->symbol && call->n_attrs >= 0 && call->n_attrs <= TAP_MAX_ATTRS && sane_operands(call->w, call->n_w, TAP_MAX_WEIGHTS) &&
           sane_operands(call->in, call->n_in, TAP_MAX_INPUTS) && sane_operand(&call->out) && call->n_launches >= 0 &&
           call->n_launches <= TAP_MAX_LAUNCHES;
}

static uint64_t bytes_of(const struct tap_operand *o)
{
    return o->data ? o->bytes : 0;
}

static uint64_t call_bytes(const struct tap_call *call) /* of inputs and output; 0 for what makes no sense */
{
    uint64_t bytes;
    int i;

    if (!sane_call(call))
        return 0;
    bytes = call->out.bytes;
    for (i = 0; i < call->n_in; i++)
        bytes += bytes_of(&call->in[i]);
    return bytes;
}

/* ---- the record ---------------------------------------------------------------------------------------------------- */

struct places { uint64_t in, out, size; }; /* offsets in the record */

static struct places place(const struct tap_call *call)
{
    struct places p;
    uint64_t at = sizeof(struct tap_op) + (uint64_t)call->n_attrs * sizeof(struct td_attr) + (uint64_t)(call->n_w + call->n_in + 1) * sizeof(struct tap_tensor);
    int i;

    if (call->print)
        at += sizeof(struct tap_fingerprint);
    at += (uint64_t)call->n_launches * sizeof(struct td_op_launch);
    p.in = at = tap_round(at, TAP_REC_ALIGN);
    for (i = 0; i < call->n_in; i++)
        at += tap_round(bytes_of(&call->in[i]), TAP_REC_ALIGN);
    p.out = at;
    p.size = at + tap_round(call->out.bytes, TAP_REC_ALIGN);
    return p;
}

/* False: it does not fit; to is empty then, for half a name is another name. */
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

/* The same for words of a few letters, of which there are two dozen: without a call. */
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
    t->bytes = bytes_of(o);
    t->opaque = !o->data;
    t->align = o->data ? (uint16_t)__builtin_ctzll((o->address ? o->address : (uintptr_t)o->data) | 4096u) : 0;
    return fits;
}

static bool put_launches(struct td_op_launch *to, const struct tap_call *call)
{
    bool fits = true;
    int i;

    for (i = 0; i < call->n_launches; i++) {
        const struct tap_call_launch *from = &call->launches[i];

        to[i] = (struct td_op_launch){.rows = {from->rows[0], from->rows[1]}, .grid = {from->grid[0], from->grid[1], from->grid[2]},
                                    .block = {from->block[0], from->block[1], from->block[2]}, .shared_bytes = from->shared_bytes, .flags = from->flags};
        fits &= put_name(to[i].symbol, sizeof to[i].symbol, from->symbol);
    }
    return fits;
}

/* All that is known before the call but rec, seq, duration and the output, whose description comes to the place that is returned. NULL: a string is
 * longer than a record takes. Nothing is read back from the record, now or later: others may write there. */
static struct tap_tensor *put_head(struct tap_op *rec, const struct tap_call *call, uint32_t weight)
{
    struct td_attr *attr = (struct td_attr *)(rec + 1);
    struct tap_tensor *t = (struct tap_tensor *)(attr + call->n_attrs);
    bool fits;
    int i;

    rec->step = tap_me.uses_steps ? tap_me.step : 0;
    fits = put_name(rec->kind, sizeof rec->kind, call->kind);
    fits &= put_name(rec->symbol, sizeof rec->symbol, call->symbol);
    fits &= put_name(rec->layout, sizeof rec->layout, call->layout);
    fits &= put_name(rec->rounding, sizeof rec->rounding, call->rounding);
    put_name(rec->name, sizeof rec->name, call->name); /* an author may give a longer one: the op goes without */
    rec->weight = weight;
    rec->has_step = tap_me.uses_steps;
    rec->has_fingerprint = call->print != NULL;
    rec->n_attrs = (uint16_t)call->n_attrs, rec->n_w = (uint16_t)call->n_w, rec->n_in = (uint16_t)call->n_in;
    rec->n_launches = (uint16_t)call->n_launches;
    rec->flight = (uint16_t)call->flight;
    memset(rec->reserved, 0, sizeof rec->reserved);
    for (i = 0; i < call->n_attrs; i++) {
        fits &= put_word(attr[i].name, sizeof attr[i].name, call->attrs[i].name);
        attr[i].value = call->attrs[i].value;
    }
    for (i = 0; i < call->n_w; i++)
        fits &= put_tensor(t++, &call->w[i]);
    for (i = 0; i < call->n_in; i++)
        fits &= put_tensor(t++, &call->in[i]);
    if (call->print)
        memcpy(t + 1, call->print, sizeof *call->print);
    fits &= put_launches((struct td_op_launch *)((uint8_t *)(t + 1) + (call->print ? sizeof *call->print : 0)), call);
    return fits ? t : NULL;
}

static void put_inputs(uint8_t *to, const struct tap_call *call)
{
    int i;

    for (i = 0; i < call->n_in; i++) {
        uint64_t n = bytes_of(&call->in[i]);

        tap_operand_copy(to, &call->in[i], 0, n);
        to += tap_round(n, TAP_REC_ALIGN);
    }
}

uint64_t tap_take_size(const struct tap_call *call)
{
    return sane_call(call) ? place(call).size : 0;
}

/* ---- begin --------------------------------------------------------------------------------------------------------- */

const enum tap_count tap_reason_ops[] = {[TAP_WAIT] = TAP_OPS_PARTIAL, [TAP_TAKE] = TAP_OPS_PARTIAL, [TAP_SKIP_SAMPLING] = TAP_OPS_SAMPLING,
                                         [TAP_SKIP_BUDGET] = TAP_OPS_BUDGET, [TAP_SKIP_RING] = TAP_OPS_RING, [TAP_SKIP_FLIGHT] = TAP_OPS_FLIGHT};

static bool take(struct tap_ring_slot *s, struct tap_taking *t, const struct tap_call *call)
{
    struct places p = place(call);
    enum tap_count what = TAP_OPS_SENT;
    uint32_t weight = 0;

    if (p.size > tap_plan.ring_bytes || p.size > UINT32_MAX || tap_ring_slot_room(s) < p.size)
        what = TAP_OPS_RING;
    else if (!tap_weights_send(s, call, &weight))
        what = tap_weights_refused(s, weight) ? TAP_OPS_LAYERS : TAP_OPS_WEIGHTS;
    else if (tap_ring_slot_room(s) < p.size)
        what = TAP_OPS_RING;
    if (what != TAP_OPS_SENT) {
        tap_ring_slot_count(s, what, 1, call_bytes(call));
        return false;
    }
    t->out = call->out;
    t->seat = s;
    t->rec = tap_ring_slot_head(s);
    t->size = p.size;
    t->out_at = p.out;
    t->out_bytes = call->out.bytes;
    t->bytes = call_bytes(call);
    t->out_tensor = put_head(t->rec, call, weight);
    if (!t->out_tensor) {
        tap_ring_slot_count(s, TAP_OPS_FAILED, 1, t->bytes);
        return false;
    }
    put_inputs((uint8_t *)t->rec + p.in, call);
    return true;
}

static bool begin(struct tap_ring_slot *s, struct tap_taking *t, const struct tap_call *call)
{
    if (!sane_call(call)) {
        tap_ring_slot_count(s, TAP_OPS_FAILED, 1, 0);
        return false;
    }
    if (!tap_me.uses_steps)
        tap_step_alone(s, call->rows);
    if (tap_me.doing == TAP_TAKE)
        return take(s, t, call);
    tap_ring_slot_count(s, tap_reason_ops[tap_me.doing], 1, call_bytes(call));
    return false;
}

bool tap_take_begin(struct tap_taking *t, const struct tap_call *call)
{
    uint32_t generation = atomic_load_explicit(&tap_generation, memory_order_acquire);
    bool taken = false;
    struct tap_ring_slot *s;
    int e = errno;

    if (tap_me.inside || !generation)
        return false;
    tap_me.inside = true;
    s = tap_ring_slot_mine(generation);
    if (!s)
        tap_ring_slot_count_homeless(TAP_OPS_THREADS, 1, call_bytes(call), generation);
    else if (!(taken = begin(s, t, call)))
        tap_ring_slot_exit(s);
    tap_me.inside = taken;
    errno = e;
    if (taken)
        t->t0_ns = tap_now();
    return taken;
}

/* ---- end ----------------------------------------------------------------------------------------------------------- */

static void finish(struct tap_taking *t, int64_t duration_ns)
{
    struct tap_op *rec = t->rec;

    if (!put_tensor(t->out_tensor, &t->out)) {
        tap_ring_slot_count(t->seat, TAP_OPS_FAILED, 1, t->bytes);
        return;
    }
    tap_operand_copy((uint8_t *)rec + t->out_at, &t->out, 0, t->out_bytes);
    rec->rec = tap_ring_slot_rec(t->seat, TAP_REC_OP, (uint32_t)t->size, t->t0_ns);
    rec->seq = atomic_fetch_add_explicit(&tap_plan.seq, 1, memory_order_relaxed);
    rec->duration_ns = duration_ns;
    tap_spend(&tap_plan.due_steps, t->bytes);
    tap_ring_slot_count(t->seat, TAP_OPS_SENT, 1, t->bytes);
    tap_ring_slot_publish(t->seat, (uint32_t)t->size);
}

void tap_take_end(struct tap_taking *t, bool ok, int64_t duration_ns)
{
    if (!*tap_plan.ours || t->rec != tap_ring_slot_head(t->seat))
        ;                             /* the call forked, and this is the child: the ring is the parent's */
    else if (ok && sane_operand(&t->out) && t->out.data && t->out.bytes == t->out_bytes)
        finish(t, duration_ns);
    else
        tap_ring_slot_count(t->seat, TAP_OPS_FAILED, 1, t->bytes);
    tap_ring_slot_exit(t->seat);
    tap_me.inside = false;
}

/* ---- what a front end may ask -------------------------------------------------------------------------------------- */

bool tap_take_wanted(void)
{
    uint32_t generation = atomic_load_explicit(&tap_generation, memory_order_acquire);

    if (!generation || tap_me.inside)
        return false;
    return !tap_me.uses_steps || (tap_me.generation == generation && tap_me.doing == TAP_TAKE);
}

static void count_untaken(enum tap_count when_wanted, uint64_t n, uint64_t bytes)
{
    uint32_t generation = atomic_load_explicit(&tap_generation, memory_order_acquire);
    struct tap_ring_slot *s;
    int e = errno;

    if (tap_me.inside || !generation || !n)
        return;
    s = tap_ring_slot_mine(generation);
    if (s) {
        tap_ring_slot_count(s, tap_me.doing == TAP_TAKE ? when_wanted : tap_reason_ops[tap_me.doing], n, bytes);
        tap_ring_slot_exit(s);
    } else {
        tap_ring_slot_count_homeless(TAP_OPS_THREADS, n, bytes, generation);
    }
    errno = e;
}

void tap_take_skip(uint64_t n, uint64_t bytes)
{
    count_untaken(TAP_OPS_PARTIAL, n, bytes);
}

void tap_take_unreadable(void)
{
    count_untaken(TAP_OPS_UNREADABLE, 1, 0);
}

bool tap_take_all_kinds(void)
{
    return tap_armed() && tap_plan.kinds == TAP_KINDS_ALL;
}

/* torch_call.c - what happens at a call of an operator, whatever kernel runs inside: it is counted,
 * a product is recorded, a weight that is repacked is sampled.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Asleep, a call costs three loads, a branch and an indirect call more than without the tap. */
#include <errno.h>
#include <stdlib.h>

#include "recorder/tap/core/tap.h"
#include "recorder/tap/core/tap_spent.h"
#include "recorder/tap/gpu/gpu_captured_w.h"
#include "recorder/tap/gpu/gpu_gate.h"
#include "recorder/tap/gpu/gpu_inner.h"
#include "recorder/tap/gpu/gpu_threads.h"
#include "recorder/tap/torch/tap_torch_tensor.h"
#include "recorder/tap/torch/torch_arguments.h"
#include "recorder/tap/torch/torch_beside.h"
#include "recorder/tap/torch/torch_call.h"
#include "recorder/tap/torch/torch_fingerprints.h"
#include "recorder/tap/torch/torch_made_w.h"
#include "recorder/tap/torch/torch_product.h"
#include "recorder/tap/torch/torch_repack.h"

static _Atomic bool awake = true;     /* until the tap's thread runs, calls start it */
static _Atomic bool called;

/* ---- counting -------------------------------------------------------------------------------- */

static uint64_t bytes_of(td_torch_tensor tensor)
{
    struct tap_torch_tensor t;
    uint64_t bytes;
    int i;

    if (!tensor || !tap_torch_read_shape(tensor, &t))
        return 0;
    bytes = tap_torch_dtype_bytes(t.dtype);
    for (i = 0; i < t.ndim; i++)
        bytes *= (uint64_t)t.sizes[i];
    return bytes;
}

/* Count a call, and the bytes of its tensors. The arguments are still on the stack. */
static void count(struct tap_torch_operator *o, const td_torch_value *stack, uint64_t n_args)
{
    const struct tap_torch_schema *s = atomic_load_explicit(&o->schema, memory_order_acquire);
    uint64_t bytes = 0;
    int i;

    if (s && (uint64_t)s->n_args == n_args && tap_torch_found())
        for (i = 0; i < s->n_args; i++)
            bytes += bytes_of(tap_torch_tensor_of(&s->arg[i], stack[i]));
    atomic_fetch_add_explicit(&o->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&o->bytes, bytes, memory_order_relaxed);
}

/* ---- products -------------------------------------------------------------------------------- */

/* A product between the tap's look before it and that after it. */
struct product {
    struct tap_gpu_launch launch;
    struct td_gpu_work work;
    uint64_t token;                   /* of the gate; 0: it is not recorded */
    bool is_read, in_library_call;    /* in_library_call: what the thread's flag was before */
    bool returns_c;                   /* as its result; else C is an argument */
    bool done;                        /* the operator came back, without an exception */
    td_torch_value result;
    struct tap_gpu_inner inner;       /* what it launches, if launches are watched */
};

/* Inside the tap. Kernels that the operator launches are not recorded once more. */
static void enter_product(struct product *p, const struct tap_torch_operator *o,
                          const struct tap_torch_meaning *m, const td_torch_value *stack)
{
    enum tap_torch_product is;
    td_torch_tensor a;

    p->launch = (struct tap_gpu_launch){.stream = NULL};
    p->token = 0;
    p->is_read = p->done = false;
    if (tap_gpu_thread.in_library_call)
        return;                       /* an operator that another one calls */
    is = m->row->does == TAP_TORCH_COMPUTES ? tap_torch_beside_read(m, stack, &p->work, &a)
                                            : tap_torch_product_read(m, stack, &p->work, &a);
    if (is == TAP_TORCH_READ && !tap_torch_stream((const void *)o->real, a, &p->launch.stream))
        is = TAP_TORCH_UNKNOWN;
    if (is == TAP_TORCH_UNKNOWN)
        tap_count(TAP_OPS_UNREADABLE, 1, 0);
    if (is != TAP_TORCH_READ)
        return;
    p->launch.context = tap_gpu_context_of(p->launch.stream);
    p->launch.fingerprint = tap_torch_fingerprint_of(tap_gpu_gemm_weights(&p->work));
    p->is_read = true;
    p->returns_c = m->row->does == TAP_TORCH_MULTIPLIES ? m->out < 0 : m->row->returns;
    p->in_library_call = tap_gpu_set_in_library_call(true);
    p->token = tap_gpu_gate_enter_work(&p->launch, &m->kernel, &p->work);
    if (!p->token)
        return;
    p->inner.n = 0, p->inner.rows = 0, p->inner.library_function = NULL;
    tap_gpu_thread.inner = &p->inner;
    tap_gpu_thread.inner_of = &p->work;
}

/* After the operator, or when an exception passes through. */
static void leave_product(struct product *p)
{
    int e = errno, before;

    if (p->is_read) {
        tap_gpu_set_in_library_call(p->in_library_call);
        tap_gpu_thread.inner = NULL;
    }
    if (p->token && tap_gpu_come_in()) {
        before = tap_gpu_error_before();
        if (p->done && p->returns_c)
            p->launch.output = p->work.beside ? tap_torch_beside_result(&p->work, p->result)
                                              : tap_torch_product_result(&p->work, p->result);
        p->launch.inner = &p->inner;
        tap_gpu_gate_leave(p->token, &p->launch, p->done && (!p->returns_c || p->launch.output));
        tap_gpu_error_restore(before);
        tap_gpu_go_out();
    }
    errno = e;
}

static void call_product(struct tap_torch_operator *o, const struct tap_torch_meaning *m,
                         td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    struct product p __attribute__((cleanup(leave_product)));
    int e = errno, before = tap_gpu_error_before();

    enter_product(&p, o, m, stack);
    tap_gpu_error_restore(before);
    tap_gpu_go_out();
    errno = e;
    o->real(stack, n_args, n_results);
    p.result = n_results ? stack[0] : 0;
    p.done = true;
}

/* Call an operator that makes W, which may be recorded itself. */
static void call_maker(struct tap_torch_operator *o, const struct tap_torch_meaning *m,
                       td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    struct tap_torch_made_w w;
    int e = errno;
    bool is = tap_torch_made_w_read(&w, (const void *)o->real, m, stack);

    errno = e;
    if (tap_torch_is_recorded(m) && tap_gpu_come_in())
        call_product(o, m, stack, n_args, n_results);
    else
        o->real(stack, n_args, n_results);
    e = errno;
    if (is && n_results)
        tap_torch_made_w_tell(&w, m, stack[0]);
    errno = e;
}

/* ---- products that are captured into a graph ------------------------------------------------- */

struct captured {
    struct tap_gpu_launch launch;
    struct td_gpu_work work;
    struct tap_gpu_capture_mark mark;
    bool in_library_call;             /* what the thread's flag was before */
};

/* The flag is the thread's own again, also when an exception passes through. */
static void leave_captured(struct captured *c)
{
    tap_gpu_set_in_library_call(c->in_library_call);
}

/* False: the call is not captured, or nobody knows what it computes. */
static bool enter_captured(struct captured *c, const struct tap_torch_operator *o,
                           const struct tap_torch_meaning *m, const td_torch_value *stack)
{
    td_torch_tensor a;

    c->launch = (struct tap_gpu_launch){.stream = NULL};
    return !c->in_library_call &&
           tap_torch_product_read(m, stack, &c->work, &a) == TAP_TORCH_READ &&
           tap_torch_stream((const void *)o->real, a, &c->launch.stream) &&
           tap_gpu_capture_begins(&c->mark, c->launch.stream);
}

/* Call it if it is captured; its products are noted then. False: it was not called. */
static bool call_captured(struct tap_torch_operator *o, const struct tap_torch_meaning *m,
                          td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    struct captured c __attribute__((cleanup(leave_captured))) = {
        .in_library_call = tap_gpu_thread.in_library_call};
    int e = errno;
    bool is = enter_captured(&c, o, m, stack);

    errno = e;
    if (!is)
        return false;
    tap_gpu_set_in_library_call(true);
    o->real(stack, n_args, n_results);
    e = errno;
    if (m->out < 0)
        c.launch.output = n_results ? tap_torch_product_result(&c.work, stack[0]) : 0;
    c.launch.fingerprint = tap_torch_fingerprint_of(tap_gpu_gemm_weights(&c.work));
    tap_gpu_gemm_set_output(&c.work, &c.launch);
    if (m->out >= 0 || c.launch.output)
        tap_gpu_capture_ends(&c.mark, &c.launch, &m->kernel, &c.work);
    errno = e;
    return true;
}

/* The same for an operator that makes W, which a library multiplies with next. */
static bool call_captured_maker(struct tap_torch_operator *o, const struct tap_torch_meaning *m,
                                td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    struct tap_gpu_capture_mark mark;
    struct tap_torch_made_w w;
    struct td_gpu_work work;
    int e = errno;
    bool is = tap_torch_made_w_read(&w, (const void *)o->real, m, stack) &&
              tap_gpu_capture_begins(&mark, w.launch.stream);

    errno = e;
    if (!is)
        return false;
    o->real(stack, n_args, n_results);
    e = errno;
    if (n_results && tap_torch_made_w_work(&w, m, stack[0], &work)) {
        work.in_step = false;         /* it is no op of its own in a graph */
        tap_gpu_captured_w_keep(&mark, &w.launch, &m->kernel, &work);
    }
    errno = e;
    return true;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* The sample of a weight whose operator does not come back. */
static void drop_sample(struct td_weight_fingerprint **p)
{
    free(*p);
}

static void call_repack(struct tap_torch_operator *o, const struct tap_torch_meaning *m,
                        td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    struct td_weight_fingerprint *p __attribute__((cleanup(drop_sample))) = NULL;
    int64_t begun = tap_spent_begin();
    int e = errno;

    p = tap_torch_repack_sample(o, m, stack);
    tap_spent_end(begun);
    errno = e;
    o->real(stack, n_args, n_results);
    e = errno;
    begun = tap_spent_begin();
    tap_torch_repack_keep(p, stack[0]);
    tap_spent_end(begun);
    p = NULL;
    errno = e;
}

/* ---- a call ---------------------------------------------------------------------------------- */

/* Before a call of an operator while the tap is awake. */
static void note(struct tap_torch_operator *o, const td_torch_value *stack, uint64_t n_args)
{
    int e = errno;

    atomic_store_explicit(&called, true, memory_order_relaxed);
    tap_start_if_cold();
    if (tap_armed())
        count(o, stack, n_args);
    errno = e;
}

/* What the operator means, if this call is of its form. */
static const struct tap_torch_meaning *meaning_of(struct tap_torch_operator *o, uint64_t n_args,
                                                  uint64_t n_results)
{
    const struct tap_torch_meaning *m = atomic_load_explicit(&o->meaning, memory_order_acquire);

    return m && n_args == (uint64_t)m->schema->n_args &&
                   n_results == (uint64_t)m->schema->n_results && tap_torch_found()
               ? m
               : NULL;
}

void tap_torch_call(unsigned place, td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    struct tap_torch_operator *o = tap_torch_operator_at(place);
    const bool is_awake = atomic_load_explicit(&awake, memory_order_relaxed);
    const struct tap_torch_meaning *m;

    if (TAP_LIKELY(!is_awake && !atomic_load_explicit(&o->repacks, memory_order_relaxed) &&
                   !tap_gpu_captures_any())) {
        o->real(stack, n_args, n_results);
        return;
    }
    if (is_awake)
        note(o, stack, n_args);
    tap_gpu_note_call();
    m = meaning_of(o, n_args, n_results);
    if (m && m->row->does == TAP_TORCH_REPACKS)
        call_repack(o, m, stack, n_args, n_results);
    else if (m && m->row->does == TAP_TORCH_MULTIPLIES && tap_gpu_captures_any() &&
             call_captured(o, m, stack, n_args, n_results))
        ;
    else if (m && m->row->makes_w && tap_gpu_captures_any() &&
             call_captured_maker(o, m, stack, n_args, n_results))
        ;
    else if (is_awake && m && m->row->makes_w && tap_armed())
        call_maker(o, m, stack, n_args, n_results);
    else if (is_awake && tap_armed() && tap_torch_is_recorded(m) && tap_gpu_come_in())
        call_product(o, m, stack, n_args, n_results);
    else
        o->real(stack, n_args, n_results);
}

void tap_torch_set_awake(bool on)
{
    atomic_store_explicit(&awake, on, memory_order_relaxed);
}

bool tap_torch_was_called(void)
{
    return atomic_load(&called);
}

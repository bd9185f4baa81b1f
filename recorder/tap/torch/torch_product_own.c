/* torch_product_own.c - a product whose operator a file of the user's describes (--ops).
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the file says is checked against each call: a call with other sizes, types or fixed values
 * is none that the row describes, and is counted as unreadable. */
#include <string.h>

#include "recorder/tap/gpu/gpu_gemm.h"
#include "recorder/tap/torch/tap_torch_tensor.h"
#include "recorder/tap/torch/torch_product_kinds.h"

/* ---- fixed arguments ------------------------------------------------------------------------- */

/* The value itself: an optional one lies behind an address. */
static td_torch_value value_of(const struct tap_torch_arg *arg, td_torch_value value)
{
    return arg->optional ? *(const td_torch_value *)(uintptr_t)value : value;
}

static bool has_value(const struct td_own_fixed *f, const struct tap_torch_arg *arg,
                      td_torch_value at)
{
    td_torch_value value;
    double real;

    if (tap_torch_is_none(arg, at) || f->is == TD_OWN_NONE)
        return tap_torch_is_none(arg, at) && f->is == TD_OWN_NONE;
    if (f->is == TD_OWN_TEXT || f->is == TD_OWN_ZEROS)
        return true;                  /* what they hold is not looked at */
    value = value_of(arg, at);
    if (f->is == TD_OWN_BOOL)
        return (value & 0xff) == (td_torch_value)f->number;
    if (f->is == TD_OWN_INT)
        return (int64_t)value == f->number;
    memcpy(&real, &value, sizeof real);
    return !(real < f->real) && !(real > f->real);
}

static bool fixed_hold(const struct tap_torch_meaning *m, const td_torch_value *stack)
{
    const struct td_own_row *own = m->row->own;
    int i;

    for (i = 0; i < own->n_fixed; i++)
        if (!has_value(&own->fixed[i], &m->schema->arg[m->own_fixed[i]], stack[m->own_fixed[i]]))
            return false;
    return true;
}

/* ---- operands -------------------------------------------------------------------------------- */

static struct td_gpu_operand *operand(struct td_gpu_work *w, const char *role)
{
    int i;

    for (i = 0; i < w->n_op; i++)
        if (!strcmp(w->op[i].role, role))
            return &w->op[i];
    return NULL;
}

static bool is_half(const char *dtype)
{
    return !strcmp(dtype, "F16") || !strcmp(dtype, "BF16");
}

/* Has it that shape? cols 0: it has one dimension less. dtype NULL: a type of 16 bits.
 *   experts : so many of them, in the first dimension; 0: one matrix, without it */
static bool has_form(const struct td_gpu_operand *o, const char *dtype, int64_t experts,
                     int64_t rows, int64_t cols)
{
    const int at = experts ? 1 : 0;

    return (dtype ? !strcmp(o->dtype, dtype) : is_half(o->dtype)) &&
           o->ndim == at + (cols ? 2 : 1) && (!experts || o->shape[0] == experts) &&
           o->shape[at] == rows && (!cols || o->shape[at + 1] == cols);
}

/* If it is there. */
static bool fits(struct td_gpu_work *w, const char *role, const char *dtype, int64_t experts,
                 int64_t rows, int64_t cols)
{
    const struct td_gpu_operand *o = operand(w, role);

    return !o || has_form(o, dtype, experts, rows, cols);
}

/* Is the weight, the second role, dense row after row? */
static bool weight_lies_by_rows(const struct tap_torch_meaning *m, const td_torch_value *stack)
{
    const int place = m->role[1];
    struct tap_torch_tensor t;

    return tap_torch_argument_on_gpu(&m->schema->arg[place], stack[place], &t) &&
           tap_torch_is_dense(&t);
}

/* ---- gemm ------------------------------------------------------------------------------------ */

/* W is [n, k] or [k, n] by the row, and either may lie in memory row after row or column after
 * column: what counts in the end is whether the inputs of an output lie together. */
static bool read_gemm(const struct tap_torch_meaning *m, const td_torch_value *stack,
                      struct td_gpu_work *w)
{
    const bool nk = !strcmp(m->row->own->layout, "nk"), by_rows = weight_lies_by_rows(m, stack);
    struct td_gpu_operand *o = operand(w, "w");
    int64_t k;

    if (!o || o->ndim != 2 || strcmp(o->dtype, tap_gpu_gemm_operand(w, TD_GPU_IN)->dtype))
        return false;
    w->n = o->shape[nk ? 0 : 1], k = o->shape[nk ? 1 : 0];
    if (k != w->k || !fits(w, "bias", NULL, 0, w->n, 0))
        return false;
    o->shape[0] = nk == by_rows ? w->n : k;
    o->shape[1] = nk == by_rows ? k : w->n;
    o->row_stride = o->shape[1];
    w->adapter = nk == by_rows ? &m->adapter : &m->turned;
    return true;
}

/* ---- gptq_gemm, moe_gemm ------------------------------------------------------------------------------- */

static int64_t number(const struct tap_torch_meaning *m, const td_torch_value *stack,
                      const struct td_own_number *n, int place)
{
    return place < 0 ? n->value : tap_torch_number_of(&m->schema->arg[place], stack[place], -1);
}

/* The bits that an argument tells: as a number, or as vLLM's id of the type. */
static int bits_of(int64_t value)
{
    if (value == TD_GPU_VLLM_U4B8 || value == TD_GPU_VLLM_U4)
        return 4;
    return value == TD_GPU_VLLM_U8B128 ? 8 : value > 0 && value <= 8 ? (int)value : 0;
}

/* Inputs that share a scale. Not given: as many as the rows of the scales leave. */
static int64_t group_size(const struct tap_torch_meaning *m, const td_torch_value *stack,
                          const struct td_gpu_work *w, const struct td_gpu_operand *scales)
{
    const struct td_own_number *n = &m->row->own->group_size;
    int64_t group = -1;

    if (n->given)
        group = number(m, stack, n, m->own_group_size);
    else if (scales->ndim > 1 && scales->shape[scales->ndim - 2] > 0 &&
             !(w->k % scales->shape[scales->ndim - 2]))
        group = w->k / scales->shape[scales->ndim - 2];
    return group <= 0 ? w->k : group;
}

/* Do the tensors lie as in a GPTQ checkpoint? */
static bool is_gptq(const struct tap_torch_meaning *m, const td_torch_value *stack,
                    struct td_gpu_work *w, int64_t experts)
{
    const int64_t groups = w->k / w->group_size, per_word = 32 / w->bits;

    return (w->bits == 4 || w->bits == 8) && weight_lies_by_rows(m, stack) &&
           has_form(operand(w, "qweight"), "I32", experts, w->k / per_word, w->n) &&
           has_form(operand(w, "scales"), NULL, experts, groups, w->n) &&
           fits(w, "qzeros", "I32", experts, groups, w->n / per_word) &&
           fits(w, "g_idx", "I32", experts, w->k, 0);
}

/* To which experts the rows of A go. */
static bool read_routing(const struct tap_torch_meaning *m, const td_torch_value *stack,
                         struct td_gpu_work *w, int64_t experts)
{
    const struct td_own_row *own = m->row->own;
    const bool weighted = operand(w, "topk_weights");
    const int64_t mul = own->mul_topk_weights.given
                            ? number(m, stack, &own->mul_topk_weights, m->own_mul_topk_weights)
                            : weighted;

    if (mul < 0 || mul > weighted ||
        !tap_torch_add_routing(w, experts, number(m, stack, &own->top_k, m->own_top_k),
                               number(m, stack, &own->block_size, m->own_block_size)))
        return false;
    w->attr[w->n_attr++] = (struct td_gpu_attr){"mul_topk_weights", mul};
    w->attr[w->n_attr++] = (struct td_gpu_attr){"round_topk_weights", own->round_topk_weights.value};
    return true;
}

static bool read_gptq(const struct tap_torch_meaning *m, const td_torch_value *stack,
                      struct td_gpu_work *w)
{
    const struct td_own_row *own = m->row->own;
    const struct td_gpu_operand *scales = operand(w, "scales");
    int64_t group, experts = 0;

    if (!scales || !operand(w, "qweight") || (own->kind->routed && scales->ndim != 3))
        return false;
    if (own->kind->routed)
        experts = scales->shape[0];
    w->n = scales->shape[scales->ndim - 1];
    w->bits = bits_of(number(m, stack, &own->bits, m->own_bits));
    group = group_size(m, stack, w, scales);
    if (!w->bits || group > w->k || w->k % group ||
        !fits(w, "bias", NULL, experts, w->n, 0) ||
        (experts && !read_routing(m, stack, w, experts)))
        return false;
    w->group_size = (int)group;
    w->zero_offset = (int)own->zero_offset.value;
    w->act_order = operand(w, "g_idx") != NULL;
    return strcmp(own->layout, "gptq") || is_gptq(m, stack, w, experts);
}

/* ---- scaled_mm ------------------------------------------------------------------------------- */

/* The inputs of an output of W must lie together. */
static bool read_scaled(const struct tap_torch_meaning *m, const td_torch_value *stack,
                        struct td_gpu_work *w)
{
    const bool nk = !strcmp(m->row->own->layout, "nk");
    struct td_gpu_operand *o = operand(w, "w");

    if (!o || o->ndim != 2 || o->shape[nk ? 1 : 0] != w->k || nk != weight_lies_by_rows(m, stack))
        return false;
    w->n = o->shape[nk ? 0 : 1];
    o->shape[0] = w->n;
    o->shape[1] = o->row_stride = w->k;
    if (!tap_torch_product_scaled_mm(m, stack, w))
        return false;
    w->rounding = m->row->own->rounding;
    return true;
}

bool tap_torch_product_own(const struct tap_torch_meaning *m, const td_torch_value *stack,
                           struct td_gpu_work *w)
{
    const struct td_own_row *own = m->row->own;
    const char *dtype = tap_gpu_gemm_operand(w, TD_GPU_IN)->dtype;

    if (!fixed_hold(m, stack))
        return false;
    if (own->kind->eight_bits)
        return read_scaled(m, stack, w);
    if (!is_half(dtype))
        return false;
    w->rounding = td_own_rounding(own->rounding, !strcmp(dtype, "BF16"));
    return own->kind->quantised ? read_gptq(m, stack, w) : read_gemm(m, stack, w);
}

/* lib_own_operators.c - an extension of an engineer's own: operators that nobody but their author
 * knows, registered at lib_fake_torch.so while it is loaded. A file for `record --ops` describes
 * them (docs/own-operators.md).
 * SPDX-License-Identifier: Apache-2.0
 *
 * The memory of the fake GPU is this process's, so they compute on the host: in double, with weights
 * rounded to float16 (w4a16_gemm), the result rounded once. */
#include <stddef.h>

#include "tests/helpers/fake_gptq.h"
#include "tests/helpers/fake_torch.h"

td_torch_init aoti_torch_library_init_fragment;
td_torch_init_impl aoti_torch_library_init_impl;
td_torch_def aoti_torch_library_def;
td_torch_impl_version torch_library_impl;
td_torch_delete aoti_torch_delete_library_object;

static const struct fake_torch_tensor *tensor(td_torch_value value)
{
    return (const struct fake_torch_tensor *)(uintptr_t)value;
}

static uint32_t nibble(const uint32_t *words, int64_t at_word, int64_t i)
{
    return words[at_word] >> 4 * i & 15;
}

struct own_weight { const uint32_t *w, *z; const uint16_t *s; int64_t group; };

/* W as a GPTQ checkpoint has it, each element rounded to half. */
static void own_decode(const void *of, int64_t k, int64_t n, float *to)
{
    const struct own_weight *x = of;

    for (int64_t p = 0; p < k; p++)
        for (int64_t j = 0; j < n; j++) {
            const int q = (int)nibble(x->w, p / 8 * n + j, p % 8) - (int)nibble(x->z, p / x->group * (n / 8) + j / 8, j % 8) - 1;

            fake_set(to, k, p, j, fake_gptq_float(fake_gptq_half((float)q * fake_gptq_float(x->s[p / x->group * n + j]))));
        }
}

static double *multiply(const struct own_weight *x, int64_t m, int64_t n, int64_t k, const double *rows)
{
    const size_t groups = (size_t)(k / x->group * n);
    const struct fake_part parts[] = {{&x->group, sizeof x->group}, {x->w, (size_t)(k * n) / 2}, {x->z, groups / 2}, {x->s, groups * 2}, {NULL, 0}};

    return fake_product(m, n, k, rows, own_decode, x, parts);
}

/* w4a16_gemm(Tensor x, Tensor w, Tensor s, Tensor z, int group, bool fast, float eps, Tensor? b,
 * Tensor! y) -> (): y = x W. */
static void w4a16_gemm(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *x = tensor(stack[0]), *y = tensor(stack[8]);
    const int64_t m = x->sizes[0], k = x->sizes[1], n = y->sizes[1];
    const struct own_weight w = {tensor(stack[1])->data, tensor(stack[3])->data, tensor(stack[2])->data, (int64_t)stack[4]};
    double *rows = fake_doubles_of(x->data, (int)(m * k)), *sums = multiply(&w, m, n, k, rows);

    (void)n_args, (void)n_results;
    fake_halves_of(sums, (int)(m * n), y->data);
    free(sums);
    free(rows);
    memset(stack, 0, 9 * sizeof *stack);
}

/* experts_gemm(Tensor x, Tensor w, Tensor s, Tensor z, Tensor ids, Tensor owner, Tensor count, Tensor? tw, int k, int block,
 * bool mul, Tensor! y) -> (): row slot of y = the row slot / k of x by the expert whose block holds the slot. */
static void experts_gemm(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *x = tensor(stack[0]), *w = tensor(stack[1]), *s = tensor(stack[2]), *z = tensor(stack[3]), *y = tensor(stack[11]);
    const int32_t *ids = tensor(stack[4])->data, *owner = tensor(stack[5])->data, *count = tensor(stack[6])->data;
    const float *factor = stack[10] & 0xff ? tensor(*(const td_torch_value *)(uintptr_t)stack[7])->data : NULL;
    const int64_t m = x->sizes[0], k = x->sizes[1], n = y->sizes[1], block = (int64_t)stack[9], groups = s->sizes[1];
    double *rows = fake_doubles_of(x->data, (int)(m * k));

    (void)n_results;
    for (int64_t e = 0; e < w->sizes[0]; e++) {
        const struct own_weight of = {(const uint32_t *)w->data + e * k / 8 * n, (const uint32_t *)z->data + e * groups * (n / 8),
                                      (const uint16_t *)s->data + e * groups * n, k / groups};
        double *sums = multiply(&of, m, n, k, rows); /* of each row of x, whether it goes to this expert or not */

        for (int64_t i = 0; i < *count; i++)
            for (int64_t j = 0; j < n && ids[i] < y->sizes[0] && owner[i / block] == e; j++)
                ((uint16_t *)y->data)[ids[i] * n + j] =
                    fake_gptq_half((float)(sums[ids[i] / (int64_t)stack[8] * n + j] * (factor ? (double)factor[ids[i]] : 1)));
        free(sums);
    }
    free(rows);
    memset(stack, 0, n_args * sizeof *stack);
}

#define EXPERTS_GEMM "experts_gemm(Tensor x, Tensor w, Tensor s, Tensor z, Tensor ids, Tensor owner, Tensor count, Tensor? tw, int k, " \
                     "int block, bool mul, Tensor! y) -> ()"

/* linear(Tensor x, Tensor weight, Tensor! y, str mode="plain") -> (): y = x weight, [k, n] */
static void linear(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *x = tensor(stack[0]), *y = tensor(stack[2]);
    const int m = (int)x->sizes[0], k = (int)x->sizes[1], n = (int)y->sizes[1];

    (void)n_args, (void)n_results;
    fake_half_product(m, n, k, x->data, tensor(stack[1])->data, false, y->data);
    memset(stack, 0, 4 * sizeof *stack);
}

__attribute__((constructor)) static void register_operators(void)
{
    td_torch_library def, cuda;

    if (aoti_torch_library_init_fragment("mine", __FILE__, __LINE__, &def) ||
        aoti_torch_library_def(def, "w4a16_gemm(Tensor x, Tensor w, Tensor s, Tensor z, int group, bool fast, "
                                    "float eps, Tensor? b, Tensor! y) -> ()") ||
        aoti_torch_library_def(def, "linear(Tensor x, Tensor weight, Tensor! y, str mode=\"plain\") -> ()") ||
        aoti_torch_library_init_impl("mine", "CUDA", __FILE__, __LINE__, &cuda) ||
        aoti_torch_library_def(def, EXPERTS_GEMM) || torch_library_impl(cuda, "experts_gemm", experts_gemm, 1) ||
        torch_library_impl(cuda, "w4a16_gemm", w4a16_gemm, 1) || torch_library_impl(cuda, "linear", linear, 1))
        __builtin_abort();
    aoti_torch_delete_library_object(def);
    aoti_torch_delete_library_object(cuda);
}

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

/* w4a16_gemm(Tensor x, Tensor w, Tensor s, Tensor z, int group, bool fast, float eps, Tensor? b,
 * Tensor! y) -> (): y = x W, W as a GPTQ checkpoint has it. */
static void w4a16_gemm(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *x = tensor(stack[0]), *y = tensor(stack[8]);
    const uint32_t *w = tensor(stack[1])->data, *z = tensor(stack[3])->data;
    const uint16_t *a = x->data, *s = tensor(stack[2])->data;
    const int64_t m = x->sizes[0], k = x->sizes[1], n = y->sizes[1], group = (int64_t)stack[4];
    uint16_t *c = y->data;
    int64_t i, j, p;

    (void)n_args, (void)n_results;
    for (j = 0; j < n; j++)
        for (i = 0; i < m; i++) {
            double sum = 0;

            for (p = 0; p < k; p++) {
                const int q = (int)nibble(w, p / 8 * n + j, p % 8) -
                              (int)nibble(z, p / group * (n / 8) + j / 8, j % 8) - 1;

                sum += (double)fake_gptq_float(a[i * k + p]) *
                       (double)fake_gptq_float(fake_gptq_half((float)q * fake_gptq_float(s[p / group * n + j])));
            }
            c[i * n + j] = fake_gptq_half((float)sum);
        }
    memset(stack, 0, 9 * sizeof *stack);
}

/* A weight of an expert's, rounded to half: row p, output j; e: the expert. */
static double expert_weight(const td_torch_value *stack, int64_t e, int64_t p, int64_t j)
{
    const struct fake_torch_tensor *w = tensor(stack[1]), *s = tensor(stack[2]), *z = tensor(stack[3]);
    const int64_t n = w->sizes[2], words = w->sizes[1], groups = s->sizes[1], group = words * 8 / groups;
    const int64_t row = e * groups + p / group;
    const int q = (int)nibble(w->data, (e * words + p / 8) * n + j, p % 8) - (int)nibble(z->data, row * (n / 8) + j / 8, j % 8) - 1;

    return (double)fake_gptq_float(fake_gptq_half((float)q * fake_gptq_float(((const uint16_t *)s->data)[row * n + j])));
}

/* experts_gemm(Tensor x, Tensor w, Tensor s, Tensor z, Tensor ids, Tensor owner, Tensor count, Tensor? tw, int k, int block,
 * bool mul, Tensor! y) -> (): row slot of y = the row slot / k of x by the expert whose block holds the slot. */
static void experts_gemm(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *x = tensor(stack[0]), *y = tensor(stack[11]);
    const int32_t *ids = tensor(stack[4])->data, *owner = tensor(stack[5])->data, *count = tensor(stack[6])->data;
    const float *factor = stack[10] & 0xff ? tensor(*(const td_torch_value *)(uintptr_t)stack[7])->data : NULL;
    const int64_t k = x->sizes[1], n = y->sizes[1], block = (int64_t)stack[9];
    int64_t i, j, p;

    (void)n_results;
    for (i = 0; i < *count; i++)
        for (j = 0; j < n && ids[i] < y->sizes[0]; j++) {
            const uint16_t *a = (const uint16_t *)x->data + ids[i] / (int64_t)stack[8] * k;
            double sum = 0;

            for (p = 0; p < k; p++)
                sum += (double)fake_gptq_float(a[p]) * expert_weight(stack, owner[i / block], p, j);
            ((uint16_t *)y->data)[ids[i] * n + j] = fake_gptq_half((float)(sum * (factor ? (double)factor[ids[i]] : 1)));
        }
    memset(stack, 0, n_args * sizeof *stack);
}

#define EXPERTS_GEMM "experts_gemm(Tensor x, Tensor w, Tensor s, Tensor z, Tensor ids, Tensor owner, Tensor count, Tensor? tw, int k, " \
                     "int block, bool mul, Tensor! y) -> ()"

/* linear(Tensor x, Tensor weight, Tensor! y, str mode="plain") -> (): y = x weight, [k, n] */
static void linear(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *x = tensor(stack[0]), *y = tensor(stack[2]);
    const uint16_t *a = x->data, *w = tensor(stack[1])->data;
    const int64_t m = x->sizes[0], k = x->sizes[1], n = y->sizes[1];
    uint16_t *c = y->data;
    int64_t i, j, p;

    (void)n_args, (void)n_results;
    for (j = 0; j < n; j++)
        for (i = 0; i < m; i++) {
            double sum = 0;

            for (p = 0; p < k; p++)
                sum += (double)fake_gptq_float(a[i * k + p]) * (double)fake_gptq_float(w[p * n + j]);
            c[i * n + j] = fake_gptq_half((float)sum);
        }
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

/* adapter.c - the rows: vLLM's gptq kernels (exllama), Marlin, and our own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source of the parameters: vLLM 0.26, csrc/quantization/gptq/q_gemm.cu, and the same file before use_v2_format was added; offsets and sizes were
 * seen on an H200. Weights of layout "exllama": qweight [k * bits / 32, n] i32 shuffled inside its words (model/exllama_layout.h), qzeros [groups,
 * n * bits / 32] i32 and scales [groups, n] f16 as in the checkpoint, perm [k] i32 or none.
 * Marlin: csrc/quantization/marlin/kernel.h of vLLM 0.26 (MARLIN_KERNEL_PARAMS); weights of layout "marlin" (model/marlin_layout.h). c_tmp holds
 * min(m rounded up to 16, 64) * 256 floats for each multiprocessor, locks an int for each (vLLM has four). With act-order vLLM sorts A's columns in a
 * launch of permute_cols_kernel before: A is what the kernel gets. Where there is more than one group each weight, (q - zero) * scale, is rounded to
 * 16 bits before the product (marlin_template.h, scale). A later signature, without groups and g_idx, is not known. */
#include "kernels/adapters/adapter.h"

#include <string.h>

#define SIZE_MAX_DIM (1ll << 28)       /* of m, n and k: no product of two of them by 8 overflows */
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/* ---- symbols ------------------------------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool td_gpu_symbol_is(const char *symbol, const char *identifier)
{
    size_t want = strlen(identifier);
    const char *p;

    if (!strcmp(symbol, identifier))
        return true;
    if (strncmp(symbol, "_Z", 2))
        return false;
    for (p = symbol + 2; *p;) {
        size_t len = 0;

        if (!is_digit(*p)) {
            p++;
            continue;
        }
        while (is_digit(*p) && len < 4096)
            len = len * 10 + (size_t)(*p++ - '0');
        if (len == want && !strncmp(p, identifier, want))
            return true;
        if (strnlen(p, len) < len)
            return false;
        p += len; /* never past the end */
    }
    return false;
}

/* "Lb1E", "Lin1E": the literal at p, which points behind its L. */
static bool read_literal(const char *p, int64_t *value)
{
    bool negative;

    if (!*p || !strchr("bijlmxy", *p++))
        return false;
    negative = *p == 'n';
    p += negative;
    for (*value = 0; is_digit(*p) && *value <= INT64_MAX / 10 - 1; p++)
        *value = *value * 10 + (*p - '0');
    if (*p != 'E' || !is_digit(p[-1]))
        return false;
    *value = negative ? -*value : *value;
    return true;
}

int64_t td_gpu_symbol_argument(const char *symbol, int n)
{
    const char *p = symbol;
    int64_t value;

    while ((p = strchr(p, 'L')))
        if (read_literal(++p, &value) && n-- == 0)
            return value;
    return TD_GPU_NO_ARGUMENT;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static uint64_t get(const struct td_gpu_adapter *row, const struct td_gpu_values *v, const char *name)
{
    int i = td_gpu_field_at(row, name);

    return i < 0 ? 0 : v->value[i];
}

static bool is_size(int64_t x)
{
    return x > 0 && x <= SIZE_MAX_DIM;
}

/* Operand `role`, if the row has it: [rows, cols] of `dtype`, dense. */
static void add(struct td_gpu_work *w, const struct td_gpu_values *v, const char *role, const char *dtype, uint64_t element_bytes, int64_t rows, int64_t cols)
{
    int i = td_gpu_field_at(w->adapter, role);
    struct td_gpu_operand *o;

    if (i < 0 || w->n_op == TD_GPU_OPERANDS)
        return;
    o = &w->op[w->n_op++];
    *o = (struct td_gpu_operand){.role = role, .dtype = dtype, .use = w->adapter->fields[i].use, .address = v->value[i], .ndim = rows ? 2 : 1,
                                 .shape = {rows ? rows : cols, rows ? cols : 0}, .row_stride = cols,
                                 .bytes = (uint64_t)(rows ? rows : 1) * (uint64_t)cols * element_bytes};
}

/* a [m, k] f16, qweight [k * bits / 32, n], qzeros [groups, n * bits / 32], scales [groups, n] f16, perm or g_idx [k], c [m, n] f16; b [k, n] f16:
 * W */
static bool read_gptq(const struct td_gpu_adapter *row, const struct td_gpu_values *v, struct td_gpu_work *w)
{
    int64_t groups = (int32_t)get(row, v, "groups"), per_word = 32 / row->bits;

    w->m = td_gpu_field_at(row, "m") < 0 ? w->m : (int32_t)get(row, v, "m");
    w->n = (int32_t)get(row, v, "n");
    w->k = (int32_t)get(row, v, "k");
    w->bits = row->bits;
    if (!is_size(w->n) || !is_size(w->k) || !is_size(groups) || w->k % groups || w->k % per_word || w->n % per_word)
        return false;
    w->group_size = (int)(w->k / groups);
    w->zero_offset = td_gpu_field_at(row, "v2") < 0 || !get(row, v, "v2");
    w->act_order = get(row, v, "perm") || get(row, v, "g_idx");
    add(w, v, "a", "F16", 2, w->m, w->k);
    add(w, v, "qweight", "I32", 4, w->k / per_word, w->n);
    add(w, v, "qzeros", "I32", 4, groups, w->n / per_word);
    add(w, v, "scales", "F16", 2, groups, w->n);
    add(w, v, "perm", "I32", 4, 0, w->k);
    add(w, v, "g_idx", "I32", 4, 0, w->k);
    add(w, v, "c", "F16", 2, w->m, w->n);
    add(w, v, "b", "F16", 2, w->k, w->n);
    return true;
}

/* The same, rows of a and c lda and ldc apart, g_idx or perm, zero_offset as a number. c is the last operand. */
static bool read_td_gptq(const struct td_gpu_adapter *row, const struct td_gpu_values *v, struct td_gpu_work *w)
{
    int64_t lda = (int64_t)get(row, v, "lda"), ldc = (int64_t)get(row, v, "ldc");
    uint64_t zero_offset = get(row, v, "zero_offset");

    if (!read_gptq(row, v, w) || lda < w->k || ldc < w->n || lda > SIZE_MAX_DIM || ldc > SIZE_MAX_DIM || zero_offset > 1)
        return false;
    w->zero_offset = (int)zero_offset;
    w->op[0].row_stride = lda;
    w->op[w->n_op - 1].row_stride = ldc;
    return true;
}

/* a [m, k], rows lda apart, qweight [k / 16, n * bits / 2], scales [groups, n], bias [n], qzeros [groups, n * bits / 32], g_idx [k], c [m, n] */
static bool read_marlin(const struct td_gpu_adapter *row, const struct td_gpu_values *v, const char *dtype, struct td_gpu_work *w)
{
    int64_t groups = (int32_t)get(row, v, "groups"), lda = (int32_t)get(row, v, "lda");

    w->m = (int32_t)get(row, v, "m");
    w->n = (int32_t)get(row, v, "n");
    w->k = (int32_t)get(row, v, "k");
    w->bits = row->bits;
    if (!is_size(w->n) || !is_size(w->k) || !is_size(groups) || !is_size(lda) || w->k % groups || w->k % 16 || w->n % 64 || lda < w->k)
        return false;
    w->group_size = (int)(w->k / groups);
    w->act_order = td_gpu_field_at(row, "g_idx") >= 0;
    if (groups > 1) /* else sums are scaled */
        w->rounding = dtype[0] == 'B' ? "weight-bf16" : "weight-f16";
    add(w, v, "a", dtype, 2, w->m, w->k);
    w->op[0].row_stride = lda;
    add(w, v, "qweight", "I32", 4, w->k / 16, w->n * w->bits / 2);
    add(w, v, "scales", dtype, 2, groups, w->n);
    add(w, v, "qzeros", "I32", 4, groups, w->n * w->bits / 32);
    add(w, v, "g_idx", "I32", 4, 0, w->k);
    if (get(row, v, "has_bias"))
        add(w, v, "bias", dtype, 2, 0, w->n);
    add(w, v, "c", dtype, 2, w->m, w->n);
    return true;
}

static bool read_marlin_f16(const struct td_gpu_adapter *row, const struct td_gpu_values *v, struct td_gpu_work *w)
{
    return read_marlin(row, v, "F16", w);
}

static bool read_marlin_bf16(const struct td_gpu_adapter *row, const struct td_gpu_values *v, struct td_gpu_work *w)
{
    return read_marlin(row, v, "BF16", w);
}

/* ---- the rows ------------------------------------------------------------------------------------------------------ */

#define GPTQ_START {"a", 8, TD_GPU_IN}, {"qweight", 8, TD_GPU_WEIGHT}, {"qzeros", 8, TD_GPU_WEIGHT}, {"scales", 8, TD_GPU_WEIGHT}, {"c", 8, TD_GPU_OUT_ZEROED}, \
                   {"m", 4, TD_GPU_SCALAR}, {"n", 4, TD_GPU_SCALAR}, {"k", 4, TD_GPU_SCALAR}, {"groups", 4, TD_GPU_SCALAR}
static const struct td_gpu_field gptq_v2[] = {GPTQ_START, {"v2", 1, TD_GPU_SCALAR}, {"perm", 8, TD_GPU_WEIGHT}};
static const struct td_gpu_field gptq_v1[] = {GPTQ_START, {"perm", 8, TD_GPU_WEIGHT}};
/* kernels/gptq_gemm/gptq_gemm_cu.h */
#define TD_GPTQ(order) {"a", 8, TD_GPU_IN}, {"qweight", 8, TD_GPU_WEIGHT}, {"qzeros", 8, TD_GPU_WEIGHT}, {"scales", 8, TD_GPU_WEIGHT}, {order, 8, TD_GPU_WEIGHT}, \
                       {"c", 8, TD_GPU_OUT}, {"m", 4, TD_GPU_SCALAR}, {"n", 4, TD_GPU_SCALAR}, {"k", 4, TD_GPU_SCALAR}, {"groups", 4, TD_GPU_SCALAR}, \
                       {"zero_offset", 4, TD_GPU_SCALAR}, {"lda", 8, TD_GPU_SCALAR}, {"ldc", 8, TD_GPU_SCALAR}
static const struct td_gpu_field td_gptq[] = {TD_GPTQ("g_idx")};
static const struct td_gpu_field td_gptq_exllama[] = {TD_GPTQ("perm")};
#define TD_GPTQ_ROWS(bits, accumulator) \
    {"td_gptq", "td_gptq_gemm_" #bits "bit_" accumulator, "gptq_gemm", "checkpoint", td_gptq, COUNT(td_gptq), bits, NULL, 0, read_td_gptq}, \
    {"td_gptq", "td_gptq_gemm_exllama_" #bits "bit_" accumulator, "gptq_gemm", "exllama", td_gptq_exllama, COUNT(td_gptq_exllama), bits, NULL, 0, read_td_gptq}

#define UNUSED {"unused", 8, TD_GPU_SCALAR}
#define MARLIN(zp, g_idx) {"a", 8, TD_GPU_IN}, {"qweight", 8, TD_GPU_WEIGHT}, {"c", 8, TD_GPU_OUT}, {"c_tmp", 8, TD_GPU_SCRATCH}, {"bias", 8, TD_GPU_WEIGHT}, \
                          UNUSED, {"scales", 8, TD_GPU_WEIGHT}, UNUSED, zp, g_idx, {"groups", 4, TD_GPU_SCALAR}, {"m", 4, TD_GPU_SCALAR}, {"n", 4, TD_GPU_SCALAR}, \
                          {"k", 4, TD_GPU_SCALAR}, {"lda", 4, TD_GPU_SCALAR}, {"locks", 8, TD_GPU_ZEROED}, {"has_bias", 1, TD_GPU_SCALAR}, \
                          {"use_atomic_add", 1, TD_GPU_SCALAR}, {"use_fp32_reduce", 1, TD_GPU_SCALAR}, {"max_shared_mem", 4, TD_GPU_SCALAR}
#define ZEROS {"qzeros", 8, TD_GPU_WEIGHT}
#define G_IDX {"g_idx", 8, TD_GPU_WEIGHT}
static const struct td_gpu_field marlin[] = {MARLIN(UNUSED, UNUSED)}, marlin_g_idx[] = {MARLIN(UNUSED, G_IDX)}, marlin_zeros[] = {MARLIN(ZEROS, UNUSED)};

/* Template arguments of Marlin: types of A, B, C and the scales, threads, blocks of m, n and k, m_block_size_8, stages, group_blocks, is_zp_float.
 * group_blocks is 0 where rows of a group do not lie together, and only then g_idx is read. */
#define MARLIN_TYPES(a, b) {0, a}, {1, b}, {2, a}, {3, a}, {11, 0}, {12, TD_GPU_NO_ARGUMENT}
static const struct td_gpu_argument f16_u4b8[] = {MARLIN_TYPES(TD_GPU_VLLM_F16, TD_GPU_VLLM_U4B8), {10, 0}}, bf16_u4b8[] = {MARLIN_TYPES(TD_GPU_VLLM_BF16, TD_GPU_VLLM_U4B8), {10, 0}};
static const struct td_gpu_argument f16_u8b128[] = {MARLIN_TYPES(TD_GPU_VLLM_F16, TD_GPU_VLLM_U8B128), {10, 0}}, bf16_u8b128[] = {MARLIN_TYPES(TD_GPU_VLLM_BF16, TD_GPU_VLLM_U8B128), {10, 0}};
static const struct td_gpu_argument f16_u4[] = {MARLIN_TYPES(TD_GPU_VLLM_F16, TD_GPU_VLLM_U4)}, bf16_u4[] = {MARLIN_TYPES(TD_GPU_VLLM_BF16, TD_GPU_VLLM_U4)};

/* A row for weights whose rows lie in any order comes before the one for those in order of groups: it asks for more. */
#define MARLIN_ROW(family, fields, bits, types, n, read) {family, "Marlin", "gptq_gemm", "marlin", fields, COUNT(fields), bits, types, n, read}
#define MARLIN_ROWS(name, bits, types, read) \
    MARLIN_ROW("marlin_" name "_g_idx", marlin_g_idx, bits, types, 7, read), MARLIN_ROW("marlin_" name, marlin, bits, types, 6, read)

/* Prompts of more than 50 rows: W is made whole, in halves, and the product is cuBLAS's (cublasHgemm, the next call). */
#define RECONSTRUCT_START {"qweight", 8, TD_GPU_WEIGHT}, {"perm", 8, TD_GPU_WEIGHT}, {"qzeros", 8, TD_GPU_WEIGHT}, {"scales", 8, TD_GPU_WEIGHT}, \
                          {"k", 4, TD_GPU_SCALAR}, {"n", 4, TD_GPU_SCALAR}, {"groups", 4, TD_GPU_SCALAR}
static const struct td_gpu_field reconstruct_v2[] = {RECONSTRUCT_START, {"v2", 1, TD_GPU_SCALAR}, {"b", 8, TD_GPU_OUT}};
static const struct td_gpu_field reconstruct_v1[] = {RECONSTRUCT_START, {"b", 8, TD_GPU_OUT}};

static const struct td_gpu_adapter rows[] = {
    {"reconstruct_exllama", "reconstruct_exllama_4bit_kernel", "gptq_reconstruct", "exllama", reconstruct_v2, COUNT(reconstruct_v2), 4, NULL, 0, read_gptq},
    {"reconstruct_exllama", "reconstruct_exllama_4bit_kernel", "gptq_reconstruct", "exllama", reconstruct_v1, COUNT(reconstruct_v1), 4, NULL, 0, read_gptq},
    {"reconstruct_exllama_8bit", "reconstruct_exllama_8bit_kernel", "gptq_reconstruct", "exllama", reconstruct_v2, COUNT(reconstruct_v2), 8, NULL, 0, read_gptq},
    {"reconstruct_exllama_8bit", "reconstruct_exllama_8bit_kernel", "gptq_reconstruct", "exllama", reconstruct_v1, COUNT(reconstruct_v1), 8, NULL, 0, read_gptq},
    {"gptq_exllama", "gemm_half_q_half_gptq_4bit_kernel", "gptq_gemm", "exllama", gptq_v2, COUNT(gptq_v2), 4, NULL, 0, read_gptq},
    {"gptq_exllama", "gemm_half_q_half_gptq_4bit_kernel", "gptq_gemm", "exllama", gptq_v1, COUNT(gptq_v1), 4, NULL, 0, read_gptq},
    {"gptq_exllama_8bit", "gemm_half_q_half_gptq_8bit_kernel", "gptq_gemm", "exllama", gptq_v2, COUNT(gptq_v2), 8, NULL, 0, read_gptq},
    {"gptq_exllama_8bit", "gemm_half_q_half_gptq_8bit_kernel", "gptq_gemm", "exllama", gptq_v1, COUNT(gptq_v1), 8, NULL, 0, read_gptq},
    MARLIN_ROWS("u4b8_f16", 4, f16_u4b8, read_marlin_f16),
    MARLIN_ROWS("u4b8_bf16", 4, bf16_u4b8, read_marlin_bf16),
    MARLIN_ROWS("u8b128_f16", 8, f16_u8b128, read_marlin_f16),
    MARLIN_ROWS("u8b128_bf16", 8, bf16_u8b128, read_marlin_bf16),
    MARLIN_ROW("marlin_u4_f16", marlin_zeros, 4, f16_u4, COUNT(f16_u4), read_marlin_f16),
    MARLIN_ROW("marlin_u4_bf16", marlin_zeros, 4, bf16_u4, COUNT(bf16_u4), read_marlin_bf16),
    TD_GPTQ_ROWS(4, "f32"), TD_GPTQ_ROWS(8, "f32"), TD_GPTQ_ROWS(4, "f16"), TD_GPTQ_ROWS(8, "f16"),
};

const struct td_gpu_adapter *td_gpu_adapter_at(int i)
{
    return i >= 0 && i < COUNT(rows) ? &rows[i] : NULL;
}

int td_gpu_field_at(const struct td_gpu_adapter *row, const char *name)
{
    int i;

    for (i = 0; i < row->n_fields; i++)
        if (!strcmp(row->fields[i].name, name))
            return i;
    return -1;
}

static bool fits(const struct td_gpu_adapter *row, const char *symbol, const struct td_gpu_param *params, int n_params)
{
    int i;

    if (n_params != row->n_fields)
        return false;
    for (i = 0; i < row->n_arguments; i++)
        if (td_gpu_symbol_argument(symbol, row->arguments[i].at) != row->arguments[i].value)
            return false;
    for (i = 0; i < n_params; i++)
        if (params[i].size != row->fields[i].size)
            return false;
    return true;
}

const struct td_gpu_adapter *td_gpu_adapter_find(const char *symbol, const struct td_gpu_param *params, int n_params, bool *known)
{
    const struct td_gpu_adapter *row;
    bool named = false;
    int i;

    for (i = 0; (row = td_gpu_adapter_at(i)); i++) {
        if (!td_gpu_symbol_is(symbol, row->identifier))
            continue;
        named = true;
        if (fits(row, symbol, params, n_params))
            break;
    }
    if (known)
        *known = named;
    return row;
}

bool td_gpu_symbol_adds(const char *symbol)
{
    const struct td_gpu_adapter *row;

    for (int i = 0; (row = td_gpu_adapter_at(i)); i++)
        if (td_gpu_symbol_is(symbol, row->identifier)) {
            int c = td_gpu_field_at(row, "c");

            return c >= 0 && row->fields[c].use == TD_GPU_OUT_ZEROED;
        }
    return false;
}

bool td_gpu_values_read(const struct td_gpu_adapter *row, const struct td_gpu_param *params, void *const *kernel_params, const void *block, size_t block_bytes,
                        struct td_gpu_values *v)
{
    int i;

    memset(v, 0, sizeof *v);
    for (i = 0; i < row->n_fields; i++) {
        uint32_t size = row->fields[i].size;
        const void *from;

        if (!kernel_params && (!block || params[i].offset > block_bytes || size > block_bytes - params[i].offset))
            return false;
        from = kernel_params ? kernel_params[i] : (const uint8_t *)block + params[i].offset;
        if (!from)
            return false;
        if (size <= sizeof v->value[i])
            memcpy(&v->value[i], from, size); /* little-endian */
    }
    return true;
}

bool td_gpu_work_read(const struct td_gpu_adapter *row, const struct td_gpu_values *v, struct td_gpu_work *w)
{
    memset(w, 0, sizeof *w);
    w->adapter = row;
    return row->read(row, v, w) && (td_gpu_field_at(row, "m") < 0 || is_size(w->m));
}

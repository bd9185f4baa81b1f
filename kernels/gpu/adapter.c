/* adapter.c - the rows: vLLM's gptq kernels (exllama), and our own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source of the parameters: vLLM 0.26, csrc/quantization/gptq/q_gemm.cu, and the same file before use_v2_format was added; offsets and sizes were
 * seen on an H200. Weights of layout "exllama": qweight [k * bits / 32, n] i32 shuffled inside its words (model/exllama_layout.h), qzeros [groups,
 * n * bits / 32] i32 and scales [groups, n] f16 as in the checkpoint, perm [k] i32 or none. */
#include "kernels/gpu/adapter.h"

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
    for (p = symbol + 2; *p; p++) {
        size_t len = 0;

        if (!is_digit(*p) || is_digit(p[-1]))
            continue;
        while (is_digit(*p) && len < 4096)
            len = len * 10 + (size_t)(*p++ - '0');
        if (len == want && !strncmp(p, identifier, want))
            return true;
        if (strnlen(p, len) < len)
            return false;
        p += len - (len > 0);
    }
    return false;
}

int64_t td_gpu_symbol_argument(const char *symbol, int n)
{
    const char *p = symbol;

    while ((p = strchr(p, 'L'))) {
        int64_t value = 0;
        const char *d = p + 2;

        p++;
        if (!strchr("bijlmxy", *p) || !*p || !is_digit(*d))
            continue;
        while (is_digit(*d) && value < SIZE_MAX_DIM)
            value = value * 10 + (*d++ - '0');
        if (*d == 'E' && n-- == 0)
            return value;
    }
    return -1;
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

/* a [m, k] f16, qweight [k * bits / 32, n], qzeros [groups, n * bits / 32], scales [groups, n] f16, perm or g_idx [k], c [m, n] f16 */
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
    {"td_gptq", "td_gptq_gemm_" #bits "bit_" accumulator, "gptq_gemm", "checkpoint", td_gptq, COUNT(td_gptq), bits, read_td_gptq}, \
    {"td_gptq", "td_gptq_gemm_exllama_" #bits "bit_" accumulator, "gptq_gemm", "exllama", td_gptq_exllama, COUNT(td_gptq_exllama), bits, read_td_gptq}

static const struct td_gpu_adapter rows[] = {
    {"gptq_exllama", "gemm_half_q_half_gptq_4bit_kernel", "gptq_gemm", "exllama", gptq_v2, COUNT(gptq_v2), 4, read_gptq},
    {"gptq_exllama", "gemm_half_q_half_gptq_4bit_kernel", "gptq_gemm", "exllama", gptq_v1, COUNT(gptq_v1), 4, read_gptq},
    {"gptq_exllama_8bit", "gemm_half_q_half_gptq_8bit_kernel", "gptq_gemm", "exllama", gptq_v2, COUNT(gptq_v2), 8, read_gptq},
    {"gptq_exllama_8bit", "gemm_half_q_half_gptq_8bit_kernel", "gptq_gemm", "exllama", gptq_v1, COUNT(gptq_v1), 8, read_gptq},
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

static bool fits(const struct td_gpu_adapter *row, const struct td_gpu_param *params, int n_params)
{
    int i;

    if (n_params != row->n_fields)
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
        if (fits(row, params, n_params))
            break;
    }
    if (known)
        *known = named;
    return row;
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

/* torch_cache.c - a call of an operator that writes keys and values into a cache, read as the work
 * of one launch.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The list of slots says how many rows are written; keys may have more, which pad a batch. Where
 * the rows lie is known on the device alone: they are copied from there (gpu_cache_rows.h).
 *
 * Source of the layouts: vLLM 0.26, csrc/libtorch_stable/cache_kernels.cu. */
#include "recorder/tap/torch/torch_beside.h"

#include <string.h>

#include "recorder/tap/gpu/gpu_cache_rows.h"
#include "recorder/tap/torch/torch_arguments.h"

/* What lies in the cache: the tensors' own numbers, or codes of 8 bits. NULL: something else. */
static const char *stored_type(const char *says, const struct tap_torch_tensor *a)
{
    static const struct {
        const char *says, *dtype;
    } types[] = {
        {"auto", NULL},     {"float16", NULL},       {"bfloat16", NULL},
        {"fp8", "F8_E4M3"}, {"fp8_e4m3", "F8_E4M3"}, {"fp8_e5m2", "F8_E5M2"},
    };
    size_t i;

    for (i = 0; says && i < sizeof types / sizeof *types; i++)
        if (!strcmp(says, types[i].says))
            return types[i].dtype ? types[i].dtype : tap_torch_dtype_name(a->dtype);
    return NULL;
}

/* Do elements of the cache have this type? Codes lie in bytes without a sign, or in floats of 8
 * bits. */
static bool has_type(const struct tap_torch_tensor *cache, const struct tap_torch_tensor *a,
                     bool codes)
{
    if (!codes)
        return cache->dtype == a->dtype;
    return cache->dtype == TD_TORCH_U8 || cache->dtype == TD_TORCH_F8_E4M3 ||
           cache->dtype == TD_TORCH_F8_E5M2;
}

/* ---- layouts --------------------------------------------------------------------------------- */

/* A cache as the kernels see it: elements between the parts, not bytes. */
struct layout {
    int64_t blocks, block, block_stride, slot_stride, piece, pieces, pitch, head, x;
};

/* [blocks, block, heads, head]: heads may lie apart, each with its slots. */
static bool read_flash(const struct tap_torch_tensor *t, struct layout *l)
{
    const bool apart = t->sizes[2] > 1 && t->strides[2] != t->sizes[3];

    *l = (struct layout){.blocks = t->sizes[0],
                         .block = t->sizes[1],
                         .block_stride = t->strides[0],
                         .slot_stride = t->strides[1],
                         .piece = apart ? t->sizes[3] : t->sizes[2] * t->sizes[3],
                         .pieces = apart ? t->sizes[2] : 1,
                         .pitch = apart ? t->strides[2] : t->sizes[2] * t->sizes[3],
                         .head = t->sizes[3]};
    return t->strides[3] == 1 || t->sizes[3] == 1;
}

/* Keys as [blocks, heads, head / x, block, x]; values as [blocks, heads, head, block]. */
static bool read_packed(const struct tap_torch_tensor *t, struct layout *l)
{
    const int64_t x = t->ndim == 5 ? t->sizes[4] : 1;

    *l = (struct layout){.blocks = t->sizes[0],
                         .block = t->sizes[3],
                         .block_stride = t->sizes[1] * t->sizes[2] * t->sizes[3] * x,
                         .slot_stride = x,
                         .piece = x,
                         .pieces = t->sizes[1] * t->sizes[2],
                         .pitch = t->sizes[3] * x,
                         .head = t->sizes[2] * x,
                         .x = x};
    return tap_torch_is_dense(t);
}

/* [blocks, block, row] */
static bool read_joint(const struct tap_torch_tensor *t, struct layout *l)
{
    *l = (struct layout){.blocks = t->sizes[0],
                         .block = t->sizes[1],
                         .block_stride = t->strides[0],
                         .slot_stride = t->strides[1],
                         .piece = t->sizes[2],
                         .pieces = 1,
                         .pitch = t->sizes[2]};
    return t->strides[2] == 1 || t->sizes[2] == 1;
}

enum form { FLASH, PACKED, JOINT };

static bool read_layout(const struct tap_torch_tensor *t, enum form form, struct layout *l)
{
    int i;

    for (i = 0; i < t->ndim; i++)
        if (t->sizes[i] < 1 || t->sizes[i] > TD_GPU_MAX_SIZE || t->strides[i] > 1ll << 40)
            return false;
    if (form == JOINT)
        return t->ndim == 3 && read_joint(t, l);
    if (form == PACKED)
        return (t->ndim == 4 || t->ndim == 5) && read_packed(t, l);
    return t->ndim == 4 && read_flash(t, l);
}

static struct td_gpu_cache cache_of(const struct tap_torch_tensor *t, const struct layout *l,
                                    uint64_t size)
{
    return (struct td_gpu_cache){.address = (uintptr_t)t->data,
                                 .slots = l->blocks * l->block,
                                 .block = l->block,
                                 .block_bytes = (uint64_t)l->block_stride * size,
                                 .slot_bytes = (uint64_t)l->slot_stride * size,
                                 .piece_bytes = (uint64_t)l->piece * size,
                                 .piece_pitch = (uint64_t)l->pitch * size};
}

/* ---- the call -------------------------------------------------------------------------------- */

struct reading {
    const struct tap_torch_meaning *m;
    struct td_gpu_work *w;
    struct tap_torch_tensor t[TAP_TORCH_ROLES]; /* the tensors of the roles */
    int n;                                      /* roles */
    const char *type;                           /* of what is stored */
    bool codes;
    enum form form; /* of the caches */
};

/* The tensor in that role. Every row with a cache has roles "a" and "slots". */
static const struct tap_torch_tensor *in_role(const struct reading *r, const char *role)
{
    int i = 0;

    while (i < r->n && strcmp(r->m->row->roles[i].role, role))
        i++;
    return i < r->n ? &r->t[i] : NULL;
}

static bool read_tensors(struct reading *r, const td_torch_value *stack)
{
    const struct tap_torch_meaning *m = r->m;

    for (r->n = 0; r->n < TAP_TORCH_ROLES && m->row->roles[r->n].arg; r->n++)
        if (!tap_torch_argument_on_gpu(&m->schema->arg[m->role[r->n]], stack[m->role[r->n]],
                                       &r->t[r->n]))
            return false;
    return true;
}

/* The list, and what is stored by it. */
static bool read_call(struct reading *r, const td_torch_value *stack)
{
    const struct tap_torch_tensor *a = in_role(r, "a"), *list = in_role(r, "slots");
    const int type = r->m->cache_type;

    r->type = stored_type(tap_torch_text_of(&r->m->schema->arg[type], stack[type]), a);
    r->codes = r->type && !strncmp(r->type, "F8", 2);
    if (!in_role(r, "value"))
        r->form = JOINT;
    else /* by the cache of keys, which comes before that of values */
        r->form = r->t[r->n - 2].ndim == 5 ? PACKED : FLASH;
    r->w->m = list->ndim == 1 ? list->sizes[0] : -1;
    return r->type && list->dtype == TD_TORCH_I64 && tap_torch_is_dense(list) && r->w->m >= 0 &&
           r->w->m <= TD_GPU_MAX_SIZE && a->ndim > 1 && a->sizes[0] >= r->w->m;
}

/* An input: of keys and values as many rows as the list has. Scales do nothing where no codes are
 * made. */
static bool add_input(struct reading *r, int i)
{
    const struct tap_torch_role *role = &r->m->row->roles[i];
    const bool is_scale = strstr(role->role, "scale");
    struct tap_torch_tensor t = r->t[i];
    int64_t sizes[TAP_DIMS];

    if (is_scale)
        return !r->codes || (t.dtype == TD_TORCH_F32 && tap_torch_beside_add(r->w, role, &t));
    if (!strcmp(role->role, "slots")) {
        r->w->list = 1 + r->w->n_op;
        return tap_torch_beside_add(r->w, role, &t);
    }
    if (t.ndim < 2 || t.sizes[0] < r->w->m || t.dtype != in_role(r, "a")->dtype)
        return false;
    memcpy(sizes, t.sizes, sizeof *sizes * (size_t)t.ndim);
    sizes[0] = r->w->m;
    t.sizes = sizes;
    return tap_torch_beside_add(r->w, role, &t);
}

/* The rows that are written into a cache, as an output. */
static bool add_rows(struct reading *r, int i, int part, struct layout *l)
{
    const struct tap_torch_tensor *t = &r->t[i];
    const uint64_t size = tap_torch_dtype_bytes(t->dtype);
    struct td_gpu_work *w = r->w;
    int64_t cols;

    if (part == TD_GPU_CACHES || w->n_op == TD_GPU_OPERANDS || !t->data ||
        !has_type(t, in_role(r, "a"), r->codes) || !read_layout(t, r->form, l) ||
        __builtin_mul_overflow(l->piece, l->pieces, &cols) || cols > TD_GPU_MAX_SIZE)
        return false;
    w->cache[part] = cache_of(t, l, size);
    w->op[w->n_op++] = (struct td_gpu_operand){.role = "c",
                                               .dtype = r->type,
                                               .use = TD_GPU_OUT,
                                               .address = (uintptr_t)t->data,
                                               .ndim = 2,
                                               .shape = {w->m, cols},
                                               .row_stride = cols,
                                               .bytes = (uint64_t)w->m * (uint64_t)cols * size};
    return true;
}

static void add_attr(struct td_gpu_work *w, const char *name, int64_t value)
{
    w->attr[w->n_attr++] = (struct td_gpu_attr){name, value};
}

/* What a replay makes such a cache from: of its keys. */
static void set_attrs(struct reading *r, const struct layout *l)
{
    add_attr(r->w, "block_size", l->block);
    if (r->form == JOINT)
        return;
    add_attr(r->w, "head", l->head);
    if (r->form == PACKED)
        add_attr(r->w, "x", l->x);
    else
        add_attr(r->w, "apart", l->pieces > 1);
}

static bool read_operands(struct reading *r)
{
    struct layout l, keys = {.blocks = 0};
    int i, part = 0;

    for (i = 0; i < r->n; i++) {
        if (r->m->row->roles[i].use == TD_GPU_IN ? !add_input(r, i) : !add_rows(r, i, part, &l))
            return false;
        if (r->m->row->roles[i].use == TD_GPU_OUT && !part++)
            keys = l;
    }
    r->w->n = r->w->op[0].shape[1];
    set_attrs(r, &keys);
    return true;
}

enum tap_torch_product tap_torch_cache_read(const struct tap_torch_meaning *m,
                                            const td_torch_value *stack, struct td_gpu_work *w,
                                            td_torch_tensor *a)
{
    struct reading r = {.m = m, .w = w};

    *a = tap_torch_tensor_of(&m->schema->arg[m->role[0]], stack[m->role[0]]);
    if (!tap_gpu_cache_rows_ready() || !read_tensors(&r, stack) || !read_call(&r, stack))
        return TAP_TORCH_UNKNOWN;
    if (!w->m)
        return TAP_TORCH_EMPTY;
    if (!read_operands(&r))
        return TAP_TORCH_UNKNOWN;
    w->in_step = true;
    return TAP_TORCH_READ;
}

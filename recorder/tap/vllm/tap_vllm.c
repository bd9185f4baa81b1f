/* tap_vllm.c - the front for vLLM on a CPU: it stands before vLLM's exported C++ functions
 * int4_scaled_mm_cpu, cpu_gemm_wna16 and onednn_mm, and before torch's at::linear, which vLLM uses
 * where oneDNN has no kernel (bf16 on a CPU with AVX2 only).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: vLLM 0.32, csrc/cpu (torch_bindings.cpp, cpu_wna16.cpp, dnnl_kernels.cpp) and
 * csrc/cpu/sgl-kernels/gemm_int4.cpp. The names are mangled with all argument types, so a build
 * with another signature has other names, which nothing here stands before. kernels/abi/torch_abi.h
 * says how C++ passes tensors.
 *
 * Steps: vLLM does not announce forward passes. It starts with a run of its own over all layers, so
 * the weights that a thread multiplies with first of all are those of the first layer: each time
 * they come round, a step begins.
 *
 * oneDNN repacks a weight when the model is loaded and keeps it behind a handler: a fingerprint
 * made before that says what the handler holds. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/tap/core/tap.h"
#include "recorder/tap/torch/torch_fingerprints.h"

#define int4_scaled_mm_cpu _Z18int4_scaled_mm_cpuRN2at6TensorES1_S1_S1_St8optionalIS0_E
#define cpu_gemm_wna16                                                                             \
    _Z14cpu_gemm_wna16RKN2at6TensorES2_RS0_S2_RKSt8optionalIS0_ES7_lRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE
#define onednn_mm _Z9onednn_mmRN2at6TensorERKS0_RKSt8optionalIS0_ES3_
#define at_linear _ZN2at4_ops6linear4callERKNS_6TensorES4_RKSt8optionalIS2_E
#define create_onednn_mm_handler _Z24create_onednn_mm_handlerRKN2at6TensorEl
#define NAME_(x) #x
#define NAME(x) NAME_(x)

typedef td_torch_tensor tensor;
typedef struct td_torch_optional optional;
typedef void *int4_fn(void *ret, tensor x, tensor w, tensor zeros, tensor scales,
                      const optional *bias);
typedef void wna16_fn(tensor x, tensor w, tensor out, tensor scales, const optional *zeros,
                      const optional *bias, int64_t pack, const void *isa);
typedef void onednn_fn(tensor out, tensor x, const optional *bias, tensor handler);
typedef int64_t create_fn(tensor b, int64_t cache);
typedef void *linear_fn(void *ret, tensor x, tensor w, const optional *bias);

/* On x86-64 a returned tensor is built where a hidden first argument points. AArch64 has that
 * pointer in x8, which C cannot pass on; so there, and where nobody looked, the front does not
 * stand before functions that return a tensor. */
#ifdef __x86_64__
#define EXPORT_IF_HIDDEN_FIRST TAP_EXPORT
#else
#define EXPORT_IF_HIDDEN_FIRST __attribute__((visibility("hidden")))
#endif

/* C++ calls these under their mangled names. */
EXPORT_IF_HIDDEN_FIRST void *int4_scaled_mm_cpu(void *ret, tensor x, tensor w, tensor zeros,
                                                tensor scales, const optional *bias);
TAP_EXPORT void cpu_gemm_wna16(tensor x, tensor w, tensor out, tensor scales, const optional *zeros,
                               const optional *bias, int64_t pack, const void *isa);
TAP_EXPORT void onednn_mm(tensor out, tensor x, const optional *bias, tensor handler);
TAP_EXPORT int64_t create_onednn_mm_handler(tensor b, int64_t cache);
EXPORT_IF_HIDDEN_FIRST void *at_linear(void *ret, tensor x, tensor w, const optional *bias);

static struct tap_symbol int4_symbol = {.name = NAME(int4_scaled_mm_cpu)},
                         wna16_symbol = {.name = NAME(cpu_gemm_wna16)},
                         onednn_symbol = {.name = NAME(onednn_mm)},
                         create_symbol = {.name = NAME(create_onednn_mm_handler)},
                         linear_symbol = {.name = NAME(at_linear)};
static _Atomic(const void *) first_real; /* the first real function found: names the library */
static _Atomic uint64_t steps;           /* of all threads */

static __thread __attribute__((tls_model("initial-exec"))) struct {
    const void *first_weights;         /* (or the handler) of this thread's first call */
    struct tap_open_call open;
    bool is_open;                      /* a call is being recorded */
} thread;

static void *find_real(struct tap_symbol *symbol, const void *caller)
{
    int e = errno;
    void *fn = tap_real_find(symbol, caller);

    if (fn && !atomic_load_explicit(&first_real, memory_order_relaxed))
        atomic_store_explicit(&first_real, fn, memory_order_release);
    errno = e;
    return fn;
}

/* ---- weights behind a handler ---------------------------------------------------------------- */

static bool is_float(int32_t dtype)
{
    return dtype == TD_TORCH_BF16 || dtype == TD_TORCH_F16 || dtype == TD_TORCH_F32;
}

/* Of b, [k, n] as the call has it; malloc() made it. NULL: it cannot be had. */
static struct td_weight_fingerprint *fingerprint_weight(const struct tap_torch_tensor *b)
{
    struct td_weight_fingerprint *p;

    if (!is_float(b->dtype))
        return NULL;
    p = malloc(sizeof *p);
    if (!p)
        tap_front_lacks_memory(); /* no call with this weight could be described */
    else if (tap_torch_fingerprint_here(p, b, 1))
        return p;
    free(p);
    return NULL;
}

/* vLLM calls this while it loads the model, long before the tap is armed: here we may allocate. */
int64_t create_onednn_mm_handler(tensor b, int64_t cache)
{
    create_fn *real = (create_fn *)find_real(&create_symbol, __builtin_return_address(0));
    struct td_weight_fingerprint *fingerprint = NULL;
    struct tap_torch_tensor t;
    int64_t handler;

    if (!real)
        return 0;
    if (tap_torch_ready((const void *)real) && tap_torch_read(b, &t))
        /* the caller may free b as soon as the handler has it */
        fingerprint = fingerprint_weight(&t);
    handler = real(b, cache);
    if (handler)
        /* NULL too: the address may have been another weight's */
        tap_torch_fingerprint_keep((uint64_t)handler, fingerprint);
    else
        free(fingerprint);
    return handler;
}

/* ---- describing calls ------------------------------------------------------------------------ */

static void add_attr(struct tap_call *call, const char *name, int64_t value)
{
    call->attrs[call->n_attrs++] = (struct td_attr_view){name, value};
}

static bool add_weight(struct tap_call *call, const char *role, const struct tap_torch_tensor *t)
{
    return tap_torch_operand(&call->w[call->n_w++], role, t);
}

/* Add A [m, k] as an input, and the attributes that follow from it. */
static bool set_input(struct tap_call *call, tensor x, struct tap_torch_tensor *a)
{
    if (!tap_torch_read(x, a) || a->ndim != 2 ||
        !tap_torch_operand(&call->in[call->n_in++], "a", a) ||
        (a->dtype != TD_TORCH_BF16 && a->dtype != TD_TORCH_F16 && a->dtype != TD_TORCH_F32))
        return false;
    call->rows = a->sizes[0];
    add_attr(call, "m", a->sizes[0]);
    add_attr(call, "k", a->sizes[1]);
    add_attr(call, "lda", a->sizes[0] > 1 ? a->strides[0] : a->sizes[1]);
    return true;
}

/* Expect C [m, n], dense, of A's type. It has no data before the call. */
static void expect_output(struct tap_call *call, const struct tap_torch_tensor *a, int64_t n)
{
    add_attr(call, "n", n);
    call->out = (struct tap_operand){.role = "c",
                                     .dtype = tap_torch_dtype_name(a->dtype),
                                     .ndim = 2,
                                     .shape = {a->sizes[0], n},
                                     .strides = {n, 1},
                                     .bytes = (uint64_t)a->sizes[0] * (uint64_t)n *
                                              tap_torch_dtype_bytes(a->dtype)};
}

/* Set where the result lies, once it is there. False: it is not what was expected. */
static bool find_output(struct tap_operand *out, tensor c)
{
    struct tap_torch_tensor t;
    struct tap_operand have;

    if (!tap_torch_read(c, &t) || !tap_torch_operand(&have, "c", &t) || have.ndim != 2 ||
        have.shape[0] != out->shape[0] || have.shape[1] != out->shape[1] ||
        have.bytes != out->bytes || strcmp(have.dtype, out->dtype))
        return false;
    out->data = have.data;
    out->row_bytes = have.row_bytes;
    out->pitch = have.pitch;
    return true;
}

/* Add a bias of n elements if there is one. */
static bool add_bias(struct tap_call *call, const optional *bias, int64_t n)
{
    struct tap_torch_tensor b;
    bool has;

    if (!tap_torch_read_optional(bias, &b, &has))
        return false;
    return !has || (b.ndim == 1 && b.sizes[0] == n && add_weight(call, "bias", &b));
}

static bool dense_3d(tensor handle, int32_t dtype, struct tap_torch_tensor *t)
{
    return tap_torch_read(handle, t) && t->dtype == dtype && t->ndim == 3 && t->data &&
           tap_torch_is_dense(t);
}

#define INT4_BLOCK 32                  /* output channels of a block */

/* w [n/32, k/bk, 16 bk + 128] u8, zeros [n/32, groups, 32] i8, scales [n/32, groups, 32] f32 */
static bool describe_int4(struct tap_call *call, tensor x, tensor w, tensor zeros, tensor scales,
                          const optional *bias)
{
    struct tap_torch_tensor a, q, z, s;
    int64_t n, k, groups, bk;

    *call = (struct tap_call){.kind = "gptq_gemm",
                              .symbol = "int4_scaled_mm_cpu",
                              .layout = "vllm_int4_vnni",
                              .rounding = "uint8-token"};
    if (!set_input(call, x, &a) || a.dtype == TD_TORCH_F32 || !dense_3d(w, TD_TORCH_U8, &q) ||
        !dense_3d(zeros, TD_TORCH_I8, &z) || !dense_3d(scales, TD_TORCH_F32, &s) ||
        s.sizes[0] != q.sizes[0] || s.sizes[2] != INT4_BLOCK ||
        memcmp(z.sizes, s.sizes, 3 * sizeof *z.sizes))
        return false;
    n = q.sizes[0] * INT4_BLOCK, k = a.sizes[1], groups = s.sizes[1];
    bk = k / q.sizes[1];
    if (bk * q.sizes[1] != k || q.sizes[2] != bk * INT4_BLOCK / 2 + INT4_BLOCK * 4 || k % groups)
        return false;
    add_attr(call, "bits", 4);
    add_attr(call, "group_size", k / groups);
    expect_output(call, &a, n);
    return add_weight(call, "qweight", &q) && add_weight(call, "qzeros", &z) &&
           add_weight(call, "scales", &s) && add_bias(call, bias, n);
}

/* w [n/16, 2 k] i32, scales [groups, n] as x, zeros [groups, n/8] i32 or none */
static bool describe_wna16(struct tap_call *call, tensor x, tensor w, tensor out, tensor scales,
                           const optional *zeros, const optional *bias, int64_t pack)
{
    struct tap_torch_tensor a, q, s, z;
    bool has_zeros;
    int64_t n, k;

    *call = (struct tap_call){
        .kind = "gptq_gemm", .symbol = "cpu_gemm_wna16", .layout = "vllm_wna16_n16"};
    if (pack != 8 || !set_input(call, x, &a) || a.dtype == TD_TORCH_F32 || !tap_torch_read(w, &q) ||
        q.ndim != 2 || q.dtype != TD_TORCH_I32 || !q.data || !tap_torch_read(scales, &s) ||
        s.ndim != 2 || s.dtype != a.dtype || !s.data ||
        !tap_torch_read_optional(zeros, &z, &has_zeros))
        return false;
    n = q.sizes[0] * 16, k = a.sizes[1];
    if (q.sizes[1] != 2 * k || s.sizes[1] != n || k % s.sizes[0] ||
        (has_zeros && (z.ndim != 2 || z.dtype != TD_TORCH_I32 || z.sizes[0] != s.sizes[0] ||
                       z.sizes[1] != n / 8)))
        return false;
    add_attr(call, "bits", 4);
    add_attr(call, "group_size", k / s.sizes[0]);
    /* it multiplies with weights of that type */
    call->rounding = a.dtype == TD_TORCH_BF16 ? "weight-bf16" : "weight-f16";
    expect_output(call, &a, n);
    return add_weight(call, "qweight", &q) && (!has_zeros || add_weight(call, "qzeros", &z)) &&
           add_weight(call, "scales", &s) && add_bias(call, bias, n) &&
           find_output(&call->out, out);
}

/* A fingerprint describes the weight: it is behind a handler, or would be copied although the
 * checkpoint holds the same. */
static bool describe_gemm(struct tap_call *call, const char *symbol, const char *layout, tensor x,
                          const optional *bias, const struct td_weight_fingerprint *p)
{
    struct tap_torch_tensor a;
    struct tap_operand *w = &call->w[0];

    *call = (struct tap_call){.kind = "gemm",
                              .symbol = symbol,
                              .layout = layout,
                              .rounding = "none",
                              .fingerprint = p,
                              .n_w = 1};
    if (!p || !set_input(call, x, &a) || a.sizes[1] != p->cols ||
        strcmp(tap_torch_dtype_name(a.dtype), p->dtype))
        return false;
    add_attr(call, "trans_b", 1);
    expect_output(call, &a, p->rows);
    *w = (struct tap_operand){.role = "w",
                              .dtype = tap_torch_dtype_name(a.dtype),
                              .ndim = 2,
                              .shape = {p->rows, p->cols},
                              .strides = {p->cols, 1}};
    return add_bias(call, bias, p->rows);
}

static bool describe_onednn(struct tap_call *call, tensor out, tensor x, const optional *bias,
                            int64_t handler)
{
    return describe_gemm(call, "onednn_mm", "onednn", x, bias,
                         tap_torch_fingerprint_of((uint64_t)handler)) &&
           find_output(&call->out, out);
}

static bool describe_linear(struct tap_call *call, tensor x, tensor w, const optional *bias,
                            struct td_weight_fingerprint *fingerprint)
{
    struct tap_torch_tensor b;

    return tap_torch_read(w, &b) && is_float(b.dtype) &&
           tap_torch_fingerprint_here(fingerprint, &b, 0) &&
           describe_gemm(call, "at::linear", "torch", x, bias, fingerprint);
}

/* ---- one call -------------------------------------------------------------------------------- */

/* Before each call: begin a step if the first layer has come round. weights: identifies the layer.
 * True: the call is wanted and to be described. */
static bool note_call(const void *real, const void *weights, tensor x)
{
    struct tap_torch_tensor a;
    int e = errno;

    if (thread.is_open) {                   /* the last call threw */
        thread.is_open = false;
        tap_call_end(&thread.open, false, -1);
    }
    tap_start_if_cold();
    if (!thread.first_weights)
        thread.first_weights = weights;
    if (thread.first_weights != weights)
        tap_step_mark_thread();
    else
        tap_step_begin_rows(atomic_fetch_add_explicit(&steps, 1, memory_order_relaxed),
                            tap_torch_ready(real) && tap_torch_read(x, &a) && a.ndim ? a.sizes[0]
                                                                                     : 1);
    errno = e;
    if (!tap_armed())
        return false;
    if (tap_call_is_wanted())
        return true;
    tap_call_skip(1, 0);
    return false;
}

/* call NULL: it cannot be described, and is counted as failed. */
static void begin(const struct tap_call *call)
{
    thread.is_open = tap_call_begin(&thread.open, call);
}

/* out NULL: the place of the result was known before the call. */
static void end(tensor out)
{
    int64_t duration = tap_now() - thread.open.t0_ns;
    bool ok = !out || find_output(&thread.open.out, out);

    thread.is_open = false;
    tap_call_end(&thread.open, ok, duration);
}

static const void *data_of(const void *real, tensor t)
{
    struct tap_torch_tensor x;

    return tap_torch_ready(real) && tap_torch_read(t, &x) ? x.data : NULL;
}

void *int4_scaled_mm_cpu(void *ret, tensor x, tensor w, tensor zeros, tensor scales,
                         const optional *bias)
{
    int4_fn *real = (int4_fn *)find_real(&int4_symbol, __builtin_return_address(0));
    struct tap_call call;

    if (!real)                         /* cannot be: the library that calls this defines it */
        return ret;
    if (note_call((const void *)real, data_of((const void *)real, w), x))
        begin(tap_torch_ready((const void *)real) && describe_int4(&call, x, w, zeros, scales, bias)
                  ? &call
                  : NULL);
    ret = real(ret, x, w, zeros, scales, bias);
    if (thread.is_open)
        end(ret);
    return ret;
}

void cpu_gemm_wna16(tensor x, tensor w, tensor out, tensor scales, const optional *zeros,
                    const optional *bias, int64_t pack, const void *isa)
{
    wna16_fn *real = (wna16_fn *)find_real(&wna16_symbol, __builtin_return_address(0));
    struct tap_call call;

    if (!real)
        return;
    if (note_call((const void *)real, data_of((const void *)real, w), x))
        begin(tap_torch_ready((const void *)real) &&
                      describe_wna16(&call, x, w, out, scales, zeros, bias, pack)
                  ? &call
                  : NULL);
    real(x, w, out, scales, zeros, bias, pack, isa);
    if (thread.is_open)
        end(NULL);
}

/* The handler's address, which a tensor of one int64 holds. 0: it does not. */
static int64_t handler_of(const void *real, tensor handler)
{
    struct tap_torch_tensor t;
    int64_t id;

    if (!tap_torch_ready(real) || !tap_torch_read(handler, &t) || t.dtype != TD_TORCH_I64 ||
        !t.data)
        return 0;
    memcpy(&id, t.data, sizeof id);
    return id;
}

void onednn_mm(tensor out, tensor x, const optional *bias, tensor handler)
{
    onednn_fn *real = (onednn_fn *)find_real(&onednn_symbol, __builtin_return_address(0));
    struct tap_call call;
    int64_t id;

    if (!real)
        return;
    id = handler_of((const void *)real, handler);
    if (note_call((const void *)real, (const void *)(uintptr_t)id, x))
        begin(id && describe_onednn(&call, out, x, bias, id) ? &call : NULL);
    real(out, x, bias, handler);
    if (thread.is_open)
        end(NULL);
}

void *at_linear(void *ret, tensor x, tensor w, const optional *bias)
{
    linear_fn *real = (linear_fn *)find_real(&linear_symbol, __builtin_return_address(0));
    struct td_weight_fingerprint fingerprint;
    struct tap_call call;

    if (!real)
        return ret;
    if (atomic_load_explicit(&tap_gpu_launches_seen, memory_order_relaxed) &&
        tap_torch_ready((const void *)real) && tap_torch_is_on_device(x))
        return real(ret, x, w, bias);  /* a GPU front sees its launches, and counts them by name */
    if (note_call((const void *)real, data_of((const void *)real, w), x))
        begin(tap_torch_ready((const void *)real) &&
                      describe_linear(&call, x, w, bias, &fingerprint)
                  ? &call
                  : NULL);
    ret = real(ret, x, w, bias);
    if (thread.is_open)
        end(ret);
    return ret;
}

/* ---- for the core ---------------------------------------------------------------------------- */

/* A wheel of vLLM holds a library for each kind of CPU: its name says which kernels run. */
static bool describe(char *library, char *build, size_t n)
{
    const void *fn = atomic_load_explicit(&first_real, memory_order_acquire);
    void *handle;

    library[0] = build[0] = '\0';
    if (!fn)
        return false;
    handle = tap_real_library(fn, library, n);
    snprintf(build, n, "%s",
             tap_torch_ready(fn)
                 ? ""
                 : "its GEMMs cannot be recorded: torch has no aoti_torch_get_* functions");
    if (handle)
        dlclose(handle);
    return true;
}

TAP_FRONT(vllm) = {.name = "vllm", .describe = describe};

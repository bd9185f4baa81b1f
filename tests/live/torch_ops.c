/* torch_ops.c - a small library of operators for a real torch (tests/live/rows_quick.sh). It goes
 * by torch's C ABI alone, as kernels/abi/torch_abi.h has it: no header of torch, no C++.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It registers while it is loaded, as vLLM's _C_stable_libtorch.abi3.so does. torch_ops_answers()
 * calls each operator through torch's dispatcher and writes what came; fake_ops_run() does the same
 * n times and counts what is wrong (tests/fakes/fake_server.py).
 *
 * Ownership, from torch/csrc/stable/: an operator owns the tensors that it is given, and whoever
 * called it owns those that come back. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/abi/torch_abi.h"

#define META 14                       /* c10::DeviceType: tensors without memory */
#define SIDE 4
#define TEXT 4096

/* What the tap does not need, and kernels/abi/torch_abi.h so does not have. */
typedef void *tensor;
int32_t aoti_torch_create_tensor_from_blob(void *data, int64_t ndim, const int64_t *sizes,
                                           const int64_t *strides, int64_t offset, int32_t dtype,
                                           int32_t device, int32_t index, tensor *out);
int32_t aoti_torch_empty_strided(int64_t ndim, const int64_t *sizes, const int64_t *strides,
                                 int32_t dtype, int32_t device, int32_t index, tensor *out);
int32_t aoti_torch_delete_tensor_object(tensor);
int32_t aoti_torch_call_dispatcher(const char *name, const char *overload, td_torch_value *stack);
/* since torch 2.10 */
__attribute__((weak)) int32_t torch_call_dispatcher(const char *name, const char *overload,
                                                    td_torch_value *stack, uint64_t version);

td_torch_get_dim aoti_torch_get_dim;
td_torch_get_lengths aoti_torch_get_sizes;
td_torch_get_enum aoti_torch_get_device_type;
td_torch_get_data aoti_torch_get_data_ptr;
td_torch_version aoti_torch_abi_version;
td_torch_init aoti_torch_library_init_fragment;
td_torch_init_impl aoti_torch_library_init_impl;
td_torch_def aoti_torch_library_def;
td_torch_impl aoti_torch_library_impl;
__attribute__((weak)) td_torch_impl_version torch_library_impl;

int torch_ops_answers(char *out, size_t n);
int64_t fake_ops_run(int64_t n);

static bool is_new;                   /* torch 2.10 or later */

/* ---- tensors --------------------------------------------------------------------------------- */

static tensor make(const int64_t sizes[2], int32_t device)
{
    const int64_t strides[2] = {sizes[1], 1};
    tensor t = NULL;

    return aoti_torch_empty_strided(2, sizes, strides, TD_TORCH_F32, device, 0, &t) ? NULL : t;
}

static tensor wrap(float *data, int64_t rows)
{
    const int64_t sizes[2] = {rows, SIDE}, strides[2] = {SIDE, 1};
    tensor t = NULL;

    return aoti_torch_create_tensor_from_blob(data, 2, sizes, strides, 0, TD_TORCH_F32,
                                              TD_TORCH_CPU, 0, &t)
               ? NULL
               : t;
}

static float *data_of(td_torch_tensor t)
{
    void *data = NULL;

    return aoti_torch_get_data_ptr(t, &data) ? NULL : data;
}

static int64_t elements(td_torch_tensor t)
{
    int64_t *sizes = NULL;

    return aoti_torch_get_sizes(t, &sizes) ? 0 : sizes[0] * sizes[1];
}

static tensor tensor_of(td_torch_value v)
{
    return (tensor)(uintptr_t)v;
}

/* ---- the operators --------------------------------------------------------------------------- */

static int32_t dispatch(const char *name, td_torch_value *stack)
{
    return is_new ? torch_call_dispatcher(name, "", stack, aoti_torch_abi_version())
                  : aoti_torch_call_dispatcher(name, "", stack);
}

/* scale(Tensor a, float by) -> Tensor, also for tensors without memory */
static void scale(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    tensor a = tensor_of(stack[0]), c;
    int64_t *sizes = NULL, i;
    int32_t device = 0;
    double by;

    (void)n_args, (void)n_results;
    memcpy(&by, &stack[1], sizeof by);
    aoti_torch_get_sizes(a, &sizes);
    aoti_torch_get_device_type(a, &device);
    c = make(sizes, device);
    for (i = 0; device == TD_TORCH_CPU && i < elements(a); i++)
        data_of(c)[i] = data_of(a)[i] * (float)by;
    aoti_torch_delete_tensor_object(a);
    stack[0] = (uintptr_t)c;
}

/* fill(Tensor! out, int value) -> () */
static void fill(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    tensor out = tensor_of(stack[0]);
    int64_t i;

    (void)n_args, (void)n_results;
    for (i = 0; i < elements(out); i++)
        data_of(out)[i] = (float)(int64_t)stack[1];
    aoti_torch_delete_tensor_object(out);
}

/* twice(Tensor a) -> Tensor, by another operator */
static void twice(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const double by = 2;
    td_torch_value inner[2] = {stack[0]};

    (void)n_args, (void)n_results;
    memcpy(&inner[1], &by, sizeof by);
    stack[0] = dispatch("td_live::scale", inner) ? 0 : inner[0];
}

/* refuse(Tensor a) -> Tensor: std::length_error, by a function of libstdc++ */
static void refuse(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    void (*raise)(const char *) = (void (*)(const char *))dlsym(RTLD_DEFAULT,
                                                               "_ZSt20__throw_length_errorPKc");

    (void)n_args, (void)n_results;
    aoti_torch_delete_tensor_object(tensor_of(stack[0]));
    raise = raise ? raise : (void (*)(const char *))dlsym(RTLD_NEXT, "_ZSt20__throw_length_errorPKc");
    if (!raise)
        abort();
    raise("refused by td_live::refuse");
}

/* given(Tensor a, Tensor? b, int? n) -> int: which of the two are there */
static void given(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    (void)n_args, (void)n_results;
    aoti_torch_delete_tensor_object(tensor_of(stack[0]));
    stack[0] = (stack[1] ? 1 : 0) + (stack[2] ? 2 : 0);
}

/* ---- registration ---------------------------------------------------------------------------- */

static int32_t implement(td_torch_library l, const char *name, td_torch_boxed *fn)
{
    return is_new ? torch_library_impl(l, name, fn, aoti_torch_abi_version())
                  : aoti_torch_library_impl(l, name, fn);
}

/* What torch says to a definition, and to an implementation. */
struct late { int32_t def, impl; };

static void *register_late(void *to)
{
    struct late *said = to;
    td_torch_library def, cpu;

    if (aoti_torch_library_init_fragment("td_live", __FILE__, __LINE__, &def) ||
        aoti_torch_library_init_impl("td_live", "CPU", __FILE__, __LINE__, &cpu))
        abort();
    said->def = aoti_torch_library_def(def, "late(Tensor a, float by) -> Tensor");
    said->impl = implement(cpu, "late", scale);
    return NULL;
}

/* torch keeps an operator as long as its library's object: these stay. */
__attribute__((constructor)) static void register_operators(void)
{
    td_torch_library def, cpu, meta;

    is_new = aoti_torch_abi_version() >> 48 >= 0x020a;
    if (aoti_torch_library_init_fragment("td_live", __FILE__, __LINE__, &def) ||
        aoti_torch_library_def(def, "scale(Tensor a, float by) -> Tensor") ||
        aoti_torch_library_def(def, "fill(Tensor! out, int value) -> ()") ||
        aoti_torch_library_def(def, "twice(Tensor a) -> Tensor") ||
        aoti_torch_library_def(def, "refuse(Tensor a) -> Tensor") ||
        aoti_torch_library_def(def, "given(Tensor a, Tensor? b, int? n) -> int") ||
        aoti_torch_library_init_impl("td_live", "CPU", __FILE__, __LINE__, &cpu) ||
        aoti_torch_library_init_impl("td_live", "Meta", __FILE__, __LINE__, &meta) ||
        implement(cpu, "scale", scale) || implement(meta, "scale", scale) ||
        implement(cpu, "twice", twice) || implement(cpu, "refuse", refuse) ||
        implement(cpu, "given", given) ||
        aoti_torch_library_impl(cpu, "fill", fill)) /* three arguments, in every version */
        abort();
}

/* ---- calls, and what came of them ------------------------------------------------------------ */

struct text { char *at; size_t left; };

__attribute__((format(printf, 2, 3))) static void say(struct text *t, const char *form, ...)
{
    va_list args;
    int n;

    va_start(args, form);
    n = vsnprintf(t->at, t->left, form, args);
    va_end(args);
    n = n < 0 ? 0 : (size_t)n < t->left ? n : (int)t->left - 1;
    t->at += n;
    t->left -= (size_t)n;
}

/* Write a tensor's elements; it is given up. */
static void say_tensor(struct text *t, tensor c)
{
    int32_t device = 0;
    int64_t i;

    if (!c)
        return;
    aoti_torch_get_device_type(c, &device);
    say(t, " %lld elements on device %d:", (long long)elements(c), device);
    for (i = 0; device == TD_TORCH_CPU && i < elements(c); i++)
        say(t, " %g", (double)data_of(c)[i]);
    aoti_torch_delete_tensor_object(c);
}

static void say_call(struct text *t, const char *name, tensor a, td_torch_value second, bool returns)
{
    td_torch_value stack[3] = {(uintptr_t)a, second};
    int32_t rc = dispatch(name, stack);

    say(t, "%s: %d", name, rc);
    if (!rc && returns)
        say_tensor(t, tensor_of(stack[0]));
    say(t, "\n");
}

static void say_given(struct text *t, bool b, bool n)
{
    float data[SIDE] = {0};
    td_torch_value *to_b = malloc(sizeof *to_b), *to_n = malloc(sizeof *to_n),
                   stack[3] = {(uintptr_t)wrap(data, 1)};
    int32_t rc;

    /* an optional value lies on the heap, and goes over with it */
    if (!to_b || !to_n)
        abort();
    *to_b = b ? (uintptr_t)wrap(data, 1) : 0;
    *to_n = 7;
    if (b)
        stack[1] = (uintptr_t)to_b;
    else
        free(to_b);
    if (n)
        stack[2] = (uintptr_t)to_n;
    else
        free(to_n);
    rc = dispatch("td_live::given", stack);
    say(t, "td_live::given: %d, %llu\n", rc, (unsigned long long)stack[0]);
}

static void say_calls(struct text *t)
{
    float data[2 * SIDE] = {1, 2, 3, 4, 5, 6, 7, 8}, filled[SIDE] = {0};
    const double half = 0.5;
    const int64_t sizes[2] = {2, SIDE};
    td_torch_value by;

    memcpy(&by, &half, sizeof by);
    say_call(t, "td_live::scale", wrap(data, 2), by, true);
    say_call(t, "td_live::scale", wrap(data, 0), by, true);
    say_call(t, "td_live::scale", make(sizes, META), by, true);
    say_call(t, "td_live::fill", wrap(filled, 1), 9, false);
    say(t, "filled: %g %g %g %g\n", (double)filled[0], (double)filled[1], (double)filled[2],
        (double)filled[3]);
    say_call(t, "td_live::twice", wrap(data, 1), 0, true);
    say_call(t, "td_live::refuse", wrap(data, 1), 0, true);
    say_given(t, false, false);
    say_given(t, true, false);
    say_given(t, true, true);
}

/* Everything once more in the child of a fork: what it wrote equals what the parent wrote. */
static bool forked_child_agrees(const char *expected)
{
    char *out = malloc(TEXT);
    struct text t = {out, TEXT};
    int status = 0;
    pid_t child = out ? fork() : -1;

    if (!child) {
        say_calls(&t);
        _exit(strcmp(out, expected) != 0);
    }
    free(out);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int torch_ops_answers(char *out, size_t n)
{
    struct text t = {out, n};
    float data[SIDE] = {1, 2, 3, 4};
    const double by = 3;
    td_torch_value as_value;
    struct late late = {-1, -1};
    pthread_t thread;
    char *calls;

    memcpy(&as_value, &by, sizeof by);
    calls = t.at;
    say_calls(&t);
    say(&t, "in a forked child: %s\n",
        forked_child_agrees(calls) ? "the same" : "something else");
    /* a thread registers; then once more: torch refuses the definition, and takes the rest */
    if (!pthread_create(&thread, NULL, register_late, &late))
        pthread_join(thread, NULL);
    say(&t, "registered by a thread: %d %d\n", late.def, late.impl);
    say_call(&t, "td_live::late", wrap(data, 1), as_value, true);
    register_late(&late);
    say(&t, "registered again: %d %d\n", late.def, late.impl);
    say_call(&t, "td_live::late", wrap(data, 1), as_value, true);
    return t.left > 1 ? 0 : 1;
}

int64_t fake_ops_run(int64_t n)
{
    static char first[TEXT];
    char *again = malloc(TEXT);
    int64_t wrong = again == NULL;

    while (again && n-- > 0) {
        struct text t = {again, TEXT};

        say_calls(&t);
        if (!first[0])
            memcpy(first, again, TEXT);
        wrong += strcmp(first, again) != 0;
    }
    free(again);
    return wrong;
}

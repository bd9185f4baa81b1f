/* fake_cuda.h - a fake CUDA driver (libcuda.so.1) that runs on the host, for tests on machines
 * without a GPU: what a test can tell it beside the driver's own functions.
 * SPDX-License-Identifier: Apache-2.0
 *
 * build/tests/helpers/lib_fake_cuda.so exports the driver functions that fake_api.h lists, under
 * their own names. A device address is a host address. A kernel is a C function that a test or a
 * plugin registers under a symbol. A module has the kernels whose symbols occur in its image; an
 * image is a fatbin, an ELF file, or a NUL-terminated text that begins with "TDFAKE" or, like PTX,
 * with ".version ". A compressed fatbin has all kernels. The tap's own kernels td_gather,
 * td_gather_waits and td_cache_rows are always there.
 *
 * Work is asynchronous. Every stream has a queue, and a queue runs only when its results are
 * needed: at a synchronisation of the stream, when another stream waits for its event, at a copy to
 * pageable memory. So an order that holds by luck on a GPU fails here every time. With
 * TD_FAKE_CUDA=thread (or use_thread() below) a thread also runs the queues, one task of a random
 * stream at a time, with random delays: needed by code that watches memory and does not call the
 * driver.
 *
 * Environment, read once at the first call:
 *   TD_FAKE_CUDA           "lazy" (default) or "thread"
 *   TD_FAKE_CUDA_PLUGIN    libraries that register kernels, separated by ':'; each exports
 *                          void fake_cuda_plugin(const struct fake_cuda_api *)
 *   TD_FAKE_CUDA_FAULT     "what:n:code,...": the n-th call (from 1) fails with this CUresult.
 *                          what is init, alloc, load or launch: the call returns the code;
 *                            kernel: the
 *                          kernel ends with it, and the context stays broken; gather,
 *                            cache_rows: that kernel of the tap's copies nothing
 *   TD_FAKE_CUDA_LOST      "file:n:code": the n-th launch of a process makes the file; as long as it is there, launches
 *                          give this CUresult, and cuInit says that there is no device
 *   TD_FAKE_CUDA_ALONE     set: the device serves one process at a time (its compute mode)
 *   TD_FAKE_CUDA_HANG      "name:n": the n-th call of this driver function never returns, nor does any
 *                          call after it, nor what the library does at the process's end
 *   TD_FAKE_CUDA_COMPILED  a file; each image of PTX alone that has to be compiled, because it is
 *                          not in the cache, adds a line (jit.c)
 *   TD_FAKE_CUDA_ARCH      compute capability; default 90
 *   TD_FAKE_CUDA_DEVICES   number of devices; default 1
 *   TD_FAKE_CUDA_SEED      seed of all random choices */
#ifndef TD_TESTS_HELPERS_FAKE_CUDA_FAKE_CUDA_H
#define TD_TESTS_HELPERS_FAKE_CUDA_FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_CUDA_PARAMS 32

struct fake_cuda_launch {
    unsigned grid[3], block[3], shared_bytes;
    void **params;               /* one pointer a parameter, to copies that were made at the launch */
    const struct fake_cuda_kernel *kernel;
};

struct fake_cuda_kernel {
    const char *symbol;          /* borrowed for ever, like every pointer here */
    int n_params;
    struct { size_t offset, size; } param[FAKE_CUDA_PARAMS]; /* offsets all 0: lay out by size (1, 2, 4, 8) */
    void (*run)(const struct fake_cuda_launch *launch, void *user); /* NULL: no effect */
    void *user;
    int static_shared_bytes, max_threads, regs;  /* 0: none, 1024, 32 */
};

/* One call of the driver, as a CUPTI callback sees it: before the call (exit false) and after
 * it. */
struct fake_cuda_call {
    const char *name;            /* "cuLaunchKernel" */
    uint32_t cbid;               /* CUpti_driver_api_trace_cbid of CUDA 13.0 */
    const void *params;          /* in CUPTI's layout (generated_cuda_meta.h) */
    const char *symbol;          /* of a launch's kernel; NULL else */
    void *context;
    bool exit;
    int result;                  /* when exit */
    uint32_t correlation;
    uint64_t *correlation_data;  /* one word, shared by both calls of the hook */
};
typedef void fake_cuda_hook_fn(const struct fake_cuda_call *call, void *user);
/* A module was loaded: its image, as the driver got it. */
typedef void fake_cuda_load_fn(void *context, const void *image, size_t bytes, uint32_t module_id, void *user);

/* A kernel has run, of a stream or of a graph. Any thread, no lock held. */
typedef void fake_cuda_ran_fn(const char *symbol);

struct fake_cuda_api {
    void (*add_kernel)(const struct fake_cuda_kernel *kernel);   /* replaces a kernel of the same symbol */
    void (*on_call)(fake_cuda_hook_fn *fn, void *user);          /* fn NULL: remove. fn holds no lock and may call the driver */
    void (*on_load)(fake_cuda_load_fn *fn, void *user);
    void (*fault)(const char *what, int n, int code);            /* as TD_FAKE_CUDA_FAULT, counted from now on */
    void (*use_thread)(bool on);
    uint64_t (*calls)(const char *name);                         /* calls of a driver function ("cuMemAlloc_v2"), or launches of a kernel */
    uint64_t (*calls_here)(void);                                /* calls of driver functions by this thread */
    size_t (*bytes_in_use)(void);                                /* device memory that is allocated or mapped */
    void (*reset)(void);                                         /* finish all work, forget faults, sticky errors, hooks and counts */
    void (*on_ran)(fake_cuda_ran_fn *fn);                        /* fn NULL: remove */
    void (*behind_graph)(void (*fn)(void));                      /* called once, behind the next launch of a graph, before anybody knows that it is back */
    void (*hang)(const char *name, int n);                       /* as TD_FAKE_CUDA_HANG, counted from now on; NULL, 0: calls that hang go on */
    bool (*is_hanging)(void);
    size_t (*bytes_copied_in)(void);                             /* from the host, since the library was loaded */
};
/* The functions above; tests link the library or use dlsym. */
const struct fake_cuda_api *fake_cuda_api(void);

#endif

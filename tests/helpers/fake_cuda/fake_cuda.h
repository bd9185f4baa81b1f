/* fake_cuda.h - a look-alike of libcuda.so.1 for tests: what a test says to it beside the driver's own functions.
 * SPDX-License-Identifier: Apache-2.0
 *
 * build/tests/helpers/lib_fake_cuda.so exports the driver functions of fake_api.h under their own names. A device address is a host address.
 * A kernel is a C function that a test registers under a symbol; a module holds the kernels whose symbols stand in its image (a fatbin, an ELF
 * file, or a NUL-terminated text that begins with "TDFAKE" or, as PTX, with ".version "; a compressed fatbin holds all). The tap's own kernel,
 * td_gather, is there from the start (gather.c).
 *
 * Work is asynchronous: every stream has a queue, and nothing in it happens before somebody must see it (a synchronisation of that stream, an
 * event that another stream waits for, a copy to pageable memory). So what is ordered by luck on a GPU is in the wrong order here, each time.
 * With TD_FAKE_CUDA=thread (or fake_cuda_use_thread()) a thread works the queues as well, one item of a random stream after the other, after
 * random delays: for code that watches memory without a call into the driver.
 *
 * Environment (read once, at the first call):
 *   TD_FAKE_CUDA          "lazy" (default) or "thread"
 *   TD_FAKE_CUDA_PLUGIN   libraries, ':' between them, that register kernels: each exports  void fake_cuda_plugin(const struct fake_cuda_api *)
 *   TD_FAKE_CUDA_FAULT    "what:n:code,...": the n-th call (from 1) fails with that CUresult; what: init, alloc, load, launch (the call returns
 *                         it), kernel (the kernel ends with it, and it sticks to the context), gather (the tap's kernel copies nothing)
 *   TD_FAKE_CUDA_COMPILED a file that gets a line for each image of PTX alone that is compiled, since it is not in the cache (jit.c)
 *   TD_FAKE_CUDA_ARCH     compute capability as 90 (default), TD_FAKE_CUDA_DEVICES how many there are (1), TD_FAKE_CUDA_SEED of random choices */
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
    const char *symbol;          /* borrowed for ever, as is everything here */
    int n_params;
    struct { size_t offset, size; } param[FAKE_CUDA_PARAMS]; /* all offsets 0: each is aligned to its size (1, 2, 4, else 8) */
    void (*run)(const struct fake_cuda_launch *launch, void *user); /* NULL: does nothing */
    void *user;
    int static_shared_bytes, max_threads, regs;  /* 0: none, 1024, 32 */
};

/* One call of the driver, as a CUPTI callback sees it: before (exit false) and after. */
struct fake_cuda_call {
    const char *name;            /* "cuLaunchKernel" */
    uint32_t cbid;               /* CUpti_driver_api_trace_cbid of CUDA 13.0 */
    const void *params;          /* in CUPTI's layout (generated_cuda_meta.h): of cuLaunchKernel f, grid[3], block[3], shared, stream, params, extra */
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

struct fake_cuda_api {
    void (*add_kernel)(const struct fake_cuda_kernel *kernel);   /* of one symbol the last one counts */
    void (*on_call)(fake_cuda_hook_fn *fn, void *user);          /* fn NULL: nobody. Called without a lock; may call the driver */
    void (*on_load)(fake_cuda_load_fn *fn, void *user);
    void (*fault)(const char *what, int n, int code);            /* as TD_FAKE_CUDA_FAULT, counted from now */
    void (*use_thread)(bool on);
    uint64_t (*calls)(const char *name);                         /* how often a driver function was called: "cuMemAlloc_v2"; or a kernel launched */
    size_t (*bytes_in_use)(void);                                /* device memory that is allocated or mapped */
    void (*reset)(void);                                         /* finish all work, forget faults, sticky errors, hooks and counts */
};
/* The library's own, for tests that link it or find it by dlsym. */
const struct fake_cuda_api *fake_cuda_api(void);

#endif

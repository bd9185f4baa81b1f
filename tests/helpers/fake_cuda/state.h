/* state.h - the state that the fake driver's files share: memory, streams with their queues,
 * modules.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One lock, fake.lock, guards everything. It is not held while a task runs or a hook is called. The
 * caller of a function declared here holds it, unless the comment says otherwise. */
#ifndef TD_TESTS_HELPERS_FAKE_CUDA_STATE_H
#define TD_TESTS_HELPERS_FAKE_CUDA_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "tests/helpers/fake_cuda/fake_api.h"
#include "tests/helpers/fake_cuda/fake_cuda.h"

#define LEGACY_STREAM ((void *)1)
#define THREAD_STREAM ((void *)2)

/* ---- memory (memory.c) ----------------------------------------------------------------------- */

enum region_kind { REGION_DEVICE, REGION_PINNED, REGION_RESERVED, REGION_MAPPED };
struct region {
    struct region *next;
    enum region_kind kind;
    uint8_t *base;
    size_t bytes, map_bytes;         /* requested; mapped */
    bool open;                       /* MAPPED: cuMemSetAccess was called */
};
struct region *region_of(uint64_t address, size_t bytes, bool reservations); /* the innermost that contains all of it; NULL: none */
bool is_pinned(const void *p, size_t bytes);

/* ---- streams (streams.c) --------------------------------------------------------------------- */

enum task_kind { TASK_COPY, TASK_COPY_2D, TASK_SET, TASK_KERNEL, TASK_MARK, TASK_WAIT, TASK_HOST };
struct stream;
struct event;
struct task {
    struct task *next;
    enum task_kind kind;
    const struct graph *graph;       /* that it is a node of; NULL: none */
    const void *function;            /* of a kernel: the handle that was launched */
    const struct task *cloned;       /* of a graph that was cloned: the node it is a copy of */
    union {
        struct { void *to; const void *from; size_t bytes; void *owned; } copy;            /* owned: copy of pageable bytes, freed with the task */
        struct td_cuda_copy_2d copy_2d;
        struct { void *to; uint32_t value; size_t n, width; } set;
        struct { const struct fake_cuda_kernel *kernel; struct fake_cuda_launch launch; void *params[FAKE_CUDA_PARAMS]; uint8_t *values; size_t bytes; } kernel;
        struct { struct event *event; uint64_t ticket; } mark;
        struct { struct stream *on; uint64_t ticket; } wait;
        struct { void (*fn)(void *); void *user; } host;
    } u;
};

struct graph { struct task *first, *last; void *tail; bool broken; uint64_t capture; int mode; pthread_t thread; }; /* capture: its number; mode, thread: how and where it began */

struct stream {
    struct stream *next;
    bool blocking, busy, dead;
    struct task *first, *last;
    uint64_t issued, done;           /* number of tasks ever queued; ended */
    struct graph *capture;           /* not NULL: new tasks go there */
    bool origin;                     /* cuStreamBeginCapture was called on it */
};

struct event {
    struct event *next;
    struct stream *stream;           /* last recorded on this stream; NULL: never */
    uint64_t ticket, marks;
    struct graph *captured;
    int64_t t_ns;
};

struct stream *stream_of(void *handle, bool per_thread);                /* NULL: no such stream */
struct task *task_new(enum task_kind kind);
/* A task that runs the kernel, with copies of its parameters; NULL: one is missing. */
struct task *kernel_task(const struct fake_cuda_kernel *k, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes, void **params, void **extra);
/* Add t to the stream's queue, or to the graph that it captures. Takes t. Returns 0, or the
 * CUresult of a stream that must not be used now. */
int stream_issue(struct stream *s, struct task *t);
void stream_finish(struct stream *s, uint64_t ticket);                  /* run tasks until `ticket` of them have ended */
void streams_finish_all(void);
bool streams_touch(const void *memory, size_t bytes);                   /* a queued copy or fill uses this memory */
void stream_wait_for(struct stream *s, struct stream *on, uint64_t ticket);
void wake_worker(void);
bool any_capture(void);
bool capture_forbids(void);                                             /* graphs.c: may this thread not make an unsafe call now? */
struct task *task_copy(const struct task *from);
struct task *task_free(struct task *t);                                 /* gives the next one */
void graph_append(struct graph *g, struct task *t);

/* ---- modules and launches -------------------------------------------------------------------- */

struct module;
struct function {
    struct module *module;
    const struct fake_cuda_kernel *kernel;
    int dynamic_shared_max;
    uint32_t magic;                  /* tells a CUfunction from a CUkernel */
};
void add_kernel(const struct fake_cuda_kernel *kernel); /* modules.c */
void behind_graph(void (*fn)(void)); /* graphs.c */
void hang(const char *name, int n); /* hang.c */
bool is_hanging(void);
void hang_if_due(const char *name);
void read_hang(const char *text);
extern const struct fake_cuda_kernel gather_kernel, gather_waits_kernel; /* gather.c: kernels of the tap's own */
extern const struct fake_cuda_kernel cache_rows_kernel; /* cache_rows.c: another */
void jit_load(const void *image, size_t bytes, bool fatbin); /* jit.c: "compile" PTX that is not in the cache */
int kernel_run(struct task *t);      /* launch.c; call without the lock. Not 0: the sticky error */

/* ---- everything else (driver.c) -------------------------------------------------------------- */

struct fake {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ready, threaded, thread_runs;
    int initialised;                 /* by cuInit */
    int arch, devices, retained, retained_on;
    int sticky;                      /* CUresult of a failed kernel: the context stays broken */
    uint64_t random;
    struct region *regions;
    struct stream *streams, legacy, per_thread;
    struct event *events;
    size_t bytes_in_use, bytes_copied_in;
    fake_cuda_hook_fn *hook; void *hook_user;
    fake_cuda_load_fn *load_hook; void *load_user;
    fake_cuda_ran_fn *_Atomic ran;
    uint32_t correlations;
};
extern struct fake fake;

enum { NEED_NOTHING, NEED_INIT, NEED_CONTEXT };
/* Begin a driver function: lock, count the call, check what it needs. Not 0: an error, to be
 * returned through leave(), which unlocks. */
int enter(const char *name, int need);
int leave(int result);
void count_call(const char *name);   /* or a launch; name borrowed for ever */
int lost_device(bool launches);  /* the CUresult of TD_FAKE_CUDA_LOST; 0: it is there */
int fault_due(const char *what);     /* the CUresult of TD_FAKE_CUDA_FAULT; 0: none now */
uint64_t fake_random(void);
int64_t now_ns(void);
void *this_context(void);

/* Call the hook, if there is one, before and after a driver function. Call without the lock. */
struct call_site { struct fake_cuda_call call; uint64_t word; };
void hook_enter(struct call_site *site, const char *name, uint32_t cbid, const void *params, const char *symbol);
void hook_exit(struct call_site *site, int result);

#endif

/* gpu_captured_w.c - the W that a captured call dequantised last.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "recorder/tap/gpu/gpu_captured_w.h"
#include "recorder/tap/gpu/gpu_last_w.h"
#include "recorder/tap/gpu/gpu_launch_reach.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    uint64_t w;                       /* its address; 0: there is none */
    struct tap_gpu_capture_mark before, behind; /* the call that made it */
    struct tap_gpu_launch launch;
    const struct tap_gpu_kernel *kernel;
    struct td_gpu_work work;
} last;

void tap_gpu_captured_w_forget(void)
{
    pthread_mutex_init(&lock, NULL);  /* the parent's other threads may have held it */
    last.w = 0;
}

static bool is_same_capture(const struct tap_gpu_capture_mark *a, const struct tap_gpu_capture_mark *b)
{
    return a->graph == b->graph && a->capture == b->capture;
}

void tap_gpu_captured_w_keep(const struct tap_gpu_capture_mark *before, const struct tap_gpu_launch *l,
                             const struct tap_gpu_kernel *k, const struct td_gpu_work *w)
{
    struct tap_gpu_capture_mark behind = {.n = 0}, lost;
    const bool is_captured = tap_gpu_capture_begins(&behind, l->stream);
    bool no_product;

    pthread_mutex_lock(&lock);
    lost = last.before;
    no_product = last.w;
    last.w = is_captured ? tap_gpu_gemm_output(w)->address : 0;
    last.before = *before;
    last.behind = behind;
    last.launch = *l;
    last.kernel = k;
    last.work = *w;
    pthread_mutex_unlock(&lock);
    if (no_product)
        tap_gpu_capture_leaves_out(&lost);
}

/* A node that depends on one other alone, and is a kernel that is not told of W: the other one; else NULL. */
static const void *before_other_kernel(const void *node, uint64_t w, uint64_t bytes)
{
    struct td_cuda_kernel_node what = {0};
    struct tap_gpu_launch l = {.stream = NULL};
    struct td_cuda_edge edge[1];
    void *before[1];
    size_t n = 0;

    if (!tap_driver.graph_dependencies || !tap_driver.graph_kernel_params ||
        tap_driver.graph_dependencies((void *)(uintptr_t)node, NULL, NULL, &n) || n != 1 ||
        tap_driver.graph_dependencies((void *)(uintptr_t)node, before, edge, &n) ||
        tap_driver.graph_kernel_params((void *)(uintptr_t)node, &what))
        return NULL;
    l.function = what.kernel ? what.kernel : what.function;
    l.params = what.params;
    return tap_gpu_launch_avoids(&l, w, bytes) ? before[0] : NULL;
}

/* Does W still stand where the capture is now? Where several nodes are last, only the first is known. */
static bool still_stands(const struct tap_gpu_capture_mark *now)
{
    const struct tap_gpu_capture_mark *made = &last.behind;
    const void *node = now->node;
    unsigned i;

    if (made->n != 1 || now->n != 1 || !is_same_capture(made, now))
        return false;
    for (i = 0; node && node != made->node && i < TAP_GPU_W_BETWEEN; i++)
        node = before_other_kernel(node, last.w, tap_gpu_gemm_output(&last.work)->bytes);
    return node == made->node;
}

void tap_gpu_captured_w_multiplied(const struct tap_gpu_capture_mark *before, const char *function,
                                   uint64_t w, uint64_t a, uint64_t c, int64_t m, int64_t n, int64_t k,
                                   int64_t lda, int64_t ldc)
{
    struct tap_gpu_capture_mark first;
    const struct tap_gpu_kernel *kernel;
    struct tap_gpu_launch launch;
    struct td_gpu_work work;
    bool is_that, no_product;

    pthread_mutex_lock(&lock);
    is_that = w && w == last.w && still_stands(before) &&
              tap_gpu_gemm_by_library(&last.work, a, c, m, n, k, lda, ldc, &work);
    first = last.before;
    kernel = last.kernel;
    launch = last.launch;
    no_product = last.w && !is_that && is_same_capture(&last.before, before);
    if (is_same_capture(&last.before, before))
        last.w = 0;
    pthread_mutex_unlock(&lock);
    launch.library_function = function;
    if (is_that)
        tap_gpu_capture_ends(&first, &launch, kernel, &work);
    if (no_product)
        tap_gpu_capture_leaves_out(&first);
}

bool tap_gpu_captured_w_over(uint64_t capture)
{
    bool no_product;

    pthread_mutex_lock(&lock);
    no_product = last.w && last.before.capture == capture;
    if (no_product)
        last.w = 0;
    pthread_mutex_unlock(&lock);
    return no_product;
}

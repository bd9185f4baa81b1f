/* gpu_captured_w.c - the W that a captured call dequantised last.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "recorder/tap/gpu/gpu_captured_w.h"

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

void tap_gpu_captured_w_keep(const struct tap_gpu_capture_mark *before, const struct tap_gpu_launch *l,
                             const struct tap_gpu_kernel *k, const struct td_gpu_work *w)
{
    struct tap_gpu_capture_mark behind = {.n = 0};
    const bool is_captured = tap_gpu_capture_begins(&behind, l->stream);

    pthread_mutex_lock(&lock);
    last.w = is_captured ? tap_gpu_gemm_output(w)->address : 0;
    last.before = *before;
    last.behind = behind;
    last.launch = *l;
    last.kernel = k;
    last.work = *w;
    pthread_mutex_unlock(&lock);
}

/* Where several nodes are last, only the first of them is known. */
static bool is_same_place(const struct tap_gpu_capture_mark *a, const struct tap_gpu_capture_mark *b)
{
    return a->n == 1 && b->n == 1 && a->node == b->node && a->graph == b->graph &&
           a->capture == b->capture;
}

void tap_gpu_captured_w_multiplied(const struct tap_gpu_capture_mark *before, const char *function,
                                   uint64_t w, uint64_t a, uint64_t c, int64_t m, int64_t n, int64_t k,
                                   int64_t lda, int64_t ldc)
{
    struct tap_gpu_capture_mark first;
    const struct tap_gpu_kernel *kernel;
    struct tap_gpu_launch launch;
    struct td_gpu_work work;
    bool is_that;

    pthread_mutex_lock(&lock);
    is_that = w && w == last.w && is_same_place(before, &last.behind) &&
              tap_gpu_gemm_by_library(&last.work, a, c, m, n, k, lda, ldc, &work);
    first = last.before;
    kernel = last.kernel;
    launch = last.launch;
    last.w = 0;
    pthread_mutex_unlock(&lock);
    launch.library_function = function;
    if (is_that)
        tap_gpu_capture_ends(&first, &launch, kernel, &work);
}

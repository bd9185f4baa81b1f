/* torch_made_w.c - an operator that makes floats of a quantised W, by which torch has a library multiply next.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: vLLM 0.26, layers/quantization/auto_awq.py, AutoAWQLinearMethod: 256 rows and more are
 * torch.matmul(x, awq_dequantize(...)). Which product it is tells the address of W (gpu_gate.h). */
#include "recorder/tap/torch/torch_made_w.h"

#include <string.h>

#include "recorder/tap/gpu/gpu_gate.h"
#include "recorder/tap/gpu/gpu_threads.h"
#include "recorder/tap/torch/torch_beside.h"

bool tap_torch_made_w_read(struct tap_torch_made_w *w, const void *real,
                           const struct tap_torch_meaning *m, const td_torch_value *stack)
{
    td_torch_tensor first;

    w->launch = (struct tap_gpu_launch){.stream = NULL};
    return !tap_gpu_thread.in_library_call &&
           tap_torch_beside_read(m, stack, &w->work, &first) == TAP_TORCH_READ &&
           tap_torch_stream(real, first, &w->launch.stream);
}

/* A library multiplies with W in float16. */
bool tap_torch_made_w_work(const struct tap_torch_made_w *w, const struct tap_torch_meaning *m,
                           td_torch_value result, struct td_gpu_work *work)
{
    const uint64_t address = tap_torch_beside_result(&w->work, result);
    struct td_gpu_operand *last;

    if (!address || strcmp(tap_gpu_gemm_output(&w->work)->dtype, "F16"))
        return false;
    *work = w->work;
    work->adapter = &m->product;
    work->beside = false;
    work->n_attr = 0;
    work->in_step = tap_torch_is_recorded(m); /* its own op has told where a step begins */
    last = &work->op[work->n_op - 1];
    last->address = address;
    return true;
}

void tap_torch_made_w_tell(const struct tap_torch_made_w *w, const struct tap_torch_meaning *m,
                           td_torch_value result)
{
    struct tap_gpu_launch l = w->launch;
    struct td_gpu_work work;
    int before;

    if (!tap_torch_made_w_work(w, m, result, &work) || !tap_gpu_come_in())
        return;
    before = tap_gpu_error_before();
    l.context = tap_gpu_context_of(l.stream);
    tap_gpu_gate_made_w(&l, &m->kernel, &work);
    tap_gpu_error_restore(before);
    tap_gpu_go_out();
}

/* cuda_callback.c - what happens in CUPTI's callback: a call of the driver is read as a launch, and
 * enters the pipeline.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "recorder/tap/cuda/cuda_callback.h"
#include "recorder/tap/cuda/cuda_graphs.h"
#include "recorder/tap/gpu/gpu_gate.h"
#include "recorder/tap/gpu/gpu_recognise.h"
#include "recorder/tap/gpu/gpu_threads.h"

static __thread __attribute__((tls_model("initial-exec"))) struct {
    uint64_t token;                   /* of a launch that is recorded, between its two callbacks */
    struct tap_cuda_captured *captured; /* of a launch that is captured, the same */
    const void *exec;                 /* of a graph that is launched, the same */
    uint64_t launch;                  /* its number, if it copies (cuda_graph_arena.h) */
} me;

/* Parameters in the packed form: `extra` holds pairs of a word and a value; two of them give the
 * block's address and size. */
static void read_extra(struct tap_gpu_launch *l, void *const *extra)
{
    int i;

    for (i = 0; i < 8 && extra && (uintptr_t)extra[i] != TD_CUDA_PARAM_END; i += 2) {
        if ((uintptr_t)extra[i] == TD_CUDA_PARAM_BUFFER_POINTER)
            l->packed = extra[i + 1];
        else if ((uintptr_t)extra[i] == TD_CUDA_PARAM_BUFFER_SIZE && extra[i + 1])
            l->packed_bytes = *(const size_t *)extra[i + 1];
    }
}

static void read_launch(struct tap_gpu_launch *l, const struct td_cupti_launch_params *p,
                        bool has_extra)
{
    l->function = p->function;
    l->stream = p->stream;
    memcpy(l->grid, p->grid, sizeof l->grid);
    memcpy(l->block, p->block, sizeof l->block);
    l->shared_bytes = p->shared_bytes;
    l->params = p->params;
    if (!l->params && has_extra)
        read_extra(l, p->extra);
}

static void read_launch_ex(struct tap_gpu_launch *l, const struct td_cupti_launch_ex_params *p)
{
    const struct td_cuda_launch_config *c = p->config;
    struct td_cupti_launch_params as = {.function = p->function,
                                        .shared_bytes = c->shared_bytes,
                                        .stream = c->stream,
                                        .params = p->params,
                                        .extra = p->extra};

    memcpy(as.grid, c->grid, sizeof as.grid);
    memcpy(as.block, c->block, sizeof as.block);
    read_launch(l, &as, true);
}

/* Read a call as a launch. False: it is no launch of a kernel. */
static bool read_call(struct tap_gpu_launch *l, uint32_t cbid, const struct td_cupti_data *d)
{
    bool per_thread = false;

    memset(l, 0, sizeof *l);
    l->context = d->context;
    switch (cbid) {
    case TD_CBID_LAUNCH_KERNEL_PTSZ:
    case TD_CBID_LAUNCH_COOPERATIVE_PTSZ:
        per_thread = true;            /* fall through */
    case TD_CBID_LAUNCH_KERNEL:
    case TD_CBID_LAUNCH_COOPERATIVE:
        read_launch(l, d->params,
                    cbid == TD_CBID_LAUNCH_KERNEL || cbid == TD_CBID_LAUNCH_KERNEL_PTSZ);
        break;
    case TD_CBID_LAUNCH_KERNEL_EX_PTSZ:
        per_thread = true;            /* fall through */
    case TD_CBID_LAUNCH_KERNEL_EX:
        if (!((const struct td_cupti_launch_ex_params *)d->params)->config)
            return false;
        read_launch_ex(l, d->params);
        break;
    default:
        return false;
    }
    if (per_thread && !l->stream)
        l->stream = TD_CUDA_STREAM_PER_THREAD;
    return true;
}

static bool is_graph_launch(uint32_t cbid)
{
    return cbid == TD_CBID_GRAPH_LAUNCH || cbid == TD_CBID_GRAPH_LAUNCH_PTSZ;
}

static void *graph_stream(uint32_t cbid, const struct td_cupti_data *d)
{
    const struct td_cupti_graph_launch_params *p = d->params;

    return cbid == TD_CBID_GRAPH_LAUNCH_PTSZ && !p->stream ? TD_CUDA_STREAM_PER_THREAD
                                                            : p->stream;
}

static void before_launch(uint32_t cbid, const struct td_cupti_data *d)
{
    struct tap_gpu_launch l;

    if (is_graph_launch(cbid)) {
        const struct td_cupti_graph_launch_params *p = d->params;

        tap_count(TAP_GRAPHS, 1, 0);
        tap_gpu_gate_note_other(NULL);
        me.exec = tap_cuda_graphs_on() ? p->exec : NULL;
        return;
    }
    if (!read_call(&l, cbid, d))
        return;
    me.token = tap_gpu_recognise(&l, d->symbol);
}

static void after_launch(uint32_t cbid, const struct td_cupti_data *d)
{
    bool ok = d->result && *(const int *)d->result == 0;
    const void *exec = me.exec;
    struct tap_gpu_launch l;
    uint64_t token = me.token;

    me.token = 0;
    me.exec = NULL;
    if (exec && ok && is_graph_launch(cbid) && tap_armed())
        tap_cuda_graphs_launched(exec, graph_stream(cbid, d), d->context, me.launch);
    else if (token && read_call(&l, cbid, d))
        tap_gpu_gate_leave(token, &l, ok);
}

static void launch_over(void)
{
    if (me.launch)
        tap_cuda_graphs_launch_over();
    me.launch = 0;
}

/* Watch captures and graphs, while asleep too. True: the call was about them, and nothing else is
 * to be done. */
static bool handle_graphs(uint32_t cbid, const struct td_cupti_data *d)
{
    struct tap_cuda_captured *captured = me.captured;
    struct tap_gpu_launch l;

    if (d->site == TD_CUPTI_ENTER && is_graph_launch(cbid)) {
        launch_over();                /* of a launch whose end was not watched */
        me.exec = NULL;
        me.launch = tap_cuda_graphs_launch(
            ((const struct td_cupti_graph_launch_params *)d->params)->exec, graph_stream(cbid, d));
    }
    if (is_graph_launch(cbid))
        return false;
    me.captured = NULL;
    if (!read_call(&l, cbid, d))
        return tap_cuda_graphs_call(cbid, d);
    if (d->site == TD_CUPTI_ENTER)
        return tap_cuda_graphs_enter(&l, d->symbol, &me.captured);
    if (captured)
        tap_cuda_graphs_leave(captured, &l, d->result && *(const int *)d->result == 0);
    return captured;
}

void tap_cuda_on_call(void *user, int domain, uint32_t cbid, const void *data)
{
    const struct td_cupti_data *d = data;
    int e = errno;

    (void)user;
    if (domain != TD_CUPTI_DOMAIN_DRIVER || tap_gpu_thread.own_calls ||
        (d->site == TD_CUPTI_EXIT && !me.token && !tap_cuda_graphs_on()))
        return;
    tap_gpu_thread.own_calls = true;
    if ((!tap_cuda_graphs_on() || !handle_graphs(cbid, d)) && tap_gpu_come_in()) {
        if (tap_armed() && d->site == TD_CUPTI_ENTER)
            before_launch(cbid, d);
        else if (me.token || me.exec)
            after_launch(cbid, d);
        tap_gpu_go_out();
    }
    if (d->site == TD_CUPTI_EXIT && is_graph_launch(cbid))
        launch_over();
    tap_gpu_thread.own_calls = false;
    errno = e;
}

void tap_cuda_callback_forget(void)
{
    me.token = 0;
    me.captured = NULL;
    me.exec = NULL;
    me.launch = 0;
}

/* gpu_sender.c - the thread that sends what has come from the device: ops, weights, steps, names of
 * kernels.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It makes no CUDA call: it watches a word in memory, so it may run beside a capture, and beside a
 * driver that is being shut down. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

#include "recorder/tap/gpu/flight_trigger.h"
#include "recorder/tap/gpu/gpu_kernels.h"
#include "recorder/tap/gpu/gpu_op.h"
#include "recorder/tap/gpu/gpu_output_check.h"
#include "recorder/tap/gpu/gpu_queue.h"
#include "recorder/tap/gpu/gpu_record_slots.h"
#include "recorder/tap/gpu/gpu_sender.h"

/* The first nap, and each one while a ring is full. Other naps double from one to the next, because
 * a thread that wakes often takes time from the server's threads. */
#define NAP_NS 300000L
/* The longest nap while something is on its way, or may come: the rings must not fill up
 * meanwhile. */
#define NAP_BUSY_NS 1200000L
/* The longest nap of a sample with nothing on its way: nearly all the time between its windows. */
#define NAP_MAX_NS 5000000L
#define KERNELS_EVERY_NS 1000000000LL
#define DROP_NS 100000000LL

static struct {
    /* running: at work for an arm. finish: send what there is, then stop. drop: only count it. */
    _Atomic bool running, finish, drop;
    bool started;
    sem_t go;
} sender;

static struct tap_gpu_op op;          /* the op that is being put together */
/* A launch of the op at hand was dropped: count the op as failed, do not send it. */
static bool is_op_lost;

/* By number of the weight set: the number that the recorder knows it by, and the sample of each
 * tensor as it was sent (known: a bit for each tensor whose sample is there). */
static struct {
    uint32_t id, known;
    uint8_t sample[TAP_GPU_SAMPLE];
} set_sent[TAP_GPU_WEIGHT_NUMBERS];
static uint32_t highest;              /* of the numbers used in this arm */

static void sleep_for(long ns)
{
    struct timespec t = {0, ns};

    nanosleep(&t, NULL);
}

/* Wait until the recorder's ring has room. False: the tap went to sleep, or time is up. */
static bool wait_room(uint64_t bytes)
{
    while (tap_send_room() < bytes) {
        if (!tap_armed() || atomic_load(&sender.drop))
            return false;
        sleep_for(NAP_NS);
    }
    return true;
}

/* ---- weights --------------------------------------------------------------------------------- */

static uint32_t weights_id(const struct tap_gpu_weight_set *s)
{
    if (s->number > highest)
        highest = s->number;
    if (!set_sent[s->number].id)
        set_sent[s->number].id = tap_send_new_weights();
    return set_sent[s->number].id;
}

/* Remember the samples that lie in this chunk, which is of one tensor. */
static void remember_sample(const struct tap_gpu_entry *e)
{
    uint64_t begin = 0, at, n;
    int t;

    for (t = 0; t < TAP_MAX_WEIGHTS; begin += e->set.bytes[t++]) {
        at = begin + tap_gpu_weight_set_sample(&e->set, t, &n);
        if (!n || at < e->offset || at + n > e->offset + e->len)
            continue;
        memcpy(set_sent[e->set.number].sample + t * TAP_GPU_SAMPLE_EACH,
               tap_gpu_stage_bytes_at(e->at + at - e->offset), n);
        set_sent[e->set.number].known |= 1u << t;
    }
}

/* Does this launch read the weights that were sent? Its sample tells. */
static bool is_as_sent(const struct tap_gpu_entry *e)
{
    const uint8_t *now = tap_gpu_stage_bytes_at(e->sample_at),
                  *sent = set_sent[e->set.number].sample;
    bool same = true;
    uint64_t n;
    int t;

    for (t = 0; t < TAP_MAX_WEIGHTS && same; t++) {
        tap_gpu_weight_set_sample(&e->set, t, &n);
        same = !n || (set_sent[e->set.number].known >> t & 1 &&
                      !memcmp(sent + t * TAP_GPU_SAMPLE_EACH, now + t * TAP_GPU_SAMPLE_EACH, n));
    }
    return same;
}

static void send_weight_chunk(const struct tap_gpu_entry *e)
{
    uint32_t id = weights_id(&e->set);
    uint64_t done = 0;

    remember_sample(e);
    while (done < e->len) {
        uint64_t n = e->len - done < TAP_MAX_CHUNK ? e->len - done : TAP_MAX_CHUNK;

        if (n > tap_max_record_bytes() / 4)
            n = tap_max_record_bytes() / 4;
        if (!n || !wait_room(n + 2 * sizeof(struct tap_weight)) ||
            !tap_send_weights(id, e->set.bytes, e->offset + done,
                             tap_gpu_stage_bytes_at(e->at + done), (uint32_t)n))
            return;
        done += n;
    }
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* Send output `part` of the op that the launches so far make up. */
static void send_part(int part)
{
    const struct tap_gpu_entry *first = &op.launch[0];
    struct tap_open_call t;
    struct tap_call call;

    if (tap_gpu_op_describe(&op, part, &call)) {
        call.weight_set = first->set.number ? weights_id(&first->set) : 0;
        if (call.weight_set && tap_send_weights_refused(call.weight_set))
            /* From the next op on; this one is counted where it is not recorded. */
            tap_gpu_weight_set_refuse(&first->set);
        tap_gpu_output_check_call(&call);
        if (tap_call_record_bytes(&call) <= tap_max_record_bytes())
            wait_room(tap_call_record_bytes(&call));
        if (tap_call_begin(&t, &call)) {
            t.t0_ns = first->t_ns;
            tap_call_end(&t, true, -1);
        }
    } else {
        tap_count(TAP_OPS_FAILED, 1, 0);
    }
}

static void send_op(void)
{
    int part;

    if (!op.n)
        return;
    for (part = 0; part < tap_gpu_gemm_outputs(&op.launch[0].work); part++)
        send_part(part);
    tap_gpu_stage_free(op.launch[op.n - 1].end);
    op.n = 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Report launches of a kernel: to the ledger, and by its name. *sent: of n, those reported
 * before. */
static void send_kernel(const struct tap_gpu_kernel *k, bool known, uint64_t n, uint64_t *sent)
{
    n -= *sent;
    if (!n || (k->symbol[0] && (!wait_room(2 * sizeof(struct tap_kernel)) ||
                                !tap_send_kernel(k->symbol, known, n))))
        return;
    *sent += n;
    tap_count(TAP_LAUNCHES, n, 0);
    if (known)
        tap_count(TAP_LAUNCHES_KNOWN, n, 0);
}

static void send_kernels_of(struct tap_gpu_kernel *(*at)(unsigned i, bool *used))
{
    struct tap_gpu_kernel *k;
    bool used;
    unsigned i;

    for (i = 0; (k = at(i, &used)); i++) {
        if (!used)
            continue;
        send_kernel(k, k->adapter != NULL, atomic_load_explicit(&k->n, memory_order_relaxed),
                    &k->sent);
        send_kernel(k, true, atomic_load_explicit(&k->in_library_call, memory_order_relaxed),
                    &k->sent_in_library_call);
    }
}

static void send_kernels(void)
{
    send_kernels_of(tap_gpu_kernel_at);
    send_kernels_of(tap_gpu_graph_kernel_at);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Can only the content of W tell whether this is a layer, or a product of two activations? */
static bool may_be_of_activations(const struct tap_gpu_entry *e)
{
    return e->work.whole && !strcmp(e->kernel->adapter->kind, "gemm");
}

/* The launch does not read what was sent as its weights. */
static void leave_out(const struct tap_gpu_entry *e)
{
    if (may_be_of_activations(e))
        tap_gpu_weight_set_mark_activation(&e->set);
    else
        tap_gpu_weight_set_mark_stale(&e->set);
}

/* Add a launch to the op at hand. Its part of the stage stays in use until the op is sent. */
static void add_launch(const struct tap_gpu_entry *e)
{
    if (!e->joins) {
        op.unfit = !is_as_sent(e);
        if (op.unfit)
            leave_out(e);
    } else if (op.n && e->set.number != op.launch[0].set.number) {
        send_op();                    /* the same GEMM with another set of weights: another op */
    }
    if (op.unfit) {
        tap_count(may_be_of_activations(e) ? TAP_OPS_ACTIVATIONS : TAP_OPS_WEIGHTS, !e->joins,
                  tap_gpu_gemm_copied_bytes(&e->work));
        tap_gpu_stage_free(e->end);
    } else {
        op.launch[op.n++] = *e;
    }
}

/* Drop the op at hand, because rows of it are missing: its first rows would pass for all of it. */
static void cut_op(enum tap_count why)
{
    int i;

    for (i = 0; i < op.n; i++)
        tap_count(why, !i, tap_gpu_gemm_copied_bytes(&op.launch[i].work));
    if (op.n)
        tap_gpu_stage_free(op.launch[op.n - 1].end);
    op.n = 0;
}

static void send_other(const struct tap_gpu_entry *e)
{
    if (e->kind == TAP_GPU_STEP && e->recorded) {
        tap_send_resume_step(e->step);
    } else if (e->kind == TAP_GPU_STEP) {
        wait_room(1024);
        tap_send_step(e->step);       /* counts the step, sent or not */
    }
    if (e->kind == TAP_GPU_WEIGHT_CHUNK)
        send_weight_chunk(e);
    if (e->kind == TAP_GPU_CHECK)
        tap_gpu_output_check_columns(e);
    if (e->kind == TAP_GPU_DUMP_BEGIN && wait_room(2 * sizeof(struct tap_dump)))
        tap_send_dump(e->flight, e->t_ns, tap_flight_ring_bytes());
    if (e->kind == TAP_GPU_DUMP_BEGIN || e->kind == TAP_GPU_DUMP_END)
        tap_gpu_output_check_dump(e);
}

static void send_entry(const struct tap_gpu_entry *e)
{
    static struct tap_gpu_entry whole;

    if (e->kind == TAP_GPU_LAUNCH && e->product) {
        tap_gpu_slot_entry(e, &whole);
        e = &whole;
    }
    if (e->cut != TAP_OPS_SENT)
        cut_op(e->cut);
    /* a library call takes the place of one more launch */
    if (e->kind != TAP_GPU_LAUNCH || !e->joins ||
        op.n + (op.launch[0].library_function != NULL) == TAP_MAX_LAUNCHES)
        send_op();
    if (e->kind == TAP_GPU_LAUNCH && tap_gpu_queue_is_void(e)) {
        cut_op(TAP_OPS_THREADS);
        tap_count(TAP_OPS_THREADS, !e->joins, tap_gpu_gemm_copied_bytes(&e->work));
        tap_gpu_stage_free(e->end);
        return;
    }
    if (e->kind == TAP_GPU_LAUNCH) {
        add_launch(e);
        return;
    }
    send_other(e);
    tap_gpu_stage_free(e->end);
}

static void drop_op(void)
{
    tap_count(TAP_OPS_FAILED, op.n > 0 || is_op_lost, 0);
    op.n = 0;
    is_op_lost = false;
}

static void drop_entry(const struct tap_gpu_entry *e)
{
    if (e->kind != TAP_GPU_LAUNCH || !e->joins)
        drop_op();
    if (e->kind != TAP_GPU_LAUNCH)
        return;
    if (!e->joins)
        op.unfit = false;
    if (!op.unfit)               /* an unfit one is counted already */
        is_op_lost = true;
}

static long next_nap(long nap_ns, bool on_its_way)
{
    long most = on_its_way || !tap_is_sampling() ? NAP_BUSY_NS : NAP_MAX_NS;

    return 2 * nap_ns < most ? 2 * nap_ns : most;
}

/* Send the entries of one arm. */
static void send_arm(void)
{
    int64_t names = tap_now();
    long nap_ns = NAP_NS;

    while (tap_armed()) {
        const struct tap_gpu_entry *e = tap_gpu_queue_entry();

        if (e && (tap_gpu_stage_is_broken() || atomic_load(&sender.drop))) {
            drop_entry(e);
            tap_gpu_queue_next();
        } else if (e && tap_gpu_stage_has_batch(e->batch)) {
            send_entry(e);
            tap_gpu_queue_next();
            nap_ns = NAP_NS;
        } else if (!e && atomic_load(&sender.finish)) {
            if (tap_gpu_stage_is_broken() || atomic_load(&sender.drop))
                drop_op();
            send_op();
            send_kernels();
            return;
        } else {
            sleep_for(nap_ns);
            nap_ns = next_nap(nap_ns, e);
        }
        if (tap_now() - names > KERNELS_EVERY_NS) {
            send_kernels();
            names = tap_now();
        }
    }
}

static void *run_sender(void *nothing)
{
    (void)nothing;
    pthread_setname_np(pthread_self(), "tapedeck-cuda");
    for (;;) {
        while (sem_wait(&sender.go) && errno == EINTR)
            ;
        memset(set_sent, 0, (highest + 1) * sizeof *set_sent);
        highest = 0;
        op.n = 0;
        op.unfit = is_op_lost = false;
        tap_gpu_output_check_clear();
        send_arm();
        op.n = 0;
        atomic_store(&sender.running, false);
    }
    return NULL;
}

bool tap_gpu_sender_is_busy(void)
{
    return atomic_load(&sender.running);
}

bool tap_gpu_sender_start(void)
{
    pthread_t thread;

    if (atomic_load(&sender.running))
        return false;                 /* the last arm's work goes on */
    if (!sender.started) {
        if (sem_init(&sender.go, 0, 0) || pthread_create(&thread, NULL, run_sender, NULL))
            return false;
        pthread_detach(thread);
        sender.started = true;
    }
    atomic_store(&sender.finish, false);
    atomic_store(&sender.drop, false);
    atomic_store(&sender.running, true);
    sem_post(&sender.go);
    return true;
}

void tap_gpu_sender_stop(int wait_ms)
{
    int64_t until = tap_now() + wait_ms * 1000000LL;

    atomic_store(&sender.finish, true);
    while (atomic_load(&sender.running) && tap_now() < until)
        sleep_for(NAP_NS);
    atomic_store(&sender.drop, true);
    until = tap_now() + DROP_NS;
    while (atomic_load(&sender.running) && tap_now() < until)
        sleep_for(NAP_NS);
    if (!atomic_load(&sender.running))
        tap_gpu_queue_end();
}

void tap_gpu_sender_forget(void)
{
    memset(&sender, 0, sizeof sender);
    op.n = 0;
}

/* gpu_sender.c - the thread that sends what has come from the device: launches joined into ops,
 * weights, steps, names of kernels.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It makes no CUDA call: it watches a word in memory, so it may run beside a capture, and beside a
 * driver that is being shut down. It may wait for room in the recorder's ring; then the ring on the
 * device fills up, and launches are dropped and counted. */
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
#include "recorder/tap/gpu/gpu_sender.h"

#define NAP_NS 300000L                /* at first, and while a ring is full; in work() then twice as long each time: a thread that wakes often takes of the server's */
#define NAP_BUSY_NS 1200000L          /* while something is on its way, or anything may come: the rings must not fill up meanwhile */
#define NAP_MAX_NS 5000000L           /* while nothing of a sample comes: between its windows that is nearly all the time */
#define KERNELS_EVERY_NS 1000000000LL
#define DROP_NS 100000000LL

static struct {
    /* An arm's work; send what there is, then it is done; only count it. */
    _Atomic bool running, finish, drop;
    bool started;
    sem_t go;
} sender;

static struct tap_gpu_op op;          /* that is being put together */

/* Of our sets, by number: the recorder's number, and its samples as they were sent; known: a bit
 * for each tensor whose sample is there. */
static struct {
    uint32_t id, known;
    uint8_t sample[TAP_GPU_SAMPLE];
} set_sent[TAP_GPU_WEIGHT_NUMBERS];
static uint32_t highest;              /* number that was used in this arm */

static void nap(long ns)
{
    struct timespec t = {0, ns};

    nanosleep(&t, NULL);
}

/* False: asleep again, or nobody has any more time. */
static bool wait_room(uint64_t bytes)
{
    while (tap_send_room() < bytes) {
        if (!tap_armed() || atomic_load(&sender.drop))
            return false;
        nap(NAP_NS);
    }
    return true;
}

/* ---- weights --------------------------------------------------------------------------------- */

static uint32_t id_of(const struct tap_gpu_weight_set *s)
{
    if (s->number > highest)
        highest = s->number;
    if (!set_sent[s->number].id)
        set_sent[s->number].id = tap_weights_new();
    return set_sent[s->number].id;
}

/* A piece is of one tensor. */
static void keep_sample(const struct tap_gpu_entry *e)
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

/* Do the weights that were sent still lie where this launch reads them? */
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

static void send_piece(const struct tap_gpu_entry *e)
{
    uint32_t id = id_of(&e->set);
    uint64_t done = 0;

    keep_sample(e);
    while (done < e->len) {
        uint64_t n = e->len - done < TAP_MAX_CHUNK ? e->len - done : TAP_MAX_CHUNK;

        if (n > tap_largest() / 4)
            n = tap_largest() / 4;
        if (!n || !wait_room(n + 2 * sizeof(struct tap_weight)) ||
            !tap_weights_put(id, e->set.bytes, e->offset + done,
                             tap_gpu_stage_bytes_at(e->at + done), (uint32_t)n))
            return;
        done += n;
    }
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* The launches put together so far are an op. */
static void send_op(void)
{
    const struct tap_gpu_entry *first = &op.launch[0];
    struct tap_taking t;
    struct tap_call call;

    if (!op.n)
        return;
    if (tap_gpu_op_describe(&op, &call)) {
        call.weights = id_of(&first->set);
        if (tap_weights_unwanted(call.weights))
            tap_gpu_weight_set_refuse(&first->set); /* this op is counted where it is not taken */
        tap_gpu_output_check_call(&call);
        if (tap_take_size(&call) <= tap_largest())
            wait_room(tap_take_size(&call));
        if (tap_take_begin(&t, &call)) {
            t.t0_ns = first->t_ns;
            tap_take_end(&t, true, -1);
        }
    } else {
        tap_count(TAP_OPS_FAILED, 1, 0);
    }
    tap_gpu_stage_free(op.launch[op.n - 1].end);
    op.n = 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* In the ledger, and by its name: *sent of n launches are there already. */
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
    send_kernels_of(tap_gpu_graph_kernel_at); /* launched by graphs */
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Its memory is in use until the op is sent. */
static void add_launch(const struct tap_gpu_entry *e)
{
    if (!e->joins) {
        op.unfit = !is_as_sent(e);
        if (op.unfit)
            tap_gpu_weight_set_mark_stale(&e->set);
    } else if (op.n && e->set.number != op.launch[0].set.number) {
        send_op();                    /* other scales, or another order of rows */
    }
    if (op.unfit) {
        tap_count(TAP_OPS_WEIGHTS, !e->joins, tap_gpu_gemm_copied_bytes(&e->work));
        tap_gpu_stage_free(e->end);
    } else {
        op.launch[op.n++] = *e;
    }
}

/* Rows are missing of the op: what is there would pass for the whole. */
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
        tap_send_again(e->step);
    } else if (e->kind == TAP_GPU_STEP) {
        wait_room(1024);
        tap_send_pass(e->step);       /* counts it, either way */
    }
    if (e->kind == TAP_GPU_WEIGHT_CHUNK)
        send_piece(e);
    if (e->kind == TAP_GPU_CHECK)
        tap_gpu_output_check_columns(e);
    if (e->kind == TAP_GPU_DUMP_BEGIN && wait_room(2 * sizeof(struct tap_kept)))
        tap_send_kept(e->flight, e->t_ns, tap_flight_ring_bytes());
    if (e->kind == TAP_GPU_DUMP_BEGIN || e->kind == TAP_GPU_DUMP_END)
        tap_gpu_output_check_dump(e);
}

static void send_entry(const struct tap_gpu_entry *e)
{
    if (e->cut != TAP_OPS_SENT)
        cut_op(e->cut);
    if (e->kind != TAP_GPU_LAUNCH || !e->joins || op.n == TAP_MAX_LAUNCHES)
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
    tap_count(TAP_OPS_FAILED, op.n > 0, 0);
    op.n = 0;
}

static void drop_entry(const struct tap_gpu_entry *e)
{
    if (e->kind != TAP_GPU_LAUNCH || !e->joins)
        drop_op();
    if (e->kind != TAP_GPU_LAUNCH)
        return;
    if (!e->joins)
        op.unfit = false;
    if (!op.unfit)               /* else it is counted already */
        op.n = 1;                /* its first launch stands for it */
}

static long next_nap(long nap_ns, bool on_its_way)
{
    long most = on_its_way || !tap_is_sampling() ? NAP_BUSY_NS : NAP_MAX_NS;

    return 2 * nap_ns < most ? 2 * nap_ns : most;
}

/* One arm. */
static void work(void)
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
            if (atomic_load(&sender.drop))
                drop_op();
            send_op();
            send_kernels();
            return;
        } else {
            nap(nap_ns);
            nap_ns = next_nap(nap_ns, e);
        }
        if (tap_now() - names > KERNELS_EVERY_NS) {
            send_kernels();
            names = tap_now();
        }
    }
}

static void *run(void *nothing)
{
    (void)nothing;
    pthread_setname_np(pthread_self(), "tapedeck-cuda");
    for (;;) {
        while (sem_wait(&sender.go) && errno == EINTR)
            ;
        memset(set_sent, 0, (highest + 1) * sizeof *set_sent);
        highest = 0;
        op.n = 0;
        op.unfit = false;
        tap_gpu_output_check_clear();
        work();
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
        return false;                 /* the last arm's is still at it */
    if (!sender.started) {
        if (sem_init(&sender.go, 0, 0) || pthread_create(&thread, NULL, run, NULL))
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
        nap(NAP_NS);
    atomic_store(&sender.drop, true);
    until = tap_now() + DROP_NS;
    while (atomic_load(&sender.running) && tap_now() < until)
        nap(NAP_NS);
}

void tap_gpu_sender_forget(void)
{
    memset(&sender, 0, sizeof sender);
    op.n = 0;
}

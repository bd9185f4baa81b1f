/* tap_cuda_send.c - the thread that sends what has come from the device: launches joined into ops, weights, steps, names of kernels.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It makes no CUDA call: it watches a word in memory, so it may run beside a capture, and beside a driver that is being shut down. It may wait for
 * room in the recorder's ring; then the ring on the device fills up, and launches are dropped and counted. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "recorder/tap/cuda/tap_cuda_graphs.h"
#include "recorder/tap/cuda/tap_cuda_flight.h"

#define NAP_NS 300000L                /* at first, and while a ring is full; in work() then twice as long each time: a thread that wakes often takes of the server's */
#define NAP_BUSY_NS 1200000L          /* while something is on its way, or anything may come: the rings must not fill up meanwhile */
#define NAP_MAX_NS 5000000L           /* while nothing of a sample comes: between its windows that is nearly all the time */
#define KERNELS_EVERY_NS 1000000000LL
#define DROP_NS 100000000LL

static struct {
    _Atomic bool running, finish, drop; /* an arm's work; send what there is, then it is done; only count it */
    bool started;
    sem_t go;
} sender;

/* The op that is being put together. */
static struct {
    struct tap_cuda_entry launch[TAP_MAX_LAUNCHES];
    int n;
    bool unfit;                       /* its first launch was dropped: those that join it are too */
} open_op;

/* Of our sets, by number: the recorder's number, and its samples as they were sent; known: a bit for each tensor whose sample is there. */
static struct { uint32_t id, known; uint8_t sample[TAP_CUDA_SAMPLE]; } set_sent[TAP_CUDA_NUMBERS];
static uint32_t highest;              /* number that was used in this arm */

static uint8_t *scratch;              /* for ops of several launches */
static uint64_t scratch_bytes;

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

/* ---- weights ------------------------------------------------------------------------------------------------------- */

static uint32_t id_of(const struct tap_cuda_set *s)
{
    if (s->number > highest)
        highest = s->number;
    if (!set_sent[s->number].id)
        set_sent[s->number].id = tap_weights_new();
    return set_sent[s->number].id;
}

/* A piece is of one tensor. */
static void keep_sample(const struct tap_cuda_entry *e)
{
    uint64_t begin = 0, at, n;
    int t;

    for (t = 0; t < TAP_MAX_WEIGHTS; begin += e->set.bytes[t++]) {
        at = begin + tap_cuda_set_sample(&e->set, t, &n);
        if (!n || at < e->offset || at + n > e->offset + e->len)
            continue;
        memcpy(set_sent[e->set.number].sample + t * TAP_CUDA_SAMPLE_EACH, tap_cuda_stage_at(e->at + at - e->offset), n);
        set_sent[e->set.number].known |= 1u << t;
    }
}

/* Do the weights that were sent still lie where this launch reads them? */
static bool is_as_sent(const struct tap_cuda_entry *e)
{
    const uint8_t *now = tap_cuda_stage_at(e->sample_at), *sent = set_sent[e->set.number].sample;
    bool same = true;
    uint64_t n;
    int t;

    for (t = 0; t < TAP_MAX_WEIGHTS && same; t++) {
        tap_cuda_set_sample(&e->set, t, &n);
        same = !n || (set_sent[e->set.number].known >> t & 1 && !memcmp(sent + t * TAP_CUDA_SAMPLE_EACH, now + t * TAP_CUDA_SAMPLE_EACH, n));
    }
    return same;
}

static void send_piece(const struct tap_cuda_entry *e)
{
    uint32_t id = id_of(&e->set);
    uint64_t done = 0;

    keep_sample(e);
    while (done < e->len) {
        uint64_t n = e->len - done < TAP_MAX_CHUNK ? e->len - done : TAP_MAX_CHUNK;

        if (n > tap_largest() / 4)
            n = tap_largest() / 4;
        if (!n || !wait_room(n + 2 * sizeof(struct tap_weight)) || !tap_weights_put(id, e->set.bytes, e->offset + done, tap_cuda_stage_at(e->at + done), (uint32_t)n))
            return;
        done += n;
    }
}

/* ---- ops ----------------------------------------------------------------------------------------------------------- */

static void set_operand(struct tap_operand *to, const struct td_gpu_operand *o)
{
    int i;

    *to = (struct tap_operand){.role = o->role, .dtype = o->dtype, .ndim = o->ndim, .bytes = o->bytes, .address = o->address, .data = (const void *)(uintptr_t)o->address};
    for (i = 0; i < o->ndim; i++)
        to->shape[i] = o->shape[i];
    to->strides[0] = o->ndim > 1 ? o->shape[1] : 1;
    to->strides[1] = o->ndim > 1;
}

static uint64_t bytes_of_all(int operand)
{
    uint64_t n = 0;
    int i;

    for (i = 0; i < open_op.n; i++)
        n += open_op.launch[i].work.op[operand].bytes;
    return n;
}

/* Rows of all launches, one after the other, at `to`. */
static void gather(uint8_t *to, int operand)
{
    int i;

    for (i = 0; i < open_op.n; i++) {
        const struct tap_cuda_entry *e = &open_op.launch[i];

        memcpy(to, tap_cuda_stage_at(e->op_at[operand]), e->work.op[operand].bytes);
        to += e->work.op[operand].bytes;
    }
}

/* Room for the operands of an op of several launches. */
static bool make_scratch(uint64_t n)
{
    uint8_t *p;

    if (n <= scratch_bytes)
        return true;
    p = realloc(scratch, n);
    if (!p)
        return false;
    scratch = p;
    scratch_bytes = n;
    return true;
}

/* An input or the output, with the rows of all launches; *used: of the scratch. */
static void set_copied(struct tap_operand *to, int operand, int64_t rows, uint64_t *used)
{
    const struct tap_cuda_entry *first = &open_op.launch[0];
    const struct td_gpu_operand *o = &first->work.op[operand];

    set_operand(to, o);
    to->data = tap_cuda_stage_at(first->op_at[operand]);
    if (open_op.n == 1)
        return;
    to->bytes = bytes_of_all(operand);
    to->shape[0] = rows;
    to->data = scratch + *used;
    gather(scratch + *used, operand);
    *used += tap_round(to->bytes, 64);
}

static void add_attr(struct tap_call *call, const char *name, int64_t value)
{
    call->attrs[call->n_attrs++] = (struct td_attr_view){name, value};
}

static void set_attrs(struct tap_call *call, const struct td_gpu_work *w, int64_t rows)
{
    add_attr(call, "m", rows);
    add_attr(call, "n", w->n);
    add_attr(call, "k", w->k);
    if (!w->bits) {
        add_attr(call, "trans_b", 1);  /* gemm: W lies as a checkpoint has it */
        return;
    }
    add_attr(call, "bits", w->bits);
    add_attr(call, "group_size", w->group_size);
    add_attr(call, "zero_offset", w->zero_offset);
    add_attr(call, "act_order", w->act_order);
}

/* The half that a function of a library does: it says nothing of its launches. */
static void add_product(struct tap_call *call, struct tap_call_launch *launches, const struct tap_cuda_entry *e, int64_t rows)
{
    if (e->product)                   /* send_entry() left room for it */
        launches[call->n_launches++] = (struct tap_call_launch){.rows = {0, rows}, .symbol = e->product};
}

static int64_t set_launches(struct tap_call_launch launches[TAP_MAX_LAUNCHES])
{
    int64_t rows = 0;
    int i;

    for (i = 0; i < open_op.n; i++) {
        const struct tap_cuda_entry *e = &open_op.launch[i];

        launches[i] = (struct tap_call_launch){.rows = {rows, rows + e->work.m}, .shared_bytes = e->launch.shared_bytes,
                                               .flags = e->launch.slot ? TD_LAUNCH_IN_GRAPH : 0,
                                               .symbol = e->kernel == open_op.launch[0].kernel ? NULL : e->kernel->symbol};
        memcpy(launches[i].grid, e->launch.grid, sizeof launches[i].grid);
        memcpy(launches[i].block, e->launch.block, sizeof launches[i].block);
        rows += e->work.m;
    }
    return rows;
}

static void set_operands(struct tap_call *call, int64_t rows)
{
    const struct td_gpu_work *w = &open_op.launch[0].work;
    uint64_t used = 0;
    int i;

    for (i = 0; i < w->n_op; i++) {
        if (!w->op[i].address)
            continue;
        if (w->op[i].use == TD_GPU_WEIGHT && call->n_w < TAP_MAX_WEIGHTS)
            set_operand(&call->w[call->n_w++], &w->op[i]);
        else if (w->op[i].use == TD_GPU_IN && call->n_in < TAP_MAX_INPUTS)
            set_copied(&call->in[call->n_in++], i, rows, &used);
        else if (w->op[i].use == TD_GPU_OUT || w->op[i].use == TD_GPU_OUT_ZEROED)
            set_copied(&call->out, i, rows, &used);
    }
}

static uint64_t scratch_needed(void)
{
    uint64_t n = 0;
    int i;

    for (i = 0; open_op.n > 1 && i < open_op.launch[0].work.n_op; i++) {
        enum td_gpu_use use = open_op.launch[0].work.op[i].use;

        if (use == TD_GPU_IN || use == TD_GPU_OUT || use == TD_GPU_OUT_ZEROED) /* weights are not gathered, and are large */
            n += tap_round(bytes_of_all(i), 64);
    }
    return n;
}

/* The launches put together so far are an op. */
static void send_op(void)
{
    static struct tap_call_launch launches[TAP_MAX_LAUNCHES];
    const struct tap_cuda_entry *first = &open_op.launch[0];
    struct tap_call call = {.rounding = first->work.rounding ? first->work.rounding : "none"};
    struct tap_taking t;

    if (!open_op.n)
        return;
    if (make_scratch(scratch_needed())) {
        call.kind = first->product ? "gptq_gemm" : first->work.adapter->kind;
        call.layout = first->work.adapter->layout;
        call.symbol = first->kernel->symbol;
        call.weights = id_of(&first->set);
        if (tap_weights_unwanted(call.weights))
            tap_cuda_set_refuse(&first->set); /* this op is counted where it is not taken */
        call.rows = set_launches(launches);
        call.launches = launches;
        call.n_launches = open_op.n;
        add_product(&call, launches, first, call.rows);
        set_attrs(&call, &first->work, call.rows);
        set_operands(&call, call.rows);
        call.flight = first->flight;
        tap_cuda_look_call(&call);
        if (tap_take_size(&call) <= tap_largest())
            wait_room(tap_take_size(&call));
        if (tap_take_begin(&t, &call)) {
            t.t0_ns = first->t_ns;
            tap_take_end(&t, true, -1);
        }
    } else {
        tap_count(TAP_OPS_FAILED, 1, 0);
    }
    tap_cuda_stage_free(open_op.launch[open_op.n - 1].end);
    open_op.n = 0;
}

/* ---- names --------------------------------------------------------------------------------------------------------- */

/* In the ledger, and by its name: *sent of n launches are there already. */
static void send_kernel(const struct tap_cuda_kernel *k, bool known, uint64_t n, uint64_t *sent)
{
    n -= *sent;
    if (!n || (k->symbol[0] && (!wait_room(2 * sizeof(struct tap_kernel)) || !tap_send_kernel(k->symbol, known, n))))
        return;
    *sent += n;
    tap_count(TAP_LAUNCHES, n, 0);
    if (known)
        tap_count(TAP_LAUNCHES_KNOWN, n, 0);
}

static void send_kernels_of(struct tap_cuda_kernel *(*at)(unsigned i, bool *used))
{
    struct tap_cuda_kernel *k;
    bool used;
    unsigned i;

    for (i = 0; (k = at(i, &used)); i++) {
        if (!used)
            continue;
        send_kernel(k, k->row != NULL, atomic_load_explicit(&k->n, memory_order_relaxed), &k->sent);
        send_kernel(k, true, atomic_load_explicit(&k->covered, memory_order_relaxed), &k->sent_covered);
    }
}

static void send_kernels(void)
{
    send_kernels_of(tap_cuda_kernel_at);
    send_kernels_of(tap_cuda_plan_kernel_at); /* launched by graphs */
}

/* ---- the thread ---------------------------------------------------------------------------------------------------- */

/* Its memory is in use until the op is sent. */
static void add_launch(const struct tap_cuda_entry *e)
{
    if (!e->joins) {
        open_op.unfit = !is_as_sent(e);
        if (open_op.unfit)
            tap_cuda_set_stale(&e->set);
    } else if (open_op.n && e->set.number != open_op.launch[0].set.number) {
        send_op();                    /* other scales, or another order of rows */
    }
    if (open_op.unfit) {
        tap_count(TAP_OPS_WEIGHTS, !e->joins, tap_cuda_copied_bytes(&e->work));
        tap_cuda_stage_free(e->end);
    } else {
        open_op.launch[open_op.n++] = *e;
    }
}

/* Rows are missing of the op: what is there would pass for the whole. */
static void cut_op(enum tap_count why)
{
    int i;

    for (i = 0; i < open_op.n; i++)
        tap_count(why, !i, tap_cuda_copied_bytes(&open_op.launch[i].work));
    if (open_op.n)
        tap_cuda_stage_free(open_op.launch[open_op.n - 1].end);
    open_op.n = 0;
}

static void send_other(const struct tap_cuda_entry *e)
{
    if (e->what == TAP_CUDA_STEP && e->recorded) {
        tap_send_again(e->step);
    } else if (e->what == TAP_CUDA_STEP) {
        wait_room(1024);
        tap_send_pass(e->step);       /* counts it, either way */
    }
    if (e->what == TAP_CUDA_PIECE)
        send_piece(e);
    if (e->what == TAP_CUDA_CHECK)
        tap_cuda_look_check(e);
    if (e->what == TAP_CUDA_KEEP && wait_room(2 * sizeof(struct tap_kept)))
        tap_send_kept(e->flight, e->t_ns, tap_cuda_flight_bytes());
    if (e->what == TAP_CUDA_KEEP || e->what == TAP_CUDA_KEPT)
        tap_cuda_look_kept(e);
}

static void send_entry(const struct tap_cuda_entry *e)
{
    if (e->cut != TAP_OPS_SENT)
        cut_op(e->cut);
    if (e->what != TAP_CUDA_LAUNCH || !e->joins || open_op.n + (open_op.launch[0].product != NULL) == TAP_MAX_LAUNCHES)
        send_op();
    if (e->what == TAP_CUDA_LAUNCH && tap_cuda_queue_is_void(e)) {
        cut_op(TAP_OPS_THREADS);
        tap_count(TAP_OPS_THREADS, !e->joins, tap_cuda_copied_bytes(&e->work));
        tap_cuda_stage_free(e->end);
        return;
    }
    if (e->what == TAP_CUDA_LAUNCH) {
        add_launch(e);
        return;
    }
    send_other(e);
    tap_cuda_stage_free(e->end);
}

static void drop_op(void)
{
    tap_count(TAP_OPS_FAILED, open_op.n > 0, 0);
    open_op.n = 0;
}

static void drop_entry(const struct tap_cuda_entry *e)
{
    if (e->what != TAP_CUDA_LAUNCH || !e->joins)
        drop_op();
    if (e->what != TAP_CUDA_LAUNCH)
        return;
    if (!e->joins)
        open_op.unfit = false;
    if (!open_op.unfit)               /* else it is counted already */
        open_op.n = 1;                /* its first launch stands for it */
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
        const struct tap_cuda_entry *e = tap_cuda_queue_entry();

        if (e && (tap_cuda_stage_broken() || atomic_load(&sender.drop))) {
            drop_entry(e);
            tap_cuda_queue_next();
        } else if (e && tap_cuda_stage_done(e->batch)) {
            send_entry(e);
            tap_cuda_queue_next();
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
        open_op.n = 0;
        open_op.unfit = false;
        tap_cuda_look_begin();
        work();
        open_op.n = 0;
        atomic_store(&sender.running, false);
    }
    return NULL;
}

bool tap_cuda_send_busy(void)
{
    return atomic_load(&sender.running);
}

bool tap_cuda_send_start(void)
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

void tap_cuda_send_stop(int wait_ms)
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

void tap_cuda_send_forget(void)
{
    memset(&sender, 0, sizeof sender);
    open_op.n = 0;
}

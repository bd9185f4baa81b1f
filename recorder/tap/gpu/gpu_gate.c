/* gpu_gate.c - one launch after the other: which step it belongs to, whether it is taken, what is copied of it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One launch at a time is in the lane, from before it to after it; a thread that finds it taken leaves at once, and is counted. So all below is
 * without locks, and the order of entries is that of the launches. */
#include <sched.h>
#include <string.h>

#include "recorder/tap/gpu/flight_ring.h"

#define HELD UINT64_MAX
#define TICK (UINT64_MAX - 1)
#define TICK_NS 5000000LL             /* so long a launch waits for the tap's thread, at most: it holds the lane for some calls of the driver, once the server has been idle,
                                       * and may lose its core meanwhile */
#define SPIN_NS 50000LL
#define IDLE_NS 100000000LL
#define REST_PASSES 8u                /* for fewer it is not worth it */
#define REST_NS 250000000LL           /* at most: requests of sizes that are new may come */

static struct {
    _Atomic uint64_t owner;           /* 0: free; HELD by a thread of the server, TICK by the tap's; else the token of the launch between enter and leave */
    _Atomic bool open;
    _Atomic uint64_t others;          /* launches that no row knows */
    _Atomic(void *) context;          /* wanted */
    /* the owner's */
    uint64_t tokens;
    struct tap_sampler sampler;
    uint64_t step;                    /* outlives an arm */
    struct tap_cuda_rounds rounds;
    enum tap_doing doing;
    bool weights;
    _Atomic bool waiting_bound;       /* something was taken since the last bound */
    enum tap_count cut;               /* what stood against the rest of an op whose first launches were taken; TAP_OPS_SENT: nothing */
    uint64_t marked;                  /* number of the stream that the stage's event was recorded on last */
    struct tap_cuda_last last;
    struct {                          /* the last launch that made a W whole */
        _Atomic uint64_t w;           /* where; 0: none */
        uint64_t others;              /* launches by then: any later one may have written there */
        const struct tap_cuda_kernel *kernel;
        struct tap_cuda_launch launch;
        struct td_gpu_work work;
    } whole;
    struct tap_cuda_launch product;   /* what stands for the call between its enter and leave */
    _Atomic int64_t active_ns;        /* when a launch was last in the lane */
    int64_t used_ns;                  /* of the server's thread, for what was taken and not paid yet */
    int64_t began_ns;                 /* this step; 0: not seen */
    _Atomic uint64_t free;            /* passes that need not be watched ... */
    int64_t step_ns;                  /* ... and how long one is, about */
    int64_t woken_ns;                 /* when the last rest ended */
    uint64_t unseen;                  /* passes that went by in it, if the server was at work */
    bool woken;                       /* no product has come since */
} lane;

/* ---- entries ------------------------------------------------------------------------------------------------------- */

void tap_cuda_gate_put(struct tap_cuda_entry *e, uint32_t batch)
{
    e->cut = lane.cut;
    lane.cut = TAP_OPS_SENT;
    tap_cuda_queue_put(e, batch);
}

/* No launch joins the ones before this; everything before it is handed over. */
static void bound(void)
{
    struct tap_cuda_entry *e = tap_cuda_queue_place(0);

    tap_cuda_stage_hand_over();
    if (!e)
        return;
    memset(e, 0, sizeof *e);
    e->what = TAP_CUDA_BOUND;
    tap_cuda_gate_put(e, tap_cuda_stage_batch() - 1); /* it needs nothing of the batch to come */
    lane.waiting_bound = false;
    memset(&lane.last, 0, sizeof lane.last);
}

/* ---- steps --------------------------------------------------------------------------------------------------------- */

static void send_step(void)
{
    struct tap_cuda_entry *e = tap_cuda_queue_place(0);

    if (!e) {
        lane.doing = TAP_SKIP_RING;
        tap_count_untaken(TAP_SKIP_RING, true, 1, 0);
        return;
    }
    memset(e, 0, sizeof *e);
    e->what = TAP_CUDA_STEP;
    e->step = lane.step;
    tap_cuda_gate_put(e, tap_cuda_stage_batch() - 1);
}

/* One that took long says little: the server may have been idle. Nor does a rest behind which no pass came soon. */
static void note_time(int64_t now)
{
    int64_t took = now - lane.began_ns, longest = lane.step_ns + lane.step_ns / 4 + 1000;

    if (lane.began_ns)
        lane.step_ns = lane.step_ns && took > longest ? longest : took;
    lane.began_ns = now;
    if (lane.unseen && now - lane.woken_ns < 3 * lane.step_ns)
        tap_sampler_unseen(&lane.sampler, lane.unseen);
    lane.unseen = 0;
}

static void begin_step(int64_t rows)
{
    int64_t now = tap_now();
    bool take;

    if (lane.doing == TAP_TAKE) {
        bound();
        lane.used_ns += tap_now() - now;
    }
    tap_sampler_paid(&lane.sampler, lane.used_ns);
    lane.used_ns = 0;
    note_time(now);
    tap_cuda_stage_hand_over();       /* what the flight recorder looks at */
    lane.step++;
    lane.doing = tap_cuda_flight_keeping() ? TAP_SKIP_FLIGHT : tap_sampler_decide(&lane.sampler, rows, &lane.weights);
    take = lane.doing == TAP_TAKE;
    if (take)
        send_step();                  /* counted where it is written */
    else if (!tap_cuda_flight_on())
        tap_count_untaken(lane.doing, true, 1, 0);
    atomic_store_explicit(&lane.free, lane.doing == TAP_SKIP_SAMPLING ? tap_sampler_free(&lane.sampler, now) : 0, memory_order_release);
    if (tap_cuda_flight_on())         /* one that is not taken is counted when its last op leaves the ring */
        tap_cuda_flight_step(lane.step, take);
}

static void note_step(const struct td_gpu_work *w)
{
    switch (tap_cuda_round_note(&lane.rounds, tap_cuda_weights_of(w), atomic_load_explicit(&lane.others, memory_order_relaxed), lane.doing == TAP_WAIT)) {
    case TAP_CUDA_BEGINS:
        begin_step(w->m);
        break;
    case TAP_CUDA_LOST:
        lane.doing = TAP_WAIT;
        break;
    case TAP_CUDA_WITHIN:
        break;
    }
}

/* ---- taking -------------------------------------------------------------------------------------------------------- */

/* Are the weights there, or on their way? */
static bool send_weights(struct tap_cuda_set *s, void *stream)
{
    if (s->taken == s->total)
        return true;
    if (!lane.weights || !tap_cuda_set_may_go(s, lane.step))
        return false;
    tap_cuda_pieces_send(s, stream);
    tap_cuda_set_went(s);
    return s->taken == s->total;
}

static bool fits(uint64_t bytes)
{
    return bytes + tap_round(sizeof(struct tap_op), 4096) * 2 < tap_largest() && bytes <= tap_cuda_stage_room();
}

/* What stands against taking this launch: TAP_OPS_SENT: nothing. */
static enum tap_count take(const struct tap_cuda_launch *l, uint64_t stream, const struct tap_cuda_kernel *k, const struct td_gpu_work *w, const char *product, bool joined)
{
    struct tap_cuda_set *set = tap_cuda_set_of(w);
    struct tap_cuda_entry *e;
    bool ok;

    if (lane.marked != stream && !tap_cuda_stage_hand_over())
        return TAP_OPS_FAILED;        /* the event stands for one stream */
    lane.marked = stream;
    if (set && tap_cuda_set_is_refused(set))
        return TAP_OPS_LAYERS;
    if (!set || !send_weights(set, l->stream))
        return set ? TAP_OPS_WEIGHTS : TAP_OPS_FAILED;
    e = tap_cuda_queue_place(0);
    if (!e || !fits(tap_cuda_copied_bytes(w)))
        return TAP_OPS_RING;
    memset(e, 0, sizeof *e);
    e->what = TAP_CUDA_LAUNCH;
    e->set = *set;
    e->joins = joined;
    e->product = product;
    e->t_ns = tap_now();
    e->kernel = k;
    e->work = *w;
    e->launch = *l;
    ok = tap_cuda_copy_inputs(e, l->stream);
    lane.used_ns += tap_now() - e->t_ns; /* weights, which come once an arm, have their own budget */
    return ok ? TAP_OPS_SENT : TAP_OPS_RING;
}

/* ---- enter and leave ----------------------------------------------------------------------------------------------- */

/* Hold the lane for a thread of the server. False: another one has it. */
static bool come_in(void)
{
    uint64_t owner = 0;
    int64_t until = 0;

    while (!atomic_compare_exchange_weak(&lane.owner, &owner, HELD)) {
        if (owner == TICK && !tap_cuda_flight_keeping()) {
            int64_t now = tap_now();

            until = until ? until : now + TICK_NS;
            if (now > until)
                return false;
            if (until - now < TICK_NS - SPIN_NS)
                sched_yield();
        } else if (owner) {
            return false;
        }
        owner = 0;
    }
    return true;
}

/* Why it is not taken, before anything is copied; TAP_OPS_SENT: it is. */
static enum tap_count decide(const struct tap_cuda_launch *l, bool joined)
{
    static const enum tap_count why[] = {[TAP_WAIT] = TAP_OPS_PARTIAL, [TAP_TAKE] = TAP_OPS_SENT, [TAP_SKIP_SAMPLING] = TAP_OPS_SAMPLING,
                                         [TAP_SKIP_BUDGET] = TAP_OPS_BUDGET, [TAP_SKIP_RING] = TAP_OPS_RING,
                                         [TAP_SKIP_FLIGHT] = TAP_OPS_FLIGHT};

    if (tap_cuda_flight_keeping())
        return TAP_OPS_FLIGHT;        /* what is being kept comes in one piece */
    if (joined && !lane.last.taken)
        return lane.doing == TAP_TAKE ? TAP_OPS_RING : why[lane.doing];
    if (lane.doing != TAP_TAKE || tap_cuda_stage_is(l->context))
        return why[lane.doing];
    if (tap_cuda_stage_context())
        return TAP_OPS_UNREADABLE;    /* another device's */
    atomic_store(&lane.context, l->context);
    return TAP_OPS_RING;
}

static bool may_fly(const struct tap_cuda_launch *l, uint64_t stream, bool joined)
{
    return tap_cuda_flight_on() && !l->slot && stream && lane.doing != TAP_WAIT && tap_cuda_stage_is(l->context) && (!joined || lane.last.flown) &&
           (lane.marked == stream || tap_cuda_stage_hand_over());
}

/* Into the flight recorder with what is not taken. False: it is not there, and counted. */
static bool fly(const struct tap_cuda_launch *l, uint64_t stream, const struct tap_cuda_kernel *k, const struct td_gpu_work *w, const char *product, bool joined,
                enum tap_count why)
{
    if (may_fly(l, stream, joined)) {
        lane.marked = stream;
        if (tap_cuda_flight_enter(l, stream, k, w, product, joined))
            return true;
    }
    if (joined && lane.last.flown)
        tap_cuda_flight_cut(TAP_OPS_FAILED); /* what is there of it would pass for the whole */
    tap_count(why, !joined, tap_cuda_copied_bytes(w));
    return false;
}

/* The first product after a rest, with no other launch between: it may be the second half of one whose first was not seen. */
static bool is_rest_of_op(void)
{
    return lane.woken && atomic_load_explicit(&lane.others, memory_order_relaxed) == lane.rounds.others_before;
}

/* A product that is about to be computed. True: it is taken, now or in flight. */
static bool pass(const struct tap_cuda_launch *l, const struct tap_cuda_kernel *k, const struct td_gpu_work *w, const char *product)
{
    bool captured = tap_cuda_stream_capturing(l->stream);
    uint64_t stream = captured ? (uintptr_t)l->stream : tap_cuda_stream_number(l->stream);
    bool joined = tap_cuda_joins(&lane.last, stream, w);
    enum tap_count why;
    bool flown = false;

    if (captured) {
        tap_count(TAP_OPS_GRAPH, !joined, tap_cuda_copied_bytes(w));
        lane.last = tap_cuda_last_of(stream, w);
        return false;
    }
    if (!joined && !is_rest_of_op())
        note_step(w);
    lane.woken = false;
    why = decide(l, joined);
    if (why == TAP_OPS_SENT)
        why = stream ? take(l, stream, k, w, product, joined) : TAP_OPS_FAILED;
    if (why != TAP_OPS_SENT && joined && lane.last.taken)
        tap_count(lane.cut = why, 0, tap_cuda_copied_bytes(w));
    else if (why != TAP_OPS_SENT)
        flown = fly(l, stream, k, w, product, joined, why);
    lane.last = tap_cuda_last_of(stream, w);
    lane.last.taken = why == TAP_OPS_SENT;
    lane.last.flown = flown;
    atomic_store_explicit(&lane.active_ns, tap_now(), memory_order_relaxed);
    return lane.last.taken || flown;
}

/* A launch that makes W whole is half a product: the other half finds it here. */
static bool pass_launch(const struct tap_cuda_launch *l, const struct tap_cuda_kernel *k)
{
    struct td_gpu_work w;

    if (!tap_cuda_work_of(l, k, &w)) {
        tap_count(TAP_OPS_FAILED, 1, 0);
        return false;
    }
    lane.whole.w = 0;
    if (tap_cuda_operand(&w, TD_GPU_IN))
        return pass(l, k, &w, NULL);
    lane.whole.w = tap_cuda_output(&w)->address;
    lane.whole.others = atomic_load_explicit(&lane.others, memory_order_relaxed);
    lane.whole.kernel = k;
    lane.whole.launch = *l;
    lane.whole.work = w;
    return false;
}

/* Nothing was launched since W was made, and the product goes where that went. */
static bool is_next(void *stream)
{
    return lane.whole.launch.stream == stream && lane.whole.others == atomic_load_explicit(&lane.others, memory_order_relaxed);
}

bool tap_cuda_gate_enter_product(const char *function, void *stream, uint64_t w, uint64_t a, uint64_t c, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldc, uint64_t *token)
{
    struct td_gpu_work work;
    bool found;

    *token = 0;
    if (!come_in()) {
        if (w && w == atomic_load(&lane.whole.w))
            tap_count(TAP_OPS_THREADS, 1, 0);
        return false;                  /* its kernels are counted by name */
    }
    found = atomic_load(&lane.open) && w && w == lane.whole.w && is_next(stream) &&
            tap_cuda_product(&lane.whole.work, a, c, m, n, k, lda, ldc, &work);
    if (found) {
        lane.product = lane.whole.launch;
        if (pass(&lane.product, lane.whole.kernel, &work, function))
            *token = ++lane.tokens;
        lane.whole.w = 0;
    }
    atomic_store_explicit(&lane.owner, *token, memory_order_release);
    return found;
}

void tap_cuda_gate_leave_product(uint64_t token, bool ok)
{
    struct tap_cuda_launch l;

    if (!token)
        return;
    l = lane.product;                  /* its holder's alone */
    tap_cuda_gate_leave(token, &l, ok);
}

uint64_t tap_cuda_gate_enter(const struct tap_cuda_launch *l, const struct tap_cuda_kernel *k)
{
    uint64_t token = 0;

    if (!come_in()) {
        tap_count(TAP_OPS_THREADS, 1, 0);
        return 0;
    }
    if (atomic_load(&lane.open) && pass_launch(l, k))
        token = ++lane.tokens;
    atomic_store_explicit(&lane.owner, token, memory_order_release);
    return token;
}

void tap_cuda_gate_leave(uint64_t token, const struct tap_cuda_launch *l, bool ok)
{
    uint64_t mine = token;
    struct tap_cuda_entry *e;
    int64_t from;
    bool flown;

    if (!atomic_compare_exchange_strong(&lane.owner, &mine, HELD))
        return;                       /* closed in between */
    from = tap_now();
    flown = lane.last.flown;
    e = tap_cuda_queue_place(0);
    if (flown) {
        lane.last.flown = tap_cuda_flight_leave(l, ok);
        lane.waiting_bound = true;
    } else if (ok && tap_cuda_copy_output(e, l->stream) && tap_cuda_stage_mark(l->stream)) {
        tap_cuda_gate_put(e, tap_cuda_stage_batch());
        lane.waiting_bound = true;
        if (tap_cuda_stage_waiting() >= TAP_CUDA_BATCH)
            tap_cuda_stage_hand_over();
    } else {
        lane.last.taken = false;
        lane.cut = e->joins ? TAP_OPS_FAILED : lane.cut;
        tap_count(TAP_OPS_FAILED, !e->joins, tap_cuda_copied_bytes(&e->work));
    }
    if (!flown)
        lane.used_ns += tap_now() - from;
    atomic_store_explicit(&lane.owner, 0, memory_order_release);
}

/* The other launches of the graph may have written where the last W was. */
void tap_cuda_gate_replay(const struct tap_cuda_launch *l, const struct tap_cuda_kernel *k, const struct td_gpu_work *w)
{
    uint64_t token = 0;

    if (!come_in()) {
        tap_count(TAP_OPS_THREADS, 1, 0);
        return;
    }
    lane.whole.w = 0;
    if (atomic_load(&lane.open) && pass(l, k, w, NULL))
        token = ++lane.tokens;
    atomic_store_explicit(&lane.owner, token, memory_order_release);
    if (token)
        tap_cuda_gate_leave(token, l, true);
}

void tap_cuda_gate_other(void)
{
    atomic_fetch_add_explicit(&lane.others, 1, memory_order_relaxed);
}

/* ---- the tap's thread ---------------------------------------------------------------------------------------------- */

void *tap_cuda_gate_context(void)
{
    return atomic_load(&lane.context);
}

bool tap_cuda_gate_open(void)
{
    if (!tap_cuda_queue_clear())
        return false;
    tap_cuda_stage_free(tap_cuda_stage_end());
    tap_cuda_sets_clear();
    tap_cuda_flight_begin();
    tap_cuda_keep_begin();
    memset(&lane.sampler, 0, sizeof lane.sampler);
    memset(&lane.last, 0, sizeof lane.last);
    lane.doing = TAP_WAIT;
    lane.began_ns = lane.step_ns = lane.used_ns = 0;
    lane.unseen = 0;
    lane.woken = false;
    atomic_store(&lane.free, 0);
    lane.whole.w = 0;
    lane.cut = TAP_OPS_SENT;
    atomic_store(&lane.owner, 0);     /* a launch of the last arm whose end nobody saw; nobody is in here */
    tap_cuda_round_reset(&lane.rounds, atomic_load(&lane.others));
    atomic_store(&lane.open, true);
    return true;
}

/* Hold the lane for the tap's thread, in the server's context. abandon: also from a launch that never came back. */
static bool hold(bool abandon, void **context)
{
    uint64_t owner = atomic_load(&lane.owner);
    int mode = TAP_CUDA_CAPTURE_MODE_RELAXED;

    if ((owner && !abandon) || owner == HELD || !atomic_compare_exchange_strong(&lane.owner, &owner, TICK))
        return false;
    *context = tap_cuda_stage_context();
    if (*context && (tap_driver.exchange_capture_mode(&mode) || tap_driver.ctx_push(*context)))
        *context = NULL;
    if (*context && !tap_cuda_stage_is(*context)) {
        tap_driver.ctx_pop(context);
        *context = NULL;
    }
    if (owner)
        tap_count(TAP_OPS_PARTIAL, 1, 0);
    return true;
}

static void release(void *context)
{
    if (context)
        tap_driver.ctx_pop(&context);
    atomic_store_explicit(&lane.owner, 0, memory_order_release);
}

/* Something lies there, and no launch has come for a while. */
static bool is_left_lying(void)
{
    return atomic_load(&lane.waiting_bound) && tap_now() - atomic_load(&lane.active_ns) > IDLE_NS;
}

/* Looks first: a launch that comes while the lane is held is lost, and a thread that holds it may be out of its time slice. */
void tap_cuda_gate_tick(bool now)
{
    void *context;

    if ((!now && !is_left_lying()) || !hold(false, &context))
        return;
    if (context && lane.waiting_bound && (now || is_left_lying()))
        bound();
    release(context);
}

/* The rest of a product may yet come; then it is no whole op. */
static bool is_within_op(void)
{
    return (lane.last.taken || lane.last.flown) && tap_now() - atomic_load(&lane.active_ns) < IDLE_NS;
}

void tap_cuda_gate_keep(void)
{
    void *context;

    if (!hold(false, &context))
        return;
    if (context && !is_within_op()) {
        if (lane.doing == TAP_TAKE)
            lane.doing = TAP_SKIP_FLIGHT; /* what is left of the step would come under the number of one that is kept */
        if (lane.waiting_bound)
            bound();
        tap_cuda_stage_hand_over();
        lane.marked = 0;              /* the event is the keeper's now */
        tap_cuda_keep_some();
    }
    release(context);
}

void tap_cuda_gate_abandon(void)
{
    void *context;

    if (hold(true, &context))
        release(context);
}

bool tap_cuda_gate_is_at_work(void)
{
    return tap_now() - atomic_load(&lane.active_ns) < IDLE_NS;
}

/* What is half seen is no op, and what comes belongs to no pass until one begins. */
static void between_passes(void)
{
    lane.doing = TAP_WAIT;
    lane.began_ns = 0;
    lane.whole.w = 0;
    memset(&lane.last, 0, sizeof lane.last);
    atomic_store(&lane.free, 0);
    tap_cuda_round_reset(&lane.rounds, atomic_load(&lane.others));
}

static int64_t rest_ns(void)
{
    uint64_t passes = atomic_load(&lane.free);
    int64_t most = lane.step_ns > 0 ? REST_NS / lane.step_ns : 0;

    if (lane.doing == TAP_TAKE || passes < REST_PASSES)
        return 0;
    lane.unseen = passes < (uint64_t)most ? passes : (uint64_t)most;
    return (int64_t)lane.unseen * lane.step_ns;
}

int64_t tap_cuda_gate_rest(void)
{
    int64_t ns = 0;
    void *context;

    if (atomic_load(&lane.free) < REST_PASSES || !hold(false, &context))
        return 0;
    ns = rest_ns();
    if (ns && context && lane.waiting_bound)
        bound();
    if (ns) {
        between_passes();
        atomic_store(&lane.open, false);
    }
    release(context);
    return ns;
}

bool tap_cuda_gate_wake(void)
{
    void *context;

    if (!hold(false, &context))
        return false;
    between_passes();
    lane.woken = true;
    lane.woken_ns = tap_now();
    atomic_store(&lane.open, true);
    release(context);
    return true;
}

void tap_cuda_gate_close(void)
{
    int64_t until = tap_now() + 100000000;
    void *context;

    atomic_store(&lane.open, false);
    while (!hold(true, &context))
        if (tap_now() > until)
            return;                   /* a thread stands in the driver: what it copied last stays where it is */
    if (context && lane.waiting_bound)
        bound();
    tap_cuda_flight_close();
    release(context);
}

void tap_cuda_gate_forget(void)
{
    memset(&lane, 0, sizeof lane);
}

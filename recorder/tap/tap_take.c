/* tap_take.c - one armed call or step: decide whether it is taken, copy it into this thread's ring, count it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing here waits: no lock, no allocation, no system call but gettid when a thread takes a ring.
 * The unit of sampling is the step, so that what is taken is whole; a thread that never calls td_step has a step in every op. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/tap/tap_core.h"

#define WINDOW_STEPS 4u               /* neighbouring steps taken together */
#define CLASS_STEPS 2u                /* steps of each size that are taken whatever the sampling says */
#define BURST_NS 1000000000LL         /* budget that an idle time may save up */

struct tap_plan tap_plan;
_Atomic uint32_t tap_generation;

enum taking { WAIT, TAKE, SKIP_SAMPLING, SKIP_BUDGET, SKIP_RING };

/* Initial-exec: the library is there when the program starts, so its place is known; no allocation at the first use. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
    struct tap_seat *seat;
    uint32_t generation;              /* that seat and taking belong to */
    enum taking taking;               /* what happens to the ops of the step at hand */
    uint64_t step;
    bool weights;                     /* the step may send weights */
    bool uses_steps, inside;
} me;

static pthread_key_t seat_key;

/* ---- seats --------------------------------------------------------------------------------------------------------- */

static void leave_seat(void *seat)    /* at the end of a thread */
{
    struct tap_seat *s = seat;
    uint64_t mine = atomic_load(&s->owner);

    if ((uint32_t)mine == (uint32_t)syscall(SYS_gettid))
        atomic_compare_exchange_strong(&s->owner, &mine, 0);
}

void tap_take_key(void)
{
    static atomic_flag made = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&made))
        pthread_key_create(&seat_key, leave_seat);
}

void tap_take_note_step(void)
{
    me.uses_steps = true;
}

bool tap_take_quiet(void)
{
    uint32_t i;

    for (i = 0; i < TAP_MAX_RINGS; i++)
        if (atomic_load(&tap_plan.seats[i].busy))
            return false;
    return !atomic_load(&tap_plan.homeless);
}

bool tap_take_inside(void)
{
    return me.inside;
}

/* Enter the seat: from here to exit_seat the memory stays. False: the tap went to sleep meanwhile. */
static bool enter_seat(struct tap_seat *s, uint32_t generation)
{
    atomic_store(&s->busy, 1);
    if (atomic_load(&tap_generation) == generation && *tap_plan.ours)
        return true;
    atomic_store_explicit(&s->busy, 0, memory_order_release);
    return false;
}

static void exit_seat(struct tap_seat *s)
{
    atomic_store_explicit(&s->busy, 0, memory_order_release);
}

/* This thread's seat, entered; a free one when it has none. NULL: none is free, or asleep again. */
static struct tap_seat *take_seat(uint32_t generation)
{
    uint64_t token = (uint64_t)generation << 32 | (uint32_t)syscall(SYS_gettid);
    uint32_t i;

    for (i = 0; i < tap_plan.rings && i < TAP_MAX_RINGS; i++) {
        struct tap_seat *s = &tap_plan.seats[i];
        uint64_t owner = atomic_load_explicit(&s->owner, memory_order_relaxed);
        bool ours = (uint32_t)owner == (uint32_t)token;

        if (owner && !ours)
            continue;
        if (!ours && !atomic_compare_exchange_strong(&s->owner, &owner, token))
            continue;
        if (!enter_seat(s, generation)) {
            atomic_compare_exchange_strong(&s->owner, &token, 0);
            return NULL;
        }
        if (s->generation != generation) {
            memset(s->slots, 0, TAP_WEIGHT_SLOTS * sizeof *s->slots);
            memset(s->classes, 0, sizeof s->classes);
            s->steps = 0;
            s->generation = generation;
        }
        pthread_setspecific(seat_key, s);
        return s;
    }
    return NULL;
}

static void count_homeless(enum tap_count what, uint64_t bytes, uint32_t generation)
{
    atomic_fetch_add(&tap_plan.homeless, 1);
    if (atomic_load(&tap_generation) == generation && *tap_plan.ours) {
        struct tap_counter *c = &tap_plan.shared->counts[what];

        atomic_fetch_add_explicit(&c->n, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->bytes, bytes, memory_order_relaxed);
    }
    atomic_fetch_sub(&tap_plan.homeless, 1);
}

static void count(struct tap_seat *s, enum tap_count what, uint64_t bytes)
{
    struct tap_counter *c = &s->ring->counts[what];

    /* one writer: no locked instruction is needed */
    atomic_store_explicit(&c->n, atomic_load_explicit(&c->n, memory_order_relaxed) + 1, memory_order_relaxed);
    atomic_store_explicit(&c->bytes, atomic_load_explicit(&c->bytes, memory_order_relaxed) + bytes, memory_order_relaxed);
}

/* The seat of this thread, entered, with `me` valid for this arm. NULL: there is none to be had, or asleep again. */
static struct tap_seat *seat_of_mine(uint32_t generation)
{
    struct tap_seat *s = me.generation == generation ? me.seat : NULL;

    if (s)
        return enter_seat(s, generation) ? s : NULL;
    s = take_seat(generation);
    if (s) {
        me.seat = s;
        me.generation = generation;
        me.taking = WAIT;
    }
    return s;
}

/* ---- room and budget ----------------------------------------------------------------------------------------------- */

static uint64_t room(const struct tap_seat *s)
{
    uint64_t used = s->head - atomic_load_explicit(&s->ring->tail, memory_order_acquire);

    return used <= tap_plan.ring_bytes ? tap_plan.ring_bytes - used : 0;
}

static void *at_head(struct tap_seat *s)
{
    return s->data + s->head % tap_plan.ring_bytes;
}

static void publish(struct tap_seat *s, uint32_t size)
{
    s->head += size;
    atomic_store_explicit(&s->ring->head, s->head, memory_order_release);
}

/* The budget is a debt in time: what is taken moves `due` ahead by the time that it may use; over budget while due is ahead of now.
 * A step is taken whole and paid afterwards. */
static bool affordable(_Atomic int64_t *due, int64_t now)
{
    int64_t d = atomic_load_explicit(due, memory_order_relaxed);

    if (tap_plan.budget <= 0)
        return true;
    if (d < now - BURST_NS)
        atomic_compare_exchange_strong(due, &d, now - BURST_NS);
    return d <= now;
}

static void spend(_Atomic int64_t *due, uint64_t bytes)
{
    if (tap_plan.budget > 0)
        atomic_fetch_add_explicit(due, (int64_t)((double)bytes * 1e9 / (double)tap_plan.budget), memory_order_relaxed);
}

static struct tap_rec record(struct tap_seat *s, enum tap_rec_type type, uint32_t size, int64_t t_ns)
{
    return (struct tap_rec){.size = size, .type = type, .tid = (uint32_t)atomic_load_explicit(&s->owner, memory_order_relaxed),
                            .generation = s->generation, .t_ns = t_ns};
}

/* ---- steps --------------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)       /* splitmix64 */
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Windows of neighbouring steps, one in each period, at a place that no rhythm of the server can be in step with. */
static bool in_window(uint64_t step)
{
    uint64_t ppm = tap_plan.percent_ppm ? tap_plan.percent_ppm : 1;
    uint64_t period = (WINDOW_STEPS * 1000000u + ppm / 2) / ppm;
    uint64_t start;

    if (period <= WINDOW_STEPS)
        return true;
    start = mix(step / period) % (period - WINDOW_STEPS + 1);
    return step % period >= start && step % period < start + WINDOW_STEPS;
}

static unsigned size_class(int64_t rows, bool decode)
{
    unsigned c = 0;

    while (rows > 1 && c < 31) {
        rows >>= 1;
        c++;
    }
    return c + (decode ? 32 : 0);
}

static enum taking decide(struct tap_seat *s, unsigned class, int64_t now)
{
    bool wanted = tap_plan.mode == TAP_MODE_ALL || s->classes[class] < CLASS_STEPS || in_window(s->steps);

    s->steps++;
    if (!wanted)
        return SKIP_SAMPLING;
    me.weights = affordable(&tap_plan.due_weights, now); /* asked once: the step that brings them stays whole */
    return affordable(&tap_plan.due_steps, now) ? TAKE : SKIP_BUDGET;
}

static bool sane_step(const struct td_step_args *args)
{
    return args && args->struct_size >= sizeof *args && args->n_spans >= 0 && args->n_spans <= TAP_MAX_SPANS && (args->spans || !args->n_spans);
}

static bool write_step(struct tap_seat *s, const struct td_step_args *args, int64_t now)
{
    uint64_t spans = (uint64_t)args->n_spans * sizeof(struct tap_span);
    uint64_t size = sizeof(struct tap_step) + spans + (uint64_t)args->n_spans * TAP_MAX_ID; /* at most */
    struct tap_step *rec = at_head(s);
    struct tap_span *span = (struct tap_span *)(rec + 1);
    char *ids = (char *)span + spans, *end = ids;
    int32_t i;

    if (room(s) < size + TAP_REC_ALIGN)
        return false;
    for (i = 0; i < args->n_spans; i++) {
        const struct td_step_span *from = &args->spans[i];
        size_t n = from->id ? strnlen(from->id, TAP_MAX_ID) : 0;

        span[i] = (struct tap_span){from->request, from->first_row, from->n_rows, from->position, from->decode != 0, (uint16_t)n};
        if (n)
            memcpy(end, from->id, n);
        end += n;
    }
    size = tap_round((uint64_t)(end - (char *)rec), TAP_REC_ALIGN);
    *rec = (struct tap_step){record(s, TAP_REC_STEP, (uint32_t)size, now), args->step, args->n_spans, (uint32_t)(end - ids)};
    publish(s, (uint32_t)size);
    return true;
}

static void begin_step(struct tap_seat *s, const struct td_step_args *args)
{
    static const enum tap_count reason[] = {[SKIP_SAMPLING] = TAP_STEPS_SAMPLING, [SKIP_BUDGET] = TAP_STEPS_BUDGET, [SKIP_RING] = TAP_STEPS_RING};
    int64_t now = tap_now(), rows = 0;
    bool decode = false;
    unsigned class;
    int32_t i;

    for (i = 0; i < args->n_spans; i++) {
        rows += args->spans[i].n_rows;
        decode |= args->spans[i].decode != 0;
    }
    class = size_class(rows, decode);
    me.step = args->step;
    me.taking = decide(s, class, now);
    if (me.taking == TAKE && !write_step(s, args, now))
        me.taking = SKIP_RING;
    if (me.taking == TAKE) {
        s->classes[class] += s->classes[class] < CLASS_STEPS;
        count(s, TAP_STEPS_SENT, 0);
    } else {
        count(s, reason[me.taking], 0);
    }
}

void tap_take_step(const struct td_step_args *args)
{
    uint32_t generation = atomic_load_explicit(&tap_generation, memory_order_acquire);
    struct tap_seat *s;

    if (me.inside || !sane_step(args) || !generation)
        return;
    me.inside = true;
    s = seat_of_mine(generation);
    if (s) {
        begin_step(s, args);
        exit_seat(s);
    } else {
        count_homeless(TAP_STEPS_THREADS, 0, generation);
    }
    me.inside = false;
}

/* ---- weights ------------------------------------------------------------------------------------------------------- */

static void weight_bytes(const struct td_gptq_gemm_args *g, uint64_t bytes[TAP_WEIGHT_TENSORS])
{
    uint64_t groups = (uint64_t)(g->k / g->group_size), n = (uint64_t)g->n, k = (uint64_t)g->k;

    bytes[TAP_QWEIGHT] = k * (uint64_t)g->bits / 32 * n * 4;
    bytes[TAP_QZEROS] = groups * (n * (uint64_t)g->bits / 32) * 4;
    bytes[TAP_SCALES] = groups * n * 2;
    bytes[TAP_G_IDX] = g->g_idx ? k * 4 : 0;
}

/* A cheap look at the content: up to 64 words spread over each tensor. */
static uint64_t sample(const struct tap_weight_slot *w)
{
    uint64_t h = 0;
    int t, i;

    for (t = 0; t < TAP_WEIGHT_TENSORS; t++) {
        uint64_t words = w->bytes[t] / 4, at;

        h = mix(h ^ w->bytes[t]);
        for (i = 0; i < 64 && words; i++) {
            uint32_t v;

            at = words * (uint64_t)i / 64;
            memcpy(&v, (const char *)w->ptr[t] + at * 4, 4);
            h = (h ^ v) * 0x100000001b3u + (h >> 29);
        }
    }
    return h;
}

static struct tap_weight_slot *find_slot(struct tap_seat *s, const struct tap_weight_slot *key)
{
    unsigned i = (unsigned)(mix((uintptr_t)key->ptr[TAP_QWEIGHT])) % TAP_WEIGHT_SLOTS, tries;

    for (tries = 0; tries < 64; tries++, i = (i + 1) % TAP_WEIGHT_SLOTS) {
        struct tap_weight_slot *w = &s->slots[i];

        if (!w->id)
            return w;
        if (!memcmp(w->ptr, key->ptr, sizeof key->ptr) && !memcmp(w->bytes, key->bytes, sizeof key->bytes))
            return w;
    }
    return &s->slots[i];              /* crowded: this one is sent again when it comes back */
}

static void copy_stream(const struct tap_weight_slot *w, uint64_t offset, uint64_t len, uint8_t *to)
{
    int t;

    for (t = 0; t < TAP_WEIGHT_TENSORS && len; t++) {
        uint64_t n;

        if (offset >= w->bytes[t]) {
            offset -= w->bytes[t];
            continue;
        }
        n = w->bytes[t] - offset < len ? w->bytes[t] - offset : len;
        memcpy(to, (const uint8_t *)w->ptr[t] + offset, n);
        to += n;
        len -= n;
        offset = 0;
    }
}

static bool send_chunk(struct tap_seat *s, struct tap_weight_slot *w)
{
    uint64_t len = w->total - w->sent < TAP_MAX_CHUNK ? w->total - w->sent : TAP_MAX_CHUNK, size;
    struct tap_weight *rec = at_head(s);
    int t;

    if (len > tap_plan.ring_bytes / 4)
        len = tap_plan.ring_bytes / 4;
    size = tap_round(sizeof *rec + len, TAP_REC_ALIGN);
    if (room(s) < size)
        return false;
    *rec = (struct tap_weight){.rec = record(s, TAP_REC_WEIGHT, (uint32_t)size, tap_now()), .id = w->id, .len = (uint32_t)len, .offset = w->sent};
    for (t = 0; t < TAP_WEIGHT_TENSORS; t++)
        rec->bytes[t] = w->bytes[t];
    copy_stream(w, w->sent, len, (uint8_t *)(rec + 1));
    w->sent += len;
    publish(s, (uint32_t)size);
    return true;
}

/* The set's number once the reader has all of it, else 0. What does not fit now goes with the next call of this layer. */
static uint32_t send_weights(struct tap_seat *s, const struct td_gptq_gemm_args *g)
{
    struct tap_weight_slot key = {.ptr = {g->qweight, g->qzeros, g->scales, g->g_idx}}, *w;
    uint64_t before;

    weight_bytes(g, key.bytes);
    key.check = sample(&key);
    w = find_slot(s, &key);
    if (!w->id || w->check != key.check || memcmp(w->ptr, key.ptr, sizeof key.ptr) || memcmp(w->bytes, key.bytes, sizeof key.bytes)) {
        *w = key;
        w->id = ++s->next_weight;
        w->total = key.bytes[0] + key.bytes[1] + key.bytes[2] + key.bytes[3];
    }
    if (w->sent == w->total)
        return w->id;
    if (!me.weights)
        return 0;
    before = w->sent;
    while (w->sent < w->total && send_chunk(s, w))
        ;
    spend(&tap_plan.due_weights, w->sent - before);
    return w->sent == w->total ? w->id : 0;
}

/* ---- ops ----------------------------------------------------------------------------------------------------------- */

/* What the real function would refuse, or what cannot be copied for want of sense, is passed on and counted as failed. */
static bool sane_gemm(const struct td_gptq_gemm_args *g)
{
    int pack;

    if (!g || g->struct_size < sizeof *g || (g->bits != 4 && g->bits != 8))
        return false;
    pack = 32 / g->bits;
    return g->m >= 0 && g->n > 0 && g->k > 0 && g->group_size > 0 && g->group_size <= g->k && g->k % g->group_size == 0 && g->k % pack == 0 &&
           g->n % pack == 0 && (!g->m || (g->a && g->c)) && g->qweight && g->qzeros && g->scales && g->lda >= g->k && g->ldc >= g->n;
}

static uint64_t gemm_bytes(const struct td_gptq_gemm_args *g) /* of A and C; 0 for what makes no sense */
{
    return sane_gemm(g) ? ((uint64_t)g->m * (uint64_t)g->k + (uint64_t)g->m * (uint64_t)g->n) * 2 : 0;
}

static uint8_t align_log2(const void *p)
{
    return p ? (uint8_t)__builtin_ctzll((uintptr_t)p | 4096u) : 0;
}

static void copy_rows(uint8_t *to, const uint16_t *from, int64_t rows, int64_t cols, int64_t ld)
{
    int64_t i;

    if (ld == cols) {
        memcpy(to, from, (size_t)(rows * cols) * 2);
        return;
    }
    for (i = 0; i < rows; i++)
        memcpy(to + i * cols * 2, from + i * ld, (size_t)cols * 2);
}

static void fill_op(struct tap_op *rec, const struct td_gptq_gemm_args *g, uint32_t weight)
{
    rec->step = me.uses_steps ? me.step : 0;
    rec->has_step = me.uses_steps;
    rec->lda = g->lda, rec->ldc = g->ldc;
    rec->m = g->m, rec->n = g->n, rec->k = g->k;
    rec->bits = g->bits, rec->group_size = g->group_size, rec->zero_offset = g->zero_offset, rec->flags = g->flags;
    rec->weight = weight;
    rec->align_a = align_log2(g->a), rec->align_c = align_log2(g->c);
    rec->align_w[TAP_QWEIGHT] = align_log2(g->qweight), rec->align_w[TAP_QZEROS] = align_log2(g->qzeros);
    rec->align_w[TAP_SCALES] = align_log2(g->scales), rec->align_w[TAP_G_IDX] = align_log2(g->g_idx);
}

/* Take one op: weights, A, the call, C. The record becomes visible at its end, in one piece. */
static int take_op(struct tap_seat *s, const struct td_gptq_gemm_args *g, tap_gemm_fn *real)
{
    uint64_t a_bytes = (uint64_t)g->m * (uint64_t)g->k * 2, c_bytes = (uint64_t)g->m * (uint64_t)g->n * 2;
    uint64_t a_room = tap_round(a_bytes, TAP_REC_ALIGN), size = sizeof(struct tap_op) + a_room + tap_round(c_bytes, TAP_REC_ALIGN);
    struct tap_op *rec;
    enum tap_count what = TAP_OPS_SENT;
    uint32_t weight = 0;
    int64_t t0, t1;
    int status;

    if (size > tap_plan.ring_bytes || size > UINT32_MAX || room(s) < size)
        what = TAP_OPS_RING;
    else if (!(weight = send_weights(s, g)))
        what = TAP_OPS_WEIGHTS;
    else if (room(s) < size)
        what = TAP_OPS_RING;
    if (what != TAP_OPS_SENT) {
        count(s, what, a_bytes + c_bytes);
        return real(g);
    }
    rec = at_head(s);
    memset(rec, 0, sizeof *rec);
    fill_op(rec, g, weight);
    copy_rows((uint8_t *)(rec + 1), g->a, g->m, g->k, g->lda);
    t0 = tap_now();
    status = real(g);
    t1 = tap_now();
    if (status != TD_KERNEL_OK) {
        count(s, TAP_OPS_FAILED, a_bytes + c_bytes);
        return status;
    }
    copy_rows((uint8_t *)(rec + 1) + a_room, g->c, g->m, g->n, g->ldc);
    rec->rec = record(s, TAP_REC_OP, (uint32_t)size, t0);
    rec->seq = atomic_fetch_add_explicit(&tap_plan.seq, 1, memory_order_relaxed);
    rec->duration_ns = t1 - t0;
    spend(&tap_plan.due_steps, a_bytes + c_bytes);
    count(s, TAP_OPS_SENT, a_bytes + c_bytes);
    publish(s, (uint32_t)size);
    return status;
}

static int seated_gemm(struct tap_seat *s, const struct td_gptq_gemm_args *g, tap_gemm_fn *real)
{
    static const enum tap_count reason[] = {[WAIT] = TAP_OPS_PARTIAL, [SKIP_SAMPLING] = TAP_OPS_SAMPLING, [SKIP_BUDGET] = TAP_OPS_BUDGET, [SKIP_RING] = TAP_OPS_RING};

    if (!sane_gemm(g)) {
        count(s, TAP_OPS_FAILED, 0);
        return real(g);
    }
    if (!me.uses_steps) {
        unsigned class = size_class(g->m, false);

        me.taking = decide(s, class, tap_now());
        s->classes[class] += me.taking == TAKE && s->classes[class] < CLASS_STEPS;
    }
    if (me.taking == TAKE)
        return take_op(s, g, real);
    count(s, reason[me.taking], gemm_bytes(g));
    return real(g);
}

int tap_take_gemm(const struct td_gptq_gemm_args *args, tap_gemm_fn *real)
{
    uint32_t generation = atomic_load_explicit(&tap_generation, memory_order_acquire);
    struct tap_seat *s;
    int status, e = errno;

    if (me.inside || !generation)
        return real(args);
    me.inside = true;
    s = seat_of_mine(generation);
    if (!s)
        count_homeless(TAP_OPS_THREADS, gemm_bytes(args), generation);
    errno = e;
    if (s) {
        status = seated_gemm(s, args, real);
        exit_seat(s);
    } else {
        status = real(args);
    }
    me.inside = false;
    return status;
}

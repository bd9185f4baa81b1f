/* flight_ring.c - the flight recorder's ring: what is in it, and what leaves it, oldest first.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The ring is memory of the device; what is said of its launches lies in a table on the host, as many as that holds. Nothing here waits or
 * allocates but tap_cuda_flight_open(). An op that leaves unkept is counted "flight", its step when its last op has left. */
#include <string.h>
#include <sys/mman.h>

#include "recorder/tap/gpu/flight_ring.h"

#define ALIGN 256u
#define ENTRIES 8192u                 /* launches; a power of two */
#define STEPS 4096u
#define CHECK_BYTES 64u               /* of each row of an output that is looked at ... */
#define CHECK_ALL 4096u               /* ... and all of one that is no larger */

struct flight_step { uint64_t step; uint32_t launches; bool counted; };

static struct {
    uint64_t device, made, bytes;     /* of the device; of this arm */
    void *context;
    struct tap_cuda_flown *entries;   /* NULL, or [ENTRIES] */
    _Atomic bool on, had;             /* had: an output's trigger */
    _Atomic uint32_t keeping;         /* enum tap_flight */
    _Atomic int64_t t_ns;             /* of the trigger */
    _Atomic uint64_t kept;            /* so often */
    /* the lane's */
    uint64_t first, next;             /* entries, counted */
    uint64_t head, tail;              /* bytes, counted */
    uint64_t before;                  /* head before the launch between enter and leave */
    struct flight_step steps[STEPS];
    uint64_t first_step, next_step;
    uint64_t turn;                    /* other columns each time */
} flight;

/* ---- opening ------------------------------------------------------------------------------------------------------- */

static const char *make(uint64_t bytes)
{
    void *p = flight.entries;

    if (!p)
        p = mmap(NULL, ENTRIES * sizeof *flight.entries, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return "no memory for the flight recorder's table";
    flight.entries = p;
    for (; !flight.device && bytes >= TAP_CUDA_FLIGHT_SMALLEST; bytes /= 2)
        if (!tap_driver.mem_alloc(&flight.device, bytes))
            flight.made = bytes;
        else
            flight.device = 0;
    return flight.device ? NULL : "the GPU has no memory left for the flight recorder (vLLM: a smaller --gpu-memory-utilization, or --flight=MB of fewer)";
}

const char *tap_cuda_flight_open(void *context, uint64_t bytes)
{
    int mode = TAP_CUDA_CAPTURE_MODE_RELAXED;
    const char *why;
    void *popped;

    if (flight.context && flight.context != context)
        return "the flight recorder's memory is another context's";
    if (tap_driver.exchange_capture_mode(&mode) || tap_driver.ctx_push(context))
        return "the CUDA driver does not let us into the server's context";
    flight.context = context;
    why = make(bytes);
    tap_driver.ctx_pop(&popped);
    if (why)
        return why;
    flight.bytes = (bytes < flight.made ? bytes : flight.made) / ALIGN * ALIGN;
    atomic_store(&flight.on, true);
    return NULL;
}

void tap_cuda_flight_begin(void)
{
    atomic_store(&flight.on, false);
    atomic_store(&flight.had, false);
    atomic_store(&flight.keeping, TAP_FLIGHT_NOT);
    atomic_store(&flight.kept, 0);
    flight.first = flight.next = flight.head = flight.tail = 0;
    flight.first_step = flight.next_step = 0;
}

void tap_cuda_flight_forget(void)
{
    struct tap_cuda_flown *entries = flight.entries;

    memset(&flight, 0, sizeof flight);
    flight.entries = entries;
}

uint64_t tap_cuda_flight_bytes(void)
{
    return tap_cuda_flight_on() ? flight.bytes : 0;
}

/* ---- triggers ------------------------------------------------------------------------------------------------------ */

bool tap_cuda_flight_on(void)
{
    return atomic_load_explicit(&flight.on, memory_order_acquire);
}

bool tap_cuda_flight_keeping(void)
{
    return atomic_load_explicit(&flight.keeping, memory_order_acquire) != TAP_FLIGHT_NOT;
}

bool tap_cuda_flight_trigger(enum tap_flight why)
{
    bool output = why == TAP_FLIGHT_NOT_FINITE || why == TAP_FLIGHT_ZERO;
    uint32_t none = TAP_FLIGHT_NOT;

    if (!tap_cuda_flight_on() || tap_cuda_flight_keeping() || (output && atomic_exchange(&flight.had, true)))
        return false;
    atomic_store(&flight.t_ns, tap_now());
    return atomic_compare_exchange_strong(&flight.keeping, &none, why);
}

void tap_cuda_flight_false_alarm(void)
{
    atomic_store(&flight.had, false);
}

void tap_cuda_flight_kept(void)
{
    atomic_fetch_add(&flight.kept, 1);
    atomic_store(&flight.keeping, TAP_FLIGHT_NOT);
}

enum tap_flight tap_cuda_flight_why(uint64_t *number, int64_t *t_ns)
{
    *number = atomic_load(&flight.kept) + 1;
    *t_ns = atomic_load(&flight.t_ns);
    return (enum tap_flight)atomic_load(&flight.keeping);
}

/* ---- steps --------------------------------------------------------------------------------------------------------- */

/* The oldest step is over and none of its launches is here any more: it was kept, or it counts as dropped. */
static void pop_steps(bool all)
{
    while (flight.first_step < flight.next_step) {
        const struct flight_step *s = &flight.steps[flight.first_step % STEPS];

        if (!all && (s->launches || flight.first_step + 1 == flight.next_step) && flight.next_step - flight.first_step < STEPS)
            return;
        if (!s->counted)
            tap_count(TAP_STEPS_FLIGHT, 1, 0);
        flight.first_step++;
    }
}

void tap_cuda_flight_step(uint64_t step, bool counted)
{
    pop_steps(false);
    flight.steps[flight.next_step++ % STEPS] = (struct flight_step){step, 0, counted};
}

static struct flight_step *step_of(const struct tap_cuda_flown *f)
{
    return f->step_at >= flight.first_step && f->step_at < flight.next_step ? &flight.steps[f->step_at % STEPS] : NULL;
}

bool tap_cuda_flight_step_is_new(const struct tap_cuda_flown *f, uint64_t *step)
{
    struct flight_step *s = step_of(f);
    bool is_new = s && !s->counted;

    *step = f->e.step;
    if (is_new)
        s->counted = true;            /* by the recorder, when it has its record */
    return is_new;
}

/* ---- what leaves --------------------------------------------------------------------------------------------------- */

struct tap_cuda_flown *tap_cuda_flight_oldest(unsigned i)
{
    struct tap_cuda_flown *f = &flight.entries[(flight.first + i) % ENTRIES];

    return flight.first + i < flight.next && (!i || f->e.joins) ? f : NULL;
}

static void count(const struct tap_cuda_flown *f, enum tap_count why)
{
    struct flight_step *s = step_of(f);

    if (s)
        s->launches--;
    if (why != TAP_OPS_SENT)
        tap_count(why, !f->e.joins, tap_cuda_copied_bytes(&f->e.work));
}

static unsigned launches_of_oldest(void)
{
    unsigned n = 0;

    while (tap_cuda_flight_oldest(n))
        n++;
    return n;
}

void tap_cuda_flight_drop(enum tap_count why)
{
    unsigned n = launches_of_oldest();

    while (n--) {
        const struct tap_cuda_flown *f = &flight.entries[flight.first++ % ENTRIES];

        count(f, why);
        flight.tail = f->end;
    }
    pop_steps(false);
}

void tap_cuda_flight_cut(enum tap_count why)
{
    struct tap_cuda_flown *f = NULL;

    while (flight.next > flight.first && (!f || f->e.joins)) {
        f = &flight.entries[--flight.next % ENTRIES];
        count(f, why);
    }
    flight.head = flight.first == flight.next ? flight.tail : flight.entries[(flight.next - 1) % ENTRIES].end;
}

void tap_cuda_flight_close(void)
{
    while (flight.entries && flight.first < flight.next)
        tap_cuda_flight_drop(TAP_OPS_FLIGHT);
    pop_steps(true);
    atomic_store(&flight.on, false);
    atomic_store(&flight.keeping, TAP_FLIGHT_NOT);
}

/* ---- what comes in ------------------------------------------------------------------------------------------------- */

uint64_t tap_cuda_flight_address(void)
{
    return flight.device;
}

/* May the oldest op go, for copies on `stream`? What another stream copied to its place must have been done before; what a launch joins must stay. */
static bool may_drop(uint64_t stream, bool joined)
{
    const struct tap_cuda_flown *f = tap_cuda_flight_oldest(0);

    return f && (!joined || launches_of_oldest() < flight.next - flight.first) && (f->stream == stream || tap_cuda_stage_done(f->e.batch));
}

/* n bytes in one piece: their place, or TAP_CUDA_FULL. */
static uint64_t take(uint64_t n, uint64_t stream, bool joined)
{
    uint64_t size = tap_round(n, ALIGN), at = flight.head % flight.bytes, skip = size > flight.bytes - at ? flight.bytes - at : 0;

    if (size + skip > flight.bytes)
        return TAP_CUDA_FULL;
    while (flight.head + skip + size - flight.tail > flight.bytes) {
        if (!may_drop(stream, joined))
            return TAP_CUDA_FULL;
        tap_cuda_flight_drop(TAP_OPS_FLIGHT);
    }
    flight.head += skip + size;
    return (flight.head - size) % flight.bytes;
}

static bool copy(struct tap_cuda_copies *c, uint64_t at, uint64_t from, uint64_t rows, uint64_t row_bytes, uint64_t pitch, void *stream)
{
    return at != TAP_CUDA_FULL && tap_cuda_copies_add(c, flight.device + at, from, rows, row_bytes, pitch, stream);
}

static bool copy_operand(struct tap_cuda_copies *c, uint64_t at, const struct td_gpu_operand *o, void *stream)
{
    uint64_t rows = tap_cuda_rows_of(o);

    return copy(c, at, o->address, rows, o->bytes / rows, tap_cuda_pitch_of(o), stream);
}

static bool take_sample(struct tap_cuda_copies *c, struct tap_cuda_flown *f, void *stream)
{
    uint64_t n;
    int t;

    f->e.sample_at = take(TAP_CUDA_SAMPLE, f->stream, false);
    for (t = 0; t < TAP_MAX_WEIGHTS && f->e.sample_at != TAP_CUDA_FULL; t++) {
        const uint64_t at = tap_cuda_set_sample(&f->e.set, t, &n);

        if (n && !copy(c, f->e.sample_at + (uint64_t)t * TAP_CUDA_SAMPLE_EACH, f->e.set.address[t] + at, 1, n, n, stream))
            return false;
    }
    return f->e.sample_at != TAP_CUDA_FULL;
}

/* Places for all, and copies of what is there before the launch. */
static bool take_inputs(struct tap_cuda_flown *f, void *stream)
{
    struct tap_cuda_copies c = {.n = 0};
    int i;

    if (!f->e.joins && !take_sample(&c, f, stream))
        return false;
    for (i = 0; i < f->e.work.n_op; i++) {
        const struct td_gpu_operand *o = &f->e.work.op[i];

        if (!o->address || o->use == TD_GPU_WEIGHT || o->use >= TD_GPU_SCRATCH)
            continue;
        f->e.op_at[i] = take(o->bytes, f->stream, f->e.joins);
        if (f->e.op_at[i] == TAP_CUDA_FULL || (o->use == TD_GPU_IN && !copy_operand(&c, f->e.op_at[i], o, stream)))
            return false;
    }
    return tap_cuda_copies_go(&c, stream);
}

/* Columns of an output that are looked at: bytes of each row, from where. */
static uint64_t check_width(const struct td_gpu_operand *o)
{
    uint64_t row = o->bytes / tap_cuda_rows_of(o);

    return o->bytes <= CHECK_ALL || row <= CHECK_BYTES ? row : CHECK_BYTES;
}

static bool check_fits(const struct td_gpu_work *w)
{
    const struct td_gpu_operand *o = tap_cuda_output(w);

    return tap_cuda_queue_place(0) && 2 * tap_cuda_rows_of(o) * check_width(o) + ALIGN <= tap_cuda_stage_room();
}

bool tap_cuda_flight_enter(const struct tap_cuda_launch *l, uint64_t stream, const struct tap_cuda_kernel *k, const struct td_gpu_work *w, const char *product, bool joined)
{
    struct tap_cuda_set *set = tap_cuda_set_of(w);
    struct tap_cuda_flown *f;

    if (tap_cuda_flight_keeping() || !flight.next_step || !set || tap_cuda_set_is_refused(set) || !check_fits(w) || tap_cuda_copied_bytes(w) > flight.bytes / 2)
        return false;
    if (flight.next - flight.first == ENTRIES) {
        if (!may_drop(stream, joined))
            return false;
        tap_cuda_flight_drop(TAP_OPS_FLIGHT);
    }
    f = &flight.entries[flight.next % ENTRIES];
    memset(f, 0, sizeof *f);
    f->stream = stream;
    f->step_at = flight.next_step - 1;
    f->e.what = TAP_CUDA_LAUNCH;
    f->e.step = flight.steps[f->step_at % STEPS].step;
    f->e.set = *set;
    f->e.joins = joined;
    f->e.product = product;
    f->e.t_ns = tap_now();
    f->e.kernel = k;
    f->e.work = *w;
    f->e.launch = *l;
    flight.before = flight.head;
    if (take_inputs(f, l->stream))
        return true;
    flight.head = flight.before;
    return false;
}

/* Some columns of the output, where the sender can see them. */
static bool put_check(struct tap_cuda_copies *c, const struct tap_cuda_flown *f, void *stream)
{
    const struct td_gpu_operand *o = tap_cuda_output(&f->e.work);
    uint64_t rows = tap_cuda_rows_of(o), row = o->bytes / rows, width = check_width(o), from = row > width ? flight.turn++ % (row / width) * width : 0;
    struct tap_cuda_entry *e = tap_cuda_queue_place(0);
    uint64_t at = tap_cuda_stage_take(rows * width);

    if (at == TAP_CUDA_FULL || !tap_cuda_copies_add(c, tap_cuda_stage_address(at), o->address + from, rows, width, tap_cuda_pitch_of(o), stream) ||
        !tap_cuda_copies_go(c, stream) || !tap_cuda_stage_mark(stream))
        return false;
    memset(e, 0, sizeof *e);
    e->what = TAP_CUDA_CHECK;
    e->at = at;
    e->len = rows * width;
    e->set = f->e.set;
    e->work.op[0].dtype = o->dtype;
    tap_cuda_gate_put(e, tap_cuda_stage_batch());
    return true;
}

bool tap_cuda_flight_leave(const struct tap_cuda_launch *l, bool ok)
{
    struct tap_cuda_flown *f = &flight.entries[flight.next % ENTRIES];
    const struct td_gpu_operand *o = tap_cuda_output(&f->e.work);
    struct flight_step *s = step_of(f);
    struct tap_cuda_copies c = {.n = 0};

    f->end = flight.head;
    f->e.batch = tap_cuda_stage_batch();
    flight.next++;
    if (s)
        s->launches++;
    if (ok && copy_operand(&c, f->e.op_at[o - f->e.work.op], o, l->stream) && put_check(&c, f, l->stream)) {
        if (tap_cuda_stage_waiting() >= TAP_CUDA_BATCH)
            tap_cuda_stage_hand_over();
        return true;
    }
    tap_cuda_flight_cut(TAP_OPS_FAILED);
    return false;
}

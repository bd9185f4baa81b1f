/* flight_ring.c - the flight recorder's ring: what is in it, and what leaves it, oldest first.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The bytes lie in memory of the device; their description, a launch an entry, lies in a table on
 * the host. Either may be what limits the ring. Nothing here waits or allocates but
 * tap_flight_ring_open(). An op that leaves the ring without being dumped is counted under
 * "flight", and so is its step when the last of its ops has left. */
#include <string.h>
#include <sys/mman.h>

#include "recorder/tap/gpu/flight_ring.h"
#include "recorder/tap/gpu/flight_trigger.h"

#define ALIGN 256u
#define ENTRIES 8192u                 /* launches; a power of two */
#define STEPS 4096u
#define CHECK_BYTES 64u               /* bytes of each row of an output that are checked ... */
#define CHECK_ALL 4096u               /* ... but all of an output that has no more than this */

struct flight_step { uint64_t step; uint32_t launches; bool counted; };

static struct {
    uint64_t device, made, bytes;     /* address; bytes allocated; bytes that this arm uses */
    void *context;
    struct tap_flight_launch *entries;   /* NULL, or [ENTRIES] */
    /* Below: for the holder of the gate alone. */
    /* Entries that left, that came; counted since the arm began. */
    uint64_t first, next;
    uint64_t head, tail;              /* end of the bytes that came, that left; the same */
    uint64_t before;                  /* head before the launch between enter and leave */
    struct flight_step steps[STEPS];
    uint64_t first_step, next_step;
    uint64_t turn;                    /* counts checks: each looks at other columns */
} flight;

/* ---- opening --------------------------------------------------------------------------------- */

static const char *allocate_ring(uint64_t bytes)
{
    void *p = flight.entries;

    if (!p)
        p = mmap(NULL, ENTRIES * sizeof *flight.entries, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return "no memory for the flight recorder's table";
    flight.entries = p;
    for (; !flight.device && bytes >= TAP_FLIGHT_SMALLEST; bytes /= 2)
        if (!tap_driver.mem_alloc(&flight.device, bytes))
            flight.made = bytes;
        else
            flight.device = 0;
    return flight.device ? NULL
                         : "the GPU has no memory left for the flight recorder (vLLM: a smaller "
                           "--gpu-memory-utilization, or --flight=MB of fewer)";
}

const char *tap_flight_ring_open(void *context, uint64_t bytes)
{
    int mode = TD_CUDA_CAPTURE_MODE_RELAXED;
    const char *why;
    void *popped;

    if (flight.context && flight.context != context)
        return "the flight recorder's memory is another context's";
    if (tap_driver.exchange_capture_mode(&mode) || tap_driver.ctx_push(context))
        return "the CUDA driver does not let us into the server's context";
    flight.context = context;
    why = allocate_ring(bytes);
    tap_driver.ctx_pop(&popped);
    if (why)
        return why;
    flight.bytes = (bytes < flight.made ? bytes : flight.made) / ALIGN * ALIGN;
    tap_flight_set_on(flight.bytes);
    return NULL;
}

void tap_flight_ring_clear(void)
{
    tap_flight_clear();
    flight.first = flight.next = flight.head = flight.tail = 0;
    flight.first_step = flight.next_step = 0;
}

void tap_flight_ring_forget(void)
{
    struct tap_flight_launch *entries = flight.entries;

    tap_flight_clear();
    memset(&flight, 0, sizeof flight);
    flight.entries = entries;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Forget steps that are over and have no launch in the ring any more. One whose record was not sent
 * counts as dropped. */
static void forget_steps(bool all)
{
    while (flight.first_step < flight.next_step) {
        const struct flight_step *s = &flight.steps[flight.first_step % STEPS];

        if (!all && (s->launches || flight.first_step + 1 == flight.next_step) &&
            flight.next_step - flight.first_step < STEPS)
            return;
        if (!s->counted)
            tap_count(TAP_STEPS_FLIGHT, 1, 0);
        flight.first_step++;
    }
}

void tap_flight_ring_step(uint64_t step, bool counted)
{
    forget_steps(false);
    flight.steps[flight.next_step++ % STEPS] = (struct flight_step){step, 0, counted};
}

static struct flight_step *step_of(const struct tap_flight_launch *f)
{
    return f->step_at >= flight.first_step && f->step_at < flight.next_step
               ? &flight.steps[f->step_at % STEPS]
               : NULL;
}

bool tap_flight_ring_step_is_new(const struct tap_flight_launch *f, uint64_t *step)
{
    struct flight_step *s = step_of(f);
    bool is_new = s && !s->counted;

    *step = f->e.step;
    if (is_new)
        s->counted = true;            /* the recorder counts it, when it gets the record */
    return is_new;
}

/* ---- what leaves ----------------------------------------------------------------------------- */

struct tap_flight_launch *tap_flight_ring_oldest(unsigned i)
{
    struct tap_flight_launch *f = &flight.entries[(flight.first + i) % ENTRIES];

    return flight.first + i < flight.next && (!i || f->e.joins) ? f : NULL;
}

static void count_launch(const struct tap_flight_launch *f, enum tap_count why)
{
    struct flight_step *s = step_of(f);

    if (s)
        s->launches--;
    if (why != TAP_OPS_SENT)
        tap_count(why, !f->e.joins, tap_gpu_gemm_copied_bytes(&f->e.work));
}

static unsigned launches_of_oldest(void)
{
    unsigned n = 0;

    while (tap_flight_ring_oldest(n))
        n++;
    return n;
}

void tap_flight_ring_drop(enum tap_count why)
{
    unsigned n = launches_of_oldest();

    while (n--) {
        const struct tap_flight_launch *f = &flight.entries[flight.first++ % ENTRIES];

        count_launch(f, why);
        flight.tail = f->end;
    }
    forget_steps(false);
}

void tap_flight_ring_cut(enum tap_count why)
{
    struct tap_flight_launch *f = NULL;

    while (flight.next > flight.first && (!f || f->e.joins)) {
        f = &flight.entries[--flight.next % ENTRIES];
        count_launch(f, why);
    }
    flight.head =
        flight.first == flight.next ? flight.tail : flight.entries[(flight.next - 1) % ENTRIES].end;
}

void tap_flight_ring_close(void)
{
    while (flight.entries && flight.first < flight.next)
        tap_flight_ring_drop(TAP_OPS_FLIGHT);
    forget_steps(true);
    tap_flight_set_on(0);
}

/* ---- what comes in --------------------------------------------------------------------------- */

uint64_t tap_flight_ring_address(void)
{
    return flight.device;
}

/* May the oldest op leave, to make room for copies on `stream`? Not while another stream may still
 * be writing there, and not when the new launch belongs to that op. */
static bool may_drop_oldest(uint64_t stream, bool joined)
{
    const struct tap_flight_launch *f = tap_flight_ring_oldest(0);

    return f && (!joined || launches_of_oldest() < flight.next - flight.first) &&
           (f->stream == stream || tap_gpu_stage_has_batch(f->e.batch));
}

/* Reserve n bytes in one piece, dropping old ops if need be. Their offset, or TAP_GPU_FULL. */
static uint64_t reserve_bytes(uint64_t n, uint64_t stream, bool joined)
{
    uint64_t size = tap_round_up(n, ALIGN), at = flight.head % flight.bytes,
             skip = size > flight.bytes - at ? flight.bytes - at : 0;

    if (size + skip > flight.bytes)
        return TAP_GPU_FULL;
    while (flight.head + skip + size - flight.tail > flight.bytes) {
        if (!may_drop_oldest(stream, joined))
            return TAP_GPU_FULL;
        tap_flight_ring_drop(TAP_OPS_FLIGHT);
    }
    flight.head += skip + size;
    return (flight.head - size) % flight.bytes;
}

static bool add_copy(struct tap_gpu_copies *c, uint64_t at, uint64_t from, uint64_t rows,
                 uint64_t row_bytes, uint64_t pitch, void *stream)
{
    return at != TAP_GPU_FULL &&
           tap_gpu_copies_add(c, flight.device + at, from, rows, row_bytes, pitch, stream);
}

/* Where an operand lies, and how far its rows are apart: in the server's memory, or in the copy that a
 * graph made of it. */
struct source { uint64_t address, pitch; };

static struct source source_of(const struct tap_flight_launch *f, int operand)
{
    const struct td_gpu_operand *o = &f->e.work.op[operand];

    if (!f->e.launch.slot)
        return (struct source){o->address, tap_gpu_operand_pitch(o)};
    return (struct source){f->e.launch.slot + tap_gpu_gemm_slot_offset(&f->e.work, operand),
                           o->bytes / tap_gpu_operand_rows(o)};
}

static bool add_operand_copy(struct tap_gpu_copies *c, const struct tap_flight_launch *f, int operand,
                             void *stream)
{
    const struct td_gpu_operand *o = &f->e.work.op[operand];
    const struct source from = source_of(f, operand);
    const uint64_t rows = tap_gpu_operand_rows(o);

    return add_copy(c, f->e.op_at[operand], from.address, rows, o->bytes / rows, from.pitch, stream);
}

static bool copy_sample(struct tap_gpu_copies *c, struct tap_flight_launch *f, void *stream)
{
    uint64_t n;
    int t;

    f->e.sample_at = reserve_bytes(TAP_GPU_SAMPLE, f->stream, false);
    for (t = 0; t < TAP_MAX_WEIGHTS && f->e.sample_at != TAP_GPU_FULL; t++) {
        const uint64_t at = tap_gpu_weight_set_sample(&f->e.set, t, &n);

        if (n && !add_copy(c, f->e.sample_at + (uint64_t)t * TAP_GPU_SAMPLE_EACH,
                       f->e.set.address[t] + at, 1, n, n, stream))
            return false;
    }
    return f->e.sample_at != TAP_GPU_FULL;
}

/* Reserve room for inputs and output, and copy the inputs; those of a graph come afterwards, since
 * they are copied by its launch. */
static bool copy_inputs(struct tap_flight_launch *f, void *stream)
{
    struct tap_gpu_copies c = {.n = 0};
    int i;

    if (!f->e.joins && !copy_sample(&c, f, stream))
        return false;
    for (i = 0; i < f->e.work.n_op; i++) {
        const struct td_gpu_operand *o = &f->e.work.op[i];

        if (!o->address || o->use == TD_GPU_WEIGHT || o->use >= TD_GPU_SCRATCH)
            continue;
        f->e.op_at[i] = reserve_bytes(o->bytes, f->stream, f->e.joins);
        if (f->e.op_at[i] == TAP_GPU_FULL ||
            (o->use == TD_GPU_IN && !f->e.launch.slot && !add_operand_copy(&c, f, i, stream)))
            return false;
    }
    return tap_gpu_copies_launch(&c, stream);
}

/* Copy the output, and what copy_inputs() left. */
static bool copy_outputs(struct tap_gpu_copies *c, const struct tap_flight_launch *f, void *stream)
{
    int i;

    for (i = 0; i < f->e.work.n_op; i++) {
        const struct td_gpu_operand *o = &f->e.work.op[i];

        if (tap_gpu_operand_is_copied(o) && (o->use != TD_GPU_IN || f->e.launch.slot) &&
            !add_operand_copy(c, f, i, stream))
            return false;
    }
    return true;
}

/* How many bytes of each row of an output are checked. */
static uint64_t check_width(const struct td_gpu_operand *o)
{
    uint64_t row = o->bytes / tap_gpu_operand_rows(o);

    return o->bytes <= CHECK_ALL || row <= CHECK_BYTES ? row : CHECK_BYTES;
}

static bool check_fits(const struct td_gpu_work *w)
{
    const struct td_gpu_operand *o = tap_gpu_gemm_output(w);

    return tap_gpu_queue_place(0) &&
           2 * tap_gpu_operand_rows(o) * check_width(o) + ALIGN <= tap_gpu_stage_room();
}

bool tap_flight_ring_enter(const struct tap_gpu_launch *l, uint64_t stream,
                           const struct tap_gpu_kernel *k, const struct td_gpu_work *w,
                           const char *library_function, bool joined)
{
    struct tap_gpu_weight_set *set = tap_gpu_weight_set_find(w);
    struct tap_flight_launch *f;

    if (tap_flight_is_dumping() || !flight.next_step || !set ||
        tap_gpu_weight_set_is_refused(set) || tap_gpu_weight_set_is_activation(set) ||
        !check_fits(w) ||
        tap_gpu_gemm_copied_bytes(w) > flight.bytes / 2)
        return false;
    if (flight.next - flight.first == ENTRIES) {
        if (!may_drop_oldest(stream, joined))
            return false;
        tap_flight_ring_drop(TAP_OPS_FLIGHT);
    }
    f = &flight.entries[flight.next % ENTRIES];
    memset(f, 0, sizeof *f);
    f->stream = stream;
    f->step_at = flight.next_step - 1;
    f->e.kind = TAP_GPU_LAUNCH;
    f->e.step = flight.steps[f->step_at % STEPS].step;
    f->e.set = *set;
    f->e.joins = joined;
    f->e.library_function = library_function;
    f->e.t_ns = tap_now();
    f->e.kernel = k;
    f->e.work = *w;
    f->e.launch = *l;
    flight.before = flight.head;
    if (copy_inputs(f, l->stream))
        return true;
    flight.head = flight.before;
    return false;
}

/* Stage some columns of the output, for the sender to check. */
static bool put_check(struct tap_gpu_copies *c, const struct tap_flight_launch *f, void *stream)
{
    const struct td_gpu_operand *o = tap_gpu_gemm_output(&f->e.work);
    const struct source c_at = source_of(f, (int)(o - f->e.work.op));
    uint64_t rows = tap_gpu_operand_rows(o), row = o->bytes / rows, width = check_width(o),
             from = row > width ? flight.turn++ % (row / width) * width : 0;
    struct tap_gpu_entry *e = tap_gpu_queue_place(0);
    uint64_t at = tap_gpu_stage_reserve(rows * width);

    if (at == TAP_GPU_FULL ||
        !tap_gpu_copies_add(c, tap_gpu_stage_address(at), c_at.address + from, rows, width,
                            c_at.pitch, stream) ||
        !tap_gpu_copies_launch(c, stream) || !tap_gpu_stage_mark(stream))
        return false;
    memset(e, 0, sizeof *e);
    e->kind = TAP_GPU_CHECK;
    e->at = at;
    e->len = rows * width;
    e->set = f->e.set;
    e->work.op[0].dtype = o->dtype;
    tap_gpu_queue_put(e, tap_gpu_stage_batch());
    return true;
}

bool tap_flight_ring_leave(const struct tap_gpu_launch *l, bool ok)
{
    struct tap_flight_launch *f = &flight.entries[flight.next % ENTRIES];
    struct flight_step *s = step_of(f);
    struct tap_gpu_copies c = {.n = 0};

    tap_gpu_gemm_set_output(&f->e.work, l);
    f->end = flight.head;
    f->e.batch = tap_gpu_stage_batch();
    flight.next++;
    if (s)
        s->launches++;
    if (ok && copy_outputs(&c, f, l->stream) && put_check(&c, f, l->stream)) {
        if (tap_gpu_stage_waiting() >= TAP_GPU_BATCH_BYTES)
            tap_gpu_stage_hand_over();
        return true;
    }
    tap_flight_ring_cut(TAP_OPS_FAILED);
    return false;
}

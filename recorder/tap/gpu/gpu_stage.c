/* gpu_stage.c - the way from the device to the host: a ring on the device, and its mirror in pinned
 * memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A byte lies at the same offset in both. Tensors are copied into the ring on the stream of the
 * launch, where nothing waits for the bus. What has gathered is copied to the mirror on a stream of
 * the tap's own, behind an event of the launch's stream; then the batch's number is written into a
 * word there, which the sender watches. Batches come in order, so one word is enough. A recorder
 * may ask for a larger ring than the one before it (--ring-mib): between two arms a new ring and
 * mirror take the place of the old ones.
 *
 * The mirror is memory that the tap maps and the driver registers, not memory of the driver: at the
 * end of the process the driver takes its own away while the sender may be reading. Nothing is ever
 * freed: cuMemFree would wait for the device. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "recorder/tap/gpu/gpu_cache_rows.h"
#include "recorder/tap/gpu/gpu_stage.h"

#define ALIGN 256u
#define SMALLEST (4u << 20)
/* Bytes of the mapping before the mirror: the word, and another one for the trial of the copying
 * kernel. */
#define HEAD_BYTES TAP_PAGE

static struct {
    _Atomic(void *) context;          /* NULL: not open */
    /* The context of all memory here, also after an attempt to open the stage that failed. */
    void *made_in;
    /* Of the context: after a reset it has the same handle, but another id. */
    unsigned long long id;
    _Atomic bool broken, gone;
    uint64_t bytes, device;           /* of the ring: a power of two, and its address */
    uint8_t *host;
    uint64_t spare, spare_bytes;      /* a larger ring that has no mirror yet */
    /* A mapping for a larger mirror whose address on the device the driver did not return. */
    uint8_t *idle; uint64_t idle_bytes;
    char sentence[160];
    const _Atomic uint32_t *word;     /* the GPU writes it last: what lies before it has come */
    uint64_t word_address;
    void *side, *event;
    uint64_t stream_number;           /* of the stream that is marked now; 0: nobody's */
    /* Reserved; marked; handed over: ends, counted since the ring was made. For the holder of the
     * gate. */
    uint64_t head, marked, handed;
    _Atomic uint64_t tail;            /* freed by the sender */
    uint32_t batch;
} stage;

/* ---- opening --------------------------------------------------------------------------------- */

/* The ring that suits this arm: the size of the largest record. */
static uint64_t wanted_bytes(void)
{
    uint64_t bytes = TAP_GPU_STAGE_BYTES;

    while (bytes < tap_plan.ring_bytes && bytes < TAP_MAX_RING_BYTES)
        bytes *= 2;
    return bytes;
}

/* Allocate a ring of more than `least` bytes. A server leaves little memory, and a small ring is
 * better than none: it drops more, and counts what it drops. */
static bool make_ring(uint64_t least, uint64_t *made, uint64_t *made_bytes)
{
    uint64_t bytes = wanted_bytes(), device;

    for (; !*made && bytes > least; bytes /= 2)
        if (!tap_driver.mem_alloc(&device, bytes))
            *made = device, *made_bytes = bytes;
    return *made;
}

static bool make_pinned(uint64_t bytes)
{
    uint8_t *p;

    if (stage.idle_bytes >= bytes)
        return true;
    p = mmap(NULL, HEAD_BYTES + bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED)
        return false;
    if (tap_driver.host_register(p, HEAD_BYTES + bytes,
                                 TD_CUDA_MEMHOSTREGISTER_PORTABLE |
                                     TD_CUDA_MEMHOSTREGISTER_DEVICEMAP)) {
        munmap(p, HEAD_BYTES + bytes);
        return false;
    }
    stage.idle = p, stage.idle_bytes = bytes;
    return true;
}

/* Make the mirror of a ring of so many bytes. What was made before a failure is kept for the next
 * attempt. */
static bool make_mirror(uint64_t bytes)
{
    uint64_t address;

    if (!make_pinned(bytes) || tap_driver.host_device_pointer(&address, stage.idle, 0))
        return false;
    stage.word = (const _Atomic uint32_t *)stage.idle;
    stage.word_address = address;
    stage.host = stage.idle + HEAD_BYTES;
    stage.idle = NULL, stage.idle_bytes = 0;
    return true;
}

static bool make_stream(void)
{
    void *made;

    if (!stage.side && !tap_driver.stream_create(&made, TD_CUDA_STREAM_NON_BLOCKING))
        stage.side = made;
    if (!stage.event && !tap_driver.event_create(&made, TD_CUDA_EVENT_DISABLE_TIMING))
        stage.event = made;
    return stage.side && stage.event;
}

static void start_ring(void)
{
    stage.batch = 1;
    /* Behind the bytes of the trial, whose copies may still come if the GPU is busy. */
    stage.head = stage.marked = stage.handed = TAP_GPU_TRIAL_BYTES;
    atomic_store(&stage.tail, TAP_GPU_TRIAL_BYTES);
}

static void try_kernels(void)
{
    const struct tap_gpu_copies_trial trial = {stage.device, stage.host, stage.word + 1,
                                               stage.word_address + 4, stage.side};

    if (tap_gpu_copies_open(&trial))
        tap_gpu_cache_rows_open(&trial);
}

static const char *make_stage(void)
{
    if (!make_ring(SMALLEST - 1, &stage.device, &stage.bytes))
        return "the GPU has no 4 MiB left for copies (vLLM: a smaller --gpu-memory-utilization)";
    if (!stage.host && !make_mirror(stage.bytes))
        return "no pinned memory for copies from the GPU";
    if (!make_stream())
        return "the GPU's driver gives no stream for copies";
    start_ring();
    try_kernels();
    return NULL;
}

const char *tap_gpu_stage_open(void *context)
{
    /* Allocate beside a capture that a thread of the server may be making, not as part of it. */
    int mode = TD_CUDA_CAPTURE_MODE_RELAXED;
    const char *why;
    void *popped;

    if (tap_gpu_stage_context())
        return NULL;
    if (stage.made_in && stage.made_in != context)
        return "the memory for copies from the GPU is another context's";
    if (tap_driver.exchange_capture_mode(&mode) || tap_driver.ctx_push(context))
        return "the GPU's driver does not let us into the server's context";
    stage.made_in = context;
    why = tap_driver.context_id(context, &stage.id)
              ? "the GPU's driver does not know the server's context"
              : make_stage();
    tap_driver.ctx_pop(&popped);
    if (!why)
        atomic_store_explicit(&stage.context, context, memory_order_release);
    return why;
}

/* With the context current. A ring without a mirror is kept for the next attempt. */
static bool make_larger_ring(void)
{
    if (!make_ring(stage.bytes, &stage.spare, &stage.spare_bytes) ||
        !make_mirror(stage.spare_bytes))
        return false;
    stage.device = stage.spare, stage.bytes = stage.spare_bytes;
    stage.spare = stage.spare_bytes = 0;
    start_ring();
    return true;
}

void tap_gpu_stage_grow(void)
{
    int mode = TD_CUDA_CAPTURE_MODE_RELAXED;
    void *context = tap_gpu_stage_context(), *popped;

    if (wanted_bytes() <= TAP_GPU_STAGE_BYTES || wanted_bytes() <= stage.bytes ||
        tap_driver.exchange_capture_mode(&mode) || tap_driver.ctx_push(context))
        return;
    if (tap_gpu_stage_is_for(context))
        make_larger_ring();
    tap_driver.ctx_pop(&popped);
}

const char *tap_gpu_stage_shortage(void)
{
    bool asked = wanted_bytes() > TAP_GPU_STAGE_BYTES;

    if (!asked || !tap_gpu_stage_context() || stage.bytes >= wanted_bytes())
        return NULL;
    snprintf(stage.sentence, sizeof stage.sentence,
             "GPU memory and pinned memory sufficed for a ring of %u MiB only: larger ops are not "
             "recorded (--ring-mib)",
             (unsigned)(stage.bytes >> 20));
    return stage.sentence;
}

void *tap_gpu_stage_context(void)
{
    return atomic_load_explicit(&stage.context, memory_order_acquire);
}

bool tap_gpu_stage_is_for(const void *context)
{
    unsigned long long id;

    if (!context || tap_gpu_stage_context() != context || tap_gpu_stage_is_broken())
        return false;
    if (!tap_driver.context_id((void *)(uintptr_t)context, &id) && id == stage.id)
        return true;
    /* The memory went with the old context, and may be anybody's by now. */
    atomic_store(&stage.gone, true);
    atomic_store(&stage.broken, true);
    return false;
}

bool tap_gpu_stage_is_gone(void)
{
    return atomic_load(&stage.gone);
}

uint64_t tap_gpu_stage_bytes(void)
{
    return stage.bytes;
}

bool tap_gpu_stage_is_quiet(void)
{
    return !tap_gpu_stage_context() || *stage.word == stage.batch - 1;
}

void tap_gpu_stage_forget(void)
{
    tap_gpu_copies_forget();
    tap_gpu_cache_rows_forget();
    memset(&stage, 0, sizeof stage);
}

/* ---- the holder of the gate ------------------------------------------------------------------ */

uint64_t tap_gpu_stage_room(void)
{
    return stage.bytes - (stage.head - atomic_load_explicit(&stage.tail, memory_order_acquire));
}

uint64_t tap_gpu_stage_reserve(uint64_t n)
{
    uint64_t size = tap_round_up(n, ALIGN), at = stage.head % stage.bytes,
             skip = size > stage.bytes - at ? stage.bytes - at : 0;

    if (n > stage.bytes || size + skip > tap_gpu_stage_room())
        return TAP_GPU_FULL;
    stage.head += skip + size;
    return (stage.head - size) % stage.bytes;
}

uint64_t tap_gpu_stage_end(void)
{
    return stage.head;
}

bool tap_gpu_stage_copy(uint64_t at, uint64_t from, uint64_t rows, uint64_t row_bytes,
                        uint64_t pitch, void *stream)
{
    return tap_gpu_copy_rows(stage.device + at, from, rows, row_bytes, pitch, stream);
}

uint64_t tap_gpu_stage_address(uint64_t at)
{
    return stage.device + at;
}

void *tap_gpu_stage_stream(void)
{
    return stage.side;
}

bool tap_gpu_stage_use_stream(uint64_t number)
{
    if (stage.stream_number != number && !tap_gpu_stage_hand_over())
        return false;                 /* the event stands for one stream */
    stage.stream_number = number;
    return true;
}

bool tap_gpu_stage_mark(void *stream)
{
    if (tap_driver.event_record(stage.event, stream))
        return false;
    stage.marked = stage.head;
    return true;
}

static bool copy_to_mirror(uint64_t from, uint64_t to)
{
    return from == to ||
           !tap_driver.copy_to_host(stage.host + from, stage.device + from, to - from, stage.side);
}

/* Copy [from, to) to the mirror; counted since the arm began, at most one turn of the ring. */
static bool copy_range_to_mirror(uint64_t from, uint64_t to)
{
    uint64_t a = from % stage.bytes, n = to - from,
             first = n < stage.bytes - a ? n : stage.bytes - a;

    return copy_to_mirror(a, a + first) && copy_to_mirror(0, n - first);
}

bool tap_gpu_stage_hand_over(void)
{
    if (stage.marked == stage.handed || tap_gpu_stage_is_broken())
        return true;
    if (stage.marked - stage.handed > stage.bytes)
        /* Bytes reserved for copies that were not made are not needed. */
        stage.handed = stage.marked - stage.bytes;
    if (tap_driver.stream_wait(stage.side, stage.event, 0) ||
        !copy_range_to_mirror(stage.handed, stage.marked) ||
        tap_driver.stream_write(stage.side, stage.word_address, stage.batch, 0)) {
        atomic_store(&stage.broken, true);
        return false;
    }
    stage.handed = stage.marked;
    stage.batch++;
    return true;
}

uint64_t tap_gpu_stage_waiting(void)
{
    return stage.marked - stage.handed;
}

uint32_t tap_gpu_stage_batch(void)
{
    return stage.batch;
}

/* ---- the sender's ---------------------------------------------------------------------------- */

const uint8_t *tap_gpu_stage_bytes_at(uint64_t at)
{
    return stage.host + at;
}

bool tap_gpu_stage_has_batch(uint32_t batch)
{
    if (!tap_gpu_stage_context())    /* not open yet: only steps come, which need no batch */
        return true;
    return (int32_t)(atomic_load_explicit(stage.word, memory_order_acquire) - batch) >= 0;
}

bool tap_gpu_stage_is_broken(void)
{
    return atomic_load_explicit(&stage.broken, memory_order_acquire);
}

void tap_gpu_stage_free(uint64_t end)
{
    atomic_store_explicit(&stage.tail, end, memory_order_release);
}

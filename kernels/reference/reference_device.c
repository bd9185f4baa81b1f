/* reference_device.c - a GPU that makes the sums of references.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/reference/reference_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/fs.h"
#include "kernels/gpu/driver.h"
#include "kernels/reference/reference_cu.h"
#include "kernels/reference/reference_times.h"

#define MAX_CODE ((size_t)16 << 20)
#define MAX_WEIGHTS 64
#define PARAMETERS 14

struct weights {
    uint64_t key, used;            /* used: when, by the device's clock */
    struct td_gpu_memory memory;   /* bytes 0: free */
    uint64_t part[TD_REFERENCE_PARTS];
};

struct td_reference_device {
    const struct td_gpu_driver *driver;
    void *device, *module;
    struct td_gpu_function kernels[TD_REFERENCE_KERNELS];
    struct td_buf code;
    struct td_gpu_memory a, rows, results;
    struct weights weights[MAX_WEIGHTS];
    size_t weight_bytes;
    uint64_t clock;
    char words[300];
};

static const char *const symbols[TD_REFERENCE_KERNELS] = {"td_reference_gptq", "td_reference_gptq_rounded", "td_reference_gemm"};

/* ---- open -------------------------------------------------------------------------------------- */

static int load_code(struct td_reference_device *d, const char *path, struct td_error *err)
{
    int rc = td_fs_read_regular(path, MAX_CODE, &d->code, err);

    if (!rc && (rc = td_buf_addc(&d->code, '\0'))) /* an image has no size but its own: let none run on */
        td_fail(err, rc, "%s: too large", path);
    if (!rc)
        rc = d->driver->load(d->device, d->code.data, &d->module, err);
    for (int i = 0; !rc && i < TD_REFERENCE_KERNELS; i++) {
        rc = d->driver->function(d->device, d->module, symbols[i], &d->kernels[i], err);
        if (!rc && d->kernels[i].n_params >= 0 && d->kernels[i].n_params != PARAMETERS)
            rc = td_fail(err, TD_EINVAL, "%s: %s has %d parameters; is it of another version?", path, symbols[i], d->kernels[i].n_params);
    }
    return rc;
}

static int open_with(const struct td_gpu_driver *driver, const char *folder, const char *file, struct td_reference_device **out, struct td_error *err)
{
    struct td_reference_device *d = calloc(1, sizeof *d);
    struct td_gpu_facts facts;
    char path[4096];
    int rc;

    if (!d)
        return td_fail(err, TD_ENOMEM, "out of memory");
    d->driver = driver;
    td_buf_init(&d->code, MAX_CODE + 1);
    rc = driver->open(&d->device, true, &facts, err);
    if (!rc && !(rc = td_fs_join(path, sizeof path, folder, file, err)) &&
        !(rc = load_code(d, path, err)) &&
        !(rc = driver->alloc(d->device, TD_REFERENCE_A_BYTES, 0, false, &d->a, err)) &&
        !(rc = driver->alloc(d->device, TD_REFERENCE_ROWS * 3 * sizeof(float), 0, false, &d->rows, err)))
        rc = driver->alloc(d->device, (size_t)TD_REFERENCE_RESULTS * 3 * sizeof(double), 0, false, &d->results, err);
    if (rc) {
        td_reference_device_close(d);
        return rc;
    }
    snprintf(d->words, sizeof d->words, "%s (%s, %s)", facts.name, facts.arch, facts.version);
    *out = d;
    return TD_OK;
}

/* Can there be an AMD GPU? Without its device the runtime is not loaded, for it starts threads and keeps memory. */
static bool may_have_hip(void)
{
    return getenv("TD_HIP_LIBRARY") || td_fs_exists("/dev/kfd");
}

int td_reference_device_open(const char *folder, struct td_reference_device **out, struct td_error *err)
{
    struct td_error other = {0};
    int rc;

    *out = NULL;
    rc = open_with(&td_gpu_driver_cuda, folder, "td_reference.fatbin", out, err);
    if (rc && may_have_hip() && !open_with(&td_gpu_driver_hip, folder, "td_reference.hsaco", out, &other)) {
        td_error_clear(err);
        return TD_OK;
    }
    /* who has an AMD card wants to know about it, not about CUDA */
    return rc == TD_ENOTFOUND && other.code && other.code != TD_ENOTFOUND ? td_fail(err, other.code, "%s", other.msg) : rc;
}

static void forget_weights(struct td_reference_device *d, struct weights *w)
{
    d->weight_bytes -= w->memory.bytes;
    d->driver->free(d->device, &w->memory);
    memset(w, 0, sizeof *w);
}

void td_reference_device_close(struct td_reference_device *d)
{
    if (!d)
        return;
    if (d->device && !d->driver->is_dead(d->device)) {
        for (int i = 0; i < MAX_WEIGHTS; i++)
            if (d->weights[i].memory.bytes)
                forget_weights(d, &d->weights[i]);
        d->driver->free(d->device, &d->a);
        d->driver->free(d->device, &d->rows);
        d->driver->free(d->device, &d->results);
        d->driver->unload(d->device, d->module);
    }
    d->driver->close(d->device);
    td_buf_release(&d->code);
    free(d);
}

const char *td_reference_device_words(const struct td_reference_device *d)
{
    return d->words;
}

bool td_reference_device_is_dead(const struct td_reference_device *d)
{
    return d->driver->is_dead(d->device);
}

bool td_reference_device_pin(struct td_reference_device *d, void *memory, size_t bytes)
{
    return d->driver->pin && d->driver->pin(d->device, memory, bytes);
}

void td_reference_device_unpin(struct td_reference_device *d, void *memory)
{
    d->driver->unpin(d->device, memory);
}

/* ---- weights ----------------------------------------------------------------------------------- */

static size_t aligned(size_t n)
{
    return (n + 255) & ~(size_t)255;
}

/* Those with the key; else the place for them: a free one, or the one that was not used for longest. */
static struct weights *find_place(struct td_reference_device *d, uint64_t key)
{
    struct weights *oldest = &d->weights[0];

    for (int i = 0; i < MAX_WEIGHTS; i++) {
        struct weights *w = &d->weights[i];

        if (w->memory.bytes && w->key == key)
            return w;
        if (w->used < oldest->used)
            oldest = w;
    }
    return oldest;
}

static void make_room(struct td_reference_device *d, size_t bytes)
{
    while (d->weight_bytes && d->weight_bytes + bytes > TD_REFERENCE_WEIGHT_BYTES) {
        struct weights *oldest = NULL;

        for (int i = 0; i < MAX_WEIGHTS; i++)
            if (d->weights[i].memory.bytes && (!oldest || d->weights[i].used < oldest->used))
                oldest = &d->weights[i];
        forget_weights(d, oldest);
    }
}

/* By pieces, through memory that outlives the job. */
static int bring_part(struct td_reference_device *d, const struct td_reference_job *j, int part, uint64_t address, struct td_error *err)
{
    const char *from = j->part[part];
    int rc = TD_OK;

    for (size_t at = 0, n; !rc && at < j->part_bytes[part]; at += n) {
        n = j->part_bytes[part] - at < TD_REFERENCE_STAGING ? j->part_bytes[part] - at : TD_REFERENCE_STAGING;
        if (!j->bring(j->ctx, j->staging, from + at, n))
            return td_fail(err, TD_EUNSUPPORTED, "nobody waits for the job any more");
        rc = d->driver->copy_in(d->device, address + at, j->staging, n, err);
    }
    return rc;
}

static int bring_weights(struct td_reference_device *d, const struct td_reference_job *j, struct weights **out, struct td_error *err)
{
    struct weights *w = find_place(d, j->key);
    size_t bytes = 0, at = 0;
    int rc = TD_OK;

    *out = w;
    if (!w->memory.bytes || w->key != j->key) {
        for (int i = 0; i < TD_REFERENCE_PARTS; i++)
            bytes += aligned(j->part_bytes[i]);
        if (bytes > TD_REFERENCE_WEIGHT_BYTES)
            return td_fail(err, TD_ENOMEM, "%zu bytes of weights are more than a reference takes of a GPU", bytes);
        if (w->memory.bytes)
            forget_weights(d, w);
        make_room(d, bytes);
        if ((rc = d->driver->alloc(d->device, bytes, 256, false, &w->memory, err)))
            return rc;
        d->weight_bytes += w->memory.bytes;
        w->key = j->key;
        for (int i = 0; !rc && i < TD_REFERENCE_PARTS; i++) {
            w->part[i] = j->part_bytes[i] ? w->memory.address + at : 0;
            rc = bring_part(d, j, i, w->part[i], err);
            at += aligned(j->part_bytes[i]);
        }
        if (rc && !d->driver->is_dead(d->device))
            forget_weights(d, w);
    }
    w->used = ++d->clock;
    return rc;
}

/* ---- jobs -------------------------------------------------------------------------------------- */

static int launch(struct td_reference_device *d, const struct td_reference_job *j, const struct weights *w, struct td_error *err)
{
    const uint64_t one = (uint64_t)TD_REFERENCE_RESULTS * sizeof(double);
    uint64_t a = d->a.address, rows = j->row_scales ? d->rows.address : 0, r0 = d->results.address, r1 = r0 + one, mag = r1 + one;
    uint64_t part[TD_REFERENCE_PARTS];
    int32_t m = (int32_t)j->m, n = (int32_t)j->n, k = (int32_t)j->k, group = j->group_size, form = j->form;
    void *params[PARAMETERS] = {&a, &part[0], &part[1], &part[2], &part[3], &rows, &r0, &r1, &mag, &m, &n, &k, &group, &form};
    uint32_t grid[3], block[3];

    memcpy(part, w->part, sizeof part);
    td_reference_grid(j->m, j->n, grid, block);
    return d->driver->launch(d->device, &d->kernels[j->kernel], grid, block, 0, params, err);
}

int td_reference_device_run(struct td_reference_device *d, const struct td_reference_job *j, struct td_error *err)
{
    const size_t bytes = (size_t)(j->m * j->n) * sizeof(double);
    const uint64_t one = (uint64_t)TD_REFERENCE_RESULTS * sizeof(double);
    int64_t at = td_clock_mono_ns();
    struct weights *w;
    int rc;

    if ((rc = bring_weights(d, j, &w, err)))
        return rc;
    at = td_reference_spent(TD_TIME_REF_WEIGHTS, at);
    if ((rc = d->driver->copy_in(d->device, d->a.address, j->a, j->a_bytes, err)) ||
        (j->row_scales && (rc = d->driver->copy_in(d->device, d->rows.address, j->row_scales, (size_t)j->m * 3 * sizeof(float), err))))
        return rc;
    at = td_reference_spent(TD_TIME_REF_ROWS, at);
    if ((rc = launch(d, j, w, err)) || (rc = d->driver->wait(d->device, err)))
        return rc;
    at = td_reference_spent(TD_TIME_REF_KERNEL, at);
    if ((rc = d->driver->copy_out(d->device, j->r0, d->results.address, bytes, err)) ||
        (j->r1 && (rc = d->driver->copy_out(d->device, j->r1, d->results.address + one, bytes, err))) ||
        (rc = d->driver->copy_out(d->device, j->mag, d->results.address + 2 * one, bytes, err)))
        return rc;
    td_reference_spent(TD_TIME_REF_SUMS, at);
    return TD_OK;
}

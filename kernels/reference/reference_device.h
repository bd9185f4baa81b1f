/* reference_device.h - a GPU that makes the sums of references: code, weights, launches. One thread uses it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_REFERENCE_REFERENCE_DEVICE_H
#define TD_KERNELS_REFERENCE_REFERENCE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* Memory of a device, together 256 MiB and some pages. */
#define TD_REFERENCE_WEIGHT_BYTES ((size_t)216 << 20) /* weights that stay there */
#define TD_REFERENCE_A_BYTES ((size_t)8 << 20)        /* rows of one launch */
#define TD_REFERENCE_ROWS 4096
#define TD_REFERENCE_RESULTS ((int64_t)1 << 20)       /* of one launch: three doubles each */
#define TD_REFERENCE_STAGING ((size_t)2 << 20)        /* a piece of weights on its way */

enum td_reference_kernel { TD_REFERENCE_GPTQ, TD_REFERENCE_GPTQ_ROUNDED, TD_REFERENCE_GEMM, TD_REFERENCE_KERNELS };
enum td_reference_part { TD_REFERENCE_W, TD_REFERENCE_QZEROS, TD_REFERENCE_SCALES, TD_REFERENCE_G_IDX, TD_REFERENCE_PARTS };

struct td_reference_job {
    enum td_reference_kernel kernel;
    uint64_t key;                 /* equal where all parts are */
    const void *part[TD_REFERENCE_PARTS]; size_t part_bytes[TD_REFERENCE_PARTS]; /* NULL, 0: there is none */
    /* Copy n bytes of a part; false: whoever brought the job waits no more, and the part may be gone. */
    bool (*bring)(void *ctx, void *to, const void *from, size_t n); void *ctx;
    void *staging;                /* [TD_REFERENCE_STAGING]; outlives the job, and may be where sums come to lie */
    int64_t m, n, k;
    int32_t group_size, form;     /* reference_cu.h */
    const void *a; size_t a_bytes; /* dense */
    const float *row_scales;      /* [m][3]; NULL: rows are not rounded */
    double *r0, *r1, *mag;        /* filled, [m, n]; r1 NULL: it is r0 */
};

struct td_reference_device;

/* Open the first GPU, of NVIDIA or AMD, with the code in `folder` (td_reference.fatbin, .hsaco).
 * TD_ENOTFOUND and others: err says why there is none. */
int td_reference_device_open(const char *folder, struct td_reference_device **out, struct td_error *err);
void td_reference_device_close(struct td_reference_device *d);
const char *td_reference_device_words(const struct td_reference_device *d); /* "NVIDIA H100 (sm_90, driver CUDA 13.0)" */
/* Is it of no use any more? */
bool td_reference_device_is_dead(const struct td_reference_device *d);
/* Pin memory that jobs lie in: copies are faster. False: it stays as it is. */
bool td_reference_device_pin(struct td_reference_device *d, void *memory, size_t bytes);
void td_reference_device_unpin(struct td_reference_device *d, void *memory);
/* Run a job to its end; its sizes are within the limits above. TD_ENOMEM: there is no room on the
 * device; others: err. */
int td_reference_device_run(struct td_reference_device *d, const struct td_reference_job *j, struct td_error *err);

#endif

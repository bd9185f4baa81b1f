/* torch_repack.c - operators that repack a weight while a model is loaded.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/torch/torch_repack.h"

#include <stdlib.h>

#include "recorder/tap/core/tap_front.h"
#include "recorder/tap/gpu/gpu_driver.h"
#include "recorder/tap/gpu/gpu_threads.h"
#include "recorder/tap/torch/torch_arguments.h"
#include "recorder/tap/torch/torch_fingerprints.h"

/* Into memory that is not pinned: the driver returns when it has copied. */
static bool copy_from_gpu(void *to, const void *from, size_t n, void *stream)
{
    return !tap_driver.copy_to_host(to, (uintptr_t)from, n, stream);
}

static bool take_sample(struct td_weight_fingerprint *p, const struct tap_torch_operator *o,
                        td_torch_tensor weight)
{
    struct tap_torch_tensor t;
    void *stream;

    return tap_driver.copy_to_host && tap_torch_stream((const void *)o->real, weight, &stream) &&
           !tap_gpu_stream_is_capturing(stream) && tap_torch_read_on_gpu(weight, &t) &&
           tap_torch_fingerprint(p, &t, 0, copy_from_gpu, stream);
}

struct td_weight_fingerprint *tap_torch_repack_sample(const struct tap_torch_operator *o,
                                                      const struct tap_torch_meaning *m,
                                                      const td_torch_value *stack)
{
    struct td_weight_fingerprint *p = malloc(sizeof *p);
    const int place = m->role[0];
    bool own, taken;

    if (!p) {
        tap_front_lacks_memory(); /* nobody could find this weight in the checkpoint */
        return NULL;
    }
    own = tap_gpu_set_own_calls(true);
    taken = take_sample(p, o, tap_torch_tensor_of(&m->schema->arg[place], stack[place]));
    tap_gpu_set_own_calls(own);
    if (taken)
        return p;
    free(p);
    return NULL;
}

void tap_torch_repack_keep(struct td_weight_fingerprint *p, td_torch_value result)
{
    struct tap_torch_tensor t;

    if (tap_torch_read_on_gpu((td_torch_tensor)(uintptr_t)result, &t) && t.data)
        tap_torch_fingerprint_keep((uintptr_t)t.data, p);
    else
        free(p);
}

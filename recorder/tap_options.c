/* tap_options.c - what the options of `record` mean for the tap client.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_options.h"

#include <string.h>

#define LLAMACPP_RINGS 2            /* it computes on one thread, a prompt of many tokens at once
                                       ... */
#define LLAMACPP_RING (64LL << 20)
#define ALL_OPS_RING (256LL << 20)  /* ... and with every node a step brings its K/V cache several
                                       times */

struct td_tap_client_options td_tap_options_of(const struct td_record_options *o, enum td_api_kind kind)
{
    struct td_tap_client_options c = {.checkpoint = o->checkpoint,
                                      .weights_by_reference = o->weights_by_reference,
                                      .no_code = o->no_code,
                                      .wanted_layers = o->layers,
                                      .rows = o->own ? o->own->text : NULL,
                                      .n_rows = o->own ? o->own->n : 0,
                                      .every_step = o->mode.steps == TD_TAP_CLIENT_ALL,
                                      .dump_asked = o->dump_asked};

    if (kind == TD_API_LLAMACPP) {
        c.rings = o->mode.all_kinds ? 1 : LLAMACPP_RINGS;
        c.ring_bytes = o->mode.all_kinds ? ALL_OPS_RING : LLAMACPP_RING;
    }
    if (o->ring_mib)
        c.ring_bytes = o->ring_mib << 20;
    return c;
}

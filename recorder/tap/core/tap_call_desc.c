/* tap_call_desc.c - check and measure the description of a call, copy an operand.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_call_desc.h"

#include <string.h>

#define BYTES_MAX (1ull << 48) /* of one operand: far beyond any, and no sum of them can wrap */

bool tap_operand_is_sane(const struct tap_operand *o)
{
    uint64_t extent;

    return o->role && o->dtype && o->ndim >= 0 && o->ndim <= TAP_DIMS && o->bytes <= BYTES_MAX &&
           (!o->row_bytes || (o->bytes % o->row_bytes == 0 &&
                              !__builtin_mul_overflow(o->bytes / o->row_bytes, o->pitch, &extent)));
}

static bool operands_are_sane(const struct tap_operand *o, int n, int max)
{
    int i;

    if (n < 0 || n > max)
        return false;
    for (i = 0; i < n; i++)
        if (!tap_operand_is_sane(&o[i]))
            return false;
    return true;
}

bool tap_call_is_sane(const struct tap_call *call)
{
    return call && call->kind && call->symbol && call->n_attrs >= 0 &&
           call->n_attrs <= TAP_MAX_ATTRS &&
           operands_are_sane(call->w, call->n_w, TAP_MAX_WEIGHTS) &&
           operands_are_sane(call->in, call->n_in, TAP_MAX_INPUTS) &&
           tap_operand_is_sane(&call->out) && call->n_launches >= 0 &&
           call->n_launches <= TAP_MAX_LAUNCHES;
}

uint64_t tap_call_bytes(const struct tap_call *call)
{
    uint64_t bytes;
    int i;

    if (!tap_call_is_sane(call))
        return 0;
    bytes = call->out.bytes;
    for (i = 0; i < call->n_in; i++)
        bytes += tap_operand_bytes(&call->in[i]);
    return bytes;
}

void tap_operand_copy(uint8_t *to, const struct tap_operand *o, uint64_t offset, uint64_t n)
{
    const uint8_t *from = o->data;

    if (!n)
        return;                       /* opaque, or empty: there may be no address */
    if (!o->row_bytes || o->pitch == o->row_bytes) {
        memcpy(to, from + offset, n);
        return;
    }
    while (n) {
        uint64_t in_row = offset % o->row_bytes,
                 part = o->row_bytes - in_row < n ? o->row_bytes - in_row : n;

        memcpy(to, from + offset / o->row_bytes * o->pitch + in_row, part);
        to += part;
        offset += part;
        n -= part;
    }
}

/* op_digest.c - the recorded output of an op of which the fixture keeps a digest alone.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_digest.h"

/* The first image that has the digest. NULL: none has. */
static const void *find_image(const struct td_run_result *run, size_t bytes, struct td_hash digest)
{
    int i;

    for (i = 0; i < run->repeats; i++)
        if (td_hash_eq(digest, td_hash_bytes(run->images[i], bytes)))
            return run->images[i];
    return NULL;
}

void td_op_digest_find(struct td_op_item *it)
{
    const struct td_tensor_rec *out = &it->rec.out;
    const size_t bytes = it->call.out.size_bytes;
    const void *image;

    it->digest = TD_DIGEST_NONE;
    if (!it->loaded || !it->rec.has_out || out->stored || td_hash_is_zero(out->blob) || !it->candidate.repeats)
        return;
    image = find_image(&it->candidate, bytes, out->blob);
    it->digest = image && image == it->candidate.images[0] ? TD_DIGEST_EQUAL : TD_DIGEST_DIFFERS;
    it->recorded = image || !it->baseline.repeats ? image : find_image(&it->baseline, bytes, out->blob);
}

/* op_rewrite.c - turn the record of an op into that of its replay.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_rewrite.h"
#include "common/out_of_memory.h"

#include <stdlib.h>
#include <string.h>

int td_op_rewrite(struct td_op_item *it, struct td_writer *w, const char *fixture_id, const char *library, const char *build,
                  struct td_error *err)
{
    struct td_op *op = &it->rec;
    struct td_impl impl = {.duration_ns = -1};
    int32_t t;
    int rc = TD_OK;

    for (t = 0; t < op->n_in; t++)
        op->in[t].stored = false;
    op->out.stored = false;
    if (it->candidate.repeats) {
        const void *image = it->candidate.images[0];
        size_t n = it->call.out.size_bytes;

        if (it->recorded && !memcmp(image, it->recorded, n))
            ; /* the same bytes: the recording's hash stands */
        else if (!(rc = td_writer_blob(w, image, n, td_dtype_size(it->call.out.dtype) == 2 ? 2 : 1, &op->out.blob)))
            op->out.stored = true;
    } else {
        op->out.blob = (struct td_hash){0, 0}; /* no new output: the old hash would say there is */
    }
    if (rc)
        return td_fail(err, rc, "cannot write the output of op %lld", (long long)op->op);
    if (it->candidate.rounding[0]) {
        free(op->act_rounding);
        op->act_rounding = td_strdup(it->candidate.rounding);
    }
    impl.symbol = op->impl.symbol;
    impl.layout = op->impl.layout;
    op->impl.symbol = op->impl.layout = NULL;
    free(op->impl.library);
    free(op->impl.build);
    free(op->impl.clock);
    cJSON_Delete(op->impl.launches);
    op->impl = impl;
    op->impl.library = library ? td_strdup(library) : NULL;
    op->impl.build = td_strdup(build);
    cJSON_Delete(op->origin);
    op->origin = cJSON_CreateObject();
    cJSON_AddStringToObject(op->origin, "fixture", fixture_id);
    cJSON_AddNumberToObject(op->origin, "op", (double)op->op);
    return TD_OK;
}

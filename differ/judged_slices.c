/* judged_slices.c - read the sums over slices that a replay kept of its ops.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/judged_slices.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/json.h"

static void read_side(const cJSON *e, struct td_op_error *out)
{
    const cJSON *json = td_json_get(e, "slices");

    if (!json || !out->present)
        return;
    out->slices = malloc(sizeof *out->slices);
    if (out->slices && !td_slices_read(json, out->slices)) {
        free(out->slices);
        out->slices = NULL;
    }
}

void td_judged_slices_free(struct td_judged_op *op)
{
    free(op->recorded.slices);
    free(op->baseline.slices);
    free(op->candidate.slices);
    free(op->halves.slices);
    op->recorded.slices = op->baseline.slices = op->candidate.slices = op->halves.slices = NULL;
}

bool td_judged_slices_kept(const struct td_judged_op *op, int thinned)
{
    const uint64_t h = td_hash64(&op->op, sizeof op->op) ^ td_hash64(op->fixture, strlen(op->fixture));

    return (h & (((uint64_t)1 << thinned) - 1)) == 0;
}

static void thin_out(struct td_judged_ops *set)
{
    size_t i;

    set->thinned++;
    set->n_slices = 0;
    for (i = 0; i < set->n; i++) {
        if (!td_judged_slices_kept(&set->op[i], set->thinned))
            td_judged_slices_free(&set->op[i]);
        set->n_slices += set->op[i].candidate.slices != NULL;
    }
}

void td_judged_slices_read(struct td_judged_ops *set, const cJSON *judge, struct td_judged_op *op)
{
    if (!td_judged_slices_kept(op, set->thinned))
        return;
    read_side(td_json_get(judge, "recorded"), &op->recorded);
    read_side(td_json_get(judge, "baseline"), &op->baseline);
    read_side(td_json_get(judge, "candidate"), &op->candidate);
    read_side(td_json_get(judge, "halves"), &op->halves);
    set->n_slices += op->candidate.slices != NULL;
    if (set->n_slices > TD_JUDGED_SLICES_MAX)
        thin_out(set);
}

uint64_t td_judged_slices_input(const struct td_op *op)
{
    const char *layer = op->layer ? op->layer : "";
    uint64_t h = td_hash64(layer, strlen(layer));
    bool known = false;
    int i;

    for (i = 0; i < op->n_in; i++) {
        h = h * 31 + td_hash64(&op->in[i].blob, sizeof op->in[i].blob);
        known = known || !td_hash_is_zero(op->in[i].blob);
    }
    return known ? h : h * 31 + td_hash64(&op->op, sizeof op->op);
}

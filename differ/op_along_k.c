/* op_along_k.c - the errors of one op by parts of K, as the replayer found them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/op_along_k.h"

#include <math.h>
#include <stdlib.h>

static bool read_fit(const cJSON *list, double explained, struct td_op_along_k *to, int which)
{
    const cJSON *pair;

    to->of[which].explained = explained;
    cJSON_ArrayForEach(pair, list) {
        const double est = td_json_num(cJSON_GetArrayItem(pair, 0), NAN), error = td_json_num(cJSON_GetArrayItem(pair, 1), NAN);
        int *n = &to->of[which].n;

        if (*n >= TD_K_PARTS_MOST || !isfinite(est) || !(error >= 0) || !isfinite(error))
            return false;
        to->of[which].est[*n] = est;
        to->of[which].error[(*n)++] = error;
    }
    return true;
}

struct td_op_along_k *td_op_along_k_read(const cJSON *j)
{
    const cJSON *explained = td_json_get(j, "explained");
    struct td_op_along_k *x = cJSON_IsObject(j) ? calloc(1, sizeof *x) : NULL;

    if (!x)
        return NULL;
    x->step = td_json_get_i64(j, "step", 0);
    x->dof = td_json_get_num(j, "dof", 0);
    if (x->step > 0 && x->dof >= 1 &&
        read_fit(td_json_get(j, "pieces"), td_json_num(cJSON_GetArrayItem(explained, 0), 0), x, 0) &&
        read_fit(td_json_get(j, "classes"), td_json_num(cJSON_GetArrayItem(explained, 1), 0), x, 1))
        return x;
    free(x);
    return NULL;
}

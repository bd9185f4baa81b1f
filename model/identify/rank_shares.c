/* rank_shares.c - which outputs of a layer one rank of a tensor-parallel server has.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/identify/rank_shares.h"

#include <stdbool.h>

/* All parts divided by the same number. */
static bool share_evenly(const int64_t *n, int parts, int64_t rows, struct td_rank_shares *out)
{
    int64_t all = 0;
    int i;

    for (i = 0; i < parts; i++)
        all += n[i];
    if (rows < 1 || all % rows || all / rows > TD_RANKS_MAX)
        return false;
    out->ranks = (int)(all / rows);
    for (i = 0; i < parts; i++) {
        out->pieces[i] = out->ranks;
        if (n[i] % out->ranks)
            return false;
    }
    return true;
}

/* q divided by `ranks`, k and v by the number of their heads, which is smaller. */
static bool share_heads(const int64_t *n, int64_t rows, int ranks, struct td_rank_shares *out)
{
    const int64_t rest = rows - n[0] / ranks, head = rest / 2;
    int64_t heads;

    if (n[0] % ranks || n[1] != n[2] || rest < 2 || rest % 2 || n[1] % head)
        return false;
    heads = n[1] / head;
    if (heads >= ranks || ranks % heads)
        return false;
    *out = (struct td_rank_shares){ranks, {ranks, (int)heads, (int)heads}};
    return true;
}

int td_rank_shares_find(const int64_t *n, int parts, int64_t rows, struct td_rank_shares *out)
{
    int ways = share_evenly(n, parts, rows, out), ranks;

    for (ranks = 2; parts == 3 && ranks <= TD_RANKS_MAX; ranks++)
        ways += share_heads(n, rows, ranks, &out[ways]);
    return ways;
}

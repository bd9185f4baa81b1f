/* fused_layers.c - layers that a server stacks into one when it loads them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/identify/fused_layers.h"

#include <stdio.h>
#include <string.h>

static const struct { const char *fused, *part[TD_FUSED_PARTS]; } known[] = {
    {"qkv_proj", {"q_proj", "k_proj", "v_proj"}},
    {"gate_up_proj", {"gate_proj", "up_proj", NULL}},
    {"w13", {"w1", "w3", NULL}},      /* gate and up of an expert, as Mixtral names them */
};

/* Write the first `prefix` bytes of name, then tail. False: too long. */
static int put_name(char *to, const char *name, size_t prefix, const char *tail)
{
    return snprintf(to, TD_FUSED_NAME, "%.*s%s", (int)prefix, name, tail) < TD_FUSED_NAME;
}

int td_fused_from(const char *name, struct td_fused *out)
{
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    size_t prefix = (size_t)(last - name), i;
    int ok;

    for (i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(last, known[i].part[0]) || prefix >= TD_FUSED_NAME)
            continue;
        ok = put_name(out->layer, name, prefix, known[i].fused);
        for (out->n = 0; ok && out->n < TD_FUSED_PARTS && known[i].part[out->n]; out->n++)
            ok = put_name(out->part[out->n], name, prefix, known[i].part[out->n]);
        return ok;
    }
    return 0;
}

int td_fused_single(const char *name, struct td_fused *out)
{
    size_t len = strlen(name);

    out->n = 1;
    return len < TD_FUSED_NAME && put_name(out->layer, name, len, "") &&
           put_name(out->part[0], name, len, "");
}

/* own_kinds.c - the kinds of op that a row of one's own may describe.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/adapters/own_kinds.h"

#include <stddef.h>
#include <string.h>

#define ROUNDINGS_OF_WEIGHTS                                                                      \
    "weight", "weight-f16", "weight-bf16", "bias-after", "weight+bias-after", "weight-f16+bias-after", \
        "weight-bf16+bias-after"

/* Layouts: nk and kn, a row of W for each output or for each input; gptq, as a GPTQ checkpoint. */
static const struct td_own_kind kinds[] = {
    {.name = "gemm",
     .roles = {"a", "w", "bias"},
     .n_needed = 2,
     .layouts = {"nk", "kn"},
     .roundings = {"none", "bias-after"}},
    {.name = "gptq_gemm",
     .roles = {"a", "qweight", "scales", "qzeros", "g_idx", "bias"},
     .n_needed = 3,
     .layouts = {"gptq", "unknown"},
     .roundings = {"none", "uint8-token", ROUNDINGS_OF_WEIGHTS},
     .quantised = true},
    {.name = "moe_gemm",
     .roles = {"a", "qweight", "scales", "sorted_token_ids", "expert_ids", "num_tokens_post_padded",
               "topk_weights", "qzeros", "g_idx", "bias"},
     .n_needed = 6,
     .layouts = {"gptq", "unknown"},
     .roundings = {"none", ROUNDINGS_OF_WEIGHTS},
     .quantised = true,
     .of_the_call = {"sorted_token_ids", "expert_ids", "num_tokens_post_padded", "topk_weights"},
     .routed = true},
    {.name = "scaled_mm",
     .roles = {"a", "w", "a_scales", "w_scales", "azp_adj", "azp", "bias"},
     .n_needed = 4,
     .layouts = {"nk", "kn"},
     .roundings = {"none", "sum-e8m13"},
     .of_the_call = {"a_scales", "azp"},
     .eight_bits = true},
};

const struct td_own_kind *td_own_kind_at(int i)
{
    return i >= 0 && (size_t)i < sizeof kinds / sizeof *kinds ? &kinds[i] : NULL;
}

const char *td_own_rounding(const char *rounding, bool bf16)
{
    if (!strcmp(rounding, "weight"))
        return bf16 ? "weight-bf16" : "weight-f16";
    if (!strcmp(rounding, "weight+bias-after"))
        return bf16 ? "weight-bf16+bias-after" : "weight-f16+bias-after";
    return rounding;
}

bool td_own_kind_is_of_the_call(const struct td_own_kind *kind, int role)
{
    int i;

    for (i = 0; role && kind->of_the_call[i]; i++)
        if (!strcmp(kind->of_the_call[i], kind->roles[role]))
            return true;
    return !role;
}

int td_own_kind_role(const struct td_own_kind *kind, const char *role)
{
    int i;

    for (i = 0; i < TD_OWN_ROLES && kind->roles[i]; i++)
        if (!strcmp(kind->roles[i], role))
            return i;
    return -1;
}

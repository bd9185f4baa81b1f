/* torch_rows.c - what an operator of torch means.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: vLLM 0.26, csrc/libtorch_stable/torch_bindings.cpp and moe/torch_bindings.cpp (schemas);
 * of vllm/model_executor: kernels/linear/mixed_precision/machete.py, marlin.py, exllama.py and allspark.py,
 * layers/quantization/auto_awq.py, kernels/linear/scaled_mm/cutlass.py,
 * layers/fused_moe/experts/marlin_moe.py and cutlass_moe.py, layers/quantization/moe_wna16.py (what the arguments
 * hold). */
#include "recorder/tap/core/tap_front.h"
#include "recorder/tap/torch/torch_rows.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/tap/core/tap_plan.h"

static const struct tap_torch_row rows[] = {
    {.name = "_C::machete_mm",
     .does = TAP_TORCH_MULTIPLIES,
     .roles = {{"B", "qweight", TD_GPU_WEIGHT},
               {"group_scales", "scales", TD_GPU_WEIGHT},
               {"group_zeros", "qzeros", TD_GPU_WEIGHT},
               {"A", "a", TD_GPU_IN}},
     .kind = "gptq_gemm",
     .layout = "machete",
     .n_of = "B",
     .type = "b_type",
     .scaled_zeros = true,
     .group_size = "group_size",
     .absent = {"channel_scales", "token_scales"}},
    {.name = "_C::marlin_gemm",
     .does = TAP_TORCH_MULTIPLIES,
     .roles = {{"a", "a", TD_GPU_IN},
               {"b_q_weight", "qweight", TD_GPU_WEIGHT},
               {"b_scales", "scales", TD_GPU_WEIGHT},
               {"b_zeros_or_none", "qzeros", TD_GPU_WEIGHT},
               {"g_idx_or_none", "g_idx", TD_GPU_WEIGHT},
               {"perm_or_none", "perm", TD_GPU_WEIGHT},
               {"b_bias_or_none", "bias", TD_GPU_WEIGHT}},
     .kind = "gptq_gemm",
     .layout = "marlin",
     .n_of = "b_scales",
     .type = "b_type_id",
     .rounds = TAP_TORCH_ROUNDS_W_IN_GROUPS,
     .bias_after = true,
     .fixed = {{"is_zp_float", false}},
     .absent = {"a_scales", "global_scale"}},
    {.name = "_C::gptq_gemm",
     .does = TAP_TORCH_MULTIPLIES,
     .roles = {{"a", "a", TD_GPU_IN},
               {"b_q_weight", "qweight", TD_GPU_WEIGHT},
               {"b_gptq_qzeros", "qzeros", TD_GPU_WEIGHT},
               {"b_gptq_scales", "scales", TD_GPU_WEIGHT},
               {"b_g_idx", "perm", TD_GPU_WEIGHT}},
     .kind = "gptq_gemm",
     .layout = "exllama",
     .n_of = "b_q_weight",
     .bits = "bit",
     .v2 = "use_v2_format",
     .rounds = TAP_TORCH_ROUNDS_W_OF_MANY_ROWS,
     .fixed = {{"use_exllama", true}}},
    {.name = "_C::awq_gemm",
     .does = TAP_TORCH_MULTIPLIES,
     .roles = {{"_in_feats", "a", TD_GPU_IN},
               {"_kernel", "qweight", TD_GPU_WEIGHT},
               {"_scaling_factors", "scales", TD_GPU_WEIGHT},
               {"_zeros", "qzeros", TD_GPU_WEIGHT}},
     .kind = "gptq_gemm",
     .layout = "awq",
     .n_of = "_scaling_factors",
     .w_bits = 4},
    {.name = "_C::allspark_w8a16_gemm",
     .does = TAP_TORCH_MULTIPLIES,
     .roles = {{"a", "a", TD_GPU_IN},
               {"b_qweight", "qweight", TD_GPU_WEIGHT},
               {"b_scales", "scales", TD_GPU_WEIGHT}},
     .kind = "gptq_gemm",
     .layout = "allspark",
     .w_bits = 8,
     .group_size = "group_size",
     .number = {"n"},
     .fixed = {{"has_zp", false}, {"n32k16_reorder", true}},
     .absent = {"b_qzeros"}},
    {.name = "_moe_C::moe_wna16_marlin_gemm",
     .does = TAP_TORCH_MULTIPLIES,
     .roles = {{"b_q_weight", "qweight", TD_GPU_WEIGHT},
               {"b_scales", "scales", TD_GPU_WEIGHT},
               {"b_zeros_or_none", "qzeros", TD_GPU_WEIGHT},
               {"g_idx_or_none", "g_idx", TD_GPU_WEIGHT},
               {"perm_or_none", "perm", TD_GPU_WEIGHT},
               {"b_bias_or_none", "bias", TD_GPU_WEIGHT},
               {"a", "a", TD_GPU_IN},
               {"sorted_token_ids", "sorted_token_ids", TD_GPU_IN},
               {"expert_ids", "expert_ids", TD_GPU_IN},
               {"num_tokens_past_padded", "num_tokens_post_padded", TD_GPU_IN},
               {"topk_weights", "topk_weights", TD_GPU_IN}},
     .kind = "moe_gemm",
     .layout = "marlin",
     .n_of = "b_scales",
     .type = "b_type_id",
     .bias_after = true,
     .number = {"top_k", "moe_block_size", "mul_topk_weights", "is_zp_float"},
     .absent = {"a_scales", "global_scale"}},
    {.name = "_moe_C::moe_wna16_gemm",
     .does = TAP_TORCH_MULTIPLIES,
     .roles = {{"b_qweight", "qweight", TD_GPU_WEIGHT},
               {"b_scales", "scales", TD_GPU_WEIGHT},
               {"b_qzeros", "qzeros", TD_GPU_WEIGHT},
               {"input", "a", TD_GPU_IN},
               {"sorted_token_ids", "sorted_token_ids", TD_GPU_IN},
               {"expert_ids", "expert_ids", TD_GPU_IN},
               {"num_tokens_post_pad", "num_tokens_post_padded", TD_GPU_IN},
               {"topk_weights", "topk_weights", TD_GPU_IN}},
     .kind = "moe_gemm",
     .layout = "wna16",
     .out = "output",
     .bits = "bit",
     .number = {"top_k", "BLOCK_SIZE_M"}},
    {.name = "_C::machete_prepack_B",
     .does = TAP_TORCH_REPACKS,
     .roles = {{"B", "qweight", TD_GPU_IN}}},
    {.name = "_C::cutlass_scaled_mm",
     .does = TAP_TORCH_MULTIPLIES,
     .roles = {{"a", "a", TD_GPU_IN},
               {"b", "w", TD_GPU_WEIGHT},
               {"a_scales", "a_scales", TD_GPU_IN},
               {"b_scales", "w_scales", TD_GPU_WEIGHT},
               {"bias", "bias", TD_GPU_WEIGHT}},
     .by_columns = {"b", "a_scales", "b_scales"},
     .kind = "scaled_mm",
     .layout = "checkpoint",
     .out = "out",
     .n_of = "b"},
    {.name = "_C::cutlass_scaled_mm_azp",
     .does = TAP_TORCH_MULTIPLIES,
     .roles = {{"a", "a", TD_GPU_IN},
               {"b", "w", TD_GPU_WEIGHT},
               {"a_scales", "a_scales", TD_GPU_IN},
               {"b_scales", "w_scales", TD_GPU_WEIGHT},
               {"azp_adj", "azp_adj", TD_GPU_WEIGHT},
               {"azp", "azp", TD_GPU_IN},
               {"bias", "bias", TD_GPU_WEIGHT}},
     .by_columns = {"b", "a_scales", "b_scales", "azp_adj", "azp"},
     .kind = "scaled_mm",
     .layout = "checkpoint",
     .out = "out",
     .n_of = "b"},
    /* The strides that it is given are those of dense rows: it finds each expert's first row by its
     * offset times k and n (get_group_starts.cuh). */
    {.name = "_C::cutlass_moe_mm",
     .does = TAP_TORCH_MULTIPLIES,
     .roles = {{"a_tensors", "a", TD_GPU_IN},
               {"b_tensors", "w", TD_GPU_WEIGHT},
               {"a_scales", "a_scales", TD_GPU_IN},
               {"b_scales", "w_scales", TD_GPU_WEIGHT},
               {"expert_offsets", "expert_offsets", TD_GPU_IN},
               {"problem_sizes", "problem_sizes", TD_GPU_IN}},
     .kind = "moe_scaled_mm",
     .layout = "checkpoint",
     .out = "out_tensors",
     .number = {"per_act_token", "per_out_ch"}},
    {.name = "_C::rms_norm",
     .does = TAP_TORCH_COMPUTES,
     .roles = {{"input", "a", TD_GPU_IN},
               {"weight", "w", TD_GPU_WEIGHT},
               {"result", "c", TD_GPU_OUT}},
     .kind = "rms_norm",
     .layout = "checkpoint",
     .last_of = "input",
     .epsilon = "epsilon",
     .once_a_step = true},
    {.name = "_C::fused_add_rms_norm",
     .does = TAP_TORCH_COMPUTES,
     .roles = {{"input", "a", TD_GPU_IN},
               {"residual", "residual", TD_GPU_IN},
               {"weight", "w", TD_GPU_WEIGHT},
               {"input", "c", TD_GPU_OUT},
               {"residual", "c", TD_GPU_OUT}},
     .kind = "fused_add_rms_norm",
     .layout = "checkpoint",
     .last_of = "input",
     .epsilon = "epsilon",
     .once_a_step = true},
    {.name = "_C::silu_and_mul",
     .does = TAP_TORCH_COMPUTES,
     .roles = {{"input", "a", TD_GPU_IN}, {"result", "c", TD_GPU_OUT}},
     .kind = "silu_and_mul",
     .layout = "checkpoint",
     .last_of = "result"},
    {.name = "_C::rotary_embedding",
     .does = TAP_TORCH_COMPUTES,
     .roles = {{"positions", "positions", TD_GPU_IN},
               {"query", "a", TD_GPU_IN},
               {"key", "key", TD_GPU_IN},
               {"cos_sin_cache", "cos_sin", TD_GPU_WEIGHT},
               {"query", "c", TD_GPU_OUT},
               {"key", "c", TD_GPU_OUT}},
     .kind = "rotary_embedding",
     .layout = "checkpoint",
     .number = {"head_size", "is_neox", "rope_dim_offset", "inverse"},
     .attr = {"n", "neox", "offset", "inverse"}},
    {.name = "_C::dynamic_scaled_int8_quant",
     .does = TAP_TORCH_COMPUTES,
     .roles = {{"input", "a", TD_GPU_IN},
               {"result", "c", TD_GPU_OUT},
               {"scale", "c", TD_GPU_OUT},
               {"azp", "c", TD_GPU_OUT}},
     .kind = "scaled_quant",
     .layout = "checkpoint",
     .last_of = "input",
     .says = {{"code", 1}},
     .third = "azp"},
    {.name = "_C::static_scaled_int8_quant",
     .does = TAP_TORCH_COMPUTES,
     .roles = {{"input", "a", TD_GPU_IN},
               {"scale", "scale", TD_GPU_IN},
               {"azp", "azp", TD_GPU_IN},
               {"result", "c", TD_GPU_OUT}},
     .kind = "scaled_quant",
     .layout = "checkpoint",
     .last_of = "input",
     .says = {{"code", 1}}},
    {.name = "_C::dynamic_scaled_fp8_quant",
     .does = TAP_TORCH_COMPUTES,
     .roles = {{"input", "a", TD_GPU_IN},
               {"result", "c", TD_GPU_OUT},
               {"scale", "c", TD_GPU_OUT}},
     .kind = "scaled_quant",
     .layout = "checkpoint",
     .last_of = "input",
     .says = {{"code", 2}, {"per_tensor", 1}}},
    {.name = "_C::dynamic_per_token_scaled_fp8_quant",
     .does = TAP_TORCH_COMPUTES,
     .roles = {{"input", "a", TD_GPU_IN},
               {"scale_ub", "upper", TD_GPU_IN},
               {"result", "c", TD_GPU_OUT},
               {"scale", "c", TD_GPU_OUT}},
     .kind = "scaled_quant",
     .layout = "checkpoint",
     .last_of = "input",
     .says = {{"code", 2}}},
    {.name = "_C::permute_cols",
     .does = TAP_TORCH_COMPUTES,
     .roles = {{"A", "a", TD_GPU_IN}, {"perm", "perm", TD_GPU_IN}},
     .kind = "permute_cols",
     .layout = "checkpoint",
     .last_of = "A",
     .returns = true},
    {.name = "_C::awq_dequantize",
     .does = TAP_TORCH_COMPUTES,
     .roles = {{"_kernel", "qweight", TD_GPU_WEIGHT},
               {"_scaling_factors", "scales", TD_GPU_WEIGHT},
               {"_zeros", "qzeros", TD_GPU_WEIGHT}},
     .kind = "dequantize",
     .layout = "awq",
     .last_of = "_scaling_factors",
     .w_bits = 4,
     .returns = true,
     .once_a_step = true,
     .makes_w = true},
    {.name = "_C_cache_ops::reshape_and_cache",
     .does = TAP_TORCH_COMPUTES,
     .roles = {{"key", "a", TD_GPU_IN},
               {"value", "value", TD_GPU_IN},
               {"slot_mapping", "slots", TD_GPU_IN},
               {"k_scale", "k_scale", TD_GPU_IN},
               {"v_scale", "v_scale", TD_GPU_IN},
               {"key_cache", "c", TD_GPU_OUT},
               {"value_cache", "c", TD_GPU_OUT}},
     .kind = "cache_rows",
     .layout = "checkpoint",
     .cache_type = "kv_cache_dtype"},
    {.name = "_C_cache_ops::reshape_and_cache_flash",
     .does = TAP_TORCH_COMPUTES,
     .roles = {{"key", "a", TD_GPU_IN},
               {"value", "value", TD_GPU_IN},
               {"slot_mapping", "slots", TD_GPU_IN},
               {"k_scale", "k_scale", TD_GPU_IN},
               {"v_scale", "v_scale", TD_GPU_IN},
               {"key_cache", "c", TD_GPU_OUT},
               {"value_cache", "c", TD_GPU_OUT}},
     .kind = "cache_rows",
     .layout = "checkpoint",
     .cache_type = "kv_cache_dtype"},
    {.name = "_C_cache_ops::concat_and_cache_mla",
     .does = TAP_TORCH_COMPUTES,
     .roles = {{"kv_c", "a", TD_GPU_IN},
               {"k_pe", "k_pe", TD_GPU_IN},
               {"slot_mapping", "slots", TD_GPU_IN},
               {"scale", "k_scale", TD_GPU_IN},
               {"kv_cache", "c", TD_GPU_OUT}},
     .kind = "cache_rows",
     .layout = "checkpoint",
     .cache_type = "kv_cache_dtype"},
    {.name = "_C::static_scaled_fp8_quant",
     .does = TAP_TORCH_COMPUTES,
     .roles = {{"input", "a", TD_GPU_IN},
               {"scale", "scale", TD_GPU_IN},
               {"result", "c", TD_GPU_OUT}},
     .kind = "scaled_quant",
     .layout = "checkpoint",
     .last_of = "input",
     .says = {{"code", 2}}},
};

/* The last operator whose schema lacks a name of its row: of a product, of what stands beside them. */
static _Atomic(const char *) unfit, unfit_beside;

/* The place of an argument. False: the row names it, and the schema has none of that name. */
static bool find(const struct tap_torch_schema *s, const char *name, int *place)
{
    *place = name ? tap_torch_schema_arg(s, name) : -1;
    return !name || *place >= 0;
}

static bool is_tensor(const struct tap_torch_schema *s, int place)
{
    return place < 0 || (s->arg[place].type == TAP_TORCH_TENSOR && !s->arg[place].list);
}

/* Is this where C is written: the argument at that place, which may be returned too, or, at -1, the
 * one result? */
static bool is_output(const struct tap_torch_schema *s, int place)
{
    if (place < 0)
        return s->returns_tensor;
    return is_tensor(s, place) && s->arg[place].written && !s->arg[place].optional &&
           (!s->n_results || s->returns_tensor);
}

static bool is_int(const struct tap_torch_schema *s, int place)
{
    return place < 0 || (s->arg[place].type == TAP_TORCH_INT && !s->arg[place].list);
}

static bool is_number(const struct tap_torch_schema *s, int place)
{
    return place < 0 || ((s->arg[place].type == TAP_TORCH_INT || s->arg[place].type == TAP_TORCH_BOOL) &&
                         !s->arg[place].list);
}

static bool is_bool(const struct tap_torch_schema *s, int place)
{
    return place < 0 || (s->arg[place].type == TAP_TORCH_BOOL && !s->arg[place].list &&
                         !s->arg[place].optional);
}

static bool is_float(const struct tap_torch_schema *s, int place)
{
    return place < 0 || (s->arg[place].type == TAP_TORCH_FLOAT && !s->arg[place].list &&
                         !s->arg[place].optional);
}

static bool is_text(const struct tap_torch_schema *s, int place)
{
    return place < 0 || (s->arg[place].type == TAP_TORCH_TEXT && !s->arg[place].list);
}

/* The outputs of an operator that has several, or has them among its roles. */
static bool find_outputs(struct tap_torch_meaning *m)
{
    const struct tap_torch_schema *s = m->schema;
    int i;

    for (i = 0; i < TAP_TORCH_ROLES && m->row->roles[i].arg; i++)
        if (m->row->roles[i].use == TD_GPU_OUT && !s->arg[m->role[i]].written)
            return false;
    return (m->row->returns ? s->returns_tensor : !s->n_results) && find(s, m->row->last_of, &m->last_of) && is_tensor(s, m->last_of) &&
           find(s, m->row->epsilon, &m->epsilon) && is_float(s, m->epsilon) &&
           find(s, m->row->cache_type, &m->cache_type) && is_text(s, m->cache_type);
}

static bool find_all(struct tap_torch_meaning *m)
{
    const struct tap_torch_row *row = m->row;
    const struct tap_torch_schema *s = m->schema;
    bool found = find(s, row->out, &m->out) &&
                 (row->does == TAP_TORCH_COMPUTES || is_output(s, m->out)) &&
                 find(s, row->n_of, &m->n_of) && is_tensor(s, m->n_of) &&
                 find(s, row->type, &m->type) && is_int(s, m->type) &&
                 find(s, row->bits, &m->bits) && is_int(s, m->bits) &&
                 find(s, row->v2, &m->v2) && is_bool(s, m->v2) &&
                 find(s, row->group_size, &m->group_size) && is_int(s, m->group_size);
    int i;

    for (i = 0; i < TAP_TORCH_ROLES; i++)
        found = found && find(s, row->roles[i].arg, &m->role[i]) && is_tensor(s, m->role[i]);
    for (i = 0; i < TAP_TORCH_NUMBERS; i++)
        found = found && find(s, row->number[i], &m->number[i]) && is_number(s, m->number[i]);
    for (i = 0; i < TAP_TORCH_ABSENT; i++)
        found = found && find(s, row->absent[i], &m->absent[i]) &&
                (m->absent[i] < 0 || s->arg[m->absent[i]].optional);
    for (i = 0; i < TAP_TORCH_FIXED; i++)
        found = found && find(s, row->fixed[i].arg, &m->fixed[i]) && is_bool(s, m->fixed[i]);
    return found && (row->does != TAP_TORCH_COMPUTES || find_outputs(m));
}

/* May an argument of this type have such a value? */
static bool takes(const struct tap_torch_arg *arg, enum td_own_value is)
{
    static const enum tap_torch_type types[] = {[TD_OWN_BOOL] = TAP_TORCH_BOOL,
                                                [TD_OWN_INT] = TAP_TORCH_INT,
                                                [TD_OWN_FLOAT] = TAP_TORCH_FLOAT,
                                                [TD_OWN_TEXT] = TAP_TORCH_TEXT,
                                                [TD_OWN_ZEROS] = TAP_TORCH_TENSOR};

    return is == TD_OWN_NONE ? arg->optional : arg->type == types[is] && !arg->list;
}

static bool find_number(const struct tap_torch_schema *s, const struct td_own_number *n, int *place)
{
    return find(s, n->arg[0] ? n->arg : NULL, place) && is_number(s, *place);
}

/* The arguments that only a row of the user's has. */
static bool find_own(struct tap_torch_meaning *m)
{
    const struct td_own_row *own = m->row->own;
    const struct tap_torch_schema *s = m->schema;
    bool found = find_number(s, &own->bits, &m->own_bits) &&
                 find_number(s, &own->group_size, &m->own_group_size) &&
                 find_number(s, &own->top_k, &m->own_top_k) &&
                 find_number(s, &own->block_size, &m->own_block_size) &&
                 find_number(s, &own->mul_topk_weights, &m->own_mul_topk_weights);
    int i;

    for (i = 0; i < own->n_fixed; i++)
        found = found && find(s, own->fixed[i].arg, &m->own_fixed[i]) &&
                takes(&s->arg[m->own_fixed[i]], own->fixed[i].is);
    return found;
}

const struct tap_torch_meaning *tap_torch_meaning_of_row(const struct tap_torch_row *row,
                                                         const struct tap_torch_schema *schema)
{
    struct tap_torch_meaning *m = calloc(1, sizeof *m);

    if (!m) {
        tap_front_lacks_memory();
        return NULL;
    }
    m->row = row;
    m->schema = schema;
    if (!find_all(m) || (row->own && !find_own(m))) {
        free(m);
        return NULL;
    }
    m->adapter = (struct td_gpu_adapter){
        .family = row->name, .identifier = row->name, .kind = row->kind, .layout = row->layout};
    m->turned = m->adapter;
    m->turned.layout = "kn";
    m->product = m->adapter;
    m->product.kind = "gptq_gemm";
    m->kernel.adapter = &m->adapter;
    snprintf(m->kernel.symbol, sizeof m->kernel.symbol, "%s", row->name);
    return m;
}

const struct tap_torch_meaning *tap_torch_meaning_of(const char *name,
                                                     const struct tap_torch_schema *schema)
{
    const struct tap_torch_meaning *m;
    size_t i;

    for (i = 0; i < sizeof rows / sizeof *rows && strcmp(rows[i].name, name); i++)
        ;
    if (i == sizeof rows / sizeof *rows)
        return NULL;
    m = tap_torch_meaning_of_row(&rows[i], schema);
    if (!m)
        atomic_store(rows[i].does == TAP_TORCH_COMPUTES && !rows[i].makes_w ? &unfit_beside : &unfit,
                     rows[i].name);
    return m;
}

const char *tap_torch_row_that_does_not_fit(bool beside)
{
    const char *name = atomic_load(&unfit);

    return name || !beside ? name : atomic_load(&unfit_beside);
}

bool tap_torch_is_recorded(const struct tap_torch_meaning *m)
{
    return m && (m->row->does != TAP_TORCH_COMPUTES || tap_wants_all_kinds());
}

bool tap_torch_is_in_ops(const struct tap_torch_meaning *m)
{
    return m && (m->row->makes_w || tap_torch_is_recorded(m));
}

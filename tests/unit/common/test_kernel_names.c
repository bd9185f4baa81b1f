/* test_kernel_names.c - which kernels of a real server are matrix products, and what they are called.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Symbols: fixtures/golden/v1-vllm-gpu (a vLLM 0.26 on an H100); those of splitKreduce, cutlass::Kernel and xmma are in libcublasLt.so.13 of CUDA 13.0 (grep -a -o);
 * the others are made up in their way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/fs.h"
#include "common/json.h"
#include "common/kernel_names.h"

/* Every kernel of a recorded vLLM that launched 34 kinds of them. */
static void of_a_real_server(void **state)
{
    static const char *const gemms[] = {
        "_ZN4vllm4gptq33gemm_half_q_half_gptq_4bit_kernelILb1ELi1EEEvPK6__halfPKjS6_S4_PS2_iiiibPKi",
        "_ZN4vllm4gptq33gemm_half_q_half_gptq_4bit_kernelILb1ELi6EEEvPK6__halfPKjS6_S4_PS2_iiiibPKi",
        "_ZN4vllm4gptq33gemm_half_q_half_gptq_4bit_kernelILb1ELi8EEEvPK6__halfPKjS6_S4_PS2_iiiibPKi", "nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_TNT"};
    struct td_error err = {0};
    cJSON *manifest = td_json_load("fixtures/golden/v1-vllm-gpu/manifest.json", 1 << 20, &err), *k;
    size_t i, found = 0;

    (void)state;
    assert_non_null(manifest);
    cJSON_ArrayForEach(k, cJSON_GetObjectItem(cJSON_GetObjectItem(manifest, "tap"), "kernels")) {
        const char *symbol = cJSON_GetObjectItem(k, "symbol")->valuestring;

        for (i = 0; i < 4 && strcmp(symbol, gemms[i]); i++)
            ;
        found += i < 4;
        if (td_kernel_is_gemm(symbol) != (i < 4))
            fail_msg("%s", symbol);
    }
    assert_int_equal(found, 4);
    cJSON_Delete(manifest);
}

static void by_their_names(void **state)
{
    (void)state;
    assert_true(td_kernel_is_gemm("_ZN7cutlass7Kernel2IN17cublasLt_imma_emu49cutlass_80_tensorop_z884gemm_64x64_16x3_hh_align1EEEvNT_6ParamsEPKii"));
    assert_true(td_kernel_is_gemm("_ZN8cublasLt19splitKreduce_kernelILi8ELi32EiaafaLb0EaafLb0ELb0ELb0ELb0EEEvNS_18cublasSplitKParamsIT4_EEPKT2_PKT8_PT7_PT3_PKS2_SF_PKT9_S6_PSG_PvlPS2_PiSL_SL_SF_SF_SF_SF_SF_"));
    assert_true(td_kernel_is_gemm("sm80_xmma_gemm_f16f16_f16f32_f32_nt_n_tilesize96x128x32_stage5_warpsize2x2x1_tensor16x8x16_execute_split_k_kernel__5x_cublas"));
    assert_true(td_kernel_is_gemm("_ZN6marlin6MarlinILl1125899906910725ELl1125899907892224ELl1125899906910725ELl1125899906910725ELi256ELi4ELi8ELi8ELb0ELi4ELi8ELb0EEvPK4int4"));
    assert_true(td_kernel_is_gemm("_ZN4vllm4gptq31reconstruct_exllama_4bit_kernelEPKjPKiS2_PK6__halfiiibPS5_"));
    /* vLLM 0.26, csrc/quantization/machete: the one multiplies (its template arguments say PrepackedLayout), the other runs at load time */
    assert_true(td_kernel_is_gemm("_ZN7machete13MacheteKernelIN7cutlass6half_tENS_24PrepackedLayoutBTemplateIS2_EEEEvT_"));
    assert_false(td_kernel_is_gemm("_ZN7machete16prepack_B_kernelILi128ENS_24PrepackedLayoutBTemplateIN7cutlass6half_tEEEEEvT_"));
    /* vLLM 0.26, vllm/model_executor/layers/fused_moe/fused_moe.py: Triton's */
    assert_true(td_kernel_is_gemm("fused_moe_kernel"));
    assert_false(td_kernel_is_gemm("_Z48ncclDevKernel_AllReduce_Sum_bf16_RING_LL_agent_r24ncclDevKernelArgsStorageILm4096EE"));
    assert_false(td_kernel_is_gemm("triton_poi_fused_gptq_gemm_mul_silu_slice_1"));
    assert_false(td_kernel_is_gemm("fmha_v2_flash_attention_fp16_64_64_S_128_sm80_kernel"));
    assert_false(td_kernel_is_gemm("_ZN4vllm25paged_attention_v1_kernelIttLi128ELi16ELi128EEEvPT_PKS1_"));
}

static void check_name(const char *symbol, const char *want)
{
    char name[64];

    td_kernel_short_name(symbol, name, sizeof name);
    assert_string_equal(name, want);
}

static void names_for_people(void **state)
{
    char small[12];

    (void)state;
    check_name("_ZN4vllm4gptq33gemm_half_q_half_gptq_4bit_kernelILb1ELi1EEEvPK6__halfPKjS6_S4_PS2_iiiibPKi", "vllm::gptq::gemm_half_q_half_gptq_4bit_kernel");
    check_name("nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_TNT", "nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_TNT");
    check_name("_ZN8cublasLt19splitKreduce_kernelILi8ELi32EiaafaLb0EaafLb0ELb0ELb0ELb0EEEvNS_18cublasSplitKParamsIT4_EEPKT2_PKT8_PT7_PT3_PKS2_SF_PKT9_S6_PSG_PvlPS2_PiSL_SL_SF_SF_SF_SF_SF_", "cublasLt::splitKreduce_kernel");
    check_name("_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEEEEEEvNT_6ParamsE", "cutlass::device_kernel<GemmUniversal>");
    check_name("_ZN50_GLOBAL__N__fa15d16e_17_RangeFactories_cu_38772b0829elementwise_kernel_with_indexIiEEvT_", "elementwise_kernel_with_index");
    check_name("_Z17gemv2T_kernel_valIiiffEvv", "gemv2T_kernel_val");
    check_name("_ZN7cutlass7Kernel2IN17cublasLt_imma_emu49cutlass_80_tensorop_z884gemm_64x64_16x3_hh_align1EEEvNT_6ParamsEPKii",
               "cutlass::Kernel2<cutlass_80_tensorop_z884gemm_64x64_16x3_hh_...");
    td_kernel_short_name("_Z99999999999999999999x", small, sizeof small); /* no name of that length */
    assert_string_equal(small, "_Z999999...");
    check_name("", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_a_real_server), cmocka_unit_test(by_their_names), cmocka_unit_test(names_for_people)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

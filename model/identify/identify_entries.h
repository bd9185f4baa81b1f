/* identify_entries.h - all identifiers, each with the op kind and layout that it knows.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An identifier undoes one run-time layout of weights, looks for the layer in the checkpoint, and
 * fills the output of the set. It returns 0; TD_ECORRUPT: no tap sends such weights (the caller
 * stops reading its ring); TD_EUNSUPPORTED: the weights are to be stored as they were sent; other
 * errors: the op is lost. */
#ifndef TD_MODEL_IDENTIFY_IDENTIFY_ENTRIES_H
#define TD_MODEL_IDENTIFY_IDENTIFY_ENTRIES_H

#include "model/identify/weight_set.h"

/* ENTRY(kind, layout, function). The first line that fits is asked. "ggml_*": every kind with this
 * beginning; NULL: any layout.
 * "gemm": the weights are floats, whose bytes were sent, or only a fingerprint of them. */
#define TD_IDENTIFY_ENTRIES(ENTRY)                                                            \
    ENTRY("gptq_gemm", "checkpoint", td_identify_gptq)            /* identify_gptq.c */       \
    ENTRY("gptq_gemm", "vllm_int4_vnni", td_identify_vllm_int4)   /* identify_vllm_cpu.c */   \
    ENTRY("gptq_gemm", "vllm_wna16_n16", td_identify_vllm_wna16)  /* identify_vllm_cpu.c */   \
    ENTRY("gptq_gemm", "exllama", td_identify_exllama)            /* identify_exllama.c */    \
    ENTRY("gptq_gemm", "marlin", td_identify_marlin)              /* identify_marlin.c */     \
    ENTRY("gptq_gemm", "machete", td_identify_machete)            /* identify_machete.c */    \
    ENTRY("moe_gemm", "marlin", td_identify_moe_marlin)           /* identify_moe.c */        \
    ENTRY("moe_gemm", "wna16", td_identify_moe_wna16)             /* identify_moe_wna16.c */  \
    ENTRY("moe_gemm", "gptq", td_identify_own_moe)                /* identify_own.c */        \
    ENTRY("gptq_gemm", "awq", td_identify_awq)                    /* identify_awq.c */        \
    ENTRY("dequantize", "awq", td_identify_awq)                   /* identify_awq.c */        \
    ENTRY("gptq_gemm", "allspark", td_identify_allspark)          /* identify_allspark.c */   \
    ENTRY("gptq_gemm", "gptq", td_identify_own_gptq)              /* identify_own.c */        \
    ENTRY("gemm", "kn", td_identify_own_kn)                       /* identify_own.c */        \
    ENTRY("gemm", "checkpoint", td_identify_float)                /* identify_float.c */      \
    ENTRY("gemm", NULL, td_identify_float_opaque)                 /* identify_float.c */      \
    ENTRY("scaled_mm", "checkpoint", td_identify_scaled)          /* identify_scaled.c */     \
    ENTRY("moe_scaled_mm", "checkpoint", td_identify_moe_scaled)  /* identify_moe_scaled.c */ \
    ENTRY("rms_norm", "checkpoint", td_identify_norm)             /* identify_norm.c */       \
    ENTRY("fused_add_rms_norm", "checkpoint", td_identify_norm)   /* identify_norm.c */       \
    ENTRY("ggml_*", NULL, td_identify_gguf)                       /* identify_gguf.c */

typedef int td_identify_fn(struct td_weight_set *s, struct td_error *err);

#define TD_IDENTIFY_PROTOTYPE(kind, layout, function) td_identify_fn function;
TD_IDENTIFY_ENTRIES(TD_IDENTIFY_PROTOTYPE)
#undef TD_IDENTIFY_PROTOTYPE

#endif

/* build.h - what a path that the user gave as a build is, and which program runs it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_BUILD_H
#define TD_REPLAYER_BUILD_H

#include "common/fs.h"

struct td_build {
    const char *provider;             /* "lib", "ggml", "vllm", "simt", "cuda", "hip", or "cpu", "ref" or "simt" without a path; static or borrowed */
    char arg[TD_PATH_MAX];            /* what the provider is opened with; "" = nothing */
    char script[TD_PATH_MAX];         /* of a provider in Python: arg is the interpreter that runs it; "" = replay-child */
};

/* Find out what `path` is:
 *   a library that exports td_gptq_gemm, or a folder that holds such a one          -> lib
 *   a library that holds ggml_mul_mat, or a folder with libggml-base.so or such one -> ggml
 *   a library that exports td_simt_launch: our GPU kernels for the emulator         -> simt
 *   a fat binary, a cubin, or a library with .nv_fatbin that is none of the above   -> cuda
 *   a bundle of AMD code, a code object, or a library with .hip_fatbin, likewise   -> hip
 *   a program without ".so" in its name, or a folder with bin/python (a venv)       -> vllm: it is taken for its Python
 * provider: the user's choice stands over what is found; NULL: none. path NULL: our own kernels, `provider` or cpu;
 * then "NAME:ARGUMENT" says what the provider is opened with ("simt:seed=3").
 * A file that is none of these goes to lib, which says what is wrong with it. TD_ENOTFOUND, TD_ELIMIT. */
int td_build_find(const char *path, const char *provider, struct td_build *out, struct td_error *err);

/* Which provider of our own kernels "NAME" or "NAME:ARGUMENT" names (providers.h); NULL: none. Static. */
const char *td_build_own_provider(const char *provider);

/* One hash over what is loaded of a build: a library's bytes, or all libraries of a folder in order of their names.
 * hex : [TD_HASH_HEX]. false: it cannot be read. */
bool td_build_hash(const char *path, char *hex);

#endif

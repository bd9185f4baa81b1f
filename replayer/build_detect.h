/* build_detect.h - find out what kind of build a path is, and which program runs it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_BUILD_DETECT_H
#define TD_REPLAYER_BUILD_DETECT_H

#include "common/fs.h"

struct td_build {
    const char *provider;      /* "lib", "ggml", "torch", "simt", "cuda", "hip"; without a path
                                  "cpu", "ref", "simt"; static or borrowed */
    char arg[TD_PATH_MAX];     /* what the provider opens; "": nothing */
    char script[TD_PATH_MAX];  /* a provider in Python, which the interpreter `arg` runs;
                                  "": replay-child runs the build */
};

/* Find out what `path` is:
 *   a library that exports td_gptq_gemm, or a folder that holds such a one          -> lib
 *   a library that holds ggml_mul_mat, or a folder with libggml-base.so or such one -> ggml
 *   a library that exports td_simt_launch: our GPU kernels for the emulator         -> simt
 *   a fat binary, a cubin, or a library with .nv_fatbin that is none of the above   -> cuda
 *   a bundle of AMD code, a code object, or a library with .hip_fatbin, likewise   -> hip
 *   an executable file named python* or pypy*, or a folder with bin/python (a venv) -> vllm, run by this Python
 * Any other file is refused with a sentence that names what it is, and nothing of it is executed.
 *   path     : NULL: our own kernels, by `provider` or else cpu; "NAME:ARGUMENT" ("simt:seed=3") passes an argument
 *   provider : the user's choice, which outranks what is found; NULL: none. A file must still be of the kind
 *              that this provider loads.
 * TD_ENOTFOUND (no such file, a folder without a build: it names the folder below that holds one),
 * TD_EUNSUPPORTED (a file that is no build), TD_EINVAL (neither a file nor a folder), TD_ELIMIT (a path too
 * long). */
int td_build_detect(const char *path, const char *provider, struct td_build *out,
                    struct td_error *err);

/* The provider of our own kernels that "NAME" or "NAME:ARGUMENT" names: "ref", "cpu" or "simt".
 * Static; NULL: none of them. */
const char *td_build_own_provider(const char *provider);

/* Hash a build: a file's bytes, or all libraries of a folder in order of their names.
 *   hex : [TD_HASH_HEX]
 * False: it cannot be read. */
bool td_build_hash(const char *path, char *hex);

#endif

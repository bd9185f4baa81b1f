/* ggml_build.h - a build of ggml, loaded by path and checked against ggml_abi.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_PROVIDERS_GGML_BUILD_H
#define TD_KERNELS_PROVIDERS_GGML_BUILD_H

#include "common/error.h"
#include "kernels/abi/ggml_abi.h"
#include "model/dtype.h"

#define TD_GGML_LIBRARIES 4
#define TD_GGML_OPS 512 /* numbers of ops that are looked at */

struct td_ggml_build {
    void *lib[TD_GGML_LIBRARIES]; int n_libs; /* handles; functions are looked for in all of them */
    const char *op_names[TD_GGML_OPS]; int n_op_names; /* by number, as far as they were asked for */
    bool all_op_names;                        /* there are no more */
    char words[256];                          /* "ggml 0.26.0 (commit abc): AVX2 FMA F16C" */
#define TD_GGML_MEMBER(result, name, args) result (*name) args;
    TD_GGML_NEEDED(TD_GGML_MEMBER)
    TD_GGML_OPTIONAL(TD_GGML_MEMBER)          /* NULL: this build has none */
#undef TD_GGML_MEMBER
};

/* Load a build into this process.
 *   path : a folder with libggml-base.so and libggml-cpu.so (or several libggml-cpu-*.so: then the one
 *          that ggml itself would choose), one of its libraries, or one library that holds all of ggml
 * The environment of this process is set first so that ggml runs in one thread and does not spin.
 * TD_EINVAL, TD_EIO, TD_ENOTFOUND; TD_EUNSUPPORTED: its ABI is another one; the sentence names the
 * difference. */
int td_ggml_open(const char *path, struct td_ggml_build *b, struct td_error *err);
void td_ggml_close(struct td_ggml_build *b);

/* The number that this build has for a type or an op (ggml's name, "RMS_NORM"). -1: it has none, or a
 * type of that name with another size. */
int32_t td_ggml_type(const struct td_ggml_build *b, enum td_dtype dt);
int32_t td_ggml_op(struct td_ggml_build *b, const char *op);

#endif

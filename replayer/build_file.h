/* build_file.h - can this file be a build at all? Looks at its bytes; nothing of it is executed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_BUILD_FILE_H
#define TD_REPLAYER_BUILD_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

/* What `--build` takes, for a sentence that ends with it. */
#define TD_BUILD_WANTED \
    "--build takes a library that exports td_gptq_gemm, a folder or library of ggml, a library or file with " \
    "GPU code, or a venv or Python with vLLM"

enum td_build_file {
    TD_FILE_LIBRARY,       /* a shared library for this machine */
    TD_FILE_FOREIGN,       /* a shared library for another machine */
    TD_FILE_GPU_CODE,      /* a fat binary, a cubin, AMD's bundle or code object */
    TD_FILE_PROGRAM,       /* of any machine */
    TD_FILE_SCRIPT,        /* begins with "#!" */
    TD_FILE_EMPTY, TD_FILE_TEXT, TD_FILE_OBJECT, TD_FILE_ARCHIVE, TD_FILE_ZIP, TD_FILE_CORE, TD_FILE_OTHER
};

/* Classify a file by its first bytes and headers. data may be NULL where n is 0. */
enum td_build_file td_build_file_kind(const void *data, size_t n);
/* "a text file", "a program, not a library" */
const char *td_build_file_words(enum td_build_file kind);

/* May the file be a Python interpreter, or a script that stands for one? By its name: python, python3.11,
 * pypy. */
bool td_build_file_is_python(const char *path);

#endif

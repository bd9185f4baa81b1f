/* blas.c - the GPU's library of matrix products: found, opened, asked.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpu/blas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/abi/cublas_abi.h"
#include "kernels/gpu/blas_lt.h"

#define PATH_BYTES 4096
#define MAX_VERSIONS 5
#define ONE 0x3c00                 /* in float16 */
#define TORCH_LT_WORKSPACE ((size_t)1 << 20)

/* What differs between the two. */
struct kind {
    const char *name, *variable;     /* variable: names a library to open */
    const char *file;              /* and its version */
    const char *versions[MAX_VERSIONS]; /* the newest first; "" is the bare name */
    const char *folders[4];        /* from the build's own */
    const char *runtime; /* the CUDA runtime of that version, as the build needs it; NULL: versions
                            do not go together */
    int no_transpose;
};

static const struct kind cublas = {
    .name = "cuBLAS",
    .variable = "TD_CUBLAS_LIBRARY",
    .file = "libcublas.so",
    .versions = {".13", ".12", ".11"},
    .runtime = "libcudart.so",
    .folders = {"../nvidia/cu13/lib/", "../nvidia/cublas/lib/", "../torch/lib/"},
    .no_transpose = TD_CUBLAS_OP_N};
static const struct kind hipblas = {.name = "hipBLAS",
                                    .variable = "TD_HIPBLAS_LIBRARY",
                                    .file = "libhipblas.so",
                                    .versions = {".3", ".2", ".1", ".0", ""},
                                    .folders = {"../torch/lib/"},
                                    .no_transpose = TD_HIPBLAS_OP_N};

struct td_gpu_blas {
    const struct kind *kind;
    const struct td_gpu_driver *driver;
    void *device, *library, *handle;
    size_t workspace_bytes;
    struct td_gpu_memory workspace;
    bool ready;                    /* the handle is set up */
    struct td_gpu_blas_lt *lt;     /* NULL: not looked for yet, or not there */
    char no_lt[160];
    char words[64];
#define MEMBER(cuda, hip, member, args) int (*member) args;
    TD_BLAS_FUNCTIONS(MEMBER)
#undef MEMBER
#define MEMBER(name, member, args) int (*member) args;
    TD_CUBLAS_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* ---- which library --------------------------------------------------------------------------- */

/* Stays loaded after dlclose (RTLD_NODELETE), because it has threads and memory of its own. */
#define LOAD (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)

/* The versions of the library, first the one of the build's CUDA runtime. */
static int order_versions(const struct kind *kind, const struct td_gpu_image *img, const char *out[MAX_VERSIONS])
{
    const char *runtime = kind->runtime ? td_gpu_image_needed(img, kind->runtime) : NULL,
               *own = runtime ? runtime + strlen(kind->runtime) : NULL;
    int n = 0, i;

    for (i = 0; i < MAX_VERSIONS && kind->versions[i]; i++)
        if (own && !strcmp(kind->versions[i], own))
            out[n++] = kind->versions[i];
    for (i = 0; i < MAX_VERSIONS && kind->versions[i]; i++)
        if (!own || strcmp(kind->versions[i], own))
            out[n++] = kind->versions[i];
    return n;
}

/* Load the library that lies beside the build's file. A link is followed, so that SITE is the real
 * folder. NULL: there is none. */
static void *load_blas_beside(const struct kind *kind, const char *build, const char *const *versions, int n)
{
    char path[PATH_BYTES + 64], *real = realpath(build, NULL), *slash = real ? strrchr(real, '/') : NULL;
    void *library = NULL;
    int i, f;

    if (slash)
        slash[1] = '\0';
    for (i = 0; i < n && slash && !library; i++)
        for (f = 0; kind->folders[f] && !library; f++)
            if (snprintf(path, sizeof path, "%s%s%s%s", real, kind->folders[f], kind->file,
                         versions[i]) < (int)sizeof path &&
                !access(path, R_OK))
                library = dlopen(path, LOAD);
    free(real);
    return library;
}

static void *load_blas(const struct kind *kind, const struct td_gpu_image *img, struct td_error *err)
{
    const char *named = getenv(kind->variable), *versions[MAX_VERSIONS];
    const int n = order_versions(kind, img, versions);
    void *library = NULL;
    char file[64];
    int i;

    if (named && *named)
        library = dlopen(named, LOAD);
    else if (!(library = load_blas_beside(kind, td_gpu_image_path(img), versions, n)))
        for (i = 0; i < n && !library && snprintf(file, sizeof file, "%s%s", kind->file, versions[i]) > 0; i++)
            library = dlopen(file, LOAD);
    if (!library)
        td_fail(err, TD_ENOTFOUND,
                "%s=FILE (--build-env) names %s; there is none beside the build or where the "
                "loader looks: %.120s",
                kind->variable, kind->name, dlerror());
    return library;
}

/* ---- open and close -------------------------------------------------------------------------- */

static void find_function(struct td_gpu_blas *b, const char *name, void *fn, size_t bytes, const char **missing)
{
    void *symbol = dlsym(b->library, name);

    if (symbol && bytes == sizeof symbol)
        memcpy(fn, &symbol, sizeof symbol); /* ISO C has no cast from object to function */
    else
        *missing = name;
}

static int find_functions(struct td_gpu_blas *b, struct td_error *err)
{
    const bool cuda = b->kind == &cublas;
    const char *missing = NULL;

#define FIND(c, hip, member, args) find_function(b, cuda ? #c : #hip, &b->member, sizeof b->member, &missing);
    TD_BLAS_FUNCTIONS(FIND)
#undef FIND
#define FIND(name, member, args) if (cuda) find_function(b, #name, &b->member, sizeof b->member, &missing);
    TD_CUBLAS_FUNCTIONS(FIND)
#undef FIND
    return missing ? td_fail(err, TD_ENOTFOUND,
                             "%s=FILE (--build-env) names %s; what was found has no %s",
                             b->kind->variable, b->kind->name, missing)
                   : TD_OK;
}

static void describe_library(struct td_gpu_blas *b)
{
    int v[3] = {0, 0, 0}, i;

    for (i = 0; i < 3 && b->property; i++)
        b->property(i, &v[i]); /* MAJOR, MINOR, PATCH */
    if (v[0])
        snprintf(b->words, sizeof b->words, "%s %d.%d.%d", b->kind->name, v[0], v[1], v[2]);
    else
        snprintf(b->words, sizeof b->words, "%s", b->kind->name);
}

/* torch's getChosenWorkspaceSize: 32 MiB on compute capability 9.0, else two pieces of 4 MiB and eight
 * of 16 KiB. */
static size_t torch_workspace(int sm)
{
    return sm == 90 ? (size_t)32 << 20 : ((size_t)8 << 20) + ((size_t)128 << 10);
}

int td_gpu_blas_open(const struct td_gpu_driver *driver, void *device,
                     const struct td_gpu_facts *facts, const struct td_gpu_image *img,
                     struct td_gpu_blas **out, struct td_error *err)
{
    struct td_gpu_blas *b = calloc(1, sizeof *b);
    int rc;

    *out = NULL;
    if (!b)
        return td_fail(err, TD_ENOMEM, "out of memory");
    b->kind = facts->sm ? &cublas : &hipblas;
    b->driver = driver;
    b->device = device;
    b->workspace_bytes = facts->sm ? torch_workspace(facts->sm) : 0;
    b->library = load_blas(b->kind, img, err);
    rc = b->library ? find_functions(b, err) : TD_ENOTFOUND;
    if (rc) {
        td_gpu_blas_close(b);
        return rc;
    }
    describe_library(b);
    *out = b;
    return TD_OK;
}

void td_gpu_blas_close(struct td_gpu_blas *b)
{
    if (!b)
        return;
    td_gpu_blas_lt_close(b->lt);
    if (!b->driver->is_dead(b->device)) {
        if (b->handle)
            b->destroy(b->handle);
        b->driver->free(b->device, &b->workspace);
    }
    if (b->library)
        dlclose(b->library);
    free(b);
}

const char *td_gpu_blas_words(const struct td_gpu_blas *b)
{
    return b->words;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* The status may mean that the context is dead; the driver knows. */
static int fail_with_status(struct td_gpu_blas *b, int status, struct td_error *err, const char *what)
{
    if (!status)
        return TD_OK;
    if (b->driver->wait(b->device, err))
        return td_fail_at(err, "%s", what);
    return td_fail(err, TD_EIO, "%s: %s says status %d", what, b->words, status);
}

static int make_handle(struct td_gpu_blas *b, struct td_error *err)
{
    int rc = b->handle ? TD_OK : fail_with_status(b, b->create(&b->handle), err, "cannot make a handle for matrix products");

    if (!rc)
        rc = fail_with_status(b, b->set_stream(b->handle, b->driver->stream(b->device)), err,
                              "cannot choose the stream of matrix products");
    if (!rc && b->workspace_bytes && !b->workspace.address)
        rc = b->driver->alloc(b->device, b->workspace_bytes, 256, false, &b->workspace, err);
    if (!rc && b->workspace_bytes)
        rc = fail_with_status(b,
                              b->set_workspace(b->handle, (void *)(uintptr_t)b->workspace.address,
                                               b->workspace_bytes),
                              err, "cannot set the workspace of matrix products");
    b->ready = !rc;
    return rc;
}

int td_gpu_blas_start(struct td_gpu_blas *b, struct td_error *err)
{
    struct td_error own = {0};

    if (b->ready || !make_handle(b, &own))
        return TD_OK;
    return td_fail(err, b->driver->is_dead(b->device) ? own.code : TD_EUNSUPPORTED, "%s", own.msg);
}

int td_gpu_blas_product(struct td_gpu_blas *b, int64_t m, int64_t n, int64_t k, uint64_t a,
                        uint64_t w, uint64_t c, struct td_error *err)
{
    static const uint16_t one = ONE, zero = 0;
    const int no = b->kind->no_transpose;

    return fail_with_status(b,
                            b->hgemm(b->handle, no, no, (int)n, (int)m, (int)k, &one,
                                     (const uint16_t *)(uintptr_t)w, (int)n,
                                     (const uint16_t *)(uintptr_t)a, (int)k, &zero,
                                     (uint16_t *)(uintptr_t)c, (int)n),
                            err, "the matrix product failed");
}

const char *td_gpu_blas_no_bias(struct td_gpu_blas *b)
{
    struct td_error err = {0};

    if (!b->lt && !*b->no_lt && td_gpu_blas_lt_open(b->library, &b->lt, &err))
        snprintf(b->no_lt, sizeof b->no_lt, "%.*s", (int)sizeof b->no_lt - 1, err.msg);
    return b->lt ? NULL : b->no_lt;
}

/* The workspace of cublasLt: torch's environment variable, in KiB; else 1 MiB, as in torch 2.11. Seen:
 * with 1 MiB all outputs of torch's linear were equal bit for bit, with 32 MiB not all. */
static size_t lt_workspace(const struct td_gpu_blas *b)
{
    const char *text = getenv("CUBLASLT_WORKSPACE_SIZE");
    char *end = NULL;
    const long kib = text ? strtol(text, &end, 10) : 0;
    const size_t bytes = text && end != text && kib >= 0 && kib < 1 << 20 ? (size_t)kib << 10 : TORCH_LT_WORKSPACE;

    return bytes < b->workspace_bytes ? bytes : b->workspace_bytes;
}

static int linear_with_bias(struct td_gpu_blas *b, const struct td_gpu_linear *x, struct td_error *err)
{
    const struct td_gpu_blas_lt_place at = {b->handle, b->driver->stream(b->device),
                                            (void *)(uintptr_t)b->workspace.address,
                                            lt_workspace(b)};
    const char *no = td_gpu_blas_no_bias(b), *who = "";
    char what[64];
    int status;

    if (no)
        return td_fail(err, TD_EUNSUPPORTED, "%s: %s", b->words, no);
    if (!(status = td_gpu_blas_lt_linear(b->lt, &at, x, &who)))
        return TD_OK;
    snprintf(what, sizeof what, "%s failed", who);
    return fail_with_status(b, status, err, what);
}

int td_gpu_blas_linear(struct td_gpu_blas *b, const struct td_gpu_linear *x, struct td_error *err)
{
    static const float one = 1, zero = 0;
    const int type = x->bf16 ? TD_CUBLAS_BF16 : TD_CUBLAS_F16;

    if (x->bias)
        return linear_with_bias(b, x, err);
    return fail_with_status(b,
                            b->gemm_ex(b->handle, TD_CUBLAS_OP_T, TD_CUBLAS_OP_N, x->n, x->m, x->k,
                                       &one, (const void *)(uintptr_t)x->w, type, x->k,
                                       (const void *)(uintptr_t)x->a, type, x->lda, &zero,
                                       (void *)(uintptr_t)x->c, type, x->ldc, TD_CUBLAS_COMPUTE_32F,
                                       TD_CUBLAS_TENSOR_OP),
                            err, "cublasGemmEx failed");
}

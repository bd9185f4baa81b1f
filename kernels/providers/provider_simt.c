/* provider_simt.c - runs an op with our GPU kernels in the emulator, so that what a GPU does is replayed where there is none.
 * SPDX-License-Identifier: Apache-2.0
 *
 * arg: NULL, or options ("f16,seed=3,warp=64,exllama") for the kernels that are linked in; or the path of a
 * build of them for the emulator (lib/td_kernels.simt.so, lib/bugs-gpu/NAME.simt.so), whose options come
 * from TD_SIMT in the environment (replay --build-env). Each run has another seed, so that results that
 * depend on the order of threads differ from run to run. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/gptq_gemm/gptq_gemm_cu.h"
#include "kernels/ops/gptq_gemm_op.h"
#include "kernels/providers/provider_common.h"
#include "kernels/simt/simt_launch.h"
#include "model/exllama_layout.h"
#include "model/gptq.h"

#define MAX_PRODUCTS ((int64_t)1 << 33) /* m * n * k, with m rounded up: about a minute */

typedef int launch_fn(const char *symbol, struct td_simt_dim grid, struct td_simt_dim block,
                      size_t shared_bytes, void *const *params, uint64_t seed, int warp,
                      struct td_error *err);

struct simt_state {
    void *handle;                       /* of a build; NULL: the kernels that are linked in */
    launch_fn *launch;
    uint64_t seed, runs;
    int warp;
    bool exllama, f16;
    char why[480], words[200];
};

struct simt_prepared {
    struct td_gptq_gemm_args args;      /* as the kernel gets them */
    struct td_gptq_cu_call call;
    uint32_t *words;                    /* exllama: the shuffled qweight and perm; owned */
    int32_t *perm;
};

/* ---- options --------------------------------------------------------------------------------- */

static bool parse_seed(struct simt_state *s, const char *digits)
{
    char *end;

    if (*digits < '0' || *digits > '9')
        return false;
    s->seed = strtoull(digits, &end, 10);
    return !*end;
}

static bool parse_option(struct simt_state *s, const char *word)
{
    if (!strncmp(word, "seed=", 5))
        return parse_seed(s, word + 5);
    if (!strcmp(word, "f16") || !strcmp(word, "f32"))
        s->f16 = word[1] == '1';
    else if (!strcmp(word, "exllama") || !strcmp(word, "checkpoint"))
        s->exllama = word[0] == 'e';
    else if (!strcmp(word, "warp=32") || !strcmp(word, "warp=64"))
        s->warp = word[5] == '3' ? 32 : 64;
    else
        return false;
    return true;
}

static int parse_options(struct simt_state *s, const char *text, struct td_error *err)
{
    char copy[200], *save = NULL;

    if (snprintf(copy, sizeof copy, "%s", text ? text : "") >= (int)sizeof copy)
        return td_fail(err, TD_EINVAL, "provider simt: the options are too long");
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save))
        if (!parse_option(s, word))
            return td_fail(err, TD_EINVAL,
                           "provider simt: \"%s\" is none of f32, f16 (sums), checkpoint, exllama "
                           "(layout), seed=N, warp=32, warp=64",
                           word);
    return TD_OK;
}

/* ---- open ------------------------------------------------------------------------------------ */

static int load_build(struct simt_state *s, const char *path, struct td_error *err)
{
    char at[4096];
    void *symbol;

    /* a name without a slash would be searched for in the system's folders */
    if (snprintf(at, sizeof at, "%s%s", strchr(path, '/') ? "" : "./", path) >= (int)sizeof at)
        return td_fail(err, TD_EINVAL, "%.100s...: the path is too long", path);
    if (!(s->handle = dlopen(at, RTLD_NOW | RTLD_LOCAL)))
        return td_fail(err, TD_EIO, "cannot load the build: %s; give the path of a .simt.so", dlerror());
    if (!(symbol = dlsym(s->handle, "td_simt_launch")))
        return td_fail(err, TD_EINVAL,
                       "%s: no symbol td_simt_launch; is this a build of our kernels for the "
                       "emulator (lib/td_kernels.simt.so)?",
                       path);
    memcpy(&s->launch, &symbol, sizeof symbol); /* ISO C has no cast from object to function */
    return TD_OK;
}

static void simt_close(void *state)
{
    struct simt_state *s = state;

    if (s && s->handle)
        dlclose(s->handle);
    free(s);
}

static int simt_open(const char *arg, void **state, struct td_error *err)
{
    const bool is_build = arg && strstr(arg, ".so");
    struct simt_state *s = calloc(1, sizeof *s);
    int rc;

    *state = NULL;
    if (!s)
        return td_fail(err, TD_ENOMEM, "out of memory");
    s->warp = 32;
    s->launch = td_simt_launch;
    rc = parse_options(s, is_build ? getenv("TD_SIMT") : arg, err);
    if (!rc && is_build)
        rc = load_build(s, arg, err);
    if (rc) {
        simt_close(s);
        return rc;
    }
    snprintf(s->words, sizeof s->words,
             "our GPU kernels, emulated: sums in %s, weights as in %s, warps of %d, seed %llu",
             s->f16 ? "f16" : "f32", s->exllama ? "exllama" : "the checkpoint", s->warp,
             (unsigned long long)s->seed);
    *state = s;
    return 0;
}

static const char *simt_words(void *state)
{
    return ((struct simt_state *)state)->words;
}

/* ---- an op ----------------------------------------------------------------------------------- */

static const char *simt_supports(void *state, const struct td_op_call *op)
{
    struct simt_state *s = state;
    struct td_gptq_gemm_args x;
    uint32_t grid[3], block[3];

    if (td_provider_supports_gptq_gemm(op, s->why, sizeof s->why))
        return s->why;
    td_gptq_gemm_args_exact(op, &x, NULL);
    if (x.m && (!td_gptq_cu_grid(x.m, x.n, grid, block) || (x.m + 7ll) / 8 * 8 * x.n > MAX_PRODUCTS / x.k)) {
        snprintf(s->why, sizeof s->why,
                 "m %d, n %d, k %d: emulating that takes more than a minute; --provider cpu or ref "
                 "runs it",
                 x.m, x.n, x.k);
        return s->why;
    }
    return NULL;
}

/* Exllama's layout needs groups of equal size: group g is group_size rows of the sorted W, from g *
 * group_size on. */
static bool has_even_groups(const struct td_gptq_gemm_args *x, const int32_t *perm)
{
    for (int32_t i = 0; i < x->k; i++)
        if (x->g_idx[perm[i]] != i / x->group_size)
            return false;
    return true;
}

static int to_exllama(struct simt_prepared *p, struct td_error *err)
{
    struct td_gptq_gemm_args *x = &p->args;
    const struct td_gptq_weight w = {.k = x->k, .group_size = x->group_size, .groups = x->k / x->group_size, .g_idx = x->g_idx};
    const size_t words = (size_t)x->k * (size_t)x->bits / 32 * (size_t)x->n;
    int rc;

    if (td_memory_room(words * sizeof *p->words, "weights in exllama's layout", err))
        return TD_ENOMEM;
    p->words = malloc(words * sizeof *p->words);
    p->perm = x->g_idx ? malloc((size_t)x->k * sizeof *p->perm) : NULL;
    if (!p->words || (x->g_idx && !p->perm))
        return td_fail(err, TD_ENOMEM, "out of memory for weights in exllama's layout");
    if (p->perm) {
        td_gptq_argsort_groups(&w, p->perm);
        if (!has_even_groups(x, p->perm))
            return td_fail(err, TD_EUNSUPPORTED, "g_idx has groups of unequal size, which exllama's layout cannot say");
    }
    rc = td_exllama_shuffle(x->bits, x->k, x->n, x->qweight, p->perm, p->words, err);
    x->qweight = p->words;
    x->g_idx = p->perm;
    return rc;
}

static void simt_release(void *state, void *prepared)
{
    struct simt_prepared *p = prepared;

    (void)state;
    if (p) {
        free(p->words);
        free(p->perm);
    }
    free(p);
}

static int simt_prepare(void *state, const struct td_op_call *op, void **prepared, struct td_error *err)
{
    const struct simt_state *s = state;
    struct simt_prepared *p = calloc(1, sizeof *p);
    int rc;

    *prepared = NULL;
    if (!p)
        return td_fail(err, TD_ENOMEM, "out of memory");
    rc = td_gptq_gemm_args_exact(op, &p->args, err);
    if (!rc && ((uintptr_t)p->args.qweight % 16 || (uintptr_t)p->args.scales % 8))
        rc = td_fail(err, TD_EUNSUPPORTED, "qweight must lie at a multiple of 16 bytes and scales of 8, as recorded they do not");
    if (!rc && s->exllama)
        rc = to_exllama(p, err);
    if (rc) {
        simt_release(state, p);
        return rc;
    }
    td_gptq_cu_call_of(&p->args, &p->call);
    *prepared = p;
    return 0;
}

static int simt_run(void *state, void *prepared, struct td_error *err)
{
    struct simt_state *s = state;
    struct simt_prepared *p = prepared;
    uint32_t g[3], b[3];
    char symbol[64];

    if (!p->args.m)
        return 0;
    if (!td_gptq_cu_grid(p->args.m, p->args.n, g, b))
        return td_fail(err, TD_EUNSUPPORTED, "m %d, n %d: no grid has so many blocks", p->args.m, p->args.n);
    snprintf(symbol, sizeof symbol, "td_gptq_gemm_%s%dbit_%s", s->exllama ? "exllama_" : "",
             p->args.bits, s->f16 ? "f16" : "f32");
    return s->launch(symbol, (struct td_simt_dim){g[0], g[1], g[2]},
                     (struct td_simt_dim){b[0], b[1], b[2]}, 0, p->call.param, s->seed + s->runs++,
                     s->warp, err);
}

const struct td_provider td_provider_simt = {.name = "simt",
                                             .open = simt_open,
                                             .supports = simt_supports,
                                             .prepare = simt_prepare,
                                             .run = simt_run,
                                             .fetch = td_provider_fetch_nothing,
                                             .release = simt_release,
                                             .close = simt_close,
                                             .words = simt_words,
                                             .rounding = td_provider_rounding_none};

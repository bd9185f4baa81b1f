/* ggml_build.c - load a build of ggml and make sure that its structures are the ones we know.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/providers/ggml_build.h"

#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES 4096

/* ---- libraries ------------------------------------------------------------------------------- */

/* A Python module needs the symbols of an interpreter. Those of any version will do, because none is
 * called. */
static bool load_python(void)
{
    char name[64];

    for (int minor = 20; minor >= 8; minor--) {
        snprintf(name, sizeof name, "libpython3.%d.so.1.0", minor);
        if (dlopen(name, RTLD_LAZY | RTLD_GLOBAL))
            return true;
    }
    return false;
}

static void *open_library(struct td_ggml_build *b, const char *path, struct td_error *err)
{
    void *h = b->n_libs < TD_GGML_LIBRARIES ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const char *why = h ? "" : dlerror(), *hint = "";

    if (why && (strstr(why, "undefined symbol: Py") || strstr(why, "undefined symbol: _Py"))) {
        if (load_python() && (h = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
            why = "";
        else
            hint = "; a module of Python needs libpython3.x.so.1.0 on this machine (Debian: libpython3.11)";
    }
    if (h)
        b->lib[b->n_libs++] = h;
    else
        td_fail(err, TD_EIO, "cannot load the build: %.300s%s", why ? why : path, hint);
    return h;
}

static bool path_in(char *out, const char *dir, const char *name)
{
    struct stat st;

    return snprintf(out, PATH_BYTES, "%s/%s", dir, name) < PATH_BYTES && !stat(out, &st);
}

static int is_cpu_variant(const struct dirent *e)
{
    return !strncmp(e->d_name, "libggml-cpu-", 12) && strstr(e->d_name, ".so") != NULL;
}

/* Of several builds of the CPU backend, the one that scores best on this machine, as ggml_backend_load_best() chooses. */
static bool best_variant(const char *dir, char *out)
{
    struct dirent **names;
    int n = scandir(dir, &names, is_cpu_variant, alphasort), best = 0, i;
    char path[PATH_BYTES];

    for (i = 0; i < n; i++) {
        void *h = path_in(path, dir, names[i]->d_name) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        void *sym = h ? dlsym(h, "ggml_backend_score") : NULL;
        int (*score)(void);
        int s = 0;

        if (sym) {
            memcpy(&score, &sym, sizeof score);
            s = score();
        }
        if (s > best) {
            best = s;
            memcpy(out, path, PATH_BYTES);
        }
        if (h)
            dlclose(h);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    return best > 0;
}

/* libggml-base.so comes first: the other one needs it by its soname and then finds it loaded, wherever its
 * run path points. */
static int open_folder(struct td_ggml_build *b, const char *dir, struct td_error *err)
{
    char path[PATH_BYTES], cpu[PATH_BYTES];

    if (!path_in(path, dir, "libggml-base.so") && !path_in(path, dir, "libggml-base.so.0"))
        return td_fail(err, TD_ENOTFOUND,
                       "%s: no libggml-base.so; give the folder that holds it and libggml-cpu.so, "
                       "or a library with all of ggml",
                       dir);
    if (!open_library(b, path, err))
        return err->code;
    if (!path_in(cpu, dir, "libggml-cpu.so") && !path_in(cpu, dir, "libggml-cpu.so.0") && !best_variant(dir, cpu))
        return td_fail(err, TD_ENOTFOUND, "%s: holds libggml-base.so but no libggml-cpu.so that runs on this machine", dir);
    return open_library(b, cpu, err) ? TD_OK : err->code;
}

static int open_file(struct td_ggml_build *b, const char *path, struct td_error *err)
{
    const char *slash = strrchr(path, '/');
    char dir[PATH_BYTES], base[PATH_BYTES];

    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (path_in(base, dir, "libggml-base.so"))
        return open_folder(b, dir, err);
    if (!slash) /* a name without a slash would be searched for in the system's folders */
        snprintf(base, sizeof base, "./%s", path);
    return open_library(b, slash ? path : base, err) ? TD_OK : err->code;
}

static void *find_symbol(const struct td_ggml_build *b, const char *name)
{
    void *sym = NULL;

    for (int i = 0; i < b->n_libs && !sym; i++)
        sym = dlsym(b->lib[i], name);
    return sym;
}

static int find_functions(struct td_ggml_build *b, const char *path, struct td_error *err)
{
    void *sym;

#define FIND(result, name, args) \
    sym = find_symbol(b, "ggml_" #name); \
    memcpy(&b->name, &sym, sizeof sym); /* ISO C has no cast from object to function */
#define FIND_NEEDED(result, name, args)                                                            \
    FIND(result, name, args)                                                                       \
    if (!sym)                                                                                      \
        return td_fail(                                                                            \
            err, TD_EUNSUPPORTED,                                                                  \
            "%s: does not export ggml_%s; is this a build of ggml with its CPU backend?", path,    \
            #name);
    TD_GGML_NEEDED(FIND_NEEDED)
    TD_GGML_OPTIONAL(FIND)
    return TD_OK;
}

/* ---- types and ops by name ------------------------------------------------------------------- */

static const struct { enum td_dtype dt; int32_t number; const char *name;
} types[] = {
    {TD_DT_F32, 0, "f32"},    {TD_DT_F16, 1, "f16"},    {TD_DT_BF16, 30, "bf16"},
    {TD_DT_F64, 28, "f64"},   {TD_DT_I8, 24, "i8"},     {TD_DT_I16, 25, "i16"},
    {TD_DT_I32, 26, "i32"},   {TD_DT_I64, 27, "i64"},   {TD_DT_Q4_0, 2, "q4_0"},
    {TD_DT_Q4_1, 3, "q4_1"},  {TD_DT_Q5_0, 6, "q5_0"},  {TD_DT_Q5_1, 7, "q5_1"},
    {TD_DT_Q8_0, 8, "q8_0"},  {TD_DT_Q2_K, 10, "q2_K"}, {TD_DT_Q3_K, 11, "q3_K"},
    {TD_DT_Q4_K, 12, "q4_K"}, {TD_DT_Q5_K, 13, "q5_K"}, {TD_DT_Q6_K, 14, "q6_K"},
};

int32_t td_ggml_type(const struct td_ggml_build *b, enum td_dtype dt)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *name;

        if (types[i].dt != dt)
            continue;
        name = b->type_name(types[i].number);
        return name && !strcmp(name, types[i].name) && b->type_size(types[i].number) == td_dtype_size(dt) &&
                       b->blck_size(types[i].number) == td_dtype_block(dt) ? types[i].number : -1;
    }
    return -1;
}

/* Read the next name into b->op_names. ggml_op_name() reads a table without checking its end, beyond which
 * other pointers of the library stand, so a result that does not point into a library is not followed. To
 * find that out takes a look at all symbols of the library, so each name is read once. */
static bool read_op_name(struct td_ggml_build *b)
{
    const char *name = b->n_op_names < TD_GGML_OPS && !b->all_op_names ? b->op_name(b->n_op_names) : NULL;
    Dl_info where;

    if (!name || !dladdr((void *)(uintptr_t)name, &where)) {
        b->all_op_names = true;
        return false;
    }
    b->op_names[b->n_op_names++] = name;
    return true;
}

int32_t td_ggml_op(struct td_ggml_build *b, const char *op)
{
    for (int32_t i = 0; i < b->n_op_names || read_op_name(b); i++)
        if (!strcmp(b->op_names[i], op))
            return i;
    return -1;
}

/* ---- the ABI --------------------------------------------------------------------------------- */

static int differs(struct td_error *err, const char *what)
{
    return td_fail(err, TD_EUNSUPPORTED, "this build of ggml has another ABI than the one that is known here: %s", what);
}

static int check_fields(struct td_ggml_build *b, struct td_ggml_context *ctx, struct td_error *err)
{
    struct td_ggml_tensor *t = b->new_tensor_4d(ctx, 1, 7, 5, 3, 2), *v, *s;
    char bytes[420];
    float two = 2;

    if (b->tensor_overhead() < sizeof *t || b->tensor_overhead() > sizeof *t + 128)
        return differs(err, "the size of a tensor");
    if (!t || t->type != 1 || t->ne[0] != 7 || t->ne[1] != 5 || t->ne[2] != 3 || t->ne[3] != 2)
        return differs(err, "where a tensor's type and sizes are");
    if (t->nb[0] != 2 || t->nb[1] != 14 || t->nb[2] != 70 || t->nb[3] != 210 || b->nbytes(t) != 420)
        return differs(err, "where a tensor's strides are");
    t->data = bytes;
    b->set_name(t, "probe");
    b->set_input(t);
    if (b->get_data(t) != bytes || strcmp(t->name, "probe") || t->flags != 1)
        return differs(err, "where a tensor's data, name and flags are");
    v = b->view_1d(ctx, t, 4, 8);
    if (!v || v->view_src != t || v->view_offs != 8 || v->src[0] != t || v->data != bytes + 8)
        return differs(err, "where a view's source is");
    s = b->scale(ctx, b->new_tensor_4d(ctx, 0, 4, 1, 1, 1), two);
    if (!s || memcmp(&s->op_params[0], &two, sizeof two) || s->op != td_ggml_op(b, "SCALE"))
        return differs(err, "where an op's parameters are");
    return TD_OK;
}

/* Compute a small product in the same way as ops later: [1 2 3] x [1 1 1; 1 0 0] and [0 1 0]. Of its elements one that is not 0 has to be
 * about right. That tells another ABI from a kernel that is wrong: a scale, a row or a column that is wrong everywhere is a finding about
 * the build, and the judge's to make. */
static int check_product(struct td_ggml_build *b, struct td_ggml_context *ctx, struct td_error *err)
{
    struct td_ggml_tensor *w = b->new_tensor_4d(ctx, 0, 3, 2, 1, 1), *a = b->new_tensor_4d(ctx, 0, 3, 2, 1, 1), *c;
    float wd[6] = {1, 1, 1, 1, 0, 0}, ad[6] = {1, 2, 3, 0, 1, 0}, cd[4] = {0};
    char work[4096];
    union td_ggml_plan plan;
    void *graph;

    w->data = wd;
    a->data = ad;
    c = b->mul_mat(ctx, w, a);
    c->data = cd;
    if (c->src[0] != w || c->src[1] != a || c->op != td_ggml_op(b, "MUL_MAT") || c->ne[0] != 2 || c->ne[1] != 2)
        return differs(err, "where an op's inputs are");
    graph = b->new_graph(ctx);
    b->build_forward_expand(graph, c);
    plan = b->graph_plan(graph, 1, NULL);
    if (plan.s.n_threads != 1 || plan.s.work_data || plan.s.threadpool || plan.s.work_size > sizeof work)
        return differs(err, "what a plan looks like");
    plan.s.work_data = (uint8_t *)work;
    if (b->graph_compute(graph, &plan) || !(fabsf(cd[0] - 6) < 1 || fabsf(cd[1] - 1) < 0.2f || fabsf(cd[2] - 1) < 0.2f))
        return differs(err, "a product of two small matrices came out wrong");
    return TD_OK;
}

static int check_abi(struct td_ggml_build *b, struct td_error *err)
{
    void *ctx;
    int rc;

    if (td_ggml_type(b, TD_DT_F32) != 0 || td_ggml_type(b, TD_DT_F16) != 1)
        return differs(err, "the numbers of the types f32 and f16");
    if (td_ggml_op(b, "NONE") != 0 || td_ggml_op(b, "MUL_MAT") < 0 || td_ggml_op(b, "SCALE") < 0)
        return differs(err, "it has no op NONE, MUL_MAT or SCALE");
    if (!(ctx = b->init((struct td_ggml_init){.mem_size = 1 << 20, .no_alloc = true})))
        return td_fail(err, TD_ENOMEM, "ggml_init failed");
    rc = check_fields(b, ctx, err);
    if (!rc)
        rc = check_product(b, ctx, err);
    b->free(ctx);
    return rc;
}

/* ---- words, open and close ------------------------------------------------------------------- */

static void make_words(struct td_ggml_build *b)
{
    static const char *const features[] = {"avx",         "avx2",        "fma",      "f16c",
                                           "bmi2",        "avx_vnni",    "avx512",   "avx512_vbmi",
                                           "avx512_vnni", "avx512_bf16", "amx_int8", "neon",
                                           "dotprod",     "matmul_int8", "sve",      "sme",
                                           "vsx",         "riscv_v",     "llamafile"};
    const char *version = b->version ? b->version() : NULL, *commit = b->commit ? b->commit() : NULL;
    size_t at = (size_t)snprintf(b->words, sizeof b->words, "ggml%s%.40s%s%.40s%s:", version ? " " : "", version ? version : "",
                                 commit ? " (commit " : "", commit ? commit : "", commit ? ")" : "");
    char name[48];

    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        int (*has)(void);
        void *sym;

        snprintf(name, sizeof name, "ggml_cpu_has_%s", features[i]);
        if (!(sym = find_symbol(b, name)))
            continue;
        memcpy(&has, &sym, sizeof has);
        if (has() && at + strlen(features[i]) + 2 < sizeof b->words)
            at += (size_t)snprintf(b->words + at, sizeof b->words - at, " %s", features[i]);
    }
    if (b->words[at - 1] == ':')
        b->words[at - 1] = '\0';
}

/* Before libgomp is loaded: one thread, which sleeps while it waits; and ggml starts no debugger when it
 * gives up. */
static void set_environment(void)
{
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("OMP_WAIT_POLICY", "passive", 1);
    setenv("KMP_BLOCKTIME", "0", 1);
    setenv("GGML_NO_BACKTRACE", "1", 1);
}

/* What ggml says of its progress, such as each weight that it repacks, is no warning of the build. */
static void log_warnings(int32_t level, const char *text, void *data)
{
    static bool said; /* whether the text was, that now goes on; one thread */

    (void)data;
    if (level <= TD_GGML_LOG_WARN + 1)
        said = level >= TD_GGML_LOG_WARN;
    if (said)
        fputs(text, stderr);
}

int td_ggml_open(const char *path, struct td_ggml_build *b, struct td_error *err)
{
    struct td_error none = {0};
    struct stat st;
    int rc;

    err = err ? err : &none;
    memset(b, 0, sizeof *b);
    if (stat(path, &st))
        return td_fail(err, TD_ENOTFOUND, "%s: no such build of ggml", path);
    set_environment();
    rc = S_ISDIR(st.st_mode) ? open_folder(b, path, err) : open_file(b, path, err);
    if (!rc)
        rc = find_functions(b, path, err);
    if (!rc) {
        if (b->log_set)
            b->log_set(log_warnings, NULL);
        if (b->cpu_init)
            b->cpu_init();
        rc = check_abi(b, err);
    }
    if (rc)
        td_ggml_close(b);
    else
        make_words(b);
    return rc;
}

void td_ggml_close(struct td_ggml_build *b)
{
    while (b->n_libs)
        dlclose(b->lib[--b->n_libs]);
}

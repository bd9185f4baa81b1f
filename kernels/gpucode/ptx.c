/* ptx.c - the kernels that a PTX text declares.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpucode/ptx.h"

#include <ctype.h>
#include <string.h>

#define MAX_BLOCK 65536            /* bytes of parameters; the driver takes 32764 */
#define MAX_WORDS 32               /* of one parameter's declaration */

/* ---- words: names, numbers, directives and single characters; comments and strings are passed over  */

struct words { const char *p, *end; };
struct word { const char *at; size_t n; };

static const char *find_word(const struct words *w, const char *from, const char *what)
{
    const char *hit = from < w->end ? memmem(from, (size_t)(w->end - from), what, strlen(what)) : NULL;

    return hit ? hit + strlen(what) : w->end;
}

static void skip_blanks(struct words *w)
{
    while (w->p < w->end) {
        if (isspace((unsigned char)*w->p))
            w->p++;
        else if (w->end - w->p >= 2 && !memcmp(w->p, "//", 2))
            w->p = find_word(w, w->p, "\n");
        else if (w->end - w->p >= 2 && !memcmp(w->p, "/*", 2))
            w->p = find_word(w, w->p + 2, "*/");
        else if (*w->p == '"')
            w->p = find_word(w, w->p + 1, "\"");
        else
            return;
    }
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static bool next_token(struct words *w, struct word *out)
{
    skip_blanks(w);
    if (w->p >= w->end || !*w->p)
        return false;
    out->at = w->p++;
    while (is_name(*out->at) && w->p < w->end && is_name(*w->p))
        w->p++;
    out->n = (size_t)(w->p - out->at);
    return true;
}

static bool token_is(const struct word *w, const char *text)
{
    return w->n == strlen(text) && !memcmp(w->at, text, w->n);
}

/* A decimal number below 2^24. */
static bool token_number(struct words *w, uint32_t *out)
{
    struct word x;
    size_t i;

    if (!next_token(w, &x) || !x.n || x.n > 7)
        return false;
    for (*out = 0, i = 0; i < x.n; i++) {
        if (!isdigit((unsigned char)x.at[i]))
            return false;
        *out = *out * 10 + (uint32_t)(x.at[i] - '0');
    }
    return true;
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* Bytes of a type: ".u64", ".f16x2"; 0: no type, or an opaque one. */
static uint32_t type_bytes(const struct word *w)
{
    static const struct { const char *name; uint32_t bytes;
    } types[] = {{".b8", 1},  {".u8", 1},  {".s8", 1},    {".b16", 2},    {".u16", 2},
                 {".s16", 2}, {".f16", 2}, {".bf16", 2},  {".b32", 4},    {".u32", 4},
                 {".s32", 4}, {".f32", 4}, {".f16x2", 4}, {".bf16x2", 4}, {".b64", 8},
                 {".u64", 8}, {".s64", 8}, {".f64", 8},   {".b128", 16}};
    size_t i;

    for (i = 0; i < sizeof types / sizeof *types; i++)
        if (token_is(w, types[i].name))
            return types[i].bytes;
    return 0;
}

struct param { uint32_t size, align; bool end; };  /* end: ')' follows */

/* What stands between ".param" and the next ',' or ')'. */
static bool read_param(struct words *w, struct param *p)
{
    struct word x;
    uint32_t elements = 1, type = 0;
    bool of_pointee = false;       /* behind .ptr the alignment is that of what it points at */
    int left = MAX_WORDS;

    *p = (struct param){0};
    while (left-- && next_token(w, &x)) {
        if (token_is(&x, ",") || token_is(&x, ")")) {
            p->end = token_is(&x, ")");
            p->size = type * elements;
            p->align = p->align ? p->align : type;
            return type && elements && p->size <= MAX_BLOCK && !(p->align & (p->align - 1)) && p->align <= MAX_BLOCK;
        }
        if (token_is(&x, ".align")) {
            uint32_t align;

            if (!token_number(w, &align))
                return false;
            p->align = of_pointee ? p->align : align;
        } else if (token_is(&x, ".ptr")) {
            of_pointee = true;
        } else if (token_is(&x, "[")) {
            if (!token_number(w, &elements) || elements > MAX_BLOCK || !next_token(w, &x) || !token_is(&x, "]"))
                return false;
        } else if (!type) {
            type = type_bytes(&x);
        }
    }
    return false;
}

/* Behind "(": all parameters. Call with params NULL to count them. False: not understood. */
static bool read_params(struct words w, struct td_gpu_param *params, size_t *n, uint32_t *block)
{
    struct word x;
    struct param p = {0};
    uint32_t at = 0;

    *n = 0;
    if (!next_token(&w, &x))
        return false;
    if (token_is(&x, ")"))
        return true;
    do {
        if (!token_is(&x, ".param") || !read_param(&w, &p) || *n == TD_GPU_MAX_PARAMS)
            return false;
        at = (at + p.align - 1) & ~(p.align - 1);
        if (params)
            params[*n] = (struct td_gpu_param){at, p.size};
        at += p.size;
        ++*n;
        if (at > MAX_BLOCK)
            return false;
    } while (!p.end && next_token(&w, &x));
    *block = at;
    return p.end;
}

/* Directives between the parameters and the body. */
static void read_bounds(struct words *w, struct td_gpu_kernel *k)
{
    struct word x;

    while (next_token(w, &x) && !token_is(&x, "{") && !token_is(&x, ";")) {
        bool most = token_is(&x, ".maxntid"), block = token_is(&x, ".reqntid");
        uint32_t d[3] = {1, 1, 1};
        int i = 0;

        if (!most && !block)
            continue;
        while (token_number(w, &d[i]) && ++i < 3) {
            struct words before = *w;

            if (!next_token(w, &x) || !token_is(&x, ",")) {
                *w = before;
                break;
            }
        }
        k->max_threads = d[0] <= 1024 && d[1] <= 1024 && d[2] <= 1024 ? d[0] * d[1] * d[2] : 0;
        if (block)
            memcpy(k->block, d, sizeof d);
    }
}

static int read_kernel(struct words *w, struct td_gpu_kernel_list *out, struct td_error *err)
{
    struct td_gpu_kernel *k;
    struct word name, x;
    uint32_t block = 0;
    size_t n;
    int rc;

    if (!next_token(w, &name) || !is_name(*name.at) || *name.at == '.' || name.n > TD_GPU_MAX_KERNELS)
        return TD_OK;
    if (!(k = td_gpu_kernel_add(out, name.at, name.n, err)))
        return err->code;
    if (!next_token(w, &x) || !token_is(&x, "(") || !read_params(*w, NULL, &n, &block))
        return TD_OK;
    if ((rc = td_gpu_kernel_set_params(k, n, false, err)))
        return rc;
    read_params(*w, (struct td_gpu_param *)k->params, &n, &block);
    k->param_bytes = block;
    while (next_token(w, &x) && !token_is(&x, ")"))
        ;
    read_bounds(w, k);
    return TD_OK;
}

/* ---- the text -------------------------------------------------------------------------------- */

bool td_ptx_is(const void *data, size_t n)
{
    struct words w = {data, (const char *)data + n};
    struct word x;

    return next_token(&w, &x) && token_is(&x, ".version");
}

bool td_ptx_target(const char *text, size_t n, int *sm, char *variant)
{
    struct words w = {text, text + n};
    struct word x;
    size_t i;

    while (next_token(&w, &x))
        if (token_is(&x, ".target") && next_token(&w, &x) && x.n > 3 && x.n < 8 && !memcmp(x.at, "sm_", 3)) {
            for (*sm = 0, i = 3; i < x.n && isdigit((unsigned char)x.at[i]); i++)
                *sm = *sm * 10 + (x.at[i] - '0');
            *variant = i < x.n ? x.at[i] : 0;
            return true;
        }
    return false;
}

/* Does .entry at p declare a kernel? Before it on its line stand only linkage directives (.visible,
 * .weak, .extern), no comment and no string. */
static bool is_declaration(const char *text, const char *p)
{
    while (p > text && p[-1] != '\n')
        if (*--p != '.' && *p != ' ' && *p != '\t' && !islower((unsigned char)*p))
            return false;
    return true;
}

/* A text has many megabytes: it is searched for .entry, not read word for word. */
int td_ptx_kernels(const char *text, size_t n, struct td_gpu_kernel_list *out, struct td_error *err)
{
    struct words w = {text, text + n};
    struct td_error local = {0};
    int rc = TD_OK;

    err = err ? err : &local;
    while (!rc && (w.p = find_word(&w, w.p, ".entry")) < w.end)
        if (isspace((unsigned char)*w.p) && is_declaration(text, w.p - strlen(".entry")))
            rc = read_kernel(&w, out, err);
    return rc;
}

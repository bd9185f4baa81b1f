/* list_kernels.c - list the GPU kernels of a file as a table.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/list_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/log.h"
#include "kernels/adapters/adapters.h"
#include "kernels/gpucode/image.h"

#define MAX_TEXT 65536
#define WARNINGS 5 /* so many unreadable programs are named; more are only counted */

/* A kernel of one program, while they are sorted. */
struct item { const struct td_gpu_kernel *k; const struct td_gpu_entry *e; };

/* A line of the table. */
struct line { char *params, *shared, *arch; const char *family, *symbol; };

struct listing {
    struct item *items; size_t n_items, cap;
    struct line *lines; size_t n_lines;
    int n_programs, n_unread;
};

/* ---- collecting ------------------------------------------------------------------------------ */

static int add_items(struct listing *l, const struct td_gpu_kernel_list *list, const struct td_gpu_entry *e, struct td_error *err)
{
    size_t need = l->n_items + list->n, i;

    if (need > l->cap) {
        struct item *grown = realloc(l->items, 2 * need * sizeof *grown);

        if (!grown)
            return td_fail(err, TD_ENOMEM, "out of memory");
        l->items = grown;
        l->cap = 2 * need;
    }
    for (i = 0; i < list->n; i++)
        l->items[l->n_items++] = (struct item){&list->kernels[i], e};
    return TD_OK;
}

static int collect_kernels(struct listing *l, struct td_gpu_image *img, struct td_error *err)
{
    int i, rc = TD_OK;

    for (i = 0; i < td_gpu_image_entries(img) && !rc; i++) {
        const struct td_gpu_entry *e = td_gpu_image_entry(img, i);
        const struct td_gpu_kernel_list *list;
        struct td_error why = {0};

        if (e->code == TD_GPU_CODE_OTHER)
            continue;
        l->n_programs++;
        if (td_gpu_image_kernels(img, i, &list, &why) && l->n_unread++ < WARNINGS)
            td_log(TD_LOG_WARN, "kernels", "%s", why.msg);
        rc = add_items(l, list, e, err);
    }
    return rc;
}

/* Compare the sizes of the parameters, not their offsets, which differ between architectures. */
static int by_layout(const struct td_gpu_kernel *a, const struct td_gpu_kernel *b)
{
    int i;

    if (a->n_params != b->n_params)
        return a->n_params < b->n_params ? -1 : 1;
    for (i = 0; i < a->n_params; i++)
        if (a->params[i].size != b->params[i].size)
            return a->params[i].size < b->params[i].size ? -1 : 1;
    return 0;
}

static int by_symbol(const void *x, const void *y)
{
    const struct item *a = x, *b = y;
    int c = strcmp(a->k->symbol, b->k->symbol);

    if (c || (c = by_layout(a->k, b->k)))
        return c;
    if (a->e->code != b->e->code) /* programs before PTX */
        return a->e->code == TD_GPU_CODE_PTX ? 1 : b->e->code == TD_GPU_CODE_PTX ? -1 : a->e->code < b->e->code ? -1 : 1;
    return a->e->sm != b->e->sm ? (a->e->sm < b->e->sm ? -1 : 1) : strcmp(a->e->arch, b->e->arch);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* "5x8 4x4 1 8": sizes of the parameters, in their order. */
static char *params_text(const struct td_gpu_kernel *k)
{
    struct td_buf b;
    int i, run;

    td_buf_init(&b, MAX_TEXT);
    if (k->n_params <= 0)
        td_buf_adds(&b, k->n_params ? "?" : "none");
    for (i = 0; i < k->n_params; i += run) {
        for (run = 1; i + run < k->n_params && k->params[i + run].size == k->params[i].size; run++)
            ;
        if (run > 1)
            td_buf_addf(&b, "%s%dx%u", i ? " " : "", run, k->params[i].size);
        else
            td_buf_addf(&b, "%s%u", i ? " " : "", k->params[i].size);
    }
    return td_buf_detach(&b, NULL);
}

/* The architectures of items [0, n), which are sorted; each is named once. */
static char *arch_text(const struct item *it, size_t n)
{
    struct td_buf b;
    size_t i;

    td_buf_init(&b, MAX_TEXT);
    for (i = 0; i < n; i++)
        if (!i || strcmp(it[i].e->arch, it[i - 1].e->arch))
            td_buf_addf(&b, "%s%s%s", i ? " " : "", *it[i].e->arch ? it[i].e->arch : "?",
                        it[i].e->relocatable ? "(not linked)" : "");
    return td_buf_detach(&b, NULL);
}

static char *shared_text(const struct item *it, size_t n)
{
    uint32_t most = 0;
    struct td_buf b;
    size_t i;

    for (i = 0; i < n; i++)
        most = it[i].k->shared_bytes > most ? it[i].k->shared_bytes : most;
    td_buf_init(&b, 64);
    td_buf_addf(&b, "%u", most);
    return td_buf_detach(&b, NULL);
}

static const char *family_text(const struct td_gpu_kernel *k)
{
    const struct td_gpu_adapter *adapter = NULL;
    bool known = false;

    if (k->n_params >= 0)
        adapter = td_gpu_adapter_find(k->symbol, k->params, k->n_params, &known);
    return adapter ? adapter->family : known ? "other signature" : "-";
}

static int make_lines(struct listing *l, struct td_error *err)
{
    size_t i, run;

    if (l->n_items)
        qsort(l->items, l->n_items, sizeof *l->items, by_symbol);
    if (!(l->lines = calloc(l->n_items + 1, sizeof *l->lines)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    for (i = 0; i < l->n_items; i += run) {
        const struct item *it = &l->items[i];
        struct line *line = &l->lines[l->n_lines++];

        for (run = 1; i + run < l->n_items && !strcmp(it->k->symbol, it[run].k->symbol) && !by_layout(it->k, it[run].k); run++)
            ;
        *line = (struct line){params_text(it->k), shared_text(it, run), arch_text(it, run), family_text(it->k), it->k->symbol};
        if (!line->params || !line->shared || !line->arch)
            return td_fail(err, TD_ENOMEM, "out of memory");
    }
    return TD_OK;
}

/* ---- printing -------------------------------------------------------------------------------- */

static bool line_matches(const struct line *line, const char *const *words, int n)
{
    int i;

    for (i = 0; i < n; i++)
        if (!strstr(line->symbol, words[i]) && !strstr(line->arch, words[i]) && !strstr(line->family, words[i]))
            return false;
    return true;
}

static int wider_column(int width, const char *text)
{
    int n = (int)strlen(text);

    return n > width ? n : width;
}

static size_t print_lines(const struct listing *l, const char *const *words, int n_words)
{
    int arch = 3, params = 10, shared = 10, family = 8; /* of the headings */
    size_t i, n = 0;

    for (i = 0; i < l->n_lines; i++)
        if (line_matches(&l->lines[i], words, n_words)) {
            const struct line *line = &l->lines[i];

            n++;
            arch = wider_column(arch, line->arch);
            params = wider_column(params, line->params);
            shared = wider_column(shared, line->shared);
            family = wider_column(family, line->family);
        }
    if (n)
        printf("%-*s  %-*s  %*s  %-*s  %s\n", arch, "FOR", params, "PARAMS (B)", shared,
               "SHARED (B)", family, "KNOWN AS", "KERNEL");
    for (i = 0; i < l->n_lines; i++)
        if (line_matches(&l->lines[i], words, n_words))
            printf("%-*s  %-*s  %*s  %-*s  %s\n", arch, l->lines[i].arch, params,
                   l->lines[i].params, shared, l->lines[i].shared, family, l->lines[i].family,
                   l->lines[i].symbol);
    return n;
}

static void print_listing(const struct listing *l, const struct td_gpu_image *img,
                          const char *const *words, int n_words)
{
    int containers = td_gpu_image_containers(img);
    size_t n;

    printf("%s: %s, %d container%s, %d program%s\n", td_gpu_image_path(img), td_gpu_image_what(img),
           containers, containers == 1 ? "" : "s", l->n_programs, l->n_programs == 1 ? "" : "s");
    n = print_lines(l, words, n_words);
    if (n_words)
        printf("%zu of %zu kernels\n", n, l->n_lines);
    else
        printf("%zu kernel%s\n", n, n == 1 ? "" : "s");
    if (l->n_unread)
        printf("%d of %d programs could not be read\n", l->n_unread, l->n_programs);
}

static void release_listing(struct listing *l)
{
    size_t i;

    for (i = 0; i < l->n_lines; i++) {
        free(l->lines[i].params);
        free(l->lines[i].shared);
        free(l->lines[i].arch);
    }
    free(l->lines);
    free(l->items);
}

int td_list_kernels(const char *path, const char *const *words, int n_words)
{
    struct listing l = {0};
    struct td_gpu_image *img;
    struct td_error err = {0};
    int rc = td_gpu_image_open(path, &img, &err);

    if (!rc && !(rc = collect_kernels(&l, img, &err)) && !(rc = make_lines(&l, &err)))
        print_listing(&l, img, words, n_words);
    if (rc)
        td_log(TD_LOG_ERROR, "replay", "%s", err.msg);
    release_listing(&l);
    td_gpu_image_close(img);
    return rc ? td_exit_code(rc) : l.n_unread && l.n_unread == l.n_programs ? TD_EXIT_BROKEN : TD_EXIT_OK;
}

/* gpu_build.c - the kernels of a build that the adapters know.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpu/gpu_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/adapters/adapters.h"
#include "kernels/gpucode/image_find.h"

#define MAX_OFFERS 4096            /* of one name; vLLM's Marlin has over a thousand instances */
#define MAX_NAMES 64               /* looked for */

struct loaded { const void *image; void *module; };
struct named {
    char identifier[96], refused[480];
    int n;
    struct td_gpu_offer *offers;   /* [n] */
    struct td_gpu_hit *hits;
    struct td_gpu_function *functions; /* handle NULL: not loaded */
    bool lacks_memory;                 /* for the list: it is no list */
};

struct td_gpu_build {
    struct td_gpu_image *img;
    const struct td_gpu_driver *driver;
    void *device;
    struct td_gpu_device fits;     /* the device, as code names it */
    char gfx[TD_GPU_ARCH];
    struct named names[MAX_NAMES]; int n_names;
    struct loaded *loaded; int n_loaded;
};

int td_gpu_build_open(const char *path, const struct td_gpu_driver *driver, void *device,
                      const struct td_gpu_facts *facts, struct td_gpu_build **out,
                      struct td_error *err)
{
    struct td_gpu_build *b = calloc(1, sizeof *b);
    int rc;

    *out = NULL;
    if (!b)
        return td_fail(err, TD_ENOMEM, "out of memory");
    b->driver = driver;
    b->device = device;
    snprintf(b->gfx, sizeof b->gfx, "%s", facts->arch);
    b->fits = facts->sm ? (struct td_gpu_device){.sm = facts->sm} : (struct td_gpu_device){.gfx = b->gfx};
    if ((rc = td_gpu_image_open(path, &b->img, err))) {
        free(b);
        return rc;
    }
    *out = b;
    return TD_OK;
}

static void free_offers(struct named *w)
{
    free(w->offers);
    free(w->hits);
    free(w->functions);
}

void td_gpu_build_close(struct td_gpu_build *b)
{
    int i;

    if (!b)
        return;
    for (i = 0; i < b->n_loaded; i++)
        b->driver->unload(b->device, b->loaded[i].module);
    for (i = 0; i < b->n_names; i++)
        free_offers(&b->names[i]);
    free(b->loaded);
    td_gpu_image_close(b->img);
    free(b);
}

const struct td_gpu_image *td_gpu_build_image(const struct td_gpu_build *b)
{
    return b->img;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* "8 8 8 8 8 4 4 4 4 1 8" */
static void print_sizes(const struct td_gpu_param *params, int n, char *out, size_t size)
{
    size_t at = 0;

    out[0] = '\0';
    for (int i = 0; i < n && at + 12 < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%u", i ? " " : "", params[i].size);
}

static void refuse_kernel(struct named *w, const struct td_gpu_kernel *k)
{
    char sizes[200];

    print_sizes(k->params, k->n_params, sizes, sizeof sizes);
    snprintf(w->refused, sizeof w->refused,
             "the build's %s takes parameters of %s bytes, which no version that is known takes; "
             "an entry in kernels/adapters "
             "would say what they mean",
             w->identifier, k->n_params < 0 ? "unknown" : sizes);
}

/* A program for the device and PTX may both hold the symbol; the first hit is the better one. */
static bool has_symbol(const struct named *w, const char *symbol)
{
    int i = 0;

    while (i < w->n && strcmp(w->offers[i].symbol, symbol))
        i++;
    return i < w->n;
}

static void add_offer(struct named *w, const struct td_gpu_hit *hit)
{
    const struct td_gpu_kernel *k = hit->kernel;
    const struct td_gpu_adapter *adapter = k->n_params < 0 ? NULL : td_gpu_adapter_find(k->symbol, k->params, k->n_params, NULL);

    if (!adapter) {
        refuse_kernel(w, k);
        return;
    }
    if (has_symbol(w, k->symbol))
        return;
    w->offers[w->n] = (struct td_gpu_offer){k->symbol, adapter};
    w->hits[w->n++] = *hit;
}

/* w is empty. What lacks memory (w->lacks_memory) is looked for again when it is asked for again. */
static void find_offers(struct td_gpu_build *b, struct named *w)
{
    const struct td_gpu_wanted want = {.identifier = w->identifier, .device = b->fits};
    struct td_gpu_hit *hits = calloc(MAX_OFFERS, sizeof *hits);
    struct td_error err = {0};
    int n, i;

    w->offers = calloc(MAX_OFFERS, sizeof *w->offers);
    w->hits = calloc(MAX_OFFERS, sizeof *w->hits);
    w->functions = calloc(MAX_OFFERS, sizeof *w->functions);
    if (!hits || !w->offers || !w->hits || !w->functions) {
        w->lacks_memory = true;
        free(hits);
        return;
    }
    n = td_gpu_image_find(b->img, &want, hits, MAX_OFFERS, &err);
    w->lacks_memory = n == TD_ENOMEM;
    if (n < 0 && n != TD_ENOTFOUND)
        snprintf(w->refused, sizeof w->refused, "%.479s", err.msg);
    for (i = 0; i < n; i++)
        add_offer(w, &hits[i]);
    free(hits);
}

static struct named *find_name(struct td_gpu_build *b, const char *identifier)
{
    struct named *w;
    int i;

    for (i = 0; i < b->n_names && strcmp(b->names[i].identifier, identifier) != 0; i++)
        ;
    if (i < b->n_names && !b->names[i].lacks_memory)
        return &b->names[i];
    if (i < b->n_names) {
        free_offers(&b->names[i]);
        b->names[i] = b->names[--b->n_names]; /* nothing points at either: no kernel was given out */
        memset(&b->names[b->n_names], 0, sizeof b->names[0]);
    }
    if (b->n_names == MAX_NAMES || strlen(identifier) >= sizeof w->identifier)
        return NULL;
    w = &b->names[b->n_names++];
    strcpy(w->identifier, identifier);
    find_offers(b, w);
    return w;
}

int td_gpu_build_offers(struct td_gpu_build *b, const char *identifier,
                        const struct td_gpu_offer **offers, char *why, size_t size)
{
    const struct named *w = find_name(b, identifier);

    *offers = w ? w->offers : NULL;
    if (w && w->lacks_memory) {
        snprintf(why, size, "out of memory");
        return TD_ENOMEM;
    }
    snprintf(why, size, "%s", w && !w->n ? w->refused : "");
    return w ? w->n : 0;
}

/* ---- loading --------------------------------------------------------------------------------- */

static int load_module(struct td_gpu_build *b, const struct td_gpu_hit *hit, void **module, struct td_error *err)
{
    struct loaded *more;
    int i, rc;

    for (i = 0; i < b->n_loaded; i++)
        if (b->loaded[i].image == hit->load) {
            *module = b->loaded[i].module;
            return TD_OK;
        }
    if (!(more = realloc(b->loaded, (size_t)(b->n_loaded + 1) * sizeof *more)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    b->loaded = more;
    if ((rc = b->driver->load(b->device, hit->load, module, err)))
        return rc;
    b->loaded[b->n_loaded++] = (struct loaded){hit->load, *module};
    return TD_OK;
}

static int check_params(const struct td_gpu_offer *o, const struct td_gpu_function *f, struct td_error *err)
{
    char ours[200], theirs[200];
    int i;

    if (f->n_params < 0)
        return TD_OK; /* an old driver; the file's parameters were checked */
    for (i = 0; f->n_params == o->adapter->n_fields && i < f->n_params && f->params[i].size == o->adapter->fields[i].size; i++)
        ;
    if (i == f->n_params && i == o->adapter->n_fields)
        return TD_OK;
    print_sizes(f->params, f->n_params, theirs, sizeof theirs);
    ours[0] = '\0';
    for (i = 0; i < o->adapter->n_fields; i++)
        snprintf(ours + strlen(ours), sizeof ours - strlen(ours), "%s%u", i ? " " : "", o->adapter->fields[i].size);
    return td_fail(err, TD_EUNSUPPORTED,
                   "%s: the driver says that its parameters have %s bytes, its file says %s",
                   o->adapter->identifier, theirs, ours);
}

/* Take the parameters from the file: as many as the adapter has, because the adapter fits. */
static void take_params(const struct td_gpu_kernel *k, struct td_gpu_function *f)
{
    for (f->n_params = 0; f->n_params < k->n_params && f->n_params < TD_GPU_PARAMS; f->n_params++)
        f->params[f->n_params] = k->params[f->n_params];
}

int td_gpu_build_function(struct td_gpu_build *b, const char *identifier, int i,
                          const struct td_gpu_function **f, struct td_error *err)
{
    struct named *w = find_name(b, identifier);
    struct td_gpu_function *to;
    void *module;
    int rc;

    if (!w || i < 0 || i >= w->n)
        return td_fail(err, TD_EINVAL, "no such kernel");
    to = &w->functions[i];
    *f = to;
    if (to->handle)
        return TD_OK;
    if ((rc = load_module(b, &w->hits[i], &module, err)) ||
        (rc = b->driver->function(b->device, module, w->offers[i].symbol, to, err)))
        return td_fail_at(err, "%s (%s)", w->identifier, w->hits[i].entry->arch);
    if ((rc = check_params(&w->offers[i], to, err)))
        memset(to, 0, sizeof *to);
    else if (to->n_params < 0)
        take_params(w->hits[i].kernel, to);
    return rc;
}

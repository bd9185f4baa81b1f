/* image_find.c - the kernel that a recording names, in another build: by symbol, by symbol without
 * hashes, by the name in the source. SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpucode/image_find.h"

#include <string.h>

#include "common/buf.h"
#include "kernels/gpucode/hsaco.h"
#include "kernels/gpucode/image_read.h"
#include "kernels/gpucode/mangled.h"
#include "kernels/gpucode/symbol.h"

/* ---- which entry of a container -------------------------------------------------------------- */

/* Specific ones are better at equal numbers: 'a' before 'f' before none. */
static int rank_code(const struct td_gpu_entry *e)
{
    return e->sm * 3 + (e->variant == 'a' ? 2 : e->variant == 'f') + 1;
}

int td_gpu_entry_fits(const struct td_gpu_entry *e, const struct td_gpu_device *device)
{
    if (e->code == TD_GPU_CODE_OTHER || e->relocatable)
        return 0;
    if (device->gfx || e->code == TD_GPU_CODE_HSACO)
        return device->gfx && e->code == TD_GPU_CODE_HSACO && td_hsaco_runs(e->arch, device->gfx) ? (int)strlen(e->arch) : 0;
    if (e->sm > device->sm || (e->variant == 'a' && e->sm != device->sm))
        return 0;
    if ((e->code == TD_GPU_CODE_CUBIN || e->variant == 'f') && e->sm / 10 != device->sm / 10)
        return 0;
    return rank_code(e);
}

/* The best entry of entries [from, to) that is PTX or is not; -1: none. */
static int best_entry_of(const struct td_gpu_image *img, int from, int to, bool ptx, const struct td_gpu_device *device)
{
    int i, best = -1, fit = 0;

    for (i = from; i < to; i++) {
        const struct td_gpu_entry *e = &img->parts[i].e;
        int f = (e->code == TD_GPU_CODE_PTX) == ptx ? td_gpu_entry_fits(e, device) : 0;

        if (f > fit) {
            fit = f;
            best = i;
        }
    }
    return best;
}

/* ---- matching -------------------------------------------------------------------------------- */

struct search {
    struct td_gpu_image *img;
    const struct td_gpu_wanted *want;
    struct td_gpu_hit *hits;
    int max, n;                    /* n hits of quality `match`, and of ptx_only after the others */
    enum td_gpu_match match;
    struct td_error trouble;       /* the first entry that could not be read */
};

static enum td_gpu_match match_symbol(const struct td_gpu_wanted *want, const char *symbol)
{
    if (want->symbol && !strcmp(symbol, want->symbol))
        return TD_GPU_MATCH_EXACT;
    if (want->symbol && td_gpu_symbol_same(symbol, want->symbol))
        return TD_GPU_MATCH_NORMAL;
    return want->identifier && td_gpu_symbol_is(symbol, want->identifier) ? TD_GPU_MATCH_FAMILY : TD_GPU_MATCH_NONE;
}

static void add_hit(struct search *s, const struct td_gpu_part *p, const struct td_gpu_kernel *k, enum td_gpu_match match)
{
    const struct td_gpu_slice *c = &s->img->containers[p->e.container];
    bool object = p->e.code == TD_GPU_CODE_HSACO;

    if (match > s->match) {
        s->match = match;
        s->n = 0;
    }
    if (s->n < s->max)
        s->hits[s->n++] = (struct td_gpu_hit){match, p->e.code == TD_GPU_CODE_PTX, k, &p->e, object ? p->stored.payload : c->data,
                                              object ? p->stored.payload_bytes : c->n};
}

static void search_entry(struct search *s, int i)
{
    const struct td_gpu_kernel_list *list;
    size_t k;

    td_gpu_image_kernels(s->img, i, &list, &s->trouble);
    if (s->img->parts[i].e.relocatable)
        return;
    for (k = 0; k < list->n; k++) {
        enum td_gpu_match m = match_symbol(s->want, list->kernels[k].symbol);

        if (m && m >= s->match)
            add_hit(s, &s->img->parts[i], &list->kernels[k], m);
    }
}

static bool is_search_done(const struct search *s)
{
    return s->max == 1 && s->n && s->match == TD_GPU_MATCH_EXACT;
}

/* One pass over the containers: their programs, or the PTX of those without a program for the device. */
static void search_pass(struct search *s, bool ptx)
{
    const struct td_gpu_image *img = s->img;
    int from, to;

    for (from = 0; from < img->n_parts && !is_search_done(s); from = to) {
        int i;

        for (to = from + 1; to < img->n_parts && img->parts[to].e.container == img->parts[from].e.container; to++)
            ;
        i = best_entry_of(img, from, to, false, &s->want->device);
        if (ptx)
            i = i < 0 ? best_entry_of(img, from, to, true, &s->want->device) : -1;
        if (i >= 0)
            search_entry(s, i);
    }
}

/* ---- when there is none ---------------------------------------------------------------------- */

static const char *wanted_name(const struct td_gpu_wanted *want)
{
    return want->symbol ? want->symbol : want->identifier;
}

static void add_device_name(const struct td_gpu_device *device, struct td_buf *out)
{
    if (device->gfx)
        td_buf_adds(out, device->gfx);
    else
        td_buf_addf(out, "sm_%d", device->sm);
}

/* Names of architectures, each once. */
static void add_arch(struct td_buf *b, const char *arch)
{
    const char *at = b->len ? strstr(b->data, arch) : NULL;
    size_t n = strlen(arch);

    while (at && at[n] && at[n] != ',')
        at = strstr(at + 1, arch);
    if (!at)
        td_buf_addf(b, "%s%s", b->len ? ", " : "", arch);
}

/* Every entry that was not asked yet is read: the search failed, and the sentence should say why. */
static int explain_no_hit(struct search *s, struct td_error *err)
{
    struct td_buf has, device;
    int i, rc;

    td_buf_init(&has, 256);
    td_buf_init(&device, 128);
    add_device_name(&s->want->device, &device);
    for (i = 0; i < s->img->n_parts; i++) {
        const struct td_gpu_kernel_list *list;
        size_t k;

        td_gpu_image_kernels(s->img, i, &list, &s->trouble);
        for (k = 0; k < list->n; k++)
            if (match_symbol(s->want, list->kernels[k].symbol)) {
                add_arch(&has, s->img->parts[i].e.arch);
                break;
            }
    }
    if (has.len)
        rc =
            td_fail(err, TD_EUNSUPPORTED,
                    "%s: has kernel %.200s for %s, none of which runs on %s; build it for that too",
                    s->img->path, wanted_name(s->want), has.data, td_buf_str(&device));
    else if (s->trouble.code)
        rc = td_fail(err, s->trouble.code, "%s (looking for kernel %.200s)", s->trouble.msg, wanted_name(s->want));
    else
        rc =
            td_fail(err, TD_ENOTFOUND,
                    "%s: no kernel %.200s in its %d programs; `{replay} --kernels` lists what it has",
                    s->img->path, wanted_name(s->want), s->img->n_parts);
    td_buf_release(&has);
    td_buf_release(&device);
    return rc;
}

int td_gpu_image_find(struct td_gpu_image *img, const struct td_gpu_wanted *want,
                      struct td_gpu_hit *hits, int max, struct td_error *err)
{
    struct search s = {.img = img, .want = want, .hits = hits, .max = max};

    search_pass(&s, false);
    if (s.match != TD_GPU_MATCH_EXACT)
        search_pass(&s, true);
    return s.n ? s.n : explain_no_hit(&s, err);
}

static bool entry_has(struct td_gpu_image *img, int i, const char *symbol)
{
    const struct td_gpu_entry *e = &img->parts[i].e;
    const struct td_gpu_kernel_list *list;
    size_t k = 0;

    td_gpu_image_kernels(img, i, &list, NULL);
    while (k < list->n && strcmp(list->kernels[k].symbol, symbol))
        k++;
    return k < list->n && e->code != TD_GPU_CODE_HSACO && !e->relocatable;
}

int td_gpu_image_holding(struct td_gpu_image *img, const char *symbol, int from)
{
    int i;

    for (i = 0; i < img->n_parts; i++)
        if (img->parts[i].e.container >= from && entry_has(img, i, symbol))
            return img->parts[i].e.container;
    return -1;
}

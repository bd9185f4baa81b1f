/* links_images.c - the GPU code that the server ran, out of its library into the fixture: a build that is gone can still be run (docs/kernels.md).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Of a library of hundreds of megabytes only the containers that hold a recorded kernel are kept, each once, for all architectures as they lie there. */
#include <string.h>

#include "kernels/gpu/image.h"
#include "recorder/links_parts.h"

#define LARGEST_BYTES ((size_t)64 << 20) /* of one container; vLLM's largest with GEMMs has a few MB */
#define CONTAINERS 64                    /* of one library */

struct kept { int container; cJSON *kernels; };

/* The list of the container's kernels in the fixture's facts; NULL: it cannot be kept. */
static cJSON *keep(struct td_links *l, const struct link *lk, const struct td_gpu_image *img, int container, cJSON *all)
{
    char hex[TD_HASH_HEX];
    struct td_hash hash;
    cJSON *o, *kernels;
    size_t n;
    const void *data = td_gpu_image_container(img, container, &n);

    if (n > LARGEST_BYTES || td_writer_blob(l->opt.writer, data, n, 1, &hash))
        return NULL;
    td_writer_count(l->opt.writer, "images.stored", 1, (int64_t)n);
    td_hash_hex(hash, hex);
    o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "library", lk->library);
    cJSON_AddStringToObject(o, "blob", hex);
    cJSON_AddNumberToObject(o, "bytes", (double)n);
    kernels = cJSON_AddArrayToObject(o, "kernels");
    cJSON_AddItemToArray(all, o);
    return kernels;
}

static void keep_library(struct td_links *l, const struct link *lk, cJSON *all)
{
    struct kept kept[CONTAINERS];
    struct td_gpu_image *img;
    uint32_t i;
    int n = 0;

    if (td_gpu_image_open(lk->library, &img, NULL)) /* of a container, or without code for a GPU */
        return;
    for (i = 0; i < l->n_kernels; i++) {
        int container = l->kernels[i].known ? td_gpu_image_holding(img, l->kernels[i].symbol) : -1, at = 0;

        while (at < n && kept[at].container != container)
            at++;
        if (container < 0 || at == CONTAINERS)
            continue;
        if (at == n)
            kept[n++] = (struct kept){container, keep(l, lk, img, container, all)};
        if (kept[at].kernels)
            cJSON_AddItemToArray(kept[at].kernels, cJSON_CreateString(l->kernels[i].symbol));
    }
    td_gpu_image_close(img);
}

/* Ranks of one server have one library. */
static bool is_first_of_library(const struct td_links *l, int link)
{
    int i = 0;

    while (strcmp(l->link[i].library, l->link[link].library))
        i++;
    return i == link;
}

void links_images_keep(struct td_links *l)
{
    cJSON *all = cJSON_CreateArray();
    int i;

    for (i = 0; l->n_kernels && !l->opt.no_code && i < l->n; i++)
        if (l->link[i].library[0] && is_first_of_library(l, i))
            keep_library(l, &l->link[i], all);
    if (cJSON_GetArraySize(all))
        td_writer_fact(l->opt.writer, "tap", "images", all);
    cJSON_Delete(all);
}

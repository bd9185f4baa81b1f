/* server_images.c - store the GPU code that the server ran (docs/kernels.md).
 * SPDX-License-Identifier: Apache-2.0
 *
 * The file was opened while the server had it mapped, and is read when the recording ends: what is
 * installed over it meanwhile is another file. Of a library of hundreds of megabytes only the
 * containers that hold a recorded kernel are stored, each once, for all architectures as they lie
 * there. The file is read into memory, not mapped: one that is cut short meanwhile must not end a
 * recording of hours. */
#include "recorder/tap_client/server_images.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/gpucode/image_find.h"

#define LARGEST_FILE ((off_t)2 << 30)
#define LARGEST_BYTES ((size_t)64 << 20) /* of one container; vLLM's largest with GEMMs has a few
                                            MB */
#define CONTAINERS 256                   /* of one library */

struct storing {
    struct td_tap_client *c;
    const struct client_tap *tap;
    cJSON *all;                      /* tap.images */
    struct td_error why;             /* the first reason why something was not stored */
};

static void count_dropped(struct storing *k, const char *name, int64_t bytes)
{
    char counter[64];

    snprintf(counter, sizeof counter, "images.dropped.%s", name);
    td_writer_count(k->c->opt.writer, counter, 1, bytes);
}

/* Read all of the library's file, freed by the caller. NULL: the reason is noted. */
static uint8_t *read_library(struct storing *k, size_t *n)
{
    uint8_t *data = NULL;
    struct stat st;
    ssize_t got = 1;
    size_t at = 0;

    if (k->tap->code_fd < 0 || fstat(k->tap->code_fd, &st)) {
        td_fail(&k->why, TD_ENOTFOUND,
                "%s: could not be opened as the file that the server had mapped", k->tap->library);
    } else if (st.st_size > LARGEST_FILE || !(data = malloc((size_t)st.st_size + 1))) {
        td_fail(&k->why, TD_ELIMIT, "%s: %lld bytes are too many to be looked through",
                k->tap->library, (long long)st.st_size);
    } else {
        while (at < (size_t)st.st_size &&
               (got = pread(k->tap->code_fd, data + at, (size_t)st.st_size - at, (off_t)at)) > 0)
            at += (size_t)got;
        if (at == (size_t)st.st_size) {
            *n = at;
            return data;
        }
        td_fail(&k->why, TD_EIO, "%s: cannot be read: %s", k->tap->library,
                got ? strerror(errno) : "it was cut short");
    }
    free(data);
    count_dropped(k, "unreadable", 0);
    return NULL;
}

/* Store one container, and add it to tap.images. Returns its list of kernels there; NULL: it is not
 * stored. */
static cJSON *store_container(struct storing *k, const struct td_gpu_image *img, int container)
{
    char hex[TD_HASH_HEX];
    struct td_hash hash;
    cJSON *o;
    size_t n;
    const void *data = td_gpu_image_container(img, container, &n);

    if (n > LARGEST_BYTES) {
        td_fail(&k->why, TD_ELIMIT, "%s: container %d has %zu bytes", k->tap->library, container,
                n);
        count_dropped(k, "large", (int64_t)n);
        return NULL;
    }
    if (td_writer_blob(k->c->opt.writer, data, n, 1, &hash))
        return NULL; /* the writer's failure ends the recording by itself */
    td_writer_count(k->c->opt.writer, "images.stored", 1, (int64_t)n);
    td_hash_hex(hash, hex);
    o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "library", k->tap->library);
    cJSON_AddStringToObject(o, "blob", hex);
    cJSON_AddNumberToObject(o, "bytes", (double)n);
    cJSON_AddItemToArray(k->all, o);
    return cJSON_AddArrayToObject(o, "kernels");
}

/* Store the containers of every recorded kernel. */
static void store_kernels(struct storing *k, struct td_gpu_image *img)
{
    cJSON *kernels[CONTAINERS] = {NULL}; /* of each container that was looked at */
    bool looked[CONTAINERS] = {false};
    uint32_t i;

    for (i = 0; i < k->c->kernels.n; i++) {
        const char *symbol = k->c->kernels.all[i].symbol;
        int c = k->c->kernels.all[i].known ? td_gpu_image_holding(img, symbol, 0) : -1;

        if (k->c->kernels.all[i].known && c < 0) {
            td_fail(&k->why, TD_ENOTFOUND, "%s has no kernel %.200s", k->tap->library, symbol);
            count_dropped(k, "missing", 0);
        }
        for (; c >= 0; c = td_gpu_image_holding(img, symbol, c + 1)) {
            if (c >= CONTAINERS) {
                td_fail(&k->why, TD_ELIMIT, "%s has more than %d containers", k->tap->library,
                        CONTAINERS);
                count_dropped(k, "many", 0);
                break;
            }
            if (!looked[c])
                kernels[c] = store_container(k, img, c);
            looked[c] = true;
            if (kernels[c])
                cJSON_AddItemToArray(kernels[c], cJSON_CreateString(symbol));
        }
    }
}

static void store_library(struct storing *k)
{
    struct td_gpu_image *img;
    size_t n;
    uint8_t *data = read_library(k, &n);

    if (data && td_gpu_image_memory(data, n, k->tap->library, &img, &k->why)) {
        count_dropped(k, "unreadable", (int64_t)n);
    } else if (data) {
        store_kernels(k, img);
        td_gpu_image_close(img);
    }
    free(data);
}

/* Ranks of one server have the same library: it is stored once. */
static bool is_first_of_library(const struct td_tap_client *c, int process)
{
    int i = 0;

    while (strcmp(c->tap[i].library, c->tap[process].library))
        i++;
    return i == process;
}

/* Was any kernel recorded? */
static bool has_known(const struct td_tap_client *c)
{
    uint32_t i = 0;

    while (i < c->kernels.n && !c->kernels.all[i].known)
        i++;
    return i < c->kernels.n;
}

void client_images_store(struct td_tap_client *c)
{
    struct storing k = {.c = c};
    int i;

    if (!has_known(c))
        return;
    k.all = cJSON_CreateArray();
    if (c->opt.no_code)
        td_fail(&k.why, TD_ENOTFOUND, "recorded with --no-code");
    for (i = 0; i < c->n && !c->opt.no_code; i++) {
        k.tap = &c->tap[i];
        if (is_first_of_library(c, i))
            store_library(&k);
    }
    if (k.all->child)
        td_writer_fact(c->opt.writer, "tap", "images", k.all);
    if (k.why.code)
        td_writer_fact_str(c->opt.writer, "tap", "images_missing", k.why.msg);
    cJSON_Delete(k.all);
}

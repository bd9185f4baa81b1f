/* server_images.c - the GPU code that the server ran, out of its library into the fixture: a build that is gone can still be run (docs/kernels.md).
 * SPDX-License-Identifier: Apache-2.0
 *
 * The file is opened while the server has it mapped, and read when the recording ends: what is installed over it meanwhile is another file. Of a library
 * of hundreds of megabytes only the containers that hold a recorded kernel are kept, each once, for all architectures as they lie there. It is read into
 * memory, not mapped: a file that is cut short meanwhile must not end a recording of hours. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "kernels/gpucode/image.h"
#include "recorder/tap_client/client_state.h"

#define LARGEST_FILE ((off_t)2 << 30)
#define LARGEST_BYTES ((size_t)64 << 20) /* of one container; vLLM's largest with GEMMs has a few MB */
#define CONTAINERS 256                   /* of one library */
#define MAPS_BYTES ((size_t)64 << 20)

/* ---- while the server runs ------------------------------------------------------------------------------------------ */

/* Has the process a mapping of this file? Device numbers of overlays differ between stat and maps, so the inode alone must do. */
static bool is_mapped(pid_t pid, const struct stat *st)
{
    struct td_buf b = TD_BUF_INIT(MAPS_BYTES);
    char path[64];
    const char *line;
    bool found = false;

    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    if (!td_fs_read(path, MAPS_BYTES - 1, &b, NULL))
        for (line = td_buf_str(&b); line && *line && !found; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
            unsigned long long inode = 0;

            found = sscanf(line, "%*s %*s %*s %*s %llu", &inode) == 1 && inode == (unsigned long long)st->st_ino;
        }
    td_buf_release(&b);
    return found;
}

static int open_mapped(pid_t pid, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode) || !is_mapped(pid, &st))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int client_images_open(pid_t pid, const char *library)
{
    char path[TD_PATH_MAX];
    int n = snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, library), fd = -1;

    if (library[0] == '/' && n < (int)sizeof path)
        fd = open_mapped(pid, path);
    return fd < 0 && library[0] == '/' ? open_mapped(pid, library) : fd;
}

/* ---- when the recording ends ---------------------------------------------------------------------------------------- */

struct keeping {
    struct td_tap_client *l;
    const struct client_tap *lk;
    cJSON *all;                      /* tap.images */
    struct td_error why;             /* the first reason why something was not kept */
};

static void drop(struct keeping *k, const char *name, int64_t bytes)
{
    char counter[64];

    snprintf(counter, sizeof counter, "images.dropped.%s", name);
    td_writer_count(k->l->opt.writer, counter, 1, bytes);
}

/* All of the file. NULL: k->why says why. */
static uint8_t *read_library(struct keeping *k, size_t *n)
{
    uint8_t *data = NULL;
    struct stat st;
    ssize_t got = 1;
    size_t at = 0;

    if (k->lk->code_fd < 0 || fstat(k->lk->code_fd, &st)) {
        td_fail(&k->why, TD_ENOTFOUND, "%s: could not be opened as the file that the server had mapped", k->lk->library);
    } else if (st.st_size > LARGEST_FILE || !(data = malloc((size_t)st.st_size + 1))) {
        td_fail(&k->why, TD_ELIMIT, "%s: %lld bytes are too many to be looked through", k->lk->library, (long long)st.st_size);
    } else {
        while (at < (size_t)st.st_size && (got = pread(k->lk->code_fd, data + at, (size_t)st.st_size - at, (off_t)at)) > 0)
            at += (size_t)got;
        if (at == (size_t)st.st_size) {
            *n = at;
            return data;
        }
        td_fail(&k->why, TD_EIO, "%s: cannot be read: %s", k->lk->library, got ? strerror(errno) : "it was cut short");
    }
    free(data);
    drop(k, "unreadable", 0);
    return NULL;
}

/* The list of the container's kernels in tap.images; NULL: it is not kept. */
static cJSON *keep(struct keeping *k, const struct td_gpu_image *img, int container)
{
    char hex[TD_HASH_HEX];
    struct td_hash hash;
    cJSON *o;
    size_t n;
    const void *data = td_gpu_image_container(img, container, &n);

    if (n > LARGEST_BYTES) {
        td_fail(&k->why, TD_ELIMIT, "%s: container %d has %zu bytes", k->lk->library, container, n);
        drop(k, "large", (int64_t)n);
        return NULL;
    }
    if (td_writer_blob(k->l->opt.writer, data, n, 1, &hash))
        return NULL; /* the writer's failure ends the recording by itself */
    td_writer_count(k->l->opt.writer, "images.stored", 1, (int64_t)n);
    td_hash_hex(hash, hex);
    o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "library", k->lk->library);
    cJSON_AddStringToObject(o, "blob", hex);
    cJSON_AddNumberToObject(o, "bytes", (double)n);
    cJSON_AddItemToArray(k->all, o);
    return cJSON_AddArrayToObject(o, "kernels");
}

static void keep_kernels(struct keeping *k, struct td_gpu_image *img)
{
    cJSON *kernels[CONTAINERS] = {NULL}; /* of each container that was looked at */
    bool looked[CONTAINERS] = {false};
    uint32_t i;

    for (i = 0; i < k->l->n_kernels; i++) {
        const char *symbol = k->l->kernels[i].symbol;
        int c = k->l->kernels[i].known ? td_gpu_image_holding(img, symbol, 0) : -1;

        if (k->l->kernels[i].known && c < 0) {
            td_fail(&k->why, TD_ENOTFOUND, "%s has no kernel %.200s", k->lk->library, symbol);
            drop(k, "missing", 0);
        }
        for (; c >= 0; c = td_gpu_image_holding(img, symbol, c + 1)) {
            if (c >= CONTAINERS) {
                td_fail(&k->why, TD_ELIMIT, "%s has more than %d containers", k->lk->library, CONTAINERS);
                drop(k, "many", 0);
                break;
            }
            if (!looked[c])
                kernels[c] = keep(k, img, c);
            looked[c] = true;
            if (kernels[c])
                cJSON_AddItemToArray(kernels[c], cJSON_CreateString(symbol));
        }
    }
}

static void keep_library(struct keeping *k)
{
    struct td_gpu_image *img;
    size_t n;
    uint8_t *data = read_library(k, &n);

    if (data && td_gpu_image_memory(data, n, k->lk->library, &img, &k->why)) {
        drop(k, "unreadable", (int64_t)n);
    } else if (data) {
        keep_kernels(k, img);
        td_gpu_image_close(img);
    }
    free(data);
}

/* Ranks of one server have one library. */
static bool is_first_of_library(const struct td_tap_client *l, int link)
{
    int i = 0;

    while (strcmp(l->link[i].library, l->link[link].library))
        i++;
    return i == link;
}

static bool has_known(const struct td_tap_client *l)
{
    uint32_t i = 0;

    while (i < l->n_kernels && !l->kernels[i].known)
        i++;
    return i < l->n_kernels;
}

void client_images_keep(struct td_tap_client *l)
{
    struct keeping k = {.l = l};
    int i;

    if (!has_known(l))
        return;
    k.all = cJSON_CreateArray();
    if (l->opt.no_code)
        td_fail(&k.why, TD_ENOTFOUND, "recorded with --no-code");
    for (i = 0; i < l->n && !l->opt.no_code; i++) {
        k.lk = &l->link[i];
        if (is_first_of_library(l, i))
            keep_library(&k);
    }
    if (k.all->child)
        td_writer_fact(l->opt.writer, "tap", "images", k.all);
    if (k.why.code)
        td_writer_fact_str(l->opt.writer, "tap", "images_missing", k.why.msg);
    cJSON_Delete(k.all);
}

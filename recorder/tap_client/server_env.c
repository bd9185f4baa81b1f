/* server_env.c - the environment that puts the tap into a server.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A program that was built with a sanitizer ends at once when another library is loaded before the
 * sanitizer's own; so does a plain program with a sanitized tap. The library that either needs is
 * read from its ELF headers, and put first in LD_PRELOAD. */
#include "recorder/tap_client/server_env.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "recorder/tap_client/find_taps.h"

#define TAP_LIBRARY "libtapedeck-tap.so"
#define PRELOAD_MAX 16384
#define SCRIPT_DEPTH 4                 /* scripts that run scripts */

/* ---- ELF ------------------------------------------------------------------------------------- */

struct image { const uint8_t *data; size_t n; };

static bool map_file(const char *path, struct image *im)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *p = MAP_FAILED;

    if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0)
        p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (fd >= 0)
        close(fd);
    if (p == MAP_FAILED)
        return false;
    *im = (struct image){p, (size_t)st.st_size};
    return true;
}

/* Copy n bytes at an offset. False: they do not lie within the file. */
static bool image_get(const struct image *im, uint64_t at, void *to, size_t n)
{
    if (at > im->n || n > im->n - at)
        return false;
    memcpy(to, im->data + at, n);
    return true;
}

static bool elf_header(const struct image *im, Elf64_Ehdr *h)
{
    return image_get(im, 0, h, sizeof *h) && !memcmp(h->e_ident, ELFMAG, SELFMAG) &&
           h->e_ident[EI_CLASS] == ELFCLASS64;
}

/* Find a segment of a type; of PT_LOAD the one that holds vaddr. */
static bool elf_segment(const struct image *im, const Elf64_Ehdr *h, uint32_t type, uint64_t vaddr,
                        Elf64_Phdr *out)
{
    int i;

    for (i = 0; i < h->e_phnum; i++)
        if (image_get(im, h->e_phoff + (uint64_t)i * sizeof *out, out, sizeof *out) &&
            out->p_type == type &&
            (type != PT_LOAD || (vaddr >= out->p_vaddr && vaddr - out->p_vaddr < out->p_filesz)))
            return true;
    return false;
}

static bool is_sanitizer(const char *name)
{
    static const char *const known[] = {"libasan.so", "libtsan.so", "libclang_rt.asan",
                                        "libclang_rt.tsan"};
    size_t i;

    for (i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(name, known[i], strlen(known[i])))
            return true;
    return false;
}

/* Find the sanitizer's library that an ELF file needs, "libasan.so.8"; "": none. */
static void needed_sanitizer(const struct image *im, const Elf64_Ehdr *h, char *out, size_t max)
{
    Elf64_Phdr dynamic, load;
    Elf64_Dyn d;
    uint64_t at, strings = 0;

    out[0] = '\0';
    if (!elf_segment(im, h, PT_DYNAMIC, 0, &dynamic))
        return;
    for (at = 0; at + sizeof d <= dynamic.p_filesz &&
                 image_get(im, dynamic.p_offset + at, &d, sizeof d) && d.d_tag != DT_NULL;
         at += sizeof d)
        if (d.d_tag == DT_STRTAB && elf_segment(im, h, PT_LOAD, d.d_un.d_ptr, &load))
            strings = d.d_un.d_ptr - load.p_vaddr + load.p_offset;
    for (at = 0; strings && at + sizeof d <= dynamic.p_filesz &&
                 image_get(im, dynamic.p_offset + at, &d, sizeof d) && d.d_tag != DT_NULL;
         at += sizeof d) {
        uint64_t name = strings + d.d_un.d_val;

        if (d.d_tag == DT_NEEDED && name < im->n && memchr(im->data + name, 0, im->n - name) &&
            is_sanitizer((const char *)im->data + name))
            snprintf(out, max, "%s", (const char *)im->data + name);
    }
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Look a program up in PATH, unless its name holds a slash. */
static bool find_in_path(const char *program, char *out, size_t n)
{
    const char *path = getenv("PATH"), *p = path ? path : "/usr/bin:/bin";

    if (strchr(program, '/'))
        return snprintf(out, n, "%s", program) < (int)n;
    while (*p) {
        size_t len = strcspn(p, ":");

        if (snprintf(out, n, "%.*s/%s", (int)len, p, program) < (int)n && !access(out, X_OK))
            return true;
        p += len + (p[len] == ':');
    }
    return false;
}

/* Find the program that runs a script, "#!/usr/bin/env python3". False: the file is no script. */
static bool find_interpreter(const struct image *im, char *out, size_t n)
{
    char line[TD_PATH_MAX], *word, *save = NULL;
    size_t len = im->n < sizeof line - 1 ? im->n : sizeof line - 1;

    if (len < 3 || memcmp(im->data, "#!", 2))
        return false;
    memcpy(line, im->data + 2, len - 2);
    line[len - 2] = '\0';
    line[strcspn(line, "\n")] = '\0';
    word = strtok_r(line, " \t", &save);
    if (word && strlen(word) >= 4 && !strcmp(word + strlen(word) - 4, "/env"))
        do
            word = strtok_r(NULL, " \t", &save);
        while (word && (word[0] == '-' || strchr(word, '=')));
    return word && find_in_path(word, out, n);
}

/* Find the sanitizer's library that must stand before the tap for this program; "": none, or the
 * program is unknown. */
static int find_program_sanitizer(const char *program, char *out, size_t max, struct td_error *err)
{
    char path[TD_PATH_MAX], next[TD_PATH_MAX];
    int depth, rc = TD_OK;

    out[0] = '\0';
    if (!program || !find_in_path(program, path, sizeof path))
        return TD_OK;
    for (depth = 0; depth < SCRIPT_DEPTH; depth++) {
        struct image im;
        Elf64_Ehdr h;
        Elf64_Phdr p;
        bool script = false;

        if (!map_file(path, &im))
            break;
        if (elf_header(&im, &h)) {
            needed_sanitizer(&im, &h, out, max);
            if (!elf_segment(&im, &h, PT_INTERP, 0, &p))
                rc = td_fail(err, TD_EUNSUPPORTED,
                             "%s is linked statically: no library can be preloaded into it", path);
        } else {
            script = find_interpreter(&im, next, sizeof next);
        }
        munmap((void *)im.data, im.n);
        if (!script)
            break;
        memcpy(path, next, sizeof path);
    }
    return rc;
}

/* ---- the variables --------------------------------------------------------------------------- */

/* The absolute path of the tap. */
static int find_tap_library(char out[TD_PATH_MAX], struct td_error *err)
{
    const char *set = getenv("TD_TAP_LIBRARY");
    char dir[TD_PATH_MAX - 64], guess[TD_PATH_MAX];

    if (set && *set) {
        snprintf(guess, sizeof guess, "%s", set);
    } else {
        int rc = td_fs_self_dir(dir, sizeof dir, err);

        if (rc)
            return rc;
        snprintf(guess, sizeof guess, "%s/../lib/%s", dir, TAP_LIBRARY);
    }
    if (!realpath(guess, out))
        return td_fail(err, TD_ENOTFOUND,
                       "%s: %s; build it with `make`, or name it in TD_TAP_LIBRARY", guess,
                       strerror(errno));
    if (strpbrk(out, ": \t"))
        return td_fail(err, TD_EUNSUPPORTED,
                       "%s: LD_PRELOAD cannot hold a path with a blank or a colon; put the tap "
                       "elsewhere and name it in TD_TAP_LIBRARY",
                       out);
    return TD_OK;
}

/* The value of LD_PRELOAD. */
static int make_preload(const char *program, struct td_buf *out, struct td_error *err)
{
    char tap[TD_PATH_MAX], first[64], own[64] = "";
    const char *have = getenv("LD_PRELOAD");
    struct image im;
    Elf64_Ehdr h;
    int rc = find_tap_library(tap, err);

    if (!rc)
        rc = find_program_sanitizer(program, first, sizeof first, err);
    if (rc)
        return rc;
    if (map_file(tap, &im)) {
        if (elf_header(&im, &h))
            needed_sanitizer(&im, &h, own, sizeof own);
        munmap((void *)im.data, im.n);
    }
    if (first[0] || own[0])
        td_buf_addf(out, "%s:", first[0] ? first : own);
    td_buf_adds(out, tap);
    if (have && *have && strcmp(have, tap))
        td_buf_addf(out, ":%s", have);
    return out->failed ? td_fail(err, TD_ELIMIT, "LD_PRELOAD is too long") : TD_OK;
}

int td_tap_client_env_make(const char *program, struct td_tap_client_env *out, struct td_error *err)
{
    struct td_buf value = TD_BUF_INIT(PRELOAD_MAX);
    char dir[CLIENT_SOCKET_PATH], tap[TD_PATH_MAX];
    int rc;

    memset(out, 0, sizeof *out);
    rc = make_preload(program, &value, err);
    if (!rc)
        rc = client_socket_dir(dir, sizeof dir, err);
    if (!rc)
        rc = find_tap_library(tap, err);
    if (!rc && (asprintf(&out->vars[0], "LD_PRELOAD=%s", td_buf_str(&value)) < 0 ||
                asprintf(&out->vars[1], "TD_TAP_DIR=%s", dir) < 0 ||
                asprintf(&out->vars[2], "CUDA_INJECTION64_PATH=%s", tap) < 0))
        rc = td_fail(err, TD_ENOMEM, "out of memory");
    td_buf_release(&value);
    if (rc)
        td_tap_client_env_release(out);
    return rc;
}

int td_tap_client_env_graphs(struct td_tap_client_env *env, int64_t mib, struct td_error *err)
{
    size_t i = 0;

    while (env->vars[i])
        i++;
    if (!mib || asprintf(&env->vars[i], "TD_TAP_GRAPHS=%lld", (long long)mib) >= 0)
        return TD_OK;
    env->vars[i] = NULL;
    return td_fail(err, TD_ENOMEM, "out of memory");
}

void td_tap_client_env_release(struct td_tap_client_env *env)
{
    size_t i;

    for (i = 0; i < sizeof env->vars / sizeof *env->vars; i++)
        free(env->vars[i]);
    memset(env, 0, sizeof *env);
}

int td_tap_client_env_print(int64_t graphs_mib, struct td_buf *out, struct td_error *err)
{
    struct td_tap_client_env env;
    int rc = td_tap_client_env_make(NULL, &env, err), i;
    const char *p;

    if (!rc)
        rc = td_tap_client_env_graphs(&env, graphs_mib, err);
    for (i = 0; !rc && env.vars[i]; i++) {
        td_buf_addf(out, "export %.*s='", (int)strcspn(env.vars[i], "="), env.vars[i]);
        for (p = strchr(env.vars[i], '=') + 1; *p; p++)
            if (*p == '\'')
                td_buf_adds(out, "'\\''");
            else
                td_buf_addc(out, *p);
        td_buf_adds(out, "'\n");
    }
    td_tap_client_env_release(&env);
    return rc || !out->failed ? rc : td_fail(err, TD_ELIMIT, "the environment is too long");
}

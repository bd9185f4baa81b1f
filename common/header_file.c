/* header_file.c - headers that are not on the command line, where everybody can see them: -H @FILE.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/header_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fs.h"

#define DESCRIPTOR "/dev/fd/"

/* What was read: the headers of a list point into it. */
static struct kept { struct kept *next; char text[]; } *kept;

static int open_named(const char *name)
{
    const size_t n = sizeof DESCRIPTOR - 1;
    char *end;
    long fd;

    if (strncmp(name, DESCRIPTOR, n) || !name[n])
        return open(name, O_RDONLY | O_NOCTTY | O_CLOEXEC);
    fd = strtol(name + n, &end, 10);
    if (*end || fd < 0 || fd > 1 << 20) {
        errno = EBADF;
        return -1;
    }
    return (int)fd;
}

/* The whole of it, with a NUL behind. NULL: err says why. */
static char *read_all(const char *name, struct td_error *err)
{
    int fd = open_named(name);
    struct kept *k = fd >= 0 ? malloc(sizeof *k + TD_HEADER_FILE_MAX + 2) : NULL;
    char *text = k ? k->text : NULL;
    size_t len = 0;
    ssize_t n = 0;

    while (text && len <= TD_HEADER_FILE_MAX &&
           ((n = read(fd, text + len, TD_HEADER_FILE_MAX + 1 - len)) > 0 || (n < 0 && errno == EINTR)))
        len += n > 0 ? (size_t)n : 0;
    if (!text || n < 0)
        td_fail(err, TD_EINVAL, "--header @%s: %s", name, strerror(errno));
    else if (len > TD_HEADER_FILE_MAX)
        td_fail(err, TD_EINVAL, "--header @%s: longer than %zu KiB", name, TD_HEADER_FILE_MAX >> 10);
    else
        text[len] = '\0';
    if (fd >= 0)
        close(fd);
    if (!k || n < 0 || len > TD_HEADER_FILE_MAX) {
        free(k);
        return NULL;
    }
    k->next = kept;
    kept = k;
    return text;
}

static int add(struct td_arg_list *list, const char *header, struct td_error *err)
{
    if (list->n == TD_ARG_LIST_MAX)
        return td_fail(err, TD_EINVAL, "--header: more than %d", TD_ARG_LIST_MAX);
    list->item[list->n++] = header;
    return TD_OK;
}

static int add_file(struct td_arg_list *list, const char *name, struct td_error *err)
{
    char *text = read_all(name, err), *line, *rest = NULL;
    int rc = text ? TD_OK : TD_EINVAL;

    for (line = text ? strtok_r(text, "\r\n", &rest) : NULL; line && !rc; line = strtok_r(NULL, "\r\n", &rest))
        rc = add(list, line, err);
    return rc;
}

int td_header_file_expand(struct td_arg_list *headers, struct td_error *err)
{
    const struct td_arg_list given = *headers;
    int i, rc = TD_OK;

    headers->n = 0;
    for (i = 0; i < given.n && !rc; i++)
        rc = given.item[i][0] == '@' ? add_file(headers, given.item[i] + 1, err)
                                     : add(headers, given.item[i], err);
    return rc;
}

int td_header_file_make(const struct td_arg_list *headers, struct td_error *err)
{
    int fd = memfd_create("tapedeck-headers", MFD_CLOEXEC), i, rc = TD_OK;

    if (fd < 0)
        return td_fail(err, TD_EIO, "no memory for the headers: %s", strerror(errno));
    for (i = 0; i < headers->n && !rc; i++) {
        rc = td_fs_write_all(fd, headers->item[i], strlen(headers->item[i]), "headers", err);
        if (!rc)
            rc = td_fs_write_all(fd, "\n", 1, "headers", err);
    }
    if (!rc && lseek(fd, 0, SEEK_SET) < 0)
        rc = td_fail(err, TD_EIO, "headers: %s", strerror(errno));
    if (rc)
        close(fd);
    return rc ? TD_EIO : fd;
}

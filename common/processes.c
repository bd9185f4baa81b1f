/* processes.c - the processes of this machine, and those of a server.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define LISTENING 0x0a /* "st" of /proc/net/tcp */

/* ---- all ------------------------------------------------------------------------------------- */

/* Read "71 (a name) S 1 ...". A process that is gone keeps a parent of -1. */
static void read_stat(const char *proc, struct td_process *p)
{
    unsigned long long user = 0, system = 0;
    long long user_ended = 0, system_ended = 0; /* of children */
    char path[320], text[1024], *name, *end;
    size_t n;
    FILE *f;

    p->parent = -1;
    snprintf(path, sizeof path, "%.256s/%d/stat", proc, (int)p->pid);
    f = fopen(path, "re");
    if (!f)
        return;
    n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    name = strchr(text, '(');
    end = strrchr(text, ')'); /* the name may hold anything */
    if (!name || !end || end < name || sscanf(end, ") %*c %d", &p->parent) != 1)
        return;
    snprintf(p->name, sizeof p->name, "%.*s", (int)(end - name - 1), name + 1);
    if (sscanf(end, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld", &user, &system, &user_ended, &system_ended) == 4)
        p->ticks = user + system + (uint64_t)(user_ended + system_ended);
}

struct td_process *td_processes_list(const char *proc, size_t *n)
{
    struct td_process *all = NULL, *more;
    DIR *d = opendir(proc);
    struct dirent *e;

    *n = 0;
    while (d && (e = readdir(d)) && *n <= TD_PROCESSES_MAX) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        if (*n % 256 == 0) {
            more = realloc(all, (*n + 256) * sizeof *all);
            if (!more)
                break;
            all = more;
        }
        all[*n] = (struct td_process){.pid = atoi(e->d_name)};
        read_stat(proc, &all[(*n)++]);
    }
    if (d)
        closedir(d);
    return all;
}

void td_processes_mark_descendants(struct td_process *all, size_t n)
{
    bool grew = true;
    size_t i, j;

    while (grew) {
        grew = false;
        for (i = 0; i < n; i++)
            for (j = 0; j < n && !all[i].in; j++)
                if (all[j].in && all[i].parent == all[j].pid)
                    all[i].in = grew = true;
    }
}

/* ---- port -> sockets' inodes -> processes ---------------------------------------------------- */

/* Append the inodes of the sockets that listen on a port, of one table of the kernel. Returns how many there are then;
 * TD_LISTENERS_MAX + 1: there are more than inode has room for. */
static int listening_inodes(const char *proc, const char *table, int port, unsigned long *inode, int n)
{
    char path[320], line[512];
    FILE *f;

    snprintf(path, sizeof path, "%.256s/net/%s", proc, table);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f) && n <= TD_LISTENERS_MAX) {
        unsigned local, status;
        unsigned long i;

        if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu", &local, &status, &i) == 3 &&
            status == LISTENING && (int)local == port && ++n <= TD_LISTENERS_MAX)
            inode[n - 1] = i;
    }
    if (f)
        fclose(f);
    return n;
}

/* Has the process one of these sockets open? *denied is set when we may not look. */
static bool has_socket(const char *proc, pid_t pid, const unsigned long *inode, int n, bool *denied)
{
    char path[320], to[64], want[64];
    struct dirent *e;
    bool found = false;
    DIR *d;

    snprintf(path, sizeof path, "%.256s/%d/fd", proc, (int)pid);
    d = opendir(path);
    *denied |= !d && errno == EACCES;
    while (d && !found && (e = readdir(d))) {
        ssize_t k = readlinkat(dirfd(d), e->d_name, to, sizeof to - 1);
        int i;

        if (k < 0)
            continue;
        to[k] = '\0';
        for (i = 0; i < n; i++) {
            snprintf(want, sizeof want, "socket:[%lu]", inode[i]);
            found |= !strcmp(to, want);
        }
    }
    if (d)
        closedir(d);
    return found;
}

enum td_listener td_processes_mark_port(const char *proc, struct td_process *all, size_t n_all, int port)
{
    unsigned long inode[TD_LISTENERS_MAX];
    int n = listening_inodes(proc, "tcp6", port, inode, listening_inodes(proc, "tcp", port, inode, 0));
    bool denied = false, any = false;
    size_t i;

    if (!n)
        return TD_LISTENER_NONE;
    if (n > TD_LISTENERS_MAX)
        return TD_LISTENER_TOO_MANY;
    for (i = 0; i < n_all; i++)
        if (has_socket(proc, all[i].pid, inode, n, &denied))
            any = all[i].in = true;
    return any ? TD_LISTENER_FOUND : denied ? TD_LISTENER_DENIED : TD_LISTENER_HIDDEN;
}

int td_local_port(const char *url)
{
    bool https = !strncmp(url, "https", 5);
    char host[256], mine[256] = "", *end;
    const char *at = strstr(url, "://"), *colon;
    int port = https ? 443 : 80;

    at = at ? at + 3 : url;
    snprintf(host, sizeof host, "%.*s", (int)strcspn(at, "/"), at);
    end = *host == '[' ? strchr(host, ']') : host;
    colon = end ? strchr(end, ':') : NULL;
    if (colon) {
        port = atoi(colon + 1);
        host[colon - host] = '\0';
    }
    gethostname(mine, sizeof mine - 1);
    return !strcasecmp(host, "localhost") || !strncmp(host, "127.", 4) || !strcmp(host, "[::1]") || !strcasecmp(host, mine) ? port : 0;
}

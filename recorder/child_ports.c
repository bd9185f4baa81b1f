/* child_ports.c - the TCP ports on which the processes of a group listen.
 * SPDX-License-Identifier: Apache-2.0
 *
 * /proc/net/tcp has port and inode of each socket, /proc/PID/fd the inodes that a process holds. */
#include "recorder/child_ports.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_LISTENERS 1024
#define LISTENING 0x0A /* "st" of /proc/net/tcp */

struct listeners {
    struct { unsigned long long inode; int port; } at[MAX_LISTENERS];
    size_t n;
};

static void read_table(const char *path, struct listeners *l)
{
    FILE *f = fopen(path, "r");
    char line[512];

    while (f && fgets(line, sizeof line, f)) {
        unsigned port, state;
        unsigned long long inode;

        /* "  0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 12345" */
        if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %llu",
                   &port, &state, &inode) != 3 || state != LISTENING)
            continue;
        if (l->n < MAX_LISTENERS) {
            l->at[l->n].inode = inode;
            l->at[l->n++].port = (int)port;
        }
    }
    if (f)
        fclose(f);
}

static bool is_in_group(const char *pid, pid_t group)
{
    char path[64], text[512];
    const char *behind_name;
    int of = -1;
    size_t n;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    f = fopen(path, "r");
    if (!f)
        return false;
    n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    behind_name = strrchr(text, ')'); /* the name may hold anything */
    return behind_name && sscanf(behind_name + 1, " %*c %*d %d", &of) == 1 && of == group;
}

static bool has_port(const int *ports, size_t n, int port)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (ports[i] == port)
            return true;
    return false;
}

/* Append the ports of the listening sockets that this process holds. Returns how many there are
 * now. */
static size_t add_ports_of(const char *pid, const struct listeners *l, int *ports, size_t n,
                           size_t max)
{
    char path[64], target[64];
    struct dirent *e;
    DIR *d;

    snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    d = opendir(path);
    while (d && (e = readdir(d))) {
        ssize_t len = readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);
        unsigned long long inode;
        size_t i;

        target[len > 0 ? len : 0] = '\0';
        if (sscanf(target, "socket:[%llu]", &inode) != 1)
            continue;
        for (i = 0; i < l->n; i++)
            if (l->at[i].inode == inode && n < max && !has_port(ports, n, l->at[i].port))
                ports[n++] = l->at[i].port;
    }
    if (d)
        closedir(d);
    return n;
}

size_t td_child_ports(pid_t group, int *ports, size_t max)
{
    struct listeners *l = calloc(1, sizeof *l);
    DIR *proc = l ? opendir("/proc") : NULL;
    struct dirent *e;
    size_t n = 0;

    if (proc) {
        read_table("/proc/net/tcp", l);
        read_table("/proc/net/tcp6", l);
    }
    while (proc && (e = readdir(proc)))
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && is_in_group(e->d_name, group))
            n = add_ports_of(e->d_name, l, ports, n, max);
    if (proc)
        closedir(proc);
    free(l);
    return n;
}

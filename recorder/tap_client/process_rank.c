/* process_rank.c - which rank of a tensor-parallel server a process is.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each rank is a process with a slice of every layer on its own GPU. vLLM's workers have it in
 * their titles, "VLLM::Worker_TP1" (0.9 and later, v1/executor/multiproc_executor.py and utils:
 * setproctitle, only where there are several); torchrun's have it in their environment as RANK. */
#include "recorder/tap_client/process_rank.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/tap_client/client_text.h"
#include "recorder/tap_client/proc_files.h"

#define RANK_MAX 65535

/* The number at s, if the text ends behind it or goes on with a letter of `more`; -1: not. */
static int number_at(const char *s, const char *more)
{
    char *end;
    long n = strtol(s, &end, 10);

    return isdigit((unsigned char)*s) && n <= RANK_MAX && (!*end || strchr(more, *end)) ? (int)n
                                                                                        : -1;
}

static int rank_in_title(const char *title)
{
    const char *at = strstr(title, "Worker");

    at = at ? strstr(at, "_TP") : NULL;
    return at ? number_at(at + 3, "_ ") : -1;
}

static int rank_in_environment(const char *env, size_t n)
{
    size_t at;

    for (at = 0; at < n; at += strlen(env + at) + 1)
        if (!strncmp(env + at, "RANK=", 5))
            return number_at(env + at + 5, "");
    return -1;
}

int client_process_rank(pid_t pid, char *title, size_t title_bytes)
{
    struct td_buf b = TD_BUF_INIT(4u << 20);
    const char *line = pid > 0 && client_read_proc(pid, "cmdline", &b) ? td_buf_str(&b) : "";
    int rank;

    title[0] = '\0';
    /* a title that was set, not a path */
    if (strstr(line, "::") && client_is_text(line, strlen(line) + 1, false))
        snprintf(title, title_bytes, "%s", line);
    rank = rank_in_title(title);
    if (rank < 0 && pid > 0 && client_read_proc(pid, "environ", &b))
        rank = rank_in_environment(td_buf_str(&b), b.len);
    td_buf_release(&b);
    return rank;
}

/* process_model.c - the model that the command line of a process names.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/process_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/fs.h"
#include "recorder/tap_client/proc_files.h"

/* Resolve a path as the process means it: the folder of a config.json, or a GGUF file. False: it is
 * neither. */
static bool resolve_model(pid_t pid, const char *value, char *out, size_t n)
{
    char path[TD_PATH_MAX], real[TD_PATH_MAX], cwd[64] = "";
    size_t len = strlen(value);
    char *slash;

    if (value[0] != '/')
        snprintf(cwd, sizeof cwd, "/proc/%d/cwd/", (int)pid);
    if (snprintf(path, sizeof path, "%s%s/config.json", cwd, value) >= (int)sizeof path)
        return false;
    if (realpath(path, real) && (slash = strrchr(real, '/'))) {
        *slash = '\0';
        return snprintf(out, n, "%s", real) < (int)n;
    }
    path[strlen(path) - strlen("/config.json")] = '\0';
    return len > 5 && !strcasecmp(value + len - 5, ".gguf") && realpath(path, real) &&
           snprintf(out, n, "%s", real) < (int)n;
}

bool client_process_model(pid_t pid, char *out, size_t n)
{
    struct td_buf b = TD_BUF_INIT(1u << 20);
    bool found = false, next = false;
    size_t at;

    if (client_read_proc(pid, "cmdline", &b))
        for (at = 0; at < b.len && !found; at += strlen(b.data + at) + 1) {
            const char *arg = b.data + at, *value = next ? arg : NULL;

            if (!strncmp(arg, "--model=", 8))
                value = arg + 8;
            /* "vllm serve DIR" */
            next = !strcmp(arg, "--model") || !strcmp(arg, "-m") || !strcmp(arg, "serve");
            found = value && resolve_model(pid, value, out, n);
        }
    td_buf_release(&b);
    return found;
}

/* ptx_cache.c - a folder for the driver's cache of compiled PTX.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpu/ptx_cache.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"

static const char *env_value(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* Is this a folder of the user that can be written? It is made where it is missing. A folder of somebody
 * else, or one that others may write (in /tmp), could hold code that is not what was compiled. */
static bool is_ours(const char *path)
{
    struct td_error err = {0};
    struct stat st;

    return !td_fs_mkdirs(path, &err) && !lstat(path, &st) && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)) &&
           !access(path, W_OK | X_OK);
}

/* Can the driver write its default folder in the home? Links and shared homes are the user's choice. */
static bool home_can_be_written(void)
{
    const char *home = env_value("HOME");
    struct td_error err = {0};
    char path[PATH_MAX];

    if (!home || snprintf(path, sizeof path, "%s/.nv/ComputeCache", home) >= (int)sizeof path)
        return false;
    return !td_fs_mkdirs(path, &err) && !access(path, W_OK | X_OK);
}

static bool set_cache_folder(const char *parent, const char *name)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/%s", parent, name) >= (int)sizeof path || !is_ours(path))
        return false;
    if (snprintf(path, sizeof path, "%s/%s/cuda", parent, name) >= (int)sizeof path || !is_ours(path))
        return false;
    return !setenv("CUDA_CACHE_PATH", path, 1);
}

void td_gpu_ptx_cache_open(char *off, size_t size)
{
    const char *disabled = env_value("CUDA_CACHE_DISABLE"), *cache = env_value("XDG_CACHE_HOME");
    char name[48];

    off[0] = '\0';
    snprintf(name, sizeof name, "tapedeck-%u", (unsigned)geteuid());
    if (disabled && strcmp(disabled, "0"))
        snprintf(off, size, "CUDA_CACHE_DISABLE is set");
    else if (!env_value("CUDA_CACHE_PATH") && !home_can_be_written() &&
             !(cache && set_cache_folder(cache, "tapedeck")) && !set_cache_folder("/tmp", name))
        snprintf(off, size, "there is no folder for the driver's cache; CUDA_CACHE_PATH names one");
}

/* open_files.c - this machine's limit of open files, which many requests in flight may meet.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/open_files.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>

int td_open_files_ensure(int64_t streams, struct td_error *err)
{
    const rlim_t need = (rlim_t)streams + TD_OPEN_FILES_OWN;
    struct rlimit limit;
    rlim_t soft;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= need)
        return TD_OK;
    soft = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max >= need ? need : limit.rlim_max;
    if (limit.rlim_max >= need && !setrlimit(RLIMIT_NOFILE, &limit))
        return TD_OK;
    return td_fail(err, TD_EINVAL,
                   "%lld requests at once need %llu open files, and this machine allows %llu here "
                   "(ulimit -n; %llu at most, ulimit -Hn); raise that first: sudo prlimit --pid $$ "
                   "--nofile=%llu; or have fewer requests at once",
                   (long long)streams, (unsigned long long)need, (unsigned long long)soft,
                   (unsigned long long)limit.rlim_max, (unsigned long long)need);
}

int64_t td_open_files_room(int64_t most)
{
    const rlim_t need = (rlim_t)most + TD_OPEN_FILES_OWN;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= need)
        return most;
    limit.rlim_cur = limit.rlim_max >= need ? need : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= need)
        return most;
    return limit.rlim_cur > TD_OPEN_FILES_OWN + 1 ? (int64_t)limit.rlim_cur - TD_OPEN_FILES_OWN : 1;
}

const char *td_open_files_explain(int why, int64_t streams, char *out, size_t n)
{
    struct rlimit limit = {0};

    *out = '\0';
    getrlimit(RLIMIT_NOFILE, &limit);
    if (why == EMFILE)
        snprintf(out, n,
                 "this machine's limit of open files is reached (ulimit -n: %llu), not the "
                 "server's; %lld requests at once need %lld: ulimit -n %lld",
                 (unsigned long long)limit.rlim_cur, (long long)streams,
                 (long long)streams + TD_OPEN_FILES_OWN, (long long)streams + TD_OPEN_FILES_OWN);
    else if (why == ENFILE)
        snprintf(out, n, "this machine has no open files left for anybody (sysctl fs.file-max)");
    return out;
}

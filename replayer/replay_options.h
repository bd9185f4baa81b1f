/* replay_options.h - what the user of `replay` asked for.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_REPLAY_OPTIONS_H
#define TD_REPLAYER_REPLAY_OPTIONS_H

#include <signal.h>

#include "common/args.h"

struct td_shard { int64_t index, of; };  /* 1-based: 2/8 takes what has number % 8 == 1; {1, 1}: everything */

struct td_replay_options {
    const char *output;                  /* NULL: a new name */
    const char *server;                  /* NULL: none named */
    const char *api;                     /* dialect, NULL: found out */
    const char *build, *baseline_build;  /* paths (build.h), NULL: none */
    struct td_arg_list build_env, baseline_env; /* "NAME=value" for the builds' processes; checked, shorter than the list */
    const char *provider;                /* NULL: what the build is, or cpu without one */
    const char *checkpoint;              /* where the checkpoint lies now, NULL: where the fixture says */
    double speed;                        /* of requests: 1 recorded times, 0 as soon as possible, N times faster */
    int64_t repeat;                      /* of requests: 0 as recorded */
    int64_t op_repeat, max_ops;          /* max_ops 0: no maximum */
    struct td_arg_list only;             /* patterns of layers and kinds */
    struct td_arg_list headers;
    struct td_shard shard;
    bool guard;
    bool scores;                         /* have the server score the recorded answers, where the recording has scores */
    double deadline_s;                   /* of one stage of an op's run */
    double timeout_s;                    /* of one request; 0: none */
    bool what_named;                     /* server, build or provider was named: only what is named is replayed */
    const volatile sig_atomic_t *stop;   /* set by SIGINT and SIGTERM */
};

/* "2/8". TD_EINVAL. */
int td_shard_parse(const char *text, struct td_shard *out, struct td_error *err);
bool td_shard_takes(const struct td_shard *s, int64_t number);
/* "recorded", "asap", "x4", "x0.5" -> 1, 0, 4, 0.5. TD_EINVAL. */
int td_timing_parse(const char *text, double *speed, struct td_error *err);

#endif

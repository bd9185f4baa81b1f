/* replay_options.h - what the user of `replay` asked for.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_REPLAY_OPTIONS_H
#define TD_REPLAYER_REPLAY_OPTIONS_H

#include <signal.h>
#include <sys/types.h>

#include "common/args.h"
#include "common/turns.h"
#include "replayer/reference_choice.h"

/* One part of several: 2/8 has the numbers with number % 8 == 1; {1, 1} has all of them. */
struct td_shard { int64_t index, of; };

struct td_replay_options {
    const char *output;                  /* NULL: a new name */
    const char *server;                  /* NULL: none named */
    const char *served_as;               /* the server's name for the recorded model; NULL: the same */
    int64_t wait;                        /* for a server that is not up yet: 0: no; TD_ARG_ALONE: as
                                            long as timeout_s; seconds */
    const char *api;                     /* dialect, NULL: to be detected */
    const char *build, *baseline_build;  /* paths, NULL: none */
    const char *as;                      /* the operator that --build runs; NULL: the recorded one */
    struct td_arg_list build_env, baseline_env; /* "NAME=value", set for the builds' processes */
    const char *ops;                     /* --ops FILE; NULL: none */
    char *ops_variable;                  /* what it says (own_json.h); NULL: nothing */
    const char *provider;                /* NULL: detected; cpu without a build */
    const char *checkpoint;              /* where the checkpoint lies now, NULL: where the fixture says */
    double speed;                        /* of requests: 1 recorded times, 0 as soon as possible, N times faster;
                                            TD_PLAN_AS_SENT (wire/send_plan.h) */
    const char *connections;             /* "as-recorded", "pooled", "never" */
    int64_t repeat;                      /* of requests: 0 as recorded */
    int64_t op_repeat, max_ops;          /* max_ops 0: no maximum */
    double time_s;                       /* for running and judging ops; 0: any */
    const char *cache; int64_t cache_bytes; /* of references (ref_cache.h) */
    const char *plan;                    /* a file that says which ops; NULL: none */
    struct td_arg_list only;             /* patterns of layers and kinds */
    struct td_arg_list headers, show_headers, redact_headers; /* the latter are names */
    struct td_arg_list allow_paths;      /* requests to these are sent, too (allowed_requests.h) */
    struct td_shard shard;
    bool guard;
    enum td_reference_choice reference;
    bool op_timing;                      /* time ops in both builds, when there are two */
    bool scores;                         /* have the server score the recorded answers, if the
                                            recording has scores */
    double deadline_s;                   /* of one stage of an op's run */
    int64_t max_body_mib;                /* of one answer; 0: the default of wire/client.h */
    double timeout_s;                    /* of one request; 0: none */
    bool names_target;                   /* a server, build or provider was named, and only what was
                                            named is replayed */
    bool for_differ;                     /* differ says next that nothing could run */
    const char *beside, *beside_output;  /* the server that is asked in turn with `server`, and where its replay goes; NULL: none */
    bool begins;                         /* `server` has the first turn */
    struct td_turns *turns;              /* NULL: none are taken */
    pid_t partner;                       /* the process that takes the other turns */
    const volatile sig_atomic_t *stop;   /* set by SIGINT and SIGTERM */
};

/* Read "2/8". TD_EINVAL. */
int td_shard_parse(const char *text, struct td_shard *out, struct td_error *err);
bool td_shard_has(const struct td_shard *s, int64_t number);
/* Read "recorded", "asap", "x4", "x0.5" as 1, 0, 4, 0.5, NULL as TD_PLAN_AS_SENT. TD_EINVAL. */
int td_timing_parse(const char *text, double *speed, struct td_error *err);
/* Read "4G", "512M", "0" as bytes. TD_EINVAL. */
int td_cache_size_parse(const char *text, int64_t *bytes, struct td_error *err);
/* Read "90", "90s", "1.5m", "1h", "500ms" as seconds, "all" as 0. TD_EINVAL. */
int td_time_parse(const char *text, double *seconds, struct td_error *err);

#endif

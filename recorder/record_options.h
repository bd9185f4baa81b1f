/* record_options.h - the options of `record`, and the texts that some of them are given as.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_RECORD_OPTIONS_H
#define TD_RECORDER_RECORD_OPTIONS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/args.h"
#include "common/error.h"
#include "kernels/adapters/own_file.h"
#include "recorder/tap_client/tap_client_options.h"
#include "wire/api.h"
#include "wire/arrival.h"

struct td_record_options {
    const char *server, *out, *suite, *model, *gemms, *tap_socket, *checkpoint, *layers, *ops;
    const struct td_own_file *own; /* what --ops names, read; NULL: nothing */
    enum td_api_kind api;
    int64_t starts;               /* of the server by --run: repeats are those of all of them */
    int64_t repeat, tapped_repeat, concurrency, max_tokens, logprobs, seed;
    double rate;                  /* requests a second, each at its time; 0: as fast as answers come */
    const char *arrival;          /* of --rate, as given; NULL: the default */
    struct td_arrival load;       /* the same, read */
    int64_t requests;             /* to be timed; 0: --repeat of the suite */
    int64_t warmup;               /* requests before those, as the suite has them */
    const char *connections;      /* "pooled" or "never" */
    double duration_s;            /* none is begun later; 0: no limit. Of --passive: its end */
    int64_t scores;               /* answers to have scored, 0: none */
    int64_t graphs_mib;           /* of --graphs; 0: without */
    int64_t ring_mib;             /* --ring-mib; 0: the default of struct td_tap_client_options */
    int64_t max_body_mib;         /* of one answer; 0: the default of wire/client.h */
    double timeout_s, budget_mib;
    bool no_text, no_code, ignore_eos, weights_by_reference;
    bool allow_failures;          /* a recording with failed requests is a recording */
    bool digests;                 /* keep outputs that repeat as digests (--outputs digest) */
    bool no_gpu_time;             /* do not time the kernels of a GPU (--gpu-time off) */
    bool dry_run;                 /* say what would be recorded, and record nothing */
    int64_t wait;                 /* while nothing listens yet: 0: no; TD_ARG_ALONE: as long as timeout_s;
                                     seconds */
    const char *headers[TD_ARG_LIST_MAX + 1], *redact[TD_ARG_LIST_MAX + 3]; /* NULL-terminated */
    const char *redact_given[TD_ARG_LIST_MAX + 1];  /* of `redact`: what the user gave, without what it implies */
    const char *show_headers[TD_ARG_LIST_MAX + 1], *redact_headers[TD_ARG_LIST_MAX + 1]; /* names */
    const char *server_log;       /* where its output goes; NULL: beside the fixture; "-": stderr */
    char **command;               /* of --run, or NULL */
    struct td_tap_client_mode mode; /* of --gemms, --flight, --budget and --all-ops */
    int64_t flight;               /* --flight: MiB; TD_ARG_ALONE: the default; 0: none */
    volatile sig_atomic_t *dump_asked;  /* set by SIGUSR1: dump the flight recorder's ring */
    bool gemms_required;          /* they were asked for by name: without a tap the recording
                                     fails */
};

/* Read --gemms, "auto", "off", "all" or "25%", into mode and gemms_required. TD_EINVAL. */
int td_record_options_gemms(const char *text, struct td_record_options *opt, struct td_error *err);
/* Read --launches, "on" or "off", into mode. TD_EINVAL. */
int td_record_options_launches(const char *text, struct td_record_options *opt,
                               struct td_error *err);
/* TD_EINVAL: a rule of --redact reaches everything. paths: NULL-terminated. */
int td_record_options_redact(const char *const *paths, struct td_error *err);
/* Read --gpu-time, "on" or "off", into no_gpu_time. TD_EINVAL. */
int td_record_options_gpu_time(const char *text, struct td_record_options *opt,
                               struct td_error *err);
/* Read --outputs, "all" or "digest", into digests. TD_EINVAL. */
int td_record_options_outputs(const char *text, struct td_record_options *opt, struct td_error *err);
/* Read --scores, "on", "off" or a number, into scores. TD_EINVAL. */
int td_record_options_scores(const char *text, struct td_record_options *opt, struct td_error *err);
/* Complete graphs_mib of --graphs. graphs : the option was given without a size; starts : the
 * server is started with these options (--run, or --tap-env). TD_EINVAL: it is not. */
int td_record_options_graphs(bool graphs, bool starts, struct td_record_options *opt,
                             struct td_error *err);
/* Read the file of --ops into own, if one is given. TD_EINVAL, with a sentence that names the line. */
int td_record_options_ops(struct td_record_options *opt, struct td_error *err);
/* Complete mode and gemms_required, and check that the options go together. After the functions
 * above. TD_EINVAL, with a sentence that names the two options. */
int td_record_options_check(struct td_record_options *opt, struct td_error *err);

#endif

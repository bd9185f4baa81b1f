/* record.h - one recording: its options, its parts, its figures.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   main.c     options and signals       record.c   the order of things        run_server.c  the server that --run started
 *   flight_watch.c   the flight recorder, and what ops say
 *   host_facts.c     facts about this machine  recording_summary.c  what the summary says      links*.c   the tap's other end */
#ifndef TD_RECORDER_RECORD_H
#define TD_RECORDER_RECORD_H

#include <signal.h>
#include <stdio.h>

#include "common/args.h"
#include "common/proc.h"
#include "format/fixture.h"
#include "recorder/tap_client/request_ids.h"
#include "recorder/tap_client/server_env.h"
#include "recorder/tap_client/tap_client.h"
#include "wire/extras.h"
#include "wire/scores.h"
#include "wire/suite.h"
#include "wire/fill_ids.h"

struct td_record_options {
    const char *server, *out, *suite, *model, *gemms, *tap_socket, *checkpoint, *layers;
    enum td_api_kind api;
    int64_t repeat, tapped_repeat, concurrency, max_tokens, logprobs, seed;
    int64_t scores;               /* texts to have scored, 0: none */
    int64_t graphs_mib;           /* of --graphs; 0: without */
    int64_t ring_mib;             /* --ring-mib; 0: as td_tap_client_options has it */
    double timeout_s, budget_mib;
    bool no_text, no_code, ignore_eos, wait, weights_by_reference;
    const char *headers[TD_ARG_LIST_MAX + 1], *redact[TD_ARG_LIST_MAX + 3]; /* NULL-terminated */
    char **command;               /* of --run, or NULL */
    struct td_tap_client_mode mode;    /* of --gemms */
    int64_t flight;               /* --flight: MiB, TD_ARG_ALONE: as much as is sensible; 0: none */
    volatile sig_atomic_t *keep;  /* set by SIGUSR1 */
    bool gemms_required;          /* all, or a share: without a tap it is an error */
};

/* "auto", "off", "all", "25%" into opt->mode and gemms_required. TD_EINVAL. */
int td_record_gemms(const char *text, struct td_record_options *opt, struct td_error *err);
/* "on", "off", "N" into opt->scores. TD_EINVAL. */
int td_record_scores(const char *text, struct td_record_options *opt, struct td_error *err);

/* ---- recording_summary.c: medians and counts ---------------------------------------------------------------------------------- */

struct td_samples { double *v; size_t n, cap; int64_t seen; }; /* at most 1 M are kept; every one is counted */
struct td_phase_figures {
    int64_t requests, failed, tokens;
    struct td_samples ttft_ns, itl_ns;
    int64_t t_first_ns, t_last_ns; /* first byte sent, last byte read */
};
struct td_figures {
    struct td_phase_figures phase[3]; /* by enum td_phase */
    int64_t collapsed;            /* timed answers with a hard sign of collapse */
    int64_t ids_incomplete, without_logprobs;
    char first_error[300], first_collapse[300];
};
void td_figures_add(struct td_figures *f, const struct td_exchange *x);
void td_figures_release(struct td_figures *f);
/* Median, NaN without samples. Sorts. */
double td_samples_median(struct td_samples *s);
void td_figures_print(struct td_figures *f, size_t prompts, const struct td_tap_client_state *ops, const char *no_tap, FILE *to);

/* ---- flight_watch.c: what the ops themselves say ---- */
/* An answer of the tapped phase: has it collapsed? Then what led to it is kept. True: it is. */
bool td_flight_watch(struct td_tap_client *l, const struct td_record_options *opt, const struct td_exchange *x);
void td_flight_say(struct td_tap_client *l, bool interrupted); /* the first bad op; what --layers did not find */

/* ---- host_facts.c ---- */
void td_host_facts(struct td_writer *w);
int td_host_local_port(const char *url); /* the port when the server runs on this machine, else 0 */

/* ---- run_server.c: the server that --run started ---------------------------------------------------------------------- */

struct td_started { struct td_proc proc; char how[80]; };
/* with_tap: put the tap into its environment, graphs_mib as for td_tap_client_env_graphs; *no_tap gets a sentence when that is not possible. Its output goes to stderr.
 * TD_EEXIST: something listens at url already. */
int td_started_run(struct td_started *s, char **command, const char *url, bool with_tap, int64_t graphs_mib, char *no_tap, size_t no_tap_size,
                   struct td_error *err);
bool td_started_alive(void *started);   /* also true when nothing was started */
void td_started_end(struct td_started *s);
extern volatile sig_atomic_t td_started_group; /* for a signal handler: the process group to kill, or 0 */

/* ---- record.c ---- */
/* Record. The fixture's path is printed last on stdout. TD_OK, also when interrupted after something succeeded. */
int td_record(const struct td_record_options *opt, const volatile sig_atomic_t *stop, struct td_error *err);

#endif

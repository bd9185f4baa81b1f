/* speed.h - rows of paired timings: collect pairs, decide whether the candidate is slower.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An effect is a share: +0.05 is 5 % slower (for throughput: base / new - 1). All intervals of a
 * comparison hold together at the policy's speed_alpha (Bonferroni over the rows, lane_speed.c), so
 * that many rows raise no more false alarms than one. */
#ifndef TD_DIFFER_SPEED_H
#define TD_DIFFER_SPEED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cpu_others.h"
#include "common/error.h"
#include "differ/shared_starts.h"
#include "differ/stats.h"
#include "differ/verdict.h"

enum td_speed_metric {
    TD_TTFT,
    TD_ITL,
    TD_E2E,
    TD_THROUGHPUT,
    TD_OP_HOT,
    TD_OP_COLD,
    TD_N_METRICS
};
/* "ttft", "itl", "e2e", "throughput", "op, hot cache", "op, cold cache" */
const char *td_speed_metric_name(enum td_speed_metric m);
/* Is it a metric of single ops, and not of requests to a server? */
bool td_speed_metric_is_op(enum td_speed_metric m);

/* Pairs of timings as log ratios, with the values they came from. */
struct td_ratios { double *log_ratio, *base, *now; size_t n, cap; };

struct td_speed_row {
    enum td_speed_metric metric;
    struct td_ratios pairs;      /* of ops one a start: the middle one of the start's pairs, or of ops that share it the
                                    geometric mean of these; of servers in turn one a round: Hodges-Lehmann's estimate of its pairs */
    struct td_shared_starts shared; /* samples of ops that shared a start */
    char *label;                 /* category, "kernel shape M class", or "total" */
    bool total;
    size_t ops;                  /* timed ops in it; 0: a row of servers */
    double least_op;             /* log ratio of the op that is least slower, by its median start */
    size_t starts, starts_slower;/* of their processes: samples; those that are slower */
    double base, now;            /* medians: ns, or tokens per second for throughput */
    double alpha;                /* level of its interval */
    struct td_interval effect;
    enum td_verdict verdict;     /* NOT_JUDGED: information, or too few pairs for a row of its
                                    own */
    bool faster;                 /* significant the other way */
};

/* One side of a round: what ran beside it. */
struct td_speed_block {
    bool is_baseline; int round;
    struct td_cpu_others others;
    bool in_turn;                /* the servers were asked in turn, by one program, right after each other */
    bool left_out;
};

/* How often gate may judge the rounds of two servers while it adds some. Each look has its share of the level. */
#define TD_SPEED_LOOKS 3

struct td_speed {
    struct td_speed_row *row; size_t n, cap;
    size_t op_pairs, server_pairs;
    bool names_build, names_server; /* a baseline to be timed beside the candidate was given */
    bool server_judged;          /* live rounds of both builds */
    double itl;                  /* total effect; NaN: none */
    int rounds;
    size_t rounds_needed;        /* so that live rounds exclude the policy's `detect`, roughly; 0: those there are do */
    struct td_speed_block *block; size_t n_blocks; /* of live rounds, as far as the replays tell */
    int whole;                   /* rounds in which each server was asked by itself, where enough others were in turn: not timed */
    int left_out;                /* of the others: rounds that other programs disturbed (speed_others.h) */
    char disturbed[300];         /* by what, in the first of them */
    char others_unknown[160];    /* why nobody knows what other programs took; "": it is known, or no matter */
    size_t starts;               /* of the recorded server; 0: the recording does not tell */
    int64_t repeats_of_start;
    bool by_starts;              /* judged by these */
    char client_limited[300];    /* why the client that measured says nothing of a server, and which run; "": it does */
    char other_host[240];        /* which fact of the candidate's host differs, "": none */
    size_t timed, uneven;        /* ops that hold pairs; those left out for their clocks */
    size_t throttled;            /* clocks held down in both builds */
    char uneven_how[240];        /* of the first of them */
    const char *clocks_unknown;  /* borrowed from the ops; NULL: they are known, or there is no
                                    GPU */
};

/* Decide a row from its pairs: fill base, now, effect, verdict, faster. Pure. REGRESSED: the
 * estimate is larger than `effect`, the interval at level 1 - row->alpha lies above `noise`, and, in
 * a row of ops that is no total, there are two ops or more, three quarters of their starts are
 * slower, and each op by its median start is slower than `noise`. */
void td_speed_decide(struct td_speed_row *row, double effect, double noise);

void td_speed_release(struct td_speed *s);

/* Find the row of a metric with this label, or add it. Valid until the next call. NULL: out of
 * memory. */
struct td_speed_row *td_speed_row(struct td_speed *s, enum td_speed_metric m, const char *label,
                                  bool total);
/* Add a pair of timings in ns, or of throughputs. Left out unless both are positive and finite.
 * TD_OK or TD_ENOMEM. */
int td_ratios_add(struct td_ratios *r, double base, double now, bool larger_is_faster);

#endif

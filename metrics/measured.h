/* measured.h - a set of exchanges, measured in given terms.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     struct td_measured_set m = {.dialect = TD_DIALECT_VLLM};
 *     td_measured_add_exchange(&m, x)  for all exchanges of a fixture, then, if td_measured_needs_wire(),
 *     td_measured_add_wire(&m, rec)    for all records of its wire log, then td_measured_end(&m)
 *
 * Only timed exchanges are kept. One that failed has no values. */
#ifndef TD_METRICS_MEASURED_H
#define TD_METRICS_MEASURED_H

#include "format/records.h"
#include "metrics/terms.h"

struct td_messages_reader;

/* One timed exchange. Times are of the recording's clock; a span is in seconds, NaN: it has none. */
struct td_measured {
    uint32_t stream;
    int32_t repeat, concurrency;
    char *prompt_id, *category; /* owned */
    char *error;                /* owned; NULL: the exchange was complete */
    bool by_others;             /* td_exchange_by_others() */
    bool chat;                  /* of a path for chats */
    int64_t prompt_tokens;      /* 0: not known */
    int64_t output_tokens;      /* by the server's usage where it tells; tapedeck: those that came */
    int64_t t_sent_ns, t_end_ns;
    int64_t t_from_ns, t_to_ns; /* in these terms: from here to there it counts for throughput */
    double span[TD_N_TERMS];    /* of the gaps their mean */
    double *gap; size_t n_gaps; /* s; owned */
    char *text; size_t text_len; /* of the answer, without reasoning: where keep_texts asks, in terms that need the wire; owned */
    struct td_messages_reader *arriving; /* while its records are read */
    bool seen_on_wire;
};

struct td_measured_set {
    enum td_dialect dialect;
    bool keep_texts;
    struct td_measured *x; size_t n, cap; /* after td_measured_end(), and before the wire is read: in order of streams */
    bool sorted;
    bool in_turns;              /* another server was asked between these requests: they say nothing of a rate */
};
/* Does a fixture say that (docs/format.md, `replay.turns`)? */
bool td_measured_in_turns(const cJSON *manifest);

/* Whatever the times are: those of a damaged fixture may be any. */
static inline double td_seconds_between(int64_t from_ns, int64_t to_ns)
{
    return (double)(int64_t)((uint64_t)to_ns - (uint64_t)from_ns) / 1e9;
}

bool td_measured_needs_wire(enum td_dialect d);
/* TD_OK, TD_ELIMIT or TD_ENOMEM. */
int td_measured_add_exchange(struct td_measured_set *m, const struct td_exchange *x, struct td_error *err);
int td_measured_add_wire(struct td_measured_set *m, const struct td_wire *rec, struct td_error *err);
int td_measured_end(struct td_measured_set *m, struct td_error *err);
/* How many exchanges have no times, for no bytes of theirs are in the wire log that these terms are taken from? After
 * td_measured_end(). */
size_t td_measured_unseen(const struct td_measured_set *m);
void td_measured_release(struct td_measured_set *m);

#endif

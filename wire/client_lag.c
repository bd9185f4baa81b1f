/* client_lag.c - how late a client sent what it meant to send at a time.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/client_lag.h"

#include <string.h>

#include "common/json.h"
#include "wire/client.h"
#include "wire/derive.h"

#define MOST_GAPS 4096

static void widen(int64_t *first, int64_t *last, int64_t t)
{
    *first = !*first || t < *first ? t : *first;
    *last = t > *last ? t : *last;
}

void td_client_lag_add(struct td_client_lag *l, const struct td_exchange *x)
{
    const int64_t due = td_json_get_i64(x->extra, "due_ns", 0), start = td_json_get_i64(x->extra, "start_ns", 0);
    double gaps[MOST_GAPS];
    int64_t ttft;
    size_t i, n;

    if (x->phase != TD_PHASE_TIMED || due <= 0 || start <= 0)
        return;
    td_samples_add(&l->lag_ns, start > due ? (double)(start - due) : 0);
    l->held += td_json_get_bool(x->extra, "held", false);
    widen(&l->due_first_ns, &l->due_last_ns, due);
    widen(&l->start_first_ns, &l->start_last_ns, start);
    ttft = td_exchange_ttft_ns(x);
    if (x->error || ttft < 0)
        return;
    td_samples_add(&l->ttft_due_ns, (double)(x->t_sent_ns + ttft - due));
    td_samples_add(&l->ttft_start_ns, (double)(x->t_sent_ns + ttft - start));
    n = td_exchange_gaps(x, gaps, MOST_GAPS);
    for (i = 0; i < n; i++)
        td_samples_add(&l->itl_ns, gaps[i]);
}

void td_client_lag_release(struct td_client_lag *l)
{
    td_samples_release(&l->lag_ns);
    td_samples_release(&l->itl_ns);
    td_samples_release(&l->ttft_due_ns);
    td_samples_release(&l->ttft_start_ns);
    *l = (struct td_client_lag){0};
}

/* What the lag is held against. Answers of one token, or in one piece, have no ITL. */
static struct td_samples *measure_of(struct td_client_lag *l)
{
    return l->itl_ns.n ? &l->itl_ns : &l->ttft_start_ns;
}

/* Requests of whose lag, or ITL, nothing is known for lack of memory. */
static int64_t not_known(struct td_client_lag *l)
{
    return l->lag_ns.lost ? l->lag_ns.lost : l->itl_ns.lost ? l->itl_ns.lost : l->ttft_start_ns.lost;
}

bool td_client_lag_limits(struct td_client_lag *l)
{
    return l->held || not_known(l) || td_samples_quantile(&l->lag_ns, 0.99) > TD_CLIENT_LAG_SHARE * td_samples_quantile(measure_of(l), 0.5);
}

static double ms(struct td_samples *s, double q)
{
    return td_samples_quantile(s, q) / 1e6;
}

const char *td_client_lag_words(struct td_client_lag *l, char *out, size_t n)
{
    *out = '\0';
    if (l->lag_ns.n)
        snprintf(out, n, "sent %.2f / %.2f / %.2f ms late (p50/p90/p99)", ms(&l->lag_ns, 0.5), ms(&l->lag_ns, 0.9), ms(&l->lag_ns, 0.99));
    return out;
}

static const char *held_words(const struct td_client_lag *l, char *out, size_t n)
{
    snprintf(out, n, "client-limited: %lld of %lld requests were held back until another one ended: this machine's limit of open "
             "files, or %d, allows no more in flight; no speed of the server can be told from that",
             (long long)l->held, (long long)l->lag_ns.seen, TD_CLIENT_MAX_IN_FLIGHT);
    return out;
}

const char *td_client_lag_limit_words(struct td_client_lag *l, char *out, size_t n)
{
    if (l->held)
        return held_words(l, out, n);
    if (not_known(l)) {
        snprintf(out, n, "NOT CHECKED whether it was client-limited: memory lacked for %lld times; no speed of the server can be told "
                 "from that", (long long)not_known(l));
        return out;
    }
    snprintf(out, n,
             "client-limited: 1 in 100 requests was sent %.2f ms late or more, and the median %s is %.2f ms; no speed of the "
             "server can be told from that",
             ms(&l->lag_ns, 0.99), l->itl_ns.n ? "ITL" : "TTFT", ms(measure_of(l), 0.5));
    return out;
}

/* Requests a second, from the first to the last start. */
static double rate_of(const struct td_client_lag *l, int64_t first, int64_t last)
{
    return last > first ? (double)(l->lag_ns.seen - 1) * 1e9 / (double)(last - first) : 0;
}

void td_client_lag_print(struct td_client_lag *l, const char *head, bool tells_limit, FILE *to)
{
    const int indent = (int)strlen(head);
    char words[300];

    if (!l->lag_ns.n) {
        if (l->lag_ns.seen && tells_limit)
            fprintf(to, "%s%s\n", head, td_client_lag_limit_words(l, words, sizeof words));
        return;
    }
    fprintf(to, "%s%s; %.2f requests/s intended, %.2f sent\n", head, td_client_lag_words(l, words, sizeof words),
            rate_of(l, l->due_first_ns, l->due_last_ns), rate_of(l, l->start_first_ns, l->start_last_ns));
    if (l->ttft_due_ns.n)
        fprintf(to, "%*sTTFT from the intended start %.2f ms median, %.2f ms p99; from the actual one %.2f ms, %.2f ms\n", indent, "",
                ms(&l->ttft_due_ns, 0.5), ms(&l->ttft_due_ns, 0.99), ms(&l->ttft_start_ns, 0.5), ms(&l->ttft_start_ns, 0.99));
    if (tells_limit && td_client_lag_limits(l))
        fprintf(to, "%*s%s\n", indent, "", td_client_lag_limit_words(l, words, sizeof words));
}

/* smoke.c - does a server without a baseline answer soundly? Absolute rules on one recording.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/smoke.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differ/stats.h"
#include "wire/collapse.h"
#include "wire/derive.h"

static void note_first(struct td_smoke *s, const struct td_exchange *x, const char *what)
{
    if (!*s->first)
        snprintf(s->first, sizeof s->first, "%.80s: %.200s", x->prompt_id ? x->prompt_id : "?",
                 what);
}

static bool answer_is_sound(const struct td_exchange *x, struct td_smoke *s)
{
    struct td_collapse c;

    if (x->error) {
        s->errors++;
        note_first(s, x, x->error);
        return false;
    }
    if (x->n_tokens == 0 && x->text_len == 0) {
        s->empty++;
        note_first(s, x, "the answer is empty");
        return false;
    }
    td_collapse_check(x, NULL, &c);
    if (c.hard) {
        s->collapsed++;
        note_first(s, x, c.why);
        return false;
    }
    return true;
}

void td_smoke_check(const struct td_exchange *xs, size_t n, struct td_smoke *s)
{
    double *ttft = malloc((n + 1) * sizeof *ttft), *rate = malloc((n + 1) * sizeof *rate);
    size_t i, n_ttft = 0, n_rate = 0;

    memset(s, 0, sizeof *s);
    for (i = 0; i < n; i++) {
        int64_t t = td_exchange_ttft_ns(&xs[i]), e = td_exchange_e2e_ns(&xs[i]);

        s->reached |= !xs[i].error_kind || strcmp(xs[i].error_kind, "connect") != 0;
        if (xs[i].phase == TD_PHASE_WARMUP)
            continue;
        s->prompts++;
        s->ok += answer_is_sound(&xs[i], s);
        if (ttft && !xs[i].error && t > 0)
            ttft[n_ttft++] = (double)t;
        if (rate && !xs[i].error && e > 0 && xs[i].n_tokens > 0)
            rate[n_rate++] = xs[i].n_tokens / ((double)e / 1e9);
    }
    s->ttft_p50_ns = td_stat_median(ttft, ttft ? n_ttft : 0);
    s->tokens_per_s = td_stat_median(rate, rate ? n_rate : 0);
    s->verdict = s->prompts == 0 || !s->reached ? TD_BROKEN
                 : s->ok == s->prompts          ? TD_PASS
                                                : TD_REGRESSED;
    if (s->prompts == 0)
        snprintf(s->first, sizeof s->first, "the recording holds no answers");
    free(ttft);
    free(rate);
}

void td_smoke_line(const struct td_smoke *s, const char *model, struct td_buf *out)
{
    td_buf_addf(out, "smoke: %s %zu/%zu prompts", s->verdict == TD_PASS ? "ok" : "failed", s->ok,
                s->prompts);
    if (!isnan(s->ttft_p50_ns))
        td_buf_addf(out, ", ttft p50 %.3g ms", s->ttft_p50_ns / 1e6);
    if (!isnan(s->tokens_per_s))
        td_buf_addf(out, ", %.3g tok/s", s->tokens_per_s);
    if (*model)
        td_buf_addf(out, ", model %s", model);
    if (s->verdict != TD_PASS)
        td_buf_addf(out, ": %s", s->first);
}

/* lane_tokens.c - the part of the text report about answers: forks side by side, noise, collapses, what was lost.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "differ/report_page.h"

#define BEFORE 56    /* bytes of text around a fork */
#define AFTER 72

size_t td_report_common_prefix(const struct td_exchange *a, const struct td_exchange *b)
{
    size_t n = a->text_len < b->text_len ? a->text_len : b->text_len, i = 0;

    while (i < n && a->text[i] == b->text[i])
        i++;
    while (i > 0 && i < a->text_len && ((unsigned char)a->text[i] & 0xC0) == 0x80)
        i--;
    return i;
}

void td_report_excerpt(const char *text, size_t len, size_t at, size_t before, size_t after, struct td_buf *out)
{
    struct td_buf clean = TD_BUF_INIT(1 << 16);
    size_t from = at > before ? at - before : 0, to = at + after < len ? at + after : len, i;

    while (from > 0 && from < len && ((unsigned char)text[from] & 0xC0) == 0x80)
        from--;
    while (to < len && ((unsigned char)text[to] & 0xC0) == 0x80)
        to++;
    if (from < to)
        td_utf8_clean(text + from, to - from, &clean);
    td_buf_adds(out, from ? "...\"" : "\"");
    for (i = 0; i < clean.len; i++) {
        unsigned char c = (unsigned char)clean.data[i];

        if (c == '\n')
            td_buf_adds(out, "\\n");
        else if (c == '\t')
            td_buf_adds(out, "\\t");
        else if (c < 0x20 || c == 0x7F || (c == 0xC2 && i + 1 < clean.len && (unsigned char)clean.data[i + 1] < 0xA0))
            td_buf_addf(out, "\\x%02x", c == 0xC2 ? (unsigned char)clean.data[++i] : c);
        else
            td_buf_addc(out, (char)c);
    }
    td_buf_adds(out, to < len ? "\"..." : "\"");
    td_buf_release(&clean);
}

static void print_text(const struct td_page *p, const char *name, const struct td_exchange *x, size_t at)
{
    struct td_buf b = TD_BUF_INIT(1 << 16);

    td_report_excerpt(x->text ? x->text : "", x->text_len, at, BEFORE, AFTER, &b);
    fprintf(p->out, "    %-5s %s\n", name, td_buf_str(&b));
    td_buf_release(&b);
}

static void print_fork(const struct td_page *p, const struct td_fork *f)
{
    size_t at = td_report_common_prefix(f->good, f->bad);

    fprintf(p->out, "  %s%s%s%s, repeat %d: parts at %s %d", f->group->prompt_id, *f->group->category ? " (" : "", f->group->category,
            *f->group->category ? ")" : "", f->bad->repeat, td_unit_name(f->at.unit), f->at.position);
    if (!isnan(f->gap))
        fprintf(p->out, ", gap %s%.3f nats", f->outside_top_k ? ">= " : "", f->gap);
    fprintf(p->out, "\n");
    print_text(p, "good", f->good, at);
    print_text(p, "new", f->bad, at);
}

static bool collapsed(const struct td_weighing *w, const struct td_exchange *x)
{
    const struct td_collapses *c = &w->collapses;
    size_t i;

    for (i = 0; i < c->n; i++)
        if (c->found[i].bad == x)
            return true;
    return false;
}

/* What has collapsed was shown already and is not shown again. */
void td_page_forks(const struct td_page *p, const struct td_weighing *w)
{
    const struct td_tokens *t = &w->tokens;
    const char *last = NULL;
    size_t i, shown = 0, prompts = 0, fallen = 0;

    if (t->n_forks == 0 || !w->lane[TD_LANE_TOKENS].asked)
        return;
    td_page_title(p, "answers that part from the baseline");
    for (i = 0; i < t->n_forks; i++) { /* one per prompt unless verbose */
        bool first;

        if (collapsed(w, t->forks[i].bad)) {
            fallen++;
            continue;
        }
        first = !last || strcmp(last, t->forks[i].group->prompt_id) != 0;
        prompts += first;
        last = t->forks[i].group->prompt_id;
        if (p->verbose || (first && prompts <= TD_PAGE_SHOWN)) {
            print_fork(p, &t->forks[i]);
            shown++;
        }
    }
    if (fallen)
        fprintf(p->out, "  %zu of %zu: the collapsed ones\n", fallen, t->n_forks);
    if (shown + fallen < t->n_forks)
        fprintf(p->out, "  (%zu of %zu shown, %zu prompts; --verbose shows all)\n", shown, t->n_forks - fallen, prompts);
}

void td_page_noise(const struct td_page *p, const struct td_weighing *w)
{
    const struct td_tokens *t = &w->tokens;
    size_t i;

    if (t->answers == 0 || !w->lane[TD_LANE_TOKENS].asked)
        return;
    td_page_title(p, "tokens: prompts with a fork, and how close the calls were");
    fprintf(p->out, "  %-28s %5zu of %-5zu", "candidate", t->prompts_forked, t->prompts);
    if (!isnan(t->mean_dlogprob))
        fprintf(p->out, "  mean |dlogprob| %.4f", t->mean_dlogprob);
    fprintf(p->out, "\n");
    for (i = 0; i < t->n_noise; i++) {
        const struct td_noise *z = &t->noise[i];
        char name[64];

        snprintf(name, sizeof name, i == 0 ? "baseline against itself" : z->role == TD_LIVE ? "live baseline, round %d" : "honest build %d",
                 z->round + 1);
        if (z->prompts)
            fprintf(p->out, "  %-28s %5zu of %-5zu  largest gap %.3f nats\n", name, z->forked, z->prompts, z->gap_max);
    }
    if (t->prompts_forked && !isnan(t->gap_noise))
        fprintf(p->out, "  no more than noise: share of prompts p=%.3g, %zu of %zu over noise's largest gap p=%.3g (limit %g); no gap over %.3g nats\n", t->share_p,
                t->prompts_over, t->gap_prompts, t->gap_p, w->policy.tokens_alpha, t->gap_limit);
}

void td_page_collapses(const struct td_page *p, const struct td_weighing *w)
{
    const struct td_collapses *c = &w->collapses;
    const struct td_prompt_group *last = NULL;
    size_t i, shown = 0;

    if (c->n == 0 || !w->lane[TD_LANE_COLLAPSE].asked)
        return;
    td_page_title(p, "collapsed answers");
    for (i = 0; i < c->n; i++) { /* one per prompt unless verbose */
        const struct td_collapsed *f = &c->found[i];
        size_t at = f->good ? td_report_common_prefix(f->good, f->bad) : 0;

        if (!p->verbose && (f->group == last || shown == TD_PAGE_SHOWN))
            continue;
        last = f->group;
        shown++;
        fprintf(p->out, "  %s, repeat %d: %s: %s\n", f->group->prompt_id, f->bad->repeat, td_collapse_name(f->what.kind), f->what.why);
        if (f->good)
            print_text(p, "good", f->good, at);
        print_text(p, "new", f->bad, at);
    }
    if (shown < c->n)
        fprintf(p->out, "  (%zu of %zu shown; --verbose shows all)\n", shown, c->n);
}

/* Why a server that was ready answered nothing, as replay found it. */
static void print_engines(const struct td_page *p, const struct td_weighing *w)
{
    size_t i;

    for (i = 1; i < w->n_sides; i++) {
        const char *why = td_json_get_str(td_json_get(td_fixture_manifest(w->side[i].fx), "replay"), "engine", NULL);

        if (why)
            fprintf(p->out, "  %.600s\n", why);
    }
}

/* A request that never reached the server tells less than one that was cut: it is what came of that. */
static bool is_unsent(const struct td_exchange *x)
{
    return x->error_kind && !strcmp(x->error_kind, "connect");
}

static size_t print_lost(const struct td_page *p, const struct td_tokens *t, bool unsent, size_t shown)
{
    size_t i;

    for (i = 0; i < t->n_lost && (shown < TD_PAGE_SHOWN * 2 || p->verbose); i++) {
        const struct td_exchange *x = t->lost[i];

        if (is_unsent(x) != unsent)
            continue;
        fprintf(p->out, "  %s, repeat %d: %s%s%s\n", x->prompt_id, x->repeat, x->error_kind ? x->error_kind : "", x->error_kind ? ": " : "", x->error);
        shown++;
    }
    return shown;
}

void td_page_lost(const struct td_page *p, const struct td_weighing *w)
{
    const struct td_tokens *t = &w->tokens;
    size_t shown;

    if (t->n_lost == 0 || !w->lane[TD_LANE_TOKENS].asked)
        return;
    td_page_title(p, "requests that failed where the baseline answered");
    print_engines(p, w);
    shown = print_lost(p, t, true, print_lost(p, t, false, 0));
    if (shown < t->n_lost)
        fprintf(p->out, "  (%zu of %zu shown; --verbose shows all)\n", shown, t->n_lost);
}

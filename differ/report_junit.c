/* report_junit.c - the report as JUnit XML for CI: one case per lane, per prompt, per group of ops, per row of speed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * regressed is a <failure>, inconclusive and broken an <error> (the build is not known to be good), not judged <skipped>. */
#include <math.h>
#include <string.h>

#include "common/fs.h"
#include "common/json.h"
#include "differ/compare.h"

#define XML_MAX ((size_t)1 << 28)

struct cases { struct td_buf xml; size_t n, failures, errors, skipped; };

static void add_escaped(struct td_buf *b, const char *s)
{
    struct td_buf clean = TD_BUF_INIT(1 << 20);
    size_t i;

    td_utf8_clean(s, strlen(s), &clean);
    for (i = 0; i < clean.len; i++) {
        unsigned char c = (unsigned char)clean.data[i];

        if (c == '<')
            td_buf_adds(b, "&lt;");
        else if (c == '&')
            td_buf_adds(b, "&amp;");
        else if (c == '"')
            td_buf_adds(b, "&quot;");
        else if (c < 0x20)
            td_buf_addc(b, ' ');
        else
            td_buf_addc(b, (char)c);
    }
    td_buf_release(&clean);
}

static void add_case(struct cases *c, const char *class, const char *name, enum td_verdict v, const char *message)
{
    static const char *const TAG[] = {"skipped", NULL, "error", "failure", "error"};

    c->n++;
    c->skipped += v == TD_NOT_JUDGED;
    c->failures += v == TD_REGRESSED;
    c->errors += v == TD_INCONCLUSIVE || v == TD_BROKEN;
    td_buf_addf(&c->xml, "    <testcase classname=\"tapedeck.%s\" name=\"", class);
    add_escaped(&c->xml, name);
    if (!TAG[v]) {
        td_buf_adds(&c->xml, "\"/>\n");
        return;
    }
    td_buf_addf(&c->xml, "\"><%s message=\"", TAG[v]);
    add_escaped(&c->xml, message);
    td_buf_adds(&c->xml, "\"/></testcase>\n");
}

static void add_lanes(struct cases *c, const struct td_weighing *w)
{
    int i, j;

    for (i = 0; i < TD_N_LANES; i++) {
        const struct td_lane *l = &w->lane[i];
        const char *why = l->n_notes ? l->notes[0].text : "not asked for";

        for (j = 0; j < l->n_notes; j++)
            if (l->notes[j].verdict == l->verdict) {
                why = l->notes[j].text;
                break;
            }
        add_case(c, "lane", td_lane_name(l->id), l->asked ? l->verdict : TD_NOT_JUDGED, why);
    }
}

static void add_coverage(struct td_buf *b, const struct td_coverage *c)
{
    char words[TD_COVERAGE_WORDS];

    td_coverage_words(c, words);
    if (!*words)
        return;
    td_buf_adds(b, "    <properties><property name=\"coverage\" value=\"");
    add_escaped(b, words);
    td_buf_adds(b, "\"/></properties>\n");
}

static void add_prompts(struct cases *c, const struct td_weighing *w)
{
    size_t i, j;
    char why[200];

    if (!w->lane[TD_LANE_TOKENS].asked)
        return;
    for (i = 0; i < w->groups.n; i++) {
        const struct td_prompt_group *g = &w->groups.group[i];
        enum td_verdict v = TD_PASS, forked = w->lane[TD_LANE_TOKENS].verdict;

        if (!g->n[TD_NEW])
            continue;
        why[0] = '\0';
        for (j = 0; j < w->tokens.n_forks && v == TD_PASS; j++)
            if (w->tokens.forks[j].group == g) {
                v = forked;
                snprintf(why, sizeof why, "repeat %d parts from the baseline at %s %d", w->tokens.forks[j].bad->repeat,
                         td_unit_name(w->tokens.forks[j].at.unit), w->tokens.forks[j].at.position);
            }
        for (j = 0; j < w->collapses.n; j++)
            if (w->collapses.found[j].group == g && w->lane[TD_LANE_COLLAPSE].asked) {
                v = TD_REGRESSED;
                snprintf(why, sizeof why, "collapsed: %.180s", w->collapses.found[j].what.why);
            }
        for (j = 0; j < w->tokens.n_lost; j++)
            if (strcmp(w->tokens.lost[j]->prompt_id, g->prompt_id) == 0) {
                v = w->tokens.unreached ? TD_BROKEN : TD_REGRESSED;
                snprintf(why, sizeof why, "%.190s", w->tokens.lost[j]->error);
            }
        add_case(c, "prompt", g->prompt_id, v, why);
    }
}

static void add_ops(struct cases *c, const struct td_weighing *w)
{
    char name[200], why[200];
    size_t i;

    for (i = 0; i < w->numerics.n && w->lane[TD_LANE_OPS].asked; i++) {
        const struct td_judged_group *g = &w->numerics.group[i];
        enum td_verdict v = g->worse ? TD_REGRESSED : g->undecided + g->broken ? TD_INCONCLUSIVE : g->judged ? TD_PASS : TD_NOT_JUDGED;

        if (g->judged == 0 && g->compared + g->not_compared)
            continue; /* information only: nothing is judged by them */
        snprintf(name, sizeof name, "%s %s %s", g->kind, g->shape, td_m_class_name(g->m_class));
        snprintf(why, sizeof why, "%zu of %zu worse, %zu undecided; worst error %.3g, baseline %.3g, limit %.3g", g->worse, g->judged,
                 g->undecided + g->broken, g->new_score, g->old_score, g->limit);
        add_case(c, "op", name, v, why);
    }
}

static void add_speed(struct cases *c, const struct td_weighing *w)
{
    char name[200], why[200];
    size_t i;

    for (i = 0; i < w->speed.n && w->lane[TD_LANE_SPEED].asked; i++) {
        const struct td_speed_row *r = &w->speed.row[i];

        snprintf(name, sizeof name, "%s %s", td_speed_metric_name(r->metric), r->label);
        snprintf(why, sizeof why, "%+.1f %% [%+.1f, %+.1f] n=%zu", r->effect.est * 100, r->effect.lo * 100, r->effect.hi * 100,
                 r->pairs.n);
        add_case(c, "speed", name, r->verdict, why);
    }
}

int td_report_junit(const struct td_weighing *w, const char *path, struct td_error *err)
{
    struct cases c = {.xml = TD_BUF_INIT(XML_MAX)};
    struct td_buf out = TD_BUF_INIT(XML_MAX + 4096);
    int rc;

    add_lanes(&c, w);
    add_prompts(&c, w);
    add_ops(&c, w);
    add_speed(&c, w);
    td_buf_addf(&out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"tapedeck\" tests=\"%zu\" failures=\"%zu\" "
                "errors=\"%zu\" skipped=\"%zu\">\n", c.n, c.failures, c.errors, c.skipped);
    if (w->lane[TD_LANE_OPS].asked)
        add_coverage(&out, &w->coverage);
    td_buf_add(&out, td_buf_str(&c.xml), c.xml.len);
    td_buf_adds(&out, "  </testsuite>\n</testsuites>\n");
    rc = out.failed || c.xml.failed ? td_fail(err, TD_ELIMIT, "%s: the report is too large", path)
                                    : td_fs_write_atomic(path, out.data, out.len, err);
    td_buf_release(&out);
    td_buf_release(&c.xml);
    return rc;
}

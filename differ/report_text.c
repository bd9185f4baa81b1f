/* report_text.c - the report for a person: what was compared, the lanes' sections, limits,
 * lanes, verdict.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/json.h"
#include "differ/lanes.h"
#include "differ/report_verdict.h"
#include "differ/reports.h"

static void print_side(const struct td_page *p, const struct td_side *s)
{
    static const char *const ROLE[TD_N_ROLES] = {"baseline", "baseline, live", "candidate",
                                                 "calibration"};
    const cJSON *m = td_fixture_manifest(s->fx), *server = td_json_get(m, "server"),
                *replay = td_json_get(m, "replay");
    const char *model = td_json_get_str(server, "model", ""),
               *version = td_json_get_str(server, "version", "");
    const char *build = td_json_get_str(replay, "build", ""),
               *base_build = td_json_get_str(replay, "baseline_build", "");

    fprintf(p->out, "  %-14s %s", ROLE[s->role], td_fixture_dir(s->fx));
    if (*model)
        fprintf(p->out, "  %s", model);
    if (*td_json_get_str(server, "kind", ""))
        fprintf(p->out, " on %s%s%s", td_json_get_str(server, "kind", ""), *version ? " " : "",
                version);
    if (*build)
        fprintf(p->out, "  build %s", build);
    if (*base_build)
        fprintf(p->out, " against %s", base_build);
    fprintf(p->out, "\n");
}

static void print_sides(const struct td_comparison *c, const struct td_page *p)
{
    size_t i;

    td_page_title(p, "compared");
    for (i = 0; i < c->n_sides; i++)
        print_side(p, &c->side[i]);
}

/* What failed comes first, then what differs, then what caused it. */
static void print_findings(const struct td_comparison *c, const struct td_page *p)
{
    int i;

    for (i = 0; i < TD_N_LANES; i++)
        if (td_lane_types[i]->print_failures)
            td_lane_types[i]->print_failures(c, p);
    for (i = 0; i < TD_N_LANES; i++)
        if (td_lane_types[i]->print_details)
            td_lane_types[i]->print_details(c, p);
    for (i = 0; i < TD_N_LANES; i++)
        if (td_lane_types[i]->print_cause)
            td_lane_types[i]->print_cause(c, p);
}

static void print_limits(const struct td_comparison *c, const struct td_page *p)
{
    struct td_buf text = TD_BUF_INIT(4096);

    td_page_title(p, "limits");
    td_policy_describe(&c->policy, &text);
    fprintf(p->out, "%s", td_buf_str(&text));
    td_buf_release(&text);
}

static void print_lane(const struct td_lane *l, const struct td_page *p)
{
    const enum td_verdict v = l->asked ? l->verdict : TD_NOT_JUDGED;
    int j;

    fprintf(p->out, "  %-9s ", td_lane_name(l->id));
    td_page_verdict(p, v, td_verdict_name(v), 13);
    if (l->n_notes == 0)
        fprintf(p->out, "%s\n", l->asked ? "" : "not asked for");
    for (j = 0; j < l->n_notes; j++)
        fprintf(p->out, "%*s%s\n", j ? 25 : 0, "", l->notes[j].text);
}

static void print_lanes(const struct td_comparison *c, const struct td_page *p)
{
    int i;

    td_page_title(p, "lanes");
    for (i = 0; i < TD_N_LANES; i++)
        print_lane(&c->lane[i], p);
    if (c->bad_frames)
        fprintf(p->out,
                "  %zu frames of the fixtures are corrupt and were skipped (fixture verify DIR "
                "names them)\n",
                c->bad_frames);
}

void td_report_verdict_line(const struct td_comparison *c, struct td_buf *out)
{
    int i;

    td_buf_addf(out, "verdict: %s",
                td_verdict_name(c->verdict == TD_NOT_JUDGED ? TD_INCONCLUSIVE : c->verdict));
    for (i = 0; i < TD_N_LANES; i++)
        if (td_lane_types[i]->add_answer_figures)
            td_lane_types[i]->add_answer_figures(c, out);
    for (i = 0; i < TD_N_LANES; i++)
        if (td_lane_types[i]->add_op_figures)
            td_lane_types[i]->add_op_figures(c, out);
    for (i = 0; i < TD_N_LANES; i++)
        if (td_lane_types[i]->add_cause)
            td_lane_types[i]->add_cause(c, out);
}

void td_report_text(const struct td_comparison *c, FILE *out, bool colour, bool verbose)
{
    const struct td_page p = {out, colour, verbose};
    struct td_buf line = TD_BUF_INIT(1 << 16);

    print_sides(c, &p);
    print_findings(c, &p);
    print_limits(c, &p);
    print_lanes(c, &p);
    td_report_verdict_line(c, &line);
    fprintf(out, "\n");
    td_page_verdict(&p, c->verdict, td_buf_str(&line), 0);
    fprintf(out, "\n");
    td_buf_release(&line);
}

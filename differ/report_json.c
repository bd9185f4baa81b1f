/* report_json.c - everything that the text report holds and more, for programs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The schema is in docs/verdicts.md, "The JSON report". */
#include "common/fs.h"
#include "common/json.h"
#include "differ/lanes.h"
#include "differ/reports.h"

#define REPORT_MAX ((size_t)1 << 30)
#define SCHEMA "tapedeck-report-1"

static void write_sides(struct td_jw *w, const struct td_comparison *c)
{
    size_t i;

    td_jw_arr(w, "fixtures");
    for (i = 0; i < c->n_sides; i++) {
        const cJSON *m = td_fixture_manifest(c->side[i].fx);

        td_jw_obj(w, NULL);
        td_jw_cstr(w, "role", td_role_key(c->side[i].role));
        td_jw_i64(w, "round", c->side[i].round);
        td_jw_cstr(w, "dir", td_fixture_dir(c->side[i].fx));
        td_jw_cstr(w, "id", td_fixture_id(c->side[i].fx));
        td_jw_i64(w, "exchanges", (int64_t)c->side[i].n_xs);
        if (td_json_get(m, "server"))
            td_jw_value(w, "server", td_json_get(m, "server"));
        if (td_json_get(m, "replay"))
            td_jw_value(w, "replay", td_json_get(m, "replay"));
        td_jw_end(w);
    }
    td_jw_end(w);
}

static void write_lanes(struct td_jw *w, const struct td_comparison *c)
{
    int i, j;

    td_jw_obj(w, "lanes");
    for (i = 0; i < TD_N_LANES; i++) {
        const struct td_lane *l = &c->lane[i];

        td_jw_obj(w, td_lane_name(l->id));
        td_jw_bool(w, "asked", l->asked);
        td_jw_cstr(w, "verdict", td_verdict_name(l->asked ? l->verdict : TD_NOT_JUDGED));
        td_jw_arr(w, "notes");
        for (j = 0; j < l->n_notes; j++) {
            td_jw_obj(w, NULL);
            td_jw_cstr(w, "verdict",
                       l->notes[j].verdict == TD_NOT_JUDGED ? "note"
                                                            : td_verdict_name(l->notes[j].verdict));
            td_jw_cstr(w, "text", l->notes[j].text);
            td_jw_end(w);
        }
        td_jw_end(w);
        td_jw_end(w);
    }
    td_jw_end(w);
}

int td_report_json(const struct td_comparison *c, const char *path, struct td_error *err)
{
    struct td_buf b = TD_BUF_INIT(REPORT_MAX), line = TD_BUF_INIT(1 << 16);
    struct td_jw w;
    int i, rc;

    td_report_verdict_line(c, &line);
    td_jw_init(&w, &b, true);
    td_jw_obj(&w, NULL);
    td_jw_cstr(&w, "schema", SCHEMA);
    td_jw_cstr(&w, "tool", "tapedeck differ " TD_VERSION);
    td_jw_cstr(&w, "verdict",
               td_verdict_name(c->verdict == TD_NOT_JUDGED ? TD_INCONCLUSIVE : c->verdict));
    td_jw_i64(&w, "exit", td_verdict_exit(c->verdict));
    td_jw_str(&w, "line", td_buf_str(&line), line.len);
    write_sides(&w, c);
    write_lanes(&w, c);
    for (i = 0; i < TD_N_LANES; i++)
        if (td_lane_types[i]->write_json)
            td_lane_types[i]->write_json(c, &w);
    td_policy_write(&c->policy, &w, "policy");
    td_jw_end(&w);
    td_buf_addc(&b, '\n');
    rc = b.failed ? td_fail(err, TD_ELIMIT, "%s: the report would pass %zu bytes", path, REPORT_MAX)
                  : td_fs_write_atomic(path, b.data, b.len, err);
    td_buf_release(&b);
    td_buf_release(&line);
    return rc;
}

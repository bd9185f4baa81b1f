/* coverage.c - which share of a server's GEMMs a fixture holds, and what the tap did not see.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/coverage.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"

/* Clamp a figure of the manifest: large enough for any recording, small enough to add and
 * subtract. */
static int64_t clamp_figure(int64_t n)
{
    return n < 0 ? 0 : n > INT64_MAX / 4 ? INT64_MAX / 4 : n;
}

void td_coverage_read(const struct td_fixture *fx, struct td_coverage *out)
{
    const cJSON *m = td_fixture_manifest(fx), *tap = td_json_get(m, "tap");

    *out = (struct td_coverage){0};
    if ((!tap && !td_json_get(m, "extract")) || td_json_get(m, "replay") || td_json_get(m, "merge"))
        return;                        /* the ledger counts replayed ops, no server's GEMMs */
    *out = (struct td_coverage){
        .stored = clamp_figure(td_fixture_ledger(fx, "ops.kept")),
        .seen = clamp_figure(td_fixture_ledger(fx, "ops.seen")),
        .unread = clamp_figure(td_json_get_i64(tap, "unread_gemms", 0)),
        .unread_most = td_json_get_str(tap, "unread_most", NULL),
        .graphs = clamp_figure(clamp_figure(td_fixture_ledger(fx, "launches.graphs")) -
                               clamp_figure(td_fixture_ledger(fx, "launches.graphs_read"))),
        .rested_ms = clamp_figure(td_fixture_ledger(fx, "watch.rested_ms")),
        .all_kinds = !strcmp(td_json_get_str(td_json_get(tap, "mode"), "kinds", ""), "all"),
        .extract = td_json_get(m, "extract") != NULL,
    };
}

double td_coverage_percent(const struct td_coverage *c)
{
    int64_t seen = c->seen + c->unread;

    return seen > 0 ? 100.0 * (double)c->stored / (double)seen : NAN;
}

/* Replace everything but printable ASCII: a kernel's name from a manifest may hold control
 * characters of a terminal. */
static void make_printable(char *s)
{
    for (; *s; s++)
        if (*s < ' ' || *s > '~')      /* whether char is signed or not */
            *s = '?';
}

void td_coverage_words(const struct td_coverage *c, char out[TD_COVERAGE_WORDS])
{
    const size_t max = TD_COVERAGE_WORDS;
    const char *before = c->all_kinds ? "ops: " : "gemms: ", *most = c->unread_most ? c->unread_most : "";
    size_t n = 0;

    out[0] = '\0';
    if (c->extract) {
        snprintf(out, max, "%s%lld, an extract of a recording", before, (long long)c->stored);
        return;
    }
    if (c->seen + c->unread > 0) {
        n += (size_t)snprintf(
            out, max, "%s%lld of %lld that were seen are in the fixture (%.1f %%)", before,
            (long long)c->stored, (long long)(c->seen + c->unread), td_coverage_percent(c));
        before = "; ";
    }
    if (c->unread > 0)
        n += (size_t)snprintf(
            out + n, max - n,
            ", %lld launch%s of kernels that the tap does not read among those%s%.80s",
            (long long)c->unread, c->unread == 1 ? "" : "es", most[0] ? ", most of all " : "",
            most);
    if (c->rested_ms > 0) {
        n +=
            (size_t)snprintf(out + n, max - n, "%sfor %.1f s, between samples, none were looked at",
                             before, (double)c->rested_ms / 1000);
        before = "; ";
    }
    if (c->graphs > 0)
        snprintf(out + n, max - n, "%swhat %lld launch%s of CUDA graphs computed was not seen",
                 before, (long long)c->graphs, c->graphs == 1 ? "" : "es");
    make_printable(out);
}

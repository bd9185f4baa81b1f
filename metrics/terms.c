/* terms.c - the table of terms.
 * SPDX-License-Identifier: Apache-2.0 */
#include "metrics/terms.h"

#include <string.h>

static const char *const NAMES[] = {
#define DIALECT(id, name, source) name,
#include "metrics/terms.def"
};

static const char *const SOURCES[] = {
#define DIALECT(id, name, source) source,
#include "metrics/terms.def"
};

static const struct td_term_def DEFS[] = {
#define TERM(dialect, term, name, values, definition) \
    {TD_DIALECT_##dialect, TD_TERM_##term, name, TD_VALUES_##values, definition},
#include "metrics/terms.def"
};

const char *td_dialect_name(enum td_dialect d)
{
    return NAMES[d];
}

const char *td_dialect_source(enum td_dialect d)
{
    return SOURCES[d];
}

int td_dialect_parse(const char *name, enum td_dialect *out, struct td_error *err)
{
    int d;

    for (d = 0; d < TD_N_DIALECTS; d++)
        if (!strcmp(NAMES[d], name)) {
            *out = (enum td_dialect)d;
            return TD_OK;
        }
    return td_fail(err, TD_EINVAL, "--metrics-as %.40s: the terms are those of tapedeck, vllm, guidellm, aiperf or inference-perf", name);
}

const char *td_term_key(enum td_metric_term t)
{
    static const char *const KEYS[TD_N_TERMS] = {"ttft", "itl", "icl", "tpot", "ntpot", "e2e"};

    return KEYS[t];
}

const struct td_term_def *td_term_def(enum td_dialect d, size_t i)
{
    size_t k;

    for (k = 0; k < sizeof DEFS / sizeof *DEFS; k++)
        if (DEFS[k].dialect == d && !i--)
            return &DEFS[k];
    return NULL;
}

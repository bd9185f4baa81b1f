/* terms.h - in whose terms an exchange is measured, and what these terms mean.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every report that prints TTFT, ITL, TPOT or E2E takes it from here, or from wire/derive.h, whose figures are those of
 * TD_DIALECT_TAPEDECK. The definitions stand in terms.def, with their sources. */
#ifndef TD_METRICS_TERMS_H
#define TD_METRICS_TERMS_H

#include <stddef.h>

#include "common/error.h"

enum td_dialect {
#define DIALECT(id, name, source) TD_DIALECT_##id,
#include "metrics/terms.def"
    TD_N_DIALECTS
};

enum td_metric_term { TD_TERM_TTFT, TD_TERM_ITL, TD_TERM_ICL, TD_TERM_TPOT, TD_TERM_NTPOT, TD_TERM_E2E, TD_N_TERMS };

enum td_term_values { TD_VALUES_EACH, TD_VALUES_GAPS, TD_VALUES_TOKENS };

struct td_term_def {
    enum td_dialect dialect;
    enum td_metric_term term;
    const char *name;           /* as the tool prints it: "E2EL" */
    enum td_term_values values; /* of what the percentiles are */
    const char *definition;
};

/* "tapedeck", "vllm" ...; and where the definitions come from. */
const char *td_dialect_name(enum td_dialect d);
const char *td_dialect_source(enum td_dialect d);
/* TD_EINVAL names what there is. */
int td_dialect_parse(const char *name, enum td_dialect *out, struct td_error *err);

/* The key of a term in files, one for all dialects: "ttft", "itl", "icl", "tpot", "ntpot", "e2e". */
const char *td_term_key(enum td_metric_term t);
/* The i-th term of a dialect, in the order of its reports; NULL: it has no more. */
const struct td_term_def *td_term_def(enum td_dialect d, size_t i);

#endif

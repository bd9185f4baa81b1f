/* verdict.c - names and exit codes of the verdicts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/verdict.h"

#include "common/error.h"

const char *td_verdict_name(enum td_verdict v)
{
    static const char *const NAMES[] = {"not judged", "pass", "inconclusive", "regressed",
                                        "broken"};

    return NAMES[v];
}

int td_verdict_exit(enum td_verdict v)
{
    switch (v) {
    case TD_PASS:
        return TD_EXIT_OK;
    case TD_REGRESSED:
        return TD_EXIT_REGRESSED;
    case TD_BROKEN:
        return TD_EXIT_BROKEN;
    case TD_INCONCLUSIVE:
    case TD_NOT_JUDGED:
        break;
    }
    return TD_EXIT_INCONCLUSIVE;
}

/* report_smoke.c - the text of a smoke test: one line, and the answers when they are asked for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/report_smoke.h"

void td_report_print_smoke(const cJSON *report, FILE *out, bool verbose)
{
    const cJSON *answer;

    if (verbose)
        cJSON_ArrayForEach(answer, td_json_get(td_json_get(report, "smoke"), "answers"))
            fprintf(out, "  %s: %s\n", td_json_get_str(answer, "prompt_id", "?"),
                    td_json_get_str(answer, "error", td_json_get_str(answer, "text", "")));
    fprintf(out, "%s\n", td_json_get_str(report, "line", "smoke: failed"));
}

/* report_smoke.c - the text of a smoke test: one line, and the answers when they are asked for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/report_smoke.h"

#include "report/text.h"

/* Texts of a server and of a recording: none begins a line of its own. */
static void print_clean(FILE *out, const char *s, const char *behind)
{
    struct td_buf clean = TD_BUF_INIT(1 << 18);

    td_text_clip(&clean, s, (int)TD_TEXT_MAX);
    fprintf(out, "%s%s", td_buf_str(&clean), behind);
    td_buf_release(&clean);
}

void td_report_print_smoke(const cJSON *report, FILE *out, bool verbose)
{
    const cJSON *answer;

    if (verbose)
        cJSON_ArrayForEach(answer, td_json_get(td_json_get(report, "smoke"), "answers")) {
            fputs("  ", out);
            print_clean(out, td_json_get_str(answer, "prompt_id", "?"), ": ");
            print_clean(out, td_json_get_str(answer, "error", td_json_get_str(answer, "text", "")), "\n");
        }
    print_clean(out, td_json_get_str(report, "line", "smoke: failed"), "\n");
}

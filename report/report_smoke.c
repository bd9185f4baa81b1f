/* report_smoke.c - the text of a smoke test: one line, and the answers when they are asked for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/report_smoke.h"

#include "common/out_of_memory.h"
#include "report/text.h"

#define NO_MEMORY "smoke: failed: out of memory"

/* Print a line. Texts of a server and of a recording: none begins a line of its own. false: there was no memory for it, and
 * nothing is printed. */
static bool print_line(FILE *out, const char *first, const char *between, const char *second)
{
    const unsigned failed_before = td_out_of_memory_count();
    struct td_buf line = TD_BUF_INIT(1 << 18);
    bool whole;

    td_buf_adds(&line, *between ? "  " : "");
    td_text_clip(&line, first, (int)TD_TEXT_MAX);
    td_buf_adds(&line, between);
    td_text_clip(&line, second, (int)TD_TEXT_MAX);
    td_text_end_line(&line);
    whole = td_out_of_memory_count() == failed_before;
    if (whole)
        fputs(td_buf_str(&line), out);
    td_buf_release(&line);
    return whole;
}

int td_report_print_smoke(const cJSON *report, FILE *out, bool verbose)
{
    const cJSON *answer;
    bool whole = true;

    if (verbose)
        cJSON_ArrayForEach(answer, td_json_get(td_json_get(report, "smoke"), "answers"))
            whole = print_line(out, td_json_get_str(answer, "prompt_id", "?"), ": ",
                               td_json_get_str(answer, "error", td_json_get_str(answer, "text", ""))) && whole;
    /* a report without a line is one that found no memory */
    if (whole && print_line(out, td_json_get_str(report, "line", NO_MEMORY), "", ""))
        return TD_OK;
    fputs(NO_MEMORY "\n", out);
    return TD_ENOMEM;
}

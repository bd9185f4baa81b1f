/* report.h - the report of a comparison: one JSON document, from which everything that a person
 * or CI sees is made.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A report has the schema tapedeck-report-3 (one comparison) or tapedeck-reports-3 (several,
 * joined). docs/report.schema.json says what each member means. All functions take a report of
 * either schema. A member that is missing reads as unknown: no report is trusted to be complete. */
#ifndef TD_REPORT_REPORT_H
#define TD_REPORT_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "common/error.h"
#include "common/json.h"

#define TD_REPORT_SCHEMA "tapedeck-report-3"
#define TD_REPORTS_SCHEMA "tapedeck-reports-3"
/* The texts of items of `next` */
#define TD_NEXT_EXTRACT "cut out the first bad op"
#define TD_NEXT_GATE_CUT "gate that op alone"
#define TD_NEXT_AGAIN "record it again: the recording lacks what was planned"
#define TD_REPORT_MAX ((size_t)1 << 30) /* bytes of a report as JSON */

/* Where a report goes. A path of NULL: not asked for; "-": standard output. */
struct td_report_outputs {
    const char *json, *junit, *markdown, *csv;
    bool verbose, quiet, colour; /* of the text; quiet: the verdict line alone */
};

/* Can every file that is asked for be written? Called before any work. TD_EINVAL: one cannot be, or
 * two of them are one file; the sentence names the options and what to do. */
int td_report_outputs_check(const struct td_report_outputs *o, struct td_error *err);
/* Would one of the files be written over what is read? Before anything is written.
 *   o    : such a file is taken out of it, so that nothing is written there
 *   path : a fixture, a folder of fixtures, or a file; NULL: nothing is read
 * TD_EINVAL: yes; the sentence names both. */
int td_report_outputs_spare(struct td_report_outputs *o, const char *path, struct td_error *err);
/* The same of a file that is read and is no fixture, or of any file that is there in a folder: a build,
 * a checkpoint, a file of headers. */
int td_report_outputs_spare_input(struct td_report_outputs *o, const char *path, struct td_error *err);
/* Would one of the files lie among a fixture's own (common/outside_fixtures.h)? It is taken out of o, and the
 * result is TD_EINVAL. */
int td_report_outputs_stay_outside(struct td_report_outputs *o, struct td_error *err);
/* Where the text goes: standard output, or standard error when a file goes there ("-"). */
FILE *td_report_text_stream(const struct td_report_outputs *o);

/* A report without a comparison: broken, or usage, and `cause` says why. It began now, unless
 * td_report_stamp() says otherwise. The caller frees it. NULL: out of memory.
 *   tool : "tapedeck gate 0.1.0"
 *   code : TD_EXIT_BROKEN, or TD_EXIT_USAGE where fixtures must not be compared */
__attribute__((format(printf, 3, 4)))
cJSON *td_report_broken(const char *tool, int code, const char *cause, ...);
/* Join reports into one of schema tapedeck-reports-3: the gravest verdict. Copies the reports, in their
 * order, and names each copy (report_names.h). NULL: out of memory. */
cJSON *td_report_join(cJSON *const *reports, size_t n);
/* Read a report from a file. NULL: it cannot be read, or has another schema. */
cJSON *td_report_load(const char *path, struct td_error *err);

/* Note when the run began and how long it took until now (members `started`, `seconds`).
 *   began_ns : td_clock_mono_ns() at the begin */
void td_report_stamp(cJSON *report, int64_t began_ns);

/* Is it a report of several comparisons? */
bool td_report_is_joined(const cJSON *report);
int td_report_exit(const cJSON *report);            /* TD_EXIT_BROKEN where the member is missing */
const char *td_report_verdict(const cJSON *report); /* "pass" ...; "broken" where it is missing */
int td_report_gravity(const cJSON *report);         /* the larger the graver, from 0 for a pass */
/* "WRONG", "SLOWER" ... from a verdict and whether speed alone has regressed. */
const char *td_report_headline(const char *verdict, bool speed_alone);

/* Overwrite in all texts of a report what must not be shown (common/hidden.h), before one of its formats
 * cuts or breaks them. What no memory could be had for is counted (common/out_of_memory.h). */
void td_report_hide(cJSON *report);
/* Print the text for a person. The last line is the verdict line. TD_ENOMEM: there was no memory for the text; the
 * verdict that was printed is broken. */
int td_report_print(const cJSON *report, FILE *out, const struct td_report_outputs *o);
/* Print any report for a person, where its text goes, after its cause on stderr; smoke: of a smoke
 * test. TD_ENOMEM; TD_EIO: the text could not be written, which is said on stderr. A reader that
 * has gone (EPIPE) wants no more, and is no error. */
int td_report_show(const cJSON *report, const struct td_report_outputs *o, bool smoke);
/* Write the files that are asked for (common/outfile.h). All are tried; the first error is
 * returned. Of two reports in one file the first is written. */
int td_report_write(const cJSON *report, const struct td_report_outputs *o, struct td_error *err);

/* ---- one file for each format ---------------------------------------------------------------- */

/* Append the report as a document to out. TD_ELIMIT: it is too large. The formats are described in
 * docs/report-formats.md; Markdown is cut to what GitHub takes as a comment. */
int td_report_json(const cJSON *report, struct td_buf *out, struct td_error *err);
int td_report_junit(const cJSON *report, struct td_buf *out, struct td_error *err);
int td_report_csv(const cJSON *report, struct td_buf *out, struct td_error *err);
int td_report_markdown(const cJSON *report, struct td_buf *out, struct td_error *err);

#endif

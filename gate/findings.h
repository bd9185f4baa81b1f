/* findings.h - what a lane of a report found, thing by thing, so that one can be told from another.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GATE_FINDINGS_H
#define TD_GATE_FINDINGS_H

#include "common/json.h"

/* What the findings of a group of ops are named, behind the group's name; its largest error has that name alone. */
#define TD_FINDING_SHARE ", share of bad ops"
#define TD_FINDING_OWN_SHARE ", share of ops bad by themselves" /* and not because the group is biased */
#define TD_FINDING_TYPICAL ", typical error"
#define TD_FINDING_WHOLE ", error of whole outputs"
#define TD_FINDING_TYPICAL_WHOLE ", typical error of whole outputs"
#define TD_FINDING_APART ", share of runs apart" /* of bad ops: the run that was judged is right, and others are not */
#define TD_FINDING_NAN ", NaN"
#define TD_FINDING_INF ", Inf"

/* The findings of a lane: {"gptq_gemm 256x384 b4 g128 M=1 F16": 32.7, ...}. The figure grows with
 * how bad it is: the largest error of a group of ops, the median error of its bad ops, the same of their
 * whole outputs (relative, of all elements together), the share of
 * its ops that are bad, the share of these with NaN among their outputs, the share of a kernel's bad ops whose
 * results differ between runs, and by a share of their error, the shift of a score, the
 * upper limit of a slowdown; 0 where there is nothing to measure (a fork, a collapse, a crash). An empty object: the lane's verdict rests on
 * nothing that could be named. The caller frees it. NULL: out of memory. */
cJSON *td_findings_of(const cJSON *report, const char *lane);
/* Is a finding of this name and figure the accepted one? Errors of ops vary from run to run by less
 * than twice (docs/verdicts.md, Ops), scores and speed by a quarter. A figure of less than half is
 * another fault, except in speed, where less is better, and for the largest error of a group, which
 * a sample of its ops (--max-ops) need not hold: there the median tells. Infinity is like infinity
 * alone. */
bool td_finding_within(const char *lane, const char *name, double figure, double accepted);
/* The name of a group of ops (report.ops.groups), which its findings begin with. */
void td_finding_group_name(const cJSON *group, char *out, size_t n);
/* The name of the finding that results of its kernel differ between runs: "gptq_gemm F16, unstable". */
void td_finding_unstable_name(const cJSON *group, char *out, size_t n);
/* The same of those that differ by a share of the error: "gptq_gemm F16, unstable by a share of the error". */
void td_finding_far_name(const cJSON *group, char *out, size_t n);
/* Do runs lie so far apart, for the error of the worst element, that it may be another one each time? A spread
 * that is not known does not count. */
bool td_finding_is_far(double spread, double error);
/* Is this op (report.ops.not_ok) one of the group's bad ones? */
bool td_finding_is_bad_op_of(const cJSON *op, const cJSON *group);
/* Is an op bad because its runs lie apart, though the one that was judged is right? */
bool td_finding_is_apart(const cJSON *op);
/* Is a finding of this name there or not by which run of an op was judged? */
bool td_finding_depends_on_runs(const char *name);
/* A note without its numbers and without the "s" of its words: "693 of 700 ops are bad" and "1 of 1 op
 * is bad" are one sentence.
 * Appends to out. */
void td_note_skeleton(const char *text, struct td_buf *out);

#endif

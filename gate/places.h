/* places.h - where in their matrices the bad ops of an accepted finding were worst, and by how much.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two faults may make errors of one size in the same ops. The worst element of an op tells them apart:
 * the same fault has it in the same row and column, also on another machine, for the op's inputs are
 * recorded. Two faults agree by chance in up to a quarter of the ops (docs/measurements/2026-11-verdicts.md).
 * Where results differ between runs by a share of the error another element is the worst each time, by an error
 * of any size, but the error of the whole output stays within a quarter in nine of ten ops. */
#ifndef TD_GATE_PLACES_H
#define TD_GATE_PLACES_H

#include "common/json.h"

/* {"gptq_gemm 256x384 b4 g128 M=1 F16": {"judged": 12, "ops": {"c2c93388:7":
 * "row 0, column 166, error 46286, whole 0.31", ...}}, ...}: of each group of ops how many were judged, and up to
 * 8 of its bad ops, by fixture and number. whole: the relative error of the whole output. Behind it stand
 * ", 3 NaN, 0 Inf", and ", unstable by 251" (results differed between runs, by so many roundings) and ", judged
 * right" (the run that was judged) where it is so; of one that ran once (--op-repeat 1) that is not known. Left
 * out are ops that crashed. The 8 are those that a sample (--max-ops) or a plan (--time) takes first.
 * The caller frees it. NULL: out of memory. */
cJSON *td_places_of(const cJSON *report);
/* Are at least half of the accepted ops that were judged again as they were: worst there, by half to twice as
 * much, with half to twice as many NaN and Inf, and the whole output as wrong, within a quarter? In each group
 * with 4 of them or more, and in the others taken together. Of unstable ones whose runs lie far apart
 * (td_finding_is_far), which must be unstable again, the whole output counts alone (or, where one of both runs was judged right, how far runs lie apart), half of
 * them in all groups together. An op that is not bad any more counts as elsewhere, where as many ops of its
 * group were judged as then, unless it was unstable. A smaller sample may lack it; but where not one of them is
 * bad again, it is not known to be the same fault. */
bool td_places_agree(const cJSON *report, const cJSON *accepted);
/* Is a typical error that belongs to this group of no weight, because a sample of the group was judged,
 * and the ops that both hold agree? The median of a few ops is another one than that of all. */
bool td_places_tell_more(const cJSON *report, const cJSON *accepted, const char *group_name);

#endif

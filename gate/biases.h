/* biases.h - by how much, and in which slices, the ops of an accepted finding were biased or coarser.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bias is judged over all ops of a group (docs/verdicts.md, "Bias"). A sample of them shows it in other
 * groups, and in other slices of the same elements, so the lane's sentences differ from run to run. What
 * stays is the kernel, the sign, and the size in roundings. */
#ifndef TD_GATE_BIASES_H
#define TD_GATE_BIASES_H

#include "common/json.h"

/* What a report found: [{"kind": "gptq_gemm", "dtype": "F16", "of": "slope", "sign": -1, "judged": 412,
 * "slice": "columns = 0 mod 4", "least": 4.3, "most": 5.1, "clear": 12, "enough": 24, "group": "..."}, ...]; sizes
 * in roundings of the output's format, of all groups that say the same; judged: ops of that run; clear: groups
 * that say it beyond chance; enough: how many ops of that group, the clearest of them, do (none: none of one
 * class of M is clear). The caller frees it. NULL: out of memory. */
cJSON *td_biases_of(const cJSON *report);
/* Is every bias of this report among the accepted ones? One of the same kernel and dtype, from half of
 * the least to twice the most (coarseness: a quarter to four times, for the rms error of a few ops is that
 * of their largest elements); coarseness by any of them, a slope or a mean by one of the same sign whose
 * slice holds this one: "all elements" hold "columns = 1 mod 4", and these "columns = 5 mod 8". What a smaller
 * sample shows faintly (not "clear") counts as coarseness.
 * And is of each kernel the accepted slope or mean that is clear in most groups found again, in a slice that
 * holds the accepted one, where as many ops were judged as then, or enough of its group?
 *   accepted : as td_biases_of() made it; NULL: none */
bool td_biases_agree(const cJSON *report, const cJSON *accepted);
/* Is this sentence of the lane made of a bias? td_biases_agree() judges it, and its words do not count. */
bool td_biases_say(const cJSON *report, const char *text);

#endif

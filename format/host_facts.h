/* host_facts.h - facts about the machine that records: CPU, instruction sets, cores, kernel, GPU.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_HOST_FACTS_H
#define TD_FORMAT_HOST_FACTS_H

#include "common/cpu_others.h"
#include "format/fixture.h"

/* Write section "host" of the manifest. What is not known is said so. */
void td_host_facts_write(struct td_writer *w);
/* Write how fast the machine was during each start of a server (common/cpu_probe.h).
 *   ms : [n] */
void td_host_facts_probes(struct td_writer *w, const double *ms, int n);
/* Write what other programs took of the machine during each start, or while the requests of a replay were sent.
 *   others : [n] */
void td_host_facts_others(struct td_writer *w, const struct td_cpu_others *others, int n);
/* Read the i-th of these from a manifest. One that is not there is not known, and says so. */
void td_host_facts_read_others(const cJSON *manifest, int i, struct td_cpu_others *out);

#endif

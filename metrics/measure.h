/* measure.h - measure one exchange in given terms.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_METRICS_MEASURE_H
#define TD_METRICS_MEASURE_H

#include "metrics/messages.h"
#include "metrics/measured.h"

/* Fill span, gap and the times of throughput; span is NaN and gap NULL before. TD_OK or TD_ENOMEM.
 * td_measure_exchange: in Tapedeck's own terms; td_measure_messages: in those of a tool that counts messages. */
int td_measure_exchange(const struct td_exchange *of, struct td_measured *x);
int td_measure_messages(enum td_dialect d, const struct td_messages *of, struct td_measured *x);

#endif

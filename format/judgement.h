/* judgement.h - are the numbers of a judgement such as a judge can find?
 * SPDX-License-Identifier: Apache-2.0
 *
 * A verdict is made of the numbers that a replay wrote beside its ops (docs/format.md, "judge"). A
 * number that no judge can have written, as a count above all elements or an error below 0, is no
 * evidence: it could only be compared to a limit, and so pass. */
#ifndef TD_FORMAT_JUDGEMENT_H
#define TD_FORMAT_JUDGEMENT_H

#include "format/records.h"

/* Check each number of op->judge: that it is one, lies in its range, and does not contradict the
 * others. Members that an older replay did not write may be absent; members that this version does not
 * know are not looked at. A recorded op without a
 * judgement is sound, a replayed one (`origin`) is not.
 * TD_ECORRUPT: the sentence names the op, the member, what stands there and what is due. */
int td_judgement_check(const struct td_op *op, struct td_error *err);

#endif

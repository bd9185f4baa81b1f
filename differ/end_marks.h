/* end_marks.h - answers that broke off, though their HTTP ended in order: they lack the [DONE] of the others.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_END_MARKS_H
#define TD_DIFFER_END_MARKS_H

#include "differ/align.h"

/* Turn each streamed answer without [DONE] into an exchange with an error ("cut"), where answers of the
 * baseline, or of its own fixture, to requests of the same path end with it. What the recorder could not know
 * yet is known here: that the server has [DONE]. A server that has it in no answer is left alone. */
void td_end_marks_judge(struct td_side *sides, size_t n_sides);
/* Is it a whole streamed answer that ended without [DONE]? */
bool td_end_mark_lacks(const struct td_exchange *x);

#endif

/* smoke_ids.h - token ids that cannot be those of the answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Only what no sound server does is wrong:
 *   - an id below 0, of 2^31 - 1 and more, or beyond the vocabulary that the server states. -1 stands
 *     for an id that a server did not show, and is none
 *   - in half of the tokens, and in 16: the id is not among the likeliest ones that the server lists
 *     for that place, although these come with ids, and the text is greedy
 *   - one id with two texts, in half of the tokens whose id was there before, and in 16. Compared are
 *     texts of visible ASCII alone, without blanks: a token may be a part of a glyph, and then its text
 *     depends on what stands before it */
#ifndef TD_DIFFER_SMOKE_IDS_H
#define TD_DIFFER_SMOKE_IDS_H

#include "format/records.h"

/* The first exchange that shows such ids, and in words what is wrong; NULL: none, or out of memory.
 *   xs    : [n]; warm-ups and failed ones are left out
 *   vocab : how many tokens the model has; 0: not known */
const struct td_exchange *td_smoke_wrong_ids(const struct td_exchange *xs, size_t n, int64_t vocab,
                                             char *what, size_t size);

#endif

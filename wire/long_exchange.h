/* long_exchange.h - keep an exchange within what a line of a fixture may hold.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_LONG_EXCHANGE_H
#define TD_WIRE_LONG_EXCHANGE_H

#include "format/records.h"

#define TD_EXCHANGE_MAX_LINE ((size_t)128 << 20) /* as JSON; real ones have kilobytes */

/* An answer within the client's bounds may still be too long as JSON: a control character takes six
 * bytes there. Such an exchange loses its answer, and its request if need be, and becomes an error
 * ("parse") that says so; extra gets "answer_dropped". The bytes stay in the wire log.
 *   long_request : the request alone is so long that it needs a look
 * TD_OK, TD_ENOMEM. */
int td_exchange_limit_line(struct td_exchange *x, bool long_request);

#endif

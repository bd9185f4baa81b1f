/* close_note.h - the note that ends a stream of the wire log (docs/format.md, "wire.zst: notes").
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_CLOSE_NOTE_H
#define TD_WIRE_CLOSE_NOTE_H

#include "common/buf.h"

/* Append {"close":{"ok":true}}, or {"close":{"ok":false,"kind":...,"error":...}}.
 *   kind  : NULL: the exchange is complete; "cut", "timeout" ...
 *   error : one sentence, where kind is given */
void td_close_note(struct td_buf *out, const char *kind, const char *error);

#endif

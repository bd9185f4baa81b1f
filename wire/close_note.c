/* close_note.c - how a stream of the wire log ended.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/close_note.h"

#include "common/json.h"

void td_close_note(struct td_buf *out, const char *kind, const char *error)
{
    struct td_jw w;

    td_jw_init(&w, out, false);
    td_jw_obj(&w, NULL);
    td_jw_obj(&w, "close");
    td_jw_bool(&w, "ok", !kind);
    if (kind) {
        td_jw_cstr(&w, "kind", kind);
        td_jw_cstr(&w, "error", error);
    }
    td_jw_end(&w);
    td_jw_end(&w);
}

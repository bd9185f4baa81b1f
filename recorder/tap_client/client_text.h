/* client_text.h - check text that another process sent before it goes into JSON and onto terminals.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_CLIENT_TEXT_H
#define TD_RECORDER_TAP_CLIENT_CLIENT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Does s end with a NUL within its n bytes, and hold printable ASCII only? */
bool client_is_text(const char *s, size_t n, bool may_be_empty);

#endif

/* allowed_requests.h - which requests may be sent to a server.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A fixture can come from anybody, and its requests are sent with the user's headers, so with their
 * key. The scheme and the host come from the command line alone; the method is POST; the path is
 * one by which a server of this dialect generates text, or one that the user named. A path that
 * does not begin with a slash would become part of the host's name, and one with a blank or a line
 * break would begin a request of its own. */
#ifndef TD_WIRE_ALLOWED_REQUESTS_H
#define TD_WIRE_ALLOWED_REQUESTS_H

#include "common/error.h"
#include "wire/api.h"
#include "wire/send_plan.h"

/* May this request be sent to a server of this dialect? A query ("?key=…") does not count as part
 * of the path.
 *   kind : AUTO: the paths of all dialects
 *   more : paths that the user allowed beside them, NULL-terminated, or NULL
 * TD_EINVAL, with a sentence that names the request. */
int td_allowed_request(enum td_api_kind kind, const char *method, const char *path,
                       const char *const *more, struct td_error *err);
/* The same for all requests of a plan. */
int td_allowed_plan(enum td_api_kind kind, const struct td_plan *plan, const char *const *more,
                    struct td_error *err);
/* May the user name this path? It begins with one slash, and has no blanks, no control characters
 * and no "?" or "#". TD_EINVAL. */
int td_allowed_path_check(const char *path, struct td_error *err);

#endif

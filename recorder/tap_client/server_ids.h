/* server_ids.h - exchanges by the ids that the server itself gave them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Who sends nothing has no ids of its own (request_ids.h). A server that names the rows of its steps
 * names them by its own ids then, and its answers hold these, too: "cmpl-1f" is the id of an answer
 * and of its rows, or the first part of a longer one ("cmpl-1f-0"). Steps come before their answers
 * are over, so rows are noted first, and found later. */
#ifndef TD_RECORDER_TAP_CLIENT_SERVER_IDS_H
#define TD_RECORDER_TAP_CLIENT_SERVER_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/tap_client/name_index.h"

/* Of answers also: stream : -1: several answers have this id, so it names none
 *                 from_ns, to_ns : when its request was in flight */
struct client_id { char *text; int64_t stream, from_ns, to_ns; };
struct client_id_list { struct client_id *x; size_t n, cap; struct client_index index; };
struct client_server_ids {            /* zeroed: none */
    struct client_id_list rows, answers;
    int64_t rows_forgotten;           /* notes of ids for which there was no room, or that are too long */
};

/* Note the id of a row. Returns a number of -2 or less that stands for it; -1: it has no id, or its id is forgotten. */
int64_t client_server_ids_note(struct client_server_ids *all, const char *row);
/* An answer of exchange `stream`, whose request was in flight from then to then, has this id. False: there is no room,
 * or the id is too long. */
bool client_server_ids_add(struct client_server_ids *all, const char *answer, int64_t stream, int64_t from_ns, int64_t to_ns);
/* The exchange of a row that was noted, of a step at t_ns; -1: none has this id, or several have, or it was not in
 * flight then: a client that gave up and asks again may choose the same id. */
int64_t client_server_ids_stream(const struct client_server_ids *all, int64_t noted, int64_t t_ns);
void client_server_ids_release(struct client_server_ids *all);

#endif

/* recording_starts.h - the timed repeats of a recording, on one start of the server after another.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two starts of one server are not equally fast: memory lies elsewhere. With --starts N the server is started N times, and K of
 * the N * K repeats go to each start, in order: repeat r belongs to start r / K. The first start is also recorded in all other
 * respects; the others answer the timed requests alone. */
#ifndef TD_RECORDER_RECORDING_STARTS_H
#define TD_RECORDER_RECORDING_STARTS_H

#include "recorder/recording.h"

/* Wait until the server that r->started runs, or that runs anyway, answers, and find out what it is. Errors as td_api_probe(). */
int td_recording_probe(struct td_recording *r, struct td_api_server *out, struct td_error *err);

/* Send the repeats of one start, from 0 on; of the first one also ask the server for its metrics just before. A prefix cache would save equal prefills: where no salt in the request prevents that, and
 * the cache can be emptied, it is emptied before each repeat. */
int td_recording_timed(struct td_recording *r, int64_t start, struct td_error *err);

/* End the server, start it again, and send the repeats of that start; for all starts but the first. The tap client is closed. A server
 * that does not come again, or comes as another one, is an error that names the start. */
int td_recording_more_starts(struct td_recording *r, struct td_error *err);

#endif

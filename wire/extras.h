/* extras.h - what a server offers beyond its answers: use it where it exists, note what is missing.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing here may fail a recording, and no server is asked while requests are timed. The fixture
 * says what was missing, and why. */
#ifndef TD_WIRE_EXTRAS_H
#define TD_WIRE_EXTRAS_H

#include "wire/api.h"
#include "wire/metrics.h"

#define TD_EXTRAS_MAX 32

struct td_extra { char name[48], got[8], why[200]; };     /* got: "yes", "no", "refused"; why: "" or a sentence */
/* left_out: notes for which there was no room */
struct td_extras { struct td_extra list[TD_EXTRAS_MAX]; int n, left_out; };

/* Note whether an extra was got; a later note on the same name replaces it. why: NULL, or a text of
 * any length. */
void td_extras_set(struct td_extras *e, const char *name, const char *got, const char *why);
/* Note which extras that were asked for the answer x has, and which ones `s` refuses.
 *   id : the X-Request-Id that was sent, or its beginning; NULL: none */
void td_extras_check_answer(struct td_extras *e, const struct td_api_server *s,
                            const struct td_exchange *x, const char *id);
/* Write them into the manifest: section "server", key "extras": [{"name", "got", "why"}]; if notes
 * had no room, also key "extras_left_out", their number. */
void td_extras_write_fact(const struct td_extras *e, struct td_writer *w);

/* Append the samples of /metrics to m, and note whether they could be had. */
void td_extras_metrics(struct td_extras *e, const struct td_api_server *s, const char *const *headers, struct td_metrics *m);
/* Empty the prefix cache before a phase: vLLM's /reset_prefix_cache (dev mode), SGLang's
 * /flush_cache. True: done. */
bool td_extras_reset_cache(struct td_extras *e, const struct td_api_server *s, const char *const *headers);
/* Write vLLM's or SGLang's /server_info into the manifest: section "server", key "info". Takes
 * seconds on vLLM, so ask last. */
void td_extras_server_info(struct td_extras *e, const struct td_api_server *s, const char *const *headers, struct td_writer *w);

#endif

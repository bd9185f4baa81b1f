/* extras.h - what a server offers beyond its answers: used where it is there, and the fixture says what was missing and why.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing here may fail a recording, and nothing is asked while requests are timed. */
#ifndef TD_WIRE_EXTRAS_H
#define TD_WIRE_EXTRAS_H

#include "wire/api.h"
#include "wire/metrics.h"

#define TD_EXTRAS_MAX 32

struct td_extra { char name[48], got[8], why[200]; };     /* got: "yes", "no", "refused"; why: "" or a sentence */
struct td_extras { struct td_extra list[TD_EXTRAS_MAX]; int n; };

/* A later word on the same name replaces the earlier one. why: NULL or a text of any length. */
void td_extras_set(struct td_extras *e, const char *name, const char *got, const char *why);
/* What the answer x, and the refusals of `s`, show of the extras that were asked for. id: the X-Request-Id that was sent, or its
 * beginning; NULL: none. */
void td_extras_check_answer(struct td_extras *e, const struct td_api_server *s,
                            const struct td_exchange *x, const char *id);
/* manifest section "server", key "extras": [{"name", "got", "why"}] */
void td_extras_write_fact(const struct td_extras *e, struct td_writer *w);

/* GET /metrics into m, and a word about it. */
void td_extras_metrics(struct td_extras *e, const struct td_api_server *s, const char *const *headers, struct td_metrics *m);
/* Empty the prefix cache, so that a phase begins with none: vLLM's /reset_prefix_cache (dev mode), SGLang's /flush_cache. True: done. */
bool td_extras_reset_cache(struct td_extras *e, const struct td_api_server *s, const char *const *headers);
/* vLLM's and SGLang's /server_info: section "server", key "info". Takes seconds on vLLM: last. */
void td_extras_server_info(struct td_extras *e, const struct td_api_server *s, const char *const *headers, struct td_writer *w);

#endif

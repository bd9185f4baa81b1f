/* prompt_names.h - names for prompts of real traffic, by what they ask.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A suite names its prompts; traffic does not. Here the name is a hash of the path and of the request's
 * body as it reaches the disk, so after redaction: equal requests have equal names, in this fixture and in
 * any other, and a name tells nothing of what was overwritten. A cache_salt is left out of it. */
#ifndef TD_RECORDER_PROMPT_NAMES_H
#define TD_RECORDER_PROMPT_NAMES_H

#include "format/fixture.h"
#include "wire/capture/conversation.h"

#define TD_PROMPT_NAMES_MAX (1 << 20) /* different prompts */

struct td_prompt_names;
/* redaction : the rules of the writer; borrowed */
int td_prompt_names_new(const struct td_redaction *redaction, struct td_prompt_names **out, struct td_error *err);
void td_prompt_names_free(struct td_prompt_names *p);
/* Name a request.
 *   whole, n : its bytes; its body begins at `body`
 * TD_OK; TD_ELIMIT: there are too many different ones; TD_ENOMEM. */
int td_prompt_names_get(struct td_prompt_names *p, const char *path, const char *whole, size_t n, size_t body,
                        struct td_conversation_name *out);
/* An exchange of this prompt was seen as a whole. */
void td_prompt_names_seen(struct td_prompt_names *p, const char *prompt_id);
/* How many different ones were seen so; how often the most frequent one came. */
size_t td_prompt_names_count(const struct td_prompt_names *p);
int32_t td_prompt_names_most(const struct td_prompt_names *p);

#endif

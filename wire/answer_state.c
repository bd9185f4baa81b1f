/* answer_state.c - set up and release what was read of an answer, and note its first error.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/answer_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/out_of_memory.h"

void td_answer_init(struct td_answer *a)
{
    *a = (struct td_answer){.usage = {-1, -1}, .computed = TD_ANSWER_COMPUTED_NONE};
    td_buf_init(&a->text, TD_ANSWER_MAX_TEXT);
}

void td_answer_release(struct td_answer *a)
{
    size_t i;

    for (i = 0; i < a->n_tokens; i++)
        free(a->tokens[i].text);
    free(a->tokens);
    free(a->alts);
    free(a->events);
    free(a->prompt_ids);
    free(a->scores);
    td_buf_release(&a->text);
    free(a->finish_reason);
    free(a->fingerprint);
    free(a->id);
    free(a->model);
    free(a->error);
    free(a->error_kind);
    *a = (struct td_answer){.usage = {-1, -1}, .computed = TD_ANSWER_COMPUTED_NONE};
}

/* One printable line of UTF-8. The caller frees it. */
static char *clean_sentence(const char *s)
{
    struct td_buf b = TD_BUF_INIT(4096);
    char *p, *out;

    td_utf8_clean(s, strlen(s), &b);
    out = td_buf_detach(&b, NULL);
    for (p = out; p && *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F)
            *p = ' ';
    return out ? out : td_strdup("(no message)");
}

void td_answer_fail(struct td_answer *a, const char *kind, const char *fmt, ...)
{
    char msg[1024];
    va_list ap;

    if (a->error_kind)
        return;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    a->error = clean_sentence(msg);
    a->error_kind = td_strdup(kind);
}

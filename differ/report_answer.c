/* report_answer.c - one answer, or two that differ, in the report.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/report_answer.h"

#include "report/excerpt.h"

size_t td_answers_common_prefix(const struct td_exchange *a, const struct td_exchange *b)
{
    size_t n = a->text_len < b->text_len ? a->text_len : b->text_len, i = 0;

    while (i < n && a->text[i] == b->text[i])
        i++;
    while (i > 0 && i < a->text_len && ((unsigned char)a->text[i] & 0xC0) == 0x80)
        i--;
    return i;
}

void td_answer_write_text(struct td_jw *w, const char *key, const struct td_exchange *x, size_t at)
{
    struct td_buf b = TD_BUF_INIT(1 << 16);

    td_excerpt(x->text ? x->text : "", x->text_len, at, 120, 240, &b);
    td_jw_str(w, key, td_buf_str(&b), b.len);
    td_buf_release(&b);
}

void td_answer_write_name(struct td_jw *w, const char *prompt_id, const char *category,
                          const struct td_exchange *x)
{
    td_jw_cstr(w, "prompt_id", prompt_id);
    td_jw_cstr(w, "category", category);
    td_jw_i64(w, "repeat", x->repeat);
    td_jw_i64(w, "stream", x->stream);
}

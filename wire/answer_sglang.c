/* answer_sglang.c - read what SGLang's own /generate answers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * From its documentation (sampling_params, native_api):
 *   {"text": "...", "output_ids": [..],
 *    "meta_info": {"id", "finish_reason": null | {"type": "stop"|"length"|"abort"},
 *    "prompt_tokens",
 *     "completion_tokens", "output_token_logprobs": [[logprob, id, text or null], ...],
 *     "output_top_logprobs": [[[logprob, id, text], ...], ...]}}
 * In a stream each event repeats the text so far. Whether the arrays repeat too depends on the
 * version and on --stream-output; new are their last completion_tokens - (tokens seen before). */
#include "wire/answer_sglang.h"

#include <string.h>

#include "common/json.h"
#include "common/out_of_memory.h"
#include "wire/answer_event.h"
#include "wire/answer_scores.h"

static const cJSON *array_or_null(const cJSON *v)
{
    return cJSON_IsArray(v) ? v : NULL;
}

/* Read the text, which is cumulative unless the server was started with --stream-output. */
static bool read_text(struct td_answer *a, const cJSON *text)
{
    size_t n = a->text.len;

    if (!cJSON_IsString(text))
        return false;
    if (n && !strncmp(text->valuestring, td_buf_str(&a->text), n))
        td_buf_clear(&a->text);
    else
        n = 0;
    td_answer_add_text(a, text);
    return a->text.len > n;
}

static void read_finish_reason(struct td_answer *a, const cJSON *reason)
{
    const char *type = cJSON_IsString(reason) ? reason->valuestring : td_json_get_str(reason, "type", NULL);

    if (!type)
        return;
    if (!strcmp(type, "abort"))
        td_answer_fail(a, "stream", "the server aborted the answer: %s", td_json_get_str(reason, "message", "no message"));
    if (!a->finish_reason)
        a->finish_reason = td_strdup(type);
}

void td_answer_read_sglang(struct td_answer *a, const cJSON *ev, int64_t t_ns)
{
    const cJSON *meta = td_json_get(ev, "meta_info");
    struct td_answer_parts p = {.ids = array_or_null(td_json_get(ev, "output_ids")),
                                .triples = array_or_null(td_json_get(meta, "output_token_logprobs")),
                                .top_triples = array_or_null(td_json_get(meta, "output_top_logprobs"))};
    int64_t total = td_answer_count(meta, "completion_tokens", -1), fresh = total - (int64_t)a->n_tokens;
    int n_ids = cJSON_GetArraySize(p.ids), n_lps = cJSON_GetArraySize(p.triples);

    p.any_text = read_text(a, td_json_get(ev, "text"));
    if (!a->id && td_json_get_str(meta, "id", NULL))
        a->id = td_strdup(td_json_get_str(meta, "id", ""));
    p.skip_ids = fresh > 0 && n_ids > fresh ? n_ids - (int)fresh : 0;
    p.skip_triples = fresh > 0 && n_lps > fresh ? n_lps - (int)fresh : 0;
    if (total < 0 || fresh > 0)
        td_answer_add_event(a, &p, t_ns);
    td_answer_read_scores_sglang(a, td_json_get(meta, "input_token_logprobs"),
                                 td_json_get(meta, "input_top_logprobs"));
    if (total >= 0)
        a->usage.completion_tokens = total;
    a->usage.prompt_tokens = td_answer_count(meta, "prompt_tokens", a->usage.prompt_tokens);
    read_finish_reason(a, td_json_get(meta, "finish_reason"));
}

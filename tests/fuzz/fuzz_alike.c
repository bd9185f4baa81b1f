/* fuzz_alike.c - fuzz the reader of events that are alike (wire/answer_alike.c): the answer must be the one that parsing each
 * event gives.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Input: events, a line each. Each is read twice, the second time with a byte of its last string changed: that is what makes
 * events alike. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_main.h"
#include "wire/answer.h"
#include "wire/answer_alike.h"

struct pair { struct td_answer parsed, quick; struct td_answer_alike alike; int64_t t_ns; };

static void read_both(struct pair *p, const char *event, size_t n)
{
    char *copy = malloc(n + 1);

    memcpy(copy, event, n);
    copy[n] = '\0';
    p->t_ns++;
    td_answer_read(&p->parsed, copy, n, p->t_ns, true);
    td_answer_read_event(&p->quick, &p->alike, copy, n, p->t_ns);
    free(copy);
}

/* The event with another letter behind each `":"`. */
static void read_other(struct pair *p, const char *event, size_t n)
{
    char *copy = malloc(n + 1);
    size_t i;

    memcpy(copy, event, n);
    for (i = 3; i < n; i++)
        if (!memcmp(copy + i - 3, "\":\"", 3) && copy[i] >= 'a' && copy[i] < 'z')
            copy[i]++;
    read_both(p, copy, n);
    free(copy);
}

static bool is_same_text(const char *x, const char *y)
{
    return x && y ? !strcmp(x, y) : x == y;
}

static bool is_same(const struct td_answer *x, const struct td_answer *y)
{
    const bool counts = x->other_choices == y->other_choices && x->bad_events == y->bad_events && x->reasoning_bytes == y->reasoning_bytes &&
                        x->tool_calls == y->tool_calls && x->ids_missing == y->ids_missing && x->logprobs_missing == y->logprobs_missing &&
                        x->usage.prompt_tokens == y->usage.prompt_tokens && x->usage.completion_tokens == y->usage.completion_tokens;
    const bool marks = x->answered == y->answered && x->end_mark == y->end_mark && x->done == y->done && x->counted == y->counted &&
                       x->shaped == y->shaped && x->bad_utf8 == y->bad_utf8 && x->limit == y->limit;
    const bool texts = is_same_text(x->finish_reason, y->finish_reason) && is_same_text(x->fingerprint, y->fingerprint) &&
                       is_same_text(x->id, y->id) && is_same_text(x->error, y->error) && is_same_text(x->error_kind, y->error_kind);

    return counts && marks && texts && x->n_tokens == y->n_tokens && x->n_alts == y->n_alts && x->n_prompt_ids == y->n_prompt_ids &&
           x->n_scores == y->n_scores && x->text.len == y->text.len && (!x->text.len || !memcmp(x->text.data, y->text.data, x->text.len)) &&
           x->n_events == y->n_events;
}

static bool are_same_tokens(const struct td_answer *x, const struct td_answer *y)
{
    size_t i;

    for (i = 0; i < x->n_tokens; i++)
        if (x->tokens[i].id != y->tokens[i].id || x->tokens[i].has_logprob != y->tokens[i].has_logprob ||
            !is_same_text(x->tokens[i].text, y->tokens[i].text))
            return false;
    for (i = 0; i < x->n_events; i++)
        if (x->events[i].t_ns != y->events[i].t_ns || x->events[i].n_tokens != y->events[i].n_tokens)
            return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *at = (const char *)data, *end = at + n, *nl;
    struct pair p = {.t_ns = 0};

    td_answer_init(&p.parsed);
    td_answer_init(&p.quick);
    td_answer_alike_init(&p.alike);
    for (; at < end; at = nl + (nl < end)) {
        nl = memchr(at, '\n', (size_t)(end - at));
        nl = nl ? nl : end;
        read_both(&p, at, (size_t)(nl - at));
        read_other(&p, at, (size_t)(nl - at));
    }
    if (!is_same(&p.parsed, &p.quick) || !are_same_tokens(&p.parsed, &p.quick))
        abort();
    td_answer_release(&p.parsed);
    td_answer_release(&p.quick);
    td_answer_alike_release(&p.alike);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/alike", 20000)

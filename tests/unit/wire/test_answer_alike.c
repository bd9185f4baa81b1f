/* test_answer_alike.c - events that are alike, read with and without parsing each: the answers must be equal.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/answer.h"
#include "wire/answer_alike.h"

#define VLLM(text, more) "{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":17,\"choices\":[{\"index\":0,\"text\":\"" text "\",\"logprobs\":null," more \
                         "\"stop_reason\":null}],\"usage\":null}"
#define CHAT(name, text) "{\"id\": \"a\", \"choices\": [{\"index\": 0, \"delta\": {\"" name "\": \"" text "\"}, \"finish_reason\": null}]}"
#define SGLANG(text) "{\"text\":\"" text "\",\"meta_info\":{\"id\":\"x\",\"finish_reason\":null,\"prompt_tokens\":5}}"
#define NONE "\"finish_reason\":null,"

static void same_text(const char *x, const char *y)
{
    assert_int_equal(x == NULL, y == NULL);
    if (x)
        assert_string_equal(x, y);
}

static void assert_same(const struct td_answer *x, const struct td_answer *y)
{
    size_t i;

    assert_int_equal(x->n_tokens, y->n_tokens);
    assert_int_equal(x->n_events, y->n_events);
    for (i = 0; i < x->n_tokens; i++) {
        assert_int_equal(x->tokens[i].id, y->tokens[i].id);
        assert_int_equal(x->tokens[i].has_logprob, y->tokens[i].has_logprob);
        assert_int_equal(x->tokens[i].n_alts, y->tokens[i].n_alts);
        same_text(x->tokens[i].text, y->tokens[i].text);
    }
    for (i = 0; i < x->n_events; i++) {
        assert_int_equal(x->events[i].t_ns, y->events[i].t_ns);
        assert_int_equal(x->events[i].n_tokens, y->events[i].n_tokens);
    }
    assert_int_equal(x->text.len, y->text.len);
    assert_int_equal(x->text.len ? memcmp(x->text.data, y->text.data, x->text.len) : 0, 0);
    same_text(x->finish_reason, y->finish_reason);
    same_text(x->fingerprint, y->fingerprint);
    same_text(x->id, y->id);
    same_text(x->error, y->error);
    same_text(x->error_kind, y->error_kind);
    assert_int_equal(x->usage.prompt_tokens, y->usage.prompt_tokens);
    assert_int_equal(x->usage.completion_tokens, y->usage.completion_tokens);
    assert_int_equal(x->answered, y->answered);
    assert_int_equal(x->done, y->done);
    assert_int_equal(x->end_mark, y->end_mark);
    assert_int_equal(x->counted, y->counted);
    assert_int_equal(x->shaped, y->shaped);
    assert_int_equal(x->n_prompt_ids, y->n_prompt_ids);
    assert_int_equal(x->n_scores, y->n_scores);
    assert_int_equal(x->other_choices, y->other_choices);
    assert_int_equal(x->bad_events, y->bad_events);
    assert_int_equal(x->reasoning_bytes, y->reasoning_bytes);
    assert_int_equal(x->tool_calls, y->tool_calls);
    assert_int_equal(x->ids_missing, y->ids_missing);
    assert_int_equal(x->logprobs_missing, y->logprobs_missing);
    assert_int_equal(x->bad_utf8, y->bad_utf8);
    assert_int_equal(x->limit, y->limit);
}

/* Both ways of reading, side by side. */
struct pair { struct td_answer parsed, quick; struct td_answer_alike alike; int64_t t_ns; int n_alike; };

static void pair_init(struct pair *p)
{
    memset(p, 0, sizeof *p);
    td_answer_init(&p->parsed);
    td_answer_init(&p->quick);
    td_answer_alike_init(&p->alike);
}

static void pair_release(struct pair *p)
{
    td_answer_release(&p->parsed);
    td_answer_release(&p->quick);
    td_answer_alike_release(&p->alike);
}

static void pair_read(struct pair *p, const char *event, size_t n)
{
    char *copy = malloc(n + 1); /* exactly so many bytes: a sanitizer sees a read past them */
    const size_t tokens = p->quick.n_tokens;

    memcpy(copy, event, n);
    copy[n] = '\0';
    p->t_ns++;
    td_answer_read(&p->parsed, copy, n, p->t_ns, true);
    td_answer_read_event(&p->quick, &p->alike, copy, n, p->t_ns);
    p->n_alike += p->alike.event.len && p->quick.n_tokens == tokens + 1 &&
                  (p->alike.event.len != n || memcmp(p->alike.event.data, copy, n) != 0);
    assert_same(&p->parsed, &p->quick);
    free(copy);
}

/* Returns how many events were not parsed. */
static int read_both(const char *const *events)
{
    struct pair p;

    pair_init(&p);
    for (; *events; events++)
        pair_read(&p, *events, strlen(*events));
    pair_release(&p);
    return p.n_alike;
}

static void events_that_are_alike(void **state)
{
    const char *const vllm[] = {VLLM("a", NONE), VLLM(" b", NONE), VLLM("\\n", NONE), VLLM("na\xC3\xAFve", NONE), VLLM("\\\"c\\\\ /\\t", NONE), NULL};
    const char *const chat[] = {CHAT("role", "assistant"), CHAT("content", ""), CHAT("content", "a"), CHAT("content", "b"), CHAT("content", "c"), NULL};
    const char *const thinks[] = {CHAT("reasoning_content", "hm"), CHAT("reasoning_content", "so"), CHAT("reasoning_content", "yes"), CHAT("content", "a"),
                                  CHAT("content", "bc"), NULL};

    (void)state;
    assert_int_equal(read_both(vllm), 4);
    assert_int_equal(read_both(chat), 2);
    assert_int_equal(read_both(thinks), 3);
}

static void events_that_are_not(void **state)
{
    const char *const ends[] = {VLLM("a", NONE), VLLM("b", NONE), VLLM("c", "\"finish_reason\":\"stop\","), VLLM("d", NONE), "[DONE]", NULL};
    const char *const escapes[] = {VLLM("a", NONE), VLLM("\\u0000", NONE), VLLM("\\ud83d\\ude00", NONE), VLLM("\\u00e9", NONE), VLLM("\\x", NONE), NULL};
    const char *const bad[] = {VLLM("a", NONE), VLLM("b\xFF", NONE), VLLM("b\xC3", NONE), VLLM("\x01", NONE), VLLM("\x7F", NONE), VLLM("b\\", NONE), NULL};
    const char *const injected[] = {VLLM("a", NONE), VLLM("b\",\"finish_reason\":\"length\",\"x\":\"", NONE), VLLM("c", NONE), VLLM("", NONE), NULL};
    const char *const sglang[] = {SGLANG("a"), SGLANG("ab"), SGLANG("abc"), SGLANG("abc"), SGLANG("x"), NULL};
    const char *const other_key[] = {"{\"choices\":[{\"text\":\"a\",\"x\":\"\\\"text\\\":\"}]}", "{\"choices\":[{\"text\":\"a\",\"x\":\"\\\"text\\\":b\"}]}", NULL};
    const char *const twice[] = {"{\"choices\":[{\"text\":\"a\",\"delta\":{\"content\":\"b\"}}]}", "{\"choices\":[{\"text\":\"c\",\"delta\":{\"content\":\"b\"}}]}", NULL};
    const char *const ids[] = {"{\"choices\":[{\"text\":\"a\",\"token_ids\":[1]}]}", "{\"choices\":[{\"text\":\"b\",\"token_ids\":[1]}]}", NULL};
    const char *const counted[] = {"{\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"timings\":{\"predicted_n\":1}}",
                                   "{\"choices\":[{\"delta\":{\"content\":\"b\"}}],\"timings\":{\"predicted_n\":1}}", NULL};
    const char *const usage[] = {"{\"choices\":[{\"text\":\"a\"}],\"usage\":{\"completion_tokens\":1}}", "{\"choices\":[{\"text\":\"b\"}],\"usage\":{\"completion_tokens\":2}}",
                                 "{\"choices\":[{\"text\":\"c\"}],\"usage\":{\"completion_tokens\":1}}", NULL};
    const char *const errors[] = {VLLM("a", NONE), VLLM("b", NONE), "{\"error\":{\"message\":\"out of blocks\"}}", VLLM("c", NONE), "no JSON", VLLM("d", NONE), NULL};

    (void)state;
    assert_int_equal(read_both(ends), 1);
    assert_int_equal(read_both(escapes), 0);
    read_both(bad); /* one of them may be read either way: the answers are equal */
    assert_int_equal(read_both(injected), 0);
    assert_int_equal(read_both(sglang), 0);
    assert_int_equal(read_both(other_key), 0);
    assert_int_equal(read_both(ids), 0);
    assert_int_equal(read_both(counted), 0);
    assert_int_equal(read_both(usage), 0);
    read_both(twice);
    assert_int_equal(read_both(errors), 1);
}

/* Events that never repeat are tried so often, and not for ever. */
static void tries_end(void **state)
{
    char event[200];
    struct pair p;
    int i;

    (void)state;
    pair_init(&p);
    for (i = 0; i < 20; i++)
        pair_read(&p, event, (size_t)snprintf(event, sizeof event, "{\"created\":%d,\"choices\":[{\"text\":\"a\"}]}", i));
    assert_int_equal(p.alike.tries, 0);
    assert_int_equal(p.alike.event.len, 0);
    pair_release(&p);
}

/* An event with a byte changed, left out or doubled, from a fixed seed. */
static size_t mutate(uint64_t *seed, const char *event, char *out)
{
    static const char BYTES[] = "\"\\{}[],:ntu0a \x01\x7F\xC3\xFF";
    size_t n = strlen(event), at;

    memcpy(out, event, n);
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    at = (*seed >> 33) % n;
    switch (*seed >> 59) {
    case 0: case 1: case 2: case 3: case 4: case 5:
        out[at] = BYTES[(*seed >> 20) % (sizeof BYTES - 1)];
        return n;
    case 6: case 7:
        memmove(out + at, out + at + 1, n - at - 1);
        return n - 1;
    case 8: case 9:
        memmove(out + at + 1, out + at, n - at);
        return n + 1;
    default:
        return n;
    }
}

static void any_bytes(void **state)
{
    static const char *const EVENTS[] = {VLLM("a", NONE), VLLM(" bc", NONE), VLLM("\\n", NONE), CHAT("content", "d"), CHAT("content", "efg"), CHAT("reasoning", "h")};
    uint64_t seed = 1;
    char out[1024];
    struct pair p;
    int i, round, at;

    (void)state;
    for (round = 0; round < 2000; round++) {
        pair_init(&p);
        at = round % 2 ? 3 : 0;
        for (i = 0; i < 12; i++)
            pair_read(&p, out, mutate(&seed, EVENTS[at + i % 3], out));
        pair_release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(events_that_are_alike), cmocka_unit_test(events_that_are_not), cmocka_unit_test(tries_end),
                                       cmocka_unit_test(any_bytes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

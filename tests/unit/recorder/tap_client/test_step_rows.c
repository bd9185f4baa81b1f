/* test_step_rows.c - infer whose rows steps computed. A scheduler that is played here knows what is
 * true; what disturbs the inference makes steps unknown, never wrong.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/tap_client/step_rows.h"

#define MS 1000000LL
#define MOST 400

/* A server that begins a step every 10 ms. A token arrives 8 ms after its step began; an asynchronous
 * server may have begun two more steps by then. */
struct played {
    struct td_rows_step step[MOST], truth[MOST];
    struct td_rows_request request[64];
    size_t n, n_requests;
    int64_t now, token_ms;
    int budget;                       /* rows of new prompts in one step, whole ones */
    bool guess;                       /* td_rows_infer() may */
    int late;                         /* rows too many of an answer that stopped by itself */
};

static void start(struct played *s)
{
    memset(s, 0, sizeof *s);
    s->now = 1000 * MS;
    s->token_ms = 8;
    s->budget = 64;
    s->guess = true;
}

static void end(struct played *s)
{
    for (size_t i = 0; i < s->n; i++) {
        td_step_release(&s->step[i].step);
        td_step_release(&s->truth[i].step);
    }
}

static struct td_rows_step *new_step(struct played *s, int64_t rows)
{
    struct td_rows_step *p = &s->step[s->n];

    assert_true(s->n < MOST);
    *p = (struct td_rows_step){.step = {.step = (int64_t)s->n, .t_ns = s->now, .how = TD_HOW_UNKNOWN, .pid = 7}, .begun_ns = s->now, .rows = rows};
    s->truth[s->n] = *p;
    s->n++;
    s->now += 10 * MS;
    return p;
}

static void is_true_of(struct played *s, const struct td_rows_request *x, int64_t rows, int64_t position)
{
    struct td_step *t = &s->truth[s->n].step; /* of the step that comes next */

    t->spans = realloc(t->spans, ((size_t)t->n_spans + 1) * sizeof *t->spans);
    t->spans[t->n_spans++] = (struct td_span){x->stream, 0, (int32_t)rows, (int32_t)position, position >= x->prompt};
}

/* The step for which is_true_of was said. */
static void step_of(struct played *s, int64_t rows)
{
    struct td_step t = s->truth[s->n].step;

    new_step(s, rows);
    s->truth[s->n - 1].step.spans = t.spans;
    s->truth[s->n - 1].step.n_spans = t.n_spans;
}

/* Requests come together, are served in an order of the server's, and are gone when all are. prompt, answer : [n] */
static void serve(struct played *s, int n, const int *prompt, const int *answer, const int *stops)
{
    struct td_rows_request *x = &s->request[s->n_requests];
    int64_t fed[16] = {0};
    int left = n, i, late = 0;

    s->now += 50 * MS;
    for (i = 0; i < n; i++)
        x[i] = (struct td_rows_request){(int64_t)(s->n_requests + (size_t)i), s->now - (i + 1) * MS / 4, 0, 0, prompt[i], answer[i], stops && stops[i], 0, false};
    s->n_requests += (size_t)n;
    while (left) {
        int64_t rows = late, room = s->budget;

        late = 0;
        for (i = 0; i < n; i++)
            if (fed[i] && fed[i] < prompt[i] + answer[i] - 1) {
                is_true_of(s, &x[i], 1, fed[i]++);
                rows++;
                late += s->late && x[i].stopped && fed[i] == prompt[i] + answer[i] - 1;
                left -= fed[i] == prompt[i] + answer[i] - 1;
                x[i].end_ns = s->now + (s->token_ms + 1) * MS;
            }
        for (i = 0; i < n && (room >= prompt[i] || fed[i]); i++)
            if (!fed[i]) {
                is_true_of(s, &x[i], prompt[i], 0);
                rows += prompt[i];
                room -= prompt[i];
                fed[i] = prompt[i];
                left -= answer[i] == 1;
                x[i].first_ns = s->now + s->token_ms * MS + i;
                x[i].end_ns = s->now + (s->token_ms + 1) * MS;
            }
        step_of(s, rows);
    }
    s->now += s->token_ms * MS;
}

static int64_t infer(struct played *s)
{
    return td_rows_infer(s->step, s->n, s->request, s->n_requests, s->guess);
}

static const struct td_span *span_of(const struct td_step *s, int64_t stream)
{
    int32_t i = 0;

    while (i < s->n_spans && s->spans[i].stream != stream)
        i++;
    return i < s->n_spans ? &s->spans[i] : NULL;
}

static void expect_true(const struct td_rows_step *p, const struct td_rows_step *truth)
{
    assert_int_equal(p->step.step, truth->step.step);
    assert_int_equal(p->step.how, TD_HOW_INFERRED);
    assert_int_equal(p->step.n_spans, truth->step.n_spans);
    for (int32_t i = 0; i < truth->step.n_spans; i++) {
        const struct td_span *want = &truth->step.spans[i], *got = span_of(&p->step, want->stream);

        assert_non_null(got);
        assert_int_equal(got->n_rows, want->n_rows);
        assert_int_equal(got->position, want->position);
        assert_int_equal(got->decode, want->decode);
        assert_int_equal(got->first_row, truth->step.n_spans == 1 && p->rows == want->n_rows ? 0 : -1);
    }
}

static void expect_all(struct played *s)
{
    assert_int_equal(infer(s), s->n);
    for (size_t i = 0; i < s->n; i++)
        expect_true(&s->step[i], &s->truth[i]);
}

static void test_one_after_another(void **state)
{
    struct played s;

    (void)state;
    start(&s);
    serve(&s, 1, (int[]){7}, (int[]){4}, NULL);
    serve(&s, 1, (int[]){1}, (int[]){1}, NULL);
    serve(&s, 1, (int[]){60}, (int[]){9}, (int[]){1});
    expect_all(&s);
    assert_int_equal(s.step[0].step.spans[0].n_rows, 7);
    assert_false(s.step[0].step.spans[0].decode);
    assert_int_equal(s.step[3].step.spans[0].position, 9);
    assert_true(s.step[3].step.spans[0].decode);
    end(&s);
}

static void test_several_together(void **state)
{
    struct played s;

    (void)state;
    start(&s);
    serve(&s, 3, (int[]){5, 40, 21}, (int[]){6, 3, 8}, NULL); /* 5 + 40 rows, then 21 and two */
    expect_all(&s);
    assert_int_equal(s.step[0].rows, 45);
    assert_int_equal(s.step[1].rows, 23);
    assert_int_equal(s.step[s.n - 1].step.spans[0].first_row, 0); /* the last has nobody beside it */
    end(&s);
}

/* Groups of any sizes, tokens that arrive at once or when the next step or two have begun: what is said is true, and nearly always something is said. */
static void test_any_groups(void **state)
{
    int named = 0, all = 0, trial, i, g;

    (void)state;
    srand(3);
    for (trial = 0; trial < 300; trial++) {
        struct played s;

        start(&s);
        s.token_ms = 3 + trial % 23;
        s.budget = 60 + rand() % 80;
        for (g = 0; g < 3; g++) {
            int prompt[6], answer[6], n = 1 + rand() % 6;

            for (i = 0; i < n; i++) {
                prompt[i] = 1 + rand() % 60;
                answer[i] = 1 + rand() % 15;
            }
            serve(&s, n, prompt, answer, NULL);
        }
        named += (int)infer(&s);
        all += (int)s.n;
        for (i = 0; i < (int)s.n; i++)
            if (s.step[i].step.how == TD_HOW_INFERRED)
                expect_true(&s.step[i], &s.truth[i]);
        end(&s);
    }
    assert_true(named > all * 95 / 100);
}

/* An asynchronous server has begun one row more for an answer that ended by itself. */
static void test_a_row_too_many(void **state)
{
    struct played s;

    (void)state;
    start(&s);
    s.late = 1;
    serve(&s, 3, (int[]){5, 9, 3}, (int[]){3, 9, 6}, (int[]){1, 0, 1});
    assert_int_equal(infer(&s), s.n);
    assert_int_equal(s.step[3].rows, 3); /* two run, and the one that had stopped */
    assert_int_equal(s.step[3].step.n_spans, 2);
    end(&s);

    start(&s);
    serve(&s, 1, (int[]){5}, (int[]){3}, (int[]){1});
    s.request[0].end_ns += 30 * MS;
    s.now -= s.token_ms * MS;
    new_step(&s, 1);
    assert_int_equal(infer(&s), s.n - 1);
    assert_int_equal(s.step[3].step.how, TD_HOW_UNKNOWN);
    end(&s);
}

static void test_a_prompt_in_pieces(void **state)
{
    struct played s;

    (void)state;
    start(&s);
    s.request[0] = (struct td_rows_request){0, s.now - MS, s.now + 25 * MS, s.now + 48 * MS, 100, 3, false, 0, false};
    s.n_requests = 1;
    new_step(&s, 64);
    new_step(&s, 36);
    new_step(&s, 1);
    new_step(&s, 1);
    assert_int_equal(infer(&s), 4);
    assert_int_equal(s.step[1].step.spans[0].position, 64);
    assert_false(s.step[1].step.spans[0].decode);
    assert_int_equal(s.step[2].step.spans[0].position, 100);
    end(&s);
}

/* Rows of a graph beyond the batch are nobody's. */
static void test_graphs_are_padded(void **state)
{
    struct played s;
    int paddings = 0;

    (void)state;
    start(&s);
    serve(&s, 3, (int[]){5, 9, 3}, (int[]){4, 9, 6}, NULL);
    serve(&s, 1, (int[]){5}, (int[]){4}, NULL);
    for (size_t i = 0; i < s.n; i++)
        if (s.step[i].rows <= 8) {
            const int64_t rows = s.step[i].rows <= 2 ? 2 : s.step[i].rows <= 4 ? 4 : 8;

            s.step[i].padded = true;
            s.truth[i].step.padding = (int32_t)(rows - s.step[i].rows);
            paddings |= s.truth[i].step.n_spans > 1 && rows > s.step[i].rows ? 1 : rows > s.step[i].rows ? 2 : 0;
            s.step[i].rows = rows;
        }
    assert_int_equal(paddings, 3);     /* of steps of one request, and of several */
    assert_int_equal(infer(&s), s.n);
    for (size_t i = 0; i < s.n; i++) {
        assert_int_equal(s.step[i].step.padding, s.truth[i].step.padding);
        assert_int_equal(s.step[i].step.n_spans, s.truth[i].step.n_spans);
        assert_int_equal(s.step[i].step.spans[0].n_rows, s.truth[i].step.spans[0].n_rows);
        assert_int_equal(s.step[i].step.spans[0].first_row, s.truth[i].step.n_spans == 1 ? 0 : -1);
    }
    end(&s);
}

/* The first group of three, as `disturb` has it, is unknown; those before and behind it are not. */
static void expect_unknown(void (*disturb)(struct played *s, size_t first, size_t n))
{
    struct played s;
    size_t first, n;

    start(&s);
    serve(&s, 1, (int[]){8}, (int[]){3}, NULL);
    first = s.n;
    serve(&s, 3, (int[]){5, 9, 3}, (int[]){4, 9, 6}, NULL);
    n = s.n - first;
    serve(&s, 2, (int[]){4, 11}, (int[]){5, 5}, NULL);
    disturb(&s, first, n);
    infer(&s);
    for (size_t i = 0; i < s.n; i++)
        if (s.step[i].begun_ns >= s.truth[first].begun_ns && s.step[i].begun_ns <= s.truth[first + n - 1].begun_ns) {
            assert_int_equal(s.step[i].step.how, TD_HOW_UNKNOWN);
            assert_int_equal(s.step[i].step.n_spans, 0);
        } else {
            assert_int_equal(s.step[i].step.how, TD_HOW_INFERRED);
        }
    end(&s);
}

static void a_strangers_row(struct played *s, size_t first, size_t n) { s->step[first + n / 2].rows++; }
static void a_row_is_missing(struct played *s, size_t first, size_t n) { s->step[first + n - 1].rows = 0; }
static void nothing_is_known_of_a_step(struct played *s, size_t first, size_t n) { (void)n; s->step[first].rows = -1; }
static void a_request_failed(struct played *s, size_t first, size_t n) { (void)first; (void)n; s->request[2].prompt = s->request[2].generated = -1; }
static void no_token_came(struct played *s, size_t first, size_t n) { (void)first; (void)n; s->request[2].first_ns = 0; }
static void a_prefix_was_cached(struct played *s, size_t first, size_t n) { (void)n; s->step[first].rows -= 3; }
static void a_step_is_missing(struct played *s, size_t first, size_t n)
{
    s->step[first + n / 2].begun_ns = s->request[s->n_requests - 1].end_ns + MS; /* nobody's, behind all */
    s->step[first + n / 2].step.how = TD_HOW_INFERRED;                          /* so that expect_unknown skips it */
}

static void test_what_does_not_come_out_is_unknown(void **state)
{
    (void)state;
    expect_unknown(a_strangers_row);
    expect_unknown(a_row_is_missing);
    expect_unknown(nothing_is_known_of_a_step);
    expect_unknown(a_request_failed);
    expect_unknown(no_token_came);
    expect_unknown(a_prefix_was_cached);
    expect_unknown(a_step_is_missing);
}

/* A sample: of a request that was alone whose rows they are is clear, where they stand is not. What its own cannot be makes all unknown. */
static void test_a_sample_of_one(void **state)
{
    static const struct { int64_t rows; bool padded; int step; } strangers[] = {{3, false, 3}, {8, false, 3}, {1, true, 3}, {-1, false, 0}, {INT64_MAX, false, 4}};
    struct played s;
    size_t i, k;

    (void)state;
    for (k = 0; k <= sizeof strangers / sizeof *strangers; k++) {
        const bool alone = k == sizeof strangers / sizeof *strangers;

        start(&s);
        serve(&s, 1, (int[]){8}, (int[]){6}, NULL);
        td_step_release(&s.truth[2].step);
        s.step[2] = s.step[5];
        s.n = 5;
        if (!alone) {
            s.step[strangers[k].step].rows = strangers[k].rows;
            s.step[strangers[k].step].padded = strangers[k].padded;
        }
        assert_int_equal(infer(&s), alone ? 5 : 0);
        for (i = 0; i < 5 && alone; i++) {
            assert_int_equal(s.step[i].step.spans[0].stream, 0);
            assert_int_equal(s.step[i].step.spans[0].n_rows, i ? 1 : 8);
            assert_int_equal(s.step[i].step.spans[0].position, -1);
            assert_int_equal(s.step[i].step.spans[0].decode, i > 0);
        }
        s.n = 6;
        memset(&s.step[5], 0, sizeof s.step[5]);
        end(&s);
    }
}

/* Two equal prompts, begun one after the other, whose first tokens arrive in another order: which is which cannot be known. */
static void test_twins_are_not_told_apart(void **state)
{
    struct played s;
    int64_t t;

    (void)state;
    start(&s);
    s.budget = 10;
    serve(&s, 2, (int[]){9, 9}, (int[]){4, 4}, NULL);
    assert_int_equal(s.step[0].rows, 9);
    assert_int_equal(infer(&s), 0);
    end(&s);
    start(&s);
    s.budget = 10;
    serve(&s, 2, (int[]){9, 8}, (int[]){4, 4}, NULL);
    t = s.request[0].first_ns; /* crossed: it does not come out */
    s.request[0].first_ns = s.request[1].first_ns;
    s.request[1].first_ns = t;
    assert_int_equal(infer(&s), 0);
    end(&s);
    start(&s);
    serve(&s, 2, (int[]){9, 9}, (int[]){4, 4}, NULL); /* both in one step: they are alike */
    expect_all(&s);
    end(&s);
}

/* Arrivals that jitter more than steps last, prompts of a few lengths: much stays unknown, nothing is wrong. */
static void test_jitter(void **state)
{
    int named = 0, trial, i;

    (void)state;
    srand(5);
    for (trial = 0; trial < 400; trial++) {
        int prompt[6], answer[6], n = 2 + rand() % 5;
        struct played s;

        start(&s);
        s.budget = 20 + rand() % 40;
        for (i = 0; i < n; i++) {
            prompt[i] = trial % 2 ? 8 : 8 + rand() % 3;
            answer[i] = 2 + rand() % 9;
        }
        serve(&s, n, prompt, answer, NULL);
        for (i = 0; i < n; i++) {
            s.request[i].first_ns += rand() % (15 * MS);
            s.request[i].end_ns += 15 * MS;
        }
        named += (int)infer(&s);
        for (i = 0; i < (int)s.n; i++)
            if (s.step[i].step.how == TD_HOW_INFERRED)
                expect_true(&s.step[i], &s.truth[i]);
        end(&s);
    }
    assert_true(named > 0);
}

/* A row of an answer that has ended is not mistaken for a prompt of one token. */
static void test_a_late_row_and_a_short_prompt(void **state)
{
    struct played s;

    (void)state;
    start(&s);
    s.n_requests = 3;
    s.request[0] = (struct td_rows_request){0, s.now - MS, s.now + 8 * MS, s.now + 20 * MS, 5, 2, true, 0, false};
    s.request[1] = (struct td_rows_request){1, s.now - MS, s.now + 8 * MS, s.now + 60 * MS, 4, 5, false, 0, false};
    s.request[2] = (struct td_rows_request){2, s.now + 18 * MS, s.now + 28 * MS, s.now + 60 * MS, 1, 3, false, 0, false};
    new_step(&s, 9);
    new_step(&s, 2);
    new_step(&s, 2);                  /* 1 goes on; beside it 0's late row, or all of 2 */
    new_step(&s, 2);
    new_step(&s, 2);
    assert_int_equal(infer(&s), 0);
    end(&s);
}

/* Numbers that no server has, and a step for which there is no room. */
static void test_hostile_numbers(void **state)
{
    static const int64_t numbers[] = {INT64_MAX, INT64_MIN, -1, 0, 1, (int64_t)1 << 31, ((int64_t)1 << 32) + 1, 1 << 24};
    const size_t n = sizeof numbers / sizeof *numbers;
    struct played s;

    (void)state;
    for (size_t i = 0; i < n * n * n; i++) {
        start(&s);
        serve(&s, 2, (int[]){9, 7}, (int[]){4, 4}, NULL);
        s.request[0].prompt = numbers[i % n];
        s.request[1].generated = numbers[i / n % n];
        s.step[i % s.n].rows = numbers[i / n / n];
        assert_true(infer(&s) >= 0);
        for (size_t k = 0; k < s.n; k++)
            for (int32_t j = 0; j < s.step[k].step.n_spans; j++)
                assert_true(s.step[k].step.spans[j].n_rows > 0 && s.step[k].step.spans[j].position >= -1);
        end(&s);
    }
}

static void test_nothing_at_all(void **state)
{
    struct played s;

    (void)state;
    start(&s);
    assert_int_equal(infer(&s), 0);
    new_step(&s, 4);                  /* a server's own */
    assert_int_equal(infer(&s), 0);
    s.request[0] = (struct td_rows_request){.stream = 1, .prompt = -1, .generated = -1, 0, false}; /* never sent */
    s.n_requests = 1;
    assert_int_equal(infer(&s), 0);
    end(&s);
}

/* Where other clients may be, what comes out exactly is named, and a sample is not. */
static void test_nothing_is_guessed(void **state)
{
    struct played s;

    (void)state;
    for (int missing = 0; missing < 2; missing++) {
        start(&s);
        s.guess = false;
        serve(&s, 1, (int[]){8}, (int[]){6}, NULL);
        s.n -= (size_t)missing;
        assert_int_equal(infer(&s), missing ? 0 : 6);
        s.n += (size_t)missing;
        end(&s);
    }
}

/* An answer that is not streamed: its only time is that of its end. Alone it comes out, and beside another it does not. */
static void test_answers_that_come_at_once(void **state)
{
    struct played s;

    (void)state;
    for (int n = 1; n < 3; n++) {
        start(&s);
        serve(&s, n, (int[]){8, 5}, (int[]){9, 4}, NULL);
        assert_int_equal(infer(&s), 9);
        for (int i = 0; i < n; i++) {
            s.request[i].first_ns = s.request[i].end_ns;
            s.request[i].at_once = true;
        }
        assert_int_equal(infer(&s), n == 1 ? 9 : 0);
        end(&s);
    }
}

/* A cached prefix has no rows: those of the request begin behind it. */
static void test_a_cached_prefix_is_told(void **state)
{
    struct td_rows_requests all = {0};
    struct td_exchange x = {.stream = 3, .usage = {34, 4}, .n_tokens = 4};
    struct td_token_event events[4] = {{5, 1}, {6, 1}, {7, 1}, {8, 1}};
    struct played s;

    (void)state;
    x.events = events;
    x.n_events = 4;
    x.extra = cJSON_Parse("{\"computed\":{\"prompt\":1,\"cached\":33,\"answer\":4}}");
    assert_true(td_rows_add(&all, &x));
    assert_int_equal(all.x[0].prompt, 1);
    assert_int_equal(all.x[0].cached, 33);
    assert_int_equal(all.x[0].generated, 4);
    assert_false(all.x[0].at_once);
    cJSON_Delete(x.extra);
    x.extra = cJSON_Parse("{\"computed\":{\"cached\":33}}"); /* OpenAI's way */
    x.n_events = 1;
    assert_true(td_rows_add(&all, &x));
    assert_int_equal(all.x[1].prompt, 1);
    assert_true(all.x[1].at_once);
    cJSON_Delete(x.extra);
    x.extra = cJSON_Parse("{\"computed\":{\"cached\":34}}"); /* a server computes one row at least */
    assert_true(td_rows_add(&all, &x));
    assert_int_equal(all.x[2].prompt, -1);
    cJSON_Delete(x.extra);
    free(all.x);

    start(&s);
    serve(&s, 1, (int[]){1}, (int[]){4}, NULL);
    s.request[0].cached = 33;
    assert_int_equal(infer(&s), 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(s.step[i].step.spans[0].position, 33 + i);
    assert_false(s.step[0].step.spans[0].decode);
    assert_true(s.step[1].step.spans[0].decode);
    end(&s);
}

/* A request of unknown length that never ends, from the second group on: of that group, and all later ones, nothing comes out. */
static void test_a_stranger_that_stays(void **state)
{
    struct played s;
    size_t first;

    (void)state;
    start(&s);
    s.guess = false;
    serve(&s, 2, (int[]){8, 5}, (int[]){6, 4}, NULL);
    first = s.n;
    serve(&s, 2, (int[]){9, 4}, (int[]){6, 4}, NULL);
    s.request[s.n_requests++] = (struct td_rows_request){0, s.step[first].begun_ns + MS, 0, INT64_MAX, -1, -1, false, 0, false};
    serve(&s, 1, (int[]){7}, (int[]){3}, NULL);
    assert_int_equal(infer(&s), (int64_t)first);
    for (size_t i = 0; i < s.n; i++)
        assert_int_equal(s.step[i].step.how, i < first ? TD_HOW_INFERRED : TD_HOW_UNKNOWN);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_after_another), cmocka_unit_test(test_several_together), cmocka_unit_test(test_any_groups), cmocka_unit_test(test_a_row_too_many),
        cmocka_unit_test(test_a_prompt_in_pieces), cmocka_unit_test(test_graphs_are_padded), cmocka_unit_test(test_what_does_not_come_out_is_unknown),
        cmocka_unit_test(test_a_sample_of_one), cmocka_unit_test(test_twins_are_not_told_apart), cmocka_unit_test(test_jitter),
        cmocka_unit_test(test_a_late_row_and_a_short_prompt), cmocka_unit_test(test_hostile_numbers), cmocka_unit_test(test_nothing_at_all),
        cmocka_unit_test(test_nothing_is_guessed), cmocka_unit_test(test_a_stranger_that_stays),
        cmocka_unit_test(test_answers_that_come_at_once), cmocka_unit_test(test_a_cached_prefix_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

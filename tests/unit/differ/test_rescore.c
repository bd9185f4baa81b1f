/* test_rescore.c - two scorings of the same texts: figures beside numpy's, what is called worse, what raises no alarm.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differ/lane_scores.h"
#include "tests/unit/data/rescore_expected.h"
#include "wire/scores.h"

#define TEXTS 24
#define PROMPT 12
#define ANSWER 48
#define MAX_X 128

struct made { struct td_side side[4]; size_t n; struct td_exchange xs[4][MAX_X]; };

static struct td_exchange *add(struct made *m, enum td_role role, const char *id, int32_t pass, int32_t n, int32_t from)
{
    struct td_side *s = &m->side[role];
    struct td_exchange *x = &m->xs[role][s->n_xs++];
    int32_t i;

    assert_true(s->n_xs <= MAX_X);
    s->xs = m->xs[role];
    s->role = role;
    m->n = m->n > (size_t)role + 1 ? m->n : (size_t)role + 1;
    *x = (struct td_exchange){.stream = (uint32_t)s->n_xs, .prompt_id = strdup(id), .repeat = pass, .phase = TD_PHASE_WARMUP, .http_status = 200,
                              .n_prompt_ids = n, .n_scores = n, .scored_from = from, .extra = cJSON_Parse("{\"role\":\"scores\"}")};
    x->prompt_ids = malloc((size_t)n * sizeof *x->prompt_ids);
    x->scores = malloc((size_t)n * sizeof *x->scores);
    x->scores_top = malloc((size_t)n * sizeof *x->scores_top);
    for (i = 0; i < n; i++) {
        x->prompt_ids[i] = 100 + i;
        x->scores[i] = i ? -0.5f : -INFINITY;
        x->scores_top[i] = (struct td_alt){i ? 100 + i : -1, x->scores[i]};
    }
    return x;
}

static void release(struct made *m)
{
    size_t r, i;

    for (r = 0; r < 4; r++)
        for (i = 0; i < m->side[r].n_xs; i++)
            td_exchange_release(&m->xs[r][i]);
    free(m);
}

static struct made *make(void)
{
    int r;
    struct made *m = calloc(1, sizeof *m);

    assert_non_null(m);
    for (r = 0; r < 4; r++)
        m->side[r].role = (enum td_role)r;
    return m;
}

/* The verdict of the lane; m is released. words: its notes, or NULL. */
static enum td_verdict judge_made(struct made *m, bool by_name, char *words, size_t n)
{
    struct td_lane lanes[TD_N_LANES];
    struct td_policy policy;
    struct td_rescore r;
    enum td_verdict v;
    int i;

    td_policy_default(&policy);
    td_lanes_init(lanes);
    lanes[TD_LANE_SCORES].by_name = by_name;
    assert_int_equal(td_rescore_measure(m->side, 4, &r, NULL), TD_OK);
    td_rescore_judge(&r, &policy, &lanes[TD_LANE_SCORES]);
    v = lanes[TD_LANE_SCORES].verdict;
    if (words)
        *words = '\0';
    for (i = 0; words && i < lanes[TD_LANE_SCORES].n_notes; i++)
        snprintf(words + strlen(words), n - strlen(words), "%s\n", lanes[TD_LANE_SCORES].notes[i].text);
    td_lanes_release(lanes);
    td_rescore_release(&r);
    release(m);
    return v;
}

/* ---- figures -------------------------------------------------------------------------------------------------------- */

static void assert_part(const struct td_rescore_part *p, const double *want)
{
    assert_int_equal(p->tokens, (size_t)want[0]);
    assert_float_equal(p->base_nll, want[1], 1e-6);
    assert_float_equal(p->shift, want[2], 1e-6);
    assert_float_equal(p->error, want[3], 1e-6);
    assert_float_equal(p->mean_abs, want[4], 1e-6);
}

/* passes: the candidate's, all alike. More of them are no more evidence. */
static void figures(int passes)
{
    struct made *m = make();
    struct td_rescore r;
    size_t at = 0;
    char id[8];
    int t, p;

    for (t = 0; t < 3; t++) {
        int32_t n = RESCORE_N[t], i;
        struct td_exchange *b;

        snprintf(id, sizeof id, "t%d", t);
        b = add(m, TD_BASE, id, 0, n, RESCORE_FROM[t]);
        for (i = 1; i < n; i++)
            b->scores[i] = RESCORE_BASE[at + (size_t)i];
        for (p = 0; p < passes; p++) {
            struct td_exchange *x = add(m, TD_NEW, id, p, n, RESCORE_FROM[t]);

            for (i = 1; i < n; i++)
                x->scores[i] = RESCORE_NOW[at + (size_t)i];
            x->scores_top[n - 1].id = 7;
        }
        at += (size_t)n;
    }
    assert_int_equal(td_rescore_measure(m->side, 4, &r, NULL), TD_OK);
    assert_int_equal(r.n, 3);
    assert_part(&r.answer, RESCORE_ANSWER);
    assert_part(&r.prompt, RESCORE_PROMPT);
    assert_float_equal(r.worst.delta, RESCORE_WORST, 1e-6);
    assert_int_equal(r.answer.top_changed, 3 * passes);
    td_rescore_release(&r);
    release(m);
}

static void figures_are_numpys(void **state)
{
    (void)state;
    figures(1);
    figures(2);
}

/* ---- verdicts ------------------------------------------------------------------------------------------------------- */

static uint64_t seed;

static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 11) + 0.5) * 0x1p-53;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* A baseline that scatters by sigma between its passes, and a candidate that scatters as much and has `shift` more. Of text `only` (-1:
 * all) the answer is worse by it. */
static struct made *servers(double sigma, double shift, int only)
{
    struct made *m = make();
    int t, pass, i;
    char id[8];

    for (t = 0; t < TEXTS; t++) {
        double truth[PROMPT + ANSWER];

        snprintf(id, sizeof id, "t%02d", t);
        for (i = 1; i < PROMPT + ANSWER; i++)
            truth[i] = log(uniform()) * (i < PROMPT ? 2 : 0.4);
        for (pass = 0; pass < 2; pass++) {
            struct td_exchange *b = add(m, TD_BASE, id, pass, PROMPT + ANSWER, PROMPT), *x = add(m, TD_NEW, id, pass, PROMPT + ANSWER, PROMPT);

            for (i = 1; i < PROMPT + ANSWER; i++) {
                b->scores[i] = (float)(truth[i] + sigma * normal());
                x->scores[i] = (float)(truth[i] + sigma * normal() - (i >= PROMPT && (only < 0 || t == only) ? shift : 0));
            }
        }
    }
    return m;
}

static void unchanged_builds_raise_no_alarm(void **state)
{
    const double sigmas[] = {0, 0.001, 0.03, 0.2};
    int run, k;

    (void)state;
    for (run = 0; run < 200; run++)
        for (k = 0; k < 4; k++) {
            seed = (uint64_t)run * 4 + (uint64_t)k + 1;
            assert_int_equal(judge_made(servers(sigmas[k], 0, -1), true, NULL, 0), TD_PASS);
        }
}

static void damage_is_caught(void **state)
{
    char words[2000];
    int run;

    (void)state;
    for (run = 0; run < 100; run++) {
        seed = (uint64_t)run + 1000;
        assert_int_equal(judge_made(servers(0.03, 0.1, -1), true, NULL, 0), TD_REGRESSED);
        assert_int_equal(judge_made(servers(0.03, 0.5, 7), true, words, sizeof words), TD_REGRESSED);
        assert_non_null(strstr(words, "the answer to t07"));
        assert_int_equal(judge_made(servers(0.03, -0.1, -1), true, words, sizeof words), TD_REGRESSED);
        assert_non_null(strstr(words, "more likely by 0."));
    }
}

static void small_shifts_are_told_not_judged(void **state)
{
    char words[2000];

    (void)state;
    seed = 5;
    assert_int_equal(judge_made(servers(0, 0.02, -1), true, words, sizeof words), TD_PASS);
    assert_non_null(strstr(words, "NLL +0.0200"));
    assert_non_null(strstr(words, "small but systematic"));
    assert_int_equal(judge_made(servers(0.2, 0.002, -1), true, words, sizeof words), TD_PASS);
    assert_null(strstr(words, "small but systematic"));
}

/* Over the limit, but the baseline moves as much by itself, or the tokens are too few. */
static void what_cannot_be_told_is_inconclusive(void **state)
{
    struct made *m = make();
    char words[2000];
    struct td_exchange *x;
    int i;

    (void)state;
    add(m, TD_BASE, "a", 0, 40, 10);
    x = add(m, TD_BASE, "a", 1, 40, 10);
    for (i = 10; i < 40; i++)
        x->scores[i] -= 0.05f;
    x = add(m, TD_NEW, "a", 0, 40, 10);
    for (i = 10; i < 40; i++)
        x->scores[i] -= 0.1f;
    assert_int_equal(judge_made(m, true, words, sizeof words), TD_INCONCLUSIVE);
    assert_non_null(strstr(words, "scatters"));

    m = make();
    add(m, TD_BASE, "a", 0, 40, 10);
    x = add(m, TD_NEW, "a", 0, 40, 10);
    x->scores[12] -= 3;
    assert_int_equal(judge_made(m, true, words, sizeof words), TD_INCONCLUSIVE);
    assert_non_null(strstr(words, "too few"));
}

/* ---- what is no number, and what is not there ----------------------------------------------------------------------- */

static void all_bad(struct td_exchange *x, float bad)
{
    int32_t i;

    for (i = 0; i < x->n_scores; i++)
        x->scores[i] = bad;
}

static void no_numbers_are_damage(void **state)
{
    const float bad[] = {NAN, -INFINITY, -9999.0f};
    char words[2000];
    size_t k;

    (void)state;
    for (k = 0; k < 3; k++) {
        struct made *m = make();

        add(m, TD_BASE, "a", 0, 40, 10);
        add(m, TD_NEW, "a", 0, 40, 10)->scores[30] = bad[k];
        assert_int_equal(judge_made(m, true, words, sizeof words), TD_REGRESSED);
        assert_non_null(strstr(words, "a, token 20 of the answer"));

        m = make(); /* as the baseline: excused */
        add(m, TD_BASE, "a", 0, 40, 10)->scores[30] = bad[k];
        add(m, TD_NEW, "a", 0, 40, 10)->scores[30] = bad[k];
        assert_int_equal(judge_made(m, true, NULL, 0), TD_PASS);

        m = make(); /* but a baseline that has none says nothing */
        all_bad(add(m, TD_BASE, "a", 0, 40, 10), bad[k]);
        all_bad(add(m, TD_NEW, "a", 0, 40, 10), bad[k]);
        assert_int_equal(judge_made(m, false, words, sizeof words), TD_INCONCLUSIVE);
        assert_non_null(strstr(words, "no logprob for any token"));
    }
}

/* A candidate that answered so. */
static enum td_verdict failing(int status, const char *kind, const char *error, bool by_name)
{
    struct made *m = make();
    struct td_exchange *x;

    add(m, TD_BASE, "a", 0, 40, 10);
    x = add(m, TD_NEW, "a", 0, 40, 10);
    free(x->scores);
    x->scores = NULL;
    x->n_scores = 0;
    x->http_status = status;
    x->error_kind = kind ? strdup(kind) : NULL;
    x->error = error ? strdup(error) : NULL;
    return judge_made(m, by_name, NULL, 0);
}

static void failures(void **state)
{
    struct made *m;

    (void)state;
    assert_int_equal(failing(400, "http", "HTTP 400: Out of range float values are not JSON compliant: nan", false), TD_REGRESSED);
    assert_int_equal(failing(500, "http", "HTTP 500: EngineCore encountered an issue.", false), TD_REGRESSED);
    assert_int_equal(failing(0, "cut", "closed", false), TD_REGRESSED);
    assert_int_equal(failing(400, "http", "HTTP 400: prompt_logprobs is not supported", false), TD_NOT_JUDGED);
    assert_int_equal(failing(400, "http", "HTTP 400: prompt_logprobs is not supported", true), TD_INCONCLUSIVE);
    assert_int_equal(failing(200, NULL, NULL, true), TD_INCONCLUSIVE);
    assert_int_equal(failing(200, TD_ERROR_UNSEEN, "this machine is out of memory", true), TD_INCONCLUSIVE);
    m = make(); /* the baseline has none */
    add(m, TD_NEW, "a", 0, 40, 10);
    assert_int_equal(judge_made(m, false, NULL, 0), TD_NOT_JUDGED);
    m = make(); /* the candidate was not asked */
    add(m, TD_BASE, "a", 0, 40, 10);
    assert_int_equal(judge_made(m, true, NULL, 0), TD_INCONCLUSIVE);
    m = make(); /* one of two */
    add(m, TD_BASE, "a", 0, 40, 10);
    add(m, TD_BASE, "b", 0, 40, 10);
    add(m, TD_NEW, "a", 0, 40, 10);
    assert_int_equal(judge_made(m, false, NULL, 0), TD_INCONCLUSIVE);
    m = make(); /* another recording, whose answer forks */
    add(m, TD_BASE, "a", 0, 40, 10);
    add(m, TD_NEW, "a", 0, 40, 10)->prompt_ids[20] = 1;
    assert_int_equal(judge_made(m, true, NULL, 0), TD_INCONCLUSIVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_numpys),
        cmocka_unit_test(unchanged_builds_raise_no_alarm),
        cmocka_unit_test(damage_is_caught),
        cmocka_unit_test(small_shifts_are_told_not_judged),
        cmocka_unit_test(what_cannot_be_told_is_inconclusive),
        cmocka_unit_test(no_numbers_are_damage),
        cmocka_unit_test(failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

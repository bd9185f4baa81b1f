/* small_world.h - a small world of answers for the tests of the lanes: exchanges of every role, aligned,
 * and a lane to judge them in. Include it after cmocka.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef SMALL_WORLD_H
#define SMALL_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differ/lane_collapse.h"
#include "differ/lane_tokens.h"

#define MAX_X 256

struct world {
    struct td_exchange xs[TD_N_ROLES][MAX_X];
    size_t n[TD_N_ROLES];
    struct td_side side[TD_N_ROLES]; size_t n_sides;
    struct td_policy policy;
    struct td_groups g;
    struct td_tokens_found found;
    struct td_collapses collapses;
    struct td_ops_view ops;
    struct td_lane lane;
    cJSON *request;
};

/* request: JSON that all exchanges share; NULL: none */
static inline struct world *start_world(const char *request)
{
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    td_policy_default(&w->policy);
    w->lane.asked = w->lane.by_name = true;
    w->request = request ? cJSON_Parse(request) : NULL;
    return w;
}

/* Add an answer of `len` tokens with room for their ids; of k > 0 alternatives with room for those and
 * for logprobs. */
static inline struct td_exchange *add_answer(struct world *w, enum td_role role, const char *prompt,
                                             int repeat, size_t len, int k)
{
    struct td_exchange *x = &w->xs[role][w->n[role]++];

    assert_true(w->n[role] <= MAX_X);
    x->prompt_id = (char *)(uintptr_t)prompt;
    x->stream = (uint32_t)w->n[role];
    x->repeat = repeat;
    x->request = w->request;
    x->n_tokens = len;
    x->token_ids = calloc(len, sizeof *x->token_ids);
    if (k > 0) {
        x->ids_complete = true;
        x->logprobs = calloc(len, sizeof *x->logprobs);
        x->top = calloc(len * (size_t)k, sizeof *x->top);
        x->top_k = k;
    }
    return x;
}

static inline void align_world(struct world *w)
{
    struct td_error err = {0, ""};
    int r;

    for (r = 0; r < TD_N_ROLES; r++)
        if (w->n[r])
            w->side[w->n_sides++] =
                (struct td_side){.role = (enum td_role)r, .xs = w->xs[r], .n_xs = w->n[r]};
    assert_int_equal(td_align_exchanges(w->side, w->n_sides, &w->g, &err), TD_OK);
}

/* Does a note of the lane hold this text? If not, all are printed. */
static inline bool says(const struct world *w, const char *text)
{
    int i;

    for (i = 0; i < w->lane.n_notes; i++)
        if (strstr(w->lane.notes[i].text, text))
            return true;
    for (i = 0; i < w->lane.n_notes; i++)
        printf("note: %s\n", w->lane.notes[i].text);
    return false;
}

static inline void stop(struct world *w)
{
    size_t i;
    int r;

    for (r = 0; r < TD_N_ROLES; r++)
        for (i = 0; i < w->n[r]; i++) {
            free(w->xs[r][i].token_ids);
            free(w->xs[r][i].logprobs);
            free(w->xs[r][i].top);
        }
    for (r = 0; r < w->lane.n_notes; r++)
        free(w->lane.notes[r].text);
    td_tokens_release(&w->found.tokens);
    td_collapses_release(&w->collapses);
    td_groups_release(&w->g);
    cJSON_Delete(w->request);
    free(w);
}

#endif

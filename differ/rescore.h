/* rescore.h - what both sides say of the same texts, token by token (wire/scores.h: how they were asked).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_RESCORE_H
#define TD_DIFFER_RESCORE_H

#include "differ/align.h"

/* Positions of one kind: tokens of prompts, or of recorded answers. Positions where the baseline says no number are left out. */
struct td_rescore_part {
    size_t tokens;               /* positions, however often they were scored */
    size_t n;                    /* comparisons: positions x passes x rounds */
    double base_nll;             /* mean of -logprob, nats a token */
    double shift;                /* the candidate's less the baseline's; > 0: it finds the text less likely */
    double error;                /* standard error of shift, over positions: passes are no further evidence */
    double mean_abs;             /* mean |logprob - logprob| */
    size_t top_known, top_changed; /* comparisons where both sides named their likeliest token; where it is another one */
    double sum_base, sum, sum_sq, sum_abs; /* while measuring */
};

struct td_rescore_text {
    const char *prompt_id, *category;
    struct td_rescore_part answer, prompt;
};

struct td_rescore_noise {        /* the same figures where nothing was changed */
    enum td_role role; int round; /* TD_BASE: the baseline's passes against its first */
    size_t texts;
    struct td_rescore_part answer, prompt;
    double text_max;             /* largest |shift| of one text's answer */
};

/* One position. */
struct td_rescore_place { const struct td_exchange *base, *now; int32_t position; double delta; }; /* delta: now less base */

struct td_rescore {
    size_t base_texts;           /* that the baseline scored */
    struct td_rescore_text *text; size_t n; /* compared, in the order in which the baseline asked */
    struct td_rescore_part answer, prompt;
    struct td_rescore_place worst; /* base NULL: nothing was compared */
    size_t asked;                /* the candidate's exchanges of this kind, of whatever outcome */
    size_t not_finite;           /* positions where the candidate says NaN, -9999 or nothing, and the baseline a number */
    struct td_rescore_place first_not_finite;
    const struct td_exchange *nan, *failed, *refused; /* the first of each outcome, NULL: none */
    size_t n_nan, n_failed, n_refused;
    size_t missing;              /* texts of the baseline that the candidate did not score, for whatever reason */
    size_t other;                /* exchanges whose text is not the baseline's: two recordings whose answers fork */
    struct td_rescore_noise *noise; size_t n_noise;
    double noise_answer, noise_prompt, noise_text; /* largest |shift| of any noise; 0: none */
};

/* Compare the exchanges of role "scores" of all sides; pure. sides : [n], borrowed as long as out lives. */
int td_rescore_measure(const struct td_side *sides, size_t n, struct td_rescore *out, struct td_error *err);
void td_rescore_release(struct td_rescore *r);

#endif

/* rescore.h - how likely do baseline and candidate find the same texts, token by token?
 * SPDX-License-Identifier: Apache-2.0
 *
 * The recorded answers were given to both servers as prompts (wire/scores.h says how). */
#ifndef TD_DIFFER_RESCORE_H
#define TD_DIFFER_RESCORE_H

#include "differ/align.h"

/* Positions of one kind: tokens of prompts, or of recorded answers. A position for which the
 * baseline has no finite logprob is left out. */
struct td_rescore_part {
    size_t tokens;               /* positions, however often they were scored */
    size_t n;                    /* comparisons: positions x scorings x rounds */
    double base_nll;             /* mean of -logprob, nats a token */
    double shift;                /* candidate's mean minus base_nll; > 0: it finds the text less
                                    likely */
    double error;                /* standard error of shift, over positions: to score one again
                                    is no more evidence */
    double mean_abs;             /* mean |logprob - logprob| */
    size_t top_known;            /* comparisons where both sides named their likeliest token */
    size_t top_changed;          /* of these, where it is another one */
    double sum_base, sum, sum_sq, sum_abs; /* while measuring */
};

/* One text: a prompt and its recorded answer. */
struct td_rescore_text {
    const char *prompt_id, *category;
    struct td_rescore_part answer, prompt;
};

/* A text of which the candidate gave no number where the baseline did. */
struct td_rescore_unscored {
    const char *prompt_id;
    size_t asked;                /* the candidate's scorings of it */
    size_t nan, failed;          /* of these */
    size_t not_finite;           /* positions, in all of them */
};

/* The same figures where nothing was changed. */
struct td_rescore_noise {
    enum td_role role; int round; /* TD_BASE: the baseline's later scorings against its first */
    size_t texts;
    struct td_rescore_part answer, prompt;
    double text_max;             /* largest |shift| of one text's answer */
};

/* One position of a text. delta: the candidate's logprob minus the baseline's. */
struct td_rescore_place { const struct td_exchange *base, *now; int32_t position; double delta; };

struct td_rescore {
    size_t base_texts;           /* texts that the baseline scored */
    struct td_rescore_text *text; size_t n; /* those that were compared, by prompt id */
    struct td_rescore_part answer, prompt;  /* over all of them */
    struct td_rescore_place worst; /* largest |delta|; base NULL: nothing was compared */
    size_t asked;                /* scorings that the candidate was asked for, whatever came out */
    size_t not_finite;           /* positions where the baseline has a logprob, and the candidate
                                    NaN, -9999 or nothing */
    struct td_rescore_place first_not_finite;
    const struct td_exchange *nan, *failed, *refused; /* the first of each outcome; NULL: none;
                                    refused: or TD_SCORED_UNSEEN */
    size_t n_nan, n_failed, n_refused;
    struct td_rescore_unscored *unscored; size_t n_unscored; /* by prompt id */
    size_t missing;              /* texts of the baseline that the candidate did not score */
    size_t other;                /* scorings of another text: two recordings whose answers fork */
    struct td_rescore_noise *noise; size_t n_noise;
    double noise_answer, noise_prompt, noise_text; /* largest |shift| of any noise; 0: none */
    double noise_distance;       /* largest mean |logprob - logprob| of any noise's answers */
};

/* Compare the exchanges of role "scores" of all sides. Pure. TD_OK or TD_ENOMEM.
 *   sides : [n], borrowed as long as out lives */
int td_rescore_measure(const struct td_side *sides, size_t n, struct td_rescore *out,
                       struct td_error *err);
void td_rescore_release(struct td_rescore *r);

#endif

/* collapse.h - find out whether an answer has collapsed: NaN, runs of one token, short loops.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A rule judges one answer, by its token ids, or by its text if it has none. Each rule has a hard
 * limit, and a warning limit below it. That a rule fires proves little: small models loop, and
 * prompts ask for tables. differ therefore asks whether the candidate goes *beyond* what the
 * baseline's repeats did for the same prompt (td_collapse_beyond). td_collapse_check alone is for a
 * smoke test without a baseline. Sources of the limits: vLLM's repetition_detection and issues of
 * servers that collapsed (vllm#14715, #10656, #53261, llama.cpp#13310 …).
 * One sign is asked for by itself, td_collapse_check_end(): a flight recording must not be dumped for it.
 *
 *   kind        hard                                                 warning
 *   NAN         NaN or null logprob of a chosen token, or an error   NaN only among alternatives
 *               that says that a logprob or probability was NaN
 *   TOKEN_ZERO  >= 8 tokens of id 0 at the end, or half of >= 16     a run of 3 anywhere
 *   TOKEN_RUN   one token >= 32 times up to the end                  >= 16 times
 *   LOOP        period 2..32, repeated >= max(4, 64/period) times    half of that
 *               and over >= 64 tokens up to the end
 *   CHAR_RUN    one character >= 40 times at the end; "!?@G" >= 24   half of that
 *   EMPTY       >= 8 tokens and no text at all                       only blanks, or >= 16 tokens
 *                                                                    and fewer than a visible byte
 *                                                                    in four tokens
 *   FLAT        all alternatives of a row equal (within 1e-3), in    a quarter of them
 *               half of the rows (K >= 3)
 *   END         the server says that it came to no end ("abort")
 * The hard limits of runs and loops are lengths, and a short answer cannot reach them. Hence a second
 * measure: is the answer *filled*, that is, does a run or a loop fill about half of the length that
 * was asked for, or has it hardly any text? These limits fall with the request's max_tokens, from
 * 128 down: LOOP max_tokens / 2 (16 to 64) tokens and 4 times, TOKEN_RUN max_tokens / 4 (12 to 32),
 * CHAR_RUN down to half of its limit. One filled answer proves nothing, since honest small models
 * loop early. Many of them do, where the baseline has few (differ/lane_collapse.c).
 * Traps kept out: with ignore_eos only the tokens up to the first EOS count; a run that the prompt
 * contains too is a warning at most; rules and banners ("----", "====", "####", "....", "~~~~",
 * blanks) count as CHAR_RUN only at twice the limit. */
#ifndef TD_WIRE_COLLAPSE_H
#define TD_WIRE_COLLAPSE_H

#include "format/records.h"

enum td_collapse_kind {
    TD_COLLAPSE_NONE, TD_COLLAPSE_NAN, TD_COLLAPSE_TOKEN_ZERO, TD_COLLAPSE_TOKEN_RUN, TD_COLLAPSE_LOOP,
    TD_COLLAPSE_CHAR_RUN, TD_COLLAPSE_EMPTY, TD_COLLAPSE_FLAT, TD_COLLAPSE_END
};
const char *td_collapse_name(enum td_collapse_kind k); /* "none", "nan", "token-0", "token-run",
                                                          "loop", "char-run", "empty", "flat", "end" */

struct td_collapse {
    enum td_collapse_kind kind; /* gravest that fired: hard before warning, then by that order */
    bool hard;
    int32_t position;           /* first bad token (bytes of the text when there are no tokens) */
    int32_t length;             /* tokens (or bytes) from there that are bad */
    int32_t period;             /* LOOP; 1 for runs; else 0 */
    bool filled;                /* see above; every hard run, loop or empty answer is */
    double strength;            /* the measure divided by its hard limit; >= 1 is hard */
    unsigned fired;             /* bit mask of 1 << kind, hard or warning */
    double by_kind[9];          /* strength of each kind, 0 when it did not fire */
    char why[200];              /* one sentence: "token 0 ("!") 57 times from token 7 to the end" */
};

struct td_collapse_options {
    const int32_t *eos_ids; int32_t n_eos_ids; /* known end tokens; may be empty */
    bool masked;                /* the text is overwritten: rules that read it are left out */
};

/* Does a server's error say that a logprob or a probability was NaN? error NULL: no. */
bool td_collapse_error_names_nan(const char *error);
/* The length that a request asked for, in tokens: max_tokens, or what the dialect calls it. 0: not
 * known. request NULL: not known. */
int32_t td_collapse_asked(const cJSON *request);
/* Bytes of the text that can be read: no blanks, no control characters, no U+FFFD. */
size_t td_collapse_visible(const char *text, size_t n);
/* Judge one answer by itself. opt may be NULL. Never fails; no tokens and no text: NONE. */
void td_collapse_check(const struct td_exchange *x, const struct td_collapse_options *opt, struct td_collapse *out);
/* Does the server say that it did not come to an end of the answer? finish_reason "abort", "error" and
 * the like are no sound end, whatever a baseline says. *out: END, hard. False: *out is left as it is. */
bool td_collapse_check_end(const struct td_exchange *x, struct td_collapse *out);
/* Is the candidate's collapse worse than what the baseline does for that prompt? It must be hard,
 * and every repeat of the baseline must stay below hard and below half of the candidate's strength,
 * in that kind. Runs and loops count as one kind here.
 *   baseline : [n_baseline]; 0 repeats: hard is enough
 *   why_not  : gets a sentence when false; may be NULL */
bool td_collapse_beyond(const struct td_collapse *candidate, const struct td_collapse *baseline, size_t n_baseline,
                        char *why_not, size_t why_not_size);

#endif

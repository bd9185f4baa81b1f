/* expected_size.h - how large a fixture becomes: from the suite, and from the model's files.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Everything is an upper bound, as the bytes come; what is stored is compressed, and smaller. */
#ifndef TD_RECORDER_EXPECTED_SIZE_H
#define TD_RECORDER_EXPECTED_SIZE_H

#include "recorder/record_load.h"
#include "recorder/record_options.h"
#include "wire/suite.h"

/* What is sent, from the suite alone. */
struct td_expected_requests {
    struct td_record_load load;
    int64_t timed, tapped, scores; /* requests; scores: where the server offers it */
    int64_t tokens;                /* that are answered at most, by all of them */
    int64_t bytes;                 /* requests and answers, on the wire and as exchanges */
    int64_t rows;                  /* rows of activations in the tapped phase: a prompt has at most
                                      as many tokens as bytes */
    int64_t decoded;               /* of these, one for each token of the answers */
    int64_t prompt_rows;           /* of these, about so many for the tokens of prompts */
    int64_t first_rows;            /* rows of the first two steps of each size, which a sample keeps */
};
/* TD_EINVAL: the options ask for too many, or for none. */
int td_expected_requests(const struct td_record_options *o, const struct td_suite *suite,
                         struct td_expected_requests *out, struct td_error *err);

/* What the model's matrices take. */
struct td_expected_model {
    int64_t weights;               /* bytes, each once */
    int64_t row;                   /* bytes of inputs and outputs of all its products, for one row */
};
/* Read it from a checkpoint: a folder of safetensors, or a .gguf file. */
int td_expected_model_read(const char *checkpoint, struct td_expected_model *out,
                           struct td_error *err);

#endif

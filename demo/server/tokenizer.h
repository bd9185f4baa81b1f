/* tokenizer.h - byte-level tokens: one token is one byte, or a special word such as <|endoftext|>.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEMO_SERVER_TOKENIZER_H
#define TD_DEMO_SERVER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

struct td_tokenizer;

/* Read tokenizer.json of a checkpoint. TD_EUNSUPPORTED: it has merges, or lacks a byte. */
int td_tokenizer_open(struct td_tokenizer **out, const char *dir, struct td_error *err);
void td_tokenizer_close(struct td_tokenizer *t);

int td_tokenizer_size(const struct td_tokenizer *t); /* ids are 0 .. size-1 */
/* Write up to n ids (a text of n bytes has no more) to ids and return how many. Special words in the text become their token,
 * as Hugging Face does. */
size_t td_tokenizer_encode(const struct td_tokenizer *t, const char *text, size_t n, int32_t *ids);
/* The id of a special word, -1 when there is none. */
int32_t td_tokenizer_special(const struct td_tokenizer *t, const char *word);
bool td_tokenizer_is_special(const struct td_tokenizer *t, int32_t id);
/* The bytes a token stands for (not NUL-terminated: a byte may be NUL); a special token's word. Borrowed from t. */
const char *td_tokenizer_bytes(const struct td_tokenizer *t, int32_t id, size_t *n);
/* The token as the vocabulary spells it, UTF-8: a blank is "\u0120". */
const char *td_tokenizer_spelling(const struct td_tokenizer *t, int32_t id);

/* Text of a stream of tokens. A character whose bytes are not all there yet is held back, as vLLM does; bytes that cannot
 * become a character turn into U+FFFD, one for each maximal prefix, as Python's errors="replace" does. What is still held when
 * the stream ends never appears (vLLM again). Zeroed is the start state. */
struct td_detok {
    char held[4];
    int n_held;
};
void td_detok_add(struct td_detok *d, const char *bytes, size_t n, struct td_buf *out);

#endif

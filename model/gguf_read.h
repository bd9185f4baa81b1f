/* gguf_read.h - a GGUF model in memory, and reading one file of it; for gguf.c.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MODEL_GGUF_READ_H
#define TD_MODEL_GGUF_READ_H

#include "common/error.h"
#include "model/gguf_types.h"

struct td_gguf_file { char *path; const uint8_t *data; size_t n; bool mapped; };
struct td_gguf_key { char *name; struct td_gguf_value value; }; /* owns name and value.str */

/* Invariant after a successful open: tensors sorted by name; every data pointer lies inside a file. */
struct td_gguf {
    char *path;
    struct td_gguf_file *files;
    size_t n_files;
    struct td_gguf_tensor *tensors;
    size_t n, cap;
    struct td_gguf_key *keys;          /* of the first file */
    size_t n_keys;
};

/* Append the tensors of a file to g, and its keys if g has none yet. f must outlive g. Errors as of
 * td_gguf_open. */
int td_gguf_read_file(struct td_gguf *g, const struct td_gguf_file *f, struct td_error *err);
/* kind NONE: there is no such key. */
struct td_gguf_value td_gguf_find_key(const struct td_gguf_key *keys, size_t n, const char *name);
void td_gguf_release_keys(struct td_gguf_key *keys, size_t n);
/* Has this version a name for the tensor's type? If not, t->dtype is a string of its own, to be freed. */
bool td_gguf_known_type(const struct td_gguf_tensor *t);

#endif

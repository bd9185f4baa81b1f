/* gguf.h - read a GGUF file in place: its metadata, and its tensors by name.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Format: ggml's docs/gguf.md and ggml/include/gguf.h (version 2 and 3, little-endian): magic, version,
 * counts, key-value pairs, tensor descriptions, then at the next multiple of general.alignment (32) the
 * data, tensor after tensor, each padded to that multiple. Everything in the file is checked against its
 * size before a pointer is handed out. Files are mapped, not read: they must not shrink while open. A model
 * in several files (split.count, NAME-00001-of-00003.gguf) is opened by any one of them. */
#ifndef TD_MODEL_GGUF_H
#define TD_MODEL_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "model/gguf_types.h"

struct td_gguf;

/* TD_ENOTFOUND, TD_EIO; TD_ETRUNCATED and TD_ECORRUPT, with what is missing or wrong; TD_EVERSION;
 * TD_ELIMIT. */
int td_gguf_open(const char *path, struct td_gguf **out, struct td_error *err);
/* The same from n bytes of memory, borrowed until close; name is for sentences. Other files of a split
 * model are not looked for. */
int td_gguf_memory(const void *data, size_t n, const char *name, struct td_gguf **out, struct td_error *err);
void td_gguf_close(struct td_gguf *g);  /* NULL is allowed */

const char *td_gguf_path(const struct td_gguf *g); /* as given to open */
size_t td_gguf_count(const struct td_gguf *g);
const struct td_gguf_tensor *td_gguf_at(const struct td_gguf *g, size_t i);               /* in order of names (bytewise) */
const struct td_gguf_tensor *td_gguf_find(const struct td_gguf *g, const char *name);     /* NULL: no such tensor */
/* A value of the first file's metadata; kind NONE: there is no such key. */
struct td_gguf_value td_gguf_meta(const struct td_gguf *g, const char *key);

#endif

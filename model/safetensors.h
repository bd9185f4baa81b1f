/* safetensors.h - read the tensors of a .safetensors file or of a checkpoint folder, in place.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Format: 8 bytes little-endian header length, a JSON header {name: {dtype, shape, data_offsets}}, then the data without gaps
 * (https://github.com/huggingface/safetensors, README "Format"). Everything the header says is checked against the file before
 * a pointer is handed out. Files are mapped, not read: they must not shrink while open. */
#ifndef TD_MODEL_SAFETENSORS_H
#define TD_MODEL_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "model/dtype.h"

#define TD_ST_MAX_HEADER (100u << 20) /* bytes; the format's own maximum */
#define TD_ST_MAX_TENSORS 1000000
#define TD_ST_MAX_SHARDS 1024
#define TD_ST_MAX_DIMS 8

struct td_st_tensor {
    const char *name;            /* "model.layers.1.mlp.down_proj.qweight"; valid until close */
    enum td_dtype dtype;         /* TD_DT_NONE: unknown to this version (F8_E8M0 ...); see dtype_name */
    char dtype_name[16];
    int ndim;                    /* 0 = a scalar */
    int64_t shape[TD_ST_MAX_DIMS];
    const void *data;            /* dense row-major, read-only, valid until close; NULL when size_bytes is 0.
                                  * Aligned to the element only if the writer cared (most do): copy before casting if in doubt. */
    size_t size_bytes;
    size_t file_offset;          /* of data within its file */
    const char *path;            /* the file it lies in */
};

struct td_safetensors;

/* Open a file, or a folder with model.safetensors or model.safetensors.index.json (whose shards are opened, all of them).
 * TD_ETRUNCATED names how many bytes are missing; TD_ECORRUPT what does not hold; TD_ELIMIT which maximum. */
int td_safetensors_open(const char *path, struct td_safetensors **out, struct td_error *err);
/* The same from n bytes of memory, not NULL, borrowed until close; name is for sentences. */
int td_safetensors_memory(const void *data, size_t n, const char *name, struct td_safetensors **out, struct td_error *err);
void td_safetensors_close(struct td_safetensors *st); /* NULL is allowed */

size_t td_safetensors_count(const struct td_safetensors *st);
/* Tensor i in order of names (bytewise); i < count. */
const struct td_st_tensor *td_safetensors_at(const struct td_safetensors *st, size_t i);
const struct td_st_tensor *td_safetensors_find(const struct td_safetensors *st, const char *name); /* NULL: no such tensor */
/* Find and require dtype and shape ([d0] when d1 < 0, else [d0, d1]); the sentence names what was expected and found.
 * Returns 0, TD_ENOTFOUND or TD_EINVAL. */
int td_safetensors_require(const struct td_safetensors *st, const char *name, enum td_dtype dtype, int64_t d0, int64_t d1,
                           const struct td_st_tensor **out, struct td_error *err);

#endif

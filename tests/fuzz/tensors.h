/* tensors.h - make a safetensors file from a line {"name": ["I32", 8, 16], ...}. The offsets are
 * made to fit, so that a fuzzer tries names, types and shapes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_FUZZ_TENSORS_H
#define TD_TESTS_FUZZ_TENSORS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/json.h"
#include "model/dtype.h"

#define TD_FUZZ_TENSOR_BYTES 16384 /* a larger tensor gets no bytes, and the reader must refuse it */

struct td_fuzz_bytes { const uint8_t *data; size_t n; };

/* The bytes before the next line break, or all. */
static inline struct td_fuzz_bytes td_fuzz_line(struct td_fuzz_bytes *in)
{
    const uint8_t *end = in->n ? memchr(in->data, '\n', in->n) : NULL;
    struct td_fuzz_bytes line = {in->data, end ? (size_t)(end - in->data) : in->n};

    in->data += line.n + (end != NULL);
    in->n -= line.n + (end != NULL);
    return line;
}

static inline size_t td_fuzz_tensor_bytes(const cJSON *tensor)
{
    const cJSON *dtype = cJSON_GetArrayItem(tensor, 0), *d;
    double n = cJSON_IsString(dtype) ? (double)td_dtype_size(td_dtype_parse(dtype->valuestring)) : 0;

    for (d = dtype ? dtype->next : NULL; d; d = d->next)
        n *= td_json_num(d, 0);
    return n > 0 && n <= TD_FUZZ_TENSOR_BYTES ? (size_t)n : 0;
}

/* Make the header's entry of a tensor from its type and shape. */
static inline cJSON *td_fuzz_entry(const cJSON *tensor, size_t at, size_t size)
{
    cJSON *entry = cJSON_CreateObject(), *shape = cJSON_Duplicate(tensor, true);

    cJSON_AddItemToObject(entry, "dtype", cJSON_DetachItemFromArray(shape, 0));
    cJSON_AddItemToObject(entry, "shape", shape);
    cJSON_AddItemToObject(entry, "data_offsets", cJSON_CreateDoubleArray((const double[]){(double)at, (double)(at + size)}, 2));
    return entry;
}

/* Write the file to out; `data` is repeated to fill the tensors. */
static inline void td_fuzz_tensors(struct td_fuzz_bytes line, struct td_fuzz_bytes data, struct td_buf *out)
{
    cJSON *tensors = td_json_parse((const char *)line.data, line.n, NULL), *header = cJSON_CreateObject(), *tensor;
    size_t at = 0, i;
    uint64_t len;
    char *text;

    cJSON_ArrayForEach(tensor, tensors) {
        const size_t size = td_fuzz_tensor_bytes(tensor);

        if (!tensor->string) /* the line is no object */
            break;
        cJSON_AddItemToObject(header, tensor->string, td_fuzz_entry(tensor, at, size));
        at += size;
    }
    text = cJSON_PrintUnformatted(header);
    len = strlen(text);
    td_buf_add(out, &len, sizeof len);
    td_buf_adds(out, text);
    for (i = 0; i < at; i++)
        td_buf_addc(out, data.n ? (char)data.data[i % data.n] : 0);
    free(text);
    cJSON_Delete(header);
    cJSON_Delete(tensors);
}

#endif

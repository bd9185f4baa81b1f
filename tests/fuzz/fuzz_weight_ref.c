/* fuzz_weight_ref.c - fuzz weights that an op holds by reference to a checkpoint: the reference is
 * refused with a sentence, or gives bytes that can all be read.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Input: a line of ops.jsonl.zst; a line of tensors (tensors.h); their bytes. Each reference is
 * also tried with other transforms, slices and shapes. */
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "format/records.h"
#include "replayer/weight_ref.h"
#include "tests/fuzz/fuzz_main.h"
#include "tests/fuzz/tensors.h"

static volatile uint64_t all; /* so that every byte is read */

static uint64_t next(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 33;
}

static void load(const struct td_safetensors *st, const struct td_tensor_rec *t)
{
    struct td_error err = {0};
    void *data;
    size_t size;
    int rc = td_weight_ref_load(st, "fuzz", t, &data, &size, &err);

    if (rc != err.code || !rc != !!data || (rc && !err.msg[0]))
        abort();
    if (!rc)
        all += td_hash64(data, size);
    free(data);
}

static cJSON *some_transforms(uint64_t *s)
{
    static const char *const names[] = {"awq-qweight", "awq-qzeros", "stack", "F16", "BF16", "F32"};
    cJSON *list = cJSON_CreateArray();

    for (uint64_t n = next(s) % 4; n; n--)
        cJSON_AddItemToArray(list, cJSON_CreateString(names[next(s) % 6]));
    return list;
}

static cJSON *some_slice(uint64_t *s)
{
    cJSON *list = cJSON_CreateArray();

    for (uint64_t n = 1 + next(s) % 2; n; n--) {
        const double from = (double)(next(s) % 9), to = from + (double)(next(s) % 9);

        cJSON_AddItemToArray(list, cJSON_CreateDoubleArray((const double[]){from, to}, 2));
    }
    return list;
}

static int64_t other(int64_t v, uint64_t *s)
{
    const int64_t values[] = {0, 1, v / 8, v / 2, v < INT64_MAX / 8 && v > 0 ? v * 8 : 8, -1, INT64_MAX, INT64_MIN};

    return values[next(s) % (sizeof values / sizeof *values)];
}

static void set(cJSON *ref, const char *key, cJSON *value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(ref, key);
    cJSON_AddItemToObject(ref, key, value);
}

static void tweak(struct td_tensor_rec *t, uint64_t *s)
{
    const int d = (int)(next(s) % 2);

    switch (next(s) % 8) {
    case 0: t->ndim = (int)(next(s) % 4); break;
    case 1: t->shape[d] = other(t->shape[d], s); break;
    case 2: case 3: set(t->ref, "slice", some_slice(s)); break;
    case 4: set(t->ref, "slice", cJSON_CreateNull()); break;
    default: set(t->ref, "transforms", some_transforms(s));
    }
}

static void load_all(const struct td_safetensors *st, struct td_op *op, uint64_t *seed)
{
    for (int i = 0; i < op->n_in; i++)
        for (int k = 0; cJSON_IsObject(op->in[i].ref) && k < 8; k++) {
            load(st, &op->in[i]);
            tweak(&op->in[i], seed);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct td_fuzz_bytes in = {data, n}, line = td_fuzz_line(&in), tensors = td_fuzz_line(&in);
    cJSON *record = td_json_parse((const char *)line.data, line.n, NULL);
    struct td_buf file = TD_BUF_INIT(1 << 20);
    struct td_safetensors *st = NULL;
    uint64_t seed = td_hash64(data, n);
    struct td_op op;

    if (record && !td_op_read(record, &op, NULL)) {
        td_fuzz_tensors(tensors, in, &file);
        if (!td_safetensors_memory(file.data, file.len, "fuzz", &st, NULL))
            load_all(st, &op, &seed);
        td_safetensors_close(st);
        td_op_release(&op);
    }
    td_buf_release(&file);
    cJSON_Delete(record);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/weight_ref", 10000)

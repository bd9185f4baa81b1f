/* identify.c - which settler knows the weights of an op, and what those of no settler become.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/identify/identify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/dtype.h"

/* The first that fits is asked. */
static const struct td_identify_entry identify_table[] = {
    {"gptq_gemm", "checkpoint", td_identify_gptq},
    {"gptq_gemm", "vllm_int4_vnni", td_identify_vllm_int4},
    {"gptq_gemm", "vllm_wna16_n16", td_identify_vllm_wna16},
    {"gptq_gemm", "exllama", td_identify_exllama},
    {"gptq_gemm", "marlin", td_identify_marlin},
    {"gemm", "checkpoint", td_identify_gemm},
    {"gemm", NULL, td_identify_vllm_gemm},
    {"ggml_*", NULL, td_identify_gguf},
};

/* ---- for identify_table -------------------------------------------------------------------------------------------------- */

void td_identify_tensor(struct td_tensor_rec *t, const struct tap_tensor *from)
{
    int i;

    memset(t, 0, sizeof *t);
    snprintf(t->role, sizeof t->role, "%s", from->role);
    snprintf(t->dtype, sizeof t->dtype, "%s", from->dtype);
    t->ndim = from->ndim;
    for (i = 0; i < from->ndim; i++) {
        t->shape[i] = from->shape[i];
        t->strides[i] = from->strides[i];
    }
    t->align = from->opaque ? 0 : (int64_t)1 << (from->align <= 12 ? from->align : 0);
}

void td_identify_as_sent(struct td_identify *s, int i)
{
    td_identify_tensor(&s->t[s->n], &s->w[i]);
    s->data[s->n] = s->bytes[i];
    s->size[s->n++] = s->bytes[i] ? s->w[i].bytes : 0;
}

void td_identify_set_ref(struct td_tensor_rec *t, const char *checkpoint, const char *const *tensors, int n, const char *transform, struct td_hash hash)
{
    cJSON *ref = cJSON_CreateObject(), *list;
    char hex[TD_HASH_HEX];
    int i;

    td_hash_hex(hash, hex);
    cJSON_AddStringToObject(ref, "checkpoint", checkpoint);
    list = cJSON_AddArrayToObject(ref, "tensors");
    for (i = 0; i < n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(tensors[i]));
    cJSON_AddNullToObject(ref, "slice");
    list = cJSON_AddArrayToObject(ref, "transforms");
    if (transform)
        cJSON_AddItemToArray(list, cJSON_CreateString(transform));
    cJSON_AddStringToObject(ref, "hash", hex);
    cJSON_Delete(t->ref);
    t->ref = ref;
}

static bool has_form(const struct tap_tensor *t, const char *dtype, int ndim, const int64_t *shape)
{
    uint64_t bytes = td_dtype_size(td_dtype_parse(dtype));
    int i;

    for (i = 0; i < ndim; i++)
        bytes *= (uint64_t)shape[i];
    return !strcmp(t->dtype, dtype) && t->ndim == ndim && !memcmp(t->shape, shape, (size_t)ndim * sizeof *shape) && t->bytes == bytes;
}

const void *td_identify_sent(const struct td_identify *s, const char *role, const char *dtype, int ndim, const int64_t *shape)
{
    int i;

    for (i = 0; i < s->n_w; i++)
        if (!strcmp(s->w[i].role, role))
            return has_form(&s->w[i], dtype, ndim, shape) ? s->bytes[i] : NULL;
    return NULL;
}

bool td_identify_has(const struct td_identify *s, const char *role)
{
    int i;

    for (i = 0; i < s->n_w; i++)
        if (!strcmp(s->w[i].role, role))
            return true;
    return false;
}

int64_t td_identify_attr(const struct td_identify *s, const char *name, int64_t otherwise)
{
    int i;

    for (i = 0; i < s->n_attrs; i++)
        if (!strcmp(s->attrs[i].name, name))
            return s->attrs[i].value;
    return otherwise;
}

void td_identify_add_attr(struct td_identify *s, const char *name, int64_t value)
{
    if (s->n_extra == TD_IDENTIFY_EXTRA)
        return;
    snprintf(s->extra[s->n_extra].name, TD_OP_MAX_ATTR_NAME, "%s", name);
    s->extra[s->n_extra++].value = value;
}

/* ---- the table ----------------------------------------------------------------------------------------------------- */

static int keep_as_sent(struct td_identify *s)
{
    int i;

    for (i = 0; i < s->n_w; i++)
        td_identify_as_sent(s, i);
    if (s->name)
        snprintf(s->layer, sizeof s->layer, "%s", s->name);
    return TD_OK;
}

static bool knows(const struct td_identify_entry *settler, const struct td_identify *s)
{
    size_t n = strlen(settler->kind);
    bool same = settler->kind[n - 1] == '*' ? !strncmp(settler->kind, s->kind, n - 1) : !strcmp(settler->kind, s->kind);

    return same && (!settler->layout || !strcmp(settler->layout, s->layout));
}

int td_identify_weights(struct td_identify *s, struct td_error *err)
{
    size_t i;
    int rc;

    for (i = 0; i < sizeof identify_table / sizeof *identify_table; i++) {
        if (!knows(&identify_table[i], s))
            continue;
        rc = identify_table[i].settle(s, err);
        if (rc != TD_EUNSUPPORTED)
            return rc;
        td_identify_release(s);
        td_error_clear(err);
    }
    return keep_as_sent(s);
}

void td_identify_release(struct td_identify *s)
{
    int i;

    for (i = 0; i < TD_IDENTIFY_TENSORS; i++) {
        cJSON_Delete(s->t[i].ref);
        free(s->owned[i]);
    }
    memset(s->t, 0, sizeof s->t);
    memset(s->data, 0, sizeof s->data);
    memset(s->size, 0, sizeof s->size);
    memset(s->owned, 0, sizeof s->owned);
    s->n = s->matches = s->n_extra = 0;
    s->layer[0] = '\0';
    s->named_by_call = false;
}

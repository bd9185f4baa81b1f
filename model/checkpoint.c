/* checkpoint.c - a Llama checkpoint folder: config.json, its tensors, its GPTQ or AWQ layers by name.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/checkpoint.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/buf.h"
#include "common/fs.h"
#include "model/awq.h"

#define MAX_CONFIG_BYTES ((size_t)4 << 20)

/* ---- JSON files ------------------------------------------------------------------------------ */

/* TD_ENOTFOUND (and no sentence) when the file is not there. */
static int read_json(const char *folder, const char *file, cJSON **out, struct td_error *err)
{
    struct td_buf text = TD_BUF_INIT(MAX_CONFIG_BYTES);
    struct td_error why = {0};
    char path[4096];
    int rc;

    *out = NULL;
    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path)
        return td_fail(err, TD_ELIMIT, "%.200s...: the path is too long", folder);
    rc = td_fs_read_regular(path, MAX_CONFIG_BYTES, &text, &why);
    if (!rc)
        *out = cJSON_ParseWithLength(td_buf_str(&text), text.len);
    td_buf_release(&text);
    if (rc)
        return rc == TD_ENOTFOUND ? rc : td_fail(err, rc, "%s", why.msg);
    if (cJSON_IsObject(*out))
        return 0;
    cJSON_Delete(*out);
    *out = NULL;
    return td_fail(err, TD_ECORRUPT, "%s: not a JSON object", path);
}

/* An absent or null field leaves *out as it is. required: absence is a failure. */
static int get_int(const cJSON *o, const char *key, bool required, int *out, struct td_error *err)
{
    const cJSON *j = cJSON_GetObjectItemCaseSensitive(o, key);

    if (cJSON_IsArray(j)) /* eos_token_id may be a list */
        j = cJSON_GetArrayItem(j, 0);
    if (!j || cJSON_IsNull(j))
        return required ? td_fail(err, TD_EINVAL, "no \"%s\"", key) : 0;
    if (!cJSON_IsNumber(j) || j->valuedouble != floor(j->valuedouble) || fabs(j->valuedouble) > 2147483647.0
        || (required && j->valuedouble < 1))
        return td_fail(err, TD_EINVAL, "\"%s\" is not %s", key, required ? "a positive whole number" : "a whole number");
    *out = (int)j->valuedouble;
    return 0;
}

static int get_double(const cJSON *o, const char *key, double *out, struct td_error *err)
{
    const cJSON *j = cJSON_GetObjectItemCaseSensitive(o, key);

    if (!j || cJSON_IsNull(j))
        return 0;
    if (!cJSON_IsNumber(j))
        return td_fail(err, TD_EINVAL, "\"%s\" is not a number", key);
    *out = j->valuedouble;
    return 0;
}

static void get_bool(const cJSON *o, const char *key, bool *out)
{
    const cJSON *j = cJSON_GetObjectItemCaseSensitive(o, key);

    if (cJSON_IsBool(j))
        *out = cJSON_IsTrue(j);
}

/* ---- config ---------------------------------------------------------------------------------- */

static int read_config(const cJSON *root, struct td_checkpoint_config *c, struct td_error *err)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(root, "model_type");
    int rc;

    *c = (struct td_checkpoint_config){.max_position = 2048, .rms_norm_eps = 1e-6, .rope_theta = 10000.0,
                                       .bos_token_id = -1, .eos_token_id = -1};
    if (cJSON_IsString(type))
        snprintf(c->model_type, sizeof c->model_type, "%s", type->valuestring);
    if ((rc = get_int(root, "hidden_size", true, &c->hidden_size, err))
        || (rc = get_int(root, "intermediate_size", true, &c->intermediate_size, err))
        || (rc = get_int(root, "num_hidden_layers", true, &c->num_layers, err))
        || (rc = get_int(root, "num_attention_heads", true, &c->num_heads, err))
        || (rc = get_int(root, "vocab_size", true, &c->vocab_size, err)))
        return rc;
    c->num_kv_heads = c->num_heads;
    c->head_dim = c->hidden_size / c->num_heads;
    if ((rc = get_int(root, "num_key_value_heads", false, &c->num_kv_heads, err))
        || (rc = get_int(root, "head_dim", false, &c->head_dim, err))
        || (rc = get_int(root, "max_position_embeddings", false, &c->max_position, err))
        || (rc = get_int(root, "bos_token_id", false, &c->bos_token_id, err))
        || (rc = get_int(root, "eos_token_id", false, &c->eos_token_id, err))
        || (rc = get_double(root, "rms_norm_eps", &c->rms_norm_eps, err))
        || (rc = get_double(root, "rope_theta", &c->rope_theta, err)))
        return rc;
    if (c->num_kv_heads < 1 || c->num_heads % c->num_kv_heads || c->head_dim < 1 || c->max_position < 1)
        return td_fail(err, TD_EINVAL, "%d attention heads, %d key-value heads, head_dim %d, %d positions do not fit together",
                       c->num_heads, c->num_kv_heads, c->head_dim, c->max_position);
    get_bool(root, "tie_word_embeddings", &c->tie_word_embeddings);
    return 0;
}

/* AutoAWQ's names and those that transformers writes. */
static int read_awq(const cJSON *o, struct td_checkpoint_quant *q, struct td_error *err)
{
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(o, "version");
    const char *bits = cJSON_HasObjectItem(o, "w_bit") ? "w_bit" : "bits",
               *group = cJSON_HasObjectItem(o, "q_group_size") ? "q_group_size" : "group_size";
    int rc;

    if (cJSON_IsString(version) && strcasecmp(version->valuestring, "gemm"))
        return td_fail(err, TD_EUNSUPPORTED, "AWQ's version is \"%.40s\"; gemm is supported", version->valuestring);
    if ((rc = get_int(o, bits, true, &q->bits, err)) || (rc = get_int(o, group, false, &q->group_size, err)))
        return rc;
    if (q->bits != 4 || (q->group_size != -1 && q->group_size < 1))
        return td_fail(err, TD_EUNSUPPORTED,
                       "AWQ of %d bits in groups of %d; 4 bits in groups of -1 or a positive "
                       "number are supported",
                       q->bits, q->group_size);
    q->zero_offset = 0;
    q->sym = false;
    q->awq = q->present = true;
    return 0;
}

static int read_quant(const cJSON *o, struct td_checkpoint_quant *q, struct td_error *err)
{
    const cJSON *method = cJSON_GetObjectItemCaseSensitive(o, "quant_method");
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(o, "checkpoint_format");
    int rc;

    *q = (struct td_checkpoint_quant){.zero_offset = 1, .group_size = -1, .sym = true};
    if (cJSON_IsString(method) && !strcmp(method->valuestring, "awq"))
        return read_awq(o, q, err);
    if (cJSON_IsString(method) && strcmp(method->valuestring, "gptq"))
        return 0;
    if ((rc = get_int(o, "bits", true, &q->bits, err)) || (rc = get_int(o, "group_size", false, &q->group_size, err)))
        return rc;
    if (q->group_size != -1 && q->group_size < 1)
        return td_fail(err, TD_EINVAL, "group_size is %d; -1 or a positive number", q->group_size);
    get_bool(o, "desc_act", &q->desc_act);
    get_bool(o, "sym", &q->sym);
    if (cJSON_IsString(format)) {
        if (strcmp(format->valuestring, "gptq") && strcmp(format->valuestring, "gptq_v2"))
            return td_fail(err, TD_EUNSUPPORTED,
                           "checkpoint_format is \"%s\"; gptq and gptq_v2 are supported",
                           format->valuestring);
        q->zero_offset = !strcmp(format->valuestring, "gptq");
    }
    q->present = true;
    return 0;
}

static int read_configs(struct td_checkpoint *ck, struct td_error *err)
{
    cJSON *root, *own = NULL, *quant;
    int rc = read_json(ck->path, "config.json", &root, err);

    if (rc == TD_ENOTFOUND)
        return td_fail(err, rc, "%s/config.json: not found; is this a checkpoint folder?", ck->path);
    if (rc)
        return rc;
    if ((rc = read_config(root, &ck->config, err))) {
        td_fail_at(err, "%s/config.json", ck->path);
        goto done;
    }
    quant = cJSON_GetObjectItemCaseSensitive(root, "quantization_config");
    if (!cJSON_IsObject(quant)) {
        rc = read_json(ck->path, "quantize_config.json", &own, err);
        if (rc && rc != TD_ENOTFOUND)
            goto done;
        quant = own;
        rc = 0;
    }
    if (quant && (rc = read_quant(quant, &ck->quant, err)))
        td_fail_at(err, "%s/%s", ck->path, own ? "quantize_config.json" : "config.json");
done:
    cJSON_Delete(own);
    cJSON_Delete(root);
    return rc;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static const char suffix[] = ".qweight";

static size_t layer_name_len(const char *tensor)
{
    size_t len = strlen(tensor), cut = sizeof suffix - 1;

    return len > cut && !strcmp(tensor + len - cut, suffix) ? len - cut : 0;
}

static int by_layer_name(const void *a, const void *b)
{
    return strcmp(((const struct td_checkpoint_layer *)a)->name, ((const struct td_checkpoint_layer *)b)->name);
}

static int find_layers(struct td_checkpoint *ck, struct td_error *err)
{
    const size_t count = td_safetensors_count(ck->tensors);
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += layer_name_len(td_safetensors_at(ck->tensors, i)->name) > 0;
    if (!found || !ck->quant.present)
        return found ? td_fail(err, TD_EINVAL,
                               "%s: has .qweight tensors, but neither config.json nor "
                               "quantize_config.json says gptq or awq",
                               ck->path)
                     : 0;
    if (!(ck->layers = calloc(found, sizeof *ck->layers)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    for (size_t i = 0; i < count; i++) {
        const char *tensor = td_safetensors_at(ck->tensors, i)->name;
        const size_t len = layer_name_len(tensor);
        struct td_checkpoint_layer *l = &ck->layers[ck->n_layers];
        int rc;

        if (!len)
            continue;
        if (!(l->name = strndup(tensor, len)))
            return td_fail(err, TD_ENOMEM, "out of memory");
        ck->n_layers++;
        rc = ck->quant.awq
                 ? td_awq_weight_load(ck->tensors, l->name, ck->quant.group_size, &l->weight, err)
                 : td_gptq_weight_load(ck->tensors, l->name, ck->quant.bits, ck->quant.group_size,
                                       ck->quant.zero_offset, &l->weight, err);
        if (rc) {
            td_fail_at(err, "%s", ck->path);
            return rc;
        }
    }
    qsort(ck->layers, ck->n_layers, sizeof *ck->layers, by_layer_name);
    return 0;
}

/* ---- the interface --------------------------------------------------------------------------- */

int td_checkpoint_open(const char *folder, struct td_checkpoint **out, struct td_error *err)
{
    struct td_checkpoint *ck = calloc(1, sizeof *ck);
    int rc;

    *out = NULL;
    if (!ck || !(ck->path = strdup(folder))) {
        free(ck);
        return td_fail(err, TD_ENOMEM, "out of memory");
    }
    if ((rc = read_configs(ck, err)) || (rc = td_safetensors_open(folder, &ck->tensors, err)) || (rc = find_layers(ck, err))) {
        td_checkpoint_close(ck);
        return rc;
    }
    *out = ck;
    return 0;
}

void td_checkpoint_close(struct td_checkpoint *ck)
{
    if (!ck)
        return;
    for (size_t i = 0; i < ck->n_layers; i++) {
        td_gptq_weight_release(&ck->layers[i].weight);
        free(ck->layers[i].name);
    }
    free(ck->layers);
    td_safetensors_close(ck->tensors);
    free(ck->path);
    free(ck);
}

const struct td_gptq_weight *td_checkpoint_find(const struct td_checkpoint *ck, const char *name)
{
    struct td_checkpoint_layer key = {.name = (char *)name}, *l;

    l = ck->n_layers ? bsearch(&key, ck->layers, ck->n_layers, sizeof key, by_layer_name) : NULL;
    return l ? &l->weight : NULL;
}

/* prompt_names.c - hashes of requests, and how often each came.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/prompt_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/json.h"
#include "format/redact.h"

#define NAME "captured-%016llx"

struct slot { uint64_t hash; int32_t n, n_seen; };

struct td_prompt_names {
    struct td_redactor *redactor;
    uint32_t stream;
    struct td_buf redacted;
    struct slot *slot;            /* open addressing; n 0: free */
    size_t n_slots, n, n_seen;
    int32_t most;
};

int td_prompt_names_new(const struct td_redaction *redaction, struct td_prompt_names **out, struct td_error *err)
{
    struct td_prompt_names *p = calloc(1, sizeof *p);
    int rc = TD_OK;

    if (!p)
        return td_fail(err, TD_ENOMEM, "out of memory");
    td_buf_init(&p->redacted, TD_CONVERSATION_MAX_REQUEST);
    p->n_slots = 1024;
    p->slot = calloc(p->n_slots, sizeof *p->slot);
    if (!p->slot)
        rc = td_fail(err, TD_ENOMEM, "out of memory");
    else
        rc = td_redactor_new(redaction, &p->redactor, err);
    if (rc)
        td_prompt_names_free(p);
    else
        *out = p;
    return rc;
}

void td_prompt_names_free(struct td_prompt_names *p)
{
    if (!p)
        return;
    td_redactor_free(p->redactor);
    td_buf_release(&p->redacted);
    free(p->slot);
    free(p);
}

/* ---- the hash -------------------------------------------------------------------------------- */

static int keep_sent(void *ctx, const struct td_wire *rec)
{
    struct td_prompt_names *p = ctx;

    return rec->dir == TD_WIRE_SENT ? td_buf_add(&p->redacted, rec->data, rec->len) : TD_OK;
}

/* The request as the writer will store it, in p->redacted. */
static int redact(struct td_prompt_names *p, const char *whole, size_t n)
{
    static const char CLOSE[] = "{\"close\":{\"ok\":true}}";
    struct td_wire rec = {.stream = p->stream, .dir = TD_WIRE_SENT, .data = (const uint8_t *)whole, .len = n};
    int rc;

    td_buf_clear(&p->redacted);
    rc = td_redactor_wire(p->redactor, &rec, keep_sent, p);
    rec = (struct td_wire){.stream = p->stream++, .dir = TD_WIRE_NOTE, .data = (const uint8_t *)CLOSE,
                           .len = sizeof CLOSE - 1};
    return rc ? rc : td_redactor_wire(p->redactor, &rec, keep_sent, p);
}

/* The body without what differs from one equal request to the next. */
static uint64_t hash_of(const char *path, const char *body, size_t n)
{
    cJSON *json = td_json_parse(body, n, NULL);
    struct td_buf text = TD_BUF_INIT(TD_CONVERSATION_MAX_REQUEST + 1024);
    char *printed = NULL;
    uint64_t hash;

    if (cJSON_IsObject(json)) {
        cJSON_DeleteItemFromObjectCaseSensitive(json, "cache_salt");
        printed = cJSON_PrintUnformatted(json);
    }
    td_buf_addf(&text, "%.*s\n", (int)strcspn(path, "?"), path);
    if (printed)
        td_buf_adds(&text, printed);
    else
        td_buf_add(&text, body, n);
    hash = td_hash64(td_buf_str(&text), text.len);
    td_buf_release(&text);
    cJSON_free(printed);
    cJSON_Delete(json);
    return hash;
}

/* ---- how often ------------------------------------------------------------------------------- */

static struct slot *slot_of(struct slot *slot, size_t n_slots, uint64_t hash)
{
    size_t i = (size_t)hash & (n_slots - 1);

    while (slot[i].n && slot[i].hash != hash)
        i = (i + 1) & (n_slots - 1);
    return &slot[i];
}

static int grow(struct td_prompt_names *p)
{
    const size_t n = p->n_slots * 2;
    struct slot *slot = calloc(n, sizeof *slot);
    size_t i;

    if (!slot)
        return TD_ENOMEM;
    for (i = 0; i < p->n_slots; i++)
        if (p->slot[i].n)
            *slot_of(slot, n, p->slot[i].hash) = p->slot[i];
    free(p->slot);
    p->slot = slot;
    p->n_slots = n;
    return TD_OK;
}

int td_prompt_names_get(struct td_prompt_names *p, const char *path, const char *whole, size_t n, size_t body,
                        struct td_conversation_name *out)
{
    struct slot *s;
    uint64_t hash;
    int rc = redact(p, whole, n);

    whole = td_buf_str(&p->redacted); /* as long as what it stands for */
    body = body < p->redacted.len ? body : p->redacted.len;
    n = p->redacted.len;
    if (!rc && p->n * 2 >= p->n_slots)
        rc = grow(p);
    if (rc)
        return rc;
    hash = hash_of(path, whole + body, n - body);
    s = slot_of(p->slot, p->n_slots, hash);
    if (!s->n && p->n >= TD_PROMPT_NAMES_MAX)
        return TD_ELIMIT;
    p->n += !s->n;
    s->hash = hash;
    out->repeat = s->n++;
    snprintf(out->prompt_id, sizeof out->prompt_id, NAME, (unsigned long long)hash);
    return TD_OK;
}

void td_prompt_names_seen(struct td_prompt_names *p, const char *prompt_id)
{
    unsigned long long hash;
    struct slot *s;

    if (sscanf(prompt_id, NAME, &hash) != 1)
        return;
    s = slot_of(p->slot, p->n_slots, hash);
    s->n_seen += s->n > 0;
    p->n_seen += s->n_seen == 1;
    p->most = s->n_seen > p->most ? s->n_seen : p->most;
}

size_t td_prompt_names_count(const struct td_prompt_names *p)
{
    return p->n_seen;
}

int32_t td_prompt_names_most(const struct td_prompt_names *p)
{
    return p->most;
}

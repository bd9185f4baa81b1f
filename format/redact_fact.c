/* redact_fact.c - overwrite what a fact of the manifest must not show.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/redact_fact.h"

#include <string.h>

#include "common/json.h"
#include "format/harmless.h"
#include "format/redact_json.h"
#include "format/redact_stars.h"
#include "format/redact_words.h"
#include "format/secret_names.h"

/* ---- secrets ----------------------------------------------------------------------------------- */

/* A name, and not a sample of /metrics with its labels or a sentence. */
static bool is_secret(const char *name)
{
    return !strpbrk(name, "{}=:\"'") && td_secret_name(name, strlen(name));
}

/* Which members of an object, or items of a list of two, name what stands beside them? */
struct naming { int n, members; bool object; const cJSON *last; };

static bool names_others(const struct naming *in, const cJSON *m)
{
    bool named = m->string && td_is_naming(m->string, strlen(m->string));

    return cJSON_IsString(m) && (named || in->members == 2) && td_names_secret(m->valuestring, strlen(m->valuestring), named);
}

static struct naming find_naming(const cJSON *v)
{
    struct naming in = {0, cJSON_GetArraySize(v), cJSON_IsObject(v), NULL};
    const cJSON *m;

    if (!in.object && in.members != 2)
        return in;
    cJSON_ArrayForEach(m, v)
        if (names_others(&in, m)) {
            in.n++;
            in.last = m;
        }
    return in;
}

/* {"name": "HF_TOKEN", "value": "x"}, {"k": "api_key", "v": "x"}, ["api_key", "x"] */
static bool is_named(const struct naming *in, const cJSON *m)
{
    if (!in->n || (in->n == 1 && in->last == m))
        return false;
    return in->members == 2 || !td_is_naming(m->string, strlen(m->string));
}

/* "API_KEY=x y", a word of a command. Returns where its value begins; 0: it has no secret's name. */
static size_t assigned(const char *s)
{
    size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

    return s[n] == '=' && td_secret_name(s, n) ? n + 1 : 0;
}

/* item : of a list */
static void hide_string(const struct td_redact_values *values, bool secret, bool item, enum td_expect *expect, char *s)
{
    size_t n = strlen(s), from = secret || !item ? 0 : assigned(s);

    if (secret || from)
        td_redact_stars(s + from, n - from);
    td_redact_values_apply(values, s, n, true);
    td_redact_command_word(expect, s, n);
}

/* secret : all of it; expect : what the words before it in an array ask for */
static void hide_secrets(const struct td_redact_values *values, cJSON *v, bool secret, bool item, enum td_expect *expect)
{
    struct naming naming = find_naming(v);
    enum td_expect words = TD_EXPECT_NOTHING, none;
    cJSON *m;

    if (cJSON_IsString(v))
        hide_string(values, secret, item, expect, v->valuestring);
    else if (cJSON_IsNumber(v) && secret)
        cJSON_SetNumberValue(v, 0);
    cJSON_ArrayForEach(m, v) {
        bool own = (m->string && is_secret(m->string)) || is_named(&naming, m);

        if (m->string && !(m->type & cJSON_StringIsConst)) {
            none = TD_EXPECT_NOTHING;
            hide_string(values, false, false, &none, m->string);
        }
        none = TD_EXPECT_NOTHING;
        hide_secrets(values, m, secret || own, !m->string, m->string ? &none : &words);
    }
}

/* ---- without text ------------------------------------------------------------------------------ */

/* Keep what is listed of JSON that a server wrote. */
static cJSON *keep_harmless(cJSON *fact)
{
    struct td_redact_rules rules = {.no_text = true};
    struct td_buf b = TD_BUF_INIT(TD_JSON_MAX_BYTES);
    struct td_jw w;
    cJSON *out = NULL;

    td_jw_init(&w, &b, false);
    td_jw_value(&w, NULL, fact);
    if (!b.failed && td_redact_json(&rules, NULL, b.data, b.len) >= 0)
        out = td_json_parse(b.data, b.len, NULL);
    td_buf_release(&b);
    cJSON_Delete(fact);
    return out ? out : cJSON_CreateNull();
}

static void hide_sentence(cJSON *v)
{
    cJSON *m;

    if (cJSON_IsString(v))
        td_harmless_sentence(v->valuestring, strlen(v->valuestring));
    cJSON_ArrayForEach(m, v)
        hide_sentence(m);
}

/* The reasons that a server gave; others are ours. */
static void hide_refusals(cJSON *extras)
{
    cJSON *m;

    cJSON_ArrayForEach(m, extras)
        if (!strcmp(td_json_get_str(m, "got", ""), "refused"))
            hide_sentence(cJSON_GetObjectItemCaseSensitive(m, "why"));
}

static void hide_unless_id(cJSON *v)
{
    if (cJSON_IsString(v) && !td_harmless_string(TD_HARMLESS_ID, v->valuestring, strlen(v->valuestring)))
        td_redact_stars(v->valuestring, strlen(v->valuestring));
}

/* name{label="value",...}: overwrite labels that are not listed, with their values. */
static void hide_labels(char *s)
{
    char *p = strchr(s, '{'), *end;

    while (p && *p && *p != '}') {
        size_t name = strcspn(++p, "=}");
        bool listed = td_harmless_metric_label(p, name);

        if (p[name] != '=' || p[name + 1] != '"') {
            td_redact_stars(p, strlen(p));
            return;
        }
        for (end = p + name + 2; *end && *end != '"'; end++)
            if (*end == '\\' && end[1])
                end++;
        if (!listed) {
            td_redact_stars(p, name);
            td_redact_stars(p + name + 2, (size_t)(end - p) - name - 2);
        }
        p = *end ? end + 1 : end;
    }
}

static void hide_metric_labels(cJSON *v)
{
    cJSON *m;

    cJSON_ArrayForEach(m, v) {
        if (m->string && !(m->type & cJSON_StringIsConst))
            hide_labels(m->string);
        hide_metric_labels(m);
    }
}

static cJSON *without_text(const char *section, const char *key, cJSON *fact)
{
    static const struct { const char *section, *key; } SENTENCES[] = {
        {"server", "note"}, {"replay", "failure"}};
    bool server = !strcmp(section, "server");
    size_t i;

    if (server && !strcmp(key, "info"))
        return keep_harmless(fact);
    if (server && !strcmp(key, "extras"))
        hide_refusals(fact);
    if (server && (!strcmp(key, "version") || !strcmp(key, "fingerprint")))
        hide_unless_id(fact);
    if (!strcmp(section, "metrics"))
        hide_metric_labels(fact);
    for (i = 0; i < sizeof SENTENCES / sizeof *SENTENCES; i++)
        if (!strcmp(section, SENTENCES[i].section) && !strcmp(key, SENTENCES[i].key))
            hide_sentence(fact);
    return fact;
}

cJSON *td_redact_fact(const struct td_redact_values *values, bool no_text, const char *section, const char *key, cJSON *fact)
{
    enum td_expect expect = TD_EXPECT_NOTHING;

    hide_secrets(values, fact, is_secret(key), false, &expect);
    return no_text ? without_text(section, key, fact) : fact;
}

/* policy_explain.c - each threshold of a policy in words: value, meaning, source.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/policy_explain.h"

#include <stddef.h>

static const struct threshold {
    const char *section, *key; size_t at; double preset; const char *meaning, *source;
} THRESHOLDS[] = {
#define THRESHOLD(section, key, field, preset, min, max, meaning, source)                          \
    {#section, #key, offsetof(struct td_policy, field), preset, meaning, source},
#define FLAG(section, key, field, meaning, source)
#include "differ/policy.def"
#undef FLAG
#undef THRESHOLD
};

static void add_words(struct td_buf *out, const char *meaning, const char *source)
{
    td_buf_addf(out, "    %s\n    source: %s\n", meaning, source);
}

static void add_flag(struct td_buf *out, const char *name, bool on, const char *meaning,
                     const char *source)
{
    td_buf_addf(out, "%s = %s%s\n", name, on ? "true" : "false", on ? "  (default false)" : "");
    add_words(out, meaning, source);
}

static void add_floors(const struct td_policy *p, struct td_buf *out)
{
    int i;

    td_buf_addf(out, "numerics.floors =%s\n", p->n_floors ? "" : " none");
    for (i = 0; i < p->n_floors; i++)
        td_buf_addf(out, "    %s: %.4g\n", p->floors[i].key, p->floors[i].floor);
    add_words(out, "a floor for one kind of op, or for one kind and output type",
              "yours; where a kind has none, the judge proposes 1 for ggml_mul_mat, else 4");
}

void td_policy_explain(const struct td_policy *p, struct td_buf *out)
{
    size_t i;

    td_buf_addf(out, "policy %s\n\n", p->name);
    for (i = 0; i < sizeof THRESHOLDS / sizeof THRESHOLDS[0]; i++) {
        const struct threshold *t = &THRESHOLDS[i];
        double v = *(const double *)((const char *)p + t->at);

        td_buf_addf(out, "%s.%s = %.4g", t->section, t->key, v);
        if (v != t->preset)
            td_buf_addf(out, "  (default %.4g)", t->preset);
        td_buf_addc(out, '\n');
        add_words(out, t->meaning, t->source);
    }
    add_floors(p, out);
#define THRESHOLD(section, key, field, preset, min, max, meaning, source)
#define FLAG(section, key, field, meaning, source)                                                 \
    add_flag(out, #section "." #key, p->field, meaning, source);
#include "differ/policy.def"
#undef FLAG
#undef THRESHOLD
}

/* own_rows.c - read a file of rows of one's own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lines, titles of sections and keys; what a key's value may be own_values.c knows. */
#include "kernels/adapters/own_rows.h"

#include <stdio.h>
#include <string.h>

#include "kernels/adapters/own_values.h"

#define LINE_MAX_BYTES 1024
#define MANY_KEYS 40

struct reader {
    struct td_own_rows *out;
    struct td_own_row *row;           /* of the section at hand; NULL: none has begun */
    char seen[MANY_KEYS][TD_OWN_WORD + 8]; int n_seen; /* keys of that section */
    struct td_own_error *err;
};

/* ---- what a section must have ---------------------------------------------------------------- */

static const struct td_own_param *param_of(const struct td_own_row *row, const char *name)
{
    int i;

    for (i = 0; i < row->n_params; i++)
        if (!strcmp(row->param[i].name, name))
            return &row->param[i];
    return NULL;
}

/* A parameter that the row names: pointers have 8 bytes, sizes 4 or 8. */
static bool check_param(const struct td_own_row *row, int i, struct td_own_error *err)
{
    static const char *const sizes[] = {"m", "n", "k", "lda", "ldc", "group_size"};
    const struct td_own_param *p = &row->param[i];
    size_t j;

    if (!strcmp(p->name, "-"))
        return true;
    if (param_of(row, p->name) != p)
        return td_own_fail(err, "params: %s is there twice", p->name);
    for (j = 0; j < sizeof sizes / sizeof *sizes; j++)
        if (!strcmp(p->name, sizes[j]))
            return p->bytes == 4 || p->bytes == 8 || td_own_fail(err, "params: %s has 4 or 8 bytes", p->name);
    if (strcmp(p->name, "c") && td_own_kind_role(row->kind, p->name) < 0)
        return td_own_fail(err, "params: %s is no role of %s, and none of c, m, n, k, lda, ldc, group_size", p->name,
                           row->kind->name);
    return p->bytes == 8 || td_own_fail(err, "params: %s is a pointer, of 8 bytes", p->name);
}

static bool check_kernel(const struct td_own_row *row, struct td_own_error *err)
{
    static const char *const always[] = {"c", "m", "n", "k"};
    int i;

    if (row->kind->eight_bits || row->kind->routed)
        return td_own_fail(err, "a kernel cannot be of kind %s, only an operator", row->kind->name);
    if (!row->n_params)
        return td_own_fail(err, "the section has no params");
    if (!row->type)
        return td_own_fail(err, "the section has no type: of A and C, F16 or BF16");
    for (i = 0; i < row->n_params; i++)
        if (!check_param(row, i, err))
            return false;
    for (i = 0; i < row->kind->n_needed + 4; i++) {
        const char *name = i < 4 ? always[i] : row->kind->roles[i - 4];

        if (!param_of(row, name))
            return td_own_fail(err, "params: %s is missing", name);
    }
    if (row->bits.arg[0] || row->group_size.arg[0])
        return td_own_fail(err, "bits and group_size of a kernel are numbers; one among its parameters stands in "
                                "params, as group_size:4");
    return true;
}

int td_own_row_arguments(const struct td_own_row *row, const char *name[TD_OWN_ARGUMENTS])
{
    int n = 0, i;

    for (i = 0; i < TD_OWN_ROLES; i++)
        name[n++] = row->arg[i];
    for (i = 0; i < row->n_fixed; i++)
        name[n++] = row->fixed[i].arg;
    name[n++] = row->out;
    name[n++] = row->bits.arg;
    name[n++] = row->group_size.arg;
    name[n++] = row->top_k.arg;
    name[n++] = row->block_size.arg;
    name[n++] = row->mul_topk_weights.arg;
    return n;
}

/* No argument has two meanings. */
static bool check_arguments(const struct td_own_row *row, struct td_own_error *err)
{
    const char *name[TD_OWN_ARGUMENTS];
    const int n = td_own_row_arguments(row, name);
    int i, j;

    for (i = 0; i < n; i++)
        for (j = 0; j < i && name[i][0]; j++)
            if (!strcmp(name[i], name[j]))
                return td_own_fail(err, "the argument %s has two meanings in this section", name[i]);
    return true;
}

/* What a routed kind must say of its rows. */
static bool check_routing(const struct td_own_row *row, struct td_own_error *err)
{
    if (!row->top_k.given || !row->block_size.given)
        return td_own_fail(err, "the section has no %s", row->top_k.given ? "block_size" : "top_k");
    if (row->mul_topk_weights.given && !row->arg[td_own_kind_role(row->kind, "topk_weights")][0])
        return td_own_fail(err, "the section has mul_topk_weights, and no topk_weights");
    return true;
}

static bool check_operator(const struct td_own_row *row, struct td_own_error *err)
{
    int i;

    for (i = 0; i < row->kind->n_needed; i++)
        if (!row->arg[i][0])
            return td_own_fail(err, "the section has no %s", row->kind->roles[i]);
    if (row->kind->eight_bits && !row->out[0] == !row->type)
        return td_own_fail(err, "%s: either out names the argument that C is written to, or type says what is returned, F16 or BF16",
                           row->kind->name);
    return (!row->kind->routed || check_routing(row, err)) && check_arguments(row, err);
}

/* The section ends: is all there? Errors are those of its title's line. */
static bool finish_section(struct reader *r)
{
    struct td_own_row *row = r->row;

    if (!row)
        return true;
    r->err->line = row->line;
    if (!row->kind)
        return td_own_fail(r->err, "the section has no kind");
    if (row->kind->quantised && !row->bits.given)
        return td_own_fail(r->err, "the section has no bits");
    if (!row->zero_offset.given)
        row->zero_offset.value = 1;    /* as GPTQ checkpoints have it */
    return row->is_kernel ? check_kernel(row, r->err) : check_operator(row, r->err);
}

/* ---- titles ---------------------------------------------------------------------------------- */

static bool check_name(const char *name, bool is_kernel, struct td_own_error *err)
{
    const char *colons = strstr(name, "::");

    if (!*name || strpbrk(name, " \t[]\"") || strlen(name) >= TD_OWN_NAME)
        return td_own_fail(err, "a name without blanks, of at most %d bytes, follows \"%s\"", TD_OWN_NAME - 1,
                           is_kernel ? "kernel" : "operator");
    if (!is_kernel && (!colons || colons == name || !colons[2]))
        return td_own_fail(err, "the operator's name has no namespace; \"mine::%.60s\" would have one", name);
    return true;
}

/* "[operator mine::gemm]", without blanks around it. */
static bool read_title(struct reader *r, char *line, int number)
{
    char *end = line + strlen(line) - 1, *name;
    bool is_kernel = !strncmp(line, "[kernel ", 8);
    int i;

    if (*end != ']' || (!is_kernel && strncmp(line, "[operator ", 10)))
        return td_own_fail(r->err, "a section begins with [operator NAMESPACE::NAME] or [kernel NAME]");
    *end = '\0';
    name = line + (is_kernel ? 8 : 10);
    name += strspn(name, " \t");
    while (end > name && strchr(" \t", end[-1]))
        *--end = '\0';
    if (!check_name(name, is_kernel, r->err))
        return false;
    for (i = 0; i < r->out->n; i++)
        if (r->out->row[i].is_kernel == is_kernel && !strcmp(r->out->row[i].name, name))
            return td_own_fail(r->err, "%.60s has a section already, in line %d", name, r->out->row[i].line);
    if (r->out->n == TD_OWN_ROWS)
        return td_own_fail(r->err, "more than %d sections", TD_OWN_ROWS);
    r->row = &r->out->row[r->out->n++];
    *r->row = (struct td_own_row){.line = number, .is_kernel = is_kernel};
    memcpy(r->row->name, name, strlen(name) + 1);
    r->n_seen = 0;
    return true;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static bool read_load(struct reader *r, const char *key, const char *value)
{
    struct td_own_rows *out = r->out;

    if (strcmp(key, "load") && strcmp(key, "import"))
        return td_own_fail(r->err, "\"%.40s\": before the first section only load and import may stand", key);
    if (out->n_loads == TD_OWN_LOADS)
        return td_own_fail(r->err, "more than %d of load and import", TD_OWN_LOADS);
    if (strlen(value) >= TD_OWN_PATH)
        return td_own_fail(r->err, "%s: more than %d bytes", key, TD_OWN_PATH - 1);
    out->load[out->n_loads].is_module = *key == 'i';
    memcpy(out->load[out->n_loads++].name, value, strlen(value) + 1);
    return true;
}

static bool read_kind(struct reader *r, const char *value)
{
    const char *names[8] = {NULL}, *name;
    int i;

    for (i = 0; td_own_kind_at(i); i++)
        names[i] = td_own_kind_at(i)->name;
    if (!td_own_read_word(&name, names, "kind", value, r->err))
        return false;
    for (i = 0; td_own_kind_at(i)->name != name; i++)
        ;
    r->row->kind = td_own_kind_at(i);
    r->row->layout = r->row->kind->layouts[0];
    r->row->rounding = r->row->kind->roundings[0];
    return true;
}

static bool read_fixed(struct reader *r, const char *arg, const char *value)
{
    struct td_own_row *row = r->row;
    struct td_own_fixed *f = &row->fixed[row->n_fixed];

    if (row->n_fixed == TD_OWN_FIXED)
        return td_own_fail(r->err, "more than %d fixed arguments", TD_OWN_FIXED);
    arg += strspn(arg, " \t");
    if (!td_own_read_argument(f->arg, arg, r->err) || !td_own_read_fixed(f, value, r->err))
        return false;
    row->n_fixed++;
    return true;
}

/* Keys that only an operator or only a kernel has. *is_key: it is one. */
static bool read_own_key(struct reader *r, const char *key, const char *value, bool *is_key)
{
    static const char *const types[] = {"F16", "BF16", NULL}, *const yes_or_no[] = {"no", "yes", NULL};
    struct td_own_row *row = r->row;
    const int role = td_own_kind_role(row->kind, key);
    const char *word;

    *is_key = true;
    if (!row->is_kernel && role >= 0)
        return td_own_read_argument(row->arg[role], value, r->err);
    if (!row->is_kernel && !strcmp(key, "out"))
        return td_own_read_argument(row->out, value, r->err);
    if (!row->is_kernel && (!strncmp(key, "fixed ", 6) || !strncmp(key, "fixed\t", 6)))
        return read_fixed(r, key + 6, value);
    if (row->is_kernel && !strcmp(key, "params"))
        return td_own_read_params(row, value, r->err);
    if ((row->is_kernel || row->kind->eight_bits) && !strcmp(key, "type"))
        return td_own_read_word(&row->type, types, key, value, r->err);
    if (row->is_kernel && !strcmp(key, "adds")) {
        row->adds = !strcmp(value, "yes");
        return td_own_read_word(&word, yes_or_no, key, value, r->err);
    }
    *is_key = false;
    return true;
}

static bool fail_key(struct reader *r, const char *key)
{
    char roles[160];

    return td_own_fail(r->err, "\"%.40s\" is no key of %s; there are kind, layout, rounding%s%s%s, %s%s", key,
                       r->row->is_kernel ? "a kernel" : "an operator",
                       r->row->kind->quantised ? ", bits, group_size, zero_offset" : "",
                       r->row->kind->routed ? ", top_k, block_size, mul_topk_weights, round_topk_weights" : "",
                       r->row->kind->eight_bits && !r->row->is_kernel ? ", type" : "",
                       r->row->is_kernel ? "params, type, adds" : "out, fixed NAME, ",
                       r->row->is_kernel ? "" : td_own_list(roles, sizeof roles, r->row->kind->roles));
}

/* The number that a key of a routed kind gives; NULL: it is no such key. */
static struct td_own_number *routing_of(struct td_own_row *row, const char *key, int64_t *least, int64_t *most)
{
    const struct { const char *key; struct td_own_number *number; int64_t least, most; } keys[] = {
        {"top_k", &row->top_k, 1, 1 << 12},
        {"block_size", &row->block_size, 1, 1 << 12},
        {"mul_topk_weights", &row->mul_topk_weights, 0, 1},
        {"round_topk_weights", &row->round_topk_weights, 0, 1}};
    size_t i;

    for (i = 0; i < sizeof keys / sizeof *keys && strcmp(keys[i].key, key); i++)
        ;
    if (!row->kind->routed || i == sizeof keys / sizeof *keys)
        return NULL;
    *least = keys[i].least, *most = keys[i].most;
    return keys[i].number;
}

static bool read_key(struct reader *r, const char *key, const char *value)
{
    struct td_own_row *row = r->row;
    const struct td_own_kind *kind = row->kind;
    struct td_own_number *routing;
    int64_t least, most;
    bool is_key;

    if (!strcmp(key, "kind"))
        return read_kind(r, value);
    if (!kind)
        return td_own_fail(r->err, "kind comes first in a section: it says which keys there are");
    if (!strcmp(key, "layout"))
        return td_own_read_word(&row->layout, kind->layouts, key, value, r->err);
    if (!strcmp(key, "rounding"))
        return td_own_read_word(&row->rounding, kind->roundings, key, value, r->err);
    if (kind->quantised && !strcmp(key, "bits"))
        return td_own_read_number(&row->bits, 1, 8, value, r->err);
    if (kind->quantised && !strcmp(key, "group_size"))
        return td_own_read_number(&row->group_size, -1, 1 << 20, value, r->err);
    if (kind->quantised && !strcmp(key, "zero_offset"))
        return td_own_read_number(&row->zero_offset, 0, 1, value, r->err) &&
               (!row->zero_offset.arg[0] || td_own_fail(r->err, "zero_offset is 0 or 1"));
    routing = routing_of(row, key, &least, &most);
    if (routing)
        return td_own_read_number(routing, least, most, value, r->err) &&
               (routing != &row->round_topk_weights || !routing->arg[0] || td_own_fail(r->err, "round_topk_weights is 0 or 1"));
    return read_own_key(r, key, value, &is_key) && (is_key || fail_key(r, key));
}

static bool is_new_key(struct reader *r, const char *key)
{
    int i;

    for (i = 0; i < r->n_seen; i++)
        if (!strcmp(r->seen[i], key))
            return td_own_fail(r->err, "%s is given twice in this section", key);
    if (strlen(key) >= sizeof r->seen[0] || r->n_seen == MANY_KEYS)
        return td_own_fail(r->err, "the key \"%.40s…\" is too long, or the section has too many", key);
    memcpy(r->seen[r->n_seen++], key, strlen(key) + 1);
    return true;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* End the text where a comment begins: "#" at its start, or behind a blank and outside of "…". */
static void cut_comment(char *line)
{
    bool quoted = false;
    char *at;

    for (at = line; *at; at++) {
        quoted ^= *at == '"';
        if (*at == '#' && !quoted && (at == line || strchr(" \t", at[-1]))) {
            *at = '\0';
            return;
        }
    }
}

static char *trim(char *text)
{
    size_t n;

    text += strspn(text, " \t");
    for (n = strlen(text); n && strchr(" \t", text[n - 1]); n--)
        ;
    text[n] = '\0';
    return text;
}

/* A line with its NUL, without its end. */
static bool read_line(struct reader *r, char *line, int number)
{
    char *text, *equals, *key, *value;

    r->err->line = number;
    cut_comment(line);
    text = trim(line);
    if (!*text)
        return true;
    if (*text == '[')
        return finish_section(r) && (r->err->line = number, read_title(r, text, number));
    equals = strchr(text, '=');
    if (!equals)
        return td_own_fail(r->err, "\"%.60s\" is neither KEY = VALUE nor a [section]", text);
    *equals = '\0';
    key = trim(text);
    value = trim(equals + 1);
    if (!*key || !*value)
        return td_own_fail(r->err, "\"%.40s\" has no %s", *key ? key : value, *key ? "value" : "key");
    return r->row ? is_new_key(r, key) && read_key(r, key, value) : read_load(r, key, value);
}

/* Copy a line. False: it is too long, or no text. */
static bool copy_line(struct reader *r, char *line, const char *from, size_t n, int number)
{
    size_t i;

    r->err->line = number;
    if (n && from[n - 1] == '\r')
        n--;
    if (n >= LINE_MAX_BYTES)
        return td_own_fail(r->err, "a line of more than %d bytes", LINE_MAX_BYTES - 1);
    for (i = 0; i < n; i++)
        if ((unsigned char)from[i] < ' ' && from[i] != '\t')
            return td_own_fail(r->err, "a character that is no text");
    memcpy(line, from, n);
    line[n] = '\0';
    return true;
}

bool td_own_rows_read(const char *text, size_t n, struct td_own_rows *out, struct td_own_error *err)
{
    struct reader r = {.out = out, .err = err};
    const char *at = text, *end = text + n;
    char line[LINE_MAX_BYTES];
    int number;

    out->n = out->n_loads = 0;
    *err = (struct td_own_error){0};
    if (n > TD_OWN_FILE_MAX)
        return td_own_fail(err, "the file is larger than %u bytes", TD_OWN_FILE_MAX);
    for (number = 1; at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));

        stop = stop ? stop : end;
        if (!copy_line(&r, line, at, (size_t)(stop - at), number) || !read_line(&r, line, number))
            return false;
        at = stop + 1;
    }
    if (!finish_section(&r))
        return false;
    err->line = 0;
    return out->n || td_own_fail(err, "the file describes nothing: no [operator …] and no [kernel …]");
}

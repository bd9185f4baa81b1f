/* fault.c - spoil answers as --fault asks.
 * SPDX-License-Identifier: Apache-2.0 */
#include "demo/server/fault.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GARBAGE "{\"id\": nonsense \x01\xFF]]"

static const struct { const char *name; enum td_fault_kind kind; int n; } kinds[] = {
    {"http500", TD_FAULT_HTTP500, 1}, {"garbage", TD_FAULT_GARBAGE, 3}, {"nul-text", TD_FAULT_NUL_TEXT, 0},
    {"cut", TD_FAULT_CUT, 3},         {"die", TD_FAULT_DIE, 3},         {"slow", TD_FAULT_SLOW, -1}};

int td_fault_parse(struct td_fault *f, const char *spec, struct td_error *err)
{
    const char *colon = spec ? strchr(spec, ':') : NULL;
    size_t len = colon ? (size_t)(colon - spec) : spec ? strlen(spec) : 0;
    char *end = NULL;

    *f = (struct td_fault){TD_FAULT_NONE, 0};
    if (!spec)
        return TD_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i].name) == len && memcmp(kinds[i].name, spec, len) == 0)
            *f = (struct td_fault){kinds[i].kind, kinds[i].n};
    if (f->kind == TD_FAULT_NONE)
        return td_fail(err, TD_EINVAL, "--fault %s: the kinds are http500, garbage, nul-text, cut, die, slow:MS", spec);
    if (colon) {
        long n = strtol(colon + 1, &end, 10);
        if (end == colon + 1 || *end || n < 0 || n > 1000000)
            return td_fail(err, TD_EINVAL, "--fault %s: \"%s\" is not a number from 0 to 1000000", spec, colon + 1);
        f->n = (int)n;
    }
    if (f->n < 0)
        return td_fail(err, TD_EINVAL, "--fault slow needs milliseconds, as in slow:50");
    return TD_OK;
}

bool td_fault_refuses(const struct td_fault *f, uint64_t request)
{
    return f->kind == TD_FAULT_HTTP500 && (f->n == 0 || request % (uint64_t)f->n == 0);
}

int td_fault_pause_ms(const struct td_fault *f)
{
    return f->kind == TD_FAULT_SLOW ? f->n : 0;
}

/* Put NUL and bad bytes at the start of the first string that is called text or content. */
static void spoil_text(struct td_buf *b)
{
    static const char *const keys[] = {"\"text\":\"", "\"content\":\""};
    struct td_buf out;
    const char *at = NULL;

    for (int i = 0; i < 2 && !at; i++) {
        at = b->len ? memmem(b->data, b->len, keys[i], strlen(keys[i])) : NULL;
        at = at ? at + strlen(keys[i]) : NULL;
    }
    if (!at)
        return;
    td_buf_init(&out, b->max + 64);
    td_buf_add(&out, b->data, (size_t)(at - b->data));
    td_buf_adds(&out, "a\\u0000b\xFF\xC3(");
    td_buf_add(&out, at, b->len - (size_t)(at - b->data));
    td_buf_release(b);
    *b = out;
}

bool td_fault_spoil_event(const struct td_fault *f, int event, struct td_buf *b)
{
    if (f->kind == TD_FAULT_NUL_TEXT && event >= f->n)
        spoil_text(b);
    if (event != f->n)
        return false;
    if (f->kind == TD_FAULT_GARBAGE) {
        td_buf_clear(b);
        td_buf_adds(b, "data: " GARBAGE "\n\n");
    }
    if (f->kind == TD_FAULT_DIE)
        _exit(70);
    if (f->kind == TD_FAULT_CUT)
        b->len /= 2;
    return f->kind == TD_FAULT_CUT;
}

bool td_fault_spoil_body(const struct td_fault *f, struct td_buf *b)
{
    if (f->kind == TD_FAULT_NUL_TEXT)
        spoil_text(b);
    if (f->kind == TD_FAULT_GARBAGE) {
        td_buf_clear(b);
        td_buf_adds(b, GARBAGE);
    }
    if (f->kind == TD_FAULT_DIE)
        _exit(70);
    return f->kind == TD_FAULT_CUT;
}

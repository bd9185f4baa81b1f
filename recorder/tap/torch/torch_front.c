/* torch_front.c - the front for operators that a library registers by torch's stable C ABI: they
 * are counted by name, whatever kernel runs inside, and those that torch_rows.c knows recorded.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdio.h>

#include "recorder/tap/core/tap.h"
#include "recorder/tap/torch/torch_call.h"
#include "recorder/tap/torch/torch_library.h"
#include "recorder/tap/torch/torch_own_rows.h"

#define REPORT_NS 1000000000LL        /* counts go over so often */

static int64_t reported_ns;           /* the tap's thread: when counts went over last */

/* ---- the tap's thread ------------------------------------------------------------------------ */

/* Report what was called since the last time. What finds no room goes over the next time. */
static void report(void)
{
    unsigned i, n = tap_torch_operator_count();

    for (i = 0; i < n; i++) {
        struct tap_torch_operator *o = tap_torch_operator_at(i);
        uint64_t calls = atomic_load(&o->calls), bytes = atomic_load(&o->bytes);

        if (calls == o->sent_calls ||
            !tap_send_operator(o->name, o->key, tap_torch_is_in_ops(atomic_load(&o->meaning)),
                               calls - o->sent_calls, bytes - o->sent_bytes))
            continue;
        o->sent_calls = calls;
        o->sent_bytes = bytes;
    }
    reported_ns = tap_now();
}

/* Why an operator of which the user wrote a row is not recorded; NULL: each is. */
static const char *own_unseen(char *text, size_t size)
{
    const struct tap_torch_row *row;
    char why[160];
    int i;

    for (i = 0; tap_torch_was_called() && (row = tap_torch_own_at(i)); i++) {
        const struct tap_torch_operator *o = tap_torch_operator_named(row->name, "CUDA");
        const struct tap_torch_schema *schema = o ? atomic_load(&o->schema) : NULL;

        if (o && atomic_load(&o->meaning))
            continue;
        if (schema)
            tap_torch_own_say_why(row, schema, why, sizeof why);
        else
            snprintf(why, sizeof why, "%s",
                     o ? "its schema is not known"
                       : "no library has registered it for CUDA by torch's stable C ABI");
        snprintf(text, size, "--ops: the row of %s fits nothing here: %s", row->name, why);
        return text;
    }
    return NULL;
}

/* Why operators are not seen, or not all; NULL: they are. */
static const char *unseen(void)
{
    static char text[TAP_TEXT];
    const char *unfit = tap_torch_row_that_does_not_fit(tap_wants_all_kinds());
    unsigned n = tap_torch_operators_left_out();

    if (tap_torch_refused())
        return tap_torch_refused();
    if (own_unseen(text, sizeof text))
        return text;
    if (unfit)
        snprintf(text, sizeof text,
                 "%s has other arguments in this server than the tap knows: its calls are counted, "
                 "and not recorded",
                 unfit);
    else if (n)
        snprintf(text, sizeof text,
                 "%u implementations of torch's operators found no place in the tap's table, and "
                 "are not counted",
                 n);
    return unfit || n ? text : NULL;
}

static const char *start(void)
{
    unsigned i, n = tap_torch_operator_count();

    for (i = 0; i < n; i++) {          /* calls of an earlier arm that did not go over */
        struct tap_torch_operator *o = tap_torch_operator_at(i);

        o->sent_calls = atomic_load(&o->calls);
        o->sent_bytes = atomic_load(&o->bytes);
    }
    reported_ns = tap_now();
    return unseen();
}

static const char *set_rows(const char *text, size_t n)
{
    const char *why = tap_torch_own_set(text, n);

    tap_torch_operators_mean_again();
    return why;
}

static void tick(void)
{
    if (tap_now() - reported_ns > REPORT_NS)
        report();
}

static void stop(int wait_ms)
{
    (void)wait_ms;
    report();
}

/* A library of operators is loaded before a recorder comes, and may not have been called by then. */
static bool describe(char *library, char *build, size_t n)
{
    void *handle;

    library[0] = build[0] = '\0';
    if (!tap_torch_operator_count() && !tap_torch_refused())
        return false;
    handle = tap_real_library(tap_torch_library_function(), library, n);
    if (handle)
        dlclose(handle);
    return true;
}

TAP_FRONT(torch) = {.name = "torch",
                    .set_awake = tap_torch_set_awake,
                    .describe = describe,
                    .set_rows = set_rows,
                    .start = start,
                    .tick = tick,
                    .stop = stop};

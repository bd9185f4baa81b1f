/* torch_operators.c - every operator that a library registered.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A definition and its implementations come in any order, from several libraries and threads: each
 * looks for the other under the lock. Readers take no lock: a place is complete before the count
 * covers it. */
#include "recorder/tap/core/tap_front.h"
#include "recorder/tap/torch/torch_operators.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/tap/torch/torch_own_rows.h"

struct definition {
    char name[TAP_OPERATOR];
    const struct tap_torch_schema *schema; /* NULL: it could not be read */
};

static struct tap_torch_operator operators[TAP_TORCH_OPERATORS];
static _Atomic unsigned n_operators, left_out;
static struct definition definitions[TAP_TORCH_OPERATORS];
static unsigned n_definitions;

/* ---- the lock -------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void watch_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

void tap_torch_lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
}

void tap_torch_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- definitions and implementations --------------------------------------------------------- */

/* "_C::machete_mm"; a name that has a namespace keeps it. False: too long. */
static bool full_name(char *out, size_t size, const char *ns, const char *name)
{
    int n = strstr(name, "::") ? snprintf(out, size, "%s", name)
                               : snprintf(out, size, "%s::%s", ns, name);

    return n > 0 && (size_t)n < size;
}

static const struct definition *find_definition(const char *name)
{
    unsigned i;

    for (i = 0; i < n_definitions; i++)
        if (!strcmp(definitions[i].name, name))
            return &definitions[i];
    return NULL;
}

/* A row of the user's counts, where there is one, else the tap's own. */
static void set_meaning(struct tap_torch_operator *o, const struct tap_torch_schema *schema)
{
    const struct tap_torch_meaning *own = NULL, *m;
    bool named = false;

    if (schema && !strcmp(o->key, "CUDA"))
        own = tap_torch_own_meaning(o->name, schema, &named);
    m = named ? own : o->built_in;
    atomic_store(&o->meaning, m);
    atomic_store(&o->repacks, m && m->row->does == TAP_TORCH_REPACKS);
}

static void set_schema(struct tap_torch_operator *o, const struct tap_torch_schema *schema)
{
    o->built_in = schema && !strcmp(o->key, "CUDA") ? tap_torch_meaning_of(o->name, schema) : NULL;
    atomic_store(&o->schema, schema);
    set_meaning(o, schema);
}

/* Implementations that came before their definition get it now. */
static void give_schema(const struct definition *d)
{
    unsigned i;

    for (i = 0; i < atomic_load(&n_operators); i++)
        if (!strcmp(operators[i].name, d->name))
            set_schema(&operators[i], d->schema);
}

void tap_torch_define(const char *ns, const char *text)
{
    struct tap_torch_schema *schema = malloc(sizeof *schema);
    char name[TAP_OPERATOR];

    if (!schema)
        tap_front_lacks_memory();
    if (!schema || !tap_torch_schema_read(text, schema) ||
        !full_name(name, sizeof name, ns, schema->name)) {
        free(schema);
        return;
    }
    tap_torch_lock();
    if (!find_definition(name) && n_definitions < TAP_TORCH_OPERATORS) {
        struct definition *d = &definitions[n_definitions++];

        memcpy(d->name, name, sizeof d->name);
        d->schema = schema;
        give_schema(d);
        schema = NULL;
    }
    tap_torch_unlock();
    free(schema);
}

int tap_torch_implement(const char *ns, const char *key, const char *name, td_torch_boxed *real)
{
    const struct definition *d;
    struct tap_torch_operator *o;
    int place = -1;

    tap_torch_lock();
    if (atomic_load(&n_operators) < TAP_TORCH_OPERATORS) {
        o = &operators[atomic_load(&n_operators)];
        if (full_name(o->name, sizeof o->name, ns, name)) {
            snprintf(o->key, sizeof o->key, "%s", key);
            o->real = real;
            d = find_definition(o->name);
            set_schema(o, d ? d->schema : NULL);
            place = (int)atomic_fetch_add(&n_operators, 1);
        }
    }
    tap_torch_unlock();
    if (place < 0)
        atomic_fetch_add(&left_out, 1);
    return place;
}

void tap_torch_operators_mean_again(void)
{
    unsigned i;

    tap_torch_lock();
    for (i = 0; i < atomic_load(&n_operators); i++)
        set_meaning(&operators[i], atomic_load(&operators[i].schema));
    tap_torch_unlock();
}

unsigned tap_torch_operator_count(void)
{
    return atomic_load_explicit(&n_operators, memory_order_acquire);
}

struct tap_torch_operator *tap_torch_operator_at(unsigned i)
{
    return &operators[i];
}

struct tap_torch_operator *tap_torch_operator_named(const char *name, const char *key)
{
    unsigned i = tap_torch_operator_count();

    while (i-- > 0)
        if (!strcmp(operators[i].name, name) && !strcmp(operators[i].key, key))
            return &operators[i];
    return NULL;
}

unsigned tap_torch_operators_left_out(void)
{
    return atomic_load(&left_out);
}

/* out_of_memory.c - count the failed allocations of cJSON and td_buf.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/out_of_memory.h"

#include <cjson/cJSON.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_uint failed;

unsigned td_out_of_memory_count(void)
{
    return atomic_load_explicit(&failed, memory_order_relaxed);
}

void td_out_of_memory_note(void)
{
    atomic_fetch_add_explicit(&failed, 1, memory_order_relaxed);
}

int td_out_of_memory_check(const char *what, struct td_error *err)
{
    if (!td_out_of_memory_count())
        return TD_OK;
    return td_fail(err, TD_ENOMEM,
                   "%s: out of memory; end other programs, or use a machine or a container that has more", what);
}

char *td_strdup(const char *s)
{
    char *copy = s ? strdup(s) : NULL;

    if (s && !copy)
        td_out_of_memory_note();
    return copy;
}

/* ---- cJSON ----------------------------------------------------------------------------------- */

static void *counted_malloc(size_t n)
{
    void *p = malloc(n);

    if (!p)
        td_out_of_memory_note();
    return p;
}

/* Before main, so that no program can forget it. */
__attribute__((constructor)) static void count_for_cjson(void)
{
    cJSON_Hooks hooks = {counted_malloc, free};

    cJSON_InitHooks(&hooks);
}

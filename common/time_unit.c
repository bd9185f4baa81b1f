/* time_unit.c - units of time behind a number.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/time_unit.h"

#include <stddef.h>
#include <string.h>

double td_time_unit(const char *name)
{
    static const struct { const char *name; double s; } units[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}, {"min", 60}, {"h", 3600}};
    size_t i;

    for (i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(name, units[i].name))
            return units[i].s;
    return 0;
}

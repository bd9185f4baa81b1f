/* fuzz_exchange.c - fuzz the line of an exchange: what is read in place is what a tree of it says.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "format/exchange_scan.h"
#include "tests/fuzz/fuzz_main.h"

static void check_same(const struct td_exchange *a, const struct td_exchange *b)
{
    struct td_buf ta = TD_BUF_INIT(1 << 26), tb = TD_BUF_INIT(1 << 26);

    if (td_exchange_write(a, &ta) || td_exchange_write(b, &tb) || ta.len != tb.len || memcmp(ta.data, tb.data, ta.len))
        abort();
    td_buf_release(&ta);
    td_buf_release(&tb);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct td_buf rest = TD_BUF_INIT(1 << 26);
    struct td_exchange in_place, by_tree;
    char *text = malloc(n + 1);
    cJSON *tree;

    if (!text)
        abort();
    memcpy(text, data, n);
    text[n] = '\0';
    if (td_exchange_scan(text, n, &rest, &in_place)) {
        tree = td_json_parse(text, n, NULL);
        if (!tree || td_exchange_read(tree, &by_tree, NULL))
            abort();
        check_same(&in_place, &by_tree);
        cJSON_Delete(tree);
        td_exchange_release(&by_tree);
        td_exchange_release(&in_place);
    }
    td_buf_release(&rest);
    free(text);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/exchange", 30000)

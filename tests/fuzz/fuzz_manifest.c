/* fuzz_manifest.c - fuzz the readers of manifests and of the records of exchanges, steps and ops:
 * no crash; a record that is read can be written and read again with the same content.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "format/manifest.h"
#include "format/records.h"
#include "tests/fuzz/fuzz_main.h"

union record { struct td_exchange x; struct td_step s; struct td_op op; };

static int get(int kind, const cJSON *line, union record *r)
{
    return kind == 0 ? td_exchange_read(line, &r->x, NULL) : kind == 1 ? td_step_read(line, &r->s, NULL) : td_op_read(line, &r->op, NULL);
}

static int put(int kind, const union record *r, struct td_buf *b)
{
    return kind == 0 ? td_exchange_write(&r->x, b) : kind == 1 ? td_step_write(&r->s, b) : td_op_write(&r->op, b);
}

static void drop(int kind, union record *r)
{
    if (kind == 0)
        td_exchange_release(&r->x);
    else if (kind == 1)
        td_step_release(&r->s);
    else
        td_op_release(&r->op);
}

static void check_record(int kind, const cJSON *line)
{
    struct td_buf a = TD_BUF_INIT(1 << 26), b = TD_BUF_INIT(1 << 26);
    union record r, again;
    cJSON *tree;

    if (get(kind, line, &r))
        return;
    if (!put(kind, &r, &a)) {
        tree = td_json_parse(a.data, a.len, NULL);
        if (!tree || get(kind, tree, &again) || put(kind, &again, &b) || a.len != b.len || memcmp(a.data, b.data, a.len))
            abort();
        drop(kind, &again);
        cJSON_Delete(tree);
    }
    drop(kind, &r);
    td_buf_release(&a);
    td_buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    cJSON *tree = td_json_parse((const char *)data, n, NULL);
    struct td_file_fact f;
    int i;

    td_manifest_check(tree, NULL);
    for (i = 0; i < TD_FILE_COUNT; i++)
        td_manifest_get_file(tree, td_file_names[i], &f);
    for (i = 0; i < 3; i++)
        check_record(i, tree);
    cJSON_Delete(tree);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/manifest", 20000)

/* fuzz_derive.c - fuzz the deriver of exchanges (wire/derive.c) with any wire log: no crash,
 * nothing lost, and each exchange can be written and read back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Input: records of  direction (1 byte, modulo 3)  stream (1 byte, modulo 4)  length (2 bytes, low
 * first)  bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "tests/fuzz/fuzz_main.h"
#include "wire/collapse.h"
#include "wire/derive.h"

static int on_exchange(void *arg, struct td_exchange *x, struct td_error *err)
{
    struct td_buf line = TD_BUF_INIT((size_t)1 << 28);
    struct td_exchange back;
    struct td_collapse c;
    cJSON *v;

    (void)err;
    ++*(int *)arg;
    if ((x->error == NULL) != (x->error_kind == NULL))
        abort();
    td_collapse_check(x, NULL, &c);
    if (td_exchange_write(x, &line) == TD_OK) {
        v = td_json_parse(td_buf_str(&line), line.len, NULL);
        if (!v || td_exchange_read(v, &back, NULL))
            abort();
        if (back.n_tokens != x->n_tokens || back.text_len != x->text_len)
            abort();
        td_exchange_release(&back);
        cJSON_Delete(v);
    }
    td_buf_release(&line);
    return TD_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    int emitted = 0;
    bool seen[4] = {false};
    struct td_deriver *d = td_deriver_new(on_exchange, &emitted);
    size_t at = 0, i;
    int64_t t = 1;

    while (at + 4 <= n) {
        size_t len = data[at + 2] | (size_t)data[at + 3] << 8;
        struct td_wire rec = {.t_ns = t++, .dir = (enum td_wire_dir)(data[at] % 3), .stream = data[at + 1] % 4,
                              .data = data + at + 4};

        at += 4;
        rec.len = len < n - at ? len : n - at;
        at += rec.len;
        seen[rec.stream] = true;
        td_deriver_feed(d, &rec, NULL);
    }
    td_deriver_end(d, NULL);
    td_deriver_free(d);
    for (i = 0; i < 4; i++)
        emitted -= seen[i];
    if (emitted)
        abort(); /* one exchange a stream, no more and no less */
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/derive", 20000)

/* make_long_ops.c - write a fixture for tests of limits: names that differ only in their last byte,
 * or an op with too many attributes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * make_long_ops DIR PART [ATTRS]
 *   PART    1 .. 9: the number of this fixture among the parts of one replay. Each part has two ops
 *           of one kind and the answer to one prompt. The ops' symbols have 2000 bytes, the name of
 *           their origin 120 and the prompt's name 400; only the last byte differs, in the latter
 *           two by PART.
 *   ATTRS   number of attributes of the first op (default 1) */
#include "tests/helpers/op_writer.h"

int main(int argc, char **argv)
{
    struct td_writer_options opt = {.tool = "replay"};
    struct td_tensor_rec in[1] = {{.role = "a", .dtype = "F16", .ndim = 1, .shape = {4}, .strides = {1}}};
    char symbol[2001], origin[121], prompt[401], name[TD_OP_MAX_ATTR_NAME];
    int part = argc > 2 ? atoi(argv[2]) : 0, attrs = argc > 3 ? atoi(argv[3]) : 1, i, a;
    struct td_exchange x = {.stream = 1, .prompt_id = prompt, .phase = TD_PHASE_TIMED, .concurrency = 1};
    struct td_error err = {0};
    struct td_writer *w = NULL;

    op_writer_check(part ? td_writer_create(argv[1], &opt, &w, &err) : TD_EINVAL, "make_long_ops DIR PART [ATTRS]");
    td_writer_fact_str(w, "replay", "of", "a recording");
    memset(symbol, 's', sizeof symbol - 1), memset(origin, 'o', sizeof origin - 1), memset(prompt, 'p', sizeof prompt - 1);
    symbol[2000] = origin[120] = prompt[400] = '\0';
    origin[119] = prompt[399] = (char)('0' + part);
    for (i = 0; i < 2; i++) {
        struct td_op op = {.op = i, .step = -1, .pid = 1, .kind = (char[]){"ggml_rope"}, .attrs = cJSON_CreateObject(), .in = in, .n_in = 1, .out = in[0],
                           .has_out = true, .origin = cJSON_CreateObject(), .judge = cJSON_CreateObject(),
                           .impl = {.symbol = attrs > 1 ? NULL : symbol, .duration_ns = -1}};

        snprintf(op.out.role, sizeof op.out.role, "c");
        symbol[1999] = (char)('0' + i);
        cJSON_AddStringToObject(op.origin, "fixture", origin);
        cJSON_AddNumberToObject(op.origin, "op", i);
        cJSON_AddStringToObject(op.judge, "status", "unsupported"); /* each replayed op has a judgement */
        for (a = 0; a < (i ? 1 : attrs); a++) {
            snprintf(name, sizeof name, "p%d", a);
            cJSON_AddNumberToObject(op.attrs, name, a);
        }
        op_writer_check(td_writer_op(w, &op), "op");
        cJSON_Delete(op.attrs);
        cJSON_Delete(op.origin);
        cJSON_Delete(op.judge);
    }
    op_writer_check(td_writer_exchange(w, &x), "exchange");
    op_writer_check(td_writer_close(w, "complete", &err), "close");
    return 0;
}

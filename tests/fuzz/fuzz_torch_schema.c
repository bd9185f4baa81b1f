/* fuzz_torch_schema.c - fuzz the reader of operators' schemas, which runs inside the server: no read
 * past the text, names that end, counts within their bounds.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "recorder/tap/torch/torch_schema.h"
#include "tests/fuzz/fuzz_main.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct tap_torch_schema s;
    char *text = malloc(n + 1); /* exactly: a sanitizer sees a read past the NUL */
    int i;

    if (n)
        memcpy(text, data, n);
    text[n] = '\0';
    if (tap_torch_schema_read(text, &s)) {
        if (!s.name[0] || !memchr(s.name, '\0', sizeof s.name) || s.n_args < 0 ||
            s.n_args > TAP_TORCH_ARGS || s.n_results < 0 || (s.returns_tensor && s.n_results != 1))
            abort();
        for (i = 0; i < s.n_args; i++)
            if (!s.arg[i].name[0] || !memchr(s.arg[i].name, '\0', sizeof s.arg[i].name) ||
                s.arg[i].type > TAP_TORCH_OTHER || tap_torch_schema_arg(&s, s.arg[i].name) < 0)
                abort();
    }
    free(text);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/torch_schema", 100000)

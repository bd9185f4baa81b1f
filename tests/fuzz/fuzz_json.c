/* fuzz_json.c - fuzz JSON and redaction: no crash; a parsed tree prints to text that parses to the
 * same tree; redaction keeps the length and the validity.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "format/harmless.h"
#include "format/redact_fact.h"
#include "format/redact_json.h"
#include "format/redact_words.h"
#include "tests/fuzz/fuzz_main.h"

static void print_json(const cJSON *v, struct td_buf *b)
{
    struct td_jw w;

    td_jw_init(&w, b, false);
    td_jw_value(&w, NULL, v);
}

/* Print, parse, print: equal. */
static void check_roundtrip(const cJSON *tree)
{
    struct td_buf a = TD_BUF_INIT(1 << 26), b = TD_BUF_INIT(1 << 26);
    cJSON *again;

    print_json(tree, &a);
    if (!a.failed) { /* deeper than the writer goes */
        again = td_json_parse(td_buf_str(&a), a.len, NULL);
        if (!again)
            abort();
        print_json(again, &b);
        if (a.len != b.len || memcmp(a.data, b.data, a.len))
            abort();
        cJSON_Delete(again);
    }
    td_buf_release(&a);
    td_buf_release(&b);
}

static void check_redaction(const uint8_t *data, size_t n, bool parsed)
{
    struct td_redact_rules rules = {.no_text = n & 1};
    char *text = malloc(n + 1);
    cJSON *tree;

    if (!text || td_redact_path_parse(&rules.path[0], "**.logprob", NULL) || td_redact_path_parse(&rules.path[1], "a[*].b", NULL))
        abort();
    rules.n_paths = 2;
    memcpy(text, data, n);
    text[n] = '\0';
    if (td_redact_json(&rules, NULL, text, n) < 0 && memcmp(text, data, n))
        abort(); /* what is no JSON stays as it is */
    tree = td_json_parse(text, n, NULL);
    if (parsed && !tree)
        abort(); /* and JSON stays JSON */
    cJSON_Delete(tree);
    free(text);
    td_redact_path_release(&rules.path[0]);
    td_redact_path_release(&rules.path[1]);
}

/* Bytes in a piece of memory of just their size, for a sanitizer. */
static void check_texts(const uint8_t *data, size_t n)
{
    enum td_expect expect = n ? (enum td_expect)(data[0] % 6) : TD_EXPECT_NOTHING;
    char *text = malloc(n ? n : 1);

    if (!text)
        abort();
    memcpy(text, data, n);
    td_redact_query(text, n);
    td_redact_text(text, n);
    memcpy(text, data, n);
    td_redact_command_word(&expect, text, n);
    memcpy(text, data, n);
    td_harmless_sentence(text, n);
    free(text);
}

static void check_fact(cJSON *tree)
{
    static const char *const sent[] = {"X-Key: abcdefgh", NULL};
    struct td_redact_values values;
    cJSON *copy = cJSON_Duplicate(tree, true);

    if (td_redact_values_init(&values, sent, NULL))
        abort();
    copy = td_redact_fact(&values, true, "server", "info", copy);
    if (!copy)
        abort();
    copy = td_redact_fact(&values, true, "metrics", "timed", copy);
    cJSON_Delete(copy);
    td_redact_values_release(&values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    cJSON *tree = td_json_parse((const char *)data, n, NULL);

    if (tree) {
        check_roundtrip(tree);
        check_fact(tree);
    }
    check_texts(data, n);
    check_redaction(data, n, tree != NULL);
    cJSON_Delete(tree);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/json", 30000)

/* test_format_redact_fact.c - secrets in the facts of the manifest, and facts without text.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/json.h"
#include "format/redact_fact.h"

static void check(bool no_text, const char *section, const char *key, const char *in, const char *want)
{
    static const char *const sent[] = {"X-Api-Key: sesame-sesame", NULL};
    struct td_redact_values values;
    cJSON *fact = td_json_parse(in, strlen(in), NULL);
    char *out;

    assert_non_null(fact);
    assert_int_equal(td_redact_values_init(&values, sent, NULL), TD_OK);
    fact = td_redact_fact(&values, no_text, section, key, fact);
    assert_non_null(fact);
    out = cJSON_PrintUnformatted(fact);
    assert_string_equal(out, want);
    cJSON_free(out);
    cJSON_Delete(fact);
    td_redact_values_release(&values);
}

static void test_secrets(void **state)
{
    (void)state;
    check(false, "server", "info", "{\"api_key\":\"a\",\"keys\":{\"api_key\":[\"b\",{\"c\":\"d\"}]},\"pin_secret\":5,\"tls\":true}",
          "{\"api_key\":\"*\",\"keys\":{\"api_key\":[\"*\",{\"c\":\"*\"}]},\"pin_secret\":0,\"tls\":true}");
    check(false, "server", "info", "{\"authorization\":{\"x\":[{\"y\":\"a\"}]},\"env\":[\"HF_TOKEN=b\",\"PORT=1\"],\"cmd\":[\"--pat\",\"c\",\"--n\",\"1\"]}",
          "{\"authorization\":{\"x\":[{\"y\":\"*\"}]},\"env\":[\"HF_TOKEN=*\",\"PORT=1\"],\"cmd\":[\"--pat\",\"*\",\"--n\",\"1\"]}");
    check(false, "server", "info", "{\"env\":[{\"name\":\"HF_TOKEN\",\"value\":\"a\"},{\"name\":\"PORT\",\"value\":\"1\"}],\"c\":\"C(hf_token='b', n=1)\"}",
          "{\"env\":[{\"name\":\"HF_TOKEN\",\"value\":\"*\"},{\"name\":\"PORT\",\"value\":\"1\"}],\"c\":\"C(hf_token='*', n=1)\"}");
    check(false, "metrics", "timed", "{\"changed\":{\"vllm:n{api_key=\\\"a\\\",user=\\\"b\\\"}\":[1,2]}}",
          "{\"changed\":{\"vllm:n{api_key=\\\"*\\\",user=\\\"b\\\"}\":[1,2]}}");
    check(false, "tap", "processes", "[{\"pid\":1,\"title\":\"serve --api-key a --port 1\"}]", "[{\"pid\":1,\"title\":\"serve --api-key * --port 1\"}]");
    check(false, "server", "note", "\"it answered: no sesame-sesame, sesame-s\"", "\"it answered: no *************, ********\"");
    check(false, "server", "api_key", "[\"a\"]", "[\"*\"]");
    check(false, "tap", "library", "\"/opt/key/lib.so\"", "\"/opt/key/lib.so\"");
}

/* What stands beside a secret's name is one. */
static void test_pairs(void **state)
{
    (void)state;
    check(false, "server", "info", "{\"a\":{\"key\":\"api_key\",\"value\":\"x\"},\"b\":{\"name\":\"Authorization\",\"val\":\"y z\"}}",
          "{\"a\":{\"key\":\"*******\",\"value\":\"*\"},\"b\":{\"name\":\"Authorization\",\"val\":\"***\"}}");
    check(false, "server", "info", "[{\"k\":\"HF_TOKEN2\",\"v\":[\"x\",{\"y\":3}]},{\"v\":\"x\",\"k\":\"jwt1\"},{\"any\":\"api_key\",\"thing\":\"x\"}]",
          "[{\"k\":\"HF_TOKEN2\",\"v\":[\"*\",{\"y\":0}]},{\"v\":\"*\",\"k\":\"jwt1\"},{\"any\":\"api_key\",\"thing\":\"*\"}]");
    check(false, "server", "info", "{\"name\":\"HF_TOKEN\",\"value\":\"x\",\"source\":\"y\",\"id\":\"z\"}",
          "{\"name\":\"HF_TOKEN\",\"value\":\"*\",\"source\":\"*\",\"id\":\"z\"}");
    check(false, "server", "info", "[[\"api_key\",\"x\"],[\"Authorization:\",\"x\"],[\"x\",\"hf_token\"],[\"api_key\",{\"a\":[\"x\",1]}]]",
          "[[\"api_key\",\"*\"],[\"Authorization:\",\"*\"],[\"*\",\"hf_token\"],[\"api_key\",{\"a\":[\"*\",0]}]]");
    /* in texts: JSON in a string, Python's words, in one another */
    check(false, "server", "info", "[\"{\\\"key\\\":\\\"api_key\\\",\\\"value\\\":\\\"x\\\"}\"]",
          "[\"{\\\"key\\\":\\\"*******\\\",\\\"value\\\":\\\"*\\\"}\"]");
    check(false, "server", "info", "\"[('a', 'b'), ('authorization', 'Bearer x'), (b'x-api-key2', b'y')]\"",
          "\"[('a', 'b'), ('authorization', '********'), (b'x-api-key2', b'*')]\"");
    check(false, "server", "info", "\"E(env=[Env(name='HF_TOKEN', value='x', n=1), Env(name='PORT', value='1')])\"",
          "\"E(env=[Env(name='HF_TOKEN', value='*', n=1), Env(name='PORT', value='1')])\"");
    /* a word of a command line has a value with blanks */
    check(false, "server", "command", "[\"env\",\"API_KEY2=x y\",\"PORT=1 2\",\"--token1=x y\",\"--api-key2\",\"x\",\"--port\",\"1\"]",
          "[\"env\",\"API_KEY2=***\",\"PORT=1 2\",\"--token1=***\",\"--api-key2\",\"*\",\"--port\",\"1\"]");
    /* no secret's name, or no pair */
    check(false, "server", "info", "{\"name\":\"max_tokens\",\"value\":5,\"a\":[\"bos_token\",\"<s>\"],\"b\":[\"key\",\"value\"],\"c\":[\"q\",\"api_key\",\"v\"]}",
          "{\"name\":\"max_tokens\",\"value\":5,\"a\":[\"bos_token\",\"<s>\"],\"b\":[\"key\",\"value\"],\"c\":[\"q\",\"api_key\",\"v\"]}");
    check(false, "server", "info", "{\"role\":\"user\",\"content\":\"give me the token\"}", "{\"role\":\"user\",\"content\":\"give me the token\"}");
}

static void test_without_text(void **state)
{
    (void)state;
    check(true, "server", "info", "{\"seed\":7,\"model\":\"m\",\"note\":\"a\"}", "{\"seed\":7,\"model\":\"m\",\"****\":\"*\"}");
    check(true, "server", "extras", "[{\"name\":\"/x\",\"got\":\"refused\",\"why\":\"HTTP 500: Alice\"},{\"name\":\"y\",\"got\":\"no\",\"why\":\"not there\"}]",
          "[{\"name\":\"/x\",\"got\":\"refused\",\"why\":\"HTTP 500: *****\"},{\"name\":\"y\",\"got\":\"no\",\"why\":\"not there\"}]");
    check(true, "metrics", "timed", "{\"changed\":{\"vllm:n{le=\\\"1\\\",user=\\\"b\\\"}\":[1,2],\"vllm:m{x\":[1,2],\"vllm:o\":[1,2]}}",
          "{\"changed\":{\"vllm:n{le=\\\"1\\\",****=\\\"*\\\"}\":[1,2],\"vllm:m{*\":[1,2],\"vllm:o\":[1,2]}}");
    check(true, "server", "version", "\"0.9.1+cu\"", "\"0.9.1+cu\"");
    check(true, "server", "version", "\"by Alice\"", "\"********\"");
    check(true, "host", "cpu", "\"by Alice\"", "\"by Alice\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_secrets), cmocka_unit_test(test_pairs), cmocka_unit_test(test_without_text)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

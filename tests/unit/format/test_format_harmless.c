/* test_format_harmless.c - the list of what is kept without text, and sentences about errors.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "format/harmless.h"
#include "format/secret_names.h"

static void test_order(void **state)
{
    (void)state;
    assert_true(td_harmless_sorted()); /* a look-up would miss what stands at the wrong place */
    assert_int_equal(td_harmless_member("model"), TD_HARMLESS_TEXT);
    assert_int_equal(td_harmless_member("seed"), TD_HARMLESS_NUMBER);
    assert_int_equal(td_harmless_member("see"), TD_HARMLESS_NO);
    assert_int_equal(td_harmless_member("seeds"), TD_HARMLESS_NO);
    assert_true(td_harmless_header("content-TYPE", 12));
    assert_false(td_harmless_header("Content-Typ", 11));
    assert_false(td_harmless_header("Content-Types", 13));
    assert_true(td_harmless_event("ping", 4));
    assert_false(td_harmless_event("", 0));
    assert_true(td_harmless_metric_label("le", 2));
    assert_false(td_harmless_reason("OK\0x", 4));
}

static bool keeps_header(const char *name, const char *value, bool sent)
{
    return td_harmless_header_value(name, strlen(name), value, strlen(value), sent);
}

static void test_header_values(void **state)
{
    (void)state;
    assert_true(keeps_header("Content-Type", "text/event-stream; charset=utf-8", false));
    assert_false(keeps_header("Content-Type", "text/plain; boundary=Alice", false));
    assert_true(keeps_header("Date", "Mon, 23 Nov 2026 20:30:00 GMT", false));
    assert_false(keeps_header("Date", "by Alice", false));
    assert_false(keeps_header("Content-Length", "12345678901", false));
    assert_true(keeps_header("Host", "alice:8000", true));
    assert_false(keeps_header("Host", "alice:8000", false));
    assert_true(keeps_header("x-request-id", "td-1f-2", false));
    assert_false(keeps_header("x-request-id", "by Alice", false));
    assert_false(keeps_header("Server", "\xc3\xa9", false));
    assert_true(keeps_header("Server", "", false));
}

static bool keeps(enum td_harmless kind, const char *s)
{
    return td_harmless_string(kind, s, strlen(s));
}

static void test_strings(void **state)
{
    (void)state;
    assert_true(keeps(TD_HARMLESS_LABEL, "assistant"));
    assert_false(keeps(TD_HARMLESS_LABEL, "Alice"));
    assert_true(keeps(TD_HARMLESS_ID, "cmpl-1_a:/b+c@d.e"));
    assert_false(keeps(TD_HARMLESS_ID, "two words"));
    assert_true(keeps(TD_HARMLESS_NUMBER, "NaN"));
    assert_false(keeps(TD_HARMLESS_NUMBER, "1"));
    assert_true(keeps(TD_HARMLESS_TOKEN, "token_id:17"));
    assert_false(keeps(TD_HARMLESS_TOKEN, "token_id:17a"));
    assert_false(keeps(TD_HARMLESS_TOKEN, "token_id:"));
    assert_false(keeps(TD_HARMLESS_NAME, "NaN"));
    assert_false(keeps(TD_HARMLESS_NO, "assistant"));
    assert_false(td_harmless_number(TD_HARMLESS_NAME));
    assert_true(td_harmless_number(TD_HARMLESS_ID));
}

static void check_sentence(const char *in, const char *want)
{
    char s[200];

    strcpy(s, in);
    td_harmless_sentence(s, strlen(s));
    assert_string_equal(s, want);
}

static void test_sentences(void **state)
{
    (void)state;
    check_sentence("HTTP 500: EngineCore met Alice, 12345", "HTTP 500: EngineCore *** *****, *****");
    check_sentence("unknown field max_tokens in Bob's", "unknown field max_tokens in ***'s");
    check_sentence("Out of range float values are not JSON compliant: nan", "Out of range float values are not JSON compliant: nan");
    check_sentence("a\\u0041b\\n\\\"c\xc3\xa9\\", "a\\u002a*\\/\\/***\\");
    check_sentence("", "");
}

static bool secret(const char *name)
{
    return td_secret_name(name, strlen(name));
}

static void test_secret_names(void **state)
{
    static const char *const yes[] = {
        "key", "--api-key", "OPENAI_API_KEY", "apiKey", "hf_token", "aws_access_key_id", "AWSSecretAccessKey", "passphrase",
        "credentials", "Authorization", "sessionCookies", "pat", "x.auth.token", "ssl-keyfile-password", "X-Amz-Credential",
        "api_keys", "jwt", "sig", "proxy_auth",
        /* digits, at the end of a word or for themselves */
        "api_key2", "API_KEY2", "accessToken1", "passphrase2", "jwt1", "signature2", "token1", "--api-key2", "hf_token_2", "token_2_3", "key-1",
        "oauth2token", "2token", "accessToken1Value", "password2", "Set-Cookie2", "cookie2", "token_v2", "key_old", "pwd3", "TOKEN2_NEW",
        /* words in one */
        "sessionid", "apikey", "APIKEY1", "authtoken", "accesstoken", "PGPASSWORD", "openaiapikey", "hftoken", "idtoken", "dbpassword",
        "sshkey", "privatekey", "clientsecret", "userpass", "cookiejar", "kubeconfig", "KUBECONFIG", "netrc",
        /* other names of theirs */
        "creds", "csrf", "xsrf", "private_pem", "pem", "otp", "totp", "pin", "hmac", "sas", "authn", "auth_header", "keys", "psk", "mnemonic",
        "connection_string", "webhook_url", "unlock_code", "recovery_codes", "hmac_sha256_key", "client_secret_b64", "htpasswd", "oauth",
        "passWord", "pass_phrase", "KubeConfig", "netRC", "DPoP", "ssh-key", "headers", "default_headers"},
    /* names of vLLM 0.33's and SGLang 0.5's options, configurations, variables and metrics, and of llama.cpp's server */
                            *const no[] = {
        "", "max_tokens", "tokenizer", "token_ids", "keyboard", "monkey", "path", "cache_salt", "model", "n_keep", "request_id_nonce",
        "authors", "time_to_first_token_seconds", "spatial", "-", "passage",
        "tokens", "num_tokens", "prompt_tokens", "completion_tokens", "max_num_batched_tokens", "--max-num-batched-tokens", "num_scheduled_tokens",
        "max_completion_tokens", "min_tokens", "cached_tokens", "reasoning_tokens", "stop_token_ids", "bad_words_token_ids", "token_id",
        "tokens_per_second", "num_speculative_tokens", "--num-lookahead-slots", "long_prefill_token_threshold", "skip_tokenizer_init",
        "tokenizer_mode", "--tokenizer-revision", "tokenizer_pool_size", "detokenize", "tokens_predicted", "tokens_evaluated", "tokens_cached",
        "key_cache", "key_cache_dtype", "key_value_heads", "num_key_value_heads", "kv_cache_dtype", "--kv-cache-dtype", "kv_transfer_config",
        "kv_role", "kv_port", "k_cache", "v_cache", "cache_type_k", "--cache-type-k", "keys_per_block", "keep_alive", "--keep",
        "pin_memory", "is_pin_memory_available", "VLLM_PIN_MEMORY", "spin", "spinning", "pinned", "pipeline_parallel_size", "--pipeline-parallel-size",
        "pass_config", "passes", "compilation_config", "custom_passes", "bypass", "bos_token", "eos_token", "pad_token", "unk_token", "bos_token_id",
        "add_bos_token", "num_experts_per_token", "bytes_per_token", "per_token", "time_per_output_token", "mean_time_per_output_token",
        "vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_prompt_tokens_bucket", "vllm:time_to_first_token_seconds_sum",
        "vllm:inter_token_latency_seconds", "vllm:kv_cache_usage_perc", "vllm:prefix_cache_hits_total", "llamacpp:prompt_tokens_total",
        "llamacpp:predicted_tokens_seconds", "llamacpp:tokens_predicted_total", "sglang:num_used_tokens", "sglang:token_usage",
        "default_generation_settings", "n_predict", "n_probs", "chat_template", "build_info", "total_slots", "n_ctx", "samplers", "grammar",
        "seed", "temperature", "top_k", "sigma", "signal", "sigmoid", "design", "assign", "author", "VLLM_ATTENTION_BACKEND", "sliding_window",
        "patch", "pattern", "dispatch", "parallel_config", "load_format", "quantization", "served_model_name", "trust_remote_code",
        "response_role", "enable_auto_tool_choice", "tool_call_parser", "uvicorn_log_level", "allowed_origins", "ssl_certfile", "ssl_keyfile",
        "ssl_ca_certs", "root_path", "middleware", "block_size", "gpu_memory_utilization", "swap_space", "enforce_eager", "rope_scaling",
        "cudagraph_mode", "scheduling_policy", "data_parallel_rank", "side", "inside", "residual", "sasquatch", "otpm", "w4a8", "e5m2", "q4_0",
        "cpu_offload_gb", "lora_modules", "tiktoken", "user_id", "client_id", "license", "database_url", "pass_through", "credo",
        "--allowed-headers", "enable_request_id_headers"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!secret(yes[i]))
            fail_msg("%s is a secret's name", yes[i]);
    for (i = 0; i < sizeof no / sizeof *no; i++)
        if (secret(no[i]))
            fail_msg("%s is no secret's name", no[i]);
    assert_true(td_secret_header("X-Auth-User", 11));
    assert_true(td_secret_header("Key-Id", 6));
    assert_false(td_secret_header("X-Request-Id", 12));
}

static void test_secret_headers(void **state)
{
    static const char *const yes[] = {
        "Set-Cookie2", "X-Cookie2", "X-Access-Token1", "X-Apikey1", "X-Passwd2", "X-Credentials2", "X-Goog-Signature1", "X-Sid", "X-Xsrf", "X-CSRF",
        "X-CSRF-Token", "X-Amzn-Oidc-Data", "X-Amzn-Oidc-Accesstoken", "X-Api-Key-2", "X-Session", "Authentication-Info", "X-Forwarded-Client-Cert",
        "X-Jwt-Assertion2", "X-Goog-Iap-Jwt-Assertion", "X-Hub-Signature-256", "X-Vault-Token", "DPoP", "X-Auth2-User", "X-Token1-Value"},
                            *const no[] = {
        "Content-Type", "X-Request-Id", "X-RateLimit-Remaining-Tokens", "X-Ratelimit-Limit-Tokens", "X-Prompt-Tokens", "X-First-Token-Ms",
        "OpenAI-Processing-Ms", "Keep-Alive", "Server", "Date", "Transfer-Encoding", "Process-Time-Ms", "Access-Control-Allow-Origin", "Access-Control-Allow-Headers"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!td_secret_header(yes[i], strlen(yes[i])))
            fail_msg("%s is a secret header", yes[i]);
    for (i = 0; i < sizeof no / sizeof *no; i++)
        if (td_secret_header(no[i], strlen(no[i])))
            fail_msg("%s is no secret header", no[i]);
}

/* Which words of a long name count: the last ones, however they are spelled. */
static void test_long_names(void **state)
{
    char name[400];
    size_t i;

    (void)state;
    for (i = 0; i + 6 < sizeof name; i++)
        name[i] = "aA1b-"[i % 5];
    strcpy(name + 390, "-token");
    assert_true(secret(name));
    assert_false(td_secret_name(name, 390));
    memset(name, '7', sizeof name);
    assert_false(td_secret_name(name, sizeof name));
    memset(name, 'A', sizeof name);
    assert_false(td_secret_name(name, sizeof name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order), cmocka_unit_test(test_header_values), cmocka_unit_test(test_strings), cmocka_unit_test(test_sentences), cmocka_unit_test(test_secret_names),
        cmocka_unit_test(test_secret_headers), cmocka_unit_test(test_long_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_conversation.c - which answer is whose. Captures with losses are in tests/e2e/500 and 502.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "wire/capture/conversation.h"

#define SAY(text) "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" text

static char seen[64][80]; /* of each stream: what was sent, "->", what was received, and how it closed */
static char asked[80];    /* of the last request: its path, and its body */
static int n_asked;

static void take(void *arg, const struct td_wire *rec)
{
    char *s = seen[rec->stream], how[40];
    const size_t n = strlen(s);
    cJSON *note;

    (void)arg;
    assert_true(rec->stream < 64);
    if (rec->dir != TD_WIRE_NOTE) { /* its last byte is all of a body here */
        snprintf(s + n, sizeof *seen - n, rec->dir == TD_WIRE_SENT ? "%.1s" : "->%.1s", (const char *)rec->data + rec->len - 1);
        return;
    }
    note = td_json_parse((const char *)rec->data, rec->len, NULL);
    if (td_json_get(note, "close")) {
        snprintf(how, sizeof how, "%s", td_json_get_str(td_json_get(note, "close"), "kind", "ok"));
        snprintf(s + n, sizeof *seen - n, " %s", how);
    }
    cJSON_Delete(note);
}

static bool want(void *arg, uint64_t connection, const char *method, const char *path, const char *whole, size_t n, size_t body,
                 struct td_conversation_name *name)
{
    (void)arg, (void)name;
    assert_int_equal(connection, 77);
    assert_true(body <= n);
    snprintf(asked, sizeof asked, "%s %.*s", path, (int)(n - body), whole + body);
    n_asked++;
    return strcmp(method, "GET") != 0;
}

static struct td_conversations all;

static struct td_conversation *start(bool midway)
{
    memset(seen, 0, sizeof seen);
    n_asked = 0;
    all = (struct td_conversations){.wants = want, .sink = take, .api = "openai", .max_held_bytes = 1 << 20};
    all.kept = (struct td_kept_sink){.put = take, .held_bytes = &all.held_bytes, .max_held_bytes = 1 << 20};
    return td_conversation_new(&all, 77, midway);
}

static uint32_t at[2]; /* sequence numbers of the server and the client */

static void send_text(struct td_conversation *c, bool from_client, const char *text)
{
    const size_t n = strlen(text);
    const struct td_chunk k = {.t_ns = 1, .data = (const uint8_t *)text, .n = n, .seq = at[from_client], .ack = at[!from_client]};

    at[from_client] += (uint32_t)n;
    td_conversation_bytes(c, from_client, &k);
}

static void ask(struct td_conversation *c, const char *body)
{
    char text[200];

    snprintf(text, sizeof text, "POST /v1/x HTTP/1.1\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
    send_text(c, true, text);
}

static void lose(struct td_conversation *c, bool of_client, uint32_t n)
{
    at[of_client] += n;
    td_conversation_gap(c, of_client, 2, n, TD_GAP_LOST);
}

static void answers_come_in_the_order_of_requests(void **state)
{
    struct td_conversation *c = start(false);

    (void)state;
    ask(c, "1");
    assert_string_equal(asked, "/v1/x 1");
    ask(c, "2");
    send_text(c, true, "GET /health HTTP/1.1\r\n\r\n");
    ask(c, "3");
    send_text(c, false, SAY("a") "HTTP/1.1 200 OK\r\nContent-");
    send_text(c, false, "Length: 1\r\n\r\nb" SAY("x") SAY("c"));
    assert_string_equal(seen[0], "1->\n->a ok");
    assert_non_null(strstr(seen[1], "2->"));
    assert_non_null(strstr(seen[1], "->b ok"));
    assert_string_equal(seen[2], "3->\n->c ok");
    assert_int_equal(n_asked, 4);
    assert_int_equal(all.counts.exchanges, 3);
    assert_int_equal(all.in_flight, 0);
    td_conversation_free(c);
}

static void behind_a_loss_numbers_tell(void **state)
{
    struct td_conversation *c = start(false);

    (void)state;
    ask(c, "1");
    lose(c, false, 60); /* its answer */
    ask(c, "2");
    send_text(c, false, SAY("b"));
    assert_string_equal(seen[0], "1 unseen");
    assert_string_equal(seen[1], "2->\n->b ok");
    td_conversation_free(c);
}

static void behind_a_loss_nothing_tells_of_pipelined_requests(void **state)
{
    struct td_conversation *c = start(false);

    (void)state;
    ask(c, "1");
    ask(c, "2");
    lose(c, false, 60); /* the answer to 1 */
    ask(c, "3");
    send_text(c, false, SAY("b")); /* that to 2; the numbers fit 3 */
    td_conversation_end(c, 3, false, "over");
    assert_string_equal(seen[0], "1 unseen");
    assert_string_equal(seen[1], "2 unseen");
    assert_string_equal(seen[2], "3 unseen");
    td_conversation_free(c);
}

static void a_request_that_may_be_lost_spoils_the_next(void **state)
{
    struct td_conversation *c = start(false);

    (void)state;
    lose(c, true, 60); /* a whole request, maybe */
    ask(c, "2");
    send_text(c, false, SAY("a"));
    ask(c, "3");
    send_text(c, false, SAY("b"));
    assert_non_null(strstr(seen[0], " unseen"));
    assert_string_equal(seen[1], "3->\n->b ok");
    td_conversation_free(c);
}

static void who_leaves_first_owes_the_rest(void **state)
{
    struct td_conversation *c = start(false);

    (void)state;
    ask(c, "1");
    send_text(c, false, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na");
    td_conversation_server_closed(c, 3, false);
    assert_string_equal(seen[0], "1->\n->a cut");
    td_conversation_free(c);
    c = start(false);
    ask(c, "1");
    send_text(c, false, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na");
    td_conversation_server_closed(c, 3, true); /* the client had left */
    assert_string_equal(seen[0], "1->\n->a unseen");
    td_conversation_free(c);
    c = start(false);
    ask(c, "1");
    send_text(c, false, "HTTP/1.1 200 OK\r\n\r\na"); /* its end is that of the connection */
    td_conversation_server_closed(c, 3, false);
    assert_string_equal(seen[0], "1->\n->a ok");
    td_conversation_free(c);
}

static void what_began_before_waits_for_a_request(void **state)
{
    struct td_conversation *c = start(true);

    (void)state;
    send_text(c, true, "the end of a body, or more");
    send_text(c, false, SAY("a"));
    ask(c, "1");
    send_text(c, false, SAY("b"));
    assert_string_equal(seen[0], "1->\n->b ok");
    assert_int_equal(all.counts.bytes_skipped, strlen("the end of a body, or more" SAY("a")));
    td_conversation_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come_in_the_order_of_requests), cmocka_unit_test(behind_a_loss_numbers_tell),
        cmocka_unit_test(behind_a_loss_nothing_tells_of_pipelined_requests), cmocka_unit_test(a_request_that_may_be_lost_spoils_the_next),
        cmocka_unit_test(who_leaves_first_owes_the_rest), cmocka_unit_test(what_began_before_waits_for_a_request)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

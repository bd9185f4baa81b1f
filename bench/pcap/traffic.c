/* traffic.c - write a capture of SSE traffic, and what is in it.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   traffic PCAP TRUTH MEGABYTES STREAMS SEED REORDERED LOST [KEYS]
 *
 * STREAMS clients ask one server, 10.0.0.1:8000, over connections that are kept alive for up to 8 exchanges. Every 20 ms
 * each stream gets an event in the form of vLLM's, in a chunk and a packet of its own, and acknowledges it. The file is
 * pcap with Ethernet and nanoseconds. It is written as it is made; memory does not grow with it. The same arguments give
 * the same bytes.
 *
 *   REORDERED : so many of 1 of the server's packets come behind the next one of their connection; the acknowledgements
 *               are those of a receiver that sees them so
 *   LOST      : so many of 1 of all packets are not in the capture, though both ends had them
 *   KEYS      : any word: each request has a key, of one of 16 clients
 *
 * TRUTH has a line for each exchange, in the order of their ends:
 *   client's address and port, bytes of request, its hash, bytes of answer (as on the wire), its hash, bytes of its body
 *   without chunks, its hash, bytes of its text, its hash, events, 1 when no packet with a byte of it was lost
 * The hash of a request is that of its bytes with the key overwritten by '*', as `record` keeps it. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

enum { FIN = 1, SYN = 2, PUSH = 8, ACK = 16, SEGMENT = 1448, LONGEST = 65536, MOST_STREAMS = 4096, CLIENTS = 16 };
#define STEP_NS 20000000

struct packet { bool from_client; uint8_t flags; uint32_t seq, ack; size_t n; char data[SEGMENT]; };

/* What is told of a message. */
struct sum { int64_t n; struct td_hash_pieces *pieces; };

static struct stream {
    bool open, asked;
    int number, exchanges_left, events_left, events;
    uint32_t address; uint16_t port;
    int64_t created_s;
    uint32_t client_seq, server_seq;   /* of the next byte */
    uint32_t seen_by_client;           /* all before came in order */
    bool has_held; struct packet held; /* comes behind the next one */
    bool damaged;
    char id[40];
    struct sum request, answer, body, text;
} streams[MOST_STREAMS];

static FILE *out, *truth;
static int64_t now_ns = INT64_C(1767225600000000000), written;
static uint64_t seed;
static double reordered, lost;
static bool keys;
static int next_port;
static int64_t n_exchanges, n_packets, n_lost, n_reordered;

static void die(const char *what)
{
    fprintf(stderr, "traffic: %s\n", what);
    exit(1);
}

static uint64_t draw(void) /* splitmix64 */
{
    uint64_t z = seed += 0x9E3779B97F4A7C15u;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static int draw_below(int n)
{
    return (int)(draw() % (uint64_t)n);
}

static bool happens(double share)
{
    return share > 0 && (double)(draw() >> 11) * 0x1p-53 < share;
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void sum_add(struct sum *s, const void *data, size_t n)
{
    s->n += (int64_t)n;
    if (td_hash_pieces_add(&s->pieces, data, n))
        die("out of memory");
}

static void sum_print(struct sum *s)
{
    char hex[TD_HASH_HEX];

    td_hash_hex(td_hash_pieces_end(&s->pieces), hex);
    fprintf(truth, " %lld %s", (long long)s->n, hex);
    s->n = 0;
}

static void tell(struct stream *s)
{
    fprintf(truth, "%d.%d.%d.%d:%d", s->address >> 24, s->address >> 16 & 255, s->address >> 8 & 255, s->address & 255, s->port);
    sum_print(&s->request);
    sum_print(&s->answer);
    sum_print(&s->body);
    sum_print(&s->text);
    fprintf(truth, " %d %d\n", s->events, !s->damaged);
    n_exchanges++;
}

/* ---- packets --------------------------------------------------------------------------------- */

static void be16(uint8_t *p, unsigned v) { p[0] = (uint8_t)(v >> 8), p[1] = (uint8_t)v; }
static void be32(uint8_t *p, uint32_t v) { be16(p, v >> 16), be16(p + 2, v & 0xFFFF); }

static void write_packet(struct stream *s, const struct packet *p)
{
    enum { ETHERNET = 14, IP = 20, TCP = 32 };
    const uint32_t server = 10u << 24 | 1, from = p->from_client ? s->address : server, to = p->from_client ? server : s->address;
    const uint32_t length = ETHERNET + IP + TCP + (uint32_t)p->n;
    uint32_t head[4];
    uint8_t b[ETHERNET + IP + TCP] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45}, *ip = b + ETHERNET, *tcp = ip + IP;

    now_ns += 4000 + draw_below(4000);
    n_packets++;
    if (happens(lost)) {
        n_lost++;
        s->damaged |= p->n > 0;
        return;
    }
    be16(ip + 2, length - ETHERNET);
    be16(ip + 6, 0x4000);
    ip[8] = 64, ip[9] = 6;
    be32(ip + 12, from);
    be32(ip + 16, to);
    be16(tcp, p->from_client ? s->port : 8000);
    be16(tcp + 2, p->from_client ? 8000 : s->port);
    be32(tcp + 4, p->seq);
    be32(tcp + 8, p->ack);
    tcp[12] = TCP / 4 << 4;
    tcp[13] = p->flags;
    be16(tcp + 14, 64240);
    tcp[20] = tcp[21] = 1, tcp[22] = 8, tcp[23] = 10; /* time stamps */
    be32(tcp + 24, (uint32_t)(now_ns / 1000000));
    head[0] = (uint32_t)(now_ns / 1000000000), head[1] = (uint32_t)(now_ns % 1000000000), head[2] = head[3] = length;
    fwrite(head, sizeof head, 1, out);
    fwrite(b, sizeof b, 1, out);
    fwrite(p->data, 1, p->n, out);
    written += (int64_t)(sizeof head + length);
}

static void client_acks(struct stream *s)
{
    write_packet(s, &(struct packet){.from_client = true, .flags = ACK, .seq = s->client_seq, .ack = s->seen_by_client});
}

/* The server's packet is there, and the one that waited for it. */
static void server_packet_comes(struct stream *s, const struct packet *p)
{
    write_packet(s, p);
    if (!s->has_held)
        s->seen_by_client = s->server_seq;
    client_acks(s);
    if (s->has_held) {
        s->has_held = false;
        write_packet(s, &s->held);
        s->seen_by_client = s->server_seq;
        client_acks(s);
    }
}

/* may_wait : another one of this exchange follows */
static void server_sends(struct stream *s, const char *data, size_t n, bool may_wait)
{
    struct packet p = {.flags = ACK | PUSH, .seq = s->server_seq, .ack = s->client_seq, .n = n};

    memcpy(p.data, data, n);
    s->server_seq += (uint32_t)n;
    if (may_wait && !s->has_held && happens(reordered)) {
        n_reordered++;
        s->held = p;
        s->has_held = true;
    } else {
        server_packet_comes(s, &p);
    }
}

static void client_sends(struct stream *s, const char *data, size_t n)
{
    size_t at, part;

    for (at = 0; at < n; at += part) {
        struct packet p = {.from_client = true, .flags = ACK | PUSH, .seq = s->client_seq, .ack = s->server_seq};

        p.n = part = n - at < SEGMENT ? n - at : SEGMENT;
        memcpy(p.data, data + at, part);
        s->client_seq += (uint32_t)part;
        write_packet(s, &p);
    }
    write_packet(s, &(struct packet){.flags = ACK, .seq = s->server_seq, .ack = s->client_seq});
}

/* ---- connections and exchanges --------------------------------------------------------------- */

static void open_connection(struct stream *s)
{
    s->address = 10u << 24 | 1u << 16 | (uint32_t)(s->number % CLIENTS + 1);
    s->port = (uint16_t)(10000 + next_port++ % 50000);
    s->client_seq = (uint32_t)draw();
    s->server_seq = (uint32_t)draw();
    write_packet(s, &(struct packet){.from_client = true, .flags = SYN, .seq = s->client_seq++});
    write_packet(s, &(struct packet){.flags = SYN | ACK, .seq = s->server_seq++, .ack = s->client_seq});
    s->seen_by_client = s->server_seq;
    client_acks(s);
    s->exchanges_left = 1 + draw_below(8);
    s->open = true;
}

static void close_connection(struct stream *s)
{
    write_packet(s, &(struct packet){.from_client = true, .flags = FIN | ACK, .seq = s->client_seq++, .ack = s->server_seq});
    write_packet(s, &(struct packet){.flags = FIN | ACK, .seq = s->server_seq++, .ack = s->client_seq});
    s->seen_by_client = s->server_seq;
    client_acks(s);
    s->open = false;
}

static const char *word(void)
{
    static const char *const WORDS[] = {" the", " of", " and", " a", " kernel", " in", " is", " that", " token", " was", " for", " batch", " on", " are",
                                        " with", " as", " memory", " his", " they", " be", " at", " one", " have", " this", " from", " or", " had", " by",
                                        " stream", " word", ",", " what", " some", " we", " can", " out", " other", " were", " all", " there", " when",
                                        " up", " use", " your", " how", " said", " an", " each", " she", ".", "\\n", " \\\"quoted\\\"", " na\xC3\xAFve"};

    return WORDS[draw_below(sizeof WORDS / sizeof *WORDS)];
}

static void ask(struct stream *s)
{
    static char body[LONGEST], head[1024], secret[40];
    int n = 0, words = 40 + draw_below(160), n_head, length;
    char *key;

    s->events_left = 64 + draw_below(961);
    length = snprintf(body, sizeof body, "{\"model\":\"meta-llama/Llama-3.1-8B-Instruct\",\"prompt\":\"%016llx", (unsigned long long)draw());
    for (; n < words; n++)
        length += snprintf(body + length, sizeof body - (size_t)length, "%s", word());
    length += snprintf(body + length, sizeof body - (size_t)length, "\",\"max_tokens\":%d,\"temperature\":0,\"stream\":true}", s->events_left);
    snprintf(secret, sizeof secret, "sk-%02d%026llx", s->number % CLIENTS, (unsigned long long)(s->number % CLIENTS + 1) * 0x9E3779B97F4A7C15u);
    n_head = snprintf(head, sizeof head, "POST /v1/completions HTTP/1.1\r\nHost: 10.0.0.1:8000\r\n%s%s%sUser-Agent: client/1.0\r\nAccept: */*\r\n"
                      "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n",
                      keys ? "Authorization: Bearer " : "", keys ? secret : "", keys ? "\r\n" : "", length);
    memmove(body + n_head, body, (size_t)length);
    memcpy(body, head, (size_t)n_head);
    s->damaged = false;
    s->events = 0;
    s->created_s = now_ns / 1000000000;
    snprintf(s->id, sizeof s->id, "cmpl-%016llx%016llx", (unsigned long long)draw(), (unsigned long long)draw());
    client_sends(s, body, (size_t)(n_head + length));
    key = keys ? strstr(body, "Bearer ") : NULL;
    for (; key && *key != '\r'; key++)
        *key = '*';
    sum_add(&s->request, body, (size_t)(n_head + length));
    s->asked = true;
}

static void server_sends_chunk(struct stream *s, const char *event, int n, bool last)
{
    char chunk[SEGMENT];
    const int length = snprintf(chunk, sizeof chunk, "%x\r\n%s\r\n%s", n, event, last ? "0\r\n\r\n" : "");

    sum_add(&s->body, event, (size_t)n);
    sum_add(&s->answer, chunk, (size_t)length);
    server_sends(s, chunk, (size_t)length, !last);
}

static void begin_answer(struct stream *s)
{
    static const char HEAD[] = "HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                               "transfer-encoding: chunked\r\n\r\n";

    sum_add(&s->answer, HEAD, sizeof HEAD - 1);
    server_sends(s, HEAD, sizeof HEAD - 1, true);
}

/* The text of a word is what its JSON stands for. */
static void sum_text(struct stream *s, const char *json)
{
    char c;

    for (; *json; json++) {
        c = *json == '\\' && *++json == 'n' ? '\n' : *json;
        sum_add(&s->text, &c, 1);
    }
}

static void send_event(struct stream *s)
{
    const char *text = word();
    char event[SEGMENT];
    int n;

    if (!s->events)
        begin_answer(s);
    s->events++;
    s->events_left--;
    n = snprintf(event, sizeof event, "data: {\"id\":\"%s\",\"object\":\"text_completion\",\"created\":%lld,\"model\":\"meta-llama/Llama-3.1-8B-Instruct\","
                 "\"choices\":[{\"index\":0,\"text\":\"%s\",\"logprobs\":null,\"finish_reason\":%s,\"stop_reason\":null}],\"usage\":null}\n\n",
                 s->id, (long long)s->created_s, text, s->events_left ? "null" : "\"length\"");
    sum_text(s, text);
    server_sends_chunk(s, event, n, false);
}

/* What this stream does in a step. False: nothing, for no exchange begins any more. */
static bool step(struct stream *s, bool ends)
{
    if (s->asked && s->events_left) {
        send_event(s);
    } else if (s->asked) {
        server_sends_chunk(s, "data: [DONE]\n\n", 14, true);
        tell(s);
        s->asked = false;
        s->exchanges_left--;
    } else if (s->open && (ends || !s->exchanges_left)) {
        close_connection(s);
    } else if (ends) {
        return false;
    } else {
        if (!s->open)
            open_connection(s);
        ask(s);
    }
    return true;
}

int main(int argc, char **argv)
{
    static const uint32_t HEAD[] = {0xA1B23C4D, 2 | 4 << 16, 0, 0, 262144, 1};
    int64_t size, step_ns = now_ns;
    int i, n;
    bool some = true;

    if (argc < 8)
        die("usage: traffic PCAP TRUTH MEGABYTES STREAMS SEED REORDERED LOST [KEYS]");
    out = fopen(argv[1], "wb");
    truth = fopen(argv[2], "wb");
    size = (int64_t)(atof(argv[3]) * 1e6), n = atoi(argv[4]), seed = strtoull(argv[5], NULL, 10);
    reordered = atof(argv[6]), lost = atof(argv[7]), keys = argc > 8;
    if (!out || !truth || n < 1 || n > MOST_STREAMS)
        die("cannot write there, or that many streams are not made");
    setvbuf(out, NULL, _IOFBF, 1 << 20);
    fwrite(HEAD, sizeof HEAD, 1, out);
    for (i = 0; i < n; i++)
        streams[i].number = i;
    while (some) {
        for (i = 0, some = false; i < n; i++)
            some |= step(&streams[i], written >= size);
        step_ns += STEP_NS;
        now_ns = now_ns > step_ns ? now_ns : step_ns;
    }
    if (fclose(out) || fclose(truth))
        die("cannot write");
    printf("%.1f MB, %lld packets of which %lld are lost and %lld reordered, %lld exchanges on %d connections\n", (double)written / 1e6, (long long)n_packets,
           (long long)n_lost, (long long)n_reordered, (long long)n_exchanges, next_port);
    return 0;
}

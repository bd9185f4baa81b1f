/* plain_pcap.c - read the records of a usual pcap file, several at a time.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/capture/plain_pcap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The format: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/ */
enum { FILE_HEAD = 24, RECORD_HEAD = 16, ROOM = 512 << 10, MOST = 262144 /* of a packet: as libpcap has it */, MAJOR = 2, MINOR = 4 };
#define MICROSECONDS UINT32_C(0xA1B2C3D4)
#define NANOSECONDS UINT32_C(0xA1B23C4D)

struct td_plain_pcap {
    int fd;
    const char *name;             /* for messages */
    int failed;                   /* errno of a read that failed; 0: none did */
    int ns_per_unit;              /* of a record's fraction of a second */
    uint32_t snap;                /* the most that a packet has; 0: no limit is known */
    int64_t next;                 /* offset in the file of what is read next into the buffer */
    size_t at, n;                 /* bytes [at, n) of the buffer are to be looked at */
    uint8_t room[ROOM];
};

static uint32_t native32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static uint16_t native16(const uint8_t *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

/* Keep what is not looked at, and read more behind it. False: the file ends, or cannot be read. */
static bool fill(struct td_plain_pcap *p)
{
    ssize_t got;

    memmove(p->room, p->room + p->at, p->n - p->at);
    p->n -= p->at;
    p->at = 0;
    do
        got = pread(p->fd, p->room + p->n, ROOM - p->n, p->next);
    while (got < 0 && errno == EINTR);
    p->failed = got < 0 ? errno : 0;
    if (got <= 0)
        return false;
    p->n += (size_t)got;
    p->next += got;
    return true;
}

static bool has(struct td_plain_pcap *p, size_t n)
{
    while (p->n - p->at < n)
        if (!fill(p))
            return false;
    return true;
}

static bool read_file_head(struct td_plain_pcap *p)
{
    uint32_t magic;

    if (!has(p, FILE_HEAD))
        return false;
    magic = native32(p->room);
    p->ns_per_unit = magic == NANOSECONDS ? 1 : 1000;
    p->snap = native32(p->room + 16);
    p->at = FILE_HEAD;
    return (magic == NANOSECONDS || magic == MICROSECONDS) && native16(p->room + 4) == MAJOR && native16(p->room + 6) == MINOR;
}

struct td_plain_pcap *td_plain_pcap_open(int fd, const char *name)
{
    struct td_plain_pcap *p;
    struct stat st;

    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        return NULL;
    p = malloc(sizeof *p);
    if (!p)
        return NULL;
    p->fd = fd;
    p->name = name;
    p->failed = 0;
    p->next = 0;
    p->at = p->n = 0;
    if (read_file_head(p))
        return p;
    free(p);
    return NULL;
}

void td_plain_pcap_close(struct td_plain_pcap *p)
{
    free(p);
}

/* The next record is as usual, and in the buffer. */
static bool has_record(struct td_plain_pcap *p)
{
    const uint8_t *head;
    uint32_t captured;

    if (!has(p, RECORD_HEAD))
        return false;
    head = p->room + p->at;
    captured = native32(head + 8);
    return native32(head) <= INT32_MAX && native32(head + 4) <= INT32_MAX && captured <= MOST && (!p->snap || captured <= p->snap) &&
           has(p, RECORD_HEAD + captured);
}

int td_plain_pcap_next(struct td_plain_pcap *p, struct td_packet *out, struct td_error *err)
{
    const uint8_t *head;

    if (!has_record(p))
        return p->failed ? td_fail(err, TD_EIO, "%s: error reading dump file: %s", p->name, strerror(p->failed)) : 0;
    head = p->room + p->at;
    *out = (struct td_packet){.t_ns = (int64_t)native32(head) * 1000000000 + (int64_t)native32(head + 4) * p->ns_per_unit,
                              .data = head + RECORD_HEAD, .captured = native32(head + 8), .wire = native32(head + 12)};
    p->at += RECORD_HEAD + out->captured;
    return 1;
}

int64_t td_plain_pcap_offset(const struct td_plain_pcap *p)
{
    return p->next - (int64_t)(p->n - p->at);
}

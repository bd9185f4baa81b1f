/* packets.c - libpcap: open, read one packet after another.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/capture/packets.h"

#ifdef TD_HAVE_PCAP

#include <errno.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire/capture/packet.h"
#include "wire/capture/plain_pcap.h"

#define MOST_SECONDS INT64_C(9200000000)
#define MOST_FRACTION INT64_C(4294967295000) /* a fraction is a word of microseconds, which libpcap makes nanoseconds */

enum { SNAP = 262144, KERNEL_ROOM = 64 << 20, FILE_ROOM = 256 << 10, WAIT_MS = 100 };

struct td_packets {
    pcap_t *pcap;
    struct td_plain_pcap *plain;  /* reads instead of libpcap; NULL: not, or not any more */
    int link;
    bool live, nanoseconds;
    char name[200];
};

static int finish_open(struct td_packets *p, struct td_packets **out, struct td_error *err)
{
    const char *link;
    int rc = TD_OK;

    p->link = pcap_datalink(p->pcap);
    p->nanoseconds = pcap_get_tstamp_precision(p->pcap) == PCAP_TSTAMP_PRECISION_NANO;
    if (!td_link_is_known(p->link)) {
        link = pcap_datalink_val_to_name(p->link);
        rc = td_fail(err, TD_EPROTO,
                     "%s: its link layer is %s, which is not read; known are Ethernet, Linux cooked, loopback "
                     "and raw IP (tcpdump -i any gives one of them)",
                     p->name, link ? link : "unknown");
    }
    if (rc)
        td_packets_close(p);
    else
        *out = p;
    return rc;
}

static struct td_packets *new_packets(const char *name, bool live)
{
    struct td_packets *p = calloc(1, sizeof *p);

    if (p) {
        p->live = live;
        snprintf(p->name, sizeof p->name, "%s", name);
    }
    return p;
}

int td_packets_open_file(const char *path, struct td_packets **out, struct td_error *err)
{
    const bool standard = strcmp(path, "-") == 0;
    struct td_packets *p = new_packets(standard ? "standard input" : path, false);
    FILE *file = standard ? stdin : fopen(path, "rbe");
    char why[PCAP_ERRBUF_SIZE] = "";
    int rc = TD_OK;

    if (!p)
        rc = td_fail(err, TD_ENOMEM, "out of memory");
    else if (!file)
        rc = td_fail(err, errno == ENOENT ? TD_ENOTFOUND : TD_EIO, "%s: cannot open: %s", path, strerror(errno));
    if (file && !standard)
        setvbuf(file, NULL, _IOFBF, FILE_ROOM); /* without it libpcap's reads are of 4 KiB each */
    if (!rc)
        p->pcap = pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, why);
    if (!rc && !p->pcap)
        rc = ferror(file) ? td_fail(err, TD_EIO, "%s: %s", p->name, why)
                          : td_fail(err, TD_EPROTO, "%s: %s; --pcap reads what tcpdump -w and dumpcap write", p->name, why);
    if (!rc) {
        p->plain = standard ? NULL : td_plain_pcap_open(fileno(file), p->name);
        return finish_open(p, out, err);
    }
    if (file && !standard)
        fclose(file);
    free(p);
    return rc;
}

/* Why an interface cannot be listened at, with the next step. */
static int fail_live(struct td_packets *p, int status, struct td_error *err)
{
    const char *why = pcap_geterr(p->pcap);

    if (status == PCAP_ERROR_PERM_DENIED || status == PCAP_ERROR_PROMISC_PERM_DENIED)
        return td_fail(err, TD_EIO,
                       "%s: listening there is not permitted. This grants it: setcap cap_net_raw+ep /path/to/record; or run "
                       "tcpdump -i %s -w FILE as root, and give record --pcap FILE",
                       p->name, p->name);
    if (status == PCAP_ERROR_NO_SUCH_DEVICE)
        return td_fail(err, TD_ENOTFOUND, "%s: there is no such interface; \"any\" means all (ip link lists them)", p->name);
    return td_fail(err, TD_EIO, "%s: %s%s%s", p->name, pcap_statustostr(status), *why ? ": " : "", why);
}

/* The interface is open; what that took is not needed any more. */
static void drop_privileges(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2];
    const uint32_t keep = ~(1u << CAP_NET_RAW | 1u << CAP_NET_ADMIN);

    if (syscall(SYS_capget, &head, caps))
        return; /* a kernel without them */
    caps[0].effective &= keep;
    caps[0].permitted &= keep;
    caps[0].inheritable &= keep;
    syscall(SYS_capset, &head, caps);
}

int td_packets_open_live(const char *interface, uint16_t port, struct td_packets **out, struct td_error *err)
{
    struct td_packets *p = new_packets(interface, true);
    struct bpf_program program;
    char why[PCAP_ERRBUF_SIZE] = "", filter[64];
    int status;

    if (!p)
        return td_fail(err, TD_ENOMEM, "out of memory");
    p->pcap = pcap_create(interface, why);
    if (!p->pcap) {
        free(p);
        return td_fail(err, TD_EIO, "%s: %s", interface, why);
    }
    pcap_set_snaplen(p->pcap, SNAP);
    pcap_set_buffer_size(p->pcap, KERNEL_ROOM);
    pcap_set_timeout(p->pcap, WAIT_MS);
    pcap_set_tstamp_precision(p->pcap, PCAP_TSTAMP_PRECISION_NANO);
    status = pcap_activate(p->pcap);
    if (status < 0) {
        status = fail_live(p, status, err);
        td_packets_close(p);
        return status;
    }
    snprintf(filter, sizeof filter, "tcp port %u", port); /* tags of VLANs are seen without their own rule on "any" */
    status = pcap_compile(p->pcap, &program, filter, 1, PCAP_NETMASK_UNKNOWN);
    if (!status) {
        status = pcap_setfilter(p->pcap, &program);
        pcap_freecode(&program);
    }
    if (status) {
        td_fail(err, TD_EIO, "%s: %s", interface, pcap_geterr(p->pcap));
        td_packets_close(p);
        return TD_EIO;
    }
    if (pcap_setnonblock(p->pcap, 1, why)) { /* else a read ends only with a packet, not with a signal */
        td_fail(err, TD_EIO, "%s: %s", interface, why);
        td_packets_close(p);
        return TD_EIO;
    }
    drop_privileges();
    return finish_open(p, out, err);
}

static void wait_for_packets(struct td_packets *p)
{
    struct pollfd fd = {.fd = pcap_get_selectable_fd(p->pcap), .events = POLLIN};

    poll(&fd, 1, WAIT_MS);
}

/* The next packet of a plain file. 0: from here on libpcap reads. */
static int next_plain(struct td_packets *p, struct td_packet *out, struct td_error *err)
{
    const int rc = td_plain_pcap_next(p->plain, out, err);

    if (rc)
        return rc;
    if (fseeko(pcap_file(p->pcap), (off_t)td_plain_pcap_offset(p->plain), SEEK_SET))
        return td_fail(err, TD_EIO, "%s: %s", p->name, strerror(errno));
    td_plain_pcap_close(p->plain);
    p->plain = NULL;
    return 0;
}

/* Nanoseconds since 1970. A file may say any time: one before 1970, or after 2261, becomes the nearest that is counted. */
static int64_t time_of(const struct td_packets *p, const struct timeval *t)
{
    const int64_t s = t->tv_sec < 0 ? 0 : t->tv_sec > MOST_SECONDS ? MOST_SECONDS : t->tv_sec;
    const int64_t fraction = t->tv_usec < 0 ? 0 : t->tv_usec > MOST_FRACTION ? MOST_FRACTION : t->tv_usec;

    return s * 1000000000 + fraction * (p->nanoseconds ? 1 : 1000);
}

int td_packets_next(struct td_packets *p, struct td_packet *out, struct td_error *err)
{
    struct pcap_pkthdr *head;
    const u_char *data;
    int got = p->plain ? next_plain(p, out, err) : 0;

    if (got)
        return got;
    got = pcap_next_ex(p->pcap, &head, &data);
    if (got == 0 && p->live) {
        wait_for_packets(p);
        got = pcap_next_ex(p->pcap, &head, &data);
    }
    if (got == 1) {
        *out = (struct td_packet){.t_ns = time_of(p, &head->ts), .data = data, .captured = head->caplen, .wire = head->len};
        return 1;
    }
    if (got == 0 || got == PCAP_ERROR_BREAK)
        return 0;
    return td_fail(err, p->live || ferror(pcap_file(p->pcap)) ? TD_EIO : TD_EPROTO, "%s: %s", p->name, pcap_geterr(p->pcap));
}

int td_packets_link(const struct td_packets *p)
{
    return p->link;
}

int64_t td_packets_dropped(const struct td_packets *p)
{
    struct pcap_stat s;

    if (!p->live || pcap_stats(p->pcap, &s))
        return 0;
    return (int64_t)s.ps_drop; /* ps_ifdrop is of all ports */
}

void td_packets_close(struct td_packets *p)
{
    if (!p)
        return;
    td_plain_pcap_close(p->plain);
    if (p->pcap)
        pcap_close(p->pcap);
    free(p);
}

#else

static int fail_without(struct td_error *err)
{
    return td_fail(err, TD_EUNSUPPORTED,
                   "this build reads no packets: it was made without libpcap. Install libpcap-dev (make deps), "
                   "and make PCAP=1");
}

int td_packets_open_file(const char *path, struct td_packets **out, struct td_error *err)
{
    (void)path, (void)out;
    return fail_without(err);
}

int td_packets_open_live(const char *interface, uint16_t port, struct td_packets **out, struct td_error *err)
{
    (void)interface, (void)port, (void)out;
    return fail_without(err);
}

int td_packets_next(struct td_packets *p, struct td_packet *out, struct td_error *err)
{
    (void)p, (void)out;
    return fail_without(err);
}

int td_packets_link(const struct td_packets *p)
{
    (void)p;
    return -1;
}

int64_t td_packets_dropped(const struct td_packets *p)
{
    (void)p;
    return 0;
}

void td_packets_close(struct td_packets *p)
{
    (void)p;
}

#endif

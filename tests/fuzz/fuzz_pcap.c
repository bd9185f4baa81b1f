/* fuzz_pcap.c - fuzz the reading of capture files, pcap and pcapng: no crash, it comes to an end, and what is read without
 * libpcap (wire/capture/plain_pcap.c) is what libpcap reads.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz_main.h"
#include "wire/capture/packets.h"

static void check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "fuzz_pcap: %s\n", what);
        abort();
    }
}

/* The same file from its path, and from standard input, which is libpcap's alone. */
static void compare(const char *path)
{
    struct td_packets *file = NULL, *input = NULL;
    struct td_packet a, b;
    struct td_error err = {0};
    int rc, other;

    check(freopen(path, "rb", stdin), "cannot open the input");
    rc = td_packets_open_file(path, &file, &err);
    check(rc == td_packets_open_file("-", &input, &err), "opened one way alone");
    while (!rc) {
        rc = td_packets_next(file, &a, &err);
        other = td_packets_next(input, &b, &err);
        check(rc == other, "one way reads a packet, or fails, where the other does not");
        if (rc != 1)
            break;
        check(a.t_ns == b.t_ns && a.captured == b.captured && a.wire == b.wire, "another time or length");
        check(!memcmp(a.data, b.data, a.captured), "other bytes");
        rc = 0;
    }
    td_packets_close(file);
    td_packets_close(input);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static int fd = -1;
    char path[40];

    if (fd < 0)
        fd = memfd_create("fuzz_pcap", MFD_CLOEXEC);
    check(fd >= 0 && !ftruncate(fd, 0) && pwrite(fd, data, n, 0) == (ssize_t)n, "no room for the input");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    compare(path);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/pcap", 5000)

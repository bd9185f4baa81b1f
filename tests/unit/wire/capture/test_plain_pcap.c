/* test_plain_pcap.c - files that are read without libpcap, against libpcap, which reads standard input.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/capture/packets.h"
#include "wire/capture/plain_pcap.h"

#define MICROSECONDS 0xA1B2C3D4u
#define NANOSECONDS 0xA1B23C4Du
#define SNAP 262144u

static struct { uint8_t *p; size_t n, cap; } file;
static char path[] = "/tmp/test_plain_pcap.XXXXXX";

static void add(const void *bytes, size_t n)
{
    if (file.n + n > file.cap)
        file.p = realloc(file.p, file.cap = (file.n + n) * 2);
    assert_non_null(file.p);
    memcpy(file.p + file.n, bytes, n);
    file.n += n;
}

static void begin(uint32_t magic, uint16_t minor, uint32_t snap)
{
    const uint16_t version[2] = {2, minor};
    const uint32_t rest[4] = {0, 0, snap, 1};

    file.n = 0;
    add(&magic, 4);
    add(version, 4);
    add(rest, 16);
}

static void packet(uint32_t seconds, uint32_t fraction, uint32_t captured, uint32_t wire)
{
    const uint32_t head[4] = {seconds, fraction, captured, wire};
    uint32_t i;

    add(head, sizeof head);
    for (i = 0; i < captured; i++)
        add(&(uint8_t){(uint8_t)(seconds * 7 + i)}, 1);
}

static void save(size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(file.p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Both read the first n bytes alike, to the end and to the failure there. Returns how many packets they are. */
static int compare(size_t n)
{
    struct td_error why[2] = {{0}, {0}};
    struct td_packets *mine = NULL, *theirs = NULL;
    struct td_packet a = {0}, b = {0};
    int rc, count = 0;

    save(n);
    assert_non_null(freopen(path, "rb", stdin));
    rc = td_packets_open_file(path, &mine, &why[0]);
    assert_int_equal(rc, td_packets_open_file("-", &theirs, &why[1]));
    if (rc == TD_EUNSUPPORTED)
        skip(); /* a build without libpcap */
    if (rc)
        return -1;
    for (;; count++) {
        rc = td_packets_next(mine, &a, &why[0]);
        assert_int_equal(rc, td_packets_next(theirs, &b, &why[1]));
        if (rc <= 0)
            break;
        assert_int_equal(a.t_ns, b.t_ns);
        assert_int_equal(a.captured, b.captured);
        assert_int_equal(a.wire, b.wire);
        assert_memory_equal(a.data, b.data, a.captured);
    }
    assert_int_equal(why[0].code, why[1].code);
    if (rc < 0)
        assert_string_equal(strchr(why[0].msg, ':'), strchr(why[1].msg, ':'));
    td_packets_close(mine);
    td_packets_close(theirs);
    return count;
}

static void a_few(void)
{
    packet(1, 5, 60, 60);
    packet(2, 999999999, 0, 60);
    packet(3, 0, 10, 1500);
}

static void test_cut_anywhere(void **state)
{
    size_t n;

    (void)state;
    begin(MICROSECONDS, 4, SNAP);
    a_few();
    for (n = 0; n <= file.n; n++)
        compare(n);
    assert_int_equal(compare(file.n), 3);
    begin(NANOSECONDS, 4, SNAP);
    a_few();
    assert_int_equal(compare(file.n), 3);
}

/* Longer than the buffer, with packets across its end, and one that is nearly as long. */
static void test_long(void **state)
{
    uint32_t i;

    (void)state;
    begin(NANOSECONDS, 4, SNAP);
    for (i = 0; i < 3000; i++)
        packet(i, i, 1 + i * 7 % 701, 2000);
    packet(4000, 0, SNAP, SNAP);
    packet(4001, 0, SNAP - 1, SNAP);
    packet(4002, 0, 60, 60);
    assert_int_equal(compare(file.n), 3003);
    assert_true(compare(file.n - 100) < 3003);
}

/* What is not usual is read as libpcap has it, and so is what follows. */
static void test_unusual(void **state)
{
    (void)state;
    begin(MICROSECONDS, 4, 100);
    a_few();
    packet(4, 4, 200, 300); /* more than the file says */
    a_few();
    assert_int_equal(compare(file.n), 7);
    begin(MICROSECONDS, 4, 0);
    a_few();
    packet(4, 4, 70000, 70000);
    a_few();
    assert_int_equal(compare(file.n), 7);
    begin(MICROSECONDS, 4, SNAP);
    a_few();
    packet(0x80000000u, 4, 20, 30); /* of the year 2038, or before 1970 */
    packet(5, 0xFFFFFFFFu, 20, 30);
    a_few();
    assert_int_equal(compare(file.n), 8);
    begin(MICROSECONDS, 4, SNAP);
    a_few();
    packet(4, 4, SNAP + 1, SNAP + 1); /* too long */
    assert_int_equal(compare(file.n), 3);
    begin(MICROSECONDS, 3, SNAP); /* another order of lengths */
    a_few();
    compare(file.n);
    begin(0xD4C3B2A1u, 4, SNAP); /* another byte order */
    a_few();
    compare(file.n);
}

static void test_which(void **state)
{
    static const uint32_t OTHERS[] = {0xD4C3B2A1u, 0x0A0D0D0Au, 0xA1B2CD34u};
    struct td_plain_pcap *p;
    FILE *f;
    size_t i;

    (void)state;
    for (i = 0; i < 1 + sizeof OTHERS / sizeof *OTHERS; i++) {
        begin(i ? OTHERS[i - 1] : MICROSECONDS, 4, SNAP);
        a_few();
        save(file.n);
        f = fopen(path, "rb");
        assert_non_null(f);
        p = td_plain_pcap_open(fileno(f), path);
        assert_int_equal(p != NULL, i == 0);
        td_plain_pcap_close(p);
        fclose(f);
    }
    f = fopen("/dev/null", "rb");
    assert_non_null(f);
    assert_null(td_plain_pcap_open(fileno(f), path));
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_unusual),
        cmocka_unit_test(test_which),
    };
    const int fd = mkstemp(path);
    int rc;

    if (fd < 0)
        return 1;
    close(fd);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    free(file.p);
    return rc;
}

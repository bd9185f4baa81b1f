/* tar_head.c - the block before each file of a ustar archive.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/tar_head.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* A number in a header field: octal digits, or base 256 where these do not suffice. */
static void put_number(char *field, size_t n, uint64_t v)
{
    size_t i;

    if (v >> (3 * (n - 1))) { /* base 256, big-endian, high bit set */
        for (i = n; i-- > 0; v >>= 8)
            field[i] = (char)(v & 255);
        field[0] = (char)0x80;
        return;
    }
    snprintf(field, n, "%0*llo", (int)n - 1, (unsigned long long)v);
}

/* The number in a header field, or -1. */
static int64_t get_number(const char *f, size_t n)
{
    int64_t v = 0;
    size_t i = 0;

    if ((unsigned char)f[0] == 0x80) {
        for (i = n - 8; i < n; i++)
            v = (int64_t)((uint64_t)v << 8 | (unsigned char)f[i]);
        return v;
    }
    for (; i < n && f[i] >= '0' && f[i] <= '7'; i++)
        v = v << 3 | (f[i] - '0');
    return i && i < n && f[i] && f[i] != ' ' ? -1 : v;
}

/* The sum of a head's bytes; those of the sum itself count as blanks. */
static unsigned sum_of(const char h[TD_TAR_BLOCK])
{
    unsigned sum = 0;
    int i;

    for (i = 0; i < TD_TAR_BLOCK; i++)
        sum += i >= 148 && i < 156 ? ' ' : (unsigned char)h[i];
    return sum;
}

void td_tar_head_write(char h[TD_TAR_BLOCK], const char *name, uint64_t size, int64_t mtime)
{
    memset(h, 0, TD_TAR_BLOCK);
    snprintf(h, 100, "%s", name);
    put_number(h + 100, 8, 0600);
    put_number(h + 108, 8, 0);
    put_number(h + 116, 8, 0);
    put_number(h + 124, 12, size);
    put_number(h + 136, 12, (uint64_t)mtime);
    h[156] = '0';
    memcpy(h + 257, "ustar\00000", 8);
    snprintf(h + 148, 7, "%06o", sum_of(h));
    h[155] = ' ';
}

int td_tar_head_read(const char h[TD_TAR_BLOCK], char name[TD_TAR_NAME], int64_t *size)
{
    int i;

    for (i = 0; i < TD_TAR_BLOCK && !h[i]; i++)
        ;
    if (i == TD_TAR_BLOCK)
        return 0;
    if (memcmp(h + 257, "ustar", 5) || get_number(h + 148, 7) != (int64_t)sum_of(h))
        return -1;
    memcpy(name, h, 100);
    name[100] = '\0';
    *size = get_number(h + 124, 12);
    return h[345] || (h[156] != '0' && h[156]) ? -2 : 1;
}

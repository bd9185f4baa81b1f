/* redact_needles.c - look for many needles at once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/redact_needles.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "format/redact_stars.h"
#include "format/spelling.h"
#include "format/within_number.h"

#define LEAST_CUT 4
#define LONG 128       /* so many characters in common are overwritten, whatever follows: that keeps the time linear */
#define MOST_OTHERS 64 /* characters in a run that is no ASCII */

/* ---- where one may begin ----------------------------------------------------------------------- */

static void note(uint8_t row[32], int b)
{
    row[b / 8] |= (uint8_t)(1 << b % 8);
}

static void note_all(uint8_t row[32], const char *bytes)
{
    for (; *bytes; bytes++)
        note(row, *bytes);
}

/* Behind the byte a stands the character c, or an escape of it. */
static void note_next(uint8_t row[32], int c)
{
    int b;

    note(row, c);
    note(row, toupper(c));
    note_all(row, c == ' ' ? "+\\%&" : "\\%&");
    for (b = 0x80; b < 256 && c == TD_SPELLED_OTHER; b++)
        note(row, b);
}

static void note_pair(uint8_t pair[256][32], int c1, int c2)
{
    int a;

    note_next(pair[c1], c2);
    note_next(pair[toupper(c1)], c2);
    if (c1 == ' ')
        note_next(pair['+'], c2);
    for (a = 0x80; a < 256 && c1 == TD_SPELLED_OTHER; a++)
        memset(pair[a], 0xff, sizeof pair[a]);
}

/* Which bytes begin an escape. */
static void note_escapes(struct td_redact_needles *v)
{
    const char *escape;

    note_all(v->pair[0]['\\'], "uxUX");
    note_all(v->pair[0]['%'], "0123456789abcdefABCDEF");
    note_all(v->pair[0]['&'], "#aglq");
    for (escape = "\\%&"; *escape; escape++)
        memset(v->pair[1][(uint8_t)*escape], 0xff, sizeof v->pair[1][0]);
}

/* Note with which bytes a needle may begin, in whatever spelling: few places of a text have such. */
static void note_beginning(struct td_redact_needles *v, const uint8_t *c, bool bytes)
{
    if (bytes) {
        note(v->pair[0][c[0]], c[1]);
        note(v->pair[1][c[1]], c[2]);
        return;
    }
    note_pair(v->pair[0], c[0], c[1]);
    note_pair(v->pair[1], c[1], c[2]);
    note_next(v->pair[0]['\\'], c[0]);
}

/* ---- the needles ------------------------------------------------------------------------------- */

/* As memcmp(), and a needle stands before those that it begins. */
static int compare(const struct td_redact_needle *a, const uint8_t *c, size_t n)
{
    const int by = memcmp(a->c, c, a->n < n ? a->n : n);

    return by ? by : (a->n > n) - (a->n < n);
}

/* Where in the row the needle stands, or belongs. */
static size_t place_of(const struct td_redact_row *row, const uint8_t *c, size_t n)
{
    size_t lo = 0, hi = row->n;

    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;

        if (compare(&row->needle[mid], c, n) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int insert(struct td_redact_needles *v, struct td_redact_row *row, size_t at, struct td_redact_needle needle, struct td_error *err)
{
    if (v->n >= v->most || needle.n > v->most_bytes - v->n_bytes)
        return td_fail(err, TD_ELIMIT, "redaction: too many secret headers");
    if (td_array_grow(&row->needle, row->n, &row->cap, sizeof *row->needle, SIZE_MAX / sizeof *row->needle))
        return td_fail(err, TD_ENOMEM, "redaction: out of memory");
    memmove(row->needle + at + 1, row->needle + at, (row->n - at) * sizeof *row->needle);
    row->needle[at] = needle;
    row->n++;
    v->n_bytes += needle.n;
    v->any_alone |= needle.alone;
    return TD_OK;
}

int td_redact_needles_add(struct td_redact_needles *v, uint8_t *c, size_t n, enum td_redact_needle_kind kind, struct td_error *err)
{
    const bool bytes = kind == TD_NEEDLE_BYTES;
    struct td_redact_row *row = &(bytes ? v->bytes : v->spelled)[*c];
    const size_t at = place_of(row, c, n);
    int rc;

    if (at < row->n && !compare(&row->needle[at], c, n)) {
        row->needle[at].alone &= kind == TD_NEEDLE_ALONE;
        free(c);
        return TD_OK;
    }
    rc = insert(v, row, at, (struct td_redact_needle){c, n, kind == TD_NEEDLE_ALONE}, err);
    if (rc) {
        free(c);
        return rc;
    }
    if (!v->n++)
        note_escapes(v);
    note_beginning(v, c, bytes);
    return TD_OK;
}

static void release_row(struct td_redact_row *row)
{
    while (row->n)
        free(row->needle[--row->n].c);
    free(row->needle);
}

void td_redact_needles_release(struct td_redact_needles *v)
{
    int c;

    for (c = 0; c < 256; c++) {
        release_row(&v->spelled[c]);
        release_row(&v->bytes[c]);
    }
    memset(v, 0, sizeof *v);
}

/* ---- the search -------------------------------------------------------------------------------- */

/* How needles stand at a place of a text. */
struct stand {
    size_t used;              /* bytes of the longest whole needle; 0: there is none */
    size_t begun;             /* characters in common when the text ended; 0: it did not end there */
    bool begun_alone;         /* all that have begun are digits that stay within a number */
};

/* The needles that have all characters so far in common, [first, first + n) of a row. */
struct left { const struct td_redact_needle *first; size_t n; };

/* How many of those that are left come before the character c, as their k-th. One that ends there comes
 * before all. */
static size_t before(const struct left *left, size_t k, int c)
{
    size_t lo = 0, hi = left->n;

    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;

        if (left->first[mid].n <= k || left->first[mid].c[k] < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Keep those whose k-th character is c. False: there is none. */
static bool narrow(struct left *left, size_t k, int c)
{
    const struct td_redact_needle *last = left->first + left->n - 1;

    if (left->first->c[k] == c && last->c[k] == c) /* all of them, as nearly always where many are alike */
        return true;
    const size_t from = before(left, k, c), to = before(left, k, c + 1);

    *left = (struct left){left->first + from, to - from};
    return left->n;
}

/* No needle goes on like the text behind k characters, `used` bytes. */
static struct stand no_more(struct stand best, size_t k, size_t used)
{
    if (k >= LONG && used > best.used)
        best.used = used;
    return best;
}

/* The needle that ends with its k-th character: the first one. NULL: there is none. */
static const struct td_redact_needle *take_whole(struct left *left, size_t k)
{
    if (left->first->n != k + 1)
        return NULL;
    left->n--;
    return left->first++;
}

/* The text ended behind k characters. */
static struct stand ended(struct stand best, const struct left *left, size_t k)
{
    size_t i;

    best.begun = k ? k : 1;
    best.begun_alone = left->n > 0;
    for (i = 0; best.begun_alone && i < left->n; i++)
        best.begun_alone = left->first[i].alone;
    return best;
}

static struct stand stand_of_bytes(const struct td_redact_needles *v, const char *s, size_t n)
{
    const struct td_redact_row *row = &v->bytes[(uint8_t)*s];
    struct left left = {row->needle, row->n};
    struct stand best = {0};
    size_t k;

    for (k = 0; left.n && k < n; k++) {
        if (k && !narrow(&left, k, (uint8_t)s[k]))
            return no_more(best, k, k);
        if (take_whole(&left, k))
            best.used = k + 1;
    }
    best.begun = left.n ? k : 0;
    return best;
}

/* Read a run of characters that are no ASCII, or one that is. */
static int read_run(const char *s, size_t n, size_t *at, bool more)
{
    int c = td_spelled(s, n, at, more), next = c, k;
    size_t i = *at;

    for (k = 1; next == TD_SPELLED_OTHER && k < MOST_OTHERS; k++) {
        next = td_spelled(s, n, &i, more);
        if (next == TD_SPELLED_OPEN)
            return next;
        if (next == TD_SPELLED_OTHER)
            *at = i;
    }
    return c;
}

/* Where digits in n bytes of s that are a needle belong to a number, they are none. */
static enum td_within_number is_number(const struct td_redact_needle *needle, const char *s, size_t n, size_t place, size_t used, bool more)
{
    return needle->alone && used == needle->n ? td_within_number(s, n, place, used, more) : TD_WITHIN_NONE;
}

static struct stand stand_of_text(const struct td_redact_needles *v, const char *text, size_t n_text, size_t place, bool more)
{
    const char *s = text + place;
    const size_t n = n_text - place;
    const struct td_redact_needle *whole;
    enum td_within_number number;
    struct left left = {0};
    struct stand best = {0};
    size_t k, at = 0, from;
    int c;

    for (k = 0;; k++) {
        from = at;
        c = td_spelled(s, n, &at, more);
        if (c == TD_SPELLED_OPEN || (k && c == TD_SPELLED_NOTHING && at == n))
            return ended(best, &left, k);
        if (c < 0)
            return no_more(best, k, from);
        if (!k)
            left = (struct left){v->spelled[c].needle, v->spelled[c].n};
        if (k ? !narrow(&left, k, c) : !left.n)
            return no_more(best, k, from);
        at = c == TD_SPELLED_OTHER ? from : at;
        if (c == TD_SPELLED_OTHER && read_run(s, n, &at, more) == TD_SPELLED_OPEN)
            return ended(best, &left, k);
        whole = take_whole(&left, k);
        number = whole ? is_number(whole, text, n_text, place, at, more) : TD_WITHIN_NUMBER;
        if (number == TD_WITHIN_OPEN)
            return ended(best, &(struct left){whole, 1}, k + 1);
        if (number == TD_WITHIN_NONE)
            best.used = at;
        if (!left.n)
            return best;
    }
}

/* How the needles stand in n bytes of s at a place. more : s may go on */
static struct stand stand_here(const struct td_redact_needles *v, const char *s, size_t n, size_t place, bool more)
{
    const struct stand bytes = stand_of_bytes(v, s + place, n - place), text = stand_of_text(v, s, n, place, more);

    return (struct stand){bytes.used > text.used ? bytes.used : text.used, bytes.begun > text.begun ? bytes.begun : text.begun,
                          text.begun_alone && !bytes.begun};
}

static bool is_pair(const uint8_t pair[256][32], const uint8_t *p)
{
    return pair[p[0]][p[1] / 8] >> p[1] % 8 & 1;
}

/* "\u4f60" and the like are no ASCII. */
static bool is_wide(const uint8_t *p)
{
    return p[0] == '\\' && p[1] == 'u' && (p[2] != '0' || p[3] != '0');
}

/* The next place where a needle may begin: the first bytes say no nearly always. */
static size_t next_place(const struct td_redact_needles *v, const char *s, size_t n, size_t at)
{
    const uint8_t *begin = (const uint8_t *)s, *p = begin + at, *end = begin + n;

    for (; end - p > 1; p++) {
        if (!is_pair(v->pair[0], p))
            continue;
        if (*p == '\\' ? p > begin && p[-1] == '\\' : end - p > 2 && !memchr("%&", *p, 2) && !is_pair(v->pair[1], p + 1))
            continue;
        if (end - p < 6 || !is_wide(p) || v->spelled[TD_SPELLED_OTHER].n)
            break;
    }
    return (size_t)(p - begin);
}

int64_t td_redact_needles_hide(const struct td_redact_needles *v, char *s, size_t n, bool cut, size_t *decided)
{
    int64_t changed = 0;
    size_t at;

    for (at = v->n && n ? next_place(v, s, n, 0) : n; at < n; at = at < n ? next_place(v, s, n, at) : n) {
        struct stand here = stand_here(v, s, n, at, cut || decided);

        if (here.begun && decided)
            break;
        if (cut && here.begun >= LEAST_CUT && !(here.begun_alone && td_within_number_by_left(s, at)))
            here.used = n - at;
        changed += td_redact_stars(s + at, here.used);
        at += here.used ? here.used : 1;
    }
    if (decided) /* what comes is judged by what stands before it */
        *decided = at - (v->any_alone ? td_within_number_before(s, at) : 0);
    return changed;
}

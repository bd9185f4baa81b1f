/* fuzz_main.h - main() of every fuzzer here, for builds without libFuzzer: run the fuzzer's corpus,
 * every prefix of each file, and a bounded number of mutations.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The mutations come from a fixed seed, so a failure repeats; FUZZ_RUNS and FUZZ_SEED choose
 * others. With -DTD_LIBFUZZER (clang -fsanitize=fuzzer) there is no main. `make check ONLY=fuzz`
 * runs all. */
#ifndef TD_TESTS_FUZZ_FUZZ_MAIN_H
#define TD_TESTS_FUZZ_FUZZ_MAIN_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#ifndef TD_LIBFUZZER

#define TD_FUZZ_MAX_FILES 256
#define TD_FUZZ_MAX_BYTES 65536

struct td_fuzz_corpus { uint8_t *data[TD_FUZZ_MAX_FILES]; size_t len[TD_FUZZ_MAX_FILES]; int n; };

static void td_fuzz_load(struct td_fuzz_corpus *c, const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    char path[4096];

    while (d && (e = readdir(d)) && c->n < TD_FUZZ_MAX_FILES) {
        FILE *f;

        if (e->d_name[0] == '.' || snprintf(path, sizeof path, "%s/%s", dir, e->d_name) >= (int)sizeof path ||
            !(f = fopen(path, "rb")))
            continue;
        c->data[c->n] = malloc(TD_FUZZ_MAX_BYTES);
        c->len[c->n] = c->data[c->n] ? fread(c->data[c->n], 1, TD_FUZZ_MAX_BYTES, f) : 0;
        c->n++;
        fclose(f);
    }
    if (d)
        closedir(d);
}

static uint64_t td_fuzz_next(uint64_t *s) /* xorshift64* */
{
    *s ^= *s >> 12, *s ^= *s << 25, *s ^= *s >> 27;
    return *s * 2685821657736338717ULL;
}

/* One to eight small changes: flip, set, remove, repeat, splice. */
static size_t td_fuzz_mutate(uint8_t *b, size_t n, const struct td_fuzz_corpus *c, uint64_t *s)
{
    static const char *const words[] = {"\r\n", "\n\n", "data: ", "null", "NaN", "[DONE]", "0", "-1", "\xff", "{", "]", "\"", "error: ",
                                        "99999999999999999999", "\\u0000", "1e999"};
    int k = 1 + (int)(td_fuzz_next(s) % 8);

    while (k-- && n) {
        size_t at = td_fuzz_next(s) % n, len = td_fuzz_next(s) % 32, from;
        int who = (int)(td_fuzz_next(s) % (uint64_t)c->n);
        const char *w = words[td_fuzz_next(s) % 16];

        len = len < n - at ? len : n - at;
        switch (td_fuzz_next(s) % 6) {
        case 0: b[at] ^= (uint8_t)(1u << td_fuzz_next(s) % 8); break;
        case 1: b[at] = (uint8_t)td_fuzz_next(s); break;
        case 2: memmove(b + at, b + at + len, n - at - len); n -= len; break;
        case 3: if (n + len <= TD_FUZZ_MAX_BYTES) { memmove(b + at + len, b + at, n - at); n += len; } break;
        case 4: memcpy(b + at, w, strlen(w) < n - at ? strlen(w) : n - at); break;
        default:
            from = c->len[who] ? td_fuzz_next(s) % c->len[who] : 0;
            len = len < c->len[who] - from ? len : c->len[who] - from;
            memcpy(b + at, c->data[who] + from, len);
        }
    }
    return n;
}

/* An exact copy on the heap, so that a sanitizer sees a read past the end. */
static void td_fuzz_one(const uint8_t *b, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);

    if (!copy)
        exit(2);
    memcpy(copy, b, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static int td_fuzz_main(const char *dir, long runs)
{
    static struct td_fuzz_corpus c;
    static uint8_t b[TD_FUZZ_MAX_BYTES];
    uint64_t seed = getenv("FUZZ_SEED") ? strtoull(getenv("FUZZ_SEED"), NULL, 0) | 1 : 88172645463325252ULL;
    long i, done = 0;
    size_t cut;
    int f;

    td_fuzz_load(&c, dir);
    if (!c.n) {
        printf("no corpus in %s; run from the root of the tree\n", dir);
        return 1;
    }
    if (getenv("FUZZ_RUNS"))
        runs = atol(getenv("FUZZ_RUNS"));
    for (f = 0; f < c.n; f++)
        for (cut = 0; cut <= c.len[f]; cut += c.len[f] > 2000 ? 7 : 1, done++)
            td_fuzz_one(c.data[f], cut);
    for (i = 0; i < runs; i++, done++) {
        f = (int)(td_fuzz_next(&seed) % (uint64_t)c.n);
        memcpy(b, c.data[f], c.len[f]);
        td_fuzz_one(b, td_fuzz_mutate(b, c.len[f], &c, &seed));
    }
    printf("%d files, %ld inputs\n", c.n, done);
    for (f = 0; f < c.n; f++)
        free(c.data[f]);
    return 0;
}
#define TD_FUZZ_MAIN(dir, runs) \
    int main(void) \
    { \
        return td_fuzz_main(dir, runs); \
    }
#else
#define TD_FUZZ_MAIN(dir, runs)
#endif

#endif

/* check.c - compare what a tool recovered with what traffic.c wrote, by lengths and 128-bit hashes.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   check fixture|flows|objects PATH TRUTH
 *
 * fixture : of record: request and answer as on the wire, the text, the count of events; "claimed" are those without an
 *           error
 * flows   : the folder of tcpflow, with a file for each direction: answers as on the wire
 * objects : the folder of tshark's --export-objects: bodies of answers without chunks
 *
 * Prints: exchanges in the capture, those of which no byte was lost ("intact"), recovered byte for byte, recovered of the
 * intact ones, claimed to be whole, and claimed though they are not what was sent ("wrong"). */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "format/fixture.h"

struct part { long long n; struct td_hash hash; };
struct exchange { char client[32]; struct part request, answer, body, text; int events, intact; bool recovered; };

static struct exchange *all;
static size_t n_all;
static long long claimed = -1, wrong = -1;

static void die(const char *what, const char *path)
{
    fprintf(stderr, "check: %s: %s\n", path, what);
    exit(1);
}

static void *or_die(void *p)
{
    if (!p)
        die("out of memory", "here");
    return p;
}

static bool same(const struct part *a, const struct part *b)
{
    return a->n == b->n && td_hash_eq(a->hash, b->hash);
}

static struct part part_of(const void *data, size_t n)
{
    return (struct part){(long long)n, td_hash_bytes(data, n)};
}

static void read_truth(const char *path)
{
    FILE *f = fopen(path, "r");
    char hex[4][40];
    struct exchange x;

    if (!f)
        die("cannot open", path);
    while (memset(&x, 0, sizeof x), fscanf(f, "%31s %lld %39s %lld %39s %lld %39s %lld %39s %d %d", x.client, &x.request.n, hex[0], &x.answer.n, hex[1],
                                           &x.body.n, hex[2], &x.text.n, hex[3], &x.events, &x.intact) == 11) {
        td_hash_parse(hex[0], &x.request.hash);
        td_hash_parse(hex[1], &x.answer.hash);
        td_hash_parse(hex[2], &x.body.hash);
        td_hash_parse(hex[3], &x.text.hash);
        all = or_die(realloc(all, (n_all + 1) * sizeof *all));
        all[n_all++] = x;
    }
    fclose(f);
}

/* ---- record ---------------------------------------------------------------------------------- */

struct sums { struct td_hash_pieces *pieces[2]; struct part part[2]; };

static void read_wire(struct td_fixture *fx, struct sums **out, size_t *n)
{
    struct td_error err = {0};
    struct td_cursor *c;
    struct td_wire w;
    size_t i;

    if (td_cursor_open(fx, TD_STREAM_WIRE, &c, &err))
        die(err.msg, "wire");
    while (td_cursor_wire(c, &w, &err) > 0) {
        if (w.stream >= *n) {
            *out = or_die(realloc(*out, (w.stream + 1) * sizeof **out));
            memset(*out + *n, 0, (w.stream + 1 - *n) * sizeof **out);
            *n = w.stream + 1;
        }
        if (w.dir == TD_WIRE_NOTE)
            continue;
        td_hash_pieces_add(&(*out)[w.stream].pieces[w.dir], w.data, w.len);
        (*out)[w.stream].part[w.dir].n += (long long)w.len;
    }
    td_cursor_close(c);
    for (i = 0; i < 2 * *n; i++)
        (*out)[i / 2].part[i % 2].hash = td_hash_pieces_end(&(*out)[i / 2].pieces[i % 2]);
}

static bool is_exchange(const struct td_exchange *x, const struct sums *s, struct exchange *truth)
{
    const struct part text = part_of(x->text ? x->text : "", x->text_len);

    return same(&s->part[TD_WIRE_SENT], &truth->request) && same(&s->part[TD_WIRE_RECEIVED], &truth->answer) && same(&text, &truth->text) &&
           x->n_events == truth->events;
}

static void check_fixture(const char *dir)
{
    struct td_error err = {0};
    struct td_fixture *fx;
    struct td_exchange *x;
    struct sums *s = NULL;
    size_t n = 0, n_x, bad, i, k;
    bool found;

    if (td_fixture_open(dir, &fx, &err) || td_fixture_exchanges(fx, &x, &n_x, &bad, &err))
        die(err.msg, dir);
    read_wire(fx, &s, &n);
    claimed = wrong = 0;
    for (i = 0; i < n_x; i++) {
        for (k = 0, found = false; k < n_all && !found && x[i].stream < n; k++)
            found = !x[i].error && is_exchange(&x[i], &s[x[i].stream], &all[k]) && (all[k].recovered = true);
        claimed += !x[i].error;
        wrong += !x[i].error && !found;
    }
    td_exchanges_free(x, n_x);
    td_fixture_close(fx);
    free(s);
}

/* ---- files of others ------------------------------------------------------------------------- */

/* The bytes of a file; NULL: there is none. The caller frees. */
static uint8_t *read_file(const char *dir, const char *name, size_t *n)
{
    char path[600];
    uint8_t *data;
    FILE *f;
    long len;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) || (len = ftell(f)) < 0 || fseek(f, 0, SEEK_SET)) {
        if (f)
            fclose(f);
        return NULL;
    }
    data = or_die(malloc((size_t)len + 1));
    *n = fread(data, 1, (size_t)len, f);
    fclose(f);
    return data;
}

/* Of tcpflow: answers lie in the file of their connection, one behind the other. */
static void check_flows(const char *dir)
{
    unsigned a, b, c, d, port;
    char name[100];
    uint8_t *data;
    size_t i, k, n = 0, at;

    for (i = 0; i < n_all; i++) {
        for (k = 0; k < i && strcmp(all[k].client, all[i].client); k++)
            ;
        if (k < i || sscanf(all[i].client, "%u.%u.%u.%u:%u", &a, &b, &c, &d, &port) != 5)
            continue; /* the file was read */
        snprintf(name, sizeof name, "010.000.000.001.08000-%03u.%03u.%03u.%03u.%05u", a, b, c, d, port);
        data = read_file(dir, name, &n);
        for (at = 0; data && k < n_all; k++)
            if (!strcmp(all[k].client, all[i].client)) {
                const struct part p = at + (size_t)all[k].answer.n <= n ? part_of(data + at, (size_t)all[k].answer.n) : (struct part){0};

                all[k].recovered = same(&p, &all[k].answer);
                at += (size_t)all[k].answer.n;
            }
        free(data);
    }
}

static void check_objects(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    uint8_t *data;
    size_t n, i;

    if (!d)
        die("cannot open", dir);
    while ((e = readdir(d))) {
        data = *e->d_name == '.' ? NULL : read_file(dir, e->d_name, &n);
        if (data) {
            const struct part p = part_of(data, n);

            for (i = 0; i < n_all; i++)
                all[i].recovered |= same(&p, &all[i].body);
        }
        free(data);
    }
    closedir(d);
}

int main(int argc, char **argv)
{
    size_t i, intact = 0, recovered = 0, of_intact = 0;

    if (argc != 4)
        die("usage: check fixture|flows|objects PATH TRUTH", "arguments");
    read_truth(argv[3]);
    if (!strcmp(argv[1], "fixture"))
        check_fixture(argv[2]);
    else if (!strcmp(argv[1], "flows"))
        check_flows(argv[2]);
    else
        check_objects(argv[2]);
    for (i = 0; i < n_all; i++) {
        intact += all[i].intact == 1;
        recovered += all[i].recovered;
        of_intact += all[i].recovered && all[i].intact;
    }
    printf("%zu %zu %zu %zu %lld %lld\n", n_all, intact, recovered, of_intact, claimed, wrong);
    free(all);
    return 0;
}

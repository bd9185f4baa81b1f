/* server_ids.c - exchanges by the ids that the server itself gave them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/server_ids.h"

#include <stdlib.h>
#include <string.h>

#define MOST_IDS ((size_t)1 << 18)    /* of rows, and of answers */
#define LONGEST_ID ((size_t)256)
#define FIRST_IDS 64
#define SLACK_NS 5000000              /* between the clocks of packets and of taps, which are compared to some µs */
#define FIRST_NOTED (-2)              /* stands for entry 0, -3 for entry 1 ... */

struct key { const char *text; size_t len; };

/* FNV-1a. A server that makes up ids of one hash slows its own recording down, and nothing else. */
static uint64_t hash_of(const struct key *k)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < k->len; i++)
        h = (h ^ (unsigned char)k->text[i]) * 0x100000001b3u;
    return h;
}

static bool is_id(const void *list, uint32_t entry, const void *key)
{
    const struct client_id *x = &((const struct client_id_list *)list)->x[entry];
    const struct key *k = key;

    return strncmp(x->text, k->text, k->len) == 0 && !x->text[k->len];
}

static uint32_t find(const struct client_id_list *l, const struct key *k)
{
    return client_index_find(&l->index, hash_of(k), is_id, l, k);
}

static bool make_room(struct client_id_list *l)
{
    const size_t cap = l->cap ? 2 * l->cap : FIRST_IDS;
    struct client_id *more;

    if (l->n < l->cap)
        return true;
    more = l->n < MOST_IDS ? realloc(l->x, cap * sizeof *more) : NULL;
    if (!more)
        return false;
    l->x = more;
    l->cap = cap;
    return true;
}

/* The entry of this id, which is added where it is not there. CLIENT_INDEX_NONE: no room. */
static uint32_t find_or_add(struct client_id_list *l, const char *text, bool *was_there)
{
    const struct key k = {text, strlen(text)};
    uint32_t at = find(l, &k);
    char *copy;

    *was_there = at != CLIENT_INDEX_NONE;
    if (*was_there || !k.len || k.len > LONGEST_ID || !make_room(l))
        return at;
    copy = strdup(text);
    at = (uint32_t)l->n;
    if (!copy || !client_index_add(&l->index, hash_of(&k), at)) {
        free(copy);
        return CLIENT_INDEX_NONE;
    }
    l->x[l->n++] = (struct client_id){.text = copy, .stream = -1};
    return at;
}

int64_t client_server_ids_note(struct client_server_ids *all, const char *row)
{
    bool was_there;
    const uint32_t at = find_or_add(&all->rows, row, &was_there);

    all->rows_forgotten += at == CLIENT_INDEX_NONE && *row;
    return at == CLIENT_INDEX_NONE ? -1 : FIRST_NOTED - (int64_t)at;
}

bool client_server_ids_add(struct client_server_ids *all, const char *answer, int64_t stream, int64_t from_ns, int64_t to_ns)
{
    bool was_there;
    const uint32_t at = find_or_add(&all->answers, answer, &was_there);
    struct client_id *id = at == CLIENT_INDEX_NONE ? NULL : &all->answers.x[at];

    if (!id)
        return false;
    id->stream = was_there ? -1 : stream;
    id->from_ns = from_ns;
    id->to_ns = to_ns;
    return true;
}

/* Its exchange, if a step at t_ns can have been for it. */
static int64_t stream_at(const struct client_id *answer, int64_t t_ns)
{
    return t_ns >= answer->from_ns - SLACK_NS && t_ns <= answer->to_ns + SLACK_NS ? answer->stream : -1;
}

/* The longest first part that is an answer's id counts: one id may begin as another does. */
int64_t client_server_ids_stream(const struct client_server_ids *all, int64_t noted, int64_t t_ns)
{
    const uint64_t row = (uint64_t)(FIRST_NOTED - noted);
    struct key k;

    if (noted > FIRST_NOTED || row >= all->rows.n)
        return -1;
    k = (struct key){all->rows.x[row].text, strlen(all->rows.x[row].text)};
    for (; k.len; k.len--) {
        const char behind = k.text[k.len];
        const uint32_t at = !behind || behind == '-' || behind == '_' ? find(&all->answers, &k) : CLIENT_INDEX_NONE;

        if (at != CLIENT_INDEX_NONE)
            return stream_at(&all->answers.x[at], t_ns);
    }
    return -1;
}

static void release(struct client_id_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->x[i].text);
    free(l->x);
    client_index_release(&l->index);
    *l = (struct client_id_list){0};
}

void client_server_ids_release(struct client_server_ids *all)
{
    release(&all->rows);
    release(&all->answers);
}
